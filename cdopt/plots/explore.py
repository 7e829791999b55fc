"""Small contact problems as interactive pages: sliders for stiffness, load, power, order, friction.

A page needs no network and solves the problem itself whenever a slider moves. With friction the
admissible forces at each μ of a grid are bounded and certified when the page is written, and so are
the forces of elastic contacts; the slider chooses among them.

>>> import cdopt.plots.explore
>>> posed = cdopt.plots.explore.of_scene(cdopt.scene.beam())
>>> posed.names, posed.load.start
(('left', 'middle', 'right'), (10.0, 0.5))
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from scipy.spatial import ConvexHull, cKDTree

from cdopt._util import checks, documents
from cdopt._util.checks import BoolArray, FloatArray, IntArray, read_only
from cdopt._util.documents import check_page
from cdopt._util.errors import InvalidInput, SolveFailed
from cdopt._util.formatting import plain
from cdopt._util.frozen import Frozen
from cdopt.collision import applied_loads, detect
from cdopt.dynamics.simulate import at_rest, closed
from cdopt.formulations import CompatibleCD
from cdopt.formulations.compatible_cd import ClosedNetwork
from cdopt.hyperstatic import indeterminacy, place_solutions
from cdopt.plots.bodies import Solids
from cdopt.problem.contact_law import HOOKE
from cdopt.problem.contact_step import ContactStep
from cdopt.problem.step import Step
from cdopt.scene import Scene, State
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

MOST = 100  # contacts, and degrees of freedom, that a page solves while a slider moves
SOLVER = ("explore_solver.js", "explore_forces.js")  # the page's scripts that compute

_INTERFACE = ("explore_drawing.js", "explore_words.js", "explore_page.js")
_POWERS = (1.2, 3.0)  # the ends of the slider of the power
_ROUND_OFF = 1e-9  # of a row's largest entry: smaller ones are round-off of a settled scene

Reach = tuple[FloatArray, FloatArray]


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
        """F̃ (nv,) where the sliders stand at these values."""
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
    """A load of fixed direction."""
    return _load(_FACTOR, load, np.zeros((0, load.size)), [("load", "×", 1.0, 0.0, _HEAVIEST)])


def _leaning(scene: Scene) -> Load:
    """Gravity that may lean, and what else acts on the bodies; straight down at the start.

    Where gravity does not point down the last axis, or there is none, a load of fixed direction.
    """
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

    One body stands on all the contacts, and all push it up, along the last axis. A weight on it
    then acts like one more contact under it, whose row of B is linear in its position. ``upward``
    (n,): whether a normal points into the body; ``reach`` : of the body, m.
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
        _check_size(nc, nv)
        if nc == 0:
            raise InvalidInput("scene", "no closed contacts", "bodies that rest on something")
        if not _POWERS[0] <= self.power <= _POWERS[1]:
            raise InvalidInput("power", f"{self.power:g}", f"{_POWERS[0]:g} to {_POWERS[1]:g}")
        top = np.abs(self.B).max(axis=1, keepdims=True)
        object.__setattr__(self, "B", np.where(np.abs(self.B) > _ROUND_OFF * top, self.B, 0.0))
        object.__setattr__(self, "stiffness", self.stiffness / self.stiffness.min())
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
    """Refuse, before its contacts are sought, a scene of too many bodies for a page.

    Raises
    ------
    InvalidInput : more bodies that move than contacts that a page shows.
    """
    checks.instance("scene", scene, Scene)
    _check_size(int(np.count_nonzero(~scene.bodies.fixed)), 0, "bodies that move")


def _check_size(nc: int, nv: int, what: str = "contacts") -> None:
    """Refuse what a page cannot solve while a slider moves; ``what`` there are ``nc`` of."""
    if nc > MOST or nv > MOST:
        raise InvalidInput(
            "scene",
            f"{nc:,} {what}" + (f" and {nv:,} degrees of freedom" if nv else ""),
            f"at most {MOST}; larger ones: cdopt simulate SCENE --out run.vtkhdf, then "
            "cdopt show run.vtkhdf --page run.html",
        )


def of_scene(scene: Scene) -> Exploration:
    """A scene at rest, with its picture; one that starts above its supports falls onto them first.

    Raises
    ------
    InvalidInput : too large, bonds, or bodies that do not come to rest.
    """
    check_bodies(scene)
    _check_size(detect(scene, scene.initial).nc, scene.dofs.nv)
    state, posed, network = at_rest(scene)
    i, free = network.contacts, np.flatnonzero(~scene.bodies.fixed)
    upward = _upward(posed, i, scene.bodies.fixed)
    reach = _reach_of(scene, state, free)
    load = _weight(posed, network, upward, reach) or _leaning(scene)
    return Exploration(
        name=scene.name or "scene",
        title=scene.title or scene.name or "A scene at rest",
        B=posed.B.toarray()[i],
        response=_response(posed)[i],
        stiffness=posed.stiffness[i],
        power=scene.power,
        names=tuple(posed.contact_names[k] for k in i.tolist()),
        load=load,
        body=scene.bodies.names[free[0]] if free.size == 1 else "",
        picture=_scene_picture(scene, state, posed, i, upward, load, reach),
    )


def of_problem(problem: NamedProblem) -> Exploration:
    """A problem that ``cdopt.open_problem`` opened; platforms are drawn, others only as bars.

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
    _check_size(*B.shape)
    names = tuple(f"contact {i}" for i in range(len(B)))
    load = _factor(np.array(truss.contact_load))
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
    checks.instance("step", step, Step)
    name, title = checks.text("name", name), checks.text("title", title)
    _check_size(step.nc, step.nv if isinstance(step, ContactStep) else 0)
    network = closed(step)[1]
    posed, i, names = CompatibleCD(step, power), network.contacts, step.contact_names
    truss, platform = posed.truss(network).data, None
    if step.points is not None and i.size:  # known by its contacts alone, it reaches beyond them
        points = step.points[i]
        beyond = 0.5 * (_OVER - 1.0) * np.ptp(points, axis=0)
        reach = points.min(axis=0) - beyond, points.max(axis=0) + beyond
        platform = _weight(step, network, _upward(step, i, np.array([], dtype=bool)), reach)
    B = truss.B.toarray()
    return Exploration(
        name=name,
        title=title or name,
        B=B,
        response=_response(step)[i] if isinstance(step, ContactStep) else B.copy(),
        stiffness=step.stiffness[i],
        power=posed.power,
        names=tuple(f"contact {k}" if names[k] == str(k) else names[k] for k in i.tolist()),
        load=platform or _factor(np.array(truss.contact_load)),
        picture=None if platform is None else _platform_picture(step, i, platform),
    )


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


