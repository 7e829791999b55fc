"""Projected Gauss–Seidel on (21), as Olsen & Kamrin (2018) use it for classic contact dynamics.

Contact after contact, in a fixed order, each force becomes the one that keeps its own contact
from closing while all others stay as they are::

    f_i ← max(0, f_i − ω (N f + p)_i / N_ii)

The motion is kept up to date instead of N f, so that N is never formed where B and M are known:
one visit reads the contact's row and touches the velocities of its two bodies. M. Jean, *The
non-smooth contact dynamics method*, Comput. Methods Appl. Mech. Engrg. 177 (1999); with
ω ≠ 1 successive over-relaxation: C. W. Cryer, SIAM J. Control 9 (1971).

Where forces are indeterminate the answer depends on the order of the visits. The beam of 10 N on
three supports, from zero (``beam-uniform``; f unique only up to multiples of (1, −2, 1)), and the
table of 10 N on four legs, numbered around (``table``; up to multiples of (1, −1, 1, −1)):

=========================  =====================
order                      left, middle, right
=========================  =====================
given, reversed, coloured  5/3, 20/3, 5/3
(0, 2, 1)                  10/3, 10/3, 10/3
(1, 0, 2)                  0, 10, 0
=========================  =====================

=========================  ==========================
order                      legs
=========================  ==========================
given, coloured            20/7, 15/7, 20/7, 15/7
reversed                   15/7, 20/7, 15/7, 20/7
(0, 2, 1, 3)               45/14, 25/14, 45/14, 25/14
(1, 0, 2, 3)               5/2, 5/2, 5/2, 5/2
=========================  ==========================

Contacts of one body never have one colour, so that on a single body the coloured order is the
given one. Within a colour no visit sees another, and the forces do not depend on the number of
threads. The pyramid has 12 colours, as many as a sphere has neighbours.
"""

from __future__ import annotations

import dataclasses
import logging
import time
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cdopt._util import checks
from cdopt._util.checks import FloatArray
from cdopt._util.compiled import side_by_side
from cdopt._util.errors import InvalidInput
from cdopt.backends import kernels
from cdopt.backends.base import Capability, Posed, RunResult
from cdopt.backends.coloured_kernels import coloured_gauss_seidel
from cdopt.backends.colouring import Colouring, coloured
from cdopt.backends.deadline import Deadline
from cdopt.backends.held import held
from cdopt.backends.kernels import Rows
from cdopt.backends.structured import (
    ScaledStep,
    check_common,
    finished,
    in_pieces,
    rigid,
    scaled_step,
    starting_forces,
    tell,
)
from cdopt.backends.threads import several, threads_for
from cdopt.problem import RigidData, RigidStepData
from cdopt.problem.solution import Iterate
from cdopt.problem.warm_start import WarmStart

LOG = logging.getLogger("cdopt.backends.pgs")

ORDERS = ("given", "reversed", "shuffled", "coloured")
_TELL_EVERY = 1000  # sweeps between two lines of progress


