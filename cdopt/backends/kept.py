"""What CVXPY compiled for one problem, with the numbers of the next one of the same structure.

A step solved again with new gaps, velocities and loads is a new problem, which CVXPY compiles for
longer than a solver takes. But for a quadratic or conic program each number that the solver gets
is one of the problem's constants times ±1, ±2 or ±½, at a place that the structure determines. The
second problem of a structure is compiled once more with random numbers for its constants, which
shows where each constant goes; later ones are filled in. This is kept only where it gives what
CVXPY itself made of the second problem, bit for bit.
"""

from __future__ import annotations

import copy
import warnings
from collections import OrderedDict
from collections.abc import Mapping
from typing import Any

import cvxpy as cp
import numpy as np
import scipy.sparse as sp

from cdopt._util.checks import FloatArray

Compiled = tuple[Any, Any, Any]  # CVXPY's data, solving chain and inverse data

_MOST = 16  # structures kept
_LARGEST = 20_000  # constants beyond which solvers take longer than compiling
_FACTORS = (1.0, -1.0, 2.0, -2.0, 0.5, -0.5)
_KEPT: OrderedDict[Any, _Places | bool] = OrderedDict()  # True: seen once; False: never filled in


def compiled_for(
    problem: cp.Problem, name: str, settings: Mapping[str, Any], extended: bool = False
) -> Compiled:
    """CVXPY's data for one solver, from those of an earlier problem where there is one.

    A problem ``extended`` by its user is compiled each time: only the formulations' own
    constraints are judged by the certificate. To be called under the lock of ``posing``.
    """
    if extended:
        return _compile(problem, name, settings)
    leaves = _Leaves()
    key = (name, repr(sorted(settings.items())), leaves.structure(problem))
    if leaves.strange or not 0 < leaves.size <= _LARGEST:
        return _compile(problem, name, settings)
    places = _KEPT.get(key)
    filled = places.filled(problem, leaves) if isinstance(places, _Places) else None
    if filled is not None:
        _KEPT.move_to_end(key)
        return filled
    compiled = _compile(problem, name, settings)
    if places is True:
        _KEPT[key] = _Places.of(problem, leaves, compiled, name, settings) or False
    _KEPT.setdefault(key, True)
    while len(_KEPT) > _MOST:
        _KEPT.popitem(last=False)
    return compiled


