"""Accelerated projected gradient descent on the forces of a step with friction.

    minimise over f ∈ K_μ    ½ fᵀ N f + pᵀf + sᵀf_n

H. Mazhar, T. Heyn, D. Negrut, A. Tasora, ACM Trans. Graph. 34 (2015) 32, algorithm 1, on forces
times √w, so that a step is equally long at light and at heavy bodies; cones do not change by such
factors. For the law of Coulomb the shift s = μ‖g_T‖ is first that of the last iterate. It then
follows this by a share of the difference, and the momentum is bounded: the law is no gradient, and
full momentum makes it swing. Where it swings all the same, s stays, so that the problem is convex,
until its natural map is below a share of that of the law; then it is renewed (V. Acary & F. Cadoux
2013). Nothing guarantees that it converges.
"""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp

from cdopt._util.checks import FloatArray
from cdopt._util.compiled import compiled
from cdopt.backends.cone_step import ConeStep
from cdopt.backends.deadline import Deadline
from cdopt.backends.linalg.sparse_rows import Rows, csr_parts, multiply_rows
from cdopt.problem.friction_cone import project_contact
from cdopt.problem.scaling import scaled

_CHECKS = 20  # steps between two looks at the natural map and the clock
_FRESH = 5  # looks between two fresh products, which keep round-off from gathering
_DOUBLINGS = 100  # of L in one step
_RELAXATION = 0.9  # of L after each step
_LEAST = 1e-3  # L never falls below it: the diagonal of the scaled N is about one
_SETTLED = 0.5  # of the natural map of the law: what the convex problem may leave of its own
# Under the law of Coulomb, one after the other: looks without half the natural map at which the
# phase ends, the share of its change that the shift follows, and the bound of the momentum.
_PHASES = (10, 1.0, 1.0), (100, 0.2, 0.95), (100, 0.2, 0.85)
_CONVEX = 0, 0.0, 1.0  # and after the last one
_PAUSE = 10  # looks between two certificates at most, and as many as they are above the accuracy
_LENGTH, _THETA = 0, 1  # places in the scalars
_X, _Z, _PRODUCT_X, _PRODUCT_Z, _TRIAL, _CHANGE, _PRODUCT = range(7)  # places in the state


