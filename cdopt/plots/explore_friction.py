"""Planar contact problems with friction as pages: sliders of μ, a push to the side and the load.

The admissible forces at each μ and push of a grid are bounded and certified when the page is
written, and so are the forces of elastic contacts; the sliders choose among them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from cdopt._util import checks
from cdopt._util.checks import FloatArray
from cdopt._util.errors import InvalidInput, SolveFailed
from cdopt._util.formatting import plain
from cdopt._util.frozen import Frozen
from cdopt.hyperstatic import indeterminacy, place_solutions
from cdopt.plots.bodies import Solids
from cdopt.plots.explore_pictures import check_size, fixed_sides, own_shapes, shapes_of
from cdopt.problem.contact_step import ContactStep
from cdopt.scene import Scene, State
from cdopt.study.named_problem import NamedProblem

_VALUES = 24  # of μ, without zero
_LEAST_TOP = 1.0  # the slider reaches at least this μ, and twice the problem's
_SPEED = 1e-6  # of the speed scale: slower motions are rest
_PUSHES = 3  # steps of the push to either side
_PUSH = 0.1  # of the weight, one step
_HEAVIEST = 2.0  # times the load
_TOUCH = 1e-9  # of the extent of the contacts: smaller gaps are closed


@dataclass(frozen=True, eq=False)
class FrictionalExploration(Frozen):
    """A planar step at a grid of values of its largest μ and of a push, the others in proportion.

    Attributes
    ----------
    name, title : for headings. names : (nc,) of the contacts.
    label : of the slider of μ. start : the state that the page shows first.
    pushes : horizontal loads on all bodies, shares of their weight; only 0 without a scene.
    heaviest : how many times the load the slider of the load reaches; 1 for a step that is not at
        rest in closed contacts, whose forces are not proportional to the load.
    picture : shapes, contacts, force directions and loads; None for a step without points.
    states : for each push and then for each μ the data of the page: "mu", "push", "rests",
        "summary", and "rows", for each contact its status, bounds (2,) and compatible forces (2,),
        N; None where unbounded or not known.
    """

    name: str
    title: str
    names: tuple[str, ...]
    label: str
    start: int
    pushes: tuple[float, ...]
    heaviest: float
    picture: Mapping[str, Any] | None
    states: tuple[dict[str, Any], ...]

    def content(self) -> dict[str, Any]:
        """The data of the page's script, as JSON values."""
        content: dict[str, Any] = plain(vars(self))
        return content

    @property
    def values(self) -> int:
        """How many values of μ there are."""
        return len(self.states) // len(self.pushes)

    @property
    def size(self) -> str:
        """How much there is to explore, in words."""
        pushes = f", {len(self.pushes)} pushes" if len(self.pushes) > 1 else ""
        return f"{len(self.names):,} contacts, {self.values:,} values of μ{pushes}"


def of_friction(problem: NamedProblem) -> FrictionalExploration:
    """The page of a planar problem with friction, under Coulomb's law.

    Raises
    ------
    InvalidInput : a truss, a problem without friction or in space, or more than 100 contacts.
    """
    checks.instance("problem", problem, NamedProblem)
    step = problem.step
    if not isinstance(step, ContactStep) or step.friction is None:
        raise InvalidInput("problem", problem.name, "a contact step with friction")
    if step.friction.d != 2:
        raise InvalidInput("problem", f"{problem.name}, in space", "a planar one")
    check_size(step.nc, 0)
    if step.nc == 0:
        expected = "bodies that touch; of those that still fall a step of a run, drop.vtkhdf#200"
        raise InvalidInput("problem", f"no contact in {problem.name}", expected)
    shares, largest = step.friction.mu, float(step.friction.mu.max())
    grid = np.round(np.linspace(0.0, max(_LEAST_TOP, 2.0 * largest), _VALUES + 1), 4)
    grid = np.unique(np.append(grid, largest))
    sideways = _sideways(step, problem.bodies)
    steps = range(-_PUSHES, _PUSHES + 1) if sideways is not None else range(1)
    pushes, states = tuple(round(_PUSH * k, 10) for k in steps), []
    for push in pushes:
        load = step.F_ext if sideways is None else step.F_ext + push * sideways
        for mu in grid.tolist():
            friction = replace(step.friction, mu=shares * (mu / (largest or 1.0)))
            pushed = step.replace(friction=friction, F_ext=load)
            states.append({"mu": mu, "push": push, **_state(pushed)})
    even = bool((shares == largest).all())
    return FrictionalExploration(
        problem.name,
        problem.title,
        names=tuple(step.contact_names),
        label="friction μ" if even else "largest friction μ, others in proportion",
        start=pushes.index(0.0) * grid.size + int(np.flatnonzero(grid == largest)[0]),
        pushes=pushes,
        heaviest=_HEAVIEST if _in_proportion(step) else 1.0,
        picture=_drawn(step, problem.bodies, sideways),
        states=tuple(states),
    )


