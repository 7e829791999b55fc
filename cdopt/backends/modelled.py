"""Solvers behind CVXPY: CVXPY compiles the problem, the solver solves it, CVXPY reads it back.

The three stages are timed apart. Nothing is retried, relaxed or handed to another solver. Several
Python threads may solve one problem: CVXPY compiles and reads back for one of them at a time, and
each solver works on data of its own.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

import cvxpy as cp
import cvxpy.settings as keys

from cdopt._util import checks
from cdopt._util.compiled import clock
from cdopt._util.errors import BackendUnavailable, InvalidInput, Unsupported
from cdopt.backends import registry, warm
from cdopt.backends.base import Capability, Claim, Problem, RunResult
from cdopt.backends.deadline import TIME_LIMIT, Deadline
from cdopt.backends.kept import Compiled, compiled_for
from cdopt.backends.posing import POSING
from cdopt.backends.registry import Point, limited_by, options_for, time_limit_for
from cdopt.problem.solution import Iterate
from cdopt.problem.warm_start import WarmStart

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

FOREIGN_ERRORS = (  # what CVXPY and solvers raise where they fail
    cp.SolverError,
    TypeError,
    ValueError,
    AttributeError,
    KeyError,
    IndexError,
    RuntimeError,
    ArithmeticError,
    MemoryError,
    NotImplementedError,
    ImportError,
)

_REFUSES = re.compile(  # what solvers say of a setting that they do not take
    "unrecognized|unknown|invalid keyword|unexpected keyword|for option|has no attribute", re.I
)

DIRECT = tuple(name for name, record in registry.SOLVERS.items() if record.direct is not None)


@dataclass(frozen=True)
class Modelled:
    """Settings of a solver reached through CVXPY.

    Parameters
    ----------
    name : the solver's name, as in ``cdopt.backends.available()``.
    accuracy : requested accuracy in (0, 1), translated into the solver's own settings by
        ``cdopt.backends.registry``; None leaves the defaults alone.
    options : settings of the solver, by its own names; they win over ``accuracy``.

    Raises
    ------
    InvalidInput : unknown solver, accuracy out of range, a setting the solver does not know,
        or an accuracy asked of a solver for which no translation is known.
    BackendUnavailable : the solver is not installed here or fits no problem of cdopt.
    """

    name: str
    accuracy: checks.Tolerance | None = None
    options: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        checks.choice("backend", self.name, registry.cvxpy_solvers())
        reason = registry.why_not(self.name)
        if reason:
            raise BackendUnavailable(self.name, reason)
        object.__setattr__(self, "options", MappingProxyType(dict(self.options)))
        record = registry.SOLVERS.get(self.name)
        known = record.settings if record else None
        unknown = [] if known is None else sorted(set(self.options) - known)
        if known is not None and unknown:
            raise InvalidInput(
                unknown[0], f"no setting of {self.name}", "one of " + ", ".join(sorted(known))
            )
        if self.accuracy is not None and options_for(self.name, self.accuracy) is None:
            raise InvalidInput(
                "accuracy", f"{self.name}, whose settings for it are unknown", "options instead"
            )

    @property
    def capability(self) -> Capability:
        """What the solver can take."""
        return registry.capability(self.name)

    @property
    def settings(self) -> dict[str, Any]:
        """The settings handed to the solver; empty means its defaults through CVXPY."""
        asked = {} if self.accuracy is None else options_for(self.name, self.accuracy)
        return {**(asked or {}), **self.options}

    def run(
        self,
        posed: Problem,
        warm_start: WarmStart | None,
        verbose: bool,
        time_limit: float | None = None,
    ) -> RunResult:
        """Compile with CVXPY, solve once, read the iterate back."""

        def prepare(compiled: Compiled) -> Point | None:
            if warm_start is None or not self.capability.warm_start:
                return None
            posed.seed(warm_start)
            return warm.point(self.name, posed.problem, compiled)

        def call(compiled: Compiled, start: Point | None, options: dict[str, Any]) -> Any:
            data, chain, _ = compiled
            if start is None:
                cache = cp.Problem(cp.Minimize(0))  # holds what CVXPY would keep for a next solve
                return chain.solve_via_data(cache, data, False, verbose, options)
            record = registry.SOLVERS[self.name]
            if record.direct is None or record.cvxpy_defaults is None:
                raise NotImplementedError(f"no warm start for {self.name}")
            options = {**record.cvxpy_defaults, **options, "verbose": verbose}
            return record.direct(data, options, start)()

        settings = self.settings
        return run_compiled(posed, self.name, settings, settings, prepare, call, time_limit)


@dataclass(frozen=True)
class Direct:
    """A general solver called by its own interface, as its own users would call it.

    CVXPY compiles the problem and reads the answer back. Set-up and solve are the solver's own,
    with its own defaults instead of those that CVXPY puts in their place.

    Parameters
    ----------
    solver : one whose record in ``cdopt.backends.registry`` says how it is called directly.
    accuracy : translated into the solver's own settings; None leaves its own defaults.

    Raises
    ------
    Unsupported : no such interface here.
    InvalidInput, BackendUnavailable : an unknown solver, one that is not installed, or an
        accuracy out of range.
    """

    solver: str
    accuracy: checks.Tolerance | None = None

    def __post_init__(self) -> None:
        if self.solver in registry.SOLVERS and self.solver not in DIRECT:
            raise Unsupported("call 'direct'", f"not known for {self.solver}", DIRECT)
        Modelled(self.solver, self.accuracy)  # validates both

    @property
    def name(self) -> str:
        """The solver, and how it is called."""
        return f"{self.solver}, direct"

    @property
    def capability(self) -> Capability:
        """What the solver can take; it takes no start."""
        return Capability(classes=registry.capability(self.solver).classes)

    @property
    def settings(self) -> dict[str, Any]:
        """The settings handed to the solver; empty means its own defaults."""
        return Modelled(self.solver, self.accuracy).settings

    def run(
        self,
        posed: Problem,
        warm_start: WarmStart | None,
        verbose: bool,
        time_limit: float | None = None,
    ) -> RunResult:
        """Compile with CVXPY, set up and solve by the solver's own interface, read back."""
        record = registry.SOLVERS[self.solver]

        def call(compiled: Compiled, start: None, options: dict[str, Any]) -> Any:
            if record.direct is None:
                raise NotImplementedError(f"no interface of its own for {self.solver}")
            return record.direct(compiled[0], options, start)()

        return run_compiled(
            posed,
            self.solver,
            self.settings,
            record.direct_options,
            lambda compiled: None,
            call,
            time_limit,
        )


