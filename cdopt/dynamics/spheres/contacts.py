"""Compiled loops over pairs in contact: gaps, elastic forces and damping.

De Klerk et al. (2021), equations (20)–(25): F_n = k δ^(p−1) − γ_n m_eff v_n along the normal,
F_t = −γ_t m_eff v_t across it, with lever |r|/2 at each of two spheres, and |r| at a wall.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from cdopt._util.checks import BoolArray, FloatArray, IntArray
from cdopt._util.compiled import compiled, part
from cdopt.dynamics.spheres.system import NeighborList

HALF = 0.5  # lever of two spheres, as a share of the distance of their centres


class ActiveContacts(NamedTuple):
    """Pairs that act at some configuration, in the first so many entries of each array.

    Attributes
    ----------
    pair : number in the neighbour list. n : (np, 3) unit vectors from j to i.
    distance : |r|, m. overlap : δ, m. force : w′(δ), N. slope : w″(δ), N/m.
    """

    pair: IntArray
    n: FloatArray
    distance: FloatArray
    overlap: FloatArray
    force: FloatArray
    slope: FloatArray


def active_space(pairs: int) -> ActiveContacts:
    """Space for so many pairs."""
    number, normal = np.zeros(pairs, dtype=np.int64), np.zeros((pairs, 3))
    return ActiveContacts(number, normal, *(np.zeros(pairs) for _ in range(4)))


@part(inline="always")
def contact_law(k: float, overlap: float, power: float) -> tuple[float, float]:
    """w′ and w″ of the power law, as in ``cdopt.problem.contact_law``."""
    if overlap <= 0.0:
        return 0.0, 0.0
    if power == 2.0:
        return k * overlap, k
    slope = k * overlap ** (power - 2.0)
    return slope * overlap, (power - 1.0) * slope


@compiled()
def find_active(
    x: FloatArray,
    d: FloatArray,
    a: float,
    neighbors: NeighborList,
    damped: BoolArray,
    power: float,
    active: ActiveContacts,
) -> int:
    """Pairs that act at x + a d: those that overlap, bonds, and those that are ``damped``.

    x (nb, 3) m, d (nb, 6) m and rad. Returns their number; ``active`` holds them.
    """
    count = 0
    for c in range(neighbors.i.size):
        i, j = neighbors.i[c], neighbors.j[c]
        rx = (x[i, 0] - x[j, 0]) + a * (d[i, 0] - d[j, 0])
        ry = (x[i, 1] - x[j, 1]) + a * (d[i, 1] - d[j, 1])
        rz = (x[i, 2] - x[j, 2]) + a * (d[i, 2] - d[j, 2])
        always = neighbors.bonded[c] or damped[c]
        if neighbors.wall[c]:
            nx, ny, nz = neighbors.normal[c, 0], neighbors.normal[c, 1], neighbors.normal[c, 2]
            distance = rx * nx + ry * ny + rz * nz
            if distance >= neighbors.reach[c] and not always:
                continue
        else:
            square = rx * rx + ry * ry + rz * rz
            if square >= neighbors.reach[c] * neighbors.reach[c] and not always:
                continue
            distance = np.sqrt(square)
            if distance > 0.0:
                nx, ny, nz = rx / distance, ry / distance, rz / distance
            else:
                nx, ny, nz = 1.0, 0.0, 0.0
        overlap = neighbors.reach[c] - distance
        if neighbors.bonded[c]:
            force, slope = neighbors.k[c] * overlap, neighbors.k[c]
        else:
            force, slope = contact_law(neighbors.k[c], overlap, power)
        active.pair[count] = c
        active.n[count, 0], active.n[count, 1], active.n[count, 2] = nx, ny, nz
        active.distance[count] = distance
        active.overlap[count] = overlap
        active.force[count] = force
        active.slope[count] = slope
        count += 1
    return count


@part()
def add_elastic(
    neighbors: NeighborList, active: ActiveContacts, count: int, factor: float, out: FloatArray
) -> None:
    """Add ``factor`` times the elastic forces to out (nb, 6), N."""
    for s in range(count):
        force = factor * active.force[s]
        if force == 0.0:
            continue
        i, j = neighbors.i[active.pair[s]], neighbors.j[active.pair[s]]
        for k in range(3):
            out[i, k] += force * active.n[s, k]
            out[j, k] -= force * active.n[s, k]


@part(inline="always")
def pair_product(
    i: int,
    j: int,
    wall: bool,
    n: tuple[float, float, float],
    distance: float,
    factors: tuple[float, float, float],
    z: FloatArray,
    out: FloatArray,
    turning: bool,
) -> None:
    """Add to out[i] and out[j] the matrix of a pair times z[i] and z[j].

    It is ``factors`` times the relative translation along the normal, that across it, and the
    sliding of the surfaces, spin included.
    """
    along, across, slide = factors
    nx, ny, nz = n
    ux, uy, uz = z[i, 0] - z[j, 0], z[i, 1] - z[j, 1], z[i, 2] - z[j, 2]
    un = ux * nx + uy * ny + uz * nz
    tx, ty, tz = ux - un * nx, uy - un * ny, uz - un * nz
    fx = along * un * nx + across * tx
    fy = along * un * ny + across * ty
    fz = along * un * nz + across * tz
    if slide != 0.0:
        lever = distance if wall else HALF * distance
        if turning:
            wx, wy, wz = z[i, 3], z[i, 4], z[i, 5]
            if not wall:
                wx, wy, wz = wx + z[j, 3], wy + z[j, 4], wz + z[j, 5]
            tx += lever * (ny * wz - nz * wy)
            ty += lever * (nz * wx - nx * wz)
            tz += lever * (nx * wy - ny * wx)
        tx, ty, tz = slide * tx, slide * ty, slide * tz
        fx, fy, fz = fx + tx, fy + ty, fz + tz
        if turning:
            mx = lever * (nz * ty - ny * tz)
            my = lever * (nx * tz - nz * tx)
            mz = lever * (ny * tx - nx * ty)
            out[i, 3] += mx
            out[i, 4] += my
            out[i, 5] += mz
            if not wall:
                out[j, 3] += mx
                out[j, 4] += my
                out[j, 5] += mz
    out[i, 0] += fx
    out[i, 1] += fy
    out[i, 2] += fz
    out[j, 0] -= fx
    out[j, 1] -= fy
    out[j, 2] -= fz


@part()
def add_damping(
    neighbors: NeighborList,
    active: ActiveContacts,
    count: int,
    damped: BoolArray,
    factor: float,
    z: FloatArray,
    out: FloatArray,
    turning: bool,
) -> None:
    """Add ``factor`` C z to out (nb, 6), C summed over the pairs that are damped."""
    for s in range(count):
        c = active.pair[s]
        if damped[c]:
            factors = (factor * neighbors.c_n[c], 0.0, factor * neighbors.c_t[c])
            i, j, wall = neighbors.i[c], neighbors.j[c], neighbors.wall[c]
            n = (active.n[s, 0], active.n[s, 1], active.n[s, 2])
            pair_product(i, j, wall, n, active.distance[s], factors, z, out, turning)


@part()
def mark_overlapping(
    neighbors: NeighborList, active: ActiveContacts, count: int, damped: BoolArray
) -> None:
    """Let ``damped`` be true for the pairs that overlap, and for bonds."""
    damped.fill(False)
    for s in range(count):
        if active.overlap[s] > 0.0 or neighbors.bonded[active.pair[s]]:
            damped[active.pair[s]] = True
