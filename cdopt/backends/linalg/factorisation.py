"""Systems S + λ I + Bᵀ D B by factors: dense ones, or sparse ones by the best installed library.

PARDISO of Intel's MKL (extra ``fast``) where it is installed, its analysis of the network made
once; otherwise SciPy's SuperLU, in a nested dissection order by METIS where that is installed
(extra ``fast``), else in its own minimum degree order. Conjugate gradients over the factors
refine the solution.
"""

from __future__ import annotations

import copy
import ctypes
import functools
import importlib
import weakref
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import scipy.sparse as sp
from scipy.linalg.lapack import dgetrf, dgetrs, dpotrf, dpotrs
from scipy.sparse.csgraph import connected_components
from scipy.sparse.linalg import splu

from cdopt._util.checks import FloatArray, IntArray
from cdopt._util.compiled import uncounted

DENSE = 800  # rows up to which systems that are not symmetric may be solved as dense ones,
SMALL, _FULL = 160, 0.12  # and are: up to this many, or with more entries that are not zero
_SYMMETRIC_POSITIVE = 2  # PARDISO's number for real symmetric positive definite matrices
_ANALYSE, _FACTORISE, _SOLVE, _RELEASE = 11, 22, 33, -1  # its phases
_FAINT = 1e-4  # a contact this much weaker than the inertia it acts on is left to refinement
_ROUND_OFF = 1e-24  # of the preconditioned residual squared: smaller ones are round-off

Solve = Callable[[FloatArray], FloatArray]  # x, nearly with H x = rhs


@dataclass(eq=False)
class Counted:
    """A network that counts what its systems have cost in one solve."""

    iterations: int = field(default=0, init=False)  # of conjugate gradients
    factorisations: int = field(default=0, init=False)  # of matrices, dense ones included
    factorised_by: str = field(default="", init=False)  # what factorised last; empty if nothing did
    # the solution methods that were used, in their order
    methods: list[str] = field(default_factory=list, init=False)

    @property
    def cost(self) -> str:
        """The methods and what they cost, as text."""
        parts = [" → ".join(self.methods)] if self.methods else []
        if self.iterations:
            parts.append(f"{self.iterations} conjugate gradient iterations")
        if self.factorisations:
            parts.append(f"{self.factorisations} factorisations by {self.factorised_by}")
        return ", ".join(parts)

    def restart(self) -> None:
        """Count from zero: networks are kept for further solves."""
        self.iterations, self.factorisations, self.factorised_by = 0, 0, ""
        self.methods.clear()

    def factorised(self, library: str) -> None:
        """Count one more."""
        self.factorisations += 1
        self.factorised_by = library


def finite(x: FloatArray) -> FloatArray:
    """The same array; an ArithmeticError where an entry is infinite or not a number."""
    if np.count_nonzero(np.isfinite(x)) < x.size:
        raise ArithmeticError("a number beyond what a double holds")
    return x


class IteratedSystem:
    """A system known by its product and a preconditioner, solved by conjugate gradients.

    Attributes
    ----------
    product : H x.
    precondition : P⁻¹ r, with P close to H.
    most : iterations at most; None for twenty to each unknown.
    growth : of the preconditioned residual at which to stop.
    gave_up : whether the last solution stopped before its residual had fallen as requested.
    """

    def __init__(
        self,
        product: Callable[[FloatArray], FloatArray],
        precondition: Solve,
        net: Counted | None = None,
        most: int | None = None,
        growth: float = np.inf,
    ) -> None:
        self.product, self.precondition, self.net = product, precondition, net
        self.most, self.growth, self.gave_up = most, growth, False

    def solve(self, rhs: FloatArray, tol: float, limit: int | None = None) -> FloatArray:
        """The best x (m,) for rhs (m,), preconditioned residual reduced by ``tol`` if possible.

        Ends early where the curvature along a direction is lost to round-off, or where rᵀz has
        grown by ``growth`` over its least value.
        """
        most = min(20 * rhs.size if n is None else n for n in (self.most, limit))
        x, r, p, z = np.zeros_like(rhs), rhs, np.zeros_like(rhs), self.precondition(rhs)
        rz, beta, spent = float(r @ z), 0.0, 0
        best, first, least = x, rz, rz
        while spent < most and rz > first * tol * tol and not rz > self.growth * least:
            p = z + beta * p
            image = self.product(p)
            curvature = float(p @ image)
            if not curvature > 0.0:
                break
            alpha = rz / curvature
            x, r = x + alpha * p, r - alpha * image
            z = self.precondition(r)
            following = float(r @ z)
            beta, rz = following / rz, following
            spent += 1
            if rz < least:
                least, best = rz, x
        if self.net is not None:
            self.net.iterations += spent
        self.gave_up = not least <= max(tol * tol, _ROUND_OFF) * first
        return best


