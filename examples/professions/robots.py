"""A robot as its maker describes it (``quadruped.urdf``): what is known of the feet's forces?"""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import numpy as np

import cdopt

from .engines import FEET, in_mujoco, on_the_step, quadruped


class Feet(NamedTuple):
    """Bounds of each foot and of the total, and the verdict on what MuJoCo reports."""

    report: cdopt.Indeterminacy
    audit: cdopt.Audit


def run(out: Path) -> Feet:
    """Print what is determined and the verdict on MuJoCo's forces; save a picture."""
    case = quadruped()
    step = case.step
    total, rear = np.zeros((2, 1, 3 * step.nc))
    total[0, ::3], rear[0, 6::3] = 1.0, 1.0  # upward forces of all feet, and of the rear ones
    report = cdopt.indeterminacy(step, "coulomb", {"total": total, "rear feet": rear})
    for name, low, high in zip(FEET, report.lower, report.upper, strict=True):
        print(f"{name:<18}{low:7.2f} to {high:5.2f} N")
    for name in ("rear feet", "total"):
        known = report.quantity(name)
        print(f"{name:<18}{known.lower[0]:7.2f} to {known.upper[0]:5.2f} N")
    forces = on_the_step(case, in_mujoco(case))
    audit = cdopt.audit(step, forces[:, 0], forces[:, 1:], report=report, tol=2e-3)
    print(f"MuJoCo: {audit.summary}")
    cdopt.plots.audited_forces(audit, view="isometric").savefig(out / "robots.png", dpi=120)
    return Feet(report, audit)
