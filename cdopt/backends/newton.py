"""Newton's method for trusses, rigid and elastic steps, on general sparse B.

The truss is minimised in potential form by a semismooth Newton method (``newton_truss``), and so
is the elastic step, a truss with inertia; the rigid step by an augmented Lagrangian over the same
linear systems (``newton_rigid``). Up to 240 dofs both are compiled as a whole
(``newton_truss_small``, ``newton_small``); above, rigid steps go to a proximal interior point
(``newton_interior``), which also takes over trusses that Newton's method does not solve.
``cdopt.backends.linalg`` factorises small systems as dense matrices and solves larger ones by
conjugate gradients preconditioned with each body's block, in compiled threaded loops, or by a
sparse factorisation where that takes less. Blocks come from ``dof_body``; without it every dof
stands alone.
"""

from __future__ import annotations

import logging
import time
from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp

from cdopt._util.checks import FloatArray, IntArray
from cdopt._util.errors import Unsupported
from cdopt.backends import newton_interior, newton_rigid, newton_small, newton_truss
from cdopt.backends.base import Capability, Posed, RunResult
from cdopt.backends.deadline import Deadline
from cdopt.backends.held import held
from cdopt.backends.linalg import Network, network
from cdopt.backends.linalg.base import Tally
from cdopt.backends.newton_interior import Conditions
from cdopt.backends.newton_rigid import RigidRun
from cdopt.backends.newton_truss import Potential
from cdopt.backends.structured import (
    check_common,
    finished,
    starting_forces,
    tell,
)
from cdopt.backends.threads import threads_for
from cdopt.problem import (
    DelassusStepData,
    ElasticStepData,
    ProblemData,
    RigidStepData,
    TrussData,
    delassus,
)
from cdopt.problem.contact_law import PowerLaw
from cdopt.problem.solution import Iterate
from cdopt.problem.warm_start import WarmStart

LOG = logging.getLogger("cdopt.backends.newton")

_FAR = 1e8  # scaled forces from which a warm start knows nothing of the step
_RANK_TOL = 1e-13  # of the largest eigenvalue of a part of N: what a double can hold


