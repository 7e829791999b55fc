"""The picture of the bridge: what is drawn equals the numbers."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from pictures import all_by_gid, legible
from rigid_limit import Bridge, bridge_lines
from rigid_limit import bridge as follow

import cdopt


@pytest.fixture(scope="module")
def bridge() -> Bridge:
    pile = cdopt.scene.pyramid(3, 2.5, "species", separation=0.0, diameter=1.0, young=1.0)
    kappas = np.logspace(7, 10, 4)
    return follow(pile, kappas, methods=["quasi-static"])


def several(bridge: Bridge) -> Bridge:
    """The same with the lines of three methods."""
    names = ("quasi-static", "variational", "velocity-verlet")
    lines = tuple(dataclasses.replace(bridge.lines[0], name=name) for name in names)
    return dataclasses.replace(bridge, lines=lines)


@pytest.mark.slow
def test_lines_are_the_errors(bridge: Bridge) -> None:
    left, right = bridge_lines(several(bridge)).axes[:2]
    for artist, line in zip(all_by_gid(left, "bridge"), several(bridge).lines, strict=True):
        np.testing.assert_array_equal(artist.get_xdata(), line.parameter)
        np.testing.assert_array_equal(artist.get_ydata(), line.error)
        assert f"slope {line.slope:+.3f}".replace("-", "−") in artist.get_label()
    for artist, line in zip(
        all_by_gid(right, "bridge"), (bridge.one_step, bridge.uniform), strict=True
    ):
        np.testing.assert_array_equal(np.sort(artist.get_ydata()), np.sort(line.error[line.used]))
    for axes in (left, right):
        (least,) = all_by_gid(axes, "least")
        np.testing.assert_array_equal(least.get_ydata(), bridge.minimum_norm_error)
        assert axes.get_xscale() == axes.get_yscale() == "log"
    assert right.xaxis_inverted()


def test_triangles_have_the_expected_slope(bridge: Bridge) -> None:
    for axes, slope in zip(bridge_lines(bridge).axes[:2], (-2.0 / 3.0, 1.0), strict=True):
        (triangle,) = all_by_gid(axes, "slope")
        corners = np.log10(triangle.get_xy())[:2]
        assert np.diff(corners[:, 1]) / np.diff(corners[:, 0]) == pytest.approx(slope)
    assert "2/3" in [t.get_text() for t in bridge_lines(bridge).axes[0].texts]


def test_the_axis_of_overlaps(bridge: Bridge) -> None:
    figure = bridge_lines(bridge)
    legible(figure)
    left = figure.axes[0]
    (top,) = left.child_axes
    place = left.get_xlim()
    (low, high), share = (
        top.get_xlim(),
        bridge.overlap[0] / bridge.lines[0].parameter[0] ** (-2 / 3),
    )
    ends = np.sort(share * np.array(place) ** (-2.0 / 3.0))
    np.testing.assert_allclose(sorted([low, high]), ends, rtol=1e-6)


def test_points_that_are_not_fitted_are_hollow(bridge: Bridge) -> None:
    line = bridge.lines[0]
    spoilt = dataclasses.replace(line, excluded=("", "", "", "round-off"))
    figure = bridge_lines(dataclasses.replace(bridge, lines=(spoilt,)))
    left = figure.axes[0]
    (kept,), (hollow,) = all_by_gid(left, "bridge"), [
        a for a in all_by_gid(left, "excluded") if len(a.get_xdata())
    ]  # fmt: skip
    np.testing.assert_array_equal(kept.get_xdata(), line.parameter[:3])
    np.testing.assert_array_equal(hollow.get_xdata(), line.parameter[3:])
    assert hollow.get_markerfacecolor() == "none"
    assert "not fitted" in [t.get_text() for t in left.get_legend().get_texts()]
    whole = bridge_lines(bridge).axes[0].get_legend().get_texts()
    assert "not fitted" not in [t.get_text() for t in whole]


@pytest.mark.slow
def test_texts_are_legible(bridge: Bridge) -> None:
    legible(bridge_lines(several(bridge), title="A title", subtitle="A pile of two species. " * 8))


@pytest.mark.slow
def test_equal_springs_have_no_line_of_the_least_force() -> None:
    pile = cdopt.scene.pyramid(2, separation=0.0)
    figure = bridge_lines(follow(pile, methods=["quasi-static"]))
    assert not all_by_gid(figure.axes[0], "least")


def test_bad_arguments(bridge: Bridge) -> None:
    with pytest.raises(cdopt.InvalidInput, match="bridge: "):
        bridge_lines("a bridge")
    with pytest.raises(cdopt.InvalidInput, match="at least one line"):
        bridge_lines(dataclasses.replace(bridge, lines=()))
