"""Solvers, interchangeable: one name space, one result type, capability declared as data.

>>> import cdopt
>>> "clarabel" in cdopt.backends.available()
True
"""

from cdopt._util.arguments import guard
from cdopt.backends.accuracy import ACCURACY, AccuracyWords
from cdopt.backends.apgd import APGD
from cdopt.backends.augmented_lagrangian import AugmentedLagrangian
from cdopt.backends.base import Backend, Capability, RunResult
from cdopt.backends.descriptions import describe, settings_for
from cdopt.backends.direct import Direct
from cdopt.backends.lcp import LCP
from cdopt.backends.modelled import Modelled
from cdopt.backends.newton import Newton
from cdopt.backends.osqp_session import OSQPSession, osqp_session
from cdopt.backends.pgs import PGS
from cdopt.backends.registry import available, known_names, resolve, why_unavailable

__all__ = [
    "ACCURACY",
    "APGD",
    "LCP",
    "PGS",
    "AccuracyWords",
    "AugmentedLagrangian",
    "Backend",
    "Capability",
    "Direct",
    "Modelled",
    "Newton",
    "OSQPSession",
    "RunResult",
    "available",
    "describe",
    "known_names",
    "osqp_session",
    "resolve",
    "settings_for",
    "why_unavailable",
]

guard(globals())
