"""Scenes from files and by name: TOML, strictly read; errors name the file, line and field.

Snapshots of LAMMPS are read by ``cdopt.scene.snapshots``.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Union

import msgspec

from cdopt._util import checks, files
from cdopt._util.errors import CdoptError, InvalidInput
from cdopt._util.files import problems_folder
from cdopt._util.parameters import merge, one_of_these, split
from cdopt.geometry.periodic import PeriodicBox
from cdopt.problem.step import Step
from cdopt.scene.assemblies import load_assembly, parts_of
from cdopt.scene.block_model import BlockModel, lists_convex_blocks, load_blocks
from cdopt.scene.bodies import GROUP_FIELDS, Body, Spheres
from cdopt.scene.generators import GENERATORS
from cdopt.scene.joint import Joint
from cdopt.scene.material import Material, MaterialPair
from cdopt.scene.pairs import BOND_REACH
from cdopt.scene.scene import OVERLAP_TOL, OVERLAPS, Scene
from cdopt.scene.shapes import KINDS, SHAPES, Compound, Part, Shape
from cdopt.scene.snapshots import SNAPSHOTS, from_lammps
from cdopt.scene.state import State

SCENE_FILES = (".toml", *SNAPSHOTS)  # ends of names
_WRITABLE = (bool, int, float, str)  # types of parameters that a text can give


def _record(shape: type[Shape], holder: type[msgspec.Struct]) -> type[msgspec.Struct]:
    """A body or part of one shape as written in a file: fields of holder and shape, flat."""
    fields = [
        (f.name, list[_ANY_PART] if f.name == "parts" else f.type, f.default)  # type: ignore[valid-type]
        for f in (*msgspec.structs.fields(shape), *msgspec.structs.fields(holder))
        if f.name != "shape"
    ]
    fields.sort(key=lambda field: field[2] is not msgspec.NODEFAULT)  # those without come first
    return msgspec.defstruct(
        f"{shape.__name__}{holder.__name__}",
        [field[:2] if field[2] is msgspec.NODEFAULT else field for field in fields],
        frozen=True,
        forbid_unknown_fields=True,
        tag=shape.kind,
        tag_field="shape",
    )


_PARTS = {
    shape: _record(shape, Part)
    for shape in SHAPES
    if shape is not Compound and not shape.always_fixed
}
_ANY_PART = Union[tuple(_PARTS.values())]  # type: ignore[valid-type]  # noqa: UP007
_RECORDS = {shape: _record(shape, Body) for shape in SHAPES}
_SHAPE_OF = {record: shape for kinds in (_PARTS, _RECORDS) for shape, record in kinds.items()}


class _Contents(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    dim: int
    name: str = ""
    title: str = ""
    gravity: Sequence[float] | None = None
    power: float = 2.0
    restitution: float = 0.0
    friction: float | None = None
    overlap_tol: float = OVERLAP_TOL
    overlaps: str = OVERLAPS[0]
    damping: float = 0.0
    tangential_damping: float | None = None
    bond_stiffness: float | None = None
    bond_reach: float = BOND_REACH
    box: list[float] | None = None
    box_shear: float = 0.0
    box_rate: list[list[float]] | float = 0.0
    materials: list[Material] = []
    pairs: list[MaterialPair] = []
    bodies: list[Union[tuple(_RECORDS.values())]] = []  # type: ignore[valid-type]  # noqa: UP007
    spheres: list[Spheres] = []
    joints: list[Joint] = []


def load(path: str | Path, *, overlaps: str | None = None) -> Scene:
    """A scene from a file, or by its name.

    Parameters
    ----------
    path : a scene file (.toml); a snapshot of LAMMPS (.dump, .lammpstrj, .data, .lmp), as
        ``from_lammps`` reads it; an assembly of convex blocks (.obj, .stl, .json), with parameters
        of ``load_assembly`` as in ``wall.obj:density=2000,fixed=base``; the name of a scene that
        ships with cdopt, ``beam`` (``shipped_scenes()`` lists them); or a generator of
        ``cdopt.scene`` with parameters, ``pyramid:n=8,power=2.5`` (``GENERATORS``). A file takes
        precedence over a name. A path such as ``problems/beam.toml`` that does not exist is looked
        for among the shipped scenes.
    overlaps : as in ``Scene``; None takes those of the file.

    In a file, ``[[bodies]]`` come first and ``[[spheres]]`` after them, each in their order,
    whatever their order in the text; ``shape`` names the kind, and the numbers of the shape are
    fields of the body. ``[[joints]]`` have the fields of ``Joint``.

    Raises
    ------
    InvalidInput : no such file or scene, an unknown parameter, not TOML, or a field that is
        unknown, missing, of the wrong type or out of range, bodies that overlap. Fields of files
        are named as ``file, line 12, bodies[3].radius``.

    >>> import cdopt
    >>> cdopt.scene.load("pyramid:n=3")
    Scene('pyramid-3': 14 bodies in 3D, 5 free, power 2)
    """
    place = path if isinstance(path, Path) else checks.text("path", path)
    if overlaps is not None:
        checks.choice("overlaps", overlaps, OVERLAPS)
    scene = _read(place, overlaps)
    return scene if overlaps is None else scene.with_overlaps(overlaps)


def open_structure(
    path: str | Path,
    *,
    supports: Any = None,
    density: float | None = None,
    unit: float | None = None,
) -> Scene | BlockModel:
    """A block model of a mesh or COMPAS file, else a scene; arguments as of ``load_blocks``."""
    assembly = parts_of(str(path))
    if assembly is None or lists_convex_blocks(assembly[0]):
        return load(path if isinstance(path, Path) else str(path))
    words = split(f"assembly{assembly[1]}")[1]
    stated: Any = merge("assembly", _writable(load_assembly), words, {})
    if supports is None and stated["fixed"]:
        supports = stated["fixed"].split("+")
    return load_blocks(
        assembly[0],
        supports=supports,
        density=density or stated["density"] or None,
        unit=unit or stated["unit"] or 1.0,
        tol=stated["tol"] or None,
        friction=stated["friction"] if stated["friction"] >= 0.0 else None,
        up=stated["up"] or "z",
    )


def _read(path: str | Path, overlaps: str | None) -> Scene:
    """``load``, already with the requested overlaps if the file states some."""
    if str(path).endswith(SNAPSHOTS):
        return from_lammps(path) if overlaps is None else from_lammps(path, overlaps=overlaps)
    if assembly := parts_of(str(path)):
        words = split(f"assembly{assembly[1]}")[1]
        stated: Any = merge("assembly", _writable(load_assembly), words, {})
        return load_assembly(assembly[0], **stated)
    shipped = shipped_scenes()
    if path in shipped and not Path(path).is_file():
        path = problems_folder() / f"{path}.toml"
    if isinstance(path, Path) or _is_file(path):
        place = _shipped(Path(path))
        return loads(
            files.read_text(place, "a scene file", str(path)), str(path), overlaps=overlaps
        )
    name, words = split(path)
    name = name.replace("-", "_")
    if name not in GENERATORS:
        known = [*shipped, *(n for n in GENERATORS if n.replace("_", "-") not in shipped)]
        expected = f"a .toml, .dump, .obj, .stl or .json file, or {one_of_these(name, known)}"
        raise InvalidInput("scene", repr(path), expected)
    given: Any = merge(name, parameters_of(name), words, {})
    return GENERATORS[name](**given)


def loads(text: str, source: str = "scene", *, overlaps: str | None = None) -> Scene:
    """A scene from TOML text; messages name it ``source``. ``overlaps`` is as in ``load``.

    Raises
    ------
    InvalidInput : as for ``load``; it names the line and the field.
    """
    stated = files.parse_toml(checks.text("text", text), checks.text("source", source))
    if overlaps is not None:
        checks.choice("overlaps", overlaps, OVERLAPS)
        stated = {**stated, "overlaps": overlaps}
    try:
        contents = msgspec.convert(stated, _Contents)
    except msgspec.ValidationError as error:
        raise _placed(*_explained(error), text, source) from error
    try:
        return _scene(contents)
    except InvalidInput as error:
        parts = (error.argument, error.found, error.expected)
        path, found, expected = (_in_groups(part, contents) for part in parts)
        raise _placed(path, found, expected, text, source) from error


def placed(step: Step) -> tuple[Scene, State] | None:
    """The scene and the state that a step was made of, for pictures; None for other steps.

    Raises
    ------
    InvalidInput : the step's file has no scene, or a state of another scene.

    >>> import cdopt
    >>> scene = cdopt.scene.beam()
    >>> contacts = cdopt.collision.detect(scene, scene.initial)
    >>> step = cdopt.collision.step(scene, scene.initial, contacts, dt=1e-3)
    >>> cdopt.scene.placed(step)[0] is scene
    True
    """
    origin = checks.instance("step", step, Step).origin
    if origin is None:
        return None
    text = origin.scene
    scene: Scene = loads(text, "the scene of the step") if isinstance(text, str) else text
    return scene, scene.check_state(State(origin.t, origin.q, origin.v))


def parameters_of(name: str) -> dict[str, Any]:
    """Parameters of a generator that a text can give, with their defaults."""
    return _writable(GENERATORS[checks.choice("name", name, GENERATORS)])


def _writable(function: Any) -> dict[str, Any]:
    parameters = inspect.signature(function).parameters
    return {
        key: parameter.default
        for key, parameter in parameters.items()
        if isinstance(parameter.default, _WRITABLE)
    }


def _is_file(text: str) -> bool:
    """Whether a text is the path of a file, there or not, and no name of a scene."""
    return text.endswith(SCENE_FILES) or Path(text).name != text or Path(text).is_file()


def names_scene(text: str) -> bool:
    """Whether a text is a scene file, a scene that ships with cdopt or a generator."""
    if text.endswith(SCENE_FILES) or parts_of(text) or text in shipped_scenes():
        return True
    return text.partition(":")[0].strip().replace("-", "_") in GENERATORS


def shipped_scenes() -> list[str]:
    """Names of the scenes that ship with cdopt."""
    try:
        return sorted(path.stem for path in problems_folder().glob("*.toml"))
    except CdoptError:
        return []


def _shipped(path: Path) -> Path:
    """The path itself, or the file of this name that ships with cdopt."""
    if len(path.parts) != 2 or path.parts[0] != "problems":
        return path
    try:
        if path.exists():
            return path
        shipped = problems_folder() / path.name
        return shipped if shipped.is_file() else path
    except (CdoptError, OSError):  # the path itself is named when it is opened
        return path


def _scene(contents: _Contents) -> Scene:
    fields = msgspec.structs.asdict(contents)
    size, shear, rate = (fields.pop(name) for name in ("box", "box_shear", "box_rate"))
    box = None if size is None else PeriodicBox(size, shear, rate)
    bodies = [_placed_shape(Body, r, f"bodies[{k}]") for k, r in enumerate(fields.pop("bodies"))]
    return Scene([*bodies, *fields.pop("spheres")], box=box, **fields)


def _placed_shape(holder: type[msgspec.Struct], record: Any, path: str) -> Any:
    """The Body or Part of a record; ``path`` names it in messages."""
    shape = _SHAPE_OF[type(record)]
    fields = msgspec.structs.asdict(record)
    values = {name: fields.pop(name) for name in shape.__struct_fields__}
    if shape is Compound:
        values["parts"] = [
            _placed_shape(Part, part, f"{path}.parts[{k}]")
            for k, part in enumerate(values["parts"])
        ]
    try:
        return holder(shape=shape(**values), **fields)
    except InvalidInput as error:
        raise InvalidInput(f"{path}.{error.argument}", error.found, error.expected) from error


_FAULTS = {  # messages of msgspec, and their content: where, the value, what was expected
    r"Object contains unknown field `(.*)`": (
        "{0}",
        "an unknown field",
        "a field that belongs here",
    ),
    r"Object missing required field `(.*)`": ("{0}", "nothing", "a value"),
    r"Invalid value (.*)": ("", "{0}", "one of " + ", ".join(map(repr, KINDS))),
    r"Expected `(.*)`, got `(.*)`": ("", "{1}", "{0}"),
}


def _explained(error: msgspec.ValidationError) -> tuple[str, str, str]:
    """Path, value and what was expected, from the message of msgspec."""
    message, _, path = str(error).partition(" - at `$")
    path = path.rstrip("`").lstrip(".")
    if isinstance(cause := error.__cause__, InvalidInput):
        return f"{path}.{cause.argument}", cause.found, cause.expected
    for pattern, parts in _FAULTS.items():
        if match := re.fullmatch(pattern, message.replace("array", "list")):
            field, found, expected = (part.format(*match.groups()) for part in parts)
            return f"{path}.{field}".strip("."), found, expected
    return path, message, "a scene"


def _in_groups(message: str, contents: _Contents) -> str:
    """Bodies beyond the single ones as members of their groups: bodies[7] as spheres[0][2]."""

    def member(match: re.Match[str]) -> str:
        """The field that one body of the message has in the file."""
        k, together = int(match[1]) - len(contents.bodies), bool(match[2])
        name = GROUP_FIELDS.get(match[3] or "", match[3])
        for number, group in enumerate(contents.spheres):
            size = len(list(group.centres))  # type: ignore[arg-type]
            if 0 <= k < size or (together and k == 0):
                each = not together and isinstance(getattr(group, name or "centres"), list)
                return f"spheres[{number}].{name or 'centres'}" + (f"[{k}]" if each else "")
            k -= size
        return match[0]

    return re.sub(r"bodies\[(\d+)(:?)\](?:\.(\w+))?", member, message)


def _placed(path: str, found: str, expected: str, text: str, source: str) -> InvalidInput:
    where = f"{source}, line {line_of(text, path)}" if path else source
    return InvalidInput(f"{where}, {path}" if path else where, found, expected)


# --- lines of a TOML text: tomllib gives values without their lines -----------------------------

_LONG_TEXT = re.compile(r'"""[\s\S]*?"""|' + r"'''[\s\S]*?'''")
_HEADER = re.compile(r"^[ \t]*\[{1,2}[ \t]*([\w.\"'-]+)[ \t]*\]{1,2}[ \t]*(?:#.*)?$", re.M)
_STEP = re.compile(r"(\w*)(?:\[(\d+)\])?\.?")


def line_of(text: str, path: str) -> int:
    """The line, from 1, of the key of a field such as ``bodies[17].position``, or of its table."""
    text = _LONG_TEXT.sub(lambda m: "\n" * m.group().count("\n"), text.replace("\r\n", "\n"))
    (table, index), (field, _), *_ = [*_STEP.findall(path), ("", "")]
    headers = list(_HEADER.finditer(text))
    ends = [header.start() for header in headers] + [len(text)]
    same = [k for k, header in enumerate(headers) if header[1].strip("\"'") == table]
    start, end = 0, ends[0]
    if same:
        k = same[min(int(index or 0), len(same) - 1)]
        start, end = ends[k], ends[k + 1]
    name = re.escape(field if same else table)
    key = re.compile(rf"^[ \t]*[\"']?{name}[\"']?[ \t]*=", re.M).search(text, start, end)
    return text.count("\n", 0, key.start() if key else start) + 1
