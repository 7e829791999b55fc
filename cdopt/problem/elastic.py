"""Steps with inertia and elastic contacts as data, and with sliders beside them.

A slider is a tangential spring whose force is cut at a cap known beforehand. Its force on the
bodies is B_tᵀ f_t. With the spring's force t at the start of a step, its growth K per metre and
the sliding s of the contact in the step

    f_t = P(t − K s),    P y the nearest force to y with ‖f_t‖ ≤ cap,

which is minus the gradient of Huber's convex function: quadratic while the slider sticks, and
linear beyond:

    ψ(s) = (1/2K) [‖y‖² − (‖y‖ − cap)₊²],    y = t − K s.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse as sp

from cdopt._util import checks
from cdopt._util.checks import FloatArray, IntArray, read_only
from cdopt._util.errors import InvalidInput
from cdopt._util.frozen import Frozen
from cdopt.problem.certificate import (
    Residual,
    energy_round_off,
    law_condition,
    positive,
    residuals_of,
    tension,
)
from cdopt.problem.contact_law import PowerLaw
from cdopt.problem.contact_step import ContactStep
from cdopt.problem.rigid import MatrixStepData
from cdopt.problem.scaling import Parts, ScaledDynamics, network_parts


@dataclass(frozen=True, eq=False)
class ElasticStepData(MatrixStepData):
    """Compliant contact dynamics: M (v⁺ − v*) = Δt Bᵀf, f = w′(c), c = −Δt (B v⁺ + bias).

    Residuals, with F_i the smaller of the forces that the bodies of contact i exchange, or what
    it makes of all that closes in the step if less:

    - ``law``              max |f_i − w′(c_i)| / F_i
    - ``tension``          max (−f_i)₊ / F_i
    - ``momentum`` and ``duality gap`` as for the rigid step

    Attributes
    ----------
    step : the step.
    law : stiffness (nc,) in N/m^(p−1) and power.
    """

    step: ContactStep
    law: PowerLaw

    kind = "elastic step"

    def overlap(self, v_next: FloatArray | None, f: FloatArray) -> FloatArray:
        """c (nc,), m, at the end of the step: −Δt times the gap rate."""
        return -self.dt * self.gap(v_next, f)

    def velocity_objective(self, v_next: FloatArray | None, f: FloatArray) -> FloatArray:
        """½ ‖v⁺ − v*‖²_M + Σ w(c) (parts,), J."""
        stored = self.law.energy(self.overlap(v_next, f))
        kinetic = super().velocity_objective(v_next, f)
        return kinetic + self.parts.total(self.parts.contact, stored)

    def force_objective(self, f: FloatArray) -> FloatArray:
        """½ fᵀN f + pᵀf + (1/Δt) Σ w*(f) (parts,), N m/s."""
        stored = self.parts.total(self.parts.contact, self.law.conjugate(f))
        return super().force_objective(f) + stored / self.dt

    def residuals(self, motion: FloatArray | None, f: FloatArray) -> tuple[Residual, ...]:
        """The optimality conditions at an answer v⁺ (nv,) in m/s and f (nc,) in N."""
        law, exchange = self.law, self.exchange(motion, f)
        c, slack = self.overlap(motion, f), self.dt * exchange.gap_round_off
        closing = law.force(self.dt * (positive(-self.step.p_vec) + exchange.speed))
        force = np.minimum(self.acting_force(exchange), closing)
        stored = law.energy(c) + law.conjugate(f)
        round_off = energy_round_off(law, f, c, slack)
        return residuals_of(
            law_condition(law, f, c, slack, force),
            tension(f, force),
            *exchange.momentum,
            self.duality_gap(exchange, stored - f * c, round_off, stored),
        )

    def prove_infeasible(self) -> None:
        """None: elastic steps always have an answer."""

    def _diagonal(self) -> FloatArray:
        """N_ii (nc,) of a diagonal M: enough for a scale, without a solve for each contact."""
        return self.dt * self._diagonal_mobility[0]

    @cached_property
    def part_force(self) -> FloatArray:
        """(parts,) N: the force that stops the part's speed at a contact of mean mobility.

        Or, if that is less, what its stiffest contact makes of all that closes in one step:
        contacts may yield before they stop what closes.
        """
        stiffest = self.parts.largest(self.parts.contact, self.law.stiffness)
        yielding = PowerLaw(stiffest, self.law.power).force(self.part_speed * self.dt)
        stopping = self.stopping_force
        return read_only(np.where(yielding > 0.0, np.minimum(stopping, yielding), stopping))

    @cached_property
    def _scaled(self) -> ScaledDynamics:
        """With the law between forces and overlaps in units of their parts: F, and V Δt."""
        law = PowerLaw(self.law.force(self.speed * self.dt) / self.force, self.law.power)
        return dataclasses.replace(super()._scaled, law=law)


# --- sliders -----------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Sliders(Frozen):
    """Tangential springs in series with sliders, one for each contact of a step.

    The cap, μ f_n with the normal force of a predicted state, is constant in the step: what is
    then left of Coulomb friction is convex. Cundall & Strack, Géotechnique 29 (1979).

    Parameters
    ----------
    B_t : (nc (d − 1), nv) tangential rows, those of one contact together, d = 2 in the plane and
        3 in space: ``B_t @ v`` is the sliding rate, m/s, and ``B_t.T @ f_t`` what forces do.
    stiffness : k_t, N/m, one number or (nc,).
    cap : (nc,) largest size of each force, N; zero for contacts without friction.
    trial : (nc, d − 1) N, the springs' forces at the start of the step; default none.
    damping : of a dashpot beside each spring, N s/m, one number or (nc,).
    rate : (nc, d − 1) m/s, sliding by prescribed motion; default none.

    Raises
    ------
    InvalidInput : a bad argument.
    """

    B_t: Any
    stiffness: Any
    cap: Any
    trial: Any = None
    damping: Any = 0.0
    rate: Any = None

    def __post_init__(self) -> None:
        cap = checks.vector("cap", self.cap, None, "N")
        nc = cap.size
        B_t = checks.matrix("B_t", self.B_t, None, None)
        many = B_t.shape[0] // max(nc, 1)
        if B_t.shape[0] != nc * many or (nc and many not in (1, 2)):
            expected = f"{nc} in the plane or {2 * nc} in space"
            raise InvalidInput("B_t", f"{B_t.shape[0]:,} rows", expected)
        shape = (nc, 2 if not nc and np.shape(self.rate) == (0, 2) else many or 1)
        trial, rate = (
            np.zeros(shape) if x is None else checks.numbers(name, x, shape, unit)
            for name, x, unit in (("trial", self.trial, "N"), ("rate", self.rate, "m/s"))
        )
        self.__dict__.update(
            B_t=B_t,
            stiffness=checks.per_contact("stiffness", self.stiffness, nc, positive=True),
            cap=checks.per_contact("cap", cap, nc, at_least=0.0),
            trial=trial,
            damping=checks.per_contact("damping", self.damping, nc, at_least=0.0),
            rate=rate,
        )
        super().__post_init__()

    def growth(self, alpha: checks.Tolerance, h: checks.Positive) -> FloatArray:
        """K = α k_t + c/h (nc,), N/m: the force that a metre of sliding adds, at q_α.

        ``alpha`` is α and ``h`` the time step, s.
        """
        return np.asarray(alpha * self.stiffness + self.damping / h)

    def sliding(self, u: FloatArray, h: checks.Positive) -> FloatArray:
        """s (nc, d − 1), m, of a step by u (nv,) in m that takes ``h`` s."""
        u = checks.vector("u", u, self.B_t.shape[1], "m")
        return np.asarray((self.B_t @ u).reshape(self.rate.shape) + h * self.rate)

    def forces(self, u: FloatArray, alpha: float, h: float) -> FloatArray:
        """f_t (nc, d − 1), N, of a step by u (nv,) in m; ``alpha`` is α, ``h`` the time step."""
        return cut(self._tried(u, alpha, h), self.cap)[0]

    def potential(self, u: FloatArray, alpha: float, h: float) -> float:
        """Σ ψ(s), J, of a step by u (nv,) in m; ``alpha`` is α, ``h`` the time step."""
        return float(huber(self._tried(u, alpha, h), self.growth(alpha, h), self.cap).sum())

    def _tried(self, u: FloatArray, alpha: float, h: float) -> FloatArray:
        """t − K s (nc, d − 1), N."""
        return np.asarray(self.trial - self.growth(alpha, h)[:, None] * self.sliding(u, h))

    def after(self, u: FloatArray, alpha: float, h: float) -> tuple[FloatArray, FloatArray]:
        """The springs' forces (nc, d − 1) after a step by u (nv,), N, and the losses (nc,), J.

        ``alpha`` is α and ``h`` the time step. Springs that end beyond their cap slip back to it.
        The loss is the work of sliders and dashpots; with α = ½ it and what the springs take up
        are the work of f_t.
        """
        s, f_t, k = self.sliding(u, h), self.forces(u, alpha, h), self.stiffness
        stretch = (self.trial - f_t) / self.growth(alpha, h)[:, None]
        lost = -(f_t * (s - stretch)).sum(axis=1)
        lost += self.damping / h * (stretch * stretch).sum(axis=1)
        beyond = self.trial - k[:, None] * stretch
        within, _ = cut(beyond, self.cap)
        lost += ((beyond * beyond).sum(axis=1) - (within * within).sum(axis=1)) / (2.0 * k)
        return within, lost


def huber(tried: FloatArray, growth: FloatArray, cap: FloatArray) -> FloatArray:
    """ψ (n,), J, of y = t − K s (n, m), K (n,) and caps (n,)."""
    size = np.linalg.norm(tried, axis=1)
    return np.asarray((size**2 - np.maximum(size - cap, 0.0) ** 2) / (2.0 * growth))


def cut(tried: FloatArray, cap: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Forces (n, m) within their caps (n,) nearest to ``tried``, and the share (n,) they keep."""
    size = np.linalg.norm(tried, axis=1)
    share = np.where(size > cap, cap / np.where(size > 0.0, size, 1.0), 1.0)
    return share[:, None] * tried, share


