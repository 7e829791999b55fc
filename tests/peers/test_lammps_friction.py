"""LAMMPS as a peer: friction with a memory on an oblique impact of two spinning spheres.

The impact is slow, and Hertz contacts are stiff, because LAMMPS has levers r for speeds and r − δ/2
for torques, and cdopt r − δ/2 for both. What is left is half of δ/2r of the smaller radius, at any
time step.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from papers import lammps

import cdopt
from cdopt.scene import Body, Material, Scene, Sphere

REASON = lammps.why_unavailable()
SCRIPT = Path(__file__).with_name("lammps_impact.py")
MASS, SPEED = np.array([1.0, 0.7]), 1e-3
K, MODULUS, RATIO, MU = 1e6, 1e10, 0.7, 0.3
MODELS = {  # with the power and the half-stiffness that say the same here
    "hooke": (f"hooke {K!r} 0.0 tangential linear_history {RATIO * K!r} 0.0 {MU!r}", 2.0, 2 * K),
    "hertz": (
        f"hertz {MODULUS * 2 / 3!r} 0.0 tangential mindlin_rescale/force {RATIO * MODULUS!r} "
        f"0.0 {MU!r}", 2.5, MODULUS,
    ),
}  # fmt: skip


@pytest.mark.skipif(REASON is not None, reason=f"LAMMPS: {REASON}")
@pytest.mark.parametrize(
    ("law", "radii"), [("hooke", (0.5, 0.5)), ("hooke", (0.5, 0.3)), ("hertz", (0.5, 0.3))]
)
def test_an_oblique_impact_with_spin(law: str, radii: tuple[float, float]) -> None:
    model, power, half = MODELS[law]
    dt = np.pi * np.sqrt(1.0 / K / (1.0 / MASS).sum()) / 2000
    dt, steps = (dt, 2400) if law == "hooke" else (0.3 * dt, 40_000)
    position = np.array([[0.0, 0.0, 0.0], [sum(radii), 0.0, 0.0]])
    v = SPEED * np.array([[0.6, 0.3, 0.1], [-0.4, -0.5, 0.05]])
    omega = SPEED * np.array([[0.0, 0.3, 0.7], [0.0, -0.2, 0.9]])  # springs turn with n alone
    problem = {
        "position": position, "radius": np.array(radii), "mass": MASS, "v": v, "omega": omega,
        "model": f"{model} damping mass_velocity", "timestep": dt, "steps": steps,
    }  # fmt: skip
    theirs = lammps.process(SCRIPT, problem, 300.0)
    balls = [
        Body(Sphere(radii[i]), position[i], mass=MASS[i], velocity=v[i], angular_velocity=omega[i],
             material="m")
        for i in (0, 1)
    ]  # fmt: skip
    scene = Scene(
        balls, dim=3, gravity=np.zeros(3), power=power, friction=MU,
        materials=[Material(name="m", stiffness=half)],
    )  # fmt: skip
    ours = cdopt.simulate(
        scene, dt, dt * steps, "velocity-verlet", every=steps, stiffness_ratio=RATIO
    )
    assert ours.final.nc == 0
    assert ours.diagnostics["friction"][-1] > 0.0
    apart = ours.final.v - np.hstack([theirs["v"], theirs["omega"]])
    assert np.abs(apart).max() < 1e-6 * SPEED
