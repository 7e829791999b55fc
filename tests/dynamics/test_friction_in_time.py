"""Contact dynamics with friction in time, against analytic motion."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import cdopt
from cdopt.scene import Body, Box, HalfSpace, Scene, Sphere

G, DT = 9.81, 1e-3


def on_a_floor(body: Body, angle: float = 0.0, phase: float = 0.0) -> Scene:
    """A body on a floor; gravity leans by ``angle`` to the direction ``phase`` of the floor."""
    dim = len(body.position)
    down = -np.cos(angle)
    lean = np.sin(angle) * np.array([np.cos(phase), np.sin(phase)])
    gravity = [lean[0], down] if dim == 2 else [*lean, down]
    up = [0.0] * (dim - 1) + [1.0]
    floor = Body(HalfSpace(up), [0.0] * dim, fixed=True)
    return Scene([body, floor], dim=dim, gravity=G * np.array(gravity))


def brick(dim: int, **motion: object) -> Body:
    size = [0.4, 0.2] if dim == 2 else [0.4, 0.4, 0.2]
    return Body(Box(size), [0.0] * (dim - 1) + [0.1], mass=2.0, **motion)


@pytest.mark.parametrize(("dim", "phase"), [(2, 0.0), (3, 0.0), (3, 0.7), (3, 2.9)])
@pytest.mark.parametrize("angle", [0.05, 0.3, 0.6])
def test_a_block_on_an_incline_sticks_or_slides_as_the_scheme_says(
    dim: int, phase: float, angle: float
) -> None:
    mu, steps = 0.4, 20
    scene = on_a_floor(brick(dim), angle, phase)
    run = cdopt.simulate(scene, DT, steps * DT, friction=mu)
    assert run.ok
    pull = max(0.0, np.sin(angle) - mu * np.cos(angle))
    way = G * pull * DT**2 * steps * (steps + 1) / 2.0
    along = np.array([np.cos(phase), np.sin(phase)])[: dim - 1]
    assert np.allclose(run.q[-1, 0, : dim - 1], way * along, rtol=1e-10, atol=1e-15)
    push = run.final.body_forces()[0] / (2.0 * G)  # over the weight
    assert push[-1] == pytest.approx(np.cos(angle), rel=1e-10)
    assert push[: dim - 1] == pytest.approx(-(np.sin(angle) - pull) * along, abs=1e-10)
    slides = run.diagnostics["sliding"][-1] == run.diagnostics["carrying"][-1] > 0
    assert slides == (pull > 0.0)


def test_a_run_in_a_file_is_the_same_with_its_tangential_forces(tmp_path: Path) -> None:
    ball = Body(Sphere(0.1), [0, 0, 0.1], mass=1.0, velocity=[1, 0.5, 0])
    scene, path = on_a_floor(ball), tmp_path / "run.vtkhdf"
    whole = cdopt.simulate(scene, DT, 0.02, friction=0.3)
    cdopt.simulate(scene, DT, 0.007, friction=0.3, out=path)
    resumed = cdopt.simulate(scene, DT, 0.02, friction=0.3, out=path, resume=True)
    assert (resumed.q == whole.q).all()
    assert (resumed.v == whole.v).all()
    for before, after in zip(whole, resumed, strict=True):
        assert (before.f == after.f).all()
        assert (before.f_t == after.f_t).all()
    frame = resumed.final
    assert np.linalg.norm(frame.f_t[0]) == pytest.approx(0.3 * frame.f[0])
    assert frame.f_t[0] @ frame.v[0, :3] > 0.0  # the floor is the second body
    with pytest.raises(cdopt.InvalidInput, match="friction"):
        cdopt.simulate(scene, DT, 0.02, friction=0.4, out=path, resume=True)


def test_which_method_a_scene_with_friction_takes() -> None:
    scene = on_a_floor(brick(2))
    rough = scene.with_friction(0.3)
    assert cdopt.simulate(scene, DT, DT).method == "compatible-cd"
    assert cdopt.simulate(rough, DT, DT).method == "contact-dynamics"
    assert cdopt.simulate(rough, DT, DT, frictionless=True).method == "compatible-cd"
    with pytest.raises(cdopt.Unsupported, match="contact-dynamics"):
        cdopt.simulate(rough, DT, DT, "compatible-cd")
    with pytest.raises(cdopt.InvalidInput, match="friction"):
        cdopt.simulate(rough, DT, DT, friction=0.3, frictionless=True)
    smooth = cdopt.simulate(scene, DT, 5 * DT, "contact-dynamics")
    classic = cdopt.simulate(scene, DT, 5 * DT, "classic-cd")
    assert (smooth.final.q == classic.final.q).all()
    assert (smooth.final.f == classic.final.f).all()
