"""Elastic methods at their limits: residuals, odd loads, steps that fail, and refusals."""

from __future__ import annotations

import sys
import tracemalloc
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from dynamic_scenes import MASS, STIFF, T_C, ball, bonded_hit, falling, impact, scene, wall

import cdopt
from cdopt._util.errors import InvalidInput, Unsupported
from cdopt.backends import resolve
from cdopt.dynamics import Equilibrium, StepFailed, Trajectory, VariationalSteps, elastic
from cdopt.dynamics.equilibrium import unbalanced
from cdopt.dynamics.spheres.steps import outdated, size
from cdopt.dynamics.spheres.system import neighbor_list, system_of
from cdopt.scene import Body, Box, HalfSpace, Material, Scene, Sphere, Spheres

SLOW, H = pytest.mark.slow, T_C / 16
# methods and paths that step over a scene of spheres
STEPPERS = [
    ("variational", {}),
    ("variational", {"alpha": 0.0}),
    ("variational", {"path": "cvxpy"}),
    pytest.param("variational", {"path": "cvxpy", "alpha": 0.0}, marks=SLOW),
    ("velocity-verlet", {}),
]


def meeting(speed: float, distance: float = 2.0, dim: int = 2, **more: Any) -> Scene:
    """Two spheres that approach each other."""
    ends = ((-0.5 * distance, speed, "left"), (0.5 * distance, -speed, "right"))
    pair = [ball([x, 0.0, 0.0][:dim], [v, 0.0, 0.0][:dim], name=name) for x, v, name in ends]
    return scene(pair, dim, **more)


# --- residuals are real, as a share of the local loads ------------------------------


@pytest.mark.parametrize("speed", [1.0, 1e-6])
def test_the_residual_of_a_loose_step_is_the_residual_left(speed: float) -> None:
    """Without damping and with α = ½, Δq/h is the mean velocity, but for R/2M."""
    start = ball([0.0, 1e-3 * speed * T_C], [0.0, -speed])
    place = scene([wall([0.0, 1.0], [0.0, -0.5]), start], 2, power=2.5)
    run = cdopt.simulate(place, H, 80 * H, "variational", tol=1e-3)
    x, v = run.q[:, 1, 1], run.v[:, 1, 1]
    left = np.abs(np.diff(x) / H - 0.5 * (v[1:] + v[:-1])).max() / speed
    assert 1e-7 < left < 1e-2
    assert 0.1 * left < run.diagnostics["residual_step"].max() < 10.0 * left
    assert run.ok


FAST = ball([0.0, 100.0], [0.0, 5e3])
LOOSE = {"tol": 1e-8}  # of its speed is more than the speeds of the others


def slow_pair(*others: Body) -> Scene:
    """Two spheres that touch and approach at 2e-6 m/s, and others far away."""
    return scene([ball([-0.5, 0.0], [1e-6, 0.0]), ball([0.5, 0.0], [-1e-6, 0.0]), *others], 2)


@pytest.mark.parametrize("solver", ["cg", "direct"])
def test_slow_bodies_are_solved_as_well_as_fast_ones(solver: str) -> None:
    alone, beside = (
        cdopt.simulate(slow_pair(*others), H, 5 * H, "variational", solver=solver, **LOOSE)
        for others in ((), (FAST,))
    )
    assert alone.ok
    assert beside.ok
    assert np.abs(alone.v[-1]).max() > 1e-7
    np.testing.assert_allclose(beside.v[:, :2], alone.v, rtol=0, atol=1e-11)


