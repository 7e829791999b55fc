"""The long studies: their plans, and the command that begins or continues one."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest
from studies import PLANS, plans

import cdopt
from cdopt.interop import siconos

MODULE = sys.modules[plans.__module__]


@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=[pytest.mark.slow] * (name != "standard")) for name in PLANS],
)
def test_every_plan_can_be_made(name: str, tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr(MODULE, "LAYERS", {100: 4})
    runs = [run for plan in plans(name, tmp_path) for run in plan.runs]
    assert len(runs) == len({run.id for run in runs}) > 0
    if name == "standard":
        assert [run for plan in plans(name, tmp_path) for run in plan.runs] == runs
        assert len({run.problem.label for run in runs}) >= 15
        assert {run.tolerance for run in runs} == {1e-3, 1e-6, 1e-9}
        peers = {run.backend for run in runs if "siconos" in run.backend}
        assert bool(peers) == (siconos.why_unavailable() is None)
    if name == "friction":
        assert {run.formulation for run in runs} == {"coulomb", "associated"}
        assert all(run.problem.load().step.friction is not None for run in runs[::97])


@pytest.mark.slow
def test_the_problems_of_the_sizes_have_these_sizes(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr(MODULE, "LAYERS", {100: 5})
    rest, fall = dict.fromkeys(
        run.problem for plan in plans("sizes", tmp_path) for run in plan.runs
    )
    assert rest.source == "pyramid-hooke"
    assert all(100 <= problem.load().nc <= 300 for problem in (rest, fall))
    assert np.any(fall.load().step.phi > 0.0)  # some layers have not landed
    assert fall.previous_step().load().nc >= 100


def test_no_such_study(tmp_path: Path) -> None:
    with pytest.raises(cdopt.InvalidInput, match="standard"):
        plans("no-such", tmp_path)
