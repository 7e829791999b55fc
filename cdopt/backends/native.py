"""What the native backends share: one way to run, to stop, to start and to report.

A native backend takes the plain data of a problem and stops on a residual of its own, which costs
nothing to compute. Holding the answer to the certificate is the task of ``certified``.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import logging
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, ClassVar, TypeVar

import numpy as np
import scipy.sparse as sp

from cdopt._util import checks
from cdopt._util.arguments import trusted
from cdopt._util.checks import FloatArray, read_only
from cdopt._util.compiled import clock
from cdopt._util.errors import Unsupported
from cdopt.backends.base import Capability, Claim, Problem, RunResult
from cdopt.backends.deadline import NEVER, TIME_LIMIT, Deadline
from cdopt.backends.threads import threads_for
from cdopt.problem import ContactProblem
from cdopt.problem.scaling import rows_of, scaled, total_by
from cdopt.problem.solution import Iterate, WarmStart

Self = TypeVar("Self", bound="NativeBackend")

_BREAKDOWN = (ArithmeticError, np.linalg.LinAlgError)  # of numbers beyond what a double holds
_LIMITED_BY = "the clock, between iterations"
_BETWEEN_LOOKS = 5_000_000  # entries of B passed over between two looks at the clock


@dataclass(frozen=True, eq=False)
class History:
    """How a run went, step by step.

    Attributes
    ----------
    residuals : of the backend's stopping test, one for each sweep or iteration.
    """

    residuals: FloatArray


@dataclass
class Run:
    """One run of a native solver.

    Attributes
    ----------
    start : a solution to start from, or None. deadline : when the run must end.
    report : takes a line of progress.
    prepared, solved : when the set-up and the iteration had ended, on the clock of
        ``cdopt._util.compiled.clock``.
    threads : that the compiled loops had.
    """

    start: WarmStart | None
    deadline: Deadline
    report: Callable[[str], None]
    prepared: float
    solved: float
    threads: int = 1

    @contextlib.contextmanager
    def iterating(self, contacts: int, dofs: int | None = None) -> Iterator[None]:
        """The iteration, with threads for a problem of this size."""
        self.prepared = clock()
        try:
            with threads_for(contacts, dofs) as self.threads:
                yield
        finally:
            self.solved = clock()


@dataclass
class Outcome:
    """Where a native solver stopped.

    Attributes
    ----------
    iterate : motion and forces in physical units.
    met : whether its stopping test was met.
    iterations : spent.
    residuals : of the stopping test, in pieces.
    how : the methods used and what they cost.
    status, claim : where the test was not met.
    """

    iterate: Iterate
    met: bool
    iterations: int
    residuals: list[FloatArray] = field(default_factory=list)
    how: str = ""
    status: str = "iteration limit"
    claim: Claim = "inaccurate"


def outcome_of(
    data: Any, forces: FloatArray, met: bool, iterations: int, *details: Any, **more: Any
) -> Outcome:
    """An outcome with these forces (nc,), N, and the motion that they cause."""
    iterate = Iterate(data.velocity(forces), forces)
    return Outcome(iterate, met, iterations, *details, **more)


class NativeBackend(ABC):
    """A backend that takes plain data; subclasses are frozen dataclasses of their settings.

    Attributes
    ----------
    accuracy : at which the stopping test is met.
    name : the registered name.
    kinds : the kinds of problems it takes.
    limit : name of the setting that bounds the iterations.
    warm_starts : whether a previous solution can start it.
    """

    accuracy: checks.Tolerance
    name: ClassVar[str]
    kinds: ClassVar[frozenset[str]]
    limit: ClassVar[str] = ""
    warm_starts: ClassVar[bool] = True

    @functools.cached_property
    def capability(self) -> Capability:
        """The kinds of problems it takes, and whether a solution can start it."""
        return Capability(structured=self.kinds, warm_start=self.warm_starts)

    @functools.cached_property
    def settings(self) -> dict[str, Any]:
        """The settings that are not at their defaults, and the accuracy."""
        values = [(f, getattr(self, f.name)) for f in dataclasses.fields(self)]  # type: ignore[arg-type]
        return {f.name: value for f, value in values if value != f.default or f.name == "accuracy"}

    def sharper(self: Self, accuracy: float, spent: int) -> Self | None:
        """The same settings at another accuracy, with the iterations left; None without any."""
        left = getattr(self, self.limit) - spent if self.limit else 0
        if left < 1:
            return None
        return dataclasses.replace(self, accuracy=accuracy, **{self.limit: left})  # type: ignore[type-var]

    def run(
        self,
        posed: Problem,
        warm_start: WarmStart | None,
        verbose: bool,
        time_limit: float | None = None,
    ) -> RunResult:
        """Iterate until the stopping test is met or a limit is reached.

        Where no time is left or arithmetic breaks down, the status says so, and the iterate is
        that of no forces: data may be scaled badly, which is no error of the caller.

        Raises
        ------
        Unsupported : the problem is of another kind.
        """
        deadline, data = Deadline.after(time_limit), posed.data
        if data.kind not in self.kinds:
            kinds = " and ".join(f"{kind}s" for kind in sorted(self.kinds))
            raise Unsupported(self.name, f"it solves {kinds}, not a {data.kind}")
        logger = logging.getLogger(f"cdopt.backends.{self.name}")

        def report(text: str) -> None:
            logger.info(text)
            if verbose:
                print(f"{self.name}: {text}")

        started = clock()
        run = Run(warm_start, deadline, report, started, started)
        raw: Any = None
        with np.errstate(all="ignore"):
            if deadline.passed:
                outcome = _without_forces(data, TIME_LIMIT, "inaccurate")
            else:
                try:
                    outcome = self._solve(data, run)
                except _BREAKDOWN as error:
                    status = f"numerical breakdown: {type(error).__name__}: {error}"
                    outcome, raw = _without_forces(data, status, "failed"), error
                except MemoryError as error:
                    status = f"out of memory: {error or 'no size told'}"
                    outcome, raw = _without_forces(data, status, "failed"), error
        late = not outcome.met and raw is None and deadline.passed
        if getattr(self, "history", False) and raw is None:
            raw = History(read_only(np.concatenate([np.zeros(0), *outcome.residuals])))
        return trusted(
            RunResult,
            status="solved" if outcome.met else TIME_LIMIT if late else outcome.status,
            claim="solved" if outcome.met else outcome.claim,
            iterate=outcome.iterate,
            timings={
                "compile": run.prepared - started,
                "solve": run.solved - run.prepared,
                "read": clock() - run.solved,
            },
            iterations=outcome.iterations,
            raw=raw,
            settings=self.settings,
            how=outcome.how,
            threads=run.threads,
            out_of_time=late,
            limited="" if deadline == NEVER else _LIMITED_BY,
        )

    @abstractmethod
    def _solve(self, data: Any, run: Run) -> Outcome:
        """One run on the plain data."""


def _without_forces(data: ContactProblem, status: str, claim: Claim) -> Outcome:
    """No forces, and the motion without them."""
    iterate = Iterate(data.free_motion, np.zeros(data.rows))
    return Outcome(iterate, False, 0, status=status, claim=claim)


def starting_forces(
    data: ContactProblem, start: WarmStart | None, signed: bool = False
) -> FloatArray:
    """Scaled forces (nc,) to start from: zero, or an earlier solution's by contact name.

    They are at least zero, unless ``signed`` says that some are tangential.
    """
    if start is None:
        return np.zeros(data.rows)
    forces = start.forces_on(data.contact_ids, data.nc, data.d) / data.force
    return forces if signed else np.maximum(forces, 0.0)


def in_pieces(trace: FloatArray, entries: int, deadline: Deadline) -> list[FloatArray]:
    """Views of ``trace``, one entry for each pass over so many entries: between them, the clock.

    Without a limit it is one piece. Loops continue where they stood: pieces change no number.
    """
    if deadline == NEVER:
        return [trace]
    passes = max(1, _BETWEEN_LOOKS // max(entries, 1))
    return [trace[at : at + passes] for at in range(0, trace.size, passes)]


# --- the rigid step in scaled units ------------------------------------------------------


@dataclass(frozen=True, eq=False)
class ScaledStep:
    """(22) in units of each part's force and speed: min ½ fᵀ R Sᵀ f + pᵀf over f ≥ 0.

    Attributes
    ----------
    rows : R (nc, m). For a diagonal M both R and S are √Δt B M^(−1/2), one matrix held once;
        for any other M they are B and Δt B M⁻¹; with N alone, N and the identity.
    spread : S (nc, m).
    p : (nc,) gap speed of the free motion over the part's speed.
    diagonal : (nc,) diagonal of R Sᵀ; zero for contacts that act on nothing.
    force : (nc,) N, unit of the forces.
    """

    rows: sp.csr_array
    spread: sp.csr_array
    p: FloatArray
    diagonal: FloatArray
    force: FloatArray

    def in_order(self, order: Any) -> ScaledStep:
        """The same problem with its contacts in this order."""
        rows = sp.csr_array(self.rows[order])
        spread = rows if self.spread is self.rows else sp.csr_array(self.spread[order])
        return ScaledStep(rows, spread, self.p[order], self.diagonal[order], self.force[order])


def scaled_step(data: ContactProblem) -> ScaledStep:
    """The step of ``data`` in scaled units; N is not formed when B and M are there."""
    root = np.sqrt(data.force / data.speed)
    mass = data.inertia
    if mass is None:
        rows = scaled(data.products, root, root)
        spread = sp.csr_array(sp.eye_array(data.rows))
        diagonal = rows.diagonal()
    elif mass.is_diagonal:
        column = np.sqrt(data.dt / mass.diagonal)
        rows = spread = scaled(data.B, root, column)
        diagonal = total_by(rows_of(rows), rows.data**2, data.rows)
    else:
        rows = scaled(data.B, root)
        solved = mass.solve_sparse(sp.csr_array(data.B.T)).T
        spread = scaled(sp.csr_array(solved), data.dt * root)
        diagonal = np.asarray(rows.multiply(spread).sum(axis=1), dtype=np.float64).ravel()
    return ScaledStep(rows, spread, data.p / data.speed, np.maximum(diagonal, 0.0), data.force)


def natural_residual(diagonal: FloatArray, gradient: FloatArray, f: FloatArray) -> float:
    """max |min(H_ii f_i, gradient_i)|: zero exactly at a solution; not-a-number spreads."""
    return float(np.abs(np.minimum(gradient, diagonal * f)).max(initial=0.0))
