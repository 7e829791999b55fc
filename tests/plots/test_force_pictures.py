"""Bars, chains, distributions and stories: drawn numbers are the given ones, texts legible."""

from __future__ import annotations

import dataclasses
import io
import itertools
import subprocess
import sys

import numpy as np
import pytest
from matplotlib.collections import LineCollection
from matplotlib.colors import to_rgba
from matplotlib.markers import MarkerStyle
from matplotlib.text import Text
from pictures import by_gid, compared, legible, panels, uncertified

import cdopt
from cdopt import bank, plots
from cdopt.backends.native import NATIVE
from cdopt.plots.bodies import Camera, contact_segments, without_walls
from cdopt.plots.canvas import Formula, literal
from cdopt.plots.palette import force_colours
from cdopt.study import Comparison, SolutionSet, solve_named


@pytest.fixture(scope="module")
def beam() -> Comparison:
    return compared("beam-stiff-middle")


@pytest.fixture(scope="module")
def crystal() -> Comparison:
    return compared("crystal-2d", *[n for n in cdopt.backends.available() if n != "auto"][:9])


@pytest.fixture(scope="module")
def pyramid() -> Comparison:
    return compared("pyramid-hooke")


# --- bars ------------------------------------------------------------------------------


def test_bars_carry_every_force(beam: Comparison) -> None:
    axes = plots.force_bars(beam, beam.compatible, beam.step).axes[0]
    assert len(axes.lines) == len(beam)
    for line, solution in zip(axes.lines, beam, strict=True):
        np.testing.assert_array_equal(line.get_ydata(), solution.f)
        np.testing.assert_array_equal(np.round(line.get_xdata()), np.arange(3))
        assert line.get_marker() == plots.look(solution.backend).marker
    np.testing.assert_array_equal([p.get_height() for p in axes.patches], beam.compatible.f)
    tops = axes.collections[0].get_segments()
    np.testing.assert_array_equal([s[0, 1] for s in tops], beam.compatible.f)
    assert [t.get_text() for t in axes.get_xticklabels()] == ["left", "middle", "right"]
    assert axes.get_ylabel() == "contact force [N]"


def test_bars_of_uncertified_answers_are_hollow_and_tension_lies_below_zero(beam) -> None:
    pulled = dataclasses.replace(uncertified(beam[0]), f=np.array([6.0, -2.0, 6.0]))
    assert not pulled.ok
    axes = plots.force_bars([pulled, beam[1]]).axes[0]
    line, full = axes.lines
    assert to_rgba(line.get_markerfacecolor()) == to_rgba("white")
    assert full.get_markerfacecolor() == plots.look("osqp").colour
    assert axes.get_ylim()[0] < -2.0


# --- chains ----------------------------------------------------------------------------


def test_chains_carry_every_force_on_one_scale(pyramid: Comparison) -> None:
    figure = plots.force_chains(pyramid.step, pyramid, pyramid.compatible)
    shown = [*pyramid, pyramid.compatible]
    top = max(s.f.max() for s in shown)
    assert len(panels(figure)) == len(shown)
    for axes, solution in zip(panels(figure), shown, strict=True):
        lines = by_gid(axes, "forces")
        loaded = np.sort(solution.f[solution.f > 1e-3 * top])
        np.testing.assert_array_equal(lines.get_array(), loaded)
        assert (lines.norm.vmin, lines.norm.vmax) == (0.0, top)
        widths = np.asarray(lines.get_linewidths())
        slope, start = np.polyfit(loaded, widths, 1)
        np.testing.assert_allclose(widths, slope * loaded + start, atol=1e-9)
        assert slope > 0.0
        idle = by_gid(axes, "idle")
        assert len(idle.get_segments()) + loaded.size == pyramid.step.nc
    (bar,) = [a for a in figure.axes if a.get_label() == "<colorbar>"]
    assert "[N]" in bar.get_xlabel()
    first, *_, last = panels(figure)
    assert last.get_title(loc="left") == "Compatible"
    assert last.spines["top"].get_linewidth() > first.spines["top"].get_linewidth()


