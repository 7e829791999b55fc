"""Scene files: TOML, strictly read; what is wrong is named by file, line and field."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Union

import msgspec

from cdopt._util import files
from cdopt._util.errors import CdoptError, InvalidInput
from cdopt._util.files import problems_folder
from cdopt.scene.body import GROUP_FIELDS, Body, Spheres
from cdopt.scene.bonds import BOND_REACH
from cdopt.scene.convex import Compound, Part
from cdopt.scene.lines import line_of
from cdopt.scene.material import Material
from cdopt.scene.scene import OVERLAP_TOL, Scene
from cdopt.scene.shape import Shape
from cdopt.scene.shapes import KINDS, SHAPES, fields

_SHARED = tuple(name for name in Body.__struct_fields__ if name != "shape")
_PLACE = tuple(name for name in Part.__struct_fields__ if name != "shape")


def _record(shape: type[Shape], holder: type[msgspec.Struct]) -> type[msgspec.Struct]:
    """A body or part of one shape as it stands in a file: fields of holder and shape, flat."""
    shared = {f.name: f for f in msgspec.structs.fields(holder) if f.name != "shape"}
    own = [
        (f.name, list[_ANY_PART] if f.name == "parts" else f.type, f.default)  # type: ignore[valid-type]
        for f in msgspec.structs.fields(shape)
    ]
    both = [*own, *((f.name, f.type, f.default) for f in shared.values())]
    both.sort(key=lambda field: field[2] is not msgspec.NODEFAULT)  # those without come first
    return msgspec.defstruct(
        f"{shape.__name__}{holder.__name__}",
        [field[:2] if field[2] is msgspec.NODEFAULT else field for field in both],
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
_SHAPE_OF = {record: shape for found in (_PARTS, _RECORDS) for shape, record in found.items()}


class _Contents(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    dim: int
    name: str = ""
    title: str = ""
    gravity: Sequence[float] | None = None
    power: float = 2.0
    restitution: float = 0.0
    overlap_tol: float = OVERLAP_TOL
    damping: float = 0.0
    tangential_damping: float | None = None
    bond_stiffness: float | None = None
    bond_reach: float = BOND_REACH
    materials: list[Material] = []
    bodies: list[Union[tuple(_RECORDS.values())]] = []  # type: ignore[valid-type]  # noqa: UP007
    spheres: list[Spheres] = []


def load(path: str | Path) -> Scene:
    """Read a scene file.

    A path such as ``problems/beam.toml`` that does not exist is looked for among the scenes
    that ship with cdopt. In a file, ``[[bodies]]`` come first and ``[[spheres]]`` after them,
    each in their order, whatever their order in the text; ``shape`` names the kind, and the
    numbers of the shape are fields of the body.

    Raises
    ------
    InvalidInput : no such file, not TOML, or a field that is unknown, missing, of the wrong type
        or out of range, bodies that overlap. Named as ``file, line 12, bodies[3].radius``.
    """
    place = _find(Path(path))
    return loads(files.read_text(place, "a scene file", str(path)), str(path))


def loads(text: str, source: str = "scene") -> Scene:
    """The scene that a text describes; ``source`` names it in messages.

    Raises
    ------
    InvalidInput : as in ``load``.
    """
    stated = files.parse_toml(text, source)
    try:
        contents = msgspec.convert(stated, _Contents)
    except msgspec.ValidationError as error:
        raise _placed(*_explained(error), text, source) from error
    try:
        return _scene(contents)
    except InvalidInput as error:
        words = (error.argument, error.found, error.expected)
        path, found, expected = (_in_groups(word, contents) for word in words)
        raise _placed(path, found, expected, text, source) from error


def _find(path: Path) -> Path:
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
    bodies = []
    for k, record in enumerate(contents.bodies):
        given = _shape(record, f"bodies[{k}]")
        bodies.append(Body(given, *(getattr(record, name) for name in _SHARED)))
    return Scene(
        [*bodies, *contents.spheres],
        dim=contents.dim,
        gravity=contents.gravity,
        power=contents.power,
        restitution=contents.restitution,
        materials=contents.materials,
        overlap_tol=contents.overlap_tol,
        damping=contents.damping,
        tangential_damping=contents.tangential_damping,
        bond_stiffness=contents.bond_stiffness,
        bond_reach=contents.bond_reach,
        name=contents.name,
        title=contents.title,
    )


def _shape(record: Any, path: str) -> Shape:
    """The shape in a record, and of a compound those in its parts."""
    shape = _SHAPE_OF[type(record)]
    values = {name: getattr(record, name) for name in fields(shape)}
    if shape is Compound:
        values["parts"] = [
            Part(_shape(part, f"{path}.parts[{k}]"), *(getattr(part, name) for name in _PLACE))
            for k, part in enumerate(values["parts"])
        ]
    try:
        return shape(**values)
    except InvalidInput as error:
        raise InvalidInput(f"{path}.{error.argument}", error.found, error.expected) from error


def _explained(error: msgspec.ValidationError) -> tuple[str, str, str]:
    """Path, what was found and what was expected, from the message of msgspec."""
    message, _, path = str(error).partition(" - at `$")
    path = path.rstrip("`").lstrip(".")
    if isinstance(error.__cause__, InvalidInput):
        cause = error.__cause__
        return f"{path}.{cause.argument}", cause.found, cause.expected
    field = re.fullmatch(r"Object (contains unknown|missing required) field `(.*)`", message)
    if field:
        path = f"{path}.{field[2]}".lstrip(".")
        known = field[1] == "missing required"
        return path, *(("nothing", "a value") if known else ("an unknown field", _expected(path)))
    value = re.fullmatch(r"Invalid value (.*)", message)
    if value:
        return path, value[1], _expected(path)
    types = re.fullmatch(r"Expected `(.*)`, got `(.*)`", message)
    if types:
        return path, types[2].replace("array", "list"), types[1].replace("array", "list")
    return path, message, _expected(path)


def _expected(path: str) -> str:
    """What may stand at a path whose value has no meaning."""
    if path.endswith(".shape"):
        return "one of " + ", ".join(map(repr, KINDS))
    table, _, field = path.rpartition(".")
    of = {"bodies": "a body of this shape", "spheres": "spheres", "materials": "a material"}
    holder = of.get(table.partition("[")[0], "a scene")
    return f"a field of {holder}" if field else "a scene"


def _in_groups(words: str, contents: _Contents) -> str:
    """Bodies beyond the single ones as members of their groups: bodies[7] as spheres[0][2]."""

    sizes = [len(_centres(group)) for group in contents.spheres]

    def member(match: re.Match[str]) -> str:
        k = int(match[1]) - len(contents.bodies)
        for number, (group, size) in enumerate(zip(contents.spheres, sizes, strict=True)):
            if 0 <= k < size or (match[2] and k == 0):
                name = GROUP_FIELDS.get(match[3] or "", match[3])
                if not name:
                    return f"spheres[{number}].centres[{k}]"
                single = match[2] or not isinstance(getattr(group, name), list)
                return f"spheres[{number}].{name}" + ("" if single else f"[{k}]")
            k -= size
        return match[0]

    return re.sub(r"bodies\[(\d+)(:?)\](?:\.(\w+))?", member, words)


def _centres(group: Any) -> list[Any]:
    return list(group.centres)


def _placed(path: str, found: str, expected: str, text: str, source: str) -> InvalidInput:
    where = f"{source}, line {line_of(text, path)}" if path else source
    return InvalidInput(f"{where}, {path}" if path else where, found, expected)
