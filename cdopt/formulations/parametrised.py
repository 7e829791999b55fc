"""A step's problem with its data as CVXPY parameters in physical units, for differentiable layers.

The problem keeps the units of the step. It is DPP (A. Agrawal et al., Differentiable Convex
Optimization Layers, NeurIPS 2019): the rates of the free motion are affine in loads, gaps and
velocities, and the parameter of elastic contacts is the inverse stiffness.
"""

from __future__ import annotations

from typing import Any, Protocol

import cvxpy as cp
import numpy as np
import scipy.sparse as sp

from cdopt._util import checks
from cdopt._util.checks import FloatArray
from cdopt._util.errors import Unsupported
from cdopt.problem import ContactProblem, ContactStep
from cdopt.problem.contact_law import HOOKE

_INSTEAD = ("cdopt.gradients",)


class Posed(Protocol):
    """Formulations that ``Parametrised`` supports."""

    step: Any
    data: Any
    joints: Any

    @property
    def name(self) -> str:
        """Its name."""

    @property
    def in_forces(self) -> bool:
        """Whether it is stated in forces."""

    @property
    def extended(self) -> bool:
        """Whether constraints or objectives were added."""

    def _restated(self, **changes: Any) -> Any: ...


class StatedData:
    """The data of a step as CVXPY parameters, and the numbers of statements by these.

    Attributes
    ----------
    parameters : by name, with the values of the step: ``F_ext`` (nv,) N and N·m, ``v`` (nv,) m/s,
        ``phi`` (nc,) m, and ``flexibility`` (nc,) m/N, 1/k of elastic contacts in forces.
    """

    def __init__(self, step: ContactStep, data: ContactProblem, in_forces: bool) -> None:
        self.data, self.step = data, step
        given = {"F_ext": step.F_ext, "v": step.v, "phi": step.phi}
        self.parameters = {
            name: cp.Parameter(value.shape, name=name, value=value) for name, value in given.items()
        }
        if data.compliance is not None and in_forces:
            self.parameters["flexibility"] = cp.Parameter(
                step.nc, name="flexibility", nonneg=True, value=1.0 / data.compliance.stiffness
            )

    @property
    def free_motion(self) -> cp.Expression:
        """v* = v + Δt M⁻¹ F_ext (nv,), m/s."""
        inverse = cp.Constant(self.step.dt * self.step.mass.inverse, name="Δt M⁻¹")
        return self.parameters["v"] + inverse @ self.parameters["F_ext"]

    @property
    def numbers(self) -> dict[str, cp.Expression]:
        """The numbers of a statement that depend on the parameters, by name."""
        numbers, data = {"p": self._rates}, self.data
        if "flexibility" in self.parameters:
            unit: FloatArray = data.force / (data.speed * data.dt)
            numbers["k"] = cp.multiply(0.5 * unit, self.parameters["flexibility"])
        return numbers

    @property
    def _rates(self) -> cp.Expression:
        """(rows,) rates of the free motion in units of ``data.speed``."""
        data, step = self.data, self.step
        first = np.arange(data.rows)[data.cones.first]
        at = first, np.arange(step.nc)
        opens = sp.csr_array((np.full(step.nc, 1.0 / step.dt), at), (data.rows, step.nc))
        rest = data.p - data.B @ step.v_star - opens @ step.phi
        B, E = (cp.Constant(sp.csr_array(A / data.speed[:, None])) for A in (data.B, opens))
        return B @ self.free_motion + E @ self.parameters["phi"] + rest / data.speed


class Parametrised:
    """A step's problem with parameters. ``Formulation.parametrised`` makes it.

    Parameters
    ----------
    formulation : ``ClassicCD``, ``FrictionalCD`` by the associated law, or ``CompliantCD`` with
        p = 2, in either form.

    Attributes
    ----------
    problem : the cvxpy.Problem, DPP.
    parameters : by name, in physical units, as in ``StatedData``; of ``CompliantCD`` in forces with
        ``flexibility`` 1/k. Their initial values are those of the step.
    variables : by name, in physical units: ``v_next`` (nv,) m/s and, in force form, ``f`` (nc,) N.

    Raises
    ------
    Unsupported : another formulation; Coulomb's law, which is not a convex problem; joints,
        restitution, added constraints, or a step given by N and p.

    >>> import cdopt
    >>> stated = cdopt.ClassicCD(cdopt.bank.load("beam-uniform").step).parametrised()
    >>> stated.problem.is_dpp(), sorted(stated.parameters), sorted(stated.variables)
    (True, ['F_ext', 'phi', 'v'], ['f', 'v_next'])
    """

    def __init__(self, formulation: Posed) -> None:
        checks.provides("formulation", formulation, Posed)
        step, data = formulation.step, formulation.data
        why = _why_not(formulation)
        if why:
            raise Unsupported(f"parameters of {formulation.name}", why, _INSTEAD)
        stated = StatedData(step, data, formulation.in_forces)
        posed = formulation._restated(_numbers=stated.numbers, _like=None, _varying=())
        statement, self.parameters = posed.statement, stated.parameters
        moved = cp.multiply(statement.scaled.unit, statement.w) + stated.free_motion
        physical = {"v_next": (step.nv, moved)}
        if statement.forces is not None:
            physical["f"] = step.nc, statement.forces
        self.variables = {
            name: cp.Variable(size, name=name) for name, (size, _) in physical.items()
        }
        ties = [self.variables[name] == expression for name, (_, expression) in physical.items()]
        stated_problem = statement.problem
        self.problem = cp.Problem(stated_problem.objective, [*stated_problem.constraints, *ties])

    def __repr__(self) -> str:
        return f"Parametrised({', '.join(self.parameters)} → {', '.join(self.variables)})"


def _why_not(formulation: Posed) -> str:
    """Why a formulation has no parameters; empty if it has."""
    step, data = formulation.step, formulation.data
    if not isinstance(step, ContactStep):
        return "there is no step with matrices"
    reasons = (
        (data.law == "coulomb", "Coulomb's law is not a convex program"),
        (formulation.joints is not None, "the step has joints"),
        (formulation.extended, "constraints were added"),
        (not step.nc, "there are no contacts"),
        (data.is_static or data.sliders is not None, f"it is a {data.kind}"),
        (data.compliance is not None and data.compliance.power != HOOKE, "p is not 2"),
        (bool(step.restitution.any()), "restitution depends on which contacts approach"),
    )
    return next((why for refused, why in reasons if refused), "")