def test_a_residual_above_the_tolerance_is_no_success(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without iterations, what is small compared with the fastest body is all of the slow ones."""
    monkeypatch.setattr(elastic, "_LIMIT", 0)
    with pytest.raises(StepFailed, match="above the tolerance") as caught:
        cdopt.simulate(slow_pair(FAST), H, 4 * H, "variational", **LOOSE)
    assert len(caught.value.trajectory) == 1
    run = cdopt.simulate(slow_pair(FAST), H, 4 * H, "variational", on_failure="continue", **LOOSE)
    assert not run.ok
    assert run.diagnostics["residual_step"][1:].min() > 1e-3
    assert run.diagnostics["claimed_step"].all()  # the cheap criterion was met


def column() -> Scene:
    grain = Material(name="grain", stiffness=2e4)
    balls = [Body(Sphere(0.1), [0.4 * k, 0.1], mass=10.0**k, material="grain") for k in range(3)]
    floor = Body(HalfSpace([0.0, 1.0]), [0.0, 0.0])
    return Scene([floor, *balls], dim=2, gravity=[0.0, -10.0], materials=[grain])


def test_an_equilibrium_is_measured_by_what_acts_on_each_body(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The lightest ball 1e-6 m above its rest: a share of its 10 N, not of the heaviest's 1000."""
    module = sys.modules["cdopt.dynamics.equilibrium"]  # the package has a function of this name
    exact = module.equilibrium

    def lifted(*args: Any, **options: Any) -> Equilibrium:
        found = exact(*args, **options)
        lift = 2e4 * 1e-6 * (np.arange(found.forces.size) == 0)
        return replace(found, forces=found.forces - lift)

    assert unbalanced(column(), exact(column())) < 1e-9
    assert unbalanced(column(), lifted(column())) == pytest.approx(2e-3, rel=1e-6)
    monkeypatch.setattr(module, "equilibrium", lifted)
    with pytest.raises(StepFailed, match="above the tolerance"):
        cdopt.simulate(column(), 0.1, 0.2, "quasi-static")
    run = cdopt.simulate(column(), 0.1, 0.2, "quasi-static", on_failure="continue")
    assert run.diagnostics["ok"].tolist() == [True, False, False]
    assert run.diagnostics["residual_step"][1] == pytest.approx(2e-3, rel=1e-3)


@pytest.mark.parametrize("body", [0, 1])
def test_what_is_no_number_is_no_small_number(body: int) -> None:
    """Of whichever body: it counts neither as a small residual nor as a short way."""
    table = np.zeros((2, 6))
    table[body, 1] = np.nan
    two = scene([ball([0.0] * 3), ball([2.0, 0.0, 0.0])])
    system, x = system_of(two), np.zeros((2, 3))
    assert not size.py_func(system, table) <= 1.0
    assert outdated(neighbor_list(two, x, system.normal, 1.0), x, table)


# --- loads and stability -------------------------------------------------------------------


def test_a_torque_turns_a_sphere_from_rest() -> None:
    """Only the torque gives a scale of speeds."""
    torque, mass, radius = np.array([-268.86310215, -107.16791741, -145.18729666]), 0.0039, 0.1743
    for alpha, h in ((0.5989760456910423, 0.03015), (0.5, 1e-2), (0.25, 1e-3), (0.9, 3e-3)):
        for mass_of in mass * np.linspace(1.0, 2.0, 5):
            lone = scene([ball([0.0] * 3, radius=radius, mass=mass_of, torque=torque)])
            run = cdopt.simulate(lone, h, h, "variational", alpha=alpha)
            spin = h * torque / (0.4 * mass_of * radius**2)
            np.testing.assert_allclose(run.v[-1, 0, 3:], spin, rtol=1e-12)


@pytest.mark.parametrize("far", [1e3, 1e5])
def test_a_wall_is_no_rougher_far_from_its_point(far: float) -> None:
    """Slow spheres on an incline whose position is a long way up."""
    out, down = np.array([1.0, 2.0]) / np.sqrt(5.0), np.array([2.0, -1.0]) / np.sqrt(5.0)
    for speed in (1e-2, 1e-5):
        sphere = ball((0.5 - 1e-6) * out + far * down, -speed * out)
        place = scene([wall(out, [0.0, 0.0]), sphere], 2, overlap_tol=1e-3)
        assert cdopt.simulate(place, H, 40 * H, "variational", every=40).ok


def test_the_explicit_limit_is_that_of_pairs_that_can_meet_and_of_bonds() -> None:
    """A soft sphere on a hard wall takes the steps of the soft contact."""
    soft, hard = Material(name="soft", stiffness=1e4), Material(name="hard", stiffness=1e8)
    floor = Body(HalfSpace([0.0, 1.0]), [0.0, 0.0], material="hard")
    above = Body(Sphere(0.5), [0.0, 0.6], velocity=[0.0, -1.0], mass=1.0, material="soft")
    place = Scene([floor, above], dim=2, gravity=[0.0, 0.0], materials=[soft, hard])
    assert cdopt.simulate(place, 1e-3, 0.3, "velocity-verlet").v[-1, 1, 1] == pytest.approx(
        1.0, abs=0.01
    )
    with pytest.raises(InvalidInput, match=r"dt.*less than 0\.00102 s"):
        cdopt.simulate(impact(), 1e-2, 1.0, "velocity-verlet")
    assert cdopt.simulate(impact(), 0.6 * T_C, 10 * T_C, "velocity-verlet").ok
    tied = [ball([0.0, 0.0], [-1.0, 0.0]), ball([1.0, 0.0], [1.0, 0.0])]
    place = scene(tied, 2, bond_stiffness=1e8)
    limit = 2.0 / np.sqrt(2.0 * 1e8 / MASS)
    run = cdopt.simulate(place, 0.9 * limit, 200 * limit, "velocity-verlet")
    assert run.diagnostics["kinetic"].max() <= 1.01 * MASS
    with pytest.raises(InvalidInput, match=r"dt.*unstable"):
        cdopt.simulate(place, 1.1 * limit, 200 * limit, "velocity-verlet")


# --- steps that fail -----------------------------------------------------------------------


@pytest.mark.parametrize(("method", "settings"), STEPPERS)
def test_an_overlap_beyond_a_radius_ends_the_run(method: str, settings: dict[str, Any]) -> None:
    """The contact is too soft to stop the spheres; the last good state is recorded."""
    h = 1e-5
    with pytest.raises(StepFailed, match=r"more than a radius.*'left'.*'right'") as caught:
        cdopt.simulate(meeting(2e3), h, 1e-3, method, every=7, **settings)
    error, kept = caught.value, caught.value.trajectory
    assert kept.steps[-1] == round(error.t / h) - 1 > 20
    assert kept.diagnostics["ok"].tolist() == [True] * (len(kept)) + [False]
    assert kept.diagnostics["overlap"][:-1].max() <= 0.5
    gap = np.linalg.norm(np.diff(kept[-1].state.position, axis=0)) - 1.0
    assert -0.6 < gap < 0.0


@pytest.mark.parametrize(("method", "settings"), STEPPERS)
def test_bodies_never_leap_over_or_through_their_neighbours(
    method: str, settings: dict[str, Any]
) -> None:
    with pytest.raises(StepFailed, match=r"further in one step|more than a radius"):
        cdopt.simulate(meeting(1e6), 1e-5, 1e-3, method, **settings)
    soft = [Material(name="grain", stiffness=2.0)]
    with pytest.raises(StepFailed) as caught:
        cdopt.simulate(meeting(950.0, 1.0002, materials=soft), 1e-3, 3e-3, method, **settings)
    x = caught.value.trajectory.q[:, :, 0]
    assert np.all(x[:, 0] < x[:, 1])


@pytest.mark.slow
def test_a_body_too_fast_is_named_without_listing_all_pairs() -> None:
    n = 800
    cells = 1.2 * np.stack(np.unravel_index(np.arange(n), (10, 10, 8)), -1)
    velocity = np.zeros((n, 3))
    velocity[n - 1, 0] = 1e8
    place = scene([Spheres(cells, 0.5, mass=MASS, velocities=velocity, material="grain")])
    for trace in (False, True):  # compiled before memory is counted
        if trace:
            tracemalloc.start()
        with pytest.raises(StepFailed, match=rf"further in one step.*bodies\[{n - 1}\]"):
            cdopt.simulate(place, 1e-4, 1e-3, "variational")
    most = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert most < 2e7  # of the order of n; all pairs take 48 MB


@pytest.mark.parametrize("settings", [{}, {"solver": "direct"}, {"path": "cvxpy"}])
def test_spheres_in_one_place_end_the_run(settings: dict[str, Any]) -> None:
    place = scene([ball([0.0] * 3), ball([0.0] * 3)], overlap_tol=3.0)
    with pytest.raises(StepFailed):
        cdopt.simulate(place, 1e-4, 1e-3, "variational", **settings)


@pytest.mark.parametrize("solver", ["cg", "direct"])
@pytest.mark.parametrize(("stiffness", "damping"), [(STIFF, 1e20), (1e24, 0.0), (1e149, 1e149)])
def test_matrices_singular_to_round_off_end_the_run_at_most(
    stiffness: float, damping: float, solver: str
) -> None:
    grain = [Material(name="grain", stiffness=stiffness)]
    place = meeting(1.0, 1.0, materials=grain, damping=damping)
    try:
        run = cdopt.simulate(place, 1e-3, 5e-3, "variational", solver=solver, allow_long_steps=True)
    except StepFailed as error:
        run = error.trajectory
    assert np.isfinite(run.v).all()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("path", "n", "dim", "why"),
    [("native", 8, 3, r"bodies\[.*time step may be too large"), ("cvxpy", 4, 2, r"bodies\[")],
)
def test_an_iteration_that_does_not_converge_ends_the_run(
    path: str, n: int, dim: int, why: str
) -> None:
    """Spheres pressed almost flat at a step where the potential is far from convex."""
    heap, long = falling(n, 0.0, dim), {"allow_long_steps": True}
    with pytest.raises(StepFailed, match=why) as caught:
        cdopt.simulate(heap, 0.3, 30.0, "variational", path=path, **long)
    assert caught.value.trajectory.t[-1] < caught.value.t


