"""Broad phase: pairs of bodies that are near each other, by bounding spheres.

Spheres are searched by classes of radius, each within a factor of two, so that a few large
bodies do not widen the search of the many small ones.
"""

from __future__ import annotations

import numpy as np
from scipy.spatial import cKDTree

from cdopt._util.checks import FloatArray, IntArray
from cdopt._util.errors import InvalidInput
from cdopt.scene.bodies import Bodies

_PAIRS = 4_000_000  # about 100 bytes each while they are looked at
_PAIRS_PER_BODY = 100
_WALL_PAIRS = 20_000_000
_SLACK = 1e-12  # round-off must not hide a pair


def near_pairs(bodies: Bodies, position: FloatArray, margin: float) -> IntArray:
    """Pairs of bounded bodies whose bounding spheres are at most ``margin`` m apart.

    Parameters
    ----------
    position : (nb, dim) m.

    Returns
    -------
    (np, 2) with i < j, in no particular order; pairs of fixed bodies are left out.

    Raises
    ------
    InvalidInput : so many bodies are near each other that they cannot all be apart: more than
        four million pairs, and more than a hundred for each body. Counted before they are listed.
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
    _require_few(bodies, position, margin, classes, trees)
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


def _require_few(
    bodies: Bodies, position: FloatArray, margin: float, classes: list[IntArray],
    trees: list[cKDTree],
) -> None:  # fmt: skip
    """Refuse more pairs than bodies that are apart can make, before any is listed."""
    count = sum(members.size for members in classes)
    limit = max(_PAIRS, _PAIRS_PER_BODY * count)
    if count * (count - 1) // 2 <= limit:
        return
    largest = [float(bodies.reach[members].max()) for members in classes]
    pairs = 0
    for a, tree in enumerate(trees):
        pairs += (int(tree.count_neighbors(tree, 2.0 * largest[a] + margin)) - tree.n) // 2
        for b in range(a):
            pairs += int(tree.count_neighbors(trees[b], largest[a] + largest[b] + margin))
    if pairs <= limit:
        return
    k = max(range(len(trees)), key=lambda a: trees[a].n)
    i, j = (int(body) for body in classes[k][trees[k].query(position[classes[k][0]], 2)[1]])
    inside = bodies.reach[i] + bodies.reach[j] - float(np.linalg.norm(position[j] - position[i]))
    raise InvalidInput(
        f"bodies[{max(i, j)}].position",
        f"{pairs} pairs of {count} bodies within {margin:.3g} m of each other's bounding spheres"
        + (": these overlap" if inside > 0.0 else "")
        + f", such as bodies[{min(i, j)}] and bodies[{max(i, j)}]",
        f"at most {limit} pairs: bodies that start apart, radii in the unit of the positions, "
        "a step short enough for the velocities",
    )


def unbounded_pairs(bodies: Bodies) -> IntArray:
    """Pairs (np, 2), i < j, of every unbounded body with every free body.

    Raises
    ------
    InvalidInput : more than twenty million pairs.
    """
    walls = np.flatnonzero(~np.isfinite(bodies.reach))
    free = np.flatnonzero(~bodies.fixed)
    if walls.size * free.size > _WALL_PAIRS:
        found = f"{walls.size} unbounded and {free.size} free bodies, all near each other"
        raise InvalidInput("bodies", found, f"at most {_WALL_PAIRS} pairs of them")
    pairs = np.stack(np.meshgrid(walls, free, indexing="ij"), axis=-1).reshape(-1, 2)
    return np.sort(pairs, axis=1).astype(np.int64)
