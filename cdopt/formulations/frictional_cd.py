"""Contact dynamics with friction: the associated law, and the law of Coulomb.

Contacts have d rows, the normal one first; rates g = B v⁺ + b, forces f = (f_n, f_T). The
*associated* law is a second-order cone problem. Force form::

    minimise over f ∈ K_μ    ½ fᵀN f + pᵀf

Velocity form, its dual::

    minimise over v⁺    ½ ‖v⁺ − v*‖²_M    subject to    B v⁺ + b ∈ K*_μ

Its sliding contacts separate at the rate μ‖g_T‖. The law of *Coulomb* does not have this defect: it
is K_μ ∋ f ⟂ g + μ‖g_T‖e_n ∈ K*_μ (G. de Saxcé & Z.-Q. Feng, 1998), which is not the optimality
condition of any convex problem. It is a fixed point of one: the same problem with b_n + s in place
of b_n, where s = μ‖g_T‖ at its own solution (V. Acary & F. Cadoux 2013; V. Acary, F. Cadoux, C.
Lemaréchal & J. Malick, ZAMM 91, 2011). Its solutions need not be unique, nor exist.
"""

from __future__ import annotations

import copy
import dataclasses
from typing import Any

import cvxpy as cp
import numpy as np

from cdopt._util import checks
from cdopt._util.checks import FloatArray
from cdopt._util.errors import InvalidInput
from cdopt.backends.base import Backend
from cdopt.backends.deadline import TIME_LIMIT, Deadline
from cdopt.formulations.base import Certified, Form, Solve, StepFormulation, possible_form
from cdopt.formulations.classic_cd import ClassicCD
from cdopt.formulations.statement import Statement, StepForm, align, seed_dual
from cdopt.problem import (
    ContactProblem,
    DelassusStep,
    Step,
    WarmStart,
    frictional_data,
)
from cdopt.problem.certificate import Certificate, errors_elsewhere
from cdopt.problem.existence import Slater, slater_number
from cdopt.problem.scaling import scaled
from cdopt.problem.solution import Iterate, StepSolution
from cdopt.problem.step_problems import Law

_PASSES = 200  # of the fixed point at most
_SETTLED = 1e-12  # the shift changes by less than this share of the speed: nothing more to gain


