"""Compiled loops over pairs in contact: gaps, elastic forces, damping and friction.

De Klerk et al. (2021), equations (20)–(25): F_n = k δ^(p−1) − γ_n m_eff v_n along the normal,
F_t = −γ_t m_eff v_t across it, with lever |r|/2 at each of two spheres, and |r| at a wall, whose
distance from the centre is |r|: ``cdopt.collision.dissipation`` has the reason.

Friction has tangential springs with a history (Cundall & Strack 1979): each contact has a
spring ξ (m), whose force k_t ξ is at most μ f_n. Here a slider is in series with the
spring and its dashpot c in parallel. In a step with the tangential displacement s = s_el + s_slip

    T = k_t (ξ + α s_el) + (c/h) s_el,    |T| ≤ μ f_n,    s_slip = 0 or T = μ f_n s_slip/|s_slip|,

and ξ⁺ = ξ + s_el; α = 1 in velocity-Verlet. For α = ½ and a constant k_t the energy ½ k_t ξ² of
the spring and what slider and dashpot dissipate make up the work of T exactly.

Springs turn with the normal and with half the spin of the two bodies about it. Forces act at the
contact point, levers r_i − δ/2 and r_j − δ/2, so that angular momentum is kept. Of Hertz contacts
k_t grows with the overlap; a spring is shortened by k_t/k_t⁺ while it grows, so that the force is
kept, and not changed while it falls (Walton; ``mindlin_rescale/force`` in LAMMPS): both lose
energy, and none is created.

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
from cdopt._util.compiled import compiled, part
from cdopt.dynamics.spheres.system import SphereArrays, Springs
from cdopt.geometry.vectors import Vector, along, cross, dot, minus, row, times
from cdopt.problem.contact_law import force_and_tangent

contact_law = part(inline="always")(force_and_tangent)


@part()
def put(x: Vector, table: FloatArray, k: int) -> None:
    """Write a vector into row k of a table."""
    table[k, 0], table[k, 1], table[k, 2] = x


@part()
def turn_of(z: FloatArray, i: int) -> Vector:
    """The turn of body i in a table (nb, 6)."""
    return z[i, 3], z[i, 4], z[i, 5]


@part()
def shift_of(z: FloatArray, i: int, j: int) -> Vector:
    """How far body i moves past body j in a table (nb, 6)."""
    return minus(row(z, i), row(z, j))


@compiled()
def find_active(arrays: SphereArrays, d: FloatArray, a: float) -> int:
    """Put the pairs that act at x + a d (nb, 6) into ``arrays.active``; returns their number."""
    x, neighbors, active = arrays.motion.x, arrays.neighbors, arrays.active
    damped, power = arrays.work.damped, arrays.system.power
    count = 0
    for c in range(neighbors.i.size):
        i, j, reach = neighbors.i[c], neighbors.j[c], neighbors.reach[c]
        arm = along(minus(row(x, i), row(x, j)), a, shift_of(d, i, j))
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
        put(n, active.n, count)
        active.distance[count], active.overlap[count] = distance, overlap
        active.force[count], active.slope[count] = force, slope
        set_dashpots(arrays, count)
        count += 1
    return count


@part()
def set_dashpots(arrays: SphereArrays, s: int) -> None:
    """The dashpots of active pair ``s``, if it damps."""
    neighbors, c = arrays.neighbors, arrays.active.pair[s]
    damped = arrays.work.damped[c]
    arrays.active.damping[s, 0] = neighbors.c_n[c] if damped else 0.0
    arrays.active.damping[s, 2] = neighbors.c_t[c] if damped else 0.0


@part()
def find_damped(arrays: SphereArrays, d: FloatArray, a: float) -> int:
    """As ``find_active``, when the damped pairs are known: those that overlap, and bonds."""
    neighbors, active, damped = arrays.neighbors, arrays.active, arrays.work.damped
    for c in range(damped.size):
        damped[c] = False
    count = find_active(arrays, d, a)
    for s in range(count):
        c = active.pair[s]
        damped[c] = active.overlap[s] > 0.0 or neighbors.bonded[c]
        set_dashpots(arrays, s)
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
def lever(arrays: SphereArrays, s: int) -> float:
    """Of the dashpots of active pair ``s``, m."""
    wall = arrays.neighbors.wall[arrays.active.pair[s]]
    return arrays.active.distance[s] * (1.0 if wall else 0.5)


@part()
def add_product(
    arrays: SphereArrays,
    s: int,
    factors: tuple[float, float, float],
    z: FloatArray,
    out: FloatArray,
) -> None:
    """Add to out (nb, 6) the matrix of active pair ``s`` times z: normal, across, sliding."""
    neighbors, c, turning = arrays.neighbors, arrays.active.pair[s], arrays.system.turning
    i, j, wall = neighbors.i[c], neighbors.j[c], neighbors.wall[c]
    normal, shift = row(arrays.active.n, s), shift_of(z, i, j)
    apart = dot(shift, normal)
    slip = along(shift, -apart, normal)
    force = along(times(factors[0] * apart, normal), factors[1], slip)
    if factors[2] != 0.0:
        arm = lever(arrays, s)
        if turning:
            turn = turn_of(z, i)
            if not wall:
                turn = along(turn, 1.0, turn_of(z, j))
            slip = along(slip, arm, cross(normal, turn))
        drag = times(factors[2], slip)
        force = along(force, 1.0, drag)
        if turning:
            torque = times(arm, cross(drag, normal))
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
    for s in range(count):
        factors = (factor * table[s, 0], factor * table[s, 1], factor * table[s, 2])
        if factors[0] != 0.0 or factors[1] != 0.0 or factors[2] != 0.0:
            add_product(arrays, s, factors, z, out)


# --- a spring of friction ----------------------------------------------------------------


class Slid(NamedTuple):
    """A spring after a displacement."""

    force: Vector  # on the second body
    spring: Vector
    lost: float  # J


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
def sliding(arrays: SphereArrays, s: int, n: Vector, distance: float, z: FloatArray) -> Vector:
    """How far the surfaces of active pair ``s`` go past each other, by z (nb, 6)."""
    c, arms = arrays.active.pair[s], levers(arrays, s, distance)
    i, j = arrays.neighbors.i[c], arrays.neighbors.j[c]
    turned_past = cross(n, along(times(arms[0], turn_of(z, i)), arms[1], turn_of(z, j)))
    shift = shift_of(z, i, j)
    return along(turned_past, 1.0, along(shift, -dot(shift, n), n))


@part()
def drag(arrays: SphereArrays, s: int, n: Vector, force: Vector, out: FloatArray) -> None:
    """Add a tangential force on body j of pair ``s``, and its opposite on i, to out (nb, 6)."""
    c, arms = arrays.active.pair[s], levers(arrays, s, arrays.active.distance[s])
    i, j, torque = arrays.neighbors.i[c], arrays.neighbors.j[c], cross(n, force)
    for axis in range(3):
        out[i, axis] -= force[axis]
        out[j, axis] += force[axis]
        out[i, 3 + axis] += arms[0] * torque[axis]
        out[j, 3 + axis] += arms[1] * torque[axis]


@part()
def normal_push(arrays: SphereArrays, s: int) -> float:
    """f_n of active pair ``s``, N: the elastic force and that of the dashpot, never a pull."""
    neighbors, c = arrays.neighbors, arrays.active.pair[s]
    shift = shift_of(arrays.motion.v, neighbors.i[c], neighbors.j[c])
    rate = dot(row(arrays.active.n, s), shift)
    return max(0.0, arrays.active.force[s] - neighbors.c_n[c] * rate)


# --- friction of velocity-Verlet ---------------------------------------------------------


class PairMotion(NamedTuple):
    """A pair in a step, and the law of its springs."""

    before: Vector  # unit normals at its start, in its middle and at its end
    middle: Vector
    after: Vector
    distance: float  # |r| in the middle, m
    angle: float  # that springs turn about the normal, rad
    a: Vector  # turns of the bodies, rad
    b: Vector
    k: float  # this and the next two as in ``slide``
    c: float
    share: float
    push: float  # f_n, N
    old: float  # k_t before, N/m
    shrink: float  # factor on springs


@part()
def motion_of_pair(arrays: SphereArrays, s: int, share: float) -> PairMotion:
    """Active pair ``s`` in the step whose displacements are in ``work.d``."""
    m, neighbors, springs = arrays.motion, arrays.neighbors, arrays.springs
    active, d, c = arrays.active, arrays.work.d, arrays.active.pair[s]
    i, j, wall = neighbors.i[c], neighbors.j[c], neighbors.wall[c]
    n = row(active.n, s)
    before, distance = n, active.distance[s]
    if not wall and share > 0.0:
        start = minus(minus(row(m.x, i), row(m.x, j)), shift_of(d, i, j))
        before = unit(start)
        distance = 0.5 * (distance + np.sqrt(dot(start, start)))
    middle = unit(along(before, 1.0, n))
    a, b = turn_of(d, i), (0.0, 0.0, 0.0)
    if not wall:
        b = turn_of(d, j)
    angle = 0.5 * dot(along(a, 1.0, b), middle) * share
    push = normal_push(arrays, s)
    k, old = springs.ratio[c] * active.slope[s], springs.stiffness[c]
    shrink = old / k if k > old > 0.0 else 1.0
    damping = springs.damping[c] / arrays.scheme.h
    return PairMotion(
        before, middle, n, distance, angle, a, b, k, damping, share, push, old, shrink
    )


@part()
def stretched(
    p: PairMotion, springs: FloatArray, c: int, cap: float, s: Vector
) -> tuple[Slid, float]:
    """The spring ``springs[c]`` after a displacement s, written if α > 0, and energy lost."""
    spring = row(springs, c)
    lost = 0.5 * (p.old - p.k * p.shrink * p.shrink) * dot(spring, spring)
    spring = turned_about(times(p.shrink, spring), p.before, p.angle)
    moved = slide(p.k, p.c, p.share, cap, turned(spring, p.before, p.middle), s)
    if p.share > 0.0:
        put(turned(moved.spring, p.middle, p.after), springs, c)
    return moved, lost + moved.lost


@part()
def add_tangential(arrays: SphereArrays, s: int, p: PairMotion, out: FloatArray) -> float:
    """Add the tangential force of active pair ``s`` to ``out``; returns the energy lost."""
    springs, c = arrays.springs, arrays.active.pair[s]
    slip = sliding(arrays, s, p.middle, p.distance, arrays.work.d)
    moved, lost = stretched(p, springs.xi, c, springs.mu[c] * p.push, slip)
    force = turned(moved.force, p.middle, p.after)
    drag(arrays, s, p.after, force, out)
    put(force, springs.force, c)
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
    twist, about = springs.twist[c], dot(turn, n)
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
    """Add the friction of velocity-Verlet to ``out`` (nb, 6); returns the energy lost, J.

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
    """Reset springs of pairs that have parted; returns the energy that was in them."""
    lost, none = 0.0, (0.0, 0.0, 0.0)
    for c in range(springs.stiffness.size):
        if springs.stiffness[c] > 0.0 and not touching[c]:
            square = springs.twist[c] ** 2
            for axis in range(3):
                square += springs.xi[c, axis] ** 2 + springs.roll[c, axis] ** 2
            lost += 0.5 * springs.stiffness[c] * square
            springs.stiffness[c] = springs.twist[c] = 0.0
            put(none, springs.xi, c)
            put(none, springs.roll, c)
            put(none, springs.force, c)
    return lost


