"""Wrong answers to random problems must not be certified, exact answers must be.

Rigid steps, Hookean steps and Hookean trusses of a few bodies, with masses, rows, stiffness, speeds
and loads over sixteen orders of magnitude. The truth of each is found in rational numbers: an
active set guessed in floating point is solved and checked exactly.
"""

from __future__ import annotations

import functools
import itertools
from collections import Counter
from fractions import Fraction

import numpy as np

import cdopt
from cdopt.problem import rigid_data
from cdopt.problem.certificate import certify

FORBIDDEN = ("false ok", "exact refused")
WRONG = 1e-3  # of the local load: a thousand times the certificate's tolerance
NEARLY = 1e-6  # of the local load: a gap that the tolerance cannot tell from a closed one
IDLE = 1e-2  # of the load beyond an open contact, where nothing acts here
ANSWERS = 100  # to each problem


def run(count: int, seed: int) -> dict[str, int]:
    """Certify ``count`` problem–answer pairs; returns how many of which kind there were."""
    rng = np.random.default_rng(seed)
    table: Counter[str] = Counter(dict.fromkeys(FORBIDDEN, 0))
    rigid, elastic = (functools.partial(moving_problem, elastic=e) for e in (False, True))
    kinds = itertools.cycle((rigid, delassus_problem, elastic, truss_problem))
    while table["pairs"] < count:
        problem = next(kinds)(rng)
        if problem is None:
            table["no exact truth found"] += 1
            continue
        problem.judge(rng, table)
    return dict(table)


# --- rational linear algebra: arrays of Fraction -----------------------------------------


@np.vectorize(otypes=[object])
def exactly(x: float) -> Fraction:
    """The same numbers in rational arithmetic."""
    return Fraction(float(x))


def rounded(values: np.ndarray) -> np.ndarray:
    return values.astype(float)


def solve(A: np.ndarray, b: np.ndarray) -> np.ndarray | None:
    """x with A x = b by Gauss–Jordan elimination; None when A is singular."""
    rows = np.column_stack([A, b])
    for k in range(len(b)):
        pivot = next((i for i in range(k, len(b)) if rows[i, k] != 0), None)
        if pivot is None:
            return None
        rows[[k, pivot]] = rows[[pivot, k]]
        rows[k] = rows[k] / rows[k, k]
        for i in range(len(b)):
            if i != k and rows[i, k] != 0:
                rows[i] = rows[i] - rows[i, k] * rows[k]
    return rows[:, -1]


def complementary(N: np.ndarray, p: np.ndarray) -> np.ndarray | None:
    """f ≥ 0 with N f + p ≥ 0 and no product left, by the first active set that is exactly right."""
    for active in subsets(len(p)):
        f = exactly(np.zeros(len(p)))
        if active:
            some = solve(N[np.ix_(active, active)], -p[active])
            if some is None or any(x < 0 for x in some):
                continue
            f[active] = some
        if all(x >= 0 for x in N @ f + p):
            return f
    return None


def subsets(n: int):
    """Lists of some of n contacts, the shortest first."""
    for size in range(n + 1):
        yield from map(list, itertools.combinations(range(n), size))


# --- problems --------------------------------------------------------------------------


