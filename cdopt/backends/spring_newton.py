"""Newton's method on springs in cones: soft steps, and static networks of springs with friction.

A soft step has springs in any cones, f = P_K(−k g), k one number a part. The motion minimises
½ wᵀS w + (1/k) (½ ‖y‖² − ½ ‖y − P_K(y)‖²), y = −k g: a convex function with a semismooth gradient,
so that one minimisation ends it, and f is unique. It needs only the projection on a cone and its
derivative: lines, boxes, half-lines and cones of any number of rows may be mixed.

Springs of a network would carry y = −(G u + p), in units in which their stiffness is one.
Associated micro-slip has f = P_K(y), minus the gradient of a convex function of u (Haar & Kármán's
principle); Coulomb's micro-slip, which cuts y_T to μ f_n, has no potential. It starts from the
associated forces.
"""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp

from cdopt._util.checks import FloatArray
from cdopt.backends.deadline import NEVER, Deadline
from cdopt.backends.linalg.factorisation import SMALL, DenseFactors, MatrixFactors, sparse_solve
from cdopt.backends.native import Run
from cdopt.backends.network_problem import NetworkProblem
from cdopt.backends.semismooth import Point, SemismoothNewton
from cdopt.problem import Cones

_ROUND_OFF = 16.0 * float(np.finfo(np.float64).eps)  # of the terms of a balance
_RIDGE, _FAR = 1e-12, 1e-6  # of the stiffest dof; the latter times the square of the imbalance
_ENOUGH, _SHORTEST = 1e-4, 1e-8  # reduction of an imbalance, of the step's length; least length
_SHORT = 1e-3  # length of a step where none reduces the imbalance and it is not small
_MULTIPLES = (1.2, 2.0)  # of coefficients of friction, whose solutions may lead to that sought
_PRODUCTS = 1e6  # of a dense stiffness, which take no longer than a sparse product to begin
_SMALL = 1e-9  # an imbalance of the largest load, which round-off may keep

# --- soft steps ----------------------------------------------------------------------------


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
        rows, m = problem.net.B.shape
        alike = self.K.rows == problem.nc * self.K.d and m <= SMALL
        self.dense = problem.net.B.toarray() if alike and rows * m * m <= _PRODUCTS else None

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
        try:
            return self.system(at, self.share_kept(at.g))(-at.balance)
        except ArithmeticError:
            return None

    def system(self, at: Point, kept: FloatArray) -> MatrixFactors:
        """The system of the stiffness Bᵀ H B, with H of the shares ``kept`` (nc, d, d)."""
        B = self.problem.net.B
        if self.dense is None:
            H = on_rows(self.K, kept) * self.k[None, :]
            J = sp.csr_array(B.T @ (H @ B))
            return sparse_solve(sp.csr_array(J + self.held(J.diagonal(), at)))
        nc, d, _ = kept.shape
        slopes = (kept * self.k.reshape(nc, 1, d)) @ self.dense.reshape(nc, d, -1)
        dense = self.dense.T @ slopes.reshape(nc * d, -1)
        return DenseFactors(dense + self.held(dense.diagonal(), at).toarray())

    def held(self, diagonal: FloatArray, at: Point) -> sp.csr_array:
        """Inertia, which holds dofs where no contact resists; ``diagonal`` is of the stiffness."""
        return self.problem.net.mass


def on_rows(cones: Cones, blocks: FloatArray) -> sp.csr_array:
    """Blocks (nc, d, d), filled with zeros where a cone has fewer rows, as a matrix of the rows."""
    begins, many = cones.ends[:-1], np.diff(cones.ends)
    a, b = np.meshgrid(np.arange(cones.d), np.arange(cones.d), indexing="ij")
    used = (a[None] < many[:, None, None]) & (b[None] < many[:, None, None])
    row = (begins[:, None, None] + a[None])[used]
    column = (begins[:, None, None] + b[None])[used]
    return sp.csr_array((blocks[used], (row, column)), (cones.rows, cones.rows))


# --- networks with friction ----------------------------------------------------------------


def solve_springs(problem: NetworkProblem, run: Run, accuracy: float, limit: int) -> Run:
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
        self.coulomb, self.unit = coulomb, sp.csr_array(sp.eye_array(problem.net.m))
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

    def held(self, diagonal: FloatArray, at: Point) -> sp.csr_array:
        """A ridge, as there is no inertia."""
        stiffest = float(np.abs(diagonal).max(initial=0.0)) or 1.0
        return self.unit * ((_RIDGE + _FAR * min(at.error, 1.0) ** 2) * stiffest)

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
