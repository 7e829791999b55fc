"""Small contact problems as interactive pages: sliders for stiffness, load, power, order, friction.

A page works offline and solves the problem itself whenever a slider moves. Problems with
friction have pages of another kind, ``of_friction``.

>>> import cdopt.plots.explore
>>> exploration = cdopt.plots.explore.of_scene(cdopt.scene.beam())
>>> exploration.names, exploration.load.start
(('left', 'middle', 'right'), (10.0, 0.5))
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from cdopt._util import checks, documents
from cdopt._util.checks import BoolArray, FloatArray, IntArray, read_only
from cdopt._util.documents import check_page
from cdopt._util.errors import InvalidInput
from cdopt._util.formatting import plain
from cdopt._util.frozen import Frozen
from cdopt.collision import applied_loads, detect
from cdopt.dynamics.simulate import at_rest, closed
from cdopt.formulations import CompatibleCD
from cdopt.formulations.compatible_cd import ClosedNetwork
from cdopt.plots.explore_friction import FrictionalExploration, of_friction
from cdopt.plots.explore_pictures import (
    MOST,
    OVER,
    Reach,
    check_size,
    own_picture,
    platform_picture,
    reach_of,
    scene_picture,
)
from cdopt.problem.contact_law import HOOKE
from cdopt.problem.contact_step import ContactStep
from cdopt.problem.step import Step
from cdopt.scene import Scene
from cdopt.study.named_problem import NamedProblem

__all__ = [
    "MOST",
    "Exploration",
    "FrictionalExploration",
    "Load",
    "check_bodies",
    "check_page",
    "of_friction",
    "of_problem",
    "of_scene",
    "of_step",
    "page",
    "save_page",
]

SOLVER = ("explore_solver.js", "explore_forces.js")  # the page's scripts that compute

_INTERFACE = ("explore_drawing.js", "explore_words.js", "explore_page.js")
_POWERS = (1.2, 3.0)  # the ends of the slider of the power
_ROUND_OFF = 1e-9  # of a row's largest entry: smaller ones are round-off of a settled scene


# --- loads ------------------------------------------------------------------------------

_WEIGHT, _GRAVITY, _FACTOR = "weight", "gravity", "factor"
_EXACT = 1e-9  # of the largest entry: how well a load must be a weight at one point
_HEAVIEST = 3.0  # times the load at the start


@dataclass(frozen=True, eq=False)
class Load(Frozen):
    """F̃ (nv,) as a function of sliders, N and N·m.

    Attributes
    ----------
    kind : "weight": F̃ = W (base + Σ x_d ways_d), sliders W in N and its position x_d in m.
        "gravity": F̃ = s (base + Σ g_d ways_d), sliders the factor s and the angles that gravity
        g leans by, in degrees: from straight down, and in space towards which side.
        "factor": F̃ = s base.
    base : (nv,). ways : (n, nv).
    gravity : size of g, m/s²; zero for other kinds.
    names, units, start, low, high : of each slider.
    """

    kind: str
    base: FloatArray
    ways: FloatArray
    gravity: float
    names: tuple[str, ...]
    units: tuple[str, ...]
    start: tuple[float, ...]
    low: tuple[float, ...]
    high: tuple[float, ...]

    def at(self, values: Sequence[float]) -> FloatArray:
        """F̃ (nv,) for these values of the sliders."""
        values = checks.vector("values", values, len(self.start)).tolist()
        first, others = values[0], np.array(values[1:])
        if self.kind == _GRAVITY:
            lean, *turn = np.deg2rad(others)
            across = [np.cos(turn[0]), np.sin(turn[0])] if turn else [1.0]
            others = self.gravity * np.array([*(np.sin(lean) * np.array(across)), -np.cos(lean)])
        return read_only(first * (self.base + others @ self.ways))


def _load(
    kind: str,
    base: FloatArray,
    ways: FloatArray,
    sliders: Sequence[tuple[str, str, float, float, float]],
    gravity: float = 0.0,
) -> Load:
    return Load(kind, base, ways, gravity, *zip(*sliders, strict=True))


def _factor(load: FloatArray) -> Load:
    return _load(_FACTOR, load, np.zeros((0, load.size)), [("load", "×", 1.0, 0.0, _HEAVIEST)])


def _leaning(scene: Scene) -> Load:
    """Gravity that may be inclined, straight down at the start; else a load of fixed direction."""
    g, dim, b = scene.gravity, scene.dim, scene.bodies
    size = float(np.linalg.norm(g))
    if not (size > 0.0 and abs(g[-1] + size) <= _EXACT * size):
        return _factor(-applied_loads(scene))
    heavy = np.where(b.fixed, 0.0, b.mass)
    turns = np.zeros((b.nb, 1 if dim == 2 else 3))
    ways = np.array(
        [scene.dofs.gather(np.hstack([heavy[:, None] * axis, turns])) for axis in np.eye(dim)]
    )
    sliders = [("load", "×", 1.0, 0.0, _HEAVIEST)]
    if dim == 2:
        sliders.append(("lean to the right", "°", 0.0, -90.0, 90.0))
    else:
        sliders += [("lean", "°", 0.0, 0.0, 90.0), ("lean towards", "°", 0.0, 0.0, 360.0)]
    return _load(_GRAVITY, ways.T @ g - applied_loads(scene), -ways, sliders, size)


def _weight(step: Step, network: ClosedNetwork, upward: BoolArray, reach: Reach) -> Load | None:
    """A weight that moves over a platform; None if the load is not a weight on level supports.

    It acts like a further contact under one body, whose row of B is linear in its position.
    ``upward`` (n,): whether a normal points into the body; ``reach`` of the body, m.
    """
    i, owner, points, normals = network.contacts, step.dof_body, step.points, step.normals
    if not isinstance(step, ContactStep) or owner is None or np.unique(owner).size != 1:
        return None
    if points is None or normals is None or not i.size:
        return None
    B, load = step.B.toarray()[i], np.array(network.contact_load)
    if (np.where(upward, 1.0, -1.0) * normals[i, -1] < 1.0 - _EXACT).any():
        return None
    known = np.column_stack([np.ones(len(B)), points[i, :-1]])
    if np.linalg.matrix_rank(known) < known.shape[1]:
        return None
    rows: FloatArray = np.linalg.lstsq(known, B, rcond=None)[0].astype(np.float64)
    rows[:, np.abs(B).max(axis=0) <= 1e-12 * np.abs(B).max()] = 0.0  # no contact acts there
    share = np.linalg.lstsq(rows.T, load, rcond=None)[0]
    pairs = (known @ rows, B), (share @ rows, load)
    off = max(np.abs(a - b).max() / max(np.abs(b).max(), 1e-300) for a, b in pairs)
    if off > _EXACT or not share[0] > 0.0:
        return None
    size = float(share[0])  # ten digits, without the round-off of least squares
    sliders = [("weight", "N", float(f"{size:.10g}"), 0.0, _HEAVIEST * size)]
    for name, place, least, most in zip("xy", share[1:] / share[0], *reach, strict=False):
        x = round(float(place), 10)
        sliders.append((f"position {name}", "m", x, min(float(least), x), max(float(most), x)))
    return _load(_WEIGHT, rows[0], rows[1:], sliders)


# --- explorations -----------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Exploration(Frozen):
    """Closed contacts of bodies at rest, and the loads that the sliders apply.

    Attributes
    ----------
    name, title : for headings.
    B : (nc, nv) gap gradient of the closed contacts; entries that are round-off are zeros.
    response : (nc, nv) Δt B M⁻¹: the effect of a load on each degree of freedom on the gaps'
        rates, for projected Gauss–Seidel.
    stiffness : (nc,) as stated; only ratios count.
    power : p of the contact energy, at the start.
    names : (nc,) of the contacts.
    load : F̃, as sliders make it.
    body : name of the body that rests, where it is one and has a name.
    picture : what is drawn, in the form that the page reads; None for nothing.

    Raises
    ------
    InvalidInput : no contacts; more than ``MOST`` contacts or degrees of freedom; a power beyond
        1.2 to 3.
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
        for name in ("B", "response"):
            table = checks.numbers(name, getattr(self, name), (None, None))
            object.__setattr__(self, name, table)
        checks.vector("stiffness", self.stiffness, len(self.B))
        checks.scalar("power", self.power)
        checks.instance("load", self.load, Load)
        nc, nv = self.B.shape
        check_size(nc, nv)
        if nc == 0:
            raise InvalidInput("scene", "no closed contacts", "bodies that rest on something")
        if not _POWERS[0] <= self.power <= _POWERS[1]:
            raise InvalidInput("power", f"{self.power:g}", f"{_POWERS[0]:g} to {_POWERS[1]:g}")
        top = np.abs(self.B).max(axis=1, keepdims=True)
        object.__setattr__(self, "B", np.where(np.abs(self.B) > _ROUND_OFF * top, self.B, 0.0))
        super().__post_init__()

    def content(self) -> dict[str, Any]:
        """The data of the page's script, as JSON values."""
        content: dict[str, Any] = plain(vars(self) | {"load": vars(self.load)})
        return content | {"body": self.body or "body", "powers": _POWERS, "hooke": HOOKE}

    @property
    def size(self) -> str:
        """How much there is to explore, in words."""
        nc, nv = self.B.shape
        return f"{nc:,} contacts, {nv:,} degrees of freedom"


