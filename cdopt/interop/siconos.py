"""Siconos' solvers of linear complementarity problems, as backends for classic contact dynamics.

(22) is the problem 0 ≤ f ⟂ N f + p ≥ 0 of (21). N and p go to Siconos as a dense matrix and a
vector, in units of the problem's scales, as every solver here gets them; the forces that it
returns are certified like those of any other solver.

Siconos (Inria; Apache-2.0) is no package of PyPI: on Debian ``apt-get install python3-siconos``
installs it for the system's Python, which is run as a process of its own. The start of that process
is not in the solver's time, but in that of the whole solve.

>>> from cdopt.interop import siconos
>>> "LEMKE" in siconos.SOLVERS
True

With it installed: ``cdopt.ClassicCD(step).solve(siconos.Siconos("PGS"))``; in a study its
solvers are the plugin ``cdopt.interop.siconos:makers``, with names such as ``siconos-pgs``.

V. Acary, B. Brogliato, *Numerical Methods for Nonsmooth Dynamical Systems*, Springer, 2008,
chapter 12; the Siconos numerics manual, "Linear complementarity problems".
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np

from cdopt._util import checks
from cdopt._util.errors import BackendUnavailable, Unsupported
from cdopt._util.formatting import one_line
from cdopt.backends.base import Backend, Capability, Problem, RunResult
from cdopt.backends.native import scaled_step
from cdopt.problem import DelassusStepData, RigidStepData
from cdopt.problem.solution import Iterate
from cdopt.problem.warm_start import WarmStart

SOLVERS = MappingProxyType(
    {
        "LEMKE": "Lemke's pivoting",
        "PIVOT": "pivoting, Bard's choice by default",
        "PIVOT_LUMOD": "pivoting with updated factors",
        "PATHSEARCH": "pivoting along a path",
        "BARD": "pivoting, Bard's choice",
        "MURTY": "pivoting, least index",
        "AVI_CAOFERRIS": "Cao and Ferris' pivoting for affine variational inequalities",
        "ENUM": "enumeration of active sets",
        "PGS": "projected Gauss–Seidel",
        "RPGS": "the same, regularised",
        "PSOR": "projected successive over-relaxation",
        "CPG": "projected conjugate gradient",
        "CONVEXQP_PG": "projected gradient on the quadratic program",
        "LATIN": "large time increments",
        "LATIN_W": "the same, relaxed",
        "NEWTONMIN": "Newton's method on the minimum",
        "NEWTON_FB_FBLSA": "Newton's method on the Fischer–Burmeister function, line search",
        "NEWTON_MIN_FBLSA": "Newton's method on the minimum, line search on Fischer–Burmeister",
        "NSGS_SBM": "block Gauss–Seidel; takes block matrices alone",
        "NSQP": "a quadratic program by ql0001; not in free builds",
        "QP": "a quadratic program by ql0001; not in free builds",
        "PATH": "the PATH solver; needs a licence",
        "GAMS": "solvers of GAMS; needs a licence",
    }
)

_PROGRAM = Path(__file__).with_name("siconos_process.py")
_PYTHONS = (sys.executable, "/usr/bin/python3")
_SAFE = {"PYTHONSAFEPATH": "1"}  # nothing is imported from the working folder
_LARGEST = 5000  # contacts: N is dense here
_ENUMERATED = 16  # contacts: enumeration tries 2ⁿ active sets


def _process(command: list[str], seconds: float) -> subprocess.CompletedProcess[str]:
    """A process of another Python, ended after ``seconds``."""
    return subprocess.run(
        command,
        env={**os.environ, **_SAFE},
        capture_output=True,
        text=True,
        timeout=seconds,
        check=False,
    )


@cache
def python() -> str | None:
    """A Python that has Siconos; None if there is none."""
    for candidate in _PYTHONS:
        try:
            done = _process([candidate, str(_PROGRAM)], 60.0)
        except (OSError, subprocess.TimeoutExpired):
            continue
        if done.returncode == 0:
            return candidate
    return None


@cache
def solvers() -> tuple[str, ...]:
    """The names of ``SOLVERS`` that the installed Siconos has; none without it."""
    interpreter = python()
    if interpreter is None:
        return ()
    names = _process([interpreter, str(_PROGRAM)], 60.0).stdout.split()
    return tuple(name for name in SOLVERS if name in names)


def why_unavailable(solver: str | None = None) -> str | None:
    """Why Siconos, or one of its solvers, is not available; None when it is."""
    if python() is None:
        return "Siconos is not installed; on Debian: apt-get install python3-siconos"
    if solver is not None and solver not in solvers():
        return f"the installed Siconos has no {solver}; it has {', '.join(solvers())}"
    return None


@dataclass(frozen=True)
class Siconos:
    """Settings of one of Siconos' solvers.

    Parameters
    ----------
    solver : one of ``SOLVERS``.
    accuracy : given to the solver as its tolerance, absolute, in units of the problem's scales,
        where forces and speeds are of order one; None leaves its own. Pivoting solvers take it
        for the round-off of a pivot, if at all.
    time_limit : s, after which the process is stopped.

    Raises
    ------
    InvalidInput : an unknown solver, or a number out of range.
    BackendUnavailable : Siconos is not installed, or has no such solver.
    """

    solver: str
    accuracy: float | None = None
    time_limit: float = 60.0

    def __post_init__(self) -> None:
        checks.choice("solver", self.solver, SOLVERS)
        if self.accuracy is not None:
            checks.scalar("accuracy", self.accuracy, above=0.0, at_most=1.0)
        checks.scalar("time_limit", self.time_limit, above=0.0)
        reason = why_unavailable(self.solver)
        if reason is not None:
            raise BackendUnavailable(self.name, reason)

    @property
    def name(self) -> str:
        """Its name in tables, such as "siconos-pgs"."""
        return "siconos-" + self.solver.lower().replace("_", "-")

    @property
    def capability(self) -> Capability:
        """Rigid steps, from zero."""
        return Capability(structured=frozenset({"rigid step"}))

    def run(
        self,
        posed: Problem,
        warm_start: WarmStart | None,
        verbose: bool,
        time_limit: float | None = None,
    ) -> RunResult:
        """Solve in a process of its own, which ends at the time limit.

        Raises
        ------
        Unsupported : no rigid step, or too many contacts for a dense matrix, or for enumeration.
        """
        started = time.perf_counter()
        data = posed.data
        if not isinstance(data, RigidStepData | DelassusStepData):
            raise Unsupported(self.name, f"it solves rigid steps, not a {data.kind}")
        most = _ENUMERATED if self.solver == "ENUM" else _LARGEST
        if data.nc > most:
            raise Unsupported(f"{self.name} for {data.nc} contacts", f"it takes at most {most}")
        step = scaled_step(data)
        dense = np.asarray((step.rows @ step.spread.T).todense())
        tolerance = np.nan if self.accuracy is None else self.accuracy
        prepared = time.perf_counter()
        limited = "" if time_limit is None else "the end of its process"
        seconds = self.time_limit if time_limit is None else min(self.time_limit, time_limit)
        answer = _call(
            {
                "M": 0.5 * (dense + dense.T),
                "q": step.p,
                "solver": self.solver,
                "tolerance": tolerance,
            },
            seconds,
            verbose,
        )
        settings = {} if self.accuracy is None else {"tolerance": self.accuracy}
        timings = {"compile": prepared - started}
        if isinstance(answer, str):
            spent = {**timings, "solve": time.perf_counter() - prepared}
            return RunResult(
                answer,
                "failed",
                None,
                spent,
                raw=answer,
                settings=settings,
                limited=limited,
                out_of_time=bool(limited) and answer.startswith("no answer within"),
            )
        solved = time.perf_counter()
        info = int(answer["info"])
        with np.errstate(all="ignore"):  # answers may overflow
            forces = np.asarray(step.force * answer["z"])
            iterate = Iterate(data.velocity(forces), forces)
        return RunResult(
            status=f"info {info}" + ("" if np.isfinite(forces).all() else ", forces not a number"),
            claim="solved" if info == 0 else "failed",
            iterate=iterate,
            timings={
                **timings,
                "solve": float(answer["seconds"]),
                "process": solved - prepared - float(answer["seconds"]),
                "read": time.perf_counter() - solved,
            },
            iterations=int(answer["iterations"]),
            raw=answer,
            settings=settings,
            limited=limited,
        )


def makers() -> dict[str, Callable[[float | None], Backend]]:
    """The installed solvers as the plugin of a study: a maker for each, by name."""

    def maker(solver: str) -> Callable[[float | None], Backend]:
        return lambda accuracy: Siconos(solver, accuracy)

    return {"siconos-" + name.lower().replace("_", "-"): maker(name) for name in solvers()}


def _call(given: dict[str, Any], time_limit: float, verbose: bool) -> dict[str, Any] | str:
    """The answer of the process; or why there is none."""
    interpreter = python()
    if interpreter is None:
        raise BackendUnavailable("siconos", str(why_unavailable()))
    with tempfile.TemporaryDirectory(prefix="cdopt-siconos-") as folder:
        question, answer = Path(folder) / "in.npz", Path(folder) / "out.npz"
        np.savez(question, **given)
        command = [interpreter, str(_PROGRAM), str(question), str(answer)]
        try:
            done = _process(command, time_limit)
        except subprocess.TimeoutExpired:
            return f"no answer within {time_limit:g} s"
        if verbose:
            sys.stdout.write(done.stdout)
        if not answer.is_file():
            lines = done.stderr.strip().splitlines()  # of a traceback the last line has the reason
            reason = one_line(f"{done.stdout} {lines[-1] if lines else ''}") or "without a message"
            return f"the process ended with code {done.returncode}: {reason}"
        with np.load(answer, allow_pickle=False) as stored:
            return {name: stored[name] for name in stored.files}
