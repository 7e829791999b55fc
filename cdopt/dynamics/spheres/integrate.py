"""Many compiled steps in one call, until something needs the caller."""

from __future__ import annotations

import numpy as np

from cdopt._util.checks import FloatArray
from cdopt._util.compiled import compiled, part
from cdopt.dynamics.spheres.contacts import add_elastic, add_products, find_active, find_damped
from cdopt.dynamics.spheres.friction import add_friction, drag_pair, keep_springs, slide_back
from cdopt.dynamics.spheres.newton import CONVERGED, SOLVE, combine, copy, newton, predict
from cdopt.dynamics.spheres.system import (
    FORCED,
    NeighborList,
    SphereArrays,
    SphereMotion,
    SphereSystem,
)

DONE, STALE, DIVERGED, TOO_DEEP, NEEDS_SOLVE, NOT_CERTIFIED = range(6)


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
def accelerate(
    g: SphereSystem, v: FloatArray, force: FloatArray, h: float, out: FloatArray
) -> None:
    """out = v + h M⁻¹ F, of free bodies; fixed ones keep v."""
    for b in range(g.free.size):
        for k in range(6):
            out[b, k] = v[b, k] + (h * force[b, k] / g.weight[b, k] if g.free[b] else 0.0)


@part()
def kick_work(
    g: SphereSystem, v: FloatArray, v_next: FloatArray, force: FloatArray, h: float
) -> float:
    """Change of the kinetic energy of free bodies by impulses h F: their work on the mean speed."""
    work = 0.0
    for b in range(g.free.size):
        if g.free[b]:
            for k in range(6):
                work += 0.5 * h * force[b, k] * (v[b, k] + v_next[b, k])
    return work


@part()
def too_deep(arrays: SphereArrays, count: int) -> bool:
    """Whether some overlap exceeds the smaller radius of its two spheres."""
    g, neighbors, active = arrays.system, arrays.neighbors, arrays.active
    for s in range(count):
        c = active.pair[s]
        least = g.radius[neighbors.i[c]]
        if not neighbors.wall[c]:
            least = min(least, g.radius[neighbors.j[c]])
        if not active.overlap[s] <= least:
            return True
    return False


@part()
def account(
    g: SphereSystem,
    v: FloatArray,
    d: FloatArray,
    elastic: FloatArray,
    damping: FloatArray,
    ledger: FloatArray,
) -> None:
    """Add to ``ledger`` (4,) what damping took from free bodies in a step, and external work, J.

    v (nb, 6) mean velocities, d (nb, 6) displacements; impulses ``damping`` and ``elastic``
    (nb, 6), the latter with those of loads. Loads do work on free bodies, and moving walls through
    elastic contacts. The third number is the error of the scheme but for the change of elastic
    energy: with the kinetic energy that impulses gave (``kick_work``, added by the caller), what
    was dissipated and what gravity stored, less the external work. The fourth is what friction
    took (``slid``), which the first has too.
    """
    lost, work, fallen = 0.0, 0.0, 0.0
    for b in range(g.free.size):
        for k in range(6):
            if g.free[b]:
                lost -= damping[b, k] * v[b, k]
                work += g.applied[b, k] * d[b, k]
                fallen += (g.load[b, k] - g.applied[b, k]) * d[b, k]
            else:
                work -= elastic[b, k] * v[b, k]
    ledger[0] += lost
    ledger[1] += work
    ledger[2] += lost - work - fallen


@part()
def slid(lost: float, ledger: FloatArray) -> None:
    """Add to ``ledger`` (4,) what friction took, J."""
    for entry in (0, 2, 3):
        ledger[entry] += lost


