"""Grains: spheres and walls with elastic, damped contacts, stepped by compiled loops.

``Marcher`` keeps the list of links; ``variational`` and ``march`` hold the loops. What they
compute is what ``cdopt.VariationalStep``, re-linearised, computes from matrices.
"""

from cdopt.dynamics.spheres.march import DIVERGED, DONE, TOO_DEEP
from cdopt.dynamics.spheres.variational import FORCED, PAPER, Rule
from cdopt.dynamics.spheres.work import TOO_FAST, Marched, Marcher, Touch

__all__ = [
    "DIVERGED",
    "DONE",
    "FORCED",
    "PAPER",
    "TOO_DEEP",
    "TOO_FAST",
    "Marched",
    "Marcher",
    "Rule",
    "Touch",
]
