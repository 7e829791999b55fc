"""Pictures of piles and platforms: what is drawn is what was given."""

from __future__ import annotations

import numpy as np
import pytest
from cdopt.plots.chains_and_histogram import Forces, chains_and_histogram, histograms
from cdopt.plots.platforms import law_scatter, platform_forces, platform_overlaps
from cdopt.plots.spheres import sphere_maps
from pictures import legible

import cdopt
from cdopt.bank import piles
from cdopt.plots.pressure import floor_pressure_grid

STEP = piles.pyramid(3)
F = np.where(np.arange(STEP.nc) % 4 == 0, 0.0, 1.0 + np.arange(STEP.nc) / STEP.nc)


def texts(figure) -> str:
    figure.canvas.draw()
    found = [text.get_text() for axes in figure.axes for text in axes.texts]
    found += [axes.get_title(loc=where) for axes in figure.axes for where in ("left", "center")]
    return "\n".join([*found, *(text.get_text() for text in figure.texts)])


def test_chains_and_histogram_count_the_nonzero_forces() -> None:
    figure = chains_and_histogram(STEP, Forces("DEM", F, "#0072B2"), 2.5, unit="mg")
    words = texts(figure)
    assert "(a) DEM" in words
    assert f"{np.count_nonzero(F)} of {STEP.nc} contacts" in words
    assert f"max {F.max():#.4g} mg" in words
    heights = sum(bar.get_height() for bar in figure.axes[1].patches)
    assert heights == np.count_nonzero(F)
    lines = next(c for c in figure.axes[0].collections if c.get_gid() == "forces")
    assert len(lines.get_segments()) == 2 * np.count_nonzero(F)  # each after its halo
    with pytest.raises(cdopt.InvalidInput, match="f: "):
        chains_and_histogram(STEP, Forces("DEM", F[1:], "#0072B2"), 2.5)


def test_histograms_share_their_scales() -> None:
    figure = histograms([Forces("one", F, "#0072B2"), Forces("two", 2.0 * F, "#1a1a1a")])
    left, right = figure.axes
    assert left.get_xlim() == right.get_xlim() == (0.0, pytest.approx(2.04 * F.max()))
    assert left.get_ylim() == right.get_ylim()
    with pytest.raises(cdopt.InvalidInput, match="shown"):
        histograms([])


def test_four_piles_keep_their_names_on_the_page() -> None:
    centres, layers = piles.pyramid_positions(3)
    shown = [(f"t = {k} ms", "fastest sphere 0 mm/s", centres, 1.0 * layers) for k in range(4)]
    legible(sphere_maps(shown, np.full(layers.size, 0.5), "speed [mm/s]", title="The pile lands"))


def test_spheres_are_coloured_on_one_scale() -> None:
    centres, layers = piles.pyramid_positions(3)
    radius = np.full(layers.size, 0.5)
    shown = [("slow", "now", centres, 0.5 * layers), ("fast", "then", centres, 1.0 * layers)]
    figure = sphere_maps(shown, radius, "speed [m/s]")
    faces = [axes.collections[0].get_facecolor()[::2] for axes in figure.axes[:2]]
    assert {tuple(face) for face in faces[0]} & {tuple(face) for face in faces[1]}
    assert len(faces[0]) == layers.size
    for wrong in ([], [("a", "b", centres, layers[1:])]):
        with pytest.raises(cdopt.InvalidInput, match="shown"):
            sphere_maps(wrong, radius, "x")


def test_platforms_name_every_force() -> None:
    figure = platform_forces({"one": np.array([0.0, 10.0, 0.0]), "two": np.full(3, 10 / 3)})
    words = texts(figure)
    assert words.count("0 N") == 3  # twice 0, once 10
    assert words.count("3.33 N") == 3
    for wrong in ({}, {"a": np.ones(3), "b": np.ones(2)}):
        with pytest.raises(cdopt.InvalidInput, match="answers"):
            platform_forces(wrong)
    c, f = np.full(3, 2.0), np.array([2.0, 6.0, 2.0])
    assert "middle: 6.00 N" in texts(platform_overlaps({"stiff": (c, f)}))
    with pytest.raises(cdopt.InvalidInput, match="answers"):
        platform_overlaps({})


def test_the_law_is_drawn_as_shares() -> None:
    c = np.linspace(-1.0, 2.0, 7)
    figure = law_scatter({"Hertz": (c, np.maximum(c, 0.0) ** 1.5, 2.5)})
    drawn = figure.axes[0].lines[1].get_xydata()
    np.testing.assert_allclose(drawn[:, 1], drawn[:, 0] ** 1.5)
    assert "3 of 7 apart" in texts(figure)
    with pytest.raises(cdopt.InvalidInput, match="answers"):
        law_scatter({})


def test_the_floor_has_the_units_that_it_is_given() -> None:
    cell = ("Hooke", STEP, F)
    figure = floor_pressure_grid({"DEM": [cell], "PGS": [cell]}, unit="mg", length="d")
    assert " mg" in texts(figure)
    assert {axes.get_xlabel() for axes in figure.axes[:2]} == {"", "x [d]"}
