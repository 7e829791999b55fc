"""Compiled steps of the variational integrator and of velocity-Verlet, many in one call.

De Klerk et al. (2021), Algorithm 1, with the corrections of sign and Hessian: with Δq = q⁺ − q,

    R(Δq) = mom − M Δq/h − h (1−α) (∇V − F_ext − f_t)(q_α) − ½ C(q_α) Δq + Qᵖ = 0

Qᵖ = −(h/2) C(q) v in the paper's split and 0 in the forced one. The pairs that damp are those that
touch in q + α h v, for the whole step. The matrix of Newton's method is −∂R/∂q⁺ without the change
of C, M/h + h α (1−α) ∇²V + ½ C. Its linear systems are solved here by conjugate gradients, or by
the caller: ``newton`` then returns to it for each and goes on when called again.

The general Newton's method of ``cdopt.backends`` is not used here: a step of a few spheres takes
microseconds, less than one call of numpy.
"""

from __future__ import annotations

import numpy as np

from cdopt._util.checks import FloatArray
from cdopt._util.compiled import compiled, part
from cdopt.dynamics.spheres.forces import (
    add_acting,
    add_elastic,
    add_friction,
    add_grip_product,
    add_grips,
    add_product,
    add_products,
    find_active,
    find_damped,
    freeze,
    keep_springs,
    lever,
    slide_back,
)
from cdopt.dynamics.spheres.system import (
    FORCED,
    PAPER,
    NeighborList,
    SphereArrays,
    SphereMotion,
    SphereSystem,
)

DONE, STALE, DIVERGED, TOO_DEEP, NEEDS_SOLVE, NOT_CERTIFIED = range(6)
_CG_SHARE = 1e-3  # accuracy of the linear systems, of the residual
_CG_MOST = 2000
_BACKTRACKS = 12
_ROUND_OFF = 64.0 * 2.2e-16  # of a distance, times the stiffness: lower bound of residuals
_EPS = 8.0 * 2.2e-16  # round-off of the terms of a sum
_EXTRA = 5  # iterations for a residual that is small only compared with the fastest body


# --- tables (nb, 6) ----------------------------------------------------------------------


@part()
def combine(a: float, x: FloatArray, b: float, y: FloatArray, out: FloatArray) -> None:
    """out = a x + b y."""
    for i in range(out.shape[0]):
        for k in range(6):
            out[i, k] = a * x[i, k] + b * y[i, k]


@part()
def copy(x: FloatArray, out: FloatArray) -> None:
    """out = x; ``out[:] = x`` would compile numpy's message about shapes, for seconds."""
    for i in range(out.shape[0]):
        for k in range(6):
            out[i, k] = x[i, k]


@part()
def product(x: FloatArray, y: FloatArray) -> float:
    """Σ x y."""
    total = 0.0
    for i in range(x.shape[0]):
        for k in range(6):
            total += x[i, k] * y[i, k]
    return total


@part()
def clear_fixed(g: SphereSystem, table: FloatArray) -> None:
    """Zero in the rows of fixed bodies."""
    for b in range(g.free.size):
        if not g.free[b]:
            for k in range(6):
                table[b, k] = 0.0


# --- the residual ------------------------------------------------------------------------


@part()
def predict(arrays: SphereArrays) -> None:
    """Predict Δq = h v, choose the pairs that damp, and set Qᵖ (in ``start_damping``)."""
    m, w, scheme = arrays.motion, arrays.work, arrays.scheme
    combine(scheme.h, m.v, 0.0, m.v, w.d)
    count = find_damped(arrays, w.d, scheme.alpha)
    if arrays.springs.mu.size:
        freeze(arrays, count)
    w.start_damping.fill(0.0)
    if scheme.split == PAPER:
        count = find_active(arrays, w.d, 0.0)
        add_products(arrays, count, arrays.active.damping, -0.5 * scheme.h, m.v, w.start_damping)