# --- friction of the variational integrator ----------------------------------------------


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
        put(spring, springs.trial, c)
        put(n, springs.at, c)


@part()
def trial_at(springs: Springs, c: int, n: Vector) -> Vector:
    """The force of a spring at the start of the step, turned to the normal n."""
    return turned(row(springs.trial, c), row(springs.at, c), n)


@part()
def add_grips(
    arrays: SphereArrays, count: int, d: FloatArray, factor: float, out: FloatArray
) -> None:
    """Add ``factor`` times the friction of a step d to out; sets ``acting`` and ``grip``."""
    springs, active, scheme = arrays.springs, arrays.active, arrays.scheme
    for s in range(count):
        c, grip = active.pair[s], active.grip[s]
        cap = springs.cap[c]
        grip.fill(0.0)
        if not cap > 0.0:
            continue
        n = row(active.n, s)
        growth = scheme.alpha * springs.frozen[c] + springs.damping[c] / scheme.h
        slip = sliding(arrays, s, n, active.distance[s], d)
        force = along(trial_at(springs, c, n), growth, slip)
        size = np.sqrt(dot(force, force))
        grip[0] = abs(factor) * growth
        if size > cap:
            grip[0] *= cap / size
            grip[1], grip[2], grip[3] = unit(force)
            force = times(cap / size, force)
        put(force, springs.acting, c)
        add_acting(arrays, s, factor, out)


