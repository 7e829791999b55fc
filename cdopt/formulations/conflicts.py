"""Added constraints that contradict each other or the contact conditions, with a proof.

Each constraint is relaxed by a variable τ ≥ 0 in the unit of its terms, and Σ τ is minimised
under the contact conditions (Chinneck, *Feasibility and Infeasibility in
Optimization*, 2008, chapter 6). By weak duality the multipliers y of the relaxed constraints give a
bound for all answers:

    forces f ∈ K     yᵀ(constraints) = rᵀf + c with r ∈ K*, so that it is at least c
    motions w        yᵀ(constraints) = fᵀ(G w + p) + c with f ∈ K, so that it is at least c

If c is positive, no answer satisfies the constraints with nonzero multipliers.
"""

from __future__ import annotations

import warnings

import cvxpy as cp
import numpy as np

from cdopt._util.checks import read_only
from cdopt._util.errors import InfeasibilityProof
from cdopt._util.formatting import one_line
from cdopt.formulations.extension import Addition, optimality, size_of_terms
from cdopt.formulations.printing import units
from cdopt.formulations.statement import Statement

_CLEAR = 1e-6  # a bound this clear of zero, and a violation this much smaller, make a proof
_SHARE = 1e-6  # of the largest multiplier: constraints below it take no part
_LISTED, _LENGTH = 6, 70  # constraints that are named, and characters of each
KIND = "added constraints"


def conflict(statement: Statement) -> tuple[InfeasibilityProof, str] | None:
    """A proof that no answer satisfies the added constraints, and their text; None without one."""
    addition = statement.addition
    slacks = [cp.Variable(nonneg=True) for _ in addition.constraints]
    stated = list(addition.stated)
    for slack, place in zip(slacks, addition.main, strict=True):
        size = max(size_of_terms(a, statement.own.values()) for a in stated[place].args)
        relaxed = _relaxed(stated[place], slack * (size or 1.0))
        if relaxed is None:
            return None
        stated[place] = relaxed
    flat = [one for entry in stated for one in (entry if isinstance(entry, list) else [entry])]
    total = cp.sum(cp.hstack(slacks))
    _ = statement.problem  # which sets parameters
    own = [c.object for c in statement.conditions if c.object is not None]
    problem = cp.Problem(cp.Minimize(total), [*own, *flat])
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            problem.solve(solver="CLARABEL")
    except cp.SolverError:
        return None
    if problem.status not in cp.settings.SOLUTION_PRESENT or not total.value > _CLEAR:
        return None
    relaxed = Addition(stated=tuple(flat), costs=(total,))
    conditions = optimality(relaxed, {v.id: np.ones(v.size) for v in statement.own.values()}, 1.0)
    if conditions is None:
        return None
    bound, vector, violation = statement.weak_duality(conditions.gradient, conditions.constant)
    violation = max(violation, *(r.value for r in conditions.residuals if r.name != KIND))
    if not (bound > _CLEAR and violation <= _CLEAR * max(bound, 1.0)):
        return None
    weight = [_multiplier(stated[place]) for place in addition.main]
    names = [
        one_line(statement.in_words(constraint), _LENGTH)
        for constraint, y in zip(addition.constraints, weight, strict=True)
        if y > _SHARE * max(weight)
    ]
    more = f" and {len(names) - _LISTED} more" if len(names) > _LISTED else ""
    listed = "; ".join(names[:_LISTED]) + more
    physical = ", ".join(units(names[:_LISTED]))
    listed += f" ({physical})" if physical else ""
    return InfeasibilityProof(KIND, read_only(vector), bound, violation), listed


def _relaxed(
    constraint: cp.Constraint, slack: cp.Expression
) -> cp.Constraint | list[cp.Constraint] | None:
    """The constraint relaxed by ``slack``; None for a cone that cannot be relaxed."""
    if isinstance(constraint, cp.constraints.Inequality | cp.constraints.NonPos):
        return constraint.expr <= slack
    if isinstance(constraint, cp.constraints.Equality | cp.constraints.Zero):
        return [constraint.expr <= slack, -constraint.expr <= slack]
    if isinstance(constraint, cp.constraints.NonNeg):
        return -constraint.expr <= slack
    if isinstance(constraint, cp.SOC):
        return cp.SOC(constraint.args[0] + slack, constraint.args[1], axis=constraint.axis)
    return None


def _multiplier(entry: cp.Constraint | list[cp.Constraint]) -> float:
    """The largest multiplier of a relaxed constraint."""
    several = entry if isinstance(entry, list) else [entry]
    values = [v for one in several for v in one.dual_variables if v.value is not None]
    return max((float(np.abs(v.value).max(initial=0.0)) for v in values), default=0.0)