def _in_proportion(step: ContactStep) -> bool:
    """Whether forces grow with the load: bodies at rest, contacts closed, nothing drives them."""
    reach = 1.0 if step.points is None else float(np.ptp(step.points, axis=0).max()) or 1.0
    rates = [step.v, step.gap_rate, 0.0 if step.friction is None else step.friction.rate]
    return not any(map(np.any, rates)) and float(np.abs(step.phi).max()) <= _TOUCH * reach


def _sideways(step: ContactStep, bodies: tuple[Scene, State] | None) -> FloatArray | None:
    """(nv,) N, the weight of every free body to the right; None without a scene or gravity."""
    if bodies is None:
        return None
    scene = bodies[0]
    heavy = np.where(scene.bodies.fixed, 0.0, scene.bodies.mass) * np.linalg.norm(scene.gravity)
    table = np.outer(heavy, [1.0, 0.0, 0.0])
    for dofs in (scene.full_dofs, scene.dofs):
        if dofs.nv == step.nv and heavy.any():
            return np.asarray(dofs.gather(table))
    return None


def _drawn(
    step: ContactStep, bodies: tuple[Scene, State] | None, sideways: FloatArray | None
) -> dict[str, Any] | None:
    """Shapes; of contacts places, directions of forces on the second bodies; loads on bodies."""
    friction, x, normals = step.friction, step.points, step.normals
    if x is None or normals is None or friction is None:
        return None
    loads: list[dict[str, Any]] = []
    if bodies is None:
        shapes = own_shapes(step)
    else:
        scene, state = bodies
        shapes = shapes_of(Solids.of(scene, state.position), state)
        if sideways is not None:
            loads = _loads(step, scene, state)
    fixed = fixed_sides(step) if bodies is None else bodies[0].bodies.fixed[step.bodies]
    tangents = None if friction.tangents is None else np.asarray(friction.tangents)[:, 0]
    sides = np.where(fixed[:, 1] & ~fixed[:, 0], -1.0, 1.0)[:, None]  # on bodies that move
    return {
        "shapes": shapes,
        "contacts": x.tolist(),
        "inside": (~fixed).all(axis=1).tolist(),
        "normals": (sides * normals).tolist(),
        "tangents": [] if tangents is None else (sides * tangents).tolist(),
        "loads": loads,
    }


def _loads(step: ContactStep, scene: Scene, state: State) -> list[dict[str, Any]]:
    """Centre (2,) m, force (2,) N, torque N m and weight N of each free body."""
    dofs = scene.full_dofs if scene.full_dofs.nv == step.nv else scene.dofs
    table = dofs.scatter(step.F_ext, np.zeros((scene.nb, 3)))
    weight = scene.bodies.mass * np.linalg.norm(scene.gravity)
    return [
        {
            "at": state.position[k].tolist(),
            "force": table[k, :2].tolist(),
            "torque": float(table[k, 2]),
            "weight": float(weight[k]),
        }
        for k in np.flatnonzero(~scene.bodies.fixed)
    ]


def _state(step: ContactStep) -> dict[str, Any]:
    """The data of the page for a step with friction."""
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
