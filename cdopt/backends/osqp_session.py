"""OSQP along a trajectory: set up once, updated from step to step.

Successive steps often have the same contacts and the same pattern of P and A. OSQP then keeps its
ordering and its step size ρ, takes the new numbers through its own ``update`` and starts from the
solution before. When the pattern or the contacts change it is set up anew, and
still starts from the forces of the contacts that stayed. CVXPY compiles every step as ever, and
the certificate is computed for every step as ever.

B. Stellato, G. Banjac, P. Goulart, A. Bemporad, S. Boyd, *OSQP: an operator splitting solver for
quadratic programs*, Math. Program. Comput. 12 (2020) 637, section 5.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

import cvxpy as cp
import numpy as np
import osqp
import scipy.sparse as sp

from cdopt._util import checks
from cdopt._util.checks import FloatArray, IntArray
from cdopt._util.errors import InvalidInput
from cdopt.backends import warm
from cdopt.backends.base import Backend, Capability, Problem, RunResult
from cdopt.backends.deadline import Deadline
from cdopt.backends.modelled import (
    FOREIGN_ERRORS,
    Modelled,
    compiled_for,
    failure,
    read_back,
    result_of,
)
from cdopt.backends.posing import POSING
from cdopt.backends.registry import SOLVERS, limited_by, osqp_data, time_limit_for
from cdopt.backends.warm import Compiled
from cdopt.problem import ProblemData, RigidStepData
from cdopt.problem.solution import Iterate
from cdopt.problem.warm_start import WarmStart

_ENDLESS = 1e10  # seconds, OSQP's own default
_STAGES = ("compile", "set-up", "solve", "read")


class OSQPSession:
    """A backend with a memory: one OSQP solver for successive steps of one trajectory.

    Its answers agree with fresh solves within the solver's accuracy, not bit for bit: they depend
    on what it solved before. Do not share one between trajectories or threads. Copies and
    pickles begin anew, without the solver.

    Parameters
    ----------
    settings : OSQP's settings; those of CVXPY's interface where they say nothing.

    Attributes
    ----------
    setups, updates : how often OSQP was set up, and how often it took new numbers.

    Raises
    ------
    InvalidInput : settings of something else.

    >>> import cdopt
    >>> session = cdopt.backends.osqp_session(accuracy=1e-7)
    >>> beam = cdopt.bank.load("beam-uniform").step
    >>> [cdopt.ClassicCD(beam).solve(session).ok for _ in range(3)]
    [True, True, True]
    >>> session.setups, session.updates
    (1, 2)
    """

    def __init__(self, settings: Modelled) -> None:
        if not isinstance(settings, Modelled) or settings.name != "osqp":
            raise InvalidInput("settings", checks.describe(settings), 'Modelled("osqp", …)')
        self.settings = settings
        self.setups = self.updates = 0
        self._solver: Any = None
        self._program: _Program | None = None
        self._last: _Last | None = None

    def __reduce__(self) -> tuple[Any, ...]:
        return OSQPSession, (self.settings,)

    @property
    def name(self) -> str:
        """The registered name of the solver."""
        return self.settings.name

    @property
    def capability(self) -> Capability:
        """What OSQP can take."""
        return self.settings.capability

    def run(
        self,
        posed: Problem,
        warm_start: WarmStart | None,
        verbose: bool,
        time_limit: float | None = None,
    ) -> RunResult:
        """Compile with CVXPY, update or set up OSQP, solve once, read the iterate back."""
        deadline, settings = Deadline.after(time_limit), self.settings.settings
        limited = "" if time_limit is None else limited_by(self.name)
        with POSING:
            problem = posed.problem
            clock = [time.perf_counter()]
            try:
                compiled = compiled_for(problem, self.name, settings)
                clock.append(time.perf_counter())
                new = _Program(osqp_data(compiled[0]), posed.data)
                how = self._prepare(new, problem, compiled, verbose, deadline)
                start = self._point(posed, compiled, warm_start, how)
                if start is not None:
                    self._solver.warm_start(*start)
                clock.append(time.perf_counter())
                raw = self._solver.solve(raise_error=False)
                clock.append(time.perf_counter())
                _, chain, inverse = compiled
                result = chain.invert(raw, inverse)
                iterate = read_back(posed, result)
            except InvalidInput:
                self.forget()
                raise
            except FOREIGN_ERRORS as error:
                self.forget()
                seconds = {"compile": time.perf_counter() - clock[0]}
                return failure(error, seconds, settings, limited)
        clock.append(time.perf_counter())
        timings = dict(zip(_STAGES, np.diff(clock).tolist(), strict=True))
        outcome = result_of(raw, result, iterate, timings, {**settings, "session": how}, limited)
        if outcome.claim == "solved" and iterate is not None:
            self._last = _Last(iterate, posed.data.contact_ids, posed.data.kind, (raw.x, raw.y))
        else:
            self.forget()
        return outcome

    def forget(self) -> None:
        """Drop the solver and the last solution; the next step is set up anew, from zero."""
        self._solver = self._program = self._last = None

    def _point(
        self, posed: Problem, compiled: Compiled, given: WarmStart | None, how: str
    ) -> tuple[FloatArray, FloatArray] | None:
        """x and y to start from: OSQP's own where they follow, or those of forces by name."""
        last = self._last
        if last is not None and how == "updated" and (given is None or last.is_of(given)):
            return last.point
        start = given or (None if last is None else last.start(posed.data))
        if start is None:
            return None
        posed.seed(start)
        return warm.point(self.name, posed.problem, compiled)

    def _prepare(
        self, new: _Program, problem: cp.Problem, compiled: Compiled, verbose: bool,
        deadline: Deadline,
    ) -> str:  # fmt: skip
        """New numbers into the solver at hand, or a new solver; returns which."""
        before, self._program = self._program, new
        own = self.settings.settings
        limit = time_limit_for(self.name, own, min(deadline.left, _ENDLESS))
        if before is None or not new.is_like(before):
            new.widen(*_labels(new, problem, compiled))
        elif new.fits(before):
            numbers = {f"{name}x": matrix.data for name, matrix in new.stored().items()}
            self._solver.update(**new.vectors, **numbers)
            self._solver.update_settings(verbose=verbose, **limit)
            self.updates += 1
            return "updated"
        settings = {**(SOLVERS["osqp"].cvxpy_defaults or {}), **own, **limit, "verbose": verbose}
        self._solver = osqp.OSQP()
        self._solver.setup(**new.stored(), **new.vectors, **settings)
        self.setups += 1
        return "set up"

    def __repr__(self) -> str:
        options = ", ".join(f"{key}={value!r}" for key, value in self.settings.settings.items())
        return f"OSQPSession({options})"