@pytest.mark.parametrize("on_failure", ["stop", "continue"])
def test_a_backend_without_an_answer_ends_the_run(on_failure: str) -> None:
    how = {"path": "cvxpy", "backend": resolve("osqp", max_iter=2), "on_failure": on_failure}
    with pytest.raises(StepFailed) as caught:
        cdopt.simulate(impact(30.0, 0.1), H, T_C, "variational", **how)
    assert caught.value.t == pytest.approx(H)
    assert caught.value.backend == "osqp"
    assert len(caught.value.trajectory) == 1


@pytest.mark.slow
def test_a_failing_certificate_speaks_for_its_own_step_alone() -> None:
    """Recorded seldom: the steps before it are as good as they were, and its solution is kept."""
    poor = resolve("osqp", eps_abs=0.1, eps_rel=0.1, polishing=False)
    near = [ball([-0.5005, 0.0, 0.0], [1.0, 0.0, 0.0]), ball([0.5005, 0.1, 0.0], [-1.0, 0.0, 0.0])]
    how = {"path": "cvxpy", "backend": poor, "every": 50}
    with pytest.raises(StepFailed, match="certificate") as caught:
        cdopt.simulate(scene(near, damping=30.0), H, 2 * T_C, "variational", **how)
    seen = caught.value.trajectory.diagnostics
    assert seen["ok"].tolist() == [True, True, False]
    assert seen["residual_step"][1] <= 1e-6
    assert caught.value.solution is not None
    assert not caught.value.solution.ok