@part()
def residual(arrays: SphereArrays, d: FloatArray, R: FloatArray) -> int:
    """R(d) of free bodies, N s; returns the number of pairs that act at q_α."""
    g, m, w, scheme = arrays.system, arrays.motion, arrays.work, arrays.scheme
    share = scheme.h * (1.0 - scheme.alpha)
    count = find_active(arrays, d, scheme.alpha)
    for b in range(g.free.size):
        for k in range(6):
            momentum = g.weight[b, k] * (m.v[b, k] - d[b, k] / scheme.h)
            R[b, k] = momentum + share * g.load[b, k] + w.start_damping[b, k]
    add_elastic(arrays, count, share, R)
    add_products(arrays, count, arrays.active.damping, -0.5, d, R)
    if arrays.springs.mu.size:
        add_grips(arrays, count, d, share, R)
    clear_fixed(g, R)
    return count


@part()
def size(g: SphereSystem, R: FloatArray) -> float:
    """The largest entry of R as a speed of a surface, m/s; infinite if one is no number."""
    worst = 0.0
    for b in range(g.free.size):
        if g.free[b]:
            for k in range(3):
                along = abs(R[b, k]) / g.weight[b, k]
                turn = abs(R[b, k + 3]) / g.weight[b, k + 3] * g.radius[b]
                if not np.isfinite(along + turn):
                    return np.inf
                worst = max(worst, along, turn)
    return worst


@part()
def magnitude(arrays: SphereArrays, s: int) -> float:
    """Size of the positions whose difference is the distance of active pair s, m."""
    neighbors, x = arrays.neighbors, arrays.motion.x
    c, largest = arrays.active.pair[s], arrays.active.distance[s]
    if neighbors.wall[c]:  # a height is the difference of positions that may be far from zero
        for k in range(3):
            largest = max(largest, abs(x[neighbors.i[c], k] - x[neighbors.j[c], k]))
    return largest


@part()
def scale(arrays: SphereArrays, count: int) -> tuple[float, float]:
    """The speed scale of residuals, and their round-off, m/s."""
    g, m, neighbors, active = arrays.system, arrays.motion, arrays.neighbors, arrays.active
    h, fastest, stiffest = arrays.scheme.h, 0.0, 0.0
    for b in range(g.free.size):
        for k in range(3):
            along = abs(m.v[b, k]) + h * abs(g.load[b, k]) / g.weight[b, k]
            turn = abs(m.v[b, k + 3]) + h * abs(g.load[b, k + 3]) / g.weight[b, k + 3]
            fastest = max(fastest, along, g.radius[b] * turn)
    for s in range(count):
        i, j = neighbors.i[active.pair[s]], neighbors.j[active.pair[s]]
        light = g.weight[i, 0] if g.free[i] else g.weight[j, 0]
        if g.free[j]:
            light = min(light, g.weight[j, 0])
        fastest = max(fastest, h * abs(active.force[s]) / light)
        stiffest = max(stiffest, h * active.slope[s] * magnitude(arrays, s) / light)
    return fastest, _ROUND_OFF * stiffest


