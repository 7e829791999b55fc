"""Spheres of several sizes brought to rest under gravity, in a cell that repeats sideways.

They start at random places, pushing each other apart as linear springs, and are led to the
nearest minimum of their energy by FIRE: the motion of points of unit mass, steered along the
forces and stopped whenever it runs uphill. Only the packing they end in matters, not the way.

Notes
-----
Bitzek et al., Structural relaxation made simple, Phys. Rev. Lett. 97 (2006) 170201.
"""

# mypy: disable-error-code=untyped-decorator
# numba's decorators have no types

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.spatial import cKDTree

from cdopt._util.checks import BoolArray, FloatArray, IntArray
from cdopt._util.compiled import compiled, part
from cdopt._util.errors import CdoptError

SOLID = 0.62  # share of space that spheres at rest fill, about
_SOFT = 0.01  # overlap, in diameters, under the weight of the whole height
_SKIN = 0.15  # gaps up to which pairs are listed, in diameters
_STEP = 0.6  # time step, of √(mass/stiffness)
_FURTHEST = 0.05  # move of a sphere in one step, at most, in diameters
_PATIENCE = 20  # steps downhill before the time step grows
_LIMIT = 200_000


@dataclass(frozen=True, eq=False)
class Settled:
    """Spheres at rest on the plane z = 0, in a cell that repeats in x and y.

    Units: the mean diameter, the mass and the weight of a sphere of that diameter.

    Attributes
    ----------
    centres : (n, 3). radii : (n,). fixed : (n,) spheres that stay where they were laid.
    side : of the cell.
    pairs : (n1, 2) spheres that press each other, i < j.
    shift : (n1, 2) cells by which the second sphere's nearest image lies further in x and y.
    normals : (n1, 3) from the first sphere to that image.
    standing : (n2,) free spheres that press the plane.
    forces : (n1 + n2,) what pairs, then the plane carry.
    """

    centres: FloatArray
    radii: FloatArray
    fixed: BoolArray
    side: float
    pairs: IntArray
    shift: IntArray
    normals: FloatArray
    standing: IntArray
    forces: FloatArray


def settle(
    n: int, layers: float, spread: float, random: np.random.Generator, tol: float = 1e-8
) -> Settled:
    """n spheres, about ``layers`` deep, relaxed until no force on a free one exceeds ``tol``.

    Radii are drawn evenly from 1/2 × (1 ± spread). A third of the floor is covered with spheres
    that are fixed, so that the pile cannot slide.

    Raises
    ------
    CdoptError : they did not come to rest.
    """
    radii = 0.5 * (1.0 + spread * random.uniform(-1.0, 1.0, n))
    weight = (2.0 * radii) ** 3
    volume = np.pi / 6.0 * weight.sum()
    side = float(np.sqrt(volume / (SOLID * layers)))
    centres = random.uniform(0.0, 1.0, (n, 3)) * [side, side, layers]
    centres[:, 2] += radii
    fixed = np.arange(n) < round(side**2 / 3.0)
    centres[fixed, 2] = radii[fixed]
    stiffness = layers / _SOFT
    _relax(centres, radii, weight, fixed, side, stiffness, tol)
    pairs, arm, shift = _near(centres, radii, fixed, side, 0.0)
    length = np.linalg.norm(arm, axis=1)
    overlap = radii[pairs].sum(axis=1) - length
    low = radii - centres[:, 2]
    standing = np.flatnonzero((low > 0.0) & ~fixed)
    forces = stiffness * np.concatenate([overlap, low[standing]])
    normals = arm / length[:, None]
    return Settled(centres, radii, fixed, side, pairs, shift, normals, standing, forces)


def _relax(
    x: FloatArray, radii: FloatArray, weight: FloatArray, fixed: BoolArray, side: float,
    stiffness: float, tol: float,
) -> None:  # fmt: skip
    """Move the centres x to rest, listing near pairs anew whenever one may have been missed."""
    v = np.zeros_like(x)
    longest = _STEP / np.sqrt(stiffness)
    pace = np.array([0.1 * longest, 0.1, 0.0])
    spent = 0
    while spent < _LIMIT:
        pairs, _, _ = _near(x, radii, fixed, side, _SKIN)
        steps, worst = _fire(
            x, v, radii, weight, fixed, pairs, side, stiffness, longest, pace, _LIMIT - spent, tol
        )
        spent += steps
        if worst <= tol:
            return
    raise CdoptError(f"{x.shape[0]} spheres did not come to rest in {_LIMIT} steps")


