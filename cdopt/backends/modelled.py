"""Solvers behind CVXPY: CVXPY compiles the problem, the solver solves it, CVXPY reads it back.

The three stages are timed apart. Nothing is retried, relaxed or handed to another solver. Several
Python threads may solve one problem: CVXPY compiles and reads back for one of them at a time, and
each solver works on its own data.
"""

from __future__ import annotations

import dataclasses
import re
import warnings
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, get_args

import cvxpy as cp
import cvxpy.settings as keys
import numpy as np
import osqp
import scipy.sparse as sp

from cdopt._util import checks
from cdopt._util.checks import IntArray
from cdopt._util.compiled import clock
from cdopt._util.errors import BackendUnavailable, InvalidInput, Unsupported
from cdopt.backends import registry
from cdopt.backends.base import (
    CVXPY_LOCK,
    Backend,
    Capability,
    Claim,
    Problem,
    ProblemClass,
    RunResult,
    check_run,
)
from cdopt.backends.compiling import Compiled, Point
from cdopt.backends.deadline import TIME_LIMIT, Deadline
from cdopt.backends.registry import DIRECT, SOLVERS, limited_by, options_for, time_limit_for
from cdopt.problem.solution import WarmStart

CLAIMS: dict[str, Claim] = {  # what each status of CVXPY claims
    keys.OPTIMAL: "solved",
    keys.OPTIMAL_INACCURATE: "inaccurate",
    keys.USER_LIMIT: "inaccurate",
    keys.INFEASIBLE: "infeasible",
    keys.INFEASIBLE_INACCURATE: "infeasible",
    keys.UNBOUNDED: "unbounded",
    keys.UNBOUNDED_INACCURATE: "unbounded",
    keys.INFEASIBLE_OR_UNBOUNDED: "infeasible",
}
FOREIGN_ERRORS = (  # what CVXPY raises where it or a solver fails; solvers raise anything
    cp.SolverError, TypeError, ValueError, AttributeError, LookupError, RuntimeError,
    ArithmeticError, MemoryError, ImportError,
)  # fmt: skip
OSQP_DEFAULTS = {"eps_abs": 1e-5, "eps_rel": 1e-5, "max_iter": 10_000, "polishing": True}  # CVXPY's
_INTERRUPTED = "interrupted"  # what OSQP and SCS report after Ctrl-C, which Python is not told of
_ENDLESS = 1e10  # seconds, OSQP's own default
_Places = dict[str, IntArray]  # of P and A, where they have room: column by column
_REFUSES = re.compile(  # solver messages about an unknown setting
    "unrecognized|unknown|invalid keyword|unexpected keyword|for option|has no attribute", re.I
)