class DenseSystem:
    """A dense matrix, of which the upper triangle is read, by Cholesky or else by least squares.

    LAPACK is called as SciPy's ``cho_factor`` and ``cho_solve`` would, without their search for
    the routine at every call: for a few dofs it takes longer than the routine.
    """

    gave_up = False

    def __init__(self, matrix: FloatArray, net: Counted) -> None:
        net.factorised("dense matrices")
        self._matrix = matrix
        factor, failed = dpotrf(matrix, lower=0, clean=0) if matrix.size else (matrix, 0)
        self._factor = None if failed else factor

    def solve(self, rhs: FloatArray, tol: float, limit: int | None = None) -> FloatArray:
        """x (m,) for rhs (m,), to round-off; an ArithmeticError if numbers overflow."""
        if not rhs.size:
            return np.zeros(0)
        if self._factor is not None:
            return finite(dpotrs(self._factor, rhs, lower=0)[0])
        upper = np.triu(finite(self._matrix))
        try:
            H = upper + np.triu(upper, 1).T
            return np.asarray(np.linalg.lstsq(H, finite(rhs), rcond=None)[0])
        except np.linalg.LinAlgError as error:
            raise ArithmeticError(str(error)) from error


def upper_products(B: sp.csr_array) -> sp.csc_array:
    """(m², nc) for D to the upper triangle of Bᵀ D B (m, m), read row by row."""
    nc, m = B.shape
    lengths = np.diff(B.indptr)
    contact = np.repeat(np.arange(nc), lengths)  # of each entry of B
    partners = lengths[contact]
    left = np.repeat(np.arange(B.nnz), partners)
    right = np.arange(left.size) - np.repeat(np.cumsum(partners) - partners, partners)
    right += B.indptr[contact[left]]
    kept = B.indices[left] <= B.indices[right]
    left, right = left[kept], right[kept]
    rows = np.concatenate([[0], np.cumsum(np.bincount(contact[left], minlength=nc))])
    keys = B.indices[left].astype(np.int64) * m + B.indices[right]
    return sp.csc_array((B.data[left] * B.data[right], keys, rows), shape=(m * m, nc))


class UpperPattern:
    """The upper triangle of S + λ I + Bᵀ D B, its pattern made once for all D.

    Attributes
    ----------
    upper : (m, m) CSR matrix, the last one filled.
    """

    def __init__(self, B: sp.csr_array, mass: sp.csr_array | None) -> None:
        nc, m = B.shape
        products = upper_products(B)
        inertia = sp.coo_array((m, m)) if mass is None else sp.coo_array(sp.triu(mass))
        inertia_keys = inertia.row.astype(np.int64) * m + inertia.col
        diagonal = np.arange(m, dtype=np.int64) * (m + 1)
        known, position = np.unique(
            np.concatenate([products.indices, inertia_keys, diagonal]), return_inverse=True
        )
        slot, others = position[: products.nnz], position[products.nnz :]
        self.products = sp.csc_array((products.data, slot, products.indptr), (known.size, nc))
        self.diagonal = others[inertia_keys.size :]
        self.inertia = np.zeros(known.size)
        np.add.at(self.inertia, others[: inertia_keys.size], inertia.data)
        pointers = np.searchsorted(known, np.arange(m + 1, dtype=np.int64) * m)
        self.upper: Any = sp.csr_matrix(
            (self.inertia.copy(), (known % m).astype(np.int32), pointers.astype(np.int32)),
            shape=(m, m),
        )

    def filled(self, D: FloatArray, shift: float) -> Any:
        """The upper triangle for this D; the one given before is overwritten."""
        values = self.upper.data
        values[:] = self.inertia + self.products @ D
        values[self.diagonal] += shift
        return self.upper


