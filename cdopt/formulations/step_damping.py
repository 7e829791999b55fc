"""Dissipation Q = −C q̇ + drive over one step of the variational integrator, in two splits.

De Klerk et al. (2021), section 2, with the sign of Q in (29)–(31) corrected.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp

from cdopt._util import checks
from cdopt._util.checks import FloatArray
from cdopt._util.errors import InvalidInput
from cdopt.problem.mass import MassMatrix

_DRIVE = "damping_drive"
SPLITS = ("paper", "forced")

_SYMMETRY_TOL = 1e-10  # asymmetry beyond this share of the largest entry is no round-off
_DENSE_UP_TO = 100  # dofs; below it eigenvalues cost less than a sparse factorisation
_SEMIDEFINITE_TOL = 1e-9  # of each dof's own damping: what an eigenvalue may fall below zero


@dataclass(frozen=True, eq=False)
class StepDamping:
    """Impulses of viscous damping in one step of length h.

    Attributes
    ----------
    split : "paper", Q⁻ and Qᵖ; or "forced", Q⁻ and Q⁺.
    matrix : C (nv, nv) at q_α, N s/m and N m s. start : C at q. end : C at q_{1−α}.
    drive : (nv,) N and N·m, what moving walls exert through C at q_α; drive_start through that
        at q, and drive_end at q_{1−α}.
    """

    split: str
    matrix: sp.csr_array
    start: sp.csr_array
    end: sp.csr_array
    drive: FloatArray
    drive_start: FloatArray
    drive_end: FloatArray

    @classmethod
    def read(
        cls,
        nv: int,
        split: Any,
        matrix: Any,
        start: Any,
        end: Any,
        drive: Any,
        drive_start: Any = None,
        drive_end: Any = None,
    ) -> StepDamping:
        """Damping from a caller's arguments; None is no damping, no drive, or the same matrix.

        Raises
        ------
        InvalidInput : no such split; a matrix of the wrong size, not symmetric, or with a
            negative eigenvalue; a drive of the wrong length.
        """
        chosen = checks.choice("damping", split, SPLITS)
        C = damping_matrix("damping_matrix", matrix, nv)
        push = checks.vector("damping_drive", np.zeros(nv) if drive is None else drive, nv, "N")
        return cls(
            chosen,
            C,
            C if start is None else damping_matrix("damping_matrix_start", start, nv),
            C if end is None else damping_matrix("damping_matrix_end", end, nv),
            push,
            push if drive_start is None else checks.vector(f"{_DRIVE}_start", drive_start, nv, "N"),
            push if drive_end is None else checks.vector(f"{_DRIVE}_end", drive_end, nv, "N"),
        )

    def minus(self, u: FloatArray, h: float) -> FloatArray:
        """Q⁻ = −½ C Δq + ½ h drive (nv,), N s, for u = Δq."""
        return np.asarray(0.5 * (h * self.drive - self.matrix @ u))

    def past(self, v: FloatArray, h: float) -> FloatArray:
        """Qᵖ = −½ h C v + ½ h drive (nv,), N s, for v = M⁻¹ mom; zero in the forced split."""
        if self.split == "forced":
            return np.zeros_like(v)
        return np.asarray(0.5 * h * (self.drive_start - self.start @ v))

    def plus(self, u: FloatArray, h: float) -> FloatArray:
        """Q⁺ = −½ C Δq + ½ h drive (nv,), N s, for u = Δq; zero in the paper's split."""
        if self.split == "paper":
            return np.zeros_like(u)
        return np.asarray(0.5 * (h * self.drive_end - self.end @ u))


def damping_matrix(name: str, value: Any, nv: int) -> sp.csr_array:
    """A symmetric positive semidefinite matrix (nv, nv), sparse or dense; None is zero.

    Raises
    ------
    InvalidInput : it is none.
    """
    if value is None:
        return checks.freeze(sp.csr_array((nv, nv)))
    C = checks.symmetric(name, checks.matrix(name, value, nv, nv), _SYMMETRY_TOL)
    if not _semidefinite(C):
        raise InvalidInput(name, "a negative eigenvalue", "a positive semidefinite matrix")
    return C


def _semidefinite(C: sp.csr_array) -> bool:
    """Whether C, in units of each dof's own damping, factorises once it is shifted a little."""
    own = C.diagonal()
    undamped = own == 0.0
    if np.any(own < 0.0) or np.any(undamped[sp.coo_array(C).row]):
        return False
    with np.errstate(all="ignore"):
        unit = 1.0 / np.sqrt(np.where(undamped, 1.0, own))
        scaled = sp.csr_array(C * unit[:, None] * unit[None, :])
    if not np.all(np.isfinite(scaled.data)):
        return False
    if own.size <= _DENSE_UP_TO:
        return bool(np.linalg.eigvalsh(scaled.toarray())[0] >= -_SEMIDEFINITE_TOL)
    try:
        MassMatrix(
            sp.csr_array(scaled + sp.diags_array(np.where(undamped, 1.0, _SEMIDEFINITE_TOL)))
        )
    except InvalidInput:
        return False
    return True
