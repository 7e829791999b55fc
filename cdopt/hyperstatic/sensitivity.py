"""sensitivity(): derivatives of compatible forces by stiffness, load, power and friction.

The forces are f = Π(t − D B u) with Bᵀf = F̃. Let S = ∂Π/∂y, and let e be the change of f at fixed
u, which each parameter causes contact by contact. Then

    df = e − S D B du,    K du = Bᵀe − dF̃,    K = Bᵀ S D B.

This is implicit differentiation of the optimality conditions. Without friction, equation (36) of
Olsen & Kamrin (2018), S picks the loaded contacts, D = (p−1) f/c and e = f (d log k + log c dp),
with c = −B u. With friction (``formulations.friction_network``) K is unsymmetric where contacts
slip with the flow of Coulomb, and Π has kinks: contacts at the onset of slip, or with neither force
nor gap.

Without friction a contact with neither force nor gap may take up load or open: the derivative is
then that of another truss, in which loaded contacts push and pull and touching ones cannot pull.
Bonnans & Shapiro, *Perturbation Analysis of Optimization Problems* (2000), section 5.2; where the
motion is not unique, a linear program finds the one that decides which contacts touch, theorem
4.24.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, overload

import numpy as np
import scipy.linalg
import scipy.sparse as sp
from scipy.optimize import nnls
from scipy.sparse.linalg import splu

from cdopt._util import checks
from cdopt._util.checks import BoolArray, FloatArray, IntArray, read_only
from cdopt._util.errors import InvalidInput, SolveFailed, Unsupported
from cdopt._util.frozen import Frozen
from cdopt._util.linear_program import linprog
from cdopt.backends.base import Backend
from cdopt.formulations import CompatibleCD, CompatibleFriction, FrictionNetwork, NoTensionTruss
from cdopt.formulations.friction_network import NetworkForces
from cdopt.hyperstatic import network
from cdopt.problem import ScaledProblem
from cdopt.problem.contact_law import HOOKE, PowerLaw
from cdopt.problem.contact_step import ContactStep, Step
from cdopt.problem.solution import StepSolution

_REFERENCE_BACKEND = "newton"
TOUCHING = 1e-9  # overlap or force, over the network's, within which a contact just touches
_DENSE = 600  # dofs up to which K of a truss is inverted by singular values
_ZERO = 1e-11  # singular values below this share of the largest are zero
_SHIFT = 1e-9  # of a factorised K, over its largest entry; refinement removes its effect
_PASSES = 40
_CLEAN = 1e-11  # relative residual at which refinement ends
_LEFT = 1e-7  # share of a load above which the contacts do not bear it
_OPTIMAL = 1e-8  # largest residual of the optimality conditions
_LARGEST = 3000  # contacts or dofs, for dense algebra


@dataclass(frozen=True, eq=False)
class Gradient(Frozen):
    """Derivatives of one number Σ weights f.

    Attributes
    ----------
    log_stiffness : (nc,) by log k, in units of the number.
    load : (nv,) by F̃, per N and per N·m; not-a-number for a step known by N and p alone.
    power : by p; not-a-number with friction.
    log_ratio, mu : (nc,) by log(k_t/k_n) and by μ; None without friction.
    """

    log_stiffness: FloatArray
    load: FloatArray
    power: float = np.nan
    log_ratio: FloatArray | None = None
    mu: FloatArray | None = None


@dataclass(frozen=True, eq=False)
class Sensitivity(Frozen):
    """First derivatives of the compatible forces f(k, F̃, p), equation (36), at one solution.

    Attributes
    ----------
    truss : the no-tension truss on the closed contacts. solution : of it, certified.
    contacts : (n,) the closed contacts among all ``nc``; open ones keep f = 0.
    nc : number of contacts.
    tol : overlap or force, over the network's, within which a contact just touches.
    known_load : whether F̃ is that of the bodies; not so for steps known by N and p alone.

    Notes
    -----
    Which contacts are closed does not change, nor does what the bodies ask the contacts to bear.
    Where a contact has neither force nor gap and p ≤ 2, derivatives are one-sided: ``along`` is
    there, and the matrices and the gradient raise Unsupported.
    """

    truss: NoTensionTruss
    solution: StepSolution
    contacts: IntArray
    nc: int
    tol: float = TOUCHING
    known_load: bool = True

    # --- the forces --------------------------------------------------------------------

    @cached_property
    def f(self) -> FloatArray:
        """(nc,) N, compatible forces."""
        return self._on_all(np.asarray(self.solution.f))

    @cached_property
    def overlap(self) -> FloatArray:
        """(n,) overlap −B u − opening of the closed contacts, over the network's."""
        scaled, u = self._scaled, np.asarray(self.solution.u)
        return read_only(-(scaled.B @ (u[scaled.used] / scaled.unit)) - scaled.p)

    @cached_property
    def loaded(self) -> BoolArray:
        """(nc,) contacts that carry force."""
        return self._on_all(self._loaded)

    @cached_property
    def touching(self) -> IntArray:
        """Indices of contacts without force and without gap, in every motion that goes with f."""
        tol, p, loaded = self.tol, self._scaled_law.power, self._loaded
        near = ~loaded & (self.overlap >= -max(tol, tol ** (1.0 / (p - 1.0))))
        if near.any():
            rows = np.flatnonzero(loaded | near)
            B = network.equilibrated(sp.csr_array(self._scaled.B[rows]))[0]
            full = network.rank_of(B, 1e-9)
            near[rows] &= network.loadable_of(B, loaded[rows], full, 1e-9)[0]
        return read_only(self.contacts[near])

    @property
    def two_sided(self) -> bool:
        """Whether derivatives by stiffness and power are the same from both sides.

        For p > 2 contacts that just touch have no stiffness, and do no harm.
        """
        return self._law.power > HOOKE or self.touching.size == 0

    # --- matrices ----------------------------------------------------------------------

    @cached_property
    def log_stiffness(self) -> FloatArray:
        """(nc, nc) N: ∂f_i/∂log k_j; rows sum to zero without prescribed displacements."""
        self._require_two_sides()
        result = np.zeros((self.nc, self.nc))
        result[np.ix_(self.contacts, self.contacts)] = self.on_active_set
        return read_only(result)

    @property
    def on_active_set(self) -> FloatArray:
        """(n, n) N: ∂f_i/∂log k_j of closed contacts, loaded ones staying loaded."""
        return self._push(np.eye(self.contacts.size)) * self.truss.data.force[:, None]

    @property
    def stiffness(self) -> FloatArray:
        """(nc, nc): ∂f_i/∂k_j, N per unit of the stiffness that was given."""
        k = np.ones(self.nc)
        k[self.contacts] = self._law.stiffness
        return self.log_stiffness / k

    @cached_property
    def load(self) -> FloatArray:
        """(nc, nv): ∂f_i/∂F̃_j, N per N and per N·m; Σ_j ∂f_i/∂F̃_j F̃_j = f_i for u = 0 walls.

        For changes of load that the loaded contacts bear; others are projected on those that
        they do (``along`` takes them as they are). Zero for dofs that no contact acts on, refused
        for a step known by N and p alone.
        """
        self._require_two_sides()
        self._require_load()
        result = np.zeros((self.nc, self.truss.data.B.shape[1]))
        motion = self._pull(np.diag(self.truss.data.force))[1]
        result[np.ix_(self.contacts, self._scaled.used)] = motion.T / self._load_unit
        return read_only(result)

    @cached_property
    def power(self) -> FloatArray:
        """(nc,) N: ∂f_i/∂p at constant ratios of k."""
        self._require_two_sides()
        return self._on_all(self._push(self._kappa(None, 1.0)) * self.truss.data.force)

    # --- products ----------------------------------------------------------------------

    def along(self, log_stiffness: Any = None, load: Any = None, power: float = 0.0) -> FloatArray:
        """(nc,) N: the derivative from one side, for a small step t ≥ 0 along a direction.

        Parameters
        ----------
        log_stiffness : (nc,) change of log k. load : (nv,) change of F̃, N and N·m.
        power : change of p. Default none.

        Raises
        ------
        InvalidInput : a direction of another shape, or a load on a dof that no contact acts on.
        Unsupported : no contact bears the change of load; or for p ≠ 2 the touching contacts'
            shares are not of first order, or not unique.
        SolveFailed : the shares of the touching contacts are not certified.
        """
        change, data, used = None, self.truss.data, self._scaled.used
        if log_stiffness is not None:
            change = checks.vector("log_stiffness", log_stiffness, self.nc)[self.contacts]
        scaled = np.zeros(used.size)
        if load is not None:
            self._require_load()
            change_of_load = checks.vector("load", load, data.B.shape[1], "N")
            scaled = change_of_load[used] / self._load_unit
            idle = (
                np.ones(change_of_load.size, dtype=bool) if data.free is None else data.free.copy()
            )
            idle[used] = False
            lost = np.flatnonzero(idle & (change_of_load != 0.0))
            if lost.size:
                where = f"a load on dof {int(lost[0])}"
                raise InvalidInput("load", where, "none on dofs that no contact acts on")
        kappa = self._kappa(change, checks.scalar("power", power))
        return self._on_all(self._one_sided(kappa, scaled) * data.force)

    def gradient(self, weights: Any) -> Gradient:
        """Derivatives of Σ weights f by one adjoint solve.

        Parameters
        ----------
        weights : (nc,) of a number Σ weights f; for another function of f, its gradient at f.

        Raises
        ------
        InvalidInput : another number of weights.
        """
        factors = checks.vector("weights", weights, self.nc)
        self._require_two_sides()
        kappa, motion = self._pull(factors[self.contacts] * self.truss.data.force)
        load = np.full(self.truss.data.B.shape[1], 0.0 if self.known_load else np.nan)
        if self.known_load:
            load[self._scaled.used] = motion / self._load_unit
        return Gradient(self._on_all(kappa), load, float(kappa @ self._kappa(None, 1.0)))

    # --- the tangent, in the units of ``scaled`` -------------------------------------

    @property
    def _scaled(self) -> ScaledProblem:
        return self.truss.data.scaled()

    @property
    def _scaled_law(self) -> PowerLaw:
        return self._scaled.elastic_law

    @property
    def _law(self) -> PowerLaw:
        return self.truss.data.elastic_law

    @cached_property
    def _f(self) -> FloatArray:
        return np.asarray(self.solution.f) / self.truss.data.force

    @cached_property
    def _loaded(self) -> BoolArray:
        """(n,) closed contacts that carry force; soft ones carry little."""
        least = max(self.tol, self.tol ** (self._scaled_law.power - 1.0))
        return (self._f > least) | (self.overlap > self.tol)

    @cached_property
    def _c(self) -> FloatArray:
        """(n,) overlap of the loaded contacts by the law; one elsewhere."""
        return np.where(self._loaded, self._scaled_law.overlap(self._f), 1.0)

    @cached_property
    def _springs(self) -> FloatArray:
        """(n,) D; zero where a contact carries nothing."""
        return np.where(self._loaded, (self._scaled_law.power - 1.0) * self._f / self._c, 0.0)

    def _push(self, kappa: FloatArray, load: FloatArray | float = 0.0) -> FloatArray:
        """df (n, …) from κ (n, …) = d log k + log c dp, and dF̃ (m, …)."""
        source, B = (self._f * kappa.T).T, self._scaled.B
        du = self._solve(B.T @ source - load)
        return source - (self._springs * (B @ du).T).T

    def _pull(self, weight: FloatArray) -> tuple[FloatArray, FloatArray]:
        """The adjoint: derivatives of weightᵀf by κ (n, …) and by F̃ (m, …)."""
        motion = self._solve(self._scaled.B.T @ (self._springs * weight.T).T)
        return (self._f * (weight - self._scaled.B @ motion).T).T, motion

    def _solve(self, rhs: FloatArray) -> FloatArray:
        """K⁺ r (m, …) for r in the range of K.

        Raises
        ------
        Unsupported : r has a part that no loaded contact bears.
        """
        if rhs.shape[0] == 0:
            return np.zeros_like(rhs)
        K, inverse = self._inverse
        size, du = np.abs(rhs).max(initial=0.0), np.zeros_like(rhs)
        if isinstance(inverse, np.ndarray):
            du = inverse @ (inverse.T @ rhs)
        for _ in range(0 if isinstance(inverse, np.ndarray) else _PASSES):
            left = rhs - K @ du
            if np.abs(left).max(initial=0.0) <= _CLEAN * size:
                break
            du = du + inverse.solve(np.ascontiguousarray(left))
        if np.abs(rhs - K @ du).max(initial=0.0) > _LEFT * size:
            why = "the loaded contacts do not bear that change of load by themselves"
            raise Unsupported("this derivative", why, ("along",))
        return du

    @cached_property
    def _inverse(self) -> tuple[sp.csc_array, Any]:
        """K, and W with K⁺ = W Wᵀ by singular values, or the factors of K plus a small shift."""
        B, D = self._scaled.B, self._springs
        K = sp.csc_array(B.T @ sp.csr_array(B * D[:, None]))
        if K.shape[0] > _DENSE:
            system = K + _SHIFT * float(abs(K).max()) * sp.eye_array(K.shape[0], format="csc")
            order: dict[str, Any] = {"permc_spec": "MMD_AT_PLUS_A"}
            return K, splu(sp.csc_matrix(system), **order, options={"SymmetricMode": True})
        root = np.sqrt(D[self._loaded])[:, None] * B[np.flatnonzero(self._loaded)].toarray()
        _, values, Vt = np.linalg.svd(root, full_matrices=False)
        rank = int(np.count_nonzero(values > _ZERO * values.max(initial=0.0)))
        return K, Vt[:rank].T / values[:rank]

    def _kappa(self, change: FloatArray | None, power: float) -> FloatArray:
        """κ (n,) = d log k + log c dp on the closed contacts."""
        data, logs = self.truss.data, np.log(self._c)
        if np.any(data.p):  # a common factor of k matters there, and so do metres
            logs = np.where(self._loaded, logs + np.log(data.speed), 0.0)
        return power * logs if change is None else change + power * logs

    # --- one side only ---------------------------------------------------------------------

    def _one_sided(self, kappa: FloatArray, load: FloatArray) -> FloatArray:
        """df (n,) for a small step along κ (n,) and dF̃ (m,), as ``along``."""
        p, touching = self._scaled_law.power, np.isin(self.contacts, self.touching)
        bears = True
        if load.any():
            try:
                self._solve(load)
            except Unsupported:
                bears = False
        if bears and (p > HOOKE or not touching.any()):
            return self._push(kappa, load)
        what, B = "this derivative", self._scaled.B
        if kappa.size > _LARGEST:
            raise Unsupported(what, f"more than {_LARGEST:,} contacts, some just touching")
        rows = np.flatnonzero(touching if bears else self._touching_under(load))
        who = "contacts " + ", ".join(map(str, self.contacts[rows].tolist()))
        if p > HOOKE:
            how = "must take up load, and at p > 2 they do so with no stiffness at all"
            raise Unsupported(what, f"{who} {how}")
        if p < HOOKE and np.linalg.matrix_rank(B[rows].toarray()) < rows.size:
            how = "are rigid at first order for p < 2, and what each takes up is open"
            raise Unsupported(what, f"{who} {how}")
        return self._with_struts(rows, kappa, load)

    def _touching_under(self, load: FloatArray) -> BoolArray:
        """(n,) contacts without force that touch in the motion which resists ``load`` first."""
        idle, B = ~self._loaded, self._scaled.B.toarray()
        free = scipy.linalg.null_space(B[~idle]) if not idle.all() else np.eye(B.shape[1])
        rates, gap = B[idle] @ free, np.maximum(-self.overlap[idle], 0.0)
        answer = linprog(load @ free, A_ub=-rates, b_ub=gap, bounds=(None, None))
        if answer.x is None or answer.status != 0:
            raise Unsupported("this derivative", "no contact bears that change of load")
        touching = np.zeros(idle.size, dtype=bool)
        touching[idle] = self.overlap[idle] - rates @ answer.x >= -TOUCHING
        return touching

    def _with_struts(self, touching: IntArray, kappa: FloatArray, load: FloatArray) -> FloatArray:
        """df (n,) of loaded contacts as springs, and of ``touching`` ones that cannot pull.

        min ½ Σ (df − f κ)²/D + ½ Σ df_T² yield subject to balance and df_T ≥ 0 is a least distance
        problem in the self-stress states, and non-negative least squares solve that exactly (C. L.
        Lawson & R. J. Hanson, *Solving Least Squares Problems*, chapter 23).
        """
        loaded, law = np.flatnonzero(self._loaded), self._scaled_law
        rows, n = np.append(loaded, touching), loaded.size
        pull = np.append((self._f * kappa)[loaded], np.zeros(touching.size))
        size = max(float(np.abs(pull).max(initial=0.0)), float(np.abs(load).max(initial=0.0)))
        if size == 0.0:
            return np.zeros(kappa.size)
        yields = 1.0 / law.stiffness if law.power == HOOKE else np.zeros(kappa.size)
        soft = np.sqrt(np.append(1.0 / self._springs[loaded], yields[touching]))
        B = self._scaled.B[rows].toarray()
        start = scipy.linalg.lstsq(B.T, load / size)[0]
        if np.abs(B.T @ start - load / size).max(initial=0.0) > _LEFT:
            raise Unsupported("this derivative", "no contact bears that change of load")
        states = scipy.linalg.null_space(B.T)
        Q, R = np.linalg.qr(soft[:, None] * states)
        states = scipy.linalg.solve_triangular(R, states.T, trans="T").T
        start = start + states @ (Q.T @ (soft * (pull / size - start)))
        push, above = states[n:], start[n:]  # above + push w ≥ 0, the least w
        multipliers, rest = nnls(np.vstack([push.T, -above]), np.eye(push.shape[1] + 1)[-1])
        scale = 1.0 + float(above @ multipliers)  # rest² at the optimum
        w = push.T @ multipliers / scale if rest > 0.0 else np.full(push.shape[1], np.nan)
        df = start + states @ w
        missed = max(-float(df[n:].min(initial=0.0)), abs(float(multipliers @ df[n:])) / scale)
        if not missed <= _OPTIMAL:
            message = f"no one-sided derivative: its optimality conditions miss by {missed:.1e}"
            raise SolveFailed(message, backend="nnls", status="not certified")
        result = np.zeros(kappa.size)
        result[rows] = size * df
        return result

    # --- pieces ------------------------------------------------------------------------

    @property
    def _load_unit(self) -> FloatArray:
        """(m,) F̃ per scaled load, on the dofs in play."""
        data, used = self.truss.data, self._scaled.used
        return np.asarray(data.part_energy[data.parts.dof[used]] / data.dof_speed[used])

    def _on_all(self, values: Any) -> Any:
        """Values on closed contacts, nothing elsewhere."""
        result = np.zeros(self.nc, dtype=values.dtype)
        result[self.contacts] = values
        return read_only(result)

    def _require_two_sides(self) -> None:
        if not self.two_sided:
            names = ", ".join(map(str, self.touching[:8].tolist()))
            why = f"contacts {names} just touch, and what they do depends on the direction"
            raise Unsupported("the derivative", why, ("along",))

    def _require_load(self) -> None:
        if not self.known_load:
            raise Unsupported("the derivative by load", "the step is known by N and p alone")

    def __repr__(self) -> str:
        kind = "two-sided" if self.two_sided else f"one-sided at {self.touching.size:,} contacts"
        power, loaded = self._law.power, int(np.count_nonzero(self.loaded))
        return f"Sensitivity({self.nc:,} contacts, {loaded:,} loaded, p = {power:g}: {kind})"


