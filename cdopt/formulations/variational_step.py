"""One step of the variational integrator of De Klerk et al. (2021) as one convex problem.

The step from q to q + Δq evaluates the potential at q_α = q + α Δq. With f = w′(−g₀ − αBΔq)::

    R = mom − MΔq/h + h(1−α)(F_ext + Bᵀf) + Q⁻ + Qᵖ = 0
    mom⁺ = MΔq/h + hα(F_ext + Bᵀf) + Q⁺

These are their (29)–(31), corrected: in print Q has the wrong sign, V is taken at q_k instead of
q_α, and its Hessian is missing from the tangent. hR = −∇Ψ, with the convex::

    Ψ(Δq) = ½ΔqᵀMΔq − h bᵀΔq + (h/4)ΔqᵀCΔq + h²((1−α)/α) Σ w(−g₀ − αBΔq)
    b     = mom + Qᵖ + h(1−α)F_ext + ½h drive

whose dual is, with A = M + (h/2)C::

    minimise over f ≥ 0    ½ fᵀN_αf + p_αᵀf + (1/(αh)) Σ w*(f)
    N_α = h(1−α) B A⁻¹Bᵀ,  p_α = g₀/(αh) + B A⁻¹b

This is compliant contact dynamics with the mean velocity v̄ = Δq/h, the mass matrix (α/(1−α)) A,
the time step αh and the physical forces f. Two-sided contacts (bonds), f = −k(g₀ + αBΔq) of both
signs, add h²α(1−α)BᵀkB to A and −h(1−α)Bᵀk g₀ to b. With α = 0 forces are explicit and Ψ quadratic.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import cvxpy as cp
import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from cdopt._util import checks
from cdopt._util.checks import FloatArray, read_only
from cdopt._util.errors import InvalidInput, Unsupported
from cdopt._util.frozen import Frozen
from cdopt.backends.base import computed_once
from cdopt.formulations.base import FORMS
from cdopt.formulations.compliant_cd import ElasticStep
from cdopt.formulations.printing import align, conjugate_latex
from cdopt.formulations.statement import InForces
from cdopt.problem import Sliders, elastic_data
from cdopt.problem.certificate import TOLERANCE, Certificate
from cdopt.problem.contact_law import PowerLaw
from cdopt.problem.contact_step import ContactStep
from cdopt.problem.joint_elimination import Eliminated
from cdopt.problem.mass import MassMatrix
from cdopt.problem.residual import EPS, Condition, residuals_of
from cdopt.problem.scaling import largest_by, rows_of, scaled
from cdopt.problem.sliders import StepSliders
from cdopt.problem.solution import Iterate, WarmStart
from cdopt.problem.step import Step

LEAST_ALPHA = 1e-9  # a smaller one is zero to round-off in gaps
_SLIDERS = (
    r" + h^2 (1-\alpha) \sum_i \min_{s_i}\ \tfrac{K_i}{2} "
    r"\lVert (B_t \Delta q)_i - t_i / K_i + s_i \rVert^2 + c_i \lVert s_i \rVert"
)
_NOISE = 8.0 * float(np.finfo(np.float64).eps)  # of the terms of a load, what is round-off
_SYMMETRY_TOL = 1e-10  # asymmetry beyond this share of the largest entry is no round-off
_SEMIDEFINITE_TOL = 1e-9  # of each dof's damping: an eigenvalue may be this far below zero


# --- dissipation Q = −C q̇ + drive over one step ------------------------------------------


class StepDamping:
    """Viscous damping in one step of length h.

    Parameters
    ----------
    matrix : C (nv, nv) at q_α, symmetric positive semidefinite, N s/m and N m s.
    drive : (nv,) N and N·m, forces of moving walls through C at q_α; default none.
    split : "forced", Q⁻ and Q⁺, of second order; or "paper", Q⁻ and Qᵖ, of first.
    start : C and drive, (nv, nv) and (nv,), at q, in Qᵖ of the paper's split; default those at q_α.
    end : C and drive, (nv, nv) and (nv,), at q_{1−α}, in Q⁺ of the forced split; default those
        at q_α.

    Raises
    ------
    InvalidInput : no such split; a matrix of the wrong size, not symmetric, or with a negative
        eigenvalue; a drive of the wrong length.
    """

    __setstate__ = Frozen.__setstate__  # arrays of copies are read-only too

    def __init__(
        self,
        matrix: Any,
        drive: Any = None,
        split: str = "forced",
        start: tuple[Any, Any] | None = None,
        end: tuple[Any, Any] | None = None,
    ) -> None:
        self.split = checks.choice("damping", split, ("paper", "forced"))
        self.matrix = _damping_matrix("damping_matrix", matrix, None)
        nv = self.matrix.shape[0]
        drive = np.zeros(nv) if drive is None else drive
        self.drive = checks.vector("damping drive", drive, nv, "N")
        self.start, self.end = (
            (self.matrix, self.drive)
            if pair is None
            else (_damping_matrix(name, pair[0], nv), checks.vector(name, pair[1], nv, "N"))
            for name, pair in (("damping start", start), ("damping end", end))
        )

    def minus(self, u: FloatArray, h: float) -> FloatArray:
        """Q⁻ = −½ C Δq + ½ h drive (nv,), N s, for u = Δq (nv,) and ``h`` in s."""
        u, h = checks.vector("u", u, self.drive.size), checks.positive("h", h)
        return np.asarray(0.5 * (h * self.drive - self.matrix @ u))

    def past(self, v: FloatArray, h: float) -> FloatArray:
        """Qᵖ = −½ h C v + ½ h drive (nv,), N s, for v = M⁻¹ mom (nv,); zero when forced."""
        v, h = checks.vector("v", v, self.drive.size), checks.positive("h", h)
        if self.split == "forced":
            return np.zeros_like(v)
        C, drive = self.start
        return np.asarray(0.5 * h * (drive - C @ v))

    def plus(self, u: FloatArray, h: float) -> FloatArray:
        """Q⁺ = −½ C Δq + ½ h drive (nv,), N s, for u = Δq (nv,); zero in the paper's split."""
        u, h = checks.vector("u", u, self.drive.size), checks.positive("h", h)
        if self.split == "paper":
            return np.zeros_like(u)
        C, drive = self.end
        return np.asarray(0.5 * (h * drive - C @ u))


