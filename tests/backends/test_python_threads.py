"""Python threads that solve at once: each gets its own answer, and the process lives."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
import threading
from collections.abc import Callable

import numba
import numpy as np
import pytest
from threadpoolctl import threadpool_limits

import cdopt
from cdopt.backends import threads

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
    assert found[0].ok and found[1].ok and found[2].ok
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
    layer: str, problem: str, contacts: int
) -> None:
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(PROGRAM), problem],
        env={**os.environ, "NUMBA_THREADING_LAYER": layer, "NUMBA_NUM_THREADS": "2"},
        capture_output=True, text=True, timeout=600,
    )  # fmt: skip
    if layer == "omp" and "No threading layer could be loaded" in done.stderr:
        pytest.skip("no OpenMP here")
    assert done.stdout == f"{contacts} fine\n", done.stderr[-2000:]


def test_a_forked_child_of_openmp_is_told_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cdopt._util.compiled._LAYER, "lost", True)
    with pytest.raises(cdopt.Unsupported, match=r"forked.*spawn"):
        cdopt._util.compiled.side_by_side(lambda: None)
    assert not threads.several()


def test_loops_take_turns_where_the_layer_allows_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cdopt._util.compiled._LAYER, "name", "workqueue")
    inside: list[int] = []

    def loop() -> None:
        inside.append(1)
        assert len(inside) == 1
        threading.Event().wait(1e-3)
        inside.pop()

    at_once([lambda: [cdopt._util.compiled.side_by_side(loop) for _ in range(5)]] * 3)
    assert numba.get_num_threads() >= 1
