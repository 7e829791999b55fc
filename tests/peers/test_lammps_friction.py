"""LAMMPS as a peer: friction with a memory, on an impact, in a pile and in a box.

The oblique impact is slow, and Hertz contacts are stiff, because LAMMPS has levers r for speeds and
r − δ/2 for torques, and cdopt r − δ/2 for both. What is left is half of δ/2r of the smaller radius,
at any time step.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from papers import lammps

import cdopt
from cdopt.scene import Body, HalfSpace, Material, Scene, Sphere, Spheres
from cdopt.scene.generators.packings import pyramid_positions

REASON = lammps.why_unavailable()
SCRIPT = Path(__file__).with_name("lammps_rough.py")
MASS, SPEED = np.array([1.0, 0.7]), 1e-3
K, MODULUS, RATIO, MU = 1e6, 1e10, 0.7, 0.3
MODELS = {  # with the power and the half-stiffness that say the same here
    "hooke": (f"hooke {K!r} 0.0 tangential linear_history {RATIO * K!r} 0.0 {MU!r}", 2.0, 2 * K),
    "hertz": (
        f"hertz {MODULUS * 2 / 3!r} 0.0 tangential mindlin_rescale/force {RATIO * MODULUS!r} "
        f"0.0 {MU!r}", 2.5, MODULUS,
    ),
}  # fmt: skip
needs_lammps = pytest.mark.skipif(REASON is not None, reason=f"LAMMPS: {REASON}")
KAPPAS, RAISED = (1e3, 1e4, 1e5), 400_000  # of the pile: k over m g/d, and steps that raise gravity
STEP, STEPS, K_BOX, GAMMA, WIDTH, SPHERES = 5e-4, 30_000, 2e4, 60.0, 3.6, 45  # of the box
BANDS = {  # mean and deviation of LAMMPS, seeds 0 to 23, in weights and diameters
    "height": (1.79, 0.057),
    "coordination": (4.15, 0.15),
    "mobilised": (0.4108, 0.066),
    "floor": (1.014, 0.053),
    "sides": (1.72, 0.41),
}
RUNS, SEEDS = 24, range(100, 106)
WALLS = ((2, 0.0, 1), (0, 0.0, 1), (0, WIDTH, -1), (1, 0.0, 1), (1, WIDTH, -1))  # the floor first


@needs_lammps
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


@needs_lammps
def test_a_pile_tends_to_the_flow_of_coulomb() -> None:
    centres, layers = pyramid_positions(3)
    base, ones = layers == 0, np.ones(layers.size)
    rough = Material(name="m", stiffness=1.0, friction=0.5)
    spheres = Spheres(centres=centres, radius=0.5, mass=1.0, fixed=base, material="m")
    scene = Scene([spheres], dim=3, gravity=[0, 0, -1], materials=[rough])
    contacts = cdopt.collision.detect(scene, scene.initial, 1e-6)
    step = cdopt.collision.step(scene, scene.initial, contacts, 1e-3, friction=True)
    step = step.replace(phi=np.zeros(step.nc))
    apart: dict[str, list[float]] = {"coulomb": [], "associated": []}
    answers = {flow: cdopt.CompatibleFriction(step, flow=flow).solve() for flow in apart}
    limits = {flow: step.contact_vectors(answer.f, answer.f_t) for flow, answer in answers.items()}
    for kappa in KAPPAS:
        gamma = 2.0 * float(np.sqrt(kappa))
        springs = f"hooke {kappa} {gamma!r} tangential linear_history {kappa} 1.0 0.5"
        problem = {
            "position": centres, "radius": 0.5 * ones, "mass": ones, "fixed": base.sum(),
            "gravity": 1.0, "raised": RAISED, "steps": RAISED * 5 // 4,
            "timestep": 0.05 / np.sqrt(kappa), "model": f"{springs} damping mass_velocity",
        }  # fmt: skip
        theirs = lammps.process(SCRIPT, problem, 300.0)
        order = np.lexsort(theirs["pairs"].T[::-1])
        np.testing.assert_array_equal(theirs["pairs"][order], contacts.bodies)
        for flow, errors in apart.items():
            off = np.linalg.norm(theirs["forces"][order] - limits[flow])
            errors.append(float(off / np.linalg.norm(limits[flow])))
    soft, stiff, stiffest = apart["coulomb"]  # 3.4e-4, 3.8e-5, 8.7e-6
    assert step.nc == 24
    assert soft < 4e-4
    assert stiff < soft / 8.0
    assert stiffest < 1e-5
    np.testing.assert_allclose(apart["associated"], 0.0928, rtol=3e-3)


def start(seed: int) -> tuple[Any, Any, Any]:
    """Places and radii of the spheres in the box, the same for all seeds, and velocities."""
    rng = np.random.default_rng(7)
    cells = np.stack(np.unravel_index(np.arange(SPHERES), (5, 3, 3)), -1)[:, ::-1]
    centres = 0.6 + 1.2 * cells + rng.uniform(-0.04, 0.04, (SPHERES, 3))
    radii = rng.uniform(0.4, 0.55, SPHERES)
    return centres, radii, np.random.default_rng(seed).uniform(-1.0, 1.0, (SPHERES, 3))


def numbers(x: Any, mass: Any, kinetic: float, forces: Any, normals: Any, wall: Any) -> Any:
    """What bands are for: forces on spheres that touch another, wall -1, or a wall, in weights."""
    f, weight = (forces * normals).sum(axis=1), mass.sum()
    f_t = np.linalg.norm(forces - f[:, None] * normals, axis=1)
    return {
        "height": float(mass @ x[:, 2] / weight),
        "coordination": float(np.where(wall < 0, 2, 1).sum() / len(mass)),
        "mobilised": float((f_t / (MU * f)).mean()),
        "floor": float(forces[wall == 0, 2].sum() / weight),
        "all walls": float(forces[wall >= 0, 2].sum() / weight),
        "sides": float(f[wall > 0].sum() / weight),
        "kinetic": float(kinetic / weight),
    }


def of_lammps(seed: int) -> dict[str, float]:
    x, radii, v = start(seed)
    mass = (2.0 * radii) ** 3
    springs = f"hooke {K_BOX} {GAMMA} tangential linear_history {RATIO * K_BOX!r} 1.0 {MU}"
    problem = {
        "position": x, "radius": radii, "mass": mass, "v": v, "gravity": 1.0, "walls": WALLS,
        "timestep": STEP, "steps": STEPS, "model": f"{springs} damping mass_velocity",
    }  # fmt: skip
    end = lammps.process(SCRIPT, problem, 300.0)
    branch = end["position"][end["pairs"][:, 1]] - end["position"][end["pairs"][:, 0]]
    normals = [branch / np.linalg.norm(branch, axis=1)[:, None]]
    forces, wall = [end["forces"]], [np.full(len(branch), -1)]
    for k, (axis, _, side) in enumerate(WALLS):
        pushed = end["wall_forces"][k][end["wall_forces"][k].any(axis=1)]
        forces.append(pushed)
        normals.append(np.tile(side * np.eye(3)[axis], (len(pushed), 1)))
        wall.append(np.full(len(pushed), k))
    turning = 0.4 * mass * radii**2 @ (end["omega"] ** 2).sum(axis=1)
    kinetic = 0.5 * (mass @ (end["v"] ** 2).sum(axis=1) + turning)
    joined = [np.concatenate(parts) for parts in (forces, normals, wall)]
    return numbers(end["position"], mass, kinetic, *joined)


def of_cdopt(seed: int) -> dict[str, float]:
    x, radii, v = start(seed)
    mass = (2.0 * radii) ** 3
    walls = [
        Body(HalfSpace(side * np.eye(3)[axis]), end * np.eye(3)[axis], material="m")
        for axis, end, side in WALLS
    ]
    spheres = Spheres(centres=x, radius=radii, mass=mass, material="m", velocities=v)
    rubber = Material(name="m", stiffness=2.0 * K_BOX, friction=MU)
    scene = Scene(
        [*walls, spheres], dim=3, gravity=[0, 0, -1], materials=[rubber], damping=GAMMA,
        tangential_damping=GAMMA,
    )  # fmt: skip
    run = cdopt.simulate(
        scene, STEP, STEP * STEPS, "velocity-verlet", every=STEPS, stiffness_ratio=RATIO
    )
    end = run.final
    first = end.bodies[:, 0]
    wall = np.where(first < len(WALLS), first, -1)
    kinetic, x = run.diagnostics["kinetic"][-1], end.state.position[len(WALLS) :]
    return numbers(x, mass, kinetic, end.contact_vectors(), end.normals, wall)


@needs_lammps
@pytest.mark.parametrize("code", [of_lammps, of_cdopt])
def test_spheres_settle_in_a_box_within_bands(code: Callable[[int], dict[str, float]]) -> None:
    """Motion is chaotic: means of six runs, of other seeds than those of the bands."""
    runs = [code(seed) for seed in SEEDS]
    for name, (mean, deviation) in BANDS.items():
        error = deviation * np.sqrt(1.0 / len(runs) + 1.0 / RUNS)
        assert abs(np.mean([run[name] for run in runs]) - mean) < 3.0 * error, name
    carried = [run["all walls"] for run in runs if run["kinetic"] < 1e-3]
    np.testing.assert_allclose(carried, 1.0, atol=2e-3)  # the weight
    assert len(carried) >= len(runs) - 1  # in one run a sphere may slip at the end
