"""Compiled steps of the variational integrator: Newton's method with conjugate gradients.

De Klerk et al. (2021), Algorithm 1, with the corrections of sign and Hessian: with Δq = q⁺ − q,

    R(Δq) = mom − M Δq/h − h (1−α) (∇V − F_ext)(q_α) − ½ C(q_α) Δq + Qᵖ = 0

Qᵖ = −(h/2) C(q) v in the paper's split and 0 in the forced one, and the links that damp are those
that touch in q + α h v, for the whole step. −∂R/∂q⁺ without the change of C is what conjugate
gradients see.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from cdopt._util.checks import BoolArray, FloatArray
from cdopt._util.compiled import compiled, part
from cdopt.dynamics.spheres.forces import Seen, drag, look, pair_product, push, touching
from cdopt.dynamics.spheres.links import Links
from cdopt.dynamics.spheres.model import Grains, Motion

PAPER, FORCED = 0, 1
_CG_SHARE = 1e-3  # accuracy of the linear systems, of the residual
_CG_MOST = 2000
_BACKTRACKS = 12
_ROUND_OFF = 64.0 * 2.2e-16  # of a distance, times the stiffness: no residual gets below it


class Rule(NamedTuple):
    """The integrator. h in s, ``limit`` Newton iterations, ``tol`` of the residual."""

    h: float
    alpha: float
    split: int
    tol: float
    limit: int


class Desk(NamedTuple):
    """Work space of a step, all (nb, 6) but ``held`` (nl,)."""

    held: BoolArray
    d: FloatArray
    gone: FloatArray
    R: FloatArray
    R_new: FloatArray
    z: FloatArray
    r: FloatArray
    y: FloatArray
    p: FloatArray
    diagonal: FloatArray
    impulse: FloatArray
    trial: FloatArray


def desk(nb: int, links: int) -> Desk:
    """Room for ``nb`` bodies and ``links`` links."""
    return Desk(np.zeros(links, dtype=np.bool_), *(np.zeros((nb, 6)) for _ in range(11)))


@part()
def begin(g: Grains, m: Motion, links: Links, seen: Seen, rule: Rule, w: Desk) -> None:
    """Predict Δq = h v, choose the links that damp, and set Qᵖ (in ``gone``)."""
    nb = g.free.size
    for b in range(nb):
        for k in range(6):
            w.d[b, k] = rule.h * m.v[b, k]
    w.held.fill(False)
    live = look(m.x, w.d, rule.alpha, links, w.held, g.power, seen)
    touching(links, seen, live, w.held)
    w.gone.fill(0.0)
    if rule.split == PAPER:
        live = look(m.x, w.d, 0.0, links, w.held, g.power, seen)
        drag(links, seen, live, w.held, -0.5 * rule.h, m.v, w.gone, g.turning)


@compiled()
def residual(
    g: Grains, m: Motion, links: Links, seen: Seen, rule: Rule, w: Desk, d: FloatArray,
    R: FloatArray,
) -> int:  # fmt: skip
    """R(d) of free bodies, N s; returns the number of links that act at q_α."""
    share = rule.h * (1.0 - rule.alpha)
    live = look(m.x, d, rule.alpha, links, w.held, g.power, seen)
    for b in range(g.free.size):
        for k in range(6):
            weight = g.mass[b] if k < 3 else g.inertia[b]
            R[b, k] = weight * (m.v[b, k] - d[b, k] / rule.h) + share * g.load[b, k] + w.gone[b, k]
    push(links, seen, live, share, R)
    drag(links, seen, live, w.held, -0.5, d, R, g.turning)
    for b in range(g.free.size):
        if not g.free[b]:
            for k in range(6):
                R[b, k] = 0.0
    return live


@compiled()
def size(g: Grains, R: FloatArray) -> float:
    """The largest entry of R as a speed of a surface, m/s."""
    worst = 0.0
    for b in range(g.free.size):
        if g.free[b]:
            for k in range(3):
                value = max(abs(R[b, k]) / g.mass[b], abs(R[b, k + 3]) / g.inertia[b] * g.radius[b])
                if not np.isfinite(R[b, k] + R[b, k + 3]):
                    return np.inf
                worst = max(worst, value)
    return worst


@compiled()
def scale(
    g: Grains, m: Motion, links: Links, seen: Seen, live: int, rule: Rule
) -> tuple[float, float]:
    """The speed that residuals are measured by, and what round-off leaves of them, m/s."""
    fastest, stiffest = 0.0, 0.0
    for b in range(g.free.size):
        for k in range(3):
            own = abs(m.v[b, k]) + rule.h * abs(g.load[b, k]) / g.mass[b]
            turn = abs(m.v[b, k + 3]) + rule.h * abs(g.load[b, k + 3]) / g.inertia[b]
            spin = g.radius[b] * turn
            fastest = max(fastest, own, spin)
    for s in range(live):
        c = seen.link[s]
        light = g.mass[links.i[c]] if g.free[links.i[c]] else g.mass[links.j[c]]
        if g.free[links.j[c]]:
            light = min(light, g.mass[links.j[c]])
        fastest = max(fastest, rule.h * abs(seen.force[s]) / light)
        apart = seen.distance[s]
        if links.wall[c]:  # a height is the difference of places that may be far from zero
            for k in range(3):
                apart = max(apart, abs(m.x[links.i[c], k] - m.x[links.j[c], k]))
        stiffest = max(stiffest, rule.h * seen.slope[s] * apart / light)
    return fastest, _ROUND_OFF * stiffest


@part()
def matrix_product(
    g: Grains, links: Links, seen: Seen, live: int, rule: Rule, w: Desk, z: FloatArray,
    out: FloatArray,
) -> None:  # fmt: skip
    """out = (M/h + h α (1−α) ∇²V + ½ C) z, of free bodies."""
    share = rule.h * rule.alpha * (1.0 - rule.alpha)
    for b in range(g.free.size):
        for k in range(6):
            out[b, k] = (g.mass[b] if k < 3 else g.inertia[b]) / rule.h * z[b, k]
    for s in range(live):
        c = seen.link[s]
        along = share * seen.slope[s]
        across = 0.0 if links.wall[c] else -share * seen.force[s] / seen.distance[s]
        slide = 0.0
        if w.held[c]:
            along += 0.5 * links.c_n[c]
            slide = 0.5 * links.c_t[c]
        pair_product(
            links.i[c], links.j[c], links.wall[c], seen.n[s, 0], seen.n[s, 1], seen.n[s, 2],
            seen.distance[s], along, across, slide, z, out, g.turning,
        )  # fmt: skip
    for b in range(g.free.size):
        if not g.free[b]:
            for k in range(6):
                out[b, k] = 0.0


@compiled()
def diagonal(g: Grains, links: Links, seen: Seen, live: int, rule: Rule, w: Desk) -> None:
    """The diagonal of that matrix, for the preconditioner; what geometry takes away is left out."""
    share = rule.h * rule.alpha * (1.0 - rule.alpha)
    for b in range(g.free.size):
        for k in range(3):
            w.diagonal[b, k] = g.mass[b] / rule.h
            w.diagonal[b, k + 3] = g.inertia[b] / rule.h
    for s in range(live):
        c = seen.link[s]
        i, j = links.i[c], links.j[c]
        along = share * seen.slope[s]
        slide = 0.0
        if w.held[c]:
            along += 0.5 * links.c_n[c]
            slide = 0.5 * links.c_t[c]
        lever = seen.distance[s] * (1.0 if links.wall[c] else 0.5)
        for k in range(3):
            square = seen.n[s, k] * seen.n[s, k]
            own = along * square + slide * (1.0 - square)
            w.diagonal[i, k] += own
            w.diagonal[j, k] += own
            turn = slide * lever * lever * (1.0 - square)
            w.diagonal[i, k + 3] += turn
            if not links.wall[c]:
                w.diagonal[j, k + 3] += turn


@part()
def conjugate_gradients(
    g: Grains, links: Links, seen: Seen, live: int, rule: Rule, w: Desk, accuracy: float
) -> int:
    """Solve for z (in ``w.z``) with right-hand side ``w.R``; returns the iterations."""
    width = 6 if g.turning else 3
    diagonal(g, links, seen, live, rule, w)
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
    count = 0
    while count < _CG_MOST and rho > accuracy * accuracy * start:
        matrix_product(g, links, seen, live, rule, w, w.p, w.y)
        bent = 0.0
        for b in range(g.free.size):
            for k in range(width):
                bent += w.p[b, k] * w.y[b, k]
        if not bent > 0.0:
            break
        step = rho / bent
        before, rho = rho, 0.0
        for b in range(g.free.size):
            for k in range(width):
                w.z[b, k] += step * w.p[b, k]
                w.r[b, k] -= step * w.y[b, k]
                rho += w.r[b, k] * w.r[b, k] / w.diagonal[b, k]
        turn = rho / before
        for b in range(g.free.size):
            for k in range(width):
                w.p[b, k] = w.r[b, k] / w.diagonal[b, k] + turn * w.p[b, k]
        count += 1
    return count


@part()
def product(a: FloatArray, b: FloatArray) -> float:
    """Σ a b of two tables."""
    total = 0.0
    for i in range(a.shape[0]):
        for k in range(a.shape[1]):
            total += a[i, k] * b[i, k]
    return total


@compiled()
def go_along(g: Grains, m: Motion, links: Links, seen: Seen, rule: Rule, w: Desk) -> int:
    """Move d along z as far as the residual allows; R is then that of the new d."""
    slope = product(w.R, w.z)
    length = 1.0
    live = 0
    for _ in range(_BACKTRACKS):
        for b in range(g.free.size):
            for k in range(6):
                w.trial[b, k] = w.d[b, k] + length * w.z[b, k]
        live = residual(g, m, links, seen, rule, w, w.trial, w.R_new)
        if product(w.R_new, w.z) >= -0.5 * slope:
            break
        length *= 0.5
    for b in range(g.free.size):
        for k in range(6):
            w.d[b, k] = w.trial[b, k]
            w.R[b, k] = w.R_new[b, k]
    return live


@part()
def newton(
    g: Grains, m: Motion, links: Links, seen: Seen, rule: Rule, w: Desk
) -> tuple[int, int, int, float, bool]:
    """Find d with R(d) = 0, to the tolerance or to round-off.

    Returns the links that act at q_α, which ``seen`` holds; iterations, and those of the linear
    solver; the relative residual; and whether it is small enough.
    """
    live = residual(g, m, links, seen, rule, w, w.d, w.R)
    linear, count = 0, 0
    while True:
        speed, floor = scale(g, m, links, seen, live, rule)
        error = size(g, w.R)
        relative = error / speed if speed > 0.0 else error
        if error <= max(rule.tol * speed, floor):
            return live, count, linear, relative, True
        if count >= rule.limit or not np.isfinite(error):
            return live, count, linear, relative, False
        aim = max(_CG_SHARE * min(1.0, relative), 0.1 * max(rule.tol * speed, floor) / error)
        linear += conjugate_gradients(g, links, seen, live, rule, w, min(aim, 0.1))
        live = go_along(g, m, links, seen, rule, w)
        count += 1


@compiled()
def impulse(g: Grains, m: Motion, links: Links, seen: Seen, live: int, rule: Rule, w: Desk) -> None:
    """What the step adds to the momentum (in ``w.impulse``): h (F_ext − ∇V)(q_α) and damping.

    ``seen`` holds the links that act at q_α.
    """
    for b in range(g.free.size):
        for k in range(6):
            w.impulse[b, k] = rule.h * g.load[b, k] + w.gone[b, k]
    push(links, seen, live, rule.h, w.impulse)
    drag(links, seen, live, w.held, -0.5, w.d, w.impulse, g.turning)
    if rule.split == FORCED:
        if rule.alpha != 0.5:
            live = look(m.x, w.d, 1.0 - rule.alpha, links, w.held, g.power, seen)
        drag(links, seen, live, w.held, -0.5, w.d, w.impulse, g.turning)
