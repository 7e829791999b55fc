"""Base class of all formulations: a cvxpy.Problem and its data, solved and certified."""

from __future__ import annotations

import dataclasses
import functools
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any

import cvxpy as cp
import numpy as np
from numpy.typing import NDArray

import cdopt
from cdopt._util import checks
from cdopt._util.checks import FloatArray
from cdopt._util.compiled import clock
from cdopt._util.errors import InfeasibilityProof, InvalidInput, SolveFailed, Unsupported
from cdopt.backends.base import CVXPY_LOCK, Backend, ProblemClass, RunResult, computed_once
from cdopt.backends.certified import solve_certified
from cdopt.backends.newton import Newton
from cdopt.backends.selection import require_capable, resolve, usual
from cdopt.formulations.conflicts import conflict
from cdopt.formulations.extension import ExtendedIterate
from cdopt.formulations.parametrised import Parametrised
from cdopt.formulations.prepared import Prepared
from cdopt.formulations.stacked import of_bodies, split_steps
from cdopt.formulations.stated_program import unpacked
from cdopt.formulations.stating import Stating
from cdopt.problem import ContactProblem
from cdopt.problem.certificate import TOLERANCE, Certificate, certify
from cdopt.problem.cone_products import Product
from cdopt.problem.cones import Cones
from cdopt.problem.contact_law import HOOKE
from cdopt.problem.contact_step import ContactStep
from cdopt.problem.delassus_step import ROUND_OFF
from cdopt.problem.existence import prove_infeasible
from cdopt.problem.joint_elimination import Eliminated, eliminated
from cdopt.problem.joints import Joints
from cdopt.problem.solution import Iterate, StepSolution, WarmStart
from cdopt.problem.stacking import Stack
from cdopt.problem.step import ContactNames, Step
from cdopt.problem.step_problems import with_lines

FORMS = ("force", "velocity")
_PLAIN = bool, int, float, str, type(None)  # as JSON has them


