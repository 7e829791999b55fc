"""Threads change times, never results; Python threads that solve at once get their own answers."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import textwrap
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from pathlib import Path

import numba
import numpy as np
import pytest
from threadpoolctl import threadpool_info, threadpool_limits

import cdopt
from cdopt._util import compiled, processes
from cdopt.backends import threads
from cdopt.backends.base import CVXPY_LOCK
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


@pytest.mark.slow
@two_threads
@pytest.mark.parametrize(
    ("power", "backend", "options"),
    [
        (None, "pgs", {"order": "coloured"}),
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
        with (
            suppress(ZeroDivisionError),
            threads.threads_for(contacts),
        ):  # comes back after an error
            blas = [i["num_threads"] for i in threadpool_info() if i["user_api"] == "blas"]
            assert set(blas) == {1}
            seen.append((numba.get_num_threads(), threads.several()))
            raise ZeroDivisionError
        assert numba.get_num_threads() == before
    assert seen == [(1, False), (before, before > 1)]


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


def test_threads_of_blas_that_look_for_work_leave_their_core_idle(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    load, python = tmp_path / "loadavg", threading.get_native_id()
    load.write_text("0.52 0.58 0.59 3/467 20143\n")  # this one, one of BLAS, and a stranger's
    tasks = {python: "R", python + 1: "R", python + 2: "S"}
    for number, state in tasks.items():
        (tmp_path / "task" / str(number)).mkdir(parents=True)
        (tmp_path / "task" / str(number) / "stat").write_text(f"{number} (a (b) c) {state} 1 2\n")
    monkeypatch.setattr(threads, "_LOAD", load)
    monkeypatch.setattr(threads, "_TASKS", tmp_path / "task")
    monkeypatch.setattr(os, "cpu_count", lambda: 4)
    assert threads.idle_cores() == 3
    with threads.threads_for(1), threads.threads_for(1):  # they may be those of another solve
        assert threads.idle_cores() == 2


@pytest.mark.parametrize(
    ("contacts", "dofs", "asked"),
    [(40, 40, False), (3, 60, True), (2_000, 3, True), (3, None, True)],
)
def test_threads_are_left_alone_where_nothing_would_use_them(
    contacts: int, dofs: int | None, asked: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    found, counted = threads._libraries(), []
    monkeypatch.setattr(threads, "_libraries", lambda: counted.append(1) or found)
    before = numba.get_num_threads()
    with threads.threads_for(contacts, dofs):
        assert numba.get_num_threads() == (1 if asked else before)
    assert bool(counted) == asked


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


@pytest.mark.slow
@two_threads
def test_a_solution_says_how_many_threads_ran(on: Callable, crystal: cdopt.ClassicCD) -> None:
    def threads_of(backend: str) -> int:
        return crystal.solve(backend, accuracy=1e-3, check=False).provenance["threads"]

    on(2)
    assert threads_of("apgd") == 2
    assert threads_of("pgs") == 1  # its order is one after the other
    on(1)
    assert threads_of("apgd") == 1


# --- Python threads ------------------------------------------------------------------------

BACKENDS = ("clarabel", "osqp", "scs", "highs", "newton", "pgs")


def at_once(tasks: list[Callable[[], None]]) -> None:
    """Run tasks in threads; the first error is raised here."""
    errors: list[BaseException] = []
    start = threading.Barrier(len(tasks))

    def run(task: Callable[[], None]) -> None:
        start.wait()
        try:
            task()
        except BaseException as error:
            errors.append(error)

    workers = [threading.Thread(target=run, args=(task,)) for task in tasks]
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    try:
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()
    finally:
        sys.setswitchinterval(before)
    if errors:
        raise errors[0]


@pytest.mark.parametrize("form", ["force", "velocity"])
def test_one_formulation_in_many_threads_gives_each_its_own_answer(form: str) -> None:
    step = cdopt.bank.load("table").step
    alone = {name: cdopt.ClassicCD(step, form=form).solve(name).f for name in BACKENDS}
    shared = cdopt.ClassicCD(step, form=form)  # posed by whichever thread comes first
    found: list[tuple[str, np.ndarray]] = []

    def solve(name: str) -> Callable[[], None]:
        def task() -> None:
            found.extend((name, shared.solve(name).f) for _ in range(5))

        return task

    at_once([solve(name) for name in BACKENDS])
    assert len(found) == 5 * len(BACKENDS)
    for name, forces in found:
        tolerance = 1e-9 if name == "osqp" else 0.0  # its step size is chosen by the clock
        np.testing.assert_allclose(forces, alone[name], rtol=0.0, atol=tolerance, err_msg=name)


def test_warm_starts_of_one_thread_are_not_those_of_another() -> None:
    truss = cdopt.ClassicCD(cdopt.bank.load("table").step)
    alone = truss.solve("scs")
    near = truss.solve("newton")

    def cold() -> None:
        for _ in range(5):
            np.testing.assert_array_equal(truss.solve("scs").f, alone.f)

    def warm() -> None:
        for _ in range(5):
            truss.solve("scs", warm_start=near)

    at_once([cold, warm])


def test_overlapping_solves_leave_blas_its_threads() -> None:
    def blas() -> set[int]:
        """Not of MKL, whose threads PARDISO's backend sets for its own Python thread."""
        known = threads._libraries().info()
        return {lib["num_threads"] for lib in known if lib["internal_api"] == "openblas"}

    inside, leave = threading.Event(), threading.Event()

    def first() -> None:
        with threads.threads_for(threads.SERIAL):
            inside.set()
            leave.wait(10.0)

    with threadpool_limits(limits=2, user_api="blas"):
        before = blas()
        worker = threading.Thread(target=first)
        worker.start()
        inside.wait(10.0)
        with threads.threads_for(threads.SERIAL):
            with threads.threads_for(threads.SERIAL):
                within = blas()
            leave.set()
            worker.join()
            still = blas()  # this thread still solves
        assert within == still == {1}
        assert blas() == before


