"""Planar problems with friction as pages: a slider of μ, and what each force may be.

The admissible forces at each μ of a grid are bounded and certified when the page is written
(``cdopt.indeterminacy``), and so are the forces of elastic contacts; the slider chooses among them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from cdopt._util.errors import InvalidInput, SolveFailed
from cdopt._util.formatting import plain
from cdopt._util.frozen import Frozen
from cdopt.hyperstatic import indeterminacy, which_force
from cdopt.plots.explore.exploration import check_size
from cdopt.plots.explore.picture import shapes_of
from cdopt.plots.solids import Solids
from cdopt.problem import Friction
from cdopt.problem.contact_step import ContactStep
from cdopt.study.named_problem import NamedProblem

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
    """The page of a planar problem with friction, under the law of Coulomb.

    Raises
    ------
    InvalidInput : a truss, a problem without friction or in space, or more than 100 contacts.
    """
    step = problem.step
    if not isinstance(step, ContactStep):
        raise InvalidInput("problem", problem.name, "a contact step")
    if (friction := _friction(step)).d != 2:
        raise InvalidInput("problem", f"{problem.name}, in space", "a planar one")
    check_size(step.nc, 0)
    if step.nc == 0:
        expected = "bodies that touch; of those that still fall a step of a run, drop.vtkhdf#200"
        raise InvalidInput("problem", f"no contact in {problem.name}", expected)
    largest = float(friction.mu.max())
    grid = np.round(np.linspace(0.0, max(_LEAST_TOP, 2.0 * largest), _VALUES + 1), 4)
    grid = np.unique(np.append(grid, largest))
    states = tuple(_state(step, float(mu)) for mu in grid)
    start = int(np.flatnonzero(grid == largest)[0])
    even = bool((friction.mu == largest).all())
    label = "friction μ" if even else "largest friction μ, others in proportion"
    names, bodies = tuple(step.contact_names), problem.bodies
    drawn = None
    if bodies is not None and step.points is not None:
        shapes = shapes_of(Solids.of(bodies[0], bodies[1].position), bodies[1])
        drawn = {"shapes": shapes, "contacts": step.points.tolist()}
    return FrictionalExploration(problem.name, problem.title, names, label, start, drawn, states)


def _state(step: ContactStep, mu: float) -> dict[str, Any]:
    """What the page shows at one μ."""
    stated = _friction(step)
    friction = replace(stated, mu=stated.mu * (mu / (float(stated.mu.max()) or 1.0)))
    rough = step.replace(friction=friction)
    try:
        report = indeterminacy(rough, law="coulomb")
    except SolveFailed:
        return {"mu": mu, "rests": False, "summary": "No certified answer.", "rows": []}
    velocity, free = report.solution.v_next, step.dt * step.mass.solve(step.F_ext)
    rates = np.concatenate([np.abs(rows @ velocity) for rows in (step.B, friction.B_t)])
    falling = np.concatenate([np.abs(rows @ free) for rows in (step.B, friction.B_t)])
    rests = bool(rates.max(initial=0.0) <= _SPEED * falling.max(initial=0.0))
    summary = "It stays at rest. "
    if not rests:
        summary = "It moves: the forces are those of its motion. "
    chosen, answers = which_force(report, []), {}
    for name, centre in (("coulomb", chosen.compatible), ("haar", chosen.haar_karman)):
        if centre is not None and centre.f_t is not None:
            answers[name] = np.column_stack([centre.f, centre.f_t])
    rows = []
    for i in range(step.nc):
        row: dict[str, Any] = {"status": report.status_of(i)}
        for side, values in (("lower", report.lower[i]), ("upper", report.upper[i])):
            row[side] = [float(x) if np.isfinite(x) else None for x in values]
        for name, forces in answers.items():
            row[name] = forces[i].tolist()
        rows.append(row)
    return {"mu": mu, "rests": rests, "summary": summary + report.summary, "rows": rows}


def _friction(step: ContactStep) -> Friction:
    """The friction of a step that has some.

    Raises
    ------
    InvalidInput : it has none.
    """
    if step.friction is None:
        raise InvalidInput("problem", "a step without friction", "a contact step with friction")
    return step.friction