@pytest.mark.slow
@pytest.mark.parametrize("method", ["variational", "velocity-verlet"])
def test_a_failed_run_is_kept_and_fails_alike_when_resumed(method: str, tmp_path: Path) -> None:
    file, ends = tmp_path / "run.vtkhdf", []
    for resume in (False, True, True):
        with pytest.raises(StepFailed) as caught:
            cdopt.simulate(meeting(2e3), 1e-5, 1e-3, method, every=7, out=file, resume=resume)
        kept = Trajectory.load(file)
        np.testing.assert_array_equal(kept.q, caught.value.trajectory.q)
        ends.append((kept.steps.tolist(), kept.diagnostics["ok"].tolist(), caught.value.t))
    assert ends[0] == ends[1] == ends[2]
    assert ends[0][0][-1] % 7 != 0


# --- what is refused -----------------------------------------------------------------------


def crate(dim: int) -> Scene:
    solid = Body(Box([1.0] * dim), [0.0] * dim, mass=1.0, material="grain", name="crate")
    return scene([solid], dim)


@pytest.mark.parametrize(
    ("place", "method", "settings", "why"),
    [
        *(
            (place, method, {}, why)
            for method in ("variational", "velocity-verlet", "quasi-static")
            for place, why in (
                (cdopt.scene.collision(0.0), "stiffness"),
                (scene([ball([0.0, 0.0])], 2, restitution=0.5), "restitution"),
            )
        ),
        (bonded_hit(1.0, 0.0), "classic-cd", {}, "bonds"),
        (crate(2), "velocity-verlet", {}, "crate"),
        (crate(3), "variational", {"path": "native"}, "crate"),
        (
            scene([wall([0.0, 1.0], [0.0, -1.0], angular_velocity=1.0), ball([0.0, 0.0])], 2),
            "variational", {}, "turns",
        ),
    ],
)  # fmt: skip
def test_scenes_that_a_method_cannot_take_leave_no_file(
    place: Scene, method: str, settings: dict[str, Any], why: str, tmp_path: Path
) -> None:
    with pytest.raises((InvalidInput, Unsupported), match=why):
        cdopt.simulate(place, 1e-4, 1e-3, method, out=tmp_path / "run.vtkhdf", **settings)
    assert "cd" in method or not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("setting", "value"),
    [
        *(("alpha", value) for value in (1.0, -0.1, float("nan"), 1e-12)),
        *(("damping", "none"), ("path", "fast"), ("solver", "lu"), ("tol", 0.0)),
        *(("backend", "nobody"), ("beta", 1)),
    ],
)
def test_settings_out_of_range_are_refused(setting: str, value: Any) -> None:
    with pytest.raises(InvalidInput, match=setting):
        cdopt.simulate(impact(), 1e-4, 1e-3, "variational", **{setting: value})
    with pytest.raises((InvalidInput, TypeError), match=setting):
        VariationalSteps(**{setting: value})