class Problem:
    """A problem, its exact answer, and the local load of each of its bodies.

    Attributes
    ----------
    data : what ``certify`` takes.
    motion, forces : the exact answer, rounded; motion None for a Delassus step.
    wrong : (motion, forces) to how wrong an answer is, relative to the local load.
    consistent : forces to the motion that they cause.
    closing : mask of contacts to the forces (nc,) that close just these.
    """

    def __init__(self, data, motion, forces, wrong, consistent, closing) -> None:
        self.data, self.motion, self.forces = data, motion, forces
        self.wrong, self.consistent, self.closing = wrong, consistent, closing

    def judge(self, rng: np.random.Generator, table: Counter[str]) -> None:
        """Certify the exact answer and many others."""
        kind = type(self.data).__name__
        exact = certify(self.data, self.motion, self.forces)
        table["exact"] += 1
        if not exact.ok:
            undecided = exact.worst <= max(exact.tol, 10.0 * exact.resolution)
            table["exact undecided" if undecided else "exact refused"] += 1
        for motion, forces in self.answers(rng):
            table["pairs"] += 1
            if not all(np.all(np.isfinite(x)) for x in (motion, forces) if x is not None):
                continue
            off = self.wrong(motion, forces)
            if not off > WRONG:
                continue
            table["wrong"] += 1
            if certify(self.data, motion, forces).ok:
                table["false ok"] += 1
                table[f"false ok: {kind}"] += 1

    def answers(self, rng: np.random.Generator):
        """Answers near and far, most of which are wrong."""
        f, v, nc = self.forces, self.motion, self.forces.size
        top = np.abs(f).max(initial=0.0) or 1.0
        for _ in range(ANSWERS):
            g = f.copy()
            way = rng.integers(8)
            some = rng.random(nc) < 0.5
            size = 10.0 ** rng.uniform(-6, 1)
            if way == 0:
                g = g * (1.0 + size * rng.standard_normal(nc))
            elif way == 1:
                g = np.where(some, 0.0, g)
            elif way == 2:
                g = g + some * size * top * rng.random(nc)
            elif way == 3:
                g = self.closing(some)
            elif way == 4:
                g = rng.permutation(g)
            elif way == 5:
                g = np.zeros(nc)
            elif way == 6:
                g = np.where(some, g * 10.0 ** rng.uniform(-8, 8), g)
            g = np.where(g < 0.0, 0.0, g) if rng.random() < 0.8 else g
            w = self.consistent(g)
            if v is not None and rng.random() < 0.3:
                w = v.copy() if rng.random() < 0.5 else w
                at = rng.integers(v.size)
                w = w.copy()
                w[at] += rng.choice([-1.0, 1.0]) * 10.0 ** rng.uniform(-6, 1) * (abs(w[at]) or 1.0)
            yield w, g


def spread(rng: np.random.Generator, size: int, decades: float) -> np.ndarray:
    return 10.0 ** rng.uniform(-decades, decades, size)


def network(rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray, float]:
    """B (nc, nv), the body of each dof, and how many decades each way scales reach."""
    decades = float(rng.choice([0.0, 1.0, 3.0, 8.0]))
    per = int(rng.integers(1, 3))
    count = int(rng.integers(1, 4))
    nc = int(rng.integers(1, 6))
    B = np.zeros((nc, per * count))
    for i in range(nc):
        for b in rng.choice(count, min(count, int(rng.integers(1, 3))), replace=False):
            B[i, per * b : per * b + per] = np.round(rng.standard_normal(per) * 4) / 4
        if not B[i].any():
            B[i, 0] = 1.0
    rows = 2.0 ** np.round(np.log2(spread(rng, nc, decades)))
    rows = rows if rng.random() < 0.3 else np.ones(nc)
    return B * rows[:, None], np.repeat(np.arange(count), per), decades


def step_data(rng: np.random.Generator):
    """M, B, v, F_ext, Φ, Δt and dof_body of a step whose free motion v* is exact."""
    B, body, decades = network(rng)
    nc, nv = B.shape
    mass = np.repeat(
        2.0 ** np.round(np.log2(spread(rng, body[-1] + 1, decades))), np.sum(body == 0)
    )
    dt = 2.0 ** float(rng.integers(-20, 1))
    phi = np.where(rng.random(nc) < 0.5, 0.0, rng.random(nc) * spread(rng, nc, decades)) * dt
    v = np.where(rng.random(nv) < 0.4, 0.0, rng.standard_normal(nv) * spread(rng, nv, decades / 2))
    pull = rng.standard_normal(nv) * spread(rng, nv, decades / 2) / dt * mass
    load = np.where(rng.random(nv) < 0.5, 0.0, pull)
    return mass, B, v, load, phi, dt, body


