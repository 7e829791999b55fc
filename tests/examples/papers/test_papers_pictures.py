"""Pictures that only the papers need: what is drawn is what was given."""

from __future__ import annotations

import numpy as np
import pytest
from papers.de_klerk.curves import Band, Curve, Panel, curve_panels
from papers.olsen_kamrin.pictures import (
    UNIT,
    Forces,
    chains_and_histogram,
    histograms,
    platform_forces,
    sphere_maps,
)
from pictures import legible

import cdopt

STEP = cdopt.bank.load("pyramid-hooke:n=3").step
F = np.where(np.arange(STEP.nc) % 4 == 0, 0.0, 1.0 + np.arange(STEP.nc) / STEP.nc)
X = np.linspace(0.0, 2.0, 21)
BLUE, RED = "#0072B2", "#D55E00"


def texts(figure) -> str:
    figure.canvas.draw()
    found = [text.get_text() for axes in figure.axes for text in axes.texts]
    found += [axes.get_title(loc=where) for axes in figure.axes for where in ("left", "center")]
    return "\n".join([*found, *(text.get_text() for text in figure.texts)])


def test_chains_and_histogram_count_the_nonzero_forces() -> None:
    figure = chains_and_histogram(STEP, Forces("DEM", F, BLUE), 2.5, "Hooke")
    words = texts(figure)
    assert "(a) DEM" in words
    assert f"{np.count_nonzero(F)} of {STEP.nc} contacts" in words
    assert f"max {F.max():#.4g} {UNIT}" in words
    assert "mg" not in words
    heights = sum(bar.get_height() for bar in figure.axes[1].patches)
    assert heights == np.count_nonzero(F)
    lines = next(c for c in figure.axes[0].collections if c.get_gid() == "forces")
    assert len(lines.get_segments()) == 2 * np.count_nonzero(F)  # each after its halo


def test_histograms_share_their_scales() -> None:
    left, right = histograms([Forces("one", F, BLUE), Forces("two", 2.0 * F, RED)], "Hooke").axes
    assert left.get_xlim() == right.get_xlim() == (0.0, pytest.approx(2.04 * F.max()))
    assert left.get_ylim() == right.get_ylim()


def test_spheres_are_coloured_on_one_scale_and_names_stay_on_the_page() -> None:
    scene = cdopt.scene.pyramid(3)
    centres, height = scene.initial.position, scene.initial.position[:, 2]
    states = [(f"t = {k} ms", "fastest sphere 0 mm/s", centres, k * height) for k in range(4)]
    figure = sphere_maps(states, 1.25e-3, "speed [mm/s]", "The pile lands")
    legible(figure)
    faces = [axes.collections[0].get_facecolor()[::2] for axes in figure.axes[1:3]]
    assert {tuple(face) for face in faces[0]} & {tuple(face) for face in faces[1]}
    assert len(faces[0]) == scene.nb


def test_platforms_name_every_force() -> None:
    answers = {"one": np.array([0.0, 10.0, 0.0]), "two": np.full(3, 10 / 3)}
    words = texts(platform_forces(answers, "Platforms"))
    assert words.count("0 N") == 3  # twice 0, once 10
    assert words.count("3.33 N") == 3


# --- curves ----------------------------------------------------------------------------


def panel(name: str = "γ = 30", scale: float = 1.0, **more: object) -> Panel:
    curves = [
        Curve("one way", X, scale * X**2, BLUE),
        Curve("another", X, -scale * X, RED, "dashed", marked=True),
    ]
    return Panel(name, "Δy/d = 0.1", curves, "$t / t_c$", "$E/E_0$", **more)


def drawn(axes) -> list:
    return [line for line in axes.lines if line.get_gid() == "curve"]


def test_curves_are_what_was_given() -> None:
    figure = curve_panels([panel(), panel("γ = 100", 2.0)], title="Collide")
    for axes, scale in zip(figure.axes, (1.0, 2.0), strict=True):
        first, second = drawn(axes)
        np.testing.assert_array_equal(first.get_xydata(), np.stack([X, scale * X**2], 1))
        np.testing.assert_array_equal(second.get_xydata(), np.stack([X, -scale * X], 1))
        assert first.get_color() == BLUE
        assert (first.get_marker(), second.get_marker()) == ("None", "o")
        assert axes.get_xlim() == (0.0, 2.0)
    (key,) = figure.legends
    assert [text.get_text() for text in key.get_texts()] == ["one way", "another"]


def test_bands_and_limits() -> None:
    band = Band("runs", X, X, X + 1.0, "#cfe0f0")
    figure = curve_panels([panel(bands=[band], log=True, limits=(0.1, 10.0))])
    axes = figure.axes[0]
    assert axes.get_yscale() == "log"
    assert axes.get_ylim() == (0.1, 10.0)
    (area,) = [c for c in axes.collections if c.get_gid() == "band"]
    heights = area.get_paths()[0].vertices[:, 1]
    assert (heights.min(), heights.max()) == (0.0, 3.0)
    assert [text.get_text() for text in figure.legends[0].get_texts()][-1] == "runs"


def test_small_numbers_are_written_in_powers_of_ten() -> None:
    small, plain = curve_panels([panel(scale=1e-5), panel()]).axes
    assert small.get_ylabel() == "$E/E_0$  [$10^{-5}$]"
    assert plain.get_ylabel() == "$E/E_0$"
    written = small.yaxis.get_major_formatter()
    assert (written(2e-5, None), written(-2.5e-5, None)) == ("2", "−2.5")
    assert float(drawn(small)[0].get_ydata().max()) == pytest.approx(4e-5)  # data as they are


@pytest.mark.slow
def test_texts_stay_on_the_page_and_apart() -> None:
    shown = [panel(f"γ = {k}", 1e-5 if k > 2 else 1.0) for k in range(6)]
    legible(curve_panels(shown, title="Two spheres collide, large steps"))
    legible(curve_panels([panel(bands=[Band("a band of many runs", X, X, X, RED)])], columns=2))