@dataclass(frozen=True)
class PGS:
    """Settings of projected Gauss–Seidel.

    Parameters
    ----------
    order : the order of visits: "given", "reversed", "shuffled" (one random order for the whole
        run, drawn with ``seed``), "coloured" (colour by colour, no two contacts of a colour on
        one moving body: the order for many contacts, whose visits then go side by side in
        threads) or a permutation of the contacts' indices.
    seed : of the shuffle.
    relaxation : ω in (0, 2); 1 is Gauss–Seidel.
    max_sweeps : sweeps at most.
    accuracy : the run is solved when max_i |min(N_ii f_i, (N f + p)_i)| / V ≤ accuracy, with
        the closing speed V of the contact's part. Looked at on the way of every sweep; a sweep
        that meets it is confirmed on the forces as they stand, with the motion computed anew,
        and, down to 1e-10, by the certificate.
    history : keep what each sweep met in ``raw.residuals``.

    Raises
    ------
    InvalidInput : a setting out of range.
    """

    order: Any = "given"
    seed: int = 0
    relaxation: float = 1.0
    max_sweeps: int = 100_000
    accuracy: float = 1e-8
    history: bool = False

    def __post_init__(self) -> None:
        if isinstance(self.order, str):
            checks.choice("order", self.order, ORDERS)
        else:
            object.__setattr__(self, "order", _permutation(self.order))
        if isinstance(self.seed, bool) or not isinstance(self.seed, int) or self.seed < 0:
            raise InvalidInput("seed", checks.describe(self.seed), "a whole number from 0 on")
        if not checks.scalar("relaxation", self.relaxation, above=0.0) < 2.0:
            raise InvalidInput("relaxation", repr(self.relaxation), "a number below 2")
        check_common(self.accuracy, ("max_sweeps", self.max_sweeps), self.history)

    @property
    def name(self) -> str:
        """The registered name."""
        return "pgs"

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
        """Sweep until the stopping test is met or the limit is reached."""
        deadline = Deadline.after(time_limit)
        return held(
            self, posed, warm_start, "max_sweeps", deadline,
            lambda settings, start: settings._run(posed, start, verbose, deadline),
        )  # fmt: skip

    def _run(
        self, posed: Posed, warm_start: WarmStart | None, verbose: bool, deadline: Deadline
    ) -> RunResult:
        started = time.perf_counter()
        data = rigid(posed, self.name)
        given = scaled_step(data)
        colours = _colours(data, given) if self.order == "coloured" else None
        order = self._visits(data) if colours is None else colours.order
        step = given.in_order(order)
        start = starting_forces(data, warm_start)[order]
        prepared = time.perf_counter()
        with threads_for(data.nc):
            run = self._sweep(step, colours, start, verbose, deadline)
        solved = time.perf_counter()
        forces = np.zeros(data.nc)
        forces[order] = step.force * run.forces
        iterate = Iterate(data.velocity(forces), forces)
        clock = (started, prepared, solved)
        return finished(self, run.met, iterate, clock, run.sweeps, run.residuals, deadline=deadline)

    def _visits(self, data: RigidData) -> NDArray[np.intp]:
        if self.order == "given":
            return np.arange(data.nc)
        if self.order == "reversed":
            return np.arange(data.nc)[::-1]
        if self.order == "shuffled":
            return np.random.default_rng(self.seed).permutation(data.nc)
        if len(self.order) != data.nc:
            raise InvalidInput(
                "order", f"a permutation of {len(self.order)}", f"one of {data.nc} contacts"
            )
        return np.array(self.order, dtype=np.intp)

    def _sweep(
        self, step: ScaledStep, colours: Colouring | None, start: FloatArray, verbose: bool,
        deadline: Deadline,
    ) -> _Run:  # fmt: skip
        rows, spread = _plain(step)
        active = step.own > 0.0
        inverse = np.where(active, 1.0 / np.where(active, step.own, 1.0), 0.0)
        run = _Run(np.where(active, start, 0.0))
        y, gap = np.zeros(step.rows.shape[1]), np.zeros(start.size)
        while True:
            kernels.scatter(spread, run.forces, y)  # anew: round-off does not gather
            kernels.gather(rows, y, gap)
            gap += step.p
            residual = kernels.natural_residual(step.own, gap, run.forces)
            run.met = bool(residual <= self.accuracy)
            if run.met or run.sweeps >= self.max_sweeps or deadline.passed:
                break
            trace = np.zeros(min(_TELL_EVERY, self.max_sweeps - run.sweeps))
            sweep = (
                rows, spread, step.p, step.own, inverse, self.relaxation, self.accuracy,
                run.forces, y,
            )  # fmt: skip
            done = 0
            for piece in in_pieces(trace, rows[1].size, deadline):
                if colours is None:
                    swept = kernels.gauss_seidel(*sweep, piece)
                else:
                    swept = _in_colours(several(), colours.edges, *sweep, piece)
                done += swept
                if swept < piece.size or piece[-1] <= self.accuracy or deadline.passed:
                    break
            run.sweeps += done
            run.residuals.append(trace[:done])
            if done == _TELL_EVERY:
                tell(LOG, verbose, f"sweep {run.sweeps}: residual {trace[-1]:.2e}")
        words = "solved" if run.met else "stopped"
        tell(LOG, verbose, f"{words} after {run.sweeps} sweeps: residual {residual:.2e}")
        return run


@dataclass
class _Run:
    """Where the iteration stands, in scaled units and in the order of visits."""

    forces: FloatArray
    sweeps: int = 0
    met: bool = False
    residuals: list[FloatArray] = dataclasses.field(default_factory=list)


def _plain(step: ScaledStep) -> tuple[Rows, Rows]:
    """R and S, the one matrix where they are the same."""
    rows = kernels.plain(step.rows)
    return rows, rows if step.spread is step.rows else kernels.plain(step.spread)


def _colours(data: RigidData, step: ScaledStep) -> Colouring:
    """Colours of the contacts; a dof without a known body, and each contact of N, stands alone."""
    body = data.step.dof_body if isinstance(data, RigidStepData) else None
    return coloured(*_plain(step), np.arange(step.rows.shape[1]) if body is None else body)


def _in_colours(threaded: bool, *arguments: Any) -> int:
    if threaded:
        return side_by_side(coloured_gauss_seidel, True, *arguments)
    return coloured_gauss_seidel(False, *arguments)


def _permutation(value: Any) -> tuple[int, ...]:
    """A permutation as plain integers.

    Raises
    ------
    InvalidInput : it is none.
    """
    expected = "one of " + ", ".join(map(repr, ORDERS)) + ", or a permutation of 0 … nc − 1"
    index = checks.array("order", value, expected)
    whole = index.ndim == 1 and (index.dtype.kind in "iu" or index.size == 0)
    if not whole or not np.array_equal(np.sort(index), np.arange(index.size)):
        raise InvalidInput("order", checks.describe(value), expected)
    return tuple(int(i) for i in index)
