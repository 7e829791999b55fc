"""The quantities of references, and how each is measured from a solution.

============================  =================================================================
f_compatible (nc,)            compatible forces, N; of a truss, its forces
f_max_compatible              the largest of them, N
loaded_contacts               how many of them are above 1e-6 of the largest
f_classic (nc,)               classic contact dynamics forces, N; stated only where unique
v_next (nv,)                  velocity at the end of the step, m/s and rad/s
contact_sum (nv,)             Bᵀf, N and N·m; with N and p alone N f (nc,), m/s
base_reactions (bodies, 2|3)  force of all contacts on each body that cannot move, N
supported_weight              force along the last axis that fixed things exert on free ones, N
v_next_coulomb (nv,)          v⁺ of a solution with friction under Coulomb's law
v_next_associated (nv,)       v⁺ under the associated law
rates_associated (nc d,)      N f of all rows under the associated law, m/s
nullity                       dimension of null(Bᵀ), that is of the forces that do nothing
============================  =================================================================
"""

from __future__ import annotations

from typing import Any

import numpy as np

from cdopt._util import checks
from cdopt._util.checks import BoolArray, FloatArray
from cdopt._util.errors import InvalidInput, Unsupported
from cdopt.problem import LAWS, frictional_data
from cdopt.problem.solution import StepSolution
from cdopt.problem.step import Step

_LOADED = 1e-6  # share of the largest force above which a contact counts as loaded
_DENSE_LIMIT = 3000  # the nullity is computed by dense linear algebra


def measure(
    quantity: str, solution: StepSolution, step: Step | None, gradient: Any
) -> float | FloatArray:
    """The value of a quantity in a solution.

    Parameters
    ----------
    quantity : its name, see the table above.
    solution : of CompatibleCD for a step, of FrictionalCD for one with friction, of NoTensionTruss
        for a truss.
    step : the contact step, or None for a truss.
    gradient : B (nc, nv), or N (nc, nc) if only that is known.

    Raises
    ------
    InvalidInput : no such quantity, or the solution does not have it.
    Unsupported : the problem is too large, or lacks the bodies to measure it.
    """
    base, _, law = checks.text("quantity", quantity).rpartition("_")
    checks.instance("solution", solution, StepSolution)
    if step is not None:
        checks.instance("step", step, Step)
    if law in LAWS:
        return _with_friction(base, law, solution, step)
    if quantity == "nullity":
        return nullity(gradient)
    if quantity == "f_classic" and solution.classic is not None:
        return _present("f_classic", solution.classic.f)
    if quantity == "v_next":
        return _present("v_next", solution.v_next)
    f = _present("f", solution.f)
    if quantity in ("f_compatible", "f_classic"):
        return f
    if quantity == "f_max_compatible":
        return float(f.max(initial=0.0))
    if quantity == "loaded_contacts":
        return float(np.count_nonzero(f > _LOADED * f.max(initial=0.0)))
    if quantity == "contact_sum":
        return np.asarray(checks.matrix("gradient", gradient, f.size, None).T @ f)
    if quantity not in ("base_reactions", "supported_weight"):
        raise InvalidInput("quantity", repr(quantity), "one of cdopt.bank.quantities")
    if step is None:
        raise Unsupported(quantity, "a truss has no bodies")
    return base_reactions(step, f) if quantity == "base_reactions" else supported(step, f)


def _with_friction(
    quantity: str, law: str, solution: StepSolution, step: Step | None
) -> FloatArray:
    """v⁺, or N f of all rows, of a solution under a law."""
    if step is None or step.friction is None:
        raise InvalidInput("quantity", f"of the law {law!r}", "one of a step with friction")
    if solution.provenance.get("law") != law:
        found = checks.describe(solution.provenance.get("law"))
        raise InvalidInput("solution", f"the law {found}", f"a solution under {law!r}")
    if quantity == "v_next":
        return _present("v_next", solution.v_next)
    columns = [_present("gap", solution.gap), _present("slip", solution.slip)]
    columns += [] if solution.spin is None else [solution.spin]
    rates = np.column_stack(columns).ravel()
    return np.asarray(rates - frictional_data(step, law).p)


def nullity(gradient: Any) -> float:
    """Dimension of null(Bᵀ), for B (nc, nv) or for N (nc, nc).

    Raises
    ------
    InvalidInput : no finite matrix.
    Unsupported : too large for dense linear algebra.
    """
    gradient = checks.matrix("gradient", gradient, None, None)
    if max(gradient.shape) > _DENSE_LIMIT:
        raise Unsupported("nullity", f"a dense rank of shape {gradient.shape} takes too long")
    if min(gradient.shape) == 0:
        return float(gradient.shape[0])
    dense = gradient.toarray()
    norms = np.linalg.norm(dense, axis=1)  # rows may have different units
    scaled = dense / np.where(norms > 0.0, norms, 1.0)[:, None]
    return float(gradient.shape[0] - np.linalg.matrix_rank(scaled))


def base_reactions(step: Step, f: FloatArray) -> FloatArray:
    """Force of all contacts on each body without degrees of freedom (bodies, 2 or 3), N."""
    total = checks.instance("step", step, Step).body_forces(f)
    return total[~_movable(step, total.shape[0])]


def supported(step: Step, f: FloatArray) -> float:
    """Force along the last axis that fixed bodies and the world exert on movable ones, N."""
    f = checks.vector("f", f, checks.instance("step", step, Step).nc, "N")
    if step.bodies is None or step.normals is None:
        raise Unsupported("supported_weight", "the step has no bodies or normals")
    movable = np.append(_movable(step, int(step.bodies.max(initial=-1)) + 1), False)[step.bodies]
    sign = movable[:, 1].astype(float) - movable[:, 0].astype(float)
    return float(sign * f @ step.normals[:, -1])


def _movable(step: Step, count: int) -> BoolArray:
    """(count,) whether each body has degrees of freedom."""
    if step.dof_body is None:
        raise Unsupported(
            "the reactions", "the step has no dof_body, which tells the bodies that can move"
        )
    return np.isin(np.arange(count), step.dof_body)


def _present(name: str, value: FloatArray | None) -> FloatArray:
    if value is None:
        raise InvalidInput("solution", f"no {name}", f"a solution with {name}")
    return value
