"""Wrong answers to random problems must not be certified, exact answers must be.

Rigid steps, Hookean steps and Hookean trusses of a few bodies, with masses, rows, stiffness, speeds
and loads over sixteen orders of magnitude. The truth of each is found in rational numbers: an
active set guessed in floating point is solved and checked exactly.
"""

from __future__ import annotations

import itertools
from collections import Counter
from fractions import Fraction

import numpy as np

import cdopt
from cdopt.problem import ElasticStepData, rigid_data
from cdopt.problem.certificate import certify

FORBIDDEN = ("false ok", "exact refused")
WRONG = 1e-3  # of what acts on the body: a thousand times the certificate's tolerance
NEARLY = 1e-6  # of what acts: a gap that the tolerance cannot tell from a closed one
IDLE = 1e-2  # of what acts beyond an open contact, where nothing acts here
ANSWERS = 100  # to each problem

Rational = list[Fraction]


def run(count: int, seed: int) -> dict[str, int]:
    """Certify ``count`` problem–answer pairs; returns how many of which kind there were."""
    rng = np.random.default_rng(seed)
    table: Counter[str] = Counter(dict.fromkeys(FORBIDDEN, 0))
    kinds = itertools.cycle((rigid_problem, delassus_problem, elastic_problem, truss_problem))
    while table["pairs"] < count:
        problem = next(kinds)(rng)
        if problem is None:
            table["no exact truth found"] += 1
            continue
        problem.judge(rng, table)
    return dict(table)


# --- rational linear algebra -----------------------------------------------------------


def fractions(values: np.ndarray) -> list:
    """The same numbers, exactly."""
    if values.ndim == 1:
        return [Fraction(float(x)) for x in values]
    return [fractions(row) for row in values]


def dot(a: Rational, b: Rational) -> Fraction:
    return sum((x * y for x, y in zip(a, b, strict=True)), Fraction(0))


def solve(A: list[Rational], b: Rational) -> Rational | None:
    """x with A x = b by Gauss–Jordan elimination; None when A is singular."""
    n = len(b)
    rows = [[*A[i], b[i]] for i in range(n)]
    for k in range(n):
        pivot = next((i for i in range(k, n) if rows[i][k] != 0), None)
        if pivot is None:
            return None
        rows[k], rows[pivot] = rows[pivot], rows[k]
        top = rows[k]
        for i in range(n):
            if i != k and rows[i][k] != 0:
                factor = rows[i][k] / top[k]
                rows[i] = [x - factor * y for x, y in zip(rows[i], top, strict=True)]
    return [rows[k][n] / rows[k][k] for k in range(n)]


def complementary(N: list[Rational], p: Rational) -> Rational | None:
    """f ≥ 0 with N f + p ≥ 0 and no product left, by the first active set that is exactly right."""
    nc = len(p)
    for size in range(nc + 1):
        for active in itertools.combinations(range(nc), size):
            some = solve([[N[i][j] for j in active] for i in active], [-p[i] for i in active])
            if some is None or any(x < 0 for x in some):
                continue
            f = [Fraction(0)] * nc
            for i, x in zip(active, some, strict=True):
                f[i] = x
            if all(dot(N[i], f) + p[i] >= 0 for i in range(nc)):
                return f
    return None


# --- problems --------------------------------------------------------------------------