def check_bodies(scene: Scene) -> None:
    """Refuse a scene of more bodies than a page shows, before its contacts are sought."""
    checks.instance("scene", scene, Scene)
    check_size(int(np.count_nonzero(~scene.bodies.fixed)), 0, "bodies that move")


def of_scene(scene: Scene) -> Exploration:
    """A scene at rest, with its picture; one that starts above its supports falls onto them first.

    Raises
    ------
    InvalidInput : too large, bonds, or bodies that do not come to rest.
    """
    check_bodies(scene)
    check_size(detect(scene, scene.initial).nc, scene.dofs.nv)
    state, step, network = at_rest(scene)
    i, free = network.contacts, np.flatnonzero(~scene.bodies.fixed)
    upward = _upward(step, i, scene.bodies.fixed)
    reach = reach_of(scene, state, free)
    load = _weight(step, network, upward, reach) or _leaning(scene)
    return Exploration(
        name=scene.name or "scene",
        title=scene.title or scene.name or "A scene at rest",
        B=step.B.toarray()[i],
        response=_response(step)[i],
        stiffness=step.stiffness[i],
        power=scene.power,
        names=tuple(step.contact_names[k] for k in i.tolist()),
        load=load,
        body=scene.bodies.names[free[0]] if free.size == 1 else "",
        picture=scene_picture(step, i, (scene, state), upward, partial(_heads, load)),
    )


