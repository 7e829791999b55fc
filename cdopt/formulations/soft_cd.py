"""Soft contact dynamics: the associated law with a compliance R in every row.

With rates g = G v⁺ + b + R f and R ≻ 0 diagonal, the law is K ∋ f ⟂ g ∈ K*. Force form::

    minimise over f ∈ K    ½ fᵀ(N + R) f + pᵀf

Velocity form, its dual, with the overlap c::

    minimise over v⁺, c    ½ ‖v⁺ − v*‖²_M + Σ c²/(2 R Δt)    subject to    G v⁺ + b + c/Δt ∈ K*

Forces are unique, whatever the rank of G. As R → 0 they tend to those of the associated law that
minimise ½ fᵀR f: the compatible forces of springs 1/R.
"""

from __future__ import annotations

import copy
from dataclasses import dataclass
from typing import Any

import numpy as np

from cdopt._util import checks
from cdopt._util.checks import FloatArray, IntArray, read_only
from cdopt._util.errors import InvalidInput
from cdopt._util.frozen import Frozen
from cdopt.backends.base import Backend
from cdopt.formulations.base import FORMS, Formulation
from cdopt.formulations.mujoco_rows import mujoco_rows
from cdopt.formulations.printing import align
from cdopt.formulations.sap_rows import sap_rows
from cdopt.problem import ConeStep, ContactStep, StepSolution, soft_data

_SOFTNESS = (1.0, 1e-1, 1e-2, 1e-3, 1e-4)  # of the sweep
_SHOWN = 20  # rows that its print shows


class SoftCD(Formulation):
    """One step under the regularised law of MuJoCo and of SAP.

    Parameters
    ----------
    step : a ContactStep, with friction or without, or a ``ConeStep`` with rows of any cones.
    compliance : R, m/(s·N), positive: one number or (rows,); the tangential rows of a contact with
        a circular cone must have the same value.
    bias : b (rows,), m/s; by default that of the step.
    form : "force" or "velocity".

    Attributes
    ----------
    compliance : R (rows,); rows of joints of finite stiffness k come last, with R = 1/(k Δt).
    own_bias : whether ``bias`` was given.
    order : (rows,) the index here of each row of the engine; None without an engine.

    Raises
    ------
    InvalidInput : a bad argument.
    SolveFailed : no motion has the rates of the joints.

    Notes
    -----
    Todorov, ICRA 2014; Castro, Permenter & Han, IEEE Trans. Robotics 39 (2023). The law is the
    associated one: sliding contacts separate at μ‖g_T‖ − R f.

    >>> import cdopt
    >>> beam = cdopt.bank.load("beam-uniform").step
    >>> soft = cdopt.SoftCD(beam, compliance=1e-9).solve()
    >>> soft.ok, soft.f.round(3)
    (True, array([3.333, 3.333, 3.333]))
    """

    def __init__(
        self,
        step: ContactStep | ConeStep,
        compliance: Any,
        bias: Any = None,
        form: str = "force",
    ) -> None:
        self.form = checks.choice("form", form, FORMS)
        checks.instance("step", step, ContactStep, ConeStep)
        self.own_bias = bias is not None
        if isinstance(step, ContactStep):
            step = self.step = self._keep_joints(step)
            if self.joints is not None and bias is not None:
                moved = self.joints.rates
                bias = checks.vector("bias", bias, moved.size, "m/s") + moved
        self.data = soft_data(step, compliance, bias, self.springs)
        self.compliance = read_only(1.0 / (self.data.elastic_law.stiffness * self.data.dt))
        self.order: IntArray | None = None

    @classmethod
    def from_mujoco(cls, model: Any, data: Any, form: str = "force") -> SoftCD:
        """MuJoCo's step of a model in the state of its data.

        Every active constraint is a row: equalities, dry friction of joints and tendons, limits,
        and contacts as pyramids or ellipses. R is MuJoCo's efc_R and b follows from its efc_aref,
        so that they include impedances, solref and impratio. ``row_forces`` and ``acceleration`` of
        the solution are the engine's efc_force and qacc.

        Parameters
        ----------
        model : a mujoco.MjModel. data : a mujoco.MjData of it; neither is written to.

        Raises
        ------
        InvalidInput : a bad argument; data of another model; numbers that are not finite.
        Unsupported : MuJoCo is not installed; a contact that sticks; the engine's extra iterations
            without slip, which solve another problem.
        """
        step, compliance, order = mujoco_rows(model, data)
        soft = cls(step, compliance, form=form)
        soft.order = order
        return soft

    @classmethod
    def from_sap(cls, plant: Any, context: Any, form: str = "force") -> SoftCD:
        """The step of Drake's SAP solver of a plant in the state of its context.

        The rows are those of the contacts. Their compliance is SAP's, including its near-rigid
        regularisation: the threshold of the plant sets the smallest compliance.

        Parameters
        ----------
        plant : a pydrake MultibodyPlant with a time step, point contact, and the discrete contact
            approximation "sap", connected to its SceneGraph.
        context : of the plant, from a diagram's context; it is not changed.

        Raises
        ------
        InvalidInput : not a plant, or a context of another system.
        Unsupported : drake is not installed; another contact model; constraints, controllers,
            locked joints, limits of joints that are near; geometries without a stiffness.
        """
        step, compliance = sap_rows(plant, context)
        return cls(step, compliance, form=form)

    # --- answers in the engine's words ---------------------------------------------------

    def row_forces(self, solution: StepSolution) -> FloatArray:
        """The forces of all rows (rows,), N or N·m, in the engine's order if there is an engine.

        Raises
        ------
        InvalidInput : the solution has no forces, or forces of another problem.
        """
        forces = self._iterate("solution", solution)[1]
        return read_only(forces.copy() if self.order is None else forces[self.order])

    def acceleration(self, solution: StepSolution) -> FloatArray:
        """(v⁺ − v)/Δt (nv,), m/s² and rad/s².

        Raises
        ------
        InvalidInput : the solution has no motion, or the motion of another problem.
        """
        motion, start = self._iterate("solution", solution)[0], self.data.start
        return read_only((motion - np.asarray(start)) / self.data.dt)

    def _iterate(self, name: str, solution: StepSolution) -> tuple[FloatArray, FloatArray]:
        """Motion and forces of a solution of this problem."""
        checks.instance(name, solution, StepSolution)
        iterate = solution.iterate
        if iterate is None or iterate.motion is None:
            raise InvalidInput(name, repr(solution), "a solution with motion and forces")
        motion = checks.answer(name, iterate.motion, self.data.nv)
        return motion, checks.answer(name, iterate.forces, self.data.rows)

    # --- stiffer and stiffer -------------------------------------------------------------

    def stiffer(self, factor: float) -> SoftCD:
        """The same step with the compliance divided by a positive ``factor``.

        The bias does not change, so that only the effect of softness on the forces changes.
        """
        factor = checks.positive("factor", factor)
        other = copy.copy(self)
        for name in ("statement", "forces", "velocity", "displacement"):
            vars(other).pop(name, None)
        other.compliance = read_only(self.compliance / factor)
        other.data = self.data.softened(other.compliance)
        return other

    def sweep(
        self, softness: Any = _SOFTNESS, backend: str | Backend | None = None
    ) -> StiffnessSweep:
        """Forces at decreasing softness, and their limit.

        Parameters
        ----------
        softness : (n,) factors of the compliance, positive and decreasing.
        backend : of each solve, as in ``solve``.

        Raises
        ------
        InvalidInput : fewer than two factors, or factors that do not decrease.
        SolveFailed : a step could not be solved.
        """
        values = checks.vector("softness", softness, None)
        if values.size < 2 or not (np.all(values > 0.0) and np.all(np.diff(values) < 0.0)):
            raise InvalidInput("softness", f"{values}", "at least two positive factors that fall")
        answers = [
            self._iterate("solution", self.stiffer(1.0 / value).solve(backend)) for value in values
        ]
        forces = np.array([f if self.order is None else f[self.order] for _, f in answers])
        return StiffnessSweep(values, forces, np.array([v for v, _ in answers]))

    def latex(self) -> str:
        """The problem as mathematics."""
        if self.form == "force":
            return align(r"\min_{f \in K}\quad & \tfrac12 f^\mathsf{T} (N + R) f + p^\mathsf{T} f")
        return align(
            r"\min_{v^+,\, c}\quad & \tfrac12 \lVert v^+ - v^* \rVert_M^2 + "
            r"\tfrac{1}{2 \Delta t} c^\mathsf{T} R^{-1} c",
            r"\text{s.t.}\quad & G v^+ + b + c / \Delta t \in K^*",
        )


