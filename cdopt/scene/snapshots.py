"""Scenes from the results of other codes: arrays of spheres, and files of LAMMPS.

LAMMPS writes snapshots as text: dump files (``dump custom``), of one moment or many, and data files
(``write_data``) of atom style sphere. Lengths, masses and times are taken as m, kg and s.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from cdopt._util import checks, files
from cdopt._util.checks import FloatArray
from cdopt._util.errors import InvalidInput, Unsupported
from cdopt.scene.bodies import Body, Spheres
from cdopt.scene.generators import walls_at
from cdopt.scene.scene import Scene, deepest, overlapping

DUMPS = (".dump", ".lammpstrj")  # ends of names of dump files
SNAPSHOTS = (*DUMPS, ".data", ".lmp")  # and of data files
DENSITY = 2500.0  # kg/m³, of glass
_EXPECTED = "a dump file or a data file of LAMMPS"


def from_positions(
    x: FloatArray,
    radius: FloatArray,
    *,
    walls: Any = None,
    box: Any = None,
    velocities: FloatArray | None = None,
    angular_velocities: FloatArray | None = None,
    mass: FloatArray | None = None,
    density: FloatArray | None = None,
    material: str = "",
    overlaps: str = "touching",
    **options: Any,
) -> Scene:
    """A scene of spheres, or of discs in the plane, where another code left them.

    Bodies are the walls, then the spheres in their order.

    Parameters
    ----------
    x : (n, 2) or (n, 3) centres, m. radius : one number or (n,), m.
    walls : (2, dim) places of the lower and upper walls along each axis, m, not a number where
        there is none; or None for none.
    box : (dim,) lengths of a periodic box, infinite or None along axes that do not repeat, m, or a
        ``PeriodicBox``; None for none.
    velocities : (n, dim) m/s; default at rest.
    angular_velocities : (n,) in the plane or (n, 3), rad/s.
    mass, density : one number or (n,), kg or kg/m³; default a density of 2500 kg/m³.
    material : name of one of the ``materials`` for spheres and walls.
    overlaps : as in ``Scene``; the default suits snapshots, whose elastic contacts are compressed.
    options : others of ``Scene``, such as gravity, materials and power.

    Raises
    ------
    InvalidInput : arrays that do not fit together, an option that ``Scene`` does not take, or
        spheres that count as touching and overlap by more than the smaller radius.

    >>> import cdopt
    >>> cdopt.scene.from_positions([[0, 0.5], [0.99, 0.5]], 0.5, walls=[[-0.5, 0], [None, None]])
    Scene(4 bodies in 2D, 2 free, power 2)
    """
    centres = checks.real("x", x, "an array of shape (n, 2) or (n, 3)", (None, None))
    centres = checks.table("x", centres, len(centres))
    dim = centres.shape[1]
    if mass is None and density is None:
        density = np.asarray(DENSITY)
    spheres = Spheres(
        centres=centres,
        radius=_one_or_each("radius", radius),
        velocities=velocities,
        angular_velocities=angular_velocities,
        mass=_one_or_each("mass", mass),
        density=_one_or_each("density", density),
        material=material,
    )
    checks.text("material", material)
    unknown = set(options) - {*Scene.__init__.__annotations__} - {"bodies", "dim"}
    if unknown:
        raise InvalidInput(", ".join(sorted(unknown)), "no such option", "an option of Scene")
    upright = [] if walls is None else _walls(walls, centres, material)
    scene = Scene([*upright, spheres], dim=dim, box=box, overlaps=overlaps, **options)
    if overlaps == "touching":
        _require_shallow(scene)
    return scene


def _require_shallow(scene: Scene) -> None:
    """Refuse overlaps deeper than the radius of the smaller sphere, which no contact has."""
    overlaps = scene.start_overlaps
    deep = overlaps.select(overlapping(scene.bodies, overlaps.bodies, overlaps.phi, 1.0))
    if deep.phi.size:
        (i, j), depth = deepest(deep.bodies, deep.phi)
        bodies = f"{scene.bodies.label(i)} and {scene.bodies.label(j)}"
        raise InvalidInput(
            "x",
            f"{bodies} {depth:.6g} m inside each other",
            "for overlaps='touching' less than the smaller radius; 'resolve' pushes them apart",
        )


def from_lammps(
    path: str | Path,
    *,
    frame: int = -1,
    dim: int | None = None,
    walls: Any = True,
    box: Any = True,
    radius: FloatArray | None = None,
    mass: FloatArray | None = None,
    density: FloatArray | None = None,
    **options: Any,
) -> Scene:
    """The spheres in a dump file or data file of LAMMPS, by ascending id.

    A dump needs the columns x, y, z (or xu, yu, zu; xs, ys, zs) and radius or diameter; it may
    have id, vx, vy, vz, omegax, omegay, omegaz, mass and density. A data file has the atom style
    sphere. Neither states forces or the contact law: ``materials`` and ``power`` give the
    stiffness.

    Parameters
    ----------
    path : the file; names of dumps end in .dump or .lammpstrj, those of data files in .data or
        .lmp. Of other names the content decides.
    frame : which snapshot of a dump, by its number; negative numbers count from the end.
    dim : 2 or 3; default 2 where all z are 0 within the bounds.
    walls : as in ``from_positions``. True for walls at the fixed bounds (f) of a dump, and at all
        bounds of a data file, which does not state which are fixed.
    box : True for the periodic bounds (p) of a dump; else as in ``from_positions``.
    radius, mass, density : as in ``from_positions``, override the file.
    options : others of ``from_positions``.

    Raises
    ------
    InvalidInput : no such file, or no such snapshot; a line that cannot be read is named.
    Unsupported : a sheared (triclinic) box.
    """
    text = files.read_text(checks.path("path", path), _EXPECTED)
    snapshot = _read(text, str(path), checks.whole("frame", frame))
    dim = (2 if snapshot.flat else 3) if dim is None else checks.dimension("dim", dim)
    columns = snapshot.columns
    if mass is not None or density is not None:
        columns = {name: columns[name] for name in columns if name not in ("mass", "density")}
    elif "mass" in columns:
        columns.pop("density", None)
    given = {"radius": radius, "mass": mass, "density": density}
    stated: dict[str, Any] = {
        key: columns.get(key) if value is None else value for key, value in given.items()
    }
    if stated["radius"] is None:
        found = f"columns {', '.join(columns) or 'of nothing'}"
        raise InvalidInput("radius", found, "radius or diameter in the file, or radius=")
    turning = snapshot.table(("wx", "wy", "wz"), 3)
    if turning is not None and dim == 2:
        turning = turning[:, 2]
    return from_positions(
        snapshot.positions(dim),
        stated.pop("radius"),
        walls=snapshot.walls(dim) if walls is True else None if walls is False else walls,
        box=snapshot.box(dim) if box is True else None if box is False else box,
        velocities=snapshot.table(("vx", "vy", "vz"), dim),
        angular_velocities=turning,
        **stated,
        **{"name": Path(path).stem, "title": snapshot.title, **options},
    )


@dataclass(frozen=True)
class _Snapshot:
    """Columns by name, (n,) each; bounds (3, 2), m; boundary flags."""

    columns: dict[str, FloatArray]
    bounds: FloatArray
    flags: Sequence[str]
    title: str

    def table(self, names: Sequence[str], dim: int) -> FloatArray | None:
        """(n, dim) of these columns; None where one is missing."""
        if not all(name in self.columns for name in names[:dim]):
            return None
        return np.column_stack([self.columns[name] for name in names[:dim]])

    def positions(self, dim: int) -> FloatArray:
        """(n, dim) centres, m: as they are, unwrapped or scaled by the bounds."""
        lower, upper = self.bounds[:dim].T
        for end in ("", "u", "s", "su"):
            x = self.table([axis + end for axis in "xyz"], dim)
            if x is not None:
                return lower + x * (upper - lower) if end.startswith("s") else x
        found = f"columns {', '.join(self.columns)}"
        raise InvalidInput("path", found, "columns x, y, z of positions")

    def walls(self, dim: int) -> FloatArray | None:
        fixed = np.array([[side == "f" for side in flag] for flag in self.flags[:dim]])
        return np.where(fixed, self.bounds[:dim], np.nan).T if fixed.any() else None

    def box(self, dim: int) -> FloatArray | None:
        """(dim,) lengths of the axes that repeat; infinite for others."""
        repeats = np.array([flag == "pp" for flag in self.flags[:dim]])
        sides = self.bounds[:dim, 1] - self.bounds[:dim, 0]
        return np.where(repeats, sides, np.inf) if repeats.any() else None

    @property
    def flat(self) -> bool:
        """Whether all z are 0, as in LAMMPS in the plane."""
        z = next((self.columns[n] for n in ("z", "zu") if n in self.columns), None)
        return z is None or not z.any()


def _sorted(columns: dict[str, FloatArray]) -> dict[str, FloatArray]:
    """The columns by ascending id, and the radius where they have the diameter."""
    if "id" in columns:
        order = np.argsort(columns["id"], kind="stable")
        columns = {name: values[order] for name, values in columns.items()}
    if "diameter" in columns:
        columns.setdefault("radius", 0.5 * columns["diameter"])
    return columns


@dataclass(frozen=True)
class _Text:
    """The lines of a file, which faults name."""

    lines: list[str]
    source: str

    def fault(self, line: int, expected: str) -> InvalidInput:
        """An error of a line, from 0, that is not what was expected."""
        if line >= len(self.lines):
            return InvalidInput(self.source, "its end", expected)
        found = repr(self.lines[line].strip()[:60])
        return InvalidInput(f"{self.source}, line {line + 1}", found, expected)

    def count(self, line: int, word: str) -> int:
        """The number of atoms that a word of a line states; each has a line."""
        if not word.isdecimal() or not 0 < int(word[:19]) <= len(self.lines):
            raise self.fault(line, "the number of atoms, of which each has a line")
        return int(word)

    def numbers(self, start: int, count: int, columns: Sequence[int]) -> FloatArray:
        """These columns of finite numbers in ``count`` lines from ``start``."""
        rows = []
        for k in range(start, start + count):
            words = self.lines[k].partition("#")[0].split() if k < len(self.lines) else []
            try:
                rows.append([float(words[j]) for j in columns])
            except (ValueError, IndexError) as error:
                raise self.fault(k, f"columns of numbers in {count:,} lines") from error
            if not all(map(math.isfinite, rows[-1])):
                raise self.fault(k, "finite numbers")
        return np.array(rows)


def _read(text: str, source: str, frame: int) -> _Snapshot:
    """The snapshot in a text; every fault names the file, and the line where it can."""
    is_dump = Path(source).suffix in DUMPS or text.startswith("ITEM:")
    lines = _Text(text.splitlines(), source)
    return _dump(lines, frame) if is_dump else _data(lines)


def _dump(text: _Text, frame: int) -> _Snapshot:
    lines = text.lines
    starts = [k for k, line in enumerate(lines) if line.startswith("ITEM: TIMESTEP")]
    if not -len(starts) <= frame < len(starts):
        expected = f"a number from {-len(starts)} to {len(starts) - 1}" if starts else _EXPECTED
        raise InvalidInput("frame", str(frame), expected)
    begin = starts[frame]
    end = min((k for k in starts if k > begin), default=len(lines))
    snapshot = _Text(lines[:end], text.source)

    def item(name: str) -> tuple[int, list[str]]:
        """The line after that of an ITEM, and the words behind its name."""
        for k in range(begin, end):
            if lines[k].startswith(f"ITEM: {name}"):
                return k + 1, lines[k][6 + len(name) :].split()
        raise snapshot.fault(end, f"ITEM: {name}")

    place, _ = item("NUMBER OF ATOMS")
    count = snapshot.count(place, lines[place].strip() if place < end else "")
    first, flags = item("BOX BOUNDS")
    if flags[:1] == ["xy"] or "origin" in flags or "abc" in flags:
        raise Unsupported("a sheared box", "the dump states one (triclinic)")
    flags = (flags or ["ff"] * 3)[:3]
    if len(flags) < 3 or not all(re.fullmatch("[pfsm]{2}", side) for side in flags):
        raise snapshot.fault(first - 1, "boundaries such as pp, ff or fs for three axes")
    atoms, names = item("ATOMS")
    names = [re.sub("^omega", "w", name) for name in names]
    numeric = [k for k, name in enumerate(names) if name not in ("element", "mol", "type")]
    if not numeric:
        raise snapshot.fault(atoms - 1, "names of columns")
    table = snapshot.numbers(atoms, count, numeric)
    columns = {names[k]: table[:, j] for j, k in enumerate(numeric)}
    title = f"LAMMPS, time step {lines[begin + 1].strip() if begin + 1 < end else ''}"
    return _Snapshot(_sorted(columns), snapshot.numbers(first, 3, (0, 1)), flags, title)


_STYLE = ("id", "type", "diameter", "density", "x", "y", "z")  # of atom style sphere
_TURNING = ("id", "vx", "vy", "vz", "wx", "wy", "wz")
_SECTIONS = re.compile(r"^[A-Z][A-Za-z]*( [A-Z][A-Za-z]*)*$")


def _data(text: _Text) -> _Snapshot:
    bounds, count, sections = np.full((3, 2), np.nan), 0, {}
    for k, line in enumerate(text.lines[1:], 1):
        stated, _, comment = (part.strip() for part in line.partition("#"))
        words = stated.split()
        if _SECTIONS.match(stated):
            sections[stated] = (k, comment)
        elif sections:
            continue
        elif words[1:] == ["atoms"]:
            count = text.count(k, words[0])
        elif words[2:] and words[-1][1:] == "hi" and words[-1][0] in "xyz":
            bounds["xyz".index(words[-1][0])] = text.numbers(k, 1, (0, 1))[0]
        elif words[-3:] == ["xy", "xz", "yz"] and text.numbers(k, 1, (0, 1, 2)).any():
            raise Unsupported("a sheared box", "the data file states one (triclinic)")
    if not count or np.isnan(bounds).any() or "Atoms" not in sections:
        expected = "atoms, bounds xlo xhi to zlo zhi, and a section Atoms"
        raise text.fault(len(text.lines), expected)
    start, style = sections["Atoms"]
    if style not in ("", "sphere"):
        raise text.fault(start, "atoms of style sphere")
    columns = _columns(_STYLE, text.numbers(start + 2, count, range(len(_STYLE))))
    if "Velocities" in sections:
        start, _ = sections["Velocities"]
        moving = _columns(_TURNING, text.numbers(start + 2, count, range(len(_TURNING))))
        if not np.array_equal(moving["id"], columns["id"]):
            raise text.fault(start, "velocities of the same atoms")
        columns |= moving
    return _Snapshot(columns, bounds, ("ff",) * 3, text.lines[0].strip()[:80])


def _columns(names: Sequence[str], table: FloatArray) -> dict[str, FloatArray]:
    return _sorted(dict(zip(names, table.T, strict=True)))


def _one_or_each(name: str, value: Any) -> Any:
    """None, one number, or a column (n,)."""
    if value is None:
        return None
    numbers = checks.real(name, value, "one number, or one for each sphere")
    return float(numbers) if numbers.ndim == 0 else numbers


def _walls(walls: Any, centres: FloatArray, material: str) -> list[Body]:
    """Half-spaces at the lower and upper places (2, dim) that are numbers, facing in."""
    dim = centres.shape[1]
    expected = f"two rows of {dim} places, lower and upper ones, None or nan for no wall"
    try:
        rows = [[np.nan if place is None else place for place in row] for row in walls]
    except TypeError as error:
        raise InvalidInput("walls", checks.describe(walls), expected) from error
    places = checks.real("walls", rows, expected, (2, dim)).astype(np.float64)
    if np.isinf(places).any() or (places[1] <= places[0]).any():
        raise InvalidInput("walls", "an upper wall that is not above the lower one", expected)
    behind = np.flatnonzero(((centres < places[0]) | (centres > places[1])).any(axis=1))
    if behind.size:
        found = f"{behind.size:,} centres behind them, the first x[{behind[0]}]"
        raise InvalidInput("walls", found, "centres between the lower and the upper places")
    return walls_at(places.T, dim, material)
