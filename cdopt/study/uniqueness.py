"""Whether different certified forces are different answers, or one answer known badly.

A certificate leaves a small residual of load; where B is badly conditioned, the forces that it
allows differ visibly though they are unique. So the rank decides, as in ``indeterminacy``.
"""

from __future__ import annotations

import numpy as np

from cdopt._util.checks import BoolArray, FloatArray
from cdopt._util.errors import SolveFailed, Unsupported
from cdopt.hyperstatic import Indeterminacy, indeterminacy
from cdopt.problem import RigidStepData, rigid_data
from cdopt.problem.contact_step import Step
from cdopt.problem.scaling import network_parts
from cdopt.problem.solution import StepSolution

_MOST_CONTACTS = 1000  # whose singular values take less than a second
_SECONDS = 10.0


def uniqueness(
    step: Step, classic: StepSolution, loaded: BoolArray, differing: BoolArray, tol: float
) -> str:
    """What follows where certified forces differ at some contacts: the end of a sentence.

    Parameters
    ----------
    step : the step. classic : its sharpest certified classic solution.
    loaded : (nc,) contacts with a force in the mean of the certified answers.
    differing : (nc,) contacts at which the answers differ.
    tol : tolerance of the certificates.
    """
    if _more_forces_than_equations(step, loaded, differing):
        return "the contact forces are not unique"
    report = None
    if step.nc <= _MOST_CONTACTS:
        try:
            report = indeterminacy(step, classic, contacts=[], time_limit=_SECONDS)
        except (SolveFailed, Unsupported):
            report = None
    if report is None:
        return "the contact forces may not be unique (cdopt bounds decides)"
    if np.any(differing & ~report.unique):
        return "the contact forces are not unique"
    return (
        "the contact forces are unique, but badly conditioned (singular values down to "
        f"{_least_singular_value(report):.0e} of the largest): a residual of {tol:.0e} allows "
        "such differences"
    )


def _more_forces_than_equations(step: Step, loaded: BoolArray, differing: BoolArray) -> bool:
    """Whether a part with differing forces has more loaded contacts than degrees of freedom.

    Its loaded contacts then have a self-stress state, a little of which leaves them all loaded.
    """
    data = rigid_data(step)
    if not isinstance(data, RigidStepData):
        return False
    parts = network_parts(data.B[loaded])
    contacts = np.bincount(parts.contact, minlength=parts.count)
    surplus = contacts > np.bincount(parts.dof, minlength=parts.count)
    return bool(np.any(surplus[parts.contact] & differing[loaded]))


def _least_singular_value(report: Indeterminacy) -> float:
    """The least that is not zero over the largest, of the equilibrated B of each part."""
    least = 1.0
    for block in report.blocks:
        values: FloatArray = np.linalg.svd(block.B.toarray(), compute_uv=False)
        positive = values[values > report.rank_tol * values.max(initial=0.0)]
        if positive.size:
            least = min(least, float(positive.min() / positive.max()))
    return least
