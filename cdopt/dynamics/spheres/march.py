"""Many compiled steps in one go, until something asks for a new list of links."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from cdopt._util.checks import BoolArray, FloatArray
from cdopt._util.compiled import compiled, part
from cdopt.dynamics.spheres.forces import Seen, drag, look, push, touching
from cdopt.dynamics.spheres.links import Links
from cdopt.dynamics.spheres.model import Grains, Motion
from cdopt.dynamics.spheres.variational import Desk, Rule, begin, impulse, newton

DONE, STALE, DIVERGED, TOO_DEEP = 0, 1, 2, 3


class Toll(NamedTuple):
    """What a march cost: counts of Newton and linear iterations; the worst residual
    of the steps taken, and that of a step that could not be."""

    counts: FloatArray
    worst: FloatArray


@compiled()
def wandered(x: FloatArray, d: FloatArray, a: float, mark: FloatArray) -> float:
    """Square of the longest way from ``mark`` to x + a d, m²."""
    longest = 0.0
    for b in range(x.shape[0]):
        square = 0.0
        for k in range(3):
            way = x[b, k] + a * d[b, k] - mark[b, k]
            square += way * way
        if not np.isfinite(square):
            return np.inf
        longest = max(longest, square)
    return longest


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
def move(g: Grains, m: Motion, d: FloatArray) -> None:
    """Move all bodies by d (nb, 6)."""
    for b in range(g.free.size):
        for k in range(3):
            m.x[b, k] += d[b, k]
        m.angle[b] += d[b, 5]
        if not g.plane:
            turn(m.quaternion[b], d[b, 3:])


@part()
def too_deep(g: Grains, links: Links, seen: Seen, live: int) -> bool:
    """Whether some overlap exceeds the smaller radius of its two spheres."""
    for s in range(live):
        c = seen.link[s]
        i, j = links.i[c], links.j[c]
        least = g.radius[i] if links.wall[c] else min(g.radius[i], g.radius[j])
        if not seen.overlap[s] <= least:
            return True
    return False


@part()
def commit(g: Grains, m: Motion, w: Desk) -> None:
    """Velocities and places at the end of the step."""
    for b in range(g.free.size):
        if g.free[b]:
            for k in range(3):
                m.v[b, k] += w.impulse[b, k] / g.mass[b]
                m.v[b, k + 3] += w.impulse[b, k + 3] / g.inertia[b]
    move(g, m, w.d)


@compiled()
def enter(
    g: Grains, m: Motion, links: Links, seen: Seen, w: Desk, rule: Rule, mark: FloatArray,
    skin: float,
) -> bool:  # fmt: skip
    """Begin a step; False if the list of links would not last to its end."""
    begin(g, m, links, seen, rule, w)
    return not wandered(m.x, w.d, 1.0, mark) > 0.25 * skin * skin


@compiled()
def leave(
    g: Grains, m: Motion, links: Links, seen: Seen, live: int, w: Desk, rule: Rule,
    mark: FloatArray, skin: float, error: float, fine: bool, toll: Toll,
) -> int:  # fmt: skip
    """End a step that Newton's method left at ``error``: take it, or say why not.

    ``seen`` holds the links that act at q_α.
    """
    if not fine:
        toll.worst[1] = error
        return DIVERGED
    if wandered(m.x, w.d, 1.0, mark) > 0.25 * skin * skin:
        return STALE
    if too_deep(g, links, seen, live):
        return TOO_DEEP
    impulse(g, m, links, seen, live, rule, w)
    live = look(m.x, w.d, 1.0, links, w.held, g.power, seen)
    if too_deep(g, links, seen, live):
        return TOO_DEEP
    toll.worst[0] = max(toll.worst[0], error)
    commit(g, m, w)
    return DONE


@compiled()
def variational(
    g: Grains, m: Motion, links: Links, seen: Seen, w: Desk, rule: Rule, mark: FloatArray,
    skin: float, steps: int, toll: Toll,
) -> tuple[int, int]:  # fmt: skip
    """Up to ``steps`` steps of the variational integrator; returns the outcome and how many."""
    for s in range(steps):
        if not enter(g, m, links, seen, w, rule, mark, skin):
            return STALE, s
        live, count, linear, error, fine = newton(g, m, links, seen, rule, w)
        toll.counts[0] += count
        toll.counts[1] += linear
        outcome = leave(g, m, links, seen, live, w, rule, mark, skin, error, fine, toll)
        if outcome != DONE:
            return outcome, s
    return DONE, steps


@compiled()
def all_forces(
    g: Grains, m: Motion, links: Links, seen: Seen, held: BoolArray, still: FloatArray,
    out: FloatArray,
) -> int:  # fmt: skip
    """Loads, elastic and damping forces at x and v (in ``out``, (nb, 6)); the links that act."""
    for b in range(g.free.size):
        for k in range(6):
            out[b, k] = g.load[b, k]
    held.fill(False)
    live = look(m.x, still, 0.0, links, held, g.power, seen)
    touching(links, seen, live, held)
    push(links, seen, live, 1.0, out)
    drag(links, seen, live, held, -1.0, m.v, out, g.turning)
    return live


@part()
def kick(g: Grains, m: Motion, force: FloatArray, h: float) -> None:
    """v += h M⁻¹ F of free bodies."""
    for b in range(g.free.size):
        if g.free[b]:
            for k in range(3):
                m.v[b, k] += h * force[b, k] / g.mass[b]
                m.v[b, k + 3] += h * force[b, k + 3] / g.inertia[b]


@compiled()
def velocity_verlet(
    g: Grains, m: Motion, links: Links, seen: Seen, w: Desk, force: FloatArray, h: float,
    mark: FloatArray, skin: float, steps: int,
) -> tuple[int, int]:  # fmt: skip
    """Up to ``steps`` steps: half kick, drift, forces, half kick; ``force`` goes on from each.

    Damping sees the velocities of the half step, as in molecular dynamics codes.
    """
    w.r.fill(0.0)
    for s in range(steps):
        for b in range(g.free.size):
            for k in range(6):
                weight = g.mass[b] if k < 3 else g.inertia[b]
                pull = 0.5 * h * force[b, k] / weight if g.free[b] else 0.0
                w.d[b, k] = h * (m.v[b, k] + pull)
        if wandered(m.x, w.d, 1.0, mark) > 0.25 * skin * skin:
            return STALE, s
        kick(g, m, force, 0.5 * h)
        move(g, m, w.d)
        live = all_forces(g, m, links, seen, w.held, w.r, force)
        if too_deep(g, links, seen, live):
            return TOO_DEEP, s
        kick(g, m, force, 0.5 * h)
    return DONE, steps
