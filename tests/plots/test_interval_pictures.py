"""Pictures of what is not determined: bands, arrows, ticks and dots carry the numbers."""

from __future__ import annotations

import numpy as np
import pytest
from pictures import all_by_gid, bounded, by_gid, compared, legible, panels, uncertified

import cdopt
from cdopt import bank, plots
from cdopt.hyperstatic import indeterminacy

# --- bars ------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["table", "duplicated-contacts"])
def test_bars_show_the_intervals_as_bands(name: str) -> None:
    comparison, report = compared(name), bounded(name)
    figure = plots.force_bars(comparison, comparison.compatible, report=report)
    axes = figure.axes[0]
    bands = all_by_gid(axes, "interval")
    np.testing.assert_allclose([b.get_y() for b in bands], report.lower)
    np.testing.assert_allclose([b.get_y() + b.get_height() for b in bands], report.upper)
    assert axes.get_ylim()[1] > report.upper.max()
    for line, solution in zip(axes.lines, comparison, strict=True):
        np.testing.assert_array_equal(line.get_ydata(), solution.f)
        assert line.get_zorder() > bands[0].get_zorder()
    tops = by_gid(axes, "compatible").get_segments()
    np.testing.assert_array_equal([s[0, 1] for s in tops], comparison.compatible.f)
    assert not all_by_gid(axes, "unbounded")
    assert not all_by_gid(axes, "unique")
    assert [t.get_text() for t in axes.get_xticklabels()] == report.names
    legible(figure)


def test_bars_tick_what_is_determined() -> None:
    for name in ("tripod", "beam-middle-open"):
        comparison, report = compared(name), bounded(name)
        figure = plots.force_bars(comparison, report=report)
        assert not all_by_gid(figure.axes[0], "interval")
        ticks = by_gid(figure.axes[0], "unique").get_segments()
        np.testing.assert_allclose([s[0, 1] for s in ticks], report.force)
        legend = figure.axes[1].get_legend()
        assert "determined: one force" in [t.get_text() for t in legend.get_texts()]


def test_bars_draw_endless_intervals_as_arrows() -> None:
    comparison, report = compared("wedged", "clarabel", "pgs"), bounded("wedged")
    np.testing.assert_array_equal(report.unbounded, [True, True, False])
    figure = plots.force_bars(comparison, comparison.compatible, report=report)
    axes = figure.axes[0]
    top = axes.get_ylim()[1]
    arrows = all_by_gid(axes, "unbounded")
    assert [arrow.xy[0] for arrow in arrows] == [0, 1]
    assert all(arrow.xy[1] >= top for arrow in arrows)
    assert [b.get_height() for b in all_by_gid(axes, "interval")] == [top, top]
    assert len(by_gid(axes, "unique").get_segments()) == 1
    legible(figure)


def test_bars_say_where_bounds_are_not_known() -> None:
    comparison = compared("beam-stiff-middle")
    some = indeterminacy(comparison.step, contacts=[1])
    figure = plots.force_bars(comparison, report=some)
    marks = [t for t in figure.axes[0].texts if t.get_text() == "?"]
    assert [mark.xy[0] for mark in marks] == [0, 2]
    assert [
        round(b.get_x() + 0.5 * b.get_width()) for b in all_by_gid(figure.axes[0], "interval")
    ] == [1]


def test_long_names_stand_upright() -> None:
    names = [f"a contact with a name that is much too long {i}" for i in range(3)]
    step = bank.load("beam-uniform").step.replace(contact_ids=names)
    figure = plots.force_bars(compared("beam-stiff-middle"), step=step)
    labels = figure.axes[0].get_xticklabels()
    assert {label.get_rotation() for label in labels} == {90.0}
    texts = [label.get_text() for label in labels]
    assert all(len(text) <= 28 for text in texts)
    assert [(text[:9], text[-1]) for text in texts] == [("a contact", str(i)) for i in range(3)]
    legible(figure)


def test_reports_of_another_step_are_refused() -> None:
    comparison, other = compared("beam-stiff-middle"), bounded("table")
    with pytest.raises(cdopt.InvalidInput, match="4 contacts"):
        plots.force_bars(comparison, report=other)
    with pytest.raises(cdopt.InvalidInput, match="4 contacts"):
        plots.force_chains(comparison.step, comparison, report=other)
    with pytest.raises(cdopt.InvalidInput, match="an Indeterminacy"):
        plots.force_bars(comparison, report="table")
    with pytest.raises(cdopt.InvalidInput, match="one per contact"):
        plots.force_intervals(other, comparison)


# --- chains ----------------------------------------------------------------------------


@pytest.mark.parametrize("view", ["side", "perspective"])
def test_chains_lay_bands_as_wide_as_the_upper_bound(view: str) -> None:
    comparison, report = compared("pyramid-hooke"), bounded("pyramid-hooke")
    figure = plots.force_chains(comparison.step, comparison[:1], report=report, view=view)
    (axes,) = panels(figure)
    bands, lines = by_gid(axes, "intervals"), by_gid(axes, "forces")
    assert bands.get_zorder() < lines.get_zorder()
    widths = np.asarray(bands.get_linewidths())
    assert widths.size == report.nc
    if view == "side":  # no magnification: width is affine in the force, one rule for both
        slope, start = np.polyfit(np.sort(report.upper)[::-1], widths, 1)
        np.testing.assert_allclose(widths, slope * np.sort(report.upper)[::-1] + start, atol=1e-9)
        own = np.asarray(lines.get_linewidths())
        np.testing.assert_allclose(own, slope * np.asarray(lines.get_array()) + start, atol=1e-9)
    (bar,) = [a for a in figure.axes if a.get_label() == "<colorbar>"]
    assert "largest admissible" in bar.get_xlabel()