# --- sparse libraries --------------------------------------------------------------------


class MatrixFactors(ABC):
    """J⁻¹ as a function, by factors of J."""

    @abstractmethod
    def __call__(self, rhs: FloatArray) -> FloatArray:
        """J⁻¹ rhs."""

    @property
    @abstractmethod
    def sign(self) -> float:
        """The sign of the determinant of J."""


class SparseFactors(MatrixFactors):
    """Factors by SuperLU."""

    def __init__(self, factors: Any) -> None:
        self._factors = factors

    def __call__(self, rhs: FloatArray) -> FloatArray:
        return np.asarray(self._factors.solve(rhs))

    @property
    def sign(self) -> float:
        """The sign of the determinant of J, for which the factors are copied."""
        orders = _parity(self._factors.perm_r) * _parity(self._factors.perm_c)
        return float(orders * np.prod(np.sign(self._factors.U.diagonal())))


class DenseFactors(MatrixFactors):
    """Factors by LAPACK; an ArithmeticError if J is singular."""

    def __init__(self, J: FloatArray) -> None:
        self._factor, self._pivots, failed = dgetrf(finite(J))
        if failed:
            raise ArithmeticError("a singular matrix")

    def __call__(self, rhs: FloatArray) -> FloatArray:
        return np.asarray(dgetrs(self._factor, self._pivots, rhs)[0])

    @property
    def sign(self) -> float:
        swaps = np.count_nonzero(self._pivots != np.arange(self._pivots.size))
        return float((-1.0) ** swaps * np.prod(np.sign(self._factor.diagonal())))


def _parity(order: IntArray) -> float:
    """1 for an even permutation, −1 for an odd one."""
    steps = sp.csr_array((np.ones(order.size), (np.arange(order.size), order)))
    cycles = connected_components(steps, directed=False)[0]
    return float((-1.0) ** (order.size - cycles))


def factorised(J: sp.csr_array | sp.csc_array) -> SparseFactors:
    """J⁻¹ by SuperLU, for a J of symmetric pattern; an ArithmeticError where J is singular."""
    return SparseFactors(_superlu(sp.csc_array(J), "MMD_AT_PLUS_A", diag_pivot_thresh=0.01))


def _superlu(H: sp.csc_array, order: str, **options: Any) -> Any:
    finite(H.data)
    try:
        return splu(H, permc_spec=order, **options)
    except RuntimeError as error:
        raise ArithmeticError(str(error)) from error


def sparse_solve(J: sp.csr_array | sp.csc_array) -> MatrixFactors:
    """J⁻¹ of a sparse J, by a dense or a sparse factorisation."""
    m = J.shape[0]
    if m <= SMALL or (m <= DENSE and J.nnz > _FULL * m**2):
        return DenseFactors(J.toarray())
    return factorised(J)