def descend(
    step: ConeStep, f: FloatArray, accuracy: float, most: int, deadline: Deadline
) -> tuple[FloatArray, int, list[float]]:
    """The best forces (contacts, d), steps, and the natural map at each look.

    It ends when both the natural map and the certificate are at most ``accuracy``.
    """
    descent = _Descent(step, f)
    best, best_forces, residuals, certify_at = np.inf, f, list[float](), 0
    mark, mark_at, phases = np.inf, 0, list(_PHASES) if step.coulomb else []
    for look in range(most // _CHECKS + 2):
        done = min(look * _CHECKS, most)
        if look % _FRESH == 0:
            descent.refresh()
        forces, rates = descent.forces, descent.rates
        error = step.natural_map(forces, rates)
        residuals.append(error)
        if error < best:
            best, best_forces = error, forces
        if error <= 0.5 * mark:
            mark, mark_at = error, look
        if error <= accuracy and look >= certify_at:
            worst = step.worst(forces)
            if worst <= accuracy:
                return forces, done, residuals
            certify_at = look + int(min(worst / accuracy, _PAUSE))
        if deadline.passed or done == most or not np.isfinite(error):
            break
        if phases and look - mark_at >= phases[0][0]:
            mark, mark_at = error, look
            phases.pop(0)
            if not phases:
                descent.renew(step.data.shift(descent.start_from(best_forces)))
        elif step.coulomb and not phases:
            convex = step.natural_map(forces, rates, descent.shift)
            if convex <= _SETTLED * error:
                descent.renew(step.data.shift(rates))
        _, share, momentum = phases[0] if phases else _CONVEX
        descent.advance(min(_CHECKS, most - done), share, momentum)
    return best_forces, done, residuals


class _Descent:
    """The iteration on W^(−1/2) N W^(−1/2)."""

    def __init__(self, step: ConeStep, f: FloatArray) -> None:
        self._root, self._mu = np.sqrt(step.w)[:, None], step.mu
        factor = np.repeat(1.0 / self._root, f.shape[1])
        self._rows = csr_parts(scaled(step.step.rows, factor))
        self._spread = csr_parts(sp.csr_array(scaled(step.step.spread, factor).T))
        self._effect = np.zeros(self._spread[0].size - 1)
        self._p, self._shift = step.p / self._root, np.zeros(step.mu.size)
        self._state, self._scalars = np.zeros((7, *f.shape)), np.ones(2)
        self.start_from(f)

    @property
    def forces(self) -> FloatArray:
        """The iterate (contacts, d)."""
        return np.asarray(self._state[_X] / self._root)

    @property
    def rates(self) -> FloatArray:
        """The rates at it (contacts, d)."""
        return np.asarray(self._root * (self._state[_PRODUCT_X] + self._p))

    @property
    def shift(self) -> FloatArray:
        """Of the normal rates (contacts,)."""
        return np.asarray(self._root[:, 0] * self._shift)

    def start_from(self, f: FloatArray) -> FloatArray:
        """Go on from forces f, without momentum; their rates."""
        self._state[_X] = self._state[_Z] = self._root * f
        self._scalars[_THETA] = 1.0
        self.refresh()
        return self.rates

    def refresh(self) -> None:
        """Compute the products anew."""
        for source, product in ((_X, _PRODUCT_X), (_Z, _PRODUCT_Z)):
            flat = self._state[source].ravel(), self._state[product].ravel()
            multiply_rows(0, self._effect.size, self._spread, flat[0], self._effect)
            multiply_rows(0, flat[1].size, self._rows, self._effect, flat[1])

    def renew(self, shift: FloatArray) -> None:
        """Pose the convex problem with another shift, without momentum."""
        self._shift = shift / self._root[:, 0]
        self._state[_Z], self._state[_PRODUCT_Z] = self._state[_X], self._state[_PRODUCT_X]
        self._scalars[_THETA] = 1.0

    def advance(self, steps: int, share: float, momentum: float) -> None:
        """Take so many steps, with a ``momentum`` at most.

        In each the shift goes the ``share`` of its way to that of the last iterate.
        """
        _accelerate(
            *(self._rows, self._spread, self._p, self._mu, self._shift, share, momentum),
            *(self._state, self._scalars, self._effect, steps),
        )


@compiled()
def _accelerate(
    rows: Rows,
    spread: Rows,
    p: FloatArray,
    mu: FloatArray,
    shift: FloatArray,
    share: float,
    momentum: float,
    state: FloatArray,
    scalars: FloatArray,
    effect: FloatArray,
    steps: int,
) -> None:
    """Algorithm 1 for so many steps; ``p`` (contacts, d) is the gradient without forces."""
    x, z, trial, change = state[_X], state[_Z], state[_TRIAL], state[_CHANGE]
    product_x, product_z, product = state[_PRODUCT_X], state[_PRODUCT_Z], state[_PRODUCT]
    flat_change, flat_product = change.reshape(change.size), product.reshape(product.size)
    length, theta = scalars[_LENGTH], scalars[_THETA]
    for _ in range(steps):
        if share > 0.0:
            for i in range(mu.size):
                square = 0.0
                for k in range(1, x.shape[1]):
                    square += (product_x[i, k] + p[i, k]) ** 2
                shift[i] += share * (mu[i] * np.sqrt(square) - shift[i])
        for _ in range(_DOUBLINGS):
            square = 0.0
            for i in range(mu.size):
                trial[i, 0] = z[i, 0] - (product_z[i, 0] + p[i, 0] + shift[i]) / length
                for k in range(1, x.shape[1]):
                    trial[i, k] = z[i, k] - (product_z[i, k] + p[i, k]) / length
                project_contact(trial[i], mu[i])
                for k in range(x.shape[1]):
                    change[i, k] = trial[i, k] - z[i, k]
                    square += change[i, k] * change[i, k]
            multiply_rows(0, effect.size, spread, flat_change, effect)
            multiply_rows(0, flat_product.size, rows, effect, flat_product)
            curvature = 0.0
            for i in range(flat_product.size):
                curvature += flat_change[i] * flat_product[i]
            if curvature <= length * square * (1.0 + 1e-12):
                break
            length *= 2.0
        following = 0.5 * theta * (np.sqrt(theta * theta + 4.0) - theta)
        beta, along = theta * (1.0 - theta) / (theta * theta + following), 0.0
        for i in range(mu.size):
            for k in range(x.shape[1]):
                along += change[i, k] * (trial[i, k] - x[i, k])
        beta = min(beta, momentum)
        if along < 0.0:  # the momentum points uphill: start it anew
            following, beta = 1.0, 0.0
        for i in range(mu.size):
            for k in range(x.shape[1]):
                reached = product_z[i, k] + product[i, k]
                z[i, k] = trial[i, k] + beta * (trial[i, k] - x[i, k])
                product_z[i, k] = reached + beta * (reached - product_x[i, k])
                x[i, k], product_x[i, k] = trial[i, k], reached
        theta, length = following, max(_RELAXATION * length, _LEAST)
    scalars[_LENGTH], scalars[_THETA] = length, theta
