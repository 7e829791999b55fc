"""Numbers and verdicts as words, shared by every table, sentence and picture."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from cdopt._util.errors import CdoptError, SolveFailed
from cdopt._util.proof import InfeasibilityProof
from cdopt.problem.certificate import Residual
from cdopt.problem.solution import StepSolution

_LISTED = 8  # entries of a proof that are written out


def count(number: int, thing: str) -> str:
    """Number and noun: "1 solver", "7 solvers", "no solver"."""
    return f"{number or 'no'} {thing}{'' if number in (0, 1) else 's'}"


def short(number: float, digits: int = 4) -> str:
    """A number with few digits; a dash for none."""
    return f"{number:.{digits}g}" if math.isfinite(number) else "–"


def seconds(duration: float) -> str:
    """A duration in ms or s."""
    return f"{duration * 1e3:.0f} ms" if duration < 1.0 else f"{duration:.1f} s"


def to(difference: float) -> str:
    """How closely things agree: "to 3e-09", or "exactly"."""
    return f"to {difference:.0e}" if difference > 0.0 else "exactly"


def one_line(text: str, limit: int = 200) -> str:
    """Text on one line, cut at ``limit`` characters."""
    joined = " ".join(text.split())
    return joined if len(joined) <= limit else joined[: limit - 1] + "…"


def worst_residual(solution: StepSolution) -> tuple[str, Residual | None]:
    """The largest residual of all certificates, and the name of its certificate.

    A residual that is not a number counts as the largest.
    """
    found: tuple[str, Residual | None] = ("", None)
    for name, held in solution.certificates.items():
        for residual in held:
            if found[1] is None or _size(residual) > _size(found[1]):
                found = (name, residual)
    return found


def _size(residual: Residual) -> float:
    return math.inf if math.isnan(residual.value) else residual.value


def verdict(solution: StepSolution) -> str:
    """The certificates in a few characters: "ok 7e-11" or "NOT OK 2e-05 momentum"."""
    name, worst = worst_residual(solution)
    if worst is None:
        return "none"
    if solution.ok:
        return f"ok {worst.value:.0e}"
    where = f"{name} " if name.startswith("classic") else ""
    return f"NOT OK {worst.value:.0e} {where}{worst.name}"


def failure(error: CdoptError) -> str:
    """Why a backend has no answer, in its own words and on one line."""
    if isinstance(error, SolveFailed):
        proven = "infeasible, with proof" if error.proof is not None else "no answer"
        return f"{proven}; the solver says {one_line(error.status, 90)!r}"
    return one_line(str(error))


def proof_in_words(proof: InfeasibilityProof) -> str:
    """A proof of infeasibility for a newcomer: what it is, and where to look."""
    used = np.flatnonzero(np.abs(proof.vector) > 1e-9 * np.abs(proof.vector).max(initial=0.0))
    listed = ", ".join(f"{i}: {proof.vector[i]:.4g}" for i in used[:_LISTED])
    more = f" and {used.size - _LISTED} more" if used.size > _LISTED else ""
    if proof.kind == "truss":
        return (
            "Proven infeasible: no pushing contact forces deliver this load. The motion u "
            f"({listed}{more}; by degree of freedom) closes no contact, yet the load lets go "
            f"along it: contact_load @ u = {proof.value:.3g} J < 0, while contact forces f >= 0 "
            f"would give f @ (B u) >= 0. Violation of B u >= 0: {proof.violation:.0e}."
        )
    return (
        "Proven infeasible: no velocity keeps all contacts from penetrating. Weigh the contacts "
        f"by g ({listed}{more}; by contact): then g @ B = 0, so their weighted gap rate is zero "
        f"whatever the bodies do, yet the step asks it to be at least {-proof.value:.3g} m/s. "
        f"Violation of g @ B = 0: {proof.violation:.0e}."
    )


def plain(value: Any) -> Any:
    """A value that strict JSON can hold: arrays as lists, numbers that are not finite as null."""
    if isinstance(value, dict):
        return {str(key): plain(entry) for key, entry in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(entry) for entry in value]
    if isinstance(value, np.ndarray):
        return plain(value.tolist())
    if isinstance(value, np.generic):
        return plain(value.item())
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    return value if isinstance(value, (str, int, bool, type(None))) else repr(value)
