"""A recorded run as a family of contact steps."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import cdopt
from cdopt.study.recorded import of_run


@pytest.fixture(scope="module")
def drop(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("run") / "drop.vtkhdf"
    cdopt.simulate(
        cdopt.scene.beam(), dt=1e-2, duration=6e-2, method="classic-cd", backend="newton", out=path
    )
    return path


def test_each_member_is_the_step_that_the_run_took(drop: Path) -> None:
    family = of_run(drop)
    run = cdopt.dynamics.Trajectory.load(drop)
    assert family.sizes == tuple(range(1, len(run)))
    assert (family.name, family.power) == ("drop", 2.0)
    for number in family.sizes:
        step = family.member(number).step
        solution = cdopt.ClassicCD(step).solve("newton")
        body = int(step.dof_body[0])  # the platform; all others are fixed
        np.testing.assert_allclose(solution.v_next, run[number].state.v[body], atol=1e-9)
    assert np.abs(run[1].state.v).max() > 1e-3  # it falls


def test_some_steps_only_and_what_is_refused(drop: Path, tmp_path: Path) -> None:
    family = of_run(drop, every=2)
    assert family.sizes[:2] == (1, 3)
    with pytest.raises(cdopt.InvalidInput, match="size: found 2"):
        family.member(2)
    with pytest.raises(cdopt.InvalidInput, match="every"):
        of_run(drop, every=0)
    with pytest.raises(cdopt.InvalidInput):
        of_run(tmp_path / "none.vtkhdf")
