"""Derivatives of compatible forces: those of the motion and the loads, and then of the network.

The network of closed contacts has Bᵀf = F̃ and forces f that follow B u. With dF̃ from the motion,
e from changes of stiffness, power and friction, and K = −∂f/∂(B u),

    Bᵀ df = dF̃ − dBᵀ f,    df = e − K (B du + dB u),

which differentiates equation (36) of Olsen & Kamrin (2018), or the network with friction, once
more (``hyperstatic.tangent``). Contacts that slide in the motion bear forces along rays that turn
with it, which is part of e.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from cdopt._util.cached import cached_property
from cdopt._util.checks import FloatArray
from cdopt.formulations import CompatibleCD, CompatibleFriction, FrictionNetwork, NetworkForces
from cdopt.gradients.derivatives import Derivatives, Kink, StepDerivatives
from cdopt.gradients.parameters import Parameter
from cdopt.gradients.step_tangent import Result
from cdopt.hyperstatic.friction_tangent import FrictionTangent
from cdopt.hyperstatic.tangent import Tangent
from cdopt.hyperstatic.truss_tangent import TrussTangent
from cdopt.problem import StepSolution
from cdopt.problem.joint_elimination import Eliminated


class Turning(NamedTuple):
    """How forces along the rays of sliding contacts turn, with the network's motions u fixed."""

    by_rates: sp.csr_array  # (rows, rows) by the rates of the motion, N s/m
    by_mu: FloatArray  # (nc, d) N, by μ

    @staticmethod
    def of(network: FrictionNetwork, forces: NetworkForces, slip: FloatArray) -> Turning:
        """Derivatives of f = r (rᵀD⁻¹y)/(rᵀD⁻¹r), r = (1, −μ ĝ_T), g_T = ``slip`` (nc, d − 1)."""
        y, (nc, d) = network.linearised(forces)[0], (network.nc, network.d)
        speed = np.linalg.norm(slip, axis=1)
        turns = network.slides & (network.mu > 0.0) & (forces.f > 0.0) & (speed > 0.0)
        way = np.where(turns[:, None], slip, 0.0) / np.where(turns, speed, 1.0)[:, None]
        ray, share = np.column_stack([np.ones(nc), -network.mu[:, None] * way]), forces.f[:, None]
        seen = (y - 2.0 * share * ray) / network.D
        seen /= np.sum(ray**2 / network.D, axis=1)[:, None]
        by_ray = share[:, :, None] * np.eye(d) + ray[:, :, None] * seen[:, None, :]
        across = np.zeros((nc, d, d))
        across[:, 1:, 1:] = np.eye(d - 1) - way[:, :, None] * way[:, None, :]
        rate = np.where(turns, -network.mu / np.where(turns, speed, 1.0), 0.0)
        blocks = (by_ray @ across) * rate[:, None, None]
        places = np.arange(nc), np.arange(nc + 1)
        by_rates = sp.csr_array(sp.bsr_array((blocks, *places), shape=(nc * d, nc * d)))
        return Turning(by_rates, -np.einsum("iab,ib->ia", by_ray[:, :, 1:], way))


