"""Springs of friction: what a scene states of them, and their memory from list to list."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from cdopt._util.checks import FloatArray, IntArray
from cdopt.collision import effective_mass
from cdopt.collision.contacts import tangential_ratio
from cdopt.dynamics.spheres.system import NeighborList, Springs
from cdopt.scene import Scene

_STORED = 14  # numbers of a spring: ξ, rolling, spinning, k_t, the tangential force and the normal


@dataclass(frozen=True)
class FrictionLaw:
    """Friction of a run.

    Attributes
    ----------
    mu : of all contacts; True for that of the scene's materials.
    ratio : k_t/k_n of all contacts; None for Mindlin's, from Poisson's ratios.
    """

    mu: float | bool = True
    ratio: float | None = None

    def of_pairs(self, scene: Scene, pairs: IntArray) -> tuple[FloatArray, FloatArray]:
        """μ and k_t/k_n (n,) of pairs (n, 2) of bodies.

        Raises
        ------
        InvalidInput : friction that nothing states.
        """
        if self.mu is True:
            return np.array(scene.contact_friction(pairs)), self.ratios(scene, pairs)
        return np.full(len(pairs), float(self.mu)), self.ratios(scene, pairs)

    def ratios(self, scene: Scene, pairs: IntArray) -> FloatArray:
        """k_t/k_n (n,) of pairs (n, 2) of bodies."""
        if self.ratio is None:
            return tangential_ratio(scene, pairs)
        return np.full(len(pairs), self.ratio)


@dataclass(frozen=True)
class Memory:
    """Springs of the contacts of a state.

    Attributes
    ----------
    ids : (n,) ascending numbers i nb + j of pairs i < j. values : (n, 14).
    """

    ids: IntArray
    values: FloatArray

    @staticmethod
    def empty() -> Memory:
        """Of a state without contacts."""
        return Memory(np.zeros(0, dtype=np.int64), np.zeros((0, _STORED)))


def pair_numbers(neighbors: NeighborList, nb: int) -> IntArray:
    """(np,) numbers of the pairs of a neighbour list, ascending where no wall comes first."""
    i, j = neighbors.i, neighbors.j
    return np.asarray(np.minimum(i, j) * nb + np.maximum(i, j))


def springs_of(
    scene: Scene, law: FrictionLaw | None, neighbors: NeighborList, memory: Memory
) -> Springs:
    """The springs of a neighbour list with what is known of them; without a law no rows."""
    pairs = np.sort(np.column_stack([neighbors.i, neighbors.j]), axis=1)
    numbers = pair_numbers(neighbors, scene.nb)
    if law is None:
        law, pairs, numbers = FrictionLaw(0.0, 1.0), pairs[:0], numbers[:0]
    mu, ratio = law.of_pairs(scene, pairs)
    stored = np.zeros((len(pairs), _STORED))
    _, here, there = np.intersect1d(numbers, memory.ids, assume_unique=True, return_indices=True)
    stored[here] = memory.values[there]
    xi, roll, force, normal = (stored[:, k : k + 3].copy() for k in (0, 3, 8, 11))
    rolling, spinning = scene.contact_resistance(pairs).copy()  # writable: one type, one loop
    return Springs(
        mu=mu,
        rolling=rolling,
        spinning=spinning,
        ratio=ratio,
        damping=scene.gamma_t * effective_mass(scene, pairs),
        xi=xi,
        roll=roll,
        twist=stored[:, 6].copy(),
        stiffness=stored[:, 7].copy(),
        force=force,
        normal=normal,
        cap=np.zeros(len(pairs)),
        frozen=np.zeros(len(pairs)),
        trial=np.zeros_like(xi),
        acting=np.zeros_like(xi),
        at=np.zeros_like(xi),
    )


def memory_of(springs: Springs, neighbors: NeighborList, nb: int) -> Memory:
    """The springs of pairs in contact."""
    touching = np.flatnonzero(springs.stiffness > 0.0)
    ids = pair_numbers(neighbors, nb)[touching]
    columns = (springs.xi, springs.roll, springs.twist[:, None], springs.stiffness[:, None])
    values = np.hstack([*columns, springs.force, springs.normal])[touching]
    order = np.argsort(ids)
    return Memory(ids[order], values[order])
