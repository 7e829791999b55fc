"""What CVXPY compiles for a solver, filled in anew for the next problem of the same structure.

A step solved again with new gaps, velocities and loads is a new problem, which CVXPY compiles for
longer than a solver takes. But for a quadratic or conic program each number that the solver gets
is one of the problem's constants times a power of two, at a place that the structure determines.
The second problem of a structure is compiled once more with random numbers for its constants, which
shows where each constant goes; later ones are filled in. This is kept only where it gives what
CVXPY itself made of the second problem, bit for bit.

Warm starts are put together here, too: CVXPY's own repeats the last solve of the same problem.
"""

from __future__ import annotations

import copy
import warnings
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import cvxpy as cp
import cvxpy.settings as keys
import numpy as np
import scipy.sparse as sp
from scipy.sparse.linalg import lsqr

from cdopt._util.checks import FloatArray, IntArray

Point = tuple[FloatArray, FloatArray]  # x and multipliers y

_MOST = 16  # structures kept
_LARGEST = 20_000  # constants beyond which solvers take longer than compiling
_KEPT: OrderedDict[Any, _Filling | bool] = OrderedDict()  # True: seen once; False: never filled in


@dataclass(frozen=True)
class Compiled:
    """What CVXPY compiled of a problem: what a solver gets, and what reads its answer back."""

    data: dict[str, Any]
    chain: Any
    inverse: Any
    names: Mapping[int, int] = field(
        default_factory=dict
    )  # ids by those of the chain, if not the same

    def invert(self, raw: Any) -> Any:
        """CVXPY's reading of a solver's ``raw`` result."""
        result = self.chain.invert(raw, self.inverse)
        for kind in ("primal_vars", "dual_vars") if self.names else ():
            values = (getattr(result, kind) or {}).items()
            renamed = {self.names[key]: value for key, value in values if key in self.names}
            setattr(result, kind, renamed)
        return result

    @property
    def A(self) -> sp.csr_array:
        """All rows that the solver gets."""
        return sp.csr_array(
            sp.vstack([self.data[key] for key in (keys.A, keys.F) if key in self.data])
        )

    def places(self, count: tuple[int, int]) -> dict[int, tuple[IntArray, FloatArray]]:
        """Of each variable in x and each constraint in y, by id: places, and signs.

        CVXPY says itself: an answer of 1, 2, 3 … comes back in the variables and multipliers.
        ``count`` are the rows and columns of A.
        """
        y, x = (1.0 + np.arange(size) for size in count)
        about = {"status_val": 1, "iter": 0, "run_time": 0.0, "solve_time": 0.0}
        about |= {"setup_time": 0.0, "obj_val": 0.0, "pobj": 0.0}
        raw: Any = {"x": x, "y": y, "info": about}
        if self.chain.solver.name() == "OSQP":
            raw = SimpleNamespace(x=x, y=y, info=SimpleNamespace(**about))
        result, places = self.invert(raw), {}
        for values, size in ((result.primal_vars, x.size), (result.dual_vars, y.size)):
            for key, value in values.items():
                numbers = np.ravel(np.asarray(value, dtype=np.float64), order="F")
                index = np.abs(numbers).round().astype(np.int64) - 1
                whole = np.array_equal(np.abs(numbers), index + 1.0)
                if whole and np.all((index >= 0) & (index < size)):
                    places[key] = index, np.sign(numbers)
        return places

    def point(self, problem: cp.Problem) -> Point:
        """x and y of the values that stand in the variables and multipliers of ``problem``.

        Multipliers of bounds that CVXPY added are those of stationarity P x + q + Aᵀ y = 0.
        """
        A, P = self.A, self.data.get(keys.P)
        q = np.asarray(self.data[keys.Q] if keys.Q in self.data else self.data[keys.C])
        places = self.places(A.shape)
        x, y, known = np.zeros(A.shape[1]), np.zeros(A.shape[0]), np.zeros(A.shape[0], dtype=bool)
        for variable in problem.variables():
            if variable.value is not None and variable.id in places:
                x[places[variable.id][0]] = np.ravel(variable.value, order="F")
        for constraint in problem.constraints:
            multipliers = _multipliers(constraint)
            if multipliers is not None and constraint.id in places:
                position, sign = places[constraint.id]
                y[position], known[position] = sign * multipliers, True
        if not known.all():
            gradient = (q if P is None else P @ x + q) + A.T @ y
            bounds = lsqr(sp.csr_array(A[~known].T), -gradient, atol=1e-10, btol=1e-10)[0]
            y[~known] = np.maximum(bounds, 0.0)
        return x, y


def _multipliers(constraint: cp.Constraint) -> FloatArray | None:
    """The multipliers of a constraint as solvers have them; of cones one after the other."""
    value = constraint.dual_value
    if not isinstance(value, list):
        return None if value is None else np.ravel(value, order="F")
    if not isinstance(constraint, cp.SOC) or value[0] is None:
        return None
    first, others = value
    others = np.asarray(others) if constraint.axis == 1 else np.transpose(others)
    return np.column_stack([np.ravel(first), others.reshape(np.size(first), -1)]).ravel()


