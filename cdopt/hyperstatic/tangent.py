"""Tangent of the no-tension truss: derivatives of its forces by stiffness, load and power.

On the loaded contacts f = k c^(p−1) with c = −B u, so that df = f κ − D B du, where κ = d log k +
log c dp and D = (p−1) f/c is the tangent stiffness. Balance Bᵀdf = dF̃ gives K du = Bᵀ(f κ) − dF̃
with K = Bᵀ D B. This is implicit differentiation of the optimality conditions of equation (36) of
Olsen & Kamrin (2018); everything here is in the units of ``TrussData.scaled``.

A contact with neither force nor gap may take up load or open: forces then have a derivative in
each direction, which is not linear in the direction. It solves another truss problem: loaded
contacts are springs of the tangent stiffness that push and pull, touching ones are struts that
cannot pull. Bonnans & Shapiro, *Perturbation Analysis of Optimization Problems* (2000), section
5.2; where the motion is not unique, a linear program first finds the one that decides which
contacts touch, their theorem 4.24.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import cvxpy as cp
import numpy as np
import scipy.linalg
import scipy.sparse as sp
from scipy.sparse.linalg import SuperLU, splu

from cdopt._util.checks import BoolArray, FloatArray, IntArray, read_only
from cdopt._util.errors import SolveFailed, Unsupported
from cdopt._util.frozen import Frozen
from cdopt._util.linear_program import linprog
from cdopt.hyperstatic import admissible, rank
from cdopt.problem.contact_law import HOOKE
from cdopt.problem.truss import ScaledTruss

TOUCHING = 1e-9  # overlap or force, over the network's, within which a contact just touches
_DENSE = 600  # dofs up to which K is inverted by singular values
_ZERO = 1e-11  # singular values of √D B below this share of the largest are zero
_SHIFT = 1e-9  # of the factorised K, over its largest entry; refinement removes its effect
_PASSES = 40
_CLEAN = 1e-11  # relative residual at which refinement ends
_LEFT = 1e-7  # and above which the loaded contacts do not bear a load
_CARRIES = (1e-6, 1e-4, 1e-2)  # shares of the change above which a touching contact takes part
_OPTIMAL = 1e-8  # largest residual of the optimality conditions
_LARGEST = 3000  # contacts, for dense algebra


@dataclass(frozen=True, eq=False)
class Tangent(Frozen):
    """The tangent of a truss at its solution, scaled.

    Attributes
    ----------
    truss : the scaled truss. f : (n,) its forces. overlap : (n,) −B u − opening.
    loaded : (n,) contacts that carry force.
    touching : (n,) contacts without force, and without gap in every motion that goes with f.
    """

    truss: ScaledTruss
    f: FloatArray
    overlap: FloatArray
    loaded: BoolArray
    touching: BoolArray

    @staticmethod
    def at(truss: ScaledTruss, f: FloatArray, u: FloatArray, tol: float) -> Tangent:
        """The tangent at forces f (n,) and displacement u (m,), scaled.

        Parameters
        ----------
        tol : overlap within which a contact counts as touching; the matching force and gap of
            the law c^(p−1) are taken if they are larger.
        """
        p = truss.law.power
        overlap = -(truss.B @ u) - truss.opening
        loaded = (f > max(tol, tol ** (p - 1.0))) | (overlap > tol)  # soft ones carry little
        near = ~loaded & (overlap >= -max(tol, tol ** (1.0 / (p - 1.0))))
        rows = np.flatnonzero(loaded | near)
        if np.any(near):
            B = rank.equilibrated(sp.csr_array(truss.B[rows]))[0]
            full = rank.rank_of(B, 1e-9)
            near[rows] &= admissible.loadable_of(B, loaded[rows], full, 1e-9)[0]
        return Tangent(truss, f, overlap, loaded, near)

    @cached_property
    def stiffness(self) -> FloatArray:
        """D (n,), w″ of each contact; zero where it carries nothing."""
        law = self.truss.law
        c = np.where(self.loaded, law.overlap(self.f), 1.0)
        return read_only(np.where(self.loaded, (law.power - 1.0) * self.f / c, 0.0))

    @cached_property
    def log_overlap(self) -> FloatArray:
        """log c (n,) of the loaded contacts; zero elsewhere."""
        c = np.where(self.loaded, self.truss.law.overlap(self.f), 1.0)
        return read_only(np.log(c))

    # --- both directions ---------------------------------------------------------------

    def push(self, kappa: FloatArray, load: FloatArray) -> FloatArray:
        """df (n, …) from κ (n, …) and dF̃ (m, …).

        Raises
        ------
        Unsupported : a load that the loaded contacts do not bear.
        """
        source = (self.f * kappa.T).T
        du = self.solve(self.truss.B.T @ source - load)
        return source - (self.stiffness * (self.truss.B @ du).T).T

    def pull(self, weight: FloatArray) -> tuple[FloatArray, FloatArray]:
        """The adjoint: derivatives of weightᵀf by κ (n, …) and by F̃ (m, …)."""
        weighted = (self.stiffness * weight.T).T
        motion = self.solve(self.truss.B.T @ weighted)
        by_kappa = (self.f * (weight - self.truss.B @ motion).T).T
        return by_kappa, motion

    def bears(self, load: FloatArray) -> bool:
        """Whether the loaded contacts alone resist a load (m,)."""
        size = float(np.abs(load).max(initial=0.0))
        if size == 0.0:
            return True
        try:
            self.solve(load)
        except Unsupported:
            return False
        return True

    # --- K du = r ----------------------------------------------------------------------

    def solve(self, rhs: FloatArray) -> FloatArray:
        """K⁺ r (m, …) for r in the range of K.

        Raises
        ------
        Unsupported : r has a part that no loaded contact bears.
        """
        if rhs.shape[0] == 0:
            return np.zeros_like(rhs)
        du = self._by_values(rhs) if self._factors is None else self._by_factors(rhs)
        left = np.abs(rhs - self._gram @ du).max(initial=0.0)
        if left > _LEFT * np.abs(rhs).max(initial=0.0):
            raise Unsupported(
                "this derivative",
                "the loaded contacts do not bear that change of load by themselves",
                ("along",),
            )
        return du

    @cached_property
    def _gram(self) -> sp.csc_array:
        """K (m, m)."""
        weighted = sp.csr_array(self.truss.B * self.stiffness[:, None])
        return sp.csc_array(self.truss.B.T @ weighted)

    @cached_property
    def _values(self) -> tuple[FloatArray, FloatArray]:
        """Right singular vectors (m, r) of √D B and its values (r,) that are not zero."""
        B = self.truss.B[np.flatnonzero(self.loaded)].toarray()
        root = np.sqrt(self.stiffness[self.loaded])[:, None] * B
        if root.size == 0:
            return np.zeros((root.shape[1], 0)), np.zeros(0)
        _, values, Vt = np.linalg.svd(root, full_matrices=False)
        nonzero = values > _ZERO * values[0]
        return Vt[nonzero].T, values[nonzero]

    def _by_values(self, rhs: FloatArray) -> FloatArray:
        V, values = self._values
        return np.asarray(V @ ((V.T @ rhs).T / values**2).T)

    @cached_property
    def _factors(self) -> SuperLU | None:
        """Factors of K plus a small shift; None for few dofs."""
        m = self._gram.shape[0]
        if m <= _DENSE:
            return None
        shift = _SHIFT * float(abs(self._gram).max())
        system = sp.csc_matrix(self._gram + shift * sp.eye_array(m, format="csc"))
        return splu(system, permc_spec="MMD_AT_PLUS_A", options={"SymmetricMode": True})

    def _by_factors(self, rhs: FloatArray) -> FloatArray:
        """By factors of the shifted K, with refinement."""
        factors, du = self._factors, np.zeros_like(rhs)
        if factors is None:
            return du
        goal = _CLEAN * float(np.abs(rhs).max(initial=0.0))
        for _ in range(_PASSES):
            left = rhs - self._gram @ du
            if float(np.abs(left).max(initial=0.0)) <= goal:
                break
            du = du + factors.solve(np.ascontiguousarray(left))
        return du


# --- one-sided derivatives -------------------------------------------------------------------


def one_sided(at: Tangent, kappa: FloatArray, load: FloatArray, contacts: IntArray) -> FloatArray:
    """df (n,) for a small step along κ (n,) and dF̃ (m,), scaled; ``contacts`` names them.

    Raises
    ------
    Unsupported : no contact that carries or touches bears the load; or, for p ≠ 2, the touching
        contacts' shares are not of first order, or not unique.
    SolveFailed : a solver left no answer.
    """
    p = at.truss.law.power
    bears = at.bears(load)
    if bears and (p > HOOKE or not at.touching.any()):
        return at.push(kappa, load)
    if at.f.size > _LARGEST:
        raise Unsupported("this derivative", f"more than {_LARGEST:,} contacts, some just touching")
    touching = at.touching if bears else _touching_under(at, load)
    rows = np.flatnonzero(touching)
    names = ", ".join(map(str, contacts[rows].tolist()))
    if p > HOOKE:
        raise Unsupported(
            "this derivative",
            f"contacts {names} must take up load, and at p > 2 they do so with no stiffness at all",
        )
    if p < HOOKE and np.linalg.matrix_rank(at.truss.B[rows].toarray()) < rows.size:
        raise Unsupported(
            "this derivative",
            f"contacts {names} are rigid at first order for p < 2, and what each takes up is open",
        )
    return _refined(at, rows, kappa, load)


def _touching_under(at: Tangent, load: FloatArray) -> BoolArray:
    """Contacts without force that touch in the motion which resists ``load`` first."""
    idle = np.flatnonzero(~at.loaded)
    B = at.truss.B.toarray()
    free = scipy.linalg.null_space(B[at.loaded]) if at.loaded.any() else np.eye(B.shape[1])
    answer = linprog(
        load @ free,
        A_ub=-B[idle] @ free,
        b_ub=np.maximum(-at.overlap[idle], 0.0),
        bounds=(None, None),
    )
    if answer.x is None or answer.status != 0:
        raise Unsupported("this derivative", "no contact bears that change of load")
    touching = np.zeros(at.f.size, dtype=bool)
    touching[idle] = -(B[idle] @ free @ answer.x) + at.overlap[idle] >= -TOUCHING
    return touching


def _refined(at: Tangent, touching: IntArray, kappa: FloatArray, load: FloatArray) -> FloatArray:
    """The quadratic program by Clarabel; then the linear system of the contacts that carry.

    Which touching contacts carry force is decided at several thresholds of Clarabel's answer; the
    linear system whose answer misses the optimality conditions least is taken.
    """
    loaded = np.flatnonzero(at.loaded)
    law = at.truss.law
    pull, soft = at.f[loaded] * kappa[loaded], 1.0 / at.stiffness[loaded]
    yields = 1.0 / law.stiffness if law.power == HOOKE else np.zeros(at.f.size)
    size = max(float(np.abs(pull).max(initial=0.0)), float(np.abs(load).max(initial=0.0)))
    if size == 0.0:
        return np.zeros(at.f.size)
    springs = (pull / size, soft, yields[touching])
    share = _solved(at, loaded, touching, springs, load / size)
    best, least = np.zeros(at.f.size), np.inf
    for level in _CARRIES:
        carrying = touching[share > level]
        rows, idle = np.append(loaded, carrying), np.setdiff1d(touching, carrying)
        compliance = np.append(soft, yields[carrying])
        B = at.truss.B[rows].toarray()
        m = B.shape[1]
        system = np.block([[np.diag(compliance), B], [B.T, np.zeros((m, m))]])
        right = np.concatenate([soft * pull, np.zeros(carrying.size), load])
        answer = scipy.linalg.lstsq(system, right)[0]
        df, du = answer[: rows.size], answer[rows.size :]
        missed = float(np.abs(system @ answer - right).max(initial=0.0))
        tension = -float(df[loaded.size :].min(initial=0.0))
        closing = _closing(at.truss.B[idle].toarray(), du, B)
        worst = max(missed, tension, closing) / size
        if worst < least:
            best, least = np.zeros(at.f.size), worst
            best[rows] = df
    if not least <= _OPTIMAL:
        raise SolveFailed(
            f"no one-sided derivative: its optimality conditions are missed by {least:.1e}",
            backend="clarabel",
            status="not certified",
        )
    return best


def _closing(idle: FloatArray, du: FloatArray, carrying: FloatArray) -> float:
    """By how much idle contacts must close, in the best of the motions that go with the forces.

    These are du and whatever moves none of the contacts ``carrying`` force.
    """
    opened = idle @ du
    closing = -float(opened.min(initial=0.0))
    free = scipy.linalg.null_space(carrying)
    if closing == 0.0 or free.shape[1] == 0:
        return closing
    k = free.shape[1]  # over y and t: least t with opened + idle free y + t ≥ 0, t ≥ 0
    answer = linprog(
        np.append(np.zeros(k), 1.0),
        A_ub=-np.column_stack([idle @ free, np.ones(opened.size)]),
        b_ub=opened,
        bounds=[*[(None, None)] * k, (0.0, None)],
    )
    return closing if answer.x is None else min(closing, float(answer.x[-1]))


def _solved(
    at: Tangent,
    loaded: IntArray,
    touching: IntArray,
    springs: tuple[FloatArray, FloatArray, FloatArray],
    load: FloatArray,
) -> FloatArray:
    """df_T of the touching contacts: least ½ Σ (df − pull)²/D + ½ Σ df_T² yield, df_T ≥ 0."""
    pull, soft, yields = springs
    g, h = cp.Variable(loaded.size), cp.Variable(touching.size, nonneg=True)
    sums = at.truss.B[loaded].T @ g + at.truss.B[touching].T @ h
    energy = cp.sum_squares(cp.multiply(np.sqrt(soft), g - pull))
    energy = energy + cp.sum_squares(cp.multiply(np.sqrt(yields), h))
    problem = cp.Problem(cp.Minimize(0.5 * energy), [sums == load])
    try:
        problem.solve(solver=cp.CLARABEL)
    except cp.SolverError as error:
        raise SolveFailed(
            "no one-sided derivative", backend="clarabel", status=str(error)
        ) from error
    if h.value is None:
        raise Unsupported("this derivative", "no contact bears that change of load")
    return np.asarray(h.value)