class SuperLU:
    """SciPy's SuperLU on symmetric matrices: no pivots off the diagonal."""

    def __init__(self, B: sp.csr_array, mass: sp.csr_array | None, size: int) -> None:
        """For dofs in blocks of this ``size``."""
        m = B.shape[1]
        self.B, self.mass = B, sp.csr_array((m, m)) if mass is None else mass
        self.mobility = None if mass is None else B.multiply(B) @ (1.0 / mass.diagonal())
        blocks = _dissection(block_graph(B, size))
        self.name = "SuperLU" if blocks is None else "SuperLU in METIS's order"
        self.spec = "MMD_AT_PLUS_A" if blocks is None else "NATURAL"
        self.order = np.arange(m)
        if blocks is not None:
            self.order = np.asarray(size * blocks[:, None] + np.arange(size)).ravel()

    def factorise(self, D: FloatArray, shift: float) -> Solve:
        """Factors for D (nc,); an ArithmeticError if the matrix is singular or indefinite."""
        factors, order = self.factors(D, shift), self.order

        def solve(rhs: FloatArray) -> FloatArray:
            x = np.empty_like(rhs)
            x[order] = factors.solve(rhs[order])
            return x

        return solve

    def factors(self, D: FloatArray, shift: float) -> Any:
        """SuperLU's factors for D (nc,) in this ``order``, without contacts of nearly no effect."""
        strong = D > 0.0 if self.mobility is None else D * self.mobility > _FAINT
        B, order = self.B[strong], self.order
        unit = shift * sp.eye_array(B.shape[1], format="csr")
        H = sp.csr_array(B.T @ (B * D[strong][:, None]) + self.mass + unit)
        options = {"diag_pivot_thresh": 0.0, "options": {"SymmetricMode": True}}
        return _superlu(sp.csc_array(H[order][:, order]), self.spec, **options)


def _dissection(graph: sp.csr_array) -> IntArray | None:
    """Nested dissection of a graph, where METIS is installed (Karypis & Kumar, 1998)."""
    try:
        metis = importlib.import_module("pymetis")
    except ImportError:
        return None
    return np.asarray(metis.nested_dissection(metis.CSRAdjacency(graph.indptr, graph.indices))[0])


def block_graph(B: sp.csr_array, size: int) -> sp.csr_array:
    """Which blocks of ``size`` dofs share a row of B, as a matrix without its diagonal."""
    shape = B.shape[0], B.shape[1] // size
    touched = sp.csr_array((np.ones(B.nnz), B.indices // size, B.indptr), shape=shape)
    graph = sp.csr_array(touched.T @ touched)
    graph.setdiag(0.0)
    graph.eliminate_zeros()
    return graph


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
        self.phases = [_ANALYSE, _FACTORISE]
        weakref.finalize(self, _call, self.solver, _RELEASE, self.pattern.upper)

    def factorise(self, D: FloatArray, shift: float) -> Solve:
        """As ``SuperLU`` does; the factors last until the next ones."""
        upper = self.pattern.filled(D, shift)
        finite(upper.data)
        try:
            for phase in self.phases:
                _call(self.solver, phase, upper)
        except self.error as error:
            raise ArithmeticError(str(error)) from error
        self.phases = [_FACTORISE]
        return lambda rhs: _call(self.solver, _SOLVE, upper, rhs)


def _call(solver: Any, phase: int, upper: Any, rhs: FloatArray | None = None) -> FloatArray:
    solver.set_phase(phase)
    rhs = np.zeros(upper.shape[0]) if rhs is None else rhs
    return np.asarray(solver._call_pardiso(upper, rhs.reshape(-1, 1))).ravel()


def library(B: sp.csr_array, mass: sp.csr_array | None, size: int) -> SuperLU | Pardiso:
    """The best installed library for the matrices of a network with ``size`` dofs to a block."""
    return SuperLU(B, mass, size) if _pardiso() is None else Pardiso(B, mass)


@functools.cache
def _pardiso() -> Any:
    """A solver of pypardiso to make others from, or None where it is missing or does not load."""
    try:
        with uncounted():
            module = importlib.import_module("pypardiso")
            return module.PyPardisoSolver(mtype=_SYMMETRIC_POSITIVE)
    except (ImportError, OSError):
        return None
