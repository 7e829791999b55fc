"""Newton's method for steps with friction, of both laws.

A proximal point method on the forces (R. T. Rockafellar, Math. Oper. Res. 1, 1976): each outer step
solves the step with compliance 1/r added at the contacts,

    M (v − v*) = Δt Bᵀ f,    f = P_K(f_k − r g̃(v)),

by a semismooth Newton method in v (in h with v = v* + Δt M⁻¹Bᵀh where N alone is known), and r
grows fourfold. With the associated law the inner problem is the minimum of a convex function, and
the length of a Newton step is that where its slope vanishes. The law of Coulomb is solved in two
phases. In the first, the shift μ‖g_T‖ is that of the last outer step, which makes inner problems
convex; it brings the forces near a solution, or ends where the shift does not settle. In the second
the system is that of the law itself, which is not symmetric; where Newton's step does not reduce
the residual, convex steps with the shift of the last iterate replace it. Round-off in the rates
enters the forces r times magnified, so r is reduced again at the end.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp

from cdopt._util.checks import FloatArray, IntArray
from cdopt.backends.deadline import Deadline
from cdopt.backends.linalg.factorisation import factorised
from cdopt.backends.linalg.network import network
from cdopt.backends.native import Outcome, Run, outcome_of, starting_forces
from cdopt.backends.potential_newton import line_search
from cdopt.problem import ContactProblem, ScaledProblem
from cdopt.problem import friction_cone as cone
from cdopt.problem.certificate import worst_residual
from cdopt.problem.residual import EPS
from cdopt.problem.scaling import Entries

_FIRST = 16.0  # r w of the first outer step
_GROWTH = 4.0  # of r, from one outer step to the next
_LARGEST = 1e8  # r w at most
_INNER = 20  # Newton steps of one outer step
_TRIALS = 4  # of Newton on the law of Coulomb, each after convex steps
_LAGGED = 2  # convex steps between two trials
_NEAR = 1e-2  # natural map at which the first phase of the law of Coulomb ends
_SETTLING = 0.3  # or where two outer steps leave more than this share of it
_LOOSE = 1e-2  # accuracy of the first inner problem
_SHARE = 1e-2  # of the natural map, the accuracy of the next inner problem
_LINEAR = 1e-6, 1e-2  # relative residual of iterative solves, at least and at most
_ITERATIONS = 500  # of them; then a factorisation
_REACHABLE = 1e-10  # natural map that counts as solved, whatever accuracy beyond it is asked for
_DENSE = 800  # unknowns up to which systems are solved as dense ones
_FULL = 60  # unknowns up to which B is a dense matrix, too
_NOISE = 1e4  # times EPS r w: natural maps which may stall for round-off
_FLOOR = 100.0  # times EPS r w: natural maps that round-off stalls soon, so that r is reduced,
_QUICK = 0.02  # where the last step left at most this share of it: smaller r will do
_PROGRESS = 0.5  # a natural map above this share of the best one has stalled
_STALLS = 3  # stalled outer steps before r is changed
_REDUCTION = 8.0  # of r, where round-off has been reached


# The linear part of a scaled step: rates g = R x + p of unknowns x that balance forces f. Motions
# and Reactions have the same methods; ``inertia`` is what forces have to balance.


class _Linear:
    """Attributes: p (contacts, d), and the ``weight`` of each entry of an imbalance."""

    p: FloatArray
    weight: FloatArray
    change: Callable[[FloatArray], FloatArray]  # of the rates (contacts, d)
    load: Callable[[FloatArray], FloatArray]  # of forces (contacts, d)

    def rates(self, x: FloatArray) -> FloatArray:
        """Rates g = R x + p (contacts, d)."""
        return self.change(x) + self.p

    def residual(self, inertia: FloatArray, f: FloatArray) -> FloatArray:
        """Imbalance of an ``inertia`` with forces f (contacts, d)."""
        return inertia - self.load(f)

    def size(self, residual: FloatArray) -> float:
        """Norm of an imbalance."""
        return float(np.sqrt(np.sum(residual**2 * self.weight)))


class Motions(_Linear):
    """A step with matrices: x = w = v − v*, M w = Bᵀf, in the order of a contact network."""

    def __init__(self, step: ScaledProblem, d: int, body: IntArray) -> None:
        """``body`` (nv,) is the body of each dof."""
        self.net = network(step.B, body, step.S, d=d)
        self.p, self.weight = step.p.reshape(-1, d), 1.0 / self.net.mass_diagonal
        self.change = lambda dx: self.net.gap(dx).reshape(self.p.shape)
        self.load = lambda f: self.net.load(f.ravel())
        self.inertia = self.net.inertia
        self.full = self.net.B.toarray() if self.net.m <= _FULL else None
        self.full_mass = sp.csr_array(step.S).toarray() if self.full is not None else None

    def work(self, x: FloatArray, inertia: FloatArray, change: FloatArray) -> float:
        """xᵀ M dx, a kinetic energy, from the ``inertia`` and the ``change`` of dx."""
        return float(x @ inertia)

    def newton_step(
        self, left: FloatArray, right: FloatArray, residual: FloatArray, rtol: float
    ) -> FloatArray:
        """dx that balances the residual to first order, with −∂f/∂g = leftᵀ right.

        Both are (contacts, d, d), and one array where this is symmetric. ``rtol`` is the relative
        residual of iterative solves.
        """
        net, H = self.net, left.transpose(0, 2, 1)
        if self.full is not None:
            HB = H @ right @ self.full.reshape(*self.p.shape, -1)
            J = self.full_mass + self.full.T @ HB.reshape(self.full.shape)
            return np.asarray(np.linalg.solve(J, -residual))
        if net.pairs is not None and net.blocks is not None:
            system: Any = net.system(left) if left is right else net.unsymmetric(left, right)
            dx = np.asarray(system.solve(-residual, rtol, _ITERATIONS))
            if not system.gave_up and np.isfinite(dx).all():
                return dx
        J = sp.csr_array(net.mass + net.B.T @ (_blocks(H @ right) @ net.B))
        if residual.size <= _DENSE:
            return np.asarray(np.linalg.solve(J.toarray(), -residual))
        return factorised(J)(-residual)

    def caused_by(self, f: FloatArray) -> FloatArray:
        """The unknowns in balance with forces f (contacts, d)."""
        return self.net.motion(self.load(f))


class Reactions(_Linear):
    """A step known by N and p: x = h, forces that cause the rates g = N h + p, h = f."""

    def __init__(self, step: ScaledProblem, d: int) -> None:
        N = self.N = sp.csr_array(step.N)
        self.p, self.weight = step.p.reshape(-1, d), N.diagonal()
        dense = N.shape[0] <= _DENSE or N.nnz > 0.1 * N.shape[0] ** 2
        self.full = N.toarray() if dense else None
        times = Entries(N).times if self.full is None else self.full.__matmul__
        self.change = lambda dx: np.asarray(times(dx)).reshape(self.p.shape)
        self.load = np.ravel
        self.inertia = np.asarray

    def work(self, x: FloatArray, inertia: FloatArray, change: FloatArray) -> float:
        """xᵀ N dx."""
        return float(x @ change.ravel())

    def newton_step(
        self, left: FloatArray, right: FloatArray, residual: FloatArray, rtol: float
    ) -> FloatArray:
        """Newton's step."""
        H, n = left.transpose(0, 2, 1) @ right, residual.size
        if self.full is None:
            return factorised(sp.csr_array(sp.eye_array(n) + _blocks(H) @ self.N))(-residual)
        J = (H @ self.full.reshape(*self.p.shape, n)).reshape(n, n)
        J.flat[:: n + 1] += 1.0
        return np.asarray(np.linalg.solve(J, -residual))

    def caused_by(self, f: FloatArray) -> FloatArray:
        """The unknowns in balance with forces f (contacts, d)."""
        return f.ravel().copy()


