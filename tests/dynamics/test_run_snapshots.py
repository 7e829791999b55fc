"""Steps from a snapshot: it is a value, so that a run continues from it alike each time."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import pytest
from dynamic_scenes import cluster, disc_pile, mixture, rolling_ball

import cdopt
from cdopt.collision import PairFriction
from cdopt.dynamics import (
    METHODS,
    ClassicSteps,
    CompatibleFrictionSteps,
    CompatibleSteps,
    FrictionalSteps,
    QuasiStaticSteps,
    Snapshot,
    StepContext,
    Stepper,
    VariationalSteps,
    VelocityVerletSteps,
)
from cdopt.dynamics.records import Checkpoint

ROUGH = PairFriction(0.3)


def pile() -> cdopt.scene.Scene:
    return cdopt.scene.pyramid(2)


def ball() -> cdopt.scene.Scene:
    return rolling_ball(1.0, 0.0, 3)


RUNS: dict[str, tuple[Any, Any, float, PairFriction | None]] = {
    "classic": (ClassicSteps(), pile, 1e-3, None),
    "compatible": (CompatibleSteps(warm_start=True), pile, 1e-3, None),
    "friction": (FrictionalSteps(), pile, 1e-3, ROUGH),
    "compatible friction": (CompatibleFrictionSteps(), pile, 1e-3, ROUGH),
    "compiled": (VariationalSteps(path="native"), mixture, 2e-4, None),
    "compiled friction": (VariationalSteps(path="native"), ball, 1e-3, PairFriction()),
    "passes": (
        VariationalSteps(path="cvxpy", allow_long_steps=True), partial(cluster, True), 2e-3, None
    ),
    "passes friction": (VariationalSteps(path="cvxpy"), ball, 1e-3, PairFriction()),
    "velocity-verlet": (VelocityVerletSteps(), ball, 1e-4, PairFriction()),
    "rest": (QuasiStaticSteps(), partial(disc_pile, 1e4), 0.1, None),
    "rest friction": (QuasiStaticSteps(), partial(disc_pile, 1e4), 0.1, PairFriction()),
}  # fmt: skip


def stepper(name: str) -> tuple[Stepper[Any], cdopt.scene.Scene]:
    method, make, dt, friction = RUNS[name]
    scene = make()
    return method.start(StepContext(scene, dt, friction=friction)), scene


def after(run: Stepper[Any], snapshot: Snapshot, steps: int) -> Snapshot:
    """The snapshot this many steps later."""
    last = snapshot.step + steps
    while snapshot.step < last:
        taken = run.advance(snapshot, last - snapshot.step)
        assert taken.failure is None
        assert taken.record is not None
        assert taken.record.ok
        assert snapshot.step < taken.snapshot.step <= last
        snapshot = taken.snapshot
    return snapshot


def check_same(one: Snapshot, two: Snapshot) -> None:
    assert one.step == two.step
    assert one.state.t == two.state.t
    np.testing.assert_array_equal(one.state.q, two.state.q)
    np.testing.assert_array_equal(one.state.v, two.state.v)
    first, second = one.stored(), two.stored()
    assert list(first) == list(second)
    for name, values in first.items():
        np.testing.assert_array_equal(values, second[name], err_msg=name)


@pytest.mark.parametrize("name", RUNS)
def test_steps_from_a_moment_are_the_same_whenever_they_are_taken(name: str) -> None:
    """What a stepper keeps for speed, from other steps in between, changes no bit."""
    run, scene = stepper(name)
    start = run.begin(scene.initial).snapshot
    early = after(run, start, 2)
    late = after(run, early, 3)
    assert np.abs(late.state.v - early.state.v).max() > 0.0 or name.startswith("rest")
    check_same(after(run, early, 3), late)
    check_same(after(run, start, 2), early)
    check_same(after(run, early, 3), late)


@pytest.mark.parametrize("name", RUNS)
def test_a_moment_is_restored_from_its_arrays_by_another_stepper(name: str) -> None:
    run, scene = stepper(name)
    early = after(run, run.begin(scene.initial).snapshot, 2)
    arrays = {key: np.array(values) for key, values in early.stored().items()}
    other, _ = stepper(name)
    restored = other.restore(Checkpoint(early.step, early.state, arrays))
    check_same(restored, early)
    check_same(after(other, restored, 3), after(run, early, 3))


def test_every_method_of_the_table_is_tried() -> None:
    tried = {method.name for method, *_ in RUNS.values()}
    assert tried == set(METHODS)


@pytest.mark.parametrize(
    ("argument", "bad"),
    [("scene", "beam"), ("dt", 0.0), ("dt", "1"), ("strict", 1), ("friction", 0.3)],
)
def test_a_context_names_its_bad_arguments(argument: str, bad: object) -> None:
    good: dict[str, Any] = {"scene": pile(), "dt": 1e-3, "strict": True, "friction": None}
    with pytest.raises(cdopt.InvalidInput) as caught:
        StepContext(**{**good, argument: bad})
    assert caught.value.argument == argument


@pytest.mark.parametrize("method", [maker() for maker in METHODS.values()], ids=list(METHODS))
def test_a_method_takes_a_context_alone(method: Any) -> None:
    for bad in (pile(), None, 1e-3):
        with pytest.raises(cdopt.InvalidInput) as caught:
            method.start(bad)
        assert caught.value.argument == "context"
