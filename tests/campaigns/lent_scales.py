"""Problems in which a body, a contact or a frame may set the scale of another: answers in doubt.

Families: fast next to slow bodies, heavy on light ones, N and p alone with friction and without,
near-duplicate rows, large
friction coefficients, prescribed displacements, idle bodies, unconnected heavy and light ones, thin
wedges, moving frames, contacts that move nothing, and stiff bonds. Each has its truth from
elsewhere: rational numbers, a formula, or the same body alone. An answer is judged on each body by
the load of that body itself. A refusal is counted where the answer was right; what a solver does
not find at all is counted apart.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np

import cdopt

from .wrong_answers import IDLE, complementary, exactly, rounded

FORBIDDEN = (
    "false ok", "exact refused", "wrong unique", "false infeasible", "unsolvable ok",
    "other residual in a moving frame",
)  # fmt: skip
WRONG, RIGHT = 1e-3, 1e-6  # of the local load: a wrong answer, and one that must be certified
SOLVERS = ("newton", "pgs", "apgd", "osqp", "highs", "clarabel", "interior-point")
CONES = ("newton", "admm", "nsgs", "apgd")
STATIC = ("newton", "clarabel", "interior-point")
UNITS = 1e-9  # of a residual: differences below it are round-off


def run(count: int, seed: int) -> dict[str, int]:
    """``count`` problems, the families in turn; counts of what became of the answers."""
    rng = np.random.default_rng(seed)
    table: Counter[str] = Counter(dict.fromkeys(FORBIDDEN, 0))
    for family, _ in zip(itertools.cycle(FAMILIES), range(count), strict=False):
        table["problems"] += 1
        found: Counter[str] = Counter()
        with np.errstate(all="ignore"):
            family(rng, found)
        for what, times in found.items():
            table[what] += times
            table[f"{family.__name__}: {what}"] += times
    return {what: int(times) for what, times in table.items()}


def solved(make: Callable[[], Any], found: Counter[str]) -> Any:
    """A solution with forces, or None; a proof that a solvable problem is none is counted."""
    try:
        solution = make()
    except cdopt.SolveFailed as error:
        found["no answer"] += 1
        found["false infeasible"] += error.proof is not None
        return None
    if solution.f is None:
        found["no answer"] += 1
        return None
    return solution


def solved_by(problem: Any, solver: str, found: Counter[str]) -> Any:
    """What ``solver`` finds within a minute: HiGHS's active set can cycle without end."""
    return solved(lambda: problem.solve(solver, check=False, time_limit=60.0), found)


def refused(certificate: Any) -> bool:
    """Whether a residual is too large; a resolution that is stated is no refusal."""
    return not certificate.worst <= certificate.tol


def judged(off: float, answer: Any, found: Counter[str]) -> None:
    """Count a solution, or a certificate, of an answer that is ``off`` by a share of its load."""
    several = getattr(answer, "certificates", {}).values() or [
        getattr(answer, "certificate", answer)
    ]
    no = any(map(refused, several))
    found["answers"] += 1
    found["false ok"] += answer.ok and off > WRONG
    found["right answers refused"] += no and off <= RIGHT
    found["right answers not resolved"] += not answer.ok and not no and off <= RIGHT
    found["not ok"] += not answer.ok


# --- without friction: truth in rational numbers -------------------------------------------


def truth(step: Any) -> tuple[np.ndarray, np.ndarray] | None:
    """v⁺ and f of a step of a few contacts with a diagonal M."""
    B, h = exactly(step.B.toarray()), exactly(step.dt).item()
    m = exactly(step.M.diagonal())
    free = exactly(step.v) + h * exactly(step.F_ext) / m
    p = exactly(step.phi) / h + B @ free + exactly(step.gap_rate)
    f = complementary(h * (B / m) @ B.T, p)
    return None if f is None else (rounded(free + h * (B.T @ f) / m), rounded(f))


def own(step: Any, motion: np.ndarray) -> np.ndarray:
    """(bodies,) √J: the local load of each body alone: the load, and its change of motion."""
    m, body = step.M.diagonal(), step.dof_body
    acts = np.maximum(np.abs(motion - step.v_star), np.abs(step.v_star - step.v))
    return np.sqrt(np.bincount(body, m * acts**2))


