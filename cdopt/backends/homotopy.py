"""A path to Coulomb's law from a problem with one answer, followed around its turns.

In symmetric units (``cone_algebra``) forces y and rates s of the contacts meet, for each t > 0,

    y ∘ s = t e,    s = ĝ(y) + (√(‖ĝ_T‖² + t²) + t) e,    both inside the cones,

with the identity e of the cones. For large t the gaps are wide, forces are nearly e, and there is
one such y; for t → 0 it is Coulomb's law (the associated one without the root). The solutions
(y, t) are a smooth curve. It is followed by its length, not by t: where the law has several
answers, t may grow for a while, and methods in which it only falls end there. Where no forces in
the cones balance themselves and work against the rates (the Slater number is positive) the curve is
bounded, and for almost every problem it ends at an answer (S. N. Chow, J. Mallet-Paret, J. A.
Yorke, Math. Comp. 32, 1978; E. L. Allgower, K. Georg, *Introduction to Numerical Continuation
Methods*, 2003, algorithm 6.1.10). That there is one is the theorem of Klarbring & Pang (SIAM J.
Optim. 8, 1998).

Both conditions are one equation y = P(y − s), with the smooth projection P(z) = ½ (z + √(z ∘ z +
4 t e)) (M. Fukushima, Z.-Q. Luo, P. Tseng, SIAM J. Optim. 12, 2002): there is no boundary to stay
away from. Its linear systems are those of Newton's method, S + Gᵀ H G; H grows as 1/t, so that near
the end, where they lose their digits, systems of the forces take their place. Near the end also
Newton's method on multipliers is tried, which ends at round-off.

Cones that share a normal force have copies of it (``tied_cones``). The multipliers λ of their ties
T y = 0 are then unknowns, too: of a table (n, d) of y the further rows (λ, 0 …) belong to ties.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np
import scipy.sparse as sp

from cdopt._util.cached import cached_property
from cdopt._util.checks import FloatArray
from cdopt.backends import natural_newton, proximal_newton
from cdopt.backends.cone_algebra import SmoothProjection
from cdopt.backends.deadline import NEVER, Deadline
from cdopt.backends.interior_point import Units
from cdopt.backends.linalg import ContactNetwork, DelassusNetwork
from cdopt.backends.linalg.block_systems import BlockSystem, diagonal_blocks
from cdopt.backends.linalg.factorisation import MatrixFactors, Solve, sparse_solve
from cdopt.backends.linalg.tied_blocks import TiedNetwork, TiedSystem
from cdopt.backends.native import NativeBackend, Run, listed
from cdopt.backends.network_problem import NetworkProblem
from cdopt.backends.tied_cones import tied
from cdopt.problem.cones import SYMMETRIC
from cdopt.problem.rolling_cones import RollingCones
from cdopt.problem.scaling import scaled

_FAR = 100.0  # t at the start, over the largest rate without forces
_STARTING, _STARTED = 30, 1e-8  # Newton steps to the start of the curve, and what is left there
_AWAY = 1e3  # t over the first one, where the curve leads back
_FIRST, _LONGEST, _LEAST = 0.3, 8.0, 1e-9  # lengths of a step,
_SHORTER = 0.4  # when it fails,
_BACK, _CROSSED = -0.9, 1e-5  # cosine between tangents, and length of a step, at crossing branches
_EASIER = {1: 2.0, 2: 2.0, 3: 1.3, 4: 1.0}  # after this number of corrections; else
_HARDER = 0.7
_CORRECTIONS = 8  # Newton steps back to the curve,
_CHORD = 0.1  # with the system of the step before, if that left so little
_ON_CURVE, _ROUND_OFF = 1e-6, 1e-13  # what the equation leaves there, over t, or at all
_SLOWER = 0.9  # of what the step before left: no way back to the curve
_NEAR, _AGAIN = 3e-3, 0.1  # natural map at which Newton's method ends it, and share till it retries
_ENDING, _OUTER = 100, 25  # Newton steps and proximal steps then
_FULL = 0.5  # share of entries from which a network is dense
_FORCES, _FINE = 1_500, 1e-4  # rows up to which, and natural map at which systems are of forces


@listed
@dataclass(frozen=True)
class Homotopy(NativeBackend):
    """Settings of the method that follows a path of forces to those of the law.

    It is for steps that are far from convex, with large friction coefficients and many contacts
    that could wedge, for which methods that only reduce a residual often fail.

    Parameters
    ----------
    accuracy : the run is solved when the natural map of every contact, over the closing speed of
        its part, is at most this; and, down to 1e-10, when the certificate is.
    max_steps : along the curve; each solves three to six systems.
    history : keep the natural map of each step in ``raw.residuals``.

    Raises
    ------
    InvalidInput : a setting out of range.
    """

    name: ClassVar[str] = "homotopy"
    kinds: ClassVar[frozenset[str]] = frozenset({"frictional step", "soft step"})
    cones: ClassVar[frozenset[str]] = frozenset({SYMMETRIC, RollingCones.name})
    limit: ClassVar[str] = "max_steps"
    warm_starts: ClassVar[bool] = False  # the method prescribes its start

    accuracy: float = 1e-12
    max_steps: int = 3_000
    history: bool = False

    def _solve(self, problem: NetworkProblem, run: Run) -> Run:
        path = Path(problem, self.accuracy, run.deadline)
        with run.iterating(problem.rows, path.net.m):
            f = path.follow(self.max_steps)
        return proximal_newton.outcome(problem, f, path.history, self.accuracy, str(path), run)


def network_of(problem: NetworkProblem) -> ContactNetwork | DelassusNetwork:
    """The network whose systems are quickest: N itself where it is large and sparse."""
    operator = problem.operator if problem.has_cones else problem.net
    return problem.net if isinstance(operator, DelassusNetwork) and operator.full else operator


def work(problem: NetworkProblem) -> float:
    """About how many products a step along the curve needs for one of its systems."""
    net = network_of(problem)
    if isinstance(net, DelassusNetwork):
        return float(net.m) * (0 if problem.N is None else problem.N.nnz)
    if net.B.nnz > _FULL * net.rows * net.m:
        return float(net.rows) * net.m**2
    return float(net.m) * min(net.m**2, net.B.nnz)


class CurvePoint(NamedTuple):
    """A point of the curve: forces y (n, d), with those of ties, and log t; and the tangent there.

    The tangent is ``along`` (n, d) in ``unit`` (n, 1), and ``up``, in log t; its length is one.
    """

    y: FloatArray
    log_t: float
    unit: FloatArray
    along: FloatArray
    up: float

    @property
    def t(self) -> float:
        """t."""
        return float(np.exp(self.log_t))

    def towards(self, along: FloatArray, up: float) -> float:
        """The cosine of the angle between its tangent and another one."""
        return float(np.sum(self.along * along)) + self.up * up


class Path:
    """The curve of one problem, and the best forces found on it.

    Attributes
    ----------
    history : the natural map of each point, and after each trial of Newton's method.
    steps, systems : along the curve, and solved. turns : times that t began to grow or to fall.
    """

    def __init__(
        self, problem: NetworkProblem, accuracy: float, deadline: Deadline = NEVER
    ) -> None:
        copies = tied(problem)
        self.given, self.problem = problem, problem if copies is None else copies
        self.net = network_of(problem) if copies is None else copies.operator
        self.inner = self.net.base if isinstance(self.net, TiedNetwork) else self.net
        self.accuracy, self.deadline, self.units = accuracy, deadline, Units(self.problem)
        self.ties = self.net.m - self.inner.m
        self.pull = 1.0 / problem.weight.repeat(self.ties // problem.nc)  # of ties
        problem = self.problem
        shape = problem.nc, problem.d
        self.a = np.broadcast_to(self.units.a, (problem.rows,)).reshape(shape)
        self.over = self.a / problem.weight[:, None]  # forces are these times y
        self.steps = self.systems = self.turns = self.newton_steps = 0
        self.history: list[float] = []
        self.of_forces, self.side = False, 1.0
        self.best, self.least = np.zeros((self.given.nc, self.given.d)), np.inf

    def __str__(self) -> str:
        turns = f", {self.turns} turns" if self.turns else ""
        return f"{self.steps:,} steps{turns}, {self.systems:,} systems"

    def follow(self, most: int) -> FloatArray:
        """The best forces (nc, d) on ``most`` steps, or once they are accurate enough."""
        at, length, trial = self._start(), _FIRST, _NEAR
        highest = at.log_t + np.log(_AWAY)
        for self.steps in range(1, most + 1):
            ahead, length = self._stepped(at, length)
            if ahead is None or ahead.log_t > highest or self.deadline.passed:
                break
            self.turns += at.up * ahead.up < 0.0
            at = ahead
            f = self._forces(at.y)
            error = self._kept(f)
            if error <= trial:
                if self._end(f):
                    break
                trial = _AGAIN * error
                self.of_forces |= error <= _FINE and self._small
        return self.best

    @property
    def _small(self) -> bool:
        """Whether systems may be of forces."""
        return not self.ties and self.problem.rows <= _FORCES

    def _forces(self, y: FloatArray) -> FloatArray:
        """The forces f (nc, d) in the cones."""
        f = self.over * y[: self.problem.nc]
        if isinstance(self.net, TiedNetwork):
            f = self.given.table(self.net.forces(f.ravel()))
        return self.given.project(f)

    def _kept(self, f: FloatArray) -> float:
        """The natural map of forces f (nc, d), which are the best so far if it is the least."""
        rates = self.inner.gap(self.inner.motion(self.inner.load(f.ravel()))) + self.given.p
        error = self.given.natural_map(f, self.given.table(rates))
        self.history.append(error)
        if error < self.least:
            self.best, self.least = f, error
        return error

    def _end(self, f: FloatArray) -> bool:
        """Newton's method on multipliers, from forces f (nc, d) near an answer; if it met it.

        Where that does not converge, as with contacts that have neither forces nor rates, Newton's
        method on the natural map follows.
        """
        newton = proximal_newton.Proximal(self.given, self.deadline, self.accuracy, _ENDING)
        end, worst, errors = newton.phase(f, _OUTER, True)
        self.newton_steps += newton.newton_steps
        error = min(errors)
        rounded = not newton.over and worst <= proximal_newton.ROUNDED  # the path does no better
        met = rounded or worst <= max(self.accuracy, proximal_newton.REACHABLE)
        if not met and error <= _FINE and self._small:
            refined, _ = natural_newton.refined(self.given, end, self.deadline)
            less = self.given.worst(refined)
            if less < worst:
                end, error, met = refined, newton.natural(refined), less <= proximal_newton.ROUNDED
        if met or error < self.least:
            self.best, self.least = end, 0.0 if met else error
            self.history.append(error)
        return met

    # --- along the curve ---------------------------------------------------------------

    def _start(self) -> CurvePoint:
        """A point of the curve, for a large t, and the way to smaller ones."""
        y = np.zeros((self.problem.nc + self.ties, self.problem.d))
        y[: self.problem.nc, 0] = 1.0
        rates = self.a * self.problem.table(self.problem.p)
        log_t = float(np.log(_FAR * max(float(np.abs(rates).max(initial=0.0)), 1.0)))
        system = self._system(_Equation(self, y, log_t))
        for _ in range(_STARTING):
            here = _Equation(self, y, log_t)
            if np.linalg.norm(here.left) <= _STARTED * np.sqrt(y.size):
                break
            system = self._system(here)
            y = y + system.solve(-here.left)
        return self._point(y, log_t, system)

    def _point(
        self, y: FloatArray, log_t: float, system: _System, before: CurvePoint | None = None
    ) -> CurvePoint:
        """The point of these forces, after another one.

        t grows where the sign of the determinant is negative. If that turns the curve back, the
        last system may be that of the other side of a turn of t, so it is made once more.
        """
        if before is not None:
            ahead = before.towards(system.slope / before.unit, 1.0) < 0.0
            if ahead != (self.side * system.sign > 0.0):
                system = self._system(_Equation(self, y, log_t))
        slope, falls = system.slope, self.side * system.sign > 0.0
        unit = np.sqrt(y.size) * (1.0 + np.linalg.norm(y, axis=1))[:, None]
        size = (-1.0 if falls else 1.0) * float(np.sqrt(np.sum((slope / unit) ** 2) + 1.0))
        return CurvePoint(y, log_t, unit, slope / unit / size, 1.0 / size)

    def _stepped(self, at: CurvePoint, length: float) -> tuple[CurvePoint | None, float]:
        """The next point of the curve, None where there is none; and the length of the next step.

        Systems of motions are quicker; systems of forces go further. Where the tangent turns back
        although the way is straight, another branch is near, and shorter steps keep to this one.
        If the shortest do not, both cross, as in symmetric problems: the way is straight on.
        """
        length = min(length, _LONGEST)
        while length > _LEAST:
            try:
                ahead, corrections = self._corrected(at, length)
            except ArithmeticError:  # a singular system
                ahead = None
            back = ahead is not None and at.towards(ahead.along, ahead.up) < _BACK
            if back and length <= _CROSSED and ahead is not None:
                self.side, back = -self.side, False
                ahead = ahead._replace(along=-ahead.along, up=-ahead.up)
            if ahead is not None and not back:
                return ahead, length * _EASIER.get(corrections, _HARDER)
            length *= _SHORTER
        if self.of_forces or not self._small:
            return None, length
        self.of_forces = True
        return self._stepped(at, _FIRST)

    def _corrected(self, at: CurvePoint, length: float) -> tuple[CurvePoint | None, int]:
        """The point of the curve at this length along the tangent, and the corrections it took."""
        y, log_t = at.y + length * at.unit * at.along, at.log_t + length * at.up
        before, system = np.inf, None
        for corrections in range(_CORRECTIONS):
            here = _Equation(self, y, log_t)
            size = float(np.linalg.norm(here.left)) / np.sqrt(y.size)
            if system and size <= max(_ON_CURVE * min(here.t, 1.0), _ROUND_OFF):
                return self._point(y, log_t, system, at), corrections
            if not np.isfinite(size) or (corrections > 1 and size > _SLOWER * before):
                break
            if system is None or corrections == 1 or size > _CHORD * before:
                system = self._system(here)
            before, step, slope = size, system.solve(-here.left), system.slope
            moved = at.towards((y - at.y) / at.unit, log_t - at.log_t) - length
            to_curve, by_log_t = at.towards(step / at.unit, 0.0), at.towards(slope / at.unit, 1.0)
            change = -(moved + to_curve) / by_log_t
            y, log_t = y + step + change * slope, log_t + change
        return None, 0

    # --- the equation ------------------------------------------------------------------

    def _system(self, at: _Equation) -> _System:
        """Newton's system there."""
        self.systems += 1
        solve, factors = (self._of_forces if self.of_forces else self._of_motions)(at)
        return _System(solve, factors, solve(-at.by_log_t))

    def law(self, y: FloatArray, t: float) -> tuple[FloatArray, FloatArray, FloatArray]:
        """s (nc, d), the derivative (nc, d) of its normal row by ĝ, and that by t (nc,)."""
        x = self.net.motion(self.net.load((self.over * y[: self.problem.nc]).ravel()))
        x[x.size - self.ties :] = y[self.problem.nc :, 0]
        g = self.a * self.problem.table(self.net.gap(x) + self.problem.p)
        turn, raised, by_t = np.zeros_like(g), np.full(len(g), t), np.ones(len(g))
        if self.problem.coulomb:
            size = np.sqrt(np.sum(g[:, 1:] ** 2, axis=1) + t * t)
            turn[:, 1:] = g[:, 1:] / size[:, None]
            raised, by_t = raised + size, by_t + t / size
        if self.units.lines is not None:
            for x in (turn, raised, by_t):
                x[self.units.lines] = 0.0
        g[:, 0] += raised
        return g, turn, by_t

    def apart(self, y: FloatArray) -> FloatArray:
        """What the copies of a force lack to be equal, as rates (ties,)."""
        load = self.net.load((self.over * y[: self.problem.nc]).ravel())
        return load[load.size - self.ties :] / self.pull

    def _of_motions(self, at: _Equation) -> tuple[Solve, BlockSystem | TiedSystem]:
        """(1 − D) dy + D T a G dw = r for r (n, d), by S dw = Gᵀ (a/w) dy, and that of ties."""
        smooth, nc = at.smooth, self.problem.nc
        # D / (1 − D) = FᵀF, to the left and to the right of which are 1 and T
        left = smooth.root() * np.sqrt(self.over * self.a)[:, None, :]
        right = left + left[:, :, :1] * (at.turn * self.a / self.a[:, :1])[:, None, :]
        system = self.net.block_system(left, right, True)

        def solve(r: FloatArray) -> FloatArray:
            q = np.zeros_like(r)
            q[:nc] = smooth.magnified(r[:nc])
            load = self.net.load((self.over * q[:nc]).ravel())
            load[load.size - self.ties :] -= self.pull * r[nc:, 0]
            x = system.solve(load, _ROUND_OFF)
            rate = self.a * self.problem.table(self.net.gap(x))
            rate[:, 0] += np.sum(at.turn * rate, axis=1)
            q[:nc] -= smooth.raised(rate)
            q[nc:, 0] = x[x.size - self.ties :]
            return q

        return solve, system

    def _of_forces(self, at: _Equation) -> tuple[Solve, MatrixFactors]:
        """The same by the dense matrix 1 − D + D T a N (a/w)."""
        D, shape = at.smooth.slope(), at.turn.shape
        DT = D + D[:, :, :1] * at.turn[:, None, :]
        J = diagonal_blocks(DT) @ self.products + diagonal_blocks(np.eye(shape[1]) - D)
        factors = sparse_solve(sp.csr_array(J))
        return lambda r: factors(r.ravel()).reshape(shape), factors

    @cached_property
    def products(self) -> sp.csr_array:
        """a N (a/w), (rows, rows)."""
        factors = self.problem.factors
        N = sp.csr_array(factors.rows @ factors.spread.T)
        return scaled(N, self.a.ravel(), self.over.ravel())


