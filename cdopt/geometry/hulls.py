"""All convex pieces of many bodies in flat arrays, as compiled loops need them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain
from typing import NamedTuple

import numpy as np

from cdopt._util.checks import FloatArray, IntArray
from cdopt._util.errors import InvalidInput
from cdopt._util.frozen import Frozen
from cdopt.geometry.polytope import LABELS, Polytope


class Piece(NamedTuple):
    """A convex polytope about its body's centre, with ``radius`` m of roundness around it."""

    solid: Polytope
    radius: float


class Topology(NamedTuple):
    """Corners, edges and faces of all pieces, numbered over all pieces.

    first_* : (np + 1,) where each piece begins. loop : corners of the faces one after another,
    from first_loop (nf + 1,). edges, edge_faces : (ne, 2), faces −1 for none. *_label : feature
    ids, unique within a body. radius, size : (np,) roundness and extent, m.
    """

    first_vertex: IntArray
    first_face: IntArray
    first_edge: IntArray
    first_loop: IntArray
    loop: IntArray
    edges: IntArray
    edge_faces: IntArray
    vertex_label: IntArray
    edge_label: IntArray
    face_label: IntArray
    radius: FloatArray
    size: FloatArray


@dataclass(frozen=True, eq=False)
class Hulls(Frozen):
    """Convex pieces of bodies, in the order of the bodies."""

    body: IntArray  # (np,) the body of each piece
    first_piece: IntArray  # (nb + 1,) the pieces of each body
    # vertex_body, face_body: (nv,), (nf,)
    vertex_body: IntArray
    face_body: IntArray
    vertices: FloatArray  # (nv, dim) about the body's centre, in its frame, m
    normals: FloatArray  # (nf, dim)
    # centre, reach: (np, dim), (np,) bounding spheres of the pieces, m
    centre: FloatArray
    reach: FloatArray
    topology: Topology  # corners, edges and faces by number

    @staticmethod
    def of(pieces: Sequence[Sequence[Piece]], dim: int) -> Hulls:
        """From the pieces of every body; bodies without bounds have none."""
        flat = list(chain(*pieces))
        counts = np.array([len(of_body) for of_body in pieces], dtype=np.int64)
        body = np.repeat(np.arange(counts.size), counts)
        solids, radius = [p.solid for p in flat], np.array([p.radius for p in flat])
        first_vertex, first_face, first_edge = (
            _firsts([len(getattr(s, name)) for s in solids])
            for name in ("vertices", "loops", "edges")
        )
        vertex_label, edge_label, face_label = _labels(pieces)
        starts = np.repeat(first_vertex[:-1], [sum(map(len, s.loops)) for s in solids])
        middles = [0.5 * (s.vertices.min(0) + s.vertices.max(0)) for s in solids]
        reach = [
            np.linalg.norm(solid.vertices - middle, axis=1).max()
            for solid, middle in zip(solids, middles, strict=True)
        ]
        topology = Topology(
            first_vertex=first_vertex,
            first_face=first_face,
            first_edge=first_edge,
            first_loop=_firsts([len(loop) for s in solids for loop in s.loops]),
            loop=starts + np.array([k for s in solids for loop in s.loops for k in loop], np.int64),
            edges=_shifted([s.edges for s in solids], first_vertex),
            edge_faces=_shifted([s.edge_faces for s in solids], first_face),
            vertex_label=vertex_label,
            edge_label=edge_label,
            face_label=face_label,
            radius=radius,
            size=np.array([np.ptp(s.vertices, axis=0).max() for s in solids]) + radius,
        )
        return Hulls(
            body=body,
            first_piece=_firsts(counts),
            vertex_body=np.repeat(body, np.diff(first_vertex)),
            face_body=np.repeat(body, np.diff(first_face)),
            vertices=np.concatenate([*(s.vertices for s in solids), np.empty((0, dim))]),
            normals=np.concatenate([*(s.normals for s in solids), np.empty((0, dim))]),
            centre=np.array(middles).reshape(len(solids), dim),
            reach=np.array(reach).reshape(len(solids)) + radius,
            topology=topology,
        )

    def placed(self, position: FloatArray, rotation: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Corners (nv, dim), m, and normals (nf, dim) in the global frame."""
        x = position[self.vertex_body]
        x = x + np.einsum("nij,nj->ni", rotation[self.vertex_body], self.vertices)
        return x, np.einsum("nij,nj->ni", rotation[self.face_body], self.normals)

    def pairs(
        self, pairs: IntArray, position: FloatArray, rotation: FloatArray, margin: FloatArray
    ) -> tuple[IntArray, FloatArray]:
        """Pairs (n, 2) of pieces of pairs (m, 2) of bodies within margins, and these."""
        count = np.diff(self.first_piece)[pairs]
        many = count.prod(axis=1)
        which = np.repeat(np.arange(pairs.shape[0]), many)
        rank = np.arange(which.size) - np.repeat(np.cumsum(many) - many, many)
        a = self.first_piece[pairs[which, 0]] + rank // count[which, 1]
        b = self.first_piece[pairs[which, 1]] + rank % count[which, 1]
        middle = position[self.body] + np.einsum("nij,nj->ni", rotation[self.body], self.centre)
        apart = np.linalg.norm(middle[b] - middle[a], axis=1) - self.reach[a] - self.reach[b]
        near = apart <= margin[which] + 1e-12 * (self.reach[a] + self.reach[b])
        return np.column_stack([a[near], b[near]]), margin[which[near]]


def _labels(pieces: Sequence[Sequence[Piece]]) -> list[IntArray]:
    """Feature ids of corners, edges and faces; in a body the corners of all pieces come first."""
    labels: tuple[list[int], ...] = ([], [], [])
    for body, of_body in enumerate(pieces):
        begin = 0
        for ids, name in zip(labels, ("vertices", "edges", "loops"), strict=True):
            count = sum(len(getattr(piece.solid, name)) for piece in of_body)
            ids.extend(range(begin, begin + count))
            begin += count
        if begin > LABELS:
            where, found = f"bodies[{body}].shape", f"{begin} corners, edges and faces"
            raise InvalidInput(where, found, f"{LABELS} at most")
    return [np.array(ids, dtype=np.int64) for ids in labels]


def _firsts(counts: Sequence[int] | IntArray) -> IntArray:
    return np.append(0, np.cumsum(np.asarray(counts, dtype=np.int64))).astype(np.int64)


def _shifted(tables: Sequence[IntArray], first: IntArray) -> IntArray:
    """Numbers within pieces as numbers over all; −1 stays."""
    parts = [np.where(t < 0, t, t + k) for t, k in zip(tables, first, strict=False)]
    return np.concatenate([*parts, np.empty((0, 2), dtype=np.int64)])