class FrictionalCD(StepFormulation):
    """One step of contact dynamics with friction.

    Parameters
    ----------
    step : a step with ``friction``.
    law : "coulomb", or "associated" for the convex law.
    form : "velocity" or "force"; a step known by N and p has the force form alone. Default: the
        velocity form where the step has matrices.

    Attributes
    ----------
    problem : the convex problem; for the law of Coulomb with the normal rates shifted by
        ``shift`` (nc,), m/s, zero at first.

    Raises
    ------
    InvalidInput : not a step with friction, or no such law or form.
    Unsupported : the velocity form of a step known only by N and p.

    Notes
    -----
    The law of Coulomb is solved by a native backend directly, and by any conic solver as a fixed
    point over ``problem``. With μ = 0 both laws are ``ClassicCD``. A solution of the law of Coulomb
    is *a* solution: others may have other velocities.

    >>> import cdopt, numpy as np
    >>> step = cdopt.ContactStep(M=np.eye(2), B=[[0, 1]], phi=[0], v=[1, 0], F_ext=[0, -9.81],
    ...     dt=1e-3, friction=cdopt.Friction(0.5, B_t=[[1, 0]]))
    >>> solution = cdopt.FrictionalCD(step).solve("newton")
    >>> solution.ok, solution.f.round(6), solution.f_t.round(6)
    (True, array([9.81]), array([[-4.905]]))
    """

    step: Step

    def __init__(self, step: Step, law: Law = "coulomb", form: Form | None = None) -> None:
        if step.friction is None:
            raise InvalidInput(
                "step", "a step without friction", "ContactStep(..., friction=cdopt.Friction(...))"
            )
        usual = "force" if isinstance(step, DelassusStep) else "velocity"
        self.law, self.form = law, possible_form(form or usual, step)
        self.step = step
        self.data = frictional_data(step, law)
        self.shift = np.zeros(step.nc)

    @staticmethod
    def _force_form(x: ConeForces) -> cp.Problem:
        """½ fᵀN f + pᵀf + sᵀf_n over f ∈ K_μ."""
        cones = cp.SOC(cp.multiply(cp.Constant(x.mu, name="μ"), x.f_n), x.f_T, axis=1)
        return cp.Problem(cp.Minimize(0.5 * x.fNf + x.work), [cones, x.f_n >= 0, x.balance])

    @staticmethod
    def _velocity_form(x: ConeVelocities) -> cp.Problem:
        """½ ‖v⁺ − v*‖²_M subject to B v⁺ + b + s e_n ∈ K*_μ."""
        normal, sliding = x.rates()
        mu = cp.Constant(x.mu[:, None], name="μ")
        return cp.Problem(
            cp.Minimize(0.5 * x.wMw), [cp.SOC(normal, cp.multiply(mu, sliding), axis=1)]
        )

    @property
    def _particulars(self) -> list[str]:
        return [self.law, f"{self.form} form"]

    @property
    def _quadratic(self) -> bool:
        return not self.step.nc

    def _stated(self) -> Statement:
        if not self.step.nc:
            return ClassicCD(self.step.without_friction(), self.form).statement
        if self.form == "force":
            return ConeForces(self.data, self._force_form, self.shift)
        return ConeVelocities(self.data, self._velocity_form, self.shift)

    def shifted(self, shift: FloatArray) -> FrictionalCD:
        """The same formulation with the normal rates of ``problem`` shifted by (nc,), m/s."""
        other = copy.copy(self)
        for name in ("statement", "forces", "velocity", "displacement"):
            vars(other).pop(name, None)
        other.shift = checks.vector("shift", shift, self.step.nc, "m/s")
        return other

    def slater(self) -> Slater:
        """How far the set of admissible rates is from having no interior.

        The result says whether forces exist and are bounded, along which ``forces`` they are
        unbounded, or that the associated law has no solution. It costs a cone program of
        Clarabel. Solving computes it only where forces are large beside what acts.

        >>> import cdopt, numpy as np
        >>> slot = cdopt.ContactStep(np.eye(2), [[1, 0], [-1, 0]], [0, 0], [0, 0], [0, -1], 1e-3,
        ...     friction=cdopt.Friction(0.5, [[0, 1], [0, 1]]))
        >>> print(cdopt.FrictionalCD(slot).slater())
        Slater number 0: forces are unbounded, or there are none
        """
        return slater_number(self.data)

    def errors_elsewhere(self, solution: StepSolution) -> dict[str, float]:
        """Errors of a solution as Siconos, Inria's report RR-9118 and FCLib define them.

        They stand here for comparison with other programs' results. They add m/s to N s, so that
        they depend on the units; the certificate does not.

        Returns
        -------
        By name, "siconos", "rr-9118" and "fclib": the natural map at ρ = 1, over scales which
        docs/residuals.md defines.

        Raises
        ------
        InvalidInput : the solution holds no forces, or forces on other contacts.
        """
        iterate = solution.iterate
        if iterate is None:
            raise InvalidInput("solution", repr(solution), "a solution with an iterate")
        forces = checks.answer("solution", iterate.forces, self.data.rows)
        return errors_elsewhere(self.data, iterate.motion if self.data.nv else None, forces)

    def _run(
        self, once: Solve, backend: Backend, start: WarmStart | None, time_limit: float | None
    ) -> Certified:
        """One run; of a conic solver on the law of Coulomb, one for each pass."""
        direct = self.law == "associated" or self.data.kind in backend.capability.structured
        if direct or self.extended:
            return once(self, time_limit)
        return self._fixed_point(once, start, time_limit)

    def _fixed_point(
        self, once: Solve, start: WarmStart | None, time_limit: float | None
    ) -> Certified:
        """Acary & Cadoux: solve at the shift, set the shift to μ‖g_T‖ of the answer, repeat.

        It ends when the shift has settled or the best certificate has not improved for ten
        passes, and returns the answer with the best certificate.
        """
        data, deadline, settled = self.data, Deadline.after(time_limit), False
        best: Certified | None = None
        posed, since, timings, steps, passes = self, 0, dict[str, float](), 0, 0
        last = np.zeros(data.nc)
        if start is not None:
            last = self._shift_of(Iterate(None, start.forces_on(data.contact_ids, data.nc, data.d)))
            posed = self.shifted(last)
        while True:
            result, certificate = once(posed, deadline.time_limit)
            passes, since, steps = passes + 1, since + 1, steps + (result.iterations or 0)
            for name, seconds in result.timings.items():
                timings[name] = timings.get(name, 0.0) + seconds
            if best is None or _worst(certificate) < _worst(best[1]):
                best, since = (result, certificate), 0
            if result.out_of_time or result.iterate is None or since >= 10 or passes == _PASSES:
                break
            shift = self._shift_of(result.iterate)
            if not np.isfinite(shift).all():
                break
            change = np.abs(shift - last).max(initial=0.0)
            settled = change <= _SETTLED * float(data.part_speed.max(initial=0.0))
            if settled or deadline.passed:
                break
            posed, last = self.shifted(shift), shift
        late = not settled and (result.out_of_time or deadline.passed)
        how = f"fixed point of the law of Coulomb, {passes} convex problems"
        run = dataclasses.replace(best[0], how=how, timings=timings, iterations=steps or None)
        certified = best[1] is not None and best[1].ok
        if late and not certified:
            run = dataclasses.replace(run, status=TIME_LIMIT, claim="inaccurate", out_of_time=True)
        elif not settled and not certified and run.claim == "solved":
            status = f"{run.status}; the fixed point did not settle"
            run = dataclasses.replace(run, status=status, claim="inaccurate")
        return run, best[1]

    def _shift_of(self, answer: Iterate) -> FloatArray:
        """(nc,) m/s: what the law adds to the normal rates of an answer."""
        data = self.data
        return data.shift(data.gap(answer.motion, answer.forces))

    def _fields(self, iterate: Iterate) -> dict[str, FloatArray | None]:
        data = self.data
        forces = data.cones.table(iterate.forces)
        rates = data.cones.table(data.gap(iterate.motion, iterate.forces))
        return {
            "f": forces[:, 0].copy(),
            "f_t": forces[:, 1:].copy(),
            "v_next": iterate.motion,
            "gap": rates[:, 0].copy(),
            "slip": rates[:, 1:].copy(),
            "dual": self._multipliers(iterate),
        }

    def _objective(self, iterate: Iterate) -> float:
        """Of the convex problem with the shift of the answer, in the form that is stated."""
        if self.form == "velocity":
            return super()._objective(iterate)
        work = self._shift_of(iterate) @ self.data.cones.normal(iterate.forces)
        return super()._objective(iterate) + float(work)

    def _provenance(self, *arguments: Any) -> dict[str, Any]:
        record = {**super()._provenance(*arguments), "law": self.law}
        if self.law == "coulomb":
            record["uniqueness"] = "a solution: those of the law of Coulomb need not be unique"
        return record

    def latex(self) -> str:
        """The problem as mathematics."""
        shift = "" if self.law == "associated" else r" + \mu \lVert g_T \rVert e_n"
        if self.form == "force":
            extra = "" if self.law == "associated" else r" + (\mu \lVert g_T \rVert)^\mathsf{T} f_n"
            return align(
                r"\min_{f}\quad & \tfrac12 f^\mathsf{T} N f + p^\mathsf{T} f" + extra,
                r"\text{s.t.}\quad & \lVert f_{T,i} \rVert \le \mu_i f_{n,i}",
            )
        return align(
            r"\min_{v^+}\quad & \tfrac12 \lVert v^+ - v^* \rVert_M^2",
            r"\text{s.t.}\quad & g" + shift + r" \in K^*_\mu, \qquad g = B v^+ + b",
        )


