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

import cvxpy.settings as words
import numpy as np
import osqp

from cdopt._util import checks
from cdopt._util.checks import FloatArray
from cdopt._util.errors import InvalidInput
from cdopt.backends.accuracy import time_limit_for
from cdopt.backends.base import Backend, Capability, Posed, RunResult
from cdopt.backends.deadline import Deadline
from cdopt.backends.modelled import (
    CLAIMS,
    FOREIGN_ERRORS,
    Modelled,
    compiled_for,
    failure,
    keeps_time,
    native_status,
    timed,
)
from cdopt.backends.osqp_data import Canonical
from cdopt.backends.posing import POSING
from cdopt.problem import ProblemData
from cdopt.problem.solution import Iterate
from cdopt.problem.warm_start import WarmStart

_CVXPY = {"eps_abs": 1e-5, "eps_rel": 1e-5, "max_iter": 10_000, "polishing": True}
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
        self._held: Canonical | None = None
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
        posed: Posed,
        warm_start: WarmStart | None,
        verbose: bool,
        time_limit: float | None = None,
    ) -> RunResult:
        """Compile with CVXPY, update or set up OSQP, solve once, read the iterate back."""
        deadline, settings = Deadline.after(time_limit), self.settings.settings
        limited = "" if time_limit is None else keeps_time(self.name)
        with POSING:
            problem = posed.problem
            clock = [time.perf_counter()]
            try:
                data, chain, inverse = compiled_for(problem, self.name, settings)
            except FOREIGN_ERRORS as error:
                return self._failure(error, clock[0], limited)
            clock.append(time.perf_counter())
            new = Canonical(data, posed.data, inverse)
            try:
                how = self._prepare(new, verbose, deadline)
                point = self._point(new, posed, warm_start, how)
                if point is not None:
                    self._solver.warm_start(*point)
                clock.append(time.perf_counter())
                raw = self._solver.solve(raise_error=False)
            except InvalidInput:
                self.forget()
                raise
            except FOREIGN_ERRORS as error:
                return self._failure(error, clock[0], limited)
            clock.append(time.perf_counter())
            result, iterate = chain.invert(raw, inverse), None
            if result.status in words.SOLUTION_PRESENT:
                problem.unpack(result)
                iterate = posed.iterate()
        claim = CLAIMS.get(result.status, "failed")
        if iterate is None and claim == "solved":
            claim = "failed"
        if claim == "solved" and iterate is not None:
            self._last = _Last(iterate, posed.data.contact_ids, posed.data.kind, (raw.x, raw.y))
        else:
            self.forget()
        clock.append(time.perf_counter())
        return timed(
            RunResult(
                status=native_status(raw) or str(result.status),
                claim=claim,
                iterate=iterate,
                timings=dict(zip(_STAGES, np.diff(clock).tolist(), strict=True)),
                iterations=int(raw.info.iter),
                raw=raw,
                settings={**settings, "session": how},
                limited=limited,
            )
        )

    def forget(self) -> None:
        """Drop the solver and the last solution; the next step is set up anew, from zero."""
        self._solver = self._held = self._last = None

    def _point(
        self, new: Canonical, posed: Posed, given: WarmStart | None, how: str
    ) -> tuple[FloatArray, FloatArray] | None:
        """x and y to start from: OSQP's own where they follow, or those of forces by name."""
        last = self._last
        if last is not None and how == "updated" and (given is None or last.left(given)):
            return last.point
        start = given or (None if last is None else last.start(posed.data))
        if start is None:
            return None
        posed.seed(start)
        return new.point(posed.problem)

    def _prepare(self, new: Canonical, verbose: bool, deadline: Deadline) -> str:
        """New numbers into the solver at hand, or a new solver; returns which."""
        held, self._held = self._held, new
        own = self.settings.settings
        limit = time_limit_for(self.name, own, min(deadline.left, _ENDLESS))
        if held is not None and new.like(held):
            if new.fits(held):
                numbers = {f"{name}x": matrix.data for name, matrix in new.stored().items()}
                self._solver.update(**new.vectors, **numbers)
                self._solver.update_settings(verbose=verbose, **limit)
                self.updates += 1
                return "updated"
        else:
            new.widen()
        settings = {**_CVXPY, **own, **limit, "verbose": verbose}
        self._solver = osqp.OSQP()
        self._solver.setup(**new.stored(), **new.vectors, **settings)
        self.setups += 1
        return "set up"

    def _failure(self, error: Exception, began: float, limited: str) -> RunResult:
        self.forget()
        seconds = {"compile": time.perf_counter() - began}
        return failure(error, seconds, self.settings.settings, limited)

    def __repr__(self) -> str:
        words = ", ".join(f"{key}={value!r}" for key, value in self.settings.settings.items())
        return f"OSQPSession({words})"


@dataclass(frozen=True, eq=False)
class _Last:
    """The last solution: its forces and motion, the names of its contacts, its x and y."""

    iterate: Iterate
    ids: Any
    kind: str
    point: tuple[FloatArray, FloatArray]

    def left(self, start: WarmStart) -> bool:
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
