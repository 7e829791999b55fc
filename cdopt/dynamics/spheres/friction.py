"""Compiled loops of friction: springs with a memory, across contacts of spheres and walls.

Cundall & Strack (1979): each contact has a tangential spring ξ (m), whose force k_t ξ is at most
μ f_n. Here a slider is in series with the spring and its dashpot c in parallel. In a step with the
tangential displacement s = s_el + s_slip

    T = k_t (ξ + α s_el) + (c/h) s_el,    |T| ≤ μ f_n,    s_slip = 0 or T = μ f_n s_slip/|s_slip|,

and ξ⁺ = ξ + s_el; α = 1 in velocity-Verlet. For α = ½ and a constant k_t the energy ½ k_t ξ² of
the spring and what slider and dashpot dissipate make up the work of T exactly.

Springs turn with the normal and with half the spin of the two bodies about it. Forces act at the
contact point, levers r_i − δ/2 and r_j − δ/2, so that angular momentum is kept. Of Hertz contacts
k_t grows with the overlap; a spring is shortened by k_t/k_t⁺ while it grows, so that the force is
kept, and not changed while it falls (Walton; ``mindlin_rescale/force`` in LAMMPS): both lose
energy and none is made.

Rolling and spinning resistance are such springs too, on the displacements R (θ_i − θ_j) × n and
R (θ_i − θ_j)·n with 1/R = 1/r_i + 1/r_j, of stiffness k_t, with torques of at most μ_r R f_n and
μ_s R f_n.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from cdopt._util.checks import BoolArray, FloatArray
from cdopt._util.compiled import compiled, part
from cdopt.dynamics.spheres.contacts import add_elastic, add_products, find_damped
from cdopt.dynamics.spheres.integrate import (
    DONE,
    STALE,
    TOO_DEEP,
    accelerate,
    account,
    kick_work,
    move,
    outdated,
    too_deep,
)
from cdopt.dynamics.spheres.newton import combine, copy
from cdopt.dynamics.spheres.system import SphereArrays, Springs

Vector = tuple[float, float, float]


class Slid(NamedTuple):
    """A spring after a displacement: the force on the second body, the spring, and the loss, J."""

    force: Vector
    spring: Vector
    lost: float


@part()
def slide(k: float, c: float, share: float, cap: float, spring: Vector, s: Vector) -> Slid:
    """The law above; ``c`` is the dashpot over the time step, ``share`` is α, ``cap`` μ f_n."""
    whole = share * k + c
    fx, fy = k * spring[0] + whole * s[0], k * spring[1] + whole * s[1]
    fz = k * spring[2] + whole * s[2]
    size = np.sqrt(fx * fx + fy * fy + fz * fz)
    if size <= cap:
        new = (spring[0] + s[0], spring[1] + s[1], spring[2] + s[2])
        return Slid((fx, fy, fz), new, c * (s[0] * s[0] + s[1] * s[1] + s[2] * s[2]))
    ratio = cap / size
    fx, fy, fz = ratio * fx, ratio * fy, ratio * fz
    ex, ey = (fx - k * spring[0]) / whole, (fy - k * spring[1]) / whole
    ez = (fz - k * spring[2]) / whole
    slip = fx * (s[0] - ex) + fy * (s[1] - ey) + fz * (s[2] - ez)
    new = (spring[0] + ex, spring[1] + ey, spring[2] + ez)
    return Slid((fx, fy, fz), new, slip + c * (ex * ex + ey * ey + ez * ez))


@part()
def cross(a: Vector, b: Vector) -> Vector:
    """a × b."""
    return (a[1] * b[2] - a[2] * b[1], a[2] * b[0] - a[0] * b[2], a[0] * b[1] - a[1] * b[0])


@part()
def turned(x: Vector, a: Vector, b: Vector) -> Vector:
    """x, at right angles to the unit vector a, turned by the least rotation from a to b."""
    t = (b[0] * x[0] + b[1] * x[1] + b[2] * x[2]) / (1.0 + a[0] * b[0] + a[1] * b[1] + a[2] * b[2])
    return (x[0] - t * (a[0] + b[0]), x[1] - t * (a[1] + b[1]), x[2] - t * (a[2] + b[2]))


@part()
def turned_about(x: Vector, n: Vector, angle: float) -> Vector:
    """x, at right angles to the unit vector n, turned about it by an angle, rad."""
    if angle == 0.0:
        return x
    c, s, y = np.cos(angle), np.sin(angle), cross(n, x)
    return (c * x[0] + s * y[0], c * x[1] + s * y[1], c * x[2] + s * y[2])


@part()
def unit(x: float, y: float, z: float) -> Vector:
    """The unit vector along (x, y, z)."""
    size = np.sqrt(x * x + y * y + z * z)
    if size == 0.0:
        return (1.0, 0.0, 0.0)
    return (x / size, y / size, z / size)


class PairMotion(NamedTuple):
    """A pair in a step: unit normals at its start, middle and end, and the law of its springs.

    ``distance`` |r| in the middle, m; ``angle`` that springs turn about the normal, rad; ``a``,
    ``b`` turns of the bodies, rad; ``k``, ``c``, ``share`` and ``push`` as in ``slide``, push f_n;
    ``old`` is k_t before, ``shrink`` the factor on springs.
    """

    before: Vector
    middle: Vector
    after: Vector
    distance: float
    angle: float
    a: Vector
    b: Vector
    k: float
    c: float
    share: float
    push: float
    old: float
    shrink: float


@part()
def motion_of_pair(arrays: SphereArrays, s: int, share: float) -> PairMotion:
    """Active pair ``s`` in the step whose displacements are in ``work.d``."""
    m, neighbors, springs = arrays.motion, arrays.neighbors, arrays.springs
    active, d, c = arrays.active, arrays.work.d, arrays.active.pair[s]
    i, j = neighbors.i[c], neighbors.j[c]
    n = (active.n[s, 0], active.n[s, 1], active.n[s, 2])
    before, distance = n, active.distance[s]
    if not neighbors.wall[c] and share > 0.0:
        rx = (m.x[i, 0] - m.x[j, 0]) - (d[i, 0] - d[j, 0])
        ry = (m.x[i, 1] - m.x[j, 1]) - (d[i, 1] - d[j, 1])
        rz = (m.x[i, 2] - m.x[j, 2]) - (d[i, 2] - d[j, 2])
        before = unit(rx, ry, rz)
        distance = 0.5 * (distance + np.sqrt(rx * rx + ry * ry + rz * rz))
    middle = unit(before[0] + n[0], before[1] + n[1], before[2] + n[2])
    a, b = (d[i, 3], d[i, 4], d[i, 5]), (0.0, 0.0, 0.0)
    if not neighbors.wall[c]:
        b = (d[j, 3], d[j, 4], d[j, 5])
    mean = (a[0] + b[0]) * middle[0] + (a[1] + b[1]) * middle[1] + (a[2] + b[2]) * middle[2]
    rate = 0.0
    for axis in range(3):
        rate += active.n[s, axis] * (m.v[i, axis] - m.v[j, axis])
    push = max(0.0, active.force[s] - neighbors.c_n[c] * rate)
    k, old = springs.ratio[c] * active.slope[s], springs.stiffness[c]
    shrink = old / k if k > old > 0.0 else 1.0
    damping = neighbors.c_t[c] / arrays.scheme.h
    return PairMotion(
        before, middle, n, distance, 0.5 * mean * share, a, b, k, damping, share, push, old, shrink
    )


@part()
def stretched(
    p: PairMotion, springs: FloatArray, c: int, cap: float, s: Vector
) -> tuple[Slid, float]:
    """The spring ``springs[c]`` (np, 3) after a displacement s; written back where α > 0.

    The second result is the energy lost as k_t changes.
    """
    x, y, z = springs[c, 0], springs[c, 1], springs[c, 2]
    lost = 0.5 * (p.old - p.k * p.shrink * p.shrink) * (x * x + y * y + z * z)
    spring = turned_about((p.shrink * x, p.shrink * y, p.shrink * z), p.before, p.angle)
    moved = slide(p.k, p.c, p.share, cap, turned(spring, p.before, p.middle), s)
    if p.share > 0.0:
        new = turned(moved.spring, p.middle, p.after)
        springs[c, 0], springs[c, 1], springs[c, 2] = new[0], new[1], new[2]
    return moved, lost + moved.lost


@part()
def add_tangential(arrays: SphereArrays, s: int, p: PairMotion, out: FloatArray) -> float:
    """Add the tangential force of active pair ``s`` to ``out``; returns the energy lost."""
    neighbors, springs, active = arrays.neighbors, arrays.springs, arrays.active
    radius, d, c = arrays.system.radius, arrays.work.d, arrays.active.pair[s]
    i, j, wall, n = neighbors.i[c], neighbors.j[c], neighbors.wall[c], p.middle
    unequal = 0.5 * (radius[i] - radius[j])
    first = p.distance if wall else 0.5 * p.distance + unequal
    second = p.distance - first
    w = (
        first * p.a[0] + second * p.b[0],
        first * p.a[1] + second * p.b[1],
        first * p.a[2] + second * p.b[2],
    )
    slip = cross(n, w)
    ux, uy, uz = d[i, 0] - d[j, 0], d[i, 1] - d[j, 1], d[i, 2] - d[j, 2]
    along = ux * n[0] + uy * n[1] + uz * n[2]
    slip = (
        slip[0] + (ux - along * n[0]),
        slip[1] + (uy - along * n[1]),
        slip[2] + (uz - along * n[2]),
    )
    moved, lost = stretched(p, springs.xi, c, springs.mu[c] * p.push, slip)
    force = turned(moved.force, n, p.after)
    torque = cross(p.after, force)
    first = active.distance[s] if wall else 0.5 * active.distance[s] + unequal
    second = active.distance[s] - first
    for axis in range(3):
        out[i, axis] -= force[axis]
        out[j, axis] += force[axis]
        out[i, 3 + axis] += first * torque[axis]
        if not wall:
            out[j, 3 + axis] += second * torque[axis]
        springs.force[c, axis] = force[axis]
    return lost


@part()
def add_rolling(arrays: SphereArrays, s: int, p: PairMotion, out: FloatArray) -> float:
    """Add the torques that resist rolling and spinning to ``out``; returns the energy lost."""
    neighbors, springs, g = arrays.neighbors, arrays.springs, arrays.system
    c, n = arrays.active.pair[s], p.middle
    i, j, wall = neighbors.i[c], neighbors.j[c], neighbors.wall[c]
    radius = g.radius[i]
    if not wall:
        radius *= g.radius[j] / (g.radius[i] + g.radius[j])
    turn = (
        radius * (p.a[0] - p.b[0]),
        radius * (p.a[1] - p.b[1]),
        radius * (p.a[2] - p.b[2]),
    )
    rolled, lost = stretched(p, springs.roll, c, springs.rolling[c] * p.push, cross(turn, n))
    twist = springs.twist[c]
    about = turn[0] * n[0] + turn[1] * n[1] + turn[2] * n[2]
    lost += 0.5 * (p.old - p.k * p.shrink * p.shrink) * twist * twist
    cap = springs.spinning[c] * p.push
    spun = slide(p.k, p.c, p.share, cap, (p.shrink * twist, 0.0, 0.0), (about, 0.0, 0.0))
    torque = cross(p.after, turned(rolled.force, n, p.after))
    for axis in range(3):
        moment = radius * (torque[axis] + spun.force[0] * p.after[axis])
        out[i, 3 + axis] -= moment
        if not wall:
            out[j, 3 + axis] += moment
    if p.share > 0.0:
        springs.twist[c] = spun.spring[0]
    return lost + spun.lost


@part()
def forget(springs: Springs, touching: BoolArray) -> float:
    """Springs of pairs that have parted are gone; returns the energy that was in them."""
    lost = 0.0
    for c in range(springs.stiffness.size):
        if springs.stiffness[c] > 0.0 and not touching[c]:
            square = springs.twist[c] ** 2
            for axis in range(3):
                square += springs.xi[c, axis] ** 2 + springs.roll[c, axis] ** 2
            lost += 0.5 * springs.stiffness[c] * square
            springs.stiffness[c] = springs.twist[c] = 0.0
            for axis in range(3):
                springs.xi[c, axis] = springs.roll[c, axis] = springs.force[c, axis] = 0.0
    return lost


@compiled()
def frictional_forces(arrays: SphereArrays, share: float, out: FloatArray) -> tuple[int, float]:
    """Loads, elastic, damping and frictional forces, in ``out`` (nb, 6); pairs, and energy lost.

    The bodies are at the end of the step whose displacements are in ``work.d``, and ``share`` is 1;
    0 is for a first look that takes ``work.d`` as h v and stretches no spring. Bonds have dashpots
    and no friction. The forces of dashpots alone are in ``work.y``, those of friction not among
    them; all others in ``work.r``. The energy lost, J, is that of friction.
    """
    w, active, neighbors, springs = arrays.work, arrays.active, arrays.neighbors, arrays.springs
    count = find_damped(arrays, w.trial, 0.0)
    lost = forget(springs, w.damped)
    copy(arrays.system.load, w.r)
    add_elastic(arrays, count, 1.0, w.r)
    for s in range(count):
        c = active.pair[s]
        if neighbors.bonded[c]:
            continue
        pair = motion_of_pair(arrays, s, share)
        lost += add_tangential(arrays, s, pair, w.r)
        if springs.rolling[c] > 0.0 or springs.spinning[c] > 0.0:
            lost += add_rolling(arrays, s, pair, w.r)
        if share > 0.0:
            springs.stiffness[c] = pair.k
        active.damping[s, 2] = 0.0
    w.y.fill(0.0)
    add_products(arrays, count, active.damping, -1.0, arrays.motion.v, w.y)
    combine(1.0, w.r, 1.0, w.y, out)
    return count, lost


@compiled()
def frictional_verlet(
    arrays: SphereArrays, force: FloatArray, steps: int, ledger: FloatArray
) -> tuple[int, int]:
    """As ``integrate.velocity_verlet``, with friction; ``ledger`` (4,) ends with its loss, J.

    That loss is also part of the first entry.
    """
    g, m, w, h = arrays.system, arrays.motion, arrays.work, arrays.scheme.h
    for s in range(steps):
        accelerate(g, m.v, force, 0.5 * h, w.trial)
        combine(h, w.trial, 0.0, w.trial, w.d)
        if outdated(arrays.neighbors, m.x, w.d):
            return STALE, s
        ledger[2] += kick_work(g, m.v, w.trial, force, 0.5 * h)
        copy(w.trial, m.v)
        move(g, m, w.d)
        count, lost = frictional_forces(arrays, 1.0, force)
        if too_deep(arrays, count):
            return TOO_DEEP, s
        combine(h, w.r, 0.0, w.r, w.r)
        combine(h, w.y, 0.0, w.y, w.y)
        account(g, m.v, w.d, w.r, w.y, ledger)
        for entry in (0, 2, 3):
            ledger[entry] += lost
        copy(m.v, w.y)
        accelerate(g, m.v, force, 0.5 * h, m.v)
        ledger[2] += kick_work(g, w.y, m.v, force, 0.5 * h)
    return DONE, steps
