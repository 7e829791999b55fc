"""When a claim of success is false: one definition for tables, leaderboard and summaries.

Solvers define and scale their residuals differently. A claim is false where the largest residual is
above ``NEAR`` times the tolerance of the certificate, or is not a number. Below that it misses the
tolerance but is not false.
"""

from __future__ import annotations

import math

from cdopt.problem.solution import StepSolution

NEAR = 10.0  # times the tolerance


def is_near(worst: float | None, tol: float) -> bool:
    """Whether a largest residual that exceeds the tolerance does so by less than ten times."""
    return worst is not None and worst <= NEAR * tol


def missed_by(solution: StepSolution) -> float:
    """The largest residual over its tolerance, of all certificates; infinite without one."""
    misses = [max(c.worst, c.resolution) / c.tol for c in solution.certificates.values()]
    return max(misses, default=math.inf)


def is_false(solution: StepSolution) -> bool:
    """Whether a solver claims success where a residual is above ``NEAR`` times the tolerance."""
    return solution.claimed and not solution.ok and not missed_by(solution) <= NEAR