def error(step: Any, motion: np.ndarray, w: np.ndarray) -> float:
    """The largest error of a body's motion, over its load; of idle ones over a hundredth of others.

    That is what an idle body takes of the loads next to it, as documented.
    """
    scale = own(step, motion)
    off = np.sqrt(np.bincount(step.dof_body, step.M.diagonal() * (w - motion) ** 2))
    speed = scale / np.sqrt(np.bincount(step.dof_body, step.M.diagonal()))
    idle = speed <= 1e-12 * speed.max(initial=0.0)
    most = IDLE * speed.max(initial=0.0)
    scale[idle] = most * np.sqrt(np.bincount(step.dof_body, step.M.diagonal()))[idle]
    used = scale > 0.0
    return float(np.max(off[used] / scale[used], initial=0.0))


def step_judged(step: Any, rng: np.random.Generator, found: Counter[str]) -> None:
    """Certify the truth, forces that are wrong, and the answers of two solvers."""
    exact = truth(step)
    if exact is None:
        found["no exact truth"] += 1
        return
    motion, f = exact
    problem = cdopt.ClassicCD(step)
    found["exact refused"] += refused(cdopt.certify(problem.data, motion, f))
    for _ in range(8):
        g = f * np.where(rng.random(f.size) < 0.5, 1.0, 10.0 ** rng.uniform(-6, 6, f.size))
        g = np.where(rng.random(f.size) < 0.3, 0.0, g)
        w = step.v_star + step.dt * (step.B.T @ g) / step.M.diagonal()
        judged(error(step, motion, w), cdopt.certify(problem.data, w, g), found)
    for solver in rng.choice(SOLVERS, 2, replace=False):
        solution = solved_by(problem, solver, found)
        if solution is not None:
            judged(error(step, motion, solution.v_next), solution, found)


def column(rng: np.random.Generator, decades: int) -> Any:
    """A column of bodies, the lowest stopped by a ledge; the others rest on one another.

    Masses are powers of two, 2^±decades; at times two contacts do the same.
    """
    n = int(rng.integers(2, 5))
    twice = rng.integers(1, 3, n) if rng.random() < 0.5 else np.ones(n, dtype=int)
    B = np.repeat(np.eye(n) - np.eye(n, k=-1), twice, axis=0)
    B[: twice[0], 0] = -1.0
    mass = 2.0 ** rng.integers(-decades, decades + 1, n)
    v, load = np.zeros(n), np.zeros(n)
    v[0] = 2.0 ** rng.integers(0, 10)
    load[1:] = -10.0 * mass[1:]
    dt = 2.0 ** -float(rng.integers(6, 21))
    return cdopt.ContactStep(
        np.diag(mass), B, np.zeros(B.shape[0]), v, load, dt, dof_body=np.arange(n)
    )


def fast_beside_slow(rng: np.random.Generator, found: Counter[str]) -> None:
    """A column of bodies on one that a ledge stops."""
    step_judged(column(rng, 4), rng, found)


def heavy_on_light(rng: np.random.Generator, found: Counter[str]) -> None:
    """The same with masses far apart: what a light body moves by, a heavy one must not."""
    step_judged(column(rng, 12), rng, found)


