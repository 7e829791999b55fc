"""``of``, ``jvp`` and ``vjp``: derivatives of the answer of any formulation."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from cdopt._util import checks
from cdopt._util.checks import FloatArray
from cdopt._util.errors import InvalidInput, Unsupported
from cdopt.formulations import (
    ClassicCD,
    CompatibleCD,
    CompatibleFriction,
    CompliantCD,
    FrictionalCD,
    NoTensionTruss,
    SoftCD,
    VariationalStep,
)
from cdopt.gradients.compatible import frictionless, with_friction
from cdopt.gradients.derivatives import KINKS, Derivatives, StepDerivatives
from cdopt.gradients.elastic import VariationalDerivatives, compliant, soft
from cdopt.gradients.parameters import StepParameters
from cdopt.gradients.static import TrussDerivatives
from cdopt.gradients.step_tangent import StepTangent
from cdopt.hyperstatic.indeterminacy import resting_inside
from cdopt.hyperstatic.sensitivity import require_certified
from cdopt.problem import (
    ContactProblem,
    ContactStep,
    StepSolution,
    frictional_data,
    rigid_data,
    with_matrices,
)

_TOL = 1e-7
_ZERO = 1e-9  # of the local load, below which forces are zero


def rows_of(solution: StepSolution, joints: bool) -> FloatArray:
    """(rows + nj,) N, the forces of a solution as the rows of its step."""
    if solution.f is None:
        raise InvalidInput("solution", repr(solution), "a solution with forces")
    parts = [solution.f[:, None]]
    parts += [x for x in (solution.f_t, solution.f_r) if x is not None]
    rows = np.hstack(parts).ravel()
    if joints and solution.joint_forces is not None:
        rows = np.append(rows, solution.joint_forces)
    return rows


def of(
    formulation: Any,
    solution: StepSolution | None = None,
    *,
    on_kink: str = "refuse",
    tol: float = _TOL,
) -> Derivatives:
    """The derivatives of the answer of a formulation, both ways, by one implicit differentiation.

    Parameters
    ----------
    formulation : ``ClassicCD``, ``FrictionalCD`` of either law, ``CompatibleCD``,
        ``CompatibleFriction``, ``CompliantCD``, ``SoftCD``, ``VariationalStep``,
        ``NoTensionTruss`` or ``QuasiStatic``.
    solution : of it, certified; of ``CompatibleFriction`` that of its motion. By default it is
        solved here.
    on_kink : what ``jvp`` does where derivatives depend on the direction, as at a contact that just
        touches: "refuse", or "one-sided" for the derivative along the direction.
    tol : share of the local speed within which a contact is at a kink.

    Returns
    -------
    Derivatives, with ``jvp``, ``vjp``, ``inputs``, ``outputs`` and ``kinks``.

    Raises
    ------
    InvalidInput : a bad argument, or a solution of another problem.
    SolveFailed : the solution is not certified.
    Unsupported : a step known only by N and p.

    Notes
    -----
    v⁺ and Bᵀf have derivatives even where f is not unique; nothing is regularised. Bonnans &
    Shapiro, *Perturbation Analysis of Optimization Problems* (2000), section 5.2.

    >>> import cdopt
    >>> beam = cdopt.CompatibleCD(cdopt.bank.load("beam-uniform").step)
    >>> cdopt.gradients.of(beam).jvp(stiffness=[0.0, 1.0, 0.0])["f"].round(4)
    array([-1.1111,  2.2222, -1.1111])
    """
    on_kink = checks.choice("on_kink", on_kink, KINKS)
    tol = checks.scalar("tol", tol, above=0.0, at_most=1e-3)
    checks.instance("formulation", formulation, *_KINDS, NoTensionTruss)
    stated = formulation.problem if isinstance(formulation, CompatibleFriction) else formulation
    answer = require_certified(stated.solve() if solution is None else solution)
    if isinstance(formulation, NoTensionTruss):
        return TrussDerivatives(formulation, answer, on_kink)
    with_matrices(stated.step, "derivatives")
    return next(make for kind, make in _KINDS.items() if isinstance(formulation, kind))(
        formulation, answer, on_kink, tol
    )


def _given(formulation: Any) -> ContactStep:
    """The step of a formulation, as it was given."""
    step: ContactStep = formulation.step
    return step if formulation.joints is None else formulation.joints.given


def _rigid(
    formulation: Any, data: ContactProblem, answer: StepSolution, *how: Any
) -> StepDerivatives:
    """Derivatives of a rigid step on ``data``, those of its contacts."""
    on_kink, tol, *more = how
    step = _given(formulation)
    J = None if step.joints is None else step.joints.J
    motion = np.asarray(answer.v_next)
    if motion.shape != (step.nv,):
        raise InvalidInput("solution", repr(answer), "a solution of this step")
    tangent = StepTangent(data, motion, rows_of(answer, J is not None), J, tol, *more)
    return StepDerivatives(tangent, StepParameters(tangent, step), step, on_kink)


def _require_rigid(formulation: CompatibleCD | CompatibleFriction) -> None:
    if formulation.springs is not None:
        why = "it takes the joints as rigid, and some have a finite stiffness"
        raise Unsupported("derivatives of compatible forces", why, ("cdopt.sensitivity",))


def _classic(formulation: ClassicCD, answer: StepSolution, *how: Any) -> StepDerivatives:
    data = formulation.data if formulation.joints is None else rigid_data(formulation.joints.given)
    return _rigid(formulation, data, answer, *how)


def _frictional(formulation: FrictionalCD, answer: StepSolution, *how: Any) -> StepDerivatives:
    step, law = _given(formulation), formulation.law
    inside: Any = None
    if step.friction is not None and not step.friction.moments:
        inside = partial(resting_inside, step, law, answer, _ZERO)
    return _rigid(formulation, frictional_data(step, law), answer, *how, inside)


def _compatible(formulation: CompatibleCD, answer: StepSolution, *how: Any) -> Derivatives:
    if formulation.epsilon is not None:
        why = "it is a step of elastic contacts"
        raise Unsupported("derivatives of the one-step method", why, ("CompliantCD",))
    _require_rigid(formulation)
    if answer.classic is None or answer.f is None or answer.u is None:
        raise InvalidInput("solution", repr(answer), "a solution of CompatibleCD")
    return frictionless(formulation, answer, _classic(formulation.classic_cd, answer.classic, *how))


def _rough(formulation: CompatibleFriction, answer: StepSolution, *how: Any) -> Derivatives:
    _require_rigid(formulation)
    return with_friction(
        formulation, answer, _frictional(formulation.problem, answer, *how), how[1]
    )


_KINDS: dict[Any, Callable[..., Derivatives]] = {
    ClassicCD: _classic,
    FrictionalCD: _frictional,
    CompatibleCD: _compatible,
    CompatibleFriction: _rough,
    CompliantCD: compliant,
    SoftCD: soft,
    VariationalStep: VariationalDerivatives,
}


def jvp(
    formulation: Any,
    solution: StepSolution | None = None,
    *,
    on_kink: str = "refuse",
    **directions: Any,
) -> dict[str, FloatArray]:
    """Changes of the results of a formulation for changes of its data.

    ``solution`` and ``on_kink`` are those of ``of``, ``directions`` those of ``Derivatives.jvp``.
    """
    return of(formulation, solution, on_kink=on_kink).jvp(**directions)


def vjp(
    formulation: Any, solution: StepSolution | None = None, **cotangents: Any
) -> dict[str, Any]:
    """Derivatives of Σ cotangent · result of a formulation with respect to its data.

    ``solution`` is that of ``of``, ``cotangents`` those of ``Derivatives.vjp``.

    >>> import cdopt
    >>> ball = cdopt.ContactStep([[2.0]], [[1.0]], [0.0], [0.0], [-20.0], 0.01)
    >>> gradient = cdopt.gradients.vjp(cdopt.ClassicCD(ball), load=[1.0])
    >>> gradient["F_ext"], gradient["v"].round(6)  # the floor bears the weight, and stops the ball
    (array([-1.]), array([-200.]))
    """
    return of(formulation, solution).vjp(**cotangents)
