"""Compiled loops over links: gaps, elastic forces, and what damping takes.

De Klerk et al. (2021), equations (20)–(25): F_n = k δ^(p−1) − γ_n m_eff v_n along the normal,
F_t = −γ_t m_eff v_t across it, with lever |r|/2 at each of two spheres, and |r| at a wall.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from cdopt._util.checks import BoolArray, FloatArray, IntArray
from cdopt._util.compiled import compiled, part
from cdopt.dynamics.spheres.links import Links

HALF = 0.5  # lever of two spheres, as a share of the distance of their centres


class Seen(NamedTuple):
    """Work space: the links that act at some configuration, the first so many entries.

    Attributes
    ----------
    link : number of the link. n : (nl, 3) unit vectors from j to i. distance : |r|, m.
    overlap : δ, m. force : w′(δ), N. slope : w″(δ), N/m.
    """

    link: IntArray
    n: FloatArray
    distance: FloatArray
    overlap: FloatArray
    force: FloatArray
    slope: FloatArray


def seen_space(count: int) -> Seen:
    """Room for ``count`` links."""
    return Seen(
        np.zeros(count, dtype=np.int64),
        np.zeros((count, 3)),
        np.zeros(count),
        np.zeros(count),
        np.zeros(count),
        np.zeros(count),
    )


@compiled()
def look(
    x: FloatArray, d: FloatArray, a: float, links: Links, held: BoolArray, power: float, seen: Seen
) -> int:
    """Links that act at x + a d: those that overlap, bonds, and those that ``held`` names.

    x (nb, 3) m, d (nb, 6) m and rad. Returns their number; ``seen`` holds them.
    """
    live = 0
    for c in range(links.i.size):
        i, j = links.i[c], links.j[c]
        rx = (x[i, 0] - x[j, 0]) + a * (d[i, 0] - d[j, 0])
        ry = (x[i, 1] - x[j, 1]) + a * (d[i, 1] - d[j, 1])
        rz = (x[i, 2] - x[j, 2]) + a * (d[i, 2] - d[j, 2])
        always = links.bonded[c] or held[c]
        if links.wall[c]:
            nx, ny, nz = links.normal[c, 0], links.normal[c, 1], links.normal[c, 2]
            distance = rx * nx + ry * ny + rz * nz
            if distance >= links.reach[c] and not always:
                continue
        else:
            square = rx * rx + ry * ry + rz * rz
            if square >= links.reach[c] * links.reach[c] and not always:
                continue
            distance = np.sqrt(square)
            if distance > 0.0:
                nx, ny, nz = rx / distance, ry / distance, rz / distance
            else:
                nx, ny, nz = 1.0, 0.0, 0.0
        overlap = links.reach[c] - distance
        if links.bonded[c]:
            force, slope = links.k[c] * overlap, links.k[c]
        elif overlap > 0.0:
            if power == 2.0:
                force, slope = links.k[c] * overlap, links.k[c]
            else:
                slope = links.k[c] * overlap ** (power - 2.0)
                force = slope * overlap
                slope *= power - 1.0
        else:
            force, slope = 0.0, 0.0
        seen.link[live] = c
        seen.n[live, 0], seen.n[live, 1], seen.n[live, 2] = nx, ny, nz
        seen.distance[live] = distance
        seen.overlap[live] = overlap
        seen.force[live] = force
        seen.slope[live] = slope
        live += 1
    return live


@part()
def push(links: Links, seen: Seen, live: int, factor: float, out: FloatArray) -> None:
    """Add ``factor`` times the elastic forces to out (nb, 6), N."""
    for s in range(live):
        force = factor * seen.force[s]
        if force == 0.0:
            continue
        i, j = links.i[seen.link[s]], links.j[seen.link[s]]
        for k in range(3):
            out[i, k] += force * seen.n[s, k]
            out[j, k] -= force * seen.n[s, k]


@part(inline="always")
def pair_product(
    i: int, j: int, wall: bool, nx: float, ny: float, nz: float, distance: float, along: float,
    across: float, slide: float, z: FloatArray, out: FloatArray, turning: bool,
) -> None:  # fmt: skip
    """Add to out what one link of bodies i and j makes of relative motion z (nb, 6).

    ``along`` times its part along the normal, ``across`` times its part across it by
    translation alone, and ``slide`` times the sliding of the surfaces, spin included.
    """
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
def drag(
    links: Links, seen: Seen, live: int, held: BoolArray, factor: float, z: FloatArray,
    out: FloatArray, turning: bool,
) -> None:  # fmt: skip
    """Add ``factor`` C z to out (nb, 6), C summed over the links that ``held`` names."""
    for s in range(live):
        c = seen.link[s]
        if held[c]:
            pair_product(
                links.i[c], links.j[c], links.wall[c], seen.n[s, 0], seen.n[s, 1], seen.n[s, 2],
                seen.distance[s], factor * links.c_n[c], 0.0, factor * links.c_t[c], z, out,
                turning,
            )  # fmt: skip


@part()
def touching(links: Links, seen: Seen, live: int, held: BoolArray) -> None:
    """Let ``held`` name the links that overlap, and bonds."""
    held.fill(False)
    for s in range(live):
        if seen.overlap[s] > 0.0 or links.bonded[seen.link[s]]:
            held[seen.link[s]] = True
