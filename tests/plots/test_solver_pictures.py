"""Complementarity and convergence of solvers; every picture is legible."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from pictures import SOLVERS, bounded, by_gid, compared, legible, panels

import cdopt
from cdopt import bank, plots
from cdopt.backends import APGD, PGS, Newton
from cdopt.problem import rigid_data

# --- complementarity -------------------------------------------------------------------


def test_complementarity_places_every_contact() -> None:
    comparison = compared("pyramid-falling", "clarabel", "pgs")
    step, data = comparison.step, rigid_data(comparison.step)
    figure = plots.complementarity(step, comparison, comparison.compatible)
    for axes, s in zip(panels(figure), [*comparison, comparison.compatible], strict=True):
        marks = [line for line in axes.lines if line.get_gid() in ("contacts", "negative")]
        x = np.concatenate([m.get_xdata() for m in marks])
        y = np.concatenate([m.get_ydata() for m in marks])
        assert x.size == step.nc
        edge = min(x.min(), y.min())
        expected = np.maximum(np.abs(s.f / data.force), edge)
        np.testing.assert_allclose(np.sort(x), np.sort(expected))
        expected = np.maximum(np.abs(s.gap / data.speed), edge)
        np.testing.assert_allclose(np.sort(y), np.sort(expected))
        assert axes.get_xscale() == axes.get_yscale() == "log"
        blunt = np.minimum(s.f / data.force, s.gap / data.speed).max()
        assert f"min ≤ {blunt:.0e}" in [t.get_text() for t in axes.texts]
    legible(figure)


def test_complementarity_of_exact_answers_lies_on_the_edge() -> None:
    solution = compared("table")[0]
    exact = dataclasses.replace(solution, f=np.full(4, 2.5), gap=np.zeros(4))
    axes = panels(plots.complementarity(compared("table").step, [exact]))[0]
    assert "min = 0" in [t.get_text() for t in axes.texts]
    points = by_gid(axes, "contacts").get_ydata()
    assert np.all(points == points[0])
    assert axes.get_yticklabels()[0].get_text() == "0"
    pulled = dataclasses.replace(solution, f=np.array([2.5, -2.5, 2.5, 2.5]), gap=np.zeros(4))
    axes = panels(plots.complementarity(compared("table").step, [pulled]))[0]
    assert by_gid(axes, "negative").get_markerfacecolor() == "none"


def test_complementarity_needs_gaps() -> None:
    silent = dataclasses.replace(compared("table")[0], gap=None)
    with pytest.raises(cdopt.InvalidInput, match="none with gaps"):
        plots.complementarity(compared("table").step, [silent])


# --- convergence -----------------------------------------------------------------------


@pytest.mark.slow
def test_convergence_draws_the_histories() -> None:
    problem = cdopt.ClassicCD(bank.load("pyramid-hooke").step)
    backends = [PGS(history=True), PGS(history=True, order="reversed"), APGD(history=True)]
    solutions = [problem.solve(b) for b in backends]
    figure = plots.convergence([*solutions, compared("pyramid-hooke", "clarabel")[0]])
    by_count, by_time = panels(figure)
    for axes in (by_count, by_time):
        lines = [line for line in axes.lines if line.get_gid() == "history"]
        for line, solution in zip(lines, solutions, strict=True):
            np.testing.assert_array_equal(line.get_ydata(), solution.raw.residuals)
    lines = [line for line in by_time.lines if line.get_gid() == "history"]
    for line, solution in zip(lines, solutions, strict=True):
        assert line.get_xdata()[-1] == pytest.approx(solution.timings["solve"])
    assert lines[0].get_linestyle() != lines[1].get_linestyle()
    key = [t.get_text() for t in figure.axes[2].get_legend().get_texts()]
    assert key == ["PGS", "PGS\norder reversed", "APGD", "Clarabel: no history"]
    assert {line.get_ydata()[0] for line in by_count.lines if line.get_gid() == "goal"} == {1e-8}
    assert by_count.get_xlabel() == "iteration"
    assert "[s]" in by_time.get_xlabel()
    legible(figure)


def test_convergence_skips_a_start_that_is_not_known() -> None:
    step = bank.load("pyramid-hooke").step
    classic = cdopt.ClassicCD(step).solve(Newton(history=True))
    sharp = cdopt.CompatibleCD(step).solve(Newton(history=True))
    lines = plots.convergence([classic, sharp]).axes[0].lines
    drawn = [line for line in lines if line.get_gid() == "history"]
    finite = classic.raw.residuals[np.isfinite(classic.raw.residuals)]
    np.testing.assert_array_equal(drawn[0].get_ydata(), finite)
    assert drawn[0].get_xdata()[0] == 1.0
    np.testing.assert_array_equal(drawn[1].get_ydata(), sharp.raw.residuals)


def test_convergence_needs_a_history() -> None:
    with pytest.raises(cdopt.InvalidInput, match="history=True"):
        plots.convergence(compared("table", *SOLVERS))


@pytest.mark.slow
@pytest.mark.parametrize("name", ["beam-stiff-middle", "table", "crystal-2d", "pyramid-hooke"])
def test_every_picture_can_be_read(name: str) -> None:
    comparison, report = compared(name, "clarabel", "pgs", "apgd"), bounded(name)
    step, compatible = comparison.step, comparison.compatible
    texts = {"title": f"{name}: a title of some length", "subtitle": report.summary}
    legible(plots.bounds_story(report, comparison, compatible, texts["title"]))
    legible(plots.force_chains(step, comparison, compatible, report=report, **texts))
    legible(plots.force_histograms(comparison, compatible, **texts))
    legible(plots.complementarity(step, comparison, compatible, **texts))
    legible(plots.force_intervals(report, comparison, compatible, order="width", **texts))
