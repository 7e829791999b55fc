"""Errors of mechanics put into right forces, and self-balanced changes: what audit() says of each.

``python -m tests.campaigns audited_forces --count 10000``: so many of each, on problems of the bank
with friction and without. Errors miss 1e-4 of some body's local load, or up to ten times it.
"""

from __future__ import annotations

from typing import Any

import numpy as np

import cdopt
from cdopt.hyperstatic.audit import CHOICE, ERROR

ROUGH = ("rough-pile:n=3", "rough-wall:courses=3,bricks=2", "rough-arch", "ladder")
SMOOTH = ("beam-uniform", "beam-stiff-middle", "table", "pyramid-hooke:n=4", "supports:n=6")
FORBIDDEN = ("errors missed", "choices called wrong")


def prepared(name: str) -> tuple[Any, ...]:
    """A step at rest, its law, its report without bounds, its forces (nc, d) and its problem."""
    step = cdopt.bank.load(name).step
    law = None if step.friction is None else "coulomb"
    report = cdopt.indeterminacy(step, law, contacts=[])
    forces = report.components(report.force, report.force_t)
    data = cdopt.ClassicCD(step).data if law is None else cdopt.FrictionalCD(step).data
    return step, law, report, forces, data


def judged(step: Any, forces: np.ndarray, **more: Any) -> cdopt.Audit:
    """The audit of forces (nc, d)."""
    return cdopt.audit(step, forces[:, 0], forces[:, 1:] if forces.shape[1] > 1 else None, **more)


def slack(step: Any, forces: np.ndarray) -> np.ndarray:
    """(nc,) N, how far inside their cones forces are."""
    if step.friction is None:
        return forces[:, 0]
    return step.friction.mu * forces[:, 0] - np.linalg.norm(forces[:, 1:], axis=1)


def injected(rng: Any, step: Any, data: Any, forces: np.ndarray, share: float) -> np.ndarray:
    """Forces with an error that misses ``share`` of the local load of some body, or more."""
    local = data.scales.local(data.velocity(forces.ravel()), forces.ravel())
    while True:
        change = np.zeros_like(forces)
        i = rng.integers(step.nc)
        change[i] = rng.standard_normal(forces.shape[1])
        pushed = np.abs(data.load(change.ravel())) / np.sqrt(data.inertia.diagonal) * data.dt
        reach = float((pushed / local.balance[0].scale).max())
        if reach > 0.0:
            return forces + share / reach * change


def self_balanced(rng: Any, step: Any, report: Any, forces: np.ndarray) -> np.ndarray:
    """Admissible forces elsewhere: along some local self-stress, as far as the cones allow."""
    states, largest = report.self_stress, np.abs(forces).max()
    for row in rng.integers(states.shape[0], size=40) if states.shape[0] else ():
        along = states[[row]].toarray().reshape(forces.shape) * rng.choice([-1.0, 1.0])
        far = rng.uniform(0.01, 1.0) * largest
        while far > 1e-5 * largest:
            if slack(step, forces + far * along).min() >= -1e-12 * largest:
                return forces + far * along
            far *= 0.5
    return forces


def run(count: int, seed: int = 0, names: tuple[str, ...] = ROUGH + SMOOTH) -> dict[str, int]:
    """Verdicts on ``count`` injected errors and as many self-balanced changes, by kind."""
    rng = np.random.default_rng(seed)
    found = dict.fromkeys(("errors found", "choices", "of them moved", *FORBIDDEN), 0)
    cases = [prepared(name) for name in names]
    for k in range(count):
        step, law, report, forces, data = cases[k % len(cases)]
        share = 10.0 ** rng.uniform(-4.0, 1.0)
        wrong = judged(step, injected(rng, step, data, forces, share), law=law, report=report)
        found["errors found" if wrong.verdict == ERROR else "errors missed"] += 1
        other = self_balanced(rng, step, report, forces)
        found["of them moved"] += bool(np.abs(other - forces).max() > 1e-6 * np.abs(forces).max())
        verdict = judged(step, other, law=law, report=report).verdict
        found["choices" if verdict == CHOICE else "choices called wrong"] += 1
    return found
