"""One-sided derivatives of contact forces, where some contacts just touch.

A contact with neither force nor gap may take up load or open: forces then have a derivative in
each direction, which is not linear in the direction. It solves a no-tension truss of its own:
loaded contacts are springs of the tangent stiffness that push and pull, touching ones are struts
that cannot pull. Bonnans & Shapiro, *Perturbation Analysis of Optimization Problems* (2000),
section 5.2; where more than one motion goes with the forces, a linear program first finds the one
whose touching contacts matter, their theorem 4.24.
"""

from __future__ import annotations

import cvxpy as cp
import numpy as np
import scipy.linalg

from cdopt._util.checks import BoolArray, FloatArray, IntArray
from cdopt._util.errors import SolveFailed, Unsupported
from cdopt._util.linear_program import linprog
from cdopt.hyperstatic.sensitivities.tangent import TOUCHING, Tangent
from cdopt.problem.contact_law import HOOKE

_CARRIES = (1e-6, 1e-4, 1e-2)  # shares of the change above which a touching contact carries some
_MET = 1e-8  # what the optimality conditions are held to
_LARGEST = 3000  # contacts, for dense algebra


def one_sided(at: Tangent, kappa: FloatArray, load: FloatArray, contacts: IntArray) -> FloatArray:
    """df (n,) for a small step along κ (n,) and dF̃ (m,), scaled; ``contacts`` names them.

    Raises
    ------
    Unsupported : no contact that carries or touches bears the load; or, for p ≠ 2, the touching
        contacts' shares are not of first order, or not unique.
    SolveFailed : a solver left no answer.
    """
    p = at.truss.law.power
    borne = at.bears(load)
    if borne and (p > HOOKE or not at.touching.any()):
        return at.push(kappa, load)
    if at.f.size > _LARGEST:
        raise Unsupported("this derivative", f"more than {_LARGEST} contacts, some just touching")
    touching = at.touching if borne else _touching_under(at, load)
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
        load @ free, A_ub=-B[idle] @ free, b_ub=np.maximum(-at.overlap[idle], 0.0),
        bounds=(None, None),
    )  # fmt: skip
    if answer.x is None or answer.status != 0:
        raise Unsupported("this derivative", "no contact bears that change of load")
    touching = np.zeros(at.f.size, dtype=bool)
    touching[idle] = -(B[idle] @ free @ answer.x) + at.overlap[idle] >= -TOUCHING
    return touching


def _refined(at: Tangent, touching: IntArray, kappa: FloatArray, load: FloatArray) -> FloatArray:
    """The quadratic program by Clarabel; then the linear system of the contacts that carry.

    Clarabel's touching contacts are told from zero at several thresholds, and the linear system
    whose answer misses the optimality conditions least is taken.
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
        kept = touching[share > level]
        rows, idle = np.append(loaded, kept), np.setdiff1d(touching, kept)
        compliance = np.append(soft, yields[kept])
        B = at.truss.B[rows].toarray()
        m = B.shape[1]
        system = np.block([[np.diag(compliance), B], [B.T, np.zeros((m, m))]])
        right = np.concatenate([soft * pull, np.zeros(kept.size), load])
        answer = scipy.linalg.lstsq(system, right)[0]
        df, du = answer[: rows.size], answer[rows.size :]
        missed = float(np.abs(system @ answer - right).max(initial=0.0))
        tension = -float(df[loaded.size :].min(initial=0.0))
        closing = _closing(at.truss.B[idle].toarray(), du, B)
        worst = max(missed, tension, closing) / size
        if worst < least:
            best, least = np.zeros(at.f.size), worst
            best[rows] = df
    if not least <= _MET:
        raise SolveFailed(
            f"no one-sided derivative: its optimality conditions are missed by {least:.1e}",
            backend="clarabel",
            status="not certified",
        )
    return best


def _closing(idle: FloatArray, du: FloatArray, held: FloatArray) -> float:
    """By how much idle contacts must close, in the best of the motions that go with the forces.

    These are du and whatever moves no contact that is ``held``.
    """
    opened = idle @ du
    closing = -float(opened.min(initial=0.0))
    free = scipy.linalg.null_space(held)
    if closing == 0.0 or free.shape[1] == 0:
        return closing
    k = free.shape[1]  # over y and t: least t with opened + idle free y + t ≥ 0, t ≥ 0
    answer = linprog(
        np.append(np.zeros(k), 1.0), A_ub=-np.column_stack([idle @ free, np.ones(opened.size)]),
        b_ub=opened, bounds=[*[(None, None)] * k, (0.0, None)],
    )  # fmt: skip
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
        words = str(error)
        raise SolveFailed("no one-sided derivative", backend="clarabel", status=words) from error
    if h.value is None:
        raise Unsupported("this derivative", "no contact bears that change of load")
    return np.asarray(h.value)