class CompatibleDerivatives(Derivatives):
    """Derivatives of the motion, the loads and the compatible forces of a step.

    Parameters
    ----------
    motion : of the step that determines motion and loads.
    tangent : of the network of closed contacts.
    joints : rigid ones, which the coordinates of the network keep; or None.
    u : (nv,) micro-displacement of all bodies. reactions : (nj,) N, compatible ones.
    turning : of forces of sliding contacts; None without friction.
    """

    def __init__(
        self,
        motion: StepDerivatives,
        tangent: Tangent,
        joints: Eliminated | None,
        u: FloatArray,
        reactions: FloatArray,
        turning: Turning | None = None,
    ) -> None:
        self.turning = turning
        self.motion, self.network, self.joints, self.u = motion, tangent, joints, u
        self.on_kink, self.step = motion.on_kink, motion.step
        core = motion.tangent
        self._rows = np.arange(core.rows)
        self.B = sp.csr_array(core.G[self._rows])
        self._differs = core.forces.copy()  # of the classic forces from the compatible ones
        self._differs[self._rows] -= tangent.forces
        self._differs[core.rows :] -= reactions
        self._of_network = dict(self._parameters())

    def _parameters(self) -> list[tuple[str, Parameter]]:
        """Data that change forces of the network at motions as they are."""
        network, step, d = self.network, self.step, self.network.d
        given = {"log_stiffness": ("stiffness", step.stiffness), "mu": ("mu", 1.0)}
        if step.friction is not None:
            given["log_ratio"] = ("stiffness_ratio", step.friction.stiffness_ratio)
        found = []
        for known, e in network.parameters.items():
            name, value = given[known]
            each = (e.reshape(-1, d).T / value).T
            if known == "mu" and self.turning is not None:
                each = each + self.turning.by_mu
            found.append((name, self.motion.parameters.of_contacts(name, self._rows, each)))
        if network.power is not None:
            of_forces = self.motion.parameters.of_forces
            found.append(("power", of_forces("power", (), self._rows, network.power)))
        return found

    @property
    def inputs(self) -> Mapping[str, tuple[int, ...]]:
        return {**self.motion.inputs, **{k: p.shape for k, p in self._of_network.items()}}

    @property
    def outputs(self) -> Mapping[str, tuple[int, ...]]:
        """``v_next`` and ``load`` (nv,), and the compatible forces ``f`` and ``f_t``, N."""
        nv, nc, d = (self.step.nv,), self.step.nc, self.network.d
        forces = {"f": (nc,)} if d == 1 else {"f": (nc,), "f_t": (nc, d - 1)}
        return {"v_next": nv, "load": nv, **forces}

    @cached_property
    def kinks(self) -> tuple[Kink, ...]:
        found = {k.contact: k for k in self.motion.kinks}
        if not self.network.smooth:
            for i in self.network.kinks.tolist():
                found.setdefault(i, Kink(i, 0.0))
        return tuple(found[i] for i in sorted(found))

    def _checked(self, name: str, value: Any) -> Any:
        return (self._of_network.get(name) or self.motion.parameters.known[name]).checked(value)

    # --- both directions -----------------------------------------------------------------------

    def _jvp(self, directions: dict[str, Any]) -> dict[str, FloatArray]:
        known, of_step = self._of_network, self.motion.parameters.known
        change = self.motion.change({k: v for k, v in directions.items() if k in of_step})
        result = self.motion.jvp_of(change)
        e, load = np.zeros(self._rows.size), self.B.T @ result.forces[self._rows]
        for name, value in directions.items():
            if name in known:
                e = e + np.asarray(known[name].jvp(value).forces)[self._rows]
        if self.turning is not None:
            core = self.motion.tangent
            rates = core.G @ result.v_next + core.rates_of(change)
            e = e + self.turning.by_rates @ rates[self._rows]
        if change.G is not None:
            load = load + change.G.T @ self._differs
            moved = change.G @ self.u
            rates = moved[self._rows]
            if self.joints is not None:
                turned = moved[self._rows.size :]
                rates = rates - self.B @ (self.joints.motions.lift.T @ turned)
            e = e - self.network.springs @ rates
        if self.joints is not None:
            load = np.asarray(self.joints.motions.Z.T @ load)
        if self.kinks:
            df = self.network.along(e, load if load.any() else None)
        else:
            df = self.network.jvp(e, load)
        table = np.asarray(df).reshape(self.step.nc, self.network.d)
        found = {"v_next": result.v_next, "load": result.load, "f": table[:, 0]}
        return found if self.network.d == 1 else {**found, "f_t": table[:, 1:]}

    def _vjp(self, cotangents: dict[str, FloatArray]) -> dict[str, Any]:
        core, nv, shape = self.motion.tangent, self.step.nv, (self.step.nc, self.network.d)
        weights, many = np.zeros(shape), core.G.shape[0]
        weights[:, 0] = cotangents.get("f", 0.0)
        weights[:, 1:] = cotangents.get("f_t", 0.0)
        e, load = self.network.vjp(weights.ravel())
        if self.joints is not None:
            load = np.asarray(self.joints.motions.Z @ load)
        sprung, nothing = np.zeros(many), np.zeros(nv)
        # F̃ of the contacts as the load of all, which joints do not change along ``load``
        loads = cotangents.get("load", nothing) + load
        turned, speed = np.zeros(many), cotangents.get("v_next", nothing)
        if self.turning is not None:
            turned[self._rows] = self.turning.by_rates.T @ e
            speed = speed + core.G.T @ turned
        cotangent = core.vjp(Result(speed, loads, np.zeros(many)))
        cotangent.bias = cotangent.bias + turned
        cotangent.G.add(turned, core.motion)
        cotangent.G.add(self._differs - core.forces, load)
        sprung[self._rows] = -(self.network.springs.T @ e)
        if self.joints is not None:
            lifted = self.joints.motions.lift @ (self.B.T @ sprung[self._rows])
            sprung[self._rows.size :] = -lifted
        cotangent.G.add(sprung, self.u)
        found = {name: p.vjp(cotangent) for name, p in self.motion.parameters.known.items()}
        cotangent.forces = self.motion.parameters.on_rows(self._rows, e)
        for name, parameter in self._of_network.items():
            found[name] = found.get(name, 0.0) + parameter.vjp(cotangent)
        return found


def frictionless(
    formulation: CompatibleCD, answer: StepSolution, motion: StepDerivatives
) -> CompatibleDerivatives:
    """Derivatives of ``CompatibleCD``, whose motion is that of its classic step."""

    joints, first = formulation.joints, answer.classic
    if first is None or answer.f is None or answer.u is None:
        raise TypeError("a solution without forces")
    closed = formulation.network(first)
    u = answer.u if joints is None else answer.u[joints.motions.free]
    second = dataclasses.replace(answer, f=answer.f[closed.contacts], u=u)
    truss = formulation.truss(closed)
    tangent = TrussTangent(truss, second, closed.contacts, motion.step.nc)
    reactions = np.zeros(0) if answer.joint_forces is None else answer.joint_forces
    return CompatibleDerivatives(motion, tangent, joints, answer.u, reactions)


def with_friction(
    formulation: CompatibleFriction, answer: StepSolution, motion: StepDerivatives, tol: float
) -> CompatibleDerivatives:
    """Derivatives of ``CompatibleFriction``, whose motion is the ``answer``."""
    network = formulation.network(answer)
    joints, forces = formulation.problem.joints, network.solve()
    reactions, u = np.zeros(0), forces.u
    if joints is not None and answer.v_next is not None:
        reactions = joints.reactions(answer.v_next, forces.f, forces.f_t)
        u = joints.motions.Z @ u
    tangent = FrictionTangent(network, forces, tol)
    turning = None
    if answer.slip is not None and network.slides.any():
        turning = Turning.of(network, forces, answer.slip)
    return CompatibleDerivatives(motion, tangent, joints, u, reactions, turning)