@part()
def certificate(arrays: SphereArrays, count: int) -> float:
    """The residual of a step, as a share of the largest force on each body.

    max_j |R_j| / √(M_jj E_b) over the degrees of freedom j of free bodies b. E_b = Σ T_j²/M_jj, and
    T_j sums the absolute values of the terms of R_j. Round-off of these terms, and of positions
    times the stiffness, is subtracted from |R_j|.
    """
    g, m, w, scheme = arrays.system, arrays.motion, arrays.work, arrays.scheme
    neighbors, active = arrays.neighbors, arrays.active
    terms, noise, pair = w.trial, w.y, w.r
    share = scheme.h * (1.0 - scheme.alpha)
    for b in range(g.free.size):
        for k in range(6):
            moved = g.weight[b, k] * (abs(m.v[b, k]) + abs(w.d[b, k]) / scheme.h)
            terms[b, k] = moved + share * abs(g.load[b, k]) + abs(w.start_damping[b, k])
            noise[b, k] = 0.0
    for s in range(count):
        i, j = neighbors.i[active.pair[s]], neighbors.j[active.pair[s]]
        for k in range(6):
            pair[i, k] = pair[j, k] = 0.0
        factors = (0.5 * active.damping[s, 0], 0.0, 0.5 * active.damping[s, 2])
        add_product(arrays, s, factors, w.d, pair)
        if arrays.springs.mu.size:
            add_acting(arrays, s, share, pair)
        blur = _ROUND_OFF * share * active.slope[s] * magnitude(arrays, s)
        for k in range(6):
            push = share * abs(active.force[s] * active.n[s, k]) if k < 3 else 0.0
            for b in (i, j):
                terms[b, k] += abs(pair[b, k]) + push
                noise[b, k] += blur if k < 3 else 0.0
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


# --- the linear systems ------------------------------------------------------------------


@part()
def set_matrix(arrays: SphereArrays, count: int) -> None:
    """The matrix of each active pair: along its normal, across it (curvature), and of sliding."""
    neighbors, active, scheme = arrays.neighbors, arrays.active, arrays.scheme
    share = scheme.h * scheme.alpha * (1.0 - scheme.alpha)
    for s in range(count):
        active.matrix[s, 0] = share * active.slope[s] + 0.5 * active.damping[s, 0]
        flat = neighbors.wall[active.pair[s]] or active.distance[s] == 0.0
        active.matrix[s, 1] = 0.0 if flat else -share * active.force[s] / active.distance[s]
        active.matrix[s, 2] = 0.5 * active.damping[s, 2]


@part()
def matrix_product(arrays: SphereArrays, count: int, z: FloatArray, out: FloatArray) -> None:
    """out = (M/h + h α (1−α) ∇²V + ½ C) z, of free bodies."""
    g, h = arrays.system, arrays.scheme.h
    for b in range(g.free.size):
        for k in range(6):
            out[b, k] = g.weight[b, k] / h * z[b, k]
    add_products(arrays, count, arrays.active.matrix, 1.0, z, out)
    if arrays.springs.mu.size:
        for s in range(count):
            add_grip_product(arrays, s, z, out)
    clear_fixed(g, out)


@compiled()
def fill_blocks(arrays: SphereArrays, blocks: FloatArray) -> None:
    """The matrices (count, 12, 12) of all active pairs, for sparse factorisation."""
    neighbors, matrix = arrays.neighbors, arrays.active.matrix
    z, out = arrays.work.p, arrays.work.r
    for s in range(blocks.shape[0]):
        i, j = neighbors.i[arrays.active.pair[s]], neighbors.j[arrays.active.pair[s]]
        for column in range(12):
            for k in range(6):
                z[i, k] = z[j, k] = out[i, k] = out[j, k] = 0.0
            z[i if column < 6 else j, column % 6] = 1.0
            add_product(arrays, s, (matrix[s, 0], matrix[s, 1], matrix[s, 2]), z, out)
            if arrays.springs.mu.size:
                add_grip_product(arrays, s, z, out)
            for row in range(12):
                blocks[s, row, column] = out[i if row < 6 else j, row % 6]


@part()
def fill_diagonal(arrays: SphereArrays, count: int) -> None:
    """The diagonal of the matrix without the curvature of distances, for the preconditioner."""
    neighbors, active, diagonal = arrays.neighbors, arrays.active, arrays.work.diagonal
    combine(1.0 / arrays.scheme.h, arrays.system.weight, 0.0, arrays.system.weight, diagonal)
    for s in range(count):
        i, j = neighbors.i[active.pair[s]], neighbors.j[active.pair[s]]
        wall, along = neighbors.wall[active.pair[s]], active.matrix[s, 0]
        slide, arm = active.matrix[s, 2] + active.grip[s, 0], lever(arrays, s)
        for k in range(3):
            square = active.n[s, k] * active.n[s, k]
            push = along * square + slide * (1.0 - square)
            turn = slide * arm * arm * (1.0 - square)
            diagonal[i, k] += push
            diagonal[j, k] += push
            diagonal[i, k + 3] += turn
            if not wall:
                diagonal[j, k + 3] += turn


