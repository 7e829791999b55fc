"""Contact forces from any code: what they miss of the load, and whether two are one answer."""

from __future__ import annotations

from typing import Any

import numpy as np

from cdopt._util import checks
from cdopt._util.checks import FloatArray
from cdopt._util.errors import InvalidInput
from cdopt.formulations import ClassicCD, FrictionalCD
from cdopt.problem.certificate import TOLERANCE, certify
from cdopt.problem.contact_problem import ContactProblem
from cdopt.problem.step import Step
from cdopt.problem.step_problems import LAWS

CLASSIC = "classic"  # the law of steps without friction
SAME = 10.0  # motions within this many tolerances of each other are one
_RESOLVED = 10.0  # errors of at most this many times their round-off are none


def same_answer(
    step: Step, f1: Any, f2: Any, law: str | None = None, *, tol: float = TOLERANCE
) -> bool:
    """Whether two sets of forces are the same answer: admissible, with the same motion.

    Both must be certified with the motion that they cause, and the motions must be equal: Bᵀ(f1 −
    f2) = 0 on every body; with N and p alone N(f1 − f2) = 0. Use it in tests of engines, whose
    forces may change from release to release.

    Parameters
    ----------
    step : the contact step, which may be known only by N and p.
    f1, f2 : (nc,) N, normal forces; or (nc, d) with the tangential ones, the normal one first.
    law : of a step with friction, "coulomb" (default) or "associated".
    tol : of the certificates; motions may differ by ten times ``tol``, relative to local loads (to
        local speeds with N and p alone).

    Returns
    -------
    bool : True if both are certified and cause the same motion.

    Raises
    ------
    InvalidInput : a bad argument.

    >>> import cdopt
    >>> beam = cdopt.bank.load("beam-uniform").step
    >>> cdopt.same_answer(beam, [5, 0, 5], [0, 10, 0])
    True
    >>> cdopt.same_answer(beam, [5, 0, 5], [5, 1, 5])
    False
    """
    law = stated_law(checks.instance("step", step, Step), law)
    tol = checks.scalar("tol", tol, above=0.0, at_most=0.1)
    data = problems_of(step)[law or CLASSIC].data
    rows = []
    for name, value in {"f1": f1, "f2": f2}.items():
        given = checks.array(name, value, "forces (nc,) or (nc, d)")
        given = given[:, None] if given.ndim == 1 else given
        table = checks.numbers(name, given, (step.nc, None), "N")
        last = table.shape[1] if step.friction is None else step.friction.d
        parts = [x if x.shape[1] else None for x in (table[:, 1:last], table[:, last:])]
        rows.append(components(step, table[:, 0], *parts))
    one, other = (forces.ravel() for forces in rows)
    if not all(certify(data, data.velocity(f), f, tol).ok for f in (one, other)):
        return False
    return bool((_apart(data, one, other) <= SAME * tol).all())


def stated_law(step: Step, law: Any) -> str | None:
    """The law of a step's friction; raises InvalidInput for an unknown law or no friction."""
    if law is not None:
        checks.choice("law", law, LAWS)
        if step.friction is None:
            raise InvalidInput("law", repr(law), "None for a step without friction")
        return str(law)
    return None if step.friction is None else LAWS[0]


def components(step: Step, f: Any, f_t: Any, f_r: Any = None) -> FloatArray:
    """(nc, d) N and N·m, zero for None; raises InvalidInput for other shapes."""
    friction, parts = step.friction, [checks.vector("f", f, step.nc, "N")[:, None]]
    many = (0, 0) if friction is None else (friction.d - 1, friction.moments)
    for name, value, width in zip(("f_t", "f_r"), (f_t, f_r), many, strict=True):
        if value is None:
            parts.append(np.zeros((step.nc, width)))
        elif width:
            parts.append(checks.numbers(name, value, (step.nc, width), "N"))
        else:
            why = "friction" if name == "f_t" else "moments"
            raise InvalidInput(name, checks.describe(value), f"None for a step without {why}")
    return np.hstack(parts)


def problems_of(step: Step) -> dict[str, ClassicCD | FrictionalCD]:
    """The step under each law."""
    if step.friction is None:
        return {CLASSIC: ClassicCD(step)}
    return {law: FrictionalCD(step, law) for law in LAWS}


def missed_load(
    data: ContactProblem, motion: FloatArray, rows: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """(nv,) N, Bᵀf − M(v⁺ − v*)/Δt; (nv,) its size beyond round-off over the local load."""
    missed = data.load(rows) - data.mass.times(motion - data.free_motion) / data.dt
    condition = data.scales.local(motion, rows).balance[0]
    error, floor = condition.error, _RESOLVED * condition.round_off
    with np.errstate(divide="ignore", invalid="ignore"):
        share = np.where(error > floor, error / condition.scale, 0.0)
    return missed, share


def _apart(data: ContactProblem, one: FloatArray, other: FloatArray) -> FloatArray:
    """How far the motions of forces (rows,) differ: (nv,), or (rows,) with N and p alone."""
    if data.N is None:
        return missed_load(data, np.asarray(data.velocity(one)), other)[1]
    local, change = data.scales.local(None, one), np.abs(data.N @ (other - one))
    scale = local.speed[data.cones.contact] / data.scales.lever
    with np.errstate(divide="ignore"):
        return np.where(change > _RESOLVED * local.gap_round_off, change / scale, 0.0)
