"""Newton's method in the forces of a truss of a power near 1, equation (36).

minimise over f ≥ 0  Σ w*(f)  subject to  Bᵀ f = F̃, with w*′(f) = (f/k)^t, t = 1/(p − 1): a norm of
high order. The power is brought down from p = 2 in steps (Burrus, Barreto & Selesnick, IEEE Trans.
Signal Process. 42, 1994). Contacts whose force reaches zero leave; those that would overlap
return. Weights 1/w*″ span hundreds of decades, so that each system is posed in the overlaps of a
basis of contacts, the stiffest ones (``problem.truss``): no overlap is a difference of large
numbers, and the scaled matrix is well conditioned.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from cdopt._util.checks import BoolArray, FloatArray
from cdopt.backends.deadline import Deadline
from cdopt.backends.network_problem import IterationResult, NetworkProblem
from cdopt.problem.contact_law import PowerLaw
from cdopt.problem.scaling import Entries
from cdopt.problem.truss import LARGEST, LEAST, resolved, stiffest_basis

_RATIO = 1.25  # of t from one stage to the next
_ROUGH, _STAGE = 1e-2, 0.05  # accuracy of the first stage; of the others, times t
_TO_BOUNDARY, _SHORTER, _UPHILL = 0.99, 0.6, 0.5  # of steps, and of the slope where one ends
_ZERO, _REENTRY, _MISSED = 1e-10, 1e-6, 1e-7  # scaled forces: none, at re-entry, that re-enter
_BALANCED = 1e-8
_STEPS = 100  # of a stage


@dataclass
class _State:
    """Scaled forces f (nc,), the contacts that press, and the overlaps of the last system."""

    f: FloatArray
    pressing: BoolArray
    overlap: FloatArray
    steps: int = 0


def suits(problem: NetworkProblem) -> bool:
    """Whether the problem is a small truss without prescribed displacements."""
    truss = problem.net.mass is None and problem.law is not None and not np.any(problem.p)
    return truss and 0 < problem.net.m <= LARGEST and problem.net.nc > 0


def minimise(
    problem: NetworkProblem, law: PowerLaw, tol: float, limit: int, deadline: Deadline
) -> IterationResult:
    """Forces and displacements, the power brought down from 2; not converged where it fails."""
    B, t, last = problem.net.B.toarray(), 1.0, 1.0 / (law.power - 1.0)
    nc = problem.net.nc
    state = _State(np.ones(nc), np.ones(nc, dtype=bool), np.zeros(nc))
    problem.net.statistics.methods.append("Newton's method in the forces")
    history: list[float] = []
    while True:
        final = t >= last
        goal = max(tol, 1e-13) if final else _ROUGH if t == 1.0 else _STAGE / t
        size = _stage(B, problem, law.stiffness, t, state, goal, limit, deadline)
        history.append(size)
        if final or not np.isfinite(size) or deadline.passed or state.steps >= limit:
            break
        t = min(_RATIO * t, last)
    error = float(np.abs(problem.balance(np.zeros(problem.net.m), state.f)).max(initial=0.0))
    done = final and size <= max(tol, 1e-13) and error <= max(tol, 1e-13)
    u = _displacements(problem, B, law, state) if done else np.zeros(problem.net.m)
    return IterationResult(u, state.f, max(size, error), state.steps, history, done)


def _stage(
    B: FloatArray,
    problem: NetworkProblem,
    k: FloatArray,
    t: float,
    state: _State,
    goal: float,
    limit: int,
    deadline: Deadline,
) -> float:
    """Newton steps at one power, from ``state`` on; the size of the last one."""
    for _ in range(_STEPS):
        on = state.pressing
        f, log_k = state.f[on], np.log(k[on])
        if not f.size or state.steps >= limit or deadline.passed:
            break
        state.steps += 1
        c = np.maximum(np.exp(t * (np.log(f) - log_k)), LEAST)
        off = problem.load - B.T @ state.f
        try:
            change, overlap = _direction(B, on, f, c, t, off)
        except np.linalg.LinAlgError:
            break
        imbalance = float(np.abs(off).max())
        size = max(float(np.abs(change).max()), imbalance)
        if not np.isfinite(size):
            break
        length = min(1.0, _TO_BOUNDARY / max(float((-change / f).max()), _ZERO))
        if imbalance <= _BALANCED and t * float(np.abs(change / f).max()) > 1.0:
            while length > _ZERO:
                ahead = np.exp(t * (np.log(f + length * change) - log_k))
                if ahead @ change <= _UPHILL * abs(float(c @ change)):
                    break
                length *= _SHORTER
        state.f[on] = f + length * change
        gone = on & (state.f < _ZERO)
        if gone.any():
            state.f[gone], state.pressing = 0.0, on & ~gone
        elif size <= goal:
            missed = np.where(on, 0.0, k * np.maximum(overlap, 0.0) ** (1.0 / t))
            state.overlap = overlap
            if not missed.max() > _MISSED:
                return size
            back = int(np.argmax(missed))
            state.pressing, state.f[back] = on | (np.arange(on.size) == back), _REENTRY
    return np.inf


def _direction(
    B: FloatArray, on: BoolArray, f: FloatArray, c: FloatArray, t: float, off: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """The change of the forces f of the contacts ``on``, and the overlaps (nc,) it aims at.

    ``c`` are the overlaps of f by the law, ``off`` (m,) is the load that f does not yet carry.
    """
    weight = np.zeros(on.size)
    weight[on] = f / (t * c)
    R, C, T = stiffest_basis(B, weight)
    pulled = np.linalg.solve(B[np.ix_(R, C)].T, off[C]) + T[on].T @ (f / t)
    unit = 1.0 / np.sqrt(weight[R])
    root = np.sqrt(weight)[:, None] * T * unit
    overlap = T @ (unit * np.linalg.solve(root.T @ root, unit * pulled))
    return weight[on] * overlap[on] - f / t, overlap


def _displacements(
    problem: NetworkProblem, B: FloatArray, law: PowerLaw, state: _State
) -> FloatArray:
    """The displacements of the overlaps, rounded to double precision."""
    c = np.where(state.f > 0.0, law.overlap(state.f), state.overlap)
    weight = np.where(state.f > 0.0, state.f / np.maximum(c, LEAST), 0.0)
    R, C, _ = stiffest_basis(B, weight)
    entries = Entries(problem.net.B)
    u = np.zeros(problem.net.m)
    u[C] = np.linalg.solve(B[np.ix_(R, C)], -c[R])
    return resolved(entries, B[np.ix_(R, C)], R, C, c[R], u)[1]
