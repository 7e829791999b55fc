"""Wrong answers to steps with moments, and to soft ones, must not be certified; exact ones must be.

Contacts with sliding, torsional and rolling friction of both cones, in the plane and in space,
under both laws, or with a compliance. Problems are made from their answers, as in
``frictional_answers``. The motion of the associated law is unique, so that any other is wrong; of
Coulomb's law an answer counts as wrong where it violates Newton's law.
"""

from __future__ import annotations

import itertools
from collections import Counter

import numpy as np

import cdopt
from cdopt.problem import frictional_data, soft_data
from cdopt.problem.certificate import certify

from . import wrong_answers as frictionless
from .frictional_answers import ROUND_OFF

FORBIDDEN = ("false ok", "exact refused")
ANSWERS = 40  # to each problem
KINDS = list(itertools.product(("associated", "coulomb", "soft"), ("product", "elliptic")))


def run(count: int, seed: int) -> dict[str, int]:
    """Certify ``count`` problem–answer pairs; returns how many of which kind there were."""
    rng = np.random.default_rng(seed)
    table: Counter[str] = Counter(dict.fromkeys(FORBIDDEN, 0))
    for kind in itertools.cycle(KINDS):
        if table["pairs"] >= count:
            return dict(table)
        Problem(rng, *kind).judge(rng, table)
    raise AssertionError


