"""The numbers of a statement: vectors, and sparse matrices, constant or CVXPY parameters.

By name: B, M and N, and M/m with rows in units of the masses; the rates p of the free motion;
stiffnesses, as factors k of elastic energies; loads F̃ of static networks.
"""

from __future__ import annotations

from typing import TypeAlias

import cvxpy as cp
import numpy as np
import scipy.sparse as sp

from cdopt._util.checks import FloatArray
from cdopt.problem import ContactProblem
from cdopt.problem.scaling import scaled

Number: TypeAlias = FloatArray | sp.csr_array | sp.csc_array
SIGNED = ("B", "M", "M/m", "N", "p", "F̃")
EVERY = (*SIGNED, "k")
RATES = ("p",)  # all that differs between steps on one network
_DENSE = 1_000_000  # numbers that CVXPY may hold for a parameter in an objective
_INDEXED = 10_000  # rows of cones with a parameter, which it takes a second to compile


def can_vary(data: ContactProblem, in_forces: bool) -> bool:
    """Whether CVXPY compiles the rates of the free motion as a parameter at no great cost.

    In an objective it keeps a dense matrix of variables by parameters; of cones, whose rows are
    taken apart, one of the parameters.
    """
    if in_forces:
        return data.rows * (data.rows + data.nv) <= _DENSE
    return data.d == 1 or data.rows <= _INDEXED


def entries(number: Number) -> FloatArray:
    """The entries of a vector, or those that a sparse matrix stores."""
    return number if isinstance(number, np.ndarray) else number.data


def with_entries(number: Number, parameter: cp.Parameter) -> cp.Expression:
    """The vector or matrix with a ``parameter`` for its entries.

    CVXPY's own sparse parameters take twice as long to be given values.
    """
    if isinstance(number, np.ndarray):
        return parameter
    by_rows = number.format == "csr"
    lines, across = number.shape if by_rows else number.shape[::-1]
    line = np.repeat(np.arange(lines), np.diff(number.indptr))
    at = line * across + number.indices, np.arange(number.nnz)
    onto = sp.csr_array((np.ones(number.nnz), at), (lines * across, number.nnz))
    return cp.reshape(onto @ parameter, number.shape, order="C" if by_rows else "F")


def weighted(A: sp.csr_array | None, weight: FloatArray) -> sp.csr_array:
    """A symmetric matrix, its rows and columns multiplied by the roots of the ``weight``."""
    root = np.sqrt(weight)
    return A if np.all(weight == 1.0) else scaled(sp.csr_array(A), root, root)