def _worst(certificate: Certificate | None) -> float:
    return np.inf if certificate is None else certificate.worst


class _ConeForm(StepForm):
    """What both forms share: the cones, and the shift s (contacts,) over the part's speed."""

    def __init__(self, data: ContactProblem, state: Any, shift: FloatArray) -> None:
        self.s = shift / data.speed[:: data.d]
        self.mu = data.cones.mu
        super().__init__(data, state)

    def _split(self, rows: Any) -> tuple[Any, Any]:
        """The normal rows and the tangential rows of an array with nc·d rows."""
        tangential = np.arange(self.data.rows) % self.data.d > 0
        return rows[~tangential], rows[tangential]

    def _joined(self, normal: Any, tangential: Any) -> FloatArray:
        """Values of the normal rows (contacts,) and the others, as rows (nc,)."""
        many = self.data.d - 1
        tangents = np.reshape(np.asarray(tangential, dtype=float), (self.data.nc, many))
        return np.column_stack([np.ravel(normal), tangents]).ravel()


class ConeForces(_ConeForm):
    """Variables f_n (contacts,), f_T (contacts, d − 1) in K_μ, in units of each part's force.

    The ``balance`` is M w = Bᵀf, each row in units of its own mass; of a step known by N and p it
    says that the rows f (nc,) are both.
    """

    def _declare(self) -> None:
        super()._declare()
        data, step = self.data, self.scaled
        self.f_n = cp.Variable(data.nc, name="f_n")
        self.f_T = cp.Variable((data.nc, data.d - 1), name="f_T")
        self.forces = cp.multiply(cp.Constant(self._split(data.force)[0], name="f₀"), self.f_n)
        if step.S is None:
            self.f = cp.Variable(data.rows, name="f")
            columns = cp.hstack([cp.reshape(self.f_n, (data.nc, 1), order="C"), self.f_T])
            self.balance = self.f == cp.vec(columns, order="C")
            return
        unit = 1.0 / step.S.diagonal()
        B_n, B_T = self._split(scaled(step.B, None, unit))
        load = cp.Constant(B_n.T, name="B_nᵀ") @ self.f_n
        load += cp.Constant(B_T.T, name="B_Tᵀ") @ cp.vec(self.f_T, order="C")
        self.balance = cp.Constant(scaled(step.S, unit, None), name="M") @ self.w == load

    @property
    def work(self) -> cp.Expression:
        """pᵀf + sᵀf_n."""
        p_n, p_T = self._split(self.row_weight * self.scaled.p)
        work = cp.Constant(p_n, name="p_n") @ self.f_n
        work += cp.Constant(p_T, name="p_T") @ cp.vec(self.f_T, order="C")
        s = self.contact_weight * self.s
        return work + cp.Constant(s, name="s") @ self.f_n if s.any() else work

    def iterate(self) -> Iterate | None:
        """f, and the v⁺ that follows from it."""
        if self.f_n.value is None or self.f_T.value is None:
            return None
        forces = self.data.force * self._joined(self.f_n.value, self.f_T.value)
        return Iterate(self.data.velocity(forces), forces)

    def seed(self, start: WarmStart) -> None:
        """Write forces, and the motion that they cause."""
        data = self.data
        forces = start.forces_on(data.contact_ids, data.nc, data.d)
        values = data.cones.table(forces / data.force)
        self.f_n.value, self.f_T.value = values[:, 0], values[:, 1:]
        if self.scaled.N is not None:
            self.f.value = values.ravel()
        else:
            self._seed_motion(forces)


