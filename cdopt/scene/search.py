"""Broad phase: pairs of bodies that are near each other, by bounding spheres.

Spheres are searched by classes of radius, each within a factor of two, so that a few large
bodies do not widen the search of the many small ones.
"""

from __future__ import annotations

import numpy as np
from scipy.spatial import cKDTree

from cdopt.checks import FloatArray, IntArray
from cdopt.scene.bodies import Bodies

_SLACK = 1e-12  # round-off must not hide a pair


def near_pairs(bodies: Bodies, position: FloatArray, margin: float) -> IntArray:
    """Pairs of bounded bodies whose bounding spheres are at most ``margin`` m apart.

    Parameters
    ----------
    position : (nb, dim) m.

    Returns
    -------
    (np, 2) with i < j, in no particular order; pairs of fixed bodies are left out.
    """
    bounded = np.flatnonzero(np.isfinite(bodies.reach))
    if bounded.size < 2:
        return np.empty((0, 2), dtype=np.int64)
    reach = bodies.reach[bounded]
    margin = margin * (1.0 + _SLACK) + _SLACK * float(reach.max())
    octave = np.floor(np.log2(reach / reach.min())).astype(np.int64)
    classes = [bounded[octave == level] for level in np.unique(octave)]
    trees = [cKDTree(position[members]) for members in classes]
    largest = [bodies.reach[members].max() for members in classes]
    found = []
    for a, tree in enumerate(trees):
        same = tree.query_pairs(2.0 * largest[a] + margin, output_type="ndarray")
        found.append(classes[a][same])
        for b in range(a):
            distance = largest[a] + largest[b] + margin
            across = tree.sparse_distance_matrix(trees[b], distance, output_type="ndarray")
            found.append(np.column_stack([classes[a][across["i"]], classes[b][across["j"]]]))
    pairs = np.sort(np.concatenate(found), axis=1).astype(np.int64)
    i, j = pairs.T
    gap = np.linalg.norm(position[j] - position[i], axis=1) - bodies.reach[i] - bodies.reach[j]
    return np.asarray(pairs[(gap <= margin) & ~(bodies.fixed[i] & bodies.fixed[j])])


def unbounded_pairs(bodies: Bodies) -> IntArray:
    """Pairs (np, 2), i < j, of every unbounded body with every free body."""
    walls = np.flatnonzero(~np.isfinite(bodies.reach))
    free = np.flatnonzero(~bodies.fixed)
    pairs = np.stack(np.meshgrid(walls, free, indexing="ij"), axis=-1).reshape(-1, 2)
    return np.sort(pairs, axis=1).astype(np.int64)
