"""Compatible contact dynamics: Algorithm 1 of Olsen & Kamrin (2018).

Step one solves classic contact dynamics for v⁺ and for the load F̃ = Bᵀf that the contacts must
deliver, equation (37). Step two computes, among all forces that deliver it, those of elastic
contacts in the limit of infinite stiffness, equation (36).

The one-step method makes the contacts elastic and nearly rigid,

    minimise over f ≥ 0    ½ fᵀN f + pᵀf + ε Σ w*(f),

Its forces differ from the compatible ones by O(ε).
"""

from __future__ import annotations

import copy
import dataclasses
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Self

import cvxpy as cp
import numpy as np
import scipy.sparse as sp

from cdopt._util import checks
from cdopt._util.cached import cached_property, changed
from cdopt._util.checks import BoolArray, FloatArray, IntArray, read_only
from cdopt._util.errors import InvalidInput, Unsupported
from cdopt._util.frozen import Frozen, rows_at, unit_columns
from cdopt.backends.base import Backend
from cdopt.backends.deadline import Deadline
from cdopt.backends.selection import resolve
from cdopt.formulations.base import FORMS
from cdopt.formulations.classic_cd import ClassicCD
from cdopt.formulations.compliant_cd import CompliantCD
from cdopt.formulations.no_tension_truss import TRUSS_FORMS, NoTensionTruss
from cdopt.formulations.printing import align, conjugate_latex
from cdopt.formulations.stacked import split, split_steps
from cdopt.problem import truss_data
from cdopt.problem.active_set import first_step, resolved
from cdopt.problem.certificate import TOLERANCE, Certificate, certify, certify_each
from cdopt.problem.contact_law import PowerLaw
from cdopt.problem.joint_elimination import Eliminated, eliminated
from cdopt.problem.residual import Condition, residuals_of, residuals_of_each
from cdopt.problem.scales import step_scales
from cdopt.problem.scaling import (
    delassus_root,
    rows_of,
    total_by,
    transposed_times,
    transposed_times_size,
)
from cdopt.problem.solution import Iterate, StepSolution, WarmStart
from cdopt.problem.stacking import Stack
from cdopt.problem.step import Step
from cdopt.problem.step_problems import under_load

_CLOSED_FLOOR = 1e-7  # resolution of gaps by solvers at their defaults
_CLOSED_FACTOR = 10.0  # a gap within this many residuals of zero may be zero
_ONE_STEP = 1e-6  # of the gap closed in a step: deformation of contacts in the one-step method
_NONE = np.array([-1])
_RANK_TOL = 1e-12  # eigenvalues below this share of the largest are null space of N


@dataclass(frozen=True, eq=False)
class ClosedNetwork(Frozen):
    """The contacts that a classic step closes, and the load they must deliver.

    Attributes
    ----------
    contacts : (n,) indices of the closed contacts: those with a gap speed of at most ``gap_tol``,
        and those whose classic force causes a larger one. With both, the forces can deliver the
        load.
    tol : relative gap-speed tolerance from which ``gap_tol`` is computed.
    gap_tol : (nc,) m/s, ``tol`` times the local speed at the contact, plus the round-off of the
        contact's position divided by Δt.
    forces : (nc,) N, max(f, 0) of the classic step on closed contacts, computed again on those that
        press; zero on open ones.
    contact_load : F̃ (nv,) = Bᵀ forces, N and N·m; N forces in m/s with N alone.
    acting : (nv,) N and N·m, the local load of each dof in the step: contact forces, loads, and the
        change of its motion; empty with N alone.
    uncertain : (nc,) N, effect on ``forces`` of errors of the classic step and round-off of its
        data; zero where there are too many contacts to compute it.
    projected : size of the part of Bᵀf removed by max(f, 0) and the open contacts, relative to
        the largest force on a dof, |B|ᵀ|f| or that of its part's scale.
    """

    contacts: IntArray
    tol: float
    gap_tol: FloatArray
    forces: FloatArray
    contact_load: FloatArray
    acting: FloatArray
    projected: float
    uncertain: FloatArray