def of_problem(problem: NamedProblem) -> Exploration:
    """A problem that ``cdopt.open_problem`` opened, drawn where its contacts have places.

    Raises
    ------
    InvalidInput : too large, or no closed contacts.
    """
    checks.instance("problem", problem, NamedProblem)
    if problem.step is not None:
        return of_step(problem.step, problem.power, name=problem.name, title=problem.title)
    truss = problem.truss
    if truss is None:
        raise InvalidInput("problem", problem.name, "a contact step or a truss")
    B, k = truss.B.toarray(), np.asarray(truss.elastic_law.stiffness)
    check_size(*B.shape)
    names = tuple(f"contact {i}" for i in range(len(B)))
    load = _factor(np.array(truss.contact_load))
    return Exploration(problem.name, problem.title, B, B.copy(), k, problem.power, names, load)


def of_step(
    step: Step, power: float | None = None, *, name: str = "step", title: str = ""
) -> Exploration:
    """A contact step: its closed contacts, and the load that they carry in it.

    If it has points and normals, bodies are reconstructed from these: a platform on its
    supports, discs, otherwise the hull of the contacts of each body.

    Parameters
    ----------
    step : the step. power : p of the contact energy, where the page begins; default the step's.
    name, title : of the page.

    Raises
    ------
    InvalidInput : too large, or no closed contacts, or no classic answer.
    """
    checks.instance("step", step, Step)
    name, title = checks.text("name", name), checks.text("title", title)
    check_size(step.nc, step.nv)
    network = closed(step)[1]
    formulation, i, names = CompatibleCD(step, power), network.contacts, step.contact_names
    truss, platform, up = (
        formulation.truss(network).data,
        None,
        _upward(step, i, np.array([], bool)),
    )
    if step.points is not None and i.size:  # known only by its contacts, it extends beyond them
        points = step.points[i]
        beyond = 0.5 * (OVER - 1.0) * np.ptp(points, axis=0)
        reach = points.min(axis=0) - beyond, points.max(axis=0) + beyond
        platform = _weight(step, network, up, reach)
    load = platform or _factor(np.array(truss.contact_load))
    picture, B = None, truss.B.toarray()
    if platform is not None:
        picture = platform_picture(step, i, partial(_heads, load))
    elif step.points is not None and step.normals is not None and i.size:
        picture = own_picture(step, i, up, partial(_heads, load))
    return Exploration(
        name=name,
        title=title or name,
        B=B,
        response=_response(step)[i] if isinstance(step, ContactStep) else B.copy(),
        stiffness=step.stiffness[i],
        power=formulation.power,
        names=tuple(f"contact {k}" if names[k] == str(k) else names[k] for k in i.tolist()),
        load=load,
        picture=picture,
    )


