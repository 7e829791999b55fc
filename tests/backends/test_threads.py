"""Threads change times, never results."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import numba
import numpy as np
import pytest
from threadpoolctl import threadpool_info

import cdopt
from cdopt._util import compiled
from cdopt.backends import apgd, threads
from cdopt.backends.native import natural_residual

two_threads = pytest.mark.skipif(
    numba.config.NUMBA_NUM_THREADS < 2, reason="numba has one thread here"
)


@pytest.fixture
def on(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[int], None]]:
    """Solve problems of every size on this many threads."""
    before = numba.get_num_threads()
    monkeypatch.setattr(threads, "SERIAL", -1)
    monkeypatch.setattr(threads, "idle_cores", lambda: 64)
    yield numba.set_num_threads
    numba.set_num_threads(before)


@pytest.fixture(scope="module")
def crystal() -> cdopt.ClassicCD:
    """2,280 contacts: colours and chunks enough to part."""
    return cdopt.ClassicCD(cdopt.bank.load("pyramid-hooke:n=11").step)


@two_threads
@pytest.mark.parametrize(
    ("power", "backend", "options"),
    [
        (None, "pgs", {}),
        (None, "pgs", {"order": "coloured"}),
        (None, "pgs", {"order": "coloured", "relaxation": 1.4}),
        (None, "apgd", {}),
        (2.0, "augmented-lagrangian", {"max_iterations": 400}),
        pytest.param(2.5, "augmented-lagrangian", {"max_iterations": 400}, marks=pytest.mark.slow),
    ],
)
def test_forces_are_the_same_on_one_thread_and_on_two(
    power: float | None, backend: str, options: dict, on: Callable, crystal: cdopt.ClassicCD
) -> None:
    """Of a classic step, or of its truss of a power."""
    step, found = crystal.step, []
    truss = power and cdopt.NoTensionTruss(step.B, -step.F_ext, power=power)
    for count in (1, 2):
        on(count)
        posed = truss or crystal
        found.append(posed.solve(backend, history=True, check=False, **options))
    one, two = found
    assert one.ok or truss
    assert one.iterate.forces.any()
    np.testing.assert_array_equal(one.iterate.forces, two.iterate.forces)
    np.testing.assert_array_equal(one.raw.residuals, two.raw.residuals)


def test_small_problems_run_on_one_thread_and_blas_always(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(threads, "idle_cores", lambda: 64)
    before, seen = numba.get_num_threads(), []
    for contacts in (threads.SERIAL, threads.SERIAL + 1):
        with threads.threads_for(contacts):
            blas = [i["num_threads"] for i in threadpool_info() if i["user_api"] == "blas"]
            assert set(blas) == {1}
            seen.append((numba.get_num_threads(), threads.several()))
    assert seen == [(1, False), (before, before > 1)]
    assert numba.get_num_threads() == before


@pytest.mark.parametrize(
    ("running", "expected"), [("1", 4), ("2", 3), ("4", 1), ("9", 1), (None, 4)]
)
def test_large_problems_use_idle_cores_only(
    running: str | None, expected: int, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    load = tmp_path / "loadavg"
    if running is not None:
        load.write_text(f"0.52 0.58 0.59 {running}/467 20143\n")
    monkeypatch.setattr(threads, "_LOAD", load)
    monkeypatch.setattr(os, "cpu_count", lambda: 4)
    allowed = numba.config.NUMBA_NUM_THREADS
    with threads.threads_for(threads.SERIAL + 1):
        assert numba.get_num_threads() == min(expected, allowed)


@pytest.mark.parametrize(("contacts", "dofs", "asked"), [(3, 2, 0), (40, 40, 0), (3, 60, 1),
                                                         (2_000, 3, 1), (3, None, 1)])  # fmt: skip
def test_threads_are_left_alone_where_nothing_would_use_them(
    contacts: int, dofs: int | None, asked: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    found, counted = threads._libraries(), []

    def libraries() -> object:
        counted.append(1)
        return found

    monkeypatch.setattr(threads, "_libraries", libraries)
    before = numba.get_num_threads()
    with threads.threads_for(contacts, dofs):
        assert numba.get_num_threads() == (1 if asked else before)
    assert bool(counted) == bool(asked)
    assert numba.get_num_threads() == before


def test_threads_come_back_after_an_error() -> None:
    before = numba.get_num_threads()
    with pytest.raises(ZeroDivisionError), threads.threads_for(1):
        raise ZeroDivisionError
    assert numba.get_num_threads() == before


@pytest.mark.parametrize("n", [0, 1, 255, 256, 511, 512, 20_000, 10**6])
def test_chunks_hold_every_entry_once_and_are_never_many(n: int) -> None:
    edges = apgd.chunks(n)
    assert (edges[0], edges[-1]) == (0, n)
    sizes = np.diff(edges.astype(np.int64))
    assert 1 <= sizes.size <= apgd._CHUNKS
    assert sizes.max() - sizes.min() <= 1
    assert sizes.size == 1 or sizes.min() >= apgd._LEAST_CHUNK


@pytest.mark.parametrize("position", [0, 1, 2])
def test_a_residual_that_is_no_number_stays_so(position: int) -> None:
    gradient = np.array([-1.0, -2.0, -3.0])
    assert natural_residual(np.ones(3), gradient, np.zeros(3)) == 3.0
    gradient[position] = np.nan
    assert np.isnan(natural_residual(np.ones(3), gradient, np.zeros(3)))


@pytest.mark.parametrize("said", [None, "OMP_WAIT_POLICY", "GOMP_SPINCOUNT"])
def test_waiting_threads_give_their_core_away_unless_the_caller_says_otherwise(
    said: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = []
    for name in compiled._WAITING:
        monkeypatch.delenv(name, raising=False)
    if said is not None:
        monkeypatch.setenv(said, "ACTIVE")
    before = dict(os.environ)
    monkeypatch.setattr(numba, "get_num_threads", lambda: seen.append(dict(os.environ)))
    compiled._Layer().start()
    policy = {} if said is not None else {"OMP_WAIT_POLICY": "PASSIVE"}
    assert seen == [before | policy]
    assert dict(os.environ) == before


@two_threads
def test_a_solution_says_how_many_threads_ran(on: Callable, crystal: cdopt.ClassicCD) -> None:
    def threads_of(backend: str) -> int:
        return crystal.solve(backend, accuracy=1e-3, check=False).provenance["threads"]

    on(2)
    assert threads_of("apgd") == 2
    assert threads_of("pgs") == 1  # its order is one after the other
    on(1)
    assert threads_of("apgd") == 1
