"""Narrow phase: gaps, normals and points of pairs of shapes, many pairs at a time.

One function per pair of kinds, in a table keyed by the two classes: a new shape adds its
functions to GAPS. A gap is the distance of the surfaces along the normal, m; negative is
penetration.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from cdopt.checks import FloatArray, IntArray
from cdopt.errors import Unsupported
from cdopt.scene.bodies import Bodies
from cdopt.scene.frozen import Frozen
from cdopt.scene.rotations import matrices
from cdopt.scene.shapes import SHAPES, Box, HalfSpace, Shape, Sphere
from cdopt.scene.state import State

_ON_SURFACE = 1e-12  # of the box: a centre nearer than this has no direction to its surface


@dataclass(frozen=True, eq=False)
class Gaps(Frozen):
    """Contact points of pairs of bodies.

    Attributes
    ----------
    bodies : (nc, 2) body numbers. phi : (nc,) gaps, m.
    normals : (nc, dim) unit vectors from the first body to the second.
    points : (nc, dim) m, halfway across the gap.
    feature : (nc,) which of several contact points of the pair.
    """

    bodies: IntArray
    phi: FloatArray
    normals: FloatArray
    points: FloatArray
    feature: IntArray

    def select(self, index: IntArray) -> Gaps:
        """These contact points, in this order."""
        return Gaps(
            bodies=self.bodies[index],
            phi=self.phi[index],
            normals=self.normals[index],
            points=self.points[index],
            feature=self.feature[index],
        )


PairFunction = Callable[[Bodies, State, IntArray, IntArray], Gaps]


def sphere_sphere(bodies: Bodies, state: State, a: IntArray, b: IntArray) -> Gaps:
    """Distance of centres less the radii; concentric spheres part along the first axis."""
    x = state.position
    radius = bodies.reach
    arm = x[b] - x[a]
    distance = np.linalg.norm(arm, axis=1)
    apart = distance > 0.0
    normal = arm / np.where(apart, distance, 1.0)[:, None]
    normal[~apart, 0] = 1.0
    phi = distance - radius[a] - radius[b]
    points = x[a] + normal * (radius[a] + 0.5 * phi)[:, None]
    return _gaps(a, b, phi, normal, points)


def sphere_half_space(bodies: Bodies, state: State, a: IntArray, b: IntArray) -> Gaps:
    """Height of the centre over the plane less the radius."""
    x = state.position
    out = _outward(bodies, state, b)
    radius = bodies.reach[a]
    height = ((x[a] - x[b]) * out).sum(axis=1)
    points = x[a] - out * (0.5 * (height + radius))[:, None]
    return _gaps(a, b, height - radius, -out, points)


def sphere_box(bodies: Bodies, state: State, a: IntArray, b: IntArray) -> Gaps:
    """Distance to the box's nearest point less the radius; from inside, to the nearest face."""
    x = state.position
    half = 0.5 * bodies.shape_columns(Box, b)["size"]
    frame = matrices(state.orientation[b])
    local = np.einsum("nji,nj->ni", frame, x[a] - x[b])
    nearest = np.clip(local, -half, half)
    out = local - nearest
    distance = np.linalg.norm(out, axis=1)
    inside = distance <= _ON_SURFACE * half.max(axis=1)
    out /= np.where(inside, 1.0, distance)[:, None]
    k = np.flatnonzero(inside)
    axis = np.argmin(half[k] - np.abs(local[k]), axis=1)
    side = np.where(local[k, axis] < 0.0, -1.0, 1.0)
    out[k] = 0.0
    out[k, axis] = side
    nearest[k, axis] = side * half[k, axis]
    distance[k] = np.abs(local[k, axis]) - half[k, axis]
    normal = -np.einsum("nij,nj->ni", frame, out)
    phi = distance - bodies.reach[a]
    points = x[b] + np.einsum("nij,nj->ni", frame, nearest) - normal * (0.5 * phi)[:, None]
    return _gaps(a, b, phi, normal, points)


