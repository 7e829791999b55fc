"""From a scene, a contact step or a named problem to what a page explores."""

from __future__ import annotations

from typing import Any

import numpy as np

from cdopt._util.checks import BoolArray, FloatArray
from cdopt._util.errors import InvalidInput
from cdopt.collision import detect
from cdopt.dynamics.rest import at_rest, closed, contact_names
from cdopt.formulations import CompatibleCD
from cdopt.formulations.compatible_cd import ClosedNetwork
from cdopt.plots.explore import loads
from cdopt.plots.explore.exploration import Exploration, check_size
from cdopt.plots.explore.loads import Load
from cdopt.plots.explore.picture import (
    Reach,
    of_bodies,
    of_platform,
    reach_of,
    reach_of_platform,
)
from cdopt.problem.contact_law import HOOKE
from cdopt.problem.contact_step import ContactStep, Step
from cdopt.scene import Scene
from cdopt.study.named_problem import NamedProblem

_SOLVER = "newton"


def of_scene(scene: Scene) -> Exploration:
    """A scene at rest, with its picture; one that starts above its supports falls onto them first.

    Raises
    ------
    InvalidInput : too large, bonds, or bodies that do not come to rest.
    """
    check_size(detect(scene, scene.initial).nc, scene.dofs.nv)
    state, posed, network = at_rest(scene)
    contacts = network.contacts
    upward = _upward(posed, contacts, scene.bodies.fixed)
    free = np.flatnonzero(~scene.bodies.fixed)
    reach = reach_of(scene, state, free)
    load = _of_platform(posed, network, upward, reach) or loads.leaning(scene)
    return Exploration(
        name=scene.name or "scene",
        title=scene.title or scene.name or "A scene at rest",
        B=_dense(posed.B)[contacts],
        response=_response(posed)[contacts],
        stiffness=posed.stiffness[contacts],
        power=scene.power,
        names=tuple(contact_names(scene, posed)[i] for i in contacts),
        load=load,
        body=scene.bodies.names[free[0]] if free.size == 1 else "",
        picture=of_bodies(scene, state, posed, contacts, upward, load),
    )


def of_problem(problem: NamedProblem) -> Exploration:
    """A problem that was named in words; platforms are drawn, others are bars alone.

    Raises
    ------
    InvalidInput : too large, or no closed contacts.
    """
    if problem.step is not None:
        return of_step(problem.step, problem.power, name=problem.name, title=problem.title)
    truss = problem.truss
    if truss is None:
        raise InvalidInput("problem", problem.name, "a contact step or a truss")
    B, k = _dense(truss.B), np.asarray(truss.law.stiffness)
    check_size(*B.shape)
    names = tuple(f"contact {i}" for i in range(len(B)))
    load = loads.factor(np.array(truss.contact_load))
    return Exploration(problem.name, problem.title, B, B.copy(), k, problem.power, names, load)


def of_step(
    given: Step, power: float = HOOKE, *, name: str = "step", title: str = ""
) -> Exploration:
    """A contact step: its closed contacts, and the load that they carry in it.

    Parameters
    ----------
    given : the step. power : p of the contact energy, where the page begins.
    name, title : of the page.

    Raises
    ------
    InvalidInput : too large, or no closed contacts, or no classic answer.
    """
    check_size(given.nc, given.nv if isinstance(given, ContactStep) else 0)
    network = closed(given)[1]
    truss = CompatibleCD(given, power).truss(network).data
    contacts = network.contacts
    names = given.contact_ids
    upward = _upward(given, contacts, np.array([], dtype=bool))
    platform = None
    points = given.points
    if points is not None and contacts.size:
        platform = _of_platform(given, network, upward, reach_of_platform(points[contacts]))
    B = truss.B.toarray()
    return Exploration(
        name=name,
        title=title or name,
        B=B,
        response=_response(given)[contacts] if isinstance(given, ContactStep) else B.copy(),
        stiffness=given.stiffness[contacts],
        power=power,
        names=tuple(f"contact {i}" if names is None else str(names[i]) for i in contacts),
        load=platform or loads.factor(np.array(truss.contact_load)),
        picture=None if platform is None else of_platform(given, contacts, platform),
    )


def _of_platform(
    given: Step, network: ClosedNetwork, upward: BoolArray, reach: Reach
) -> Load | None:
    """The load as a weight that moves, where one body stands on all the contacts."""
    points, normals, owner, i = given.points, given.normals, given.dof_body, network.contacts
    if (
        not isinstance(given, ContactStep)
        or points is None
        or normals is None
        or owner is None
        or not i.size
    ):
        return None
    if np.unique(owner).size != 1:
        return None
    load = np.array(network.contact_load)
    return loads.weight(_dense(given.B)[i], load, points[i], normals[i], upward, reach)


def _upward(given: Step, contacts: Any, fixed: BoolArray) -> BoolArray:
    """(n,) whether a contact's normal points into a body that moves, from one that does not.

    ``fixed`` (nb,) says which bodies do not move; −1 is the fixed world.
    """
    if given.bodies is None:
        return np.ones(len(contacts), dtype=bool)
    held = np.append(fixed, True)  # number −1, the world
    second = given.bodies[contacts, 1]
    still = (second < 0) | (held[second] if fixed.size else False)
    return ~np.asarray(still, dtype=bool)


def _dense(B: Any) -> FloatArray:
    dense: FloatArray = B.toarray()
    return dense


def _response(given: ContactStep) -> FloatArray:
    """Δt B M⁻¹ (nc, nv)."""
    return given.dt * given.mass.solve(_dense(given.B).T).T