def test_chains_put_each_force_on_its_contact(crystal: Comparison) -> None:
    figure = plots.force_chains(crystal.step, [crystal[0]])
    lines = by_gid(panels(figure)[0], "forces")
    points = crystal.step.points
    middle_of = {tuple(np.round(x, 9)): f for x, f in zip(points, crystal[0].f, strict=True)}
    net = contact_segments(crystal.step)
    for segment, force in zip(lines.get_segments(), lines.get_array(), strict=True):
        row = int(np.argmin(np.linalg.norm(net.start - segment[0], axis=1)
                            + np.linalg.norm(net.end - segment[1], axis=1)))  # fmt: skip
        assert middle_of[tuple(np.round(points[row], 9))] == force


def test_discs_are_found_from_contacts_alone(crystal: Comparison) -> None:
    step = crystal.step
    net = contact_segments(step)
    bodies = without_walls(step)
    many = [b for b in np.unique(bodies[bodies >= 0]) if (bodies == b).sum() > 2]
    assert len(net.radii) >= len(many)
    assert contact_segments(bank.load("beam-uniform").step).radii.size == 0  # a flat body
    np.testing.assert_allclose(net.radii, net.radii[0], rtol=1e-6)
    both = np.all(bodies >= 0, axis=1)
    length = np.linalg.norm(net.end - net.start, axis=1)[both]
    np.testing.assert_allclose(length, 2.0 * net.radii[0], rtol=1e-6)


def test_perspective_enlarges_what_is_near_and_keeps_lines_straight() -> None:
    upright = np.array([[0.0, 0.0, 0.0], [0.0, 0.0, 2.0], [1.0, 1.0, 1.0], [-1.0, -1.0, 1.0]])
    for view in ("side", "isometric", "perspective"):
        (low, high), _ = np.split(Camera.facing(upright, view).project(upright)[0], 2)
        assert high[0] == pytest.approx(low[0])
        assert high[1] > low[1]
    points = np.array([[0.0, 0.0, 0.0], [1.0, 2.0, 3.0], [0.5, 1.0, 1.5], [0.0, -4.0, 0.0]])
    camera = Camera.facing(points, "perspective")
    flat, depth, larger = camera.project(points)
    assert np.all(np.diff(larger[np.argsort(depth)]) >= 0.0)
    assert depth[3] == depth.max()  # y points away from the reader
    start, end, middle = flat[0], flat[1], flat[2]
    (a, b), (c, d) = end - start, middle - start
    assert a * d - b * c == pytest.approx(0.0, abs=1e-12)
    parallel = Camera.facing(points, "isometric").project(points)[2]
    np.testing.assert_array_equal(parallel, 1.0)


def test_perspective_draws_from_the_back_to_the_front(pyramid: Comparison) -> None:
    step, f = pyramid.step, pyramid.compatible.f
    figure = plots.force_chains(step, [pyramid.compatible], view="perspective")
    (axes,) = panels(figure)
    lines = by_gid(axes, "forces")
    loaded = np.flatnonzero(f > 1e-3 * f.max())
    ink, halo = lines.get_segments()[1::2], lines.get_segments()[::2]
    assert len(ink) == len(halo) == loaded.size
    net = contact_segments(step)
    camera = Camera.facing(np.concatenate([net.start, net.end]), "perspective")
    depth = 0.5 * (camera.project(net.start)[1] + camera.project(net.end)[1])[loaded]
    expected = camera.project(net.start)[0][loaded[np.argsort(depth, kind="stable")]]
    np.testing.assert_allclose([segment[0] for segment in ink], expected)
    np.testing.assert_array_equal(lines.get_colors()[::2], 1.0)  # white
    widths = np.asarray(lines.get_linewidths())
    assert np.all(widths[::2] > widths[1::2])
    assert by_gid(axes, "bodies").get_offsets().shape == (net.radii.size, 2)


# --- distributions ---------------------------------------------------------------------


def test_distributions_are_the_sorted_forces(pyramid: Comparison) -> None:
    figure = plots.force_distributions(pyramid, pyramid.compatible)
    assert len(panels(figure)) == len(pyramid)
    for axes, solution in zip(panels(figure), pyramid, strict=True):
        own, reference = axes.lines
        np.testing.assert_array_equal(own.get_ydata(), np.sort(solution.f)[::-1])
        np.testing.assert_array_equal(reference.get_ydata(), np.sort(pyramid.compatible.f)[::-1])
        assert own.get_linestyle() == ("-" if solution.ok else "--")
        assert axes.get_ylim() == panels(figure)[0].get_ylim()
    assert figure.get_supylabel() == "contact force [N]"


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


