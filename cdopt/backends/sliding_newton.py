"""Semismooth Newton on elastic steps with sliders, in the motion.

minimise over v    ½ ‖v − v*‖²_M + Σ w(c) + (Δt/h) Σ ψ(s)

Its gradient is M(v − v*) − Δt (Bᵀw′(c) + B_tᵀf_t), once semismooth; the generalised Hessian has
w″ on open and closed contacts, and of a slider K (cap/‖y‖)(1 − yyᵀ/‖y‖²), or K where it sticks.
"""

from __future__ import annotations

from functools import partial

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
    """The function that is minimised, of motions v (nv,) in m/s.

    Attributes
    ----------
    unit : (nv,) M_jj S_j of each dof, S its unit of speed: of the gradient, N s and N m s.
    """

    def __init__(self, data: SlidingStepData) -> None:
        self.data, self.dt, self.M = data, data.dt, data.mass.M
        self.unit = data.mass.diagonal * data.dof_speed

    def overlap(self, v: FloatArray) -> FloatArray:
        """c (nc,), m."""
        return self.data.overlap(v, np.zeros(self.data.nc))

    def gradient(self, v: FloatArray) -> FloatArray:
        """(nv,) N s."""
        forces = self.data.law.force(self.overlap(v))
        load = self.data.B.T @ forces + self.data.slider_load(v)
        return np.asarray(self.M @ (v - self.data.free_motion) - self.dt * load)

    def terms(self, v: FloatArray) -> FloatArray:
        """(nv,) N s, sizes of the terms of the gradient; of forces before they cancel."""
        data, size, B, B_t = self.data, np.abs(v), abs(self.data.B), abs(self.data.B_t)
        growth = np.repeat(data.growth * data.duration, data.start.shape[1])
        tried = np.abs(data.start).ravel() + growth * (B_t @ size)
        pressed = self.stiffness(v) * self.dt * (np.abs(data.step.bias) + B @ size)
        moved = abs(self.M) @ (size + np.abs(data.free_motion))
        return np.asarray(moved + self.dt * (B.T @ pressed + B_t.T @ tried))

    def stiffness(self, v: FloatArray) -> FloatArray:
        """w″ (nc,), N/m."""
        return capped_tangent(self.data.law, self.overlap(v))

    def hessian(self, v: FloatArray) -> sp.csc_array:
        """(nv, nv) kg and kg m²."""
        B, B_t = self.data.B, self.data.B_t
        H = self.M + B.T @ sp.csr_array(B * (self.dt**2 * self.stiffness(v))[:, None])
        if self.data.cap.size:
            H = H + B_t.T @ (self._slider_tangent(v) @ B_t)
        return sp.csc_array(H)

    def _slider_tangent(self, v: FloatArray) -> sp.bsr_array:
        """−Δt ∂f_t/∂(B_t v) (n m, n m)."""
        data, y = self.data, self.data.tried(v)
        (n, m), (_, share) = y.shape, cut(y, data.cap)
        size = np.linalg.norm(y, axis=1)
        way = y / np.where(size > 0.0, size, 1.0)[:, None]
        blocks = np.eye(m) - (share < 1.0)[:, None, None] * way[:, :, None] * way[:, None, :]
        blocks *= (self.dt * data.duration * data.growth * share)[:, None, None]
        return sp.bsr_array((blocks, np.arange(n), np.arange(n + 1)), shape=(n * m, n * m))


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
            t = line_search(partial(_slope, potential, v, way))
            if t == 0.0:  # round-off
                break
            v = v + t * way
    steps = max(len(history) - 1, 0)
    how = f"Newton's method on elastic contacts with sliders, {steps:,} steps"
    run.report(f"{how}, residual {min(history):.1e}")
    status = f"stopped at residual {min(history):.1e}"
    iterate = Iterate(v, data.law.force(potential.overlap(v)))
    return Outcome(iterate, met, steps, [np.array(history)], how, status)


def _slope(potential: Potential, v: FloatArray, way: FloatArray, t: float) -> float:
    """The derivative along ``way`` (nv,) from v."""
    return float(potential.gradient(v + t * way) @ way)
