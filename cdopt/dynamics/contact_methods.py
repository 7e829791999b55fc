"""The methods of contact dynamics, as sets of settings; ``ContactDynamics`` takes their steps."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from cdopt._util import checks
from cdopt._util.errors import InvalidInput
from cdopt.backends.auto import Auto
from cdopt.backends.base import Backend
from cdopt.backends.selection import resolve
from cdopt.dynamics.contact_dynamics import (
    CompatibleForces,
    ContactDynamics,
    ContactSettings,
    RigidSnapshot,
    StepProblems,
)
from cdopt.dynamics.method import StepContext, Stepper, resolved
from cdopt.problem import LAWS
from cdopt.problem.certificate import TOLERANCE

FIRST_BACKEND = "apgd"  # at n = 20 mid-fall 0.1 s a step, where the others take 5 s and more


@dataclass(frozen=True, kw_only=True)
class ClassicSteps(ContactSettings):
    """Classic contact dynamics, equation (22).

    Parameters
    ----------
    backend : solves each step; ``classic_backend`` is an alias.

    Raises
    ------
    InvalidInput, BackendUnavailable : a setting that cannot be used.
    """

    backend: str | Backend | None = None
    classic_backend: str | Backend | None = None

    name: ClassVar[str] = "classic-cd"

    def __post_init__(self) -> None:
        super().__post_init__()
        names = ("backend", "classic_backend")
        stated = [(name, getattr(self, name)) for name in names]
        solvers = [resolved(name, value) for name, value in stated if value is not None]
        if solvers and solvers[0] != solvers[-1]:
            raise InvalidInput("backend", "two solvers for one problem", " or ".join(names))
        self._put(backend=(solvers or [resolve(FIRST_BACKEND)])[0], classic_backend=None)

    def start(self, context: StepContext) -> Stepper[RigidSnapshot]:
        """A stepper for a run; scenes with bonds are refused."""
        checks.instance("context", context, StepContext)
        solver = resolved("backend", self.backend or FIRST_BACKEND)
        return ContactDynamics(context, self, StepProblems(context, self, solver))


@dataclass(frozen=True, kw_only=True)
class CompatibleSteps(ContactSettings):
    """Compatible contact dynamics: classic motion, forces of the rigid limit of elastic contacts.

    Olsen & Kamrin (2018), Algorithm 1.

    Parameters
    ----------
    backend : solves the second problem, for the forces.
    classic_backend : solves the first, for the motion.
    closed_tol : as in ``CompatibleCD``.

    Raises
    ------
    InvalidInput, BackendUnavailable : a setting that cannot be used.
    """

    backend: str | Backend = "newton"
    classic_backend: str | Backend = FIRST_BACKEND
    closed_tol: float | None = None

    name: ClassVar[str] = "compatible-cd"

    def __post_init__(self) -> None:
        super().__post_init__()
        names = ("backend", "classic_backend")
        self._put(**{name: resolved(name, getattr(self, name)) for name in names})
        if self.closed_tol is not None:
            self._put(closed_tol=checks.tolerance("closed_tol", self.closed_tol))

    def start(self, context: StepContext) -> Stepper[RigidSnapshot]:
        """A stepper for a run; scenes with bonds are refused."""
        checks.instance("context", context, StepContext)
        first = resolved("classic_backend", self.classic_backend)
        second = CompatibleForces(resolved("backend", self.backend), self.closed_tol)
        return ContactDynamics(context, self, StepProblems(context, self, first, second))


@dataclass(frozen=True, kw_only=True)
class FrictionalSteps(ContactSettings):
    """Contact dynamics with friction; without friction it is "classic-cd".

    Materials with rolling or spinning friction resist both by the product cone; "f_r" are their
    moments. The diagnostics ``carrying`` counts the contacts with a force, and ``sliding`` those of
    them whose friction is at its limit μ f.

    Parameters
    ----------
    law : "coulomb", or "associated" for the convex law, whose sliding contacts separate.
    backend : solves each step; by default "auto", at the accuracy ``tol`` where that is above
        1e-6, and without friction that of "classic-cd".
    warm_start : start each step from the forces of the step before, contact by contact, in the
        directions that these have in space.
    substeps : most parts of a step without a certified answer, a power of two; 1 for no split. The
        diagnostics ``substeps`` counts them.

    Raises
    ------
    InvalidInput, BackendUnavailable : a setting that cannot be used.
    """

    law: str = "coulomb"
    backend: str | Backend | None = None
    warm_start: bool = True
    substeps: int = 64

    name: ClassVar[str] = "contact-dynamics"
    frictional: ClassVar[bool] = True
    rolling: ClassVar[bool] = True
    compatible: ClassVar[bool] = False

    def __post_init__(self) -> None:
        super().__post_init__()
        self._put(law=checks.choice("law", self.law, LAWS))
        self._put(substeps=checks.count("substeps", self.substeps, 2**20))
        if self.backend is not None:
            self._put(backend=resolved("backend", self.backend))
        if self.substeps & (self.substeps - 1):
            raise InvalidInput("substeps", str(self.substeps), "a power of two")

    def without_friction(self) -> ClassicSteps | CompatibleSteps:
        """The same method for a scene without friction."""
        return ClassicSteps(backend=self.backend, **self._common())

    def _common(self) -> dict[str, Any]:
        """Settings shared with the methods without friction."""
        names = ("tol", "v_min", "turning", "impacts", "push_overlaps")
        return {name: getattr(self, name) for name in names}

    def start(self, context: StepContext) -> Stepper[RigidSnapshot]:
        """A stepper for a run; scenes with bonds are refused."""
        if checks.instance("context", context, StepContext).friction is None:
            return self.without_friction().start(context)
        solver, second = self._solver, None
        if self.compatible:
            second = CompatibleForces(solver, None)
        problems = StepProblems(context, self, solver, second, self.law, self.substeps)
        return ContactDynamics(context, self, problems)

    @property
    def _solver(self) -> Backend:
        """The settings object of the solver of each step."""
        rough = self.backend is None and self.tol > TOLERANCE and not self.compatible
        return Auto(accuracy=self.tol) if rough else resolve(self.backend or "auto")

    def settings(self) -> dict[str, Any]:
        """The settings as plain values."""
        return super().settings() | {"backend": repr(self._solver)}


@dataclass(frozen=True, kw_only=True)
class CompatibleFrictionSteps(FrictionalSteps):
    """Contact dynamics with friction, its forces resolved by compatibility, with their history.

    The motion is that of "contact-dynamics", whose forces are "f_classic". Micro-slip is carried
    from step to step by contact ids, in its directions in space; a new contact starts without
    force. Where contacts slide in a motion by Coulomb's law, the forces of that step are those of
    Haar and Kármán's principle (``CompatibleFriction``). Their certificate is the balance of the
    network, relative to the largest load.
    """

    name: ClassVar[str] = "compatible-friction"
    rolling: ClassVar[bool] = False
    compatible: ClassVar[bool] = True

    def without_friction(self) -> CompatibleSteps:
        """The same method for a scene without friction."""
        chosen: dict[str, Any] = {} if self.backend is None else {"classic_backend": self.backend}
        return CompatibleSteps(**chosen, **self._common())