# --- with friction ----------------------------------------------------------------------

_VALUES = 24  # of μ, beside zero
_LEAST_TOP = 1.0  # the slider reaches at least this μ, and twice the problem's
_SPEED = 1e-6  # of what acts: slower motions are rest


@dataclass(frozen=True, eq=False)
class FrictionalExploration(Frozen):
    """A planar step at a grid of values of its largest μ, the others in proportion.

    Attributes
    ----------
    name, title : for headings. names : (nc,) of the contacts.
    label : what the slider changes. start : which of the states the page shows first.
    picture : shapes, and where the contacts are (nc, 2) m; None for a step without a scene.
    states : for each μ what the page shows: "mu", "rests", "summary", and "rows", for each contact
        its status, bounds (2,) and compatible forces (2,), N; None where unbounded or not known.
    """

    name: str
    title: str
    names: tuple[str, ...]
    label: str
    start: int
    picture: Mapping[str, Any] | None
    states: tuple[dict[str, Any], ...]

    def content(self) -> dict[str, Any]:
        """The data of the page's script, as JSON values."""
        content: dict[str, Any] = plain(vars(self))
        return content

    @property
    def size(self) -> str:
        """How much there is to explore, in words."""
        return f"{len(self.names):,} contacts, {len(self.states):,} values of μ"


def of_friction(problem: NamedProblem) -> FrictionalExploration:
    """The page of a planar problem with friction, under Coulomb's law.

    Raises
    ------
    InvalidInput : a truss, a problem without friction or in space, or more than 100 contacts.
    """
    checks.instance("problem", problem, NamedProblem)
    step, bodies = problem.step, problem.bodies
    if not isinstance(step, ContactStep) or step.friction is None:
        raise InvalidInput("problem", problem.name, "a contact step with friction")
    if step.friction.d != 2:
        raise InvalidInput("problem", f"{problem.name}, in space", "a planar one")
    _check_size(step.nc, 0)
    if step.nc == 0:
        expected = "bodies that touch; of those that still fall a step of a run, drop.vtkhdf#200"
        raise InvalidInput("problem", f"no contact in {problem.name}", expected)
    shares, largest = step.friction.mu, float(step.friction.mu.max())
    grid = np.round(np.linspace(0.0, max(_LEAST_TOP, 2.0 * largest), _VALUES + 1), 4)
    grid = np.unique(np.append(grid, largest))
    drawn = None
    if bodies is not None and step.points is not None:
        shapes = _shapes(Solids.of(bodies[0], bodies[1].position), bodies[1])
        drawn = {"shapes": shapes, "contacts": step.points.tolist()}
    states = []
    for mu in grid.tolist():
        friction = replace(step.friction, mu=shares * (mu / (largest or 1.0)))
        states.append({"mu": mu, **_state(step.replace(friction=friction))})
    even = bool((shares == largest).all())
    return FrictionalExploration(
        problem.name,
        problem.title,
        names=tuple(step.contact_names),
        label="friction μ" if even else "largest friction μ, others in proportion",
        start=int(np.flatnonzero(grid == largest)[0]),
        picture=drawn,
        states=tuple(states),
    )


