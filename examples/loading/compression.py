"""A wall moves in on a packing, which follows from equilibrium to equilibrium."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from cdopt._util import checks
from cdopt._util.checks import FloatArray
from cdopt._util.errors import InvalidInput
from cdopt._util.progress import ProgressCallback
from cdopt.backends.base import Backend
from cdopt.collision import Neighbours
from cdopt.dynamics import Equilibrium, equilibrium
from cdopt.scene import Scene, State

from .record import LoadingPath, common, follow, started
from .walls import area as area_of
from .walls import pressure_force, shifted, span, wall_number

MOST = 0.9  # strain


@dataclass(frozen=True, eq=False)
class Compression(LoadingPath):
    """A stress–strain curve. Compression is positive.

    Attributes
    ----------
    wall : number of the wall that moves. length, area : m and m² that strain and stress refer to.
    strain : (n,) way of the wall over ``length``.
    force : (n,) that presses it, N. stress : (n,) force over area, Pa.
    work : (n,) done by the wall, J, by the trapezoidal rule.
    """

    wall: int
    length: float
    area: float
    strain: FloatArray
    force: FloatArray
    stress: FloatArray
    work: FloatArray

    @property
    def dissipated(self) -> FloatArray:
        """(n,) work that is no longer there as energy, J.

        What rearrangements lose; without any, the error of the trapezoidal rule, of second order
        in the strain from one equilibrium to the next. Where the force jumps, that rule is off by
        up to half the jump times the way of the wall.
        """
        return np.asarray(self.work - (self.potential - self.potential[0]))


def compress(
    scene: Scene,
    wall: int | str,
    strain: object,
    steps: int | None = None,
    *,
    start: State | Equilibrium | None = None,
    length: float | None = None,
    area: float | None = None,
    backend: str | Backend = "newton",
    tol: float = 1e-10,
    limit: int = 400,
    travel: float = np.inf,
    on_failure: str = "stop",
    progress: bool | ProgressCallback = False,
) -> Compression:
    """Compress a packing by a wall that moves in along its normal.

    Parameters
    ----------
    scene : with half-spaces as walls and stiffness in its materials. Gravity acts.
    wall : its number or name.
    strain : the last one, reached in ``steps`` equal ones; or all of them, (n,), which may also
        go back. Positive compresses, 0 is the wall's place at the start.
    start : where bodies and walls are at first; default the scene's initial state. They come to
        rest there, which is the record's first equilibrium.
    length : m, what strain refers to; default the distance from the wall that faces this one.
    area : m², in the plane the length times 1 m of depth; default what the other walls cut out of
        this one at the start.
    backend, tol, limit, travel : as in ``cdopt.dynamics.equilibrium``.
    on_failure : "stop" raises where no equilibrium is found, "keep" returns those before, with
        ``failure``.
    progress : True for a bar on stderr, or a function of (done, total, text).

    Raises
    ------
    InvalidInput : a bad argument; length or area is asked for where walls do not tell it.
    LoadingFailed : a SolveFailed that carries the ``record`` so far.
    LoadingInterrupted : Ctrl-C, likewise.

    >>> import cdopt
    >>> box = examples.loading.disc_box(1, spread=0.0, stiffness=2e4)
    >>> run = examples.loading.compress(box, "top", 0.1, 2)
    >>> run.force.round(6)  # the lid meets the disc at 2.4 % strain
    array([ 0.  ,  5.25, 15.5 ])
    """
    number = wall_number(scene, "wall", wall)
    strains = _strains(strain, steps)
    near = Neighbours(scene)

    def rest(state: State) -> Equilibrium:
        return equilibrium(
            scene, state, backend=backend, tol=tol, limit=limit, travel=travel, neighbours=near
        )

    first = started(scene, start)
    begun = first if isinstance(first, Equilibrium) else rest(first)
    long = _known("length", length, span(scene, begun.state, number), "wall opposite")
    wide = _known("area", area, area_of(scene, begun.state, number), "box of walls around it")

    def take(k: int, before: Equilibrium) -> Equilibrium:
        way = long * (strains[k] - (strains[k - 1] if k else 0.0))
        return rest(shifted(scene, before.state, number, way))

    def written(found: list[Equilibrium], failure: str) -> Compression:
        done = np.concatenate([[0.0], strains])[: len(found)]
        force = np.array([pressure_force(scene, one, number) for one in found])
        return Compression(
            **common(scene, found, failure),
            wall=number,
            length=long,
            area=wide,
            strain=done,
            force=force,
            stress=force / wide,
            work=summed(force, long * done),
        )

    return follow(begun, strains.size, take, written, progress, on_failure)


def summed(force: FloatArray, way: FloatArray) -> FloatArray:
    """(n,) ∫ force d(way) from the first entry on, by the trapezoidal rule."""
    parts = 0.5 * (force[1:] + force[:-1]) * np.diff(way)
    return np.concatenate([[0.0], np.cumsum(parts)])


def _strains(strain: object, steps: int | None) -> FloatArray:
    """(n,) strains to reach."""
    if checks.real("strain", strain, "one finite number, or a vector of them").ndim == 0:
        last = checks.scalar("strain", strain, at_most=MOST)
        if isinstance(steps, bool) or not isinstance(steps, int) or steps < 1:
            raise InvalidInput("steps", checks.describe(steps), "a whole number from 1")
        return np.linspace(0.0, last, steps + 1)[1:]
    found = checks.vector("strain", strain, None)
    if steps is not None:
        raise InvalidInput("steps", checks.describe(steps), "none beside a list of strains")
    if found.max(initial=-np.inf) > MOST or not found.size:
        raise InvalidInput("strain", f"{found.size} strains", f"some, none above {MOST:g}")
    return found


def _known(name: str, given: float | None, found: float | None, needs: str) -> float:
    """A length or an area that was given or can be seen."""
    if given is not None:
        return checks.scalar(name, given, above=0.0)
    if found is None:
        raise InvalidInput(name, "None", f"a number: this wall has no {needs} to tell it")
    return checks.scalar(name, found, above=0.0)
