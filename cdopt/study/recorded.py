"""The steps of a run that ``simulate`` recorded, as a family; size: the number of the step."""

from __future__ import annotations

from pathlib import Path

from cdopt._util.checks import describe
from cdopt._util.errors import InvalidInput
from cdopt._util.parameters import whole
from cdopt.bank import Family
from cdopt.dynamics import Trajectory
from cdopt.problem.contact_step import Step
from cdopt.study.named_problem import recorded_step, step_numbers


def of_run(path: str | Path, every: int = 1) -> Family:
    """The contact steps of a run of contact dynamics, each made anew from the state before it.

    Parameters
    ----------
    path : the run's ``.vtkhdf`` file.
    every : take the first step, and then one in every so many.

    Raises
    ------
    InvalidInput : no such run, or every is not a whole number of at least one.
    Unsupported : a member is asked of a run by another method.
    """
    stride = whole("every", every, 1, 10**9)
    run = Trajectory.load(path)
    numbers = step_numbers(run)[::stride]
    if not numbers:
        raise InvalidInput("path", str(path), "a recorded run with steps (.vtkhdf)")

    def build(number: int) -> Step:
        if number not in numbers:
            raise InvalidInput("size", describe(number), f"a step, one of {numbers[:5]}…")
        return recorded_step(run, number)

    name = Path(path).stem
    return Family(name, f"steps of {Path(path).name}", tuple(numbers), build, run.scene.power)
