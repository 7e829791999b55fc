"""Bonds: pairs of spheres that all but touch at the start and stay tied by a two-sided spring."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from cdopt._util.checks import BoolArray, FloatArray, IntArray
from cdopt.scene.bodies import Bodies
from cdopt.scene.search import near_pairs
from cdopt.scene.shapes import SHAPES, Sphere

BOND_REACH = 0.01  # of the mean diameter


def bonded_pairs(bodies: Bodies, position: FloatArray, reach: float) -> IntArray:
    """Pairs of spheres, at least one of them free, with |δ| < reach · d.

    Parameters
    ----------
    position : (nb, dim) m.
    reach : share of d = r_i + r_j, the mean diameter of the two; δ = d − |x_i − x_j|.

    Returns
    -------
    (n, 2) with i < j, in lexicographic order.

    Notes
    -----
    De Klerk et al. (2021), section 3.3.
    """
    # with radii this much larger, the spheres that may be bonded are those that overlap
    wide = replace(bodies, reach=bodies.reach * (1.0 + reach))
    pairs = near_pairs(wide, position, 0.0)
    spheres = (bodies.kind[pairs] == SHAPES.index(Sphere)).all(axis=1)
    i, j = pairs[spheres].T
    d = bodies.reach[i] + bodies.reach[j]
    overlap = d - np.linalg.norm(position[j] - position[i], axis=1)
    tied = np.abs(overlap) < reach * d
    i, j = i[tied], j[tied]
    order = np.lexsort((j, i))
    return np.column_stack([i[order], j[order]])


def among(pairs: IntArray, bonds: IntArray) -> BoolArray:
    """(n,) which of these pairs (n, 2), i < j, are bonds (m, 2)."""
    base = 1 + max(int(pairs.max(initial=0)), int(bonds.max(initial=0)))
    return np.isin(pairs[:, 0] * base + pairs[:, 1], bonds[:, 0] * base + bonds[:, 1])