@dataclass(frozen=True, eq=False)
class _Last:
    """The last solution: its forces and motion, the names of its contacts, its x and y."""

    iterate: Iterate
    ids: Any
    kind: str
    point: tuple[FloatArray, FloatArray]

    def is_of(self, start: WarmStart) -> bool:
        """Whether a start holds the forces of this solution."""
        return np.array_equal(start.forces, self.iterate.forces)

    def start(self, data: ProblemData) -> WarmStart | None:
        """Its forces as a start of another problem; None where they do not fit."""
        named = self.ids is not None and data.contact_ids is not None
        if self.kind != data.kind or not (named or self.iterate.forces.size == data.nc):
            return None
        return WarmStart(self.iterate.forces, self.iterate.motion, self.ids)


def osqp_session(accuracy: float | None = None, **options: Any) -> OSQPSession:
    """OSQP for the successive steps of a trajectory.

    Parameters
    ----------
    accuracy, options : as of ``Modelled("osqp")``.

    Raises
    ------
    InvalidInput : accuracy out of range.
    """
    return OSQPSession(Modelled("osqp", accuracy, options))


def at_work(backend: Backend) -> Backend:
    """A backend for the steps of one trajectory: of OSQP a session, any other as it is."""
    if isinstance(backend, Modelled) and backend.name == "osqp":
        return OSQPSession(backend)
    return backend


# --- numbers on a pattern that lasts -------------------------------------------------------