def judged_by_N(step: Any, rng: np.random.Generator, found: Counter[str]) -> None:
    """The step given as N and p: the truth, wrong forces and two solvers, judged on its bodies."""
    exact = truth(step)
    if exact is None:
        found["no exact truth"] += 1
        return
    motion, f = exact
    N = step.dt * (step.B / step.M.diagonal()) @ step.B.T
    problem = cdopt.ClassicCD(cdopt.ContactStep.from_delassus(N, step.p_vec, step.dt))
    found["exact refused"] += refused(cdopt.certify(problem.data, None, f))

    scale = np.abs(step.p_vec) / np.maximum(N.diagonal(), 1e-300)  # forces that stop free motion
    vectors, values, _ = np.linalg.svd(step.B.toarray(), full_matrices=False)
    vectors = vectors[:, values > 1e-12 * values[0]]

    def off(g: np.ndarray) -> float:
        """Relative to the body's load; within the accuracy stated for N and p it is not wrong.

        That accuracy is 5e-4 of each force, or 1e-6 of the force that stops the free motion. N and
        p do not show more: two forces of 1,000 N on a light body can hide its weight of 0.3 N, as
        p depends on v* alone. Forces that cancel are no error.
        """
        w = step.v_star + step.dt * (step.B.T @ g) / step.M.diagonal()
        most = np.maximum(5e-4 * np.maximum(f, g), 1e-6 * scale)
        wrong = g - f, vectors @ (vectors.T @ (g - f))
        accurate = any(np.all(np.abs(changes) <= most) for changes in wrong)
        return min(error(step, motion, w), WRONG if accurate else np.inf)

    for _ in range(8):
        g = f * np.where(rng.random(f.size) < 0.5, 1.0, 10.0 ** rng.uniform(-6, 6, f.size))
        g = np.where(rng.random(f.size) < 0.3, 0.0, g)
        judged(off(g), cdopt.certify(problem.data, None, g), found)
    for solver in rng.choice(SOLVERS, 2, replace=False):
        solution = solved_by(problem, solver, found)
        if solution is not None:
            judged(off(solution.f), solution, found)


def known_by_N(rng: np.random.Generator, found: Counter[str]) -> None:
    """The columns given as N and p."""
    judged_by_N(column(rng, int(rng.choice([1, 4, 12]))), rng, found)


def platforms_by_N(rng: np.random.Generator, found: Counter[str]) -> None:
    """A column of platforms that turn, each on two or three supports, given as N and p."""
    n, decades = int(rng.integers(2, 4)), int(rng.choice([1, 4, 12]))
    mass = np.repeat(2.0 ** rng.integers(-decades, decades + 1, n), 2)
    rows = []
    for k in range(n):
        for x in rng.choice(np.linspace(-1.0, 1.0, 5), 2 + (k < 2 and rng.integers(2)), False):
            row = np.zeros(2 * n)
            row[2 * k : 2 * k + 2] = (1.0, x) if k else (-1.0, -x)
            row[2 * k - 2 : 2 * k] = (-1.0, -x) if k else ()
            rows.append(row)
    v, load = np.zeros(2 * n), np.zeros(2 * n)
    v[0] = 2.0 ** rng.integers(0, 10)
    v[1] = v[0] * float(rng.integers(-2, 3)) / 16.0
    load[2::2], load[3::2] = -10.0, rng.integers(-4, 5, n - 1) * (10.0 / 16.0)
    load, mass[1::2] = load * mass, mass[1::2] / 4.0
    dt, body = 2.0 ** -float(rng.integers(6, 21)), np.repeat(np.arange(n), 2)
    step = cdopt.ContactStep(np.diag(mass), rows, np.zeros(len(rows)), v, load, dt, dof_body=body)
    judged_by_N(step, rng, found)