class ThroughCVXPY(ABC):
    """A solver that gets what CVXPY compiles."""

    name: str  # of the backend
    solver: str  # its registered name
    accuracy: float | None
    options: Mapping[str, Any] = MappingProxyType({})

    @property
    def settings(self) -> dict[str, Any]:
        """The settings given to the solver; empty means its defaults."""
        asked = None if self.accuracy is None else options_for(self.solver, self.accuracy)
        return {**(asked or {}), **self.options}

    @property
    def compiling(self) -> Mapping[str, Any]:
        """Settings that CVXPY compiles with."""
        return self.settings

    @property
    def compiled_by(self) -> Any:
        """The target of the compilation: the solver's name, or an object."""
        return self.solver

    @property
    def capability(self) -> Capability:
        """What the solver can take."""
        return registry.capability(self.solver)

    def keeps_parameters(self, kind: ProblemClass) -> bool:
        """Whether CVXPY compiles parameters in quadratic objectives for it, of problems of a class.

        ``kind`` is "QP" or "SOCP"; InvalidInput for others.
        """
        checks.choice("kind", kind, get_args(ProblemClass))
        known = self.compiled_by == self.solver and "use_quad_obj" not in self.compiling
        return known and registry.takes_quadratic(self.solver, kind)

    def _start(self, formulation: Problem, compiled: Compiled, given: WarmStart | None) -> Any:
        """The start of the solver; CVXPY's lock is held."""
        if given is None or not self.capability.warm_start:
            return None
        formulation.seed(given)
        return compiled.point(formulation.problem)

    @abstractmethod
    def _call(self, compiled: Compiled, start: Any, options: dict[str, Any], verbose: bool) -> Any:
        """The solver's own result."""

    def run(
        self,
        formulation: Problem,
        warm_start: WarmStart | None,
        verbose: bool,
        time_limit: float | None = None,
    ) -> RunResult:
        """Compile with CVXPY, solve once, read the iterate back."""
        check_run(formulation, warm_start, verbose, time_limit)
        deadline, timings = Deadline.after(time_limit), dict[str, float]()
        settings, iterate, raw, result = self.settings, None, None, None
        known: dict[str, Any] = {"settings": settings, "timings": timings}
        known["limited"] = "" if time_limit is None else limited_by(self.solver)
        stage, started = "compile", clock()
        try:
            with CVXPY_LOCK:
                formulation = formulation.for_solver(self)
                compiled = formulation.compiled(self)
                start = self._start(formulation, compiled, warm_start)
            timings[stage] = clock() - started
            if deadline.passed:
                return RunResult(TIME_LIMIT, "failed", None, out_of_time=True, **known)
            options = dict(settings)
            if time_limit is not None:
                options |= time_limit_for(self.solver, settings, deadline.left)
            stage, started = "solve", clock()
            raw = self._call(compiled, start, options, verbose)
            timings[stage] = clock() - started
            if native_status(raw) == _INTERRUPTED:
                raise KeyboardInterrupt
            stage, started = "read", clock()
            with CVXPY_LOCK, warnings.catch_warnings():
                warnings.simplefilter("ignore")  # CVXPY's, of answers that are not exact
                result = compiled.invert(raw)
                if result.status in keys.SOLUTION_PRESENT:
                    iterate = formulation.unpack(result)
            timings[stage] = clock() - started
        except InvalidInput:
            raise
        except Exception as error:
            if stage != "solve" and not isinstance(error, FOREIGN_ERRORS):
                raise
            timings[stage] = clock() - started
            _require_known(settings, error)
            return RunResult(f"{type(error).__name__}: {error}", "failed", None, raw=error, **known)
        claim = CLAIMS.get(result.status, "failed")
        status = native_status(raw) or str(result.status)
        if iterate is None and claim in ("solved", "inaccurate"):
            claim = "failed"
            status += ", without the multipliers that this form needs"
        late = time_limit is not None and claim != "solved" and "time" in status.lower()
        status = f"{TIME_LIMIT} ({status})" if late else status
        count = result.attr.get(keys.NUM_ITERS)
        count = int(count) if isinstance(count, (int, float, np.number)) else None
        return RunResult(
            status, claim, iterate, iterations=count, raw=raw, out_of_time=late, **known
        )


@dataclass(frozen=True)
class Modelled(ThroughCVXPY):
    """Settings of a solver reached through CVXPY.

    Parameters
    ----------
    name : the solver's name, as in ``cdopt.backends.available()``.
    accuracy : requested accuracy in (0, 1), translated into the solver's own settings by
        ``cdopt.backends.registry``; None leaves the defaults alone.
    options : settings of the solver, by its own names; they take precedence over ``accuracy``.

    Raises
    ------
    InvalidInput : unknown solver or setting, accuracy out of range, or an accuracy for a solver
        whose tolerances are unknown.
    BackendUnavailable : the solver is not installed here, or cannot solve any problem of cdopt.
    """

    name: str
    accuracy: float | None = None
    options: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        checks.choice("backend", self.name, registry.cvxpy_solvers())
        reason = registry.why_not(self.name)
        if reason:
            raise BackendUnavailable(self.name, reason)
        accuracy = checks.optional(checks.tolerance, "accuracy", self.accuracy)
        object.__setattr__(self, "accuracy", accuracy)
        options = dict(checks.mapping("options", self.options))
        object.__setattr__(self, "options", MappingProxyType(options))
        known = SOLVERS[self.name].settings.split() if self.name in SOLVERS else []
        for unknown in sorted(set(self.options) - set(known)) if known else ():
            raise InvalidInput(unknown, f"no setting of {self.name}", "one of " + ", ".join(known))
        if self.accuracy is not None and options_for(self.name, self.accuracy) is None:
            raise InvalidInput(
                "accuracy", f"{self.name}, whose settings for it are unknown", "options instead"
            )

    @property
    def solver(self) -> str:  # type: ignore[override]
        """The solver's name."""
        return self.name

    def _call(
        self, compiled: Compiled, start: Point | None, options: dict[str, Any], verbose: bool
    ) -> Any:
        cache: dict[str, Any] = {}  # what CVXPY would keep for a next solve
        if start is not None:
            x, y = start
            if self.name == "osqp":
                solver = osqp.OSQP()
                settings = {**OSQP_DEFAULTS, **options, "verbose": verbose}
                solver.setup(**osqp_data(compiled), **settings)
                solver.warm_start(x, y)
                return solver.solve(raise_error=False)
            slack = np.maximum(compiled.data[keys.B] - compiled.data[keys.A] @ x, 0.0)
            cache["SCS"] = {"x": x, "y": y, "s": slack}
        solve = compiled.chain.solver.solve_via_data
        return solve(compiled.data, start is not None, verbose, options, cache)


