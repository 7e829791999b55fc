"""Texts about solutions, failures and proofs of infeasibility."""

from __future__ import annotations

import math

import numpy as np

from cdopt._util.errors import CdoptError, InfeasibilityProof, SolveFailed
from cdopt._util.formatting import beside, one_line
from cdopt.problem.solution import StepSolution

_LISTED = 8  # entries of a proof that are written out


def agreement(difference: float) -> str:
    """How closely things agree: "to 3e-09", or "exactly"."""
    return f"to {difference:.0e}" if difference > 0.0 else "exactly"


def verdict(solution: StepSolution) -> str:
    """The certificates in a few characters: "ok 7e-11" or "NOT OK 2e-05 momentum"."""
    residuals = [
        (math.inf if math.isnan(residual.value) else residual.value, certificate, residual)
        for certificate, residuals in solution.certificates.items()
        for residual in residuals
    ]
    if not residuals:
        return "none"
    _, certificate, worst = max(residuals, key=lambda entry: entry[0])
    limit = solution.certificates[certificate].tol
    if solution.ok:
        return f"ok {beside(worst.value, limit)}"
    where = f"{certificate} " if certificate.startswith("classic") else ""
    return f"NOT OK {beside(worst.value, limit)} {where}{worst.name}"


def failure(error: CdoptError) -> str:
    """Why a backend has no answer, on one line."""
    if isinstance(error, SolveFailed):
        kind = "infeasible, with proof" if error.proof is not None else "no answer"
        return f"{kind}; the solver says {one_line(error.status, 90)!r}"
    return one_line(str(error))


def proof_text(proof: InfeasibilityProof) -> str:
    """A proof of infeasibility for a newcomer: what it shows, and which entries it uses."""
    used = np.flatnonzero(np.abs(proof.vector) > 1e-9 * np.abs(proof.vector).max(initial=0.0))
    entries = ", ".join(f"{i}: {proof.vector[i]:,.4g}" for i in used[:_LISTED])
    if used.size > _LISTED:
        entries += f" and {used.size - _LISTED} more"
    if proof.kind == "truss":
        return (
            "Proven infeasible: no pushing contact forces deliver this load. The motion u "
            f"({entries}; by degree of freedom) closes no contact, yet the load drives it: "
            f"contact_load @ u = {proof.value:.3g} J < 0, while contact forces f >= 0 would give "
            f"f @ (B u) >= 0. Violation of B u >= 0: {proof.violation:.0e}."
        )
    if proof.kind == "limit load":
        return (
            "Proven infeasible: no forces in the friction cones balance the dead load, whatever "
            f"the multiple of the live load. The motion v ({entries}; by degree of freedom) needs "
            "no work of the contacts or of the live load, yet the dead load drives it: "
            f"-dead @ v = {proof.value:.3g} W < 0. Violation at the contacts: "
            f"{proof.violation:.0e}."
        )
    return (
        "Proven infeasible: no velocity keeps all contacts from penetrating. Weigh the contacts "
        f"by g ({entries}; by contact): then g @ B = 0, so their weighted gap rate is zero "
        f"for every motion, yet the step requires it to be at least {-proof.value:.3g} m/s. "
        f"Violation of g @ B = 0: {proof.violation:.0e}."
    )
