"""Compression of a packing by a moving wall, from one equilibrium to the next."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from cdopt import InvalidInput
from cdopt._util import checks
from cdopt._util.checks import whole
from cdopt._util.progress import ProgressCallback
from cdopt.collision import VerletList
from cdopt.dynamics import Equilibrium, equilibrium
from cdopt.scene import Scene, State

from .record import LoadingPath, first_state, follow, work
from .walls import area as area_of
from .walls import pressure_force, shifted, span, wall_number

MOST = 0.9  # strain
MOST_STEPS = 10**6


@dataclass(frozen=True, eq=False)
class Compression(LoadingPath):
    """A stress–strain curve. Compression is positive.

    Attributes
    ----------
    wall : number of the wall that moves. length, area : m and m² that strain and stress refer to.
    strain : (n,) way of the wall over ``length``.
    """

    wall: int
    length: float
    area: float
    strain: np.ndarray

    @property
    def force(self) -> np.ndarray:
        """(n,) that presses the wall, N."""
        return np.array([pressure_force(self.scene, rest, self.wall) for rest in self.equilibria])

    @property
    def stress(self) -> np.ndarray:
        """(n,) force over area, Pa."""
        return self.force / self.area

    @property
    def work(self) -> np.ndarray:
        """(n,) done by the wall, J, by the trapezoidal rule."""
        return work(self.force, self.length * self.strain)

    @property
    def dissipated(self) -> np.ndarray:
        """(n,) work that is no longer there as energy, J.

        What rearrangements lose; without any, the error of the trapezoidal rule, of second order
        in the strain from one equilibrium to the next. Where the force jumps, that rule is off by
        up to half the jump times the way of the wall.
        """
        return self.work - (self.potential - self.potential[0])


def compress(
    scene: Scene,
    wall: int | str,
    strain: object,
    steps: int | None = None,
    *,
    start: State | Equilibrium | None = None,
    length: float | None = None,
    area: float | None = None,
    on_failure: str = "stop",
    progress: bool | ProgressCallback = False,
    **options: Any,
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
    length : m, the reference of strain; default the distance from the wall that faces this one.
    area : m², in the plane the length times 1 m of depth; default what the other walls cut out of
        this one at the start.
    on_failure : "stop" raises where no equilibrium is found, "keep" returns those before, with
        ``failure``.
    progress : True for a bar on stderr, or a function of (done, total, text).
    options : of ``cdopt.dynamics.equilibrium``.

    Raises
    ------
    InvalidInput : a bad argument; the walls do not determine length or area.
    LoadingFailed : a SolveFailed that carries the ``record`` so far.
    LoadingInterrupted : Ctrl-C.

    >>> box = disc_box(1, spread=0.0, stiffness=2e4)
    >>> run = compress(box, "top", 0.1, 2)
    >>> run.force.round(6)  # the lid meets the disc at 2.4 % strain
    array([ 0.  ,  5.25, 15.5 ])
    """
    number = wall_number(scene, "wall", wall)
    strains = _strains(strain, steps)
    options = {"limit": 400, "travel": np.inf, "neighbours": VerletList(scene), **options}
    state = first_state(scene, start)
    first = start if isinstance(start, Equilibrium) else equilibrium(scene, state, **options)
    long = _given_or_known("length", length, span(scene, first.state, number))
    wide = _given_or_known("area", area, area_of(scene, first.state, number))

    def take(k: int, before: Equilibrium) -> Equilibrium:
        way = long * (strains[k + 1] - strains[k])
        return equilibrium(scene, shifted(scene, before.state, number, way), **options)

    def record(equilibria: tuple[Equilibrium, ...], failure: str) -> Compression:
        done = strains[: len(equilibria)]
        return Compression(scene, equilibria, failure, number, long, wide, done)

    return follow(first, strains.size - 1, take, record, progress, on_failure)


def _strains(strain: object, steps: int | None) -> np.ndarray:
    """(n + 1,) strains, from 0."""
    if np.ndim(strain) == 0:
        last = checks.scalar("strain", strain, at_most=MOST)
        return np.linspace(0.0, last, whole("steps", steps, 1, MOST_STEPS) + 1)
    strains = checks.vector("strain", strain, None)
    if steps is not None:
        raise InvalidInput("steps", checks.describe(steps), "none with a list of strains")
    if strains.max(initial=-np.inf) > MOST or not strains.size:
        raise InvalidInput("strain", f"{strains.size} strains", f"some, none above {MOST:g}")
    return np.concatenate([[0.0], strains])


def _given_or_known(name: str, given: float | None, known: float | None) -> float:
    """A length or an area that was given or follows from the walls."""
    value = known if given is None else given
    if value is None:
        raise InvalidInput(name, "None", "a number: the other walls of the box do not determine it")
    return checks.scalar(name, value, above=0.0)
