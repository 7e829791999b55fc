"""Contact points of many pairs of convex pieces, from compiled loops."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from cdopt._util.checks import FloatArray, IntArray
from cdopt.geometry.found import Found
from cdopt.geometry.hulls import Hulls
from cdopt.geometry.touching import find_points

_ROOM = 4  # contact points a pair that are made room for at first


class Points(NamedTuple):
    """Contact points of pairs.

    pair : (n,) numbers of the pairs. labels : (n, 2) corner, edge or face of either body.
    gap : (n,) m. normals : (n, dim) from first to second. places : (n, dim) m, halfway across.
    """

    pair: IntArray
    labels: IntArray
    gap: FloatArray
    normals: FloatArray
    places: FloatArray


def contact_points(
    hulls: Hulls, pairs: IntArray, position: FloatArray, turn: FloatArray, margin: FloatArray
) -> Points:
    """Contact points with gaps up to ``margin`` (m,) m, of pairs (m, 2) of pieces.

    Parameters
    ----------
    pairs : those of the same two bodies one after another.
    position : (nb, dim) of bodies, m. turn : (nb, dim, dim) rotation matrices.
    """
    dim = position.shape[1]
    x, normals = hulls.placed(position, turn)
    if dim == 2:
        x, normals = (np.column_stack([table, np.zeros(len(table))]) for table in (x, normals))
    own = hulls.body[pairs]
    fresh = np.append(True, (own[1:] != own[:-1]).any(axis=1))[: len(pairs)]
    room = 64 + _ROOM * len(pairs)
    while True:
        found = _room(room)
        find_points(np.ascontiguousarray(pairs), fresh, hulls.network, x, normals, margin, found)
        count = int(found.tally[0])
        if count <= room:
            break
        room = count
    return Points(
        found.pair[:count], found.labels[:count], found.gap[:count], found.normal[:count, :dim],
        found.place[:count, :dim],
    )  # fmt: skip


def _room(size: int) -> Found:
    return Found(
        tally=np.zeros(3, dtype=np.int64),
        pair=np.zeros(size, dtype=np.int64),
        labels=np.zeros((size, 2), dtype=np.int64),
        gap=np.zeros(size),
        normal=np.zeros((size, 3)),
        place=np.zeros((size, 3)),
    )
