"""Sliders: tangential springs whose largest force is constant in a step."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp

from cdopt._util import checks
from cdopt._util.cached import cached_property
from cdopt._util.checks import FloatArray, IntArray, freeze
from cdopt._util.errors import InvalidInput
from cdopt._util.frozen import Frozen
from cdopt.problem.scaling import Parts


@dataclass(frozen=True, eq=False)
class Sliders(Frozen):
    """Tangential springs in series with sliders, one for each contact of a step.

    The cap, μ f_n with the normal force of a predicted state, is constant in the step, which makes
    Coulomb friction convex. Cundall & Strack, Géotechnique 29 (1979).

    Parameters
    ----------
    B_t : (nc (d − 1), nv) tangential rows, those of one contact together, d = 2 in the plane and
        3 in space: ``B_t @ v`` is the sliding rate, m/s, and ``B_t.T @ f_t`` the generalised force.
    stiffness : k_t, N/m, one number or (nc,).
    cap : (nc,) largest size of each force, N; zero for contacts without friction.
    trial : (nc, d − 1) N, the springs' forces at the start of the step; default none.
    damping : of a dashpot parallel to each spring, N s/m, one number or (nc,).
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

    def and_without(self, n: int) -> Sliders:
        """The same, and after them ``n`` contacts without friction."""
        n, many = checks.whole("n", n, 0), self.rate.shape[1]
        none = sp.csr_array((n * many, self.B_t.shape[1]))
        return Sliders(
            freeze(sp.csr_array(sp.vstack([self.B_t, none]))),
            np.append(self.stiffness, np.ones(n)),
            np.append(self.cap, np.zeros(n)),
            np.vstack([self.trial, np.zeros((n, many))]),
            np.append(self.damping, np.zeros(n)),
            np.vstack([self.rate, np.zeros((n, many))]),
        )

    def growth(self, alpha: float, h: float) -> FloatArray:
        """K = α k_t + c/h (nc,), N/m: the force that a metre of sliding adds, at q_α.

        ``alpha`` is α and ``h`` the time step, s.
        """
        alpha, h = checks.tolerance("alpha", alpha), checks.positive("h", h)
        return np.asarray(alpha * self.stiffness + self.damping / h)

    def sliding(self, u: FloatArray, h: float) -> FloatArray:
        """s (nc, d − 1), m, of a step by u (nv,) in m that takes ``h`` s."""
        u, h = checks.vector("u", u, self.B_t.shape[1], "m"), checks.positive("h", h)
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
        The loss is the work of sliders and dashpots; with α = ½ the loss and the energy of the
        springs add up to the work of f_t.
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
class StepSliders:
    """The sliders of a step: those with a force, on bodies that move.

    Arrays have n sliders of m tangents each.
    """

    sliders: Sliders  # of all contacts, validated
    # alpha, duration: of ``Sliders.forces``; they slide by ``duration`` times v⁺
    alpha: float
    duration: float

    @cached_property
    def used(self) -> IntArray:
        """Sliders with a force, on bodies that move."""
        many = self.sliders.rate.shape[1]
        moving = np.diff(self.sliders.B_t.indptr).reshape(-1, many).any(axis=1)
        return np.flatnonzero(moving & (self.sliders.cap > 0.0))

    @cached_property
    def B_t(self) -> sp.csr_array:
        """(n m, nv)."""
        many = self.sliders.rate.shape[1]
        rows = (self.used[:, None] * many + np.arange(many)).ravel()
        return sp.csr_array(self.sliders.B_t[rows])

    @cached_property
    def growth(self) -> FloatArray:
        """K (n,), N/m."""
        return self.sliders.growth(self.alpha, self.duration)[self.used]

    @cached_property
    def cap(self) -> FloatArray:
        """(n,) N."""
        return np.asarray(self.sliders.cap[self.used])

    @cached_property
    def start(self) -> FloatArray:
        """(n, m) N, t − K s of no motion of free bodies."""
        drift = self.duration * self.sliders.rate[self.used]
        return np.asarray(self.sliders.trial[self.used] - self.growth[:, None] * drift)

    def parts_of(self, parts: Parts) -> IntArray:
        """(n,) the independent part of each slider."""
        first = self.B_t.indptr[:-1][:: self.start.shape[1]]
        return np.asarray(parts.dof[self.B_t.indices[first]])

    def tried(self, v: FloatArray) -> FloatArray:
        """t − K s (n, m) of a motion v (nv,) in m/s, N."""
        moved = self.duration * (self.B_t @ v).reshape(self.start.shape)
        return np.asarray(self.start - self.growth[:, None] * moved)

    def load(self, v: FloatArray) -> FloatArray:
        """B_tᵀ f_t (nv,), N and N·m, of a motion v (nv,) in m/s."""
        return np.asarray(self.B_t.T @ cut(self.tried(v), self.cap)[0].ravel())

    def power(self, v: FloatArray) -> FloatArray:
        """ψ(s) over the duration (n,), W, of a motion v (nv,) in m/s."""
        return huber(self.tried(v), self.growth, self.cap) / self.duration
