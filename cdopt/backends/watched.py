"""A time limit for solvers that do not look at a clock: a process that is ended when it is over.

Solvers that know no time limit, and all solvers where one factorisation of a large coupled mass
matrix may take longer than the limit, run in a process of their own. It is started once and used
again until a limit ends it. Its memory is limited too. Starting it is in no measured time.
"""

from __future__ import annotations

import atexit
import copy
import dataclasses
import os
import pickle
import time
import weakref
from collections.abc import Callable, Iterable
from typing import Any

import cvxpy as cp
import numpy as np

from cdopt._util.errors import CdoptError, portable
from cdopt._util.forking import in_child
from cdopt._util.processes import Worker, limit_memory, memory_limit
from cdopt.backends.base import Backend, Problem, RunResult
from cdopt.backends.deadline import TIME_LIMIT, Deadline
from cdopt.backends.modelled import Direct, Modelled
from cdopt.backends.native import NativeBackend
from cdopt.backends.registry import has_clock
from cdopt.problem.solution import WarmStart

LIMITED_BY = "the end of its process"
_COUPLED = 2000  # degrees of freedom from which on a coupled mass matrix takes long
_START = 300.0  # s for the process to import what it needs
_STATED = ("statement", "forces", "velocity", "displacement")  # made again when asked for
_IDLE: list[tuple[Worker, Any]] = []  # processes, and weak references to the problems they have


def run(
    backend: Backend,
    posed: Problem,
    start: WarmStart | None,
    verbose: bool,
    time_limit: float | None,
) -> RunResult:
    """Run a backend; with a ``time_limit`` in a process of its own where it needs one.

    Parameters
    ----------
    posed, start : the problem, and a solution to start from.
    """
    if time_limit is None:
        return backend.run(posed, start, verbose)  # some backends know no time limit
    if not needs_process(backend, posed) or not _portable(posed):
        return backend.run(posed, start, verbose, time_limit)
    return _watched(backend, posed, start, verbose, time_limit)


def needs_process(backend: Backend, posed: Problem) -> bool:
    """Whether only the end of a process keeps this backend to a time limit."""
    if isinstance(backend, Modelled | Direct) and not has_clock(backend.solver):
        return True
    return isinstance(backend, Modelled | Direct | NativeBackend) and _is_coupled(posed)


def prepare(backends: Iterable[Backend], posed: Problem, time_limit: float | None) -> None:
    """Start a process in the background if one of these needs it and there is none."""
    if time_limit is not None and any(needs_process(backend, posed) for backend in backends):
        _IDLE.append(_take())


def ready(backend: Backend, posed: Problem, time_limit: float | None) -> None:
    """Wait until the process has started that ``run`` would need."""
    if time_limit is not None and needs_process(backend, posed):
        if _is_coupled(posed):
            posed.data.scaled()  # takes long, and is sent along
        worker, known = _take()
        worker.start(_START)
        _IDLE.append((worker, known))


def _is_coupled(posed: Problem) -> bool:
    data = posed.data
    if data.inertia is None or data.d > 1 or data.nv < _COUPLED:
        return False
    return data.compliance is None and data.inertia.is_coupled


def _portable(posed: Problem) -> bool:
    """Whether a problem can be sent: constraints of a user may hold what cannot be."""
    try:
        return not posed.extended or bool(pickle.dumps(posed))
    except (TypeError, AttributeError, pickle.PicklingError):
        return False


def _watched(
    backend: Backend, posed: Problem, start: WarmStart | None, verbose: bool, time_limit: float
) -> RunResult:
    """The run in a process, which is ended at the time limit."""
    worker, known = _take()
    worker.start(_START)
    began, deadline = time.perf_counter(), Deadline.after(time_limit)
    answer: RunResult | CdoptError | str = TIME_LIMIT
    if not deadline.passed:
        sent = None if known() is posed else _without_statement(posed)
        try:
            worker.call(_solve, backend, sent, start, verbose)
            answer = worker.receive(deadline.left)
        except TimeoutError:
            pass
        except EOFError:
            answer = f"its process ended with code {worker.end()}"
        known = weakref.ref(posed)
    spent = time.perf_counter() - began
    if worker.alive:
        _IDLE.append((worker, known))
    if isinstance(answer, CdoptError):
        raise answer
    if isinstance(answer, str):
        settings, late = getattr(backend, "settings", {}), answer == TIME_LIMIT
        answer = RunResult(
            answer, "failed", None, {"solve": spent}, settings=settings, out_of_time=late
        )
    else:
        handed_over = max(spent - sum(answer.timings.values()), 0.0)
        timings = {**answer.timings, "process": handed_over}
        answer = dataclasses.replace(answer, timings=timings)
    return dataclasses.replace(answer, limited=LIMITED_BY)


def _take() -> tuple[Worker, Any]:
    """A process that is not in use, and a weak reference to the problem that it has."""
    while True:
        try:
            worker, known = _IDLE.pop()
        except IndexError:
            return Worker(warm_up), lambda: None
        if worker.alive:
            return worker, known


def _end_all() -> None:
    """End the processes that nobody uses."""
    while _IDLE:
        _IDLE.pop()[0].end()


atexit.register(_end_all)
in_child(_IDLE.clear)  # they answer to the parent


def _without_statement(posed: Problem) -> Problem:
    """The problem without what CVXPY made of it, unless a user added constraints to that."""
    if posed.extended:
        return posed
    bare = copy.copy(posed)
    for name in _STATED:
        vars(bare).pop(name, None)
    return bare


# --- in the process ----------------------------------------------------------------------------

_POSED: list[Problem] = []  # the last problem


def warm_up() -> None:
    """State and compile a small problem, so that CVXPY has imported all it needs."""
    x = cp.Variable(2, nonneg=True)
    problem = cp.Problem(cp.Minimize(cp.quad_form(x, np.eye(2)) - cp.sum(x)), [x[0] == x[1]])
    for name in ("CLARABEL", "OSQP"):  # a conic solver and a quadratic one
        problem.get_problem_data(name)


def _solve(
    send: Callable[[object], None],
    backend: Backend,
    posed: Problem | None,
    start: WarmStart | None,
    verbose: bool,
) -> None:
    """Send the result of a run, or its error; ``posed`` is None for the last problem."""
    limit_memory(memory_limit())
    if posed is not None:
        _POSED[:] = [posed]
    loud, target = os.dup(1), os.open(os.devnull, os.O_WRONLY)
    if not verbose:
        os.dup2(target, 1)
    os.close(target)
    try:
        result = backend.run(_POSED[0], start, verbose)
        send(dataclasses.replace(result, raw=portable(result.raw)))
    except MemoryError as error:
        send(RunResult(f"MemoryError: {error}", "failed", None, {}))
    except CdoptError as error:
        send(error)
    finally:
        os.dup2(loud, 1)
        os.close(loud)