def _blocks(H: FloatArray) -> sp.csr_array:
    """Blocks (nc, d, d) on the diagonal of a sparse matrix."""
    nc, d, _ = H.shape
    return sp.csr_array(sp.bsr_array((H, np.arange(nc), np.arange(nc + 1)), shape=(nc * d, nc * d)))


def solve_step(data: ContactProblem, run: Run, accuracy: float, max_steps: int) -> Outcome:
    """Solve a step with friction; ``max_steps`` bounds the outer steps."""
    mu, d = np.array(data.cones.mu), data.d
    system: Motions | Reactions
    if data.N is None:
        system = Motions(data.scaled(), d, data.bodies.label)
    else:
        system = Reactions(data.scaled(), d)
    w = data.mobility * (data.force / data.speed)[::d]
    f = cone.project(starting_forces(data, run.start, signed=True).reshape(-1, d), mu)

    def worst(f: FloatArray) -> float:
        return worst_residual(data, data.force * f.ravel())

    proximal = Proximal(system, mu, w, data.law == "coulomb", run.deadline, accuracy, worst)
    with run.iterating(data.rows, data.nv or data.rows):
        f, residuals = proximal.solve(f, max_steps)
    least = min(residuals, default=0.0)
    met = least <= max(accuracy, _REACHABLE)
    how = f"{len(residuals):,} proximal steps, {proximal.newton_steps:,} Newton steps"
    how += f", {proximal.convex_steps} convex steps" if proximal.convex_steps else ""
    run.report(f"{how}, natural map {least:.1e}")
    status = f"stopped at natural map {least:.1e}"
    forces, history = data.force * f.ravel(), [np.array(residuals)]
    return outcome_of(data, forces, met, len(residuals), history, how, status)


