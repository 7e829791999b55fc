"""A study on a local Dask cluster of two workers, one of which dies in the middle of it."""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from pathlib import Path

import misbehaving
import pytest

import cdopt
from cdopt.study import Plan, dask_executor, read, run

distributed = pytest.importorskip("distributed", reason="pip install distributed")
psutil = pytest.importorskip("psutil")  # which Dask needs, too
pytestmark = [
    pytest.mark.filterwarnings("ignore"),  # Dask's own
    pytest.mark.skipif(sys.platform != "linux", reason="a worker is killed by its number"),
]
MISBEHAVING = f"{misbehaving.__file__}:factory"


@pytest.fixture
def cluster(tmp_path, monkeypatch):
    monkeypatch.setenv(misbehaving.PIDS, str(tmp_path / "pid"))
    with distributed.LocalCluster(
        n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None
    ) as found:
        yield found


@pytest.mark.slow
def test_no_run_is_lost_or_counted_twice_when_a_worker_dies(cluster, tmp_path) -> None:
    outcomes = {"newton": "solved", "pgs": "solved", "crash": "crash", "osqp": "solved"}
    settings = {"repeats": 1, "tolerances": [None, 1e-9], "plugins": [MISBEHAVING]}
    plan = Plan(["beam-uniform"], list(outcomes), **settings)
    killed: list[int] = []

    def kill_once(done: int, total: int, text: str = "") -> None:
        """When the first record comes, end a worker in the middle of a run."""
        while done == 1 and not killed:
            for worker in list(cluster.workers.values()):
                if in_a_run(worker.pid) and not killed:
                    os.kill(worker.pid, signal.SIGKILL)
                    killed.append(worker.pid)

    with dask_executor(cluster.scheduler_address) as executor:
        done = run(plan, tmp_path, executor, kill_once)
    assert killed
    assert done.lost == {}
    assert done.made == len(plan.runs) == 8
    assert len((tmp_path / "runs.jsonl").read_bytes().splitlines()) == 8
    kept = sorted(record.run.cell for record in read(tmp_path))
    assert kept == sorted(one.cell for one in plan.runs)
    assert {r.run.backend: r.outcome for r in done.records} == outcomes
    assert run(plan, tmp_path).made == 0


def in_a_run(pid: int) -> bool:
    """Whether one of a process's descendants has the process of a run."""
    below = psutil.Process(pid).children(recursive=True)
    return any("cdopt._util.processes" in process.cmdline() for process in below)


@pytest.mark.slow
def test_the_process_of_a_run_dies_with_the_worker_that_began_it(cluster, tmp_path) -> None:
    plan = Plan(["beam-uniform"], ["hang"], repeats=1, plugins=[MISBEHAVING], time_limit=300.0)
    place = tmp_path / "pid"
    with dask_executor(cluster.scheduler_address) as executor:
        study = threading.Thread(target=run, args=(plan, tmp_path, executor), daemon=True)
        study.start()
        waited(lambda: place.exists() and place.read_text())
        first = int(place.read_text())  # asleep in its solver
        for worker in list(cluster.workers.values()):
            os.kill(worker.pid, signal.SIGKILL)
        waited(lambda: not Path(f"/proc/{first}").exists())
        waited(lambda: int(place.read_text() or first) != first)  # and was begun again elsewhere
        os.kill(int(place.read_text()), signal.SIGKILL)
        study.join(60.0)
    assert not study.is_alive()
    (found,) = read(tmp_path)
    assert (found.outcome, found.ended.signal) == ("interrupted", signal.SIGKILL)


def waited(condition) -> None:
    for _ in range(600):
        if condition():
            return
        time.sleep(0.1)
    raise TimeoutError


def test_where_no_scheduler_is_that_is_told(monkeypatch) -> None:
    monkeypatch.setattr("cdopt.study.runner._CONNECT_SECONDS", 0.5)
    with pytest.raises(cdopt.InvalidInput, match="dask"), dask_executor("tcp://127.0.0.1:9"):
        pass
