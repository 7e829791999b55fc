"""What the structured backends share: scaled data, starts, settings and records of progress."""

from __future__ import annotations

import dataclasses
import logging
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp

from cdopt._util import checks
from cdopt._util.checks import FloatArray, read_only
from cdopt._util.errors import InvalidInput, Unsupported
from cdopt.backends.base import Posed, RunResult
from cdopt.backends.deadline import NEVER, TIME_LIMIT, Deadline
from cdopt.problem import DelassusStepData, ProblemData, RigidStepData
from cdopt.problem.solution import Iterate
from cdopt.problem.warm_start import WarmStart

BREAKDOWN = (ArithmeticError, np.linalg.LinAlgError)  # of numbers beyond what a double holds
IN_LOOPS = "the clock, between iterations"
_BETWEEN_LOOKS = 5_000_000  # entries of B passed over between two looks at the clock


@dataclass(frozen=True, eq=False)
class History:
    """How a run went, step by step.

    Attributes
    ----------
    residuals : what the backend's stopping test looks at, once for each sweep or iteration.
    """

    residuals: FloatArray


@dataclass(frozen=True, eq=False)
class ScaledStep:
    """(22) in units of each part's force and speed: min ½ fᵀ R Sᵀ f + pᵀf over f ≥ 0.

    Attributes
    ----------
    rows : R (nc, m). For a diagonal M both R and S are √Δt B M^(−1/2), one matrix held once;
        for any other M they are B and Δt B M⁻¹; with N alone, N and the identity.
    spread : S (nc, m).
    p : (nc,) gap speed of the free motion over the part's speed.
    own : (nc,) diagonal of R Sᵀ; zero for contacts that act on nothing.
    force : (nc,) N, unit of the forces.
    """

    rows: sp.csr_array
    spread: sp.csr_array
    p: FloatArray
    own: FloatArray
    force: FloatArray

    def in_order(self, order: Any) -> ScaledStep:
        """The same problem with its contacts in this order."""
        rows = sp.csr_array(self.rows[order])
        spread = rows if self.spread is self.rows else sp.csr_array(self.spread[order])
        return ScaledStep(rows, spread, self.p[order], self.own[order], self.force[order])


def scaled_step(data: RigidStepData | DelassusStepData) -> ScaledStep:
    """The step of ``data`` in scaled units; N is not formed when B and M are there."""
    root = np.sqrt(data.force / data.speed)
    if isinstance(data, DelassusStepData):
        rows = sp.csr_array(data.step.N * root[:, None] * root[None, :])
        spread = sp.csr_array(sp.eye_array(data.nc))
        own = rows.diagonal()
    elif data.mass.is_diagonal:
        column = np.sqrt(data.dt / data.mass.diagonal)
        rows = spread = sp.csr_array(data.B * root[:, None] * column[None, :])
        own = _row_products(rows, spread)
    else:
        rows = sp.csr_array(data.B * root[:, None])
        solved = data.mass.solve_sparse(sp.csr_array(data.B.T)).T
        spread = sp.csr_array(sp.csr_array(solved) * (data.dt * root)[:, None])
        own = _row_products(rows, spread)
    return ScaledStep(rows, spread, data.step.p_vec / data.speed, np.maximum(own, 0.0), data.force)


def _row_products(left: sp.csr_array, right: sp.csr_array) -> FloatArray:
    return np.asarray(left.multiply(right).sum(axis=1), dtype=np.float64).ravel()


def rigid(posed: Posed, name: str) -> RigidStepData | DelassusStepData:
    """The posed problem as a rigid step.

    Raises
    ------
    Unsupported : it is something else.
    """
    if not isinstance(posed.data, RigidStepData | DelassusStepData):
        raise Unsupported(name, f"it solves rigid steps, not a {posed.data.kind}")
    return posed.data


def starting_forces(data: ProblemData, start: WarmStart | None) -> FloatArray:
    """Scaled forces (nc,) to start from: zero, or an earlier solution's by contact name."""
    if start is None:
        return np.zeros(data.nc)
    return np.maximum(start.forces_on(data.contact_ids, data.nc) / data.force, 0.0)