@part()
def precondition(r: FloatArray, diagonal: FloatArray, out: FloatArray) -> float:
    """out = r / diagonal; returns Σ r out."""
    for b in range(r.shape[0]):
        for k in range(6):
            out[b, k] = r[b, k] / diagonal[b, k]
    return product(r, out)


@part()
def conjugate_gradients(arrays: SphereArrays, count: int, accuracy: float) -> int:
    """Solve for z (in ``w.z``) with right-hand side ``w.R``; returns the iterations."""
    w = arrays.work
    fill_diagonal(arrays, count)
    w.z.fill(0.0)
    copy(w.R, w.r)
    rho = start = precondition(w.r, w.diagonal, w.p)
    iterations = 0
    while iterations < _CG_MOST and rho > accuracy * accuracy * start:
        matrix_product(arrays, count, w.p, w.y)
        curvature = product(w.p, w.y)
        if not curvature > 0.0:
            break
        combine(1.0, w.z, rho / curvature, w.p, w.z)
        combine(1.0, w.r, -rho / curvature, w.y, w.r)
        before, rho = rho, precondition(w.r, w.diagonal, w.y)
        combine(1.0, w.y, rho / before, w.p, w.p)
        iterations += 1
    return iterations


# --- Newton's method ---------------------------------------------------------------------


@part()
def line_search(arrays: SphereArrays) -> int:
    """Move d along z by a line search on the residual; R is then that of the new d."""
    w = arrays.work
    slope, length, count = product(w.R, w.z), 1.0, 0
    for _ in range(_BACKTRACKS):
        combine(1.0, w.d, length, w.z, w.trial)
        count = residual(arrays, w.trial, w.R_new)
        if product(w.R_new, w.z) >= -0.5 * slope:
            break
        length *= 0.5
    copy(w.trial, w.d)
    copy(w.R_new, w.R)
    return count


@part()
def newton(arrays: SphereArrays) -> tuple[int, int, int, int, float, float]:
    """Find d with R(d) = 0, to the tolerance or to round-off.

    Stops at a residual that is small compared with the fastest speed, and goes on for a few
    iterations where it is not small compared with the forces on each body.

    Returns DONE, DIVERGED or NEEDS_SOLVE; the number of pairs that act at q_α, which ``active``
    lists; iterations (0 with NEEDS_SOLVE), and those of the linear solver; the residual as a share
    of the fastest speed; and that of the certificate.
    """
    g, scheme, w = arrays.system, arrays.scheme, arrays.work
    linear, iterations, extra = 0, 0, 0
    if w.pending[0]:
        w.pending[0], iterations, extra = 0, w.pending[1], w.pending[2]
        count = line_search(arrays)
    else:
        count = residual(arrays, w.d, w.R)
    while True:
        speed, floor = scale(arrays, count)
        error, aim = size(g, w.R), max(scheme.tol * speed, floor)
        relative = error / speed if speed > 0.0 else error
        if error <= aim:
            worst = certificate(arrays, count)
            if worst <= scheme.accept or extra == _EXTRA or iterations >= scheme.limit:
                return DONE, count, iterations, linear, relative, worst
            extra += 1
        elif iterations >= scheme.limit or not np.isfinite(error):
            return DIVERGED, count, iterations, linear, relative, np.inf
        iterations += 1
        set_matrix(arrays, count)
        if scheme.direct:
            w.pending[0], w.pending[1], w.pending[2], w.pending[3] = 1, iterations, extra, count
            return NEEDS_SOLVE, count, 0, linear, relative, np.inf
        accuracy = _CG_SHARE
        if not extra:
            accuracy = min(max(_CG_SHARE * min(1.0, relative), 0.1 * aim / error), 0.1)
        linear += conjugate_gradients(arrays, count, accuracy)
        count = line_search(arrays)