def _compile(problem: cp.Problem, name: str, settings: Mapping[str, Any]) -> Compiled:
    """As CVXPY does it. Its warning that powers become second-order cones is hidden."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Power atom with exponent")
        compiled: Compiled = problem.get_problem_data(name.upper(), solver_opts=dict(settings))
        return compiled


class _Leaves:
    """The constants and variables of a problem, in the order in which its tree names them.

    Attributes
    ----------
    constants : arrays and sparse matrices; plain numbers belong to the structure.
    size : their entries, together.
    strange : whether there is a leaf of another kind.
    """

    def __init__(self) -> None:
        self.constants: list[cp.Constant] = []
        self.size, self.strange = 0, False
        self._number: dict[int, int] = {}

    def structure(self, problem: cp.Problem) -> Any:
        """The tree of the problem without the numbers of its constants."""
        return tuple(map(self._of, (problem.objective, *problem.constraints)))

    def _of(self, node: Any) -> Any:
        if isinstance(node, list):
            return tuple(map(self._of, node))
        if not isinstance(node, cp.expressions.leaf.Leaf):
            beside = tuple(map(_plain, node.get_data() or ()))
            if isinstance(node, cp.Constraint):
                beside = beside[:-1]  # without its number
            return type(node), beside, tuple(map(self._of, node.args))
        if id(node) in self._number:
            return self._number[id(node)]
        if isinstance(node, cp.Constant) and node.shape == ():
            return float(node.value)
        self._number[id(node)] = len(self._number)
        if isinstance(node, cp.Constant):
            self.constants.append(node)
            self.size += node.value.nnz if sp.issparse(node.value) else node.value.size
            return node.shape, _pattern(node.value) if self.size <= _LARGEST else None
        self.strange |= not isinstance(node, cp.Variable)
        return node.shape, repr(node.attributes)

    def numbers(self) -> FloatArray:
        """Entries of all constants, one after the other."""
        return np.concatenate([np.zeros(0), *map(_entries, (c.value for c in self.constants))])


class _Places:
    """Where the constants of a structure go in what CVXPY compiles.

    Attributes
    ----------
    problem, compiled : from which it was learnt.
    arrays : by key of the data, for each entry of an array the index of its constant and the
        factor, zero for entries that are the same in every problem.
    """

    def __init__(self, problem: cp.Problem, compiled: Compiled, arrays: dict[str, Any]) -> None:
        self.problem, self.compiled, self.arrays = problem, compiled, arrays

    @classmethod
    def of(
        cls,
        problem: cp.Problem,
        leaves: _Leaves,
        compiled: Compiled,
        name: str,
        settings: Mapping[str, Any],
    ) -> _Places | None:
        """Learnt from random constants; None where that does not give what was ``compiled``."""
        rng = np.random.default_rng(0)
        others = {id(c): _like(c, rng) for c in leaves.constants}
        try:
            probe = cp.Problem(
                problem.objective.tree_copy(others),
                [constraint.tree_copy(others) for constraint in problem.constraints],
            )
            data = _compile(probe, name, settings)[0]
        except (cp.DCPError, cp.SolverError, ArithmeticError, TypeError, ValueError):
            return None
        tags = np.concatenate([_entries(others[id(c)].value) for c in leaves.constants])
        order = np.argsort(tags)
        arrays = {}
        for key, value in data.items():
            if getattr(getattr(value, "dtype", None), "kind", "") != "f":
                continue
            entries = _entries(value)
            if entries.size != _entries(compiled[0][key]).size:
                return None
            index, factor = np.zeros(entries.size, dtype=np.int64), np.zeros(entries.size)
            for trial in _FACTORS:
                at = np.searchsorted(tags, entries / trial, sorter=order).clip(max=tags.size - 1)
                found = tags[order[at]] * trial == entries
                index[found], factor[found] = order[at[found]], trial
            fixed = factor == 0.0
            if not np.array_equal(entries[fixed], _entries(compiled[0][key])[fixed]):
                return None
            arrays[key] = index, factor
        places = cls(problem, compiled, arrays)
        again = places.filled(problem, leaves)
        same = again is not None and all(_same(again[0][key], compiled[0][key]) for key in arrays)
        return places if same else None

    def filled(self, problem: cp.Problem, leaves: _Leaves) -> Compiled | None:
        """What CVXPY would compile; None where an entry vanishes, or no longer does."""
        before, chain, inverse = self.compiled
        data, numbers = dict(before), leaves.numbers()
        for key, (index, factor) in self.arrays.items():
            old = _entries(before[key])
            new = np.where(factor != 0.0, factor * numbers[index], old)
            if not sp.issparse(before[key]):
                data[key] = new.reshape(before[key].shape)
                continue
            if not np.array_equal(new != 0.0, old != 0.0):
                return None
            data[key] = copy.copy(before[key])
            data[key].data = new
        return data, _Renamed(chain, self.problem, problem), inverse


class _Renamed:
    """A solving chain that reads answers back into the variables of another problem."""

    def __init__(self, chain: Any, before: cp.Problem, problem: cp.Problem) -> None:
        self.chain = chain
        self.solve_via_data = chain.solve_via_data
        pairs = zip(problem.variables(), before.variables(), strict=True)
        self.variables = {old.id: new.id for new, old in pairs}
        both = zip(problem.constraints, before.constraints, strict=True)
        self.constraints = {old.id: new.id for new, old in both}

    def invert(self, raw: Any, inverse: Any) -> Any:
        """CVXPY's reading of a solver's ``raw`` result, under the new names."""
        result = self.chain.invert(raw, inverse)
        for name, ids in (("primal_vars", self.variables), ("dual_vars", self.constraints)):
            values = getattr(result, name) or {}
            setattr(result, name, {ids[key]: x for key, x in values.items() if key in ids})
        return result


def _plain(value: Any) -> Any:
    """What an atom holds beside its arguments, to be compared."""
    value = value.value if isinstance(value, cp.Expression) else value
    return value.tobytes() if isinstance(value, np.ndarray) else repr(value)


def _entries(value: Any) -> FloatArray:
    """The stored entries of an array or a sparse matrix."""
    return np.asarray(value.data if sp.issparse(value) else value.ravel(), dtype=np.float64)


def _pattern(value: Any) -> Any:
    """Where a matrix has entries."""
    return (value.indices.tobytes(), value.indptr.tobytes()) if sp.issparse(value) else None


def _like(constant: cp.Constant, rng: np.random.Generator) -> cp.Constant:
    """A constant of random positive numbers in the same places, symmetric where it was."""
    value = constant.value
    if not sp.issparse(value):
        return cp.Constant(rng.uniform(1.0, 2.0, value.shape), name=constant.name())
    tagged = copy.copy(value)
    tagged.data = rng.uniform(1.0, 2.0, value.nnz)
    if value.shape[0] == value.shape[1] and (value != value.T).nnz == 0:
        tagged = tagged.maximum(tagged.T)
    return cp.Constant(tagged, name=constant.name())


def _same(a: Any, b: Any) -> bool:
    """Whether two arrays or matrices have the same entries in the same places."""
    return _pattern(a) == _pattern(b) and np.array_equal(_entries(a), _entries(b))
