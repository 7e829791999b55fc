"""Compiled loops where no folder for their files can be written."""

from __future__ import annotations

import os
import subprocess
import sys
import time

import numba
import numpy as np
import pytest

from cdopt._util import compiled
from cdopt._util.compiled import at_once, clock, compiled_in_time, seconds_compiling
from cdopt.collision import detect
from cdopt.scene import State, brick_wall


@pytest.mark.slow
def test_loops_run_where_nothing_can_be_kept() -> None:
    code = "from cdopt._util.compiled import compiled\nprint(compiled()(lambda x: 2 * x)(21))"
    nowhere = {**os.environ, "NUMBA_CACHE_LOCATOR_CLASSES": "IPythonCacheLocator"}
    run = subprocess.run(
        [sys.executable, "-c", code], env=nowhere, capture_output=True, text=True, check=False
    )
    assert run.stdout.strip() == "42", run.stderr[-500:]


def test_no_clock_counts_the_compiling_of_loops(caplog) -> None:
    @numba.njit
    def loop(x):
        return x + 1.0

    compiled._STOPPED.announced = False
    caplog.set_level("WARNING", compiled.LOGGER.name)
    began, counted, spent = time.perf_counter(), clock(), seconds_compiling()
    loop(1.0)
    spent, passed = seconds_compiling() - spent, time.perf_counter() - began
    assert 0.0 < spent <= passed
    assert abs(passed - (clock() - counted) - spent) < 0.1 * spent
    assert caplog.messages == ["compiling loops, each loop once per installation"]


def test_a_loop_is_compiled_once_it_has_had_enough_to_do(monkeypatch) -> None:
    monkeypatch.setattr(compiled, "_IN_PYTHON", compiled.Counter())

    @numba.njit
    def loop(x):
        return 1.0 / x

    zero, counts = np.zeros(1)[0], []
    for _ in range(3):
        assert compiled_in_time(loop, 0.4 * compiled.LOADING, zero + 2.0) == 0.5
        counts.append(len(loop.signatures))
    assert counts == [0, 0, 1]


@pytest.mark.parametrize("seed", range(2))
def test_contact_points_have_the_same_bits_in_python(monkeypatch, seed) -> None:
    monkeypatch.setattr(compiled, "_IN_PYTHON", compiled.Counter())
    scene = brick_wall(2, 2)
    shift = np.random.default_rng(seed).normal(0.0, 1e-3, scene.initial.q.shape)
    state = State(0.0, scene.initial.q + shift, scene.initial.v)
    found = detect(scene, state, margin=0.02)
    with at_once():
        again = detect(scene, state, margin=0.02)
    assert found.phi.size > 0
    for name in ("phi", "normals", "points", "contact_ids"):
        assert getattr(found, name).tobytes() == getattr(again, name).tobytes()
