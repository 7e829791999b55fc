"""Elastic methods: odd loads, tolerances, failures, and what files keep."""

from __future__ import annotations

import tracemalloc
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from elastic_scenes import MASS, T_C, impact
from grain_mixtures import STIFF, ball, mixture, scene

import cdopt
from cdopt._util.errors import CdoptError, InvalidInput
from cdopt.backends import resolve
from cdopt.dynamics import Interrupted, StepFailed, VariationalSteps
from cdopt.dynamics.spheres import SphereStepper
from cdopt.dynamics.spheres.integrate import outdated
from cdopt.dynamics.spheres.newton import size
from cdopt.dynamics.spheres.system import neighbor_list, system_of
from cdopt.scene import Body, HalfSpace, Material, Scene, Sphere, Spheres

# --- loads, tolerances, stability ----------------------------------------------------------


def test_a_torque_turns_a_sphere_from_rest() -> None:
    """Nothing but the torque tells how fast anything is."""
    torque, mass, radius = np.array([-268.86310215, -107.16791741, -145.18729666]), 0.0039, 0.1743
    for alpha, h in ((0.5989760456910423, 0.03015), (0.5, 1e-2), (0.25, 1e-3), (0.9, 3e-3)):
        for mass_of in mass * np.linspace(1.0, 2.0, 60):
            lone = scene([ball([0.0] * 3, radius=radius, mass=mass_of, torque=torque)])
            run = cdopt.simulate(lone, h, h, "variational", alpha=alpha)
            spin = h * torque / (0.4 * mass_of * radius**2)
            np.testing.assert_allclose(run.v[-1, 0, 3:], spin, rtol=1e-12)


@pytest.mark.parametrize("far", [1e3, 1e4, 1e5])
def test_a_wall_is_no_rougher_far_from_its_point(far: float) -> None:
    """Slow spheres on an incline whose position is a long way up."""
    out, down = np.array([1.0, 2.0]) / np.sqrt(5.0), np.array([2.0, -1.0]) / np.sqrt(5.0)
    wall = Body(HalfSpace(out), [0.0, 0.0], material="grain")
    for speed in (1e-2, 1e-3, 1e-4, 1e-5):
        place = scene([wall, ball((0.5 - 1e-6) * out + far * down, -speed * out)], 2,
                      overlap_tol=1e-3)  # fmt: skip
        assert cdopt.simulate(place, T_C / 16, 40 * T_C / 16, "variational", every=40).ok


def test_the_explicit_limit_is_that_of_pairs_that_can_meet() -> None:
    """A soft sphere on a hard wall takes the steps of the soft contact."""
    soft, hard = Material(name="soft", stiffness=1e4), Material(name="hard", stiffness=1e8)
    place = Scene(
        [
            Body(HalfSpace([0.0, 1.0]), [0.0, 0.0], material="hard"),
            Body(Sphere(0.5), [0.0, 0.6], velocity=[0.0, -1.0], mass=1.0, material="soft"),
        ],
        dim=2, gravity=[0.0, 0.0], materials=[soft, hard],
    )  # fmt: skip
    run = cdopt.simulate(place, 1e-3, 0.3, "velocity-verlet")
    assert run.v[-1, 1, 1] == pytest.approx(1.0, abs=0.01)


def test_the_explicit_limit_counts_bonds() -> None:
    tied = [ball([0.0, 0.0], [-1.0, 0.0]), ball([1.0, 0.0], [1.0, 0.0])]
    place = scene(tied, 2, bond_stiffness=1e8)
    limit = 2.0 / np.sqrt(2.0 * 1e8 / MASS)
    run = cdopt.simulate(place, 0.9 * limit, 200 * limit, "velocity-verlet")
    assert run.diagnostics["kinetic"].max() <= 1.01 * MASS
    with pytest.raises(InvalidInput, match=r"dt.*unstable"):
        cdopt.simulate(place, 1.1 * limit, 200 * limit, "velocity-verlet")


# --- failures ------------------------------------------------------------------------------


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
    hit = [ball([-0.5, 0.0], [1.0, 0.0]), ball([0.5, 0.0], [-1.0, 0.0])]
    grain = Material(name="grain", stiffness=stiffness)
    place = scene(hit, 2, materials=[grain], damping=damping)
    try:
        run = cdopt.simulate(place, 1e-3, 5e-3, "variational", solver=solver)
    except StepFailed as error:
        run = error.trajectory
    assert np.isfinite(run.v).all()


