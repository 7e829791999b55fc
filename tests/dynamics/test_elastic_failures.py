"""What elastic methods refuse, and what they leave when a step cannot be taken."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from elastic_scenes import GRAIN, MASS, T_C, bonded_hit, impact, in_a_box

import cdopt
from cdopt._util.errors import InvalidInput, Unsupported
from cdopt.dynamics import StepFailed, Trajectory
from cdopt.scene import Body, Box, HalfSpace, Scene, Sphere

ELASTIC = ("variational", "velocity-verlet", "quasi-static")


def fast(speed: float, dim: int = 3) -> Scene:
    """Two spheres a while before they meet, much too fast."""
    spheres = [
        Body(Sphere(0.5), [x, 0.0, 0.0][:dim], velocity=[v, 0.0, 0.0][:dim], mass=MASS,
             material="grain", name=name)
        for x, v, name in ((-1.0, speed, "left"), (1.0, -speed, "right"))
    ]  # fmt: skip
    return Scene(spheres, dim=dim, gravity=np.zeros(dim), materials=[GRAIN])


# --- steps that fail -----------------------------------------------------------------------


@pytest.mark.parametrize("method", ["variational", "velocity-verlet"])
def test_an_overlap_beyond_a_radius_ends_the_run(method: str) -> None:
    """At 2,000 m/s the contact is too soft to stop the spheres."""
    with pytest.raises(StepFailed, match=r"'left'.*'right'") as caught:
        cdopt.simulate(fast(2000.0), 1e-5, 1e-3, method, every=7)
    error = caught.value
    assert error.t == pytest.approx(1e-5 * round(error.t / 1e-5))
    kept = error.trajectory
    # the last good state is kept, whatever ``every`` is
    assert kept.steps[-1] == round(error.t / 1e-5) - 1 > 20
    assert not kept.diagnostics["ok"][-1]
    assert kept.diagnostics["ok"][:-1].all()
    gap = np.linalg.norm(np.diff(kept[-1].state.position, axis=0)) - 1.0
    assert -0.6 < gap < 0.0


@pytest.mark.parametrize("method", ["variational", "velocity-verlet"])
def test_a_failed_run_in_a_file_is_kept(method: str, tmp_path: Path) -> None:
    file = tmp_path / "run.vtkhdf"
    with pytest.raises(StepFailed) as caught:
        cdopt.simulate(fast(2000.0), 1e-5, 1e-3, method, every=10, out=file)
    kept = Trajectory.load(file)
    np.testing.assert_array_equal(kept.q, caught.value.trajectory.q)
    assert len(kept) > 3


@pytest.mark.parametrize("method", ["variational", "velocity-verlet"])
def test_bodies_that_leap_over_their_neighbours_end_the_run(method: str) -> None:
    with pytest.raises(StepFailed, match="further in one step") as caught:
        cdopt.simulate(fast(1e6), 1e-5, 1e-3, method)
    assert "'left'" in str(caught.value)
    assert len(caught.value.trajectory) == 1


def test_an_iteration_that_does_not_converge_ends_the_run() -> None:
    """Spheres pressed almost flat at a step where the potential is far from convex."""
    scene = in_a_box(8, gamma=0.0)
    with pytest.raises(StepFailed) as caught:
        cdopt.simulate(scene, 0.3, 30.0, "variational")
    words = str(caught.value)
    assert "time step may be too large" in words
    assert "bodies[" in words
    assert caught.value.trajectory.t[-1] < caught.value.t


def test_the_cvxpy_path_names_what_it_cannot_settle() -> None:
    scene = in_a_box(4, gamma=0.0, dim=2)
    with pytest.raises(StepFailed, match=r"bodies\[") as caught:
        cdopt.simulate(scene, 0.3, 30.0, "variational", path="cvxpy")
    assert caught.value.t >= 0.3


def test_quasi_static_names_what_nothing_holds() -> None:
    ball = Body(Sphere(0.5), [0.0, 5.0], mass=1.0, material="grain", name="balloon")
    floor = Body(HalfSpace([0.0, 1.0]), [0.0, 0.0], material="grain")
    scene = Scene([floor, ball], dim=2, gravity=[0.0, -9.8], materials=[GRAIN])
    with pytest.raises(StepFailed, match="balloon") as caught:
        cdopt.simulate(scene, 1.0, 3.0, "quasi-static")
    assert len(caught.value.trajectory) == 1


# --- what is refused -----------------------------------------------------------------------


@pytest.mark.parametrize("method", ELASTIC)
def test_scenes_without_stiffness_are_refused(method: str) -> None:
    with pytest.raises(InvalidInput, match="stiffness"):
        cdopt.simulate(cdopt.scene.collision(0.0), 1e-4, 1e-3, method)


@pytest.mark.parametrize("method", ELASTIC)
def test_newtons_restitution_is_refused(method: str) -> None:
    springy = Scene(
        [Body(Sphere(0.5), [0.0, 0.0], mass=1.0, material="grain")],
        dim=2, materials=[GRAIN], restitution=0.5,
    )  # fmt: skip
    with pytest.raises(InvalidInput, match="restitution"):
        cdopt.simulate(springy, 1e-4, 1e-3, method)


def test_overlapping_starts_are_refused_with_the_deepest_pair() -> None:
    with pytest.raises(InvalidInput, match="inside bodies"):
        Scene(
            [Body(Sphere(0.5), [x, 0.0], mass=1.0, material="grain") for x in (0.0, 0.9)],
            dim=2, materials=[GRAIN],
        )  # fmt: skip


def test_an_unstable_explicit_step_is_refused_with_the_limit() -> None:
    with pytest.raises(InvalidInput, match=r"dt.*less than 0\.00102 s"):
        cdopt.simulate(impact(), 1e-2, 1.0, "velocity-verlet")
    run = cdopt.simulate(impact(), 0.6 * T_C, 10 * T_C, "velocity-verlet")
    assert run.ok


@pytest.mark.parametrize("method", ["classic-cd", "compatible-cd"])
def test_bonds_are_refused_by_rigid_methods(method: str) -> None:
    with pytest.raises(Unsupported, match="bonds"):
        cdopt.simulate(bonded_hit(1.0, 0.0), 1e-4, 1e-3, method)


def test_shapes_without_compiled_loops_are_refused_by_name() -> None:
    scene = Scene(
        [Body(Box([1.0, 1.0]), [0.0, 0.0], mass=1.0, material="grain", name="crate")],
        dim=2, materials=[GRAIN],
    )  # fmt: skip
    for method in ("variational", "velocity-verlet"):
        with pytest.raises(Unsupported, match="crate"):
            cdopt.simulate(scene, 1e-4, 1e-3, method)
    solid = Scene(
        [Body(Box([1.0] * 3), [0.0] * 3, mass=1.0, material="grain", name="crate")],
        dim=3, materials=[GRAIN],
    )  # fmt: skip
    with pytest.raises(Unsupported, match="crate"):
        cdopt.simulate(solid, 1e-4, 1e-3, "variational", path="cvxpy")


def test_walls_that_turn_are_refused() -> None:
    wall = Body(HalfSpace([0.0, 1.0]), [0.0, -1.0], angular_velocity=1.0, material="grain")
    ball = Body(Sphere(0.5), [0.0, 0.0], mass=1.0, material="grain")
    scene = Scene([wall, ball], dim=2, materials=[GRAIN])
    with pytest.raises(Unsupported, match="turns"):
        cdopt.simulate(scene, 1e-4, 1e-3, "variational")


@pytest.mark.parametrize(
    "settings",
    [
        {"alpha": 1.0}, {"alpha": -0.1}, {"alpha": float("nan")}, {"damping": "none"},
        {"path": "fast"}, {"solver": "lu"}, {"tol": 0.0}, {"backend": "nobody"}, {"beta": 1},
    ],
)  # fmt: skip
def test_settings_out_of_range_are_refused(settings: dict[str, Any]) -> None:
    with pytest.raises(InvalidInput, match=next(iter(settings))):
        cdopt.simulate(impact(), 1e-4, 1e-3, "variational", **settings)
