"""Compiled steps of the variational integrator: Newton's method.

De Klerk et al. (2021), Algorithm 1, with the corrections of sign and Hessian: with Δq = q⁺ − q,

    R(Δq) = mom − M Δq/h − h (1−α) (∇V − F_ext)(q_α) − ½ C(q_α) Δq + Qᵖ = 0

Qᵖ = −(h/2) C(q) v in the paper's split and 0 in the forced one. The pairs that damp are those that
touch in q + α h v, for the whole step. The matrix of Newton's method is −∂R/∂q⁺ without the change
of C, M/h + h α (1−α) ∇²V + ½ C. Its linear systems are solved here by conjugate gradients, or by
the caller: ``newton`` then returns to it for each and goes on when called again.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from cdopt._util.checks import BoolArray, FloatArray, IntArray
from cdopt._util.compiled import compiled, part
from cdopt.dynamics.spheres.contacts import (
    ActiveContacts,
    add_damping,
    add_elastic,
    find_active,
    mark_overlapping,
    pair_product,
)
from cdopt.dynamics.spheres.system import NeighborList, SphereMotion, SphereSystem

PAPER, FORCED = 0, 1
_CG_SHARE = 1e-3  # accuracy of the linear systems, of the residual
_CG_MOST = 2000
_BACKTRACKS = 12
_ROUND_OFF = 64.0 * 2.2e-16  # of a distance, times the stiffness: no residual gets below it
_EPS = 8.0 * 2.2e-16  # round-off of the terms of a sum
_EXTRA = 5  # iterations that a residual may take which is small beside the fastest body alone
CONVERGED, STUCK, SOLVE = 0, 1, 2


class Scheme(NamedTuple):
    """The integrator.

    Attributes
    ----------
    h : time step, s. alpha : α. split : PAPER or FORCED.
    tol : of the residual, as a share of the fastest speed. limit : Newton iterations at most.
    direct : whether the caller solves the linear systems.
    accept : the largest residual of a certified step, as a share of what acts on each body.
    strict : whether a step that is not certified ends the run.
    """

    h: float
    alpha: float = 0.5
    split: int = FORCED
    tol: float = 1e-12
    limit: int = 60
    direct: bool = False
    accept: float = 1e-6
    strict: bool = True


class Workspace(NamedTuple):
    """Arrays of a step, all (nb, 6) but ``damped`` (np,) and ``pending``.

    ``pending`` holds, while the caller solves a linear system for ``z`` with right-hand side
    ``R``, 1, the iterations so far, the extra ones and the number of active pairs; else 0.
    """

    damped: BoolArray
    pending: IntArray
    d: FloatArray
    start_damping: FloatArray
    R: FloatArray
    R_new: FloatArray
    z: FloatArray
    r: FloatArray
    y: FloatArray
    p: FloatArray
    diagonal: FloatArray
    impulse: FloatArray
    trial: FloatArray


class Step(NamedTuple):
    """Everything that the loops of a step read and write."""

    system: SphereSystem
    motion: SphereMotion
    neighbors: NeighborList
    active: ActiveContacts
    work: Workspace
    scheme: Scheme


def workspace(nb: int, pairs: int) -> Workspace:
    """Space for ``nb`` bodies and so many pairs."""
    damped, pending = np.zeros(pairs, dtype=np.bool_), np.zeros(4, dtype=np.int64)
    return Workspace(damped, pending, *(np.zeros((nb, 6)) for _ in range(11)))


@part()
def predict(step: Step) -> None:
    """Predict Δq = h v, choose the pairs that damp, and set Qᵖ (in ``start_damping``)."""
    g, m, neighbors, active, w, scheme = step
    nb = g.free.size
    for b in range(nb):
        for k in range(6):
            w.d[b, k] = scheme.h * m.v[b, k]
    w.damped.fill(False)
    count = find_active(m.x, w.d, scheme.alpha, neighbors, w.damped, g.power, active)
    mark_overlapping(neighbors, active, count, w.damped)
    w.start_damping.fill(0.0)
    if scheme.split == PAPER:
        count = find_active(m.x, w.d, 0.0, neighbors, w.damped, g.power, active)
        factor, out = -0.5 * scheme.h, w.start_damping
        add_damping(neighbors, active, count, w.damped, factor, m.v, out, g.turning)


@compiled()
def residual(step: Step, d: FloatArray, R: FloatArray) -> int:
    """R(d) of free bodies, N s; returns the number of pairs that act at q_α."""
    g, m, neighbors, active, w, scheme = step
    share = scheme.h * (1.0 - scheme.alpha)
    count = find_active(m.x, d, scheme.alpha, neighbors, w.damped, g.power, active)
    for b in range(g.free.size):
        for k in range(6):
            momentum = g.weight[b, k] * (m.v[b, k] - d[b, k] / scheme.h)
            R[b, k] = momentum + share * g.load[b, k] + w.start_damping[b, k]
    add_elastic(neighbors, active, count, share, R)
    add_damping(neighbors, active, count, w.damped, -0.5, d, R, g.turning)
    for b in range(g.free.size):
        if not g.free[b]:
            for k in range(6):
                R[b, k] = 0.0
    return count


@compiled()
def size(g: SphereSystem, R: FloatArray) -> float:
    """The largest entry of R as a speed of a surface, m/s."""
    worst = 0.0
    for b in range(g.free.size):
        if g.free[b]:
            for k in range(3):
                along = abs(R[b, k]) / g.weight[b, k]
                turn = abs(R[b, k + 3]) / g.weight[b, k + 3] * g.radius[b]
                if not np.isfinite(R[b, k] + R[b, k + 3]):
                    return np.inf
                worst = max(worst, along, turn)
    return worst


@part(inline="always")
def place_size(wall: bool, distance: float, x: FloatArray, i: int, j: int) -> float:
    """The positions of which the distance of a pair is the difference, m."""
    if wall:  # a height is the difference of positions that may be far from zero
        for k in range(3):
            distance = max(distance, abs(x[i, k] - x[j, k]))
    return distance


@compiled()
def scale(step: Step, count: int) -> tuple[float, float]:
    """The speed that residuals are measured by, and what round-off leaves of them, m/s."""
    g, m, neighbors, active, _, scheme = step
    fastest, stiffest = 0.0, 0.0
    for b in range(g.free.size):
        for k in range(3):
            along = abs(m.v[b, k]) + scheme.h * abs(g.load[b, k]) / g.weight[b, k]
            turn = abs(m.v[b, k + 3]) + scheme.h * abs(g.load[b, k + 3]) / g.weight[b, k + 3]
            fastest = max(fastest, along, g.radius[b] * turn)
    for s in range(count):
        c = active.pair[s]
        i, j = neighbors.i[c], neighbors.j[c]
        light = g.weight[i, 0] if g.free[i] else g.weight[j, 0]
        if g.free[j]:
            light = min(light, g.weight[j, 0])
        fastest = max(fastest, scheme.h * abs(active.force[s]) / light)
        apart = place_size(neighbors.wall[c], active.distance[s], m.x, i, j)
        stiffest = max(stiffest, scheme.h * active.slope[s] * apart / light)
    return fastest, _ROUND_OFF * stiffest


@part(inline="always")
def curvature(wall: bool, share: float, force: float, distance: float) -> float:
    """The part of the matrix of a pair across its normal, for ``pair_product``."""
    return 0.0 if wall or distance == 0.0 else -share * force / distance


@part()
def matrix_product(step: Step, count: int, z: FloatArray, out: FloatArray) -> None:
    """out = (M/h + h α (1−α) ∇²V + ½ C) z, of free bodies."""
    g, _, neighbors, active, w, scheme = step
    share = scheme.h * scheme.alpha * (1.0 - scheme.alpha)
    for b in range(g.free.size):
        for k in range(6):
            out[b, k] = g.weight[b, k] / scheme.h * z[b, k]
    for s in range(count):
        c, distance = active.pair[s], active.distance[s]
        i, j, wall = neighbors.i[c], neighbors.j[c], neighbors.wall[c]
        along, slide = share * active.slope[s], 0.0
        if w.damped[c]:
            along += 0.5 * neighbors.c_n[c]
            slide = 0.5 * neighbors.c_t[c]
        factors = (along, curvature(wall, share, active.force[s], distance), slide)
        n = (active.n[s, 0], active.n[s, 1], active.n[s, 2])
        pair_product(i, j, wall, n, distance, factors, z, out, g.turning)
    for b in range(g.free.size):
        if not g.free[b]:
            for k in range(6):
                out[b, k] = 0.0


@compiled()
def matrix_blocks(step: Step, count: int) -> FloatArray:
    """The matrices (count, 12, 12) of all active pairs, for sparse factorisation."""
    g, _, neighbors, active, w, scheme = step
    share = scheme.h * scheme.alpha * (1.0 - scheme.alpha)
    blocks = np.zeros((count, 12, 12))
    z, out = np.zeros((2, 6)), np.zeros((2, 6))
    for s in range(count):
        c, distance = active.pair[s], active.distance[s]
        wall, along, slide = neighbors.wall[c], share * active.slope[s], 0.0
        if w.damped[c]:
            along += 0.5 * neighbors.c_n[c]
            slide = 0.5 * neighbors.c_t[c]
        factors = (along, curvature(wall, share, active.force[s], distance), slide)
        n = (active.n[s, 0], active.n[s, 1], active.n[s, 2])
        for column in range(12):
            z.fill(0.0)
            out.fill(0.0)
            z[column // 6, column % 6] = 1.0
            pair_product(0, 1, wall, n, distance, factors, z, out, g.turning)
            for row in range(12):
                blocks[s, row, column] = out[row // 6, row % 6]
    return blocks


@part()
def fill_diagonal(step: Step, count: int) -> None:
    """The diagonal of the matrix without the curvature of distances, for the preconditioner."""
    g, _, neighbors, active, w, scheme = step
    share = scheme.h * scheme.alpha * (1.0 - scheme.alpha)
    for b in range(g.free.size):
        for k in range(6):
            w.diagonal[b, k] = g.weight[b, k] / scheme.h
    for s in range(count):
        c = active.pair[s]
        i, j = neighbors.i[c], neighbors.j[c]
        along, slide = share * active.slope[s], 0.0
        if w.damped[c]:
            along += 0.5 * neighbors.c_n[c]
            slide = 0.5 * neighbors.c_t[c]
        lever = active.distance[s] * (1.0 if neighbors.wall[c] else 0.5)
        for k in range(3):
            square = active.n[s, k] * active.n[s, k]
            push = along * square + slide * (1.0 - square)
            w.diagonal[i, k] += push
            w.diagonal[j, k] += push
            turn = slide * lever * lever * (1.0 - square)
            w.diagonal[i, k + 3] += turn
            if not neighbors.wall[c]:
                w.diagonal[j, k + 3] += turn


@part()
def conjugate_gradients(step: Step, count: int, accuracy: float) -> int:
    """Solve for z (in ``w.z``) with right-hand side ``w.R``; returns the iterations."""
    g, w = step.system, step.work
    width = 6 if g.turning else 3
    fill_diagonal(step, count)
    rho, start = 0.0, 0.0
    w.z.fill(0.0)
    w.p.fill(0.0)
    for b in range(g.free.size):
        for k in range(width):
            w.r[b, k] = w.R[b, k]
            w.p[b, k] = w.R[b, k] / w.diagonal[b, k]
            rho += w.r[b, k] * w.p[b, k]
        for k in range(width, 6):  # nothing turns: these stand by themselves
            w.z[b, k] = w.R[b, k] / w.diagonal[b, k]
    start = rho
    iterations = 0
    while iterations < _CG_MOST and rho > accuracy * accuracy * start:
        matrix_product(step, count, w.p, w.y)
        bent = 0.0
        for b in range(g.free.size):
            for k in range(width):
                bent += w.p[b, k] * w.y[b, k]
        if not bent > 0.0:
            break
        length = rho / bent
        before, rho = rho, 0.0
        for b in range(g.free.size):
            for k in range(width):
                w.z[b, k] += length * w.p[b, k]
                w.r[b, k] -= length * w.y[b, k]
                rho += w.r[b, k] * w.r[b, k] / w.diagonal[b, k]
        turn = rho / before
        for b in range(g.free.size):
            for k in range(width):
                w.p[b, k] = w.r[b, k] / w.diagonal[b, k] + turn * w.p[b, k]
        iterations += 1
    return iterations


@part()
def product(a: FloatArray, b: FloatArray) -> float:
    """Σ a b of two tables."""
    total = 0.0
    for i in range(a.shape[0]):
        for k in range(a.shape[1]):
            total += a[i, k] * b[i, k]
    return total


@compiled()
def line_search(step: Step) -> int:
    """Move d along z as far as the residual allows; R is then that of the new d."""
    g, w = step.system, step.work
    slope = product(w.R, w.z)
    length = 1.0
    count = 0
    for _ in range(_BACKTRACKS):
        for b in range(g.free.size):
            for k in range(6):
                w.trial[b, k] = w.d[b, k] + length * w.z[b, k]
        count = residual(step, w.trial, w.R_new)
        if product(w.R_new, w.z) >= -0.5 * slope:
            break
        length *= 0.5
    for b in range(g.free.size):
        for k in range(6):
            w.d[b, k] = w.trial[b, k]
            w.R[b, k] = w.R_new[b, k]
    return count


@part()
def certificate(step: Step, count: int) -> float:
    """The residual of a step, as a share of what acts on each body.

    max_j |R_j| / √(M_jj E_b) over the degrees of freedom j of free bodies b. E_b = Σ T_j²/M_jj, and
    T_j sums the absolute values of the terms of R_j. Round-off of these terms is taken off |R_j|,
    and so is what round-off of positions, times the stiffness, makes of elastic forces.
    """
    g, m, neighbors, active, w, scheme = step
    terms, noise, z, pair = w.trial, w.y, np.zeros((2, 6)), np.zeros((2, 6))
    share = scheme.h * (1.0 - scheme.alpha)
    for b in range(g.free.size):
        for k in range(6):
            moved = g.weight[b, k] * (abs(m.v[b, k]) + abs(w.d[b, k]) / scheme.h)
            terms[b, k] = moved + share * abs(g.load[b, k]) + abs(w.start_damping[b, k])
            noise[b, k] = 0.0
    for s in range(count):
        c = active.pair[s]
        i, j = neighbors.i[c], neighbors.j[c]
        pair.fill(0.0)
        if w.damped[c]:
            for k in range(6):
                z[0, k], z[1, k] = w.d[i, k], w.d[j, k]
            factors = (0.5 * neighbors.c_n[c], 0.0, 0.5 * neighbors.c_t[c])
            n = (active.n[s, 0], active.n[s, 1], active.n[s, 2])
            wall, distance = neighbors.wall[c], active.distance[s]
            pair_product(0, 1, wall, n, distance, factors, z, pair, g.turning)
        apart = place_size(neighbors.wall[c], active.distance[s], m.x, i, j)
        blur = _ROUND_OFF * share * active.slope[s] * apart
        for k in range(3):
            pair[0, k] = abs(pair[0, k]) + share * abs(active.force[s] * active.n[s, k])
            pair[1, k] = abs(pair[1, k]) + share * abs(active.force[s] * active.n[s, k])
            noise[i, k] += blur
            noise[j, k] += blur
        for k in range(6):
            terms[i, k] += abs(pair[0, k])
            terms[j, k] += abs(pair[1, k])
    worst = 0.0
    for b in range(g.free.size):
        if not g.free[b]:
            continue
        energy = 0.0
        for k in range(6):
            energy += terms[b, k] * terms[b, k] / g.weight[b, k]
        for k in range(6):
            left = abs(w.R[b, k]) - _EPS * terms[b, k] - noise[b, k]
            if not np.isfinite(left + energy):
                return np.inf
            if left > 0.0:
                worst = max(worst, left / np.sqrt(g.weight[b, k] * energy))
    return worst


@part()
def newton(step: Step) -> tuple[int, int, int, int, float, float]:
    """Find d with R(d) = 0, to the tolerance or to round-off.

    Stops at a residual that is small beside the fastest speed, and goes on for a few iterations
    where it is not small beside what acts on each body.

    Returns the outcome; the number of pairs that act at q_α, which ``active`` holds; iterations
    (0 with SOLVE), and those of the linear solver; the residual as a share of the fastest speed;
    and that of the certificate.
    """
    g, scheme, w = step.system, step.scheme, step.work
    linear, iterations, extra = 0, 0, 0
    if w.pending[0]:
        w.pending[0], iterations, extra = 0, w.pending[1], w.pending[2]
        count = line_search(step)
    else:
        count = residual(step, w.d, w.R)
    while True:
        speed, floor = scale(step, count)
        error = size(g, w.R)
        relative = error / speed if speed > 0.0 else error
        if error <= max(scheme.tol * speed, floor):
            worst = certificate(step, count)
            if worst <= scheme.accept or extra == _EXTRA or iterations >= scheme.limit:
                return CONVERGED, count, iterations, linear, relative, worst
            extra += 1
        elif iterations >= scheme.limit or not np.isfinite(error):
            return STUCK, count, iterations, linear, relative, np.inf
        iterations += 1
        if scheme.direct:
            w.pending[0], w.pending[1], w.pending[2], w.pending[3] = 1, iterations, extra, count
            return SOLVE, count, 0, linear, relative, np.inf
        aim = max(_CG_SHARE * min(1.0, relative), 0.1 * max(scheme.tol * speed, floor) / error)
        if extra:
            aim = _CG_SHARE
        linear += conjugate_gradients(step, count, min(aim, 0.1))
        count = line_search(step)


@compiled()
def impulse(step: Step, count: int) -> None:
    """What the step adds to the momentum (in ``w.impulse``): h (F_ext − ∇V)(q_α) and damping.

    ``active`` holds the pairs that act at q_α.
    """
    g, m, neighbors, active, w, scheme = step
    for b in range(g.free.size):
        for k in range(6):
            w.impulse[b, k] = scheme.h * g.load[b, k] + w.start_damping[b, k]
    add_elastic(neighbors, active, count, scheme.h, w.impulse)
    add_damping(neighbors, active, count, w.damped, -0.5, w.d, w.impulse, g.turning)
    if scheme.split == FORCED:
        if scheme.alpha != 0.5:
            count = find_active(m.x, w.d, 1.0 - scheme.alpha, neighbors, w.damped, g.power, active)
        add_damping(neighbors, active, count, w.damped, -0.5, w.d, w.impulse, g.turning)
