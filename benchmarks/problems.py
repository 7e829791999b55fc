"""Problems by name: those of the bank, large families, and steps taken from a fall.

``NAME:key=value,…``: a bank name with its parameters, or one of ``MAKERS``, which take also
``power`` and ``ratio``, the most over the least of random stiffness. Families of about 10⁵
contacts: ``LARGE``; the same small: ``SMALL``.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import cdopt
from cdopt._util.parameters import split
from cdopt.bank import generators

DT = 1e-3  # s
LARGE: Mapping[str, str] = {
    "packing": "packing:n=1000,tiles=3,layers=10",
    "crystal": "crystal:rows=90,columns=100",
    "pyramid": "pyramid:n=25",
    "wall-2d": "wall:courses=62,bricks=68,dim=2",
    "wall-3d": "wall:courses=45,bricks=50,dim=3",
}
SMALL: Mapping[str, str] = {
    "packing": "packing:n=300,tiles=1,layers=6",
    "crystal": "crystal:rows=12,columns=15",
    "pyramid": "pyramid:n=8",
    "wall-2d": "wall:courses=8,bricks=10,dim=2",
    "wall-3d": "wall:courses=6,bricks=8,dim=3",
}


@dataclass(frozen=True, eq=False)
class Problem:
    """A contact step, the power of its contact energy, and the seconds it took to make."""

    step: cdopt.ContactStep
    power: float
    seconds: float


def build(text: str) -> Problem:
    """The problem of this name."""
    started = time.perf_counter()
    name, given = split(text)
    if name not in MAKERS:
        held = cdopt.bank.load(text)
        step = held.step
        if step is None:
            raise cdopt.InvalidInput("problem", text, "one of kind step")
        return Problem(step, held.power, time.perf_counter() - started)
    numbers = {key: float(value) for key, value in given.items()}
    power, ratio = numbers.pop("power", 2.0), numbers.pop("ratio", 1.0)
    even = MAKERS[name](**{key: int(value) for key, value in numbers.items()})
    return Problem(generators.uneven(even, ratio), power, time.perf_counter() - started)


def wall(courses: int, bricks: int, dim: int = 2) -> cdopt.ContactStep:
    """A wall in running bond at rest: every brick lies on four points, in space on eight."""
    scene = cdopt.scene.brick_wall(courses, bricks, dim=dim)
    return cdopt.collision.step(
        scene, scene.initial, cdopt.collision.detect(scene, scene.initial), DT
    )


def dropped(n: int, steps: int) -> cdopt.ContactStep:
    """The pyramid of n layers this many steps after its drop, 5 % of a radius between layers."""
    scene = cdopt.scene.pyramid(n)
    run = cdopt.simulate(
        scene, DT, steps * DT, "classic-cd", backend="newton", every=steps, on_failure="continue"
    )
    state = run.final.state
    found = cdopt.collision.detect(scene, state, cdopt.collision.safe_margin(scene, state, DT))
    return cdopt.collision.step(scene, state, found, DT)


MAKERS: Mapping[str, Callable[..., cdopt.ContactStep]] = {
    "packing": generators.packing,
    "crystal": generators.crystal_2d,
    "pyramid": generators.pyramid,
    "random-gaps": generators.pyramid_falling,
    "dropped": dropped,
    "wall": wall,
}
