"""Stacks that stay, and rocks that fall."""

from __future__ import annotations

import numpy as np
import pytest

import cdopt
from cdopt import scene


def stays(duration: float, dim: int) -> None:
    stack = scene.box_stack(10, dim=dim)
    run = cdopt.simulate(
        stack, dt=1e-3, duration=duration, method="classic-cd", backend="newton", every=25
    )
    assert run.ok
    for k in range(1, len(run)):
        frame = run[k]
        assert frame.nc == 10 * 2 ** (dim - 1)
        np.testing.assert_allclose(frame.q, stack.initial.q, rtol=0.0, atol=1e-12)
        np.testing.assert_allclose(frame.v, 0.0, atol=1e-9)
    weight = stack.bodies.mass[1:].sum() * scene.scene.GRAVITY
    np.testing.assert_allclose(run.final.body_forces()[0], [0.0] * (dim - 1) + [-weight])


@pytest.mark.parametrize("dim", [2, 3])
def test_a_stack_of_ten_boxes_stays(dim: int) -> None:
    stays(0.025, dim)


@pytest.mark.slow
def test_a_stack_of_ten_boxes_stays_for_one_second() -> None:
    stays(1.0, 3)


@pytest.mark.slow
def test_rocks_fall_and_every_step_is_certified() -> None:
    pile = scene.polyhedra_pile(20)
    run = cdopt.simulate(
        pile, dt=2e-3, duration=0.2, method="classic-cd", backend="newton", every=10
    )
    assert run.ok
    core = pile.bodies.core[np.isfinite(pile.bodies.core)].min()
    assert run.diagnostics["overlap"].max() < 0.5 * core
    total = run.diagnostics["kinetic"] + run.diagnostics["potential"]
    assert np.ptp(total) > 0.0
    assert total[-1] < total[0]  # blows without rebound take energy
    assert run.diagnostics["contacts"].max() > 20
