"""Compiled steps of the variational integrator: Newton's method.

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

from cdopt._util.checks import BoolArray, FloatArray
from cdopt._util.compiled import compiled, part
from cdopt.dynamics.spheres.contacts import (
    add_elastic,
    add_pair_product,
    add_products,
    find_active,
    find_damped,
)
from cdopt.dynamics.spheres.friction import add_grip_product, add_grips, drag_pair, freeze
from cdopt.dynamics.spheres.system import PAPER, SphereArrays, SphereSystem

_CG_SHARE = 1e-3  # accuracy of the linear systems, of the residual
_CG_MOST = 2000
_BACKTRACKS = 12
_ROUND_OFF = 64.0 * 2.2e-16  # of a distance, times the stiffness: no residual gets below it
_EPS = 8.0 * 2.2e-16  # round-off of the terms of a sum
_EXTRA = 5  # iterations for a residual that is small only beside the fastest body
CONVERGED, STUCK, SOLVE = 0, 1, 2


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
def clear_fixed(free: BoolArray, table: FloatArray) -> None:
    """Zero in the rows of fixed bodies."""
    for b in range(free.size):
        if not free[b]:
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
    clear_fixed(g.free, R)
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
    """The speed that residuals are measured by, and what round-off leaves of them, m/s."""
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
    """The residual of a step, as a share of what acts on each body.

    max_j |R_j| / √(M_jj E_b) over the degrees of freedom j of free bodies b. E_b = Σ T_j²/M_jj, and
    T_j sums the absolute values of the terms of R_j. Round-off of these terms is taken off |R_j|,
    and so is what round-off of positions, times the stiffness, makes of elastic forces.
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
        c = active.pair[s]
        i, j, wall = neighbors.i[c], neighbors.j[c], neighbors.wall[c]
        lever = active.distance[s] * (1.0 if wall else 0.5)
        for k in range(6):
            pair[i, k] = pair[j, k] = 0.0
        factors = (0.5 * active.damping[s, 0], 0.0, 0.5 * active.damping[s, 2])
        add_pair_product(active.n, s, lever, wall, g.turning, i, j, factors, w.d, pair)
        if arrays.springs.mu.size and arrays.springs.cap[c] > 0.0:
            drag_pair(arrays, s, share, pair)
        blur = _ROUND_OFF * share * active.slope[s] * magnitude(arrays, s)
        for k in range(6):
            push = share * abs(active.force[s] * active.n[s, k]) if k < 3 else 0.0
            terms[i, k] += abs(pair[i, k]) + push
            terms[j, k] += abs(pair[j, k]) + push
            noise[i, k] += blur if k < 3 else 0.0
            noise[j, k] += blur if k < 3 else 0.0
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
    clear_fixed(g.free, out)


@compiled()
def fill_blocks(arrays: SphereArrays, blocks: FloatArray) -> None:
    """The matrices (count, 12, 12) of all active pairs, for sparse factorisation."""
    neighbors, active, turning = arrays.neighbors, arrays.active, arrays.system.turning
    matrix, z, out = active.matrix, arrays.work.p, arrays.work.r
    for s in range(blocks.shape[0]):
        c = active.pair[s]
        i, j, wall = neighbors.i[c], neighbors.j[c], neighbors.wall[c]
        lever = active.distance[s] * (1.0 if wall else 0.5)
        for column in range(12):
            for k in range(6):
                z[i, k] = z[j, k] = out[i, k] = out[j, k] = 0.0
            z[i if column < 6 else j, column % 6] = 1.0
            factors = (matrix[s, 0], matrix[s, 1], matrix[s, 2])
            add_pair_product(active.n, s, lever, wall, turning, i, j, factors, z, out)
            if arrays.springs.mu.size:
                add_grip_product(arrays, s, z, out)
            for row in range(12):
                blocks[s, row, column] = out[i if row < 6 else j, row % 6]


@part()
def fill_diagonal(arrays: SphereArrays, count: int) -> None:
    """The diagonal of the matrix without the curvature of distances, for the preconditioner."""
    g, neighbors, active = arrays.system, arrays.neighbors, arrays.active
    diagonal = arrays.work.diagonal
    combine(1.0 / arrays.scheme.h, g.weight, 0.0, g.weight, diagonal)
    for s in range(count):
        i, j = neighbors.i[active.pair[s]], neighbors.j[active.pair[s]]
        wall, along = neighbors.wall[active.pair[s]], active.matrix[s, 0]
        slide = active.matrix[s, 2] + active.grip[s, 0]
        lever = active.distance[s] * (1.0 if wall else 0.5)
        for k in range(3):
            square = active.n[s, k] * active.n[s, k]
            push = along * square + slide * (1.0 - square)
            turn = slide * lever * lever * (1.0 - square)
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
    """Move d along z as far as the residual allows; R is then that of the new d."""
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

    Stops at a residual that is small beside the fastest speed, and goes on for a few iterations
    where it is not small beside what acts on each body.

    Returns the outcome; the number of pairs that act at q_α, which ``active`` holds; iterations
    (0 with SOLVE), and those of the linear solver; the residual as a share of the fastest speed;
    and that of the certificate.
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
                return CONVERGED, count, iterations, linear, relative, worst
            extra += 1
        elif iterations >= scheme.limit or not np.isfinite(error):
            return STUCK, count, iterations, linear, relative, np.inf
        iterations += 1
        set_matrix(arrays, count)
        if scheme.direct:
            w.pending[0], w.pending[1], w.pending[2], w.pending[3] = 1, iterations, extra, count
            return SOLVE, count, 0, linear, relative, np.inf
        accuracy = _CG_SHARE
        if not extra:
            accuracy = min(max(_CG_SHARE * min(1.0, relative), 0.1 * aim / error), 0.1)
        linear += conjugate_gradients(arrays, count, accuracy)
        count = line_search(arrays)