@dataclass(frozen=True, eq=False)
class StiffnessSweep(Frozen):
    """Forces of one step at decreasing softness.

    Attributes
    ----------
    softness : (n,) factors of the compliance.
    forces : (n, rows) N or N·m, in the engine's order if there is an engine.
    v_next : (n, nv) m/s, velocities at the end of the step.
    """

    softness: FloatArray
    forces: FloatArray
    v_next: FloatArray

    @property
    def limit(self) -> FloatArray:
        """(rows,) N, the forces without softness, extrapolated linearly from the last two."""
        (a, b), (f, g) = self.softness[-2:], self.forces[-2:]
        return read_only(g - (f - g) * b / (a - b))

    @property
    def hidden(self) -> FloatArray:
        """(rows,) N, the forces at the first softness minus the limit."""
        return read_only(self.forces[0] - self.limit)

    @property
    def changes(self) -> FloatArray:
        """(n − 1, rows) N, the change of each force from one softness to the next."""
        return read_only(np.diff(self.forces, axis=0))

    def __str__(self) -> str:
        """A row for each of up to ``_SHOWN`` forces, those that softness changes most."""
        order = np.argsort(-np.abs(self.hidden), kind="stable")[:_SHOWN]
        shown = np.sort(order)
        headings = [*(f"{x:g} R" for x in self.softness.tolist()), "R → 0", "hidden"]
        table = np.vstack([self.forces, self.limit, self.hidden])[:, shown].T
        lines = [f"forces at less and less softness, {shown.size} of {self.hidden.size:,} rows [N]"]
        lines.append(f"{'row':>6}" + "".join(f"{x:>11}" for x in headings))
        for row, values in zip(shown.tolist(), (np.round(table, 3) + 0.0).tolist(), strict=True):
            lines.append(f"{row:>6}" + "".join(f"{x:>11,.3f}" for x in values))
        return "\n".join(lines)

    def __repr__(self) -> str:
        return f"StiffnessSweep({self.softness.size} softnesses, {self.hidden.size:,} rows)"
