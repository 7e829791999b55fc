"""Derivatives of forces at rest: trusses that cannot pull, and elastic networks with friction."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from cdopt._util.cached import cached_property
from cdopt._util.checks import FloatArray
from cdopt.formulations import NoTensionTruss, QuasiStatic
from cdopt.gradients.derivatives import Derivatives, Kink
from cdopt.gradients.parameters import Parameter
from cdopt.gradients.step_tangent import Change, Outer
from cdopt.hyperstatic.truss_tangent import TrussTangent
from cdopt.problem import StepSolution


class TrussDerivatives(Derivatives):
    """Derivatives of the forces of a truss, f = w′(−B u − gaps), Bᵀf = F̃.

    Parameters
    ----------
    tangent : of the truss. answer : its solution. on_kink : as of ``Derivatives``.
    """

    def __init__(self, truss: NoTensionTruss, answer: StepSolution, on_kink: str) -> None:
        data = truss.data
        every = np.arange(data.nc)
        self.tangent = TrussTangent(truss, answer, every, data.nc)
        self.on_kink, self.B, self.u = on_kink, data.B, np.asarray(answer.u)
        law, f = data.elastic_law, self.tangent.forces
        self.springs = self.tangent.springs.diagonal()
        self.free = np.ones(data.nv) if data.free is None else data.free.astype(float)
        at_rest = isinstance(truss, QuasiStatic)
        self._load, self._sign = ("applied", -1.0) if at_rest else ("contact_load", 1.0)
        self._each = {"stiffness": f / law.stiffness}
        if at_rest:
            self._each["phi"] = -self.springs
        self._power = np.asarray(self.tangent.power)

    @property
    def inputs(self) -> Mapping[str, tuple[int, ...]]:
        nc, nv = self.B.shape
        each = dict.fromkeys(self._each, (nc,))
        return {"B": (nc, nv), self._load: (nv,), **each, "power": ()}

    @property
    def outputs(self) -> Mapping[str, tuple[int, ...]]:
        """``f`` (nc,), N."""
        return {"f": (int(self.B.shape[0]),)}

    @cached_property
    def kinks(self) -> tuple[Kink, ...]:
        """Contacts that just touch, where the derivative is one-sided."""
        tangent = self.tangent
        if tangent.smooth:
            return ()
        return tuple(Kink(i, abs(float(tangent.overlap[i]))) for i in tangent.kinks.tolist())

    def _checked(self, name: str, value: Any) -> Any:
        shape = self.inputs[name]
        return Parameter(name, shape, Change, lambda _: None, name == "B").checked(value)

    def _jvp(self, directions: dict[str, Any]) -> dict[str, FloatArray]:
        e, load = np.zeros(self.B.shape[0]), np.zeros(self.B.shape[1])
        for name, value in directions.items():
            if name in self._each:
                e = e + self._each[name] * value
            elif name == "power":
                e = e + self._power * value
            elif name == "B":
                e = e - self.springs * (value @ self.u)
                load = load - value.T @ self.tangent.forces
            else:
                load = load + self._sign * value
        load = self.free * load
        if self.kinks:
            return {"f": np.asarray(self.tangent.along(e, load if load.any() else None))}
        return {"f": np.asarray(self.tangent.jvp(e, load))}

    def _vjp(self, cotangents: dict[str, FloatArray]) -> dict[str, Any]:
        e, load = self.tangent.vjp(cotangents.get("f", np.zeros(self.B.shape[0])))
        load = self.free * load
        B = Outer()
        B.add(-self.tangent.forces, load)
        B.add(-self.springs * e, self.u)
        gradients: dict[str, Any] = {name: each * e for name, each in self._each.items()}
        gradients |= {"B": B.on(self.B), self._load: self._sign * load}
        return {**gradients, "power": float(self._power @ e)}
