"""Generalised inverses of X M⁻¹ Yᵀ for sparse rows X and Y, by one system of M's size.

With A = YᵀX + ε M and rows of unit length, X A⁻¹ M A⁻¹ Yᵀ is the inverse on the range of X: rows
that depend on others get no forces that cancel. Of singular values below ε it is a share, so that
results need iterative refinement.

A symmetric system of many rows, or one that is needed once, is solved by conjugate gradients as
long as these converge: piles in space fill the factors, but are well conditioned. Slender
structures are not, but fill little. Of a large system whose factors fill the last iterate is used:
modes of a few nearly dependent rows converge early.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp
from scipy.sparse.csgraph import reverse_cuthill_mckee
from scipy.sparse.linalg import splu

from cdopt._util.cached import cached_property
from cdopt._util.checks import FloatArray
from cdopt._util.compiled import compiled
from cdopt._util.sparse_rows import Rows, csr_parts, multiply_rows
from cdopt.problem.scaling import rows_of, scaled, total_by

_LEAST = 1e-14  # of unit rows: singular values squared that belong to a force
_FEW = 1500  # rows of a system that is factorised at once
LARGE, _FILL = 3_000, 100  # rows of a large system, and most entries of each in its factors
_PASSES, _LEFT, _ROUGH = 400, 1e-11, 1e-1  # of conjugate gradients; residuals, also of an estimate
# random errors, and what their effect is multiplied by, as that of one in a glance
_PROBES, _SAFE, _AT_A_GLANCE = 4, 10.0, 5.0


class SparseInverse:
    """Forces along the columns of G (n, k) that change the rates R g (k,) by given ones.

    Parameters
    ----------
    R, G : (k, m) the rows R B and Gᵀ B, over √m of each dof.
    mass : (m, m) M, over √m on both sides.
    dt : the time step, 1 where forces deliver a load.
    between : G (n, k), and R (k, n), which map results and arguments; by default neither.
    """

    def __init__(
        self,
        R: sp.csr_array,
        G: sp.csr_array,
        mass: sp.csr_array,
        dt: float = 1.0,
        between: tuple[Any, Any] | None = None,
    ) -> None:
        self.symmetric, self.mass, self.between = R is G, mass, between
        X, across = _unit_rows(R)
        Y, along = (X, across) if self.symmetric else _unit_rows(G)
        self.pair, self.across, self.along = (sp.csr_array(Y.T), X), across, along * dt
        self.factor: Any = None
        self.iterates = self.symmetric and mass.shape[0] > _FEW

    def __matmul__(self, rates: FloatArray) -> FloatArray:
        return self.times(rates)

    def times(self, rates: FloatArray, tol: float = _LEFT) -> FloatArray:
        """(n,) changes of forces for changes of rates (n,), those by iterations only to ``tol``."""
        rates = rates if self.between is None else self.between[1] @ rates
        motion = self._solve(self.pair[0] @ (rates / self.across))
        result = self._along(self.mass @ motion, tol)
        return result if self.between is None else np.asarray(self.between[0] @ result)

    def delivering(self, load: FloatArray) -> FloatArray:
        """(k,) the forces along G whose load is (m,), over √m of each dof."""
        self.iterates = self.symmetric and self.factor is None
        return self._along(load)

    def _along(self, load: FloatArray, tol: float = _LEFT) -> FloatArray:
        """(k,) the forces of the rows of X A⁻¹."""
        return np.asarray(self.pair[1] @ self._solve(load, tol)) / self.along

    def _solve(self, rhs: FloatArray, tol: float = _LEFT) -> FloatArray:
        """x (m,) with A x = rhs."""
        if self.iterates:
            room, image = np.zeros((4, rhs.size)), np.empty(self.pair[1].shape[0])
            if _conjugate_gradients(*self._rows, rhs, tol, room, image) or self.fills:
                return room[0]
            self.iterates = False
        if self.factor is None:
            order: dict[str, Any] = {"permc_spec": "COLAMD"}
            if self.symmetric:
                order |= {"diag_pivot_thresh": 0.0, "options": {"SymmetricMode": True}}
            YT, X = self.pair
            self.factor = splu(sp.csc_array(YT @ X + _LEAST * self.mass), **order)
        return np.asarray(self.factor.solve(rhs))

    @cached_property
    def _rows(self) -> tuple[Rows, Rows]:
        """X and Yᵀ for compiled loops."""
        YT, X = self.pair
        return csr_parts(X), csr_parts(YT)

    @cached_property
    def fills(self) -> bool:
        """Whether a large system is not factorised, by its envelope."""
        m = self.mass.shape[0]
        if m <= LARGE:
            return False
        YT, X = self.pair
        A = sp.coo_array(YT @ X)
        place = np.empty(m, dtype=np.intp)
        place[reverse_cuthill_mckee(sp.csr_array(A))] = np.arange(m)
        first = np.arange(m)
        np.minimum.at(first, place[A.row], place[A.col])
        return bool(np.mean(np.arange(m) - first) > _FILL)

    def glance(self, noise: FloatArray) -> FloatArray | None:
        """As ``spread``, by one vector; None where conjugate gradients do not converge."""
        before, self.iterates = self.iterates, self.symmetric
        change = self.times(noise * np.random.default_rng(0).standard_normal(noise.size), _ROUGH)
        converged, self.iterates = self.iterates, before and self.iterates
        return _AT_A_GLANCE * np.abs(change) if converged else None

    def spread(self, noise: FloatArray) -> FloatArray:
        """(n,) what errors of rates of the sizes ``noise`` (n,) change: an estimate by random ones.

        Ten times the root mean square of the changes by four vectors of normal numbers.
        """
        errors = noise * np.random.default_rng(0).standard_normal((_PROBES, noise.size))
        changes = [self @ some for some in errors]
        return _SAFE * np.sqrt(np.mean(np.square(changes), axis=0))


def _unit_rows(A: sp.csr_array) -> tuple[sp.csr_array, FloatArray]:
    """The rows of A (k, m) over their lengths, and these (k,); one for a row of zeros."""
    length = np.sqrt(total_by(rows_of(A), A.data**2, A.shape[0]))
    length = np.where(length > 0.0, length, 1.0)
    return scaled(A, 1.0 / length), length


@compiled()
def _conjugate_gradients(
    X: Rows, YT: Rows, rhs: FloatArray, tol: float, room: FloatArray, image: FloatArray
) -> bool:
    """Whether they converge to room[0] = x (m,) with YᵀX x = rhs, an x that rows can cause.

    The residual falls by ``tol``. ``room`` (4, m) is zero, ``image`` (k,) is workspace.
    """
    x, left, way, pushed = room[0], room[1], room[2], room[3]
    size = 0.0
    for i in range(rhs.size):
        left[i] = way[i] = rhs[i]
        size += rhs[i] * rhs[i]
    enough = tol * tol * size
    for _ in range(_PASSES):
        if size <= enough:
            return True
        multiply_rows(np.uint32(0), np.uint32(image.size), way, image, *X)
        multiply_rows(np.uint32(0), np.uint32(x.size), image, pushed, *YT)
        curvature, length, last, size = 0.0, 0.0, size, 0.0
        for i in range(x.size):
            curvature += way[i] * pushed[i]
            length += way[i] * way[i]
        if not curvature > _LEAST * length:  # no rows cause the rest
            return False
        step = last / curvature
        for i in range(x.size):
            x[i] += step * way[i]
            left[i] -= step * pushed[i]
            size += left[i] * left[i]
        for i in range(x.size):
            way[i] = left[i] + size / last * way[i]
    return False
