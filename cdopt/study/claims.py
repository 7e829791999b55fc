"""When a claim of success is false: one definition for tables, leaderboard and summaries.

Solvers define and scale their residuals differently. Therefore a claim is false only if the largest
residual exceeds ``NEAR`` times the tolerance of the certificate, or is NaN.
"""

from __future__ import annotations

import math

from cdopt.problem.solution import StepSolution

NEAR = 10.0  # times the tolerance


def is_near(worst: float | None, tol: float) -> bool:
    """Whether a largest residual that exceeds the tolerance does so by less than ten times."""
    return worst is not None and worst <= NEAR * tol


def missed_by(solution: StepSolution) -> float:
    """The largest residual of all certificates divided by its tolerance; infinite without one."""
    misses = [max(c.worst, c.resolution) / c.tol for c in solution.certificates.values()]
    return max(misses, default=math.inf)


def is_false(solution: StepSolution) -> bool:
    """Whether a solver claims success although a residual exceeds ``NEAR`` times the tolerance."""
    return solution.claimed and not solution.ok and not missed_by(solution) <= NEAR
