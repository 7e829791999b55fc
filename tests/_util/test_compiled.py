"""Compiled loops where no folder for their files can be written."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
import time

import numba
import numpy as np
import pytest

from cdopt._util import compiled
from cdopt._util.compiled import (
    at_once,
    clock,
    compiled_if_stored,
    compiled_in_time,
    seconds_compiling,
)
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


def twice(x):
    return 2 * x


def test_loops_for_one_thread_and_for_several_have_separate_files() -> None:
    alone, in_threads = compiled.compiled_twice(twice)
    loops = alone, in_threads.args[0]
    names = {loop._cache._cache_file._index_name for loop in loops}
    assert len(names) == 2
    assert [loop.targetoptions.get("parallel", False) for loop in loops] == [False, True]


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


def squared(x):
    return x * x


def test_a_stored_loop_is_loaded_at_once(monkeypatch, tmp_path) -> None:
    monkeypatch.setattr(compiled, "_IN_PYTHON", compiled.Counter())
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path))
    numba.core.config.reload_config()
    try:
        counts = []
        for seconds in (0.0, 2.0 * compiled.LOADING, 0.0):
            loop = compiled.compiled()(squared)
            assert compiled_if_stored(loop, seconds, 3.0) == 9.0
            counts.append(len(loop.signatures))
            compiled._IN_PYTHON.clear()
    finally:
        monkeypatch.undo()
        numba.core.config.reload_config()
    assert counts == [0, 1, 1]


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


LOOP = """
from cdopt._util.compiled import compiled, seconds_compiling

@compiled()
def loop(x):
    return 2 * x

@compiled(allocates=True)
def other(x):
    return loop(x) + 1

print(other(20) + 1, loop(3), seconds_compiling() > 0.0)
"""


@pytest.fixture
def program(tmp_path):
    """A program with two loops in a separate folder, run in a new process."""
    (tmp_path / "program.py").write_text(LOOP)

    def run(**environment):
        done = subprocess.run(
            [sys.executable, "program.py"], cwd=tmp_path, env={**os.environ, **environment},
            capture_output=True, text=True, check=True,
        )  # fmt: skip
        *values, compiling = done.stdout.split()
        assert values == ["42", "6"]
        return compiling == "True", done.stderr

    run()
    assert run() == (False, "")
    return run


def damaged(content: bytes, how: str) -> bytes:
    """A file after it was cut short, emptied, overwritten or changed in one place."""
    half = len(content) // 2
    return {
        "empty": b"",
        "cut": content[:half],
        "longer": content + b"x",
        "zeros": bytes(len(content)),
        "text": b"not what it was\n",
        "one bit": content[:half] + bytes([content[half] ^ 1]) + content[half + 1 :],
        "first bit": bytes([content[0] ^ 1]) + content[1:],
    }[how]


@pytest.mark.slow
@pytest.mark.parametrize("suffix", [".nbi", ".nbc"])
@pytest.mark.parametrize("how", ["empty", "cut", "longer", "zeros", "text", "one bit", "first bit"])
def test_damaged_files_of_loops_are_written_again(program, tmp_path, how, suffix) -> None:
    files = list(tmp_path.rglob(f"*{suffix}"))
    assert len(files) == 2
    for file in files:
        file.write_bytes(damaged(file.read_bytes(), how))
    compiled_again, said = program()
    assert compiled_again
    assert "damaged files of compiled loops" in said
    assert "Traceback" not in said
    assert program() == (False, "")


@pytest.mark.slow
def test_where_files_of_loops_cannot_be_read_or_written_they_are_compiled(program, tmp_path):
    for file in tmp_path.rglob("*.nb?"):
        file.unlink()
        file.mkdir()
    for _ in range(2):
        compiled_again, said = program()
        assert compiled_again
        assert "cannot be read (Is a directory)" in said
        assert "cannot be kept" in said


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="no limit of files")
def test_a_full_disk_keeps_no_loops(tmp_path) -> None:
    code = """
        import resource, signal
        from cdopt._util.compiled import compiled
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (100, 100))  # files end there

        @compiled()
        def loop(x):
            return 2 * x

        print(loop(21))
    """
    (tmp_path / "program.py").write_text(textwrap.dedent(code))
    done = subprocess.run(
        [sys.executable, "-B", "program.py"], cwd=tmp_path, capture_output=True, text=True,
        check=True,
    )  # fmt: skip
    assert done.stdout == "42\n"
    assert "compiled loops cannot be kept (File too large)" in done.stderr
    assert not [*tmp_path.rglob("*.nb?"), *tmp_path.rglob("*.tmp*")]
