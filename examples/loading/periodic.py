"""Packings in a periodic box: deformed from equilibrium to equilibrium, and where they jam.

The cell and all centres are moved by a small strain, then the bodies come to rest on their elastic
contacts. There are no walls, and stress is that of Love and Weber over the cell.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from cdopt import InvalidInput
from cdopt._util import checks
from cdopt._util.checks import whole
from cdopt.dynamics import Equilibrium, Measures, equilibrium
from cdopt.scene import Material, PeriodicBox, Scene, Spheres, State

STIFFNESS = 1.0  # N/m of a contact; stresses are in its units over the depth of 1 m
TOUCHING = 1e-6  # mean overlap of a jammed packing, in diameters


@dataclass(frozen=True, eq=False)
class BoxLoading:
    """Equilibria of a packing in a cell that deforms. Compression is positive.

    Attributes
    ----------
    scenes, equilibria : of each step. strain : (n, dim, dim) of the cell since the start.
    """

    scenes: list[Scene]
    equilibria: list[Equilibrium]
    strain: np.ndarray

    @property
    def measures(self) -> list[Measures]:
        """Of each equilibrium."""
        pairs = zip(self.scenes, self.equilibria, strict=True)
        return [Measures.of_rest(scene, rest) for scene, rest in pairs]

    @property
    def stress(self) -> np.ndarray:
        """(n, dim, dim) Pa."""
        return np.array([here.stress() for here in self.measures])

    @property
    def energy(self) -> np.ndarray:
        """(n,) elastic, J."""
        return np.array([rest.energy for rest in self.equilibria])


def bidisperse(n: int = 40, fraction: float = 0.7, *, ratio: float = 1.4, seed: int = 0) -> Scene:
    """Discs of two radii, half of each, at random places of a square cell of 1 m.

    Parameters
    ----------
    n : number of discs. fraction : area of the discs over that of the cell.
    ratio : of the radii. seed : of the random numbers.

    Raises
    ------
    InvalidInput : n is not an integer from 16 to 100,000, or a number out of range.
    """
    count = whole("n", n, 16, 100_000)
    share = checks.scalar("fraction", fraction, above=0.0, at_most=1.5)
    rng = np.random.default_rng(whole("seed", seed, 0))
    radius = np.where(np.arange(count) % 2, checks.scalar("ratio", ratio, at_least=1.0), 1.0)
    radius *= np.sqrt(share / (np.pi * (radius**2).sum()))
    discs = Spheres(
        centres=rng.uniform(size=(count, 2)), radius=radius, mass=1.0, material="elastic"
    )
    return Scene(
        [discs],
        dim=2,
        gravity=[0.0, 0.0],
        box=[1.0, 1.0],
        materials=[Material(name="elastic", stiffness=2.0 * STIFFNESS)],
        overlaps="touching",
        name="bidisperse",
        title="Discs of two sizes in a periodic cell",
    )


def strained(scene: Scene, state: State, strain: np.ndarray) -> Scene:
    """The scene with its cell and the centres of a state moved by a strain (dim, dim).

    Raises
    ------
    InvalidInput : a scene without a box, or a strain that a cell cannot have.
    """
    if scene.box is None:
        raise InvalidInput("scene", "no box", "a scene in a periodic box")
    stretch = np.eye(scene.dim) + checks.numbers("strain", strain, (scene.dim, scene.dim))
    cell = stretch @ scene.box.cell(state.t)
    if np.any(np.tril(cell, -1)):
        raise InvalidInput("strain", "a turn of the cell", "entries on the diagonal or above")
    q = np.array(state.q)
    q[:, : scene.dim] = state.position @ stretch.T
    return scene.with_box(PeriodicBox(cell.diagonal(), cell[0, -1]), State(0.0, q, 0.0 * state.v))


def deform(scene: Scene, strain: Any, steps: int, **options: Any) -> BoxLoading:
    """Deform the cell by a strain in equal steps, from equilibrium to equilibrium.

    Parameters
    ----------
    strain : (dim, dim) displacement gradient of the cell in all, with entries on the diagonal and
        above; negative on the diagonal compresses.
    options : of ``cdopt.dynamics.equilibrium``.

    Raises
    ------
    InvalidInput : as in ``strained``.
    SolveFailed : as in ``equilibrium``.
    """
    count, total = whole("steps", steps, 1), checks.numbers("strain", strain, (scene.dim,) * 2)
    first = equilibrium(scene, travel=np.inf, **options)
    scenes, rests = [scene], [first]
    for k in range(1, count + 1):
        before, now = (np.eye(scene.dim) + j / count * total for j in (k - 1, k))
        change = now @ np.linalg.inv(before) - np.eye(scene.dim)
        scenes.append(strained(scenes[-1], rests[-1].state, np.triu(change)))
        rests.append(equilibrium(scenes[-1], travel=np.inf, **options))
    shares = np.arange(count + 1) / count
    return BoxLoading(scenes, rests, shares[:, None, None] * total)


def packing_fraction(scene: Scene) -> float:
    """Area of the discs over that of the cell, overlaps counted twice.

    Raises
    ------
    InvalidInput : a scene without a box.
    """
    if scene.box is None:
        raise InvalidInput("scene", "no box", "a scene in a periodic box")
    return float(np.pi * (scene.bodies.reach**2).sum() / scene.box.size.prod())


def jamming_fraction(
    n: int = 40, *, start: float = 0.78, step: float = 0.01, tol: float = 1e-3, seed: int = 0
) -> float:
    """The packing fraction at which frictionless discs of two sizes begin to resist.

    The cell shrinks until a pressure remains at rest, then the step is halved and taken back, and
    so on to ``tol``: O'Hern et al., Phys. Rev. E 68, 011306 (2003), who find 0.842 for large
    systems of radii 1 : 1.4; small ones scatter between 0.82 and 0.86.

    Parameters
    ----------
    n, seed : as in ``bidisperse``. start : fraction of the random start, below jamming.
    step : first change of the fraction. tol : last one.

    Raises
    ------
    InvalidInput : a number out of range.
    """
    width, last = checks.scalar("step", step, above=0.0), checks.scalar("tol", tol, above=0.0)
    scene = bidisperse(n, start, seed=seed)
    diameter = 2.0 * float(scene.bodies.reach.mean())
    jammed = False
    state = equilibrium(scene, travel=np.inf).state
    while width > last:
        now = packing_fraction(scene)
        change = np.sqrt(now / (now - width if jammed else now + width)) - 1.0
        scene = strained(scene, state, change * np.eye(2))
        rest = equilibrium(scene, travel=np.inf)
        state = rest.state
        overlap = float(rest.forces.sum()) / STIFFNESS / n  # mean of a disc
        before, jammed = jammed, overlap > TOUCHING * diameter
        width = 0.5 * width if before != jammed else width
    return packing_fraction(scene)