@part()
def add_acting(arrays: SphereArrays, s: int, factor: float, out: FloatArray) -> None:
    """Add ``factor`` times the frictional force of active pair ``s`` to out, if it has one."""
    c = arrays.active.pair[s]
    if arrays.springs.cap[c] > 0.0:
        force = times(factor, row(arrays.springs.acting, c))
        drag(arrays, s, row(arrays.active.n, s), force, out)


@part()
def add_grip_product(arrays: SphereArrays, s: int, z: FloatArray, out: FloatArray) -> None:
    """Add the matrix of the friction of active pair ``s`` times z to out."""
    g, n = arrays.active.grip[s], row(arrays.active.n, s)
    if g[0] == 0.0:
        return
    slip, way = sliding(arrays, s, n, arrays.active.distance[s], z), (g[1], g[2], g[3])
    drag(arrays, s, n, times(g[0], minus(times(dot(way, slip), way), slip)), out)


@part()
def slide_back(arrays: SphereArrays, count: int, d: FloatArray) -> float:
    """The springs' forces after a step d, in ``trial``; returns the loss in slip and dashpots.

    The active pairs are those at q_α. Springs that end beyond their cap slip back to it. The
    energy, J, is less that in the springs before they were stretched.
    """
    springs, active, scheme, lost = arrays.springs, arrays.active, arrays.scheme, 0.0
    for s in range(count):
        c, n = active.pair[s], row(active.n, s)
        cap, k, dashpot = springs.cap[c], springs.frozen[c], springs.damping[c] / scheme.h
        if not cap > 0.0:
            continue
        t, slip = trial_at(springs, c, n), sliding(arrays, s, n, active.distance[s], d)
        force = row(springs.acting, c)
        stretch = times(1.0 / (scheme.alpha * k + dashpot), minus(force, t))
        lost += dot(force, minus(slip, stretch)) + dashpot * dot(stretch, stretch)
        lost -= 0.5 * dot(t, t) / k
        after = along(t, k, stretch)
        square = dot(after, after)
        if square > cap * cap:
            lost += 0.5 * (square - cap * cap) / k
            after = times(cap / np.sqrt(square), after)
        put(after, springs.trial, c)
        put(n, springs.at, c)
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
