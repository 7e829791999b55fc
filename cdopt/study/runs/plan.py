"""A plan: which problems, formulations, solvers and tolerances, and the runs that come of it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cdopt._util import checks
from cdopt._util.errors import InvalidInput
from cdopt.backends.registry import known_names
from cdopt.study.runs.run import CALLS, FORMULATIONS, MODES, Problem, Run
from cdopt.study.runs.sources import problems as problems_of


@dataclass(frozen=True)
class Plan:
    """Every combination of what is listed here, each a run of its own.

    Parameters
    ----------
    problems : texts as in ``cdopt.study.runs.sources.problems``, or Problems.
    backends : names of solvers; those that a plugin brings count too.
    formulations : some of ``FORMULATIONS``.
    tolerances : accuracies to ask of the solvers; None leaves their defaults alone.
    modes, calls : some of ``MODES`` and ``CALLS``.
    seeds : orders of the contacts; None is the problem's own.
    repeats : how often each run solves its problem.
    threads : of each run, for BLAS and compiled loops; None leaves them alone.
    plugins : ``module:factory`` or ``file.py:factory``: factories of further backends, called
        in the process of the run alone (``cdopt.study.runs.plugins``).
    time_limit : s, for one solve and for each other measurement; hard.
    memory_limit : MB for a run's process; None: 70 % of the machine's.

    Raises
    ------
    InvalidInput : a list that is empty or holds something else, or an unknown problem.

    >>> plan = Plan(["beam-uniform", "tripod"], ["clarabel", "osqp"], tolerances=(None, 1e-6))
    >>> len(plan.runs)
    8
    """

    problems: Sequence[str | Path | Problem]
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

    def __post_init__(self) -> None:
        for name, known in (("formulations", FORMULATIONS), ("modes", MODES), ("calls", CALLS)):
            values = _listed(name, getattr(self, name))
            for value in values:
                checks.choice(name, value, known)
            object.__setattr__(self, name, values)
        for name in ("problems", "backends", "tolerances", "seeds"):
            object.__setattr__(self, name, _listed(name, getattr(self, name)))
        object.__setattr__(self, "plugins", _listed("plugins", self.plugins, empty=True))
        for name in ("backends", "plugins"):
            for value in getattr(self, name):
                if not isinstance(value, str) or not value:
                    raise InvalidInput(name, checks.describe(value), "a list of names")
        if not self.plugins:
            for name in self.backends:
                checks.choice("backends", name, known_names())
        checks.scalar("time_limit", self.time_limit, above=0.0)
        if self.memory_limit is not None:
            checks.scalar("memory_limit", self.memory_limit, above=0.0)
        found = [p for given in self.problems for p in _problems(given)]
        object.__setattr__(self, "problems", tuple(dict.fromkeys(found)))
        _ = self.runs

    @property
    def runs(self) -> tuple[Run, ...]:
        """The runs, problem by problem; what cannot be is left to the run to refuse."""
        made = [
            Run(
                problem=problem, formulation=formulation, backend=backend, tolerance=tolerance,
                mode=mode, call=call, seed=seed, repeats=self.repeats, threads=self.threads,
                plugins=tuple(self.plugins),
            )
            for problem in self.problems if isinstance(problem, Problem)
            for formulation in self.formulations
            for backend in self.backends
            for tolerance in self.tolerances
            for mode in self.modes
            for call in self.calls
            for seed in self.seeds
        ]  # fmt: skip
        return tuple({run.id: run for run in made}.values())


def _listed(name: str, given: Any, *, empty: bool = False) -> tuple[Any, ...]:
    if isinstance(given, str) or not isinstance(given, Iterable):
        raise InvalidInput(name, checks.describe(given), "a list")
    values = tuple(dict.fromkeys(given))
    if not values and not empty:
        raise InvalidInput(name, "an empty list", "at least one entry")
    return values


def _problems(given: str | Path | Problem) -> list[Problem]:
    return [given] if isinstance(given, Problem) else problems_of(given)
