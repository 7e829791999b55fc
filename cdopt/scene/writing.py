"""Scenes as text: TOML that a person can read and that loses nothing."""

from __future__ import annotations

import json
from collections.abc import Mapping
from itertools import groupby
from typing import Any, Protocol

import numpy as np

from cdopt._util.checks import BoolArray, FloatArray
from cdopt.scene.bodies import Bodies
from cdopt.scene.body import GROUP_FIELDS
from cdopt.scene.bonds import BOND_REACH
from cdopt.scene.material import Material
from cdopt.scene.shape import Shape
from cdopt.scene.shapes import SHAPES, Sphere, fields

_PER_LINE = 100  # a list longer than this gets a line for every entry


class Written(Protocol):
    """What of a scene stands in its file."""

    name: str
    title: str
    dim: int
    gravity: FloatArray
    power: float
    restitution: float
    overlap_tol: float
    damping: float
    tangential_damping: float | None
    bond_stiffness: float | None
    bond_reach: float
    materials: tuple[Material, ...]
    bodies: Bodies


def to_toml(scene: Written) -> str:
    """A scene's text: single bodies first, then the spheres at the end of the list in groups."""
    bodies = scene.bodies
    head: dict[str, Any] = {
        "name": scene.name or None,
        "title": scene.title or None,
        "dim": scene.dim,
        "gravity": scene.gravity.tolist(),
        "power": scene.power,
        "restitution": scene.restitution,
        "overlap_tol": scene.overlap_tol,
        "damping": scene.damping or None,
        "tangential_damping": scene.tangential_damping,
        "bond_stiffness": scene.bond_stiffness,
        "bond_reach": scene.bond_reach if scene.bond_reach != BOND_REACH else None,
    }
    parts = [_lines(head)]
    for material in scene.materials:
        stated = {name: getattr(material, name) for name in material.__struct_fields__}
        parts.append("[[materials]]\n" + _lines(stated))
    plain = _plain_spheres(scene)
    tail = int(bodies.nb - np.argmin(plain[::-1])) if not plain.all() else 0
    tail = tail if bodies.nb - tail > 1 else bodies.nb
    parts += ["[[bodies]]\n" + _lines(_body(scene, k)) for k in range(tail)]
    groups = groupby(range(tail, bodies.nb), lambda k: _alike(scene, k))
    parts += ["[[spheres]]\n" + _lines(_group(scene, list(members))) for _, members in groups]
    return "\n".join(parts)


def _plain_spheres(scene: Written) -> BoolArray:
    """(nb,) bodies that a group of spheres can hold: neither turned nor loaded."""
    b = scene.bodies
    identity = 0.0 if scene.dim == 2 else np.array([1.0, 0.0, 0.0, 0.0])
    unturned = (b.orientation == identity).reshape(b.nb, -1).all(axis=1)
    loads = np.column_stack([b.force, b.torque])
    return np.asarray((b.kind == SHAPES.index(Sphere)) & unturned & ~loads.any(axis=1))


def _body(scene: Written, k: int) -> dict[str, Any]:
    b = scene.bodies
    shape = SHAPES[b.kind[k]]
    mass, density = _weight(scene, k)
    turned = b.orientation[k].tolist()
    moves = {
        name: getattr(b, name)[k].tolist() if np.any(getattr(b, name)[k]) else None
        for name in ("velocity", "angular_velocity", "force", "torque")
    }
    return {
        "name": b.names[k] or None,
        **_shape(b.shape(k)),
        "position": b.position[k].tolist(),
        "angle": turned if scene.dim == 2 and turned != 0.0 else None,
        "orientation": turned if scene.dim == 3 and turned != [1.0, 0.0, 0.0, 0.0] else None,
        "velocity": moves["velocity"],
        "angular_velocity": moves["angular_velocity"],
        "fixed": True if b.fixed[k] and not shape.always_fixed else None,
        "mass": mass,
        "density": density,
        "material": _material(scene, k) or None,
        "force": moves["force"],
        "torque": moves["torque"],
    }


def _shape(shape: Shape) -> dict[str, Any]:
    """A shape's kind and fields; parts of a compound as tables in a list."""
    stated = {name: getattr(shape, name) for name in fields(type(shape))}
    if "parts" in stated:
        stated["parts"] = [
            {**_shape(part.shape), "position": part.position, "angle": part.angle,
             "orientation": part.orientation, "density": part.density}
            for part in stated["parts"]
        ]  # fmt: skip
    return {"shape": shape.kind, **stated}


def _group(scene: Written, members: list[int]) -> dict[str, Any]:
    b = scene.bodies
    weights = [_weight(scene, k) for k in members]
    names = [b.names[k] for k in members]
    velocity, spin = b.velocity[members], b.angular_velocity[members]
    stated = {
        "radius": _shared(b.reach[members].tolist()),
        "fixed": bool(b.fixed[members[0]]),
        "mass": _shared([mass for mass, _ in weights]),
        "density": _shared([density for _, density in weights]),
        "material": _shared([_material(scene, k) for k in members]),
        GROUP_FIELDS["name"]: names if any(names) else None,
        GROUP_FIELDS["velocity"]: velocity.tolist() if velocity.any() else None,
        GROUP_FIELDS["angular_velocity"]: spin.tolist() if spin.any() else None,
        GROUP_FIELDS["position"]: b.position[members].tolist(),
    }
    return {name: None if value in (False, "") else value for name, value in stated.items()}


def _alike(scene: Written, k: int) -> tuple[bool, ...]:
    """What the spheres of a group share: whether they are fixed, and how their mass is given."""
    return bool(scene.bodies.fixed[k]), *(weight is None for weight in _weight(scene, k))


def _weight(scene: Written, k: int) -> tuple[float | None, float | None]:
    """Mass and density of a body as they were given."""
    mass, density = float(scene.bodies.mass[k]), float(scene.bodies.density[k])
    if not np.isnan(density):
        return None, density
    return (mass if np.isfinite(mass) else None), None


def _material(scene: Written, k: int) -> str:
    number = int(scene.bodies.material[k])
    return scene.materials[number].name if number >= 0 else ""


def _shared(values: list[Any]) -> Any:
    """The one value that all share, or the list."""
    return values[0] if all(value == values[0] for value in values) else values


def _lines(stated: Mapping[str, Any]) -> str:
    return "".join(f"{name} = {_text(v)}\n" for name, v in stated.items() if v is not None)


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
    if isinstance(value, list):
        inner = [_text(entry) for entry in value]
        broken = len(value) > _PER_LINE or (value and isinstance(value[0], (list, Mapping)))
        return "[\n" + "".join(f"  {entry},\n" for entry in inner) + "]" if broken else (
            "[" + ", ".join(inner) + "]"
        )  # fmt: skip
    if isinstance(value, Mapping):
        inner = [f"{name} = {_text(entry)}" for name, entry in value.items() if entry is not None]
        return "{ " + ", ".join(inner) + " }"
    return repr(value)
