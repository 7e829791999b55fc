"""Newton's method for steps with friction, of both laws.

A proximal point method on the forces (R. T. Rockafellar, Math. Oper. Res. 1, 1976): each outer step
solves the step with compliance 1/r added at the contacts,

    M (v − v*) = Δt Bᵀ f,    f = P_K(f_k − r g̃(v)),

by a semismooth Newton method in v (in h with v = v* + Δt M⁻¹Bᵀh where N alone is known), and r
grows fourfold. With the associated law the inner problem is the minimum of a convex function, and
Newton steps are damped by its value. With the law of Coulomb the system is not symmetric; where
Newton's step does not reduce the residual, convex steps with the shift μ‖g_T‖ of the last iterate
replace it. Round-off in the rates enters the forces r times magnified, so r is reduced again at
the end.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import scipy.sparse as sp
from scipy.sparse.linalg import LinearOperator, bicgstab, cg, splu

from cdopt._util.checks import FloatArray, IntArray
from cdopt._util.compiled import clock
from cdopt.backends.deadline import Deadline
from cdopt.backends.native import Outcome, Report, starting_forces
from cdopt.backends.threads import threads_for
from cdopt.problem import FrictionalData, FrictionalStepData
from cdopt.problem import friction_cone as cone
from cdopt.problem.certificate import EPS
from cdopt.problem.scaling import Entries, ScaledDelassus, ScaledDynamics
from cdopt.problem.solution import Iterate
from cdopt.problem.warm_start import WarmStart

_GROWTH = 4.0  # of r, from one outer step to the next
_LARGEST = 1e8  # r w at most
_INNER = 20  # Newton steps of one outer step
_TRIALS = 4  # of Newton on the law of Coulomb, each after convex steps
_LAGGED = 2  # convex steps between two trials
_SHARE = 1e-2  # of the natural map, the accuracy of the next inner problem
_BLOCK = 6  # dofs of a body at most, for a block of the preconditioner
_LINEAR = 1e-6, 1e-2  # relative residual of iterative solves, at least and at most
_ITERATIONS = 500  # of them; then a factorisation
_REACHABLE = 1e-10  # natural map that counts as solved, whatever accuracy beyond it is asked for
_DENSE = 800  # unknowns up to which systems are solved as dense ones
_FULL = 60  # unknowns up to which B is a dense matrix, too
_ROUND_OFF = EPS  # times r w: what round-off leaves in an inner problem
_NOISE = 1e5  # times that: natural maps which may stall for round-off
_PROGRESS = 0.5  # a natural map above this share of the best one has stalled
_STALLS = 3  # stalled outer steps before r is reduced
_POLISH = 4  # outer steps at the end, each with a smaller r
_REDUCTION = 64.0  # of r at each of them


class System(Protocol):
    """The linear part of a scaled step: rates g = R x + p of unknowns x, x in balance with f."""

    def rates(self, x: FloatArray) -> FloatArray:
        """g (contacts, d)."""

    def residual(self, x: FloatArray, f: FloatArray) -> FloatArray:
        """Imbalance of x with forces f (contacts, d)."""

    def size(self, residual: FloatArray) -> float:
        """Norm of an imbalance."""

    def energy(self, x: FloatArray) -> float:
        """Kinetic energy of x; ``slope`` is that of energy and cones along a step."""

    def slope(self, residual: FloatArray, dx: FloatArray) -> float:
        """Derivative of the convex function of the inner problem along dx."""

    def newton_step(
        self, H: FloatArray, residual: FloatArray, rtol: float, symmetric: bool
    ) -> FloatArray:
        """dx that balances the residual to first order, with −∂f/∂g = H (contacts, d, d).

        ``rtol`` is the relative residual of iterative solves.
        """

    def caused_by(self, f: FloatArray) -> FloatArray:
        """x in balance with forces f (contacts, d)."""


class Motions:
    """A step with matrices: x = w = v − v*, M w = Bᵀf."""

    def __init__(self, step: ScaledDynamics, d: int, body: IntArray) -> None:
        """``body`` (nv,) is the body of each dof."""
        self.M, self.B, self.p, self.d = step.M, step.B, step.p.reshape(-1, d), d
        self.mass = step.M.diagonal()
        self.entries = Entries(step.B)
        self.diagonal = step.M.nnz == step.M.shape[0]
        self.full = step.B.toarray() if step.M.shape[0] <= _FULL else None
        self.blocks = DiagonalBlocks(body)

    def rates(self, x: FloatArray) -> FloatArray:
        """Rates g = R x + p (contacts, d)."""
        return self.entries.times(x).reshape(self.p.shape) + self.p

    def residual(self, x: FloatArray, f: FloatArray) -> FloatArray:
        """Imbalance of x with forces f (contacts, d)."""
        return np.asarray(self.M @ x - self.entries.load(f.ravel()))

    def size(self, residual: FloatArray) -> float:
        """Norm of an imbalance."""
        return float(np.sqrt(np.sum(residual**2 / self.mass)))

    def energy(self, x: FloatArray) -> float:
        """Kinetic energy."""
        return float(0.5 * x @ (self.M @ x))

    def slope(self, residual: FloatArray, dx: FloatArray) -> float:
        """Derivative of the convex function along dx."""
        return float(residual @ dx)

    def newton_step(
        self, H: FloatArray, residual: FloatArray, rtol: float, symmetric: bool
    ) -> FloatArray:
        """Newton's step."""
        if self.full is not None:
            HB = H @ self.full.reshape(H.shape[0], self.d, -1)
            J = self.M.toarray() + self.full.T @ HB.reshape(self.full.shape)
            return np.asarray(np.linalg.solve(J, -residual))
        system = sp.csr_array(self.M + self.B.T @ (_blocks(H) @ self.B))
        if residual.size <= _DENSE:
            return np.asarray(np.linalg.solve(system.toarray(), -residual))
        return _iterate(system, -residual, self.blocks.inverse(system), rtol, symmetric)

    def caused_by(self, f: FloatArray) -> FloatArray:
        """The unknowns in balance with forces f (contacts, d)."""
        load = self.entries.load(f.ravel())
        if self.diagonal:
            return load / self.mass
        return np.asarray(splu(sp.csc_array(self.M)).solve(load))


