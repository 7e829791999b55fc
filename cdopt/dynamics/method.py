"""Method: what a simulation asks of a way to take time steps."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol, runtime_checkable

from cdopt._util.checks import FloatArray
from cdopt.collision import Contacts
from cdopt.dynamics.records import ContactState
from cdopt.scene import Scene, State


@dataclass(frozen=True)
class Stage:
    """One solve of a step.

    Attributes
    ----------
    residual : worst residual of its certificate.
    ok : whether the certificate holds.
    claimed : whether the solver reported success.
    iterations : the solver's count; −1 where it gives none.
    seconds : wall-clock time, posing the problem included.
    status : the solver's own message.
    """

    residual: float
    ok: bool
    claimed: bool
    iterations: int
    seconds: float
    status: str


@dataclass(frozen=True)
class StepTaken:
    """Result of one step, or of several.

    Attributes
    ----------
    state : at its end.
    forces : N by name, one for each name in ``Method.forces``: (nc,), and (nc, dim) of tangential
        forces, whose names end in "_t" (``records.is_tangential``).
    stages : one Stage for each name in ``Method.stages``.
    measures : one number for each name in ``Method.measures``.
    seconds_assemble : s.
    solution : result of the last solve, for the exception if it failed.
    steps : how many steps this is; an Integrator takes several at a time.
    contacts : of an Integrator, the contacts in ``state``.
    failure : of an Integrator, why the step after these could not be taken.
    """

    state: State
    forces: Mapping[str, FloatArray]
    stages: Mapping[str, Stage]
    measures: Mapping[str, float]
    seconds_assemble: float
    solution: Any = None
    steps: int = 1
    contacts: ContactState | None = None
    failure: str = ""

    @property
    def ok(self) -> bool:
        """Whether every certificate holds."""
        return all(stage.ok for stage in self.stages.values())


@dataclass
class StepContext:
    """One run of a method on a scene.

    Attributes
    ----------
    scene : the scene. dt : Δt, s.
    strict : whether a step that fails ends the run, so that a proof of why is worth its time.
    friction : coefficient μ of all contacts; True for those of the scene's materials, None for
        none. Only methods with ``frictional`` get any.
    memory : arrays that the next step needs from the last one, by name. They are saved and
        restored with the state, so that a resumed run ends with the same bits.
    workspace : what a method prepares once for a run and can prepare again; never saved.
    """

    scene: Scene
    dt: float
    strict: bool = True
    friction: float | bool | None = None
    memory: dict[str, Any] = field(default_factory=dict)
    workspace: dict[str, Any] = field(default_factory=dict)


class _Settings(Protocol):
    """What every method states; a method is an immutable set of settings.

    A method whose class has a true attribute ``frictional`` takes scenes with friction.
    """

    @property
    def name(self) -> str:
        """The registered name."""

    @property
    def forces(self) -> tuple[str, ...]:
        """Names of the forces of a step, "f" first; "f_t" are the tangential ones beside it."""

    @property
    def stages(self) -> tuple[str, ...]:
        """Names of the solves of a step, in order."""

    @property
    def measures(self) -> tuple[str, ...]:
        """Names of further numbers of a step."""

    def settings(self) -> dict[str, Any]:
        """All settings that the results depend on, as plain values."""


@runtime_checkable
class Method(_Settings, Protocol):
    """A method that takes one step from the contacts that it is given."""

    def step(self, run: StepContext, state: State, contacts: Contacts) -> StepTaken:
        """Take a step of a ``run`` from a state, with the contacts that were detected in it.

        Raises
        ------
        SolveFailed : there is no motion to go on with.
        """


@runtime_checkable
class Integrator(_Settings, Protocol):
    """A method that finds contacts itself and takes many steps at once."""

    def begin(self, run: StepContext, state: State) -> StepTaken:
        """Measures of the initial state; may prepare ``run``.

        Raises
        ------
        InvalidInput, Unsupported : a scene or time step that the method cannot take.
        """

    def integrate(self, run: StepContext, state: State, steps: int) -> StepTaken:
        """Up to ``steps`` steps of a ``run``; fewer, with ``failure`` set, where one fails."""
