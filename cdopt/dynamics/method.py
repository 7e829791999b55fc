"""The protocol of all methods in time: ``advance`` takes a run from one snapshot to a later one.

A *method* is an immutable set of settings. Its ``start`` makes a *stepper*, which takes the steps
of one run on one scene. A *snapshot* of a run is the state and the other data that the next step
needs, typed for each method. Moments are saved with the run, so that a run that
is resumed ends with the same bits.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any, Generic, Protocol, TypeVar, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from cdopt._util import checks
from cdopt._util.checks import FloatArray
from cdopt._util.errors import InvalidInput, SolveFailed
from cdopt.backends.base import Backend
from cdopt.backends.selection import resolve
from cdopt.collision import Contacts, PairFriction
from cdopt.dynamics.records import Checkpoint, ContactState
from cdopt.problem.solution import StepSolution
from cdopt.scene import Scene, State

Arrays = Mapping[str, NDArray[Any]]


@dataclass(frozen=True)
class StepContext:
    """Scene and settings of a run that do not depend on the method.

    Parameters
    ----------
    scene : the scene. dt : Δt, s.
    strict : whether a step that fails ends the run; then a proof is computed.
    friction : of pairs of bodies; None for none. Only methods with ``frictional`` get any.
    """

    scene: Scene
    dt: float
    strict: bool = True
    friction: PairFriction | None = None

    def __post_init__(self) -> None:
        checks.instance("scene", self.scene, Scene)
        object.__setattr__(self, "dt", checks.positive("dt", self.dt))
        object.__setattr__(self, "strict", checks.flag("strict", self.strict))
        if self.friction is not None:
            checks.instance("friction", self.friction, PairFriction)


@dataclass(frozen=True)
class Snapshot:
    """The data of a run after ``step`` steps; methods add what their next step needs."""

    step: int
    state: State

    def __post_init__(self) -> None:
        checks.whole("step", self.step, 0)
        checks.instance("state", self.state, State)

    def stored(self) -> Arrays:
        """The additional data of a method, as arrays by name, for the file of the run."""
        return {}


@dataclass(frozen=True)
class Stage:
    """One solve of a step.

    Attributes
    ----------
    residual : worst residual of its certificate.
    ok : whether the certificate is ok.
    claimed : whether the solver reported success.
    iterations : the solver's count; −1 where it gives none.
    seconds : wall-clock time, with stating the problem.
    status : of the solver.
    """

    residual: float
    ok: bool
    claimed: bool
    iterations: int
    seconds: float
    status: str

    @classmethod
    def of(cls, solution: StepSolution | None, seconds: float) -> Stage:
        """The numbers of a ``solution``; None if not tried, as the first left no forces."""
        if solution is None:
            return cls(np.inf, False, False, -1, seconds, "not begun")
        certificate = checks.instance("solution", solution, StepSolution).certificate
        return cls(
            residual=np.inf if certificate is None else certificate.worst,
            ok=certificate is not None and certificate.ok and solution.f is not None,
            claimed=solution.claimed,
            iterations=-1 if solution.iterations is None else solution.iterations,
            seconds=seconds,
            status=solution.status,
        )


@dataclass(frozen=True)
class StepRecord:
    """The record of a step, or of several.

    Attributes
    ----------
    contacts : those of the frame, as in ``Frame``.
    forces : N by name, one for each name in ``Stepper.forces``: (nc,), of tangential forces
        (nc, dim), and moments, as in ``Frame``.
    stages : one Stage for each name in ``Stepper.stages``; none of the initial state.
    measures : one number for each name in ``Stepper.measures``.
    overlap : the deepest at the end, m; not a number where it is not known.
    joint_forces : (nj,) N, of the scene's joints.
    seconds_detect, seconds_assemble : s.
    """

    contacts: Contacts | ContactState
    forces: Mapping[str, FloatArray]
    stages: Mapping[str, Stage]
    measures: Mapping[str, float]
    overlap: float = np.nan
    joint_forces: FloatArray = field(default_factory=lambda: np.zeros(0))
    seconds_detect: float = 0.0
    seconds_assemble: float = 0.0

    @property
    def ok(self) -> bool:
        """Whether every certificate is ok."""
        return all(stage.ok for stage in self.stages.values())


@dataclass(frozen=True)
class Failure:
    """A step that could not be taken.

    Attributes
    ----------
    why : in words. evidence : the solution, or the exception, that failed; None without any.
    state : at the end of the step, or at its start if it left no motion.
    contacts : their number, if known.
    record : its numbers; None if it left no motion.
    """

    why: str
    evidence: StepSolution | SolveFailed | None
    state: State
    contacts: int = 0
    record: StepRecord | None = None


M = TypeVar("M", bound=Snapshot)


@dataclass(frozen=True)
class Advance(Generic[M]):
    """``snapshot`` and ``record`` after the steps taken, and the ``failure`` of the next step."""

    snapshot: M
    record: StepRecord | None
    failure: Failure | None = None


class Stepper(Protocol[M]):
    """The steps of one run of a method on a scene."""

    @property
    def name(self) -> str:
        """Name of the method."""

    @property
    def settings(self) -> Mapping[str, Any]:
        """All settings that the results depend on, as plain values."""

    @property
    def forces(self) -> tuple[str, ...]:
        """Names of the forces of a step, "f" first; "f_t" are tangential ones."""

    @property
    def stages(self) -> tuple[str, ...]:
        """Names of the solves of a step, in order."""

    @property
    def measures(self) -> tuple[str, ...]:
        """Names of further numbers of a step."""

    @property
    def each_step(self) -> bool:
        """Whether ``advance`` takes one step at a time, so that each has diagnostics."""

    def begin(self, state: State) -> Advance[M]:
        """The snapshot of an initial state, and its record."""

    def restore(self, saved: Checkpoint) -> M:
        """The snapshot that was saved.

        Raises
        ------
        InvalidInput : what the next step needs was not saved, by an earlier version.
        """

    def advance(self, snapshot: M, steps: int) -> Advance[M]:
        """Take up to ``steps`` steps from a ``snapshot``; fewer, with ``failure``, if one fails."""


@runtime_checkable
class Method(Protocol):
    """A method: an immutable set of settings.

    Methods whose class has a true attribute ``frictional`` support friction, those with
    ``rolling`` also rolling and spinning friction.
    """

    @property
    def name(self) -> str:
        """The registered name."""

    def start(self, context: StepContext) -> Stepper[Any]:
        """A stepper for a run, whose scene, Δt and friction are in ``context``.

        Raises
        ------
        InvalidInput, Unsupported : a scene or time step that the method does not support.
        """


@dataclass(frozen=True, kw_only=True)
class Settings:
    """Settings of a method as a frozen dataclass, whose values are checked when it is made."""

    def _put(self, **checked: object) -> None:
        """Put checked values in place, while the object is made."""
        for name, value in checked.items():
            object.__setattr__(self, name, value)

    def settings(self) -> dict[str, Any]:
        """The settings as plain values, solvers as texts, first those that are stated."""
        shown = {part.name: getattr(self, part.name) for part in fields(self)}
        solvers = {name: shown.pop(name) for name in list(shown) if name.endswith("backend")}
        return {name: repr(solver) for name, solver in solvers.items() if solver} | shown


def without_memory(saved: Checkpoint, names: tuple[str, ...]) -> InvalidInput:
    """The exception of a copy by an earlier version, which has not all arrays of these names."""
    missing = ", ".join(name for name in names if name not in saved.memory)
    found = f"a copy of a run, without what its next step needs: {missing}"
    return InvalidInput("out", found, "the file of the run, or a copy by this version")


def no_motion(solution: StepSolution) -> SolveFailed:
    """The exception of a step after which a run has no motion to go on with."""
    return SolveFailed(
        f"{solution.formulation} by {solution.backend}: solver status "
        f"{solution.status!r} and leaves no motion to go on with",
        backend=solution.backend,
        status=solution.status,
        raw=solution.raw,
    )


def resolved(name: str, backend: str | Backend) -> Backend:
    """The settings object of a name; errors name the argument."""
    try:
        return resolve(backend)
    except InvalidInput as error:
        raise InvalidInput(name, error.found, error.expected) from error
