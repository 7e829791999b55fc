"""Executors that lose runs, or have nobody to make them."""

from __future__ import annotations

import threading
from concurrent.futures import Executor, Future
from types import SimpleNamespace

import pytest

from cdopt.study import Plan, run, runner

PLAN = Plan(["beam-uniform"], ["newton", "pgs"], repeats=1)


def test_runs_that_the_executor_cancels_are_lost_and_end_nothing() -> None:
    class Cancelling(Executor):
        def submit(self, *call: object, **arguments: object) -> Future:
            future: Future = Future()
            future.cancel()
            future.set_running_or_notify_cancel()
            return future

    done = run(PLAN, executor=Cancelling())
    assert (done.made, done.records) == (0, ())
    assert set(done.lost) == {one.id for one in PLAN.runs}
    assert all("cancelled by the executor" in why for why in done.lost.values())


@pytest.mark.parametrize(
    ("status", "said"),
    [("running", "no worker is left"), ("connecting", "no scheduler answers at tcp://there:8786")],
)
def test_a_cluster_in_which_nothing_happens_is_reported_once(
    status: str, said: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    class Late(Executor):
        def submit(self, *call: object, **arguments: object) -> Future:
            future: Future = Future()
            threading.Timer(0.5, future.set_exception, [RuntimeError("late")]).start()
            return future

    client = SimpleNamespace(
        status=status,
        nthreads=dict,
        scheduler=SimpleNamespace(address="tcp://there:8786"),
        get_executor=Late,
    )
    monkeypatch.setattr(runner, "_LOOK_SECONDS", 0.05)
    done = run(PLAN, executor=runner._Watched(client))
    assert set(done.lost.values()) == {"RuntimeError: late"}
    (message,) = caplog.messages
    assert said in message
