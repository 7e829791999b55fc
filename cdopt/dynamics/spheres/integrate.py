"""Many compiled steps in one call, until something needs the caller."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from cdopt._util.checks import FloatArray
from cdopt._util.compiled import compiled, part
from cdopt.dynamics.spheres.contacts import (
    add_damping,
    add_elastic,
    find_active,
    mark_overlapping,
)
from cdopt.dynamics.spheres.newton import (
    CONVERGED,
    SOLVE,
    Step,
    impulse,
    newton,
    predict,
)
from cdopt.dynamics.spheres.system import NeighborList, SphereMotion, SphereSystem

DONE, STALE, DIVERGED, TOO_DEEP, NEEDS_SOLVE, NOT_CERTIFIED = range(6)


class Statistics(NamedTuple):
    """Cost and quality of many steps.

    Attributes
    ----------
    counts : Newton and linear iterations.
    worst : the worst residual of the steps taken, and that of a step that could not be taken.
    """

    counts: FloatArray
    worst: FloatArray


@compiled()
def outdated(neighbors: NeighborList, x: FloatArray, d: FloatArray) -> bool:
    """Whether some body would be more than half the skin away from where it was listed, at x + d.

    x (nb, 3) m, d (nb, 6) m and rad. A displacement that is not finite counts as too large.
    """
    for b in range(x.shape[0]):
        square = 0.0
        for k in range(3):
            way = x[b, k] + d[b, k] - neighbors.listed[b, k]
            square += way * way
        if not square <= 0.25 * neighbors.skin * neighbors.skin:
            return True
    return False


@part()
def turn(q: FloatArray, angle: FloatArray) -> None:
    """Turn a unit quaternion q (4,) by a rotation vector (3,) in the global frame, rad."""
    size = np.sqrt(angle[0] ** 2 + angle[1] ** 2 + angle[2] ** 2)
    if size == 0.0:
        return
    c, s = np.cos(0.5 * size), np.sin(0.5 * size) / size
    a, b, e = s * angle[0], s * angle[1], s * angle[2]
    w, x, y, z = q[0], q[1], q[2], q[3]
    q[0] = c * w - a * x - b * y - e * z
    q[1] = c * x + a * w + b * z - e * y
    q[2] = c * y + b * w + e * x - a * z
    q[3] = c * z + e * w + a * y - b * x
    length = np.sqrt(q[0] ** 2 + q[1] ** 2 + q[2] ** 2 + q[3] ** 2)
    for k in range(4):
        q[k] /= length


@part()
def move(g: SphereSystem, m: SphereMotion, d: FloatArray) -> None:
    """Move all bodies by d (nb, 6)."""
    for b in range(g.free.size):
        for k in range(3):
            m.x[b, k] += d[b, k]
        m.angle[b] += d[b, 5]
        if not g.plane:
            turn(m.quaternion[b], d[b, 3:])


@part()
def too_deep(step: Step, count: int) -> bool:
    """Whether some overlap exceeds the smaller radius of its two spheres."""
    g, neighbors, active = step.system, step.neighbors, step.active
    for s in range(count):
        c = active.pair[s]
        i, j = neighbors.i[c], neighbors.j[c]
        least = g.radius[i] if neighbors.wall[c] else min(g.radius[i], g.radius[j])
        if not active.overlap[s] <= least:
            return True
    return False


@part()
def commit(step: Step) -> None:
    """Velocities and places at the end of the step."""
    g, m, w = step.system, step.motion, step.work
    for b in range(g.free.size):
        if g.free[b]:
            for k in range(6):
                m.v[b, k] += w.impulse[b, k] / g.weight[b, k]
    move(g, m, w.d)


@part()
def end_step(step: Step, count: int) -> int:
    """Take the step that Newton's method found, or say why not.

    ``active`` holds the pairs that act at q_α.
    """
    g, m, neighbors, active, w = step.system, step.motion, step.neighbors, step.active, step.work
    if outdated(neighbors, m.x, w.d):
        return STALE
    if too_deep(step, count):
        return TOO_DEEP
    impulse(step, count)
    count = find_active(m.x, w.d, 1.0, neighbors, w.damped, g.power, active)
    if too_deep(step, count):
        return TOO_DEEP
    commit(step)
    return DONE


@compiled()
def variational(step: Step, steps: int, statistics: Statistics) -> tuple[int, int]:
    """Up to ``steps`` steps of the variational integrator; returns the outcome and how many.

    With NEEDS_SOLVE the caller has to solve a linear system and to call again.
    """
    m, neighbors, w, scheme = step.motion, step.neighbors, step.work, step.scheme
    for s in range(steps):
        if not w.pending[0]:
            predict(step)
            if outdated(neighbors, m.x, w.d):
                return STALE, s
        state, count, iterations, linear, relative, worst = newton(step)
        statistics.counts[0] += iterations
        statistics.counts[1] += linear
        if state != CONVERGED:
            statistics.worst[1] = relative
            return NEEDS_SOLVE if state == SOLVE else DIVERGED, s
        if scheme.strict and worst > scheme.accept:
            statistics.worst[1] = worst
            return NOT_CERTIFIED, s
        outcome = end_step(step, count)
        if outcome != DONE:
            return outcome, s
        statistics.worst[0] = max(statistics.worst[0], worst)
    return DONE, steps


@compiled()
def all_forces(step: Step, out: FloatArray) -> int:
    """Loads, elastic and damping forces at x and v (in ``out``, (nb, 6)); their number."""
    g, m, neighbors, active, w = step.system, step.motion, step.neighbors, step.active, step.work
    for b in range(g.free.size):
        for k in range(6):
            out[b, k] = g.load[b, k]
    w.damped.fill(False)
    count = find_active(m.x, w.d, 0.0, neighbors, w.damped, g.power, active)
    mark_overlapping(neighbors, active, count, w.damped)
    add_elastic(neighbors, active, count, 1.0, out)
    add_damping(neighbors, active, count, w.damped, -1.0, m.v, out, g.turning)
    return count


@part()
def kick(g: SphereSystem, m: SphereMotion, force: FloatArray, h: float) -> None:
    """v += h M⁻¹ F of free bodies."""
    for b in range(g.free.size):
        if g.free[b]:
            for k in range(6):
                m.v[b, k] += h * force[b, k] / g.weight[b, k]


@compiled()
def velocity_verlet(step: Step, force: FloatArray, steps: int) -> tuple[int, int]:
    """Up to ``steps`` steps: half kick, drift, forces, half kick; ``force`` goes on from each.

    Damping sees the velocities of the half step, as in molecular dynamics codes.
    """
    g, m, w, h = step.system, step.motion, step.work, step.scheme.h
    for s in range(steps):
        for b in range(g.free.size):
            for k in range(6):
                weight = g.weight[b, k]
                pull = 0.5 * h * force[b, k] / weight if g.free[b] else 0.0
                w.d[b, k] = h * (m.v[b, k] + pull)
        if outdated(step.neighbors, m.x, w.d):
            return STALE, s
        kick(g, m, force, 0.5 * h)
        move(g, m, w.d)
        count = all_forces(step, force)
        if too_deep(step, count):
            return TOO_DEEP, s
        kick(g, m, force, 0.5 * h)
    return DONE, steps
