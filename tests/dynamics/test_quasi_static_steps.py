"""The method "quasi-static": walls move as prescribed, equilibria follow."""

from __future__ import annotations

import numpy as np
import pytest
from loading import compress

import cdopt
from cdopt.dynamics import QuasiStaticSteps
from cdopt.scene import Body, HalfSpace, Material, Scene, Spheres

K = 2e4  # N/m
GRAIN = Material(name="grain", stiffness=K)


def column(speed: float, count: int = 3, **options) -> Scene:
    """Discs upon each other between floor, lid and sides; the lid comes down at ``speed`` m/s."""
    height = 0.2 * count
    walls = [
        Body(HalfSpace([0.0, 1.0]), [0.0, 0.0], name="floor"),
        Body(HalfSpace([0.0, -1.0]), [0.0, height], velocity=[0.0, -speed], name="lid"),
        Body(HalfSpace([1.0, 0.0]), [0.0, 0.0], name="left"),
        Body(HalfSpace([-1.0, 0.0]), [0.2, 0.0], name="right"),
    ]
    centres = np.column_stack([np.full(count, 0.1), 0.1 + 0.2 * np.arange(count)])
    discs = Spheres(centres, 0.1, mass=1.0, material="grain")
    return Scene([*walls, discs], dim=2, gravity=[0, 0], materials=[GRAIN], **options)


@pytest.mark.slow
@pytest.mark.parametrize("power", [2.0, 2.5])
def test_a_moving_lid_is_the_experiment_of_a_moving_lid(power):
    scene = column(0.01, power=power)
    run = cdopt.simulate(scene, 0.1, 0.5, "quasi-static")
    same = compress(column(0.0, power=power), "lid", 0.001 * np.arange(1, 6) / 0.6)
    stored = run.diagnostics["elastic"]
    np.testing.assert_allclose(stored, same.energy[[0, *range(1, 6)]], rtol=1e-6, atol=1e-14)
    assert run.final.state.position[1, 1] == pytest.approx(0.6 - 0.005, abs=1e-15)
    assert np.all(run.v[:, 4:] == 0.0)
    assert run.v[-1, 1, 1] == -0.01


@pytest.mark.slow
def test_steps_of_another_length_end_in_the_same_place():
    ends = [cdopt.simulate(column(0.01), dt, 0.5, "quasi-static").final.q for dt in (0.5, 0.1)]
    np.testing.assert_allclose(ends[0], ends[1], atol=1e-12)


@pytest.mark.parametrize(
    ("setting", "value"),
    [("tol", 0.0), ("tol", 0.1), ("limit", 0), ("limit", 2.5), ("travel", 0.0), ("travel", -1.0),
     ("backend", "nobody")],
)  # fmt: skip
def test_settings_are_checked(setting, value):
    with pytest.raises(cdopt.InvalidInput, match=setting):
        QuasiStaticSteps(**{setting: value})
