"""Explorations: small contact problems at rest, from scenes, steps or named problems."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from cdopt._util.checks import BoolArray, FloatArray, IntArray
from cdopt._util.errors import InvalidInput
from cdopt._util.formatting import plain
from cdopt._util.frozen import Frozen
from cdopt.collision import detect
from cdopt.dynamics.rest import at_rest, closed
from cdopt.formulations import CompatibleCD
from cdopt.formulations.compatible_cd import ClosedNetwork
from cdopt.plots.explore import loads, picture
from cdopt.plots.explore.loads import Load
from cdopt.problem.contact_law import HOOKE
from cdopt.problem.contact_step import ContactStep, Step
from cdopt.scene import Scene
from cdopt.study.named_problem import NamedProblem

MOST = 100  # contacts, and degrees of freedom, that a page solves while a slider moves
POWERS = (1.2, 3.0)  # the ends of the slider of the power
_ROUND_OFF = 1e-9  # of a row's largest entry: smaller ones are round-off of a settled scene


@dataclass(frozen=True, eq=False)
class Exploration(Frozen):
    """Closed contacts of bodies at rest, and the loads they may be asked to carry.

    Attributes
    ----------
    name, title : for headings.
    B : (nc, nv) gap gradient of the closed contacts; entries that are round-off are zeros.
    response : (nc, nv) Δt B M⁻¹: what a load on each degree of freedom does to the gaps' rates,
        which projected Gauss–Seidel sees.
    stiffness : (nc,) relative to the softest contact.
    power : p of the contact energy, at the start.
    names : (nc,) of the contacts.
    load : F̃, as sliders make it.
    body : name of the body that rests, where it is one and has a name.
    picture : what is drawn, in the form that the page reads; None for nothing.

    Raises
    ------
    InvalidInput : no contacts; more than ``MOST`` contacts or degrees of freedom; a power beyond
        ``POWERS``.
    """

    name: str
    title: str
    B: FloatArray
    response: FloatArray
    stiffness: FloatArray
    power: float
    names: tuple[str, ...]
    load: Load
    body: str = ""
    picture: Mapping[str, Any] | None = None

    def __post_init__(self) -> None:
        nc, nv = self.B.shape
        check_size(nc, nv)
        if nc == 0:
            raise InvalidInput("scene", "no closed contacts", "bodies that rest on something")
        if not POWERS[0] <= self.power <= POWERS[1]:
            raise InvalidInput("power", f"{self.power:g}", f"{POWERS[0]:g} to {POWERS[1]:g}")
        top = np.abs(self.B).max(axis=1, keepdims=True)
        object.__setattr__(self, "B", np.where(np.abs(self.B) > _ROUND_OFF * top, self.B, 0.0))
        object.__setattr__(self, "stiffness", self.stiffness / self.stiffness.min())
        super().__post_init__()

    def content(self) -> dict[str, Any]:
        """The data of the page's script, as JSON values."""
        content: dict[str, Any] = plain(vars(self) | {"load": vars(self.load)})
        return content | {"body": self.body or "body", "powers": POWERS, "hooke": HOOKE}

    @property
    def size(self) -> str:
        """How much there is to explore, in words."""
        nc, nv = self.B.shape
        return f"{nc:,} contacts, {nv:,} degrees of freedom"


def check_bodies(scene: Scene) -> None:
    """Refuse, before its contacts are sought, a scene of too many bodies for a page.

    Raises
    ------
    InvalidInput : more bodies that move than contacts that a page shows.
    """
    check_size(int(np.count_nonzero(~scene.bodies.fixed)), 0, "bodies that move")


def check_size(nc: int, nv: int, what: str = "contacts") -> None:
    """Refuse what a page cannot solve while a slider moves; ``what`` there are ``nc`` of.

    Raises
    ------
    InvalidInput : more than ``MOST`` contacts or degrees of freedom.
    """
    if nc > MOST or nv > MOST:
        raise InvalidInput(
            "scene",
            f"{nc:,} {what}" + (f" and {nv:,} degrees of freedom" if nv else ""),
            f"at most {MOST}; larger ones: cdopt simulate SCENE --out run.vtkhdf, then "
            "cdopt show run.vtkhdf --page run.html",
        )


# --- from problems to explorations --------------------------------------------------------


