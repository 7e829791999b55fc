"""Solvers, interchangeable: one name space, one result type, capability declared as data.

>>> import cdopt
>>> "clarabel" in cdopt.backends.available()
True
"""

from cdopt.backends.accuracy import ACCURACY, AccuracyWords
from cdopt.backends.base import Backend, Capability, RunResult
from cdopt.backends.modelled import Modelled
from cdopt.backends.registry import available, resolve, why_unavailable

__all__ = [
    "ACCURACY",
    "AccuracyWords",
    "Backend",
    "Capability",
    "Modelled",
    "RunResult",
    "available",
    "resolve",
    "why_unavailable",
]
