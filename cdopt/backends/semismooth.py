"""Semismooth Newton on a contact network: the loop, the line search and the damping of all kinds.

Forces are functions f(g) of the rates g = G w + p, and the motion w is to balance them,

    F̃ + S w − Gᵀ f(g) = 0.

Where f is minus the gradient of a convex function φ, this is the minimum of
½ wᵀS w + F̃ᵀw + Σ φ(g), and the length of a step is that where the slope along it vanishes: convex
in one variable, it needs no product with G and suffers no cancellation, however close to the
minimum. Otherwise (Coulomb's law) a step has to reduce the imbalance.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np

from cdopt._util.checks import FloatArray
from cdopt.backends.deadline import NEVER, Deadline
from cdopt.backends.network_problem import NetworkProblem

_NONE = np.zeros(0)
_SEARCHES = 60  # secants of a line search
_NEAR_ENOUGH, _MUCH_SHORTER = 0.5, 0.1  # slopes at which a line search ends, of its first
_ENOUGH, _SHORTEST = 0.01, 0.01  # reduction of an imbalance, of the step's length; least length
_MUCH_HIGHER = 1e3  # errors, over that of the point before, to which no step leads


@dataclass
class Point:
    """Where a second-order method is, in scaled units; the last one also tells how it got there."""

    w: FloatArray  # (m,) motion
    f: FloatArray  # (rows,) forces
    error: float  # by the method's stopping test
    steps: int = 0  # taken so far
    history: Sequence[float] = ()  # error of each step
    converged: bool = False  # whether the error is within the accuracy
    # of Newton's method, S w (m,), the rates g (rows,) and F̃ + S w − Gᵀ f (m,)
    inertia: FloatArray = field(default_factory=lambda: _NONE)
    g: FloatArray = field(default_factory=lambda: _NONE)
    balance: FloatArray = field(default_factory=lambda: _NONE)


class SemismoothNewton(ABC):
    """Newton's method on one problem; its subclasses define forces, directions and errors.

    Attributes
    ----------
    tol : error at which it ends. history : the error of each point.
    steps : tried so far, those that were refused included.
    whole, share : slopes at which a line search ends, of its first: at a step of 1, 4, 16 …, and
        between them.
    """

    whole, share = _NEAR_ENOUGH, _MUCH_SHORTER

    def __init__(self, problem: NetworkProblem, tol: float, deadline: Deadline = NEVER) -> None:
        self.problem, self.net = problem, problem.operator
        self.tol, self.deadline, self.steps = tol, deadline, 0
        self.loaded, self.static = problem.F is not None, problem.static
        self.history: list[float] = []

    # --- what kinds define -------------------------------------------------------------

    @abstractmethod
    def force(self, g: FloatArray) -> FloatArray:
        """f(g) (rows,)."""

    @abstractmethod
    def direction(self, at: Point) -> FloatArray | None:
        """Newton's direction (m,); None where there is none."""

    @abstractmethod
    def size(self, balance: FloatArray, w: FloatArray, g: FloatArray) -> float:
        """The error of a ``balance`` (m,), at a motion with these rates."""

    def refused(self) -> bool:
        """After a step that had no direction or no length: whether to try again."""
        return False

    def stalled(self) -> bool:
        """Whether to end although the error is above the tolerance."""
        return False

    def accepted(self, before: Point, at: Point, t: float) -> None:  # noqa: B027
        """What to adapt after a step of length t; nothing by default."""

    # --- the loop ----------------------------------------------------------------------

    def at(self, w: FloatArray) -> Point:
        """The point of a motion w (m,)."""
        return self.point(w, self.net.inertia(w), self.net.gap(w) + self.problem.p)

    def point(
        self, w: FloatArray, inertia: FloatArray, g: FloatArray, f: FloatArray | None = None
    ) -> Point:
        """The point of a motion whose inertia and rates are known, and perhaps the forces."""
        f = self.force(g) if f is None else f
        balance = (self.problem.load if self.static else inertia) - self.net.load(f)
        if self.loaded and not self.static:
            balance += self.problem.load
        error = self.size(balance, w, g)
        return Point(w, f, error, inertia=inertia, g=g, balance=balance)

    def run(self, at: Point, limit: int) -> Point:
        """Where it ends, from a point on, after ``limit`` steps at most."""
        self.history.append(at.error)
        while self.steps < limit:
            if at.error <= self.tol or self.deadline.passed or self.stalled():
                break
            self.steps += 1
            d = self.direction(at)
            t, ahead = (0.0, at) if d is None else self.step(at, d)
            if t == 0.0:
                if not self.refused():
                    break
                continue
            self.accepted(at, ahead, t)
            at = ahead
            self.history.append(at.error)
        return at

    def result(self, start: Point, limit: int) -> Point:
        """Where it ends from ``start``, and how it got there."""
        self.net.methods.append("Newton's method")
        at, history = self.run(start, limit), self.history
        at.steps, at.history, at.converged = len(history) - 1, history, at.error <= self.tol
        return at

    def step(self, at: Point, d: FloatArray) -> tuple[float, Point]:
        """The length of a step along d (m,), zero where there is none, and the point there."""
        rate, pushed = self.net.gap(d), at.inertia if self.static else self.net.inertia(d)
        t = self.length(at, d, rate, pushed)
        ahead = self.moved(at, t, d, rate, pushed) if t else at
        return (t, ahead) if math.isfinite(ahead.error) else (0.0, at)

    def length(self, at: Point, d: FloatArray, rate: FloatArray, pushed: FloatArray) -> float:
        """Where the slope along d (m,) vanishes; zero where there is no such place."""
        return line_search(self.slope(at, d, rate, pushed), self.whole, self.share)

    def moved(
        self, at: Point, t: float, d: FloatArray, rate: FloatArray, pushed: FloatArray
    ) -> Point:
        """The point at t along d (m,), which changes g at the ``rate`` and S w as ``pushed``."""
        inertia = pushed if self.static else at.inertia + t * pushed
        return self.point(at.w + t * d, inertia, at.g + t * rate)

    def slope(
        self, at: Point, d: FloatArray, rate: FloatArray, pushed: FloatArray
    ) -> Callable[[float], float]:
        """φ′(t) = (F̃ + S w)ᵀd + t dᵀS d − f(g + t rate)ᵀ rate."""
        power, work, square = self.power(at, rate), 0.0, 0.0
        if not self.static:
            work, square = self.net.work(at.inertia, d, rate), self.net.work(pushed, d, rate)
        if self.loaded:
            work += float(self.problem.load @ d)
        return lambda t: work + t * square + power(t)

    def power(self, at: Point, rate: FloatArray) -> Callable[[float], float]:
        """−f(g + t rate)ᵀ rate as a function of t."""
        return lambda t: -float(self.force(at.g + t * rate) @ rate)

    def backtracked(self, at: Point, d: FloatArray) -> tuple[float, Point]:
        """The first of the lengths 1, ½, ¼ … that reduces the error, or that which raises it least.

        Zero where none does not raise it much; and the point.
        """
        rate, pushed, t = self.net.gap(d), self.net.inertia(d), 1.0
        least, best = 0.0, at
        while t >= _SHORTEST:
            ahead = self.moved(at, t, d, rate, pushed)
            if ahead.error <= (1.0 - _ENOUGH * t) * at.error:
                return t, ahead
            if ahead.error <= (best.error if least else _MUCH_HIGHER * at.error):
                least, best = t, ahead
            t *= 0.5
        return least, best


