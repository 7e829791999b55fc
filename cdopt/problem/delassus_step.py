"""A time step known only by N and p of equation (20) of Olsen & Kamrin."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Self

import numpy as np
import scipy.sparse as sp
from scipy.sparse.linalg import ArpackError, eigsh

from cdopt._util import checks
from cdopt._util.checks import IntArray, freeze, read_only
from cdopt._util.errors import InvalidInput
from cdopt._util.parameters import well_spelt
from cdopt.problem.step import Step

_DELASSUS_SYMMETRY_TOL = 1e-8
_DELASSUS_PSD_TOL = 1e-9
_FRICTION_PSD_TOL = 1e-6  # files of steps with friction have gyroscopic terms and rounded numbers
ROUND_OFF = 1e-12  # relative, of forming N and of its eigenvalues
_DENSE_LIMIT = 3000  # up to here the eigenvalues of N are computed in full


@well_spelt
@dataclass(frozen=True, eq=False, repr=False)
class DelassusStep(Step):
    """One time step given only by N and p of equation (20).

    Parameters
    ----------
    N : (nc, nc) Delassus matrix Δt B M⁻¹ Bᵀ, m/(s·N), symmetric positive semidefinite. With
        friction (nc d, nc d): the normal row of a contact, then its tangential rows, and the rows
        of its moments where ``friction`` has torsion or rolling.
    p_vec : (nc,) gap rate of the free motion, m/s; with friction (nc d,).
    dt : time step Δt, s. With the default of one, forces are impulses.
    stiffness, bodies, normals, points, contact_ids, body_names, power, origin : as in
        ``ContactStep``.
    friction : coefficients, without tangential rows, which are in N.
    symmetrised : asymmetry of N before its symmetric part was taken, as in ``Step``.

    Attributes
    ----------
    N, p_vec : of the normal rows only; ``N_rows`` and ``p_rows`` have all d rows a contact.

    Raises
    ------
    InvalidInput : N is asymmetric beyond round-off or has a negative eigenvalue; or naming
        another argument.
    """

    N: Any
    p_vec: Any
    dt: float = 1.0
    N_rows: Any = field(init=False)
    p_rows: Any = field(init=False)

    _KIND = "delassus step"

    def __post_init__(self) -> None:
        matrix = checks.matrix("N", self.N, None, None)
        nc = rows = matrix.shape[0]
        matrix = checks.symmetric("N", matrix, _DELASSUS_SYMMETRY_TOL)
        given = self._check_friction()
        negative = _negative_eigenvalue(
            matrix, _DELASSUS_PSD_TOL if not given else _FRICTION_PSD_TOL
        )
        vector = checks.vector("p_vec", self.p_vec, rows, "m/s")
        friction = None
        if given is not None:
            nc = given.contacts(rows)
            friction = given.on(nc, None, rows)
        self.__dict__.update(N_rows=matrix, p_rows=vector, negative=negative, friction=friction)
        self.__dict__.update(self._normal_rows())
        self._check_contacts(nc, friction)

    @property
    def _d(self) -> int:
        """Rows a contact."""
        return 1 if self.friction is None else self.friction.d + self.friction.moments

    def _normal_rows(self) -> dict[str, Any]:
        d, N = self._d, self.N_rows
        N = N if d == 1 else freeze(sp.csr_array(N[::d][:, ::d]))
        return {"N": N, "p_vec": read_only(self.p_rows[::d])}

    def without_friction(self) -> Self:
        if self.friction is None:
            return self
        return self.replace(friction=None, N=self.N, p_vec=self.p_vec)

    def _arguments(self) -> dict[str, Any]:
        return {**super()._arguments(), "N": self.N_rows, "p_vec": self.p_rows}

    def _rows(self, index: IntArray) -> dict[str, Any]:
        rows = (index[:, None] * self._d + np.arange(self._d)).ravel()
        matrix = self.N_rows[rows][:, rows]
        return {**super()._rows(index), "N": matrix, "p_vec": self.p_rows[rows]}

    def __repr__(self) -> str:
        return f"DelassusStep({self.nc:,} contacts, dt={self.dt:g} s)"


def _negative_eigenvalue(N: sp.csr_array, tol: float) -> float:
    """Size of the most negative eigenvalue over ‖N‖, 0 if of round-off; refused above ``tol``."""
    nc = N.shape[0]
    scale = float(np.abs(N).sum(axis=1).max()) if nc else 0.0
    if scale == 0.0:
        return 0.0
    if nc <= _DENSE_LIMIT:
        dense = N.toarray() / scale
        try:  # a factorisation takes a twentieth of the time of the eigenvalues
            np.linalg.cholesky(dense + ROUND_OFF * np.eye(nc))
            return 0.0
        except np.linalg.LinAlgError:
            smallest = float(np.linalg.eigvalsh(dense)[0])
    else:
        try:
            lowest = eigsh(N / scale, k=1, which="SA", tol=1e-4, return_eigenvectors=False)
        except ArpackError as error:
            raise InvalidInput("N", "eigenvalues not computed", "a Delassus matrix") from error
        smallest = float(lowest[0])
    if smallest < -tol:
        found = f"an eigenvalue of {smallest * scale:.3g} where the norm is {scale:.3g}"
        raise InvalidInput("N", found, "a positive semidefinite matrix")
    return -smallest if smallest < -ROUND_OFF else 0.0
