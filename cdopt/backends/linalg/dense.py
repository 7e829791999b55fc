"""Small systems, factorised as dense matrices."""

from __future__ import annotations

from functools import cached_property

import numpy as np
from scipy.linalg.lapack import dpotrf, dpotrs

from cdopt._util.checks import FloatArray
from cdopt.backends.linalg.base import Tally, finite


class DenseSystem:
    """S + shift I + Bᵀ D B by Cholesky, or by least squares where that breaks down.

    LAPACK is called as SciPy's ``cho_factor`` and ``cho_solve`` would, without their search for
    the routine at every call: for a few dofs it takes longer than the routine.
    """

    gave_up = False

    def __init__(
        self, B: FloatArray, mass: FloatArray | None, D: FloatArray, shift: float, tally: Tally
    ) -> None:
        H = (B.T * D) @ B
        H.flat[:: H.shape[0] + 1] += shift
        if mass is not None:
            H += mass
        self.H, self.tally = H, tally

    @cached_property
    def _factor(self) -> FloatArray | None:
        self.tally.factorisations += 1
        self.tally.library = "dense matrices"
        factor, info = dpotrf(finite(self.H), lower=0, clean=0)
        return factor if info == 0 else None

    def solve(self, rhs: FloatArray, tol: float, limit: int | None = None) -> FloatArray:
        """x, to round-off.

        Raises
        ------
        ArithmeticError : numbers beyond what a double holds.
        """
        if not rhs.size:
            return np.zeros(0)
        if self._factor is not None:
            return np.asarray(dpotrs(self._factor, finite(rhs), lower=0)[0])
        try:
            return np.asarray(np.linalg.lstsq(self.H, finite(rhs), rcond=None)[0])
        except np.linalg.LinAlgError as error:
            raise ArithmeticError(str(error)) from error
