"""Derivatives of steps on elastic contacts: compliant and soft dynamics, variational steps."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import scipy.sparse as sp

from cdopt._util.checks import FloatArray, freeze
from cdopt._util.errors import InvalidInput, Unsupported
from cdopt.formulations import CompliantCD, SoftCD, VariationalStep
from cdopt.gradients.derivatives import Derivatives, Kink, StepDerivatives
from cdopt.gradients.parameters import Parameter, StepParameters
from cdopt.gradients.step_tangent import Change, Outer, Result, StepTangent
from cdopt.problem import ContactStep, StepSolution, elastic_data, soft_data
from cdopt.problem.contact_law import HOOKE, PowerLaw, TwoSidedLaw
from cdopt.problem.mass import MassMatrix


def compliant(
    formulation: CompliantCD, answer: StepSolution, on_kink: str, tol: float
) -> StepDerivatives:
    """Derivatives of compliant contact dynamics, whose contact forces are determined."""
    joints = formulation.joints
    step = formulation.step if joints is None else joints.given
    law, kappa = formulation.data.elastic_law, formulation.kappa
    f, J, springs, order = np.asarray(answer.f), None, None, np.zeros(0, dtype=int)
    if step.joints is not None and answer.joint_forces is not None:
        soft = np.isfinite(step.joints.stiffness)
        order = np.append(np.flatnonzero(soft), np.flatnonzero(~soft))
        f = np.append(f, answer.joint_forces[order])
        J = step.joints.rows(~soft).J if not soft.all() else None
        springs = step.joints.rows(soft) if soft.any() else None
    data = elastic_data(step, law, springs=springs)
    tangent = StepTangent(data, np.asarray(answer.v_next), f, J, tol)
    rows = np.empty(order.size, dtype=np.int64)
    rows[order] = step.nc + np.arange(order.size)
    parameters = StepParameters(tangent, step, rows)
    parameters.elastic(law, step.stiffness)
    every = np.arange(tangent.rows)
    parameters.add(parameters.of_forces("kappa", (), every, tangent.forces[every] / kappa))
    return StepDerivatives(tangent, parameters, step, on_kink)


def soft(formulation: SoftCD, answer: StepSolution, on_kink: str, tol: float) -> StepDerivatives:
    """Derivatives under the regularised law of engines."""
    joints, data, J = formulation.joints, formulation.data, None
    step = formulation.step if joints is None else joints.given
    if not isinstance(step, ContactStep):
        why = "its rows are those of an engine"
        raise Unsupported("derivatives of SoftCD", why, ("SoftCD of a ContactStep",))
    if answer.iterate is None:
        raise InvalidInput("solution", repr(answer), "a solution with an iterate")
    forces = np.asarray(answer.iterate.forces)
    if step.joints is not None and answer.joint_forces is not None:
        if formulation.springs is not None or formulation.own_bias:
            why = "it has soft joints, or joints and a given bias"
            raise Unsupported("derivatives of SoftCD", why, ("rigid joints", "CompliantCD"))
        data, J = soft_data(step, formulation.compliance), step.joints.J
        forces = np.append(forces, answer.joint_forces)
    tangent = StepTangent(data, np.asarray(answer.v_next), forces, J, tol)
    parameters = StepParameters(tangent, step)
    every = np.arange(data.rows)
    parameters.add(
        Parameter(
            "compliance",
            (data.rows,),
            lambda d: Change(bias=parameters.on_rows(every, forces[every] * d)),
            lambda cotangent: forces[every] * cotangent.bias[every],
        )
    )
    if formulation.own_bias:
        parameters.drop("phi", "gap_rate", "restitution", "rate", "spin")
        of_time = parameters.of_time(np.zeros(step.nc))
        parameters.add(parameters.of_rates("bias", (data.rows,), every), of_time)
    return StepDerivatives(tangent, parameters, step, on_kink)


class VariationalDerivatives(Derivatives):
    """Derivatives of one step of the variational integrator.

    In the mean velocity v̄ = Δq/h it is a step of bodies of mass w (M + hC/2) over αh, on contacts
    and bonds of finite stiffness, w = α/(1−α) (``formulations.variational_step``):

        w (M + hC/2) v̄ = w (mom + h(1−α)F + ½h drive) + αh Bᵀf
        mom⁺ = M v̄ + w ((M + hC/2) v̄ − ½h drive − mom) + ½h (drive − C v̄)
    """

    def __init__(
        self, formulation: VariationalStep, answer: StepSolution, on_kink: str, tol: float
    ) -> None:
        step, alpha, h = formulation.step, formulation.alpha, formulation.step.dt
        _require_plain(formulation)
        self.formulation, self.step, self.on_kink = formulation, step, on_kink
        self.alpha, self.weight = alpha, alpha / (1.0 - alpha)
        self.C, self.drive = formulation.damping.matrix, formulation.damping.drive
        self.mean, self.v_next = np.asarray(answer.u) / h, np.asarray(answer.v_next)
        mass = MassMatrix(freeze(sp.csr_array((step.M + (0.5 * h) * self.C) * self.weight)))
        impulse = formulation.mom + h * (1.0 - alpha) * step.F_ext + 0.5 * h * self.drive
        start = step.mass.solve(formulation.mom)
        load = (self.weight * impulse - mass.times(start)) / (alpha * h)
        inner = step.replace(M=mass, v=start, F_ext=load, dt=alpha * h, friction=None)
        law = PowerLaw(step.stiffness, formulation.law.power)
        if formulation.two_sided.any():
            law = TwoSidedLaw(law.stiffness, law.power, formulation.two_sided)
        data = elastic_data(inner, law)
        f, J = np.asarray(answer.f), None
        if step.joints is not None and answer.joint_forces is not None:
            f, J = np.append(f, answer.joint_forces), step.joints.J
        self.tangent = StepTangent(data, self.mean, f, J, tol)
        self.parameters = StepParameters(self.tangent, inner)
        self.parameters.elastic(law, step.stiffness)
        self.parameters.drop("v", "restitution", "dt", "M")
        rest, total = step.F_ext + self.tangent.load, self.weight * (1.0 - alpha)
        self._impulse_by_dt = total * rest + 0.5 * self.weight * (self.drive - self.C @ self.mean)
        self._bias_by_dt = self.parameters.on_rows(
            self.parameters.normal, -step.phi / (alpha * h * h)
        )
        self._forces_by_dt = alpha * self.parameters.stretch

    # --- names -------------------------------------------------------------------------------

    @property
    def inputs(self) -> Mapping[str, tuple[int, ...]]:
        nv = self.step.nv
        own = {"mom": (nv,), "M": (nv, nv), "damping_matrix": (nv, nv), "dt": ()}
        return {**own, **{name: p.shape for name, p in self.parameters.known.items()}}

    @property
    def outputs(self) -> Mapping[str, tuple[int, ...]]:
        """``u`` = Δq, ``mom`` and ``v_next`` at the end (nv,), and ``f`` (nc,)."""
        nv = (self.step.nv,)
        return {"u": nv, "mom": nv, "v_next": nv, "f": (self.step.nc,)}

    @property
    def kinks(self) -> tuple[Kink, ...]:
        margin = self.tangent.margin
        return tuple(Kink(int(i), float(margin[i])) for i in self.tangent.kinks)

    def _checked(self, name: str, value: Any) -> Any:
        known = self.parameters.known.get(name)
        if known is not None:
            return known.checked(value)
        shape = self.inputs[name]
        return Parameter(name, shape, Change, lambda _: None, len(shape) == 2).checked(value)

    # --- both directions -----------------------------------------------------------------------

    def _end(self, x: FloatArray) -> FloatArray:
        """d mom⁺ for dv̄ = x (nv,)."""
        h, w, M = self.step.dt, self.weight, self.step.mass
        return np.asarray((1.0 + w) * M.times(x) + (0.5 * h * (w - 1.0)) * (self.C @ x))

    def _jvp(self, directions: dict[str, Any]) -> dict[str, FloatArray]:
        h, w, mean = self.step.dt, self.weight, self.mean
        change, mom, dh = Change(), np.zeros(mean.size), float(directions.get("dt", 0.0))
        for name, value in directions.items():
            if name in self.parameters.known:
                change += self.parameters.known[name].jvp(value)
        M, C = (
            _symmetric(directions[k]) if k in directions else None for k in ("M", "damping_matrix")
        )
        if "mom" in directions:
            change += Change(impulse=w * directions["mom"])
            mom -= w * directions["mom"]
        if M is not None:
            change += Change(impulse=-w * (M @ mean))
            mom += (1.0 + w) * (M @ mean)
        if C is not None:
            change += Change(impulse=(-0.5 * h * w) * (C @ mean))
            mom += 0.5 * h * (w - 1.0) * (C @ mean)
        if dh:
            by_dt = self._impulse_by_dt, self._bias_by_dt, self._forces_by_dt
            impulse, bias, forces = (dh * x for x in by_dt)
            change += Change(impulse=impulse, bias=bias, forces=forces)
            mom += 0.5 * dh * (w - 1.0) * (self.C @ mean - self.drive)
        result = self.tangent.jvp(change)
        mom = mom + self._end(result.v_next)
        turned = mom if M is None else mom - M @ self.v_next
        f = result.forces[: self.step.nc]
        u = h * result.v_next + dh * mean
        return {"u": u, "mom": mom, "v_next": self.step.mass.solve(turned), "f": f}

    def _vjp(self, cotangents: dict[str, FloatArray]) -> dict[str, Any]:
        h, w, mean, step = self.step.dt, self.weight, self.mean, self.step
        nothing = np.zeros(step.nv)
        turned = step.mass.solve(cotangents.get("v_next", nothing))
        mom, u = cotangents.get("mom", nothing) + turned, cotangents.get("u", nothing)
        forces = np.zeros(self.tangent.G.shape[0])
        forces[: step.nc] = cotangents.get("f", np.zeros(step.nc))
        cotangent = self.tangent.vjp(Result(h * u + self._end(mom), nothing, forces))
        M, C = Outer(), Outer()
        M.add((1.0 + w) * mom - w * cotangent.impulse, mean)
        M.add(-turned, self.v_next)
        C.add(0.5 * h * ((w - 1.0) * mom - w * cotangent.impulse), mean)
        by_dt = u @ mean + 0.5 * (w - 1.0) * (mom @ (self.C @ mean - self.drive))
        by_dt += cotangent.impulse @ self._impulse_by_dt + cotangent.bias @ self._bias_by_dt
        by_dt += cotangent.forces @ self._forces_by_dt
        found = {name: p.vjp(cotangent) for name, p in self.parameters.known.items()}
        pattern = self.C if self.C.nnz else sp.csr_array(step.M)
        return {
            "mom": w * (cotangent.impulse - mom),
            "M": _symmetric(M.on(step.M)),
            "damping_matrix": _symmetric(C.on(pattern)),
            "dt": float(by_dt),
            **found,
        }


def _symmetric(matrix: sp.csr_array) -> sp.csr_array:
    return sp.csr_array(0.5 * (matrix + matrix.T))


def _require_plain(formulation: VariationalStep) -> None:
    """Refuse variational steps whose equations are others."""
    what, damping = "derivatives of this step", formulation.damping
    if formulation.alpha == 0.0:
        raise Unsupported(what, "with α = 0 its forces are explicit", ("alpha=0.5",))
    if formulation.springs is not None:
        raise Unsupported(what, "some joints have a finite stiffness", ("CompliantCD",))
    if formulation.sliders is not None:
        raise Unsupported(what, "it has sliders", ("a step without sliders",))
    same = damping.start[0] is damping.matrix and damping.end[0] is damping.matrix
    if damping.split != "forced" or not same:
        raise Unsupported(what, "its damping changes in the step", ('damping="forced"',))
    if formulation.two_sided.any() and formulation.law.power != HOOKE:
        raise Unsupported(what, "bonds are linear and contacts are not", ("power=2",))