@dataclass(frozen=True, eq=False)
class SlidingStepData(ElasticStepData):
    """An elastic step with sliders: M (v⁺ − v*) = Δt (Bᵀf + B_tᵀf_t), f_t = P(t − K s).

    Given the motion, f_t is what the law of the sliders says. So the residuals are those of the
    elastic step that B_tᵀf_t loads. Arrays of n sliders leave out those of no force.

    Attributes
    ----------
    sliders : of the step, validated.
    alpha, duration : of ``sliders.forces``; they slide by ``duration`` times v⁺.
    """

    sliders: Sliders
    alpha: float
    duration: float

    kind = "elastic step with sliders"

    @cached_property
    def _used(self) -> IntArray:
        """Sliders with a force, on bodies that move."""
        many = self.sliders.rate.shape[1]
        moving = np.diff(self.sliders.B_t.indptr).reshape(-1, many).any(axis=1)
        return np.flatnonzero(moving & (self.sliders.cap > 0.0))

    @cached_property
    def B_t(self) -> sp.csr_array:
        """(n m, nv)."""
        many = self.sliders.rate.shape[1]
        rows = (self._used[:, None] * many + np.arange(many)).ravel()
        return sp.csr_array(self.sliders.B_t[rows])

    @cached_property
    def growth(self) -> FloatArray:
        """K (n,), N/m."""
        return self.sliders.growth(self.alpha, self.duration)[self._used]

    @cached_property
    def cap(self) -> FloatArray:
        """(n,) N."""
        return np.asarray(self.sliders.cap[self._used])

    @cached_property
    def start(self) -> FloatArray:
        """(n, m) N, t − K s of no motion of free bodies."""
        drift = self.duration * self.sliders.rate[self._used]
        return np.asarray(self.sliders.trial[self._used] - self.growth[:, None] * drift)

    @cached_property
    def slider_part(self) -> IntArray:
        """(n,) the independent part of each slider."""
        first = self.B_t.indptr[:-1][:: self.start.shape[1]]
        return np.asarray(self.parts.dof[self.B_t.indices[first]])

    @cached_property
    def parts(self) -> Parts:
        """Independent parts of the network of contacts and sliders."""
        touched = abs(self.B_t)
        return network_parts(self.B, sp.csr_array(abs(self.mass.M) + touched.T @ touched))

    def tried(self, v: FloatArray) -> FloatArray:
        """t − K s (n, m) of a motion v (nv,) in m/s, N."""
        moved = self.duration * (self.B_t @ v).reshape(self.start.shape)
        return np.asarray(self.start - self.growth[:, None] * moved)

    def slider_load(self, v: FloatArray) -> FloatArray:
        """B_tᵀ f_t (nv,), N and N·m, of a motion v (nv,) in m/s."""
        return np.asarray(self.B_t.T @ cut(self.tried(v), self.cap)[0].ravel())

    def velocity_objective(self, v_next: FloatArray | None, f: FloatArray) -> FloatArray:
        """½ ‖v⁺ − v*‖²_M + Σ w(c) + (Δt/h) Σ ψ (parts,), J, h the duration."""
        y = self.tried(self.velocity(f) if v_next is None else v_next)
        psi = self.dt / self.duration * huber(y, self.growth, self.cap)
        return super().velocity_objective(v_next, f) + self.parts.total(self.slider_part, psi)

    def residuals(self, motion: FloatArray | None, f: FloatArray) -> tuple[Residual, ...]:
        """Those of the elastic step with the sliders' forces as loads."""
        v = self.velocity(f) if motion is None else motion
        loaded = self.step.replace(F_ext=self.step.F_ext + self.slider_load(v))
        return ElasticStepData(loaded, self.law).residuals(v, f)