def held_by_friction(rng: np.random.Generator, found: Counter[str], by_N: bool) -> None:
    """Points on one that a ledge stops, given by bodies or by N: friction brings all to rest."""
    n, decades = int(rng.integers(2, 5)), int(rng.choice([1, 4, 12]))
    B = np.kron(np.eye(n) - np.eye(n, k=-1), np.eye(2))
    B[0, 0] = -1.0
    mass, body = np.repeat(2.0 ** rng.integers(-decades, decades + 1, n), 2), np.arange(2 * n) // 2
    dt, moves = 2.0 ** -float(rng.integers(6, 21)), np.zeros(2 * n)
    moves[0] = 2.0 ** rng.integers(0, 10)
    moves[1] = moves[0] * float(rng.integers(-4, 5)) / 16.0
    moves[2::2], moves[3::2] = -10.0 * dt, rng.integers(-4, 5, n - 1) * (10.0 * dt / 16.0)
    f = np.linalg.solve(B.T, -mass * moves / dt)
    if np.any(f[::2] <= 0.0) or np.any(np.abs(f[1::2]) > 0.75 * f[::2]):
        return  # something opens or slides
    law, mu = str(rng.choice(["coulomb", "associated"])), [0.75] * n
    if by_N:
        N = dt * (B / mass) @ B.T
        step = cdopt.ContactStep.from_delassus(N, B @ moves, dt, friction=cdopt.Friction(mu))
    else:
        fast = body == 0
        v, load, friction = moves * fast, mass * moves / dt * ~fast, cdopt.Friction(mu, B[1::2])
        step = cdopt.ContactStep(np.diag(mass), B[::2], np.zeros(n), v, load, dt, dof_body=body,
                                 friction=friction)  # fmt: skip
    problem = cdopt.FrictionalCD(step, law)
    found["exact refused"] += refused(
        cdopt.certify(problem.data, None if by_N else np.zeros(2 * n), f)
    )
    scale = np.bincount(body, mass * moves**2)

    def judge(g: np.ndarray, answer: Any = None) -> None:
        left = moves + dt * (B.T @ g) / mass
        off = float(np.sqrt(np.max(np.bincount(body, mass * left**2) / scale)))
        given = answer or cdopt.certify(problem.data, None if by_N else left, g)
        judged(off, given, found)

    for _ in range(8):
        g = f * np.where(rng.random(f.size) < 0.5, 1.0, 10.0 ** rng.uniform(-6, 6, f.size))
        g *= 1.0 + rng.standard_normal(f.size) * 10.0 ** rng.uniform(-10, -1)
        judge(g)
    for solver in rng.choice(CONES, 2, replace=False):
        solution = solved_by(problem, solver, found)
        if solution is not None:
            judge(np.column_stack([solution.f, solution.f_t]).ravel(), solution)


def friction_by_N(rng: np.random.Generator, found: Counter[str]) -> None:
    """Columns held by friction, given as N and p."""
    held_by_friction(rng, found, by_N=True)


def heavy_on_light_with_friction(rng: np.random.Generator, found: Counter[str]) -> None:
    """The same with bodies known."""
    held_by_friction(rng, found, by_N=False)


def idle_bodies(rng: np.random.Generator, found: Counter[str]) -> None:
    """Two bodies in the plane that touch at two places; nothing acts on the second."""
    turn = rng.standard_normal(2)
    turn /= np.linalg.norm(turn)
    B = np.array([[*turn, 0.0, 0.0], [*turn, *-turn]])
    v = np.concatenate([rng.uniform(-2.0, 2.0, 2), [0.0, 0.0]])
    body = np.array([0, 0, 1, 1])
    step = cdopt.ContactStep(np.eye(4), B, np.zeros(2), v, np.zeros(4), 2.0**-10, dof_body=body)
    step_judged(step, rng, found)
    exact = truth(step)
    solution = solved(lambda: cdopt.CompatibleCD(step).solve(), found)
    if exact is not None and solution is not None:
        size = np.abs(exact[1]).max() or 1.0
        judged(float(np.abs(solution.f - exact[1]).max() / size), solution, found)


def unconnected(rng: np.random.Generator, found: Counter[str]) -> None:
    """Bodies that do not touch one another, masses and speeds far apart, each on two supports."""
    n = 2
    mass = 2.0 ** np.array([0.0, float(rng.integers(3, 27))])
    B = np.zeros((2 * n, 2 * n))
    for k in range(n):
        B[2 * k : 2 * k + 2, 2 * k : 2 * k + 2] = [[1.0, -1.0], [1.0, 1.0]]
    M = np.diag(np.repeat(mass, 2))
    load = np.ravel([[-8.0 * m, 8.0 * m * float(rng.integers(-6, 7)) / 16.0] for m in mass])
    speed = np.zeros(2 * n)
    speed[2:] = rng.integers(-3, 4, 2) * 2.0 ** float(rng.integers(0, 8))
    step = cdopt.ContactStep(
        M, B, np.zeros(2 * n), speed, load, 2.0**-10, dof_body=np.repeat(np.arange(n), 2)
    )
    step_judged(step, rng, found)