def of_scene(scene: Scene) -> Exploration:
    """A scene at rest, with its picture; one that starts above its supports falls onto them first.

    Raises
    ------
    InvalidInput : too large, bonds, or bodies that do not come to rest.
    """
    check_size(0, scene.dofs.nv)
    check_size(detect(scene, scene.initial).nc, 0)
    state, posed, network = at_rest(scene)
    contacts = network.contacts
    upward = _upward(posed, contacts, scene.bodies.fixed)
    free = np.flatnonzero(~scene.bodies.fixed)
    reach = picture.reach_of(scene, state, free)
    load = _weight(posed, network, upward, reach) or loads.leaning(scene)
    return Exploration(
        name=scene.name or "scene",
        title=scene.title or scene.name or "A scene at rest",
        B=posed.B.toarray()[contacts],
        response=_response(posed)[contacts],
        stiffness=posed.stiffness[contacts],
        power=scene.power,
        names=tuple(np.array(posed.contact_names)[contacts].tolist()),
        load=load,
        body=scene.bodies.names[free[0]] if free.size == 1 else "",
        picture=picture.of_bodies(scene, state, posed, contacts, upward, load),
    )


def of_problem(problem: NamedProblem) -> Exploration:
    """A problem that ``cdopt.open_problem`` opened; platforms are drawn, others only as bars.

    Raises
    ------
    InvalidInput : too large, or no closed contacts.
    """
    if problem.step is not None:
        return of_step(problem.step, problem.power, name=problem.name, title=problem.title)
    truss = problem.truss
    if truss is None:
        raise InvalidInput("problem", problem.name, "a contact step or a truss")
    B, k = truss.B.toarray(), np.asarray(truss.law.stiffness)
    check_size(*B.shape)
    names = tuple(f"contact {i}" for i in range(len(B)))
    load = loads.factor(np.array(truss.contact_load))
    return Exploration(problem.name, problem.title, B, B.copy(), k, problem.power, names, load)


def of_step(
    step: Step, power: float | None = None, *, name: str = "step", title: str = ""
) -> Exploration:
    """A contact step: its closed contacts, and the load that they carry in it.

    Parameters
    ----------
    step : the step. power : p of the contact energy, where the page begins; default the step's.
    name, title : of the page.

    Raises
    ------
    InvalidInput : too large, or no closed contacts, or no classic answer.
    """
    check_size(step.nc, step.nv if isinstance(step, ContactStep) else 0)
    network = closed(step)[1]
    posed = CompatibleCD(step, power)
    truss, contacts, names = posed.truss(network).data, network.contacts, step.contact_names
    upward = _upward(step, contacts, np.array([], dtype=bool))
    platform = None
    points = step.points
    if points is not None and contacts.size:
        platform = _weight(step, network, upward, picture.reach_of_platform(points[contacts]))
    B = truss.B.toarray()
    return Exploration(
        name=name,
        title=title or name,
        B=B,
        response=_response(step)[contacts] if isinstance(step, ContactStep) else B.copy(),
        stiffness=step.stiffness[contacts],
        power=posed.power,
        names=tuple(f"contact {i}" if names[i] == str(i) else names[i] for i in contacts),
        load=platform or loads.factor(np.array(truss.contact_load)),
        picture=None if platform is None else picture.of_platform(step, contacts, platform),
    )


def _weight(
    step: Step, network: ClosedNetwork, upward: BoolArray, reach: picture.Reach
) -> Load | None:
    """The load as a weight that moves, where one body stands on all the contacts."""
    points, normals, owner, i = step.points, step.normals, step.dof_body, network.contacts
    if not isinstance(step, ContactStep) or owner is None or not i.size:
        return None
    if points is None or normals is None or np.unique(owner).size != 1:
        return None
    load, B = np.array(network.contact_load), step.B.toarray()
    return loads.weight(B[i], load, points[i], normals[i], upward, reach)


def _upward(step: Step, contacts: IntArray, fixed: BoolArray) -> BoolArray:
    """(n,) whether a contact's normal points into a body that moves, from one that does not.

    ``fixed`` (nb,) says which bodies do not move; −1 is the fixed world.
    """
    if step.bodies is None:
        return np.ones(len(contacts), dtype=bool)
    second = step.bodies[contacts, 1]
    return (second >= 0) & ~np.isin(second, np.flatnonzero(fixed))


def _response(step: ContactStep) -> FloatArray:
    """Δt B M⁻¹ (nc, nv)."""
    return step.dt * step.mass.solve(step.B.toarray().T).T
