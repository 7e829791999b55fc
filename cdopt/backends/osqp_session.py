"""OSQP along a trajectory: set up once, updated from step to step.

Successive steps often have the same contacts and the same pattern of P and A. OSQP then keeps its
ordering and its step size ρ, takes the new numbers through its own ``update`` and starts from the
solution before. When the pattern or the contacts change it is set up anew, and
still starts from the forces of the contacts that stayed. The data of a step are those that CVXPY
compiles, and the certificate is computed for every step as ever.

B. Stellato, G. Banjac, P. Goulart, A. Bemporad, S. Boyd, *OSQP: an operator splitting solver for
quadratic programs*, Math. Program. Comput. 12 (2020) 637, section 5.
"""

from __future__ import annotations

import dataclasses
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
from cdopt.backends.kept import Compiled
from cdopt.backends.modelled import Modelled, run_compiled
from cdopt.backends.registry import SOLVERS, Point, osqp_data
from cdopt.problem import ProblemData, RigidStepData
from cdopt.problem.warm_start import WarmStart

_ENDLESS = 1e10  # seconds, OSQP's own default


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
        self._updated = False
        self._program: _OSQPData | None = None
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
        settings = self.settings.settings

        def prepare(compiled: Compiled) -> tuple[_OSQPData, Point | None]:
            program = _OSQPData(osqp_data(compiled[0]), posed.data)
            updated = self._take(program, posed, compiled)
            return program, self._point(posed, compiled, warm_start, updated)

        def call(
            compiled: Compiled, prepared: tuple[_OSQPData, Point | None], options: dict[str, Any]
        ) -> Any:
            program, start = prepared
            self._load(program, {"time_limit": _ENDLESS, **options, "verbose": verbose})
            if start is not None:
                self._solver.warm_start(*start)
            return self._solver.solve(raise_error=False)

        try:
            result = run_compiled(posed, self.name, settings, settings, prepare, call, time_limit)
        except InvalidInput:
            self.forget()
            raise
        data, how = posed.data, "updated" if self._updated else "set up"
        if result.claim == "solved" and result.iterate is not None:
            forces, motion = result.iterate.forces, result.iterate.motion
            start = WarmStart(forces, motion, data.contact_ids)
            self._last = _Last(start, data.kind, (result.raw.x, result.raw.y))
        else:
            self.forget()
        return dataclasses.replace(result, settings={**settings, "session": how})

    def forget(self) -> None:
        """Drop the solver and the last solution; the next step is set up anew, from zero."""
        self._solver = self._program = self._last = None

    def _take(self, new: _OSQPData, posed: Problem, compiled: Compiled) -> bool:
        """Take over the step's numbers; returns whether the solver at hand can be updated."""
        before, self._program = self._program, new
        self._updated = before is not None and new.is_like(before)
        if not self._updated:
            new.widen(*_labels(new, posed.problem, compiled))
        elif before is not None:
            self._updated = new.fits(before)
        return self._updated

    def _point(
        self, posed: Problem, compiled: Compiled, given: WarmStart | None, updated: bool
    ) -> Point | None:
        """x and y to start from: those of the given solution, or of the last one; None from zero.

        An updated OSQP that starts from its own last solution is given the very point at which it
        ended.
        """
        last = self._last
        if (
            last is not None
            and updated
            and (given is None or np.array_equal(given.forces, last.start.forces))
        ):
            return last.point
        start = given or (None if last is None else last.start_of(posed.data))
        if start is None:
            return None
        posed.seed(start)
        return warm.point(self.name, posed.problem, compiled)

    def _load(self, program: _OSQPData, options: dict[str, Any]) -> None:
        """New numbers into the solver at hand, or a new solver."""
        vectors, matrices = program.vectors, program.stored()
        if self._updated:
            numbers = {f"{name}x": matrix.data for name, matrix in matrices.items()}
            self._solver.update(**vectors, **numbers)
            self._solver.update_settings(
                verbose=options["verbose"], time_limit=options["time_limit"]
            )
            self.updates += 1
            return
        self._solver = osqp.OSQP()
        defaults = SOLVERS["osqp"].cvxpy_defaults or {}
        self._solver.setup(**matrices, **vectors, **{**defaults, **options})
        self.setups += 1

    def __repr__(self) -> str:
        options = ", ".join(f"{key}={value!r}" for key, value in self.settings.settings.items())
        return f"OSQPSession({options})"


@dataclass(frozen=True, eq=False)
class _Last:
    """The last solution as a start, the kind of its problem, and its x and y."""

    start: WarmStart
    kind: str
    point: Point

    def start_of(self, data: ProblemData) -> WarmStart | None:
        """The start of another problem; None where its forces do not fit."""
        named = self.start.contact_ids is not None and data.contact_ids is not None
        fits = named or self.start.forces.size == data.nc
        return self.start if self.kind == data.kind and fits else None


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


class _OSQPData:
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

    def is_like(self, before: _OSQPData) -> bool:
        """Whether both are of one kind and shape, with the same contacts."""
        mine, theirs = self.plain.contact_ids, before.plain.contact_ids
        shapes = all(self.matrices[n].shape == before.matrices[n].shape for n in self.matrices)
        if self.plain.kind != before.plain.kind or not shapes:
            return False
        if mine is None or theirs is None:
            return mine is theirs
        return np.array_equal(mine, theirs)

    def fits(self, before: _OSQPData) -> bool:
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
    program: _OSQPData, problem: cp.Problem, compiled: Compiled
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
