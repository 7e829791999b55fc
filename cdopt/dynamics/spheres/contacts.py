"""Compiled loops over pairs in contact: gaps, elastic forces and damping.

De Klerk et al. (2021), equations (20)–(25): F_n = k δ^(p−1) − γ_n m_eff v_n along the normal,
F_t = −γ_t m_eff v_t across it, with lever |r|/2 at each of two spheres, and |r| at a wall, whose
distance from the centre is |r|: ``cdopt.collision.dissipation`` has the reason.
"""

from __future__ import annotations

import numpy as np

from cdopt._util.checks import FloatArray
from cdopt._util.compiled import compiled, part
from cdopt.dynamics.spheres.system import SphereArrays
from cdopt.geometry.narrow_phase import Vector, along, cross, dot, minus, row, times
from cdopt.problem.contact_law import force_and_tangent

contact_law = part(inline="always")(force_and_tangent)


@compiled()
def find_active(arrays: SphereArrays, d: FloatArray, a: float) -> int:
    """Find the pairs that act at x + a d: those that overlap, bonds, and those that damp.

    Returns the number of active pairs; ``arrays.active`` holds them. d (nb, 6) m and rad.
    """
    x, neighbors, active = arrays.motion.x, arrays.neighbors, arrays.active
    damped, power = arrays.work.damped, arrays.system.power
    count = 0
    for c in range(neighbors.i.size):
        i, j, reach = neighbors.i[c], neighbors.j[c], neighbors.reach[c]
        arm = along(minus(row(x, i), row(x, j)), a, minus(row(d, i), row(d, j)))
        always = neighbors.bonded[c] or damped[c]
        if neighbors.wall[c]:
            n = row(neighbors.normal, c)
            distance = dot(arm, n)
            if distance >= reach and not always:
                continue
        else:
            square = dot(arm, arm)
            if square >= reach * reach and not always:
                continue
            distance = np.sqrt(square)
            n = (1.0, 0.0, 0.0)
            if distance > 0.0:
                n = (arm[0] / distance, arm[1] / distance, arm[2] / distance)
        overlap = reach - distance
        if neighbors.bonded[c]:
            force, slope = neighbors.k[c] * overlap, neighbors.k[c]
        else:
            force, slope = contact_law(neighbors.k[c], overlap, power)
        active.pair[count] = c
        active.n[count, 0], active.n[count, 1], active.n[count, 2] = n
        active.distance[count] = distance
        active.overlap[count] = overlap
        active.force[count] = force
        active.slope[count] = slope
        active.damping[count, 0] = neighbors.c_n[c] if damped[c] else 0.0
        active.damping[count, 2] = neighbors.c_t[c] if damped[c] else 0.0
        count += 1
    return count


@part()
def find_damped(arrays: SphereArrays, d: FloatArray, a: float) -> int:
    """As ``find_active``, once the pairs that damp are chosen: those that overlap, and bonds."""
    neighbors, active, damped = arrays.neighbors, arrays.active, arrays.work.damped
    for c in range(damped.size):
        damped[c] = False
    count = find_active(arrays, d, a)
    for s in range(count):
        c = active.pair[s]
        damped[c] = active.overlap[s] > 0.0 or neighbors.bonded[c]
        active.damping[s, 0] = neighbors.c_n[c] if damped[c] else 0.0
        active.damping[s, 2] = neighbors.c_t[c] if damped[c] else 0.0
    return count


@part()
def add_elastic(arrays: SphereArrays, count: int, factor: float, out: FloatArray) -> None:
    """Add ``factor`` times the elastic forces to out (nb, 6), N."""
    neighbors, active = arrays.neighbors, arrays.active
    for s in range(count):
        force = factor * active.force[s]
        if force == 0.0:
            continue
        i, j = neighbors.i[active.pair[s]], neighbors.j[active.pair[s]]
        for k in range(3):
            out[i, k] += force * active.n[s, k]
            out[j, k] -= force * active.n[s, k]


@part()
def turn_of(z: FloatArray, i: int) -> Vector:
    """The turn of body i in a table (nb, 6)."""
    return z[i, 3], z[i, 4], z[i, 5]


@part()
def add_pair_product(
    n: FloatArray,
    s: int,
    lever: float,
    wall: bool,
    turning: bool,
    i: int,
    j: int,
    factors: tuple[float, float, float],
    z: FloatArray,
    out: FloatArray,
) -> None:
    """Add to out[i] and out[j] the matrix of active pair s times z[i] and z[j].

    It is ``factors`` times the relative translation along the normal, that across it, and the
    sliding of the surfaces, spin included.
    """
    normal, shift = row(n, s), minus(row(z, i), row(z, j))
    apart = dot(shift, normal)
    slip = along(shift, -apart, normal)
    force = along(times(factors[0] * apart, normal), factors[1], slip)
    if factors[2] != 0.0:
        if turning:
            turn = turn_of(z, i)
            if not wall:
                turn = along(turn, 1.0, turn_of(z, j))
            slip = along(slip, lever, cross(normal, turn))
        drag = times(factors[2], slip)
        force = along(force, 1.0, drag)
        if turning:
            torque = times(lever, cross(drag, normal))
            for k in range(3):
                out[i, 3 + k] += torque[k]
                if not wall:
                    out[j, 3 + k] += torque[k]
    for k in range(3):
        out[i, k] += force[k]
        out[j, k] -= force[k]


@part()
def add_products(
    arrays: SphereArrays,
    count: int,
    table: FloatArray,
    factor: float,
    z: FloatArray,
    out: FloatArray,
) -> None:
    """Add ``factor`` Σ A z of all active pairs to out (nb, 6), A given by ``table`` (np, 3)."""
    neighbors, active, turning = arrays.neighbors, arrays.active, arrays.system.turning
    for s in range(count):
        factors = (factor * table[s, 0], factor * table[s, 1], factor * table[s, 2])
        if factors[0] != 0.0 or factors[1] != 0.0 or factors[2] != 0.0:
            c = active.pair[s]
            wall = neighbors.wall[c]
            lever = active.distance[s] * (1.0 if wall else 0.5)
            i, j = neighbors.i[c], neighbors.j[c]
            add_pair_product(active.n, s, lever, wall, turning, i, j, factors, z, out)
