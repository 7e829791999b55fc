"""Contact steps taken in parts: consecutive impacts, and split steps.

Newton's law acts on the contacts that meet at the velocities before the step. A contact that only
closes because of another impact would keep Φ + Δt B v⁺ ≥ 0 without restitution, and lose its energy
at any e. Where this happens with e > 0, the step is split at each impact: every part is a
contact step of the remaining time, with the gaps and velocities of that moment and only the
contacts that touch or close then. Between two impacts gaps change by the time times B v, with B of
the start of the step. Each of these steps is the same convex problem, and is certified.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cdopt._util.checks import BoolArray, FloatArray, IntArray
from cdopt._util.errors import SolveFailed
from cdopt.dynamics.method import Stage
from cdopt.problem.contact_step import ContactStep
from cdopt.problem.solution import StepSolution

_SLIP = "trial_ids", "trial_n", "trial_t"  # names in files
_HIT = 1e-6  # of the largest force: what a contact carries that closes
_APART = 1e-3  # of the way of the fastest contact in a step: smaller gaps count as touching


@dataclass(frozen=True)
class Slip:
    """The micro-slip of contacts ``ids`` (n,), as trial forces in space, N."""

    ids: IntArray
    normal: FloatArray  # (n,)
    tangential: FloatArray  # (n, dim)

    def stored(self) -> dict[str, NDArray[Any]]:
        """The arrays by name, for the file of a run."""
        return dict(zip(_SLIP, (self.ids, self.normal, self.tangential), strict=True))

    @classmethod
    def restored(cls, arrays: Mapping[str, NDArray[Any]]) -> Slip | None:
        """The saved impacts; None if there are none."""
        return cls(*(arrays[name] for name in _SLIP)) if _SLIP[0] in arrays else None


@dataclass(frozen=True)
class Solved:
    """The answer to a contact step, or to those that make it up: mean forces and worst stages."""

    motion: FloatArray  # v⁺ (nv,), m/s
    mean: FloatArray  # velocity (nv,)
    forces: dict[str, FloatArray]  # (nc,) N by name, (nc, dim) tangential ones
    stages: dict[str, Stage]
    measures: dict[str, float]
    solution: StepSolution | None  # of the last solve, or of the first that failed
    count: int = 1  # contact steps that it took
    plastic: int = 0  # contacts with e > 0 that closed without restitution, beyond the limit
    parts: int = 1  # into how many the step was split
    reactions: FloatArray = field(default_factory=lambda: np.zeros(0))  # (nj,) N, of joints
    slip: Slip | None = None  # for the next step, of compatible forces with friction

    @property
    def ok(self) -> bool:
        """Whether every certificate is ok."""
        return all(stage.ok for stage in self.stages.values())


Solver = Callable[[ContactStep], Solved]


def take(step: ContactStep, solve: Solver, classic: str, most: int) -> Solved:
    """Solve a step, split at each impact if one follows another.

    There are at most ``most`` impacts. Towards the last, more and more contacts count as meeting at
    once; those that close later do so without restitution. ``classic`` names the first problem's f.
    """
    late = _late(step, step.v, step.phi)
    follows = bool(late.any()) and _lasting(step)
    try:
        first = solve(step)
    except SolveFailed:  # a narrow cage leaves no room for all rebounds at once
        if most == 1 or not follows:
            raise
        return _in_turn(step, solve, classic, most)
    hit = late & _carries(first.forces[classic])
    if not (follows and hit.any()):
        return first
    if most == 1:
        return replace(first, plastic=int(np.count_nonzero(hit)))
    return _in_turn(step, solve, classic, most)


def in_sequence(step: ContactStep, solve: Solver, most: int) -> Solved:
    """Take a step as a whole or, if that has no certified answer, in at most ``most`` parts."""
    left, length, phi, v = step.dt, step.dt, step.phi, step.v
    way, answers, shares = np.zeros(step.nv), list[Solved](), list[float]()
    while left > 0.0:
        last = length * most <= step.dt  # this try counts, certified or not
        try:
            part = step if length == step.dt else step.replace(phi=phi, v=v, dt=length)
            answer = solve(part)
        except SolveFailed:
            if last:
                raise
            length *= 0.5
            continue
        if not (answer.ok or last):
            length *= 0.5
            continue
        answers.append(answer)
        shares.append(length / step.dt)
        v, way, left = answer.motion, way + length * answer.mean, left - length
        phi = _without_noise(phi + length * (step.B @ answer.mean + step.gap_rate), step, v)
    if len(answers) == 1:
        return answers[0]
    names = answers[0].forces
    pairs = list(zip(shares, answers, strict=True))
    forces = {name: np.sum([s * a.forces[name] for s, a in pairs], axis=0) for name in names}
    plastic = sum(a.plastic for a in answers)
    return _joined(answers, shares, way / step.dt, forces, plastic, len(answers))


def _in_turn(step: ContactStep, solve: Solver, classic: str, most: int) -> Solved:
    pull = step.mass.solve(step.F_ext)
    left, phi, v, way = step.dt, step.phi, step.v_star, np.zeros(step.nv)
    answers, shares = list[Solved](), list[float]()
    forces: dict[str, FloatArray] = {}
    plastic = 0
    while left > 0.0:
        last = len(answers) == most
        now = step.replace(phi=phi, v=v - left * pull, dt=left)
        window = left if last else left / (most - len(answers))
        rows = np.ones(step.nc, dtype=bool) if last else _acting(now, v, window)
        answer = solve(now.select(rows))
        answers.append(answer)
        shares.append(left / step.dt)
        v = answer.motion
        for name, f in answer.forces.items():
            total = forces.setdefault(name, np.zeros((step.nc, *f.shape[1:])))
            total[rows] += shares[-1] * f
        if last:
            late = _late(now, now.v, phi)
            plastic = int(np.count_nonzero(late & _carries(answer.forces[classic])))
        rate = step.B @ v + step.gap_rate
        flight = left if last else _next(phi, rate, left, ~rows & (step.restitution > 0.0))
        way, phi, left = way + flight * v, phi + flight * rate, left - flight
        phi = _without_noise(phi, step, v)
    return _joined(answers, shares, way / step.dt, forces, plastic)


def _joined(
    answers: list[Solved],
    shares: list[float],
    mean: FloatArray,
    forces: dict[str, FloatArray],
    plastic: int,
    parts: int = 1,
) -> Solved:
    """Answers to steps that follow one another as one, with the worst of all stages."""
    last = answers[-1]
    return Solved(
        motion=last.motion,
        mean=mean,
        forces=forces,
        stages={name: _worst([a.stages[name] for a in answers]) for name in last.stages},
        measures=last.measures,
        solution=next((a for a in answers if not a.ok), last).solution,
        count=sum(a.count for a in answers),
        plastic=plastic,
        parts=parts,
        reactions=np.sum([s * a.reactions for s, a in zip(shares, answers, strict=True)], axis=0),
        slip=next((a.slip for a in reversed(answers) if a.slip is not None), None),
    )


def _worst(stages: list[Stage]) -> Stage:
    counts = [stage.iterations for stage in stages]
    return Stage(
        residual=max(stage.residual for stage in stages),
        ok=all(stage.ok for stage in stages),
        claimed=all(stage.claimed for stage in stages),
        iterations=-1 if min(counts) < 0 else sum(counts),
        seconds=sum(stage.seconds for stage in stages),
        status=next((stage.status for stage in stages if not stage.ok), stages[-1].status),
    )


def _without_noise(phi: FloatArray, step: ContactStep, v: FloatArray) -> FloatArray:
    """Gaps (nc,), zero where they are round-off of the motion at v (nv,) in a step."""
    rate = step.B @ v + step.gap_rate
    noise = 1e-12 * step.dt * np.abs(rate).max(initial=0.0)
    return np.where(np.abs(phi) <= noise, 0.0, phi)


def _late(step: ContactStep, v: FloatArray, phi: FloatArray) -> BoolArray:
    """(nc,) contacts with e > 0 that only another impact can close."""
    bouncing = step.restitution > 0.0
    if not bouncing.any():
        return bouncing
    rate, fastest = step.B @ v + step.gap_rate, _fastest(step)
    apart = (phi > _APART * step.dt * fastest) | (rate > _APART * fastest)
    return np.asarray(bouncing & ~step.impacting & apart)


def _acting(now: ContactStep, v: FloatArray, window: float) -> BoolArray:
    """(nc,) contacts that touch, or close within a time ``window`` at velocities v (nv,)."""
    rate, fastest = now.B @ v + now.gap_rate, _fastest(now)
    closing = (now.phi + window * rate < 0.0) & (rate < 0.0)
    touching = (now.phi <= _APART * now.dt * fastest) & (rate <= _APART * fastest)
    return np.asarray((now.restitution == 0.0) | closing | touching)


def _next(phi: FloatArray, rate: FloatArray, left: float, free: BoolArray) -> float:
    """Time until the next of the contacts ``free`` (nc,) closes, at most what is ``left``."""
    meets = free & (phi + left * rate < 0.0) & (rate < 0.0)
    return float(np.min(np.maximum(phi[meets], 0.0) / -rate[meets], initial=left))


def _lasting(step: ContactStep) -> bool:
    """Whether some impact is faster than the speed that loads give a contact at rest in a step."""
    if not step.impacting.any():
        return False
    approach = -(step.B @ step.v + step.gap_rate)[step.impacting]
    fallen = np.abs(step.B @ (step.v_star - step.v)).max(initial=0.0)
    return bool(approach.max() > 2.0 * fallen)


def _fastest(step: ContactStep) -> float:
    """The largest rate of a gap before the step, or by its loads, m/s."""
    rates = np.abs(step.B @ np.column_stack([step.v, step.v_star]) + step.gap_rate[:, None])
    return float(rates.max(initial=0.0))


def _carries(f: FloatArray) -> BoolArray:
    """(nc,) which forces are above the solvers' error."""
    return np.asarray(f > _HIT * np.nan_to_num(f).max(initial=0.0))
