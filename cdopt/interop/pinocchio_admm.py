"""Pinocchio's ADMM for contacts with friction in space, as a backend for studies.

K_μ ∋ f ⟂ N f + p + μ‖g_T‖e_n ∈ K*_μ, or without the shift the associated law, is passed to
Pinocchio as a dense matrix and a vector, in units of the problem's scales. The contacts are on an
auxiliary body, since the solver uses only their cones. It has no time limit.

J. Carpentier, Q. Le Lidec, L. Montaut, *From compliant to rigid contact simulation: a unified and
efficient approach*, RSS 2024. In a study it is the plugin ``cdopt.interop.pinocchio_admm:makers``.
"""

from __future__ import annotations

import importlib
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from cdopt._util import checks
from cdopt._util.checks import FloatArray
from cdopt._util.errors import BackendUnavailable, Unsupported
from cdopt.backends.base import Backend, Capability, Problem, RunResult
from cdopt.backends.network_problem import network_problem
from cdopt.interop.pinocchio import why_unavailable
from cdopt.problem import FrictionCones
from cdopt.problem.solution import WarmStart

_LARGEST = 3_000  # rows: N is dense here
_TOLERANCES = [f"{kind}_{of}_tol" for kind in ("absolute", "relative") for of in
               ("feasibility", "complementarity")]  # fmt: skip


@dataclass(frozen=True)
class PinocchioADMM:
    """Settings of Pinocchio's ADMM.

    Parameters
    ----------
    accuracy : its tolerances of feasibility and complementarity, in units of the problem's scales;
        None for its default, 1e-6.
    max_iterations : limit of its iterations.
    """

    accuracy: float | None = None
    max_iterations: int = 20_000

    name: ClassVar[str] = "pinocchio-admm"
    capability: ClassVar[Capability] = Capability(
        structured=frozenset({"frictional step"}), cones=frozenset({FrictionCones.name})
    )

    def __post_init__(self) -> None:
        checks.optional(checks.tolerance, "accuracy", self.accuracy)
        checks.count("max_iterations", self.max_iterations)
        reason = why_unavailable()
        if reason is None and not hasattr(_pinocchio(), "ADMMConstraintSolver"):
            reason = "this Pinocchio has no ADMMConstraintSolver: version 4 has"
        if reason is not None:
            raise BackendUnavailable(self.name, reason)

    def run(
        self,
        formulation: Problem,
        warm_start: WarmStart | None,
        verbose: bool,
        time_limit: float | None = None,
    ) -> RunResult:
        """Solve from zero."""
        started, data = time.perf_counter(), formulation.data
        if data.kind != "frictional step" or data.d != 3 or data.rows > _LARGEST:
            reason = f"it takes steps with friction in space, of up to {_LARGEST:,} rows"
            raise Unsupported(f"{self.name} for a {data.kind} of {data.rows:,} rows", reason)
        problem = network_problem(data)
        order = np.roll(np.arange(problem.rows).reshape(-1, problem.d), -1, axis=1).ravel()
        pin, N = _pinocchio(), problem.factors.dense()[np.ix_(order, order)]
        settings, answer = pin.ADMMSolverSettings(), pin.ADMMSolverResult()
        settings.max_iterations, settings.solve_ncp = self.max_iterations, problem.coulomb
        for name in _TOLERANCES if self.accuracy is not None else ():
            setattr(settings, name, self.accuracy)
        solver, matrix = pin.ADMMConstraintSolver(problem.rows), pin.DelassusOperatorDense(N)
        prepared = time.perf_counter()
        met = solver.solve(matrix, problem.p[order], *_cones(problem.mu), settings, answer)
        solved = time.perf_counter()
        forces = np.empty(problem.rows)
        forces[order] = np.asarray(answer.retrieveConstraintImpulses())
        return RunResult(
            "converged" if met else "not converged",
            "solved" if met else "failed",
            problem.caused(forces),
            timings={"compile": prepared - started, "solve": solved - prepared},
            iterations=int(answer.iterations),
            raw=answer,
            settings={} if self.accuracy is None else dict.fromkeys(_TOLERANCES, self.accuracy),
        )


def makers() -> dict[str, Callable[[float | None], Backend]]:
    """The plugin of a study; empty if Pinocchio is not installed."""
    return {} if why_unavailable() else {PinocchioADMM.name: PinocchioADMM}


def _pinocchio() -> Any:
    return importlib.import_module("pinocchio")


def _cones(mu: FloatArray) -> tuple[Any, Any]:
    """Pinocchio's contacts with these coefficients (nc,), and their data."""
    pin = _pinocchio()
    model, place = pin.Model(), pin.SE3.Identity()
    joint = model.addJoint(0, pin.JointModelFreeFlyer(), place, "body")
    model.appendBodyToJoint(joint, pin.Inertia(1.0, np.zeros(3), np.eye(3)), place)
    data = model.createData()
    pin.forwardKinematics(model, data, pin.neutral(model))
    contacts, states = pin.StdVec_ConstraintModel(), pin.StdVec_ConstraintData()
    for one in mu:
        contact = pin.PointContactConstraintModel(model, joint, place)
        contact.setFriction(float(one))
        contacts.append(pin.ConstraintModel(contact))
        state = contacts[len(contacts) - 1].createData()
        contacts[len(contacts) - 1].calc(model, data, state)
        states.append(state)
    return contacts, states
