"""Compatible contact dynamics with friction: a step, and the network that resolves its forces.

Step one is ``FrictionalCD``, which determines the motion v⁺, the faces of the cones and the load
F̃ = Bᵀf; step two the ``FrictionNetwork`` on them.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import scipy.sparse as sp

from cdopt._util import checks
from cdopt._util.cached import cached_property
from cdopt._util.checks import FloatArray
from cdopt._util.errors import InvalidInput
from cdopt.backends.base import Backend
from cdopt.formulations.faces import Faces
from cdopt.formulations.friction_network import FrictionNetwork, NetworkForces, solved_faces
from cdopt.formulations.frictional_cd import FrictionalCD
from cdopt.problem import Step, StepSolution
from cdopt.problem.cones import SLIDING
from cdopt.problem.joint_elimination import Eliminated, eliminated
from cdopt.problem.scaling import delassus_root
from cdopt.problem.step_problems import LAWS, frictional_data


class CompatibleFriction:
    """A step with friction, its forces resolved by compatibility.

    Step one gives the motion, the faces and the load; step two the forces of a ``FrictionNetwork``.

    Parameters
    ----------
    step : with friction; its ``stiffness`` and ``friction.stiffness_ratio`` set the ratios.
    law : of the motion, "coulomb" or "associated". flow : of the micro-slip.
    history : forces of the previous increment of load, matched by contact ids; new contacts start
        without a force.
    sliders : treatment, with Coulomb's micro-slip, of contacts that slide in the motion: "refuse",
        or "haar-karman" for the associated flow; the label of the forces states it.

    Raises
    ------
    InvalidInput : a bad argument.

    Notes
    -----
    Joints of finite stiffness are springs of the network, relative to its contacts; with a history
    they continue from their forces in it.
    """

    def __init__(
        self,
        step: Step,
        law: str = "coulomb",
        flow: str = "coulomb",
        history: NetworkForces | None = None,
        sliders: str = "refuse",
    ) -> None:
        if history is not None:
            checks.instance("history", history, NetworkForces)
        law = checks.choice("law", law, LAWS)
        flow = checks.choice("flow", flow, LAWS)
        sliders = checks.choice("sliders", sliders, ("refuse", "haar-karman"))
        self.flow, self.sliders = flow, sliders
        self.problem, self.history = FrictionalCD(step, law), history
        step.require_no_moments("CompatibleFriction")

    def network(self, solution: str | Backend | StepSolution | None = None) -> FrictionNetwork:
        """The network of a certified solution, or of the solution by a backend.

        Raises
        ------
        Unsupported : sliding contacts with Coulomb's micro-slip.
        """
        return self._network(solution)[1]

    def _network(
        self, solution: str | Backend | StepSolution | None
    ) -> tuple[StepSolution, FrictionNetwork]:
        """A certified solution, and its network."""
        answer, faces = solved_faces(self.problem, solution)
        flow = self.flow
        slides = (faces.status == SLIDING) & (faces.mu > 0.0)
        if slides.any() and flow == "coulomb" and self.sliders == "haar-karman":
            flow = "associated"
        trial = self._trial(faces)
        if self.springs is None:
            return answer, network_on(self.problem, faces, flow, trial=trial)
        return answer, self._with_springs(self.springs, answer, faces, flow, trial)

    @cached_property
    def springs(self) -> Eliminated | None:
        """The step in coordinates that satisfy only its rigid joints; None if all are rigid."""
        joints = self.problem.joints
        if joints is None or not joints.soft.size:
            return None
        return eliminated(joints.given, springs=True)

    @property
    def joints(self) -> Eliminated | None:
        """The joints of the step, the rigid ones eliminated from the network; None without any."""
        return self.springs or self.problem.joints

    def _with_springs(
        self,
        springs: Eliminated,
        answer: StepSolution,
        faces: Faces,
        flow: str,
        trial: FloatArray,
    ) -> FrictionNetwork:
        """The network with joints of finite stiffness among its springs."""
        kept, step, reactions = springs.kept, springs.step, answer.joint_forces
        if kept is None or reactions is None or step.friction is None:
            raise InvalidInput("solution", "no joint forces", "a solution of this step")
        data = frictional_data(step, self.problem.law)
        normal, before = np.arange(data.rows) % data.d == 0, None
        if self.history is not None and self.history.joint_forces is not None:
            known = checks.vector("history", self.history.joint_forces, reactions.size, "N")
            before = known[springs.soft]
        load = data.B.T @ faces.forces.ravel() + kept.J.T @ reactions[springs.soft]
        return FrictionNetwork(
            sp.csr_array(data.B[normal]),
            sp.csr_array(data.B[~normal]),
            load,
            faces.mu,
            step.stiffness,
            step.friction.stiffness_ratio,
            faces,
            trial,
            flow,
            dof_body=data.bodies,
            joints=kept,
            joint_trial=before,
        )

    def solve(
        self, solution: str | Backend | StepSolution | None = None, *, tol: float = 1e-9
    ) -> NetworkForces:
        """The forces; ``solution`` and errors as in ``network``, ``tol`` of the balance."""
        answer, network = self._network(solution)
        forces = network.solve(tol=tol)
        label = forces.label
        if forces.flow != self.flow:
            label += " in place of Coulomb micro-slip, because contacts slide"
        joints, more = self.joints, dict[str, Any]()
        if joints is not None and answer.v_next is not None:
            moved = answer.v_next, forces.f, forces.f_t
            reactions = joints.reactions(*moved, springs=forces.joint_forces)
            more = {"joint_forces": reactions, "u": joints.motions.Z @ forces.u}
        ids = self.problem.step.contact_ids
        return replace(forces, label=label, contact_ids=ids, **more)

    def _trial(self, faces: Faces) -> FloatArray:
        """Trial forces from the history, zero at new contacts."""
        trial, ids = np.zeros_like(faces.ray), self.problem.step.contact_ids
        if self.history is None:
            return trial
        before = self.history.trial
        if ids is None or self.history.contact_ids is None:
            if before.shape != trial.shape:
                raise InvalidInput("history", f"{len(before)} contacts", f"{len(trial)}, or ids")
            return before
        _, here, there = np.intersect1d(ids, self.history.contact_ids, return_indices=True)
        trial[here] = before[there]
        return trial


def network_on(
    problem: FrictionalCD,
    faces: Faces,
    flow: str,
    *,
    trial: FloatArray | None = None,
    equal: bool = False,
) -> FrictionNetwork:
    """The network of a step on faces of its motion; springs are ``equal`` or those of the step."""
    step, rows = problem.step, _rows_of(problem, faces)
    ratio = 1.0 if step.friction is None else step.friction.stiffness_ratio
    normal = np.arange(rows.shape[0]) % problem.data.d == 0
    return FrictionNetwork(
        sp.csr_array(rows[normal]),
        sp.csr_array(rows[~normal]),
        rows.T @ faces.forces.ravel(),
        faces.mu,
        1.0 if equal else step.stiffness,
        1.0 if equal else ratio,
        faces,
        trial,
        flow,
        dof_body=problem.data.bodies if problem.data.nv else None,
    )


def _rows_of(problem: FrictionalCD, faces: Faces) -> sp.csr_array:
    """Rows (nc d, nv) whose transpose maps forces to loads; of N a factor L, N = L Lᵀ."""
    products = problem.data.products
    if problem.data.nv or products.shape[0] != faces.ray.size:
        return sp.csr_array(products.T)
    return delassus_root(products, 1e-12)
