"""General solvers called with their own defaults on the data that CVXPY compiles for them.

Compiling is done beforehand and not counted; what is timed is the solver's set-up and solve. The
answer is read back through the formulation, so that it gets the same certificate as every other.
Where a solver stops short of its tolerances, its last iterate is judged.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import cvxpy.settings as words

import cdopt
from benchmarks.record import Row, counts, timed
from cdopt.backends import registry
from cdopt.backends.modelled import native_status
from cdopt.backends.registry import options_for
from cdopt.formulations.base import Formulation

ACCURACY = 1e-10  # asked of every solver


@dataclass(frozen=True)
class General:
    """A general solver: cdopt's name for it, whether it takes cones, and its settings."""

    name: str
    cones: bool = True
    settings: Mapping[str, Any] = field(default_factory=dict)


SOLVERS: Mapping[str, General] = {
    "Clarabel": General("clarabel", settings={"direct_solve_method": "faer"}),
    "PIQP": General("piqp", cones=False),
    "OSQP": General("osqp", cones=False, settings={"polishing": True}),
    "SCS": General("scs"),
    "Moreau": General("moreau"),
}


def measure(posed: Formulation, solver: str, repeats: int, budget: float) -> Row:
    """One general solver on one problem: seconds, its status, and cdopt's certificate."""
    general = SOLVERS[solver]
    if cdopt.backends.why_unavailable(general.name):
        return {"failed": "not installed"}
    if posed.problem_class == "SOCP" and not general.cones:
        return {"refused": "takes quadratic programs only"}
    record = registry.SOLVERS[general.name]
    settings = {**(record.direct or {}), **general.settings}
    settings |= options_for(general.name, ACCURACY) or {}
    started = time.perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        data, chain, inverse = posed.problem.get_problem_data(
            general.name.upper(), solver_opts=dict(record.direct_options)
        )
    compiled = time.perf_counter() - started

    def run() -> Any:
        return chain.solver.solve_via_data(data, False, False, dict(settings))

    row, raw = timed(run, 0, budget)
    judged = _judged(posed, chain, inverse, raw[-1])
    if counts(row | judged) and row["seconds"] < budget:  # nor is what does not count repeated
        row, raw = timed(run, repeats, budget)
        judged = _judged(posed, chain, inverse, raw[-1])
    return row | {"status": native_status(raw[-1]), "compile_seconds": compiled} | judged


def _judged(posed: Formulation, chain: Any, inverse: Any, raw: Any) -> Row:
    """The certificate of a raw answer, or why there is none."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            found = chain.invert(raw, inverse)
    except (KeyError, ValueError) as error:
        return {"failed": f"no answer that CVXPY can read: {error!r}"}
    if found.status not in words.SOLUTION_PRESENT:
        return {"failed": "no iterate"}
    posed.problem.unpack(found)
    iterate = posed.iterate()
    if iterate is None:
        return {"failed": "no iterate"}
    held = cdopt.certify(posed.data, iterate.motion, iterate.forces)
    return {"worst": held.worst, "iterations": found.attr.get(words.NUM_ITERS)}
