"""Mass properties: volume, centroid and second moments of solids of uniform density.

Mirtich, B., Fast and accurate computation of polyhedral mass properties, Journal of Graphics
Tools 1 (1996); here by tetrahedra.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.spatial.transform import Rotation

from cdopt._util.checks import FloatArray
from cdopt._util.frozen import Frozen
from cdopt.geometry.polytope import Polytope, cross

_ALIKE = 1e-12  # relative: principal moments, or off-diagonal terms, that count as none


@dataclass(frozen=True, eq=False)
class MassProperties(Frozen):
    """Mass properties of a solid of density 1.

    Attributes
    ----------
    volume : m³; in the plane area × 1 m of depth.
    centroid : (dim,) m.
    second : (dim, dim) second moments ∫ x xᵀ dV about the centroid, m⁵; in the plane m⁴ × 1 m.
    """

    volume: float
    centroid: FloatArray
    second: FloatArray

    def placed(self, rotation: FloatArray, shift: FloatArray) -> MassProperties:
        """The solid turned by a rotation matrix, then shifted by (dim,) m."""
        second = rotation @ self.second @ rotation.T
        return MassProperties(self.volume, rotation @ self.centroid + shift, second)

    def scaled(self, density: float) -> MassProperties:
        """With another density."""
        return MassProperties(density * self.volume, self.centroid, density * self.second)

    def inertia(self) -> FloatArray:
        """Per mass, about the centroid: (1, 1) in the plane or (3, 3), m²."""
        spread = self.second / self.volume
        trace = np.trace(spread)
        return np.array([[trace]]) if spread.shape[0] == 2 else trace * np.eye(3) - spread


def of_polytope(solid: Polytope) -> MassProperties:
    """Mass properties of a polygon or a polyhedron, by triangles or tetrahedra."""
    if solid.dim == 2:
        x = solid.vertices[[first for first, _ in solid.loops]]
        a, b = x[1:-1] - x[0], x[2:] - x[0]
        return _of_simplices(x[0], 0.5 * (a[:, 0] * b[:, 1] - a[:, 1] * b[:, 0]), (a, b))
    middle = solid.vertices.mean(axis=0)
    a, b, c = ((solid.vertices - middle)[solid.triangles[:, k]] for k in range(3))
    return _of_simplices(middle, (cross(a, b) * c).sum(axis=1) / 6.0, (a, b, c))


def of_capsule(radius: float, length: float, dim: int) -> MassProperties:
    """Mass properties of a capsule along the first axis, ``length`` m between its end centres."""
    r, half = radius, 0.5 * length
    if dim == 2:
        bar, ends, lever = 2.0 * r * length, np.pi * r**2, 4.0 * r / (3.0 * np.pi)
        along = bar * length**2 / 12.0 + ends * (0.25 * r**2 + half**2 + 2.0 * half * lever)
        across = bar * r**2 / 3.0 + ends * 0.25 * r**2
    else:
        bar, ends, lever = np.pi * r**2 * length, 4.0 / 3.0 * np.pi * r**3, 0.375 * r
        along = bar * length**2 / 12.0 + ends * (0.2 * r**2 + half**2 + 2.0 * half * lever)
        across = bar * 0.25 * r**2 + ends * 0.2 * r**2
    return MassProperties(bar + ends, np.zeros(dim), np.diag([along] + [across] * (dim - 1)))


def combined(parts: Sequence[MassProperties]) -> MassProperties:
    """Mass properties of several solids as one; where they overlap, mass counts twice."""
    volume = sum(part.volume for part in parts)
    centroid = np.asarray(sum(part.volume * part.centroid for part in parts) / volume)
    second = np.zeros((centroid.size, centroid.size))
    for part in parts:
        arm = part.centroid - centroid
        second += part.second + part.volume * np.outer(arm, arm)
    return MassProperties(float(volume), centroid, second)


def principal_axes(inertia: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Principal moments (3,), and the unit quaternion (4,) from the principal to the given axes.

    A matrix that is diagonal to round-off keeps its axes.
    """
    diagonal = np.diag(inertia)
    off = np.abs(inertia - np.diag(diagonal)).max()
    if off <= _ALIKE * diagonal.max():
        return diagonal.copy(), np.array([1.0, 0.0, 0.0, 0.0])
    moments, axes = np.linalg.eigh(inertia)
    if np.ptp(moments) <= _ALIKE * moments.max():
        return np.full(3, moments.mean()), np.array([1.0, 0.0, 0.0, 0.0])
    axes[:, 0] *= np.sign(np.linalg.det(axes))
    quaternion = Rotation.from_matrix(axes).as_quat(canonical=True)
    return moments, quaternion[[3, 0, 1, 2]]


def _of_simplices(
    origin: FloatArray, volume: FloatArray, edges: tuple[FloatArray, ...]
) -> MassProperties:
    """Of simplices with volumes (n,) and with edges (n, dim) each from a common ``origin``."""
    dim, total, s = len(edges), volume.sum(), sum(edges)
    arm = (volume[:, None] * s).sum(axis=0) / ((dim + 1) * total)
    second = sum(np.einsum("k,ki,kj->ij", volume, y, y) for y in (*edges, s))
    second = np.asarray(second) / ((dim + 1) * (dim + 2)) - total * np.outer(arm, arm)
    return MassProperties(float(total), origin + arm, second)
