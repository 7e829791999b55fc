"""Broad phase: pairs of bodies whose bounding spheres are near each other.

Spheres are searched by classes of radius, each within a factor of two, so that a few large
bodies do not widen the search of the many small ones.
"""

from __future__ import annotations

import numpy as np
from scipy.spatial import cKDTree

from cdopt._util.checks import BoolArray, FloatArray, IntArray
from cdopt._util.errors import InvalidInput
from cdopt.geometry.periodic import PeriodicBox

ROUND_OFF = 1e-12  # of a radius: round-off must not hide a pair

_MAX_PAIRS = 4_000_000  # about 100 bytes each during the search
_MAX_PAIRS_PER_BODY = 100
_MAX_WALL_PAIRS = 20_000_000


def near_pairs(
    position: FloatArray,
    radius: FloatArray,
    fixed: BoolArray,
    margin: float,
    box: PeriodicBox | None = None,
    t: float = 0.0,
) -> IntArray:
    """Pairs (np, 2), i < j, of bodies whose bounding spheres are at most ``margin`` m apart.

    Bodies of infinite radius, and pairs of two fixed (nb,) ones, are left out; in a ``box`` images
    count as well. More pairs than bodies that are apart can make are refused before any is listed.
    """
    if box is None:
        return _near_pairs(position, radius, fixed, margin)
    bounded = np.flatnonzero(np.isfinite(radius))
    if not bounded.size:
        return np.empty((0, 2), dtype=np.int64)
    wide = float(2.0 * radius[bounded].max() + margin)
    sides = box.cell(t).diagonal()[box.repeats]
    if sides.min() <= 2.0 * wide:  # two images of a body could touch the same other one
        found = f"{sides.min():.6g} m at t = {t:g} s"
        raise InvalidInput("box", found, f"more than two diameters and margins, {2 * wide:.6g}")
    x, who = box.copies(position[bounded], wide, t)
    who = bounded[who]
    pairs = _near_pairs(x, radius[who], fixed[who], margin)
    pairs = who[pairs[(pairs < bounded.size).any(axis=1)]]  # those of two copies come again
    return np.unique(np.sort(pairs[pairs[:, 0] != pairs[:, 1]], axis=1), axis=0)


def _near_pairs(
    position: FloatArray, radius: FloatArray, fixed: BoolArray, margin: float
) -> IntArray:
    """``near_pairs`` without a box."""
    bounded = np.flatnonzero(np.isfinite(radius))
    if bounded.size < 2:
        return np.empty((0, 2), dtype=np.int64)
    smallest, largest = radius[bounded].min(), radius[bounded].max()
    margin = margin * (1.0 + ROUND_OFF) + ROUND_OFF * float(largest)
    octave = np.floor(np.log2(radius[bounded] / smallest)).astype(np.int64)
    classes = [bounded[octave == level] for level in np.unique(octave)]
    trees = [cKDTree(position[members]) for members in classes]
    reach = [float(radius[members].max()) for members in classes]
    _require_few(position, radius, margin, classes, trees)
    listed = []
    for a, tree in enumerate(trees):
        same = tree.query_pairs(2.0 * reach[a] + margin, output_type="ndarray")
        listed.append(classes[a][same])
        for b in range(a):
            distance = reach[a] + reach[b] + margin
            across = tree.sparse_distance_matrix(trees[b], distance, output_type="ndarray")
            listed.append(np.column_stack([classes[a][across["i"]], classes[b][across["j"]]]))
    pairs = np.sort(np.concatenate(listed), axis=1).astype(np.int64)
    i, j = pairs.T
    gap = np.linalg.norm(position[j] - position[i], axis=1) - radius[i] - radius[j]
    return np.asarray(pairs[(gap <= margin) & ~(fixed[i] & fixed[j])])


def unbounded_pairs(radius: FloatArray, fixed: BoolArray) -> IntArray:
    """Pairs (np, 2), i < j, of every unbounded body, of infinite radius, with every free body."""
    walls, free = np.flatnonzero(~np.isfinite(radius)), np.flatnonzero(~fixed)
    if walls.size * free.size > _MAX_WALL_PAIRS:
        found = f"{walls.size} unbounded and {free.size} free bodies, all near each other"
        raise InvalidInput("bodies", found, f"at most {_MAX_WALL_PAIRS} pairs of them")
    pairs = np.stack(np.meshgrid(walls, free, indexing="ij"), axis=-1).reshape(-1, 2)
    return np.sort(pairs, axis=1).astype(np.int64)


def _require_few(
    position: FloatArray,
    radius: FloatArray,
    margin: float,
    classes: list[IntArray],
    trees: list[cKDTree],
) -> None:
    """Refuse more pairs than bodies that are apart can make, before any is listed."""
    count = sum(members.size for members in classes)
    limit = max(_MAX_PAIRS, _MAX_PAIRS_PER_BODY * count)
    if count * (count - 1) // 2 <= limit:
        return
    reach = [float(radius[members].max()) for members in classes]
    pairs = 0
    for a, tree in enumerate(trees):
        pairs += (int(tree.count_neighbors(tree, 2.0 * reach[a] + margin)) - tree.n) // 2
        for b in range(a):
            pairs += int(tree.count_neighbors(trees[b], reach[a] + reach[b] + margin))
    if pairs <= limit:
        return
    k = max(range(len(trees)), key=lambda a: trees[a].n)
    i, j = (int(body) for body in classes[k][trees[k].query(position[classes[k][0]], 2)[1]])
    overlap = radius[i] + radius[j] - float(np.linalg.norm(position[j] - position[i]))
    raise InvalidInput(
        f"bodies[{max(i, j)}].position",
        f"{pairs:,} pairs of {count:,} bodies, bounding spheres within {margin:.3g} m of each other"
        + (": these overlap" if overlap > 0.0 else "")
        + f", such as bodies[{min(i, j)}] and bodies[{max(i, j)}]",
        f"at most {limit} pairs: bodies that start apart, radii in the unit of the positions, "
        "a step short enough for the velocities",
    )
