"""Accelerated projected gradient descent (APGD) on (22).

Mazhar, Heyn, Negrut and Tasora (2015), which Olsen & Kamrin (2018) use for classic contact
dynamics; the iteration and its source are told in ``cdopt.backends.proximal``. Products N f are
taken as B (M⁻¹ (Bᵀ f)), never with N where B and M are known.

Where forces are indeterminate, a gradient method started from zero stays in the range of B as
long as no force has been held at zero: on ``beam-uniform`` it finds the minimum-norm forces, 10/3
N on each of the three supports.
"""

from __future__ import annotations

import logging
import time
from dataclasses import dataclass

import numpy as np

from cdopt.backends import kernels
from cdopt.backends.base import Capability, Posed, RunResult
from cdopt.backends.deadline import Deadline
from cdopt.backends.held import held
from cdopt.backends.proximal import Proximal
from cdopt.backends.structured import (
    check_common,
    finished,
    rigid,
    scaled_step,
    starting_forces,
    tell,
)
from cdopt.backends.threads import threads_for
from cdopt.problem.solution import Iterate
from cdopt.problem.warm_start import WarmStart

LOG = logging.getLogger("cdopt.backends.apgd")


@dataclass(frozen=True)
class APGD:
    """Settings of accelerated projected gradient descent.

    Parameters
    ----------
    max_iterations : steps at most.
    accuracy : the run is solved when max_i |min(N_ii f_i, (N f + p)_i)| / V ≤ accuracy, the
        projected gradient with each contact's own step; V is the closing speed of its part;
        and, down to 1e-10, when the certificate is met too.
    history : keep that residual of every step in ``raw.residuals``.

    Raises
    ------
    InvalidInput : a setting out of range.
    """

    max_iterations: int = 100_000
    accuracy: float = 1e-8
    history: bool = False

    def __post_init__(self) -> None:
        check_common(self.accuracy, ("max_iterations", self.max_iterations), self.history)

    @property
    def name(self) -> str:
        """The registered name."""
        return "apgd"

    @property
    def capability(self) -> Capability:
        """Rigid steps, warm starts."""
        return Capability(structured=frozenset({"rigid step"}), warm_start=True)

    def run(
        self,
        posed: Posed,
        warm_start: WarmStart | None,
        verbose: bool,
        time_limit: float | None = None,
    ) -> RunResult:
        """Iterate until the stopping test is met or the limit is reached."""
        deadline = Deadline.after(time_limit)
        return held(
            self, posed, warm_start, "max_iterations", deadline,
            lambda settings, start: settings._run(posed, start, verbose, deadline),
        )  # fmt: skip

    def _run(
        self, posed: Posed, warm_start: WarmStart | None, verbose: bool, deadline: Deadline
    ) -> RunResult:
        started = time.perf_counter()
        data = rigid(posed, self.name)
        step = scaled_step(data)
        rows = kernels.plain(step.rows)
        spread = rows if step.spread is step.rows else kernels.plain(step.spread)
        problem = Proximal(
            rows=rows,
            columns=kernels.transposed(spread, step.rows.shape[1]),
            own=step.own,
            h=step.p,
            compliance=np.zeros(0),
            exponent=1.0,
            forces=np.where(step.own > 0.0, starting_forces(data, warm_start), 0.0),
        )
        prepared = time.perf_counter()
        with threads_for(data.nc):
            met = problem.minimise(
                self.accuracy,
                self.max_iterations,
                deadline,
                lambda n, residual: tell(LOG, verbose, f"iteration {n}: residual {residual:.2e}"),
            )
        status = "solved" if met else "stopped"
        tell(LOG, verbose, f"{status} after {problem.steps}: residual {problem.residual:.2e}")
        solved = time.perf_counter()
        forces = step.force * problem.forces
        iterate = Iterate(data.velocity(forces), forces)
        clock = (started, prepared, solved)
        return finished(
            self, met, iterate, clock, problem.steps, problem.residuals, deadline=deadline
        )
