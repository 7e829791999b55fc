"""Scenes as text: TOML that a person can read and that loses nothing."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from itertools import groupby
from typing import Any

import numpy as np
from msgspec.structs import asdict

from cdopt._util.checks import BoolArray, FloatArray
from cdopt.scene.bodies import GROUP_FIELDS, Bodies
from cdopt.scene.material import Material, MaterialPair
from cdopt.scene.shapes import IDENTITY, SHAPES, Shape, Sphere

_PER_LINE = 100  # a list longer than this gets a line for every entry


def to_toml(
    head: Mapping[str, Any],
    materials: Sequence[Material],
    pairs: Sequence[MaterialPair],
    bodies: Bodies,
) -> str:
    """A scene's text: single bodies first, then the spheres at the end of the list in groups.

    Parameters
    ----------
    head : the scene's own fields; None for those that are left out.
    """
    parts = [_lines(head)]
    parts += ["[[materials]]\n" + _lines(asdict(material)) for material in materials]
    parts += ["[[pairs]]\n" + _lines(asdict(pair)) for pair in pairs]
    names = [material.name for material in materials]
    plain = _plain_spheres(bodies)
    tail = int(bodies.nb - np.argmin(plain[::-1])) if not plain.all() else 0
    tail = tail if bodies.nb - tail > 1 else bodies.nb
    parts += ["[[bodies]]\n" + _lines(_body(bodies, k, names)) for k in range(tail)]
    for _, members in groupby(range(tail, bodies.nb), lambda k: _alike(bodies, k)):
        parts.append("[[spheres]]\n" + _lines(_group(bodies, list(members), names)))
    return "\n".join(parts)


def _plain_spheres(b: Bodies) -> BoolArray:
    """(nb,) bodies that a group of spheres can hold: neither turned nor loaded."""
    identity = 0.0 if b.dim == 2 else IDENTITY
    unturned = (b.orientation == identity).reshape(b.nb, -1).all(axis=1)
    loads = np.column_stack([b.force, b.torque])
    return np.asarray((b.kind == SHAPES.index(Sphere)) & unturned & ~loads.any(axis=1))


def _body(b: Bodies, k: int, materials: Sequence[str]) -> dict[str, Any]:
    shape = b.shape(k)
    orientation = b.orientation[k].tolist()
    turned = orientation not in (0.0, list(IDENTITY))
    mass, density = _weight(b, k)
    return {
        "name": b.names[k] or None,
        **_shape(shape),
        "position": b.position[k].tolist(),
        "angle" if b.dim == 2 else "orientation": orientation if turned else None,
        "velocity": _nonzero(b.velocity[k]),
        "angular_velocity": _nonzero(b.angular_velocity[k]),
        "fixed": True if b.fixed[k] and not shape.always_fixed else None,
        "mass": mass,
        "density": density,
        "material": _material(b, k, materials) or None,
        "force": _nonzero(b.force[k]),
        "torque": _nonzero(b.torque[k]),
    }


def _nonzero(values: FloatArray) -> Any:
    """Plain numbers; None where all are zero and nothing is written."""
    return values.tolist() if values.any() else None


def _shape(shape: Shape) -> dict[str, Any]:
    """A shape's kind and fields; parts of a compound as tables in a list."""
    fields = asdict(shape)
    if "parts" in fields:
        parts = map(asdict, fields["parts"])
        fields["parts"] = [{**_shape(part.pop("shape")), **part} for part in parts]
    return {"shape": shape.kind, **fields}


def _group(b: Bodies, members: list[int], materials: Sequence[str]) -> dict[str, Any]:
    weights = [_weight(b, k) for k in members]
    names = [b.names[k] for k in members]
    fields = {
        "radius": _shared(b.reach[members].tolist()),
        "fixed": bool(b.fixed[members[0]]),
        "mass": _shared([mass for mass, _ in weights]),
        "density": _shared([density for _, density in weights]),
        "material": _shared([_material(b, k, materials) for k in members]),
        GROUP_FIELDS["name"]: names if any(names) else None,
        GROUP_FIELDS["velocity"]: _nonzero(b.velocity[members]),
        GROUP_FIELDS["angular_velocity"]: _nonzero(b.angular_velocity[members]),
        GROUP_FIELDS["position"]: b.position[members].tolist(),
    }
    return {name: None if value in (False, "") else value for name, value in fields.items()}


def _alike(b: Bodies, k: int) -> tuple[bool, ...]:
    """What the spheres of a group share: whether they are fixed, and how their mass is given."""
    return bool(b.fixed[k]), *(weight is None for weight in _weight(b, k))


def _weight(b: Bodies, k: int) -> tuple[float | None, float | None]:
    """Mass and density of a body as they were given."""
    mass, density = float(b.mass[k]), float(b.density[k])
    if not np.isnan(density):
        return None, density
    return (mass if np.isfinite(mass) else None), None


def _material(b: Bodies, k: int, materials: Sequence[str]) -> str:
    return materials[b.material[k]] if b.material[k] >= 0 else ""


def _shared(values: list[Any]) -> Any:
    """The one value that all share, or the list."""
    return values[0] if all(value == values[0] for value in values) else values


def _lines(fields: Mapping[str, Any]) -> str:
    return "".join(f"{name} = {_text(v)}\n" for name, v in fields.items() if v is not None)


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
