"""Newton's method on a static network of springs with friction.

Springs would carry y = −(G u + p), in units in which their stiffness is one. Associated micro-slip
has f = P_K(y), minus the gradient of a convex function of u (Haar & Kármán's principle); Coulomb's
micro-slip, which cuts y_T to μ f_n, has no potential. It starts from the associated forces.
"""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp

from cdopt._util.checks import FloatArray
from cdopt.backends.base import RunResult
from cdopt.backends.deadline import Deadline
from cdopt.backends.native import Run
from cdopt.backends.network_problem import NetworkProblem
from cdopt.backends.semismooth import Point
from cdopt.backends.soft_newton import SoftNewton

_RIDGE, _FAR = 1e-12, 1e-6  # of the stiffest dof; the latter times the square of the imbalance
_ENOUGH, _SHORTEST = 1e-4, 1e-8  # reduction of an imbalance, of the step's length; least length
_SHORT = 1e-3  # length of a step where none reduces the imbalance and it is not small
_MULTIPLES = (1.2, 2.0)  # of coefficients of friction, whose solutions may lead to that sought
_SMALL = 1e-9  # an imbalance of the largest load, which round-off may keep


def solve_springs(problem: NetworkProblem, run: Run, accuracy: float, limit: int) -> RunResult:
    """Motion and forces of a network of springs with friction.

    Where Coulomb's micro-slip is not found from associated forces, it is sought from its solution
    at larger coefficients of friction, which let fewer contacts slip.
    """
    given, net = problem.scaled_motion(run.start), problem.net
    history, steps = list[float](), 0

    def reached(w: FloatArray, coulomb: bool, multiple: float = 1.0) -> Point:
        """Where Newton's method ends from w (m,)."""
        nonlocal history, steps
        newton = SpringNewton(problem, accuracy, run.deadline, coulomb, multiple)
        last = newton.run(newton.at(w), limit)
        history, steps = [*history, *newton.history], steps + newton.steps
        return last

    with run.iterating(problem.nc, net.m):
        start = np.zeros(net.m) if given is None else given
        if given is None or not problem.coulomb:
            last = reached(start, False)
            start = last.w
        if problem.coulomb:
            last = reached(start, True)
            for multiple in _MULTIPLES:
                if last.error <= accuracy or run.deadline.passed:
                    break
                steeper = reached(start, True, multiple)
                if steeper.error <= accuracy:
                    last = reached(steeper.w, True)
    return run.ended(
        problem.iterate(last.w, last.f),
        last.error <= accuracy,
        steps,
        history,
        "Newton's method on the micro-displacement",
        f"stopped at residual {last.error:.1e}",
    )


class SpringNewton(SoftNewton):
    """Springs with friction; ``coulomb`` cuts forces by Coulomb's micro-slip.

    Coefficients of friction are a ``multiple`` of those of the problem.
    """

    def __init__(
        self,
        problem: NetworkProblem,
        tol: float,
        deadline: Deadline,
        coulomb: bool,
        multiple: float = 1.0,
    ) -> None:
        super().__init__(problem, tol, deadline)
        self.coulomb = coulomb
        if multiple != 1.0:
            unit = np.full(self.K.rows, 1.0 / multiple)
            unit[self.K.ends[:-1]] = 1.0
            self.K = self.K.in_units(unit)

    def force(self, g: FloatArray) -> FloatArray:
        return self.K.frictional_cut(-self.k * g) if self.coulomb else super().force(g)

    def share_kept(self, g: FloatArray) -> FloatArray:
        return self.K.cut_derivative(-self.k * g) if self.coulomb else super().share_kept(g)

    def size(self, balance: FloatArray, w: FloatArray, g: FloatArray) -> float:
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
