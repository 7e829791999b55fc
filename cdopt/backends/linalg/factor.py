"""Factorisations of S + λ I + Bᵀ D B, by the best library at hand.

PARDISO of Intel's MKL (extra ``fast``) where it is installed, its analysis of the network made
once; otherwise SciPy's SuperLU, in a nested dissection order by METIS where that is installed
(extra ``fast``), else in SuperLU's own minimum degree order.
"""

from __future__ import annotations

import copy
import ctypes
import functools
import importlib
import weakref
from typing import Any, Protocol

import numpy as np
import scipy.sparse as sp
from scipy.sparse.linalg import splu

from cdopt._util.checks import FloatArray, IntArray
from cdopt.backends.linalg.base import finite
from cdopt.backends.linalg.pattern import UpperPattern

_SYMMETRIC_POSITIVE = 2  # PARDISO's number for real symmetric positive definite matrices
_ANALYSE, _FACTORISE, _SOLVE, _RELEASE = 11, 22, 33, -1  # its phases
_FAINT = 1e-4  # a contact this much weaker than the inertia it acts on is left to refinement


class Factor(Protocol):
    """A factorised matrix."""

    def solve(self, rhs: FloatArray) -> FloatArray:
        """x, nearly with H x = rhs."""


class Library(Protocol):
    """Factorises the matrices of one network, one after the other."""

    name: str

    def factorise(self, D: FloatArray, shift: float) -> Factor:
        """The factors of the matrix, or of one close to it.

        Raises
        ------
        ArithmeticError : it is singular, or not positive definite, to working accuracy.
        """


class SuperLU:
    """SciPy's SuperLU on symmetric matrices: no pivots off the diagonal."""

    def __init__(self, B: sp.csr_array, mass: sp.csr_array | None, size: int) -> None:
        m = B.shape[1]
        self.B, self.mass = B, sp.csr_array((m, m)) if mass is None else mass
        own = None if mass is None else 1.0 / mass.diagonal()
        self.mobility = None if own is None else np.asarray((B.multiply(B)) @ own)
        self.order = _dissection(B, size)
        self.name = "SuperLU" if self.order is None else "SuperLU in METIS's order"

    def factorise(self, D: FloatArray, shift: float) -> Factor:
        """Without the contacts that do next to nothing: the fewer, the sparser the factors."""
        kept = D > 0.0 if self.mobility is None else D * self.mobility > _FAINT
        B = self.B[kept]
        own = shift * sp.eye_array(B.shape[1], format="csr")
        H = sp.csc_array(B.T @ (B * D[kept][:, None]) + self.mass + own)
        spec = "MMD_AT_PLUS_A" if self.order is None else "NATURAL"
        if self.order is not None:
            H = sp.csc_array(H[self.order][:, self.order])
        finite(H.data)
        try:
            held = splu(H, permc_spec=spec, diag_pivot_thresh=0.0, options={"SymmetricMode": True})
        except RuntimeError as error:
            raise ArithmeticError(str(error)) from error
        return _Ordered(held, self.order)


class _Ordered:
    """SuperLU's factors, and the order of their rows."""

    def __init__(self, held: Any, order: IntArray | None) -> None:
        self.held, self.order = held, order

    def solve(self, rhs: FloatArray) -> FloatArray:
        """x with H x = rhs."""
        if self.order is None:
            return np.asarray(self.held.solve(rhs))
        x = np.empty_like(rhs)
        x[self.order] = self.held.solve(rhs[self.order])
        return x


class Pardiso:
    """Intel's PARDISO, through pypardiso: Cholesky factors of the upper triangle."""

    name = "PARDISO"

    def __init__(self, B: sp.csr_array, mass: sp.csr_array | None) -> None:
        self.pattern = UpperPattern(B, mass)
        self.error = importlib.import_module("pypardiso.pardiso_wrapper").PyPardisoError
        self.solver = copy.copy(_pardiso())  # a new one would search the disk for MKL again
        self.solver.pt = np.zeros_like(self.solver.pt)
        self.solver.iparm = self.solver.iparm.copy()
        self.solver.libmkl.MKL_Set_Num_Threads_Local(ctypes.c_int(1))
        self.zero = np.zeros((B.shape[1], 1))
        self.analysed = False
        weakref.finalize(self, _release, self.solver, self.pattern.upper)

    def factorise(self, D: FloatArray, shift: float) -> Factor:
        """The analysis is made with the first matrix; the factors last until the next."""
        upper = self.pattern.filled(D, shift)
        finite(upper.data)
        try:
            if not self.analysed:
                self._call(_ANALYSE, upper, self.zero)
                self.analysed = True
            self._call(_FACTORISE, upper, self.zero)
        except self.error as error:
            raise ArithmeticError(str(error)) from error
        return _Held(self, upper)

    def _call(self, phase: int, upper: Any, rhs: FloatArray) -> FloatArray:
        self.solver.set_phase(phase)
        return np.asarray(self.solver._call_pardiso(upper, rhs))


def _release(solver: Any, upper: Any) -> None:
    """Give PARDISO's memory back."""
    solver.set_phase(_RELEASE)
    solver._call_pardiso(upper, np.zeros((upper.shape[0], 1)))


class _Held:
    """PARDISO's factors; they stand in its own memory."""

    def __init__(self, library: Pardiso, upper: Any) -> None:
        self.library, self.upper = library, upper

    def solve(self, rhs: FloatArray) -> FloatArray:
        """x with H x = rhs."""
        return self.library._call(_SOLVE, self.upper, rhs.reshape(-1, 1)).ravel()


def library(B: sp.csr_array, mass: sp.csr_array | None, size: int) -> Library:
    """The best library at hand for the network's matrices, ``size`` dofs to a block."""
    return SuperLU(B, mass, size) if _pardiso() is None else Pardiso(B, mass)


@functools.cache
def _pardiso() -> Any:
    """A solver of pypardiso to make others from, or None where it is missing or does not load."""
    try:
        return importlib.import_module("pypardiso").PyPardisoSolver(mtype=_SYMMETRIC_POSITIVE)
    except (ImportError, OSError):
        return None


def _dissection(B: sp.csr_array, size: int) -> IntArray | None:
    """Nested dissection of the blocks (Karypis & Kumar, SIAM J. Sci. Comput. 20, 1998)."""
    try:
        metis = importlib.import_module("pymetis")
    except ImportError:
        return None
    count = B.shape[1] // size
    touched = sp.csr_array((np.ones(B.nnz), B.indices // size, B.indptr), shape=(B.shape[0], count))
    graph = sp.csr_array(touched.T @ touched)
    graph.setdiag(0.0)
    graph.eliminate_zeros()
    order = np.asarray(metis.nested_dissection(metis.CSRAdjacency(graph.indptr, graph.indices))[0])
    return np.asarray(size * order[:, None] + np.arange(size)).ravel()
