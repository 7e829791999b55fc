"""``cdopt warmup``: it compiles every loop that is kept on disk, for the types that runs have."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time

import pytest
from numba.core.caching import FunctionCache
from numba.core.dispatcher import Dispatcher

import cdopt
from cdopt.backends.threads import all_cores
from cdopt.dynamics.spheres.steps import variational, velocity_verlet
from cdopt.scene import HalfSpace, Material, Scene, Spheres
from cdopt.study.warmup import SHARES


@pytest.mark.slow
def test_every_loop_is_compiled() -> None:
    with all_cores():
        for share in SHARES.values():
            share()
    modules = [module for name, module in sys.modules.items() if name.startswith("cdopt.")]
    loops = [x for module in modules for x in vars(module).values() if isinstance(x, Dispatcher)]
    kept = [loop for loop in loops if isinstance(loop._cache, FunctionCache)]
    assert len(kept) > 20
    missing = {loop.py_func.__name__ for loop in kept if not loop.signatures}
    assert missing == set()
    steppers = variational, velocity_verlet
    before = [len(stepper.signatures) for stepper in steppers]
    row = Spheres([[0.0, 0.5], [1.1, 0.5], [2.2, 0.5]], radius=0.5, mass=1.0, material="m")
    material = Material(name="m", stiffness=1e5, friction=0.5)
    scene = Scene([cdopt.scene.Body(HalfSpace([0, 1]), [0, 0]), row], dim=2, materials=[material])
    for method in ("variational", "velocity-verlet"):
        for smooth in (True, False):
            cdopt.simulate(scene, 1e-4, 2e-4, method, frictionless=smooth)
    assert [len(stepper.signatures) for stepper in steppers] == before


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="no groups of processes")
@pytest.mark.parametrize("seconds", [2.0, 6.0])
def test_ctrl_c_ends_it_in_a_line(seconds: float, tmp_path) -> None:
    """While the processes import what they need, and while they compile."""
    command = subprocess.Popen(
        [sys.executable, "-m", "cdopt", "warmup"],
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, start_new_session=True,
        env={**os.environ, "NUMBA_CACHE_DIR": str(tmp_path)},
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # jobs may ignore it
    )  # fmt: skip
    time.sleep(seconds)
    os.killpg(command.pid, signal.SIGINT)
    assert command.communicate(timeout=240.0)[0] == "interrupted\n"
    assert command.returncode == 130
