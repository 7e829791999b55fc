"""Siconos's solvers of contact problems as backends, with and without friction.

(22) is equivalent to the linear complementarity problem (21), 0 ≤ f ⟂ N f + p ≥ 0 (``Siconos``);
with friction it is K_μ ∋ f ⟂ N f + p + μ‖g_T‖e_n ∈ K*_μ (``SiconosFriction``). Siconos gets N and p
as a dense matrix and a vector, in units of the problem's scales like every solver, and its forces
are certified like those of every solver.

Siconos (Inria; Apache-2.0) is not on PyPI. On Debian ``apt-get install python3-siconos`` installs
it for the system's Python, which runs as a separate process. The start of that process is part of
the time of the solve, but not of the solver's time.

>>> from cdopt.interop import siconos
>>> "LEMKE" in siconos.SOLVERS
True

Call ``cdopt.ClassicCD(step).solve(siconos.Siconos("PGS"))``, or with friction
``cdopt.FrictionalCD(step).solve(siconos.SiconosFriction("NSGS"))``. For studies its solvers are in
the plugin ``cdopt.interop.siconos:makers``, with names such as ``siconos-friction-nsgs``.

V. Acary, B. Brogliato, *Numerical Methods for Nonsmooth Dynamical Systems*, Springer, 2008,
chapters 12 and 13; the Siconos numerics manual, "Linear complementarity problems" and "Friction-
contact problems".
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from cdopt._util import checks
from cdopt._util.errors import BackendUnavailable, Unsupported
from cdopt._util.formatting import one_line
from cdopt._util.processes import python_for
from cdopt.backends.base import Backend, Capability, Problem, RunResult
from cdopt.backends.network_problem import network_problem
from cdopt.problem import ContactProblem, FrictionCones, HalfLines
from cdopt.problem.solution import WarmStart

_NAMES = """LEMKE PIVOT PIVOT_LUMOD PATHSEARCH BARD MURTY AVI_CAOFERRIS ENUM PGS RPGS PSOR CPG
CONVEXQP_PG LATIN LATIN_W NEWTONMIN NEWTON_FB_FBLSA NEWTON_MIN_FBLSA NSGS_SBM NSQP QP PATH GAMS"""
_ROUGH = """NSGS NSN_AC NSN_AC_TEST NSN_FB NSN_NM ADMM PROX TFP ACLMFP DSFP FPP EG VI_FPP VI_EG
SOCLCP LEMKE ENUM CPG"""
SOLVERS = tuple(_NAMES.split())  # QP and NSQP are in no free build, PATH and GAMS need a licence
FRICTION_SOLVERS = tuple(_ROUGH.split())  # LEMKE, ENUM and CPG in the plane
_ASSOCIATED = "SOCLCP"  # the one solver of that law; the others solve Coulomb's
_KINDS = ("FRICTION_2D", "FRICTION_3D")  # with two and with three rows a contact
_PROGRAM = Path(__file__).with_name("siconos_process.py")
_LARGEST, _ENUMERATED = 5000, 16  # rows: N is dense here, and enumeration tries 2ⁿ active sets


def _process(command: list[str], seconds: float) -> subprocess.CompletedProcess[str]:
    """A process of another Python, ended after ``seconds``."""
    return subprocess.run(
        command, env=_environment(), capture_output=True, text=True, timeout=seconds, check=False
    )


def _environment() -> dict[str, str]:
    return {**os.environ, "PYTHONSAFEPATH": "1"}  # no imports from the working folder


@cache
def python() -> str | None:
    """A Python that has Siconos; None if there is none."""
    return python_for(_PROGRAM, _environment())


@cache
def working() -> frozenset[str]:
    """The full names of the solvers of the installed Siconos, such as "LCP_PGS"."""
    interpreter = python()
    if interpreter is None:
        return frozenset()
    names = [f"LCP_{name}" for name in SOLVERS]
    names += [f"{kind}_{name}" for kind in _KINDS for name in FRICTION_SOLVERS]
    return frozenset(_process([interpreter, str(_PROGRAM), "works", *names], 120.0).stdout.split())


def solvers() -> tuple[str, ...]:
    """The ``SOLVERS`` of the installed Siconos; empty without it."""
    return tuple(name for name in SOLVERS if f"LCP_{name}" in working())


def friction_solvers(d: int | None = None) -> tuple[str, ...]:
    """The ``FRICTION_SOLVERS`` of the installed Siconos, for ``d`` rows per contact or any."""
    kinds = _KINDS if d is None else (_KINDS[d - 2],)
    there = working()
    return tuple(n for n in FRICTION_SOLVERS if any(f"{kind}_{n}" in there for kind in kinds))


def why_unavailable(solver: str | None = None, friction: bool = False) -> str | None:
    """Why Siconos, or one of its solvers, is not available; None if it is."""
    if python() is None:
        return "Siconos is not installed; on Debian: apt-get install python3-siconos"
    names = friction_solvers() if friction else solvers()
    if solver is not None and solver not in names:
        return f"the installed Siconos has no {solver}; it has {', '.join(names)}"
    return None


@dataclass(frozen=True)
class Siconos:
    """Settings of one of Siconos' solvers.

    Parameters
    ----------
    solver : one of ``SOLVERS``.
    accuracy : the solver's absolute tolerance, in units of the problem's scales, in which forces
        and speeds are of order one; None for its default. Pivoting solvers use it for pivots, if at
        all.
    time_limit : s, after which the process is ended.
    """

    solver: str
    accuracy: float | None = None
    time_limit: float = 60.0

    _names: ClassVar[tuple[str, ...]] = SOLVERS
    _prefix: ClassVar[str] = "siconos-"
    _kind: ClassVar[str] = "rigid step"
    _cones: ClassVar[str] = HalfLines.name

    def __post_init__(self) -> None:
        checks.choice("solver", self.solver, self._names)
        checks.optional(checks.tolerance, "accuracy", self.accuracy)
        checks.positive("time_limit", self.time_limit)
        reason = why_unavailable(self.solver, self._names is FRICTION_SOLVERS)
        if reason is not None:
            raise BackendUnavailable(self.name, reason)

    @property
    def name(self) -> str:
        """Name of the solver in tables, such as "siconos-pgs"."""
        return self._prefix + self.solver.lower().replace("_", "-")

    @property
    def capability(self) -> Capability:
        """Rigid steps, or steps with friction, from zero."""
        return Capability(structured=frozenset({self._kind}), cones=frozenset({self._cones}))

    def _question(self, data: ContactProblem) -> dict[str, Any]:
        """The solver's full name, and data that only steps with friction have."""
        if data.kind != self._kind:
            raise Unsupported(self.name, f"it solves rigid steps, not a {data.kind}")
        return {"solver": f"LCP_{self.solver}"}

    def run(
        self,
        formulation: Problem,
        warm_start: WarmStart | None,
        verbose: bool,
        time_limit: float | None = None,
    ) -> RunResult:
        """Solve in a separate process, which ends at the time limit."""
        started = time.perf_counter()
        data = formulation.data
        question = self._question(data)
        most = _ENUMERATED if self.solver == "ENUM" else _LARGEST
        if data.rows > most:
            raise Unsupported(f"{self.name} for {data.rows:,} rows", f"it takes at most {most}")
        problem = network_problem(data)
        tolerance = np.nan if self.accuracy is None else self.accuracy
        question |= {"M": problem.factors.dense(), "q": problem.p, "tolerance": tolerance}
        prepared = time.perf_counter()
        limit = self.time_limit if time_limit is None else min(self.time_limit, time_limit)
        answer = _call(question, limit, verbose)
        solved = time.perf_counter()
        timings = {"compile": prepared - started, "solve": solved - prepared}
        about: dict[str, Any] = {
            "timings": timings,
            "raw": answer,
            "settings": {} if self.accuracy is None else {"tolerance": self.accuracy},
            "limited": "" if time_limit is None else "the end of its process",
        }
        if isinstance(answer, str):
            late = time_limit is not None and answer.startswith("no answer within")
            return RunResult(answer, "failed", None, out_of_time=late, **about)
        info, seconds = int(answer["info"]), float(answer["seconds"])
        with np.errstate(all="ignore"):  # answers may overflow
            iterate = problem.caused(np.asarray(answer["z"]))
        status = f"info {info}"
        status += "" if np.isfinite(iterate.forces).all() else ", forces not a number"
        timings |= {"solve": seconds, "process": solved - prepared - seconds}
        timings["read"] = time.perf_counter() - solved
        about["iterations"] = int(answer["iterations"])
        return RunResult(status, "solved" if info == 0 else "failed", iterate, **about)