def moving_nothing(rng: np.random.Generator, found: Counter[str]) -> None:
    """A ball on the floor, and a contact that moves nothing, with a little force, open or not."""
    step = cdopt.ContactStep([[1.0]], [[1.0], [0.0]], [0.0, 0.0], [0.0], [-8.0], 2.0**-10,
                             dof_body=[0])  # fmt: skip
    data = cdopt.ClassicCD(step).data
    tiny = 10.0 ** rng.uniform(-20, -9)
    found["right answers refused"] += not cdopt.certify(data, [0.0], [8.0, tiny]).ok
    found["answers"] += 1
    overlap = -(10.0 ** rng.uniform(-6, -1))
    squeezed = step.replace(phi=[0.0, overlap])
    try:
        solution = cdopt.ClassicCD(squeezed).solve(str(rng.choice(SOLVERS)), check=False)
        found["unsolvable ok"] += solution.ok
    except cdopt.SolveFailed:
        found["unsolvable refused"] += 1


def thin_wedges(rng: np.random.Generator, found: Counter[str]) -> None:
    """A body in a slot whose walls open by a small angle, above the floor: rest is always a way."""
    angle = 10.0 ** rng.uniform(-12, -2)
    B = np.array([[1.0, angle], [-1.0, angle], [0.0, 1.0]])
    v = rng.integers(-2, 3, 2).astype(float)
    step = cdopt.ContactStep(np.eye(2), B, np.zeros(3), v, [0.0, -8.0], 2.0**-10, dof_body=[0, 0])
    step_judged(step, rng, found)


def near_duplicates(rng: np.random.Generator, found: Counter[str]) -> None:
    """Supports close together: both forces are determined, but errors of gaps are magnified."""
    sigma = 2.0 ** -float(rng.integers(6, 21))
    B = np.array([[1.0, 0.5], [1.0, 0.5 + sigma]])
    f = np.array([float(rng.integers(1, 9)), float(rng.integers(1, 9))]) * 256.0
    dt = 2.0**-10
    step = cdopt.ContactStep(np.eye(2), B, np.zeros(2), -dt * (B.T @ f), np.zeros(2), dt,
                             dof_body=[0, 0])  # fmt: skip
    step_judged(step, rng, found)
    for solver in rng.choice(SOLVERS, 2, replace=False):
        make = cdopt.CompatibleCD(step)
        solution = solved(lambda s=solver, c=make: c.solve(classic=s, check=False), found)
        if solution is None:
            continue
        off = float(np.abs(solution.f - f).max() / f.max())
        found["answers"] += 1
        found["false ok"] += solution.ok and off > WRONG
        try:
            report = cdopt.indeterminacy(step, solution=solution.classic)
        except cdopt.CdoptError:
            found["no bounds"] += 1
            continue
        unique = np.asarray(report.unique)
        wrong = np.abs(np.asarray(report.force) - f) > WRONG * f.max()
        found["wrong unique"] += bool(np.any(unique & wrong))


