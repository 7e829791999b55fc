"""Walls of a box: which face each other, how far apart they are, and what presses them."""

from __future__ import annotations

import numpy as np

from cdopt._util import checks
from cdopt._util.checks import FloatArray
from cdopt._util.errors import InvalidInput
from cdopt.dynamics import Equilibrium
from cdopt.geometry.rotations import matrices
from cdopt.scene import HalfSpace, Scene, State

_ALIKE = 1e-9  # of a unit vector: directions that count as the same


def wall_number(scene: Scene, name: str, wall: object) -> int:
    """The number of a half-space given by number or by name.

    Raises
    ------
    InvalidInput : ``name``, the argument, is no half-space of the scene, or two of one name.
    """
    table = scene.bodies.table(HalfSpace)
    known = [] if table is None else [int(k) for k in table.body]
    if isinstance(wall, str):
        found = [k for k in known if scene.bodies.names[k] == wall]
        if len(found) == 1:
            return found[0]
    elif isinstance(wall, int | np.integer) and not isinstance(wall, bool) and wall in known:
        return int(wall)
    labels = ", ".join(map(scene.bodies.label, known)) or "none: the scene has no walls"
    raise InvalidInput(name, checks.describe(wall), f"the name or number of a wall, of {labels}")


def outward(scene: Scene, state: State, wall: int) -> FloatArray:
    """(dim,) normal of a wall, towards the bodies."""
    own = scene.bodies.shape_columns(HalfSpace, np.array([wall]))["normal"][0]
    return np.asarray(matrices(state.orientation[[wall]])[0] @ own)


def facing(scene: Scene, state: State, wall: int) -> int | None:
    """The one wall that faces another across the box; None if there is none, or several."""
    table = scene.bodies.table(HalfSpace)
    normal = outward(scene, state, wall)
    found = [
        int(k)
        for k in (() if table is None else table.body)
        if outward(scene, state, int(k)) @ normal < -1.0 + _ALIKE
    ]
    return found[0] if len(found) == 1 else None


def span(scene: Scene, state: State, wall: int) -> float | None:
    """Distance of a wall from the one that it faces, m; None if it faces none."""
    other = facing(scene, state, wall)
    if other is None:
        return None
    away = state.position[other] - state.position[wall]
    return float(away @ outward(scene, state, wall))


def pairs(scene: Scene, state: State) -> list[tuple[int, int]]:
    """Walls that face each other, the smaller number first, perpendicular pair by pair.

    Raises
    ------
    InvalidInput : the walls do not make a box.
    """
    table = scene.bodies.table(HalfSpace)
    known = [] if table is None else [int(k) for k in table.body]
    found = [(k, other) for k in known if (other := facing(scene, state, k)) and k < other]
    normals = np.array([outward(scene, state, k) for k, _ in found]).reshape(-1, scene.dim)
    square = np.abs(normals @ normals.T - np.eye(len(found))).max(initial=0.0) <= _ALIKE
    if len(found) != scene.dim or 2 * len(found) != len(known) or not square:
        expected = f"{scene.dim} pairs of walls that face each other, at right angles"
        raise InvalidInput("scene", f"{len(known)} walls, {len(found)} pairs", expected)
    return found


def area(scene: Scene, state: State, wall: int) -> float | None:
    """Of the part of a wall that other walls cut out, m²; in the plane times 1 m of depth.

    None where the walls beside it do not make a rectangle.
    """
    table = scene.bodies.table(HalfSpace)
    normal = outward(scene, state, wall)
    sides: list[FloatArray] = []
    result = 1.0
    for k in () if table is None else table.body:
        along = outward(scene, state, int(k))
        wide = span(scene, state, int(k))
        if abs(along @ normal) > 1.0 - _ALIKE:
            continue
        if wide is None or max((abs(along @ side) for side in [normal]), default=0.0) > _ALIKE:
            return None
        new = [abs(along @ side) for side in sides]
        if any(c > 1.0 - _ALIKE for c in new):
            continue
        if any(c > _ALIKE for c in new):
            return None
        sides.append(along)
        result *= wide
    return result if len(sides) == scene.dim - 1 else None


def pressure_force(scene: Scene, found: Equilibrium, wall: int) -> float:
    """What bodies press a wall with, against its normal, N."""
    contacts, normal = found.contacts, outward(scene, found.state, wall)
    total = 0.0
    for side, sign in ((0, 1.0), (1, -1.0)):
        mine = contacts.bodies[:, side] == wall
        total += sign * float(found.forces[mine] @ (contacts.normals[mine] @ normal))
    return total


def shifted(scene: Scene, state: State, wall: int, way: float) -> State:
    """The state with a wall moved by ``way`` m along its normal, free bodies at rest."""
    q = np.array(state.q)
    q[wall, : scene.dim] += way * outward(scene, state, wall)
    return State(state.t, q, np.zeros_like(state.v))
