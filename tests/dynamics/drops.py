"""Drops of the pyramid, against the settled elastic reference."""

from __future__ import annotations

import numpy as np

import cdopt

MATERIALS = {"hooke": (2.0, "uniform"), "hertz": (2.5, "uniform"), "species": (2.0, "species")}
DIAMETER = 2.5e-3
G = 9.81


def reference(n: int, material: str) -> tuple[np.ndarray, np.ndarray]:
    """Forces of exactly touching elastic spheres in the rigid limit and on the base, in mg."""
    power, species = MATERIALS[material]
    pile = cdopt.bank.generators.pyramid(n, species)
    truss = cdopt.NoTensionTruss(
        pile.B, -pile.F_ext, stiffness=pile.stiffness, power=power, dof_body=pile.dof_body
    )
    f = truss.solve("newton").f
    return f, pile.body_forces(f)[: n * n, 2]


def check_drop(n: int, material: str, steps: int = 20, **options) -> cdopt.Trajectory:
    """Drop a pyramid at 1 ms a step; it settles, and carries the reference's forces."""
    power, species = MATERIALS[material]
    scene = cdopt.scene.pyramid(n, power=power, material=species)
    trajectory = cdopt.simulate(scene, 1e-3, steps * 1e-3, **options)
    end, seen = trajectory.final, trajectory.diagnostics
    forces, floor = reference(n, material)
    unit = scene.bodies.mass[-1] * G
    allowed = max(1e-6, 10.0 * seen["residual_classic"][-1])
    assert trajectory.ok
    assert end.nc == forces.size
    assert np.abs(end.f / unit - forces).max() < allowed
    assert np.abs(end.body_forces()[: n * n, 2] / unit - floor).max() < allowed
    assert -end.body_forces()[: n * n, 2].sum() / unit != 0.0
    weight = np.count_nonzero(~scene.bodies.fixed)
    np.testing.assert_allclose(-end.body_forces()[: n * n, 2].sum() / unit, weight, rtol=1e-6)
    assert seen["overlap"][-1] < 1e-6 * DIAMETER
    speed = np.abs(trajectory.v[:, :, :3]).max(axis=(1, 2))
    assert speed[-1] < 1e-6 * speed.max()
    energy = seen["kinetic"] + seen["potential"]
    assert np.diff(energy).max() < 1e-9 * energy[0]
    return trajectory
