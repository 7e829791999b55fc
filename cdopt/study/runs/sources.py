"""Where problems come from: the bank, files of steps, and recorded runs."""

from __future__ import annotations

import dataclasses
import hashlib
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from cdopt import bank
from cdopt._util import checks, files
from cdopt._util.errors import InvalidInput, Unsupported
from cdopt.collision import detect, safe_margins
from cdopt.collision import step as contact_step
from cdopt.dynamics import Trajectory
from cdopt.formulations import NoTensionTruss
from cdopt.interop import fclib
from cdopt.problem import TrussData
from cdopt.problem.contact_law import HOOKE, PowerLaw
from cdopt.problem.contact_step import ContactStep
from cdopt.study.runs.run import Problem

_STEP, _RUN, _FAMILY = ".npz", ".vtkhdf", "family:"
_METHODS = ("classic-cd", "compatible-cd")


@dataclass(frozen=True, eq=False)
class Material:
    """A problem loaded: a contact step, or a truss.

    Attributes
    ----------
    power : p of the contact energy.
    step : the step; None for a truss.
    truss : the plain data of a truss; None for a step.
    """

    power: float
    step: ContactStep | None = None
    truss: TrussData | None = None

    @property
    def nc(self) -> int:
        """Number of contacts."""
        known = self.step if self.truss is None else self.truss
        return 0 if known is None else known.nc

    def in_order(self, order: NDArray[np.intp]) -> Material:
        """The same problem made anew, its contacts given in this order."""
        if self.step is not None:
            return Material(self.power, self.step.select(order))
        known = self.truss
        if known is None:
            return self
        law = PowerLaw(checks.read_only(known.law.stiffness[order]), known.law.power)
        ids = known.contact_ids
        return Material(
            self.power,
            truss=dataclasses.replace(
                known,
                B=checks.freeze(sp.csr_array(known.B[order])),
                law=law,
                contact_ids=None if ids is None else checks.read_only(ids[order]),
            ),
        )


def problems(source: str | Path, power: checks.Power | None = None) -> list[Problem]:
    """The problems that a text means: one, or every step of a recorded run.

    Parameters
    ----------
    source : as in ``Problem``; one step of a run is ``drop.vtkhdf#12``, and a family without a
        size, ``family:chains``, its members of usual size.
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
    place, _, number = text.partition("#")
    if place.endswith(_RUN):
        digest = _digest(Path(place))
        available = _numbers(Trajectory.load(place))
        if number:
            available = [_whole(number, available, place)]
        return [Problem(place, step, exponent, digest) for step in available]
    if text.endswith((_STEP, *fclib.SUFFIXES)):
        return [Problem(text, None, exponent, _digest(Path(text)))]
    if text.startswith(_FAMILY):
        return [Problem(f"{_FAMILY}{m}", None, exponent) for m in _members(text)]
    return [Problem(bank.load(text).name, None, exponent)]


def load(problem: Problem) -> Material:
    """The problem's data.

    Raises
    ------
    InvalidInput : no such problem, a damaged file, or one that has changed since it was named.
    """
    source = problem.source
    if problem.digest and _digest(Path(source)) != problem.digest:
        raise InvalidInput("problem", f"{source}: another content", "the file as it was planned")
    power = HOOKE if problem.power is None else problem.power
    if problem.step is not None:
        return Material(power, recorded(Trajectory.load(source), problem.step))
    if source.endswith(_STEP):
        return Material(power, ContactStep.load(source))
    if source.endswith(fclib.SUFFIXES):
        return Material(power, fclib.load_step(source))
    if source.startswith(_FAMILY):
        kin, size = _family(source)
        return Material(kin.power if problem.power is None else power, kin.member(size or 0).step)
    found = bank.load(source)
    power = found.power if problem.power is None else problem.power
    if found.step is not None:
        return Material(power, found.step)
    truss = NoTensionTruss(found.B, found.contact_load, found.stiffness, power)
    return Material(power, truss=truss.data)


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


def recorded(trajectory: Trajectory, number: int) -> ContactStep:
    """The contact step that a run of contact dynamics solved, made anew from the state before it.

    Parameters
    ----------
    number : of the step, from 1; the state before it must be among the frames.

    Raises
    ------
    InvalidInput : no such step, or the state before it was not recorded.
    Unsupported : the run was made by another method.
    """
    if trajectory.method not in _METHODS:
        raise Unsupported(trajectory.method, "its steps are no rigid contact steps", _METHODS)
    frames = trajectory.steps.tolist()
    _whole(str(number), _numbers(trajectory), str(trajectory.path or "the run"))
    state, scene, dt = trajectory[frames.index(number - 1)].state, trajectory.scene, trajectory.dt
    settings = {name: trajectory.settings[name] for name in ("v_min", "turning")}
    contacts = detect(scene, state, safe_margins(scene, state, dt))
    return contact_step(scene, state, contacts, dt, **settings)


def _members(text: str) -> list[str]:
    """``NAME:SIZE`` of the members that a text means."""
    kin, size = _family(text)
    if size is not None:
        return [f"{kin.name}:{size}"]
    return [f"{kin.name}:{n}" for n in kin.sizes]


def _family(text: str) -> tuple[bank.Family, int | None]:
    name, _, size = text.removeprefix(_FAMILY).partition(":")
    known = bank.families()
    if name not in known or not (size.isdigit() or not size):
        raise InvalidInput("problem", text, f"{_FAMILY}NAME:SIZE, NAME of " + ", ".join(known))
    return known[name], int(size) if size else None


def _numbers(trajectory: Trajectory) -> list[int]:
    """Numbers of the steps whose starting state is recorded, and which were taken."""
    frames = trajectory.steps.tolist()
    return [start + 1 for start in frames if start < frames[-1]]


def _whole(number: str, available: list[int], place: str) -> int:
    if not number.isdigit() or int(number) not in available:
        known = "none" if not available else f"{available[0]} to {available[-1]}"
        raise InvalidInput("step", f"{place}#{number}", f"a step recorded there: {known}")
    return int(number)


def _digest(path: Path) -> str:
    with files.opened(path, "a file that can be read", "problem") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