def moving_problem(rng: np.random.Generator, elastic: bool) -> Problem | None:
    """A step of bodies with masses: rigid, or with Hookean contacts."""
    mass, B, v, load, phi, dt, body = step_data(rng)
    nc = phi.size
    stiffness = spread(rng, nc, 4.0 * rng.random()) if elastic else np.ones(nc)
    step = cdopt.ContactStep(np.diag(mass), B, phi, v, load, dt, dof_body=body, stiffness=stiffness)
    m, rows, h = exactly(mass), exactly(B), Fraction(dt)
    free = exactly(v) + h * exactly(load) / m
    p = exactly(phi) / h + rows @ free
    N = h * (rows / m) @ rows.T
    if elastic:
        mean = np.mean(np.sum(B * B / mass, axis=1))
        cd = cdopt.CompliantCD(step, 2.0, kappa=10.0 ** rng.uniform(-2, 6) / (mean * dt * dt))
        data = cd.data
        N = N + np.diag(1 / (h * exactly(data.elastic_law.stiffness)))
    else:
        data = rigid_data(step)
    f = complementary(N, p)
    if f is None:
        return None
    jump = h * (rows.T @ f) / m
    forces, motion = rounded(f), rounded(free + jump)
    acts = np.maximum(np.abs(rounded(jump)), np.abs(dt * load / mass))
    gap = np.where(forces > 0.0, 0.0, np.inf) if elastic else rounded(N @ f + p)
    scale = reach(B, mass, body, acts, gap, step.p_vec)

    def wrong(w: np.ndarray, g: np.ndarray) -> float:
        off = np.sqrt(np.bincount(body, mass * (w - motion) ** 2))
        pushed = np.abs(dt * B.T @ (g - forces)) / np.sqrt(mass)
        return relative(np.maximum(off, np.sqrt(np.bincount(body, pushed**2))), scale)

    return Problem(data, motion, forces, wrong, data.velocity, closing_by(N, p))


def delassus_problem(rng: np.random.Generator) -> Problem | None:
    B, body, decades = network(rng)
    nc = B.shape[0]
    mass = np.repeat(
        2.0 ** np.round(np.log2(spread(rng, body[-1] + 1, decades))), np.sum(body == 0)
    )
    exact = (exactly(B) / exactly(mass)) @ exactly(B).T
    N = rounded(exact)
    if not np.all(exactly(N) == exact):  # a rounded N has negative eigenvalues, several answers
        return None
    p = -N @ (rng.random(nc) * spread(rng, nc, decades / 2)) + np.where(
        rng.random(nc) < 0.5, 0.0, rng.random(nc)
    )
    try:
        step = cdopt.ContactStep.from_delassus(N, p)
    except cdopt._util.errors.InvalidInput:
        return None
    N = step.N.toarray()
    f = complementary(exactly(N), exactly(p))
    if f is None:
        return None
    forces = rounded(f)
    data = rigid_data(step)
    gap = rounded(exactly(N) @ f + exactly(p))
    scale = np.maximum(np.abs(N @ forces), np.abs(p))
    for _ in range(nc):  # the load at one contact reaches the others, whole where it is closed
        lent = np.where(gap <= NEARLY * scale, (N != 0.0) * scale, np.abs(N) * (scale / np.diag(N)))
        scale = np.maximum(scale, lent.max(axis=1))
    scale = np.where(scale > 0.0, scale, 1.0)

    def wrong(w: None, g: np.ndarray) -> float:
        return relative(np.abs((N @ g + p) - gap), scale)

    return Problem(data, None, forces, wrong, lambda g: None, closing_by(N, p))


