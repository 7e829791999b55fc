"""Killed at any moment, a run keeps what was done and ends as if nothing had happened."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import cdopt

SCRIPT = Path(__file__).with_name("killed_run.py")


def check_same(one: cdopt.Trajectory, two: cdopt.Trajectory) -> None:
    """The same arrays, bit for bit; only the clock may differ."""
    for name in ("t", "steps", "q", "v"):
        np.testing.assert_array_equal(getattr(one, name), getattr(two, name))
    for a, b in zip(one, two, strict=True):
        for name in ("contact_ids", "bodies", "phi", "normals", "points", "f", "f_t", "f_classic"):
            np.testing.assert_array_equal(getattr(a, name), getattr(b, name))
    for name, values in one.diagnostics.items():
        if not name.startswith("seconds_"):
            np.testing.assert_array_equal(values, two.diagnostics[name], err_msg=name)


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "fork"), reason="kills forked processes")
@pytest.mark.parametrize(("kills", "warm"), [(20, False), (6, True)])
def test_kills_leave_no_trace(tmp_path: Path, kills: int, warm: bool) -> None:
    path = tmp_path / "run.vtkhdf"
    word = "warm" if warm else "cold"
    command = [sys.executable, str(SCRIPT), str(path), str(kills), "1805", word]
    run = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert run.returncode == 0, run.stdout + run.stderr
    whole = cdopt.simulate(cdopt.scene.pyramid(3), 1e-3, 0.4, every=3, warm_start=warm)
    check_same(cdopt.Trajectory.load(path), whole)
    assert [p.name for p in tmp_path.iterdir()] == ["run.vtkhdf"]


@pytest.mark.parametrize(
    "options",
    [
        {"every": 1, "warm_start": False},
        pytest.param({"every": 4, "warm_start": True}, marks=pytest.mark.slow),
        {"every": 1, "method": "contact-dynamics", "friction": 0.3},
        pytest.param(
            {"every": 4, "method": "compatible-friction", "friction": 0.3}, marks=pytest.mark.slow
        ),
    ],
)
def test_stopped_runs_go_on_bit_for_bit(tmp_path: Path, options: dict[str, Any]) -> None:
    scene = cdopt.scene.pyramid(2)

    def stop(done: int, total: int, text: str) -> None:
        if done in (3, 4, 7):
            raise KeyboardInterrupt

    whole = cdopt.simulate(scene, 1e-3, 0.009, **options)
    path = tmp_path / "run.vtkhdf"
    for _ in range(3):
        with pytest.raises(cdopt.dynamics.Interrupted) as caught:
            cdopt.simulate(scene, 1e-3, 0.009, out=path, resume=True, progress=stop, **options)
        kept = caught.value.trajectory
        assert kept.diagnostics["step"][-1] in (3, 4, 7)
    ended = cdopt.simulate(scene, 1e-3, 0.009, out=path, resume=True, **options)
    check_same(ended, whole)
    again = cdopt.simulate(scene, 1e-3, 0.009, out=path, resume=True, **options)
    check_same(again, whole)
