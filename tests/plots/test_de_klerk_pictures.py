"""Curves in small multiples: what is drawn is what was given."""

from __future__ import annotations

import numpy as np
import pytest
from papers.de_klerk.curves import Band, Curve, Panel, curve_panels
from pictures import legible

import cdopt

X = np.linspace(0.0, 2.0, 21)
BLUE, RED = "#0072B2", "#D55E00"


def panel(name: str = "γ = 30", scale: float = 1.0, **more: object) -> Panel:
    curves = [
        Curve("one way", X, scale * X**2, BLUE),
        Curve("another", X, -scale * X, RED, "dashed", marked=True),
    ]
    return Panel(name, "Δy/d = 0.1", curves, "$t / t_c$", "$E/E_0$", **more)  # type: ignore[arg-type]


def drawn(axes) -> list:
    return [line for line in axes.lines if line.get_gid() == "curve"]


def test_curves_are_what_was_given() -> None:
    figure = curve_panels([panel(), panel("γ = 100", 2.0)], title="Collide")
    left, right = figure.axes
    for axes, scale in ((left, 1.0), (right, 2.0)):
        first, second = drawn(axes)
        np.testing.assert_array_equal(first.get_xydata(), np.stack([X, scale * X**2], 1))
        np.testing.assert_array_equal(second.get_xydata(), np.stack([X, -scale * X], 1))
        assert first.get_color() == BLUE
        assert first.get_marker() == "None"
        assert second.get_marker() == "o"
        assert axes.get_xlim() == (0.0, 2.0)
    assert left.get_title(loc="left") == "γ = 30"
    (key,) = figure.legends
    assert [text.get_text() for text in key.get_texts()] == ["one way", "another"]


def test_bands_and_limits() -> None:
    band = Band("runs", X, X, X + 1.0, "#cfe0f0")
    figure = curve_panels([panel(bands=[band], log=True, limits=(0.1, 10.0))])
    axes = figure.axes[0]
    assert axes.get_yscale() == "log"
    assert axes.get_ylim() == (0.1, 10.0)
    (area,) = [c for c in axes.collections if c.get_gid() == "band"]
    low, high = area.get_paths()[0].vertices[:, 1].min(), area.get_paths()[0].vertices[:, 1].max()
    assert (low, high) == (0.0, 3.0)
    assert [text.get_text() for text in figure.legends[0].get_texts()][-1] == "runs"


def test_small_numbers_are_written_in_powers_of_ten() -> None:
    figure = curve_panels([panel(scale=1e-5), panel()])
    small, plain = figure.axes
    assert small.get_ylabel() == "$E/E_0$  [$10^{-5}$]"
    assert plain.get_ylabel() == "$E/E_0$"
    written = small.yaxis.get_major_formatter()
    assert written(2e-5, None) == "2"
    assert written(-2.5e-5, None) == "−2.5"
    assert float(drawn(small)[0].get_ydata().max()) == pytest.approx(4e-5)  # data as they are


def test_many_steps_are_not_marked_one_by_one() -> None:
    many = np.linspace(0.0, 1.0, 500)
    curve = Curve("fine", many, many, BLUE, marked=True)
    figure = curve_panels([Panel("a", "b", [curve], "x", "y")])
    assert drawn(figure.axes[0])[0].get_marker() == "None"


def test_texts_stay_on_the_page_and_apart() -> None:
    shown = [panel(f"γ = {k}", 1e-5 if k > 2 else 1.0) for k in range(6)]
    legible(curve_panels(shown, title="Two spheres collide, large steps", subtitle="A line."))
    legible(curve_panels([panel(bands=[Band("a band of many runs", X, X, X, RED)])], columns=2))


@pytest.mark.parametrize(
    "wrong",
    [
        [],
        [Panel("a", "b", [], "x", "y")],
        [Panel("a", "b", [Curve("c", X, X[1:], BLUE)], "x", "y")],
        [Panel("a", "b", [Curve("c", X[:0], X[:0], BLUE)], "x", "y")],
        [Panel("a", "b", [Curve("c", X, X, BLUE, "wavy")], "x", "y")],
        [Panel("a", "b", [Curve("c", X, X, BLUE)], "x", "y", bands=[Band("d", X, X, X[1:], RED)])],
    ],
)
def test_what_does_not_fit_is_named(wrong: list) -> None:
    with pytest.raises(cdopt.InvalidInput, match=r"shown|dash"):
        curve_panels(wrong)
