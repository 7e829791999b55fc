"""Certified stopping: run a backend until its answer meets the certificate.

A native solver stops on a cheap residual. The certificate is stricter: its duality gap is a sum
over all contacts. So the answer is certified, and while the certificate exceeds the requested
accuracy, the solver goes on from its answer with a sharper stopping test.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from cdopt._util.cached import changed
from cdopt.backends.base import Backend, Problem, RunResult
from cdopt.backends.deadline import TIME_LIMIT, Deadline
from cdopt.backends.native import History, NativeBackend
from cdopt.backends.time_limit import run_limited
from cdopt.problem.certificate import MOTION, TOLERANCE, Certificate
from cdopt.problem.solution import WarmStart

# for a sharper accuracy, which may be below round-off, the certificate only has to meet tol
CERTIFIED_FROM = 1e-10
ROUNDS = 4  # certificates at most
_MARGIN = 0.3  # aimed at, of the accuracy that the certificate seems to need


def solve_certified(
    backend: Backend,
    formulation: Problem,
    start: WarmStart | None,
    verbose: bool,
    time_limit: float | None = None,
    tol: float = TOLERANCE,
) -> RunResult:
    """Run a backend and certify its answer; run native ones again while it is too large."""
    deadline = Deadline.after(time_limit)
    result = _certified(
        formulation, run_limited(backend, formulation, start, verbose, time_limit), tol
    )
    if not isinstance(backend, NativeBackend) or not backend.limit or result.claim != "solved":
        return result
    sharper = backend.accuracy
    asked = sharper if sharper >= CERTIFIED_FROM else max(tol, CERTIFIED_FROM)
    for tried in range(1, ROUNDS + 1):
        if result.certificate is None or result.iterate is None:
            break
        worst = _largest(result.certificate)
        if worst <= asked:
            as_it_is = result.claim == result.status == "solved" and not result.out_of_time
            if worst <= tol and as_it_is:
                return result
            status = "solved"
            if worst > tol:
                status = f"solved to the requested accuracy={backend.accuracy:g}, which is looser"
                status += f" than the certificate's tol={tol:g}; quote both"
            return changed(result, claim="solved", status=status, out_of_time=False)
        if tried == ROUNDS or result.claim != "solved" or not np.isfinite(worst):
            break
        sharper = sharpened(sharper, asked, worst)
        settings = backend.sharper(sharper, result.iterations or 0)
        if settings is None:
            break
        if deadline.passed:
            return changed(result, claim="inaccurate", status=TIME_LIMIT, out_of_time=True)
        iterate = result.iterate
        near = WarmStart(iterate.forces, iterate.motion, formulation.data.contact_ids)
        again = run_limited(settings, formulation, near, verbose, deadline.time_limit)
        if again.claim == "failed":
            break
        result = _certified(formulation, _joined(backend, result, again), tol)
    if not result.out_of_time:
        status = "solved by its own residual, not by the certificate"
        result = changed(result, claim="inaccurate", status=status)
    return result


def sharpened(accuracy: float, needed: float, worst: float) -> float:
    """The next ``accuracy``, where the certificate's ``worst`` residual is above the ``needed``."""
    return accuracy * max(_MARGIN * needed / worst, 1e-3)


def _certified(formulation: Problem, result: RunResult, tol: float) -> RunResult:
    if result.iterate is None:
        return result
    return changed(result, certificate=formulation.certify(result.iterate, tol))


def _largest(certificate: Certificate) -> float:
    """The largest residual, of ``motion`` only above the tolerance: it magnifies the others."""
    if certificate.worst > certificate.tol:
        return certificate.worst
    return max((r.value for r in certificate if r.name != MOTION), default=0.0)


def _joined(backend: NativeBackend, first: RunResult, then: RunResult) -> RunResult:
    """Both as one run with the requested settings."""
    raw: Any = then.raw
    if isinstance(first.raw, History) and isinstance(raw, History):
        raw = History(np.concatenate([first.raw.residuals, raw.residuals]))
    return changed(
        then,
        timings={name: first.timings.get(name, 0.0) + then.timings[name] for name in then.timings},
        iterations=(first.iterations or 0) + (then.iterations or 0),
        raw=raw,
        settings=backend.settings,
        how="; then ".join(dict.fromkeys(part for part in (first.how, then.how) if part)),
    )