@pytest.mark.parametrize("alpha", [0.0, 0.5])
@pytest.mark.parametrize("path", ["native", "cvxpy"])
def test_no_state_that_is_kept_is_too_deep(path: str, alpha: float) -> None:
    place = scene([ball([-1.0, 0.0], [2e4, 0.0]), ball([1.0, 0.0], [-2e4, 0.0])], 2)
    with pytest.raises(StepFailed, match="more than a radius") as caught:
        cdopt.simulate(place, 1e-5, 1e-3, "variational", path=path, alpha=alpha)
    kept = caught.value.trajectory.diagnostics
    assert kept["overlap"][kept["ok"]].max() <= 0.5


@pytest.mark.parametrize("path", ["native", "cvxpy"])
def test_no_path_lets_spheres_leap_through_each_other(path: str) -> None:
    place = scene([ball([-1.0, 0.0], [1e4, 0.0]), ball([1.0, 0.0], [-1e4, 0.0])], 2)
    with pytest.raises(StepFailed):
        cdopt.simulate(place, 1e-3, 5e-3, "variational", path=path)


@pytest.mark.parametrize("alpha", [0.0, 0.1, 0.5])
@pytest.mark.parametrize("path", ["native", "cvxpy"])
def test_spheres_that_meet_never_change_sides(path: str, alpha: float) -> None:
    """From first touch, each on its way through the other, too soft to be stopped."""
    soft = Material(name="grain", stiffness=2.0)
    place = scene(
        [ball([-0.5001, 0.0], [950.0, 0.0]), ball([0.5001, 0.0], [-950.0, 0.0])], 2,
        materials=[soft],
    )  # fmt: skip
    with pytest.raises(StepFailed) as caught:
        cdopt.simulate(place, 1e-3, 3e-3, "variational", path=path, alpha=alpha)
    x = caught.value.trajectory.q[:, :, 0]
    assert np.all(x[:, 0] < x[:, 1])


def test_a_body_too_fast_is_named_without_listing_all_pairs() -> None:
    n = 800
    cells = 1.2 * np.stack(np.unravel_index(np.arange(n), (10, 10, 8)), -1)
    velocity = np.zeros((n, 3))
    velocity[n - 1, 0] = 1e8
    place = scene([Spheres(centres=cells, radius=0.5, mass=MASS, velocities=velocity,
                           material="grain")])  # fmt: skip
    with pytest.raises(StepFailed, match=rf"bodies\[{n - 1}\]"):
        cdopt.simulate(place, 1e-4, 1e-3, "variational")
    work = SphereStepper(place)
    tracemalloc.start()
    work.nearest(place.initial, 1e-4)
    most = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert most < 5e6  # of the order of n; all pairs take 48 MB


def weary(**options: Any) -> Any:
    """OSQP with too little time or precision."""
    return resolve("osqp", **options)


def coming() -> Scene:
    """Two spheres shortly before they meet."""
    near = [ball([-0.5005, 0.0, 0.0], [1.0, 0.0, 0.0]), ball([0.5005, 0.1, 0.0], [-1.0, 0.0, 0.0])]
    return scene(near, damping=30.0)


def test_a_backend_without_an_answer_ends_the_run() -> None:
    with pytest.raises(StepFailed) as caught:
        cdopt.simulate(
            impact(30.0, 0.1), T_C / 16, T_C, "variational", path="cvxpy",
            backend=weary(max_iter=2),
        )  # fmt: skip
    assert caught.value.t == pytest.approx(T_C / 16)
    assert caught.value.backend == "osqp"
    assert len(caught.value.trajectory) == 1


def test_a_backend_without_an_answer_raises_nothing_of_its_own() -> None:
    try:
        run = cdopt.simulate(
            impact(30.0, 0.1), T_C / 16, T_C / 4, "variational", path="cvxpy",
            backend=weary(max_iter=2), on_failure="continue",
        )  # fmt: skip
    except CdoptError:
        return
    assert not run.ok