# --- with friction -----------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class FrictionalSensitivity(Frozen):
    """First derivatives of the compatible forces of a network with friction, at its solution.

    Attributes
    ----------
    network : of elastic contacts on the faces of a motion. forces : its solution.
    kinks : (n,) contacts at which derivatives depend on the direction: at the onset of slip, or
        with neither force nor gap. If there are any, all derivatives are refused.

    Notes
    -----
    The faces and F̃ do not change: which contacts are open, at rest or sliding in the motion, and
    what the bodies ask them to bear. Derivatives by μ are therefore refused where contacts slide in
    the motion, which μ changes. All methods raise Unsupported where a contact is at a kink.
    """

    network: FrictionNetwork
    forces: NetworkForces
    kinks: IntArray

    @property
    def nc(self) -> int:
        """Number of contacts."""
        return self.network.nc

    @property
    def d(self) -> int:
        """Components of a force: 2 in the plane, 3 in space."""
        return self.network.d

    @property
    def f(self) -> FloatArray:
        """(nc, d) N, the forces."""
        return np.column_stack([self.forces.f, self.forces.f_t])

    @property
    def two_sided(self) -> bool:
        """Whether there are derivatives: no contact is at a kink."""
        return self.kinks.size == 0

    @cached_property
    def log_stiffness(self) -> FloatArray:
        """(nc, d, nc) N: ∂f_i/∂log k_j, of normal and tangential stiffness together."""
        return self._matrix("log_stiffness")

    @cached_property
    def log_ratio(self) -> FloatArray:
        """(nc, d, nc) N: ∂f_i/∂log(k_t/k_n)_j, at constant normal stiffness."""
        return self._matrix("log_ratio")

    @cached_property
    def mu(self) -> FloatArray:
        """(nc, d, nc) N: ∂f_i/∂μ_j; refused where a contact slides in the motion."""
        self._require_rest()
        return self._matrix("mu")

    @cached_property
    def load(self) -> FloatArray:
        """(nc, d, nv): ∂f_i/∂F̃_j, N per N and per N·m.

        For changes of load that the contacts bear; others are projected on those that they do.
        """
        change = self._changed(np.zeros((self.nc, self.d, 1)), np.diag(1.0 / self.network.reach))
        return read_only(change)

    def along(
        self, log_stiffness: Any = None, load: Any = None, log_ratio: Any = None, mu: Any = None
    ) -> FloatArray:
        """(nc, d) N: the derivative along a direction.

        Parameters
        ----------
        log_stiffness, log_ratio, mu : (nc,) changes. load : (nv,) change of F̃, N and N·m.
            Default none.

        Raises
        ------
        InvalidInput : a direction of another shape.
        Unsupported : a contact is at a kink, or slides in the motion while μ changes; or the
            contacts do not bear the change of load.
        """
        rows, reach = np.zeros((self.nc, self.d, 1)), self.network.reach
        changes = {"log_stiffness": log_stiffness, "log_ratio": log_ratio, "mu": mu}
        for name, change in changes.items():
            if change is not None:
                vector = checks.vector(name, change, self.nc)
                rows += (self._by[name] * vector[:, None])[..., None]
        if mu is not None:
            self._require_rest()
        scaled = np.zeros((reach.size, 1))
        if load is not None:
            scaled[:, 0] = checks.vector("load", load, reach.size, "N") / reach
        result = self._changed(rows, scaled)
        missed = scaled - self.network.scaled_B.T @ result.reshape(-1, 1)
        if load is not None and np.abs(missed).max() > _LEFT * np.abs(scaled).max():
            raise Unsupported("the derivative by load", "the contacts do not bear the change")
        return read_only(result[..., 0])

    def gradient(self, weights: Any) -> Gradient:
        """Derivatives of Σ weights f by one adjoint solve; by μ not-a-number where contacts slide.

        Parameters
        ----------
        weights : (nc, d) of a number Σ weights f; for another function of f, its gradient at f.

        Raises
        ------
        InvalidInput : another number of weights.
        """
        factors = checks.numbers("weights", weights, (self.nc, self.d)).reshape(-1, 1)
        _, bent, inverse = self._linear
        motion = inverse.T @ (bent.T @ factors)
        rows = (factors - self.network.scaled_B @ motion).reshape(self.nc, self.d)
        by = {name: np.sum(rows * change, axis=1) for name, change in self._by.items()}
        by["mu"] += np.nan if self._slides.any() else 0.0
        return Gradient(load=motion.ravel() / self.network.reach, **by)

    # --- pieces ------------------------------------------------------------------------

    @cached_property
    def _state(self) -> tuple[FloatArray, FloatArray]:
        """y (nc, d) N and ∂Π/∂y (nc, d, d)."""
        return self.network.linearised(self.forces)

    @cached_property
    def _linear(self) -> tuple[sp.csr_array, FloatArray, FloatArray]:
        """B (nc d, nv) in units of its levers, S D B, and the pseudo-inverse of Bᵀ S D B."""
        B, D = self.network.scaled_B, self.network.D / self.network.D.max()
        if not self.two_sided:
            names = ", ".join(map(str, self.kinks[:8].tolist()))
            why = f"contacts {names} are at the onset of slip, or touch without force"
            raise Unsupported("the derivative", why)
        if B.shape[1] > _LARGEST:
            raise Unsupported("the derivative", f"a network of {B.shape[1]} dofs")
        places = (np.arange(self.nc), np.arange(self.nc + 1))
        bent = (sp.bsr_array((self._state[1], *places)) @ (B * D.reshape(-1, 1))).toarray()
        return B, bent, np.linalg.pinv(B.T @ bent, rcond=_ZERO)

    def _changed(self, rows: FloatArray, load: FloatArray | float) -> FloatArray:
        """df (nc, d, many) of changes e (nc, d, many) and of scaled loads (nv, many)."""
        B, bent, inverse = self._linear
        flat = rows.reshape(self.nc * self.d, -1)
        change = flat - bent @ (inverse @ (B.T @ flat - load))
        return np.asarray(change.reshape(self.nc, self.d, -1))

    def _matrix(self, name: str) -> FloatArray:
        """(nc, d, nc) of a parameter of each contact."""
        each = np.eye(self.nc)[:, None] * self._by[name][:, :, None]
        return read_only(self._changed(each, 0.0))

    @property
    def _slides(self) -> BoolArray:
        """(nc,) contacts that slide in the motion, with friction."""
        return np.asarray(self.network.slides & (self.network.mu > 0.0))

    def _require_rest(self) -> None:
        if self._slides.any():
            who = f"contacts slide in the motion, such as {int(np.flatnonzero(self._slides)[0])}"
            raise Unsupported("the derivative by friction", f"{who}, which friction changes")

    @cached_property
    def _by(self) -> dict[str, FloatArray]:
        """e (nc, d) by each parameter of the contact itself: y − t is in proportion to stiffness.

        With κ = k_t/k_n, a contact that slips has f_n = y_n, f_T = μ y_n ŷ_T under the law of
        Coulomb, and f_n = (κ y_n + μ‖y_T‖)/(κ + μ²), f_T = μ f_n ŷ_T under Haar & Kármán's
        principle.
        """
        (y, slope), f, mu = self._state, self.forces.f, self.network.mu
        sideways = y - self.network.trial
        by_stiffness = np.einsum("ikl,il->ik", slope, sideways)
        sideways[:, 0] = 0.0
        by_ratio = np.einsum("ikl,il->ik", slope, sideways)
        slips, way = self._slipping
        by_mu = np.column_stack([np.zeros(self.nc), f[:, None] * way])
        if self.network.flow == "associated":
            ratio, capped = self.network.D[:, 1] / self.network.D[:, 0], mu[:, None] * way
            ray = np.where(self._slides[:, None], self.network.rays, 0.0)
            ray[slips] = np.column_stack([slips, capped])[slips]
            pull = ratio * (y[:, 0] - f) / (ratio + np.sum(ray[:, 1:] ** 2, axis=1))
            by_ratio += np.where(f > 0.0, pull, 0.0)[:, None] * ray
            gain = (np.linalg.norm(y[:, 1:], axis=1) - 2.0 * mu * f) / (ratio + mu**2)
            gain = np.where(slips, gain, 0.0)
            by_mu += gain[:, None] * np.column_stack([np.ones(self.nc), capped])
        return {"log_stiffness": by_stiffness, "log_ratio": by_ratio, "mu": by_mu}

    @cached_property
    def _slipping(self) -> tuple[BoolArray, FloatArray]:
        """(nc,) contacts that rest in the motion and slip, and ŷ_T (nc, d − 1), zero elsewhere."""
        y = self._state[0]
        size = np.linalg.norm(y[:, 1:], axis=1)
        slips = self.network.closed & ~self.network.slides & (self.forces.f > 0.0)
        slips &= size > self.network.mu * y[:, 0]
        way = np.where(slips[:, None], y[:, 1:], 0.0) / np.where(size > 0.0, size, 1.0)[:, None]
        return slips, way

    def __repr__(self) -> str:
        kind = "smooth" if self.two_sided else f"kinks at {self.kinks.size} contacts"
        slips = int(self._slipping[0].sum())
        how = f"{slips} slip, {self.forces.label}: {kind}"
        return f"FrictionalSensitivity({self.nc} contacts, {how})"


