"""Spheres and walls with elastic, damped contacts, stepped by compiled loops.

``SphereStepper`` keeps the neighbour list; ``steps`` and ``forces`` are the loops. Their results
are those of ``cdopt.VariationalStep``, linearised repeatedly.
"""

from cdopt.dynamics.spheres.stepper import TOO_FAST, Integration, SphereStepper
from cdopt.dynamics.spheres.steps import DIVERGED, DONE, NOT_CERTIFIED, TOO_DEEP
from cdopt.dynamics.spheres.system import FORCED, PAPER, Scheme, is_native

__all__ = [
    "DIVERGED",
    "DONE",
    "FORCED",
    "NOT_CERTIFIED",
    "PAPER",
    "TOO_DEEP",
    "TOO_FAST",
    "Integration",
    "Scheme",
    "SphereStepper",
    "is_native",
]