def test_chains_dash_what_has_no_end() -> None:
    comparison, report = compared("crystal-2d", "clarabel"), bounded("crystal-2d")
    figure = plots.force_chains(comparison.step, comparison, comparison.compatible, report=report)
    for axes in panels(figure):
        endless = by_gid(axes, "unbounded")
        assert len(endless.get_segments()) == int(report.unbounded.sum()) == 44
        assert len(by_gid(axes, "intervals").get_segments()) == report.nc - 44
        assert endless.get_linestyles()[0][1] is not None
    legible(figure)


# --- intervals -------------------------------------------------------------------------


def test_intervals_carry_bounds_and_forces_in_one_order() -> None:
    comparison, report = compared("pyramid-hooke"), bounded("pyramid-hooke")
    compatible = comparison.compatible
    figure = plots.force_intervals(report, comparison, compatible)
    assert len(panels(figure)) == len(comparison)
    order = np.lexsort((report.upper, np.round(compatible.f / (1e-9 * compatible.f.max()))))
    for axes, solution in zip(panels(figure), comparison, strict=True):
        corners = np.array([path.vertices for path in by_gid(axes, "intervals").get_paths()])
        np.testing.assert_allclose(corners[:, :4, 1].min(axis=1), report.lower[order])
        np.testing.assert_allclose(corners[:, :4, 1].max(axis=1), report.upper[order])
        line = np.array(by_gid(axes, "compatible").get_segments())
        np.testing.assert_allclose(line[:, 0, 1], compatible.f[order])
        assert np.all(np.diff(line[:, 0, 1]) > -1e-8)
        np.testing.assert_array_equal(by_gid(axes, "forces").get_ydata(), solution.f[order])
        assert axes.get_ylim() == panels(figure)[0].get_ylim()
    assert figure.get_supylabel().startswith("contact force [N]")
    legible(figure)


def test_intervals_by_width_leave_open_contacts_out() -> None:
    report = bounded("pyramid-falling")
    figure = plots.force_intervals(report, order="width")
    (axes,) = panels(figure)
    corners = np.array([path.vertices for path in by_gid(axes, "intervals").get_paths()])
    widths = np.ptp(corners[:, :4, 1], axis=1)
    assert widths.size == int(report.closed.sum()) < report.nc
    assert np.all(np.diff(widths) > -1e-9)
    assert not all_by_gid(axes, "forces")
    legible(figure)


def test_intervals_without_end_reach_the_top_and_are_marked() -> None:
    comparison, report = compared("crystal-2d", "clarabel"), bounded("crystal-2d")
    figure = plots.force_intervals(report, comparison, comparison.compatible)
    (axes,) = panels(figure)
    marks = by_gid(axes, "unbounded")
    top = axes.get_ylim()[1]
    np.testing.assert_array_equal(marks.get_ydata(), np.full(44, top))
    corners = np.array([path.vertices for path in by_gid(axes, "intervals").get_paths()])
    np.testing.assert_allclose(corners[marks.get_xdata().astype(int), :4, 1].max(axis=1), top)
    key = [text.get_text() for text in figure.legends[0].get_texts()]
    assert key == ["admissible", "compatible", "the solver's", "no upper bound"]
    legible(figure)


def test_wide_intervals_bend_the_scale_so_that_forces_stay_apart() -> None:
    report = bounded("pyramid-hooke")
    bent = plots.force_intervals(report, compared("pyramid-hooke", "pgs"))
    assert report.upper.max() > 4.0 * report.force.max()
    assert panels(bent)[0].get_yscale() == "function"
    assert "square-root" in bent.get_supylabel()
    straight = plots.force_intervals(bounded("table"), compared("table"))
    assert panels(straight)[0].get_yscale() == "linear"


def test_intervals_need_bounds() -> None:
    none = indeterminacy(bank.load("table").step, contacts=[])
    with pytest.raises(cdopt.InvalidInput, match="no contact with known bounds"):
        plots.force_intervals(none)
    with pytest.raises(cdopt.InvalidInput, match="order"):
        plots.force_intervals(bounded("table"), order="name")


def test_intervals_of_few_contacts_have_names_and_uncertified_dots_are_hollow() -> None:
    solution = uncertified(compared("beam-stiff-middle")[0])
    figure = plots.force_intervals(bounded("beam-stiff-middle"), [solution])
    (axes,) = panels(figure)
    names = [t.get_text() for t in axes.get_xticklabels()]
    assert sorted(names) == ["left", "middle", "right"]
    assert by_gid(axes, "forces").get_markerfacecolor() == "none"
    assert "not certified" in axes.texts[0].get_text()
    legible(figure)


def test_bounds_story_chooses_by_size() -> None:
    few = plots.bounds_story(bounded("table"), compared("table"), compared("table").compatible)
    assert len(all_by_gid(few.axes[0], "interval")) == 4
    assert few.texts[-1].get_text().replace("\n", " ") == bounded("table").summary
    alone = plots.bounds_story(bounded("table"))
    assert len(alone.axes[0].lines) == 1  # the classic solution behind the bounds
    many = plots.bounds_story(bounded("pyramid-hooke"))
    assert by_gid(panels(many)[0], "intervals")
