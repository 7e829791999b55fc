"""The biaxial test, in space the triaxial one: strain along one axis, constant stress across it.

A wall under constant stress is one more unknown, its place, and its load, stress times area: the
enthalpy Σ w(−Φ) + σ V is minimised over grains and walls together. A pass is then one convex
problem, as for grains alone, and the stress holds as exactly as any other balance. A servo would
search for the wall's place with an equilibrium at every trial. Areas are those of
the place found: where another free wall changes them, the equilibrium is repeated.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from cdopt._util import checks
from cdopt._util.checks import FloatArray, IntArray
from cdopt._util.errors import InvalidInput, SolveFailed
from cdopt._util.progress import ProgressCallback
from cdopt.backends.base import Backend
from cdopt.collision import Neighbours
from cdopt.dynamics import Equilibrium, equilibrium
from cdopt.scene import Scene, State

from .compression import MOST, summed
from .record import LoadingPath, common, follow, started
from .walls import area, facing, pairs, pressure_force, shifted, span, wall_number

_REPEATS = 60  # of an equilibrium with areas of the one before


@dataclass(frozen=True, eq=False)
class Biaxial(LoadingPath):
    """Stress and strain of a box. Compression is positive.

    Attributes
    ----------
    axial : number of the wall that moves. lateral : (dim − 1,) of those that are pressed.
    confining : the stress asked for on them, Pa.
    extent : (n, dim) m between walls, axial first.
    axial_strain, volumetric_strain : (n,) 1 − H/H₀ and 1 − V/V₀.
    axial_stress : (n,) Pa. lateral_stress : (n, dim − 1) as found, Pa.
    work : (n,) of all walls, J, by the trapezoidal rule.
    """

    axial: int
    lateral: IntArray
    confining: float
    extent: FloatArray
    axial_strain: FloatArray
    volumetric_strain: FloatArray
    axial_stress: FloatArray
    lateral_stress: FloatArray
    work: FloatArray

    @property
    def deviator(self) -> FloatArray:
        """(n,) axial less mean lateral stress, Pa."""
        return np.asarray(self.axial_stress - self.lateral_stress.mean(axis=1))

    @property
    def dissipated(self) -> FloatArray:
        """(n,) work that is no longer there as energy, J."""
        return np.asarray(self.work - (self.potential - self.potential[0]))


def confine(
    scene: Scene,
    stress: object,
    *,
    start: State | None = None,
    stress_tol: float = 1e-8,
    neighbours: Neighbours | None = None,
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
    neighbours : as in ``cdopt.dynamics.equilibrium``.
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
    for wall, each in wanted.items():
        wanted[wall] = checks.scalar("stress", each, above=0.0)
        if facing(scene, state, wall) in wanted:
            raise InvalidInput("stress", "both walls of a pair", "one of them: nothing holds both")
    accuracy = checks.scalar("stress_tol", stress_tol, above=0.0)
    near = Neighbours(scene) if neighbours is None else neighbours
    given = {"travel": np.inf, "limit": 400, **options, "neighbours": near}
    passes = 0
    for _ in range(_REPEATS):
        pushed = {wall: each * _area(scene, state, wall) for wall, each in wanted.items()}
        found = equilibrium(scene, state, pushed=pushed, **given)
        state, passes = found.state, passes + found.passes
        held = {wall: each * _area(scene, state, wall) for wall, each in wanted.items()}
        off = max(abs(held[wall] - pushed[wall]) / held[wall] for wall in wanted)
        if off <= accuracy:
            return replace(found, passes=passes)
    raise SolveFailed(
        f"areas of pressed walls still change by {off:.1e} of themselves",
        backend=str(given.get("backend", "newton")), status=f"{passes} passes",
    )  # fmt: skip


def biaxial(
    scene: Scene,
    stress: float,
    strain: float,
    steps: int,
    *,
    axial: int | str = "top",
    start: State | Equilibrium | None = None,
    stress_tol: float = 1e-8,
    backend: str | Backend = "newton",
    tol: float = 1e-10,
    limit: int = 400,
    travel: float = np.inf,
    on_failure: str = "stop",
    progress: bool | ProgressCallback = False,
) -> Biaxial:
    """Shorten a box along one axis while the walls across it bear a constant stress.

    The box is confined first: all pairs of walls move in until they bear ``stress``.

    Parameters
    ----------
    scene : with one pair of facing walls per axis, and stiffness in its materials; in the plane
        discs, in space spheres, of 1 m depth in the plane.
    stress : confining stress, Pa.
    strain : axial, reached in ``steps`` equal ones from the confined state; compression positive.
    axial : number or name of the wall that moves. Of each other pair the wall with the larger
        number is pressed.
    start : default the scene's initial state; an Equilibrium is taken as confined already.
    stress_tol : error of lateral stress, as a share of it.
    backend, tol, limit, travel : as in ``cdopt.dynamics.equilibrium``.
    on_failure, progress : as in ``compress``.

    Raises
    ------
    InvalidInput : a bad argument, or walls that do not make a box.
    SolveFailed : the box cannot be confined.
    LoadingFailed : a SolveFailed that carries the ``record`` so far.
    LoadingInterrupted : Ctrl-C, likewise.
    """
    top = wall_number(scene, "axial", axial)
    sides = [other for pair in pairs(scene, scene.initial) if top not in pair for other in pair[1:]]
    level = checks.scalar("stress", stress, above=0.0)
    last = checks.scalar("strain", strain, at_most=MOST)
    if isinstance(steps, bool) or not isinstance(steps, int) or steps < 1:
        raise InvalidInput("steps", checks.describe(steps), "a whole number from 1")
    near = Neighbours(scene)
    options: dict[str, Any] = {
        "stress_tol": stress_tol, "backend": backend, "tol": tol, "limit": limit,
        "travel": travel, "neighbours": near,
    }  # fmt: skip
    first = started(scene, start)
    if isinstance(first, Equilibrium):
        begun = first
    else:
        everywhere = dict.fromkeys((top, *sides), level)
        begun = confine(scene, everywhere, start=first, **options)
    height = _span(scene, begun.state, top)

    def take(k: int, before: Equilibrium) -> Equilibrium:
        lower = shifted(scene, before.state, top, height * last / steps)
        return confine(scene, dict.fromkeys(sides, level), start=lower, **options)

    def written(found: list[Equilibrium], failure: str) -> Biaxial:
        walls = (top, *sides)
        extent = np.array([[_span(scene, one.state, w) for w in walls] for one in found])
        force = np.array([[pressure_force(scene, one, w) for w in walls] for one in found])
        volume = extent.prod(axis=1)
        pressed = force / (volume[:, None] / extent)
        return Biaxial(
            **common(scene, found, failure),
            axial=top,
            lateral=np.array(sides, dtype=np.int64),
            confining=level,
            extent=extent,
            axial_strain=1.0 - extent[:, 0] / extent[0, 0],
            volumetric_strain=1.0 - volume / volume[0],
            axial_stress=pressed[:, 0],
            lateral_stress=pressed[:, 1:],
            work=np.sum([summed(*pair) for pair in zip(force.T, -extent.T, strict=True)], axis=0),
        )

    return follow(begun, steps, take, written, progress, on_failure)


def _span(scene: Scene, state: State, wall: int) -> float:
    found = span(scene, state, wall)
    if found is None or not found > 0.0:
        raise InvalidInput("scene", "walls without room between them", "a box")
    return found


def _area(scene: Scene, state: State, wall: int) -> float:
    found = area(scene, state, wall)
    if found is None or not found > 0.0:
        raise InvalidInput("scene", "walls without room between them", "a box")
    return found
