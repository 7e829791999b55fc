"""Derivatives of compatible forces: those of the motion and the loads, and then of the network.

The network of closed contacts has Bᵀf = F̃, f = w′(−B u). With dF̃ from the motion and df = dw′ for
changes of stiffness and power, equation (36) of Olsen & Kamrin (2018) is differentiated once more:

    Bᵀ df = dF̃ − dBᵀ f,    df = e − w″(c) (B du + dB u).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from cdopt._util.cached import cached_property
from cdopt._util.checks import FloatArray, IntArray
from cdopt.gradients.derivatives import Derivatives, Kink, StepDerivatives
from cdopt.gradients.parameters import Parameter
from cdopt.gradients.step_tangent import Change, Result
from cdopt.hyperstatic.truss_tangent import TrussTangent
from cdopt.problem.joint_elimination import Eliminated


class CompatibleDerivatives(Derivatives):
    """Those of the motion, the loads and the compatible forces of a step without friction.

    Parameters
    ----------
    motion : of the classic step. tangent : of the network of closed contacts.
    joints : rigid ones, which the coordinates of the network keep; or None.
    u : (nv,) micro-displacement of all bodies. reactions : (nj,) N, compatible ones.
    """

    def __init__(
        self,
        motion: StepDerivatives,
        tangent: TrussTangent,
        joints: Eliminated | None,
        u: FloatArray,
        reactions: FloatArray,
    ) -> None:
        self.motion, self.network, self.joints, self.u = motion, tangent, joints, u
        self.on_kink, self.step = motion.on_kink, motion.step
        core, nc = motion.tangent, motion.step.nc
        self._differs = core.forces.copy()  # of the classic forces from the compatible ones
        self._differs[:nc] -= tangent.forces
        self._differs[core.rows :] -= reactions
        law, contacts = tangent.truss.data.elastic_law, tangent.contacts
        f = tangent.forces[contacts]
        loaded = tangent.loaded[contacts]
        slope = np.where(loaded, law.tangent(np.where(loaded, law.overlap(f), 1.0)), 0.0)
        self._springs = np.zeros(nc)
        self._springs[contacts] = slope
        rows, each = np.arange(nc), tangent.forces / motion.step.stiffness
        logs = np.asarray(tangent.power)
        self._of_network = {
            "stiffness": Parameter(
                "stiffness",
                (nc,),
                lambda d: Change(forces=motion.parameters.on_rows(rows, each * d)),
                lambda pull: each * pull.forces[rows],
            ),
            "power": Parameter(
                "power",
                (),
                lambda d: Change(forces=motion.parameters.on_rows(rows, logs * d)),
                lambda pull: float(logs @ pull.forces[rows]),
            ),
        }

    @property
    def inputs(self) -> Mapping[str, tuple[int, ...]]:
        """Names of the data that there are derivatives by, with their shapes."""
        return {**self.motion.inputs, **{k: p.shape for k, p in self._of_network.items()}}

    @property
    def outputs(self) -> Mapping[str, tuple[int, ...]]:
        """``v_next`` and ``load`` (nv,), and ``f`` (nc,), the compatible forces, N."""
        nv = (self.step.nv,)
        return {"v_next": nv, "load": nv, "f": (self.step.nc,)}

    @cached_property
    def kinks(self) -> tuple[Kink, ...]:
        """Contacts at a kink of the motion, or of the network."""
        network, found = self.network, {k.contact: k for k in self.motion.kinks}
        if not network.smooth:
            place = {int(c): i for i, c in enumerate(network.contacts)}
            for i in network.kinks.tolist():
                found.setdefault(i, Kink(i, abs(float(network.overlap[place[i]]))))
        return tuple(found[i] for i in sorted(found))

    def _checked(self, name: str, value: Any) -> Any:
        return (self._of_network.get(name) or self.motion.parameters.known[name]).checked(value)

    @property
    def _rows(self) -> IntArray:
        return np.arange(self.step.nc)

    def _of_bodies(self, load: FloatArray) -> FloatArray:
        """A load in the coordinates of the network."""
        return load if self.joints is None else np.asarray(self.joints.motions.Z.T @ load)

    def _pushed(self, directions: dict[str, Any]) -> dict[str, FloatArray]:
        known = self._of_network
        own = {k: v for k, v in directions.items() if k in known}
        change = self.motion.change({k: v for k, v in directions.items() if k not in known})
        result = self.motion.push_change(change)
        rows, e, load = (
            self._rows,
            np.zeros(self.step.nc),
            self.step.B.T @ result.forces[self._rows],
        )
        for name, value in own.items():
            e = e + np.asarray(known[name].push(value).forces)[rows]
        if change.G is not None:
            load = load + change.G.T @ self._differs
            moved = (change.G @ self.u)[rows]
            if self.joints is not None:
                turned = (change.G @ self.u)[self.motion.tangent.rows :]
                moved = moved - self.step.B @ (self.joints.motions.lift.T @ turned)
            e = e - self._springs * moved
        load = self._of_bodies(load)
        if self.kinks:
            df = self.network.along(e, load if load.any() else None)
        else:
            df = self.network.push(e, load)
        return {"v_next": result.v_next, "load": result.load, "f": np.asarray(df)}

    def _pulled(self, cotangents: dict[str, FloatArray]) -> dict[str, Any]:
        core, nv, nc = self.motion.tangent, self.step.nv, self.step.nc
        weights = cotangents.get("f", np.zeros(nc))
        e, load = self.network.pull(weights)
        if self.joints is not None:
            load = np.asarray(self.joints.motions.Z @ load)
        forces = np.zeros(core.G.shape[0])
        forces[:nc] = self.step.B @ load
        nothing = np.zeros(nv)
        given = cotangents.get("v_next", nothing), cotangents.get("load", nothing), forces
        pull = core.pull(Result(*given))
        pull.G.add(self._differs, load)
        sprung = np.zeros_like(forces)
        sprung[:nc] = -self._springs * e
        if self.joints is not None:
            sprung[core.rows :] = -(self.joints.motions.lift @ (self.step.B.T @ sprung[:nc]))
        pull.G.add(sprung, self.u)
        found = {name: p.pull(pull) for name, p in self.motion.parameters.known.items()}
        pull.forces = self.motion.parameters.on_rows(self._rows, e)
        return found | {name: p.pull(pull) for name, p in self._of_network.items()}
