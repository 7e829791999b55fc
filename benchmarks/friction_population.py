"""A population of steps with friction, and how each method does on it.

Walls, arches, piles, ladders, slopes, rods, cards, columns, silos, drums, domes and heaps of rocks
and capsules, in the plane and in space; at rest, leaning, shaken and in the middle of a fall; with
one coefficient of friction or many, from 0.01 to 10; given with bodies, without, permuted, as dense
matrices and as N and p. ``member(i)`` is the same step wherever it is asked for.

``python -m benchmarks.friction_population --count 2000 --methods auto --record FILE`` prints
the table of ``friction_population.md``; with several methods, also where ``auto`` is slowest next
to them.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
from scipy.spatial import cKDTree

import cdopt
from cdopt import scene
from cdopt._util.checks import FloatArray, IntArray
from cdopt.backends.native import NATIVE
from cdopt.backends.threads import threads_for
from cdopt.bank import generators
from cdopt.scene import Scene

Random = np.random.Generator
Answer = tuple[float, float, bool, str]
FORMS = ("bodies", "rows", "permuted", "dense", "N")
STATES = ("rest", "leaning", "shaken", "falling")
TOL = 1e-8
_DT = 1e-3


# --- from lists of contacts ----------------------------------------------------------------


def network_step(
    points: FloatArray,
    normals: FloatArray,
    pairs: IntArray,
    centres: FloatArray,
    sizes: FloatArray,
    mu: float,
) -> cdopt.ContactStep:
    """The step of rigid bodies with these contacts, at rest under gravity.

    ``normals`` (nc, dim) point to the second body of ``pairs`` (nc, 2); −1 is the ground. ``sizes``
    (bodies,) are radii, from which masses and inertia follow.
    """
    nc, dim = points.shape
    turns, width = (3, 6) if dim == 3 else (1, 3)
    axis = np.eye(dim)[np.argmin(np.abs(normals), axis=1)]
    first = axis - np.sum(axis * normals, axis=1)[:, None] * normals
    first /= np.linalg.norm(first, axis=1)[:, None]
    tangents = [first, np.cross(normals, first)] if dim == 3 else [first]
    B = np.zeros((dim, nc, len(centres) * width))
    for row, direction in enumerate([normals, *tangents]):
        for side, sign in ((0, -1.0), (1, 1.0)):
            at = np.flatnonzero(pairs[:, side] >= 0)
            body = pairs[at, side]
            arm = points[at] - centres[body]
            force = direction[at]
            if dim == 3:
                turn = np.cross(arm, force)
            else:
                turn = (arm[:, :1] * force[:, 1:]) - arm[:, 1:] * force[:, :1]
            whole = sign * np.hstack([direction[at], turn])
            B[row, at[:, None], width * body[:, None] + np.arange(width)] = whole
    mass = 1000.0 * sizes**dim
    inertia = np.repeat((0.4 * mass * sizes**2)[:, None], turns, axis=1)
    M = np.hstack([np.repeat(mass[:, None], dim, axis=1), inertia])
    weight = np.zeros_like(M)
    weight[:, dim - 1] = -9.81 * mass
    tangential = B[1:].transpose(1, 0, 2).reshape((dim - 1) * nc, -1)
    return cdopt.ContactStep(
        M=sp.diags_array(M.ravel()),
        B=sp.csr_array(B[0]),
        phi=np.zeros(nc),
        v=np.zeros(M.size),
        F_ext=weight.ravel(),
        dt=_DT,
        friction=cdopt.Friction(np.full(nc, mu), B_t=sp.csr_array(tangential)),
        dof_body=np.repeat(np.arange(len(centres)), width),
    )


def dome(rings: int = 12, blocks: int = 16, mu: float = 0.6) -> cdopt.ContactStep:
    """Half a sphere of blocks, four contacts to a joint; the lowest ring is on the ground."""
    radius, thick = 5.0, 0.5
    height, turn = 0.5 * np.pi / (rings + 0.5), 2.0 * np.pi / blocks

    def at(r: float, ring: float, block: float) -> FloatArray:
        up, around = ring * height, block * turn
        level = np.array([np.cos(up) * np.cos(around), np.cos(up) * np.sin(around), np.sin(up)])
        return r * np.asarray(level)

    points, normals, pairs = [], [], []
    inside = (radius - 0.5 * thick, radius + 0.5 * thick)
    for ring in range(rings):
        for block in range(blocks):
            me, up = ring * blocks + block, (ring + 0.5) * height
            side = ring * blocks + (block + 1) % blocks
            around = (block + 1) * turn
            across = np.array([-np.sin(around), np.cos(around), 0.0])
            around -= 0.5 * turn
            along = np.array([np.cos(around), np.sin(around), 0.0])
            below = ring * height
            rising = np.array([*(-np.sin(below) * along[:2]), np.cos(below)])
            for r in inside:
                for part in (0.1, 0.9):
                    points += [at(r, ring + part, block + 1), at(r, ring, block + part)]
                    normals += [across, rising]
                    pairs += [(me, side), (me - blocks if ring else -1, me)]
            del up
    centres = np.array([at(radius, i + 0.5, j + 0.5) for i in range(rings) for j in range(blocks)])
    sizes = np.full(len(centres), 0.5)
    return network_step(np.array(points), np.array(normals), np.array(pairs), centres, sizes, mu)


def rubble(random: Random, bodies: int, dim: int, patch: int, mu: float) -> cdopt.ContactStep:
    """Rocks in a heap, up to ``patch`` contacts close together where two of them meet."""
    wide = max(1.0, bodies ** (1.0 / dim))
    centres = random.uniform(0.0, wide, (bodies, dim)) * np.r_[np.ones(dim - 1), 0.8]
    centres[:, -1] += 0.5
    near = cKDTree(centres).query_pairs(1.1, output_type="ndarray")
    low = np.flatnonzero(centres[:, -1] < 1.0)
    pairs = np.vstack([near, np.stack([np.full(low.size, -1), low], axis=1)]).astype(int)
    points, normals, both = [], [], []
    for i, j in pairs:
        ground = np.append(centres[j, :-1], 0.0)
        start = ground if i < 0 else centres[i]
        normal = centres[j] - start
        normal /= np.linalg.norm(normal)
        for _ in range(int(random.integers(1, patch + 1))):
            offset = 0.2 * random.standard_normal(dim)
            middle = ground if i < 0 else 0.5 * (centres[i] + centres[j])
            points.append(middle + offset - (offset @ normal) * normal)
            normals.append(normal)
            both.append((i, j))
    sizes = random.uniform(0.3, 0.7, bodies)
    return network_step(np.array(points), np.array(normals), np.array(both), centres, sizes, mu)


# --- kinds -----------------------------------------------------------------------------------


def _of(made: Scene, mu: float) -> cdopt.ContactStep:
    return generators.pose(made.with_friction(mu), 2e-2)


def _whole(random: Random, low: int, high: int) -> int:
    return int(random.integers(low, high + 1))


def _boxes(random: Random, mu: float) -> cdopt.ContactStep:
    dim = _whole(random, 2, 3)
    return _of(scene.box_stack(_whole(random, 2, 8), dim=dim, shift=random.uniform(0.0, 0.1)), mu)


def _chute(random: Random, mu: float) -> cdopt.ContactStep:
    made = (scene.grain_column, scene.silo, scene.rotating_drum)[_whole(random, 0, 2)]
    return _of(made(_whole(random, 20, 60), seed=_whole(random, 0, 999)), mu)


def _capsules(random: Random, mu: float) -> cdopt.ContactStep:
    return rubble(random, _whole(random, 5, 25), 3, 2, mu)


def _rocks(random: Random, mu: float) -> cdopt.ContactStep:
    return rubble(random, _whole(random, 3, 30), _whole(random, 2, 3), 5, mu)


KINDS: dict[str, Callable[[Random, float], cdopt.ContactStep]] = {
    "wall": lambda r, mu: _of(scene.brick_wall(_whole(r, 2, 7), _whole(r, 2, 6)), mu),
    "arch": lambda r, mu: _of(scene.arch(2 * _whole(r, 2, 8) + 1, density=2000.0), mu),
    "pile": lambda r, mu: _of(generators.rough_pile(_whole(r, 2, 5)), mu),
    "ladder": lambda r, mu: _of(scene.ladder(r.uniform(40.0, 80.0)), mu),
    "slope": lambda r, mu: _of(scene.incline(r.uniform(0.2, 2.0), dim=_whole(r, 2, 3)), mu),
    "rod": lambda r, mu: _of(generators.painleve_rod(r.uniform(10.0, 60.0)), mu),
    "wedge": lambda r, mu: _of(generators.wedge(angle=r.uniform(5.0, 60.0)), mu),
    "cards": lambda r, mu: _of(scene.house_of_cards(_whole(r, 1, 4)), mu),
    "boxes": _boxes,
    "chute": _chute,
    "capsules": _capsules,
    "rocks": _rocks,
    "dome": lambda r, mu: dome(_whole(r, 2, 5), _whole(r, 5, 9), mu),
}


def _in_state(step: cdopt.ContactStep, state: str, random: Random) -> cdopt.ContactStep:
    """The same step at rest, pulled sideways, or with velocities and open gaps."""
    if state == "leaning":
        size = float(np.abs(step.F_ext).max())
        return step.replace(F_ext=step.F_ext + 0.3 * size * random.standard_normal(step.nv))
    if state in ("shaken", "falling"):
        v = (1.0 if state == "shaken" else 0.05) * random.standard_normal(step.nv)
        phi = np.maximum(step.phi, 0.0)
        if state == "falling":
            phi = phi + np.where(random.random(step.nc) < 0.3, 1e-4 * random.random(step.nc), 0.0)
        return step.replace(v=v, phi=phi)
    return step


def _in_form(step: cdopt.ContactStep, form: str, random: Random) -> cdopt.problem.Step:
    """The same step without bodies, in another order, as dense matrices, or as N and p."""
    if form == "bodies":
        return step
    step = step.replace(dof_body=None)
    if form == "permuted":
        order = random.permutation(step.nc)
        dofs = random.permutation(step.nv)
        return _with_dofs(step.select(order), sp.csr_array(sp.eye_array(step.nv))[dofs])
    if form == "dense":
        turn, _ = np.linalg.qr(random.standard_normal((step.nv, step.nv)))
        return _with_dofs(step, sp.csr_array(turn))
    if form == "N":
        data = cdopt.FrictionalCD(step).data
        p = data.gap(data.free_motion, np.zeros(data.rows))
        friction = cdopt.Friction(np.asarray(step.friction.mu) * np.ones(step.nc))
        return cdopt.DelassusStep(data.delassus, p, step.dt, friction=friction)
    return step


def _with_dofs(step: cdopt.ContactStep, turn: sp.csr_array) -> cdopt.ContactStep:
    """The same step with the dofs ``turn`` v."""
    friction = dataclasses.replace(
        step.friction, B_t=sp.csr_array(step.friction.B_t @ turn.T), tangents=None
    )
    return step.replace(
        M=sp.csr_array(turn @ step.M @ turn.T),
        B=sp.csr_array(step.B @ turn.T),
        v=turn @ step.v,
        F_ext=turn @ step.F_ext,
        friction=friction,
    )


def member(index: int) -> tuple[str, cdopt.problem.Step]:
    """The name and the step of one member of the population.

    Raises
    ------
    CdoptError : the drawn scene has no contact with friction.
    """
    random = np.random.default_rng([44, index])
    kind = list(KINDS)[index % len(KINDS)]
    form, state = FORMS[_whole(random, 0, 4)], STATES[_whole(random, 0, 3)]
    mu = float(10.0 ** random.uniform(-2.0, 1.0))
    step = KINDS[kind](random, mu)
    if random.random() < 0.3:
        many = mu * 10.0 ** random.uniform(-0.5, 0.5, step.nc)
        step = step.replace(friction=dataclasses.replace(step.friction, mu=many))
    name = f"{index} {kind} {state} {form} mu={mu:.2g}"
    return name, _in_form(_in_state(step, state, random), form, random)


# --- measuring -------------------------------------------------------------------------------


def measured(step: cdopt.problem.Step, method: str, law: str) -> Answer:
    """Worst residual, processor time in s, whether success was claimed, and what ran or failed."""
    problem = cdopt.FrictionalCD(step, law)
    begun = time.process_time()
    try:
        answer = problem.solve(method, check=False, tol=TOL, time_limit=900.0)
    except cdopt.CdoptError as error:
        return np.inf, time.process_time() - begun, False, f"{type(error).__name__}: {error}"[:120]
    spent = time.process_time() - begun
    worst = np.inf if answer.certificate is None else float(answer.certificate.worst)
    return worst, spent, answer.claimed, str(answer.provenance.get("how", ""))


def main() -> None:
    """Solve the members that the record lacks, one line each; print shares and times by kind."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=100)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--every", type=int, default=1)
    parser.add_argument("--methods", default="auto,newton,interior-point,admm,nsgs")
    parser.add_argument("--law", default="coulomb")
    parser.add_argument("--best", type=int, default=1, help="times each is solved, in turn")
    parser.add_argument("--record", type=Path, help="a file of lines, one a member and method")
    given = parser.parse_args()
    methods = [name for name in given.methods.split(",") if name in NATIVE]
    record = Record(given.record)
    with threads_for(0):
        for index in range(given.first, given.first + given.count, given.every):
            lacking = [m for m in methods if (index, m) not in record.rows]
            if not lacking:
                continue
            try:
                name, step = member(index)
            except cdopt.CdoptError as error:
                print(f"{index}: not made: {error}"[:120], flush=True)
                continue
            turns = range(given.best)  # of all methods: the first solve of a step takes longer
            tries = [[measured(step, method, given.law) for method in lacking] for _ in turns]
            for method, answers in zip(lacking, zip(*tries, strict=True), strict=True):
                quickest = min(answers, key=lambda answer: answer[1])
                record.add(index, name, step.nc, method, quickest)
    for line in [*record.tables(methods), *record.worst()]:
        print(line)


