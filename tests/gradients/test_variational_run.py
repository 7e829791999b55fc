"""Gradients of runs of the variational integrator against differences."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import cdopt
from cdopt import gradients
from cdopt.dynamics import VariationalSteps
from cdopt.scene import Body, Box, HalfSpace, Material, Scene, Sphere, State

DT = 1e-3


def discs(k: float = 5e3, mass: float = 0.5, radius: float = 0.1, **more: Any) -> Scene:
    """Two discs bounce on a floor and collide."""
    return flat([], k, mass, radius, **more)


def tipped(**more: Any) -> Scene:
    """A box falls on a corner, and one of the discs hits it."""
    at = {"velocity": [-0.6, -0.3], "angular_velocity": 0.8}
    return flat([Body(Box([0.1, 0.3]), [0.43, 0.158], 0.2, mass=0.7, material="rubber", **at)],
                **more)  # fmt: skip


def flat(
    others: list[Body], k: float = 5e3, mass: float = 0.5, radius: float = 0.1, **more: Any
) -> Scene:
    own = {"material": "rubber"}
    bodies = [
        Body(HalfSpace([0, 1]), [0, 0], fixed=True, **own),
        Body(Sphere(radius), [0, 0.11], velocity=[0.6, -0.8], mass=mass, **own),
        Body(Sphere(0.1), [0.23, 0.13], velocity=[-0.9, -0.5], mass=0.4, **own),
        *others,
    ]
    rubber = Material(name="rubber", stiffness=k)
    return Scene(bodies, dim=2, gravity=[0, -9.81], materials=[rubber], **more)


def space(**more: Any) -> Scene:
    """Two balls, one of which turns."""
    own = {"material": "rubber"}
    bodies = [
        Body(HalfSpace([0, 0, 1]), [0, 0, 0], fixed=True, **own),
        Body(Sphere(0.1), [0, 0, 0.11], velocity=[0.5, 0.1, -0.5], angular_velocity=[1, 2, 3],
             mass=0.5, **own),
        Body(Sphere(0.1), [0.22, 0.02, 0.13], velocity=[-0.5, 0, 0.1], mass=0.4, **own),
    ]  # fmt: skip
    rubber = Material(name="rubber", stiffness=5e3)
    return Scene(bodies, dim=3, gravity=[0, 0, -9.81], materials=[rubber], **more)


def check(scene: Scene, steps: int, rel: float = 1e-6, **how: Any) -> Any:
    """Gradients of one number of the end by the start, against differences; the run."""
    method, rng, h = VariationalSteps(**how), np.random.default_rng(3), 1e-6
    run = gradients.trajectory(scene, DT, steps, method=method)
    dofs, start = run.dofs, run.start
    x, v = rng.standard_normal((2, dofs.nv))
    if scene.dim == 3:
        x[dofs.column >= 3] = 0.0  # orientations of balls are not seen
    pull = run.vjp(x=x, v=v)

    def number(dx: Any, dv: Any) -> float:
        q = run._moved(start, dx).q
        moved = State(0.0, q, dofs.scatter(dofs.gather(start.v) + dv, start.v))
        end = gradients.trajectory(scene, DT, steps, method=method, state=moved).end
        table = np.zeros_like(start.v)
        table[:, :3] = (end.q - run.end.q)[:, :3]
        return float(x @ dofs.gather(table) + v @ dofs.gather(end.v))

    for name in ("x", "v"):
        way = rng.standard_normal(dofs.nv)
        pair = [h * way if name == one else np.zeros(dofs.nv) for one in ("x", "v")]
        expected = (number(*pair) - number(*(-one for one in pair))) / (2 * h)
        assert pull[name] @ way == pytest.approx(expected, rel=rel), name
    return run


@pytest.mark.parametrize("alpha", [0.5, pytest.param(0.7, marks=pytest.mark.slow)])
@pytest.mark.parametrize("scene", [discs, space])
def test_spheres(scene: Any, alpha: float) -> None:
    run = check(scene(), 36, alpha=alpha)
    assert np.abs(run.end.v - run.start.v)[1:, 0].min() > 0.2  # m/s: they have collided


@pytest.mark.slow
def test_a_corner_and_hertz() -> None:
    run = check(tipped(), 12)
    fallen = run.start.v[3, 1] - 9.81 * 12 * DT
    assert run.end.v[3, 1] > fallen + 0.02  # m/s: the corner has pushed it up
    check(discs(k=5e4, power=2.5), 30)


def test_damping() -> None:
    check(discs(damping=40.0), 36)
    with pytest.raises(cdopt.Unsupported, match="damping"):
        gradients.trajectory(discs(damping=1.0), DT, 2, method=VariationalSteps(alpha=0.7))


@pytest.mark.slow
@pytest.mark.parametrize("scene", [discs, tipped, space])
def test_a_hundred_steps(scene: Any) -> None:
    run = check(scene(), 100, rel=1e-5)
    assert len(run._kept) == 11


def test_stiffness_loads_masses_and_sizes() -> None:
    """By the scene, and by name."""
    steps, h = 36, 1e-6
    base = discs()
    run = gradients.trajectory(base, DT, steps, method="variational")
    rng = np.random.default_rng(6)
    x, v = rng.standard_normal((2, run.dofs.nv))
    makers = {
        "k": lambda t: discs(k=5e3 * (1.0 + t)),
        "mass": lambda t: discs(mass=0.5 + t),
        "radius": lambda t: discs(radius=0.1 + t),
    }
    pull = run.vjp(x=x, v=v, scenes=makers)

    def number(scene: Scene) -> float:
        there = gradients.trajectory(scene, DT, steps, method="variational", state=run.start).end
        return float(x @ run.dofs.gather(there.q - run.end.q) + v @ run.dofs.gather(there.v))

    for name, make in makers.items():
        expected = (number(make(h)) - number(make(-h))) / (2 * h)
        assert pull[name] == pytest.approx(expected, rel=1e-5), name
    # two halves in series: contacts have k/2 each
    assert pull["stiffness"] * 2500.0 == pytest.approx(pull["k"], rel=1e-6)


def test_what_is_refused() -> None:
    with pytest.raises(cdopt.Unsupported, match="friction"):
        gradients.trajectory(discs(), DT, 2, method="variational", law="coulomb")
    rigid = Scene([Body(Sphere(0.1), [0, 1], mass=1.0)], dim=2)
    with pytest.raises(cdopt.InvalidInput, match="stiffness"):
        gradients.trajectory(rigid, DT, 2, method="variational")
    with pytest.raises(cdopt.InvalidInput, match="method"):
        gradients.trajectory(discs(), DT, 2, method="newton")
