"""Links: pairs of spheres, and spheres with walls, that may touch before long.

A Verlet list: all pairs whose gap is at most ``skin``, good until some sphere has moved half of
it. Pairs stand in the order of their numbers, so that sums over those that touch do not depend
on which others are listed.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from cdopt._util.checks import BoolArray, FloatArray, IntArray
from cdopt.collision import effective_mass
from cdopt.collision.contacts import contact_stiffness
from cdopt.geometry.broad_phase import near_pairs, unbounded_pairs
from cdopt.scene import Scene
from cdopt.scene.pairs import is_among


class Links(NamedTuple):
    """What compiled loops know of each pair.

    Attributes
    ----------
    i, j : (nl,) bodies; j may be a wall, i is a sphere.
    wall : (nl,) whether j is a wall; normal (nl, 3), out of the wall, else zero.
    reach : (nl,) distance of centres, or height, at which they touch, m.
    k : (nl,) N/m^(p−1); of a bond N/m.
    bonded : (nl,) whether the spring also pulls.
    c_n, c_t : (nl,) γ_n m_eff and γ_t m_eff, kg/s.
    """

    i: IntArray
    j: IntArray
    wall: BoolArray
    normal: FloatArray
    reach: FloatArray
    k: FloatArray
    bonded: BoolArray
    c_n: FloatArray
    c_t: FloatArray


def links(scene: Scene, x: FloatArray, normal: FloatArray, skin: float) -> Links:
    """All links of a scene with gaps up to ``skin`` m.

    Parameters
    ----------
    x : (nb, 3) places of centres, or of a point of a wall, m.
    normal : (nb, 3) out of each wall, zero for spheres.
    """
    b = scene.bodies
    is_wall = np.asarray(normal.any(axis=1))
    near = near_pairs(x[:, : scene.dim], b.reach, b.fixed, skin)
    against = _against_walls(scene, x, normal, skin)
    pairs = np.unique(np.concatenate([near, against, scene.bonds]), axis=0)
    bonded = is_among(pairs, scene.bonds)
    mass = effective_mass(scene, pairs)
    k = contact_stiffness(scene, pairs)
    swap = is_wall[pairs[:, 0]]
    i = np.where(swap, pairs[:, 1], pairs[:, 0])
    j = np.where(swap, pairs[:, 0], pairs[:, 1])
    wall = is_wall[j]
    return Links(
        i=i,
        j=j,
        wall=wall,
        normal=np.ascontiguousarray(normal[j]),
        reach=b.reach[i] + np.where(wall, 0.0, b.reach[j]),
        k=np.ascontiguousarray(k, dtype=np.float64),
        bonded=bonded,
        c_n=scene.damping * mass,
        c_t=scene.gamma_t * mass,
    )


def _against_walls(scene: Scene, x: FloatArray, normal: FloatArray, skin: float) -> IntArray:
    """Pairs (n, 2) of free spheres with walls within ``skin``."""
    pairs = unbounded_pairs(scene.bodies.reach, scene.bodies.fixed)
    is_wall = np.asarray(normal.any(axis=1))
    swap = is_wall[pairs[:, 0]]
    sphere = np.where(swap, pairs[:, 1], pairs[:, 0])
    wall = np.where(swap, pairs[:, 0], pairs[:, 1])
    height = ((x[sphere] - x[wall]) * normal[wall]).sum(axis=1)
    return np.asarray(pairs[height - scene.bodies.reach[sphere] <= skin])