def _near(
    x: FloatArray, radii: FloatArray, fixed: BoolArray, side: float, reach: float
) -> tuple[IntArray, FloatArray, IntArray]:
    """Pairs i < j with gaps below ``reach``, not both fixed; arms to and cells of the images."""
    inside = x.copy()
    inside[:, :2] %= side
    inside[:, :2][inside[:, :2] >= side] = 0.0  # a remainder may round up
    tree = cKDTree(inside, boxsize=[side, side, 0.0])
    pairs = tree.query_pairs(2.0 * radii.max() + reach, output_type="ndarray").astype(np.int64)
    pairs.sort(axis=1)
    arm = x[pairs[:, 1]] - x[pairs[:, 0]]
    shift = -np.round(arm[:, :2] / side)
    arm[:, :2] += side * shift
    gap = np.linalg.norm(arm, axis=1) - radii[pairs].sum(axis=1)
    keep = np.flatnonzero((gap < reach) & ~fixed[pairs].all(axis=1))
    keep = keep[np.lexsort((pairs[keep, 1], pairs[keep, 0]))]
    return pairs[keep], arm[keep], shift[keep].astype(np.int64)


@part()
def _push(
    x: FloatArray, radii: FloatArray, weight: FloatArray, fixed: BoolArray, pairs: IntArray,
    side: float, stiffness: float, out: FloatArray,
) -> float:  # fmt: skip
    """Forces on all spheres, none on fixed ones; returns the largest component."""
    for i in range(x.shape[0]):
        out[i, 0], out[i, 1], out[i, 2] = 0.0, 0.0, -weight[i]
        low = radii[i] - x[i, 2]
        if low > 0.0:
            out[i, 2] += stiffness * low
    for c in range(pairs.shape[0]):
        i, j = pairs[c, 0], pairs[c, 1]
        dx, dy, dz = x[j, 0] - x[i, 0], x[j, 1] - x[i, 1], x[j, 2] - x[i, 2]
        dx -= side * np.round(dx / side)
        dy -= side * np.round(dy / side)
        square, reach = dx * dx + dy * dy + dz * dz, radii[i] + radii[j]
        if square < reach * reach:
            length = np.sqrt(square)
            f = stiffness * (reach - length) / length
            out[i, 0] -= f * dx
            out[i, 1] -= f * dy
            out[i, 2] -= f * dz
            out[j, 0] += f * dx
            out[j, 1] += f * dy
            out[j, 2] += f * dz
    worst = 0.0
    for i in range(x.shape[0]):
        for a in range(3):
            if fixed[i]:
                out[i, a] = 0.0
            worst = max(worst, abs(out[i, a]))
    return worst


@compiled()
def _fire(
    x: FloatArray, v: FloatArray, radii: FloatArray, weight: FloatArray, fixed: BoolArray,
    pairs: IntArray, side: float, stiffness: float, longest: float, pace: FloatArray,
    limit: int, tol: float,
) -> tuple[int, float]:  # fmt: skip
    """Steps until at rest, or until a sphere moved half the skin; returns their number and rest.

    ``pace`` holds the time step, the share of steering and the steps since the last stop.
    """
    start, force = x.copy(), np.empty_like(x)
    worst = _push(x, radii, weight, fixed, pairs, side, stiffness, force)
    for step in range(limit):
        if worst <= tol:
            return step, worst
        power, speed, size = 0.0, 0.0, 0.0
        for i in range(x.shape[0]):
            for a in range(3):
                power += force[i, a] * v[i, a]
                speed += v[i, a] ** 2
                size += force[i, a] ** 2
        if power > 0.0:
            pace[2] += 1.0
            along = pace[1] * np.sqrt(speed / size)
            v *= 1.0 - pace[1]
            v += along * force
            if pace[2] > _PATIENCE:
                pace[0] = min(1.1 * pace[0], longest)
                pace[1] *= 0.99
        else:
            v[:] = 0.0
            pace[0], pace[1], pace[2] = max(0.5 * pace[0], 0.02 * longest), 0.1, 0.0
        furthest = _move(x, v, force, start, pace[0])
        worst = _push(x, radii, weight, fixed, pairs, side, stiffness, force)
        if furthest > 0.5 * _SKIN:
            return step + 1, worst
    return limit, worst


@part()
def _move(x: FloatArray, v: FloatArray, force: FloatArray, start: FloatArray, h: float) -> float:
    """One time step, no sphere further than allowed; returns the largest move since ``start``."""
    furthest = 0.0
    for i in range(x.shape[0]):
        square = 0.0
        for a in range(3):
            v[i, a] += h * force[i, a]
            square += v[i, a] ** 2
        move = h * np.sqrt(square)
        if move > _FURTHEST:
            for a in range(3):
                v[i, a] *= _FURTHEST / move
        away = 0.0
        for a in range(3):
            x[i, a] += h * v[i, a]
            away += (x[i, a] - start[i, a]) ** 2
        furthest = max(furthest, away)
    return np.sqrt(furthest)
