"""Wrong answers to steps with friction must not be certified, exact answers must be, in any units.

Problems are made from their answers: forces and rates that meet the law of each contact (open,
sticking, sliding, or just touching), from which the velocities before the step, the gaps and the
prescribed sliding follow. The motion of the associated law is unique, so that any other is wrong.
Coulomb's need not be: answers are wrong that violate Newton's law, Signorini's or Coulomb's, each
by its own words and not by a projection.
"""

from __future__ import annotations

import itertools
from collections import Counter

import numpy as np

import cdopt
from cdopt.problem import frictional_data
from cdopt.problem.certificate import certify

from . import wrong_answers as frictionless

FORBIDDEN = ("false ok", "exact refused", "other verdict in other units")
UNITS = (1e3, 1e3, 1e3)  # kg to g, m to mm, s to ms
SAME = 1e-6  # residuals in other units, relative, beyond round-off
ANSWERS = 50  # to each problem
ROUND_OFF = 1e-12  # of speeds, relative: nothing acts there
EPS = 1e-15  # of the terms of a speed


def run(count: int, seed: int) -> dict[str, int]:
    """Certify ``count`` problem–answer pairs; returns how many of which kind there were."""
    rng = np.random.default_rng(seed)
    table: Counter[str] = Counter(dict.fromkeys(FORBIDDEN, 0))
    for law in itertools.cycle(("associated", "coulomb")):
        if table["pairs"] >= count:
            return dict(table)
        Problem(rng, law).judge(rng, table)
    raise AssertionError


