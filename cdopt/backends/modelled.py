"""Any solver that CVXPY has installed, as a backend: CVXPY compiles, the solver solves.

The three stages are timed apart. Nothing is retried, relaxed or handed to another solver. Python
threads may solve one problem at once: CVXPY compiles and reads back for one of them at a time, and
each solver works on data of its own.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

import cvxpy as cp
import cvxpy.settings as words

from cdopt._util import checks
from cdopt._util.errors import BackendUnavailable, InvalidInput
from cdopt.backends import registry, warm
from cdopt.backends.base import Capability, Claim, Problem, RunResult
from cdopt.backends.deadline import TIME_LIMIT, Deadline
from cdopt.backends.posing import POSING
from cdopt.backends.registry import limited_by, options_for, time_limit_for
from cdopt.problem.solution import Iterate
from cdopt.problem.warm_start import WarmStart

CLAIMS: dict[str, Claim] = {  # what each status of CVXPY claims
    words.OPTIMAL: "solved",
    words.OPTIMAL_INACCURATE: "inaccurate",
    words.USER_LIMIT: "inaccurate",
    words.INFEASIBLE: "infeasible",
    words.INFEASIBLE_INACCURATE: "infeasible",
    words.UNBOUNDED: "unbounded",
    words.UNBOUNDED_INACCURATE: "unbounded",
    words.INFEASIBLE_OR_UNBOUNDED: "infeasible",
}

FOREIGN_ERRORS = (  # what CVXPY and solvers raise where they fail
    cp.SolverError, TypeError, ValueError, AttributeError, KeyError, IndexError,
    RuntimeError, ArithmeticError, MemoryError, NotImplementedError, ImportError,
)  # fmt: skip


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
    accuracy: float | None = None
    options: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        checks.choice("backend", self.name, registry.cvxpy_solvers())
        reason = registry.why_not(self.name)
        if reason:
            raise BackendUnavailable(self.name, reason)
        if not isinstance(self.options, Mapping) or not all(
            isinstance(key, str) for key in self.options
        ):
            raise InvalidInput(
                "options", checks.describe(self.options), "a mapping of setting names to values"
            )
        object.__setattr__(self, "options", MappingProxyType(dict(self.options)))
        record = registry.SOLVERS.get(self.name)
        known = record.settings if record else None
        unknown = sorted(set(self.options) - known) if known is not None else []
        if known is not None and unknown:
            raise InvalidInput(
                unknown[0], f"no setting of {self.name}", "one of " + ", ".join(sorted(known))
            )
        if self.accuracy is not None:
            checks.scalar("accuracy", self.accuracy, above=0.0, at_most=1.0)
            if options_for(self.name, self.accuracy) is None:
                raise InvalidInput(
                    "accuracy", f"{self.name}, whose words for it are unknown", "options instead"
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
        deadline, settings = Deadline.after(time_limit), self.settings
        limited = "" if time_limit is None else limited_by(self.name)
        start = None
        with POSING:
            problem = posed.problem
            started = time.perf_counter()
            try:
                compiled = compiled_for(problem, self.name, settings)
            except FOREIGN_ERRORS as error:
                return failure(error, {"compile": time.perf_counter() - started}, settings, limited)
            if warm_start is not None and self.capability.warm_start:
                posed.seed(warm_start)
                start = warm.point(self.name, problem, compiled)
        ready = time.perf_counter()
        timings = {"compile": ready - started}
        if deadline.passed:
            return out_of_time(timings, settings, limited)
        options = dict(settings)
        if time_limit is not None:
            options |= time_limit_for(self.name, settings, deadline.left)
        data, chain, inverse = compiled
        try:
            if start is None:
                keeper = cp.Problem(cp.Minimize(0))  # holds what CVXPY would keep for a next solve
                raw = chain.solve_via_data(keeper, data, False, verbose, options)
            else:
                raw = warm.solve(self.name, data, {**options, "verbose": verbose}, start)
        except FOREIGN_ERRORS as error:
            timings["solve"] = time.perf_counter() - ready
            return failure(error, timings, settings, limited)
        solved = time.perf_counter()
        timings["solve"] = solved - ready
        with POSING:
            try:
                result = chain.invert(raw, inverse)
                iterate = read_back(posed, result)
            except FOREIGN_ERRORS as error:
                return failure(error, timings, settings, limited)
        timings["read"] = time.perf_counter() - solved
        return result_of(raw, result, iterate, timings, settings, limited)


def read_back(posed: Problem, result: Any) -> Iterate | None:
    """The iterate in CVXPY's ``result``, after it stands in the problem's variables."""
    if result.status not in words.SOLUTION_PRESENT:
        return None
    posed.problem.unpack(result)
    return posed.iterate()


def result_of(
    raw: Any, result: Any, iterate: Iterate | None, timings: dict[str, float],
    settings: Mapping[str, Any], limited: str,
) -> RunResult:  # fmt: skip
    """The result of a run from the solver's ``raw`` result and CVXPY's reading of it."""
    claim = CLAIMS.get(result.status, "failed")
    if iterate is None and claim in ("solved", "inaccurate"):
        claim = "failed"
    status = native_status(raw) or str(result.status)
    late = bool(limited) and claim != "solved" and "time" in status.lower()
    return RunResult(
        status=f"{TIME_LIMIT} ({status})" if late else status,
        claim=claim,
        iterate=iterate,
        timings=timings,
        iterations=_count(result.attr.get(words.NUM_ITERS)),
        raw=raw,
        settings=settings,
        out_of_time=late,
        limited=limited,
    )


def out_of_time(timings: dict[str, float], settings: Mapping[str, Any], limited: str) -> RunResult:
    """The result where no time is left for the solver."""
    return RunResult(
        TIME_LIMIT, "failed", None, timings, settings=settings, out_of_time=True, limited=limited
    )


def failure(
    error: Exception, timings: dict[str, float], settings: Mapping[str, Any], limited: str
) -> RunResult:
    """The result where CVXPY or the solver raised an exception."""
    status = f"{type(error).__name__}: {error}"
    return RunResult(status, "failed", None, timings, raw=error, settings=settings, limited=limited)


def compiled_for(
    problem: cp.Problem, name: str, settings: Mapping[str, Any]
) -> tuple[Any, Any, Any]:
    """CVXPY's data for one solver. That powers become second-order cones is meant."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Power atom with exponent")
        return problem.get_problem_data(name.upper(), solver_opts=dict(settings))


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