class Reactions:
    """A step known by N and p: x = h, forces that cause the rates g = N h + p, h = f."""

    def __init__(self, step: ScaledDelassus, d: int) -> None:
        self.N, self.p, self.d = step.N, step.p.reshape(-1, d), d
        self.entries, self.diagonal = Entries(step.N), step.N.diagonal()
        self.dense = step.N.shape[0] <= _DENSE or step.N.nnz > 0.1 * step.N.shape[0] ** 2
        self.full = step.N.toarray() if self.dense else np.zeros((0, 0))

    def rates(self, x: FloatArray) -> FloatArray:
        """Rates g = R x + p (contacts, d)."""
        return self._times(x).reshape(self.p.shape) + self.p

    def residual(self, x: FloatArray, f: FloatArray) -> FloatArray:
        """Imbalance of x with forces f (contacts, d)."""
        return x - f.ravel()

    def size(self, residual: FloatArray) -> float:
        """Norm of an imbalance."""
        return float(np.sqrt(np.sum(self.diagonal * residual**2)))

    def energy(self, x: FloatArray) -> float:
        """Kinetic energy."""
        return float(0.5 * x @ self._times(x))

    def slope(self, residual: FloatArray, dx: FloatArray) -> float:
        """Derivative of the convex function along dx."""
        return float(residual @ self._times(dx))

    def newton_step(
        self, H: FloatArray, residual: FloatArray, rtol: float, symmetric: bool
    ) -> FloatArray:
        """Newton's step."""
        nc, n = H.shape[0], residual.size
        if self.dense:
            J = (H @ self.full.reshape(nc, self.d, n)).reshape(n, n)
            J.flat[:: n + 1] += 1.0
            return np.asarray(np.linalg.solve(J, -residual))
        return _factorised(sp.csr_array(sp.eye_array(n) + _blocks(H) @ self.N), -residual)

    def caused_by(self, f: FloatArray) -> FloatArray:
        """The unknowns in balance with forces f (contacts, d)."""
        return f.ravel().copy()

    def _times(self, x: FloatArray) -> FloatArray:
        return np.asarray(self.full @ x) if self.dense else self.entries.times(x)


