"""Newton's method on a static network of springs with friction.

Springs would carry y = −(G u + p), in units in which their stiffness is one. Associated micro-slip
has f = P_K(y), minus the gradient of a convex function of u (Haar & Kármán's principle); Coulomb's
micro-slip, which cuts y_T to μ f_n, has no potential. It starts from the associated forces.
"""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp

from cdopt._util.checks import FloatArray
from cdopt.backends.deadline import Deadline
from cdopt.backends.native import Outcome, Run
from cdopt.backends.network_problem import NetworkProblem
from cdopt.backends.semismooth import Point
from cdopt.backends.soft_newton import SoftNewton

_RIDGE, _FAR = 1e-12, 1e-6  # of the stiffest dof; the latter times the square of the imbalance
_ENOUGH, _SHORTEST = 1e-4, 1e-8  # reduction of an imbalance, of the step's length; least length
_SHORT = 1e-3  # length of a step where none reduces the imbalance and it is not small
_SMALL = 1e-9  # an imbalance of the largest load, which round-off may keep


def solve_springs(problem: NetworkProblem, run: Run, accuracy: float, limit: int) -> Outcome:
    """Motion and forces of a network of springs with friction."""
    given, net = problem.scaled_motion(run.start), problem.net
    at, history, steps = np.zeros(net.m) if given is None else given, list[float](), 0
    flows = (False, True) if problem.coulomb else (False,)
    with run.iterating(problem.nc, net.m):
        for coulomb in flows if given is None else flows[-1:]:
            newton = SpringNewton(problem, accuracy, run.deadline, coulomb)
            last = newton.run(newton.at(at), limit)
            at, history, steps = last.w, [*history, *newton.history], steps + newton.steps
    return Outcome(
        problem.iterate(last.w, last.f),
        last.error <= accuracy,
        steps,
        [np.array(history)],
        "Newton's method on the micro-displacement",
        f"stopped at residual {last.error:.1e}",
    )


class SpringNewton(SoftNewton):
    """Springs with friction; ``coulomb`` cuts forces by Coulomb's micro-slip."""

    def __init__(
        self, problem: NetworkProblem, tol: float, deadline: Deadline, coulomb: bool
    ) -> None:
        super().__init__(problem, tol, deadline)
        self.coulomb = coulomb

    def force(self, g: FloatArray) -> FloatArray:
        """The forces (rows,) of springs that would carry −k g."""
        return self.K.frictional_cut(-self.k * g) if self.coulomb else super().force(g)

    def share_kept(self, g: FloatArray) -> FloatArray:
        """The derivative (nc, d, d) of the forces by what springs would carry."""
        return self.K.cut_derivative(-self.k * g) if self.coulomb else super().share_kept(g)

    def size(self, balance: FloatArray, w: FloatArray, g: FloatArray) -> float:
        """The largest entry of the balance."""
        return float(np.abs(balance).max(initial=0.0))

    def held(self, J: sp.csr_array, at: Point) -> sp.csr_array:
        """With a ridge, as there is no inertia."""
        stiffest = float(np.abs(J.diagonal()).max(initial=0.0)) or 1.0
        ridge = (_RIDGE + _FAR * min(at.error, 1.0) ** 2) * stiffest
        return sp.csr_array(J + ridge * sp.eye_array(J.shape[0]))

    def step(self, at: Point, d: FloatArray) -> tuple[float, Point]:
        """Along the potential; by Coulomb's micro-slip to where the imbalance is less."""
        if not self.coulomb:
            return super().step(at, d)
        norm, t = float(np.linalg.norm(at.balance)), 1.0
        ahead = self.at(at.w + d)
        while not np.linalg.norm(ahead.balance) <= (1.0 - _ENOUGH * t) * norm:
            t *= 0.5
            if t < _SHORTEST:
                if at.error <= _SMALL:
                    return 0.0, at
                return _SHORT, self.at(at.w + _SHORT * d)
            ahead = self.at(at.w + t * d)
        return t, ahead
