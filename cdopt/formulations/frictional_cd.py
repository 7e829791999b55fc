"""Contact dynamics with friction: the associated law, and Coulomb's law.

Contacts have d rows, the normal one first; rates g = B v⁺ + b, forces f = (f_n, f_T). The
*associated* law is a second-order cone problem. Force form::

    minimise over f ∈ K_μ    ½ fᵀN f + pᵀf

Velocity form, its dual::

    minimise over v⁺    ½ ‖v⁺ − v*‖²_M    subject to    B v⁺ + b ∈ K*_μ

Its sliding contacts separate at the rate μ‖g_T‖. Coulomb's law does not have this defect: K_μ ∋ f ⟂
g + μ‖g_T‖e_n ∈ K*_μ (G. de Saxcé & Z.-Q. Feng, 1998). It is not the optimality condition of a
convex problem, but a fixed point: its solutions are those of the same problem with b_n + s in place
of b_n, where s = μ‖g_T‖ at the solution (V. Acary & F. Cadoux 2013; V. Acary, F. Cadoux, C.
Lemaréchal & J. Malick, ZAMM 91, 2011). A solution need not exist, nor be unique.
"""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from cdopt._util import checks
from cdopt._util.checks import FloatArray
from cdopt._util.errors import InvalidInput
from cdopt.backends.base import Backend, RunResult
from cdopt.backends.deadline import TIME_LIMIT, Deadline
from cdopt.formulations.base import FORMS, Formulation
from cdopt.formulations.extension import ExtendedIterate
from cdopt.formulations.numbers import RATES, can_vary
from cdopt.formulations.printing import align
from cdopt.problem import Step, WarmStart, frictional_data
from cdopt.problem.certificate import errors_elsewhere
from cdopt.problem.existence import Slater, slater_number
from cdopt.problem.solution import Iterate, StepSolution
from cdopt.problem.step_problems import LAWS

_PASSES = 200  # of the fixed point at most
_COMPILED_ONCE = 3000  # rows up to which CVXPY compiles a parameter in less time than ten passes
_SETTLED = 1e-12  # the shift changes by less than this share of the speed: converged


