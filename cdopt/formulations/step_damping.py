"""Dissipation Q = −C q̇ + drive over one step of the variational integrator, in two splits.

De Klerk et al. (2021), section 2, with the sign of Q in (29)–(31) corrected.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp

from cdopt._util import checks
from cdopt._util.checks import FloatArray
from cdopt._util.errors import InvalidInput
from cdopt.problem.mass import MassMatrix

_SYMMETRY_TOL = 1e-10  # asymmetry beyond this share of the largest entry is no round-off
_DENSE_UP_TO = 100  # dofs; below it eigenvalues cost less than a sparse factorisation
_SEMIDEFINITE_TOL = 1e-9  # of each dof's own damping: what an eigenvalue may fall below zero


class StepDamping:
    """Viscous damping in one step of length h.

    Parameters
    ----------
    matrix : C (nv, nv) at q_α, symmetric positive semidefinite, N s/m and N m s.
    drive : (nv,) N and N·m, what moving walls exert through C at q_α; default none.
    split : "forced", Q⁻ and Q⁺, of second order; or "paper", Q⁻ and Qᵖ, of first.
    start : C and drive, (nv, nv) and (nv,), at q, in Qᵖ of the paper's split; default those at q_α.
    end : C and drive, (nv, nv) and (nv,), at q_{1−α}, in Q⁺ of the forced split; default those
        at q_α.

    Raises
    ------
    InvalidInput : no such split; a matrix of the wrong size, not symmetric, or with a negative
        eigenvalue; a drive of the wrong length.
    """

    def __init__(
        self,
        matrix: Any,
        drive: Any = None,
        split: str = "forced",
        start: tuple[Any, Any] | None = None,
        end: tuple[Any, Any] | None = None,
    ) -> None:
        self.split = checks.choice("damping", split, ("paper", "forced"))
        self.matrix = _damping_matrix("damping_matrix", matrix, None)
        nv = self.matrix.shape[0]
        drive = np.zeros(nv) if drive is None else drive
        self.drive = checks.vector("damping drive", drive, nv, "N")
        self.start = self.end = (self.matrix, self.drive)
        if start is not None:
            self.start = _pair("damping start", start, nv)
        if end is not None:
            self.end = _pair("damping end", end, nv)

    def minus(self, u: FloatArray, h: float) -> FloatArray:
        """Q⁻ = −½ C Δq + ½ h drive (nv,), N s, for u = Δq (nv,) and ``h`` in s."""
        return np.asarray(0.5 * (h * self.drive - self.matrix @ u))

    def past(self, v: FloatArray, h: float) -> FloatArray:
        """Qᵖ = −½ h C v + ½ h drive (nv,), N s, for v = M⁻¹ mom (nv,); zero when forced."""
        if self.split == "forced":
            return np.zeros_like(v)
        C, drive = self.start
        return np.asarray(0.5 * h * (drive - C @ v))

    def plus(self, u: FloatArray, h: float) -> FloatArray:
        """Q⁺ = −½ C Δq + ½ h drive (nv,), N s, for u = Δq (nv,); zero in the paper's split."""
        if self.split == "paper":
            return np.zeros_like(u)
        C, drive = self.end
        return np.asarray(0.5 * (h * drive - C @ u))


def _pair(name: str, value: tuple[Any, Any], nv: int) -> tuple[sp.csr_array, FloatArray]:
    """C and drive at one configuration."""
    C, drive = value
    return _damping_matrix(name, C, nv), checks.vector(name, drive, nv, "N")


def _damping_matrix(name: str, value: Any, nv: int | None) -> sp.csr_array:
    """A symmetric positive semidefinite matrix (nv, nv), sparse or dense."""
    C = checks.symmetric(name, checks.matrix(name, value, nv, nv), _SYMMETRY_TOL)
    if not _semidefinite(C):
        raise InvalidInput(name, "a negative eigenvalue", "a positive semidefinite matrix")
    return C


def _semidefinite(C: sp.csr_array) -> bool:
    """Whether C, in units of each dof's own damping, factorises once it is shifted a little."""
    if C.nnz == 0:
        return True
    diagonal = C.diagonal()
    undamped = diagonal == 0.0
    if np.any(diagonal < 0.0) or np.any(undamped[sp.coo_array(C).row]):
        return False
    with np.errstate(all="ignore"):
        unit = 1.0 / np.sqrt(np.where(undamped, 1.0, diagonal))
        scaled = sp.csr_array(C * unit[:, None] * unit[None, :])
    if not np.all(np.isfinite(scaled.data)):
        return False
    if diagonal.size <= _DENSE_UP_TO:
        return bool(np.linalg.eigvalsh(scaled.toarray())[0] >= -_SEMIDEFINITE_TOL)
    try:
        MassMatrix(
            sp.csr_array(scaled + sp.diags_array(np.where(undamped, 1.0, _SEMIDEFINITE_TOL)))
        )
    except InvalidInput:
        return False
    return True