def line_search(
    slope: Callable[[float], float], whole: float = _NEAR_ENOUGH, share: float = _MUCH_SHORTER
) -> float:
    """t > 0 where a nondecreasing ``slope`` has vanished, or nearly; 0 if there is none.

    It ends at a ``share`` of the first slope, and at a step of 1, 4, 16 … at that of ``whole``: by
    the Illinois method, secants in a bracket that halve the slope of an end that did not move.
    """
    initial = slope(0.0)
    if not initial < 0.0:
        return 0.0
    low, at_low, high, at_high = 0.0, initial, 1.0, slope(1.0)
    while at_high < -whole * abs(initial) and high < 1e6:
        low, at_low, high = high, at_high, 4.0 * high
        at_high = slope(high)
    if at_high <= whole * abs(initial):  # without end where the energy has no minimum
        return high
    last = 0.0
    for _ in range(_SEARCHES):
        t = low - at_low * (high - low) / (at_high - at_low)  # exact where no contact switches
        value = slope(t)
        if abs(value) <= share * abs(initial):
            return t
        if value < 0.0:
            low, at_low, at_high = t, value, at_high * (0.5 if last < 0.0 else 1.0)
        else:
            high, at_high, at_low = t, value, at_low * (0.5 if last > 0.0 else 1.0)
        last = value
    return low


def loosened(reduction: float, needed: float, share: float, least: float, most: float) -> float:
    """How sharply to solve the next linear system.

    Eisenstat & Walker, SIAM J. Sci. Comput. 17 (1996), their second choice: a ``share`` of the
    square of the last ``reduction`` of the error, but no sharper than ``needed``, within limits.
    """
    return min(max(share * reduction**2, needed, least), most)
