"""Common base of native backends: how they start, run, stop and report.

A native backend takes the problem in scaled units (``network_problem``) and stops on a
residual that costs nothing to compute. ``certified`` then checks the answer by the certificate.
"""

from __future__ import annotations

import contextlib
import dataclasses
import logging
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, TypeVar

import numpy as np

from cdopt._util import checks
from cdopt._util.cached import cached_property, changed
from cdopt._util.checks import BoolArray, FloatArray, read_only
from cdopt._util.compiled import clock
from cdopt._util.errors import Unsupported
from cdopt.backends.base import Capability, Claim, Problem, RunResult, check_run
from cdopt.backends.deadline import NEVER, TIME_LIMIT, Deadline
from cdopt.backends.network_problem import (
    NetworkProblem,
    network_problem,
    rigid_problem,
    without_forces,
)
from cdopt.backends.registry import SOLVERS, Solver
from cdopt.backends.threads import threads_for
from cdopt.problem.solution import Iterate, WarmStart

Self = TypeVar("Self", bound="NativeBackend")

NATIVE: dict[str, Callable[..., NativeBackend]] = {}  # the solvers of cdopt by name

BREAKDOWN = (ArithmeticError, np.linalg.LinAlgError)  # of numbers beyond what a double holds
_LIMITED_BY = "the clock, between iterations"
_BETWEEN_LOOKS = 5_000_000  # entries of B passed over between two checks of the clock


@dataclass(frozen=True, eq=False)
class History:
    """How a run went, step by step."""

    residuals: FloatArray  # of the backend's stopping test, one for each sweep or iteration


@dataclass
class Run(RunResult):
    """One run of a native solver, and in the end its result."""

    start: WarmStart | None = None  # a solution to start from, or None
    deadline: Deadline = NEVER  # when the run must end
    report: Callable[[str], None] = lambda text: None  # takes a line of progress
    # prepared, solved: when the set-up and the iteration had ended, on the clock of
    # ``cdopt._util.compiled.clock``
    prepared: float = 0.0
    solved: float = 0.0
    threads: int = 1  # that the compiled loops had
    residuals: list[Any] = field(default_factory=list)  # of the stopping test, in pieces

    @contextlib.contextmanager
    def iterating(self, contacts: int, dofs: int | None = None) -> Iterator[None]:
        """The iteration, with threads for a problem of this size."""
        self.prepared = clock()
        try:
            with threads_for(contacts, dofs) as self.threads:
                yield
        finally:
            self.solved = clock()

    def ended(
        self,
        iterate: Iterate,
        met: bool,
        iterations: int,
        residuals: Sequence[Any] = (),
        how: str = "",
        status: str = "iteration limit",
        claim: Claim = "inaccurate",
    ) -> Run:
        """The run, ended at an ``iterate``; ``status`` and ``claim`` if the test was not ``met``.

        ``residuals`` are those of the stopping test, as arrays or numbers.
        """
        self.residuals += residuals
        if met:
            status, claim = "solved", "solved"
        about: dict[str, Any] = {"iterate": iterate, "iterations": iterations, "how": how}
        return changed(self, status=status, claim=claim, **about)


