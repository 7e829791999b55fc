"""Block models made here: a dome, a cross vault, a façade, a leaning wall; written as OBJ."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import numpy as np

BOX = ((0, 2, 3, 1), (4, 5, 7, 6), (0, 1, 5, 4), (2, 6, 7, 3), (0, 4, 6, 2), (1, 3, 7, 5))
Model = dict[str, np.ndarray]  # corners by name: (8, 3) in the order of BOX, else of a frustum


def hexahedron(corner) -> np.ndarray:
    """Corners of a block in three parameters, each 0 or 1, the last one fastest."""
    return np.array([corner(i, j, k) for i in (0, 1) for j in (0, 1) for k in (0, 1)], dtype=float)


def box(low, high) -> np.ndarray:
    ends = np.array([low, high], dtype=float)
    return hexahedron(lambda i, j, k: (ends[i, 0], ends[j, 1], ends[k, 2]))


def dome(
    rings=8, sectors=24, radius=5.0, thickness=0.5, oculus=12.0, turn=0.1, offset=0.0, crown=False
) -> Model:
    """A dome of aligned joints on a ring of fixed blocks.

    Half a sphere, or pointed: its meridians are arcs about points ``offset`` m behind the axis.
    ``oculus`` in degrees is open, or closed by one ``crown`` stone.
    """
    polar = np.radians(np.linspace(90.0, oculus, rings + 1))
    if offset:  # up to where the arc is as far from the axis as the oculus is
        least = np.degrees(np.arcsin((offset + radius * np.sin(polar[-1])) / (radius + offset)))
        polar = np.radians(np.linspace(90.0, least, rings + 1))
    around = turn + np.linspace(0.0, 2.0 * np.pi, sectors + 1)

    def at(r, p, a):
        out = (r + offset) * np.sin(p) - offset
        return out * np.cos(a), out * np.sin(a), (r + offset) * np.cos(p)

    radii = (radius, radius + thickness)
    model: Model = {}
    for s in range(sectors):
        low = [(r * np.cos(a), r * np.sin(a)) for r in radii for a in around[s : s + 2]]
        model[f"fixed {s}"] = hexahedron(lambda i, j, k, low=low: (*low[2 * i + j], (-0.5, 0)[k]))
        for r in range(rings):
            model[f"ring {r} stone {s}"] = hexahedron(
                lambda i, j, k, r=r, s=s: at(radii[i], polar[r + k], around[s + j])
            )
    if crown:
        model["crown"] = np.array([at(r, polar[-1], a) for r in radii for a in around[:-1]])
    return model


def faces_of(corners: np.ndarray) -> list[tuple[int, ...]]:
    """Those of BOX, or of a frustum: a lower ring of corners, then an upper one."""
    if len(corners) == 8:
        return list(BOX)
    n = len(corners) // 2
    sides = [(k, (k + 1) % n, n + (k + 1) % n, n + k) for k in range(n)]
    return [tuple(range(n))[::-1], tuple(range(n, 2 * n)), *sides]


def cross_vault(courses=6, radius=3.0, thickness=0.5, opening=65.0, length=4.0) -> Model:
    """Four barrels that meet in mitred diagonals; the lowest courses stand on fixed blocks."""
    angles, model = np.radians(np.linspace(0.0, opening, courses + 1)), {}
    radii = (radius, radius + thickness)
    for arm in range(4):
        turn = np.linalg.matrix_power(np.array([[0, -1, 0], [1, 0, 0], [0, 0, 1]]), arm)
        for side in (1, -1):
            for c in range(courses + 1):
                ends = angles[c : c + 2] if c < courses else (angles[-1], angles[-1] + 0.1)

                def corner(i, j, k, ends=ends, side=side):
                    r, a = radii[i], ends[j]
                    return (
                        r * np.sin(a) if k == 0 else length,
                        side * r * np.sin(a),
                        r * np.cos(a),
                    )

                name = f"arm {arm}{'+-'[side < 0]} course {c}"
                name = name if c < courses else f"fixed {arm}{'+-'[side < 0]}"
                model[name] = hexahedron(corner) @ turn.T
    return model


def facade(bays=3, storeys=2, blocks=4) -> Model:
    """Piers of blocks with lintels over the openings between them, on a fixed plinth."""
    model = {"fixed plinth": box((-1, 0, -0.5), (3.0 * bays + 1.0, 0.6, 0))}
    for storey in range(storeys):
        base = storey * (blocks * 0.6 + 0.5)
        for pier in range(bays + 1):
            for b in range(blocks):
                low = (3.0 * pier - 0.5, 0, base + 0.6 * b)
                name = f"storey {storey} pier {pier} block {b}"
                model[name] = box(low, (low[0] + 1.0, 0.6, low[2] + 0.6))
        top = base + blocks * 0.6
        ends = [-0.5, *(3.0 * k for k in range(1, bays)), 3.0 * bays + 0.5]
        for bay in range(bays):
            model[f"storey {storey} lintel {bay}"] = box(
                (ends[bay], 0, top), (ends[bay + 1], 0.6, top + 0.5)
            )
    return model


def leaning_wall(lean: float, blocks=10, width=1.0, height=0.5) -> Model:
    """Equal blocks, each ``lean`` m farther out than the one below."""
    model = {"fixed": box((-1, 0, -0.5), (width + 1, 1, 0))}
    for k in range(blocks):
        low = (k * lean, 0, k * height)
        model[f"block {k}"] = box(low, (low[0] + width, 1, low[2] + height))
    return model


def write_obj(path: Path, model: Model, digits: int) -> Path:
    """The model with this many digits after the point."""
    lines, first = [], 1
    for name, corners in model.items():
        lines.append(f"o {name}")
        lines += ["v " + " ".join(f"{x:.{digits}f}" for x in corner) for corner in corners]
        faces = faces_of(corners)
        volume = sum(
            np.dot(corners[f[0]], np.cross(corners[b], corners[c]))
            for f in faces
            for b, c in pairwise(f[1:])
        )
        for face in faces:
            loop = face if volume > 0.0 else face[::-1]
            lines.append("f " + " ".join(str(first + k) for k in loop))
        first += len(corners)
    path.write_text("\n".join(lines) + "\n")
    return path
