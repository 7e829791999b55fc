"""A time limit for solvers that have none: a process that is ended when the time is over.

cdopt's own solvers look at the clock between iterations, and most of the others have a setting for
a limit. The rest (PIQP, QOCO, ProxQP, DAQP, ECOS, CVXOPT) run in a process if a limit is
given. It is used again until a limit ends it. Its memory is limited too. Starting it takes seconds,
which are part neither of the limit nor of ``StepSolution.seconds``.
"""

from __future__ import annotations

import copy
import dataclasses
import importlib
import os
import pickle
import time
from collections.abc import Callable

import cvxpy as cp
import numpy as np

from cdopt._util.errors import CdoptError, portable
from cdopt._util.forking import in_child
from cdopt._util.processes import Worker, limit_memory, memory_limit
from cdopt.backends.base import Backend, Problem, RunResult
from cdopt.backends.deadline import TIME_LIMIT
from cdopt.backends.modelled import Direct, Modelled
from cdopt.backends.registry import has_clock
from cdopt.problem.solution import STARTING, WarmStart

LIMITED_BY = "the end of its process"
_START = 300.0  # s for the process to import what it needs
_IDLE: list[Worker] = []  # processes that wait for the next run
_STATED = ("statement", "forces", "velocity", "displacement")  # made again when asked for

in_child(_IDLE.clear)  # they answer to the parent


def run_limited(
    backend: Backend,
    formulation: Problem,
    start: WarmStart | None,
    verbose: bool,
    time_limit: float | None,
) -> RunResult:
    """Run a backend; with a ``time_limit`` in a process that can be ended, where it needs one."""
    if time_limit is None:
        return backend.run(formulation, start, verbose)  # some backends know no time limit
    if isinstance(backend, Modelled | Direct) and not has_clock(backend.solver):
        sent = _without_statement(formulation)
        if _portable(sent):
            return _in_process(backend, sent, start, verbose, time_limit)
    return backend.run(formulation, start, verbose, time_limit)


def _without_statement(formulation: Problem) -> Problem:
    """The problem without its CVXPY form, unless a user added constraints to that."""
    if formulation.extended:
        return formulation
    bare = copy.copy(formulation)
    for name in _STATED:
        vars(bare).pop(name, None)
    return bare


def _portable(formulation: Problem) -> bool:
    """Whether a problem can be sent: constraints of a user may contain objects that cannot."""
    try:
        return not formulation.extended or bool(pickle.dumps(formulation))
    except (TypeError, AttributeError, pickle.PicklingError):
        return False


def _in_process(
    backend: Modelled | Direct,
    formulation: Problem,
    start: WarmStart | None,
    verbose: bool,
    time_limit: float,
) -> RunResult:
    """The run in a process, which is ended at the time limit."""
    asked = began = time.perf_counter()
    worker = _ready_worker()
    answer: RunResult | CdoptError | str = TIME_LIMIT
    try:
        worker.start(_START)
        began = time.perf_counter()
        worker.call(_solve, backend, formulation, start, verbose)
        left = began + time_limit - time.perf_counter()
        if left > 0.0:
            answer = worker.receive(left)
        else:
            worker.end()
    except TimeoutError:
        pass
    except EOFError:
        answer = f"its process ended with code {worker.end()}"
    if worker.alive:
        _IDLE.append(worker)
    if isinstance(answer, CdoptError):
        raise answer
    spent = time.perf_counter() - began
    if isinstance(answer, str):
        return RunResult(
            answer,
            "failed",
            None,
            {"solve": spent, STARTING: began - asked},
            settings=backend.settings,
            out_of_time=answer == TIME_LIMIT,
            limited=LIMITED_BY,
        )
    around = max(spent - sum(answer.timings.values()), 0.0)
    timings = {**answer.timings, "process": around, STARTING: began - asked}
    return dataclasses.replace(answer, timings=timings, limited=LIMITED_BY)


def _ready_worker() -> Worker:
    """An idle process."""
    while True:
        try:
            worker = _IDLE.pop()
        except IndexError:
            return Worker(warm_up)
        if worker.alive:
            return worker


# --- in the process ----------------------------------------------------------------------------


def warm_up() -> None:
    """State and compile a small problem, so that CVXPY has imported all it needs."""
    x = cp.Variable(2, nonneg=True)
    problem = cp.Problem(cp.Minimize(cp.quad_form(x, np.eye(2)) - cp.sum(x)), [x[0] == x[1]])
    for name in ("cdopt.formulations", "cdopt.scene"):  # of problems that are sent
        importlib.import_module(name)
    for name in ("CLARABEL", "OSQP"):  # a conic solver and a quadratic one
        problem.get_problem_data(name)


def _solve(
    send: Callable[[object], None],
    backend: Backend,
    formulation: Problem,
    start: WarmStart | None,
    verbose: bool,
) -> None:
    """Send the result of a run, or its error."""
    limit_memory(memory_limit())
    loud, target = os.dup(1), os.open(os.devnull, os.O_WRONLY)
    if not verbose:
        os.dup2(target, 1)
    os.close(target)
    try:
        result = backend.run(formulation, start, verbose)
        send(dataclasses.replace(result, raw=portable(result.raw)))
    except MemoryError as error:
        send(RunResult(f"MemoryError: {error}", "failed", None, {}))
    except CdoptError as error:
        send(error)
    finally:
        os.dup2(loud, 1)
        os.close(loud)