class Formulation(Stating, ABC):
    """One convex problem, stated in CVXPY in units of its scales.

    Attributes
    ----------
    problem : the cvxpy.Problem, stated on first use; print it, extend it, solve it yourself.
    data : arrays that cdopt's solvers and the certificate use.
    form : the form of ``problem``, one of two that are dual to each other.
    step : the step of the problem, if any, in coordinates that satisfy its joints.
    joints : the joints of the step, eliminated from it; None if it has none.
    springs : joints of finite stiffness, in the coordinates of ``step``. They are not eliminated;
        their rows follow those of the contacts. None without any.
    bodies : of a rigid step with joints, the data in the coordinates of all bodies, with the rows
        of the joints after those of the contacts; they certify answers.
    """

    data: ContactProblem
    form: str
    step: Step | None = None
    joints: Eliminated | None = None
    springs: Joints | None = None
    bodies: ContactProblem | None = None

    def prepare(self) -> Prepared:
        """The same problem, prepared for repeated solves with other gaps, velocities and loads.

        Raises
        ------
        Unsupported : another formulation than ``ClassicCD`` or ``FrictionalCD``, a step without
            matrices, or as in ``Prepared``.
        """
        return Prepared(self)

    def parametrised(self) -> Parametrised:
        """The problem with loads, gaps, velocities and 1/k as CVXPY parameters, for CvxpyLayers.

        Raises
        ------
        Unsupported : as in ``Parametrised``.
        """
        return Parametrised(self)

    @computed_once
    def forces(self) -> cp.Expression | None:
        """CVXPY expression of f (nc,), N; None if the form does not have it."""
        forces = self.statement.forces
        return forces if forces is None or self.springs is None else forces[: self._contact_rows]

    @computed_once
    def velocity(self) -> cp.Expression | None:
        """CVXPY expression of v⁺ (nv,), m/s; None if the form does not have it."""
        motion = self.statement.velocity
        if motion is None or self.joints is None:
            return motion
        return self._of_bodies(self.joints, motion)

    @staticmethod
    def _of_bodies(joints: Eliminated, motion: cp.Expression) -> cp.Expression:
        """CVXPY expression of the motion of all bodies, from one in coordinates of ``joints``."""
        return cp.Constant(joints.motions.Z, name="Z") @ motion + joints.motions.offset

    @computed_once
    def displacement(self) -> cp.Expression | None:
        """CVXPY expression of u (nv,), m; None if the form does not have it."""
        return self.statement.displacement

    @property
    def _power(self) -> float:
        """The power of the law of elastic contacts; 2 where contacts are rigid."""
        return HOOKE if self.data.compliance is None else self.data.compliance.power

    @property
    def _particulars(self) -> list[str]:
        """The text of the name in brackets."""
        elastic = self.data.compliance is not None
        return [f"{self.form} form", *([f"p = {self._power:g}"] if elastic else [])]

    @property
    def name(self) -> str:
        """Name and form, for messages and records."""
        return f"{type(self).__name__} ({', '.join(self._particulars)})"

    @property
    def problem_class(self) -> ProblemClass:
        """The class of solver that ``problem`` needs: "QP" or "SOCP"."""
        with CVXPY_LOCK:
            quadratic = self.problem.is_qp() if self.extended else self._quadratic
        return "QP" if quadratic else "SOCP"

    @property
    def _quadratic(self) -> bool:
        """Whether the problem is a QP before any extension."""
        return not self.data.nc or (self.data.d == 1 and self._power == HOOKE)

    @property
    def _contact_rows(self) -> int:
        """Number of rows of contacts; rows of joints of finite stiffness follow them."""
        return self.data.rows - (0 if self.springs is None else self.springs.count)

    @property
    def _contact_cones(self) -> Cones:
        """The cones of the contacts."""
        cones = self.data.cones
        return cones.parts[0] if self.springs is not None and isinstance(cones, Product) else cones

    @property
    def contact_ids(self) -> NDArray[Any] | None:
        """Names of the contacts of a solution's forces."""
        ids: NDArray[Any] | None = (self.step or self.data).contact_ids
        return ids

    @property
    def names(self) -> ContactNames | None:
        """Names of the contacts of a solution's forces; None if unknown."""
        if self.step is not None:
            return self.step.names
        ids = self.contact_ids
        return None if ids is None else ContactNames(ids.size, ids)

    def _keep_joints(self, step: ContactStep) -> ContactStep:
        """The step in coordinates that satisfy its rigid joints; ``springs`` are the others."""
        self.joints = eliminated(step, springs=True)
        if self.joints is None:
            return step
        self.springs = self.joints.kept
        return self.joints.step

    def _of_rigid(self, step: Step, form: str, posed: Callable[[Step], ContactProblem]) -> None:
        """Store a rigid ``step`` with joints eliminated; ``posed(step)`` builds its problem."""
        if form == "velocity" and not step.nv:
            why = "the step is known only by N and p, without velocities"
            raise Unsupported("velocity form", why, ("form='force'",))
        self.form, self.joints = form, eliminated(step)
        self.step = step if self.joints is None else self.joints.step
        self.data = posed(self.step)
        if self.joints is not None:
            self.bodies = with_lines(posed(step), step.joints.J, step.joints.rate)

    @abstractmethod
    def latex(self) -> str:
        """The problem as mathematics: a LaTeX align environment."""

    def _repr_latex_(self) -> str:
        """The formula in a notebook."""
        return self.latex()

    def seed(self, start: WarmStart) -> None:
        """Write a previous solution, ``start``, into the CVXPY variables."""
        checks.instance("start", start, WarmStart)
        self.statement.seed(self._placed(start))

    def _fields(self, iterate: Iterate) -> dict[str, FloatArray | None]:
        """f, v_next, u, gap, dual, fields of friction, and forces of joints that are springs.

        Multipliers of the form in forces are the rates of a step or the displacement; those of the
        form in motions the impulses or forces.
        """
        data, motion, many = self.data, iterate.motion, self._contact_rows
        f, gap = iterate.forces[:many], data.gap(motion, iterate.forces)[:many]
        fields: dict[str, FloatArray | None] = {"f": f, "gap": gap}
        if self.springs is not None:
            fields["joint_forces"] = iterate.forces[many:]
        if data.is_static:
            fields |= {"u": motion, "dual": motion if self.in_forces else f}
        else:
            fields |= {"v_next": motion, "dual": gap if self.in_forces else f * data.dt}
        if data.d > 1:
            forces, rates = (self._contact_cones.table(x) for x in (f, gap))
            last = 1 + self._contact_cones.sliding
            fields |= {"f": forces[:, 0].copy(), "f_t": forces[:, 1:last].copy()}
            fields |= {"gap": rates[:, 0].copy(), "slip": rates[:, 1:last].copy()}
            if last < data.d:
                fields |= {"f_r": forces[:, last:].copy(), "spin": rates[:, last:].copy()}
        return fields

    def _with_joints(
        self, joints: Eliminated, fields: dict[str, Any]
    ) -> dict[str, FloatArray | None]:
        """Fields changed by the ``joints``: motions of all bodies, and reactions."""
        v_next = joints.full(fields["v_next"])
        moved = fields["f"], fields.get("f_t"), fields.get("f_r")
        reactions = joints.reactions(v_next, *moved, springs=fields.get("joint_forces"))
        return {"v_next": v_next, "joint_forces": reactions}

    def _answer(self, iterate: Iterate) -> dict[str, Any]:
        """The arrays of a solution."""
        fields: dict[str, Any] = self._fields(iterate)
        if self.joints is not None:
            fields.update(self._with_joints(self.joints, fields))
        return fields

    def _certificates(
        self, fields: dict[str, Any], certificate: Certificate | None
    ) -> dict[str, Certificate]:
        """By name, the certificate of ``data``, or with joints that of all bodies and rows.

        Of an extended problem it is that of ``data``, in coordinates that satisfy the joints.
        """
        if certificate is None:
            return {}
        if self.bodies is not None and fields["f"] is not None and not self.extended:
            certificate = certify(*of_bodies(self.bodies, fields), certificate.tol)
        return {"forces": certificate}

    def motion_of(self, solution: StepSolution) -> FloatArray | None:
        """(m,) m/s and rad/s, v⁺ of a ``solution`` in coordinates that satisfy the joints.

        Raises
        ------
        InvalidInput : it is a motion of other bodies.
        """
        checks.instance("solution", solution, StepSolution)
        motion = solution.v_next
        if self.joints is None or motion is None:
            return motion
        if motion.shape != (self.joints.given.nv,):
            raise InvalidInput("solution", repr(solution), "a solution of this step")
        return self.joints.coordinates(motion)

    def _objective(self, iterate: Iterate) -> float:
        """Objective of the stated form at an answer, in physical units."""
        return float(self._objectives(iterate).sum())

    def _objectives(self, iterate: Iterate) -> FloatArray:
        """(parts,) the objective of each independent part."""
        if self.in_forces:
            return self.data.force_objective(iterate.forces)
        return self.data.motion_objective(iterate.motion, iterate.forces)

    def from_vector(
        self,
        x: Any,
        y: Any = None,
        z: Any = None,
        *,
        physical: bool = False,
        tol: float = TOLERANCE,
    ) -> StepSolution:
        """The certified solution, in N and m/s, from an answer to the exported problem.

        The program is that of ``cdopt.interop.exports``, which ``cdopt export`` writes.

        Parameters
        ----------
        x : (n,) its unknowns. y : (m,) multipliers of l ≤ A x ≤ u, positive at the upper side, as
            OSQP has them: P x + q + Aᵀy − Gᵀz + (of bounds) = 0. z : (k,) of the cones. Only forms
            in motions and static networks need multipliers.
        physical : whether the program was in physical units. tol : of the certificate.

        Raises
        ------
        InvalidInput : wrong lengths, or missing multipliers.
        Unsupported : the program has cones that are not second-order cones.
        """
        physical, tol = checks.flag("physical", physical), checks.tolerance("tol", tol)
        with CVXPY_LOCK:
            held = unpacked(self, x, y, z, physical)
            iterate = held.iterate()
        if iterate is None:
            raise InvalidInput("y", "none", f"multipliers, which {self.name} needs")
        self._multipliers = getattr(iterate, "multipliers", ())
        return held._given(iterate, "vector", "given as a vector", tol)

    def _given(
        self, iterate: Iterate, name: str = "given", status: str = "given", tol: float = TOLERANCE
    ) -> StepSolution:
        """An iterate from elsewhere as a certified solution."""
        started, certificate = clock(), self.certify(iterate, tol)
        result = RunResult(status, "solved", iterate, {}, certificate=certificate)
        record = {"tol": tol, "settings": {}, "extended": self.extended}
        return self._solution(name, result, record, started)

    def certify(self, iterate: Iterate, tol: float = TOLERANCE) -> Certificate:
        """The certificate of an ``iterate`` at ``tol``, of the extended problem."""
        checks.instance("iterate", iterate, Iterate)
        if isinstance(iterate, ExtendedIterate):
            return iterate.certified(tol)
        return certify(self.data, iterate.motion, iterate.forces, tol)

    def solve(
        self,
        backend: str | Backend | Callable[..., Any] | None = None,
        *,
        tol: float = TOLERANCE,
        warm_start: StepSolution | WarmStart | None = None,
        verbose: bool = False,
        check: bool = True,
        time_limit: float | None = None,
        **options: Any,
    ) -> StepSolution:
        """Solve with one backend and certify the answer.

        Parameters
        ----------
        backend : a name of ``cdopt.backends.available()`` or a settings object, a solver object of
            CVXPY, or a function of (P, q, G, h, A, b, lb, ub) as in qpsolvers; by default "newton",
            with friction "auto", or "clarabel" where constraints were added.
        tol : tolerance of the certificate; it is not passed to the solver.
        warm_start : a solution or a WarmStart, matched by ``contact_ids`` when present. Some
            backends do not use it; ``provenance["warm_start"]`` records this.
        verbose : let the solver print.
        check : if False, a failed solve returns a solution without f instead of raising an error.
        time_limit : seconds after which the solver returns its last iterate with the status "time
            limit"; None for none. cdopt's solvers check the clock between iterations; others get
            the time left by CVXPY as their setting, and some exceed it: the guide has a table.
            Solvers without such a setting run in a process that is killed then, and have no
            iterate. ``provenance["time_limit"]`` records which.
        options : ``accuracy`` and settings of the solver.

        Raises
        ------
        InvalidInput, BackendUnavailable, Unsupported : before solving.
        SolveFailed : the solver failed, returned no iterate or ran out of memory, or infeasibility
            is proven. After the time limit cdopt does not search for a proof.
        """
        verbose, check = checks.flag("verbose", verbose), checks.flag("check", check)
        if warm_start is not None:
            checks.instance("warm_start", warm_start, StepSolution, WarmStart)
        tol = checks.tolerance("tol", tol)
        time_limit = checks.optional(checks.not_negative, "time_limit", time_limit)
        chosen = resolve(usual(self) if backend is None else backend, **options)
        start = warm_start.warm_start() if isinstance(warm_start, StepSolution) else warm_start
        start = None if start is None else self._placed(start)
        require_capable(chosen, self, self.name)
        started = clock()
        try:
            once = functools.partial(solve_certified, chosen, verbose=verbose, tol=tol)
            result = self._run(once, chosen, start, time_limit)
            self._multipliers = getattr(result.iterate, "multipliers", ())
            record = self._provenance(chosen, result, tol, start is not None, time_limit)
            solution = self._solution(chosen.name, result, record, started)
            if check and not (solution.claimed or solution.ok):
                self._fail(chosen, result)
        except MemoryError as error:
            raise self._out_of_memory(chosen.name, error) from error
        return solution

    def _solve_each(
        self, stack: Stack, backend: Any, *, tol: float = TOLERANCE, **settings: Any
    ) -> list[StepSolution]:
        """The solutions of the steps of a ``stack``; the formulation has its stacked step.

        If a solution is not ok, another step of the stack may be the cause.
        """
        whole = self.solve(backend, tol=tol, check=False, **settings)
        return split_steps(self, whole, stack, tol)

    def _placed(self, start: WarmStart) -> WarmStart:
        """An earlier solution on the rows of ``data``, with zero for joints of finite stiffness."""
        if self.springs is None or start.forces.size == self.data.rows:
            return start
        forces = start.forces_in(self._contact_cones, self._row_ids)
        return WarmStart(np.append(forces, np.zeros(self.springs.count)), start.motion)

    @property
    def _row_ids(self) -> NDArray[Any] | None:
        """Names of the contacts of ``data``."""
        return self.contact_ids

    def _run(
        self,
        once: Callable[..., RunResult],
        backend: Backend,
        start: WarmStart | None,
        time_limit: float | None,
    ) -> RunResult:
        """The certified result of a ``backend``; ``once`` runs it on a formulation."""
        return once(self, start=start, time_limit=time_limit)

    def polish(self, solution: StepSolution, *, tol: float = TOLERANCE) -> StepSolution:
        """Improve a solution's approximate forces to round-off, by Newton's method.

        It starts from the active set of the solution and converges in one or two steps. If forces
        are not unique, the result is near those of the solution. The result has the backend's name
        and its status with "polished" added; ``provenance["polished"]`` has the residual before and
        after. ``tol`` is the certificate's.

        Raises
        ------
        InvalidInput : the solution has no forces, or forces on other contacts.
        Unsupported : constraints were added to the problem.
        """
        checks.instance("solution", solution, StepSolution)
        tol = checks.positive("tol", tol)
        iterate, started = solution.iterate, clock()
        if iterate is None:
            raise InvalidInput("solution", repr(solution), "a solution with an iterate")
        newton = Newton()
        require_capable(newton, self, f"polishing {self.name}")
        start = WarmStart(iterate.forces, iterate.motion, solution.contact_ids)
        result = solve_certified(newton, self, start, False, None, tol)
        certificates = solution.certificate, result.certificate
        before, after = (np.inf if c is None else c.worst for c in certificates)
        report: dict[str, Any] = {"before": before, "after": after, "steps": result.iterations}
        record = {**solution.provenance, "polished": report}
        if not after <= before:
            report["kept"] = "the unpolished forces"
            return dataclasses.replace(solution, provenance=record)
        better = self._solution(solution.backend, result, record, started)
        return dataclasses.replace(
            better,
            status=f"{solution.status}; polished",
            timings={**solution.timings, "polish": result.timings["solve"]},
        )

    def _out_of_memory(self, backend: str, error: MemoryError) -> SolveFailed:
        status = f"out of memory with {self.data.nc:,} contacts"
        message = f"{self.name} by {backend}: {status}; {error or 'size not reported'}"
        return SolveFailed(message, backend=backend, status=status, problem=self.data, raw=error)

    def _fail(self, backend: Backend, result: RunResult) -> None:
        """Look for a proof of infeasibility; raise if there is one, or if there is no iterate."""
        if isinstance(result.raw, MemoryError):
            raise self._out_of_memory(backend.name, result.raw)
        proof = None if result.out_of_time else prove_infeasible(self.data)
        if proof is not None and self.joints is not None:
            proof = self.joints.proof(proof)
        if proof is None and result.iterate is not None and result.claim != "failed":
            return
        why = "no answer, and infeasibility is not proven" if proof is None else self._why(proof)
        if proof is None and self.extended and not result.out_of_time:
            with CVXPY_LOCK:
                proven = conflict(self.statement)
            if proven is not None:
                proof, names = proven
                why = f"no answer satisfies the added constraints {names}: {proof}"
        raise SolveFailed(
            f"{self.name} by {backend.name}: solver status {result.status!r}; {why}",
            backend=backend.name,
            status=result.status,
            problem=self.data,
            proof=proof,
            raw=result.raw,
        )

    def _why(self, proof: InfeasibilityProof) -> str:
        """Why the problem has no solution."""
        return str(proof)

    @np.errstate(all="ignore")  # what overflows is not certified
    def _solution(
        self, backend: str, result: RunResult, record: dict[str, Any], started: float
    ) -> StepSolution:
        """The result as a solution with its certificate."""
        certifying = clock() - started - sum(result.timings.values())
        fields: dict[str, Any] = dict.fromkeys(("f", "v_next", "u", "gap", "dual"))
        claimed = result.claim == "solved"
        iterate, certificate, objective = result.iterate, result.certificate, None
        if iterate is not None:
            objective = self._objective(iterate) + getattr(iterate, "cost", 0.0)
        if iterate is not None and (claimed or (certificate is not None and certificate.ok)):
            fields.update(self._answer(iterate))
        return StepSolution(
            **fields,
            certificates=self._certificates(fields, certificate),
            status=result.status,
            claimed=claimed,
            backend=backend,
            formulation=self.name,
            objective=objective,
            timings={**result.timings, "certify": max(certifying, 0.0)},
            iterations=result.iterations,
            iterate=iterate,
            raw=result.raw,
            contact_ids=self.contact_ids,
            names=self.names,
            provenance=record,
        )

    def _provenance(
        self, backend: Backend, result: RunResult, tol: float, warm: bool, time_limit: float | None
    ) -> dict[str, Any]:
        """The data needed to repeat the run."""
        start = "used" if backend.capability.warm_start else "not used by this backend"
        record = {
            "cdopt": cdopt.__version__,
            "cvxpy": cp.__version__,
            "numpy": np.__version__,
            "settings": {
                k: v if isinstance(v, _PLAIN) else repr(v) for k, v in result.settings.items()
            },
            "how": result.how,
            "threads": result.threads,
            "tol": tol,
            "extended": self.extended,
            "warm_start": start if warm else "none",
        }
        if time_limit is not None:
            record["time_limit"] = {"seconds": time_limit, "kept_by": result.limited or "nothing"}
        if self.step is not None:
            step = self.step
            defects = {"symmetrised": step.symmetrised, "negative_eigenvalue": step.negative}
            record |= {name: size for name, size in defects.items() if size > ROUND_OFF}
        return record

    def __repr__(self) -> str:
        contacts = self.data.nc if self.step is None else self.step.nc
        return f"{self.name} ({contacts:,} contacts, {self.problem_class})"
