"""Solids in space on paper: the faces that are seen, from the back to the front."""

from __future__ import annotations

import heapq
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from scipy.spatial import ConvexHull

from cdopt._util.checks import BoolArray, FloatArray, IntArray
from cdopt.geometry.rotations import unit
from cdopt.plots.camera import Camera
from cdopt.plots.meshes import Meshes
from cdopt.scene import State

_LIGHT = np.array([-0.37, -0.56, 0.74])  # where light comes from
_ROUND = 0.6  # light on round pieces, which have one shade
_DEEP = 0.02  # of its extent: how far a piece may reach behind a face and still be before it


class Face(NamedTuple):
    """What is seen of a solid: ``ring`` (n, 2) m on paper, anticlockwise.

    ``light`` from 0 to 1 is how far it is turned to the light. ``body`` is whose it is.
    """

    ring: FloatArray
    light: float
    body: int


class _Piece(NamedTuple):
    """A convex piece: corners (n, 3), and of its faces normals, offsets and whether seen."""

    corners: FloatArray
    normals: FloatArray
    offsets: FloatArray
    seen: BoolArray
    shown: list[Face]


def painted(meshes: Meshes, state: State, camera: Camera) -> list[Face]:
    """The flat faces that look at the reader, and silhouettes of round pieces; farthest first.

    A piece covers another if a plane of a face says so, and else if it is nearer in the mean.
    """
    corners = meshes.placed(state)
    flat, near, _ = camera.place(corners)
    rings = meshes.faces(flat)
    a, b, c = (meshes.loops[meshes.first_loop[:-1] + k] for k in range(3))
    normals = unit(np.cross(corners[b] - corners[a], corners[c] - corners[a]))
    offsets = (normals * corners[a]).sum(axis=1)
    arm, leg = flat[b] - flat[a], flat[c] - flat[a]
    seen = arm[:, 0] * leg[:, 1] > arm[:, 1] * leg[:, 0]  # anticlockwise on paper too
    light = 0.5 + 0.5 * normals @ _LIGHT
    starts = np.append(meshes.outlines, meshes.piece.size).tolist()
    pieces, boxes, mean = [], [], []
    for number, (first, end) in enumerate(pairwise(starts)):
        body, part = int(meshes.piece_body[number]), slice(first, end)
        own = np.unique(meshes.loops[meshes.first_loop[first] : meshes.first_loop[end]])
        if meshes.smooth[first]:
            shown = [Face(flat[own][ConvexHull(flat[own]).vertices], _ROUND, body)]
        else:
            shown = [Face(rings[first + k], float(light[first + k]), body)
                     for k in np.flatnonzero(seen[part])]  # fmt: skip
        pieces.append(_Piece(corners[own], normals[part], offsets[part], seen[part], shown))
        boxes.append((flat[own].min(axis=0), flat[own].max(axis=0)))
        mean.append(float(near[own].mean()))
    order = _order(pieces, np.array(boxes).reshape(-1, 2, 2), mean)
    return [face for k in order for face in pieces[k].shown]


def _order(pieces: list[_Piece], boxes: FloatArray, mean: list[float]) -> list[int]:
    """Pieces so that none comes before one that it covers; in a circle the farthest first."""
    above: list[list[int]] = [[] for _ in pieces]
    below = [0] * len(pieces)
    for a, b in _beside(boxes).tolist():
        front = _front(pieces[a], pieces[b])
        if front == 0:
            front = 1 if mean[b] > mean[a] else -1
        under, over = (a, b) if front > 0 else (b, a)
        above[under].append(over)
        below[over] += 1
    ready = [(mean[k], k) for k in range(len(pieces)) if below[k] == 0]
    heapq.heapify(ready)
    left = set(range(len(pieces)))
    order = []
    while left:
        k = heapq.heappop(ready)[1] if ready else min(left, key=lambda one: mean[one])
        if k not in left:
            continue
        left.remove(k)
        order.append(k)
        for over in above[k]:
            below[over] -= 1
            if below[over] == 0:
                heapq.heappush(ready, (mean[over], over))
    return order


def _beside(boxes: FloatArray) -> IntArray:
    """(n, 2) pairs a < b of boxes (np, 2, 2) on paper that overlap."""
    low, high = boxes[:, 0], boxes[:, 1]
    found = [
        np.column_stack([np.full(later.size, k), later])
        for k in range(len(boxes))
        for later in [k + 1 + np.flatnonzero(
            ((low[k + 1 :] < high[k]) & (high[k + 1 :] > low[k])).all(axis=1)
        )]
    ]  # fmt: skip
    return np.concatenate([*found, np.empty((0, 2), dtype=np.int64)])


def _front(a: _Piece, b: _Piece) -> int:
    """1 if b may cover a, −1 if a may cover b, 0 if no face's plane parts them."""
    best, answer = 0.0, 0
    for own, other, sign in ((a, b, 1), (b, a, -1)):
        along = other.corners @ own.normals.T
        lowest = along.min(axis=0)
        height = (lowest - own.offsets) / (along.max(axis=0) - lowest)
        face = int(height.argmax())
        if answer == 0 or height[face] > best:
            best, answer = float(height[face]), sign if own.seen[face] else -sign
    return answer if best > -_DEEP else 0