class _Program:
    """OSQP's data of one step, stored on a sparsity pattern that later steps may share.

    OSQP takes new numbers for P and A without a new set-up as long as no entry comes up where
    there was none. Entries do come up: a normal along an axis turns off it by round-off. So the
    pattern has room for all dofs of a body wherever there is an entry for one, and what is zero
    now is stored as a zero.

    Attributes
    ----------
    matrices : P, its upper half, and A. patterns : ones wherever they have room.
    vectors : q, l and u.
    """

    def __init__(self, data: dict[str, Any], plain: ProblemData) -> None:
        self.plain = plain
        self.matrices = {name: _sorted(data[name]) for name in ("P", "A")}
        self.vectors: dict[str, FloatArray] = {name: data[name] for name in ("q", "l", "u")}
        self.patterns = {name: _ones(matrix) for name, matrix in self.matrices.items()}

    def is_like(self, before: _Program) -> bool:
        """Whether both are of one kind and shape, with the same contacts."""
        mine, theirs = self.plain.contact_ids, before.plain.contact_ids
        shapes = all(self.matrices[n].shape == before.matrices[n].shape for n in self.matrices)
        if self.plain.kind != before.plain.kind or not shapes:
            return False
        if mine is None or theirs is None:
            return mine is theirs
        return np.array_equal(mine, theirs)

    def fits(self, before: _Program) -> bool:
        """Whether the earlier pattern has room for every entry; takes over its places."""
        joined = {
            name: _ones(before.patterns[name] + self.patterns[name]) for name in self.patterns
        }
        fits = all(joined[name].nnz == before.patterns[name].nnz for name in joined)
        self.patterns = joined
        return fits

    def widen(self, rows: IntArray, columns: IntArray) -> None:
        """Room for all dofs of a body where there is an entry for one.

        ``rows`` and ``columns`` label what belongs together among those of A.
        """
        left, right = _members(rows), _members(columns)
        A, P = self.patterns["A"], self.patterns["P"]
        self.patterns["A"] = _ones(left @ (left.T @ A @ right) @ right.T)
        self.patterns["P"] = _ones(sp.triu(right @ (right.T @ P @ right) @ right.T))

    def stored(self) -> dict[str, sp.csc_matrix]:
        """P and A with all places of their patterns."""
        return {name: self._filled(name) for name in self.matrices}

    def _filled(self, name: str) -> sp.csc_matrix:
        pattern, matrix = self.patterns[name], self.matrices[name]
        column = np.repeat(np.arange(pattern.shape[1]), np.diff(pattern.indptr))
        values = np.zeros(0)
        if pattern.nnz:
            values = np.asarray(matrix[pattern.indices, column], dtype=np.float64).ravel()
        return sp.csc_matrix((values, pattern.indices, pattern.indptr), shape=pattern.shape)


def _labels(
    program: _Program, problem: cp.Problem, compiled: Compiled
) -> tuple[IntArray, IntArray]:
    """The body of each row and each column of A; those of no body have a label of their own."""
    rows, columns = (-1 - np.arange(size) for size in program.matrices["A"].shape)
    plain = program.plain
    if not isinstance(plain, RigidStepData) or plain.step.dof_body is None:
        return rows, columns
    body = plain.step.dof_body
    moves = np.bincount(plain.B.indices, minlength=body.size) > 0
    in_x, in_y = warm.positions("osqp", problem, compiled)
    for labels, items, places in (
        (columns, problem.variables(), in_x),
        (rows, [c for c in problem.constraints if isinstance(c, cp.constraints.Equality)], in_y),
    ):
        for item in items:
            if item.size == body.size and item.id in places:
                labels[places[item.id][0][moves]] = body[moves]
    return rows, columns


def _members(labels: IntArray) -> sp.csr_array:
    """(n, groups): one where an entry has the group's label."""
    names, group = np.unique(labels, return_inverse=True)
    entries = (np.arange(labels.size), group)
    return sp.csr_array((np.ones(labels.size), entries), shape=(labels.size, names.size))


def _sorted(matrix: Any) -> sp.csc_array:
    """The matrix by columns, each entry once and in order."""
    ordered = sp.csc_array(matrix)
    ordered.sum_duplicates()
    return ordered


def _ones(matrix: Any) -> sp.csc_array:
    """Ones where a matrix has entries."""
    pattern = _sorted(matrix).copy()
    pattern.data = np.ones(pattern.nnz)
    return pattern
