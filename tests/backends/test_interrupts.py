"""Ctrl-C ends what runs, wherever it comes, and leaves nothing changed."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import threading
from collections.abc import Iterator
from types import FrameType
from typing import Any

import numba
import pytest
import threadpoolctl
from threadpoolctl import threadpool_info, threadpool_limits

import cdopt
from cdopt.backends import Modelled, threads

ENDLESS: dict[str, dict[str, Any]] = {  # none of these reaches its tolerance
    "osqp": {"eps_abs": 1e-300, "eps_rel": 1e-300, "max_iter": 10**9, "polishing": False},
    "scs": {"eps_abs": 1e-300, "eps_rel": 1e-300, "max_iters": 10**9},
}


@pytest.mark.skipif(sys.platform == "win32", reason="os.kill sends no Ctrl-C there")
@pytest.mark.parametrize("name", ENDLESS)
def test_ctrl_c_ends_solvers_that_take_it_themselves(name: str) -> None:
    """And a comparison does not go on with its next solver."""
    step = cdopt.bank.load("pyramid-hooke:n=8").step
    finished: list[str] = []
    endless = Modelled(name, options=ENDLESS[name])
    timer = threading.Timer(1.0, lambda: os.kill(os.getpid(), signal.SIGINT))
    timer.start()
    try:
        with pytest.raises(KeyboardInterrupt):
            cdopt.compare(
                step,
                [endless, "newton"],
                time_limit=60.0,
                finished=lambda label, _: finished.append(label),
            )
    finally:
        timer.cancel()
    assert finished == []


def test_an_interrupt_at_any_call_leaves_blas_its_threads() -> None:
    """Raised at each call and return in turn; the next solve repairs what it may have left."""

    def blas() -> set[int]:
        return {
            one["num_threads"] for one in threadpool_info() if one["internal_api"] == "openblas"
        }

    count, interrupted, done = numba.get_num_threads(), 0, False
    with threadpool_limits(limits=2, user_api="blas"):
        before = blas()
        while not done and interrupted < 10_000:
            try:
                with interrupt(interrupted):
                    solve()
                done = True
            except KeyboardInterrupt:
                interrupted += 1
            numba.set_num_threads(count)
            solve()
            assert blas() == before
    assert done
    assert interrupted > 20


def solve() -> None:
    """What a backend does."""
    with threads.threads_for(threads.SERIAL):
        assert numba.get_num_threads() == 1


@contextlib.contextmanager
def interrupt(number: int) -> Iterator[None]:
    """KeyboardInterrupt at this many calls and returns within, where Python looks for signals."""
    left = number

    def count(frame: FrameType, event: str, argument: object) -> None:
        nonlocal left
        here = frame.f_code.co_filename in (threads.__file__, threadpoolctl.__file__)
        left -= here and event in ("call", "return")
        if left < 0:
            sys.setprofile(None)
            raise KeyboardInterrupt

    sys.setprofile(count)
    try:
        yield
    finally:
        sys.setprofile(None)
