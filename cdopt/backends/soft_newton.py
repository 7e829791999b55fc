"""Newton's method on soft steps: springs in any cones, f = P_K(−k g), k one number a part.

The motion minimises ½ wᵀS w + (1/k) (½ ‖y‖² − ½ ‖y − P_K(y)‖²), y = −k g: a convex function with a
semismooth gradient, so that one minimisation ends it, and f is unique. It needs only the projection
on a cone and its derivative: lines, boxes, half-lines and cones of any number of rows may be mixed.
"""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp

from cdopt._util.checks import FloatArray
from cdopt.backends.deadline import NEVER, Deadline
from cdopt.backends.linalg.factorisation import sparse_solve
from cdopt.backends.network_problem import NetworkProblem
from cdopt.backends.semismooth import Point, SemismoothNewton
from cdopt.problem import Cones

_ROUND_OFF = 16.0 * float(np.finfo(np.float64).eps)  # of the terms of a balance


def minimise(problem: NetworkProblem, tol: float, limit: int, deadline: Deadline = NEVER) -> Point:
    """Newton's method from the free motion, until the balance is within ``tol``."""
    newton = SoftNewton(problem, tol, deadline)
    return newton.result(newton.at(np.zeros(problem.net.m)), limit)


class SoftNewton(SemismoothNewton):
    """Springs of equal stiffness in each cone."""

    whole, share = 0.5, 0.1

    def __init__(self, problem: NetworkProblem, tol: float, deadline: Deadline) -> None:
        super().__init__(problem, tol, deadline)
        self.K, self.k = problem.K, problem.elastic_law.stiffness
        self.size_B = abs(problem.net.B)

    def force(self, g: FloatArray) -> FloatArray:
        return self.K.project(-self.k * g)

    def share_kept(self, g: FloatArray) -> FloatArray:
        """P_K′ (nc, d, d) at −k g."""
        return self.K.projection_derivative(-self.k * g)

    def size(self, balance: FloatArray, w: FloatArray, g: FloatArray) -> float:
        """The largest entry of the balance over the inertia there; round-off is 0."""
        net = self.problem.net
        reach = self.k * (np.abs(self.problem.p) + self.size_B @ np.abs(w))
        terms = net.mass_size @ np.abs(w) + self.size_B.T @ reach
        noise = _ROUND_OFF * terms / (self.tol * net.mass_diagonal)
        return self.problem.error(balance / np.maximum(noise, 1.0))

    def direction(self, at: Point) -> FloatArray | None:
        net = self.problem.net
        H = on_rows(self.K, self.share_kept(at.g)) * self.k[None, :]
        try:
            J = sp.csr_array(net.B.T @ (H @ net.B))
            return sparse_solve(self.held(J, at))(-at.balance)
        except ArithmeticError:
            return None

    def held(self, J: sp.csr_array, at: Point) -> sp.csr_array:
        """The system of a stiffness J (m, m), with inertia where no contact resists."""
        return sp.csr_array(self.problem.net.mass + J)


def on_rows(cones: Cones, blocks: FloatArray) -> sp.csr_array:
    """Blocks (nc, d, d), filled with zeros where a cone has fewer rows, as a matrix of the rows."""
    begins, many = cones.ends[:-1], np.diff(cones.ends)
    a, b = np.meshgrid(np.arange(cones.d), np.arange(cones.d), indexing="ij")
    used = (a[None] < many[:, None, None]) & (b[None] < many[:, None, None])
    row = (begins[:, None, None] + a[None])[used]
    column = (begins[:, None, None] + b[None])[used]
    return sp.csr_array((blocks[used], (row, column)), (cones.rows, cones.rows))
