"""Solvers of contact problems by name, with a common result type and declared capabilities.

>>> import cdopt
>>> "clarabel" in cdopt.backends.available()
True
"""

from cdopt.backends.admm import ADMM
from cdopt.backends.apgd import APGD
from cdopt.backends.augmented_lagrangian import AugmentedLagrangian
from cdopt.backends.auto import Auto
from cdopt.backends.base import Backend, Capability, RunResult
from cdopt.backends.block_gauss_seidel import NSGS
from cdopt.backends.gauss_seidel import PGS
from cdopt.backends.homotopy import Homotopy
from cdopt.backends.lemke import LCP
from cdopt.backends.modelled import Direct, Modelled, OSQPSession, osqp_session
from cdopt.backends.newton import InteriorPoint, Newton
from cdopt.backends.registry import known_names
from cdopt.backends.selection import available, describe, resolve, settings_for, why_unavailable

__all__ = [
    "ADMM",
    "APGD",
    "LCP",
    "NSGS",
    "PGS",
    "AugmentedLagrangian",
    "Auto",
    "Backend",
    "Capability",
    "Direct",
    "Homotopy",
    "InteriorPoint",
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