class Record:
    """Answers of members by methods, in a file to which each is appended: a run that is stopped
    goes on where it ended.
    """

    def __init__(self, path: Path | None) -> None:
        self.path = path
        lines = path.read_text().splitlines() if path is not None and path.exists() else []
        read = [json.loads(line) for line in lines]
        self.rows = {(row["member"], row["method"]): row for row in read}

    def add(self, index: int, name: str, nc: int, method: str, answer: Answer) -> None:
        """Keep what ``measured`` returned."""
        worst, spent, claimed, how = answer
        day = time.strftime("%Y-%m-%d")
        row = {"member": index, "name": name, "nc": nc, "method": method, "day": day}
        row |= {"worst": worst, "ms": round(1e3 * spent, 3), "claimed": claimed, "how": how}
        self.rows[index, method] = row
        if self.path is not None:
            with self.path.open("a") as file:
                file.write(json.dumps(row) + "\n")

    def tables(self, methods: list[str]) -> list[str]:
        """Lines of Markdown, a table for each method: share within 1e-8, and times in ms."""
        lines = []
        for method in methods:
            rows = [row for row in self.rows.values() if row["method"] == method]
            wrong = sum(row["claimed"] and not row["worst"] <= TOL for row in rows)
            days = sorted({row["day"] for row in rows})
            lines += [
                f"`{method}`, {' and '.join(days)}; claims of success above 1e-8: {wrong}",
                "",
                "| kind | within 1e-8 | median | 90 % | 99 % | longest |",
                "|---|---|---|---|---|---|",
            ]
            for kind in ["all", *KINDS]:
                some = [r for r in rows if kind in ("all", r["name"].split()[1])]
                lines += [_line(kind, some)] if some else []
            left = [row for row in rows if not row["worst"] <= TOL]
            lines += ["", *(f"{row['name']}: {row['worst']:.1e}, {row['how']}" for row in left)]
        return lines

    def worst(self, method: str = "auto", most: int = 20) -> list[str]:
        """Lines of a table: where ``method`` takes longest next to the quickest other one."""
        ratios = list[tuple[float, str]]()
        solved = [row for row in self.rows.values() if row["worst"] <= TOL]
        for row in [r for r in solved if r["method"] == method]:
            others = [r for r in solved if r["member"] == row["member"] and r is not row]
            if others:
                best = min(others, key=lambda r: float(r["ms"]))
                ratio = row["ms"] / best["ms"]
                quickest = f"{best['method']}, {best['ms']:.3g} | {ratio:.1f}"
                line = f"| {row['name']} | {row['nc']} | {row['ms']:.3g} | {quickest} |"
                ratios.append((ratio, line))
        head = (
            f"| member | contacts | `{method}`, ms | quickest, ms | ratio |",
            "|---|---|---|---|---|",
        )
        return [*head, *(line for _, line in sorted(ratios, reverse=True)[:most])] if ratios else []


def _line(kind: str, rows: list[dict[str, Any]]) -> str:
    """The line of a table."""
    share = f"{sum(row['worst'] <= TOL for row in rows)} of {len(rows)}"
    times = np.quantile([row["ms"] for row in rows], (0.5, 0.9, 0.99, 1.0))
    return f"| {kind} | {share} | " + " | ".join(f"{t:.3g}" for t in times) + " |"


if __name__ == "__main__":
    main()