class Problem:
    """A step of a few bodies whose contacts resist turns; its exact answer is (motion, forces)."""

    def __init__(self, rng: np.random.Generator, law: str, cone: str) -> None:
        d = 3 if rng.random() < 0.6 else 2
        k = int(rng.integers(1, 4)) if d == 3 else 1
        self.width, self.law = d + k, law
        count, nc = int(rng.integers(1, 4)), int(rng.integers(1, 4))
        decades = float(rng.choice([0.0, 1.0, 3.0]))
        self.body = np.repeat(np.arange(count), 6)
        self.mass = np.repeat(frictionless.spread(rng, count, decades), 6)
        self.mass *= np.tile([1.0, 1.0, 1.0, 0.1, 0.1, 0.1], count)
        self.B = np.zeros((nc * self.width, 6 * count))
        for i in range(nc):
            for b in rng.choice(count, min(count, int(rng.integers(1, 3))), replace=False):
                rows = slice(i * self.width, (i + 1) * self.width)
                self.B[rows, 6 * b : 6 * b + 6] = rng.standard_normal((self.width, 6))
        twists, rolls = d == 3 and k != 2, d == 2 or k > 1
        limits = [rng.choice([0.1, 0.5, 1.0], nc)]
        limits += [rng.choice([0.05, 0.2], nc) * twists, rng.choice([0.05, 0.3], nc) * rolls]
        widths = [d - 1, int(twists), (d - 1) * rolls]
        self.groups = [(c, w) for c, w in zip(limits, widths, strict=True) if w]
        self.dt = 10.0 ** rng.uniform(-5, 0)
        typical = np.sum(self.B**2 / self.mass, axis=1).reshape(nc, self.width).mean(axis=1)
        typical *= self.dt
        scale = frictionless.spread(rng, nc, decades)
        each = [self.lawful(rng, i, cone, scale[i], scale[i] / typical[i]) for i in range(nc)]
        f, g = (np.array(values) for values in zip(*each, strict=True))
        self.forces, opening = f.ravel(), g[:, 0].copy()
        self.motion = rng.standard_normal(self.mass.size) * (rng.random() < 0.7)
        jump = self.dt * (self.B.T @ self.forces) / self.mass
        self.free = self.motion - jump
        before = np.where(rng.random(self.mass.size) < 0.5, self.free, 0.0)
        give = np.repeat(typical * 10.0 ** rng.uniform(-6, 1, nc), self.width)
        g = g - (give * self.forces).reshape(g.shape) * (law == "soft")
        bias = g - (self.B @ self.motion).reshape(g.shape)
        at = np.arange(nc * self.width) % self.width
        friction = cdopt.Friction(
            limits[0], self.B[(at > 0) & (at < d)], rate=bias[:, 1:d], torsion=limits[1],
            rolling=limits[2], B_r=self.B[at >= d], cone=cone, spin=bias[:, d:],
        )  # fmt: skip
        step = cdopt.ContactStep(
            np.diag(self.mass), self.B[at == 0], bias[:, 0] * self.dt, before,
            self.mass * (self.free - before) / self.dt, self.dt, friction=friction,
            dof_body=self.body,
        )  # fmt: skip
        self.data = soft_data(step, give) if law == "soft" else frictional_data(step, law)
        acts = np.maximum(np.abs(jump), np.abs(self.free - before))
        acts[acts <= ROUND_OFF * np.abs(self.free)] = 0.0
        gap = np.repeat(np.where(f[:, 0] > 0.0, 0.0, opening), self.width)
        terms = (np.abs(self.B) @ np.abs(self.free)).reshape(g.shape)[:, 0]
        closing = np.zeros_like(g)
        closing[:, 0] = np.where(np.abs(step.p_vec) <= ROUND_OFF * terms, 0.0, step.p_vec)
        self.acts = frictionless.reach(self.B, self.mass, self.body, acts, gap, closing.ravel())

    def lawful(self, rng, i: int, cone: str, speed: float, size: float):
        """Forces and rates (width,) of contact i: it rests, slips, opens, or just touches."""
        f, g, way = np.zeros(self.width), np.zeros(self.width), rng.integers(4)
        mu = np.concatenate([np.full(w, c[i]) for c, w in self.groups])
        lifts = self.law != "coulomb"
        along = rng.standard_normal(mu.size)
        along /= np.linalg.norm(along)
        if way == 0:  # in the ellipse, and so in the product
            f[0], f[1:] = size, 0.9 * rng.random() * size * mu * along
        elif way == 1 and cone == "elliptic":
            f[0], f[1:] = size, -size * mu * along
            g[0], g[1:] = speed * lifts, speed * along / mu
        elif way == 1:
            f[0], start = size, 1
            for c, w in self.groups:
                rows = slice(start, start + w)
                start += w
                turn = rng.standard_normal(w)
                turn /= np.linalg.norm(turn)
                slips = rng.random() < 0.6
                fast = speed * rng.random() * slips
                f[rows] = -c[i] * size * turn * (1.0 if slips else 0.5)
                g[rows] = fast * turn
                g[0] += c[i] * fast * lifts
        elif way == 2:
            g[1:] = speed * rng.standard_normal(mu.size) * (rng.random() < 0.5)
            g[0] = 1.5 * float(np.abs(g[1:]) @ mu) + speed * rng.random()
        return f, g

    def judge(self, rng: np.random.Generator, table: Counter[str]) -> None:
        """Certify the exact answer and others."""
        exact = certify(self.data, self.motion, self.forces)
        table["exact"] += 1
        table["exact refused"] += not exact.worst <= exact.tol
        table["exact not resolved"] += not exact.ok and exact.worst <= exact.tol
        for motion, forces in self.answers(rng):
            table["pairs"] += 1
            if self.wrong(motion, forces) > frictionless.WRONG:
                table["wrong"] += 1
                table["false ok"] += certify(self.data, motion, forces).ok

    def answers(self, rng: np.random.Generator):
        """Answers near and far, most of which are wrong."""
        exact = self.forces.reshape(-1, self.width)
        top = np.abs(exact).max(initial=0.0) or 1.0
        for _ in range(ANSWERS):
            f, way, size = exact.copy(), rng.integers(7), 10.0 ** rng.uniform(-6, 1)
            some = rng.random(len(f)) < 0.5
            if way == 0:
                f *= 1.0 + size * rng.standard_normal(f.shape)
            elif way == 1:
                f[some] = 0.0
            elif way == 2:
                f[some] += size * top * rng.standard_normal((int(some.sum()), self.width))
            elif way == 3:
                f[:, 1:] *= rng.choice([-1.0, rng.random()])
            elif way == 4:
                f[some] *= 10.0 ** rng.uniform(-8, 8)
            elif way == 5:
                f = rng.permutation(f)
            else:
                f[:, rng.integers(1, self.width)] *= 1.0 + size
            forces = self.data.cones.project(f.ravel()) if rng.random() < 0.5 else f.ravel()
            w = np.array(self.data.velocity(forces))
            if rng.random() < 0.3:
                w = self.motion.copy() if rng.random() < 0.5 else w
                at = rng.integers(w.size)
                w[at] += 10.0 ** rng.uniform(-6, 1) * (abs(w[at]) or 1.0) * rng.choice([-1.0, 1.0])
            yield w, forces

    def wrong(self, w: np.ndarray, f: np.ndarray) -> float:
        """How wrong an answer is, relative to the local loads of its bodies."""
        pushed = (self.mass * (w - self.free) - self.dt * self.B.T @ f) / np.sqrt(self.mass)
        off = np.bincount(self.body, pushed**2)
        if self.law != "coulomb":
            off = np.maximum(off, np.bincount(self.body, self.mass * (w - self.motion) ** 2))
        return frictionless.relative(np.sqrt(off), self.acts)
