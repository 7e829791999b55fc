"""Factorisations of S + λ I + Bᵀ D B: dense ones, and sparse ones by the best library at hand.

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
from collections.abc import Callable
from typing import Any, Protocol

import numpy as np
import scipy.sparse as sp
from scipy.linalg.lapack import dpotrf, dpotrs
from scipy.sparse.linalg import splu

from cdopt._util.checks import FloatArray, IntArray
from cdopt._util.compiled import compiled, uncounted
from cdopt.backends.linalg.iteration import IterationStatistics

_SYMMETRIC_POSITIVE = 2  # PARDISO's number for real symmetric positive definite matrices
_ANALYSE, _FACTORISE, _SOLVE, _RELEASE = 11, 22, 33, -1  # its phases
_SEPARATED = 10.0  # operations for the cube of the widest level, of networks in the plane
_FAR_ABOVE = 10.0
_FAINT = 1e-4  # a contact this much weaker than the inertia it acts on is left to refinement

Solve = Callable[[FloatArray], FloatArray]  # x, nearly with H x = rhs


def finite(x: FloatArray) -> FloatArray:
    """The same array.

    Raises
    ------
    ArithmeticError : an entry is infinite or not a number.
    """
    if not np.isfinite(x).all():
        raise ArithmeticError("a number beyond what a double holds")
    return x


# --- dense -------------------------------------------------------------------------------


class DenseSystem:
    """S + shift I + Bᵀ D B by Cholesky, or by least squares where that breaks down.

    LAPACK is called as SciPy's ``cho_factor`` and ``cho_solve`` would, without their search for
    the routine at every call: for a few dofs it takes longer than the routine.
    """

    gave_up = False

    def __init__(
        self,
        B: FloatArray | sp.csc_array,
        mass: FloatArray,
        D: FloatArray,
        shift: float,
        statistics: IterationStatistics,
    ) -> None:
        """B (nc, m) dense, or where it has many zeros its ``upper_products``; ``mass`` is S."""
        H = mass.copy()
        if shift:
            H.flat[:: H.shape[0] + 1] += shift
        if D.size and isinstance(B, np.ndarray):
            H += (B.T * D) @ B
        elif D.size:
            H += (B @ D).reshape(H.shape)
        statistics.factorisations += 1
        statistics.library = "dense matrices"
        self._matrix = H
        factor, failed = dpotrf(H, lower=0, clean=0) if H.size else (H, 0)
        self._factor = None if failed else factor

    def solve(self, rhs: FloatArray, tol: float, limit: int | None = None) -> FloatArray:
        """x, to round-off.

        Raises
        ------
        ArithmeticError : numbers beyond what a double holds.
        """
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
    slot, products, pointers = _products(B)
    return sp.csc_array((products, slot.astype(np.int32), pointers.astype(np.int32)), (m * m, nc))


def _products(B: sp.csr_array) -> tuple[IntArray, FloatArray, IntArray]:
    """Products of each row of B with itself: column times m plus column, value, where rows begin.

    Those of the upper triangle.
    """
    nc, m = B.shape
    lengths = np.diff(B.indptr)
    contact = np.repeat(np.arange(nc), lengths)  # of each entry of B
    partners = lengths[contact]
    left = np.repeat(np.arange(B.nnz), partners)
    before = np.cumsum(partners) - partners
    right = np.arange(left.size) - before[left] + B.indptr[contact[left]]
    upper = B.indices[left] <= B.indices[right]
    left, right = left[upper], right[upper]
    pointers = np.concatenate([[0], np.cumsum(np.bincount(contact[left], minlength=nc))])
    slot = B.indices[left].astype(np.int64) * m + B.indices[right]
    return slot, B.data[left] * B.data[right], pointers


# --- sparse ------------------------------------------------------------------------------


def factorised(J: sp.csr_array) -> Solve:
    """J⁻¹ by SuperLU, for a J whose pattern is symmetric; its numbers need not be.

    Raises
    ------
    ArithmeticError : J is singular to working accuracy.
    """
    finite(J.data)
    try:
        factors = splu(sp.csc_array(J), permc_spec="MMD_AT_PLUS_A", diag_pivot_thresh=0.01)
    except RuntimeError as error:
        raise ArithmeticError(str(error)) from error
    return lambda rhs: np.asarray(factors.solve(rhs))


class Library(Protocol):
    """Factorises the matrices of one network, one after the other."""

    name: str

    def factorise(self, D: FloatArray, shift: float) -> Solve:
        """The solution by factors of the matrix, or of one close to it.

        Raises
        ------
        ArithmeticError : it is singular, or not positive definite, to working accuracy.
        """


class SuperLU:
    """SciPy's SuperLU on symmetric matrices: no pivots off the diagonal."""

    def __init__(
        self, B: sp.csr_array, mass: sp.csr_array | None, elimination: Elimination
    ) -> None:
        m = B.shape[1]
        self.B, self.mass = B, sp.csr_array((m, m)) if mass is None else mass
        self.mobility = None if mass is None else B.multiply(B) @ (1.0 / mass.diagonal())
        self.order = elimination.dof_order
        self.name = "SuperLU" if self.order is None else "SuperLU in METIS's order"

    def factorise(self, D: FloatArray, shift: float) -> Solve:
        """Without the contacts that do next to nothing: the fewer, the sparser the factors."""
        factors, order = self.factors(D, shift), self.order
        if order is None:
            return lambda rhs: np.asarray(factors.solve(rhs))

        def solve(rhs: FloatArray) -> FloatArray:
            x = np.empty_like(rhs)
            x[order] = factors.solve(rhs[order])
            return x

        return solve

    def factors(self, D: FloatArray, shift: float) -> Any:
        """SuperLU's own factors, in the order of ``order``."""
        strong = D > 0.0 if self.mobility is None else D * self.mobility > _FAINT
        B, order = self.B[strong], self.order
        unit = shift * sp.eye_array(B.shape[1], format="csr")
        H = sp.csc_array(B.T @ (B * D[strong][:, None]) + self.mass + unit)
        if order is not None:
            H = sp.csc_array(H[order][:, order])
        finite(H.data)
        spec = "MMD_AT_PLUS_A" if order is None else "NATURAL"
        try:
            return splu(H, permc_spec=spec, diag_pivot_thresh=0.0, options={"SymmetricMode": True})
        except RuntimeError as error:
            raise ArithmeticError(str(error)) from error


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

    def factorise(self, D: FloatArray, shift: float) -> Solve:
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
        return lambda rhs: self._call(_SOLVE, upper, rhs.reshape(-1, 1)).ravel()

    def _call(self, phase: int, upper: Any, rhs: FloatArray) -> FloatArray:
        self.solver.set_phase(phase)
        return np.asarray(self.solver._call_pardiso(upper, rhs))