def compiled_for(
    problem: cp.Problem, name: str, settings: Mapping[str, Any], extended: bool = False
) -> Compiled:
    """CVXPY's data for one solver, from those of an earlier problem where there is one.

    A problem ``extended`` by its user is compiled each time: only the formulations' own
    constraints are judged by the certificate. To be called under the lock ``POSING``.
    """
    if extended:
        return _compile(problem, name, settings)
    leaves = _Leaves(problem)
    if leaves.strange or not 0 < leaves.size <= _LARGEST:
        return _compile(problem, name, settings)
    key = (name, repr(sorted(settings.items())), leaves.structure)
    kept = _KEPT.get(key)
    filled = kept.filled(problem, leaves) if isinstance(kept, _Filling) else None
    if filled is not None:
        _KEPT.move_to_end(key)
        return filled
    compiled = _compile(problem, name, settings)
    if kept is True:
        _KEPT[key] = _learnt(problem, leaves, compiled, name, settings) or False
    _KEPT.setdefault(key, True)
    while len(_KEPT) > _MOST:
        _KEPT.popitem(last=False)
    return compiled


def _compile(problem: cp.Problem, name: str, settings: Mapping[str, Any]) -> Compiled:
    """As CVXPY does it. Its warning that powers become second-order cones is hidden."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Power atom with exponent")
        return Compiled(*problem.get_problem_data(name.upper(), solver_opts=dict(settings)))


class _Leaves:
    """The constants of a problem, in the order in which its tree names them, and that tree.

    Plain numbers belong to the ``structure``. ``strange`` is whether there is a leaf that is
    neither a constant nor a variable.
    """

    def __init__(self, problem: cp.Problem) -> None:
        self.constants: list[cp.Constant] = []
        self.size, self.strange = 0, False
        self._number: dict[int, int] = {}
        self.structure = tuple(map(self._of, (problem.objective, *problem.constraints)))

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
            self.size += _entries(node.value).size
            return node.shape, _pattern(node.value) if self.size <= _LARGEST else None
        self.strange |= not isinstance(node, cp.Variable)
        return node.shape, repr(node.attributes)


@dataclass(frozen=True)
class _Filling:
    """Where the constants of a structure go in what CVXPY compiles, learnt from one problem.

    ``arrays`` holds, by key of the data, for each entry of an array the index of its constant and
    the factor, zero for entries that are the same in every problem.
    """

    problem: cp.Problem
    compiled: Compiled
    arrays: Mapping[str, tuple[IntArray, FloatArray]]

    def filled(self, problem: cp.Problem, leaves: _Leaves) -> Compiled | None:
        """What CVXPY would compile; None where an entry vanishes, or no longer does."""
        before = self.compiled.data
        data, numbers = dict(before), np.concatenate([_entries(c.value) for c in leaves.constants])
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
        ours = (*problem.variables(), *problem.constraints)
        theirs = (*self.problem.variables(), *self.problem.constraints)
        names = {old.id: new.id for new, old in zip(ours, theirs, strict=True)}
        return Compiled(data, self.compiled.chain, self.compiled.inverse, names)


def _learnt(
    problem: cp.Problem, leaves: _Leaves, compiled: Compiled, name: str, settings: Mapping[str, Any]
) -> _Filling | None:
    """Learnt from random constants; None where that does not give what was ``compiled``."""
    rng = np.random.default_rng(0)
    others = {id(c): _like(c, rng) for c in leaves.constants}
    try:
        constraints = [constraint.tree_copy(others) for constraint in problem.constraints]
        probe = cp.Problem(problem.objective.tree_copy(others), constraints)
        data = _compile(probe, name, settings).data
    except (cp.DCPError, cp.SolverError, ArithmeticError, TypeError, ValueError):
        return None
    tags = np.concatenate([_entries(others[id(c)].value) for c in leaves.constants])
    order, arrays = np.argsort(tags), {}
    for key, value in data.items():
        if getattr(getattr(value, "dtype", None), "kind", "") != "f":
            continue
        entries, expected = _entries(value), _entries(compiled.data[key])
        tag = 2.0 * np.frexp(np.abs(entries))[0]  # between one and two, as the random numbers are
        index = order[np.searchsorted(tags, tag, sorter=order).clip(max=tags.size - 1)]
        factor = np.where(tags[index] == tag, entries / tags[index], 0.0)
        fixed = factor == 0.0
        if entries.shape != expected.shape or np.any(entries[fixed] != expected[fixed]):
            return None
        arrays[key] = index, factor
    filling = _Filling(problem, compiled, arrays)
    again = filling.filled(problem, leaves)
    if again is None:
        return None
    pairs = [(again.data[key], compiled.data[key]) for key in arrays]
    same = [
        _pattern(a) == _pattern(b) and np.array_equal(_entries(a), _entries(b)) for a, b in pairs
    ]
    return filling if all(same) else None


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