def box_half_space(bodies: Bodies, state: State, a: IntArray, b: IntArray) -> Gaps:
    """Heights of the corners over the plane; feature bit k tells the side along axis k."""
    dim = bodies.dim
    x = state.position
    half = 0.5 * bodies.shape_columns(Box, a)["size"]
    frame = matrices(state.orientation[a])
    corner = np.arange(2**dim)
    signs = np.where((corner[:, None] >> np.arange(dim)) & 1, 1.0, -1.0)
    local = signs[None, :, :] * half[:, None, :]
    place = (x[a][:, None, :] + np.einsum("nij,ncj->nci", frame, local)).reshape(-1, dim)
    a, b = np.repeat(a, corner.size), np.repeat(b, corner.size)
    out = _outward(bodies, state, b)
    phi = ((place - x[b]) * out).sum(axis=1)
    feature = np.tile(corner, a.size // corner.size)
    return _gaps(a, b, phi, -out, place - out * (0.5 * phi)[:, None], feature)


def box_box(bodies: Bodies, state: State, a: IntArray, b: IntArray) -> Gaps:
    """Largest separation along the axes of the boxes; a bound from below, and no contact point."""
    x = state.position
    frames = [matrices(state.orientation[who]) for who in (a, b)]
    halves = [0.5 * bodies.shape_columns(Box, who)["size"] for who in (a, b)]
    axes = [frame.transpose(0, 2, 1) for frame in frames]
    if bodies.dim == 3:
        cross = np.cross(axes[0][:, :, None, :], axes[1][:, None, :, :]).reshape(a.size, 9, 3)
        length = np.linalg.norm(cross, axis=2, keepdims=True)
        parallel = length < 1e-9
        axes.append(np.where(parallel, axes[0][:, :1, :], cross / np.where(parallel, 1.0, length)))
    axis = np.concatenate(axes, axis=1)
    along = np.einsum("nkd,nd->nk", axis, x[b] - x[a])
    extents = [
        np.einsum("nke,ne->nk", np.abs(np.einsum("nkd,nde->nke", axis, frame)), half)
        for frame, half in zip(frames, halves, strict=True)
    ]
    separation = np.abs(along) - extents[0] - extents[1]
    rows, best = np.arange(a.size), separation.argmax(axis=1)
    normal = axis[rows, best] * np.where(along[rows, best] < 0.0, -1.0, 1.0)[:, None]
    return _gaps(a, b, separation[rows, best], normal, 0.5 * (x[a] + x[b]))


GAPS: dict[tuple[type[Shape], type[Shape]], PairFunction] = {
    (Sphere, Sphere): sphere_sphere,
    (Sphere, HalfSpace): sphere_half_space,
    (Sphere, Box): sphere_box,
    (Box, HalfSpace): box_half_space,
}
# pairs whose distance is known and whose contact points are not, yet
SEPARATIONS: dict[tuple[type[Shape], type[Shape]], PairFunction] = {(Box, Box): box_box}


def gaps(bodies: Bodies, state: State, pairs: IntArray, margin: float) -> Gaps:
    """Contact points of these pairs with gaps up to ``margin``, by body numbers and feature.

    Parameters
    ----------
    pairs : (np, 2) different pairs with i < j.
    margin : m.

    Raises
    ------
    Unsupported : two bodies within the margin whose shapes have no contact points yet.
    """
    found = [_empty(bodies.dim)]
    for function, a, b, known in _by_kind(bodies, pairs):
        part = function(bodies, state, a, b)
        near = np.flatnonzero(part.phi <= margin)
        if near.size and not known:
            first, second = part.bodies[near[0]]
            raise Unsupported(
                f"contact of {bodies.label(min(first, second))} with "
                f"{bodies.label(max(first, second))}",
                f"boxes do not touch boxes yet, and these are within {margin:.3g} m",
            )
        found.append(part.select(near))
    return ordered(found)


def overlaps(bodies: Bodies, state: State, pairs: IntArray) -> Gaps:
    """Like ``gaps``, of the pairs that overlap, those of SEPARATIONS included."""
    found = [_empty(bodies.dim)]
    for function, a, b, _ in _by_kind(bodies, pairs):
        part = function(bodies, state, a, b)
        found.append(part.select(np.flatnonzero(part.phi < 0.0)))
    return ordered(found)


def ordered(found: list[Gaps]) -> Gaps:
    """Everything found, first body numbers smaller than second, in lexicographic order."""
    bodies = np.concatenate([part.bodies for part in found])
    normals = np.concatenate([part.normals for part in found])
    feature = np.concatenate([part.feature for part in found])
    swap = bodies[:, 0] > bodies[:, 1]
    bodies[swap] = bodies[swap, ::-1]
    normals[swap] *= -1.0
    normals += 0.0  # no negative zeros
    together = Gaps(
        bodies=bodies,
        phi=np.concatenate([part.phi for part in found]),
        normals=normals,
        points=np.concatenate([part.points for part in found]),
        feature=feature,
    )
    return together.select(np.lexsort((feature, bodies[:, 1], bodies[:, 0])))


def _by_kind(
    bodies: Bodies, pairs: IntArray
) -> list[tuple[PairFunction, IntArray, IntArray, bool]]:
    """Functions, first and second bodies in the order the function wants, and if it is of GAPS."""
    count = len(SHAPES)
    kinds = bodies.kind[pairs]
    key = kinds[:, 0] * count + kinds[:, 1]
    chosen = []
    for value in np.unique(key):
        first, second = SHAPES[value // count], SHAPES[value % count]
        i, j = pairs[key == value].T
        if (first, second) in (GAPS | SEPARATIONS):
            a, b = i, j
        else:
            first, second, a, b = second, first, j, i
        known = (first, second) in GAPS
        chosen.append(((GAPS if known else SEPARATIONS)[first, second], a, b, known))
    return chosen


def _gaps(
    a: IntArray,
    b: IntArray,
    phi: FloatArray,
    normals: FloatArray,
    points: FloatArray,
    feature: IntArray | None = None,
) -> Gaps:
    marks = np.zeros(a.size, dtype=np.int64) if feature is None else feature
    return Gaps(np.column_stack([a, b]), phi, normals, points, marks)


def _empty(dim: int) -> Gaps:
    none = np.empty(0, dtype=np.int64)
    return _gaps(none, none, np.empty(0), np.empty((0, dim)), np.empty((0, dim)))


def _outward(bodies: Bodies, state: State, b: IntArray) -> FloatArray:
    """Normals (n, dim) of half-spaces out of the solid, in the global frame."""
    normal = bodies.shape_columns(HalfSpace, b)["normal"]
    return np.asarray(np.einsum("nij,nj->ni", matrices(state.orientation[b]), normal))
