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
from dataclasses import dataclass, field

import numpy as np
import scipy.sparse as sp

from cdopt._util.checks import FloatArray, IntArray
from cdopt.backends.deadline import Deadline
from cdopt.backends.linalg.factorisation import factorised
from cdopt.backends.linalg.network import network
from cdopt.backends.native import Outcome, Run, outcome_of, starting_forces
from cdopt.backends.potential_newton import line_search
from cdopt.problem import FrictionalData, FrictionalStepData
from cdopt.problem import friction_cone as cone
from cdopt.problem.certificate import EPS
from cdopt.problem.scaling import Entries, ScaledDelassus, ScaledDynamics

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


class Motions:
    """A step with matrices: x = w = v − v*, M w = Bᵀf, in the order of a contact network."""

    def __init__(self, step: ScaledDynamics, d: int, body: IntArray) -> None:
        """``body`` (nv,) is the body of each dof."""
        self.net = network(step.B, body, step.M, d=d)
        self.p, self.d = step.p.reshape(-1, d), d
        self.mass, self.mass_diagonal = self.net.mass, self.net.mass_diagonal
        self.full = self.net.B.toarray() if self.net.m <= _FULL else None
        self.full_mass = step.M.toarray() if self.full is not None else None

    def rates(self, x: FloatArray) -> FloatArray:
        """Rates g = R x + p (contacts, d)."""
        return self.change(x) + self.p

    def inertia(self, x: FloatArray) -> FloatArray:
        """M x."""
        return self.net.inertia(x)

    def residual(self, inertia: FloatArray, f: FloatArray) -> FloatArray:
        """Imbalance of an ``inertia`` with forces f (contacts, d)."""
        return inertia - self.net.load(f.ravel())

    def size(self, residual: FloatArray) -> float:
        """Norm of an imbalance."""
        return float(np.sqrt(np.sum(residual**2 / self.mass_diagonal)))

    def change(self, dx: FloatArray) -> FloatArray:
        """The change of the rates."""
        return self.net.gap(dx).reshape(self.p.shape)

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
        net = self.net
        if self.full is not None:
            H = left.transpose(0, 2, 1) @ right
            HB = H @ self.full.reshape(H.shape[0], self.d, -1)
            J = self.full_mass + self.full.T @ HB.reshape(self.full.shape)
            return np.asarray(np.linalg.solve(J, -residual))
        if net.pairs is not None and net.blocks is not None:
            system = net.system(left) if left is right else net.unsymmetric(left, right)
            dx = system.solve(-residual, rtol, _ITERATIONS)
            if not system.gave_up and np.isfinite(dx).all():
                return dx
        H = left.transpose(0, 2, 1) @ right
        J = sp.csr_array(self.mass + net.B.T @ (_blocks(H) @ net.B))
        if residual.size <= _DENSE:
            return np.asarray(np.linalg.solve(J.toarray(), -residual))
        return factorised(J)(-residual)

    def caused_by(self, f: FloatArray) -> FloatArray:
        """The unknowns in balance with forces f (contacts, d)."""
        return self.net.motion(self.net.load(f.ravel()))


class Reactions:
    """A step known by N and p: x = h, forces that cause the rates g = N h + p, h = f."""

    def __init__(self, step: ScaledDelassus, d: int) -> None:
        self.N, self.p, self.d = step.N, step.p.reshape(-1, d), d
        self.entries, self.diagonal = Entries(step.N), step.N.diagonal()
        self.dense = step.N.shape[0] <= _DENSE or step.N.nnz > 0.1 * step.N.shape[0] ** 2
        self.full = step.N.toarray() if self.dense else np.zeros((0, 0))

    def rates(self, x: FloatArray) -> FloatArray:
        """Rates g = R x + p (contacts, d)."""
        return self.change(x) + self.p

    def inertia(self, x: FloatArray) -> FloatArray:
        """x."""
        return x

    def residual(self, inertia: FloatArray, f: FloatArray) -> FloatArray:
        """Imbalance of an ``inertia`` with forces f (contacts, d)."""
        return inertia - f.ravel()

    def size(self, residual: FloatArray) -> float:
        """Norm of an imbalance."""
        return float(np.sqrt(np.sum(self.diagonal * residual**2)))

    def change(self, dx: FloatArray) -> FloatArray:
        """The change of the rates."""
        product = self.full @ dx if self.dense else self.entries.times(dx)
        return np.asarray(product).reshape(self.p.shape)

    def work(self, x: FloatArray, inertia: FloatArray, change: FloatArray) -> float:
        """xᵀ N dx."""
        return float(x @ change.ravel())

    def newton_step(
        self, left: FloatArray, right: FloatArray, residual: FloatArray, rtol: float
    ) -> FloatArray:
        """Newton's step."""
        H = left.transpose(0, 2, 1) @ right
        nc, n = H.shape[0], residual.size
        if self.dense:
            J = (H @ self.full.reshape(nc, self.d, n)).reshape(n, n)
            J.flat[:: n + 1] += 1.0
            return np.asarray(np.linalg.solve(J, -residual))
        return factorised(sp.csr_array(sp.eye_array(n) + _blocks(H) @ self.N))(-residual)

    def caused_by(self, f: FloatArray) -> FloatArray:
        """The unknowns in balance with forces f (contacts, d)."""
        return f.ravel().copy()


