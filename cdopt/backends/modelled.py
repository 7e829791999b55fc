"""Any solver that CVXPY has installed, as a backend: CVXPY compiles, the solver solves.

The three stages are timed apart. Nothing is retried, relaxed or handed to another solver. Python
threads may solve one problem at once: CVXPY compiles and reads back for one of them at a time, and
each solver works on data of its own.
"""

from __future__ import annotations

import dataclasses
import time
import warnings
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType, SimpleNamespace
from typing import Any

import cvxpy as cp
import cvxpy.settings as words

from cdopt._util import checks
from cdopt._util.errors import BackendUnavailable, InvalidInput
from cdopt.backends import catalogue, warm
from cdopt.backends.accuracy import ACCURACY, options_for, time_limit_for
from cdopt.backends.base import Capability, Claim, Posed, RunResult
from cdopt.backends.deadline import TIME_LIMIT, Deadline
from cdopt.backends.posing import POSING
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
    accuracy : requested accuracy in (0, 1), put into the solver's own words by
        ``cdopt.backends.accuracy``; None leaves the defaults alone.
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
        checks.choice("backend", self.name, catalogue.cvxpy_solvers())
        reason = catalogue.why_not(self.name)
        if reason:
            raise BackendUnavailable(self.name, reason)
        if not isinstance(self.options, Mapping) or not all(
            isinstance(key, str) for key in self.options
        ):
            raise InvalidInput(
                "options", checks.describe(self.options), "a mapping of setting names to values"
            )
        object.__setattr__(self, "options", MappingProxyType(dict(self.options)))
        known = catalogue.TABLE[self.name].settings if self.name in catalogue.TABLE else None
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
        return catalogue.capability(self.name)

    @property
    def settings(self) -> dict[str, Any]:
        """The settings handed to the solver; empty means its defaults through CVXPY."""
        asked = {} if self.accuracy is None else options_for(self.name, self.accuracy)
        return {**(asked or {}), **self.options}

    def run(
        self,
        posed: Posed,
        warm_start: WarmStart | None,
        verbose: bool,
        time_limit: float | None = None,
    ) -> RunResult:
        """Compile with CVXPY, solve once, read the iterate back."""
        deadline, settings = Deadline.after(time_limit), self.settings
        limited = "" if time_limit is None else keeps_time(self.name)
        own = SimpleNamespace(_solver_cache={})  # nothing warm-starts unasked, nor from elsewhere
        with POSING:
            problem = posed.problem
            started = time.perf_counter()
            try:
                data, chain, inverse = compiled_for(problem, self.name, settings)
            except FOREIGN_ERRORS as error:
                return failure(error, {"compile": time.perf_counter() - started}, settings, limited)
            if warm_start is not None and self.capability.warm_start:
                posed.seed(warm_start)
                warm.seed_cache(self.name, problem, data, inverse, own._solver_cache)
        compiled = time.perf_counter()
        timings = {"compile": compiled - started}
        if deadline.passed:
            return out_of_time(timings, settings, limited)
        asked = dict(settings)
        if time_limit is not None:
            asked |= time_limit_for(self.name, settings, deadline.left)
        try:
            raw = chain.solve_via_data(own, data, warm_start is not None, verbose, asked)
        except FOREIGN_ERRORS as error:
            timings["solve"] = time.perf_counter() - compiled
            return failure(error, timings, settings, limited)
        solved = time.perf_counter()
        timings["solve"] = solved - compiled
        with POSING:
            try:
                result = chain.invert(raw, inverse)
                there = result.status in words.SOLUTION_PRESENT
                if there:
                    problem.unpack(result)
            except FOREIGN_ERRORS as error:
                return failure(error, timings, settings, limited)
            iterate = posed.iterate() if there else None
        timings["read"] = time.perf_counter() - solved
        claim = CLAIMS.get(result.status, "failed")
        if iterate is None and claim in ("solved", "inaccurate"):
            claim = "failed"
        return timed(
            RunResult(
                status=native_status(raw) or str(result.status),
                claim=claim,
                iterate=iterate,
                timings=timings,
                iterations=_count(result.attr.get(words.NUM_ITERS)),
                raw=raw,
                settings=settings,
                limited=limited,
            )
        )


def keeps_time(name: str) -> str:
    """What keeps to a time limit, in words."""
    setting = ACCURACY[name].seconds if name in ACCURACY else ""
    if setting:
        return f"{name}'s own {setting}"
    return f"only until {name} begins, which has no time limit"


def timed(result: RunResult) -> RunResult:
    """The result, marked where the solver's own words say that its time was up."""
    if not result.limited or result.claim == "solved" or "time" not in result.status.lower():
        return result
    return dataclasses.replace(result, status=f"{TIME_LIMIT} ({result.status})", out_of_time=True)


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
        found = raw.get("model_status") or (info.get("status") if isinstance(info, dict) else None)
    else:
        found = getattr(raw, "status", None) or getattr(getattr(raw, "info", None), "status", None)
    return "" if found is None else str(found).rpartition(".")[2]


def _count(value: Any) -> int | None:
    try:
        return None if value is None else int(value)
    except (TypeError, ValueError):
        return None
