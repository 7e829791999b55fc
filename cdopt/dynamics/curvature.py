"""Curvature of the elastic energy in exact geometry: Newton's last steps, and stability.

    ∇²E = Bᵀ w″(−Φ) B − Σ w′(−Φ) ∇²Φ

The second term, which convex passes leave out, softens what pushes: of two spheres a distance ρ
apart ∇²Φ = (1 − nnᵀ)/ρ on their relative displacement; of a sphere and a half-space it is zero.
Where the whole is not positive semidefinite, bodies in balance do not stay there: they buckle.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from scipy.sparse.linalg import eigsh, splu

from cdopt._util.checks import FloatArray
from cdopt.collision import Contacts
from cdopt.dynamics.unknowns import Unknowns
from cdopt.problem.contact_law import HOOKE, PowerLaw
from cdopt.scene import SHAPES, HalfSpace, Sphere, State

_SHIFT = 1e-9  # of the stiffest contact: what keeps loose bodies from making it singular
_SOFT = 1e-8  # of the same: a curvature below minus this is negative
_DENSE = 400  # dofs up to which eigenvalues are found densely


@dataclass(frozen=True, eq=False)
class Curvature:
    """∇²E at one state.

    Attributes
    ----------
    matrix : (nv, nv) N/m. stiffest : w″ of the stiffest contact, N/m.
    least : no eigenvalue is below, N/m.
    """

    matrix: sp.csc_array
    stiffest: float
    least: float

    def step(self, unbalanced: FloatArray) -> FloatArray | None:
        """Newton's step (nv,) where the energy is convex, else None."""
        shifted = self._shifted(_SHIFT)
        factor = _factor(shifted)
        if factor is None or np.any(factor.U.diagonal() <= 0.0):
            return None
        return np.asarray(factor.solve(unbalanced))

    @property
    def stable(self) -> bool:
        """Whether no direction has negative curvature, contacts that just touch left out."""
        factor = _factor(self._shifted(_SOFT))
        if factor is None:
            return bool(self.softest()[0] >= -_SOFT * self.stiffest)
        return bool(np.all(factor.U.diagonal() > 0.0))

    def softest(self) -> tuple[float, FloatArray]:
        """The least curvature, N/m, and its direction (nv,) of length 1."""
        size = self.matrix.shape[0]
        if size <= _DENSE:
            values, vectors = np.linalg.eigh(self.matrix.toarray())
        else:
            start = np.cos(np.arange(size))  # of all directions something, always the same
            below = 1.01 * self.least - _SOFT * self.stiffest
            values, vectors = eigsh(self.matrix, k=1, sigma=below, v0=start, tol=1e-6)
        way = vectors[:, 0]
        return float(values[0]), np.asarray(way * np.sign(way[np.argmax(np.abs(way))]))

    def _shifted(self, share: float) -> sp.csc_array:
        size = self.matrix.shape[0]
        unit = self.stiffest or 1.0
        return sp.csc_array(self.matrix + sp.eye_array(size) * (share * unit))


def curvature(
    unknowns: Unknowns, state: State, contacts: Contacts, B: sp.csr_array, forces: FloatArray,
    power: float,
) -> Curvature | None:  # fmt: skip
    """∇²E; None where contacts that push are of other shapes than spheres and half-spaces."""
    steep = slope(contacts, power)
    loaded = np.flatnonzero(forces != 0.0)
    kind = unknowns.scene.bodies.kind[contacts.bodies[loaded]]
    round_ = kind == SHAPES.index(Sphere)
    if not np.all(round_ | (kind == SHAPES.index(HalfSpace))):
        return None
    pairs = loaded[round_.all(axis=1)]
    matrix, least = B.T @ sp.diags_array(steep) @ B, 0.0
    if pairs.size:
        rotating = _rotating(unknowns, state, contacts, pairs, forces[pairs])
        matrix, least = matrix - rotating, -float(abs(rotating).sum(axis=1).max())
    return Curvature(sp.csc_array(matrix), float(steep.max(initial=0.0)), least)


def slope(contacts: Contacts, power: float) -> FloatArray:
    """w″(−Φ) (nc,) of contacts, N/m."""
    overlap = np.maximum(-contacts.phi, 0.0)
    if power == HOOKE:
        return np.where((overlap > 0.0) | contacts.bonded, contacts.stiffness, 0.0)
    return PowerLaw(contacts.stiffness, power).tangent(overlap)


def _rotating(
    unknowns: Unknowns, state: State, contacts: Contacts, pairs: np.ndarray, forces: FloatArray
) -> sp.csr_array:
    """Σ w′ ∇²Φ (nv, nv) of contacts between spheres."""
    dim, number = unknowns.scene.dim, unknowns.dofs.number
    i, j = contacts.bodies[pairs].T
    apart = np.linalg.norm(state.position[j] - state.position[i], axis=1)
    n = contacts.normals[pairs]
    across = np.eye(dim)[None] - n[:, :, None] * n[:, None, :]
    block = across * (forces / apart)[:, None, None]
    size = unknowns.lever.size
    rows, cols, data = [], [], []
    for a, b, sign in ((i, i, 1.0), (j, j, 1.0), (i, j, -1.0), (j, i, -1.0)):
        row = np.broadcast_to(number[a, :dim][:, :, None], block.shape)
        col = np.broadcast_to(number[b, :dim][:, None, :], block.shape)
        free = (row >= 0) & (col >= 0)
        rows.append(row[free])
        cols.append(col[free])
        data.append(sign * block[free])
    entries = np.concatenate(data), (np.concatenate(rows), np.concatenate(cols))
    return sp.csr_array(sp.coo_array(entries, shape=(size, size)))


def _factor(matrix: sp.csc_array) -> Any:
    """L D Lᵀ as L U without pivoting, whose diagonal tells the signs of eigenvalues, or None."""
    try:
        found = splu(
            matrix, permc_spec="MMD_AT_PLUS_A", diag_pivot_thresh=0.0,
            options={"SymmetricMode": True},
        )  # fmt: skip
    except RuntimeError:  # exactly singular
        return None
    return found if np.array_equal(found.perm_r, found.perm_c) else None