def _blocks(H: FloatArray) -> sp.csr_array:
    """Blocks (nc, d, d) on the diagonal of a sparse matrix."""
    nc, d, _ = H.shape
    return sp.csr_array(sp.bsr_array((H, np.arange(nc), np.arange(nc + 1)), shape=(nc * d, nc * d)))


class Iteration:
    """The inner problems of one step.

    Attributes
    ----------
    mu : (contacts,) friction coefficients.
    coulomb : whether the law is that of Coulomb.
    lagged : whether its shift is that of the last outer step.
    newton_steps, convex_steps : taken so far; among the inner problems those with a lagged shift.
    """

    def __init__(
        self, system: Motions | Reactions, mu: FloatArray, coulomb: bool, deadline: Deadline
    ) -> None:
        self.system, self.mu, self.coulomb, self.deadline = system, mu, coulomb, deadline
        self.lagged, self.newton_steps, self.convex_steps = False, 0, 0

    def outer(
        self, x: FloatArray, f: FloatArray, r: FloatArray, tol: float
    ) -> tuple[FloatArray, FloatArray]:
        """x and f (contacts, d) after the inner problem from f, with penalties r (contacts,)."""
        if not self.coulomb or self.lagged:
            shift = self._shift(x) if self.coulomb else np.zeros(self.mu.size)
            x = self._convex(x, f, r, shift, tol)
            rates = self.system.rates(x)
            rates[:, 0] += shift
        else:
            x = self._trials(x, f, r, tol)
            rates = cone.shifted(self.system.rates(x), self.mu)
        return x, cone.project(f - r[:, None] * rates, self.mu)

    def _shift(self, x: FloatArray) -> FloatArray:
        """μ‖g_T‖ (contacts,)."""
        rates = self.system.rates(x)
        return cone.shifted(rates, self.mu)[:, 0] - rates[:, 0]

    def _trials(self, x: FloatArray, f: FloatArray, r: FloatArray, tol: float) -> FloatArray:
        """Newton on the law of Coulomb, with convex steps where it does not converge."""
        for _ in range(_TRIALS):
            x, met = self._newton(x, f, r, tol)
            if met or self.deadline.passed:
                break
            for _ in range(_LAGGED):
                x = self._convex(x, f, r, self._shift(x), tol)
                self.convex_steps += 1
        return x

    def _newton(
        self, x: FloatArray, f: FloatArray, r: FloatArray, tol: float
    ) -> tuple[FloatArray, bool]:
        """Newton on the law of Coulomb, damped by the residual; and whether it converged."""
        system, mu, root_r = self.system, self.mu, np.sqrt(r)[:, None, None]

        def at(inertia: FloatArray, rates: FloatArray) -> tuple[FloatArray, FloatArray, float]:
            y = f - r[:, None] * cone.shifted(rates, mu)
            residual = system.residual(inertia, cone.project(y, mu))
            return y, residual, system.size(residual)

        rates, inertia = system.rates(x), system.inertia(x)
        y, residual, size = at(inertia, rates)
        forcing = _Forcing(tol)
        for _ in range(_INNER):
            if size <= tol:
                return x, True
            root = root_r * cone.projection_root(y, mu)
            right = root @ cone.shift_derivative(rates, mu)
            dx = system.newton_step(root, right, residual, forcing.after(size))
            self.newton_steps += 1
            share, change, pushed = 1.0, system.change(dx), system.inertia(dx)
            while True:
                trial = at(inertia + share * pushed, rates + share * change)
                if trial[2] <= (1.0 - 0.01 * share) * size:
                    break
                share *= 0.5
                if share < 0.01:
                    return x, False
            x, rates = x + share * dx, rates + share * change
            inertia = inertia + share * pushed
            y, residual, size = trial
        return x, size <= tol

    def _convex(
        self, x: FloatArray, f: FloatArray, r: FloatArray, shift: FloatArray, tol: float
    ) -> FloatArray:
        """The minimum of ½‖w‖²_M + Σ ‖P_K(f − r (g + shift e_n))‖² / 2r, to ``tol``."""
        system, mu, root_r = self.system, self.mu, np.sqrt(r)[:, None, None]
        forcing = _Forcing(tol)
        rates, inertia = system.rates(x), system.inertia(x)
        rates[:, 0] += shift
        for _ in range(_INNER):
            y = f - r[:, None] * rates
            residual = system.residual(inertia, cone.project(y, mu))
            size = system.size(residual)
            if size <= tol:
                break
            root = root_r * cone.projection_root(y, mu)
            dx = system.newton_step(root, root, residual, forcing.after(size))
            self.newton_steps += 1
            change, pushed = system.change(dx), system.inertia(dx)
            work, square = system.work(x, pushed, change), system.work(dx, pushed, change)
            share = line_search(self._slope(work, square, y, change, r))
            if share == 0.0:
                break
            x, rates = x + share * dx, rates + share * change
            inertia = inertia + share * pushed
        return x

    def _slope(
        self, work: float, square: float, y: FloatArray, change: FloatArray, r: FloatArray
    ) -> Callable[[float], float]:
        """The slope of the convex function along a step that changes the rates by ``change``."""
        scaled, mu = -np.sqrt(r)[:, None] * change, np.array(self.mu)
        y = y / np.sqrt(r)[:, None]
        return lambda t: work + t * square + cone.projected_work(y, scaled, t, mu)


