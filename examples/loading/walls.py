"""Walls of a box: opposite pairs, their distance, and the forces on them."""

from __future__ import annotations

import numpy as np

from cdopt import InvalidInput
from cdopt._util import checks
from cdopt.dynamics import Equilibrium
from cdopt.geometry.rotations import matrices
from cdopt.scene import HalfSpace, Scene, State

ALIKE = 1e-9  # of a unit vector: directions that count as the same


def walls(scene: Scene) -> list[int]:
    """Numbers of the half-spaces."""
    table = scene.bodies.table(HalfSpace)
    return [] if table is None else [int(k) for k in table.body]


def wall_number(scene: Scene, name: str, wall: object) -> int:
    """The number of a half-space given by number or by name.

    Raises
    ------
    InvalidInput : ``name``, the argument, is no half-space of the scene, or two of one name.
    """
    known = walls(scene)
    if isinstance(wall, str):
        named = [k for k in known if scene.bodies.names[k] == wall]
        if len(named) == 1:
            return named[0]
    elif isinstance(wall, int | np.integer) and not isinstance(wall, bool) and wall in known:
        return int(wall)
    labels = ", ".join(map(scene.bodies.label, known)) or "none: the scene has no walls"
    raise InvalidInput(name, checks.describe(wall), f"the name or number of a wall, of {labels}")


def outward(scene: Scene, state: State, wall: int) -> np.ndarray:
    """(dim,) normal of a wall, towards the bodies."""
    normal = scene.bodies.shape_columns(HalfSpace, np.array([wall]))["normal"][0]
    return matrices(state.orientation[[wall]])[0] @ normal


def facing(scene: Scene, state: State, wall: int) -> int | None:
    """The one wall that faces another across the box; None if there is none, or several."""
    normal = outward(scene, state, wall)
    others = [k for k in walls(scene) if outward(scene, state, k) @ normal < -1.0 + ALIKE]
    return others[0] if len(others) == 1 else None


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
    known = walls(scene)
    pairs = [(k, other) for k in known if (other := facing(scene, state, k)) and k < other]
    normals = np.array([outward(scene, state, k) for k, _ in pairs]).reshape(-1, scene.dim)
    square = np.abs(normals @ normals.T - np.eye(len(pairs))).max(initial=0.0) <= ALIKE
    if len(pairs) != scene.dim or 2 * len(pairs) != len(known) or not square:
        expected = f"{scene.dim} pairs of walls that face each other, at right angles"
        raise InvalidInput("scene", f"{len(known)} walls, {len(pairs)} pairs", expected)
    return pairs


def area(scene: Scene, state: State, wall: int) -> float | None:
    """Of the part of a wall that other walls cut out, m²; in the plane times 1 m of depth.

    None where the walls next to it do not make a rectangle.
    """
    normal = outward(scene, state, wall)
    known = [(outward(scene, state, k), span(scene, state, k)) for k in walls(scene)]
    others = [(n, wide) for n, wide in known if abs(n @ normal) < 1.0 - ALIKE]
    # one wall of each pair, by the direction of its normal
    sides = [(n, wide) for n, wide in others if n[np.abs(n).argmax()] > 0.0]
    normals = np.array([normal, *(n for n, _ in sides)])
    square = np.abs(normals @ normals.T - np.eye(len(normals))).max() <= ALIKE
    widths = [wide for _, wide in sides if wide is not None]
    if not square or len(others) != 2 * len(widths) or len(widths) != scene.dim - 1:
        return None
    return float(np.prod(widths))


def pressure_force(scene: Scene, rest: Equilibrium, wall: int) -> float:
    """The force of the bodies on a wall, against its normal, N."""
    contacts, normal = rest.contacts, outward(scene, rest.state, wall)
    total = 0.0
    for side, sign in ((0, 1.0), (1, -1.0)):
        mine = contacts.bodies[:, side] == wall
        total += sign * float(rest.forces[mine] @ (contacts.normals[mine] @ normal))
    return total


def shifted(scene: Scene, state: State, wall: int, way: float) -> State:
    """The state with a wall moved by ``way`` m along its normal, free bodies at rest."""
    q = np.array(state.q)
    q[wall, : scene.dim] += way * outward(scene, state, wall)
    return State(state.t, q, np.zeros_like(state.v))
