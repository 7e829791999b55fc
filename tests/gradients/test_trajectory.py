"""Gradients of whole runs against differences, and what they find from measurements."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import cdopt
from cdopt import gradients
from cdopt.scene import Body, Box, HalfSpace, Scene, Sphere, State

V_MIN = 0.08  # m/s: slower approaches do not rebound


def flat() -> Scene:
    """A box slides on a floor; two discs bounce, roll and hit each other and the box."""
    bodies = [
        Body(HalfSpace([0, 1]), [0, 0], fixed=True),
        Body(Box([0.4, 0.2]), [0, 0.1], velocity=[1.5, 0], mass=1.0),
        Body(
            Sphere(0.1), [0.62, 0.32], velocity=[-0.3, -0.5], angular_velocity=2.0, mass=0.5
        ),
        Body(
            Sphere(0.1), [0.95, 0.3], velocity=[-1.0, 0.3], angular_velocity=-1.0, mass=0.4
        ),
    ]  # fmt: skip
    return Scene(bodies, dim=2, gravity=[0, -9.81], restitution=0.5, friction=0.3)


def space() -> Scene:
    """Two turning balls that collide and bounce on a floor."""
    return Scene(space_items(), dim=3, gravity=[0, 0, -9.81], restitution=0.5, friction=0.3)


def slopes(scene: Scene, steps: int, seed: int) -> tuple[dict[str, float], dict[str, float]]:
    """Of one number of the end, along changes of x and v: by gradients and by differences."""
    dt, rng, h = 4e-3, np.random.default_rng(seed), 1e-5
    run = gradients.trajectory(scene, dt, steps, law="coulomb", v_min=V_MIN)
    dofs, start = run.dofs, run.start
    x, v = rng.standard_normal(dofs.nv), rng.standard_normal(dofs.nv)
    if scene.dim == 3:
        x[dofs.column >= 3] = 0.0  # orientations of balls are not seen
    pull = run.vjp(x=x, v=v)

    def number(dx: Any, dv: Any) -> float:
        q = run._moved(start, dx).q
        moved = State(0.0, q, dofs.scatter(dofs.gather(start.v) + dv, start.v))
        there = gradients.trajectory(scene, dt, steps, law="coulomb", v_min=V_MIN, state=moved)
        table = np.zeros_like(start.v)
        table[:, : scene.dim] = there.end.position - run.end.position
        if scene.dim == 2:
            table[:, 2:] = there.end.q[:, 2:] - run.end.q[:, 2:]
        return float(x @ dofs.gather(table) + v @ dofs.gather(there.end.v))

    still, found, expected = np.zeros(dofs.nv), {}, {}
    for name in ("x", "v"):
        way = rng.standard_normal(dofs.nv)
        pair = (way, still) if name == "x" else (still, way)
        expected[name] = (number(*(h * w for w in pair)) - number(*(-h * w for w in pair))) / (
            2 * h
        )
        found[name] = float(pull[name] @ way)
    return found, expected


@pytest.mark.parametrize("scene", [flat, space])
def test_a_short_run(scene: Any) -> None:
    found, expected = slopes(scene(), 12, 0)
    assert found == pytest.approx(expected, rel=1e-7)


@pytest.mark.slow
@pytest.mark.parametrize("scene", [flat, space])
def test_a_hundred_steps(scene: Any) -> None:
    found, expected = slopes(scene(), 100, 1)
    assert found == pytest.approx(expected, rel=1e-6)


def test_few_states_are_kept_and_the_stride_changes_nothing() -> None:
    run = gradients.trajectory(flat(), 4e-3, 16, law="coulomb", v_min=V_MIN)
    assert sorted(run._kept) == [0, 4, 8, 12, 16]
    other = gradients.trajectory(flat(), 4e-3, 16, law="coulomb", v_min=V_MIN, stride=16)
    way = np.arange(run.dofs.nv, dtype=float)
    np.testing.assert_allclose(run.vjp(v=way)["v"], other.vjp(v=way)["v"], rtol=1e-10)


def test_resting_on_a_floor_that_rebounds_is_a_kink_without_v_min() -> None:
    run = gradients.trajectory(flat(), 4e-3, 2, law="coulomb")
    with pytest.raises(cdopt.Unsupported, match="just touch"):
        run.vjp(v=np.ones(run.dofs.nv))


def test_loads_and_masses_of_a_run() -> None:
    scene, dt, steps = space(), 4e-3, 6
    run = gradients.trajectory(scene, dt, steps, law="coulomb", v_min=V_MIN)
    weights = np.random.default_rng(4).standard_normal(run.dofs.nv)
    pull, h = run.vjp(v=weights), 1e-4

    def number(force: Any) -> float:
        bodies = [
            Body(b.shape, b.position, velocity=b.velocity, angular_velocity=b.angular_velocity,
                 mass=b.mass, fixed=b.fixed, force=f)
            for b, f in zip(space_items(), [None, force, None], strict=True)
        ]  # fmt: skip
        other = Scene(bodies, dim=3, gravity=[0, 0, -9.81], restitution=0.5, friction=0.3)
        there = gradients.trajectory(other, dt, steps, law="coulomb", v_min=V_MIN)
        return float(weights @ run.dofs.gather(there.end.v))

    way = np.array([0.3, -0.5, 0.8])
    expected = (number(h * way) - number(-h * way)) / (2 * h)
    assert pull["F_ext"][:3] @ way == pytest.approx(expected, rel=1e-7)


def space_items() -> list[Body]:
    """The bodies of ``space``."""
    return [
        Body(HalfSpace([0, 0, 1]), [0, 0, 0], fixed=True),
        Body(
            Sphere(0.1), [0, 0, 0.12], velocity=[0.5, 0.1, -0.5], angular_velocity=[1, 2, 3],
            mass=0.5,
        ),
        Body(
            Sphere(0.1), [0.3, 0.02, 0.13], velocity=[-0.5, 0, 0.1], angular_velocity=[1, 0, -1],
            mass=0.4,
        ),
    ]  # fmt: skip


@pytest.mark.parametrize("name", ["radius", "mass", "friction"])
def test_sizes_masses_and_friction_of_a_scene(name: str) -> None:
    """Through contacts and steps: a disc rolls and slides on a floor, and hits another."""
    dt, steps = 4e-3, 14

    def scene(t: float) -> Scene:
        by = {key: t if key == name else 0.0 for key in ("radius", "mass", "friction")}
        bodies = [
            Body(HalfSpace([0, 1]), [0, 0], fixed=True),
            Body(Sphere(0.1 + by["radius"]), [0, 0.1], velocity=[1, -0.5], mass=1 + by["mass"]),
            Body(Sphere(0.1), [0.24, 0.12], velocity=[-1, 0], mass=0.5),
        ]
        mu = 0.3 + by["friction"]
        return Scene(
            bodies, dim=2, gravity=[0, -9.81], restitution=0.4, friction=mu, overlaps="resolve"
        )

    start = scene(0.0).initial

    def run(t: float) -> Any:
        how = {"law": "coulomb", "v_min": V_MIN, "state": start}
        return gradients.trajectory(scene(t), dt, steps, **how)

    base, h = run(0.0), 1e-6
    rng = np.random.default_rng(5)
    x, v = rng.standard_normal((2, base.dofs.nv))

    def number(t: float) -> float:
        end = run(t).end
        return float(x @ base.dofs.gather(end.q - base.end.q) + v @ base.dofs.gather(end.v))

    expected = (number(h) - number(-h)) / (2 * h)
    assert abs(expected) > 1e-3
    assert base.vjp(x=x, v=v, scenes={"t": scene})["t"] == pytest.approx(expected, rel=1e-5)


# --- what gradients find ------------------------------------------------------------------------


def test_friction_from_a_recorded_slide() -> None:
    def run(mu: float) -> Any:
        bodies = [
            Body(HalfSpace([0, 1]), [0, 0], fixed=True),
            Body(Box([0.4, 0.2]), [0, 0.1], velocity=[2.0, 0], mass=1.0),
        ]
        scene = Scene(bodies, dim=2, gravity=[0, -9.81], friction=mu)
        return gradients.trajectory(scene, 1e-2, 8, law="coulomb")

    recorded = run(0.37).end.position[1, 0]
    mu = 0.2
    for _ in range(6):
        there = run(mu)
        mu -= (there.end.position[1, 0] - recorded) / there.vjp(x=[1.0, 0.0, 0.0])["mu"]
    assert mu == pytest.approx(0.37, abs=1e-6)


def test_a_ball_thrown_at_a_target_over_one_bounce() -> None:
    target, v = np.array([2.0, 0.7]), np.array([2.6, 0.5])

    def run(v: Any) -> Any:
        bodies = [
            Body(HalfSpace([0, 1]), [0, 0], fixed=True),
            Body(Sphere(0.1), [0.0, 1.0], velocity=v, mass=1.0),
        ]
        scene = Scene(bodies, dim=2, gravity=[0, -9.81], restitution=0.8)
        return gradients.trajectory(scene, 2e-2, 40)

    for _ in range(12):
        there = run(v)
        missed = there.end.position[1] - target
        slope = np.array([there.vjp(x=row)["v"] for row in np.eye(2)])
        v = v - np.linalg.solve(slope, missed)
        if np.abs(missed).max() < 1e-9:
            break
    assert np.abs(run(v).end.position[1] - target).max() < 1e-8


def test_stiffness_of_legs_from_noisy_forces() -> None:
    feet = np.array([[1.0, 1.0], [1.0, -1.0], [-1.0, 1.0], [-1.0, -1.0]])
    B = np.column_stack([np.ones(4), feet[:, 1], -feet[:, 0]])
    places = [(0.0, 0.0), (0.2, 0.1), (-0.1, 0.2), (0.1, -0.2), (-0.2, -0.1)]
    truth, noise, rng = np.array([1.0, 1.3, 0.8, 0.6]), 1e-3, np.random.default_rng(0)

    def legs(k: Any, place: Any) -> Any:
        load = [-10.0, -10.0 * place[1], 10.0 * place[0]]
        return cdopt.CompatibleCD(
            cdopt.ContactStep(np.eye(3), B, np.zeros(4), np.zeros(3), load, 1e-2, stiffness=k)
        )

    measured = [legs(truth, p).solve().f + noise * rng.standard_normal(4) for p in places]
    logs = np.zeros(3)  # of the others over the first
    for _ in range(6):
        k = np.exp(np.append(0.0, logs))
        misses, rows = [], []
        for place, f in zip(places, measured, strict=True):
            problem = legs(k, place)
            answer = problem.solve()
            misses.append(f - answer.f)
            derivatives = gradients.of(problem, answer)
            rows.append([derivatives.vjp(f=e)["stiffness"][1:] * k[1:] for e in np.eye(4)])
        J = np.concatenate(rows)
        logs = logs + np.linalg.lstsq(J, np.concatenate(misses), rcond=None)[0]
    spread = noise * np.sqrt(np.diag(np.linalg.inv(J.T @ J)))
    assert np.all(np.abs(logs - np.log(truth[1:] / truth[0])) <= 3.0 * spread)
    assert np.all(spread < 0.01)
