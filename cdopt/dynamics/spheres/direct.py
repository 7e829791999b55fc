"""The same variational step with a sparse factorisation in place of conjugate gradients."""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp
from scipy.sparse.linalg import splu

from cdopt._util.checks import FloatArray
from cdopt.dynamics.spheres.forces import Seen
from cdopt.dynamics.spheres.links import Links
from cdopt.dynamics.spheres.march import DONE, STALE, Toll, enter, leave
from cdopt.dynamics.spheres.model import Grains, Motion
from cdopt.dynamics.spheres.variational import Desk, Rule, go_along, residual, scale, size


def variational_direct(
    g: Grains, m: Motion, links: Links, seen: Seen, w: Desk, rule: Rule, mark: FloatArray,
    skin: float, steps: int, toll: Toll,
) -> tuple[int, int]:  # fmt: skip
    """Up to ``steps`` steps; as ``march.variational``."""
    for s in range(steps):
        if not enter(g, m, links, seen, w, rule, mark, skin):
            return STALE, s
        live, count, error, fine = _newton(g, m, links, seen, rule, w)
        toll.counts[0] += count
        outcome = leave(g, m, links, seen, live, w, rule, mark, skin, error, fine, toll)
        if outcome != DONE:
            return outcome, s
    return DONE, steps


def _newton(
    g: Grains, m: Motion, links: Links, seen: Seen, rule: Rule, w: Desk
) -> tuple[int, int, float, bool]:
    """Find d with R(d) = 0: links that act, iterations, relative residual, if it is small."""
    live = residual(g, m, links, seen, rule, w, w.d, w.R)
    count = 0
    while True:
        speed, floor = scale(g, m, links, seen, live, rule)
        error = size(g, w.R)
        relative = error / speed if speed > 0.0 else error
        if error <= max(rule.tol * speed, floor):
            return live, count, relative, True
        if count >= rule.limit or not np.isfinite(error):
            return live, count, relative, False
        free = np.repeat(g.free, 6)
        A = _matrix(g, links, seen, live, rule, w)[free][:, free]
        w.z[:] = 0.0
        try:
            w.z[g.free] = splu(A.tocsc()).solve(w.R[g.free].ravel()).reshape(-1, 6)
        except RuntimeError:  # singular to round-off
            return live, count, relative, False
        live = go_along(g, m, links, seen, rule, w)
        count += 1


def _matrix(g: Grains, links: Links, seen: Seen, live: int, rule: Rule, w: Desk) -> sp.csr_array:
    """M/h + h α (1−α) ∇²V + ½ C on all bodies (6 nb, 6 nb)."""
    nb = g.free.size
    c, n = seen.link[:live], seen.n[:live]
    wall, damped = links.wall[c], w.held[c]
    share = rule.h * rule.alpha * (1.0 - rule.alpha)
    along = share * seen.slope[:live] + 0.5 * links.c_n[c] * damped
    apart = np.where(seen.distance[:live] > 0.0, seen.distance[:live], np.inf)
    across = np.where(wall, 0.0, -share * seen.force[:live] / apart)
    slide = 0.5 * links.c_t[c] * damped
    outer = n[:, :, None] * n[:, None, :]
    flat = np.eye(3) - outer
    lever = np.where(wall, 1.0, 0.5) * seen.distance[:live]
    turn = _cross(n) * lever[:, None, None]  # lever n × ω
    if not g.turning:
        turn = np.zeros_like(turn)
    T = np.concatenate([flat, turn, -flat, np.where(wall[:, None, None], 0.0, turn)], axis=2)
    D = np.concatenate([np.eye(3), np.zeros((3, 3)), -np.eye(3), np.zeros((3, 3))], axis=1)
    middle = along[:, None, None] * outer + across[:, None, None] * flat
    block = np.einsum("ka,nkl,lb->nab", D, middle, D)
    block += slide[:, None, None] * np.einsum("nka,nkb->nab", T, T)
    ends = [6 * body[c][:, None] + np.arange(6) for body in (links.i, links.j)]
    dofs = np.hstack(ends)
    rows, cols = np.repeat(dofs, 12, axis=1).ravel(), np.tile(dofs, (1, 12)).ravel()
    inert = np.column_stack([np.tile(g.mass[:, None], 3), np.tile(g.inertia[:, None], 3)]).ravel()
    own = np.arange(6 * nb)
    entries = np.concatenate([block.ravel(), inert / rule.h])
    place = (np.concatenate([rows, own]), np.concatenate([cols, own]))
    return sp.coo_array((entries, place), shape=(6 * nb, 6 * nb)).tocsr()


def _cross(n: FloatArray) -> FloatArray:
    """Matrices (m, 3, 3) of n ×."""
    zero = np.zeros(len(n))
    rows = ((zero, -n[:, 2], n[:, 1]), (n[:, 2], zero, -n[:, 0]), (-n[:, 1], n[:, 0], zero))
    return np.stack([np.stack(row, -1) for row in rows], -2)