@dataclass(frozen=True)
class SiconosFriction(Siconos):
    """Settings of one of Siconos' solvers of steps with friction.

    Parameters
    ----------
    solver : one of ``FRICTION_SOLVERS``. "SOCLCP" solves the associated law, in space; the others
        Coulomb's law.
    accuracy : its tolerance on the natural map with ρ = 1 divided by the size of p, in units of the
        problem's scales; None for its default, mostly 1e-3 or 1e-4.
    time_limit : as in ``Siconos``.
    """

    _names: ClassVar[tuple[str, ...]] = FRICTION_SOLVERS
    _prefix: ClassVar[str] = "siconos-friction-"
    _kind: ClassVar[str] = "frictional step"
    _cones: ClassVar[str] = FrictionCones.name

    def _question(self, data: ContactProblem) -> dict[str, Any]:
        if data.kind != self._kind:
            raise Unsupported(self.name, f"it solves steps with friction, not a {data.kind}")
        law = "associated" if self.solver == _ASSOCIATED else "coulomb"
        if data.law != law:
            raise Unsupported(f"{self.name} for the {data.law} law", f"it solves the {law} law")
        names = friction_solvers(data.d)
        if self.solver not in names:
            where = "in the plane" if data.d == 2 else "in space"
            there = f"the installed Siconos has {', '.join(names)} there"
            raise Unsupported(f"{self.name} {where}", there)
        return {"solver": f"{_KINDS[data.d - 2]}_{self.solver}", "mu": data.cones.mu}


def makers() -> dict[str, Callable[[float | None], Backend]]:
    """The installed solvers as the plugin of a study: by name, a function that makes each."""
    installed = [(Siconos, name) for name in solvers()]
    installed += [(SiconosFriction, name) for name in friction_solvers()]
    return {
        kind._prefix + name.lower().replace("_", "-"): partial(kind, name)
        for kind, name in installed
    }


def _call(given: dict[str, Any], time_limit: float, verbose: bool) -> dict[str, Any] | str:
    """The answer of the process, or its error."""
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
