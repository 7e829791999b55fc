"""The biaxial test, in space the triaxial one: strain along one axis, constant stress across it.

The position of a wall under constant stress is one more unknown, and its load is stress times area:
the enthalpy Σ w(−Φ) + σ V is minimised over bodies and walls together. A pass is then one convex
problem, as for bodies alone, and the stress is as accurate as any other balance. If another free
wall changes the area of a wall, the equilibrium is computed again with the new area.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from cdopt import InvalidInput, SolveFailed
from cdopt._util import checks
from cdopt._util.checks import whole
from cdopt._util.progress import ProgressCallback
from cdopt.collision import VerletList
from cdopt.dynamics import Equilibrium, equilibrium
from cdopt.scene import Scene, State

from .compression import MOST, MOST_STEPS
from .record import LoadingPath, first_state, follow, work
from .walls import area, facing, pairs, pressure_force, shifted, span, wall_number

REPEATS = 60  # of an equilibrium with areas of the one before


@dataclass(frozen=True, eq=False)
class Biaxial(LoadingPath):
    """Stress and strain of a box. Compression is positive.

    Attributes
    ----------
    axial : number of the wall that moves. lateral : (dim − 1,) of those that are pressed.
    confining : the stress asked for on them, Pa.
    """

    axial: int
    lateral: tuple[int, ...]
    confining: float

    @property
    def extent(self) -> np.ndarray:
        """(n, dim) m between walls, axial first."""
        walls = (self.axial, *self.lateral)
        return np.array([[_span(self.scene, r.state, w) for w in walls] for r in self.equilibria])

    @property
    def force(self) -> np.ndarray:
        """(n, dim) on these walls, N."""
        walls = (self.axial, *self.lateral)
        return np.array(
            [[pressure_force(self.scene, r, w) for w in walls] for r in self.equilibria]
        )

    @property
    def axial_strain(self) -> np.ndarray:
        """(n,) 1 − H/H₀."""
        return 1.0 - self.extent[:, 0] / self.extent[0, 0]

    @property
    def volumetric_strain(self) -> np.ndarray:
        """(n,) 1 − V/V₀."""
        volume = self.extent.prod(axis=1)
        return 1.0 - volume / volume[0]

    @property
    def stress(self) -> np.ndarray:
        """(n, dim) on the walls, axial first, Pa."""
        return self.force * self.extent / self.extent.prod(axis=1)[:, None]

    @property
    def axial_stress(self) -> np.ndarray:
        """(n,) Pa."""
        return self.stress[:, 0]

    @property
    def lateral_stress(self) -> np.ndarray:
        """(n, dim − 1) Pa, as computed."""
        return self.stress[:, 1:]

    @property
    def deviator(self) -> np.ndarray:
        """(n,) axial less mean lateral stress, Pa."""
        return self.axial_stress - self.lateral_stress.mean(axis=1)

    @property
    def work(self) -> np.ndarray:
        """(n,) of all walls, J, by the trapezoidal rule."""
        ways = zip(self.force.T, -self.extent.T, strict=True)
        return np.sum([work(force, way) for force, way in ways], axis=0)

    @property
    def dissipated(self) -> np.ndarray:
        """(n,) work that is no longer there as energy, J."""
        return self.work - (self.potential - self.potential[0])


def confine(
    scene: Scene,
    stress: object,
    *,
    start: State | None = None,
    stress_tol: float = 1e-8,
    **options: Any,
) -> Equilibrium:
    """Press a box together until its walls bear a stress.

    Parameters
    ----------
    scene : with one pair of facing walls per axis, and stiffness in its materials.
    stress : Pa, on all walls; or a table of it by numbers or names of walls, of which each pair
        may have one, others stay where they are.
    start : default the scene's initial state.
    stress_tol : error of the stress, as a share of it.
    options : of ``cdopt.dynamics.equilibrium``.

    Raises
    ------
    InvalidInput : a bad argument, or walls that do not make a box.
    SolveFailed : no equilibrium, or areas that do not settle.
    """
    state = scene.check_state(scene.initial if start is None else start, "start")
    box = pairs(scene, state)
    if isinstance(stress, Mapping):
        wanted = {wall_number(scene, "stress", wall): each for wall, each in stress.items()}
    else:
        wanted = {other: stress for _, other in box}
    wanted = {k: checks.scalar("stress", each, above=0.0) for k, each in wanted.items()}
    if any(facing(scene, state, wall) in wanted for wall in wanted):
        raise InvalidInput("stress", "both walls of a pair", "one of them: nothing holds both")
    accuracy = checks.scalar("stress_tol", stress_tol, above=0.0)
    options = {"travel": np.inf, "limit": 400, "neighbours": VerletList(scene), **options}
    passes = 0
    for _ in range(REPEATS):
        pushed = {wall: each * _area(scene, state, wall) for wall, each in wanted.items()}
        rest = equilibrium(scene, state, pushed=pushed, **options)
        state, passes = rest.state, passes + rest.passes
        needed = {wall: each * _area(scene, state, wall) for wall, each in wanted.items()}
        off = max(abs(needed[wall] - pushed[wall]) / needed[wall] for wall in wanted)
        if off <= accuracy:
            return replace(rest, passes=passes)
    message = f"areas of pressed walls still change by {off:.1e} of themselves"
    backend = str(options.get("backend", "newton"))
    raise SolveFailed(message, backend=backend, status=f"{passes} passes")


def biaxial(
    scene: Scene,
    stress: float,
    strain: float,
    steps: int,
    *,
    axial: int | str = "top",
    start: State | Equilibrium | None = None,
    on_failure: str = "stop",
    progress: bool | ProgressCallback = False,
    **options: Any,
) -> Biaxial:
    """Shorten a box along one axis while the walls across it bear a constant stress.

    The box is confined first: all pairs of walls move in until they bear ``stress``.

    Parameters
    ----------
    scene : with one pair of facing walls per axis, and stiffness in its materials; in the plane
        discs of 1 m depth, in space spheres.
    stress : confining stress, Pa.
    strain : axial, reached in ``steps`` equal ones from the confined state; compression positive.
    axial : number or name of the wall that moves. Of each other pair the wall with the larger
        number is pressed.
    start : default the scene's initial state; an Equilibrium is taken as confined already.
    on_failure, progress : as in ``compress``.
    options : of ``confine``.

    Raises
    ------
    InvalidInput : a bad argument, or walls that do not make a box.
    SolveFailed : the box cannot be confined.
    LoadingFailed : a SolveFailed that carries the ``record`` so far.
    LoadingInterrupted : Ctrl-C.
    """
    top = wall_number(scene, "axial", axial)
    sides = [pair[1] for pair in pairs(scene, scene.initial) if top not in pair]
    level = checks.scalar("stress", stress, above=0.0)
    last = checks.scalar("strain", strain, at_most=MOST)
    whole("steps", steps, 1, MOST_STEPS)
    options = {"neighbours": VerletList(scene), **options}
    state = first_state(scene, start)
    everywhere = dict.fromkeys((top, *sides), level)
    confined = isinstance(start, Equilibrium)
    first = start if confined else confine(scene, everywhere, start=state, **options)
    way = _span(scene, first.state, top) * last / steps

    def take(k: int, before: Equilibrium) -> Equilibrium:
        lower = shifted(scene, before.state, top, way)
        return confine(scene, dict.fromkeys(sides, level), start=lower, **options)

    def record(equilibria: tuple[Equilibrium, ...], failure: str) -> Biaxial:
        return Biaxial(scene, equilibria, failure, top, tuple(sides), level)

    return follow(first, steps, take, record, progress, on_failure)


def _span(scene: Scene, state: State, wall: int) -> float:
    return _room(span(scene, state, wall))


def _area(scene: Scene, state: State, wall: int) -> float:
    return _room(area(scene, state, wall))


def _room(size: float | None) -> float:
    if size is None or not size > 0.0:
        raise InvalidInput("scene", "walls without room between them", "a box")
    return size
