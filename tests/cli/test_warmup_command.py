"""``cdopt warmup``: it compiles every loop that is kept on disk, for the types that runs have."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections import Counter
from typing import Any

import pytest
from numba.core.caching import FunctionCache
from numba.core.dispatcher import Dispatcher

import cdopt
from cdopt.backends.threads import all_cores
from cdopt.dynamics.spheres.steps import variational, velocity_verlet
from cdopt.scene import HalfSpace, Material, Scene, Spheres
from cdopt.study.warmup import SHARES


def loops_of(value: Any) -> list[Dispatcher]:
    """The loops in a value of a module: one, or those for one thread and for several."""
    if isinstance(value, tuple) and value and isinstance(value[0], Dispatcher):
        return [value[0], value[1].args[0]]
    return [value] if isinstance(value, Dispatcher) else []


@pytest.mark.slow
def test_every_loop_is_compiled() -> None:
    with all_cores():
        for share in SHARES.values():
            share()
    modules = [module for name, module in sys.modules.items() if name.startswith("cdopt.")]
    loops = [loop for module in modules for x in vars(module).values() for loop in loops_of(x)]
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


FIRST = """
from collections import Counter
from numba.core.event import install_recorder
import cdopt

with install_recorder("numba:compile") as recorder:
    cdopt.study.solve_named(
        cdopt.open_problem("pyramid-hooke:n=10"),
        backends=["newton", "pgs", "apgd", "augmented-lagrangian", "interior-point"],
    )
functions = [event.data["dispatcher"].py_func for _, event in recorder.buffer if event.is_start]
print(Counter(f"{function.__module__}.{function.__qualname__}" for function in functions))
"""


@pytest.mark.slow
def test_the_first_command_compiles_few_loops_and_each_once(tmp_path) -> None:
    """The solvers of README's first command, which a newcomer waits for."""
    run = subprocess.run(
        [sys.executable, "-c", FIRST], capture_output=True, text=True, check=True,
        env={**os.environ, "NUMBA_CACHE_DIR": str(tmp_path)},
    )  # fmt: skip
    compiled = eval(run.stdout, {"Counter": Counter})
    assert set(compiled.values()) == {1}, compiled
    assert 10 < len(compiled) <= 20, compiled


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