@dataclass
class Proximal:
    """The proximal steps and their inner problems.

    Attributes
    ----------
    mu, w : (contacts,) friction coefficients; mobility of each contact, in scaled units.
    coulomb : whether the law is that of Coulomb.
    accuracy : of the natural map, at which forces are judged by ``worst``, the largest residual
        of their certificate.
    lagged : whether Coulomb's shift is that of the last outer step.
    newton_steps, convex_steps : taken so far; among the inner problems those with a lagged shift.
    """

    system: Motions | Reactions
    mu: FloatArray
    w: FloatArray
    coulomb: bool
    deadline: Deadline
    accuracy: float
    worst: Callable[[FloatArray], float]
    lagged: bool = False
    newton_steps: int = 0
    convex_steps: int = 0

    def solve(self, f: FloatArray, max_steps: int) -> tuple[FloatArray, list[float]]:
        """The best forces, and the natural map after each proximal step."""
        self.lagged = self.coulomb
        best, worst, history = self.phase(f, max_steps)
        self.lagged, solved = False, max(self.accuracy, _REACHABLE)
        for start in (best, f) if self.coulomb else ():  # again from where the first phase began
            if worst <= solved or len(history) >= max_steps or self.deadline.passed:
                break
            forces, worst_now, more = self.phase(start, max_steps - len(history))
            history += more
            if worst_now < worst:
                worst, best = worst_now, forces
        return best, history

    def phase(self, f: FloatArray, max_steps: int) -> tuple[FloatArray, float, list[float]]:
        """The best forces from f (contacts, d), their ``worst``, the natural map of each step."""
        system = self.system
        x = system.caused_by(f)
        free = system.rates(np.zeros_like(x)) / self.w[:, None]
        impulse = system.size(system.residual(np.zeros_like(x), free)) or 1.0
        best, least, least_worst, error = f, np.inf, np.inf, self.natural(f)
        if error <= self.accuracy:
            return f, self.worst(f), [error]
        penalty, inner, history = Penalty(), min(_LOOSE, _SHARE * error), list[float]()
        for _ in range(max_steps):
            tol = impulse * max(inner, EPS * penalty.value)
            x, f = self.step(x, f, penalty.value / self.w, tol)
            error = self.natural(f)
            history.append(error)
            worst = self.worst(f) if error <= self.accuracy else np.inf
            if worst < least_worst or (error < least and least_worst == np.inf):
                least, least_worst, best = error, worst, f
            if self.deadline.passed or worst <= _REACHABLE:
                break
            unsettled = len(history) > 4 and history[-1] > _SETTLING * history[-3]
            if self.lagged and (error <= _NEAR or unsettled):
                break
            if not penalty.after(error):
                break
            inner = max(min(0.1 * inner, _SHARE * error), EPS)
        return best, least_worst if least_worst < np.inf else self.worst(best), history

    def natural(self, f: FloatArray) -> float:
        """The largest natural map of forces (contacts, d)."""
        rates = self.system.rates(self.system.caused_by(f))
        if self.coulomb:
            rates = cone.shifted(rates, self.mu)
        return cone.largest_natural_map(f, rates, self.mu, self.w)

    def step(
        self, x: FloatArray, f: FloatArray, r: FloatArray, tol: float
    ) -> tuple[FloatArray, FloatArray]:
        """x and f (contacts, d) after the inner problem from f, with penalties r (contacts,)."""
        if self.coulomb and not self.lagged:
            x, met = self._inner(x, f, r, None, tol)
            for trial in range(1, _TRIALS * (_LAGGED + 1)):  # convex steps between two trials
                if met or self.deadline.passed:
                    break
                convex = trial % (_LAGGED + 1) > 0
                shift = self._shift(x) if convex else None
                x, met = self._inner(x, f, r, shift, tol)
                met, self.convex_steps = met and not convex, self.convex_steps + convex
            rates = cone.shifted(self.system.rates(x), self.mu)
        else:
            shift = self._shift(x) if self.coulomb else np.zeros(self.mu.size)
            x, _ = self._inner(x, f, r, shift, tol)
            rates = self.system.rates(x)
            rates[:, 0] += shift
        return x, cone.project(f - r[:, None] * rates, self.mu)

    def _shift(self, x: FloatArray) -> FloatArray:
        """μ‖g_T‖ (contacts,)."""
        rates = self.system.rates(x)
        return cone.shifted(rates, self.mu)[:, 0] - rates[:, 0]

    def _inner(
        self, x: FloatArray, f: FloatArray, r: FloatArray, shift: FloatArray | None, tol: float
    ) -> tuple[FloatArray, bool]:
        """Newton's method on the inner problem, and whether it converged to ``tol``.

        With a ``shift`` the minimum of ½‖w‖²_M + Σ ‖P_K(f − r (g + shift e_n))‖² / 2r; without one
        the law of Coulomb, its steps damped by the residual.
        """
        system, mu, root_r = self.system, self.mu, np.sqrt(r)[:, None]

        def at(inertia: FloatArray, rates: FloatArray) -> tuple[FloatArray, FloatArray, float]:
            if shift is None:
                rates = cone.shifted(rates, mu)
            y = f - r[:, None] * rates
            residual = system.residual(inertia, cone.project(y, mu))
            return y, residual, system.size(residual)

        rates, inertia = system.rates(x), system.inertia(x)
        if shift is not None:
            rates[:, 0] += shift
        y, residual, size = at(inertia, rates)
        last = np.inf
        for _ in range(_INNER):
            if size <= tol:
                return x, True
            left = right = root_r[:, :, None] * cone.projection_root(y, mu)
            if shift is None:
                right = left @ cone.shift_derivative(rates, mu)
            dx = system.newton_step(left, right, residual, _forcing(tol, size, last))
            self.newton_steps += 1
            share, last, change, pushed = 1.0, size, system.change(dx), system.inertia(dx)
            if shift is not None:
                work, square = system.work(x, pushed, change), system.work(dx, pushed, change)
                share = line_search(self._slope(work, square, y / root_r, -root_r * change))
                if share == 0.0:
                    break
            ahead = at(inertia + share * pushed, rates + share * change)
            while shift is None and not ahead[2] <= (1.0 - 0.01 * share) * size:
                share *= 0.5
                if share < 0.01:
                    return x, False
                ahead = at(inertia + share * pushed, rates + share * change)
            x, rates = x + share * dx, rates + share * change
            inertia, (y, residual, size) = inertia + share * pushed, ahead
        return x, size <= tol

    def _slope(
        self, work: float, square: float, y: FloatArray, change: FloatArray
    ) -> Callable[[float], float]:
        """The slope of the convex function along a step."""
        return lambda t: work + t * square + cone.projected_work(y, change, t, self.mu)