@dataclass(frozen=True)
class Direct(ThroughCVXPY):
    """A general solver called with its defaults instead of CVXPY's.

    CVXPY compiles the problem and reads the answer back, but its changes of the solver's defaults
    are undone.

    Parameters
    ----------
    solver : one whose defaults are in its record in ``cdopt/backends/solvers.toml``.
    accuracy : translated into the solver's settings; None for its defaults.

    Raises
    ------
    Unsupported : the solver's defaults are unknown.
    InvalidInput, BackendUnavailable : an unknown solver, one that is not installed, or an
        accuracy out of range.
    """

    solver: str
    accuracy: float | None = None

    def __post_init__(self) -> None:
        checks.text("backend", self.solver)
        if self.solver in SOLVERS and self.solver not in DIRECT:
            raise Unsupported("call 'direct'", f"not known for {self.solver}", DIRECT)
        Modelled(self.solver, self.accuracy)  # validates both

    @property
    def name(self) -> str:  # type: ignore[override]
        """The solver, and how it is called."""
        return f"{self.solver}, direct"

    @property
    def capability(self) -> Capability:
        return Capability(classes=registry.capability(self.solver).classes)

    @property
    def compiling(self) -> Mapping[str, Any]:
        return SOLVERS[self.solver].direct_options

    def _call(self, compiled: Compiled, start: Any, options: dict[str, Any], verbose: bool) -> Any:
        defaults = SOLVERS[self.solver].direct or {}
        solve = compiled.chain.solver.solve_via_data
        return solve(compiled.data, False, verbose, {**defaults, **options})


def _require_known(settings: Mapping[str, Any], error: BaseException) -> None:
    """Refuse a setting that the solver itself refuses by name, before it solves."""
    for name in settings if _REFUSES.search(str(error)) else ():
        if re.search(rf"\b{re.escape(name)}\b", str(error)):
            expected = f"a setting that the solver knows; it reports: {error}"
            raise InvalidInput(name, repr(settings[name]), expected) from error


def native_status(raw: Any) -> str:
    """The solver's own status text, from where each solver keeps it."""
    if isinstance(raw, tuple):  # DAQP: (x, value, exit flag, info)
        return f"exit flag {raw[2]}" if len(raw) > 2 else ""
    if isinstance(raw, dict):
        info = raw.get("info")
        status = raw.get("model_status") or (info.get("status") if isinstance(info, dict) else None)
    else:
        status = getattr(raw, "status", None) or getattr(getattr(raw, "info", None), "status", None)
    return "" if status is None else str(status).rpartition(".")[2]


# --- OSQP ---------------------------------------------------------------------------------


def osqp_data(compiled: Compiled) -> dict[str, Any]:
    """The problem as OSQP takes it: min ½ xᵀP x + qᵀx subject to l ≤ A x ≤ u."""
    data = compiled.data
    return {
        "P": sp.csc_matrix(sp.triu(data[keys.P])),
        "q": np.asarray(data[keys.Q], dtype=np.float64),
        "A": sp.csc_matrix(compiled.A),
        "l": np.concatenate([data[keys.B], np.full(data[keys.G].size, -np.inf)]),
        "u": np.concatenate([data[keys.B], data[keys.G]]),
    }