def _upward(step: Step, contacts: IntArray, fixed: BoolArray) -> BoolArray:
    """(n,) whether a normal points into a body that moves, from one that does not (``fixed``)."""
    if step.bodies is None:
        return np.ones(len(contacts), dtype=bool)
    second = step.bodies[contacts, 1]
    return (second >= 0) & ~np.isin(second, np.flatnonzero(fixed))


def _heads(load: Load, anchor: FloatArray) -> FloatArray:
    """(n, dim) m: where the load's arrow ends, at first and at the sliders' ends."""
    if load.kind != _WEIGHT:
        return anchor[None]
    ends = np.array(np.meshgrid(*zip(load.low[1:], load.high[1:], strict=True)))
    positions = ends.reshape(len(load.low) - 1, -1).T
    return np.vstack([anchor, np.insert(positions, positions.shape[1], anchor[-1], axis=1)])


def _response(step: ContactStep) -> FloatArray:
    return step.dt * step.mass.solve(step.B.toarray().T).T


# --- pages ------------------------------------------------------------------------------


def page(exploration: Exploration | FrictionalExploration) -> str:
    """The text of a self-contained HTML page of an ``exploration``."""
    checks.instance("exploration", exploration, Exploration, FrictionalExploration)
    content, title = exploration.content(), exploration.title
    if isinstance(exploration, FrictionalExploration):
        pushes = len(exploration.pushes)
        words = {
            "values": exploration.values,
            "pushed": f" and {pushes} pushes" if pushes > 1 else "",
        }
        return documents.render("explore_friction.html", title=title, content=content, **words)
    more: dict[str, Any] = {
        "drawn": exploration.picture is not None,
        "scripts": SOLVER + _INTERFACE,
    }
    return documents.render("explore.html", title=title, content=content, **more)


def save_page(exploration: Exploration | FrictionalExploration, path: str | Path) -> Path:
    """Write the page of an ``exploration`` to a file, ``.html``; refused as by ``check_page``."""
    return documents.save_page(page(exploration), path)
