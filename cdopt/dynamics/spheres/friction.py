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

The variational integrator takes μ f_n, k_t and T₀ = k_t ξ from its predictor q + α h v: ``freeze``.
T is the derivative of a convex function of the step's displacement, Huber's, as
``cdopt.formulations.Sliders`` states it: ``grip`` has its second derivative for Newton's method.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from cdopt._util.checks import BoolArray, FloatArray
from cdopt._util.compiled import part
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


@part()
def levers(arrays: SphereArrays, s: int, distance: float) -> tuple[float, float]:
    """From both centres of active pair ``s`` to the contact point, m; 0 of a wall."""
    c, radius = arrays.active.pair[s], arrays.system.radius
    if arrays.neighbors.wall[c]:
        return distance, 0.0
    first = 0.5 * (distance + radius[arrays.neighbors.i[c]] - radius[arrays.neighbors.j[c]])
    return first, distance - first


@part()
def sliding(n: Vector, arms: tuple[float, float], i: int, j: int, z: FloatArray) -> Vector:
    """How far the surface of body i goes past that of j, by the displacements z (nb, 6)."""
    first, second = arms
    turn = cross(
        n,
        (
            first * z[i, 3] + second * z[j, 3],
            first * z[i, 4] + second * z[j, 4],
            first * z[i, 5] + second * z[j, 5],
        ),
    )
    ux, uy, uz = z[i, 0] - z[j, 0], z[i, 1] - z[j, 1], z[i, 2] - z[j, 2]
    along = ux * n[0] + uy * n[1] + uz * n[2]
    return (
        turn[0] + (ux - along * n[0]),
        turn[1] + (uy - along * n[1]),
        turn[2] + (uz - along * n[2]),
    )


@part()
def drag(
    n: Vector, arms: tuple[float, float], i: int, j: int, force: Vector, out: FloatArray
) -> None:
    """Add a tangential force on body j at the contact point, and its opposite, to out (nb, 6)."""
    torque = cross(n, force)
    for axis in range(3):
        out[i, axis] -= force[axis]
        out[j, axis] += force[axis]
        out[i, 3 + axis] += arms[0] * torque[axis]
        out[j, 3 + axis] += arms[1] * torque[axis]


@part()
def normal_of(arrays: SphereArrays, s: int) -> Vector:
    """The unit normal of active pair ``s``."""
    n = arrays.active.n
    return (n[s, 0], n[s, 1], n[s, 2])


@part()
def normal_push(arrays: SphereArrays, s: int) -> float:
    """f_n of active pair ``s``, N: the elastic force and that of the dashpot, never a pull."""
    active, neighbors, v = arrays.active, arrays.neighbors, arrays.motion.v
    c, rate = active.pair[s], 0.0
    for axis in range(3):
        rate += active.n[s, axis] * (v[neighbors.i[c], axis] - v[neighbors.j[c], axis])
    return max(0.0, active.force[s] - neighbors.c_n[c] * rate)


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
    n = normal_of(arrays, s)
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
    push = normal_push(arrays, s)
    k, old = springs.ratio[c] * active.slope[s], springs.stiffness[c]
    shrink = old / k if k > old > 0.0 else 1.0
    damping = springs.damping[c] / arrays.scheme.h
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
    springs, c = arrays.springs, arrays.active.pair[s]
    i, j = arrays.neighbors.i[c], arrays.neighbors.j[c]
    slip = sliding(p.middle, levers(arrays, s, p.distance), i, j, arrays.work.d)
    moved, lost = stretched(p, springs.xi, c, springs.mu[c] * p.push, slip)
    force = turned(moved.force, p.middle, p.after)
    drag(p.after, levers(arrays, s, arrays.active.distance[s]), i, j, force, out)
    for axis in range(3):
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
def add_friction(arrays: SphereArrays, count: int, share: float, out: FloatArray) -> float:
    """Add the friction of velocity-Verlet to ``out`` (nb, 6); returns the energy it took, J.

    The bodies are at the end of the step whose displacements are in ``work.d``, and ``share`` is 1;
    0 is for a first look that takes ``work.d`` as h v and stretches no spring.
    """
    springs = arrays.springs
    lost = forget(springs, arrays.work.damped)
    for s in range(count):
        c = arrays.active.pair[s]
        if arrays.neighbors.bonded[c]:
            continue
        pair = motion_of_pair(arrays, s, share)
        lost += add_tangential(arrays, s, pair, out)
        if springs.rolling[c] > 0.0 or springs.spinning[c] > 0.0:
            lost += add_rolling(arrays, s, pair, out)
        if share > 0.0:
            springs.stiffness[c] = pair.k
    return lost


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


# --- the variational integrator ----------------------------------------------------------


@part()
def freeze(arrays: SphereArrays, count: int) -> None:
    """Take caps, k_t and forces of the springs from the pairs that act at q + α h v."""
    springs, neighbors, active, v = arrays.springs, arrays.neighbors, arrays.active, arrays.motion.v
    springs.cap.fill(0.0)
    for s in range(count):
        c = active.pair[s]
        cap = springs.mu[c] * normal_push(arrays, s)
        if neighbors.bonded[c] or not active.overlap[s] > 0.0 or not cap > 0.0:
            continue
        n, i, j = normal_of(arrays, s), neighbors.i[c], neighbors.j[c]
        k, old = springs.ratio[c] * active.slope[s], springs.stiffness[c]
        spring = (0.0, 0.0, 0.0)
        if old > 0.0:
            x, before, least = springs.xi[c], springs.normal[c], min(k, old)
            stretch = (least * x[0], least * x[1], least * x[2])
            spring = turned(stretch, (before[0], before[1], before[2]), n)
            twist = 0.0
            for axis in range(3):
                twist += 0.5 * (v[i, 3 + axis] + v[j, 3 + axis]) * n[axis]
            if not arrays.system.plane:
                spring = turned_about(spring, n, arrays.scheme.h * twist)
        springs.cap[c], springs.frozen[c] = cap, k
        for axis in range(3):
            springs.trial[c, axis], springs.at[c, axis] = spring[axis], n[axis]