class NativeBackend(ABC):
    """A backend that takes plain data; subclasses are frozen dataclasses of their settings."""

    accuracy: float  # at which the stopping test is met
    name: ClassVar[str]  # the registered name
    kinds: ClassVar[frozenset[str]]  # the kinds of problems it takes
    laws: ClassVar[frozenset[str]] = Capability.laws  # of friction
    cones: ClassVar[frozenset[str] | None] = None  # by name; None for all
    springs: ClassVar[bool] = False  # whether it takes springs in cones as they are
    limit: ClassVar[str] = ""  # name of the setting that bounds the iterations
    warm_starts: ClassVar[bool] = True  # whether a previous solution can start it
    capability: ClassVar[Capability]  # what these say

    def __init_subclass__(cls) -> None:
        kinds: frozenset[str] = getattr(cls, "kinds", frozenset())
        cls.capability = Capability(frozenset(), kinds, cls.warm_starts, cls.laws, cls.cones)

    def __post_init__(self) -> None:
        """Check the settings that every backend has."""
        self._set(accuracy=checks.tolerance("accuracy", self.accuracy))
        if self.limit:
            self._set(**{self.limit: checks.count(self.limit, getattr(self, self.limit))})
        if hasattr(self, "history"):
            self._set(history=checks.flag("history", self.history))

    def _set(self, **settings: Any) -> None:
        """The checked settings."""
        for name, value in settings.items():
            object.__setattr__(self, name, value)

    @cached_property
    def settings(self) -> dict[str, Any]:
        """The settings that are not at their defaults, and the accuracy."""
        values = [(f, getattr(self, f.name)) for f in dataclasses.fields(self)]  # type: ignore[arg-type]
        return {f.name: value for f, value in values if value != f.default or f.name == "accuracy"}

    def sharper(self: Self, accuracy: float, spent: int) -> Self | None:
        """The same settings at another accuracy, with the iterations left; None without any."""
        accuracy = checks.tolerance("accuracy", accuracy)
        spent = checks.whole("spent", spent, 0)
        left = getattr(self, self.limit) - spent if self.limit else 0
        if left < 1:
            return None
        return dataclasses.replace(self, accuracy=accuracy, **{self.limit: left})  # type: ignore[type-var]

    def run(
        self,
        formulation: Problem,
        warm_start: WarmStart | None,
        verbose: bool,
        time_limit: float | None = None,
    ) -> RunResult:
        """Iterate until the stopping test is met or a limit is reached.

        If no time is left or arithmetic breaks down (badly scaled data), the status reports it, and
        the iterate has no forces. Raises InvalidInput, and Unsupported for other problems.
        """
        check_run(formulation, warm_start, verbose, time_limit)
        deadline, data = Deadline.after(time_limit), formulation.data
        if not self.capability.consumes(data):
            kinds = " and ".join(f"{kind}s" for kind in sorted(self.kinds))
            lacks = self.capability.lacks(data) if data.kind in self.kinds else ""
            more = f" with {lacks}" if lacks else ""
            raise Unsupported(self.name, f"it solves {kinds}, not a {data.kind}{more}")
        logger = logging.getLogger(f"cdopt.backends.{self.name}")

        def report(text: str) -> None:
            logger.info(text)
            if verbose:
                print(f"{self.name}: {text}")

        started = clock()
        run = Run("not ended", "failed", None, start=warm_start, deadline=deadline)
        run.report, run.prepared, run.solved = report, started, started
        raw: Any = None
        result, status = None, TIME_LIMIT
        with np.errstate(all="ignore"):
            if not deadline.passed:
                try:
                    result = self._solved(network_problem(data), run)
                except BREAKDOWN as error:
                    raw, status = error, f"numerical breakdown: {type(error).__name__}: {error}"
                except MemoryError as error:
                    raw, status = error, f"out of memory: {error or 'size not reported'}"
        if result is None:
            claim: Claim = "inaccurate" if raw is None else "failed"
            result = run.ended(without_forces(data), False, 0, status=status, claim=claim)
        late = result.claim != "solved" and raw is None and deadline.passed
        if getattr(self, "history", False) and raw is None:
            pieces = (np.atleast_1d(piece) for piece in run.residuals)
            raw = History(read_only(np.concatenate([np.zeros(0), *pieces])))
        return changed(
            result,
            status=TIME_LIMIT if late else result.status,
            timings={
                "compile": run.prepared - started,
                "solve": run.solved - run.prepared,
                "read": clock() - run.solved,
            },
            raw=raw,
            settings=self.settings,
            threads=run.threads,
            out_of_time=late,
            limited="" if deadline == NEVER else _LIMITED_BY,
        )

    def _solved(self, problem: NetworkProblem, run: Run) -> Run:
        """One run, of a soft step on the rigid one where the solver has no springs."""
        if self.springs or not problem.is_soft:
            return self._solve(problem, run)
        result = self._solve(rigid_problem(problem), run)
        forces = result.forces
        iterate = Iterate(problem.motion_under(forces), forces)
        return dataclasses.replace(result, iterate=iterate)

    @abstractmethod
    def _solve(self, problem: NetworkProblem, run: Run) -> Run:
        """One run on the scaled problem."""


def listed(kind: type[Self]) -> type[Self]:
    """Enter a solver of cdopt in ``NATIVE``, and where ``solvers.toml`` has none, its record."""
    NATIVE[kind.name] = kind
    SOLVERS.setdefault(kind.name, Solver(kind.name, (kind.__doc__ or "").partition("\n")[0]))
    return kind


def in_pieces(trace: FloatArray, entries: int, deadline: Deadline) -> list[FloatArray]:
    """Views of ``trace`` between which the clock is read; pieces change no number."""
    if deadline == NEVER:
        return [trace]
    passes = max(1, _BETWEEN_LOOKS // max(entries, 1))
    return [trace[at : at + passes] for at in range(0, trace.size, passes)]


def natural_residual(
    diagonal: FloatArray, gradient: FloatArray, f: FloatArray, lines: BoolArray | None = None
) -> float:
    """max |min(H_ii f_i, gradient_i)|, of ``lines`` |gradient_i|; not-a-number spreads."""
    natural = np.minimum(gradient, diagonal * f)
    natural = natural if lines is None else np.where(lines, gradient, natural)
    return float(np.abs(natural).max(initial=0.0))


def promising(least: list[float], accuracy: float, looks: int) -> bool:
    """Whether residuals reach ``accuracy`` within ``looks`` looks, at the rate of the later half.

    ``least`` are the least residuals so far, one a look.
    """
    done = len(least) - 1
    if least[-1] <= accuracy:
        return True
    rate = np.log(least[done // 2] / least[-1]) / (done - done // 2)
    return bool(rate * (looks - done) >= np.log(least[-1] / accuracy))