def truss_problem(rng: np.random.Generator) -> Problem | None:
    """A Hookean truss: N = B A⁻¹ Bᵀ does not exist, so the active set is solved for u."""
    B, body, decades = network(rng)
    nc = B.shape[0]
    k = spread(rng, nc, decades / 2)
    given = np.where(rng.random(nc) < 0.6, rng.random(nc) * spread(rng, nc, decades / 2), 0.0)
    load = B.T @ given
    answer = truss_truth(exactly(B), exactly(k), exactly(load))
    if answer is None:
        return None
    motion, forces = map(rounded, answer)
    data = cdopt.NoTensionTruss(B, load, k, dof_body=body).data
    lever = np.abs(B).max(axis=0)
    lever = np.where(lever > 0.0, lever, 1.0)
    acting = (np.abs(B).T @ forces + np.abs(load)) / lever
    exchanged = np.array([acting[body == b].max() for b in range(body[-1] + 1)])
    loads = np.abs(load) / lever
    least = IDLE * loads[loads > 0.0].min() if load.any() else 1.0  # one newton where nothing acts
    scale = np.array([max(exchanged[body[j]] for j in np.flatnonzero(row)) for row in B])
    scale = np.maximum(scale, least)

    def wrong(w: np.ndarray, g: np.ndarray) -> float:
        return relative(np.abs(g - forces), scale)

    def closing(some: np.ndarray) -> np.ndarray:
        return np.linalg.lstsq((B * some[:, None]).T, load, rcond=None)[0]

    return Problem(data, motion, forces, wrong, lambda g: motion, closing)


def truss_truth(B, k, F):
    """u and f of the truss, exactly; dofs that no active contact determines stay at zero."""
    for active in reversed(list(subsets(len(k)))):
        rows = B[active]
        size = np.abs(rounded(rows)).max(axis=1, initial=1e-300)[:, None]
        rank = np.linalg.matrix_rank(rounded(rows) / size) if active else 0
        for dofs in map(list, itertools.combinations(range(len(F)), int(rank))):
            u = exactly(np.zeros(len(F)))
            if dofs:
                chosen = rows[:, dofs]
                some = solve(chosen.T @ (k[active][:, None] * chosen), -F[dofs])
                if some is None:
                    continue
                u[dofs] = some
            f = k * np.maximum(-(B @ u), 0)
            if all(B.T @ f == F):
                return u, f
    return None


def closing_by(N, p):
    """From a mask of contacts to forces (nc,) that make their rows of N f + p zero."""
    N, p = rounded(N), rounded(p)

    def closing(some: np.ndarray) -> np.ndarray:
        f = np.zeros(p.size)
        f[some] = np.linalg.lstsq(N[np.ix_(some, some)], -p[some], rcond=None)[0]
        return f

    return closing


def reach(B, mass, body, acts, gap, p) -> np.ndarray:
    """(bodies,) √J: the local load of each body, or of another that a closed contact ties it to.

    The load of a body reaches its neighbour as a gap speed, whole through a closed contact. Of
    the load beyond an open one a body on which nothing acts takes ``IDLE``: an interior point's
    noise there is no wrong answer. Where nothing acts anywhere the gaps' speeds count, or 1 m/s.
    """
    count = body[-1] + 1
    scale = np.sqrt(np.bincount(body, mass * acts**2, count))
    idle = scale == 0.0
    share = np.stack([np.sqrt(np.bincount(body, row**2 / mass, count)) for row in B])
    alone = np.maximum(-p, 0.0)[:, None] * share / np.sum(share**2, axis=1, keepdims=True)
    scale = np.maximum(scale, IDLE * alone.max(axis=0))  # of what a closing contact by itself makes
    for _ in range(count):
        for i in range(len(gap)):
            tied = np.flatnonzero(share[i])
            speed = (share[i, tied] * scale[tied]).max(initial=0.0)
            lent = IDLE * speed / share[i, tied]
            closed = gap[i] <= NEARLY * speed
            lent = np.where(closed, speed / share[i, tied], lent)
            takes = idle[tied] | closed
            scale[tied] = np.where(takes, np.maximum(scale[tied], lent), scale[tied])
    still = scale == 0.0
    speed = np.abs(p).max(initial=0.0) or 1.0
    top = share.max(axis=0)
    scale[still] = np.where(top[still] > 0.0, speed / np.where(top > 0.0, top, 1.0)[still], 1.0)
    return scale


def relative(off: np.ndarray, scale: np.ndarray) -> float:
    with np.errstate(all="ignore"):
        ratio = np.where(off > 0.0, off / scale, 0.0)
    return float(np.max(ratio, initial=0.0))
