"""Where the problems of a study come from: the bank, scenes, files of steps, and recorded runs."""

from __future__ import annotations

import dataclasses
import hashlib
from dataclasses import dataclass
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


@dataclass(frozen=True)
class ProblemSource:
    """Where a contact problem comes from.

    Attributes
    ----------
    source : the text that names it, as in ``cdopt.open_problem``, without the number of a step.
    step : of a recorded run, the number of the step, from 1; None for the others.
    power : p of the contact energy; None is the problem's own.
    digest : SHA-256 of the file; empty for the bank.
    """

    source: str
    step: int | None = None
    power: checks.Power | None = None
    digest: str = ""

    def __post_init__(self) -> None:
        if self.power is not None:
            object.__setattr__(self, "power", checks.power("power", self.power))

    @property
    def label(self) -> str:
        """The problem in a few words: ``pyramid-hooke:n=5``, ``drop.vtkhdf#12``."""
        name = self.source.replace("\\", "/").rpartition("/")[2] if self.digest else self.source
        name += "" if self.step is None else f"#{self.step}"
        return name + ("" if self.power is None else f", p = {self.power:g}")

    def load(self) -> NamedProblem:
        """The problem's data.

        Raises
        ------
        InvalidInput : no such problem, a damaged file, or one that has changed since it was named.
        """
        if self.digest and _digest(self.source) != self.digest:
            found = f"{self.source}: another content"
            raise InvalidInput("problem", found, "the file as it was planned")
        number = "" if self.step is None else f"#{self.step}"
        return open_problem(self.source + number, self.power)

    def previous_step(self) -> ProblemSource:
        """The step before in the recorded run.

        Raises
        ------
        Unsupported : the problem is no step of a run, or its first.
        """
        if self.step is None or self.step == 1:
            what = "the first step of its run" if self.step else "no step of a recorded run"
            raise Unsupported("mode 'previous'", f"{self.label} is {what}", ("cold", "warm"))
        return dataclasses.replace(self, step=self.step - 1)


def problems(source: str | Path, power: checks.Power | None = None) -> list[ProblemSource]:
    """The problems that a text names: one, the members of a family, or all steps of a run.

    Parameters
    ----------
    source : as in ``cdopt.open_problem``; also a whole run, ``drop.vtkhdf``, and a family without
        a size, ``family:chains``: its members of usual size.
    power : p of the contact energy; None leaves the problem's own.

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
        digest, run = _digest(path), Trajectory.load(path)
        numbers = [step_number(run, number)] if number else step_numbers(run)
        return [ProblemSource(path, step, exponent, digest) for step in numbers]
    if text.endswith((STEP_SUFFIX, *fclib.SUFFIXES)):
        return [ProblemSource(text, None, exponent, _digest(text))]
    if text.startswith(FAMILY_PREFIX):
        family, size = family_and_size(text)
        sizes = family.sizes if size is None else [size]
        names = (f"{FAMILY_PREFIX}{family.name}:{n}" for n in sizes)
        return [ProblemSource(name, None, exponent) for name in names]
    if is_scene(text):
        digest = _digest(text) if text.endswith(".toml") else ""
        return [ProblemSource(text, None, exponent, digest)]
    return [ProblemSource(bank.load(text).name, None, exponent)]


def _digest(path: str) -> str:
    with files.opened(path, "a file that can be read", "problem") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
