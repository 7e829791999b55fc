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
from cdopt.dynamics.spheres.contacts import turn_of
from cdopt.dynamics.spheres.system import SphereArrays, Springs
from cdopt.geometry.narrow_phase import Vector, along, cross, dot, minus, row, times


class Slid(NamedTuple):
    """A spring after a displacement: the force on the second body, the spring, and the loss, J."""

    force: Vector
    spring: Vector
    lost: float


@part()
def slide(k: float, c: float, share: float, cap: float, spring: Vector, s: Vector) -> Slid:
    """The law above; ``c`` is the dashpot over the time step, ``share`` is α, ``cap`` μ f_n."""
    whole = share * k + c
    force = along(times(k, spring), whole, s)
    size = np.sqrt(dot(force, force))
    if size <= cap:
        return Slid(force, along(spring, 1.0, s), c * dot(s, s))
    force = times(cap / size, force)
    stretch = times(1.0 / whole, along(force, -k, spring))
    lost = dot(force, minus(s, stretch)) + c * dot(stretch, stretch)
    return Slid(force, along(spring, 1.0, stretch), lost)


@part()
def turned(x: Vector, a: Vector, b: Vector) -> Vector:
    """x, at right angles to the unit vector a, turned by the least rotation from a to b."""
    return along(x, -dot(b, x) / (1.0 + dot(a, b)), along(a, 1.0, b))


@part()
def turned_about(x: Vector, n: Vector, angle: float) -> Vector:
    """x, at right angles to the unit vector n, turned about it by an angle, rad."""
    if angle == 0.0:
        return x
    return along(times(np.cos(angle), x), np.sin(angle), cross(n, x))


@part()
def unit(x: Vector) -> Vector:
    """The unit vector along x."""
    size = np.sqrt(dot(x, x))
    if size == 0.0:
        return 1.0, 0.0, 0.0
    return x[0] / size, x[1] / size, x[2] / size


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
    turned_past = cross(n, along(times(arms[0], turn_of(z, i)), arms[1], turn_of(z, j)))
    shift = minus(row(z, i), row(z, j))
    return along(turned_past, 1.0, along(shift, -dot(shift, n), n))


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
def normal_push(arrays: SphereArrays, s: int) -> float:
    """f_n of active pair ``s``, N: the elastic force and that of the dashpot, never a pull."""
    active, neighbors, v = arrays.active, arrays.neighbors, arrays.motion.v
    c = active.pair[s]
    rate = dot(row(active.n, s), minus(row(v, neighbors.i[c]), row(v, neighbors.j[c])))
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
    n = row(active.n, s)
    before, distance = n, active.distance[s]
    if not neighbors.wall[c] and share > 0.0:
        start = minus(minus(row(m.x, i), row(m.x, j)), minus(row(d, i), row(d, j)))
        before = unit(start)
        distance = 0.5 * (distance + np.sqrt(dot(start, start)))
    middle = unit(along(before, 1.0, n))
    a, b = turn_of(d, i), (0.0, 0.0, 0.0)
    if not neighbors.wall[c]:
        b = turn_of(d, j)
    mean = dot(along(a, 1.0, b), middle)
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
    spring = row(springs, c)
    lost = 0.5 * (p.old - p.k * p.shrink * p.shrink) * dot(spring, spring)
    spring = turned_about(times(p.shrink, spring), p.before, p.angle)
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
    turn = times(radius, minus(p.a, p.b))
    rolled, lost = stretched(p, springs.roll, c, springs.rolling[c] * p.push, cross(turn, n))
    twist = springs.twist[c]
    about = dot(turn, n)
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
        n, i, j = row(active.n, s), neighbors.i[c], neighbors.j[c]
        k, old = springs.ratio[c] * active.slope[s], springs.stiffness[c]
        spring = (0.0, 0.0, 0.0)
        if old > 0.0:
            spring = turned(times(min(k, old), row(springs.xi, c)), row(springs.normal, c), n)
            twist = 0.5 * dot(along(turn_of(v, i), 1.0, turn_of(v, j)), n)
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
    springs, neighbors = arrays.springs, arrays.neighbors
    active, scheme = arrays.active, arrays.scheme
    for s in range(count):
        c, grip = active.pair[s], active.grip[s]
        cap = springs.cap[c]
        grip.fill(0.0)
        if not cap > 0.0:
            continue
        i, j, n = neighbors.i[c], neighbors.j[c], row(active.n, s)
        arms = levers(arrays, s, active.distance[s])
        growth = scheme.alpha * springs.frozen[c] + springs.damping[c] / scheme.h
        force = along(trial_at(springs, c, n), growth, sliding(n, arms, i, j, d))
        size = np.sqrt(dot(force, force))
        grip[0] = abs(factor) * growth
        if size > cap:
            grip[0] *= cap / size
            grip[1], grip[2], grip[3] = unit(force)
            force = times(cap / size, force)
        springs.acting[c, 0], springs.acting[c, 1], springs.acting[c, 2] = force
        drag_pair(arrays, s, factor, out)


@part()
def drag_pair(arrays: SphereArrays, s: int, factor: float, out: FloatArray) -> None:
    """Add ``factor`` times the frictional force of active pair ``s`` to out."""
    c = arrays.active.pair[s]
    i, j = arrays.neighbors.i[c], arrays.neighbors.j[c]
    arms = levers(arrays, s, arrays.active.distance[s])
    drag(row(arrays.active.n, s), arms, i, j, times(factor, row(arrays.springs.acting, c)), out)


@part()
def trial_at(springs: Springs, c: int, n: Vector) -> Vector:
    """The force of a spring at the start of the step, turned to the normal n."""
    return turned(row(springs.trial, c), row(springs.at, c), n)


@part()
def add_grip_product(arrays: SphereArrays, s: int, z: FloatArray, out: FloatArray) -> None:
    """Add the matrix of the friction of active pair ``s`` times z to out."""
    g, c = arrays.active.grip[s], arrays.active.pair[s]
    if g[0] == 0.0:
        return
    i, j, n = arrays.neighbors.i[c], arrays.neighbors.j[c], row(arrays.active.n, s)
    arms = levers(arrays, s, arrays.active.distance[s])
    slip, way = sliding(n, arms, i, j, z), (g[1], g[2], g[3])
    drag(n, arms, i, j, times(g[0], minus(times(dot(way, slip), way), slip)), out)


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
        n, arms = row(arrays.active.n, s), levers(arrays, s, arrays.active.distance[s])
        t, slip = trial_at(springs, c, n), sliding(n, arms, neighbors.i[c], neighbors.j[c], d)
        force = row(springs.acting, c)
        stretch = times(1.0 / (scheme.alpha * k + dashpot), minus(force, t))
        lost += dot(force, minus(slip, stretch)) + dashpot * dot(stretch, stretch)
        lost -= 0.5 * dot(t, t) / k
        after = along(t, k, stretch)
        square = dot(after, after)
        if square > cap * cap:
            lost += 0.5 * (square - cap * cap) / k
            after = times(cap / np.sqrt(square), after)
        for axis in range(3):
            springs.trial[c, axis], springs.at[c, axis] = after[axis], n[axis]
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
