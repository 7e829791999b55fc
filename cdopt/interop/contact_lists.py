"""Contact lists of discrete-element codes, with their forces: LAMMPS, LIGGGHTS, YADE, plain tables.

There are two tables, contacts and bodies. Each is a ``dump local`` or ``dump custom`` of LAMMPS or
LIGGGHTS, of which the last time step is read, or a text file with column names in the first line.
Columns are identified by their names. For names such as ``c_2[7]``, state what the columns contain,
in their order, ``columns="x1 y1 z1 x2 y2 z2 id1 id2 …"``.

| columns of contacts | meaning |
|---|---|
| id1, id2 | both bodies; ids that the table of bodies does not have are walls |
| px, py, pz | contact point, m; else between both surfaces |
| nx, ny, nz | normal from body 1 to 2; else along the centres, or from the point of a wall |
| fx, fy, fz | force of the contact, N; or fnx, … and ftx, …, whose sum it is |
| mu | friction coefficient, if it differs |

Bodies have id, x, y, z, and radius, mass or both; moments of inertia are those of spheres, or ixx,
iyy, izz. In the plane there are no z columns.

Codes differ in the body on which the listed force acts. Since contacts push, the sign is chosen so
that the sum of all normal forces is positive. Normals from body 2 to 1 are detected by comparison
with the centres, and reversed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from cdopt._util import checks, files
from cdopt._util.checks import BoolArray, FloatArray, IntArray
from cdopt._util.errors import InvalidInput
from cdopt._util.formatting import count, numbered
from cdopt._util.frozen import Frozen
from cdopt.problem.contact_step import ContactStep
from cdopt.problem.solution import StepSolution
from cdopt.problem.step import Step

_MOST = 2**30  # bytes of a table
_SPHERE, _DISC = 0.4, 0.5  # moment of inertia over m r²
_ALIASES = {
    "i": "id1", "j": "id2", "#id1": "id1", "idi": "id1", "idj": "id2", "body1": "id1",
    "body2": "id2", "cpx": "px", "cpy": "py", "cpz": "pz", "normalx": "nx", "normaly": "ny",
    "normalz": "nz", "normalforcex": "fnx", "normalforcey": "fny", "normalforcez": "fnz",
    "shearforcex": "ftx", "shearforcey": "fty", "shearforcez": "ftz", "r": "radius", "m": "mass",
    "friction": "mu",
}  # fmt: skip


@dataclass(frozen=True, eq=False)
class ContactList(Frozen):
    """A contact list as a step, with its forces.

    Attributes
    ----------
    step : the bodies at rest, all contacts touching, with friction.
    f, f_t : (nc,) and (nc, d − 1) N, the listed forces along the step's normals and tangents.
    ids : (nb,) id in the table of each body of the step.
    turned : whether the sign of the forces was changed, because they act on the first body.
    normals_turned : number of normals from body 2 to 1, which were reversed.
    """

    step: ContactStep
    f: FloatArray
    f_t: FloatArray
    ids: IntArray
    turned: bool
    normals_turned: int = 0

    def __repr__(self) -> str:
        bodies, contacts = count(self.ids.size, "body"), count(self.step.nc, "contact")
        text = f"{bodies}, {contacts}, largest force {self.f.max(initial=0.0):.4g} N"
        if self.normals_turned:
            text += f", {count(self.normals_turned, 'normal')} turned to point from id1 to id2"
        return f"ContactList({text})"


def read(
    contacts: str | Path,
    bodies: str | Path,
    friction: float | None = None,
    *,
    columns: str | Sequence[str] | None = None,
    body_columns: str | Sequence[str] | None = None,
    gravity: Any = None,
    density: float | None = None,
    fixed: Any = (),
) -> ContactList:
    """A contact list with its forces, for ``cdopt.audit(listed.step, listed.f, listed.f_t)``.

    Bodies are named by their ids in the file, contacts by both ids, "7–12" or "7–wall −1".

    Parameters
    ----------
    contacts, bodies : the two tables.
    friction : μ, where the contacts have no column mu.
    columns, body_columns : names of the columns in their order, if the file has none; columns with
        other names are ignored.
    gravity : (dim,) m/s², for the weights; by default 9.81 m/s² against the last axis.
    density : kg/m³ of spheres without a mass; of discs in the plane per metre of depth.
    fixed : ids of bodies that do not move.

    Raises
    ------
    InvalidInput : a file that is not such a table, missing columns, or a bad argument.
    """
    table = _table(contacts, columns, ("id1", "id2"))
    about = _table(bodies, body_columns, ("id", "x", "y"))
    axes = "xyz" if "z" in about else "xy"
    ids = about["id"].astype(np.int64)
    order = np.argsort(ids, kind="stable")
    about, ids = {name: column[order] for name, column in about.items()}, ids[order]
    if ids.size and (np.diff(ids) == 0).any():
        raise InvalidInput(str(bodies), "a body twice", "each body once")
    centres = np.column_stack([about[axis] for axis in axes])
    masses, moments = _inertia(about, str(bodies), len(axes), density)
    pairs = np.column_stack([_number(ids, table[name]) for name in ("id1", "id2")])
    normals, points = _geometry(table, about, centres, pairs, axes, str(contacts))
    forces = _forces(table, axes, str(contacts))
    away = _away(centres, pairs, points, normals, "ixx" in about)
    normals = np.where(away[:, None], -normals, normals)
    turned = bool(np.sum(forces * normals) < 0.0)
    mu = table.get("mu", friction)
    if mu is None:
        raise InvalidInput("friction", "None", "a coefficient, or a column mu")
    g = np.append(np.zeros(len(axes) - 1), -9.81) if gravity is None else gravity
    still = _fixed(fixed, ids)
    step = ContactStep.from_contacts(
        points, normals, pairs, masses, moments, centres, friction=mu, gravity=g, fixed=still,
        contact_ids=_names(table, pairs), body_names=ids,
    )  # fmt: skip
    forces = -forces if turned else forces
    tangents = np.asarray(step.friction.tangents) if step.friction else np.zeros((0, 0, 0))
    along = np.einsum("ikx,ix->ik", tangents, forces)
    across = np.sum(forces * normals, axis=1)
    normal, tangential = checks.read_only(across), checks.read_only(along)
    return ContactList(step, normal, tangential, ids, turned, int(away.sum()))


def read_forces(path: str | Path, step: Step) -> tuple[FloatArray, FloatArray | None]:
    """Normal forces (nc,) and tangential ones (nc, d − 1), or None, from one file.

    Parameters
    ----------
    path : a solution saved by ``StepSolution.save`` (.npz), or a text file with one line for each
        contact of the step: the normal force, then the tangential ones, N.

    Raises
    ------
    InvalidInput : another file, or forces of other contacts.
    """
    place = checks.path("path", path)
    checks.instance("step", step, Step)
    if place.suffix == ".npz":
        solution = StepSolution.load(place)
        if solution.f is None:
            raise InvalidInput("forces", str(place), "a solution with forces")
        return solution.f, solution.f_t
    lines = files.read_text(place, "a table of forces", "forces", _MOST).splitlines()
    rows = [line.partition("#")[0].replace(",", " ").split() for line in lines]
    try:
        table = [[float(word) for word in row] for row in rows if row]
    except ValueError as error:
        raise InvalidInput("forces", f"{place}: {error}", "lines of numbers") from None
    d = 1 if step.friction is None else step.friction.d
    widths = {len(row) for row in table}
    if len(table) != step.nc or widths not in ({1}, {d}):
        found = f"{len(table)} lines of {sorted(widths)} numbers"
        raise InvalidInput("forces", found, f"{step.nc} lines of {d} numbers")
    forces = np.array(table)
    return forces[:, 0], None if widths == {1} else forces[:, 1:]


def write(path: str | Path, step: ContactStep, f: Any, f_t: Any = None) -> None:
    """Write contacts and their forces on the second body as a table that ``read`` reads.

    Bodies are numbered from 0; the world is −1.

    Parameters
    ----------
    f, f_t : (nc,) and (nc, d − 1) N, as in ``ContactStep.contact_vectors``.

    Raises
    ------
    InvalidInput : a step without bodies, points or normals; a file that cannot be written.
    """
    checks.instance("step", step, ContactStep)
    vectors = step.contact_vectors(f, f_t)
    if step.bodies is None or step.points is None or step.normals is None:
        raise InvalidInput("step", "no bodies or points", "a step built with both")
    axes = "xyz"[: vectors.shape[1]]
    names = ["id1", "id2", *(f"{kind}{axis}" for kind in "pnf" for axis in axes)]
    numbers = np.column_stack([step.points, step.normals, vectors])
    lines = [" ".join(names)]
    for pair, row in zip(step.bodies.tolist(), numbers.tolist(), strict=True):
        lines.append(" ".join([*map(str, pair), *map(repr, row)]))
    files.write_text(path, "\n".join(lines) + "\n")


def _table(
    path: str | Path, columns: str | Sequence[str] | None, needed: Sequence[str]
) -> dict[str, FloatArray]:
    place = checks.path("path", path)
    lines = files.read_text(place, "a table", str(place), _MOST).splitlines()
    names, rows = _last_moment(lines) if lines and lines[0].startswith("ITEM:") else _plain(lines)
    if columns is not None:
        stated = columns.split() if isinstance(columns, str) else list(columns)
        names = [checks.text("columns", name) for name in stated]
    names = [_ALIASES.get(name.lower(), name.lower()) for name in names]
    words = " ".join(rows).split()
    if len(words) != len(rows) * len(names):
        found = f"{len(words):,} numbers in {len(rows):,} lines"
        raise InvalidInput(str(place), found, f"{len(names)} columns: {' '.join(names)}")
    try:
        values = np.array(words, dtype=np.float64).reshape(len(rows), len(names))
    except ValueError as error:
        raise InvalidInput(str(place), str(error), "numbers") from None
    if missing := [name for name in needed if name not in names]:
        found = f"columns {' '.join(names)}"
        expected = f"also {' '.join(missing)}; columns= gives names to the columns"
        raise InvalidInput(str(place), found, expected)
    return {name: values[:, k].copy() for k, name in enumerate(names)}


def _last_moment(lines: list[str]) -> tuple[list[str], list[str]]:
    """Names and rows of the last time step in a dump of LAMMPS or LIGGGHTS."""
    kinds = ("ITEM: ENTRIES", "ITEM: ATOMS")
    heads = [k for k, line in enumerate(lines) if line.startswith(kinds)]
    if not heads:
        raise InvalidInput("path", "a dump without entries or atoms", "dump local or dump custom")
    rows = lines[heads[-1] + 1 :]
    end = next((k for k, line in enumerate(rows) if line.startswith("ITEM:")), len(rows))
    return lines[heads[-1]].split()[2:], [row for row in rows[:end] if row.strip()]


def _plain(lines: list[str]) -> tuple[list[str], list[str]]:
    """Names and rows of a text with names in the first line, separated by spaces or commas."""
    rows = [line.replace(",", " ") for line in lines if line.strip()]
    if not rows:
        raise InvalidInput("path", "an empty file", "a line of names, and lines of numbers")
    return rows[0].lstrip("# ").split(), [row for row in rows[1:] if not row.startswith("#")]


def _number(ids: IntArray, called: FloatArray) -> IntArray:
    """Numbers of bodies by their ids; −1 for walls."""
    wanted = called.astype(np.int64)
    at = np.minimum(np.searchsorted(ids, wanted), max(ids.size - 1, 0))
    return np.where(ids[at] == wanted, at, -1) if ids.size else np.full(wanted.size, -1)


def _fixed(given: Any, ids: IntArray) -> IntArray:
    """Numbers of the bodies that do not move, by their ids."""
    one = isinstance(given, int | np.integer)
    asked = checks.integers("fixed", [given] if one else given, (None,))
    missing = asked[~np.isin(asked, ids)]
    if missing.size:
        raise InvalidInput("fixed", f"the id {missing[0]}", "ids in the table of bodies")
    return np.flatnonzero(np.isin(ids, asked))


def _names(table: dict[str, FloatArray], pairs: IntArray) -> list[str]:
    """(nc,) names of the contacts by the ids in the file."""
    both = [table[name].astype(np.int64).tolist() for name in ("id1", "id2")]
    known = (pairs >= 0).T.tolist()
    words = [
        [str(k) if body else f"wall {k}".replace("-", "−") for k, body in zip(*side, strict=True)]
        for side in zip(both, known, strict=True)
    ]
    return numbered(["–".join(pair) for pair in zip(*words, strict=True)])


def _away(
    centres: FloatArray, pairs: IntArray, points: FloatArray, normals: FloatArray, shaped: bool
) -> BoolArray:
    """(nc,) normals from body 2 to 1, by the centres; by majority for bodies with a shape."""
    ends = np.where((pairs >= 0)[:, :, None], centres[pairs], points[:, None])
    away = np.sum(normals * (ends[:, 1] - ends[:, 0]), axis=1) < 0.0
    return np.full(away.size, 2 * int(away.sum()) > away.size) if shaped else away


def _inertia(
    about: dict[str, FloatArray], where: str, dim: int, density: float | None
) -> tuple[FloatArray, FloatArray]:
    radius, mass = about.get("radius"), about.get("mass")
    if radius is None and "diameter" in about:
        radius = 0.5 * about["diameter"]
    if mass is None:
        if density is None or radius is None:
            raise InvalidInput(where, "no mass", "a column mass, or radius and a density")
        rho = checks.positive("density", density)
        mass = rho * (np.pi * radius**2 if dim == 2 else 4.0 / 3.0 * np.pi * radius**3)
    if all(name in about for name in ("ixx", "iyy", "izz")) and dim == 3:
        own = np.column_stack([about[name] for name in ("ixx", "iyy", "izz")])
        return mass, own[:, :, None] * np.eye(3)
    if radius is None:
        raise InvalidInput(where, "no radius", "a column radius, or ixx, iyy and izz")
    return mass, (_DISC if dim == 2 else _SPHERE) * mass * radius**2


def _vectors(table: dict[str, FloatArray], kind: str, axes: str) -> FloatArray | None:
    """(nc, dim) of the columns of one kind; None where there are none."""
    names = [f"{kind}{axis}" for axis in axes]
    return np.column_stack([table[n] for n in names]) if all(n in table for n in names) else None


def _geometry(
    table: dict[str, FloatArray],
    about: dict[str, FloatArray],
    centres: FloatArray,
    pairs: IntArray,
    axes: str,
    where: str,
) -> tuple[FloatArray, FloatArray]:
    """Unit normals (nc, dim) from body 1 to 2, and contact points."""
    normals, points = _vectors(table, "n", axes), _vectors(table, "p", axes)
    both = (pairs >= 0).all(axis=1)
    between = centres[pairs[:, 1]] - centres[pairs[:, 0]]
    if normals is None:
        normals = between.copy()
        if not both.all():
            if points is None:
                raise InvalidInput(where, "contacts with walls", "columns px, … or nx, … for these")
            out = points - centres[pairs.max(axis=1)]
            out[pairs[:, 1] >= 0] *= -1.0  # towards the second body
            normals[~both] = out[~both]
    length = np.linalg.norm(normals, axis=1)
    if (bad := np.flatnonzero(~(length > 0.0))).size:
        raise InvalidInput(where, f"contact {int(bad[0])} without a direction", "a normal")
    normals = normals / length[:, None]
    if points is None:
        radius = about.get("radius")
        if radius is None or not both.all():
            raise InvalidInput(where, "no contact points", "columns px, … or the radii of spheres")
        depth = radius[pairs].sum(axis=1) - np.linalg.norm(between, axis=1)
        reach = radius[pairs[:, 0]] - 0.5 * depth
        points = centres[pairs[:, 0]] + reach[:, None] * normals
    return normals, points


def _forces(table: dict[str, FloatArray], axes: str, where: str) -> FloatArray:
    """(nc, dim) N, of each contact on one of its bodies."""
    whole = _vectors(table, "f", axes)
    if whole is not None:
        return whole
    normal, tangential = _vectors(table, "fn", axes), _vectors(table, "ft", axes)
    if normal is None:
        raise InvalidInput(where, "no forces", "columns fx, … or fnx, … and ftx, …")
    return normal if tangential is None else normal + tangential