def _forcing(tol: float, size: float) -> float:
    """Relative residual of a Newton step that need not go below ``tol`` from ``size``."""
    return float(np.clip(0.1 * tol / size, *_LINEAR))


def _blocks(H: FloatArray) -> sp.csr_array:
    """Blocks (nc, d, d) on the diagonal of a sparse matrix."""
    nc, d, _ = H.shape
    return sp.csr_array(sp.bsr_array((H, np.arange(nc), np.arange(nc + 1)), shape=(nc * d, nc * d)))


class DiagonalBlocks:
    """The diagonal blocks of matrices on dofs, one for each body of at most six dofs.

    Dofs of larger bodies are blocks of their own.
    """

    def __init__(self, body: IntArray) -> None:
        count = np.bincount(body, minlength=1)
        alone = count[body] > _BLOCK
        label = np.where(alone, count.size + np.arange(body.size), body)
        _, self.label = np.unique(label, return_inverse=True)
        order = np.argsort(self.label, kind="stable")
        first = np.searchsorted(self.label[order], self.label[order])
        self.position = np.empty(body.size, dtype=np.int64)
        self.position[order] = np.arange(body.size) - first
        self.shape = (int(self.label.max(initial=-1)) + 1, int(self.position.max(initial=0)) + 1)

    def inverse(self, J: sp.csr_array) -> LinearOperator:
        """The inverse of the blocks of J, as a preconditioner."""
        rows = np.repeat(np.arange(J.shape[0]), np.diff(J.indptr))
        label, position = self.label, self.position
        inside = label[rows] == label[J.indices]
        rows, columns = rows[inside], J.indices[inside]
        count, size = self.shape
        blocks = np.zeros((count, size, size))
        unused = np.ones((count, size), dtype=bool)
        unused[label, position] = False
        blocks[:, np.arange(size), np.arange(size)] = unused
        blocks[label[rows], position[rows], position[columns]] = J.data[inside]
        inverse = np.linalg.inv(blocks)

        def times(r: FloatArray) -> FloatArray:
            padded = np.zeros(self.shape)
            padded[label, position] = r.ravel()
            return np.asarray((inverse @ padded[:, :, None])[label, position, 0])

        return LinearOperator(J.shape, matvec=times, dtype=np.float64)


def _iterate(
    J: sp.csr_array, rhs: FloatArray, inverse: LinearOperator, rtol: float, symmetric: bool
) -> FloatArray:
    """J⁻¹ rhs by conjugate gradients, or BiCGSTAB; by SuperLU where that does not converge."""
    if not np.isfinite(J.data).all():
        raise ArithmeticError("a number beyond what a double holds")
    solve = cg if symmetric else bicgstab
    x, info = solve(J, rhs, rtol=rtol, atol=0.0, maxiter=_ITERATIONS, M=inverse)
    if info == 0 and np.isfinite(x).all():
        return np.asarray(x)
    return _factorised(J, rhs)


def _factorised(J: sp.csr_array, rhs: FloatArray) -> FloatArray:
    """J⁻¹ rhs by SuperLU; the pattern of J is symmetric.

    Raises
    ------
    ArithmeticError : J is singular to working accuracy.
    """
    if not np.isfinite(J.data).all():
        raise ArithmeticError("a number beyond what a double holds")
    try:
        factors = splu(sp.csc_array(J), permc_spec="MMD_AT_PLUS_A", diag_pivot_thresh=0.01)
    except RuntimeError as error:
        raise ArithmeticError(str(error)) from error
    return np.asarray(factors.solve(rhs))