class Problem:
    """A step of a few bodies with friction, whose exact answer is (motion, forces)."""

    def __init__(self, rng: np.random.Generator, law: str) -> None:
        d = self.d = int(rng.integers(2, 4))
        count, nc = int(rng.integers(1, 4)), int(rng.integers(1, 6))
        decades = float(rng.choice([0.0, 1.0, 3.0]))
        nv = 3 * count
        self.law, self.body = law, np.repeat(np.arange(count), 3)
        self.mass = np.repeat(frictionless.spread(rng, count, decades), 3)
        self.mu = rng.choice([0.0, 0.1, 0.5, 1.0, 3.0], nc)
        rows = np.zeros((nc * d, nv))
        for i in range(nc):
            for b in rng.choice(count, min(count, int(rng.integers(1, 3))), replace=False):
                rows[i * d : i * d + d, 3 * b : 3 * b + 3] = rng.standard_normal((d, 3))
        self.B, self.dt = rows, 10.0 ** rng.uniform(-6, 0)
        f, g = self.lawful(rng, nc, frictionless.spread(rng, nc, decades))
        self.forces, self.motion = f.ravel(), rng.standard_normal(nv) * (rng.random() < 0.7)
        jump = self.dt * (rows.T @ self.forces) / self.mass
        self.free = self.motion - jump
        before = np.where(rng.random(nv) < 0.5, self.free, 0.0)
        self.load = self.mass * (self.free - before) / self.dt
        bias = g - (rows @ self.motion).reshape(nc, d)
        self.step = self.posed(before, bias)
        self.data = frictional_data(self.step, law)
        self.other = frictional_data(self.posed(before, bias, UNITS), law)
        acts = np.maximum(np.abs(jump), np.abs(self.free - before))
        acts[acts <= ROUND_OFF * np.abs(self.free)] = 0.0
        gap = np.repeat(np.where(f[:, 0] > 0.0, 0.0, g[:, 0]), d)
        closing = np.zeros((nc, d))
        closing[:, 0] = self.step.p_vec
        terms = np.abs(rows) @ np.abs(self.free)
        closing = np.where(np.abs(closing) <= ROUND_OFF * terms.reshape(nc, d), 0.0, closing)
        self.acts = frictionless.reach(rows, self.mass, self.body, acts, gap, closing.ravel())

    def lawful(self, rng, nc: int, scale: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Forces and rates (nc, d) that meet the law."""
        d, mu = self.d, self.mu
        f, g = np.zeros((nc, d)), np.zeros((nc, d))
        typical = self.dt * np.sum(self.B**2 / self.mass, axis=1).reshape(nc, d).mean(axis=1)
        for i in range(nc):
            way = rng.integers(4)
            along = rng.standard_normal(d - 1)
            along /= np.linalg.norm(along)
            size = scale[i] / typical[i]
            if way == 0:  # sticks
                f[i] = size, *(rng.random() * mu[i] * size * along)
            elif way == 1:  # slides
                f[i] = size, *(-mu[i] * size * along)
                g[i, 1:] = scale[i] * along
                g[i, 0] = mu[i] * scale[i] * (self.law == "associated")
            elif way == 2:  # opens
                g[i, 1:] = scale[i] * along * (rng.random() < 0.5)
                g[i, 0] = mu[i] * np.linalg.norm(g[i, 1:]) + scale[i] * rng.random()
        return f, g

    def posed(self, before, bias, units=(1.0, 1.0, 1.0)) -> cdopt.ContactStep:
        kilogram, metre, second = units
        normal = np.arange(self.B.shape[0]) % self.d == 0
        speed = metre / second
        return cdopt.ContactStep(
            np.diag(self.mass * kilogram), self.B[normal], bias[:, 0] * self.dt * metre,
            before * speed, self.load * kilogram * speed / second, self.dt * second,
            friction=cdopt.Friction(self.mu, self.B[~normal], rate=bias[:, 1:] * speed),
            dof_body=self.body,
        )  # fmt: skip

    def judge(self, rng: np.random.Generator, table: Counter[str]) -> None:
        """Certify the exact answer and others, some of them in other units, too."""
        table["exact"] += 1
        exact = certify(self.data, self.motion, self.forces)
        table["exact refused"] += not exact.ok
        self.in_other_units(self.motion, self.forces, exact, table)
        for at, (motion, forces) in enumerate(self.answers(rng)):
            table["pairs"] += 1
            certificate = certify(self.data, motion, forces)
            if at % 10 == 0:
                self.in_other_units(motion, forces, certificate, table)
            if self.wrong(motion, forces) > frictionless.WRONG:
                table["wrong"] += 1
                table["false ok"] += certificate.ok

    def in_other_units(self, motion, forces, certificate, table: Counter[str]) -> None:
        kilogram, metre, second = UNITS
        speed = metre / second
        again = certify(self.other, motion * speed, forces * kilogram * speed / second)
        least = min((r.scale for r in certificate if r.unit == "m/s"), default=np.inf)
        noise = EPS * float((np.abs(self.B) @ np.abs(motion)).max(initial=0.0)) / max(least, 1e-300)
        beyond = abs(again.worst - certificate.worst) - noise
        same = beyond <= SAME * (certificate.worst + SAME)
        table["in other units"] += 1
        table["other verdict in other units"] += not (same and again.ok == certificate.ok)

    def answers(self, rng: np.random.Generator):
        """Answers near and far, most of which are wrong."""
        d, nc = self.d, self.mu.size
        exact = self.forces.reshape(nc, d)
        top = np.abs(exact).max(initial=0.0) or 1.0
        for _ in range(ANSWERS):
            f, way, size = exact.copy(), rng.integers(8), 10.0 ** rng.uniform(-6, 1)
            some = rng.random(nc) < 0.5
            if way == 0:
                f *= 1.0 + size * rng.standard_normal((nc, d))
            elif way == 1:
                f[some] = 0.0
            elif way == 2:
                f[some] += size * top * rng.standard_normal((int(some.sum()), d))
            elif way == 3:
                f[:, 1:] *= -1.0
            elif way == 4:
                f[:, 1:] *= rng.random()
            elif way == 5:
                f[some] *= 10.0 ** rng.uniform(-8, 8)
            elif way == 6:
                f = rng.permutation(f)
            if rng.random() < 0.5:
                f = cdopt.problem.friction_cone.project(f, self.mu)
            w = self.data.velocity(f.ravel())
            if rng.random() < 0.3:
                w = self.motion.copy() if rng.random() < 0.5 else w.copy()
                at = rng.integers(w.size)
                w[at] += 10.0 ** rng.uniform(-6, 1) * (abs(w[at]) or 1.0) * rng.choice([-1.0, 1.0])
            yield w, f.ravel()

    def wrong(self, w: np.ndarray, f: np.ndarray) -> float:
        """How wrong an answer is, relative to the local loads of its bodies."""
        mass, body, B = self.mass, self.body, self.B
        pushed = (mass * (w - self.free) - self.dt * B.T @ f) / np.sqrt(mass)
        off = np.sqrt(np.bincount(body, pushed**2))
        if self.law == "associated":
            change = np.sqrt(np.bincount(body, mass * (w - self.motion) ** 2))
            return frictionless.relative(np.maximum(off, change), self.acts)
        f, g = f.reshape(-1, self.d), self.data.cones.table(self.data.gap(w, f.ravel()))
        mobility = self.data.mobility
        share = np.sqrt(np.add.reduceat(B**2 / mass, np.arange(0, B.shape[1], 3), axis=1))
        share = np.sqrt(np.sum(share.reshape(-1, self.d, share.shape[1]) ** 2, axis=1))
        speed = (share * self.acts).max(axis=1)
        push, slip = mobility * f[:, 0], np.linalg.norm(g[:, 1:], axis=1)
        friction = mobility * np.linalg.norm(f[:, 1:], axis=1)
        most = self.mu * np.maximum(push, 0.0)  # of friction; a pull is wrong as such
        missing = most * slip + mobility * np.sum(f[:, 1:] * g[:, 1:], axis=1)
        lost = missing / np.maximum(most + slip, 1e-300)
        contacts = np.maximum.reduce(
            [-g[:, 0], -push, np.minimum(push, g[:, 0]), friction - self.mu * push, lost]
        )
        return max(
            frictionless.relative(off, self.acts),
            frictionless.relative(np.maximum(contacts, 0.0), speed),
        )