# --- what every call of a solver behind CVXPY shares ---------------------------------------


def run_compiled(
    posed: Problem,
    name: str,
    settings: Mapping[str, Any],
    compile_options: Mapping[str, Any],
    prepare: Callable[[Compiled], Any],
    call: Callable[[Compiled, Any, dict[str, Any]], Any],
    time_limit: float | None,
) -> RunResult:
    """Compile the problem for the solver ``name``, call it once and read the iterate back.

    ``prepare`` runs under CVXPY's lock after compiling; ``call`` takes what CVXPY compiled, what
    ``prepare`` returned and the settings with the time left, and returns the solver's own result.
    """
    deadline, timings = Deadline.after(time_limit), dict[str, float]()
    limited = "" if time_limit is None else limited_by(name)

    def ended(
        status: str, claim: Claim = "failed", iterate: Iterate | None = None, **more: Any
    ) -> RunResult:
        fields = {"settings": settings, "limited": limited, **more}
        return RunResult(status, claim, iterate, timings, **fields)

    stage, started = "compile", clock()
    try:
        with POSING:
            compiled = compiled_for(posed.problem, name, compile_options, posed.extended)
            prepared = prepare(compiled)
        timings[stage] = clock() - started
        if deadline.passed:
            return ended(TIME_LIMIT, out_of_time=True)
        options = dict(settings)
        if time_limit is not None:
            options |= time_limit_for(name, settings, deadline.left)
        stage, started = "solve", clock()
        raw = call(compiled, prepared, options)
        timings[stage] = clock() - started
        stage, started = "read", clock()
        with POSING, warnings.catch_warnings():
            warnings.simplefilter("ignore")  # CVXPY's, of answers that are not exact
            result, iterate = compiled[1].invert(raw, compiled[2]), None
            if result.status in keys.SOLUTION_PRESENT:
                posed.problem.unpack(result)
                iterate = posed.iterate()
        timings[stage] = clock() - started
    except InvalidInput:
        raise
    except FOREIGN_ERRORS as error:
        timings[stage] = clock() - started
        _require_known(settings, error)
        status = f"{type(error).__name__}: {error}"
        return ended(status, raw=error)
    claim = CLAIMS.get(result.status, "failed")
    if iterate is None and claim in ("solved", "inaccurate"):
        claim = "failed"
    status = native_status(raw) or str(result.status)
    late = time_limit is not None and claim != "solved" and "time" in status.lower()
    return ended(
        f"{TIME_LIMIT} ({status})" if late else status,
        claim,
        iterate,
        iterations=_count(result.attr.get(keys.NUM_ITERS)),
        raw=raw,
        out_of_time=late,
    )


def _require_known(settings: Mapping[str, Any], error: BaseException) -> None:
    """Refuse a setting that the solver itself refuses by name, before it solves."""
    for name in settings if _REFUSES.search(str(error)) else ():
        if re.search(rf"\b{re.escape(name)}\b", str(error)):
            expected = f"a setting that the solver knows; it says: {error}"
            raise InvalidInput(name, repr(settings[name]), expected) from error


def native_status(raw: Any) -> str:
    """The status in the solver's own words, found where each solver keeps it."""
    if isinstance(raw, tuple):  # DAQP: (x, value, exit flag, info)
        return f"exit flag {raw[2]}" if len(raw) > 2 else ""
    if isinstance(raw, dict):
        info = raw.get("info")
        status = raw.get("model_status") or (info.get("status") if isinstance(info, dict) else None)
    else:
        status = getattr(raw, "status", None) or getattr(getattr(raw, "info", None), "status", None)
    return "" if status is None else str(status).rpartition(".")[2]


def _count(value: Any) -> int | None:
    try:
        return None if value is None else int(value)
    except (TypeError, ValueError):
        return None
