"""cdopt's own solvers, held to the certificate: an accuracy asked for is one that is certified.

Each stops by a residual of its own, which costs nothing to watch. The certificate has more to it: a
duality gap adds up what many contacts leave over. So an answer is certified once where the solver
is done with it, and the run goes on, more sharply, while the certificate is above the accuracy.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from cdopt.backends.base import Posed, RunResult
from cdopt.backends.deadline import Deadline
from cdopt.backends.structured import History, safely, settings_of
from cdopt.problem.certificate import certify
from cdopt.problem.warm_start import WarmStart

Attempt = Callable[[Any, WarmStart | None], RunResult]

HELD_FROM = 1e-10  # accuracy below which round-off may keep a duality gap away from it
_ROUNDS = 4  # certificates at most
_MARGIN = 0.3  # aimed at, of what the certificate seems to need


def held(
    backend: Any,
    posed: Posed,
    start: WarmStart | None,
    limit: str,
    deadline: Deadline,
    attempt: Attempt,
) -> RunResult:
    """What ``attempt`` gives with these settings, or with sharper ones where the certificate asks.

    Where the deadline has passed or the arithmetic breaks down, a status that says so.

    Parameters
    ----------
    backend : settings, a dataclass with ``accuracy`` and an iteration limit named ``limit``.
    posed, start : the problem, and a solution to start from.
    deadline : when the attempts must end.
    attempt : (settings, start) to a result.
    """
    return safely(
        backend, posed.data, deadline, lambda: _held(backend, posed, start, limit, attempt)
    )


def _held(
    backend: Any, posed: Posed, start: WarmStart | None, limit: str, attempt: Attempt
) -> RunResult:
    result = attempt(backend, start)
    if backend.accuracy < HELD_FROM or result.claim != "solved":
        return result
    asked = sharper = backend.accuracy
    for tried in range(1, _ROUNDS + 1):
        iterate, left = result.iterate, getattr(backend, limit) - (result.iterations or 0)
        if iterate is None:
            return result
        worst = certify(posed.data, iterate.motion, iterate.forces).worst
        if worst <= asked:
            return dataclasses.replace(result, claim="solved", status="solved", out_of_time=False)
        spent = tried == _ROUNDS or left < 1
        if spent or result.claim != "solved" or not np.isfinite(worst):
            break
        sharper *= max(_MARGIN * asked / worst, 1e-3)
        settings = dataclasses.replace(backend, accuracy=sharper, **{limit: left})
        start = WarmStart(iterate.forces, iterate.motion, posed.data.contact_ids)
        again = attempt(settings, start)
        result = _joined(backend, result, again)
    if result.out_of_time:
        return result
    status = "solved by a residual of its own, not by the certificate"
    return dataclasses.replace(result, claim="inaccurate", status=status)


def _joined(backend: Any, first: RunResult, then: RunResult) -> RunResult:
    """Both as one run with the settings asked for."""
    return dataclasses.replace(
        then,
        timings=_sums(first.timings, then.timings),
        iterations=(first.iterations or 0) + (then.iterations or 0),
        raw=_records(first.raw, then.raw),
        settings=settings_of(backend),
        how="; then ".join(dict.fromkeys(part for part in (first.how, then.how) if part)),
    )


def _sums(first: Mapping[str, float], then: Mapping[str, float]) -> dict[str, float]:
    return {name: first.get(name, 0.0) + then[name] for name in then}


def _records(first: Any, then: Any) -> Any:
    if isinstance(first, History) and isinstance(then, History):
        return History(np.concatenate([first.residuals, then.residuals]))
    return then
