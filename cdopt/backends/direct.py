"""General solvers called by their own interfaces, as their own users would call them.

CVXPY compiles the problem for the solver, and reads its answer back. In between, set-up and solve
are the solver's own, with its own defaults instead of those that CVXPY puts in their place.
"""

from __future__ import annotations

import time
import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np

from cdopt._util import checks
from cdopt._util.errors import Unsupported
from cdopt.backends.base import Capability, Problem, RunResult
from cdopt.backends.modelled import FOREIGN_ERRORS, compiled_for, failure, read_back, result_of
from cdopt.backends.registry import SOLVERS, limited_by, options_for, time_limit_for
from cdopt.backends.selection import resolve
from cdopt.problem.warm_start import WarmStart

DIRECT = tuple(name for name, record in SOLVERS.items() if record.direct is not None)


@dataclass(frozen=True)
class Direct:
    """A general solver by its own interface, as a backend.

    Parameters
    ----------
    solver : one whose record in ``cdopt.backends.registry`` says how it is called directly.
    accuracy : put into the solver's own words; None leaves its own defaults.

    Raises
    ------
    Unsupported : no such interface here.
    InvalidInput, BackendUnavailable : an unknown solver, one that is not to be had here, or an
        accuracy out of range.
    """

    solver: str
    accuracy: float | None = None

    def __post_init__(self) -> None:
        resolve(self.solver)
        if self.solver not in DIRECT:
            raise Unsupported("call 'direct'", f"not known for {self.solver}", DIRECT)
        if self.accuracy is not None:
            checks.scalar("accuracy", self.accuracy, above=0.0, at_most=1.0)

    @property
    def name(self) -> str:
        """The solver, and how it is called."""
        return f"{self.solver}, direct"

    @property
    def capability(self) -> Capability:
        """What the solver can take; it begins cold."""
        return Capability(classes=resolve(self.solver).capability.classes)

    @property
    def settings(self) -> dict[str, Any]:
        """What the solver is asked for; empty means its own defaults."""
        return {} if self.accuracy is None else dict(options_for(self.solver, self.accuracy) or {})

    def run(
        self,
        posed: Problem,
        warm_start: WarmStart | None,
        verbose: bool,
        time_limit: float | None = None,
    ) -> RunResult:
        """Compile with CVXPY, set up and solve by the solver's own interface, read back.

        Raises
        ------
        Unsupported : no such interface here.
        """
        record = SOLVERS[self.solver]
        setup = record.direct
        if setup is None:
            raise Unsupported("call 'direct'", f"not known for {self.solver}", DIRECT)
        problem, settings, clock = posed.problem, self.settings, [time.perf_counter()]
        options, limited = settings, ""
        if time_limit is not None:
            options = {**settings, **time_limit_for(self.solver, settings, time_limit)}
            limited = limited_by(self.solver)
        try:
            data, chain, inverse = compiled_for(problem, self.solver, record.direct_options)
            clock.append(time.perf_counter())
            raw = setup(data, options, None)()
            clock.append(time.perf_counter())
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # CVXPY's, of answers that are not exact
                result = chain.invert(raw, inverse)
        except FOREIGN_ERRORS as error:
            return failure(error, {"solve": time.perf_counter() - clock[0]}, settings, limited)
        iterate = read_back(posed, result)
        clock.append(time.perf_counter())
        timings = dict(zip(("compile", "solve", "read"), np.diff(clock).tolist(), strict=True))
        return result_of(raw, result, iterate, timings, settings, limited)