# --- story -----------------------------------------------------------------------------


def test_story_chooses_by_size(beam, pyramid) -> None:
    assert len(plots.story(beam.step, beam).axes[0].lines) == len(beam)
    chains = plots.story(pyramid.step, pyramid)
    assert any(isinstance(c, LineCollection) for c in chains.axes[0].collections)
    bare = pyramid.step.replace(points=None)
    assert plots.story(bare, pyramid).get_supylabel() == "contact force [N]"


def test_story_of_a_truss() -> None:
    solved = solve_named(cdopt.open_problem("fan"), None, ["clarabel"])
    figure = plots.story(None, solved)
    np.testing.assert_array_equal(figure.axes[0].lines[0].get_ydata(), solved[0].f)
    assert figure.texts[0].get_text() == solved.title


def test_story_claims_no_more_than_the_numbers(beam: Comparison) -> None:
    title = plots.story(beam.step, beam).texts[0].get_text()
    assert title == "One problem, 3 solvers that report success, different forces"
    unique = compared("tripod")
    assert plots.story(unique.step, unique).texts[0].get_text().endswith("the same forces")
    assert plots.story(beam.step, beam, title="", subtitle="").texts == []


def test_what_cannot_be_drawn_is_refused(beam: Comparison) -> None:
    step, silent = beam.step, dataclasses.replace(beam[0], f=None)
    other = dataclasses.replace(beam[1], f=np.ones(4))
    empty = compared("zero-contacts", "clarabel")
    for match, draw in (
        ("none with forces", lambda: plots.story(step, SolutionSet([silent]))),
        ("one per contact", lambda: plots.force_bars([beam[0], other])),
        ("no contacts", lambda: plots.story(empty.step, empty)),
        ("no points", lambda: plots.force_chains(step.replace(points=None), beam)),
        ("no normals", lambda: plots.force_chains(step.replace(normals=None), beam)),
        ("bins", lambda: plots.force_histograms(beam, bins=0)),
    ):
        with pytest.raises(cdopt.InvalidInput, match=match):
            draw()


@pytest.mark.parametrize(
    "problem", ["beam", "pyramid", pytest.param("crystal", marks=pytest.mark.slow)]
)
def test_no_text_is_cut_or_covered_by_another(problem: str, request) -> None:
    comparison = request.getfixturevalue(problem)
    legible(plots.story(comparison.step, comparison))


# --- files and imports -----------------------------------------------------------------


@pytest.mark.slow
def test_formats_and_bad_paths(beam: Comparison, tmp_path) -> None:
    figure = plots.force_bars(beam)
    starts = {".png": b"\x89PNG", ".pdf": b"%PDF", ".svg": b"<?xml", ".PNG": b"\x89PNG"}
    for suffix, start in starts.items():
        path = tmp_path / f"beam{suffix}"
        plots.save(figure, path)
        assert path.read_bytes().startswith(start)
    for name in ("beam.bmp", "beam", "nowhere/beam.png"):
        with pytest.raises(cdopt.InvalidInput, match="path"):
            plots.save(figure, tmp_path / name)


def test_palette_is_unambiguous_and_forces_darken_steadily_in_grey() -> None:
    grey = force_colours()(np.linspace(0.0, 1.0, 50))[:, :3] @ [0.2126, 0.7152, 0.0722]
    assert np.all(np.diff(grey) < 0.0)
    looks = list(plots.PALETTE.values())
    assert len({entry.colour for entry in looks}) == len(looks)
    styles = [MarkerStyle(entry.marker) for entry in looks]
    outlines = [style.get_path().transformed(style.get_transform()).vertices for style in styles]
    assert len({outline.round(3).tobytes() for outline in outlines}) == len(looks)
    assert set(cdopt.backends.available()) - set(NATIVE) <= set(plots.PALETTE)
    assert plots.look("something-new").name == "something-new"


