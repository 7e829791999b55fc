"""Plans of studies: problems, the settings of a run, and their combinations."""

from __future__ import annotations

import hashlib
import itertools
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import NoneType
from typing import Any

import msgspec

from cdopt._util import checks
from cdopt._util.errors import InvalidInput
from cdopt.backends.registry import known_names
from cdopt.problem import LAWS
from cdopt.study.comparison import REFERENCE_BACKEND
from cdopt.study.named_problem import ProblemSource, problems

FORMULATIONS = (
    "classic-force",
    "classic-velocity",
    "truss-complementary",
    "truss-potential",
    "compatible",
    *LAWS,
)
MODES = ("cold", "warm", "previous")
CALLS = ("cvxpy", "direct")
_LISTS = ("problems", "formulations", "backends", "tolerances", "modes", "calls", "seeds")
_ID_LENGTH = 16  # hexadecimal digits


@dataclass(frozen=True)
class StudyRun:
    """One run of a study. Equal runs have equal identifiers on every machine.

    Attributes
    ----------
    problem : what is solved.
    formulation : one of ``FORMULATIONS``. The truss of a step is that of its closed contacts, which
        the reference backend computes first.
    backend : name of the solver, or one that a plugin brings.
    tolerance : accuracy requested of the solver and tolerance of the certificate; None: the
        solver's defaults, and a certificate at 1e-6.
    mode : start "cold", from zero; "warm", from the solution; "previous", from the solution of the
        previous step in a recorded run.
    call : "cvxpy", with CVXPY's defaults; "direct", with the solver's.
    seed : of the order in which the contacts are given; None is the problem's order.
    repeats : number of solves.
    threads : of BLAS and of compiled loops; None does not set them.
    plugins : sources of backends of other names, ``module:factory`` or ``file.py:factory``.
    reference_backend : solver of the compatible forces with which forces are compared.
    code : digest of the source of a plugin's backend; empty for others, or if unknown.
    """

    problem: ProblemSource
    formulation: str
    backend: str
    tolerance: float | None = None
    mode: str = "cold"
    call: str = "cvxpy"
    seed: int | None = None
    repeats: int = 3
    threads: int | None = None
    plugins: tuple[str, ...] = ()
    reference_backend: str = REFERENCE_BACKEND
    code: str = ""

    def __post_init__(self) -> None:
        checks.text("code", self.code)
        checks.instance("problem", self.problem, ProblemSource)
        checks.choice("formulation", self.formulation, FORMULATIONS)
        checks.text("backend", self.backend)
        checks.choice("mode", self.mode, MODES)
        checks.choice("call", self.call, CALLS)
        checks.text("reference_backend", self.reference_backend)
        plain: dict[str, Any] = {
            "tolerance": checks.optional(checks.tolerance, "tolerance", self.tolerance),
            "seed": checks.optional(checks.seed, "seed", self.seed),
            "repeats": checks.count("repeats", self.repeats),
            "threads": checks.optional(checks.count, "threads", self.threads),
            "plugins": checks.instances("plugins", self.plugins, str),
        }
        for name, value in plain.items():  # which identifiers are made of
            object.__setattr__(self, name, value)

    @property
    def id(self) -> str:
        """Sixteen hexadecimal digits: a hash of everything that defines the run.

        It depends on the content of a problem's file, not on its path, and on the code of a
        plugin's backend.
        """
        content = msgspec.to_builtins(self)
        if not self.code:  # which older studies do not state
            content.pop("code", None)
        if self.problem.digest:
            content["problem"]["source"] = ""
        if not self.problem.frictionless:  # which older studies do not state
            content["problem"].pop("frictionless", None)
        text = msgspec.json.encode(content, order="deterministic")
        return hashlib.sha256(text).hexdigest()[:_ID_LENGTH]

    @property
    def cell(self) -> str:
        """The identifier of the run without the code of its backend: later code replaces it."""
        return replace(self, code="").id if self.code else self.id

    @property
    def label(self) -> str:
        """A short name of the run."""
        parts = [self.problem.label, self.formulation, self.backend]
        parts += [] if self.tolerance is None else [f"{self.tolerance:g}"]
        parts += [text for text in (self.mode, self.call) if text not in ("cold", "cvxpy")]
        return " ".join([*parts, *([] if self.seed is None else [f"order {self.seed}"])])


@dataclass(frozen=True)
class Plan:
    """Every combination of these parameters, each a separate run.

    Parameters
    ----------
    problems : texts as in ``cdopt.study.problems``, or ProblemSources.
    backends, formulations, tolerances, modes, calls, seeds : lists of values of ``StudyRun``.
    repeats, threads, plugins, reference_backend : of each run, as in ``StudyRun``.
    time_limit : s, hard limit of one solve, and of each other measurement.
    memory_limit : MB for the process of a run; None: 70 % of the machine's memory.

    Raises
    ------
    InvalidInput : a list that is empty or has other entries, or an unknown problem.

    >>> plan = Plan(["beam-uniform", "tripod"], ["clarabel", "osqp"], tolerances=(None, 1e-6))
    >>> len(plan.runs)
    8
    """

    problems: Sequence[str | Path | ProblemSource]
    backends: Sequence[str]
    formulations: Sequence[str] = ("classic-force",)
    tolerances: Sequence[float | None] = (None,)
    modes: Sequence[str] = ("cold",)
    calls: Sequence[str] = ("cvxpy",)
    seeds: Sequence[int | None] = (None,)
    repeats: int = 3
    threads: int | None = None
    plugins: Sequence[str] = ()
    time_limit: float = 60.0
    memory_limit: float | None = None
    reference_backend: str = REFERENCE_BACKEND

    def __post_init__(self) -> None:
        checks.positive("time_limit", self.time_limit)
        checks.optional(checks.positive, "memory_limit", self.memory_limit)
        sources = [
            source
            for entry in checks.sequence("problems", self.problems)
            for source in ([entry] if isinstance(entry, ProblemSource) else problems(entry))
        ]
        object.__setattr__(self, "problems", sources)
        for name in (*_LISTS, "plugins"):
            entries = checks.sequence(name, getattr(self, name))
            if name != "problems":
                entries = checks.instances(name, entries, str, int, float, NoneType)
            values = tuple(dict.fromkeys(entries))
            if "" in values or not (values or name == "plugins"):
                raise InvalidInput(name, "an empty list, or an empty text in it", "entries")
            object.__setattr__(self, name, values)
        for name in (*(() if self.plugins else self.backends), self.reference_backend):
            checks.choice("backends", name, known_names())
        _ = self.runs  # which checks the rest

    @property
    def runs(self) -> tuple[StudyRun, ...]:
        """The runs, problem by problem; an impossible combination fails when it runs."""
        same: tuple[Any, ...] = (self.repeats, self.threads, self.plugins, self.reference_backend)
        combinations = itertools.product(*(getattr(self, name) for name in _LISTS))
        runs = [StudyRun(*(*one, *same)) for one in combinations]
        return tuple({run.id: run for run in runs}.values())