def near_duplicates_with_friction(rng: np.random.Generator, found: Counter[str]) -> None:
    """The same under friction, held or sliding, blocks on top; at times of two welded bodies."""
    sigma, law = 2.0 ** -float(rng.integers(6, 19)), str(rng.choice(["coulomb", "associated"]))
    n, welded, slides, mu = (
        int(rng.choice([0, 0, 1, 3, 30, 120])),
        rng.integers(2),
        rng.integers(2),
        0.25,
    )
    own = 3 + 3 * welded  # dofs of the platform
    B, across = np.zeros((2, 2 + n, own + n))
    for row, x in enumerate([0.5, 0.5 + sigma]):
        at = 3 * welded * row
        B[row, at : at + 2], across[row, at + 2] = [1.0, x], 1.0
    B[2:, own:] = np.eye(n) - np.eye(n, k=-1)
    B[2:3, :2] = [-1.0, -0.5]
    f, after, dt = 256.0 * rng.integers(1, 9, 2 + n), np.zeros(own + n), 2.0**-10
    f_t = np.where(np.arange(2 + n) < 2, -mu * slides, 0.0) * f
    after[2:own:3], after[0:own:3] = slides, mu * slides * (law == "associated")
    after[own:] = after[0]  # the associated law lifts what slides
    step = cdopt.ContactStep(
        np.eye(own + n), B, np.zeros(2 + n), after - dt * (B.T @ f + across.T @ f_t),
        np.zeros(own + n), dt, dof_body=np.append(np.arange(own) // 3, 2 + np.arange(n)),
        friction=cdopt.Friction(mu, across),
        joints=cdopt.Joints(np.eye(3, 6 + n) - np.eye(3, 6 + n, k=3)) if welded else None,
    )  # fmt: skip
    solver, cd = str(rng.choice(CONES)), cdopt.FrictionalCD(step, law)
    rest = solved_by(cd, solver, found)
    if rest is None or not rest.ok:
        return
    forces = cdopt.CompatibleFriction(step, law, flow="associated").solve(rest)
    judged(float(np.abs(forces.f - f).max() / f.max()), forces, found)
    report = cdopt.indeterminacy(step, law=law, solution=rest)
    outside = np.maximum(report.lower - f, f - report.upper)
    found["wrong unique"] += bool(outside.max() > WRONG * f.max())


def moving_frames(rng: np.random.Generator, found: Counter[str]) -> None:
    """The same answers seen from a frame that moves, with walls that move: the same residuals."""
    n, nc = int(rng.integers(1, 4)), int(rng.integers(1, 5))
    B = np.zeros((nc, 2 * n))
    for i in range(nc):
        j, k = rng.integers(n), rng.integers(-1, n)
        normal = rng.standard_normal(2)
        B[i, 2 * j : 2 * j + 2] += normal
        if k not in (-1, j):
            B[i, 2 * k : 2 * k + 2] -= normal
    mass = np.repeat(10.0 ** rng.uniform(-2, 2, n), 2)
    v, dt = rng.standard_normal(2 * n), 10.0 ** rng.uniform(-4, -1)
    load, rate = mass * rng.standard_normal(2 * n), rng.standard_normal(nc) * 0.1
    phi = rng.uniform(0.0, dt, nc) * (rng.random(nc) < 0.5)
    frame = np.tile(10.0 ** rng.uniform(-1, 3) * rng.standard_normal(2), n)
    given = {"F_ext": load, "dt": dt, "dof_body": np.repeat(np.arange(n), 2), "phi": phi}
    kind = int(rng.integers(3))  # rigid, elastic, with friction
    springs, J = int(rng.integers(3)), rng.standard_normal((2, 2 * n))
    J, slack, stiffness = J[:springs], rng.standard_normal(springs), 10.0 ** rng.uniform(-2, 8)
    if kind == 2:
        across = rng.standard_normal((nc, 2 * n)) * (B != 0.0)
        slip, law = rng.standard_normal((nc, 1)), str(rng.choice(["coulomb", "associated"]))

    def seen(shift: np.ndarray) -> Any:
        """The data of the step in a frame that moves by −``shift``."""
        more = {"v": v + shift, "gap_rate": rate - B @ shift, **given}
        if kind == 2:
            rates = slip - (across @ shift)[:, None]
            step = cdopt.ContactStep(
                np.diag(mass), B, friction=cdopt.Friction(0.5, across, rate=rates), **more
            )
            return cdopt.FrictionalCD(step, law).data
        if kind == 1 and springs:
            more["joints"] = cdopt.Joints(J, slack - J @ shift, stiffness)
        step = cdopt.ContactStep(np.diag(mass), B, **more)
        return (
            cdopt.CompliantCD(step, kappa=mass.mean() / dt**2).data
            if kind
            else cdopt.ClassicCD(step).data
        )

    here, other = seen(0.0 * frame), seen(frame)
    for _ in range(4):
        f = np.abs(rng.standard_normal(here.rows)) * mass.mean() / dt
        f[nc:] *= 1.0 if kind == 2 else -1.0  # springs pull
        w = here.velocity(f)
        one, two = cdopt.certify(here, w, f), cdopt.certify(other, w + frame, f)
        found["answers"] += 1
        round_off = UNITS * (1.0 + np.abs(frame).max() / np.abs(w).max())
        round_off += max(one.resolution, two.resolution)
        apart = max(
            abs(a.value - b.value) / (round_off + 1e-5 * a.value)
            for a, b in zip(one, two, strict=True)
        )
        found["other residual in a moving frame"] += apart > 1.0


# --- friction, statics: truth by formulas ---------------------------------------------------


def large_mu(rng: np.random.Generator, found: Counter[str]) -> None:
    """A point on the floor that sticks or slides, μ from 1e-3 to 1e6."""
    mu = 1e6 if rng.random() < 0.2 else 10.0 ** rng.uniform(-3, 6)
    dt, weight = 10.0 ** rng.uniform(-4, -2), 9.81
    vx = rng.choice([0.0, 1.0]) * 10.0 ** rng.uniform(-3, 2)
    push = rng.choice([0.0, 1.0]) * weight * 10.0 ** rng.uniform(-2, 4)
    friction = cdopt.Friction(mu, [[1.0, 0.0]])
    step = cdopt.ContactStep(np.eye(2), [[0.0, 1.0]], [0.0], [vx, 0.0], [push, -weight], dt,
                             friction=friction, dof_body=[0, 0])  # fmt: skip
    needed = (vx + dt * push) / dt  # to stop it in this step
    held = min(needed, mu * weight)
    motion, f = np.array([dt * (needed - held), 0.0]), np.array([weight, -held])
    problem = cdopt.FrictionalCD(step)
    data = problem.data
    found["exact refused"] += refused(cdopt.certify(data, motion, f))
    scale = max(dt * weight, dt * held)

    def off(w: np.ndarray) -> float:
        return float(max(abs(w[1]) / (dt * weight), abs(w[0] - motion[0]) / scale))

    for g in (np.zeros(2), 0.5 * f, f * np.array([1.0, 0.9]), f * np.array([0.9, 1.0])):
        w = step.v_star + dt * g[::-1]
        judged(off(w), cdopt.certify(data, w, g), found)
    for solver in rng.choice(CONES, 2, replace=False):
        solution = solved_by(problem, solver, found)
        if solution is not None:
            judged(off(solution.v_next), solution, found)


def prescribed(rng: np.random.Generator, found: Counter[str]) -> None:
    """A chain of springs between a wall and an end that is pushed by a metre."""
    n, power = int(rng.integers(2, 30)), float(rng.choice([1.5, 2.0, 2.5, 4.0]))
    k = 10.0 ** (rng.uniform(-8, 0, n) if rng.random() < 0.5 else np.zeros(n))
    B = np.zeros((n, n + 1))  # node i against node i + 1
    B[np.arange(n), np.arange(n)], B[np.arange(n), np.arange(1, n + 1)] = -1.0, 1.0
    free = np.ones(n + 1, dtype=bool)
    free[[0, n]] = False
    u = np.zeros(n + 1)
    u[n] = -1.0
    truss = cdopt.NoTensionTruss(B, np.zeros(n + 1), k, power, free_dofs=free, prescribed_u=u)
    each = k ** (-1.0 / (power - 1.0))
    force = float(np.sum(each)) ** (1.0 - power)
    motion = np.append(0.0, -np.cumsum(each) / np.sum(each))
    found["exact refused"] += refused(cdopt.certify(truss.data, motion, np.full(n, force)))
    for share in (0.0, 0.5, 0.99, 2.0, 55.0):
        given = cdopt.certify(truss.data, motion, np.full(n, share * force))
        judged(abs(share - 1.0), given, found)
    for solver in rng.choice(STATIC, 2, replace=False):
        solution = solved_by(truss, solver, found)
        if solution is not None:  # its displacements are part of the answer
            overlap = B @ solution.u / (B @ motion) - 1.0
            judged(float(np.abs([solution.f / force - 1.0, overlap]).max()), solution, found)


def heavy_and_light_with_friction(rng: np.random.Generator, found: Counter[str]) -> None:
    """A tile on three supports, alone and next to an unconnected block, and a tile in mid-air."""
    heavy = 10.0 ** rng.uniform(0, 8)
    place = np.array([-1.0, rng.uniform(-0.5, 0.5), 1.0])
    normal = np.column_stack([np.zeros(3), np.ones(3), place])
    sliding = np.column_stack([np.ones(3), np.zeros((3, 2))])
    load = np.array([0.1, -1.0, 0.2 * rng.uniform(-1, 1)])
    stiffness = 10.0 ** rng.uniform(-1, 1, 3)

    def step(masses, rows=3, **more: Any) -> Any:
        count = len(masses)
        stack = [np.kron(np.eye(count), matrix) for matrix in (normal, sliding)]
        M = np.diag(np.repeat(masses, 3))
        F = np.ravel([m * load for m in masses])
        k = np.tile(stiffness, count)
        return cdopt.ContactStep(
            M, stack[0][:rows], np.zeros(rows), np.zeros(3 * count), F, 1e-3, stiffness=k[:rows],
            friction=cdopt.Friction(0.5, stack[1][:rows]),
            dof_body=np.repeat(np.arange(count), 3),
        )  # fmt: skip

    flow = str(rng.choice(["coulomb", "associated"]))
    alone = cdopt.CompatibleFriction(step([1.0]), flow=flow).solve()
    both = cdopt.CompatibleFriction(step([heavy, 1.0], 6), flow=flow).solve()
    one = np.column_stack([alone.f, alone.f_t])
    two = np.column_stack([both.f, both.f_t])[3:]
    if alone.ok:
        judged(float(np.abs(two - one).max() / np.abs(one).max()), both, found)
    falling = step([heavy, 1.0], 3)  # nothing holds the tile
    live = np.zeros(6)
    live[0] = 0.1 * heavy
    try:
        found["unsolvable ok"] += cdopt.limit_load(falling, live).ok
    except cdopt.SolveFailed:
        found["unsolvable refused"] += 1


def bonds(rng: np.random.Generator, found: Counter[str]) -> None:
    """Two bodies in a row, a soft bond to the wall and a stiff one between them, under a load."""
    soft, stiff = 10.0 ** rng.uniform(0, 4), 10.0 ** rng.uniform(4, 18)
    dt, load = 2.0 ** -float(rng.integers(6, 12)), 10.0 ** rng.uniform(-2, 3)
    step = cdopt.ContactStep(
        np.eye(2), [[1.0, 0.0], [-1.0, 1.0]], [0.0, 0.0], [0.0, 0.0], [0.0, load], dt,
        stiffness=[soft, stiff], dof_body=[0, 1],
    )  # fmt: skip
    try:
        variational = cdopt.VariationalStep(step, [0.0, 0.0], two_sided=[True, True])
    except cdopt.CdoptError:  # too stiff for 16 digits
        found["no answer"] += 1
        return
    solution = solved(lambda: variational.solve(check=False), found)
    if solution is None:
        return
    B, F = exactly(np.array([[1.0, 0.0], [-1.0, 1.0]])), exactly([0.0, load])
    k, h = exactly([soft, stiff]), exactly(dt).item()
    A = exactly(np.eye(2)) + h * h / 4 * (B.T @ (k[:, None] * B))  # M + h² α(1−α) BᵀkB, α = 1/2
    b = h * h / 2 * F
    det = A[0, 0] * A[1, 1] - A[0, 1] * A[1, 0]
    u = np.array([A[1, 1] * b[0] - A[0, 1] * b[1], A[0, 0] * b[1] - A[1, 0] * b[0]]) / det
    f = rounded(-k * (B @ u) / 2)
    judged(float(np.abs(solution.f - f).max() / np.abs(f).max()), solution, found)


FAMILIES = (
    fast_beside_slow, heavy_on_light, known_by_N, platforms_by_N, friction_by_N, near_duplicates,
    near_duplicates_with_friction, large_mu, prescribed, idle_bodies, unconnected, thin_wedges,
    moving_frames, moving_nothing, heavy_and_light_with_friction, bonds,
    heavy_on_light_with_friction,
)  # fmt: skip
