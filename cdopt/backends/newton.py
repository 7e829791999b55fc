"""Newton's method for trusses, rigid and elastic steps, on general sparse B.

The truss is minimised in potential form by a semismooth Newton method (``newton_truss``), and so
is the elastic step, a truss with inertia; the rigid step by an augmented Lagrangian over the same
linear systems (``newton_rigid``). Systems of up to 240 dofs are factorised densely; larger ones
are solved matrix-free by conjugate gradients preconditioned with each body's block, in compiled
threaded loops, or by a sparse factorisation when the penalty makes them stiff. Blocks come from
``dof_body``; without it every dof stands alone.
"""

from __future__ import annotations

import contextlib
import functools
import logging
import time
from collections.abc import Iterator
from dataclasses import dataclass

import numba
import numpy as np
import scipy.sparse as sp
from threadpoolctl import ThreadpoolController

from cdopt import delassus
from cdopt.backends import newton_rigid, newton_truss
from cdopt.backends.base import Capability, Posed, RunResult
from cdopt.backends.newton_system import Network, network
from cdopt.backends.structured import (
    check_common,
    finished,
    starting_forces,
    tell,
)
from cdopt.checks import IntArray
from cdopt.data import ElasticStepData, RigidStepData, TrussData
from cdopt.solution import Iterate, StepSolution

LOG = logging.getLogger("cdopt.backends.newton")

_SERIAL = 20_000  # contacts up to which a second thread gains less than it may lose
_RANK_TOL = 1e-13  # of the largest eigenvalue of a part of N: what a double can hold


@dataclass(frozen=True)
class Newton:
    """Settings of the Newton backend.

    Parameters
    ----------
    accuracy : a truss is solved when its scaled equilibrium residual, a rigid step when its
        scaled natural residual and momentum error, are at most this.
    max_steps : Newton steps of a truss, outer iterations of a rigid step, at most.
    history : keep the residual of each step in ``raw.residuals``.

    Raises
    ------
    InvalidInput : a setting out of range.
    """

    accuracy: float = 1e-12
    max_steps: int = 200
    history: bool = False

    def __post_init__(self) -> None:
        check_common(self.accuracy, ("max_steps", self.max_steps), self.history)

    @property
    def name(self) -> str:
        """The registered name."""
        return "newton"

    @property
    def capability(self) -> Capability:
        """Rigid steps, and elastic steps and trusses of every power."""
        return Capability(
            structured=frozenset({"rigid step", "elastic step", "truss"}), warm_start=True
        )

    def run(self, posed: Posed, warm_start: StepSolution | None, verbose: bool) -> RunResult:
        """Solve once, with BLAS on one thread: the compiled loops have the cores to themselves."""
        with _libraries().limit(limits=1, user_api="blas"), _threads(posed.data.nc):
            if isinstance(posed.data, RigidStepData):
                return self._rigid(posed.data, warm_start, verbose)
            if isinstance(posed.data, ElasticStepData):
                return self._elastic(posed.data, verbose)
            return self._truss(posed.data, warm_start, verbose)

    # --- trusses -----------------------------------------------------------------------

    def _truss(self, data: TrussData, warm_start: StepSolution | None, verbose: bool) -> RunResult:
        started = time.perf_counter()
        scaled = data.scaled()
        net = network(scaled.B, None if data.dof_body is None else data.dof_body[scaled.used])
        start = None
        earlier = None if warm_start is None else warm_start.u
        if earlier is not None and earlier.shape == data.prescribed_u.shape:
            start = (earlier[scaled.used] * scaled.unit)[net.order]
        ready = time.perf_counter()
        run = newton_truss.minimise(
            net, scaled.load[net.order], scaled.opening, scaled.law, start,
            self.accuracy, self.max_steps,
        )  # fmt: skip
        u = np.array(data.prescribed_u)
        u[scaled.used[net.order]] = run.u / scaled.unit[net.order]
        return self._result(
            Iterate(u, run.f * data.force),
            run.converged, run.steps, run.history, net, (started, ready), verbose,
        )  # fmt: skip

    # --- elastic steps -----------------------------------------------------------------

    def _elastic(self, data: ElasticStepData, verbose: bool) -> RunResult:
        """The truss's minimisation with inertia: w = v⁺ − v*, in scaled units, for u."""
        started = time.perf_counter()
        B, mass, body = _scaled(data.rigid)
        net = network(B, body, mass)
        ready = time.perf_counter()
        run = newton_truss.minimise(
            net, np.zeros(net.m), data.scaled_opening, data.scaled_law, None,
            self.accuracy, self.max_steps,
        )  # fmt: skip
        w = np.empty(net.m)
        w[net.order] = run.u
        free = data.rigid.step.v_star
        motion = None if free is None else free + data.rigid.dof_speed * w
        return self._result(
            Iterate(motion, run.f * data.rigid.force),
            run.converged, run.steps, run.history, net, (started, ready), verbose,
        )  # fmt: skip

    # --- rigid steps -------------------------------------------------------------------

    def _rigid(
        self, data: RigidStepData, warm_start: StepSolution | None, verbose: bool
    ) -> RunResult:
        started = time.perf_counter()
        B, mass, body = _scaled(data)
        net = network(B, body, mass)
        ready = time.perf_counter()
        run = newton_rigid.solve(
            net,
            data.mobility * data.force / data.speed,
            data.step.p_vec / data.speed,
            starting_forces(data, warm_start),
            self.accuracy,
            self.max_steps,
            warm_start is not None,
        )
        motion = None
        if data.step.v_star is not None:
            w = np.empty(net.m)
            w[net.order] = run.w
            motion = data.step.v_star + data.dof_speed * w
        return self._result(
            Iterate(motion, run.f * data.force),
            run.converged, run.steps, run.history, net, (started, ready), verbose,
        )  # fmt: skip

    def _result(
        self, iterate: Iterate, converged: bool, steps: int, history: list[float],
        net: Network, clock: tuple[float, float], verbose: bool,
    ) -> RunResult:  # fmt: skip
        done = time.perf_counter()
        least = min(history, default=0.0)
        tell(
            LOG, verbose,
            f"{steps} steps, {net.iterations} conjugate gradient iterations, "
            f"{net.factorisations} factorisations, residual {least:.1e}",
        )  # fmt: skip
        return finished(
            self,
            converged,
            iterate,
            (*clock, done),
            steps,
            [np.array(history)],
            missed=f"stopped at residual {least:.1e}",
        )


@functools.cache
def _libraries() -> ThreadpoolController:
    """The loaded libraries that run threads, found once: the search takes longer than a beam."""
    return ThreadpoolController()


@contextlib.contextmanager
def _threads(contacts: int) -> Iterator[None]:
    """One thread for small problems: on busy cores theirs wait for each other and do no work."""
    before = numba.get_num_threads()
    numba.set_num_threads(before if contacts > _SERIAL else 1)
    try:
        yield
    finally:
        numba.set_num_threads(before)


def _scaled(data: RigidStepData) -> tuple[sp.csr_array, sp.csr_array, IntArray | None]:
    """B and M in units of the step's parts, and the bodies of the dofs.

    With N alone, a root of N is the gap gradient of bodies of unit mass.
    """
    if data.B is None or data.mass is None:
        unit = np.sqrt(data.force / data.speed)
        L = delassus.root(data.step.N, _RANK_TOL)
        return sp.csr_array(L * unit[:, None]), sp.csr_array(sp.eye_array(L.shape[1])), None
    mass, B = data.scaled_matrices
    return B, mass, data.step.dof_body