class _Forcing:
    """How sharply to solve the linear systems of one inner problem.

    Eisenstat & Walker, SIAM J. Sci. Comput. 17 (1996): sharply where the last step foretold the
    residual after it, and never below what ``tol`` needs.
    """

    def __init__(self, tol: float) -> None:
        self.tol, self.last = tol, np.inf

    def after(self, size: float) -> float:
        """Relative residual, from that of Newton's method."""
        reduction = min(size / self.last, 1.0) if np.isfinite(self.last) else 1.0
        self.last = size
        least, most = _LINEAR
        return float(np.clip(max(0.1 * self.tol / size, 0.1 * reduction**2), least, most))


def solve_step(data: FrictionalData, run: Run, accuracy: float, max_steps: int) -> Outcome:
    """Solve a step with friction; ``max_steps`` bounds the outer steps."""
    mu, d = np.array(data.friction.mu), data.d
    system: Motions | Reactions
    if isinstance(data, FrictionalStepData):
        system = Motions(data.scaled(), d, data.bodies.label)
    else:
        system = Reactions(data.scaled(), d)
    w = (data.mobility * data.force / data.speed)[::d]
    f = cone.project(starting_forces(data, run.start, signed=True).reshape(-1, d), mu)

    def worst(f: FloatArray) -> float:
        return data.worst_residual(data.force * f.ravel())

    iteration = Iteration(system, mu, data.law == "coulomb", run.deadline)
    with run.iterating(data.nc, data.nv or data.nc):
        f, residuals = _solve(Proximal(iteration, w, accuracy, worst), f, max_steps)
    least = min(residuals, default=0.0)
    met = least <= max(accuracy, _REACHABLE)
    how = f"{len(residuals):,} proximal steps, {iteration.newton_steps:,} Newton steps"
    how += f", {iteration.convex_steps} convex steps" if iteration.convex_steps else ""
    run.report(f"{how}, natural map {least:.1e}")
    status = f"stopped at natural map {least:.1e}"
    forces, history = data.force * f.ravel(), [np.array(residuals)]
    return outcome_of(data, forces, met, len(residuals), history, how, status)


