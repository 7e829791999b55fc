"""The tangent of a no-tension truss: equation (36) of Olsen & Kamrin (2018), at its solution.

S picks the loaded contacts, D = (p − 1) f/c, and e = f (d log k + log c dp), with c = −B u. A
contact with neither force nor gap may take up load or open: the derivative is then that of another
truss, in which loaded contacts push and pull and touching ones cannot pull. Bonnans & Shapiro,
*Perturbation Analysis of Optimization Problems* (2000), section 5.2; where the motion is not
unique, a linear program finds the one that decides which contacts touch, theorem 4.24.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.linalg
import scipy.sparse as sp
from scipy.optimize import nnls
from scipy.sparse.linalg import splu

from cdopt._util.cached import cached_property
from cdopt._util.checks import BoolArray, FloatArray, IntArray, read_only
from cdopt._util.errors import InvalidInput, SolveFailed, Unsupported
from cdopt._util.linear_program import linprog
from cdopt.formulations import NoTensionTruss
from cdopt.hyperstatic import network
from cdopt.hyperstatic.tangent import LARGEST, LEFT, ZERO, Tangent
from cdopt.problem.contact_law import HOOKE, PowerLaw
from cdopt.problem.contact_problem import Scales
from cdopt.problem.solution import StepSolution

TOUCHING = 1e-9  # overlap or force, over the network's, within which a contact just touches
_DENSE = 600  # dofs up to which K of a truss is inverted by singular values
_SHIFT = 1e-9  # of a factorised K, over its largest entry; refinement removes its effect
_PASSES = 40
_CLEAN = 1e-11  # relative residual at which refinement ends
_OPTIMAL = 1e-8  # largest residual of the optimality conditions


class TrussTangent(Tangent):
    """The tangent of a certified ``solution`` of a truss.

    Parameters
    ----------
    truss : the no-tension truss on the closed contacts. solution : of it, certified.
    contacts : (n,) the closed contacts among all ``nc``; open ones keep f = 0.
    tol : overlap or force, over the network's, within which a contact just touches.
    known_load : whether F̃ is that of the bodies; not so for steps known only by N and p.
    joints : how many of the contacts are joints, the last ones.
    """

    d = 1
    why = "just touch, and what they do depends on the direction"
    instead = ("along",)

    def __init__(
        self,
        truss: NoTensionTruss,
        solution: StepSolution,
        contacts: IntArray,
        nc: int,
        tol: float = TOUCHING,
        known_load: bool = True,
        joints: int = 0,
    ) -> None:
        self.truss, self.solution, self.contacts, self.nc = truss, solution, contacts, nc
        self.tol, self.known_load, self.joints = tol, known_load, joints
        self.nv = int(truss.data.B.shape[1])
        self.forces = self._on_all(np.asarray(solution.f))
        self.loaded = self._on_all(self._loaded)
        stiffness = np.ones(nc)
        stiffness[contacts] = self._law.stiffness
        self.stiffness = read_only(stiffness)
        why = "the step is known by N and p alone"
        self.refused = {} if known_load else {"load": why}
        self.parameters = {"log_stiffness": self.forces}
        logs = np.log(np.abs(self._c))
        if np.any(truss.data.p):  # a common factor of k matters there, and so do metres
            logs = np.where(self._loaded, logs + np.log(truss.data.speed), 0.0)
        self.power = self._on_all(np.asarray(solution.f) * logs)

    @property
    def label(self) -> str:
        return f"p = {self._law.power:g}"

    @property
    def smooth(self) -> bool:
        """For p > 2 contacts that just touch have no stiffness, and do no harm."""
        return self._law.power > HOOKE or self.kinks.size == 0

    @cached_property
    def springs(self) -> sp.csr_array:
        f, slope = np.asarray(self.solution.f), np.zeros(self.nc)
        c = np.where(self._loaded, self._law.overlap(f), 1.0)
        slope[self.contacts] = np.where(self._loaded, self._law.tangent(c), 0.0)
        return sp.csr_array(sp.diags_array(slope))

    def jvp(self, e: FloatArray, load: FloatArray | None = None) -> FloatArray:
        unit = self.truss.data.force
        source = (e[self.contacts].T / unit).T
        scaled = 0.0 if load is None else (load[self._scaled.used].T / self._load_unit).T
        result = np.zeros((self.nc, *e.shape[1:]))
        result[self.contacts] = (self._push(source, scaled).T * unit).T
        return result

    def vjp(self, weights: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Derivatives by e (nc, …) and by F̃ (nv, …); not-a-number by a load that is not known."""
        unit, scaled = self.truss.data.force, self._scaled
        weight = (weights[self.contacts].T * unit).T
        motion = self._solve(scaled.B.T @ (self._springs * weight.T).T)
        by_change = np.zeros((self.nc, *weights.shape[1:]))
        by_change[self.contacts] = ((weight - scaled.B @ motion).T / unit).T
        by_load = np.full((self.nv, *weights.shape[1:]), 0.0 if self.known_load else np.nan)
        if self.known_load:
            by_load[scaled.used] = (motion.T / self._load_unit).T
        return by_change, by_load

    def along(self, e: FloatArray, load: FloatArray | None) -> FloatArray:
        """df (nc,) N from one side, for a small step t ≥ 0."""
        data, used = self.truss.data, self._scaled.used
        scaled = np.zeros(used.size)
        if load is not None:
            self.require("load")
            scaled = load[used] / self._load_unit
            idle = np.ones(load.size, dtype=bool) if data.free is None else data.free.copy()
            idle[used] = False
            lost = np.flatnonzero(idle & (load != 0.0))
            if lost.size:
                where = f"a load on dof {int(lost[0])}"
                raise InvalidInput("load", where, "none on dofs that no contact acts on")
        change = self._one_sided(e[self.contacts] / data.force, scaled)
        return np.asarray(self._on_all(change * data.force))

    @cached_property
    def kinks(self) -> IntArray:
        """Indices of contacts without force and without gap, in every motion that goes with f."""
        tol, p, loaded = self.tol, self._scaled_law.power, self._loaded
        near = ~loaded & (self.overlap >= -max(tol, tol ** (1.0 / (p - 1.0))))
        if near.any():
            rows = np.flatnonzero(loaded | near)
            B = network.equilibrated(sp.csr_array(self._scaled.B[rows]))[0]
            near[rows] &= network.loadable_of(B, loaded[rows], 1e-9)[0]
        return read_only(self.contacts[near])

    @cached_property
    def overlap(self) -> FloatArray:
        """(n,) overlap −B u − opening of the closed contacts, over the network's."""
        scaled, u = self._scaled, np.asarray(self.solution.u)
        return read_only(-(scaled.B @ (u[scaled.used] / scaled.unit)) - scaled.p)

    # --- in the units of ``scaled`` ------------------------------------------------------

    @property
    def _scaled(self) -> Scales:
        return self.truss.data.scales

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
        both = self.truss.data.cones.bilateral  # members that also pull
        return both | (self._f > least) | (self.overlap > self.tol)

    @cached_property
    def _c(self) -> FloatArray:
        """(n,) overlap of the loaded contacts by the law; one elsewhere."""
        overlap = self._scaled_law.overlap(self._f)
        return np.where(self._loaded & (overlap != 0.0), overlap, 1.0)

    @cached_property
    def _springs(self) -> FloatArray:
        """(n,) D; zero where a contact carries nothing."""
        law, idle = self._scaled_law, self._loaded & (self._f == 0.0)
        D = np.where(self._loaded, (law.power - 1.0) * self._f / self._c, 0.0)
        return np.where(idle, law.tangent(law.overlap(self._f)), D) if idle.any() else D

    def _push(self, source: FloatArray, load: FloatArray | float = 0.0) -> FloatArray:
        """df (n, …) of changes e (n, …) and of loads (m, …), scaled."""
        B = self._scaled.B
        du = self._solve(B.T @ source - load)
        return source - (self._springs * (B @ du).T).T

    def _solve(self, rhs: FloatArray) -> FloatArray:
        """K⁺ r (m, …) for r in the range of K."""
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
        if np.abs(rhs - K @ du).max(initial=0.0) > LEFT * size:
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
        rank = int(np.count_nonzero(values > ZERO * values.max(initial=0.0)))
        return K, Vt[:rank].T / values[:rank]

    # --- one side only ---------------------------------------------------------------------

    def _one_sided(self, source: FloatArray, load: FloatArray) -> FloatArray:
        """df (n,) for a small step along a change (n,) and dF̃ (m,), as ``along``."""
        p, touching = self._scaled_law.power, np.isin(self.contacts, self.kinks)
        bears = True
        if load.any():
            try:
                self._solve(load)
            except Unsupported:
                bears = False
        if bears and (p > HOOKE or not touching.any()):
            return self._push(source, load)
        what, B = "this derivative", self._scaled.B
        if source.size > LARGEST:
            raise Unsupported(what, f"more than {LARGEST:,} contacts, some just touching")
        rows = np.flatnonzero(touching if bears else self._touching_under(load))
        who = "contacts " + ", ".join(map(str, self.contacts[rows].tolist()))
        if p > HOOKE:
            how = "must take up load, and at p > 2 they do so with no stiffness at all"
            raise Unsupported(what, f"{who} {how}")
        if p < HOOKE and np.linalg.matrix_rank(B[rows].toarray()) < rows.size:
            how = "are rigid at first order for p < 2, so their individual forces are not unique"
            raise Unsupported(what, f"{who} {how}")
        return self._with_struts(rows, source, load)

    def _touching_under(self, load: FloatArray) -> BoolArray:
        """(n,) contacts without force that touch in the motion which resists ``load`` first."""
        idle, B = ~self._loaded, self._scaled.B.toarray()
        free = scipy.linalg.null_space(B[~idle]) if not idle.all() else np.eye(B.shape[1])
        rates, gap = B[idle] @ free, np.maximum(-self.overlap[idle], 0.0)
        answer = linprog(load @ free, A_ub=-rates, b_ub=gap, bounds=(None, None))
        if answer.x is None or answer.status != 0:
            raise Unsupported("this derivative", "no contacts can balance that change of load")
        touching = np.zeros(idle.size, dtype=bool)
        touching[idle] = self.overlap[idle] - rates @ answer.x >= -TOUCHING
        return touching

    def _with_struts(self, touching: IntArray, source: FloatArray, load: FloatArray) -> FloatArray:
        """df (n,) of loaded contacts as springs, and of ``touching`` ones that cannot pull.

        min ½ Σ (df − e)²/D + ½ Σ df_T² yield subject to balance and df_T ≥ 0 is a least distance
        problem in the self-stress states, and non-negative least squares solve that exactly (C. L.
        Lawson & R. J. Hanson, *Solving Least Squares Problems*, chapter 23).
        """
        loaded, law = np.flatnonzero(self._loaded), self._scaled_law
        rows, n = np.append(loaded, touching), loaded.size
        pull = np.append(source[loaded], np.zeros(touching.size))
        size = max(float(np.abs(pull).max(initial=0.0)), float(np.abs(load).max(initial=0.0)))
        if size == 0.0:
            return np.zeros(source.size)
        yields = 1.0 / law.stiffness if law.power == HOOKE else np.zeros(source.size)
        soft = np.sqrt(np.append(1.0 / self._springs[loaded], yields[touching]))
        B = self._scaled.B[rows].toarray()
        start = scipy.linalg.lstsq(B.T, load / size)[0]
        if np.abs(B.T @ start - load / size).max(initial=0.0) > LEFT:
            raise Unsupported("this derivative", "no contacts can balance that change of load")
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
        result = np.zeros(source.size)
        result[rows] = size * df
        return result

    # --- pieces ------------------------------------------------------------------------

    @property
    def _load_unit(self) -> FloatArray:
        """(m,) F̃ per scaled load, on the dofs used."""
        data, used = self.truss.data, self._scaled.used
        return np.asarray(data.part_energy[data.parts.dof[used]] / data.dof_speed[used])

    def _on_all(self, values: Any) -> Any:
        """Values on closed contacts, nothing elsewhere."""
        result = np.zeros(self.nc, dtype=values.dtype)
        result[self.contacts] = values
        return read_only(result)
