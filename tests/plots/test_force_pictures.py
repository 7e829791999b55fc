"""Bars, chains, distributions and stories: drawn numbers are the given ones, texts legible."""

from __future__ import annotations

import dataclasses
import io
import subprocess
import sys

import numpy as np
import pytest
from matplotlib.collections import LineCollection
from matplotlib.colors import to_rgba
from matplotlib.markers import MarkerStyle
from matplotlib.text import Text
from pictures import by_gid, compared, legible, panels

import cdopt
from cdopt import bank, plots
from cdopt.plots.canvas import Formula, literal
from cdopt.plots.projection import VIEWS, Camera
from cdopt.plots.segments import contact_segments, without_walls
from cdopt.study import Comparison, SolutionSet, attempt


@pytest.fixture(scope="module")
def beam() -> Comparison:
    return compared("beam-stiff-middle")


@pytest.fixture(scope="module")
def crystal() -> Comparison:
    return compared("crystal-2d", *(n for n in cdopt.backends.available() if n != "auto"))


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


def test_uncertified_answers_are_hollow(beam: Comparison) -> None:
    strict = dataclasses.replace(
        beam[0],
        certificates={"forces": dataclasses.replace(beam[0].certificate, tol=1e-30)},
    )
    assert not strict.ok
    line, full = plots.force_bars([strict, beam[1]]).axes[0].lines
    assert to_rgba(line.get_markerfacecolor()) == to_rgba("white")
    assert full.get_markerfacecolor() == plots.look("osqp").colour


def test_bars_show_what_lies_below_zero(beam: Comparison) -> None:
    pulled = dataclasses.replace(beam[0], f=np.array([6.0, -2.0, 6.0]))
    axes = plots.force_bars([pulled]).axes[0]
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


def test_force_colours_darken_steadily_in_grey() -> None:
    from cdopt.plots.palette import force_colours

    rgb = force_colours()(np.linspace(0.0, 1.0, 50))[:, :3]
    grey = rgb @ [0.2126, 0.7152, 0.0722]
    assert np.all(np.diff(grey) < 0.0)


def test_discs_are_found_from_contacts_alone(crystal: Comparison) -> None:
    step = crystal.step
    net = contact_segments(step)
    bodies = without_walls(step)
    many = [b for b in np.unique(bodies[bodies >= 0]) if (bodies == b).sum() > 2]
    assert len(net.radii) >= len(many)
    np.testing.assert_allclose(net.radii, net.radii[0], rtol=1e-6)
    both = np.all(bodies >= 0, axis=1)
    length = np.linalg.norm(net.end - net.start, axis=1)[both]
    np.testing.assert_allclose(length, 2.0 * net.radii[0], rtol=1e-6)


def test_flat_bodies_have_no_centre_but_are_drawn() -> None:
    net = contact_segments(bank.load("beam-uniform").step)
    assert net.radii.size == 0
    assert np.all(np.linalg.norm(net.end - net.start, axis=1) > 0.0)


def test_a_step_without_points_cannot_be_drawn(beam: Comparison) -> None:
    bare = beam.step.replace(points=None)
    with pytest.raises(cdopt.InvalidInput, match="no points"):
        plots.force_chains(bare, beam)
    with pytest.raises(cdopt.InvalidInput, match="no normals"):
        plots.force_chains(beam.step.replace(normals=None), beam)


@pytest.mark.parametrize("view", VIEWS)
def test_views_keep_up_up(view: str) -> None:
    points = np.array([[0.0, 0.0, 0.0], [0.0, 0.0, 2.0], [1.0, 1.0, 1.0], [-1.0, -1.0, 1.0]])
    flat, _, _ = Camera.facing(points, view).project(points)
    assert flat[1, 0] == pytest.approx(flat[0, 0])
    assert flat[1, 1] > flat[0, 1]


def test_perspective_enlarges_what_is_near_and_keeps_lines_straight() -> None:
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


# --- story -----------------------------------------------------------------------------


def test_story_chooses_by_size(beam, pyramid) -> None:
    assert len(plots.story(beam.step, beam).axes[0].lines) == len(beam)
    chains = plots.story(pyramid.step, pyramid)
    assert any(isinstance(c, LineCollection) for c in chains.axes[0].collections)
    bare = pyramid.step.replace(points=None)
    assert plots.story(bare, pyramid).get_supylabel() == "contact force [N]"