def _state(step: ContactStep) -> dict[str, Any]:
    """What the page shows of a step with friction."""
    try:
        report = indeterminacy(step, law="coulomb")
    except SolveFailed:
        return {"rests": False, "summary": "No certified answer.", "rows": []}
    rates: list[Any] = [step.B, step.friction.B_t] if step.friction is not None else [step.B]
    after: list[Any] = [report.solution.v_next, step.dt * step.mass.solve(step.F_ext)]
    speed, falling = (max(np.abs(rows @ v).max() for rows in rates) for v in after)
    rests = bool(speed <= _SPEED * falling)
    summary = "It stays at rest. " if rests else "It moves: the forces are those of its motion. "
    chosen = place_solutions(report, [])
    centres = {"coulomb": chosen.compatible, "haar": chosen.haar_karman}
    known = {name: c for name, c in centres.items() if c is not None and c.f_t is not None}
    forces = {name: np.column_stack([c.f, np.asarray(c.f_t)]) for name, c in known.items()}
    bounds = dict(zip(("lower", "upper"), report.intervals, strict=True))
    rows = [
        {"status": report.status_of(i)}
        | {
            side: [x if np.isfinite(x) else None for x in b[i].tolist()]
            for side, b in bounds.items()
        }
        | {name: f[i].tolist() for name, f in forces.items()}
        for i in range(step.nc)
    ]
    return {"rests": rests, "summary": summary + report.summary, "rows": rows}


# --- pictures ---------------------------------------------------------------------------
# bodies, contacts and the load, in metres, as the page's script projects and draws them

_THICK = 0.03  # of a platform's length: how thick it is drawn
_PROP = 0.07  # of a platform's length: how tall its supports are drawn
_LONGEST = 0.26, 0.12  # arrows, of the picture's size: few contacts, and many
_FEW = 8
_BAR = 0.6  # of the way to the next contact: bars between bodies, so that each stands alone
_OVER = 1.2  # size of a platform over that of its supports, if only these are known
_TINY = 1e-12  # m: extents that count as none


def _scene_picture(
    scene: Scene,
    state: State,
    posed: Step,
    contacts: IntArray,
    upward: BoolArray,
    load: Load,
    reach: Reach,
) -> dict[str, Any]:
    """Bodies of a scene in a state, its closed contacts, and where the load's arrow may end."""
    solids, fixed = Solids.of(scene, state.position), scene.bodies.fixed
    both_free = ~fixed[np.asarray(posed.bodies)[contacts]].any(axis=1)
    anchor = state.position[~fixed].mean(axis=0)
    anchor[-1] = reach[1][-1]
    size = float(np.linalg.norm((solids.high - solids.low)[: scene.dim]))
    shapes = _shapes(solids, state)
    return _picture(shapes, posed, contacts, upward, both_free, _heads(anchor, load), size)


def _platform_picture(posed: Step, contacts: IntArray, load: Load) -> dict[str, Any]:
    """A plain platform on supports, for a step whose bodies have no shape."""
    points = np.asarray(posed.points)[contacts]
    dim, middle = points.shape[1], 0.5 * (points.min(axis=0) + points.max(axis=0))
    wide = float(np.ptp(points, axis=0).max())
    under = (middle + _OVER * (points - middle))[:, : dim - 1]
    if dim == 2:
        under = np.sort(under, axis=0)[[0, -1]]
    elif np.ptp(under, axis=0).min() < _TINY:
        under = under[np.lexsort(under.T)[[0, -1]]]
    else:
        under = under[ConvexHull(under).vertices]
    low = np.column_stack([under, np.full(len(under), points[:, -1].max())])
    high = low + np.append(np.zeros(dim - 1), _THICK * wide)
    shape: dict[str, Any] = {"fixed": False}
    if dim == 2:
        shape["outline"] = [*low.tolist(), *high[::-1].tolist()]
    else:
        sides = [np.vstack([low[[a, b]], high[[b, a]]]) for a, b in pairwise([*range(len(low)), 0])]
        shape["rings"] = [ring.tolist() for ring in (low[::-1], high, *sides)]
    props = [{"prop": at, "tall": _PROP * wide, "fixed": True} for at in points.tolist()]
    heads = _heads(np.append(middle[:-1], high[:, -1].max()), load)
    every, size = np.ones(len(points), dtype=bool), _OVER * np.linalg.norm(np.ptp(points, axis=0))
    return _picture([*props, shape], posed, contacts, every, ~every, heads, float(size))