class Problem:
    """A problem, its exact answer, and what acts on each of its bodies.

    Attributes
    ----------
    data : what ``certify`` takes.
    motion, forces : the exact answer, rounded; motion None for a Delassus step.
    wrong : (motion, forces) to how wrong an answer is, relative to what acts.
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
            if not undecided:
                self.shown(self.motion, self.forces, 0.0)
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
                self.shown(motion, forces, off)

    def shown(self, motion, forces, off) -> None:
        if SHOW is not None:
            SHOW.append((self, motion, forces, off))

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


def rigid_problem(rng: np.random.Generator) -> Problem | None:
    mass, B, v, load, phi, dt, body = step_data(rng)
    step = cdopt.ContactStep(np.diag(mass), B, phi, v, load, dt, dof_body=body)
    m, rows, h = fractions(mass), fractions(B), Fraction(dt)
    free = [a + h * b / c for a, b, c in zip(fractions(v), fractions(load), m, strict=True)]
    p = [Fraction(float(x)) / h + dot(r, free) for x, r in zip(phi, rows, strict=True)]
    N = [
        [h * sum((a * b / c for a, b, c in zip(r, s, m, strict=True)), Fraction(0)) for s in rows]
        for r in rows
    ]
    f = complementary(N, p)
    if f is None:
        return None
    jump = [h * sum((rows[i][j] * f[i] for i in range(len(f))), Fraction(0)) / m[j]
            for j in range(len(m))]  # fmt: skip
    motion = np.array([float(a + b) for a, b in zip(free, jump, strict=True)])
    data = rigid_data(step)
    acts = np.maximum(np.abs([float(x) for x in jump]), np.abs(dt * load / mass))
    gap = np.array([float(dot(r, f) + q) for r, q in zip(N, p, strict=True)])
    scale = reach(B, mass, body, acts, gap, step.p_vec)

    def wrong(w: np.ndarray, g: np.ndarray) -> float:
        off = np.sqrt(np.bincount(body, mass * (w - motion) ** 2))
        pushed = np.abs(dt * B.T @ (g - forces)) / np.sqrt(mass)
        off = np.maximum(off, np.sqrt(np.bincount(body, pushed**2)))
        return relative(off, scale)

    forces = np.array([float(x) for x in f])
    return Problem(data, motion, forces, wrong, data.velocity, closing_by(N, p))


def delassus_problem(rng: np.random.Generator) -> Problem | None:
    B, body, decades = network(rng)
    nc = B.shape[0]
    mass = np.repeat(
        2.0 ** np.round(np.log2(spread(rng, body[-1] + 1, decades))), np.sum(body == 0)
    )
    rows, m = fractions(B), fractions(mass)
    exact = [
        [sum((a * b / c for a, b, c in zip(r, s, m, strict=True)), Fraction(0)) for s in rows]
        for r in rows
    ]
    N = np.array(exact, dtype=float)
    if fractions(N) != exact:  # a rounded N has negative eigenvalues, and several answers
        return None
    p = -N @ (rng.random(nc) * spread(rng, nc, decades / 2)) + np.where(
        rng.random(nc) < 0.5, 0.0, rng.random(nc)
    )
    try:
        step = cdopt.ContactStep.from_delassus(N, p)
    except cdopt._util.errors.InvalidInput:
        return None
    N = step.N.toarray()
    f = complementary(fractions(N), fractions(p))
    if f is None:
        return None
    forces = np.array([float(x) for x in f])
    data = rigid_data(step)
    gap = np.array([float(dot(r, f) + q) for r, q in zip(fractions(N), fractions(p), strict=True)])
    scale = np.maximum(np.abs(N @ forces), np.abs(p))
    for _ in range(nc):  # what acts at one contact reaches the others, whole where it is closed
        lent = np.where(gap <= NEARLY * scale, (N != 0.0) * scale, np.abs(N) * (scale / np.diag(N)))
        scale = np.maximum(scale, lent.max(axis=1))
    scale = np.where(scale > 0.0, scale, 1.0)

    def wrong(w: None, g: np.ndarray) -> float:
        return relative(np.abs((N @ g + p) - gap), scale)

    return Problem(data, None, forces, wrong, lambda g: None, closing_by(N, p))


def elastic_problem(rng: np.random.Generator) -> Problem | None:
    mass, B, v, load, phi, dt, body = step_data(rng)
    nc = phi.size
    step = cdopt.ContactStep(
        np.diag(mass), B, phi, v, load, dt, dof_body=body,
        stiffness=spread(rng, nc, 4.0 * rng.random()),
    )  # fmt: skip
    own = np.mean(np.sum(B * B / mass, axis=1))
    cd = cdopt.CompliantCD(step, 2.0, kappa=10.0 ** rng.uniform(-2, 6) / (own * dt * dt))
    k = cd.data.law.stiffness
    m, rows, h = fractions(mass), fractions(B), Fraction(dt)
    free = [a + h * b / c for a, b, c in zip(fractions(v), fractions(load), m, strict=True)]
    p = [Fraction(float(x)) / h + dot(r, free) for x, r in zip(phi, rows, strict=True)]
    N = [
        [h * sum((a * b / c for a, b, c in zip(r, s, m, strict=True)), Fraction(0)) for s in rows]
        for r in rows
    ]
    for i in range(nc):
        N[i][i] += 1 / (h * Fraction(float(k[i])))
    f = complementary(N, p)
    if f is None:
        return None
    jump = [h * sum((rows[i][j] * f[i] for i in range(nc)), Fraction(0)) / m[j]
            for j in range(len(m))]  # fmt: skip
    motion = np.array([float(a + b) for a, b in zip(free, jump, strict=True)])
    forces = np.array([float(x) for x in f])
    acts = np.maximum(np.abs([float(x) for x in jump]), np.abs(dt * load / mass))
    scale = reach(B, mass, body, acts, np.where(forces > 0.0, 0.0, np.inf), step.p_vec)

    def wrong(w: np.ndarray, g: np.ndarray) -> float:
        off = np.sqrt(np.bincount(body, mass * (w - motion) ** 2))
        pushed = np.abs(dt * B.T @ (g - forces)) / np.sqrt(mass)
        off = np.maximum(off, np.sqrt(np.bincount(body, pushed**2)))
        return relative(off, scale)

    data: ElasticStepData = cd.data
    return Problem(data, motion, forces, wrong, data.velocity, closing_by(N, p))


def truss_problem(rng: np.random.Generator) -> Problem | None:
    """A Hookean truss: N = B A⁻¹ Bᵀ does not exist, so the active set is solved for u."""
    B, body, decades = network(rng)
    nc = B.shape[0]
    k = spread(rng, nc, decades / 2)
    given = np.where(rng.random(nc) < 0.6, rng.random(nc) * spread(rng, nc, decades / 2), 0.0)
    load = B.T @ given
    rows, stiff, F = fractions(B), fractions(k), fractions(load)
    answer = truss_truth(rows, stiff, F)
    if answer is None:
        return None
    u, f = answer
    forces = np.array([float(x) for x in f])
    motion = np.array([float(x) for x in u])
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


def truss_truth(rows, stiff, F):
    """u and f of the truss, exactly; dofs that no active contact determines stay at zero."""
    nc, nv = len(rows), len(F)
    for size in range(nc, -1, -1):
        for active in itertools.combinations(range(nc), size):
            for dofs in _bases(rows, active, nv):
                K = [[sum((stiff[i] * rows[i][a] * rows[i][b] for i in active), Fraction(0))
                      for b in dofs] for a in dofs]  # fmt: skip
                some = solve(K, [-F[a] for a in dofs])
                if some is None:
                    continue
                u = [Fraction(0)] * nv
                for a, x in zip(dofs, some, strict=True):
                    u[a] = x
                c = [-dot(r, u) for r in rows]
                f = [stiff[i] * c[i] if c[i] > 0 else Fraction(0) for i in range(nc)]
                balanced = all(
                    sum((rows[i][j] * f[i] for i in range(nc)), Fraction(0)) == F[j]
                    for j in range(nv)
                )
                if balanced:
                    return u, f
    return None


def _bases(rows, active, nv):
    """Sets of dofs, as many as the active rows have rank."""
    if not active:
        return [()]
    rank = np.linalg.matrix_rank(
        np.array(
            [[float(x) / max(abs(float(y)) for y in rows[i]) for x in rows[i]] for i in active]
        )
    )
    return itertools.combinations(range(nv), int(rank))


def closing_by(N, p):
    """From a mask of contacts to forces (nc,) that make their rows of N f + p zero."""
    N, p = np.array(N, dtype=float), np.array(p, dtype=float)

    def closing(some: np.ndarray) -> np.ndarray:
        f = np.zeros(p.size)
        f[some] = np.linalg.lstsq(N[np.ix_(some, some)], -p[some], rcond=None)[0]
        return f

    return closing


def reach(B, mass, body, acts, gap, p) -> np.ndarray:
    """(bodies,) √J: what acts on each body, or on another that a closed contact ties it to.

    What acts on a body reaches its neighbour as a gap speed, whole through a closed contact. Of
    what acts beyond an open one a body on which nothing acts takes ``IDLE``: an interior point's
    noise there is no wrong answer. Where nothing acts anywhere the gaps' speeds count, or 1 m/s.
    """
    count = body[-1] + 1
    scale = np.sqrt(np.bincount(body, mass * acts**2, count))
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
            takes = (scale[tied] == 0.0) | closed
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


SHOW: list | None = None