def test_story_of_a_truss() -> None:
    truss = bank.load("fan").formulation("truss")
    solutions, failures = attempt(truss.solve, ["clarabel"])
    figure = plots.story(None, SolutionSet(solutions, failures=failures, title="fan"))
    np.testing.assert_array_equal(figure.axes[0].lines[0].get_ydata(), solutions[0].f)
    assert figure.texts[0].get_text() == "fan"


def test_story_claims_no_more_than_the_numbers(beam: Comparison) -> None:
    title = plots.story(beam.step, beam).texts[0].get_text()
    assert title == "One problem, 3 solvers that report success, different forces"
    unique = compared("tripod")
    assert plots.story(unique.step, unique).texts[0].get_text().endswith("the same forces")
    assert plots.story(beam.step, beam, title="", subtitle="").texts == []


def test_nothing_to_draw_is_said(beam: Comparison) -> None:
    silent = dataclasses.replace(beam[0], f=None)
    with pytest.raises(cdopt.InvalidInput, match="none with forces"):
        plots.story(beam.step, SolutionSet([silent]))
    with pytest.raises(cdopt.InvalidInput, match="one per contact"):
        plots.force_bars([beam[0], dataclasses.replace(beam[1], f=np.ones(4))])
    empty = compared("zero-contacts", "clarabel")
    with pytest.raises(cdopt.InvalidInput, match="no contacts"):
        plots.story(empty.step, empty)


@pytest.mark.parametrize("problem", ["beam", "crystal", "pyramid"])
def test_no_text_is_cut_or_covered_by_another(problem: str, request) -> None:
    comparison = request.getfixturevalue(problem)
    legible(plots.story(comparison.step, comparison))


# --- files and imports -----------------------------------------------------------------


@pytest.mark.parametrize(
    ("suffix", "start"),
    [(".png", b"\x89PNG"), (".pdf", b"%PDF"), (".svg", b"<?xml"), (".PNG", b"\x89PNG")],
)
def test_formats(suffix: str, start: bytes, beam: Comparison, tmp_path) -> None:
    path = tmp_path / f"beam{suffix}"
    plots.save(plots.story(beam.step, beam), path)
    assert path.read_bytes().startswith(start)


@pytest.mark.parametrize("name", ["beam.bmp", "beam", "nowhere/beam.png"])
def test_bad_paths(name: str, beam: Comparison, tmp_path) -> None:
    with pytest.raises(cdopt.InvalidInput) as caught:
        plots.save(plots.force_bars(beam), tmp_path / name)
    assert caught.value.argument == "path"


def test_palette_is_unambiguous() -> None:
    looks = list(plots.PALETTE.values())
    assert len({entry.colour for entry in looks}) == len(looks)
    styles = [MarkerStyle(entry.marker) for entry in looks]
    outlines = [style.get_path().transformed(style.get_transform()).vertices for style in styles]
    assert len({outline.round(3).tobytes() for outline in outlines}) == len(looks)
    assert set(cdopt.backends.available()) <= set(plots.PALETTE)
    assert plots.look("something-new").name == "something-new"


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


@pytest.fixture(scope="module")
def step() -> cdopt.ContactStep:
    names = np.array([f"{i}{HOSTILE}" for i in range(3)])
    return cdopt.bank.load("beam-uniform").step.replace(contact_ids=names)


def drawn(figure) -> set[str]:
    """What is drawn from names, as it is read: without the marks that keep it from being parsed."""
    figure.savefig(io.BytesIO(), format="png")
    found = {text.get_text() for text in figure.findobj(Text) if "undefined" in text.get_text()}
    return {text.replace(r"\$", "$") for text in found}


def test_names_with_dollars_are_drawn(step) -> None:
    classic = cdopt.ClassicCD(step)
    answer = classic.solve("newton")
    report, around = cdopt.indeterminacy(step), cdopt.ensemble(step)
    words = {"title": HOSTILE, "subtitle": HOSTILE}
    for figure in (
        plots.force_bars([answer], step=step, **words),
        plots.force_intervals(report, [answer], **words),
        plots.force_ensemble(around, {HOSTILE: answer.f}, **words),
        plots.stiffness_influence(cdopt.sensitivity(step), step.contact_ids.tolist(), **words),
        plots.force_distributions([answer], **words),
    ):
        assert HOSTILE in drawn(figure)


def test_formulas_of_our_own_stay() -> None:
    assert literal(Formula("$t_c$")) == "$t_c$"
    assert literal("a$b\x1b\n") == "a\\$b\N{REPLACEMENT CHARACTER}\n"