def _damping_matrix(name: str, value: Any, nv: int | None) -> sp.csr_array:
    """A symmetric positive semidefinite matrix (nv, nv), sparse or dense.

    In units of each dof's damping it must factorise after a small shift.
    """
    C = checks.symmetric(name, checks.matrix(name, value, nv, nv), _SYMMETRY_TOL)
    if not C.nnz:
        return C
    diagonal = C.diagonal()
    free = diagonal == 0.0
    try:
        if np.any(diagonal < 0.0) or np.any(free[C.indices]):
            raise InvalidInput(name, "a diagonal entry that is too small", "")
        unit = 1.0 / np.sqrt(np.where(free, 1.0, diagonal))
        shift = sp.diags_array(np.where(free, 1.0, _SEMIDEFINITE_TOL))
        MassMatrix(sp.csr_array(scaled(C, unit, unit) + shift))
    except InvalidInput:
        expected = "a positive semidefinite matrix"
        raise InvalidInput(name, "a negative eigenvalue", expected) from None
    return C


# --- the step ------------------------------------------------------------------------------


class VariationalStep(ElasticStep):
    """One step of the variational integrator, its gaps linear in Δq.

    Parameters
    ----------
    step : M, B, F_ext, dt = h, and ``phi`` = g₀, the gaps at q of a step linearised there. One
        linearised again at q̂_α has B taken there and g₀ = Φ(q̂_α) − αB(q̂ − q). ``stiffness`` is k
        itself, N/m^(p−1); ``gap_rate`` adds αh gap_rate to g₀. ``v`` is ignored.
    mom : (nv,) generalised momentum at the start, kg m/s and kg m²/s.
    alpha : α in [0, 1), the point of the step at which forces are evaluated; ½ is of second order.
    power : p > 1 of the contact energy: 2 Hooke, 5/2 Hertz; by default that of the step.
    damping_matrix : C (nv, nv) at q_α, symmetric positive semidefinite, N s/m and N m s.
    damping : "forced", Q⁻ and Q⁺, of second order; or "paper", Q⁻ and Qᵖ, of first; or a
        ``StepDamping``, where C changes in the step or walls move, and then no damping_matrix.
    two_sided : (nc,) bool, contacts that also pull: linear springs, k in N/m for any power.
    form : "velocity" for the primal, easier to solve in short steps; "force" for the dual, not
        available with sliders.
    sliders : friction with the normal force of a predicted state, ``cdopt.formulations.Sliders``
        with a cap of zero on two-sided contacts; α must not be zero.

    Attributes
    ----------
    gaps : g₀ (nc,), m, including ``gap_rate``.
    forces : CVXPY expression of f (nc,), N (force form).
    velocity : CVXPY expression of v̄ = Δq/h (nv,), m/s (velocity form).
    displacement : CVXPY expression of Δq (nv,), m (velocity form).

    Raises
    ------
    InvalidInput : a bad argument.
    Unsupported : a step known by N and p alone, or with restitution; sliders with α = 0 or in
        force form; joints of finite stiffness with α = 0.

    Notes
    -----
    De Klerk et al. (2021), (29)–(31) corrected. A solution has

    - ``f`` (nc,) N, forces at q_α, those of two-sided contacts of both signs;
    - ``u`` = Δq (nv,) m; ``mom`` = mom⁺ (nv,) kg m/s, the sum of all impulses of the step, so that
      opposite forces conserve it exactly; ``v_next`` = M⁻¹mom⁺;
    - ``gap`` = g₀ + αBΔq (nc,) m;
    - of a step with joints, J Δq/h + rate = 0, ``joint_forces`` (nj,) N at q_α, among the impulses;
      those of finite stiffness have r = k|c|^(p−1) sign c with c = −α(J Δq + h rate), so that a
      spring that is e longer than at rest at q has rate = e/(αh);
    - with sliders ``f_t`` (nc, d − 1) N, P(t − (α k_t + c/h) s) with s = B_tΔq + h rate;
      they are among the impulses;
    - ``dual`` of the one-sided contacts: p_α + N_αf in m/s (force form), αh f (velocity form).

    The certificate is that of ``data``, whose forces are f of the one-sided contacts, whose motion
    is v̄ and whose primal energy is (α/(1−α))(Ψ/h² + ½ bᵀA⁻¹b) = −αh times the dual.

    >>> import cdopt
    >>> ball = cdopt.ContactStep(M=[[1.0]], B=[[1.0]], phi=[0.0], v=[0.0], F_ext=[0.0], dt=0.1,
    ...                          stiffness=100.0)
    >>> hit = cdopt.VariationalStep(ball, mom=[-1.0]).solve("newton")
    >>> hit.u.round(9), hit.f.round(9), hit.mom.round(9)  # −1 + ½·0.1·4 = −0.8; −1 + 0.1·4 = −0.6
    (array([-0.08]), array([4.]), array([-0.6]))
    """

    def __init__(
        self,
        step: Step,
        mom: Any,
        alpha: float = 0.5,
        power: float | None = None,
        damping_matrix: Any = None,
        damping: str | StepDamping = "forced",
        two_sided: Any = None,
        form: str = "velocity",
        sliders: Sliders | None = None,
    ) -> None:
        if sliders is not None:
            checks.instance("sliders", sliders, Sliders)
        alpha = checks.share("alpha", alpha)
        power = checks.optional(checks.power, "power", power)
        form = checks.choice("form", form, FORMS)
        step = self.step = self._take(step, form)
        if np.any(step.restitution):
            why = f"restitution {float(step.restitution.max()):g} is a law of rigid impact"
            raise Unsupported("VariationalStep", f"{why}; elastic contacts rebound by their energy")
        if alpha == 1.0 or 0.0 < alpha < LEAST_ALPHA:
            raise InvalidInput("alpha", f"{alpha!r}", f"0, or from {LEAST_ALPHA:g} to below 1")
        self.alpha = alpha
        self.gaps = read_only(step.phi + self.alpha * step.dt * step.gap_rate)
        self.mom = checks.vector("mom", mom, step.nv, "kg m/s")
        self.law = PowerLaw(step.stiffness, power or step.power)
        self.damping = _damping(damping, damping_matrix, step.nv)
        bonds = np.zeros(step.nc, dtype=bool) if two_sided is None else two_sided
        self.two_sided = checks.array("two_sided", bonds, f"{step.nc} flags").copy()
        if self.two_sided.shape != (step.nc,) or (step.nc and self.two_sided.dtype.kind != "b"):
            raise InvalidInput("two_sided", checks.describe(bonds), f"{step.nc} flags")
        self._unknown = np.flatnonzero(~self.two_sided if self.alpha > 0.0 else [])
        law = PowerLaw(self.law.stiffness[self._unknown], self.law.power)
        self.sliders = sliders
        compliant = self._keep_joints(self._compliant())
        if self.springs is not None and self.alpha == 0.0:
            why = "they are without force at the start of the step, and would never have any"
            raise Unsupported("joints of finite stiffness with alpha 0", why, ("alpha=0.5",))
        if sliders is None:
            self.data = elastic_data(compliant, law, springs=self.springs)
            return
        caps, columns, shape = sliders.cap.size, sliders.B_t.shape[1], (step.nc, step.nv)
        if (caps, columns) != shape:
            raise InvalidInput("sliders", f"{caps} caps, B_t of {columns} columns", f"{shape}")
        if self.alpha == 0.0 or form == "force":
            why = "their energy is stated in velocities, and needs the slip of the step"
            instead = ("alpha=0.5", 'form="velocity"')
            raise Unsupported("sliders with alpha 0 or in force form", why, instead)
        if np.any(sliders.cap[self.two_sided] > 0.0):
            raise InvalidInput("cap", "a force at a two-sided contact", "zero there")
        if self.joints is not None:
            sliders = _kept(sliders, self.joints)
        of_step = StepSliders(sliders, self.alpha, step.dt)
        self.data = elastic_data(compliant, law, of_step, self.springs)

    @computed_once
    def displacement(self) -> cp.Expression | None:
        """CVXPY expression of Δq (nv,), m; None in force form."""
        return None if self.velocity is None else self.step.dt * self.velocity

    @computed_once
    def forces(self) -> cp.Expression | None:
        """CVXPY expression of f (nc,), N, bonds included; None in velocity form."""
        unknown = self.statement.forces
        if unknown is None or not isinstance(self.statement, InForces):
            return None
        return self._all_forces(unknown[: self._contact_rows], self.statement.w)

    # --- the problem as compliant contact dynamics -------------------------------------

    def _compliant(self) -> ContactStep:
        """The equivalent elastic step in v̄ = Δq/h: mass (α/(1−α)) A, time step αh."""
        h, alpha, step, B = self.step.dt, self.alpha, self.step, self.step.B
        b, C = self._impulse(), self.damping.matrix
        A = step.M + (0.5 * h) * C if C.nnz else step.M
        weight, duration = 1.0, h
        try:
            with np.errstate(all="ignore"):  # what is not finite the step refuses
                k = np.where(self.two_sided, step.stiffness, 0.0)
                if alpha == 0.0:
                    b = b + h * (B.T @ self._force(-self.gaps))
                else:
                    weight, duration = alpha / (1.0 - alpha), alpha * h
                if alpha > 0.0 and k.any():
                    A = A + (h * h * alpha * (1.0 - alpha)) * (B.T @ sp.csr_array(B * k[:, None]))
                    b = b - h * (1.0 - alpha) * (B.T @ (k * self.gaps))
                A = A if weight == 1.0 else weight * A
                mass = step.mass if A is step.M else MassMatrix(checks.matrix("M", A, None, None))
                start = self._velocity(self.mom)
                push = weight * b - mass.times(start)
                noise = _NOISE * (weight * np.abs(b) + mass.times_size(start))
                push = np.where(np.abs(push) > noise, push, 0.0) / duration  # none in free flight
            rows = {**step._rows(self._unknown), "friction": None}
            return step.replace(**rows, M=mass, v=start, F_ext=push, dt=duration)  # v* = A⁻¹b
        except InvalidInput as error:
            if error.argument != "M":
                raise
            stiffest = f"{k.max(initial=0.0):.1e} N/m"
            found = f"M + h²α(1-α) BᵀkB singular to 16 digits, k up to {stiffest}"
            raise InvalidInput("stiffness", found, "softer bonds or a shorter step") from error

    def _impulse(self) -> FloatArray:
        """b (nv,), kg m/s: mom + Qᵖ + h(1−α)F_ext + ½h drive."""
        h, damping = self.step.dt, self.damping
        start = self.mom + h * (1.0 - self.alpha) * self.step.F_ext + 0.5 * h * damping.drive
        return np.asarray(start + damping.past(self._velocity(self.mom), h))

    def _velocity(self, mom: FloatArray) -> FloatArray:
        """M⁻¹ mom (nv,), m/s."""
        return self.step.mass.solve(mom)

    def _force(self, overlap: FloatArray) -> FloatArray:
        """f (nc,), N, at overlaps (nc,) in m: w′(c), or k c of two-sided contacts."""
        both = self.law.stiffness * overlap
        return np.where(self.two_sided, both, self.law.force(overlap))

    def _all_forces(self, unknown: cp.Expression, w: cp.Variable) -> cp.Expression:
        """CVXPY expression of f (nc,), N: unknown forces, and those of bonds by the motion."""
        if self.alpha == 0.0:
            return cp.Constant(self._force(-self.gaps))
        nc, index, bonds = self.step.nc, self._unknown, self.two_sided
        if not bonds.any():
            return unknown
        k = np.where(bonds, self.law.stiffness, 0.0)
        reach = sp.csr_array(self.step.B * (self.alpha * self.step.dt * k)[:, None])
        motion = cp.multiply(self.data.dof_speed, w) + self.data.free_motion
        motion = motion if self.joints is None else self._of_bodies(self.joints, motion)
        pull = -reach @ motion - k * self.gaps
        if index.size == 0:
            return pull
        entries = (np.ones(index.size), (index, np.arange(index.size)))
        return sp.csr_array(entries, (nc, index.size)) @ unknown + pull

    # --- Ψ and its gradient ------------------------------------------------------------

    def potential(self, u: Any) -> float:
        """Ψ(Δq) in J s², for u = Δq (nv,) in m.

        With α = 0, where Ψ has no limit, it is Ψ minus its value at Δq = 0.

        Raises
        ------
        InvalidInput : u has the wrong length.
        """
        u = checks.vector("u", u, self.mom.size, "m")
        h, alpha = self.step.dt, self.alpha
        moved = 0.5 * (u @ (self.step.M @ u)) - h * (self._impulse() @ u)
        moved += 0.25 * h * (u @ (self.damping.matrix @ u)) + self._spring_energy(u)
        if alpha == 0.0:
            return float(moved - h * h * (self._force(-self.gaps) @ (self.step.B @ u)))
        c = -self.gaps - alpha * (self.step.B @ u)
        stored = np.where(self.two_sided, 0.5 * self.law.stiffness * c * c, self.law.energy(c))
        if self.sliders is not None:
            moved += h * h * (1.0 - alpha) * self.sliders.potential(u, alpha, h)
        return float(moved + h * h * (1.0 - alpha) / alpha * stored.sum())

    def residual(self, u: Any) -> FloatArray:
        """R(Δq) = −∇Ψ/h (nv,) in kg m/s, for u = Δq (nv,) in m; zero at the solution.

        Of a step with rigid joints it is −h(1−α) Jᵀ times their reactions there.

        Raises
        ------
        InvalidInput : u has the wrong length.
        """
        u = checks.vector("u", u, self.mom.size, "m")
        return self._unbalanced(u, self._force(-self.gaps - self.alpha * (self.step.B @ u)))

    def _unbalanced(self, u: FloatArray, f: FloatArray) -> FloatArray:
        """R (nv,) at u = Δq (nv,) under contact forces f (nc,)."""
        h, alpha = self.step.dt, self.alpha
        load = self.step.B.T @ f + self._slider_load(u) + self._spring_load(u)
        pushed = h * (1.0 - alpha) * load + self._impulse()
        return np.asarray(pushed - self.step.M @ u / h - 0.5 * (self.damping.matrix @ u))

    def _slider_load(self, u: FloatArray) -> FloatArray:
        """B_tᵀf_t (nv,), N and N·m, for u = Δq (nv,)."""
        if self.sliders is None:
            return np.zeros_like(u)
        f_t = self.sliders.forces(u, self.alpha, self.step.dt)
        return np.asarray(self.sliders.B_t.T @ f_t.ravel())

    def _spring_overlap(self, joints: Eliminated, u: FloatArray) -> FloatArray:
        """−α (J Δq + h rate) (n,), m, of the ``joints`` of finite stiffness."""
        soft, h = joints.all.rows(joints.soft), self.step.dt
        return np.asarray(-self.alpha * (soft.J @ u + h * soft.rate))

    def _spring_load(self, u: FloatArray) -> FloatArray:
        """Jᵀr (nv,), N and N·m, of the joints of finite stiffness, for u = Δq (nv,)."""
        if self.joints is None or self.springs is None:
            return np.zeros_like(u)
        law, n = self.data.elastic_law, self.springs.count
        c = np.append(np.zeros(self._contact_rows), self._spring_overlap(self.joints, u))
        return np.asarray(self.joints.all.J[self.joints.soft].T @ law.force(c)[-n:])

    def _spring_energy(self, u: FloatArray) -> float:
        """h²((1−α)/α) Σ w(c), J s², of the joints of finite stiffness, for u = Δq (nv,)."""
        if self.joints is None or self.springs is None:
            return 0.0
        c = np.append(np.zeros(self._contact_rows), self._spring_overlap(self.joints, u))
        share = self.step.dt**2 * (1.0 - self.alpha) / self.alpha
        return share * float(self.data.elastic_law.energy(c).sum())

    # --- reading and writing -----------------------------------------------------------

    @property
    def _particulars(self) -> list[str]:
        form, power = f"{self.form} form", f"p = {self.law.power:g}"
        sliders = [] if self.sliders is None else ["sliders"]
        return [form, f"α = {self.alpha:g}", power, f"{self.damping.split} damping", *sliders]

    @property
    def _quadratic(self) -> bool:
        sliders = self.data.sliders
        round_cones = sliders is not None and sliders.cap.size and sliders.start.shape[1] > 1
        return super()._quadratic and not round_cones

    def certify(self, iterate: Iterate, tol: float = TOLERANCE) -> Certificate:
        """The certificate of an ``iterate`` at ``tol``; of bonds with a residual of their law.

        Forces of bonds follow from the motion, so that the residual ``law of bonds`` is zero. Its
        resolution is the effect of round-off of the motion, k ε (|g₀| + α |B||Δq|), divided by the
        local load of the bond: its force, or that of the momenta and loads of its bodies if that is
        larger.
        """
        certificate = super().certify(iterate, tol)
        bonds = np.flatnonzero(self.two_sided)
        if self.alpha == 0.0 or not bonds.size or iterate.motion is None:
            return certificate
        h, B = self.step.dt, sp.csr_array(self.step.B[bonds])
        motion = np.asarray(iterate.motion)
        u = h * (motion if self.joints is None else self.joints.full(motion))
        spread = EPS * (np.abs(self.gaps[bonds]) + self.alpha * (abs(B) @ np.abs(u)))
        force = self._force(-self.gaps - self.alpha * (self.step.B @ u))[bonds]
        moved = np.abs(self._impulse()) + np.abs(self.step.M @ u) / h
        felt = (moved / (h * (1.0 - self.alpha)))[B.indices] / np.abs(B.data)
        acting = largest_by(rows_of(B), felt, bonds.size)
        none, blur = np.zeros(bonds.size), self.law.stiffness[bonds] * spread
        law = Condition("law of bonds", "N", none, np.maximum(np.abs(force), acting), blur, True)
        return dataclasses.replace(
            certificate, residuals=(*certificate.residuals, *residuals_of(law))
        )

    @property
    def _row_ids(self) -> NDArray[Any] | None:
        ids = self.contact_ids
        return None if ids is None else ids[self._unknown]

    def seed(self, start: WarmStart) -> None:
        """Write forces and the motion they cause into the variables."""
        checks.instance("start", start, WarmStart)
        f = start.forces_on(self.contact_ids, self.step.nc)
        super().seed(WarmStart(f[self._unknown]))

    def _with_joints(
        self, joints: Eliminated, fields: dict[str, Any]
    ) -> dict[str, FloatArray | None]:
        """Nothing: the fields are those of all bodies."""
        return {}

    def _fields(self, iterate: Iterate) -> dict[str, FloatArray | None]:
        h, damping, joints = self.step.dt, self.damping, self.joints
        motion = np.asarray(iterate.motion)
        u = h * (motion if joints is None else joints.full(motion))
        gap = self.gaps + self.alpha * (self.step.B @ u)
        known, reactions = super()._fields(iterate), None
        f, unknown = self._force(-gap), iterate.forces[: self._contact_rows]
        f[self._unknown] = unknown
        pushed = self.step.B.T @ f + self._slider_load(u) + self.step.F_ext
        if joints is not None:
            loaded = joints.load(unknown) + self._slider_load(u)
            reactions = joints.balance(u / h, loaded, known.get("joint_forces"))
            pushed = pushed + joints.all.J.T @ reactions
        mom = self.mom + h * pushed + damping.minus(u, h)
        mom = mom + damping.past(self._velocity(self.mom), h) + damping.plus(u, h)
        fields = {"f": f, "u": u, "mom": mom, "v_next": self._velocity(mom), "gap": gap}
        fields |= {"dual": known["dual"], "joint_forces": reactions}
        if self.sliders is None:
            return fields
        return {**fields, "f_t": self.sliders.forces(u, self.alpha, h)}

    def latex(self) -> str:
        """The problem as mathematics."""
        nv, p = self.mom.size, self.law.power
        if self.alpha == 0.0:
            return align(
                rf"\min_{{\Delta q \in \mathbb{{R}}^{{{nv}}}}}\quad & "
                r"\tfrac12 \Delta q^\mathsf{T} (M + \tfrac h2 C)\, \Delta q - "
                r"h\, (b + h B^\mathsf{T} f_0)^\mathsf{T} \Delta q"
            )
        if self.form == "velocity":
            return align(
                rf"\min_{{\Delta q \in \mathbb{{R}}^{{{nv}}}}}\quad & "
                r"\tfrac12 \Delta q^\mathsf{T} M \Delta q - h\, b^\mathsf{T} \Delta q + "
                r"\tfrac h4 \Delta q^\mathsf{T} C \Delta q + "
                rf"\tfrac{{h^2 (1-\alpha)}}{{{p:g}\,\alpha}} \sum_i k_i\, "
                rf"[-g_0 - \alpha B \Delta q]_{{i,+}}^{{{p:g}}}"
                + ("" if self.sliders is None else _SLIDERS)
            )
        return align(
            rf"\min_{{f \in \mathbb{{R}}^{{{self._unknown.size}}},\, f \ge 0}}\quad & "
            r"\tfrac12 f^\mathsf{T} N_\alpha f + p_\alpha^\mathsf{T} f + "
            + conjugate_latex(p, divisor=r"\,\alpha h")
        )


def _kept(sliders: Sliders, joints: Eliminated) -> Sliders:
    """The sliders in coordinates that satisfy the joints."""
    along = np.asarray(sliders.B_t @ joints.motions.offset).reshape(sliders.rate.shape)
    return dataclasses.replace(
        sliders, B_t=sp.csr_array(sliders.B_t @ joints.motions.Z), rate=sliders.rate + along
    )


def _damping(damping: str | StepDamping, matrix: Any, nv: int) -> StepDamping:
    """The damping of a caller's arguments."""
    if not isinstance(damping, StepDamping):
        damping = StepDamping(sp.csr_array((nv, nv)) if matrix is None else matrix, split=damping)
    elif matrix is not None:
        raise InvalidInput("damping_matrix", checks.describe(matrix), "none with a StepDamping")
    if damping.matrix.shape != (nv, nv):
        raise InvalidInput("damping_matrix", f"shape {damping.matrix.shape}", f"({nv}, {nv})")
    return damping
