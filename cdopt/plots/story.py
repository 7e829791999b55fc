"""The picture that suits the size of a problem: of several solutions, or of its force bounds."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from cdopt._util.formatting import count
from cdopt.hyperstatic import Indeterminacy
from cdopt.plots.bars import force_bars
from cdopt.plots.chains import force_chains
from cdopt.plots.distributions import force_distributions
from cdopt.plots.intervals import force_intervals
from cdopt.problem.contact_step import Step
from cdopt.problem.solution import StepSolution
from cdopt.scene import Scene, State
from cdopt.study.comparison import Comparison
from cdopt.study.solution_set import DISAGREE, SolutionSet

if TYPE_CHECKING:
    from matplotlib.figure import Figure

BARS_UP_TO = 12  # contacts
CHAINS_UP_TO = 3000


def story(
    step: Step | None,
    comparison: SolutionSet,
    title: str | None = None,
    subtitle: str | None = None,
    bodies: tuple[Scene, State] | None = None,
) -> Figure:
    """The forces of several solvers on one problem, in the picture that suits its size.

    Up to 12 contacts the force at each contact; with points and normals, and up to 3000
    contacts, force chains; otherwise sorted forces.

    Parameters
    ----------
    step : the step; None for a truss.
    comparison : what ``compare`` returned, or another set of solutions.
    title, subtitle : by default a summary of the comparison; empty for none.
    bodies : the scene of the step and its state, drawn behind force chains; None draws only the
        discs and spheres that the contacts tell of.

    Raises
    ------
    InvalidInput : no solution has forces.
    """
    compatible = comparison.compatible if isinstance(comparison, Comparison) else None
    summary = comparison.summary
    if not isinstance(comparison, Comparison) and len(comparison) > 1:
        summary = f"{comparison.title}. {summary}"
    texts: dict[str, Any] = {
        "title": heading(comparison) if title is None else title,
        "subtitle": summary if subtitle is None else subtitle,
    }
    sizes = [s.f.shape[0] for s in (*comparison, compatible) if s is not None and s.f is not None]
    contacts = step.nc if step is not None else max(sizes, default=0)
    drawable = step is not None and step.points is not None and step.normals is not None
    if contacts <= BARS_UP_TO:
        return force_bars(comparison, compatible, step, **texts)
    if step is not None and drawable and contacts <= CHAINS_UP_TO:
        return force_chains(step, comparison, compatible, bodies=bodies, **texts)
    return force_distributions(comparison, compatible, **texts)


def bounds_story(
    report: Indeterminacy,
    solutions: Sequence[StepSolution] = (),
    compatible: StepSolution | None = None,
    title: str = "",
    subtitle: str | None = None,
) -> Figure:
    """What is not determined, in the picture that suits the number of contacts.

    Up to 12 contacts the interval and every solver's force at each; above, intervals in the
    order of the compatible forces.

    Parameters
    ----------
    report : what ``cdopt.indeterminacy`` returned.
    solutions, compatible : solutions of the same step.
    subtitle : by default the report's summary.

    Raises
    ------
    InvalidInput : no forces to draw at few contacts, no bounds at many, or lengths differ.
    """
    texts: dict[str, Any] = {
        "title": title,
        "subtitle": report.summary if subtitle is None else subtitle,
    }
    if report.nc <= BARS_UP_TO:
        shown = solutions or ([] if compatible is not None else [report.classic])
        return force_bars(shown, compatible, report.step, report=report, **texts)
    return force_intervals(report, solutions, compatible, **texts)


def heading(comparison: SolutionSet) -> str:
    """A title that claims no more than the numbers show."""
    claims = sum(s.claimed for s in comparison)
    if len(comparison) < 2 or claims < 2:
        return comparison.title
    certified = len(comparison.certified)
    ending = "different forces" if comparison.force_spread > DISAGREE else "the same forces"
    if certified < 2:
        ending = f"{certified or 'none'} of them certified"
    return f"One problem, {count(claims, 'solver')} that report success, {ending}"
