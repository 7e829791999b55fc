"""Statements of small problems, kept so that CVXPY compiles a structure once for each solver.

Problems have the same structure if they differ only in numbers: in the entries of B, M and N, the
rates, loads and stiffnesses. The second one is stated with these as CVXPY parameters, and the next
ones only give them values. Compiling parameters takes twice as long up to 2,000 numbers, which the
next two solves save, and seventeen times with 12,000.

All functions are to be called under CVXPY's lock.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable, Sequence
from typing import Any

import numpy as np
import scipy.sparse as sp
from cvxpy.reductions.solution import Solution

from cdopt._util.checks import FloatArray
from cdopt.formulations import numbers
from cdopt.formulations.cone_forms import form_of
from cdopt.formulations.statement import InForces, InMotion, Statement
from cdopt.problem import ContactProblem

_NUMBERS, _STATEMENTS = 2_000, 16  # at most, in a statement and in all
_kept: OrderedDict[Hashable, Statement | None] = OrderedDict()  # None of what was seen once


def kept_statement(
    data: ContactProblem, in_forces: bool, shift: FloatArray | None, solver: str
) -> Statement | None:
    """The statement of a problem on variables that others of its structure share, without values.

    None for large problems, and for the first one of its structure.
    """
    structure = _structure(data)
    if structure is None:
        return None
    key = solver, in_forces, structure
    seen, statement = key in _kept, _kept.pop(key, None)
    if seen and statement is None:
        statement = (InForces if in_forces else InMotion)(data, shift, numbers.EVERY)
    _kept[key] = statement
    if len(_kept) > _STATEMENTS:
        _kept.popitem(last=False)
    if statement is None:
        return None
    posed = statement.with_rates(data, shift)
    posed.weight = np.ones(data.parts.count)
    return posed


def _structure(data: ContactProblem) -> Hashable:
    """What problems of one structure have in common; None for those that are not kept."""
    scales, law, inertia = data.scales, data.compliance, data.inertia
    matrices, cones = [scales.B, scales.S, scales.N], form_of(scales.cones)
    stored = [0 if A is None else A.nnz for A in matrices]
    few = data.rows + sum(stored) <= _NUMBERS and any(stored[::2])  # in S alone are no contacts
    if not few or cones.key is None or data.sliders is not None:
        return None
    patterns = tuple(A is not None and _pattern(A) for A in matrices)
    about = data.is_static, inertia is not None and inertia.is_diagonal
    return *about, cones.key, *patterns, law and (type(law), law.power)


def _pattern(A: sp.csr_array) -> Hashable:
    """Where a matrix has entries."""
    return A.shape, A.indptr.tobytes(), A.indices.tobytes()


def by_place(answer: Solution, parts: Sequence[Any]) -> Solution:
    """An answer with the places of variables and constraints, ``parts``, as their ids."""
    return _renamed(answer, {one.id: k for k, one in enumerate(parts)}.__getitem__)


def placed(answer: Solution, parts: Sequence[Any]) -> Solution:
    """An answer from ``by_place`` for the ``parts`` of another statement of the structure."""
    return _renamed(answer, [one.id for one in parts].__getitem__)


def _renamed(answer: Solution, name: Callable[[int], int]) -> Solution:
    """The answer with other ids."""
    values = [
        {name(k): x for k, x in each.items()} for each in (answer.primal_vars, answer.dual_vars)
    ]
    return Solution(answer.status, answer.opt_val, *values, {})