@part()
def end_step(arrays: SphereArrays, count: int, ledger: FloatArray) -> int:
    """Take the step d that Newton's method found, or return why it cannot be taken.

    v⁺ = v + M⁻¹ (h (F_ext − ∇V)(q_α) + damping). ``active`` holds the pairs that act at q_α.
    The work of all impulses is that on the mean of v and v⁺, which is the change of the kinetic
    energy but for round-off.
    """
    g, m, w, scheme = arrays.system, arrays.motion, arrays.work, arrays.scheme
    damping, impulse, damped, mean = arrays.active.damping, w.trial, w.start_damping, w.y
    if outdated(arrays.neighbors, m.x, w.d):
        return STALE
    if too_deep(arrays, count):
        return TOO_DEEP
    combine(scheme.h, g.load, 0.0, g.load, impulse)
    add_elastic(arrays, count, scheme.h, impulse)
    add_products(arrays, count, damping, -0.5, w.d, damped)
    lost = 0.0
    if arrays.springs.mu.size:
        for s in range(count):
            if arrays.springs.cap[arrays.active.pair[s]] > 0.0:
                drag_pair(arrays, s, scheme.h, impulse)
        lost = slide_back(arrays, count, w.d)
    if scheme.split == FORCED:
        if scheme.alpha != 0.5:
            count = find_active(arrays, w.d, 1.0 - scheme.alpha)
        add_products(arrays, count, damping, -0.5, w.d, damped)
    count = find_active(arrays, w.d, 1.0)
    if too_deep(arrays, count):
        return TOO_DEEP
    copy(m.v, mean)
    combine(1.0, impulse, 1.0, damped, w.r)
    accelerate(g, m.v, w.r, 1.0, m.v)
    ledger[2] += kick_work(g, mean, m.v, w.r, 1.0)
    combine(0.5, m.v, 0.5, mean, mean)
    account(g, mean, w.d, impulse, damped, ledger)
    slid(lost + keep_springs(arrays.springs), ledger)
    move(g, m, w.d)
    return DONE


@compiled()
def variational(
    arrays: SphereArrays,
    steps: int,
    iterations: FloatArray,
    worst: FloatArray,
    ledger: FloatArray,
) -> tuple[int, int]:
    """Up to ``steps`` steps of the variational integrator; returns the outcome and how many.

    With NEEDS_SOLVE the caller has to solve a linear system and to call again. Adds to
    ``iterations`` those of Newton's and of the linear solver; ``worst`` are the worst residual of
    the steps taken, and that of a step that could not be taken; ``ledger`` as in ``account``.
    """
    w, scheme = arrays.work, arrays.scheme
    for s in range(steps):
        if not w.pending[0]:
            predict(arrays)
            if outdated(arrays.neighbors, arrays.motion.x, w.d):
                return STALE, s
        state, count, nonlinear, linear, relative, residual = newton(arrays)
        iterations[0] += nonlinear
        iterations[1] += linear
        if state != CONVERGED:
            worst[1] = relative
            return NEEDS_SOLVE if state == SOLVE else DIVERGED, s
        if scheme.strict and residual > scheme.accept:
            worst[1] = residual
            return NOT_CERTIFIED, s
        outcome = end_step(arrays, count, ledger)
        if outcome != DONE:
            return outcome, s
        worst[0] = max(worst[0], residual)
    return DONE, steps


@compiled()
def all_forces(arrays: SphereArrays, share: float, out: FloatArray) -> tuple[int, float]:
    """Loads, elastic, damping and frictional forces at x and v, in ``out`` (nb, 6).

    Returns the number of pairs and what friction took, J; ``share`` as in ``add_friction``. The
    forces of dashpots alone, but for those of friction, are in ``work.y``, the others in
    ``work.r``.
    """
    w, lost = arrays.work, 0.0
    count = find_damped(arrays, w.d, 0.0)
    copy(arrays.system.load, w.r)
    add_elastic(arrays, count, 1.0, w.r)
    if arrays.springs.mu.size:
        lost = add_friction(arrays, count, share, w.r)
    w.y.fill(0.0)
    add_products(arrays, count, arrays.active.damping, -1.0, arrays.motion.v, w.y)
    combine(1.0, w.r, 1.0, w.y, out)
    return count, lost


@compiled()
def velocity_verlet(
    arrays: SphereArrays, force: FloatArray, steps: int, ledger: FloatArray
) -> tuple[int, int]:
    """Up to ``steps`` steps: half kick, drift, forces, half kick; ``force`` goes on from each.

    Damping sees the velocities of the half step, as in molecular dynamics codes. ``ledger`` as in
    ``account``, with the velocities of the half step.
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
        count, lost = all_forces(arrays, 1.0, force)
        if too_deep(arrays, count):
            return TOO_DEEP, s
        combine(h, w.r, 0.0, w.r, w.r)
        combine(h, w.y, 0.0, w.y, w.y)
        account(g, m.v, w.d, w.r, w.y, ledger)
        slid(lost, ledger)
        accelerate(g, m.v, force, 0.5 * h, m.v)
        ledger[2] += kick_work(g, w.trial, m.v, force, 0.5 * h)
    return DONE, steps