def _reach_of(scene: Scene, state: State, bodies: IntArray) -> Reach:
    """(dim,) least and largest coordinates of bodies that are no half-spaces, m."""
    solids = Solids.of(scene, state.position)
    corners = solids.placed(state)[np.isin(solids.owner, bodies), : scene.dim]
    chosen = np.isin(solids.balls, bodies)
    centres, radii = state.position[solids.balls[chosen]], solids.radii[chosen, None]
    reached = np.concatenate([corners, centres - radii, centres + radii])
    return reached.min(axis=0), reached.max(axis=0)


def _shapes(solids: Solids, state: State) -> list[dict[str, Any]]:
    """All bodies, those further back first.

    Half-spaces as far as the bodies reach, bands in the plane and floors in space; then outlines in
    the plane, faces in space, points of round pieces; then discs and spheres, fixed ones first.
    """
    fixed, dim, shapes = solids.scene.bodies.fixed, state.dim, []
    for patch, normal in zip(solids.patches(state), solids.normals, strict=True):
        if dim == 2:
            ends = patch[[0, 1], :2]
            patch = np.vstack([ends, ends[::-1] - 0.25 * solids.thick * normal[:2]])
        if dim == 2 or normal[2] > 0.5:
            shapes.append({"outline": patch.tolist(), "fixed": True})
    corners = solids.placed(state)[:, :dim]
    for piece in solids.pieces:
        rings = [corners[face] for face in piece.faces]
        shape: dict[str, Any] = {"outline": rings[0].tolist()}
        if dim == 3 and piece.smooth:
            shape = {"cloud": np.unique(np.concatenate(rings), axis=0).tolist()}
        elif dim == 3:
            shape = {"rings": [ring.tolist() for ring in rings]}
        shapes.append({**shape, "fixed": bool(fixed[piece.body])})
    for k in np.argsort(~fixed[solids.balls], kind="stable"):
        ball = solids.balls[k]
        round_ = {"centre": state.position[ball].tolist(), "radius": float(solids.radii[k])}
        shapes.append({**round_, "fixed": bool(fixed[ball])})
    return shapes


def _heads(anchor: FloatArray, load: Load) -> FloatArray:
    """(n, dim) m: where the load's arrow ends, at first and at the sliders' ends."""
    if load.kind != _WEIGHT:
        return anchor[None]
    ends = np.array(np.meshgrid(*zip(load.low[1:], load.high[1:], strict=True)))
    positions = ends.reshape(len(load.low) - 1, -1).T
    return np.vstack([anchor, np.insert(positions, positions.shape[1], anchor[-1], axis=1)])


def _picture(
    shapes: list[dict[str, Any]],
    posed: Step,
    contacts: IntArray,
    upward: BoolArray,
    both_free: BoolArray,
    heads: FloatArray,
    size: float,
) -> dict[str, Any]:
    """Shapes, contacts and the lengths of arrows and bars, as the page reads them."""
    points, normals = np.asarray(posed.points)[contacts], np.asarray(posed.normals)[contacts]
    push = np.where(upward, 1.0, -1.0)[:, None] * normals
    bar = long = _LONGEST[0 if len(points) <= _FEW else 1] * size
    if len(points) > 1:
        apart = cKDTree(points).query(points, k=2)[0][:, 1]
        bar = min(long, _BAR * float(np.median(apart))) or long
    arrows = zip(points.tolist(), push.tolist(), both_free.tolist(), strict=True)
    return {
        "shapes": shapes,
        "contacts": [{"at": a, "push": d, "inside": free} for a, d, free in arrows],
        "long": long,
        "bar": bar,
        "heads": heads.tolist(),
    }


# --- pages ------------------------------------------------------------------------------


def page(posed: Exploration | FrictionalExploration) -> str:
    """The text of a self-contained HTML page.

    Parameters
    ----------
    posed : what is explored, by ``of_scene``, ``of_step``, ``of_problem`` or ``of_friction``.
    """
    checks.instance("posed", posed, Exploration, FrictionalExploration)
    content, title = posed.content(), posed.title
    if isinstance(posed, FrictionalExploration):
        return documents.render("explore_friction.html", title=title, content=content)
    more: dict[str, Any] = {"drawn": posed.picture is not None, "scripts": SOLVER + _INTERFACE}
    return documents.render("explore.html", title=title, content=content, **more)


def save_page(posed: Exploration | FrictionalExploration, path: str | Path) -> Path:
    """Write the page of an exploration to a file.

    Parameters
    ----------
    posed : the exploration. path : of the page, ``.html``.

    Raises
    ------
    InvalidInput : as ``check_page``, or a file that cannot be written.
    """
    return documents.save_page(page(posed), path)