PROGRAM = """
    import os, sys, threading
    import numpy as np
    import cdopt
    from cdopt.backends import threads

    threads.SERIAL, threads.idle_cores = 10_000, lambda: 64
    step = cdopt.bank.load(sys.argv[1]).step
    truss = [cdopt.NoTensionTruss(step.B, -step.F_ext, dof_body=step.dof_body) for _ in "ab"]
    rigid = cdopt.ClassicCD(step)
    found = {}

    def solve(i):
        found[i] = truss[i].solve("newton")
        found[i + 2] = rigid.solve("apgd")
        found[i + 4] = rigid.solve("pgs", order="coloured", max_sweeps=20)

    workers = [threading.Thread(target=solve, args=(i,)) for i in range(2)]
    [worker.start() for worker in workers]
    [worker.join() for worker in workers]
    assert found[0].ok and found[2].ok
    for i in (0, 2, 4):
        np.testing.assert_array_equal(found[i].iterate.forces, found[i + 1].iterate.forces)
    child = os.fork()
    if child == 0:
        again = truss[0].solve("newton")
        near = np.allclose(again.f, found[0].f, atol=1e-9 * found[0].f.max())
        first = rigid.solve("apgd")
        same = np.array_equal(first.f, found[2].f)
        os._exit(0 if again.ok and near and same else 1)
    assert os.waitpid(child, 0)[1] == 0
    print(step.nc, "fine")
"""


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="there is no fork")
@pytest.mark.parametrize("layer", ["workqueue", "omp", "default"])
@pytest.mark.parametrize(("problem", "contacts"), [("pyramid-hooke:n=10", 1620),
                                                   ("pyramid-hooke:n=20", 14_440)])  # fmt: skip
def test_large_problems_in_two_threads_and_then_in_a_forked_child(
    layer: str, problem: str, contacts: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Loops for one thread and for two have equal bits if one process compiled them."""
    loops = tmp_path_factory.getbasetemp() / "loops of the forked child"
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(PROGRAM), problem],
        env={**os.environ, "NUMBA_THREADING_LAYER": layer, "NUMBA_NUM_THREADS": "2",
             "NUMBA_CACHE_DIR": str(loops)},
        capture_output=True, text=True, timeout=600,
    )  # fmt: skip
    if layer == "omp" and "No threading layer could be loaded" in done.stderr:
        pytest.skip("no OpenMP here")
    assert done.stdout == f"{contacts} fine\n", done.stderr[-2000:]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork")
@pytest.mark.filterwarnings("ignore:.*multi-threaded:DeprecationWarning")  # fork warns of it
def test_a_child_is_not_held_up_by_what_other_threads_were_doing() -> None:
    """Locks that they held when it was forked are free in it."""
    posed = cdopt.FrictionalCD(cdopt.bank.load("incline").step)
    held, leave = threading.Event(), threading.Event()

    def hold() -> None:
        with threads.threads_for(threads.SERIAL), ExitStack() as stack:
            for lock in (CVXPY_LOCK, processes._LOCK):
                stack.enter_context(lock)
            held.set()
            leave.wait(60.0)

    other = threading.Thread(target=hold)
    other.start()
    held.wait(60.0)
    child = os.fork()
    if child == 0:
        signal.alarm(60)  # ends it if it waits
        solved = posed.solve("newton").ok and posed.solve("clarabel").ok
        os._exit(0 if solved else 1)
    leave.set()
    other.join()
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def test_no_property_takes_the_lock_of_python_3_11() -> None:
    """A child in which it is held would wait for ever; ``_util.cached`` has none."""
    package = Path(cdopt.__file__).parent
    texts = {p.name: p.read_text(encoding="utf-8") for p in package.rglob("*.py")}
    taken = re.compile(r"functools(\.| import .*)cached_property")
    assert [name for name, text in texts.items() if taken.search(text)] == ["cached.py"]


def test_a_forked_child_of_openmp_is_told_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compiled._LAYER, "lost", True)
    with pytest.raises(cdopt.Unsupported, match=r"forked.*spawn"):
        compiled.in_threads(lambda: None)
    assert not threads.several()


def test_loops_take_turns_where_the_layer_allows_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compiled._LAYER, "name", "workqueue")
    inside: list[int] = []

    def loop() -> None:
        inside.append(1)
        assert len(inside) == 1
        threading.Event().wait(1e-3)
        inside.pop()

    at_once([lambda: [compiled.in_threads(loop) for _ in range(5)]] * 3)
    assert numba.get_num_threads() >= 1
