"""Scenes as readable TOML, without loss."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from itertools import groupby
from typing import Any

import numpy as np
from msgspec.structs import asdict

from cdopt._util.checks import FloatArray
from cdopt.scene.bodies import GROUP_FIELDS, Bodies
from cdopt.scene.joint import Joint
from cdopt.scene.material import Material, MaterialPair
from cdopt.scene.shapes import IDENTITY, SHAPES, Shape, Sphere

_PER_LINE = 100  # a list longer than this gets a line for every entry
Columns = Mapping[str, Sequence[Any]]  # of all bodies, None where nothing is written


def to_toml(
    head: Mapping[str, Any],
    materials: Sequence[Material],
    pairs: Sequence[MaterialPair],
    bodies: Bodies,
    joints: Sequence[Joint] = (),
) -> str:
    """A scene's text: its ``head``, single bodies, spheres in groups, ``joints``."""
    b = bodies
    known = ~np.isnan(b.density)
    names = [*(material.name for material in materials), ""]
    columns = {
        "name": b.names,
        "fixed": b.fixed.tolist(),
        "mass": _where(np.isfinite(b.mass) & ~known, b.mass),
        "density": _where(known, b.density),
        "material": [names[k] for k in b.material],
    }
    identity = 0.0 if b.dim == 2 else IDENTITY
    turned = (b.orientation != identity).reshape(b.nb, -1).any(axis=1)
    loaded = np.column_stack([b.force, b.torque]).any(axis=1)
    single = np.flatnonzero((b.kind != SHAPES.index(Sphere)) | turned | loaded)
    tail = int(single.max(initial=-1)) + 1
    tail = tail if b.nb - tail > 1 else b.nb
    parts = [_lines(head)]
    parts += ["[[materials]]\n" + _lines(asdict(material)) for material in materials]
    parts += ["[[pairs]]\n" + _lines(asdict(pair)) for pair in pairs]
    parts += ["[[bodies]]\n" + _lines(_body(b, k, columns)) for k in range(tail)]

    def alike(k: int) -> tuple[bool, ...]:
        """Key of a group: whether its spheres are fixed, and how their mass is given."""
        return columns["fixed"][k], columns["mass"][k] is None, columns["density"][k] is None

    for _, members in groupby(range(tail, b.nb), alike):
        parts.append("[[spheres]]\n" + _lines(_group(b, list(members), columns)))
    parts += ["[[joints]]\n" + _lines(_plain(asdict(joint))) for joint in joints]
    return "\n".join(parts)


def _where(stated: Any, values: FloatArray) -> list[float | None]:
    return [x if yes else None for yes, x in zip(stated, values.tolist(), strict=True)]


def _body(b: Bodies, k: int, columns: Columns) -> dict[str, Any]:
    shape = b.shape(k)
    orientation = b.orientation[k].tolist()
    turned = orientation not in (0.0, list(IDENTITY))
    return {
        "name": b.names[k],
        **_shape(shape),
        "position": b.position[k].tolist(),
        "angle" if b.dim == 2 else "orientation": orientation if turned else None,
        "velocity": _nonzero(b.velocity[k]),
        "angular_velocity": _nonzero(b.angular_velocity[k]),
        "fixed": columns["fixed"][k] and not shape.always_fixed,
        **{name: columns[name][k] for name in ("mass", "density", "material")},
        "force": _nonzero(b.force[k]),
        "torque": _nonzero(b.torque[k]),
    }


def _shape(shape: Shape) -> dict[str, Any]:
    """A shape's kind and fields; parts of a compound as tables in a list."""
    fields = asdict(shape)
    if "parts" in fields:
        parts = map(asdict, fields["parts"])
        fields["parts"] = [{**_shape(part.pop("shape")), **part} for part in parts]
    return {"shape": shape.kind, **fields}


def _group(b: Bodies, members: list[int], columns: Columns) -> dict[str, Any]:
    of = {name: [values[k] for k in members] for name, values in columns.items()}
    of["radius"] = b.reach[members].tolist()
    names = of.pop("name")
    shared = {name: v[0] if v.count(v[0]) == len(v) else v for name, v in of.items()}
    return {
        "radius": shared.pop("radius"),
        **shared,
        GROUP_FIELDS["name"]: names if any(names) else None,
        GROUP_FIELDS["velocity"]: _nonzero(b.velocity[members]),
        GROUP_FIELDS["angular_velocity"]: _nonzero(b.angular_velocity[members]),
        GROUP_FIELDS["position"]: b.position[members].tolist(),
    }


def _nonzero(values: FloatArray) -> Any:
    """Plain numbers; None where all are zero and nothing is written."""
    return values.tolist() if values.any() else None


def _plain(fields: dict[str, Any]) -> dict[str, Any]:
    """Vectors as lists of floats."""
    vectors = ("point", "axis")
    stated = {n: [float(x) for x in fields[n]] for n in vectors if fields[n] is not None}
    return {**fields, "bodies": list(fields["bodies"]), **stated}


def _lines(fields: Mapping[str, Any]) -> str:
    stated = {name: v for name, v in fields.items() if v is not None and v is not False and v != ""}
    return "".join(f"{name} = {_text(value)}\n" for name, value in stated.items())


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
    if isinstance(value, (list, tuple)):
        entries = [_text(entry) for entry in value]
        nested = bool(value) and isinstance(value[0], (list, tuple, Mapping))
        if nested or len(value) > _PER_LINE:
            return "[\n" + "".join(f"  {entry},\n" for entry in entries) + "]"
        return "[" + ", ".join(entries) + "]"
    if isinstance(value, Mapping):
        pairs = (f"{name} = {_text(entry)}" for name, entry in value.items() if entry is not None)
        return "{ " + ", ".join(pairs) + " }"
    return repr(value)