@dataclass
class Statistics:
    """What a run spent: Newton steps, and among the inner problems those with a lagged shift."""

    newton: int = 0
    lagged: int = 0


class Iteration:
    """The inner problems of one step.

    Attributes
    ----------
    mu : (contacts,) friction coefficients.
    coulomb : whether the law is that of Coulomb.
    """

    def __init__(self, system: System, mu: FloatArray, coulomb: bool, deadline: Deadline) -> None:
        self.system, self.mu, self.coulomb, self.deadline = system, mu, coulomb, deadline
        self.spent = Statistics()

    def inner(self, x: FloatArray, f: FloatArray, r: FloatArray, tol: float) -> FloatArray:
        """x after the inner problem from forces f (contacts, d), with penalties r (contacts,)."""
        if not self.coulomb:
            return self._convex(x, f, r, np.zeros(self.mu.size), tol)
        for _ in range(_TRIALS):
            x, met = self._newton(x, f, r, tol)
            if met or self.deadline.passed:
                break
            for _ in range(_LAGGED):
                rates = self.system.rates(x)
                shift = cone.shifted(rates, self.mu)[:, 0] - rates[:, 0]
                x = self._convex(x, f, r, shift, tol)
                self.spent.lagged += 1
        return x

    def reach(self, x: FloatArray, f: FloatArray, r: FloatArray) -> FloatArray:
        """f − r g̃ (contacts, d), whose projection is the next force."""
        rates = self.system.rates(x)
        return f - r[:, None] * (cone.shifted(rates, self.mu) if self.coulomb else rates)

    def _newton(
        self, x: FloatArray, f: FloatArray, r: FloatArray, tol: float
    ) -> tuple[FloatArray, bool]:
        """Newton on the law of Coulomb, damped by the residual; and whether it converged."""
        system, mu = self.system, self.mu

        def at(x: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray, float]:
            rates = system.rates(x)
            y = f - r[:, None] * cone.shifted(rates, mu)
            residual = system.residual(x, cone.project(y, mu))
            return rates, y, residual, system.size(residual)

        rates, y, residual, size = at(x)
        for _ in range(_INNER):
            if size <= tol:
                return x, True
            H = cone.projection_derivative(y, mu) @ cone.shift_derivative(rates, mu)
            dx = system.newton_step(r[:, None, None] * H, residual, _forcing(tol, size), False)
            self.spent.newton += 1
            share = 1.0
            while True:
                trial = at(x + share * dx)
                if trial[3] <= (1.0 - 0.01 * share) * size:
                    break
                share *= 0.5
                if share < 0.01:
                    return x, False
            x = x + share * dx
            rates, y, residual, size = trial
        return x, size <= tol

    def _convex(
        self, x: FloatArray, f: FloatArray, r: FloatArray, shift: FloatArray, tol: float
    ) -> FloatArray:
        """The minimum of ½‖w‖²_M + Σ ‖P_K(f − r (g + shift e_n))‖² / 2r, to ``tol``."""
        system, mu = self.system, self.mu

        def at(x: FloatArray) -> tuple[FloatArray, FloatArray, float, float]:
            rates = system.rates(x)
            rates[:, 0] += shift
            y = f - r[:, None] * rates
            forces = cone.project(y, mu)
            residual = system.residual(x, forces)
            value = system.energy(x) + 0.5 * float(np.sum(np.sum(forces**2, axis=1) / r))
            return y, residual, value, system.size(residual)

        y, residual, value, size = at(x)
        for _ in range(_INNER):
            if size <= tol:
                break
            H = r[:, None, None] * cone.projection_derivative(y, mu)
            dx = system.newton_step(H, residual, _forcing(tol, size), True)
            self.spent.newton += 1
            slope, share = system.slope(residual, dx), 1.0
            while True:
                trial = at(x + share * dx)
                descends = trial[2] <= value + 1e-4 * share * slope
                if descends or trial[3] <= 0.5 * size:
                    break
                share *= 0.5
                if share < 1e-6:
                    return x
            x = x + share * dx
            y, residual, value, size = trial
        return x


