"""The known solvers: to add one that CVXPY supports, add its record to solvers.toml.

What a solver behind CVXPY can take is read from CVXPY's own solver classes, so that a
solver added to CVXPY is a backend at once. A record adds what CVXPY does not know.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib.metadata import metadata
from pathlib import Path
from typing import Any

from cvxpy.constraints import SOC
from cvxpy.reductions.solvers.defines import SOLVER_MAP_CONIC, SOLVER_MAP_QP

from cdopt.backends.base import Capability, ProblemClass

WARM_STARTS = ("osqp", "scs")  # behind CVXPY
_LEAST_SECONDS = 1e-6  # some solvers take zero for no limit
_PAGES = {  # of solvers that no extra of CVXPY brings
    "cplex": "https://www.ibm.com/products/ilog-cplex-optimization-studio",
    "nag": "https://nag.com/nag-library/",
    "sdpa": "https://sdpa-python.github.io",
    "mpax": "https://github.com/MIT-Lu-Lab/MPAX",
    "cuclarabel": "https://github.com/oxfordcontrol/Clarabel.jl",
    "cuopt": "https://docs.nvidia.com/cuopt/",
    "cosmo": "https://github.com/oxfordcontrol/COSMO.jl",
}


@dataclass(frozen=True)
class Solver:
    """The record of one solver."""

    title: str  # its name as its authors write it
    note: str  # what a user should know
    # colour, marker: in pictures; markers of matplotlib that are filled. Without them a solver is
    # drawn as one that is not known
    colour: str = ""
    marker: Any = None
    package: str = ""  # the package that brings it; empty for a solver of cdopt
    licence: str = ""  # of the package
    # the largest problem for its choice by default, with the reason
    most_contacts: tuple[int, str] | None = None
    # the same, counting contacts and degrees of freedom together
    most_unknowns: tuple[int, str] | None = None
    settings: str = ""  # all setting names it knows, for solvers that ignore unknown ones silently
    # names of the settings that all receive a requested accuracy; empty if not known
    accuracy: tuple[str, ...] = ()
    meaning: str = ""  # the stopping test that they set
    extra: Mapping[str, Any] = field(default_factory=dict)  # settings that must change with them
    nested: str = ""  # the setting that holds these as a dictionary, when they are not at the top
    seconds: str = ""  # name of the setting that limits the time; empty for none
    # defaults that CVXPY changes, so that "OSQP through CVXPY" is not mistaken for OSQP as its
    # authors ship it
    rewritten: str = ""
    # settings that give it its own defaults back; None where these are not known
    direct: Mapping[str, Any] | None = None
    # what CVXPY is given then so that it hands back the last iterate
    direct_options: Mapping[str, Any] = field(default_factory=dict)


def _record(stored: dict[str, Any]) -> Solver:
    values: dict[str, Any] = {k: tuple(v) if isinstance(v, list) else v for k, v in stored.items()}
    return Solver(**values)


_STORED = Path(__file__).with_name("solvers.toml").read_text("utf-8")
SOLVERS = {name: _record(stored) for name, stored in tomllib.loads(_STORED).items()}
DIRECT = tuple(name for name, solver in SOLVERS.items() if solver.direct is not None)


# --- what can run here -------------------------------------------------------------------


@cache
def cvxpy_solvers() -> tuple[str, ...]:
    """Lower-case names of every solver that CVXPY knows, installed or not.

    Not diffcp, which differentiates what SCS solved and solves nothing itself.
    """
    names = dict.fromkeys(name.lower() for name in (*SOLVER_MAP_QP, *SOLVER_MAP_CONIC))
    return tuple(name for name in names if name != "diffcp")


def known_names() -> list[str]:
    """Names of all backends, installed or not, in order of preference."""
    return list(dict.fromkeys([*SOLVERS, *cvxpy_solvers()]))


def is_native(name: str) -> bool:
    """Whether it is a solver of cdopt."""
    return name in SOLVERS and not SOLVERS[name].package


def installed(name: str) -> bool:
    """Whether CVXPY finds this solver installed; ``installed_solvers()`` would import them all."""
    solver = SOLVER_MAP_QP.get(name.upper()) or SOLVER_MAP_CONIC.get(name.upper())
    return solver is not None and bool(solver.is_installed())


@cache
def capability(name: str) -> Capability:
    """What a solver behind CVXPY can take, as CVXPY's interface to it declares."""
    conic = SOLVER_MAP_CONIC.get(name.upper())
    cones = conic is not None and SOC in conic.SUPPORTED_CONSTRAINTS
    classes = ["QP"] * (takes_quadratic(name, "QP") or cones) + ["SOCP"] * cones
    return Capability(frozenset(classes), warm_start=name in WARM_STARTS)


def takes_quadratic(name: str, kind: ProblemClass) -> bool:
    """Whether a solver behind CVXPY takes the quadratic objectives of problems of this class."""
    solver = SOLVER_MAP_QP.get(name.upper()) if kind == "QP" else None
    solver = solver or SOLVER_MAP_CONIC.get(name.upper())
    return solver is not None and bool(solver.supports_quad_obj())


def why_not(name: str) -> str:
    """Why a known backend cannot run here, with the remedy; empty when it can."""
    if is_native(name):
        return ""
    if installed(name):
        takes = capability(name).classes
        refusal = "installed, but it takes neither quadratic objectives nor second-order cones"
        return "" if takes else refusal
    if name in SOLVERS:
        return f"not installed; try: pip install {SOLVERS[name].package}"
    extra = name.replace("_", "-")
    if extra in _extras():
        return f"not installed; try: pip install 'cvxpy[{extra}]' (it may need a licence)"
    return f"not installed; see {_PAGES.get(name, 'https://www.cvxpy.org/install/')}"


@cache
def _extras() -> frozenset[str]:
    """The extras of CVXPY, each of which brings one solver."""
    return frozenset(metadata("cvxpy").get_all("Provides-Extra") or ())


# --- accuracy and time limits in each solver's own settings ------------------------------


def options_for(name: str, accuracy: float) -> dict[str, Any] | None:
    """The solver's settings for a requested accuracy; None when no translation is known."""
    solver = SOLVERS.get(name)
    if solver is None or not solver.accuracy:
        return None
    options: dict[str, Any] = dict.fromkeys(solver.accuracy, accuracy)
    return {**({solver.nested: options} if solver.nested else options), **solver.extra}


def has_clock(name: str) -> bool:
    """Whether a solver behind CVXPY has a setting for a time limit."""
    return name in SOLVERS and bool(SOLVERS[name].seconds)


def time_limit_for(name: str, settings: Mapping[str, Any], seconds: float) -> dict[str, Any]:
    """The solver's setting for a time limit, the smaller where ``settings`` have one too.

    Empty for a solver without a time limit.
    """
    if not has_clock(name):
        return {}
    key = SOLVERS[name].seconds
    limit = settings.get(key)
    if isinstance(limit, (int, float)) and 0.0 < limit < seconds:
        return {}
    return {key: max(seconds, _LEAST_SECONDS)}


def limited_by(name: str) -> str:
    """How a solver behind CVXPY keeps a time limit."""
    if has_clock(name):
        return f"{name}'s own {SOLVERS[name].seconds}"
    return f"only until {name} begins, which has no time limit"
