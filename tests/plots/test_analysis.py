"""Histograms, floor pressure, complementarity and convergence show the numbers they claim."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from pictures import SOLVERS, bounded, by_gid, compared, legible, panels, wedged

import cdopt
from cdopt import bank, plots
from cdopt.backends import APGD, PGS, Newton
from cdopt.plots.pressure import floor_of
from cdopt.problem import rigid_data

# --- histograms ------------------------------------------------------------------------


def test_histograms_count_the_nonzero_forces() -> None:
    comparison = compared("pyramid-hooke", "clarabel", "pgs")
    figure = plots.force_histograms(comparison, comparison.compatible, bins=20)
    top = max(s.f.max() for s in (*comparison, comparison.compatible))
    edges = np.linspace(0.0, top, 21)
    for axes, solution in zip(panels(figure), comparison, strict=True):
        bars = [p for p in axes.patches if hasattr(p, "get_height")]
        loaded = solution.f[solution.f > 1e-3 * top]
        np.testing.assert_array_equal(
            [b.get_height() for b in bars], np.histogram(loaded, edges)[0]
        )
        (outline,) = [p for p in axes.patches if not hasattr(p, "get_height")]
        own = comparison.compatible.f
        expected = np.histogram(own[own > 1e-3 * top], edges)[0]
        np.testing.assert_array_equal(outline.get_data().values, expected)
        assert f"{loaded.size} of 160 loaded" in [t.get_text() for t in axes.texts]
    assert figure.get_supxlabel() == "contact force [N]"
    legible(figure)


def test_histograms_refuse_bad_bins() -> None:
    with pytest.raises(cdopt.InvalidInput, match="bins"):
        plots.force_histograms(compared("table"), bins=0)


# --- floor pressure --------------------------------------------------------------------


def test_pressure_is_the_reaction_on_the_base_spheres() -> None:
    comparison = compared("pyramid-hooke")
    step = comparison.step
    figure = plots.floor_pressure(step, comparison, comparison.compatible)
    shown = [*comparison, comparison.compatible]
    top = max(by_gid(axes, "pressure").get_array().max() for axes in panels(figure))
    for axes, solution in zip(panels(figure), shown, strict=True):
        discs = by_gid(axes, "pressure")
        expected = -step.body_forces(solution.f)[:25, 2]
        np.testing.assert_allclose(discs.get_array(), expected)
        assert discs.get_array().sum() == pytest.approx(30.0)  # the weight above the base
        side = np.arange(5.0)
        y, x = np.meshgrid(side, side, indexing="ij")
        np.testing.assert_allclose(
            discs.get_offsets(), np.column_stack([x.ravel(), y.ravel()]), atol=1e-12
        )
        assert (discs.norm.vmin, discs.norm.vmax) == (0.0, top)
    labels = {axes.get_xlabel() for axes in panels(figure)}
    assert labels == {"", "x [m]"}
    legible(figure)


def test_pressure_in_the_plane_is_bars_and_walls_bear_nothing() -> None:
    comparison = compared("crystal-2d", "clarabel")
    figure = plots.floor_pressure(comparison.step, comparison, comparison.compatible)
    for axes, solution in zip(panels(figure), [*comparison, comparison.compatible], strict=True):
        bars = [p for p in axes.patches if p.get_gid() == "pressure"]
        assert len(bars) == 10  # discs of the lowest row; the side walls are left out
        assert sum(b.get_height() for b in bars) == pytest.approx(76.0, rel=1e-6)
        up = comparison.step.normals[:, 1] == 1.0
        np.testing.assert_allclose(sorted(b.get_height() for b in bars), sorted(solution.f[up]))
    legible(figure)


def test_floor_of_a_table_is_its_feet() -> None:
    floor = floor_of(bank.load("table").step)
    assert floor.places.shape == (4, 3)
    np.testing.assert_allclose(floor.pressure(np.array([1.0, 2.0, 3.0, 4.0])), [1, 2, 3, 4])
    assert floor_of(wedged()).contacts.tolist() == [2]


def test_pressure_needs_a_floor() -> None:
    step = compared("beam-stiff-middle").step
    with pytest.raises(cdopt.InvalidInput, match="no bodies"):
        plots.floor_pressure(step.replace(bodies=None), compared("beam-stiff-middle"))
    sideways = wedged().select([0, 1])
    with pytest.raises(cdopt.InvalidInput, match="nothing fixed below"):
        floor_of(sideways)


def test_pressure_grid_has_methods_down_and_materials_across() -> None:
    methods: dict[str, list] = {"PGS": [], "Compatible": []}
    for material in ("hooke", "species"):
        problem = bank.load(f"pyramid-{material}:n=3")
        classic = cdopt.ClassicCD(problem.step).solve("pgs")
        sharp = cdopt.CompatibleCD(problem.step, problem.power).solve("newton")
        methods["PGS"].append((material, problem.step, classic.f))
        methods["Compatible"].append((material, problem.step, sharp.f))
    figure = plots.floor_pressure_grid(methods)
    grid = [a.get_subplotspec() for a in panels(figure)]
    assert [(g.rowspan.start, g.colspan.start) for g in grid] == [(0, 0), (0, 1), (1, 0), (1, 1)]
    assert [a.get_title(loc="left") for a in panels(figure)] == ["PGS"] * 2 + ["Compatible"] * 2
    norms = {(d.norm.vmin, d.norm.vmax) for d in (by_gid(a, "pressure") for a in panels(figure))}
    assert len(norms) == 1
    legible(figure)
    with pytest.raises(cdopt.InvalidInput, match="same materials"):
        plots.floor_pressure_grid({"PGS": methods["PGS"], "Compatible": methods["Compatible"][:1]})
    with pytest.raises(cdopt.InvalidInput, match="methods"):
        plots.floor_pressure_grid({})


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
    found = [line for line in lines if line.get_gid() == "history"]
    finite = classic.raw.residuals[np.isfinite(classic.raw.residuals)]
    np.testing.assert_array_equal(found[0].get_ydata(), finite)
    assert found[0].get_xdata()[0] == 1.0
    np.testing.assert_array_equal(found[1].get_ydata(), sharp.raw.residuals)


def test_convergence_needs_a_history() -> None:
    with pytest.raises(cdopt.InvalidInput, match="history=True"):
        plots.convergence(compared("table", *SOLVERS))


LARGER = [pytest.param(name, marks=pytest.mark.slow) for name in ("table", "pyramid-hooke")]


@pytest.mark.parametrize("name", ["beam-stiff-middle", "crystal-2d", *LARGER])
def test_every_picture_can_be_read(name: str) -> None:
    comparison, report = compared(name, "clarabel", "pgs", "apgd"), bounded(name)
    step, compatible = comparison.step, comparison.compatible
    words = {"title": f"{name}: a title of some length", "subtitle": report.summary}
    legible(plots.bounds_story(report, comparison, compatible, words["title"]))
    legible(plots.force_chains(step, comparison, compatible, report=report, **words))
    legible(plots.force_histograms(comparison, compatible, **words))
    legible(plots.floor_pressure(step, comparison, compatible, **words))
    legible(plots.complementarity(step, comparison, compatible, **words))
    legible(plots.force_intervals(report, comparison, compatible, order="width", **words))