@dataclass(frozen=True)
class Newton:
    """Settings of the Newton backend.

    Parameters
    ----------
    accuracy : a truss is solved when its scaled equilibrium residual, a rigid step when its
        scaled natural residual and momentum error, are at most this; and, down to 1e-10, when
        the certificate is.
    max_steps : Newton steps of a truss, outer iterations of a rigid step, at most.
    history : keep the residual of each step in ``raw.residuals``.

    Notes
    -----
    Methods and linear algebra are chosen by the size of the problem and how it goes; what was
    used is told by ``verbose`` and kept in ``StepSolution.provenance["how"]``.

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

    def run(
        self,
        posed: Posed,
        warm_start: WarmStart | None,
        verbose: bool,
        time_limit: float | None = None,
    ) -> RunResult:
        """Solve once."""
        deadline = Deadline.after(time_limit)
        return held(
            self, posed, warm_start, "max_steps", deadline,
            lambda settings, start: settings._run(posed.data, start, verbose, deadline),
        )  # fmt: skip

    def _run(
        self, data: ProblemData, warm_start: WarmStart | None, verbose: bool, deadline: Deadline
    ) -> RunResult:
        if isinstance(data, RigidStepData) and newton_small.takes(data):
            result = self._few_dofs(data, warm_start, verbose, deadline)
            if result is not None:
                return result
        with threads_for(data.nc, data.nc if isinstance(data, DelassusStepData) else data.nv):
            if isinstance(data, RigidStepData | DelassusStepData):
                return self._rigid(data, warm_start, verbose, deadline)
            if isinstance(data, ElasticStepData):
                return self._elastic(data, verbose, deadline)
            if isinstance(data, TrussData):
                return self._truss(data, warm_start, verbose, deadline)
        raise Unsupported(self.name, f"it does not solve a {data.kind}")

    # --- trusses -----------------------------------------------------------------------

    def _truss(
        self, data: TrussData, warm_start: WarmStart | None, verbose: bool, deadline: Deadline
    ) -> RunResult:
        started = time.perf_counter()
        scaled = data.scaled()
        net = network(scaled.B, None if data.dof_body is None else data.dof_body[scaled.used])
        start = None
        earlier = None if warm_start is None else warm_start.motion
        if earlier is not None and earlier.shape == data.prescribed_u.shape:
            start = net.arranged(earlier[scaled.used] * scaled.unit)
        ready = time.perf_counter()
        posed = Potential(
            net, net.arranged(scaled.load), net.in_rows(scaled.opening), _in_rows(scaled.law, net)
        )
        run = newton_truss.minimise(posed, start, self.accuracy, self.max_steps, deadline)
        u = np.array(data.prescribed_u)
        u[scaled.used] = run.u[net.place] / scaled.unit
        return self._result(
            Iterate(u, net.in_given_order(run.f) * data.force),
            run.converged, run.steps, run.history, net.tally, (started, ready), verbose, deadline,
        )  # fmt: skip

    # --- elastic steps -----------------------------------------------------------------

    def _elastic(self, data: ElasticStepData, verbose: bool, deadline: Deadline) -> RunResult:
        """The truss's minimisation with inertia: w = v⁺ − v*, in scaled units, for u."""
        started = time.perf_counter()
        step = data.scaled()
        net = network(step.B, data.step.dof_body, step.M)
        ready = time.perf_counter()
        law = _in_rows(step.law or data.law, net)
        posed = Potential(net, np.zeros(net.m), net.in_rows(step.p), law)
        run = newton_truss.minimise(posed, None, self.accuracy, self.max_steps, deadline)
        w = run.u[net.place]
        return self._result(
            Iterate(
                data.free_motion + data.dof_speed * w,
                net.in_given_order(run.f) * data.force,
            ),
            run.converged, run.steps, run.history, net.tally, (started, ready), verbose, deadline,
        )  # fmt: skip

    # --- rigid steps -------------------------------------------------------------------

    def _few_dofs(
        self, data: RigidStepData, warm_start: WarmStart | None, verbose: bool,
        deadline: Deadline,
    ) -> RunResult | None:  # fmt: skip
        """The step in one compiled run; None where that does not reach the accuracy."""
        started, tally = time.perf_counter(), Tally()
        start = starting_forces(data, warm_start)
        ready = time.perf_counter()
        run = newton_small.solve(
            data, start, self.accuracy, self.max_steps, warm_start is not None, tally, deadline
        )
        if run is None:
            return None
        return self._result(
            Iterate(data.step.v_star + data.dof_speed * run.w, run.f * data.force),
            run.converged, run.steps, run.history, tally, (started, ready), verbose, deadline,
        )  # fmt: skip

    def _rigid(
        self, data: RigidStepData | DelassusStepData, warm_start: WarmStart | None, verbose: bool,
        deadline: Deadline,
    ) -> RunResult:  # fmt: skip
        started = time.perf_counter()
        B, mass, body = _scaled(data)
        net = network(B, body, mass)
        ready = time.perf_counter()
        posed = Conditions(
            net, np.zeros(net.m), net.in_rows(data.step.p_vec / data.speed),
            net.in_rows(data.mobility * data.force / data.speed),
        )  # fmt: skip
        start = net.in_rows(starting_forces(data, warm_start))
        run = self._solved(posed, start, warm_start is not None, deadline)
        motion = None
        if isinstance(data, RigidStepData):
            motion = data.step.v_star + data.dof_speed * run.w[net.place]
        return self._result(
            Iterate(motion, net.in_given_order(run.f) * data.force),
            run.converged, run.steps, run.history, net.tally, (started, ready), verbose, deadline,
        )  # fmt: skip

    def _solved(
        self, posed: Conditions, start: FloatArray, warm: bool, deadline: Deadline
    ) -> RigidRun:
        """Small steps by the augmented Lagrangian, which stays near the forces it is given.

        Large ones by the interior point, in a number of systems that hardly depends on the step;
        the other of the two takes over where the first does not reach the accuracy.
        """
        net, tried = posed.net, []
        for interior in (False, True) if net.small else (True, False):
            if interior:
                near = (
                    newton_interior.begun_near(posed, start)
                    if warm and start.max(initial=0.0) < _FAR
                    else None
                )
                w, f, s = near or newton_interior.begun(posed)
                run = newton_interior.solve(posed, w, f, s, self.accuracy, self.max_steps, deadline)
            else:
                run = newton_rigid.solve(
                    net,
                    posed.mobility,
                    posed.p,
                    start,
                    self.accuracy,
                    self.max_steps,
                    warm,
                    deadline,
                )
            tried.append(run)
            if run.converged or deadline.passed:
                break
        return min(tried, key=lambda run: run.residual)

    def _result(
        self, iterate: Iterate, converged: bool, steps: int, history: list[float],
        tally: Tally, clock: tuple[float, float], verbose: bool, deadline: Deadline,
    ) -> RunResult:  # fmt: skip
        done = time.perf_counter()
        least = min(history, default=0.0)
        tell(
            LOG, verbose,
            f"{steps} steps, {tally}, residual {least:.1e}",
        )  # fmt: skip
        return finished(
            self,
            converged,
            iterate,
            (*clock, done),
            steps,
            [np.array(history)],
            missed=f"stopped at residual {least:.1e}",
            how=str(tally),
            deadline=deadline,
        )


def _in_rows(law: PowerLaw, net: Network) -> PowerLaw:
    """The law of each row's contact."""
    return PowerLaw(net.in_rows(law.stiffness), law.power)


def _scaled(
    data: RigidStepData | DelassusStepData,
) -> tuple[sp.csr_array, sp.csr_array, IntArray | None]:
    """B and M in units of the step's parts, and the bodies of the dofs.

    With N alone, a root of N is the gap gradient of bodies of unit mass.
    """
    if isinstance(data, DelassusStepData):
        unit = np.sqrt(data.force / data.speed)
        L = delassus.root(data.step.N, _RANK_TOL)
        return sp.csr_array(L * unit[:, None]), sp.csr_array(sp.eye_array(L.shape[1])), None
    step = data.scaled()
    return step.B, step.M, data.step.dof_body