class ConeVelocities(_ConeForm):
    """Variables w = v⁺ − v* of a step with rates in K*_μ."""

    def _declare(self) -> None:
        super()._declare()
        self._declare_velocity()

    def rates(self) -> tuple[cp.Expression, cp.Expression]:
        """Shifted normal rates (contacts,) and sliding rates (contacts, d − 1)."""
        data, step = self.data, self.scaled
        (B_n, B_T), (p_n, p_T) = self._split(step.B), self._split(step.p)
        normal = cp.Constant(B_n, name="B_n") @ self.w + cp.Constant(p_n, name="p_n")
        sliding = cp.Constant(B_T, name="B_T") @ self.w + cp.Constant(p_T, name="p_T")
        if self.s.any():
            normal = normal + cp.Constant(self.s, name="s")
        return normal, cp.reshape(sliding, (data.nc, data.d - 1), order="C")

    def iterate(self) -> Iterate | None:
        """v⁺, and f from the multipliers (f_n, f_T/μ) of the cones."""
        data, motion = self.data, self.motion()
        multipliers = self.problem.constraints[0].dual_value
        if motion is None or multipliers is None or multipliers[0] is None:
            return None
        normal, tangential = multipliers
        sliding = self.mu[:, None] * np.reshape(tangential, (data.nc, data.d - 1))
        return Iterate(motion, data.force * self._joined(normal, sliding) / self.row_weight)

    def seed(self, start: WarmStart) -> None:
        """Write the motion that forces cause, and the forces as multipliers."""
        data = self.data
        forces = start.forces_on(data.contact_ids, data.nc, data.d)
        self._seed_motion(forces)
        f = data.cones.table(self.row_weight * forces / data.force)
        sliding = f[:, 1:] / np.where(self.mu > 0.0, self.mu, np.inf)[:, None]
        seed_dual(self.problem.constraints[0], f[:, 0], sliding)
