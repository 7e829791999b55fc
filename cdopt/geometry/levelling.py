"""Blocks whose coordinates have few digits, moved to where their faces are planar and meet.

Corners that coincide within the accuracy of the coordinates become one node, and faces that lie in
one plane within it share that plane. The nodes then move as little as they can, so that each is in
all of its planes: min ‖dx‖ over n_k·(x_v + dx_v) = c_k, by Gauss–Newton in the nodes and planes.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import scipy.sparse as sp
from scipy.sparse.csgraph import connected_components
from scipy.sparse.linalg import lsqr
from scipy.spatial import cKDTree

from cdopt._util.checks import FloatArray, IntArray, read_only
from cdopt.geometry.blocks import Block, near_faces

_PARALLEL = np.cos(0.2)  # faces at a larger angle are not in one plane
_EXACT = 1e-12  # of the size of all blocks: planes count as met
_STEPS = 20
_FAR = 4.0  # tolerances that a corner may move


def levelled(blocks: Sequence[Block], tol: float) -> list[Block]:
    """The blocks with their corners moved by at most a few ``tol`` in m.

    Faces are then planar, and those of different blocks that lay on each other within ``tol`` do so
    to round-off. If no such small motion exists, the blocks are returned unchanged.
    """
    if not blocks:
        return []
    node, x = _nodes(blocks, tol)
    first = np.cumsum([0, *(len(block.vertices) for block in blocks)])
    loops = [node[first[k] + loop] for k, block in enumerate(blocks) for loop in block.faces]
    planes = [nodes for nodes in _planes(blocks, loops, x, tol) if len(nodes) > 3]
    moved = _flattened(x, planes)
    if moved is None or np.linalg.norm(moved - x, axis=1).max() > _FAR * tol:
        return list(blocks)
    places = moved[node]
    return [
        Block(block.name, read_only(places[a : a + len(block.vertices)]), block.faces, block.tol)
        for block, a in zip(blocks, first[:-1].tolist(), strict=True)
    ]


def _nodes(blocks: Sequence[Block], tol: float) -> tuple[IntArray, FloatArray]:
    """The node of each corner, and the nodes' places (n, 3), means of their corners."""
    corners = np.concatenate([block.vertices for block in blocks])
    owner = np.repeat(np.arange(len(blocks)), [len(block.vertices) for block in blocks])
    pairs = cKDTree(corners).query_pairs(tol, output_type="ndarray")
    pairs = pairs[owner[pairs[:, 0]] != owner[pairs[:, 1]]]
    graph = sp.coo_array((np.ones(len(pairs)), pairs.T), shape=(len(corners),) * 2)
    many, node = connected_components(graph.tocsr(), directed=False)
    twice = np.unique(np.column_stack([node, owner]), axis=0, return_counts=True)
    doubled = np.isin(node, twice[0][twice[1] > 1, 0])  # two corners of one block stay apart
    node[doubled] = many + np.arange(int(doubled.sum()))
    _, node = np.unique(node, return_inverse=True)
    count = np.bincount(node)
    return node, np.column_stack([np.bincount(node, c) / count for c in corners.T])


def _planes(
    blocks: Sequence[Block], loops: Sequence[IntArray], x: FloatArray, tol: float
) -> list[IntArray]:
    """Nodes of each plane: faces that touch and lie in one plane within ``tol``."""
    root = list(range(len(loops)))
    nodes = {k: np.unique(loop) for k, loop in enumerate(loops)}
    for a, b in near_faces(blocks, tol, _PARALLEL):
        while root[a] != a:
            a = root[a]
        while root[b] != b:
            b = root[b]
        if a != b:
            both = np.union1d(nodes[a], nodes[b])
            if np.abs(_plane(x[both])[2]).max() <= tol:
                root[b] = a
                nodes[a] = both
                del nodes[b]
    return list(nodes.values())


def _plane(points: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Centre, axes (3, 3) of the best plane, its normal last, and heights (n,) above it."""
    centre = points.mean(axis=0)
    axes = np.linalg.svd(points - centre, full_matrices=False)[2]
    return centre, axes, (points - centre) @ axes[2]


def _flattened(x: FloatArray, planes: Sequence[IntArray]) -> FloatArray | None:
    """The nodes, moved into their planes; None if that does not succeed."""
    size = float(np.ptp(x, axis=0).max())
    row = np.repeat(np.arange(sum(map(len, planes))), 3)
    nodes = np.concatenate([np.zeros(0, dtype=np.int64), *planes])
    of = np.repeat(np.arange(len(planes)), [len(plane) for plane in planes])
    columns = np.concatenate(
        [
            (3 * nodes[:, None] + np.arange(3)).ravel(),
            3 * len(x) + (3 * of[:, None] + np.arange(3)).ravel(),
        ]
    )
    rows = np.concatenate([row, row])
    shape = (len(nodes), 3 * (len(x) + len(planes)))
    last = np.inf
    for _ in range(_STEPS):
        heights, by_node, by_plane = [np.zeros(0)], [np.zeros((0, 3))], [np.zeros((0, 3))]
        for plane in planes:
            centre, axes, height = _plane(x[plane])
            arms = (x[plane] - centre) @ axes[:2].T
            arms /= np.abs(arms).max()
            heights.append(height)
            by_node.append(np.broadcast_to(axes[2], (len(plane), 3)))
            by_plane.append(np.column_stack([arms, np.ones(len(plane))]))
        off = np.concatenate(heights)
        worst = float(np.abs(off).max(initial=0.0))
        if not worst < 0.5 * last:  # as near as round-off permits
            return x if worst <= _EXACT * size else None
        last = worst
        entries = np.concatenate([*by_node, *by_plane]).ravel()
        system = sp.csr_array(sp.coo_array((entries, (rows, columns)), shape=shape))
        change = lsqr(system, -off, atol=1e-14, btol=1e-14, iter_lim=4 * len(off) + 100)[0]
        x = x + change[: 3 * len(x)].reshape(-1, 3)
    return None
