"""Newton's method on the natural map, to round-off from forces that are near an answer.

For y = w f it seeks the zero of the semismooth map

    R(y) = y − P(y − g̃(y)),

where P projects on the cones and g̃ are the rates, with Coulomb's shift. Redundant contacts make
its systems singular, so a step is the least-squares solution of least norm. Contacts of idle bodies
may have neither forces nor rates: other methods then leave errors that fall as the root of their
parameter, and here nothing depends on such contacts (L. Qi, J. Sun, Math. Program. 58, 1993).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import scipy.linalg

from cdopt._util.checks import FloatArray
from cdopt.backends import proximal_newton
from cdopt.backends.deadline import NEVER, Deadline
from cdopt.backends.linalg.block_systems import diagonal_blocks
from cdopt.backends.native import NativeBackend, Run
from cdopt.backends.network_problem import NetworkProblem

STEPS, _PATIENCE = 12, 4  # steps at most, and those without a smaller natural map
_SHORTER, _TRIALS = 0.5, 6  # lengths of a step
_LESS = 1e-4  # share of a step by which the natural map is to fall
_DEPENDENT = 1e-12  # of the largest pivot: smaller ones belong to no force
_ROUND_OFF = 1e-13  # natural map that needs no further step


@dataclass(frozen=True)
class NaturalNewton(NativeBackend):
    """Settings of a method for ``auto`` alone: it needs near forces to start from."""

    name: ClassVar[str] = "natural-newton"
    kinds: ClassVar[frozenset[str]] = frozenset({"frictional step"})
    limit: ClassVar[str] = "max_steps"

    accuracy: float = 1e-12
    max_steps: int = STEPS
    history: bool = False

    def _solve(self, problem: NetworkProblem, run: Run) -> Run:
        f = problem.starting_forces(run.start)
        with run.iterating(problem.rows):
            f, history = refined(problem, f, run.deadline, self.max_steps)
        how = f"{len(history) - 1} steps on the natural map"
        return proximal_newton.outcome(problem, f, history, self.accuracy, how, run)


def refined(
    problem: NetworkProblem, f: FloatArray, deadline: Deadline = NEVER, most: int = STEPS
) -> tuple[FloatArray, list[float]]:
    """The forces (nc, d) of least natural map on ``most`` steps from f (nc, d), and the maps.

    Systems are dense, of all rows.
    """
    equation = _NaturalMap(problem)
    at = equation.at(equation.w * f.ravel())
    best, since, history = at, 0, [at.largest]
    for _ in range(most):
        if best.size <= _ROUND_OFF or since >= _PATIENCE or deadline.passed:
            break
        step, ahead = equation.step(at), None
        for trial in range(_TRIALS):
            length = _SHORTER**trial
            tried = equation.at(at.y + length * step)
            if ahead is None or tried.size < ahead.size:
                ahead = tried
            if tried.size <= (1.0 - _LESS * length) * at.size:
                break
        if ahead is None or not np.isfinite(ahead.size):
            break
        at = ahead
        history.append(at.largest)
        best, since = (at, 0) if at.size < best.size else (best, since + 1)
    return problem.project(problem.table(best.y / equation.w)), history


@dataclass(frozen=True)
class _MapPoint:
    """y, the rates g, the map's argument y − g̃ and the natural map there, all (rows,)."""

    y: FloatArray
    g: FloatArray
    aimed: FloatArray
    off: FloatArray
    size: float  # the norm of the map
    largest: float  # of a contact


class _NaturalMap:
    """The natural map of one problem. w : (rows,) mobilities. products : (rows, rows) N/w."""

    def __init__(self, problem: NetworkProblem) -> None:
        self.problem, self.w = problem, problem.weight.repeat(problem.d)
        factors = problem.factors
        self.products = np.asarray((factors.rows @ factors.spread.T).toarray()) / self.w

    def at(self, y: FloatArray) -> _MapPoint:
        """The point of w f = y (rows,)."""
        g = self.products @ y + self.problem.p
        aimed = y - self.problem.shifted(self.problem.table(g)).ravel()
        off = y - self.problem.K.project(aimed)
        largest = float(self.problem.K.norms(off).max(initial=0.0))
        return _MapPoint(y, g, aimed, off, float(np.linalg.norm(off)), largest)

    def step(self, at: _MapPoint) -> FloatArray:
        """Newton's step (rows,), of least norm: (1 − D + D T N/w) dy = −R, T the shift's slope."""
        D, K = self.problem.K.projection_derivative(at.aimed), self.problem.K
        slope = D
        if self.problem.coulomb:
            slope = D + D[:, :, :1] * K.shift_gradient(at.g)[:, None, :]
        system = diagonal_blocks(np.eye(self.problem.d) - D).toarray()
        system += diagonal_blocks(slope) @ self.products
        step = scipy.linalg.lstsq(
            system, -at.off, cond=_DEPENDENT, lapack_driver="gelsy", check_finite=False
        )[0]
        return np.asarray(step)