def solve_step(
    data: FrictionalData,
    start: WarmStart | None,
    report: Report,
    deadline: Deadline,
    accuracy: float,
    max_steps: int,
) -> Outcome:
    """Solve a step with friction; ``max_steps`` bounds the outer steps."""
    mu, d = data.friction.mu, data.d
    system: System
    if isinstance(data, FrictionalStepData):
        system = Motions(data.scaled(), d, data.bodies.label)
    else:
        system = Reactions(data.scaled(), d)
    w = (data.mobility * data.force / data.speed)[::d]
    f = cone.project(starting_forces(data, start, signed=True).reshape(-1, d), mu)
    iteration = Iteration(system, mu, data.law == "coulomb", deadline)
    prepared = clock()
    with threads_for(data.nc, data.nv or data.nc):
        f, residuals = _outer(iteration, f, w, accuracy, max_steps)
    solved = clock()
    least = min(residuals, default=0.0)
    met = least <= max(accuracy, _REACHABLE)
    spent = iteration.spent
    how = f"{len(residuals)} proximal steps, {spent.newton} Newton steps"
    how += f", {spent.lagged} convex steps" if spent.lagged else ""
    report(f"{how}, natural map {least:.1e}")
    forces = data.force * f.ravel()
    return Outcome(
        Iterate(data.velocity(forces), forces),
        met,
        len(residuals),
        prepared,
        solved,
        [np.array(residuals)],
        how,
        status=f"stopped at natural map {least:.1e}",
    )


def _outer(
    iteration: Iteration, f: FloatArray, w: FloatArray, accuracy: float, max_steps: int
) -> tuple[FloatArray, list[float]]:
    """The proximal steps; the best forces, and the natural map after each step."""
    system, mu, natural = iteration.system, iteration.mu, _natural(iteration, w)
    x = system.caused_by(f)
    impulse = system.size(system.residual(np.zeros_like(x), system.rates(0.0 * x) / w[:, None]))
    impulse = impulse or 1.0
    penalty, inner, best, best_forces = 1.0, 1e-3, natural(f), f
    history, stalls, polished = list[float](), 0, 0
    if best <= accuracy:
        return f, [best]
    for _ in range(max_steps):
        if iteration.deadline.passed:
            break
        r = penalty / w
        x = iteration.inner(x, f, r, impulse * max(inner, _ROUND_OFF * penalty))
        f = cone.project(iteration.reach(x, f, r), mu)
        history.append(natural(f))
        error = history[-1]
        limited = penalty == _LARGEST or error <= _NOISE * _ROUND_OFF * penalty
        stalls = stalls + 1 if limited and error > _PROGRESS * best else 0
        if error < best:
            best, best_forces = error, f
        if best <= accuracy or polished == _POLISH:
            break
        if polished or stalls == _STALLS:
            polished, penalty = polished + 1, max(penalty / _REDUCTION, 1.0)
        else:
            penalty = min(_GROWTH * penalty, _LARGEST)
        inner = max(min(0.1 * inner, _SHARE * error), EPS)
    return best_forces, history


def _natural(iteration: Iteration, w: FloatArray) -> Callable[[FloatArray], float]:
    """The largest natural map of forces (contacts, d), in scaled units."""
    system, mu = iteration.system, iteration.mu

    def natural(f: FloatArray) -> float:
        rates = system.rates(system.caused_by(f))
        if iteration.coulomb:
            rates = cone.shifted(rates, mu)
        sizes = np.linalg.norm(cone.natural_map(f, rates, mu, w), axis=1)
        return float(sizes.max(initial=0.0))

    return natural
