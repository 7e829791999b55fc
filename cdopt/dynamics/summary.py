"""Summary of a run: its end, its worst certificate, overlap, energy, forces and times."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from cdopt.dynamics.measures import Measures
from cdopt.dynamics.records import largest_forces
from cdopt.dynamics.trajectory import Trajectory

_RESIDUAL, _SECONDS = "residual_", "seconds_"  # beginnings of names of diagnostics
_STILL = 1e-6  # share of a kinetic energy that counts as none


@dataclass(frozen=True)
class RunSummary:
    """Summary of a run.

    Attributes
    ----------
    t : s, the end. steps, frames, not_ok : counts; the last of steps that are not certified.
    split, parts : with friction, steps that had no certified answer as a whole and were taken in
        parts, and into how many at most; 0 and 1 elsewhere.
    residual : the worst of all certificates, of stage ``residual_of`` in step ``residual_at``.
    overlap, overlap_final : m, the deepest of all steps and that of the last one.
    kinetic, kinetic_peak : J, at the end, and the largest.
    at_rest : whether the kinetic energy left is below a millionth of the largest, or of what bodies
        gain that fall for one step.
    dissipated, work, balance : J, energy that damping took, external work, and the largest
        difference in the balance of energy (``Diagnostics``); not a number where a method has none.
    coordination, rattlers : neighbours per free body in the last frame, and bodies that too few
        hold (``Measures.coordination``); not a number and −1 where its step failed.
    largest : N, largest force of the last frame, by name of the force.
    reaction : N, the force on fixed bodies along gravity.
    weight, load : N, the weight of free bodies, and what their constant loads add along gravity.
    seconds : by what the time went into.
    """

    t: float
    steps: int
    frames: int
    not_ok: int
    split: int
    parts: int
    residual: float
    residual_of: str
    residual_at: int
    overlap: float
    overlap_final: float
    kinetic: float
    kinetic_peak: float
    at_rest: bool
    dissipated: float
    work: float
    balance: float
    coordination: float
    rattlers: int
    largest: dict[str, float]
    reaction: float
    weight: float
    load: float
    seconds: dict[str, float]

    @classmethod
    def of(cls, run: Trajectory) -> RunSummary:
        """The summary of a run."""
        table, names = run.diagnostics, stages(run)
        residual, residual_of, row = 0.0, "", 0
        if names:
            residuals = np.array([table[_RESIDUAL + name] for name in names])
            size = np.where(np.isnan(residuals), np.inf, residuals)
            stage, row = map(int, np.unravel_index(size.argmax(), size.shape))
            residual, residual_of = float(size[stage, row]), names[stage]
        overlap = table["overlap"][np.isfinite(table["overlap"])]
        scene, final = run.scene, run.final
        fixed, gravity = scene.bodies.fixed, float(np.linalg.norm(scene.gravity))
        reaction, load = np.nan, 0.0
        if gravity:
            down = scene.gravity / gravity
            reaction = final.body_forces()[fixed].sum(axis=0) @ down
            load = scene.bodies.force[~fixed].sum(axis=0) @ down
        substeps = table["substeps"] if "substeps" in table else np.ones(1)
        weight = gravity * float(scene.bodies.mass[~fixed].sum())
        kinetic, peak = float(table["kinetic"][-1]), float(np.nanmax(table["kinetic"]))
        of_a_step = 0.5 * weight * gravity * run.dt**2
        coordination, rattlers = np.nan, -1
        if np.isfinite(final.f).all():
            neighbours = Measures.of_frame(scene, final, friction=run.friction).coordination()
            coordination, rattlers = neighbours.mean, len(neighbours.rattlers)
        return cls(
            t=float(table["time"][-1]),
            steps=int(table["step"][-1]),
            frames=len(run),
            not_ok=int(np.count_nonzero(~table["ok"])),
            split=int(np.count_nonzero(substeps > 1)),
            parts=int(substeps.max(initial=1)),
            residual=residual,
            residual_of=residual_of,
            residual_at=int(table["step"][row]),
            overlap=float(overlap.max(initial=0.0)),
            overlap_final=float(overlap[-1]) if overlap.size else np.nan,
            kinetic=kinetic,
            kinetic_peak=peak,
            at_rest=kinetic <= _STILL * peak or kinetic < _STILL * of_a_step,
            dissipated=float(table["dissipated"][-1]) if "balance" in table else np.nan,
            work=float(table["work"][-1]) if "balance" in table else np.nan,
            balance=float(np.abs(table["balance"]).max()) if "balance" in table else np.nan,
            coordination=coordination,
            rattlers=rattlers,
            largest=largest_forces(final.forces),
            reaction=float(reaction),
            weight=weight,
            load=float(load),
            seconds={
                name.removeprefix(_SECONDS): float(table[name].sum())
                for name in table
                if name.startswith(_SECONDS)
            },
        )


def stages(run: Trajectory) -> list[str]:
    """Names of the solves of a step, each of which has a residual."""
    return [n.removeprefix(_RESIDUAL) for n in run.diagnostics if n.startswith(_RESIDUAL)]