class OSQPSession(ThroughCVXPY):
    """A backend with state: one OSQP solver for successive steps of a trajectory.

    Successive steps often have the same contacts and the same pattern of P and A. OSQP then keeps
    its ordering and its step size ρ, gets the new numbers by ``update`` and starts from the last
    solution. If the pattern grows or the contacts change, it is set up again, and starts from the
    forces of the remaining contacts. B. Stellato, G. Banjac, P. Goulart, A. Bemporad, S. Boyd,
    Math. Program. Comput. 12 (2020) 637, section 5.

    Its answers agree with separate solves within the solver's accuracy, but not bit for bit, since
    they depend on previous solves. Do not share one between trajectories or threads. Copies and
    pickles do not contain the solver.

    Parameters
    ----------
    settings : OSQP's settings; those not given are as in CVXPY's interface.

    Attributes
    ----------
    setups, updates : numbers of set-ups and of updates of OSQP.

    Raises
    ------
    InvalidInput : settings of another solver.

    >>> import cdopt
    >>> session = cdopt.backends.osqp_session(accuracy=1e-7)
    >>> beam = cdopt.bank.load("beam-uniform").step
    >>> [cdopt.ClassicCD(beam).solve(session).ok for _ in range(3)]
    [True, True, True]
    >>> session.setups, session.updates
    (1, 2)
    """

    name = solver = "osqp"

    def __init__(self, settings: Modelled) -> None:
        if not isinstance(settings, Modelled) or settings.name != "osqp":
            raise InvalidInput("settings", checks.describe(settings), 'Modelled("osqp", …)')
        self.accuracy, self.options = settings.accuracy, settings.options
        self.setups = self.updates = 0
        self._forget()

    def __reduce__(self) -> tuple[Any, ...]:
        return OSQPSession, (Modelled("osqp", self.accuracy, dict(self.options)),)

    def __repr__(self) -> str:
        options = ", ".join(f"{key}={value!r}" for key, value in self.settings.items())
        return f"OSQPSession({options})"

    def _forget(self) -> None:
        """The next step is set up again, from zero."""
        self._osqp: Any = None
        self._problem: Any = None  # what an update needs to be the same
        self._places: _Places = {}
        self._last: WarmStart | None = None
        self._point: Point | None = None

    def run(
        self,
        formulation: Problem,
        warm_start: WarmStart | None,
        verbose: bool,
        time_limit: float | None = None,
    ) -> RunResult:
        """Compile with CVXPY, update or set up OSQP, solve once, read the iterate back."""
        updates = self.updates
        try:
            result = super().run(formulation, warm_start, verbose, time_limit)
        except (InvalidInput, KeyboardInterrupt):
            self._forget()
            raise
        if result.claim == "solved" and result.iterate is not None:
            forces, motion = result.iterate.forces, result.iterate.motion
            self._last = WarmStart(forces, motion, formulation.data.contact_ids)
            self._point = result.raw.x, result.raw.y
        else:
            self._forget()
        how = "updated" if self.updates > updates else "set up"
        return dataclasses.replace(result, settings={**self.settings, "session": how})

    def _start(self, formulation: Problem, compiled: Compiled, given: WarmStart | None) -> Any:
        """OSQP's data with room for the entries of earlier steps, and the point to start from."""
        data, plain, update = osqp_data(compiled), formulation.data, False
        ids = None if plain.contact_ids is None else plain.contact_ids.tolist()
        problem = plain.kind, ids, data["A"].shape
        places = {name: _places(data[name]) for name in ("P", "A")}
        if problem == self._problem:
            grown = {name: np.union1d(places[name], self._places[name]) for name in places}
            update = all(grown[name].size == self._places[name].size for name in grown)
            places = grown
        point, last = self._point, self._last
        again = last is None or given is None or np.array_equal(given.forces, last.forces)
        if not (update and again):  # else it is given the very point at which it ended
            if given is None and last is not None and self._problem[0] == plain.kind:
                named = last.contact_ids is not None and ids is not None
                given = last if named or last.forces.size == plain.nc else None
            point = super()._start(formulation, compiled, given)
        self._problem, self._places = problem, places
        data |= {name: _filled(data[name], places[name]) for name in places}
        return data, update, point

    def _call(self, compiled: Compiled, start: Any, options: dict[str, Any], verbose: bool) -> Any:
        data, update, point = start
        options = {"time_limit": _ENDLESS, **options, "verbose": verbose}
        if update:
            self._osqp.update(
                q=data["q"], l=data["l"], u=data["u"], Px=data["P"].data, Ax=data["A"].data
            )
            self._osqp.update_settings(verbose=verbose, time_limit=options["time_limit"])
            self.updates += 1
        else:
            self._osqp = osqp.OSQP()
            self._osqp.setup(**data, **{**OSQP_DEFAULTS, **options})
            self.setups += 1
        if point is not None:
            self._osqp.warm_start(*point)
        return self._osqp.solve(raise_error=False)


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


def _places(matrix: sp.csc_matrix) -> IntArray:
    """Where a matrix has entries, column by column."""
    matrix.sum_duplicates()
    column = np.repeat(np.arange(matrix.shape[1]), np.diff(matrix.indptr))
    return np.asarray(column * matrix.shape[0] + matrix.indices)


def _filled(matrix: sp.csc_matrix, places: IntArray) -> sp.csc_matrix:
    """The matrix with an entry at each of the places, which may be zero."""
    rows, columns = matrix.shape
    values = np.zeros(places.size)
    values[np.searchsorted(places, _places(matrix))] = matrix.data
    begins = np.searchsorted(places, rows * np.arange(columns + 1))
    return sp.csc_matrix((values, places % max(rows, 1), begins), shape=matrix.shape)
