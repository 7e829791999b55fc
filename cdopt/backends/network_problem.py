"""Steps and trusses as one problem on a contact network, in scaled units.

The conditions of optimality of a rigid step, an elastic step and a truss are one set::

    F̃ + S w − Bᵀ f = 0,    g = B w + p + c(f),    f ≥ 0,    g ≥ 0,    fᵀ g = 0

with the inertia S (zero for a truss), the motion w = v⁺ − v* or the micro-displacement, and the
contacts' compliance c(f) = (f/k)^{1/(p−1)}, zero for rigid contacts.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp

from cdopt._util.arguments import trusted
from cdopt._util.checks import FloatArray, IntArray
from cdopt.backends.linalg import ContactNetwork, network
from cdopt.problem import ContactProblem
from cdopt.problem.contact_law import PowerLaw
from cdopt.problem.scaling import delassus_root
from cdopt.problem.solution import Iterate, WarmStart

_RANK_TOL = 1e-13  # of the largest eigenvalue of a part of N: what a double can hold


@dataclass(frozen=True)
class NetworkProblem:
    """The conditions of optimality in scaled units, the motion in the order of the network.

    Attributes
    ----------
    net : B and the inertia S.
    load : F̃ (m,).
    p : (nc,) gaps, or gap rates, where nothing moves.
    mobility : (nc,) weight of a force beside a gap in the natural residual.
    law : of the contacts; None for rigid ones.
    force : (nc,) N, unit of the forces of the given contacts.
    at_rest : the motion of the given dofs at w = 0; None where only N and p are known.
    unit : unit of w on the dofs of ``used``, or on all.
    """

    net: ContactNetwork
    load: FloatArray
    p: FloatArray
    mobility: FloatArray
    law: PowerLaw | None = None
    force: FloatArray | float = 1.0
    at_rest: FloatArray | None = None
    unit: FloatArray | float = 1.0
    used: IntArray | None = None

    # --- the terms of the conditions ---------------------------------------------------

    def overlap(self, w: FloatArray) -> FloatArray:
        """−(B w + p) (nc,)."""
        return -self.net.gap(w) - self.p

    def balance(self, w: FloatArray, f: FloatArray) -> FloatArray:
        """F̃ + S w − Bᵀ f (m,)."""
        if self.net.mass is None:
            return self.load - self.net.load(f)
        return self.load + self.net.inertia(w) - self.net.load(f)

    def compliance(self, f: FloatArray) -> tuple[FloatArray, FloatArray]:
        """c(f) and c′(f) (nc,)."""
        if self.law is None:
            return np.zeros_like(f), np.zeros_like(f)
        c = self.law.overlap(f)
        return c, c / ((self.law.power - 1.0) * f)

    def error(self, balance: FloatArray) -> float:
        """The largest entry of a balance (m,) over the inertia there."""
        return float(np.abs(balance / self.net.mass_diagonal).max(initial=0.0))

    def residual(self, error: float, gap: FloatArray, f: FloatArray) -> float:
        """Largest of the balance's ``error`` and the natural residual |min(N_ii f_i, g_i)|."""
        natural = np.abs(np.minimum(self.mobility * f, gap)).max(initial=0.0)
        return max(float(natural), error)

    # --- to and from physical units ----------------------------------------------------

    def scaled_motion(self, start: WarmStart | None) -> FloatArray | None:
        """Micro-displacements of an earlier solution as w (m,); None where they do not fit."""
        u = None if start is None else start.motion
        if u is None or self.at_rest is None or u.shape != self.at_rest.shape:
            return None
        return self.net.arranged((u[self._used] - self.at_rest[self._used]) / self.unit)

    @property
    def _used(self) -> IntArray | slice:
        return slice(None) if self.used is None else self.used

    def iterate(self, w: FloatArray, f: FloatArray) -> Iterate:
        """The motion and the forces in physical units."""
        motion = None
        if self.at_rest is not None:
            motion = np.array(self.at_rest)
            motion[self._used] += self.unit * w[self.net.position]
        return trusted(Iterate, motion, f * self.force)


def network_problem(data: ContactProblem) -> NetworkProblem:
    """The conditions of a problem without friction and sliders, in scaled units."""
    problem, force = data.scaled(), data.force
    if problem.N is not None:  # a root of N is the gap gradient of unit masses
        unit = np.sqrt(force / data.speed)
        root = delassus_root(data.products, _RANK_TOL)
        unit_mass = sp.csr_array(sp.eye_array(root.shape[1]))
        net = network(sp.csr_array(root * unit[:, None]), None, unit_mass)
        mobility = data.mobility * force / data.speed
        return NetworkProblem(net, np.zeros(net.m), problem.p, mobility, force=force)
    body = data.dof_body
    if data.is_static:
        body = None if body is None else body[problem.used]
        net = network(problem.B, body, index=problem.used)
    else:
        net = network(problem.B, body, problem.S)
    rigid = problem.compliance is None
    return NetworkProblem(
        net, net.arranged(problem.load), problem.p,
        data.mobility * force / data.speed if rigid else np.ones(net.nc), problem.compliance,
        force=force, at_rest=data.free_motion, unit=problem.unit, used=problem.used,
    )  # fmt: skip


@dataclass
class IterationResult:
    """The last iterate of a second-order solver, in scaled units.

    Attributes
    ----------
    w : (m,) motion.
    f : (nc,) forces.
    residual : its own stopping test at w and f.
    steps : taken so far.
    history : residual of each step.
    converged : whether the residual is within the accuracy.
    """

    w: FloatArray
    f: FloatArray
    residual: float
    steps: int
    history: list[float]
    converged: bool
