"""Generalised inverses of X M⁻¹ Yᵀ for sparse rows X and Y, by one system of M's size.

With A = YᵀX + ε M and rows of unit length, X A⁻¹ M A⁻¹ Yᵀ is the inverse on the range of X: rows
that depend on others get no forces that cancel. Of singular values below ε it is a share, so that
results need iterative refinement.

A symmetric system of many rows, or one that is needed once, is solved by conjugate gradients as
long as these converge: piles in space fill the factors, but are well conditioned. Slender
structures are not, but fill little.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.sparse as sp
from scipy.sparse.linalg import splu

from cdopt._util.checks import FloatArray
from cdopt.problem.scaling import scaled

_LEAST = 1e-14  # of unit rows: singular values squared that belong to a force
_FEW = 1500  # rows of a system that is factorised at once
_PASSES, _LEFT = 400, 1e-11  # of conjugate gradients, and their residual
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
        (X, across), (Y, along) = _unit_rows(R), _unit_rows(G)
        self.mass, self.pair = mass, (sp.csr_array(Y.T), X)
        self.factor: Any = None
        self.symmetric = R is G
        self.iterates = self.symmetric and mass.shape[0] > _FEW
        every = sp.eye_array(R.shape[0], format="csr")
        out, into = between or (every, every)
        self.X = sp.csr_array(out @ scaled(X, 1.0 / (along * dt)))
        self.Y = sp.csr_array(scaled(Y, 1.0 / across).T @ into)

    def times(self, rates: FloatArray) -> FloatArray:
        """(n,) changes of forces for changes of rates (n,)."""
        return np.asarray(self.X @ self._solve(self.mass @ self._solve(self.Y @ rates)))

    def delivering(self, load: FloatArray) -> FloatArray:
        """(n,) the forces whose load is (m,), over √m of each dof."""
        self.iterates = self.symmetric and self.factor is None
        return np.asarray(self.X @ self._solve(load))

    def _solve(self, rhs: FloatArray) -> FloatArray:
        """x (m,) with A x = rhs."""
        if self.iterates:
            result = _conjugate_gradients(self._product, rhs)
            if result is not None:
                return result
            self.iterates = False
        if self.factor is None:
            order: dict[str, Any] = {"permc_spec": "COLAMD"}
            if self.symmetric:
                order |= {"diag_pivot_thresh": 0.0, "options": {"SymmetricMode": True}}
            YT, X = self.pair
            self.factor = splu(sp.csc_array(YT @ X + _LEAST * self.mass), **order)
        return np.asarray(self.factor.solve(rhs))

    def _product(self, x: FloatArray) -> FloatArray:
        """A x (m,) of an x that rows can cause, so that ε M does not count."""
        YT, X = self.pair
        return np.asarray(YT @ (X @ x))

    def glance(self, noise: FloatArray) -> FloatArray | None:
        """As ``spread``, by one vector; None where conjugate gradients do not converge."""
        before, self.iterates = self.iterates, self.symmetric
        change = self.times(noise * np.random.default_rng(0).standard_normal(noise.size))
        converged, self.iterates = self.iterates, before and self.iterates
        return _AT_A_GLANCE * np.abs(change) if converged else None

    def spread(self, noise: FloatArray) -> FloatArray:
        """(n,) what errors of rates of the sizes ``noise`` (n,) change: an estimate by random ones.

        Ten times the root mean square of the changes by four vectors of normal numbers.
        """
        errors = noise * np.random.default_rng(0).standard_normal((_PROBES, noise.size))
        changes = [self.times(some) for some in errors]
        return _SAFE * np.sqrt(np.mean(np.square(changes), axis=0))


class DenseInverse:
    """The same of few rows, by its matrix (n, n)."""

    def __init__(self, matrix: FloatArray) -> None:
        self.matrix, self.size = matrix, np.abs(matrix)

    def times(self, rates: FloatArray) -> FloatArray:
        """(n,) changes of forces for changes of rates (n,)."""
        return np.asarray(self.matrix @ rates)

    def spread(self, noise: FloatArray) -> FloatArray:
        """(n,) the most that errors of rates of the sizes ``noise`` (n,) change."""
        return np.asarray(self.size @ noise)


def _unit_rows(A: sp.csr_array) -> tuple[sp.csr_array, FloatArray]:
    """The rows of A (k, m) over their lengths, and these (k,); one for a row of zeros."""
    length = np.sqrt(np.asarray((A * A).sum(axis=1)).ravel())
    length = np.where(length > 0.0, length, 1.0)
    return scaled(A, 1.0 / length), length


def _conjugate_gradients(
    product: Callable[[FloatArray], FloatArray], rhs: FloatArray
) -> FloatArray | None:
    """x (m,) with A x = rhs, from the ``product`` A x; None if they do not converge."""
    x, left, way, size = np.zeros_like(rhs), rhs, rhs, float(rhs @ rhs)
    enough = _LEFT**2 * size
    for _ in range(_PASSES):
        if size <= enough:
            return x
        pushed = product(way)
        step = size / float(way @ pushed)
        x, left = x + step * way, left - step * pushed
        last, size = size, float(left @ left)
        way = left + (size / last) * way
    return None
