"""Derivatives of an answer, in both directions: what they have in common, and those of a step."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from cdopt._util import checks
from cdopt._util.checks import FloatArray, IntArray
from cdopt._util.errors import InvalidInput, Unsupported
from cdopt.gradients import one_sided
from cdopt.gradients.parameters import StepParameters
from cdopt.gradients.step_tangent import Change, NotTogether, Result, StepTangent
from cdopt.problem import ContactStep

KINKS = ("refuse", "one-sided")


_MOTION = ("v_next", "load")  # results that are always determined


class Kink(NamedTuple):
    """A contact at which derivatives depend on the direction.

    Attributes
    ----------
    contact : its number. margin : how far it is from the kink, as a share of the local speed, or
        for compatible forces of the largest overlap.
    """

    contact: int
    margin: float


class Derivatives(ABC):
    """The derivatives of one answer: implicit differentiation of its conditions, made once.

    Attributes
    ----------
    on_kink : "refuse", or "one-sided" for ``jvp`` at kinks.
    """

    on_kink: str

    @property
    @abstractmethod
    def inputs(self) -> Mapping[str, tuple[int, ...]]:
        """Names of the data that there are derivatives by, with their shapes."""

    @property
    @abstractmethod
    def outputs(self) -> Mapping[str, tuple[int, ...]]:
        """Names of the results, with their shapes; ``f`` only where it is determined."""

    @property
    @abstractmethod
    def kinks(self) -> tuple[Kink, ...]:
        """Contacts at which derivatives depend on the direction."""

    @abstractmethod
    def _jvp(self, directions: dict[str, Any]) -> dict[str, FloatArray]:
        """``jvp`` of checked directions."""

    @abstractmethod
    def _vjp(self, cotangents: dict[str, FloatArray]) -> dict[str, Any]:
        """``vjp`` of checked cotangents."""

    @abstractmethod
    def _checked(self, name: str, value: Any) -> Any:
        """A direction of the input of this name."""

    def _refused_output(self, name: str) -> Exception:
        """Why there is no derivative of the output of this name."""
        return InvalidInput(name, "no such result", "one of " + ", ".join(self.outputs))

    def jvp(self, **directions: Any) -> dict[str, FloatArray]:
        """Changes of the results for changes of the data (forward mode).

        Parameters
        ----------
        directions : by the names of ``inputs``, of their shapes; one number for all entries. Of
            matrices sparse or dense, with entries anywhere.

        Returns
        -------
        By the names of ``outputs``.

        Raises
        ------
        InvalidInput : no such data, or another shape.
        Unsupported : a contact is at a kink; or the change sets contacts apart that hold the same
            motion. With ``on_kink="one-sided"`` the derivative is that of a small step t ≥ 0 along
            the directions, where there is one.
        """
        for name in directions:
            if name not in self.inputs:
                raise InvalidInput(name, "no such data", "one of " + ", ".join(self.inputs))
        given = {name: self._checked(name, value) for name, value in directions.items()}
        if self.on_kink == "refuse":
            self._require_smooth("jvp")
        return self._jvp(given)

    def vjp(self, **cotangents: Any) -> dict[str, Any]:
        """Derivatives of Σ cotangent · result with respect to all data (reverse mode, one solve).

        Parameters
        ----------
        cotangents : by the names of ``outputs``, of their shapes.

        Returns
        -------
        By the names of ``inputs``; of matrices sparse ones with the entries of the matrix.

        Raises
        ------
        InvalidInput : no such result, or another shape.
        Unsupported : a contact is at a kink; or forces that are not determined.
        """
        given: dict[str, FloatArray] = {}
        for name, value in cotangents.items():
            if name not in self.outputs:
                raise self._refused_output(name)
            given[name] = checks.numbers(name, value, self.outputs[name])
        self._require_smooth("vjp")
        return self._vjp(given)

    def _require_smooth(self, what: str) -> None:
        kinks = self.kinks
        if kinks:
            listed = ", ".join(f"{k.contact} (margin {k.margin:.1e})" for k in kinks[:8])
            why = f"contacts {listed} just touch, or are at the onset of slip"
            ways = ("on_kink='one-sided' with jvp",) if what == "jvp" else ("jvp, one-sided",)
            raise Unsupported(what, why, ways)

    def __repr__(self) -> str:
        kinks = f"{len(self.kinks):,} kinks" if self.kinks else "smooth"
        return f"{type(self).__name__}({', '.join(self.outputs)}: {kinks})"


class StepDerivatives(Derivatives):
    """Derivatives of the motion of a step, of its loads, and of forces where they are determined.

    Parameters
    ----------
    tangent : of the step. parameters : its data. step : the step as it was given.

    Notes
    -----
    Where contacts hold the same motion, the cotangents of ``B``, ``phi``, ``gap_rate`` and other
    data of single contacts are those for changes that keep these contacts together, as a body's
    motion does; other changes ``jvp`` refuses.
    """

    def __init__(
        self, tangent: StepTangent, parameters: StepParameters, step: ContactStep, on_kink: str
    ) -> None:
        self.tangent, self.parameters, self.step = tangent, parameters, step
        self.on_kink = on_kink

    @property
    def inputs(self) -> Mapping[str, tuple[int, ...]]:
        return {name: p.shape for name, p in self.parameters.known.items()}

    @property
    def outputs(self) -> Mapping[str, tuple[int, ...]]:
        """``v_next`` (nv,) m/s, ``load`` (nv,) N, what contacts and joints do to the bodies; and
        where they are determined ``f``, ``f_t``, ``f_r`` and ``joint_forces``."""
        nv = (self.tangent.data.nv,)
        return {"v_next": nv, "load": nv, **{k: v[1] for k, v in self._determined.items()}}

    @property
    def kinks(self) -> tuple[Kink, ...]:
        margins = dict.fromkeys(self.tangent.kinks.tolist(), self.tangent.margin)
        margins |= {i: self._approach for i in self._rebounds.tolist() if i not in margins}
        return tuple(Kink(i, float(margins[i][i])) for i in sorted(margins))

    @property
    def _approach(self) -> FloatArray:
        """(nc,) how far contacts are from the speed at which restitution begins."""
        step = self.step
        speed = step.B @ step.v + step.gap_rate + step.v_min
        return np.asarray(np.abs(speed) / self.tangent.local_speed[: step.nc])

    @property
    def _rebounds(self) -> IntArray:
        """(n,) contacts that press, at the onset of restitution."""
        step = self.step
        if not step.restitution.any():
            return np.zeros(0, dtype=np.int64)
        presses = self.tangent.forces[self.parameters.normal] > 0.0
        near = (step.restitution > 0.0) & presses & (self._approach <= self.tangent.tol)
        return np.flatnonzero(near & (self.tangent.data.compliance is None))

    @property
    def loose(self) -> IntArray:
        """(n,) contacts whose forces are not determined."""
        return self.tangent.loose_contacts

    @property
    def _forces(self) -> dict[str, tuple[Any, tuple[int, ...]]]:
        """Rows and shape of each kind of force."""
        tangent, step, friction = self.tangent, self.step, self.step.friction
        normal, nc = self.parameters.normal, step.nc
        outputs: dict[str, tuple[Any, tuple[int, ...]]] = {"f": (normal, (nc,))}
        if friction is not None and tangent.data.d > 1:
            table = normal[:, None] + np.arange(tangent.data.d)
            rows = table[:, 1 : friction.d]
            outputs["f_t"] = rows.ravel(), rows.shape
            if friction.moments:
                rows = table[:, friction.d :]
                outputs["f_r"] = rows.ravel(), rows.shape
        last = self.parameters.joint_rows
        if last.size:
            outputs["joint_forces"] = last, (last.size,)
        return outputs

    @property
    def _determined(self) -> dict[str, tuple[Any, tuple[int, ...]]]:
        loose = self.tangent.loose
        return {k: v for k, v in self._forces.items() if not loose[v[0]].any()}

    def _checked(self, name: str, value: Any) -> Any:
        return self.parameters.known[name].checked(value)

    def change(self, directions: dict[str, Any]) -> Change:
        """Change of the equations for checked ``directions`` of the data."""
        total = Change()
        for name, value in directions.items():
            total = total + self.parameters.known[name].jvp(value)
        return total

    def jvp_of(self, change: Change) -> Result:
        """The change of results for one of the equations, one-sided where need be."""
        if self.on_kink == "refuse":
            return self.tangent.jvp(change)
        if self._rebounds.size:
            why = f"contact {self._rebounds[0]} is at the onset of restitution"
            raise Unsupported("the one-sided derivative", why, ("v_min above zero",))
        if self.tangent.kinks.size:
            return one_sided.jvp(self.tangent, change)
        try:
            return self.tangent.jvp(change)
        except NotTogether:
            return one_sided.jvp(self.tangent, change)

    def _jvp(self, directions: dict[str, Any]) -> dict[str, FloatArray]:
        result = self.jvp_of(self.change(directions))
        outputs = {"v_next": result.v_next, "load": result.load}
        for name, (rows, shape) in self._determined.items():
            outputs[name] = result.forces[rows].reshape(shape)
        return outputs

    def vjp(self, **cotangents: Any) -> dict[str, Any]:
        """As ``Derivatives.vjp``; forces that are not determined in part may be asked for.

        Their cotangents must not see what is not determined.
        """
        partly = {
            name: checks.numbers(name, value, self._forces[name][1])
            for name, value in cotangents.items()
            if name in self._forces
        }
        others = {name: value for name, value in cotangents.items() if name not in partly}
        for name, value in others.items():
            if name not in _MOTION:
                raise self._refused_output(name)
            others[name] = checks.vector(name, value, self.tangent.data.nv)
        self._require_smooth("vjp")
        return self._vjp({**others, **partly})

    def _vjp(self, cotangents: dict[str, FloatArray]) -> dict[str, Any]:
        nv, forces = self.tangent.data.nv, np.zeros(self.tangent.G.shape[0])
        for name, (rows, _) in self._forces.items():
            if name in cotangents:
                forces[rows] = cotangents[name].ravel()
        nothing = np.zeros(nv)
        weights = Result(cotangents.get("v_next", nothing), cotangents.get("load", nothing), forces)
        cotangent = self.tangent.vjp(weights)
        return {name: p.vjp(cotangent) for name, p in self.parameters.known.items()}