def _forcing(tol: float, size: float, last: float) -> float:
    """How sharply to solve the linear system, by the residual now and of the ``last`` step.

    Eisenstat & Walker, SIAM J. Sci. Comput. 17 (1996): sharply where the last step foretold the
    residual after it, and never below what ``tol`` needs.
    """
    reduction = min(size / last, 1.0) if np.isfinite(last) else 1.0
    least, most = _LINEAR
    return float(np.clip(max(0.1 * tol / size, 0.1 * reduction**2), least, most))


@dataclass
class Penalty:
    """r w of the proximal steps: it grows, and is reduced where round-off has been reached.

    If that does not help, it grows further, and is reduced once more at the end.
    """

    value: float = _FIRST
    peak: float = _FIRST
    reducing: bool = False
    stalls: int = 0
    patience: int = 1
    best: float = np.inf
    last: float = np.inf

    def after(self, error: float) -> bool:
        """The next value, after a natural map; whether to go on."""
        stalled = error > _PROGRESS * self.best
        self.stalls = self.stalls + 1 if stalled else 0
        noisy = error <= _NOISE * EPS * self.value
        enough = error <= _FLOOR * EPS * self.value and error <= _QUICK * self.last
        self.best, self.last = min(self.best, error), error
        once_more = self.patience > 1
        if self.reducing:
            in_vain = self.value == 1.0 or (self.stalls >= _STALLS and not once_more)
            if stalled and in_vain:
                if once_more:
                    return False
                self.reducing, self.stalls, self.patience = False, 0, _STALLS
                self.value = min(_GROWTH * self.peak, _LARGEST)
                return True
        elif not enough and not (
            self.stalls >= self.patience and (noisy or self.value == _LARGEST)
        ):
            if not noisy or once_more:
                self.value = min(_GROWTH * self.value, _LARGEST)
            return True
        self.reducing, self.peak = True, max(self.peak, self.value)
        if stalled or enough:
            self.value = max(self.value / _REDUCTION, 1.0)
        return True
