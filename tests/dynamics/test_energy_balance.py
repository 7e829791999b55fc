"""Balance of energy of elastic runs, limits of the time step, and walls that spheres roll on."""

from __future__ import annotations

import logging
from typing import Any

import numpy as np
import pytest
from elastic_scenes import MASS, STIFFNESS, T_C, ball, bonded_hit, impact, scene, wall

import cdopt
from cdopt._util.errors import InvalidInput
from cdopt.scene import Scene

HIGH = 0.5 - MASS * 9.8 / STIFFNESS  # a sphere at rest on a floor, k = STIFFNESS
PATHS: list[dict[str, Any]] = [{}, {"path": "cvxpy"}]


def on_a_floor(drift: list[float], velocity: list[float], spin: float = 0.0, **more: Any) -> Scene:
    floor = wall([0.0, 1.0], [0.0, 0.0], velocity=drift)
    rolling = ball([0.0, HIGH], velocity, angular_velocity=spin, **more)
    return scene([floor, rolling], 2, [0.0, -9.8], damping=100.0, overlap_tol=1e-3)


@pytest.mark.parametrize("damping", [0.0, 100.0])
def test_linear_springs_balance_to_round_off(damping: float) -> None:
    """A bonded pair in a line: the energy is quadratic, and the step of α = ½ keeps it."""
    pair = [ball([0.0, 0.0], [1.0, 0.0]), ball([1.0, 0.0], [-1.0, 0.0])]
    tied = scene(pair, 2, bond_stiffness=STIFFNESS, damping=damping)
    run = cdopt.simulate(tied, T_C / 16, 10 * T_C, "variational")
    seen = run.diagnostics
    assert np.abs(seen["balance"]).max() <= 1e-11 * MASS
    lost = seen["kinetic"][0] - seen["kinetic"][-1] - seen["elastic"][-1]
    assert seen["dissipated"][-1] == pytest.approx(lost, abs=1e-11 * MASS)
    assert (lost > 0.1 * MASS) == (damping > 0.0)
    summary = cdopt.dynamics.RunSummary.of(run)
    assert summary.balance == np.abs(seen["balance"]).max()
    assert list(seen.to_frame()["balance"]) == list(seen["balance"])


@pytest.mark.slow
@pytest.mark.parametrize("settings", PATHS)
def test_loads_walls_and_dashpots_are_in_the_balance(settings: dict[str, Any]) -> None:
    lifted = on_a_floor([0.0, 2.0], [0.0, 0.0], force=[3.0, 0.0])
    seen = cdopt.simulate(lifted, 1e-5, 2e-3, "variational", every=20, **settings).diagnostics
    assert seen["work"][-1] > 1.0
    assert seen["dissipated"][-1] > 0.1
    assert np.abs(seen["balance"]).max() <= 1e-6 * seen["work"][-1]


@pytest.mark.parametrize(
    ("method", "settings", "damping"),
    [
        ("variational", {}, 0.0),
        ("variational", {"damping": "paper", "alpha": 0.3}, 100.0),
        pytest.param("variational", {"path": "cvxpy"}, 100.0, marks=pytest.mark.slow),
        ("velocity-verlet", {}, 0.0),
        ("velocity-verlet", {}, 100.0),
    ],
)
def test_all_but_round_off_of_the_balance_is_the_error_of_the_scheme(
    method: str, settings: dict[str, Any], damping: float
) -> None:
    impacts = impact(damping, 0.3)
    moving = on_a_floor([0.0, 2.0], [0.0, 0.0], force=[3.0, 0.0])
    for place, dt, duration in ((impacts, T_C / 16, 1.5 * T_C), (moving, 1e-5, 2e-4)):
        seen = cdopt.simulate(place, dt, duration, method, **settings).diagnostics
        unit = max(np.abs(seen[name]).max() for name in ("kinetic", "potential", "elastic", "work"))
        np.testing.assert_allclose(seen["balance"], seen["scheme_error"], rtol=0, atol=1e-14 * unit)
        assert place is moving or np.abs(seen["scheme_error"]).max() > 1e-6 * unit


def test_the_balance_converges() -> None:
    size = []
    for n in (16, 32):
        run = cdopt.simulate(impact(100.0, 0.3), T_C / n, T_C, "velocity-verlet")
        size.append(np.abs(run.diagnostics["balance"]).max())
    assert size[1] < 0.6 * size[0]


def test_steps_that_do_not_resolve_collisions_are_refused_unless_asked() -> None:
    stiffest = {"contact": (impact(), 1.0), "bond": (bonded_hit(10.0, 0.0), 10.0)}
    for place, ratio in stiffest.values():
        longest = 2.0 / np.pi / np.sqrt(ratio)
        refused = "collisions are not resolved"
        with pytest.raises(InvalidInput, match=refused):
            cdopt.simulate(place, 1.001 * longest * T_C, 4 * T_C, "variational")
        cdopt.simulate(place, 0.999 * longest * T_C, longest * T_C, "variational")
    run = cdopt.simulate(impact(), 1.24 * T_C, 8 * T_C, "variational", allow_long_steps=True)
    seen = run.diagnostics
    changed = seen["kinetic"][-1] - seen["kinetic"][0]
    assert abs(changed) > 0.5 * seen["kinetic"][0]
    assert seen["balance"][-1] == pytest.approx(changed)


@pytest.mark.parametrize(("steps", "warned"), [(4.5, True), (5.5, False)])
def test_coarse_steps_are_warned_of(steps: float, warned: bool, caplog: Any) -> None:
    with caplog.at_level(logging.WARNING, logger="cdopt.dynamics"):
        cdopt.simulate(impact(), T_C / steps, T_C, "variational")
    assert ("shortest collision" in caplog.text) == warned


@pytest.mark.parametrize("settings", PATHS)
def test_a_sphere_that_rolls_on_a_wall_is_not_slowed_down(settings: dict[str, Any]) -> None:
    """Levers |r|/2 would end at half the speed of rolling."""
    rolling = on_a_floor([0.0, 0.0], [1.0, 0.0], -1.0 / HIGH)
    run = cdopt.simulate(rolling, 1e-4, 2e-3, "variational", **settings)
    np.testing.assert_allclose(run.v[-1, 1], [1.0, 0.0, -1.0 / HIGH], rtol=1e-6, atol=1e-6)
