"""Accelerated projected gradient descent on the forces of a step with friction.

    minimise over f ∈ K_μ    ½ fᵀ N f + pᵀf

H. Mazhar, T. Heyn, D. Negrut, A. Tasora, ACM Trans. Graph. 34 (2015) 32, algorithm 1, on forces
times √w, so that a step is equally long at light and at heavy bodies; cones do not change by such
factors. For the law of Coulomb p has the shift μ‖g_T‖ of the last iterate, and nothing guarantees
that it converges.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from cdopt._util.checks import FloatArray
from cdopt.backends.cone_step import ConeStep
from cdopt.backends.deadline import Deadline
from cdopt.problem import friction_cone as cone

_CHECKS = 20  # steps between two looks at the natural map and the clock
_FRESH = 5  # looks between two fresh products, which keep round-off from gathering
_DOUBLINGS = 100  # of L in one step
_RELAXATION = 0.9  # of L after each step
_LEAST = 1e-3  # L never falls below it: the diagonal of the scaled N is about one


def descend(
    step: ConeStep,
    product: Callable[[FloatArray], FloatArray],
    f: FloatArray,
    accuracy: float,
    most: int,
    deadline: Deadline,
) -> tuple[FloatArray, int, list[float]]:
    """The best forces (contacts, d), steps, and the natural map at each look.

    ``product`` multiplies by W^(−1/2) N W^(−1/2).
    """
    root = np.sqrt(step.w)[:, None]
    p = step.p / root

    def error() -> float:
        return step.natural_map(x / root, root * (product_x + p))

    x = z = root * f
    best, best_forces, residuals = np.inf, f, list[float]()
    length, theta = 1.0, 1.0
    for k in range(most + 1):
        if k % (_FRESH * _CHECKS) == 0:
            product_x, product_z = product(x), product(z)
        if k % _CHECKS == 0 or k == most:
            residuals.append(error())
            if residuals[-1] <= accuracy:
                product_x = product(x)
                residuals[-1] = error()
            if residuals[-1] < best:
                best, best_forces = residuals[-1], x / root
            if best <= accuracy or deadline.passed or k == most or not np.isfinite(best):
                break
        gradient = product_z + p
        if step.coulomb:
            rates = root * (product_x + p)
            gradient += (step.shifted(rates) - rates) / root
        for _ in range(_DOUBLINGS):
            trial = cone.project(z - gradient / length, step.mu)
            change = trial - z
            product_change = product(change)
            if np.vdot(change, product_change) <= length * np.vdot(change, change) * (1.0 + 1e-12):
                break
            length *= 2.0
        following = 0.5 * theta * (np.sqrt(theta * theta + 4.0) - theta)
        beta = theta * (1.0 - theta) / (theta * theta + following)
        moved = trial - x
        if np.vdot(change, moved) < 0.0:  # the momentum points uphill: start it anew
            following, beta = 1.0, 0.0
        product_trial = product_z + product_change
        z = trial + beta * moved
        product_z = product_trial + beta * (product_trial - product_x)
        x, product_x, theta = trial, product_trial, following
        length = max(_RELAXATION * length, _LEAST)
    return best_forces, k, residuals