class _Equation:
    """y − P(y − s) at one point, and what the copies of a force lack to be equal.

    Attributes
    ----------
    left, by_log_t : (n, d) both, and their derivative by log t at the same y.
    turn : (nc, d) the derivative of the normal row of s by ĝ. smooth : P.
    """

    def __init__(self, path: Path, y: FloatArray, log_t: float) -> None:
        self.t = t = float(np.exp(log_t))
        s, self.turn, by_t = path.law(y, t)
        nc = len(s)
        self.smooth = SmoothProjection(y[:nc] - s, t, path.units.lines)
        self.left = np.zeros_like(y)
        self.left[:nc] = y[:nc] - self.smooth.value
        self.left[nc:, 0] = path.apart(y)
        self._by_t = by_t

    @property
    def by_log_t(self) -> FloatArray:
        nc, result = len(self.turn), np.zeros_like(self.left)
        up = np.zeros_like(self.turn)
        up[:, 0] = self._by_t
        result[:nc] = self.t * (self.smooth.times(up) - self.smooth.by_t)
        return result


class _System(NamedTuple):
    """What solves Newton's system, its factors, and dy/d log t of the curve."""

    solve: Solve
    factors: MatrixFactors | BlockSystem | TiedSystem
    slope: FloatArray

    @property
    def sign(self) -> float:
        """The sign of its determinant."""
        return self.factors.sign