# --- at a solution -----------------------------------------------------------------------------


@overload
def sensitivity(
    problem: Step | NoTensionTruss,
    power: checks.Power | None = None,
    backend: str | Backend = _REFERENCE_BACKEND,
    *,
    tol: float = TOUCHING,
    law: None = None,
) -> Sensitivity: ...
@overload
def sensitivity(
    problem: FrictionNetwork, power: checks.Power | None = None, *, tol: float = TOUCHING
) -> FrictionalSensitivity: ...
@overload
def sensitivity(
    problem: Step,
    power: checks.Power | None = None,
    backend: str | Backend = _REFERENCE_BACKEND,
    *,
    tol: float = TOUCHING,
    law: str,
    flow: str = "coulomb",
) -> FrictionalSensitivity: ...
def sensitivity(
    problem: Step | NoTensionTruss | FrictionNetwork,
    power: checks.Power | None = None,
    backend: str | Backend = _REFERENCE_BACKEND,
    *,
    tol: float = TOUCHING,
    law: str | None = None,
    flow: str = "coulomb",
) -> Sensitivity | FrictionalSensitivity:
    """How compatible forces change with stiffness, load and power, to first order.

    Parameters
    ----------
    problem : a contact step, whose closed contacts and load F̃ come from classic contact
        dynamics; or a no-tension truss; or a network with friction.
    power : p > 1 of a step's contact energy, default the step's; a truss has its own. With friction
        there is none but 2.
    backend : that solves it; its answer is certified.
    tol : overlap, over the network's, within which a contact just touches; with friction also
        how near the onset of slip is a kink, over the largest force.
    law : of the motion of a step with friction, "coulomb" or "associated". The derivatives are then
        ``cdopt.hyperstatic.FrictionalSensitivity``, of the forces of ``CompatibleFriction``.
    flow : of the micro-slip, "coulomb" or "associated".

    Raises
    ------
    InvalidInput : a bad argument.
    SolveFailed : the forces are not certified, or proven not to exist.
    Unsupported : a network too large and too ill-conditioned for its rank; with friction contacts
        that slide in the motion, under the flow of Coulomb.

    Notes
    -----
    Implicit differentiation of the optimality conditions of (36), Olsen & Kamrin (2018); where
    strict complementarity fails, one-sided derivatives as in Bonnans & Shapiro (2000).

    >>> import cdopt
    >>> derivatives = cdopt.sensitivity(cdopt.bank.load("beam-uniform").step)
    >>> derivatives.log_stiffness.round(4) + 0.0
    array([[ 0.5556, -1.1111,  0.5556],
           [-1.1111,  2.2222, -1.1111],
           [ 0.5556, -1.1111,  0.5556]])
    """
    near = checks.scalar("tol", tol, above=0.0, at_most=1e-3)
    if law is not None or isinstance(problem, FrictionNetwork):
        if power not in (None, HOOKE):
            raise InvalidInput("power", checks.describe(power), "2 with friction")
        if isinstance(problem, NoTensionTruss):
            raise InvalidInput("law", repr(law), "none: a truss has no friction")
        if not isinstance(problem, FrictionNetwork):
            problem = CompatibleFriction(problem, law or "", flow).network(backend)
        forces = problem.solve()
        return FrictionalSensitivity(problem, forces, problem.kinks(forces, near))
    if isinstance(problem, NoTensionTruss):
        if power is not None:
            raise InvalidInput("power", checks.describe(power), "none: the truss has its own")
        every = np.arange(problem.data.nc)
        return Sensitivity(problem, certified(problem.solve(backend)), every, every.size, near)
    compatible = CompatibleCD(problem, power)
    closed = compatible.network(certified(compatible.classic_cd.solve(backend)))
    truss = compatible.truss(closed)
    known = isinstance(problem, ContactStep)
    solution = certified(truss.solve(backend))
    return Sensitivity(truss, solution, closed.contacts, problem.nc, near, known)


def certified(solution: StepSolution) -> StepSolution:
    """The same solution.

    Raises
    ------
    SolveFailed : it is not certified.
    """
    if solution.ok:
        return solution
    worst = solution.certificate.shown if solution.certificate else "nan"
    raise SolveFailed(
        f"{solution.formulation} is not certified: {solution.backend} left a residual of "
        f"{worst}; there is no solution to differentiate",
        backend=solution.backend,
        status=solution.status,
        raw=solution.raw,
    )
