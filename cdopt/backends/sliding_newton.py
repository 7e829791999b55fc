"""Semismooth Newton on elastic steps with sliders, in the motion.

minimise over v    ½ ‖v − v*‖²_M + Σ w(c) + (Δt/h) Σ ψ(s)

Its gradient is M(v − v*) − Δt (Bᵀw′(c) + B_tᵀf_t), once semismooth; the generalised Hessian has
w″ on open and closed contacts, and of a slider K (cap/‖y‖)(1 − yyᵀ/‖y‖²), or K where it sticks.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import scipy.sparse as sp
from scipy.sparse.linalg import splu

from cdopt._util.checks import FloatArray
from cdopt.backends.native import Outcome, Run
from cdopt.backends.potential_newton import capped_tangent, line_search
from cdopt.problem.elastic import SlidingStepData, cut
from cdopt.problem.solution import Iterate

_ROUND_OFF = 16.0 * float(np.finfo(np.float64).eps)  # of the terms of the gradient


class Potential:
    """The function that is minimised, in units of each dof's speed.

    Attributes
    ----------
    unit : (nv,) M_jj S_j of each dof, S its unit of speed: of the gradient, N s and N m s.
    """

    def __init__(self, data: SlidingStepData) -> None:
        self.data, self.dt, self.law = data, data.dt, data.law
        self.M, self.B, self.B_t = data.mass.M, data.B, data.B_t
        self.unit = data.mass.diagonal * data.dof_speed

    def overlap(self, v: FloatArray) -> FloatArray:
        """c (nc,) at v (nv,), m."""
        return self.data.overlap(v, np.zeros(self.data.nc))

    def forces(self, v: FloatArray) -> FloatArray:
        """f (nc,) at v (nv,), N."""
        return self.law.force(self.overlap(v))

    def gradient(self, v: FloatArray) -> FloatArray:
        """(nv,) N s at v (nv,)."""
        load = self.B.T @ self.forces(v) + self.data.slider_load(v)
        return np.asarray(self.M @ (v - self.data.free_motion) - self.dt * load)

    def terms(self, v: FloatArray) -> FloatArray:
        """(nv,) N s, sizes of the terms of the gradient; of forces before they cancel."""
        data, dt, size = self.data, self.dt, np.abs(v)
        gap = np.abs(data.step.bias) + abs(self.B) @ size
        tried = np.abs(data.start).ravel()
        tried = tried + np.repeat(data.growth, data.start.shape[1]) * (
            data.duration * (abs(self.B_t) @ size)
        )
        forces = abs(self.B).T @ (self.stiffness(v) * dt * gap) + abs(self.B_t).T @ tried
        return np.asarray(abs(self.M) @ (size + np.abs(data.free_motion)) + dt * forces)

    def slope(self, v: FloatArray, way: FloatArray) -> Callable[[float], float]:
        """The derivative along ``way`` (nv,) from v, of t."""
        return lambda t: float(self.gradient(v + t * way) @ way)

    def stiffness(self, v: FloatArray) -> FloatArray:
        """w″ (nc,), N/m, at v (nv,)."""
        return capped_tangent(self.law, self.overlap(v))

    def hessian(self, v: FloatArray) -> sp.csc_array:
        """(nv, nv) kg and kg m² at v (nv,)."""
        H = self.M + self.B.T @ sp.csr_array(self.B * (self.dt**2 * self.stiffness(v))[:, None])
        if self.data.cap.size:
            H = H + self.B_t.T @ (self._slider_tangent(v) @ self.B_t)
        return sp.csc_array(H)

    def _slider_tangent(self, v: FloatArray) -> sp.csr_array:
        """−Δt ∂f_t/∂(B_t v) (n m, n m)."""
        data, y = self.data, self.data.tried(v)
        (n, m), (_, share) = y.shape, cut(y, data.cap)
        size = np.linalg.norm(y, axis=1)
        way = y / np.where(size > 0.0, size, 1.0)[:, None]
        sliding = np.where(share < 1.0, 1.0, 0.0)[:, None, None]
        blocks = np.eye(m)[None] - sliding * way[:, :, None] * way[:, None, :]
        blocks *= (self.dt * data.duration * data.growth * share)[:, None, None]
        index = np.arange(n * m).reshape(n, m)
        row, column = np.broadcast_arrays(index[:, :, None], index[:, None, :])
        return sp.csr_array((blocks.ravel(), (row.ravel(), column.ravel())), (n * m, n * m))


def solve_step(data: SlidingStepData, run: Run, accuracy: float, max_steps: int) -> Outcome:
    """Solve an elastic step with sliders in at most ``max_steps`` Newton steps."""
    potential, start = Potential(data), run.start
    v, history, met = np.array(data.free_motion), list[float](), False
    if start is not None and start.motion is not None and start.motion.shape == v.shape:
        v = np.array(start.motion)
    with run.iterating(data.nc, data.nv):
        for _ in range(max_steps + 1):
            gradient = potential.gradient(v)
            error, terms = np.abs(gradient), potential.terms(v)
            history.append(float((error / potential.unit).max(initial=0.0)))
            met = bool(np.all(error <= np.maximum(accuracy * potential.unit, _ROUND_OFF * terms)))
            if met or run.deadline.passed or not np.isfinite(history[-1]):
                break
            H = potential.hessian(v)
            unit = 1.0 / np.sqrt(H.diagonal())
            scaled = sp.csc_array(H * unit[:, None] * unit[None, :])
            way = -unit * splu(scaled).solve(unit * gradient)
            t = line_search(potential.slope(v, way))
            if t == 0.0:  # round-off
                break
            v = v + t * way
    steps = max(len(history) - 1, 0)
    how = f"Newton's method on elastic contacts with sliders, {steps:,} steps"
    run.report(f"{how}, residual {min(history):.1e}")
    status = f"stopped at residual {min(history):.1e}"
    iterate = Iterate(v, potential.forces(v))
    return Outcome(iterate, met, steps, [np.array(history)], how, status)