def _release(solver: Any, upper: Any) -> None:
    """Give PARDISO's memory back."""
    solver.set_phase(_RELEASE)
    solver._call_pardiso(upper, np.zeros((upper.shape[0], 1)))


def library(B: sp.csr_array, mass: sp.csr_array | None, elimination: Elimination) -> Library:
    """The best library at hand for the network's matrices."""
    return SuperLU(B, mass, elimination) if _pardiso() is None else Pardiso(B, mass)


@functools.cache
def _pardiso() -> Any:
    """A solver of pypardiso to make others from, or None where it is missing or does not load."""
    try:
        with uncounted():
            module = importlib.import_module("pypardiso")
            return module.PyPardisoSolver(mtype=_SYMMETRIC_POSITIVE)
    except (ImportError, OSError):
        return None


class Elimination:
    """The order in which the bodies of a network are eliminated, and what a factorisation costs."""

    def __init__(self, B: sp.csr_array, mass: sp.csr_array | None, size: int) -> None:
        """For B (nc, m) and the inertia (m, m), with ``size`` dofs to a block."""
        self.size, count = size, B.shape[1] // size
        entries = (np.ones(B.nnz), B.indices // size, B.indptr)
        touched = sp.csr_array(entries, shape=(B.shape[0], count))
        graph = sp.csr_array(touched.T @ touched)
        if mass is not None:
            inertia = sp.coo_array(mass)
            tied = (np.ones(inertia.nnz), (inertia.row // size, inertia.col // size))
            graph = sp.csr_array(graph + sp.csr_array(tied, shape=graph.shape))
        graph.setdiag(0.0)
        graph.eliminate_zeros()
        self.graph = graph

    @functools.cached_property
    def order(self) -> IntArray | None:
        """(blocks,) nested dissection, where METIS is installed."""
        return _dissection(self.graph)

    @property
    def dof_order(self) -> IntArray | None:
        """(m,) the same of the dofs."""
        if self.order is None:
            return None
        return np.asarray(self.size * self.order[:, None] + np.arange(self.size)).ravel()

    def cheap(self, most: float) -> bool:
        """Whether factors take ``most`` operations or less.

        Where a guess from the widest level of neighbours is far above, that is the answer. In the
        order by METIS they are counted, without it the guess decides.
        """
        size, graph = float(self.size), self.graph
        guess = _SEPARATED * (size * widest_level(*structure(graph))) ** 3
        if self.order is None or guess > _FAR_ABOVE * most:
            return guess <= most
        ordered = sp.csr_array(graph[self.order][:, self.order])
        return bool(operations(*structure(ordered), most / size**3) * size**3 <= most)


def structure(graph: sp.csr_array) -> tuple[IntArray, IntArray]:
    """Row pointers and column indices, always of 64 bits: loops are compiled for them once."""
    return graph.indptr.astype(np.int64, copy=False), graph.indices.astype(np.int64, copy=False)


def _dissection(graph: sp.csr_array) -> IntArray | None:
    """Nested dissection of a graph (Karypis & Kumar, SIAM J. Sci. Comput. 20, 1998)."""
    try:
        metis = importlib.import_module("pymetis")
    except ImportError:
        return None
    return np.asarray(metis.nested_dissection(metis.CSRAdjacency(graph.indptr, graph.indices))[0])


@compiled(allocates=True)
def widest_level(pointers: IntArray, neighbours: IntArray) -> int:
    """The most nodes at one distance from a node at the edge of a graph, of all its parts."""
    count, widest = pointers.size - 1, 0
    queue, visited = np.empty(count, np.int64), np.zeros(count, np.int8)
    for seed in range(count):
        source = seed
        for sweep in range(1, 3):  # from any node, then from the last one reached
            if visited[source] >= sweep:
                break
            queue[0], begin, end = source, 0, 1
            visited[source] = sweep
            while begin < end:
                level = end
                if sweep == 2:
                    widest = max(widest, level - begin)
                for at in range(begin, level):
                    for k in range(pointers[queue[at]], pointers[queue[at] + 1]):
                        if visited[neighbours[k]] < sweep:
                            visited[neighbours[k]] = sweep
                            queue[end] = neighbours[k]
                            end += 1
                begin = level
            source = queue[end - 1]
    return widest


@compiled(allocates=True)
def operations(pointers: IntArray, neighbours: IntArray, most: float) -> float:
    """Σ (entries of a column)² of the Cholesky factor of a graph; ends beyond ``most``.

    Row by row along the elimination tree: T. Davis, *Direct Methods for Sparse Linear Systems*
    (SIAM, 2006), section 4.4.
    """
    count = pointers.size - 1
    parent, mark = np.full(count, -1), np.full(count, -1)
    entries, total = np.ones(count), float(count)
    for row in range(count):
        mark[row] = row
        for k in range(pointers[row], pointers[row + 1]):
            node = neighbours[k]
            while node < row and mark[node] != row:
                if parent[node] == -1:
                    parent[node] = row
                mark[node] = row
                total += 2.0 * entries[node] + 1.0
                entries[node] += 1.0
                node = parent[node]
        if total > most:
            break
    return total


class UpperPattern:
    """The upper triangle of S + λ I + Bᵀ D B, its pattern made once for all D.

    Attributes
    ----------
    upper : (m, m) CSR matrix, the last one filled.
    """

    def __init__(self, B: sp.csr_array, mass: sp.csr_array | None) -> None:
        nc, m = B.shape
        keys, products, rows = _products(B)
        inertia = sp.coo_array((m, m)) if mass is None else sp.coo_array(sp.triu(mass))
        inertia_keys = inertia.row.astype(np.int64) * m + inertia.col
        diagonal = np.arange(m, dtype=np.int64) * (m + 1)
        known, position = np.unique(
            np.concatenate([keys, inertia_keys, diagonal]), return_inverse=True
        )
        slot, others = position[: keys.size], position[keys.size :]
        self.products = sp.csc_array((products, slot, rows), (known.size, nc))
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