def test_a_failing_certificate_speaks_for_its_own_step_alone() -> None:
    """Recorded seldom: the steps before it are as good as they were, and its solution is kept."""
    poor = weary(eps_abs=0.1, eps_rel=0.1, polishing=False)
    with pytest.raises(StepFailed, match="certificate") as caught:
        cdopt.simulate(
            coming(), T_C / 16, 2 * T_C, "variational", path="cvxpy", backend=poor, every=50
        )
    seen = caught.value.trajectory.diagnostics
    assert seen["step"].size == 3
    assert seen["ok"].tolist() == [True, True, False]
    assert seen["residual_step"][1] <= 1e-6
    assert caught.value.solution is not None
    assert not caught.value.solution.ok


def test_settings_that_no_step_can_take_are_refused_at_once() -> None:
    with pytest.raises(InvalidInput, match="alpha"):
        VariationalSteps(alpha=1e-12, path="cvxpy")


# --- files ---------------------------------------------------------------------------------


def test_a_refused_run_leaves_no_file(tmp_path: Path) -> None:
    file = tmp_path / "run.vtkhdf"
    with pytest.raises(InvalidInput, match="stiffness"):
        cdopt.simulate(cdopt.scene.collision(0.0), 1e-4, 1e-3, "variational", out=file)
    assert not file.exists()
    assert cdopt.simulate(impact(), 1e-4, 1e-3, "variational", out=file).ok


def test_a_copy_that_cannot_be_resumed_says_so(tmp_path: Path) -> None:
    copy = tmp_path / "copy.vtkhdf"
    cdopt.simulate(impact(), T_C / 20, T_C, "velocity-verlet").save(copy)
    with pytest.raises(InvalidInput):
        cdopt.simulate(impact(), T_C / 20, 2 * T_C, "velocity-verlet", out=copy, resume=True)


@pytest.mark.parametrize("method", ["variational", "velocity-verlet"])
def test_an_interrupted_run_goes_on_bit_for_bit(method: str, tmp_path: Path) -> None:
    def stop(done: int, total: int, text: str = "") -> None:
        if done >= 100 and total:
            raise KeyboardInterrupt

    file, place = tmp_path / "run.vtkhdf", mixture(3)
    whole = cdopt.simulate(place, 2e-4, 0.0404, method, every=20)
    with pytest.raises(Interrupted) as caught:
        cdopt.simulate(place, 2e-4, 0.0404, method, every=20, out=file, progress=stop)
    assert caught.value.trajectory.steps[-1] == 100
    going_on = cdopt.simulate(place, 2e-4, 0.0404, method, every=20, out=file, resume=True)
    assert whole.diagnostics["contacts"].max() > 0
    np.testing.assert_array_equal(whole.steps, going_on.steps)
    np.testing.assert_array_equal(whole.q, going_on.q)
    np.testing.assert_array_equal(whole.v, going_on.v)


@pytest.mark.parametrize("method", ["variational", "velocity-verlet"])
def test_a_failed_run_that_is_resumed_fails_alike(method: str, tmp_path: Path) -> None:
    place = scene([ball([-1.0, 0.0], [2e3, 0.0]), ball([1.0, 0.0], [-2e3, 0.0])], 2)
    ends = []
    for resume in (False, True, True):
        with pytest.raises(StepFailed) as caught:
            cdopt.simulate(
                place, 1e-5, 1e-3, method, every=7, out=tmp_path / "run.vtkhdf", resume=resume
            )
        kept = caught.value.trajectory
        ends.append((kept.steps.tolist(), kept.diagnostics["ok"].tolist(), caught.value.t))
    assert ends[0] == ends[1] == ends[2]
    assert ends[0][0][-1] % 7 != 0


# --- numbers that are none -----------------------------------------------------------------


@pytest.mark.parametrize("body", [0, 1])
def test_what_is_no_number_is_no_small_number(body: int) -> None:
    """Of whichever body it is: neither a residual nor a way that passes for finite."""
    table = np.zeros((2, 6))
    table[body, 1] = np.nan
    two = scene([ball([0.0] * 3), ball([2.0, 0.0, 0.0])])
    system, x = system_of(two), np.zeros((2, 3))
    assert not size(system, table) <= 1.0
    assert outdated(neighbor_list(two, x, system.normal, 1.0), x, table)