class CompatibleCD:
    """Contact dynamics with forces resolved by compatibility.

    Parameters
    ----------
    step : the step; its ``stiffness`` sets the ratios of contact stiffness.
    power : p > 1 of the contact energy, the same for all contacts: 2 Hooke, 5/2 Hertz; by default
        that of the step.
    form : of the second problem: "potential", whose displacements are more accurate for p ≠ 2, or
        "complementary".
    classic_form : of the first problem, "force" or "velocity".
    closed_tol : a contact is closed when its gap speed is within this share of the
        local speed there; by default ten times the first solve's worst residual, at least 1e-7.
    method : "two-step", or "one-step" for a single problem, ``CompliantCD`` in force form. Its law
        is very stiff: interior-point solvers often fail for p ≠ 2, newton does not.
    epsilon : ε of the one-step problem at the step's relative stiffness, m N^(−1/(p−1)) / s; by
        default contacts deform by 1e-6 of the gap that the step closes.

    Raises
    ------
    InvalidInput : a bad argument.
    Unsupported : the one-step method for a step known only by N and p.

    >>> import cdopt
    >>> beam = cdopt.bank.load("beam-stiff-middle").step
    >>> cdopt.CompatibleCD(beam).solve("clarabel").f.round(6)
    array([2., 6., 2.])
    """

    def __init__(
        self,
        step: Step,
        power: float | None = None,
        form: str = "potential",
        classic_form: str = "force",
        closed_tol: float | None = None,
        method: str = "two-step",
        epsilon: float | None = None,
    ) -> None:
        checks.instance("step", step, Step)
        power = checks.optional(checks.power, "power", power)
        form = checks.choice("form", form, TRUSS_FORMS)
        classic_form = checks.choice("classic_form", classic_form, FORMS)
        closed_tol = checks.optional(checks.tolerance, "closed_tol", closed_tol)
        method = checks.choice("method", method, ("two-step", "one-step"))
        epsilon = checks.optional(checks.positive, "epsilon", epsilon)
        self.form, self.closed_tol, self.method = form, closed_tol, method
        self.power = power or step.power
        self.classic_cd = ClassicCD(step, form=classic_form)
        self.step, self.joints = self.classic_cd.step, self.classic_cd.joints
        self.epsilon: float | None = None
        if method == "one-step":
            self.epsilon = epsilon or self._default_epsilon()
            kappa = (self.epsilon * step.dt) ** (1.0 - self.power)
            self.compliant_cd = CompliantCD(step, self.power, kappa)
        elif epsilon is not None:
            raise InvalidInput("epsilon", checks.describe(epsilon), "none for two steps")

    def _default_epsilon(self) -> float:
        """ε at which contacts under their part's force yield by 1e-6 of its closing speed."""
        data = self.classic_cd.data
        overlap = PowerLaw(self.step.stiffness, self.power).overlap(data.force)
        return _ONE_STEP * float(np.min(data.speed / overlap, initial=np.inf)) if data.nc else 1.0

    @property
    def name(self) -> str:
        """Name and power."""
        how = f"{self.form} form" if self.epsilon is None else f"one step, ε = {self.epsilon:.3g}"
        return f"CompatibleCD ({how}, p = {self.power:g})"

    def solve(
        self,
        backend: str | Backend | None = None,
        classic: str | Backend | StepSolution | None = None,
        *,
        tol: float = TOLERANCE,
        warm_start: StepSolution | WarmStart | None = None,
        verbose: bool = False,
        check: bool = True,
        time_limit: float | None = None,
        **options: Any,
    ) -> StepSolution:
        """Both steps.

        Parameters
        ----------
        backend : for the second step, by default "newton", or "clarabel" where constraints were
            added; ``options`` are its settings.
        classic : for the first step: a backend, or an existing classic solution of this step,
            which is certified again; by default the same backend and settings.
        tol, warm_start, verbose, check : as in ``Formulation.solve``.
        time_limit : seconds for both steps. If the first ends without certified forces for lack of
            time, its solution is returned.

        Returns
        -------
        StepSolution with ``f`` compatible, ``v_next`` and ``gap`` of the first step,
        ``classic`` the first solution, ``certificates`` "classic" and "forces", and
        ``provenance["closed"]`` the closed network with its tolerances.

        Raises
        ------
        InvalidInput, BackendUnavailable, Unsupported : before solving.
        SolveFailed : one of the steps left no iterate, or is proven infeasible.
        """
        if warm_start is not None:
            checks.instance("warm_start", warm_start, StepSolution, WarmStart)
        time_limit = checks.optional(checks.not_negative, "time_limit", time_limit)
        extended = self.epsilon is not None and self.compliant_cd.extended
        usual = "clarabel" if extended else "newton"
        chosen = resolve(usual if backend is None else backend, **options)
        deadline = Deadline.after(time_limit)
        common: dict[str, Any] = {"tol": tol, "verbose": verbose, "check": check}
        if self.epsilon is not None:
            if classic is not None:
                raise InvalidInput("classic", checks.describe(classic), "none: there is one step")
            solution = self.compliant_cd.solve(
                chosen, warm_start=warm_start, time_limit=time_limit, **common
            )
            record = {**solution.provenance, "epsilon": self.epsilon}
            return dataclasses.replace(solution, formulation=self.name, provenance=record)
        if isinstance(classic, StepSolution):
            first = self.certified_here(classic, tol)
        else:
            start = warm_start.classic if isinstance(warm_start, StepSolution) else None
            first = self.classic_cd.solve(
                chosen if classic is None else classic,
                warm_start=start or warm_start,
                time_limit=time_limit,
                **common,
            )
        if first.f is None:
            return dataclasses.replace(
                first, formulation=self.name, classic=first, certificates=_as_classic(first)
            )
        network = self.network(first)
        earlier: WarmStart | None = None  # on the present closed contacts
        if isinstance(warm_start, StepSolution):
            warm_start = None if warm_start.f is None else warm_start.warm_start()
        if warm_start is not None:
            forces = warm_start.forces_on(self.step.contact_ids, self.step.nc)
            u = warm_start.motion
            if u is not None and self.joints is not None and u.size == self.joints.given.nv:
                u = self.joints.coordinates(u)
            earlier = WarmStart(forces[network.contacts], u)
        truss = self.elastic_network(network, first)
        if self.springs is not None:  # their forces have no names to be matched by
            earlier = None
        second = truss.solve(chosen, warm_start=earlier, time_limit=deadline.time_limit, **common)
        return self._combine(first, second, network, _covered(second, truss, network))

    def _solve_each(
        self, stack: Stack, backend: Any, *, tol: float = TOLERANCE, **options: Any
    ) -> list[StepSolution]:
        """The solutions of the steps of a ``stack``, all joints of which are rigid."""
        chosen = resolve("newton" if backend is None else backend, **options)
        common: dict[str, Any] = {"tol": tol, "check": False}
        if self.epsilon is not None:
            return self.compliant_cd._solve_each(stack, chosen, **common)
        first = self.classic_cd.solve(chosen, **common)
        classic = split_steps(self.classic_cd, first, stack, tol)
        if first.f is None:
            return classic
        own = np.array([self._closed_tol(one) for one in classic])
        network = self._network(first, own[stack.contact])
        truss = self.truss(network)
        second = truss.solve(chosen, **common)
        return self._split((first, second), (network, truss), stack, classic, tol)

    def _split(
        self,
        answers: tuple[StepSolution, StepSolution],
        second: tuple[ClosedNetwork, NoTensionTruss],
        stack: Stack,
        classic: list[StepSolution],
        tol: float,
    ) -> list[StepSolution]:
        """The solution of each step of a ``stack``, from both ``answers`` for the whole."""
        (network, truss), iterate = second, answers[1].iterate
        if iterate is None:
            return [dataclasses.replace(one, certificates={}) for one in classic]
        free = slice(None) if self.joints is None else self.joints.motions.free
        groups = stack.groups(truss.data.parts, stack.dof[free], network.contacts)
        of_dof = groups.of_part[truss.data.parts.dof]
        condition = _of_first_step(iterate, truss, network)
        closed = np.bincount(stack.contact[network.contacts], minlength=stack.count).tolist()
        each = []
        for certificate, more, objective, many, one in zip(
            certify_each(truss.data, iterate.motion, iterate.forces, groups, tol),
            residuals_of_each((condition,), groups),
            total_by(groups.of_part, truss._objectives(iterate), stack.count).tolist(),
            closed,
            classic,
            strict=True,
        ):
            forces = changed(certificate, residuals=(*certificate.residuals, *more))
            own_tol = self._closed_tol(one)
            record = {"classic": one.as_dict(forces=False)}
            record["closed"] = {"contacts": many, "tol": own_tol, "projected": network.projected}
            own = {"objective": objective, "classic": one, "provenance": record}
            each.append({"certificates": {**_as_classic(one), "forces": forces}, **own})
        whole = self._combine(*answers, network, {})
        fields = {name: getattr(whole, name) for name in ("f", "v_next", "u", "gap", "dual")}
        fields["joint_forces"] = whole.joint_forces
        dual = of_dof if self.form == "complementary" else stack.contact
        owners = {"dual": dual, "rows": stack.contact, "motion": of_dof}
        owners |= {"u": stack.dof if stack.dof.size else of_dof}
        return split(whole, stack, fields, owners, each)

    @cached_property
    def springs(self) -> Eliminated | None:
        """The step in coordinates that satisfy only its rigid joints; None if all are rigid."""
        if self.joints is None or not self.joints.soft.size:
            return None
        return eliminated(self.joints.given, springs=True)

    def elastic_network(self, network: ClosedNetwork, classic: StepSolution) -> NoTensionTruss:
        """Equation (36) on the contacts of a closed ``network``, and on joints of finite stiffness.

        The joints come last, ``classic`` has their forces. Without such joints it is ``truss``.

        Raises
        ------
        InvalidInput : a classic solution without forces of joints.
        """
        springs = self.springs
        if springs is None or springs.kept is None:
            return self.truss(network)
        reactions = checks.instance("classic", classic, StepSolution).joint_forces
        if reactions is None:
            raise InvalidInput("classic", "no joint forces", "a classic solution of this step")
        kept, contacts, step = springs.kept, network.contacts, springs.step
        rows = checks.freeze(sp.csr_array(sp.vstack([step.B[contacts], kept.J])))
        forces = np.append(network.forces[contacts], reactions[springs.soft])
        stiffness = np.append(step.stiffness[contacts], kept.stiffness)
        truss = truss_data(
            rows,
            checks.vector("contact_load", rows.T @ forces, step.nv, "N"),
            PowerLaw(read_only(stiffness), self.power),
            dof_body=step.dof_body,
            two_sided=np.arange(forces.size) >= contacts.size,
        )
        return NoTensionTruss.of(truss, self.form)

    def network(self, classic: StepSolution) -> ClosedNetwork:
        """The closed contacts of a classic solution and the load they deliver.

        Raises
        ------
        InvalidInput : the solution has no forces on the contacts of this step.
        """
        checks.instance("classic", classic, StepSolution)
        return self._network(classic, self._closed_tol(classic))

    def _closed_tol(self, classic: StepSolution) -> float:
        """The relative gap speed up to which contacts of a classic solution may be closed."""
        if self.closed_tol is not None:
            return self.closed_tol
        worst = 0.0 if classic.certificate is None else classic.certificate.worst
        return max(_CLOSED_FLOOR, _CLOSED_FACTOR * worst if np.isfinite(worst) else 0.0)

    def _network(self, classic: StepSolution, tol: float | FloatArray) -> ClosedNetwork:
        """The closed contacts, by one tolerance or (nc,) one for each."""
        data = self.classic_cd.data
        f, gap, motion = classic.f, classic.gap, self.classic_cd.motion_of(classic)
        foreign = motion is not None and motion.shape != (data.nv,)
        if f is None or gap is None or foreign or not f.shape == gap.shape == (data.nc,):
            raise InvalidInput("classic", "no forces of this step", "a classic solution of it")
        local = data.scales.local(motion, f)
        A = data.B if data.N is None else data.N  # N = Nᵀ
        gap_tol = tol * local.speed + step_scales(data).position_round_off
        moving = np.bincount(rows_of(A), minlength=data.nc) > 0  # others stay unloaded
        closed: BoolArray = ((gap <= gap_tol) | (f > gap_tol / data.mobility)) & moving
        again, uncertain = resolved(data, f, gap, closed, local)
        forces = np.where(closed, np.maximum(f, 0.0), 0.0)
        spread = float(transposed_times_size(A, np.maximum(np.abs(f), data.force)).max(initial=0.0))
        lost = float(np.abs(transposed_times(A, f - forces)).max(initial=0.0))
        return ClosedNetwork._of(
            contacts=np.flatnonzero(closed),
            tol=float(np.max(tol, initial=0.0)),
            gap_tol=gap_tol,
            forces=again,
            contact_load=transposed_times(A, again),
            acting=local.acting / data.dt,
            projected=lost / spread if spread > 0.0 else 0.0,
            uncertain=uncertain,
        )

    def truss(self, network: ClosedNetwork) -> NoTensionTruss:
        """Equation (36) on the closed network; with only N, N f = N f_classic."""
        checks.instance("network", network, ClosedNetwork)
        step, contacts, data = self.step, network.contacts, self.classic_cd.data
        more: dict[str, Any] = {}
        if data.N is None:
            same, last = data.cache.get("truss", (_NONE, None))
            if np.array_equal(same, contacts) and last.compliance.power == self.power:
                load = checks.vector("contact_load", network.contact_load, data.nv, "N")
                return NoTensionTruss.of(under_load(last, load, network.acting), self.form)
            B = data.B if contacts.size == data.nc else rows_at(data.B, contacts)
            gradient, load = checks.freeze(B), network.contact_load
            more = {"step_bodies": data.bodies, "step_acting": network.acting}
        else:  # Lᵀf = Lᵀf_classic has the solutions of N f = N f_classic, better conditioned
            closed = sp.csr_array(step.N[contacts][:, contacts])
            gradient = checks.gap_gradient(delassus_root(closed, _RANK_TOL))
            load = np.asarray(gradient.T @ network.forces[contacts])
        ids = step.contact_ids
        truss = truss_data(
            gradient,
            checks.vector("contact_load", load, gradient.shape[1], "N"),
            PowerLaw(read_only(step.stiffness[contacts]), self.power),
            contact_ids=None if ids is None else read_only(ids[contacts]),
            dof_body=step.dof_body,
            **more,
        )
        if data.N is None:
            data.cache["truss"] = contacts, truss  # for other loads
        return NoTensionTruss.of(truss, self.form)

    def latex(self) -> str:
        """Both problems as mathematics, or the single one."""
        if self.epsilon is not None:
            return self.compliant_cd.latex()
        second = align(
            r"\mathcal{C} &= \{ i : (B v^+ + b)_i \le \mathrm{tol} \text{ or } f^\mathrm{classic}_i"
            r" > \mathrm{tol}_f \}, \qquad \tilde F = B_\mathcal{C}^\mathsf{T} "
            r"f^\mathrm{classic}_\mathcal{C}",
            rf"\min_{{f \in \mathbb{{R}}^{{{self.step.nc}}}}}\quad & "
            + conjugate_latex(self.power, contacts=r"i \in \mathcal{C}"),
            r"\text{s.t.}\quad & B_\mathcal{C}^\mathsf{T} f_\mathcal{C} = \tilde F, \quad "
            r"f_\mathcal{C} \ge 0, \quad f_i = 0 \text{ for } i \notin \mathcal{C}",
        )
        return self.classic_cd.latex() + "\n" + second

    def _repr_latex_(self) -> str:
        """The formulas in a notebook."""
        return self.latex()

    @property
    def problem(self) -> cp.Problem:
        """The cvxpy.Problem of the one-step method.

        Raises
        ------
        Unsupported : with two steps there are two problems, the second made from the answer of
            the first.
        """
        return self._one_step("problem").problem

    @property
    def forces(self) -> cp.Expression | None:
        """CVXPY expression of f (nc,), N, of the one-step method; errors as of ``problem``."""
        return self._one_step("forces").forces

    @property
    def velocity(self) -> cp.Expression | None:
        """CVXPY expression of v⁺ (nv,), m/s, of the one-step method; errors as of ``problem``."""
        return self._one_step("velocity").velocity

    def with_constraints(self, *constraints: cp.Constraint) -> Self:
        """The one-step method with added constraints, as ``Formulation.with_constraints``.

        Raises
        ------
        Unsupported : with two steps. InvalidInput : as of a formulation.
        """
        return self._with(self._one_step("with_constraints").with_constraints(*constraints))

    def with_objective(self, expression: cp.Expression) -> Self:
        """The one-step method with one more ``expression`` to minimise, in N m/s.

        Raises
        ------
        Unsupported : with two steps. InvalidInput : as of ``Formulation.with_objective``.
        """
        return self._with(self._one_step("with_objective").with_objective(expression))

    def dual(self, constraint: cp.Constraint) -> Any:
        """The multiplier of an added ``constraint``, as ``Formulation.dual``.

        Raises
        ------
        Unsupported : with two steps. InvalidInput : as of ``Formulation.dual``.
        """
        return self._one_step("dual").dual(constraint)

    def _one_step(self, what: str) -> CompliantCD:
        """The one problem."""
        if self.epsilon is None:
            each = ("classic_cd", "truss(network(classic_solution))", "method='one-step'")
            raise Unsupported(f"CompatibleCD.{what}", "it solves two problems in turn", each)
        return self.compliant_cd

    def _with(self, compliant_cd: CompliantCD) -> Self:
        other = copy.copy(self)
        other.compliant_cd = compliant_cd
        return other

    # --- pieces ------------------------------------------------------------------------

    def certified_here(self, classic: StepSolution, tol: float = TOLERANCE) -> StepSolution:
        """A given classic solution, its gap and certificate computed from this step's data.

        ``tol`` is the certificate's.

        Raises
        ------
        InvalidInput : it has no forces or motion of this step.
        """
        checks.instance("classic", classic, StepSolution)
        data = self.classic_cd.data
        f, motion = classic.f, self.classic_cd.motion_of(classic)
        if f is None or f.shape != (data.nc,) or (motion is None) != (data.nv == 0):
            raise InvalidInput("classic", repr(classic), "a classic solution of this step")
        certificate = certify(data, motion, f, tol)
        gap = data.gap(motion, f)
        return dataclasses.replace(classic, gap=gap, certificates={"forces": certificate})

    def _combine(
        self,
        first: StepSolution,
        second: StepSolution,
        network: ClosedNetwork,
        covered: dict[str, Certificate],
    ) -> StepSolution:
        """The second solution on all contacts, with motion and gap of the first.

        ``covered`` replaces its certificate.
        """

        def everywhere(forces: Any) -> Any:
            """Forces on the closed contacts, zero elsewhere."""
            if forces is None:
                return None
            result = np.zeros(self.step.nc)
            result[network.contacts] = forces[: network.contacts.size]
            return read_only(result)

        iterate, dual, f = second.iterate, second.dual, everywhere(second.f)
        more: dict[str, Any] = {}
        if self.joints is not None and first.v_next is not None and f is not None:
            joints = self.springs or self.joints
            of_springs = np.asarray(second.f)[network.contacts.size :]
            reactions = joints.reactions(first.v_next, f, springs=of_springs)
            u = None if second.u is None else read_only(joints.motions.Z @ second.u)
            more = {"joint_forces": read_only(reactions), "u": u}
        closed: dict[str, Any] = {"contacts": int(network.contacts.size)}
        closed |= {"tol": network.tol, "projected": network.projected}
        classic_timings = {f"classic {name}": t for name, t in first.timings.items()}
        record = {**second.provenance, "classic": first.as_dict(forces=False), "closed": closed}
        certificates = {**_as_classic(first), **second.certificates, **covered}
        return changed(
            second,
            f=f,
            v_next=first.v_next,
            gap=first.gap,
            dual=everywhere(dual) if self.form == "potential" else dual,
            certificates=MappingProxyType(certificates),
            claimed=first.claimed and second.claimed,
            formulation=self.name,
            timings=MappingProxyType({**classic_timings, **second.timings}),
            iterate=iterate and changed(iterate, forces=everywhere(iterate.forces)),
            classic=first,
            contact_ids=self.step.contact_ids,
            names=self.step.names,
            provenance=MappingProxyType(record),
            **more,
        )

    def __repr__(self) -> str:
        return f"{self.name} ({self.step.nc:,} contacts)"


def _of_first_step(iterate: Iterate, truss: NoTensionTruss, network: ClosedNetwork) -> Condition:
    """What the first step did to the forces of the second, for its certificate."""
    f, many = np.asarray(iterate.forces), network.contacts.size
    uncertain = np.zeros(f.size)
    uncertain[:many] = network.uncertain[network.contacts]
    return first_step(truss.data, iterate.motion, f, uncertain, unit_columns(f > 0.0))


def _covered(
    second: StepSolution, truss: NoTensionTruss, network: ClosedNetwork
) -> dict[str, Certificate]:
    """The certificate of the second solution, with the effect of the first step on its forces."""
    iterate, certificate = second.iterate, second.certificate
    if iterate is None or iterate.motion is None or certificate is None:
        return {}
    more = residuals_of(_of_first_step(iterate, truss, network))
    return {"forces": changed(certificate, residuals=(*certificate.residuals, *more))}


def _as_classic(first: StepSolution) -> dict[str, Certificate]:
    """The certificate of the first step under its name in a compatible solution."""
    return {} if first.certificate is None else {"classic": first.certificate}