@pytest.mark.slow
def test_matplotlib_waits_until_something_is_drawn_and_pyplot_is_never_needed() -> None:
    code = (
        "import sys, cdopt.cli.main\n"
        "from cdopt import bank, plots\n"
        "from cdopt.study import compare\n"
        "c = compare(bank.load('beam-uniform').step, ['clarabel', 'highs'])\n"
        "print('matplotlib' in sys.modules)\n"
        "plots.story(c.step, c)\n"
        "print('matplotlib' in sys.modules, 'matplotlib.pyplot' in sys.modules)"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert out.stdout.split() == ["False", "True", "False"]


# --- names with dollar signs are text, not formulas ------------------------------------


HOSTILE = r"$x^{$ \frac{ $\undefined$ 100$"


@pytest.mark.slow
def test_names_with_dollars_are_drawn() -> None:
    names = np.array([f"{i}{HOSTILE}" for i in range(3)])
    step = cdopt.bank.load("beam-uniform").step.replace(contact_ids=names)
    answer = cdopt.ClassicCD(step).solve("newton")
    report, samples = cdopt.indeterminacy(step), cdopt.ensemble(step, 100)
    texts = {"title": HOSTILE, "subtitle": HOSTILE}
    for figure in (
        plots.force_bars([answer], step=step, **texts),
        plots.force_intervals(report, [answer], **texts),
        plots.force_ensemble(samples, {HOSTILE: answer.f}, **texts),
        plots.stiffness_influence(cdopt.sensitivity(step), step.contact_ids.tolist(), **texts),
        plots.force_distributions([answer], **texts),
    ):
        figure.savefig(io.BytesIO(), format="png")
        drawn = {text.get_text().replace(r"\$", "$") for text in figure.findobj(Text)}
        assert HOSTILE in drawn


def test_formulas_stay_and_unprintable_characters_go() -> None:
    assert literal(Formula("$t_c$")) == "$t_c$"
    assert literal("a$b\x1b\n") == "a\\$b\N{REPLACEMENT CHARACTER}\n"


def test_markers_of_many_solvers_stand_apart() -> None:
    """Fifteen solvers on twelve contacts: the picture is as wide as the markers need."""
    step = bank.load("supports:n=12").step
    solution = cdopt.ClassicCD(step).solve("newton")
    figure = plots.force_bars([solution] * 15, None, step)
    figure.canvas.draw()
    axes = figure.axes[0]
    lines = [line for line in axes.lines if line.get_linestyle() == "None"]
    places = [axes.transData.transform((line.get_xdata()[0], 0.0))[0] for line in lines]
    apart = min(np.diff(places)) * 72.0 / figure.dpi  # points
    assert len(lines) == 15
    assert apart >= 0.95 * min(line.get_markersize() - 0.8 for line in lines)


def test_names_under_intervals_are_whole() -> None:
    """Contacts of a wall have names of up to 24 characters."""
    wall = cdopt.scene.brick_wall(3, 2)
    contacts = cdopt.collision.detect(wall, wall.initial)
    step = cdopt.collision.step(wall, wall.initial, contacts, dt=1e-3)
    figure = plots.force_intervals(cdopt.indeterminacy(step))
    names = [label.get_text() for label in figure.axes[-1].get_xticklabels()]
    assert names
    assert not [name for name in names if "…" in name]


@pytest.mark.parametrize(("letters", "whole"), [(9, True), (24, True), (40, False)])
def test_names_under_few_bars_are_whole_where_there_is_room(letters: int, whole: bool) -> None:
    ends = "left", "middle", "right"
    names = ["support " + "x" * (letters - len(end) - 8) + end for end in ends]
    step = bank.load("beam-uniform").step.replace(contact_ids=names)
    figure = plots.force_bars([cdopt.ClassicCD(step).solve("newton")], None, step)
    figure.canvas.draw()
    labels = [label for label in figure.axes[0].get_xticklabels() if label.get_text()]
    assert ([label.get_text() for label in labels] == names) == whole
    boxes = [label.get_window_extent() for label in labels]
    assert not any(one.overlaps(two) for one, two in itertools.pairwise(boxes))
