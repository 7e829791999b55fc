"""A scene at rest: its state, contact step and closed contacts."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from cdopt._util.errors import CdoptError, InvalidInput
from cdopt.collision import detect, step
from cdopt.dynamics.simulate import simulate
from cdopt.formulations import CompatibleCD
from cdopt.formulations.compatible_cd import ClosedNetwork
from cdopt.problem.contact_step import ContactStep, Step
from cdopt.problem.solution import StepSolution
from cdopt.scene import Scene, State

_DT = 1e-3  # s
_WAIT = 0.3  # s, in which a dropped scene must come to rest
_AT_REST = 1e-6  # of the largest load: what the contacts of bodies at rest may leave uncarried
_EARLY, _EXACTLY = 0.03, 1e-12  # s, the share: rest to round-off, as soon, ends the waiting
_SOLVER = "newton"


def at_rest(scene: Scene) -> tuple[State, ContactStep, ClosedNetwork]:
    """Where a scene rests, its contact step there, and the contacts that are closed.

    A scene that starts above its supports falls onto them first, by classic contact dynamics.

    Parameters
    ----------
    scene : without bonds, which pull.

    Raises
    ------
    InvalidInput : bonds, or bodies that do not come to rest.
    """
    if scene.bonds.size:
        raise InvalidInput("scene", f"{len(scene.bonds):,} bonds, which pull", "contacts alone")
    for state, allowed in _states(scene):
        posed = step(scene, state, detect(scene, state), _DT)
        try:
            _, network = closed(posed)
        except InvalidInput:
            continue
        applied = np.asarray(posed.F_ext)
        worst = float(np.abs(network.contact_load + applied).max(initial=0.0))
        if worst <= allowed * float(np.abs(applied).max(initial=0.0)):
            return state, posed, network
    raise InvalidInput(
        "scene", f"bodies that still move after {_WAIT:g} s", "a scene that comes to rest"
    )


def _states(scene: Scene) -> Iterator[tuple[State, float]]:
    """The start, and where the scene is after a while; what loads may be left uncarried there."""
    yield scene.initial, _AT_REST
    for wait, allowed in ((_EARLY, _EXACTLY), (_WAIT, _AT_REST)):
        try:
            fallen = simulate(scene, _DT, wait, "classic-cd", backend=_SOLVER, every=50)
        except CdoptError as error:
            raise InvalidInput("scene", str(error), "a scene that comes to rest") from error
        yield fallen.final.state, allowed


def closed(step_at_rest: Step) -> tuple[StepSolution, ClosedNetwork]:
    """The classic answer of a step, and its closed contacts.

    Raises
    ------
    InvalidInput : no classic answer.
    """
    problem = CompatibleCD(step_at_rest)
    try:
        classic = problem.classic_cd.solve(_SOLVER)
    except CdoptError as error:
        raise InvalidInput("scene", str(error), "a contact step with a classic answer") from error
    if classic.f is None:
        raise InvalidInput("scene", f"a step that {_SOLVER} cannot solve", "one that it can")
    return classic, problem.network(classic)
