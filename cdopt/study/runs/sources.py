"""Texts that mean problems of a study, and the problems behind them."""

from __future__ import annotations

import hashlib
from pathlib import Path

from cdopt import bank
from cdopt._util import checks, files
from cdopt._util.errors import InvalidInput, Unsupported
from cdopt.dynamics import Trajectory
from cdopt.interop import fclib
from cdopt.study.named_problem import (
    FAMILY_PREFIX,
    RUN_SUFFIX,
    STEP_SUFFIX,
    NamedProblem,
    family_and_size,
    is_scene,
    open_problem,
    step_number,
    step_numbers,
)
from cdopt.study.runs.run import Problem


def problems(source: str | Path, power: checks.Power | None = None) -> list[Problem]:
    """The problems that a text means: one, or every step of a recorded run.

    Parameters
    ----------
    source : as in ``cdopt.open_problem``; also a whole run, ``drop.vtkhdf``, and a family without
        a size, ``family:chains``: its members of usual size.
    power : p of the contact energy; None leaves what the problem says.

    Raises
    ------
    InvalidInput : no such problem, file or step.

    >>> [p.label for p in problems("supports:n=4")]
    ['supports:n=4']
    """
    if not isinstance(source, str | Path) or not str(source):
        raise InvalidInput("problem", checks.describe(source), "a bank name or a file")
    text = str(source)
    exponent = None if power is None else checks.power("power", power)
    path, _, number = text.partition("#")
    if path.endswith(RUN_SUFFIX):
        digest, run = _digest(Path(path)), Trajectory.load(path)
        numbers = [step_number(run, number)] if number else step_numbers(run)
        return [Problem(path, step, exponent, digest) for step in numbers]
    if text.endswith((STEP_SUFFIX, *fclib.SUFFIXES)):
        return [Problem(text, None, exponent, _digest(Path(text)))]
    if text.startswith(FAMILY_PREFIX):
        family, size = family_and_size(text)
        sizes = family.sizes if size is None else [size]
        return [Problem(f"{FAMILY_PREFIX}{family.name}:{n}", None, exponent) for n in sizes]
    if is_scene(text):
        digest = _digest(Path(text)) if text.endswith(".toml") else ""
        return [Problem(text, None, exponent, digest)]
    return [Problem(bank.load(text).name, None, exponent)]


def load(problem: Problem) -> NamedProblem:
    """The problem's data.

    Raises
    ------
    InvalidInput : no such problem, a damaged file, or one that has changed since it was named.
    """
    source = problem.source
    if problem.digest and _digest(Path(source)) != problem.digest:
        raise InvalidInput("problem", f"{source}: another content", "the file as it was planned")
    number = "" if problem.step is None else f"#{problem.step}"
    return open_problem(source + number, problem.power)


def before(problem: Problem) -> Problem:
    """The step before in the recorded run.

    Raises
    ------
    Unsupported : the problem is no step of a run, or its first.
    """
    if problem.step is None or problem.step == 1:
        what = "the first step of its run" if problem.step else "no step of a recorded run"
        raise Unsupported("mode 'previous'", f"{problem.label} is {what}", ("cold", "warm"))
    return Problem(problem.source, problem.step - 1, problem.power, problem.digest)


def _digest(path: Path) -> str:
    with files.opened(path, "a file that can be read", "problem") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