class FrictionalCD(Formulation):
    """One step of contact dynamics with friction.

    Parameters
    ----------
    step : a step with ``friction``.
    law : "coulomb", or "associated" for the convex law.
    form : "velocity" (the default) or "force"; a step given by N and p has only the force form.

    Attributes
    ----------
    problem : the convex problem; for Coulomb's law its normal rates are shifted by ``shift`` (nc,),
        m/s, initially zero.

    Raises
    ------
    InvalidInput : not a step with friction, or no such law or form.
    Unsupported : the velocity form of a step known only by N and p.

    Notes
    -----
    cdopt's solvers solve Coulomb's law directly, conic solvers by a fixed-point iteration over
    ``problem``. With μ = 0 both laws are ``ClassicCD``. Under Coulomb's law there may be other
    solutions, with other velocities.

    >>> import cdopt, numpy as np
    >>> step = cdopt.ContactStep(M=np.eye(2), B=[[0, 1]], phi=[0], v=[1, 0], F_ext=[0, -9.81],
    ...     dt=1e-3, friction=cdopt.Friction(0.5, B_t=[[1, 0]]))
    >>> solution = cdopt.FrictionalCD(step).solve("newton")
    >>> solution.ok, solution.f.round(6), solution.f_t.round(6)
    (True, array([9.81]), array([[-4.905]]))
    """

    step: Step

    def __init__(self, step: Step, law: str = "coulomb", form: str | None = None) -> None:
        checks.instance("step", step, Step)
        law = checks.choice("law", law, LAWS)
        if form is not None:
            form = checks.choice("form", form, FORMS)
        if step.friction is None:
            raise InvalidInput(
                "step", "a step without friction", "ContactStep(..., friction=cdopt.Friction(...))"
            )
        usual = "velocity" if step.nv else "force"
        self.law = law
        self._of_rigid(step, form or usual, partial(frictional_data, law=law))
        self.shift = np.zeros(self.data.nc)
        many_rows = self.data.rows > _COMPILED_ONCE or not can_vary(self.data, self.in_forces)
        self._varying = () if law == "associated" or many_rows else RATES  # for its passes

    @property
    def _particulars(self) -> list[str]:
        return [self.law, f"{self.form} form"]

    @property
    def _shift(self) -> FloatArray:
        return self.shift

    def shifted(self, shift: FloatArray) -> FrictionalCD:
        """The same formulation with the normal rates of ``problem`` shifted by (nc,), m/s."""
        shift = checks.vector("shift", shift, self.data.nc, "m/s")
        if self.extended:  # on the same variables
            other = copy.copy(self)
            vars(other).update(shift=shift, statement=self.statement.shifted(shift))
            return other
        like = (self._like or self) if self._varying else None
        return self._restated(shift=shift, _like=like)

    def slater(self) -> Slater:
        """The Slater number: how far the set of admissible rates is from having no interior.

        The result shows whether forces exist and are bounded, along which ``forces`` they are
        unbounded, or that the associated law has no solution. Clarabel solves a cone program for
        it. ``solve`` computes it only if forces are far larger than the local loads.

        >>> import cdopt, numpy as np
        >>> slot = cdopt.ContactStep(np.eye(2), [[1, 0], [-1, 0]], [0, 0], [0, 0], [0, -1], 1e-3,
        ...     friction=cdopt.Friction(0.5, [[0, 1], [0, 1]]))
        >>> print(cdopt.FrictionalCD(slot).slater())
        Slater number 0: forces are unbounded, or there are none
        """
        return slater_number(self.data)

    def errors_elsewhere(self, solution: StepSolution) -> dict[str, float]:
        """Errors of a solution as Siconos, Inria's report RR-9118 and FCLib define them.

        Use them to compare with other programs. They add m/s to N s, so that
        they depend on the units; the certificate does not.

        Returns
        -------
        Errors named "siconos", "rr-9118" and "fclib": the natural map at ρ = 1, divided by the
        scales in docs/residuals.md.

        Raises
        ------
        InvalidInput : the solution has no forces, or forces on other contacts.
        """
        checks.instance("solution", solution, StepSolution)
        iterate = solution.iterate
        if iterate is None:
            raise InvalidInput("solution", repr(solution), "a solution with an iterate")
        forces = checks.answer("solution", iterate.forces, self.data.rows)
        return errors_elsewhere(self.data, iterate.motion if self.data.nv else None, forces)

    def _run(
        self,
        once: Callable[..., RunResult],
        backend: Backend,
        start: WarmStart | None,
        time_limit: float | None,
    ) -> RunResult:
        """One run; of a conic solver on Coulomb's law, one for each pass.

        Acary & Cadoux: solve at the shift, set the shift to μ‖g_T‖ of the answer, repeat.

        It ends when the shift has converged or the best certificate has not improved for ten
        passes, and returns the answer with the best certificate.
        """
        structured = backend.capability.consumes(self.data) and not self.extended
        if self.law == "associated" or structured:
            return once(self, start=start, time_limit=time_limit)
        data, deadline, settled = self.data, Deadline.after(time_limit), False
        best: RunResult | None = None
        posed, since, timings, steps, passes = self, 0, dict[str, float](), 0, 0
        last = np.zeros(data.nc)
        if start is not None:
            forces = start.forces_in(data.cones, data.contact_ids)
            last = self._shift_of(Iterate(None, forces))
            posed = self.shifted(last)
        while True:
            result = once(posed, start=start, time_limit=deadline.time_limit)
            passes, since, steps = passes + 1, since + 1, steps + (result.iterations or 0)
            for name, seconds in result.timings.items():
                timings[name] = timings.get(name, 0.0) + seconds
            if best is None or _worst(result) < _worst(best):
                best, since = result, 0
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
        how = f"fixed point of Coulomb's law, {passes} convex problems"
        run = dataclasses.replace(best, how=how, timings=timings, iterations=steps or None)
        certified = run.certificate is not None and run.certificate.ok
        if late and not certified:
            run = dataclasses.replace(run, status=TIME_LIMIT, claim="inaccurate", out_of_time=True)
        elif not settled and not certified and run.claim == "solved":
            status = f"{run.status}; the fixed point did not settle"
            run = dataclasses.replace(run, status=status, claim="inaccurate")
        return run

    def _shift_of(self, answer: Iterate) -> FloatArray:
        """(nc,) m/s, the shift of the normal rates by the law, at an answer."""
        data = answer.data if isinstance(answer, ExtendedIterate) else self.data
        return data.shift(data.gap(answer.motion, answer.forces))

    def _objectives(self, iterate: Iterate) -> FloatArray:
        """Objectives of the convex problem with the answer's shift, in the stated form."""
        objectives = super()._objectives(iterate)
        if self.form == "velocity":
            return objectives
        work = self._shift_of(iterate) * self.data.cones.normal(iterate.forces)
        return objectives + self.data.parts.total(self.data.parts.contact, work)

    def _provenance(self, *arguments: Any) -> dict[str, Any]:
        record = {**super()._provenance(*arguments), "law": self.law}
        if self.law == "coulomb":
            record["uniqueness"] = "one solution: under Coulomb's law solutions need not be unique"
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


def _worst(result: RunResult) -> float:
    return np.inf if result.certificate is None else result.certificate.worst