def check_common(accuracy: object, limit: tuple[str, object], history: object) -> None:
    """Validate the settings that every iterative backend has.

    Raises
    ------
    InvalidInput : naming the field.
    """
    checks.scalar("accuracy", accuracy, above=0.0, at_most=1.0)
    check_count(*limit)
    if not isinstance(history, bool):
        raise InvalidInput("history", checks.describe(history), "True or False")


def check_count(name: str, value: object) -> None:
    """Validate a whole number of at least one.

    Raises
    ------
    InvalidInput : naming it.
    """
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise InvalidInput(name, checks.describe(value), "a whole number of at least 1")


def settings_of(backend: Any) -> dict[str, Any]:
    """The settings of a backend that are not at their defaults, and its accuracy."""
    found = {field.name: getattr(backend, field.name) for field in dataclasses.fields(backend)}
    changed = {f.name for f in dataclasses.fields(backend) if found[f.name] != f.default}
    return {key: value for key, value in found.items() if key in changed or key == "accuracy"}


def tell(logger: logging.Logger, verbose: bool, text: str) -> None:
    """Report progress to the log, and to the terminal when asked."""
    logger.info(text)
    if verbose:
        print(f"{logger.name.rpartition('.')[2]}: {text}")


def finished(
    backend: Any,
    met: bool,
    iterate: Iterate,
    clock: tuple[float, float, float],
    iterations: int,
    residuals: list[FloatArray],
    missed: str = "iteration limit",
    how: str = "",
    deadline: Deadline = NEVER,
) -> RunResult:
    """The result of a run: ``clock`` is when it began, was set up, and had iterated."""
    began, prepared, solved = clock
    late = not met and deadline.passed
    return RunResult(
        status="solved" if met else TIME_LIMIT if late else missed,
        claim="solved" if met else "inaccurate",
        iterate=iterate,
        timings={
            "compile": prepared - began,
            "solve": solved - prepared,
            "read": time.perf_counter() - solved,
        },
        iterations=iterations,
        raw=record(backend.history, residuals),
        settings=settings_of(backend),
        how=how,
        out_of_time=late,
        limited="" if deadline == NEVER else IN_LOOPS,
    )


def record(history: bool, pieces: list[FloatArray]) -> History | None:
    """The history of a run as its pieces were collected, when wanted."""
    if not history:
        return None
    return History(read_only(np.concatenate([np.zeros(0), *pieces])))


def safely(
    backend: Any, data: ProblemData, deadline: Deadline, attempt: Callable[[], RunResult]
) -> RunResult:
    """What ``attempt`` gives; where no time is left or arithmetic breaks down, a status.

    Numbers beyond what a double holds are no error of the caller: data may be scaled badly. The
    iterate is then that of no forces.
    """
    limited = "" if deadline == NEVER else IN_LOOPS
    with np.errstate(all="ignore"):
        if deadline.passed:
            return RunResult(
                TIME_LIMIT, "inaccurate", _without_forces(data), _timings(0.0), 0,
                settings=settings_of(backend), out_of_time=True, limited=limited,
            )  # fmt: skip
        started = time.perf_counter()
        try:
            return attempt()
        except BREAKDOWN as error:
            return RunResult(
                f"numerical breakdown: {type(error).__name__}: {error}", "failed",
                _without_forces(data), _timings(time.perf_counter() - started), raw=error,
                settings=settings_of(backend), limited=limited,
            )  # fmt: skip


def _timings(solve: float) -> dict[str, float]:
    return {"compile": 0.0, "solve": solve, "read": 0.0}


def _without_forces(data: ProblemData) -> Iterate:
    """No forces, and the motion without them."""
    return Iterate(data.free_motion, np.zeros(data.nc))


def in_pieces(trace: FloatArray, entries: int, deadline: Deadline) -> list[FloatArray]:
    """Views of ``trace``, one entry for each pass over so many entries: between them, the clock.

    Without a limit it is one piece. Loops go on where they stood: pieces change no number.
    """
    if deadline == NEVER:
        return [trace]
    passes = max(1, _BETWEEN_LOOKS // max(entries, 1))
    return [trace[at : at + passes] for at in range(0, trace.size, passes)]
