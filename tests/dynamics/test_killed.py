"""Killed at any moment, a run keeps what was done and ends as if nothing had happened."""

from __future__ import annotations

import os
import subprocess
import sys
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from grain_mixtures import mixture
from test_friction_springs import in_a_box, on_a_floor
from test_quasi_static_friction import pile

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


RUNS = {  # scene, time step, steps, and options of simulate
    "compatible-cd": (lambda: cdopt.scene.pyramid(2), 1e-3, 9, {"warm_start": False}),
    "warm": (lambda: cdopt.scene.pyramid(2), 1e-3, 9, {"every": 4, "warm_start": True}),
    "contact-dynamics": (
        lambda: cdopt.scene.pyramid(2), 1e-3, 9, {"method": "contact-dynamics", "friction": 0.3}
    ),
    "compatible-friction": (
        lambda: cdopt.scene.pyramid(2), 1e-3, 9,
        {"every": 4, "method": "compatible-friction", "friction": 0.3},
    ),
    "variational": (lambda: mixture(3), 2e-4, 202, {"every": 20, "method": "variational"}),
    "velocity-verlet": (lambda: mixture(3), 2e-4, 202, {"every": 20, "method": "velocity-verlet"}),
    "springs of friction": (
        lambda: in_a_box(rolling_friction=0.05, spinning_friction=0.02), 2e-4, 5000,
        {"every": 250, "method": "velocity-verlet"},
    ),
    "native friction": (
        lambda: on_a_floor(1.0, 0.0, 3), 1e-3, 6, {"method": "variational", "path": "native"}
    ),
    "posed friction": (
        lambda: on_a_floor(1.0, 0.0, 3), 1e-3, 6, {"method": "variational", "path": "cvxpy"}
    ),
    "quasi-static": (lambda: pile(1e4, 2), 0.1, 6, {"method": "quasi-static"}),
}  # fmt: skip
LONG = {"warm", "compatible-friction", "quasi-static"}


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.slow] * (name in LONG)) for name in RUNS]
)
def test_stopped_runs_go_on_bit_for_bit(tmp_path: Path, name: str) -> None:
    make, dt, steps, options = RUNS[name]
    scene, duration, path = make(), steps * dt, tmp_path / "run.vtkhdf"

    def stop(share: float, done: int, total: int, text: str = "") -> None:
        if total and done >= share * total:
            raise KeyboardInterrupt

    whole = cdopt.simulate(scene, dt, duration, **options)
    assert whole.diagnostics["contacts"].max() > 0
    for share in (0.3, 0.45, 0.8):
        with pytest.raises(cdopt.dynamics.Interrupted) as caught:
            cdopt.simulate(
                scene, dt, duration, out=path, resume=True, progress=partial(stop, share), **options
            )
        last = caught.value.trajectory.diagnostics["step"][-1]
        assert share * steps <= last < steps
    ended = cdopt.simulate(scene, dt, duration, out=path, resume=True, **options)
    check_same(ended, whole)
    again = cdopt.simulate(scene, dt, duration, out=path, resume=True, **options)
    check_same(again, whole)