# --- common parts of steps ------------------------------------------------------------


@compiled()
def outdated(neighbors: NeighborList, x: FloatArray, d: FloatArray) -> bool:
    """Whether at x + d some body is over half the skin from where it was listed, or not finite."""
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
def kick(g: SphereSystem, v: FloatArray, force: FloatArray, h: float, out: FloatArray) -> float:
    """out = v + h M⁻¹ F of free bodies, not in place; returns the change of kinetic energy."""
    work = 0.0
    for b in range(g.free.size):
        for k in range(6):
            out[b, k] = v[b, k] + (h * force[b, k] / g.weight[b, k] if g.free[b] else 0.0)
            if g.free[b]:
                work += 0.5 * h * force[b, k] * (v[b, k] + out[b, k])
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
    slid: float,
    ledger: FloatArray,
) -> None:
    """Add to ``ledger`` (4,) the energy lost in damping in a step, and external work, J.

    v (nb, 6) mean velocities, d (nb, 6) displacements; impulses ``damping`` and ``elastic``
    (nb, 6), the latter with those of loads. Loads do work on free bodies, and moving walls through
    elastic contacts. The third number is the error of the scheme without the change of elastic
    energy: kinetic energy from impulses (``kick``, added by the caller) plus dissipated and
    gravitational energy, less the external work. The fourth is the energy lost in friction,
    ``slid`` J, which is part of the first.
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
    for entry in (0, 2, 3):
        ledger[entry] += slid


# --- many steps --------------------------------------------------------------------------


@part()
def end_step(arrays: SphereArrays, count: int, ledger: FloatArray) -> int:
    """Take the step d of Newton's method, or return why it cannot be taken.

    v⁺ = v + M⁻¹ (h (F_ext − ∇V)(q_α) + damping). ``active`` are the pairs that act at q_α.
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
            add_acting(arrays, s, scheme.h, impulse)
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
    ledger[2] += kick(g, mean, w.r, 1.0, m.v)
    combine(0.5, m.v, 0.5, mean, mean)
    account(g, mean, w.d, impulse, damped, lost + keep_springs(arrays.springs), ledger)
    move(g, m, w.d)
    return DONE


@compiled()
def variational(
    arrays: SphereArrays, steps: int, iterations: FloatArray, worst: FloatArray, ledger: FloatArray
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
        outcome, count, nonlinear, linear, relative, residual = newton(arrays)
        iterations[0] += nonlinear
        iterations[1] += linear
        if outcome != DONE:
            worst[1] = relative
            return outcome, s
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

    Returns the number of pairs and the energy lost in friction, J; ``share`` as in
    ``add_friction``. The forces of dashpots, without those of friction, are in ``work.y``, the
    others in ``work.r``.
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

    Damping uses the velocities of the half step, as in molecular dynamics codes. ``ledger`` as in
    ``account``, with the velocities of the half step.
    """
    g, m, w, h = arrays.system, arrays.motion, arrays.work, arrays.scheme.h
    for s in range(steps):
        gained = kick(g, m.v, force, 0.5 * h, w.trial)
        combine(h, w.trial, 0.0, w.trial, w.d)
        if outdated(arrays.neighbors, m.x, w.d):
            return STALE, s
        ledger[2] += gained
        copy(w.trial, m.v)
        move(g, m, w.d)
        count, lost = all_forces(arrays, 1.0, force)
        if too_deep(arrays, count):
            return TOO_DEEP, s
        combine(h, w.r, 0.0, w.r, w.r)
        combine(h, w.y, 0.0, w.y, w.y)
        account(g, m.v, w.d, w.r, w.y, lost, ledger)
        ledger[2] += kick(g, w.trial, force, 0.5 * h, m.v)
    return DONE, steps
