"""One table: a requested accuracy and a time limit in each solver's own words, and their meaning.

Nothing here acts unless an ``accuracy`` or a time limit is asked for: solver defaults are not
overridden. The
``rewritten`` column says which defaults CVXPY itself changes on the way to the solver, so that
"OSQP through CVXPY" is not mistaken for OSQP as its authors ship it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

_LEAST_SECONDS = 1e-6  # some solvers take zero for no limit


@dataclass(frozen=True)
class AccuracyWords:
    """How one solver spells accuracy and a time limit.

    Attributes
    ----------
    options : names of the settings that all receive the requested number.
    meaning : what the solver promises when it meets them.
    rewritten : defaults that CVXPY changes, in words.
    extra : settings that must change with it for the request to make sense.
    nested : the setting that holds these options as a dictionary, when they are not at the top.
    seconds : name of the setting that limits the time, beside ``options``; empty for none.
    """

    options: tuple[str, ...]
    meaning: str
    rewritten: str = ""
    extra: tuple[tuple[str, object], ...] = ()
    nested: str = ""
    seconds: str = ""


ACCURACY: dict[str, AccuracyWords] = {
    "clarabel": AccuracyWords(
        ("tol_gap_abs", "tol_gap_rel", "tol_feas"),
        "duality gap and relative infeasibility",
        seconds="time_limit",
    ),
    "osqp": AccuracyWords(
        ("eps_abs", "eps_rel"),
        "largest primal and dual residual, absolute plus relative; no duality gap by default",
        "eps_abs and eps_rel 1e-3 to 1e-5, max_iter 4,000 to 10,000, polishing on",
        (("max_iter", 200_000),),
        seconds="time_limit",
    ),
    "scs": AccuracyWords(
        ("eps_abs", "eps_rel"),
        "largest primal and dual residual and duality gap, absolute plus relative",
        "eps_abs and eps_rel 1e-4 to 1e-5",
        (("max_iters", 500_000),),
        seconds="time_limit_secs",
    ),
    "piqp": AccuracyWords(
        ("eps_abs", "eps_rel", "eps_duality_gap_abs", "eps_duality_gap_rel"),
        "infeasibility and duality gap, absolute plus relative",
    ),
    "proxqp": AccuracyWords(
        ("eps_abs", "eps_rel"),
        "largest primal and dual residual, absolute plus relative",
        "dense matrices, eps_abs 1e-8, eps_rel 0, mu_eq 1e-3, mu_in 1e-1",
    ),
    "highs": AccuracyWords(
        ("primal_feasibility_tolerance", "dual_feasibility_tolerance"),
        "absolute feasibility of an active set; its regularised Hessian is not part of it",
        seconds="time_limit",
    ),
    "daqp": AccuracyWords(
        ("primal_tol", "dual_tol"),
        "absolute feasibility of an active set; exact otherwise",
        "eps_prox 0 to 1e-5 where the Hessian is singular: a proximal iteration",
    ),
    "qoco": AccuracyWords(
        ("abstol", "reltol"), "residuals and duality gap, absolute plus relative"
    ),
    "moreau": AccuracyWords(
        ("tol_gap_abs", "tol_gap_rel", "tol_feas"),
        "duality gap and relative infeasibility",
        nested="ipm_settings",
        seconds="time_limit",
    ),
}


def options_for(name: str, accuracy: float) -> dict[str, object] | None:
    """The solver's settings for a requested accuracy; None when no translation is known."""
    words = ACCURACY.get(name)
    if words is None:
        return None
    asked: dict[str, object] = dict.fromkeys(words.options, accuracy)
    if words.nested:
        asked = {words.nested: asked}
    return {**asked, **dict(words.extra)}


def time_limit_for(name: str, settings: Mapping[str, object], seconds: float) -> dict[str, object]:
    """The solver's setting for a time limit, the smaller where ``settings`` have one of their own.

    Empty for a solver that knows no time limit.
    """
    words = ACCURACY.get(name)
    if words is None or not words.seconds:
        return {}
    own = settings.get(words.seconds)
    if isinstance(own, (int, float)) and 0.0 < own < seconds:
        return {}
    return {words.seconds: max(seconds, _LEAST_SECONDS)}