@part()
def add_grips(
    arrays: SphereArrays, count: int, d: FloatArray, factor: float, out: FloatArray
) -> None:
    """Add ``factor`` times the frictional forces of a step d to out; sets ``acting`` and ``grip``.

    The active pairs are those at q_α.
    """
    springs, neighbors, active, scheme = (
        arrays.springs,
        arrays.neighbors,
        arrays.active,
        arrays.scheme,
    )
    for s in range(count):
        c, grip = active.pair[s], active.grip[s]
        cap = springs.cap[c]
        grip.fill(0.0)
        if not cap > 0.0:
            continue
        i, j, n = neighbors.i[c], neighbors.j[c], normal_of(arrays, s)
        arms = levers(arrays, s, active.distance[s])
        t, slip = trial_at(springs, c, n), sliding(n, arms, i, j, d)
        growth = scheme.alpha * springs.frozen[c] + springs.damping[c] / scheme.h
        fx, fy, fz = t[0] + growth * slip[0], t[1] + growth * slip[1], t[2] + growth * slip[2]
        size = np.sqrt(fx * fx + fy * fy + fz * fz)
        grip[0] = abs(factor) * growth
        if size > cap:
            grip[0] *= cap / size
            grip[1], grip[2], grip[3] = fx / size, fy / size, fz / size
            fx, fy, fz = cap * grip[1], cap * grip[2], cap * grip[3]
        springs.acting[c, 0], springs.acting[c, 1], springs.acting[c, 2] = fx, fy, fz
        drag_pair(arrays, s, factor, out)


@part()
def drag_pair(arrays: SphereArrays, s: int, factor: float, out: FloatArray) -> None:
    """Add ``factor`` times the frictional force of active pair ``s`` to out."""
    c, acting = arrays.active.pair[s], arrays.springs.acting
    force = (factor * acting[c, 0], factor * acting[c, 1], factor * acting[c, 2])
    i, j = arrays.neighbors.i[c], arrays.neighbors.j[c]
    arms = levers(arrays, s, arrays.active.distance[s])
    drag(normal_of(arrays, s), arms, i, j, force, out)


@part()
def trial_at(springs: Springs, c: int, n: Vector) -> Vector:
    """The force of a spring at the start of the step, turned to the normal n."""
    t, at = springs.trial[c], springs.at[c]
    return turned((t[0], t[1], t[2]), (at[0], at[1], at[2]), n)


@part()
def add_grip_product(arrays: SphereArrays, s: int, z: FloatArray, out: FloatArray) -> None:
    """Add the matrix of the friction of active pair ``s`` times z to out."""
    g, c = arrays.active.grip[s], arrays.active.pair[s]
    if g[0] == 0.0:
        return
    i, j, n = arrays.neighbors.i[c], arrays.neighbors.j[c], normal_of(arrays, s)
    arms = levers(arrays, s, arrays.active.distance[s])
    x, y, u = sliding(n, arms, i, j, z)
    along = g[1] * x + g[2] * y + g[3] * u
    force = (g[0] * (along * g[1] - x), g[0] * (along * g[2] - y), g[0] * (along * g[3] - u))
    drag(n, arms, i, j, force, out)


@part()
def slide_back(arrays: SphereArrays, count: int, d: FloatArray) -> float:
    """The springs' forces after a step d, in ``trial``; returns what slip and dashpots took.

    The active pairs are those at q_α. Springs that end beyond their cap slip back to it. The
    energy, J, is less that in the springs before they were stretched.
    """
    springs, neighbors, scheme, lost = arrays.springs, arrays.neighbors, arrays.scheme, 0.0
    for s in range(count):
        c = arrays.active.pair[s]
        cap, k, dashpot = springs.cap[c], springs.frozen[c], springs.damping[c] / scheme.h
        if not cap > 0.0:
            continue
        n, growth, size = normal_of(arrays, s), scheme.alpha * k + dashpot, 0.0
        arms = levers(arrays, s, arrays.active.distance[s])
        t, slip = trial_at(springs, c, n), sliding(n, arms, neighbors.i[c], neighbors.j[c], d)
        for axis in range(3):
            f = springs.acting[c, axis]
            stretch = (f - t[axis]) / growth
            lost += f * (slip[axis] - stretch) + dashpot * stretch * stretch
            lost -= 0.5 * t[axis] ** 2 / k
            springs.trial[c, axis], springs.at[c, axis] = t[axis] + k * stretch, n[axis]
            size += (t[axis] + k * stretch) ** 2
        if size > cap * cap:
            lost += 0.5 * (size - cap * cap) / k
            for axis in range(3):
                springs.trial[c, axis] *= cap / np.sqrt(size)
    return lost


@part()
def keep_springs(springs: Springs) -> float:
    """Take over the springs that ``slide_back`` left; returns the energy in those before, J."""
    lost = 0.0
    for c in range(springs.cap.size):
        old, k, kept = springs.stiffness[c], springs.frozen[c], springs.cap[c] > 0.0
        springs.stiffness[c] = k if kept else 0.0
        for axis in range(3):
            lost += 0.5 * old * springs.xi[c, axis] ** 2
            springs.xi[c, axis] = springs.trial[c, axis] / k if kept else 0.0
            springs.normal[c, axis] = springs.at[c, axis] if kept else 0.0
            springs.force[c, axis] = springs.acting[c, axis] if kept else 0.0
    return lost
