"""Hit-and-run in a polytope, compiled.

From a point inside, a direction is drawn, and then a point uniformly on the chord through it:
the uniform distribution over the polytope stays as it is. Smith, Operations Research 32 (1984);
Lovász, Mathematical Programming 86 (1999). Directions are the axes, which cost one column each,
and one from the sphere after as many as there are axes, which leads out of corners.
"""

from __future__ import annotations

import numpy as np

from cdopt._util.checks import FloatArray
from cdopt._util.compiled import compiled, part

_NOTHING = 1e-200  # a force of zero, to divide by


@compiled()
def walk(
    centre: FloatArray,
    columns: FloatArray,
    y: FloatArray,
    draws: int,
    thin: int,
    rng: np.random.Generator,
) -> FloatArray:
    """Points y (draws, k) of one chain in {y : centre + columnsᵀ y ≥ 0}.

    Parameters
    ----------
    centre : (n,) positive. columns : (k, n), how each coordinate changes the forces.
    y : (k,) where it starts, overwritten by where it ends.
    draws : points that are kept. thin : sweeps of k + 1 directions before each.
    """
    k, n = columns.shape
    kept = np.empty((draws, k))
    f, along, turn = np.empty(n), np.empty(n), np.empty(k)
    for draw in range(draws):
        for _ in range(thin):
            _combined(centre, columns, y, f)
            for _ in range(k):
                axis = min(int(rng.random() * k), k - 1)
                t = _chord(f, columns[axis], rng.random())
                y[axis] += t
                _add(f, t, columns[axis])
            for axis in range(k):
                turn[axis] = rng.standard_normal()
            _combined(np.zeros(n), columns, turn, along)
            _add(y, _chord(f, along, rng.random()), turn)
        kept[draw] = y
    return kept


@part()
def _combined(start: FloatArray, columns: FloatArray, y: FloatArray, f: FloatArray) -> None:
    """f = start + columnsᵀ y, anew, so that no round-off gathers."""
    f[:] = start
    for axis in range(y.size):
        _add(f, y[axis], columns[axis])


@part()
def _add(f: FloatArray, t: float, along: FloatArray) -> None:
    """f += t · along, in place."""
    for i in range(f.size):
        f[i] += t * along[i]


@part(fastmath={"nnan", "nsz", "reassoc"})
def _chord(f: FloatArray, along: FloatArray, place: float) -> float:
    """The step to ``place`` in [0, 1] of the chord f + t · along ≥ 0; none where it is no chord."""
    up, down = 0.0, 0.0  # the fastest that a force grows and falls, relative to itself
    for i in range(f.size):
        rate = along[i] / max(f[i], _NOTHING)
        up, down = max(up, rate), min(down, rate)
    if up == 0.0 or down == 0.0:
        return 0.0
    low, high = -1.0 / up, -1.0 / down
    return low + place * (high - low)