def _solve(proximal: Proximal, f: FloatArray, max_steps: int) -> tuple[FloatArray, list[float]]:
    """The best forces, and the natural map after each proximal step."""
    iteration = proximal.iteration
    iteration.lagged = iteration.coulomb
    best, worst, history = proximal.run(f, max_steps)
    if not iteration.coulomb:
        return best, history
    iteration.lagged, solved = False, max(proximal.accuracy, _REACHABLE)
    for start in (best, f):  # the second time from where the first phase began
        if worst <= solved or len(history) >= max_steps or iteration.deadline.passed:
            break
        forces, worst_now, more = proximal.run(start, max_steps - len(history))
        history += more
        if worst_now < worst:
            worst, best = worst_now, forces
    return best, history


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
    best: float = field(default=np.inf)
    last: float = field(default=np.inf)

    def after(self, error: float) -> bool:
        """The next value, after a natural map; whether to go on."""
        stalled = error > _PROGRESS * self.best
        self.stalls = self.stalls + 1 if stalled else 0
        self.best = min(self.best, error)
        noisy = error <= _NOISE * EPS * self.value
        enough = error <= _FLOOR * EPS * self.value and error <= _QUICK * self.last
        self.last = error
        last = self.patience > 1
        if (
            self.reducing
            and stalled
            and (self.value == 1.0 or (self.stalls >= _STALLS and not last))
        ):
            if last:
                return False
            self.reducing, self.stalls, self.patience = False, 0, _STALLS
            self.value = min(_GROWTH * self.peak, _LARGEST)
        elif (
            self.reducing
            or enough
            or (self.stalls >= self.patience and (noisy or self.value == _LARGEST))
        ):
            self.reduce(stalled or enough)
        elif not noisy or self.patience > 1:
            self.value = min(_GROWTH * self.value, _LARGEST)
        return True

    def reduce(self, stalled: bool) -> None:
        """From here on r is reduced where the natural map has ``stalled``."""
        self.reducing, self.peak = True, max(self.peak, self.value)
        if stalled:
            self.value = max(self.value / _REDUCTION, 1.0)


class Proximal:
    """The proximal steps.

    Attributes
    ----------
    w : (contacts,) mobility of each contact, in scaled units.
    accuracy : of the natural map, at which forces are judged by ``worst``, the largest residual
        of their certificate.
    """

    def __init__(
        self,
        iteration: Iteration,
        w: FloatArray,
        accuracy: float,
        worst: Callable[[FloatArray], float],
    ) -> None:
        self.iteration, self.w, self.accuracy, self.worst = iteration, w, accuracy, worst

    def natural(self, f: FloatArray) -> float:
        """The largest natural map of forces (contacts, d)."""
        system, mu = self.iteration.system, self.iteration.mu
        rates = system.rates(system.caused_by(f))
        if self.iteration.coulomb:
            rates = cone.shifted(rates, mu)
        return cone.largest_natural_map(f, rates, mu, self.w)

    def run(self, f: FloatArray, max_steps: int) -> tuple[FloatArray, float, list[float]]:
        """The best forces from f (contacts, d), their ``worst``, the natural map of each step."""
        iteration, system = self.iteration, self.iteration.system
        x = system.caused_by(f)
        free = system.rates(np.zeros_like(x)) / self.w[:, None]
        impulse = system.size(system.residual(np.zeros_like(x), free)) or 1.0
        best, least, least_worst, error = f, np.inf, np.inf, self.natural(f)
        if error <= self.accuracy:
            return f, self.worst(f), [error]
        penalty, inner, history = Penalty(), min(_LOOSE, _SHARE * error), list[float]()
        for _ in range(max_steps):
            tol = impulse * max(inner, EPS * penalty.value)
            x, f = iteration.outer(x, f, penalty.value / self.w, tol)
            error = self.natural(f)
            history.append(error)
            worst = self.worst(f) if error <= self.accuracy else np.inf
            if worst < least_worst or (error < least and least_worst == np.inf):
                least, least_worst, best = error, worst, f
            if iteration.deadline.passed or worst <= _REACHABLE:
                break
            if iteration.lagged and (error <= _NEAR or _unsettled(history)):
                break
            if not penalty.after(error):
                break
            inner = max(min(0.1 * inner, _SHARE * error), EPS)
        return best, least_worst if least_worst < np.inf else self.worst(best), history


def _unsettled(history: list[float]) -> bool:
    """Whether the last two steps gained little."""
    return len(history) > 4 and history[-1] > _SETTLING * history[-3]
