"""Pictures and pages of runs: what they show, and that a page works in a browser, offline."""

from __future__ import annotations

import functools
import math

import numpy as np
import pytest
from browser import PROGRAM, browser
from pictures import by_gid, legible

import cdopt
from cdopt._util.errors import InvalidInput, Unsupported
from cdopt.plots import run_overview
from cdopt.plots.bodies import Solids
from cdopt.plots.page import check_page, run_page, save_page


@functools.cache
def ran(name: str, **options) -> cdopt.Trajectory:
    """A short run of a generator's scene."""
    scene = {
        "pyramid": lambda: cdopt.scene.pyramid(3),
        "piston": lambda: cdopt.scene.load("problems/piston.toml"),
        "box": lambda: cdopt.scene.box_on_floor(dim=3, gap=0.001, angle=0.1),
        "beam": cdopt.scene.beam,
    }[name]()
    return cdopt.simulate(scene, 1e-3, 0.02, **options)


def texts(figure) -> str:
    return "\n".join(t.get_text() for t in figure.findobj(lambda a: hasattr(a, "get_text")))


# --- solids ----------------------------------------------------------------------------


def test_lines_end_in_centres_of_spheres_and_at_walls() -> None:
    run = ran("piston")
    frame = run.final
    lines = Solids.of(run.scene, frame.state.position).lines(frame)
    for line, (i, j), point in zip(lines, frame.bodies, frame.points, strict=True):
        first = point if i < 3 else frame.state.position[i]  # the first three are walls
        np.testing.assert_allclose(line[0, :2], first)
        np.testing.assert_allclose(line[1, :2], frame.state.position[j])


def test_walls_are_drawn_beside_the_bodies_and_in_their_plane() -> None:
    for name in ("piston", "box"):
        run = ran(name)
        solids = Solids.of(run.scene, run.q[..., : run.scene.dim])
        patches = solids.patches(run.final.state)
        place = np.zeros((len(solids.walls), 3))
        place[:, : run.scene.dim] = run.final.state.position[solids.walls]
        off = np.einsum("nkj,nj->nk", patches - place[:, None], solids.normals)
        assert np.abs(off).max() < 1e-12


# --- on paper --------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize(("name", "frame"), [("pyramid", -1), ("pyramid", 0), ("piston", -1)])
def test_an_overview_is_legible(name: str, frame: int) -> None:
    legible(run_overview(ran(name), frame))


@pytest.mark.slow
def test_a_panel_for_each_kind_of_force_on_one_scale() -> None:
    figure = run_overview(ran("beam"))
    classic, compatible = (by_gid(axes, "forces") for axes in figure.axes[:2])
    np.testing.assert_allclose(np.sort(compatible.get_array()), [10 / 3] * 3)
    assert classic.norm.vmax == compatible.norm.vmax
    assert "Compatible" in texts(figure)
    assert "max 3.33 N" in texts(figure)
    alone = texts(run_overview(ran("beam", method="classic-cd")))
    assert "Classic" in alone
    assert "Compatible" not in alone
    for frame in (21, -22, True, 1.5):
        with pytest.raises(InvalidInput, match="frame"):
            run_overview(ran("beam"), frame)


# --- pages -----------------------------------------------------------------------------


def test_without_k3d_the_extra_is_named(monkeypatch, tmp_path) -> None:
    monkeypatch.setitem(__import__("sys").modules, "k3d", None)
    with pytest.raises(Unsupported, match="pip install k3d"):
        run_page(ran("pyramid"))
    with pytest.raises(Unsupported, match="k3d"):
        check_page(tmp_path / "a.html", ran("pyramid").scene)
    assert check_page(tmp_path / "a.html", ran("beam").scene) == tmp_path / "a.html"


@pytest.mark.parametrize("name", ["beam", "pyramid"])
def test_a_page_stands_alone(name: str) -> None:
    if name == "pyramid":
        pytest.importorskip("k3d", reason="pages need the extra 'pages'")
    text = run_page(ran(name), title="<script>alert(1)</script>")
    assert "<script>alert" not in text
    assert 'src="http' not in text
    assert "viewport" in text
    with pytest.raises(InvalidInput, match="frame"):
        run_page(ran(name), 21)


@pytest.mark.parametrize("name", ["beam", "pyramid"])
def test_a_long_run_is_thinned_out(name: str, monkeypatch) -> None:
    if name == "pyramid":
        pytest.importorskip("k3d", reason="pages need the extra 'pages'")
    for module in ("page", "flat_page"):
        monkeypatch.setattr(f"cdopt.plots.{module}.BUDGET", 1000)
    text = run_page(ran(name))
    shown = text.partition("21 frames, ")[2].partition(" of them shown")[0]
    assert 2 <= int(shown) < 21


needs_browser = pytest.mark.skipif(PROGRAM is None, reason="no chromium here to open a page with")


@pytest.mark.slow
@needs_browser
def test_pages_in_a_browser(tmp_path) -> None:
    """No errors, no requests; slider, menus and sizes work; something is drawn at two widths."""
    pytest.importorskip("k3d", reason="pages need the extra 'pages'")
    pages = {name: save_page(ran(name), tmp_path / f"{name}.html") for name in ("pyramid", "box")}
    with browser(tmp_path / "profile") as view:
        for name, page in pages.items():
            for width, height in ((1280, 800), (400, 700)) if name == "pyramid" else ((400, 700),):
                view.open(page, width, height)
                view.until("document.body && document.body.dataset.frame === '20'")
                assert view.run("document.documentElement.scrollWidth") <= width
                assert view.run("document.getElementById('canvasTarget').clientHeight") > 300
                view.until(INK)
            move = "const s = document.getElementById('frame'); s.value = 0; s.oninput();"
            view.run(f"(() => {{ {move} }})()")
            view.until("document.body.dataset.frame === '0'")
            assert "no forces yet" in view.run("document.getElementById('count').textContent")
            view.run("(() => { document.getElementById('frame').value = 16; })()")
            view.run("document.getElementById('play').onclick()")
            view.until("document.body.dataset.frame === '20'")
            before = float(view.run("parseFloat(document.getElementById('top').textContent)"))
            largest = [ran(name).final.forces[f].max() for f in ("f", "f_classic")]
            assert before == pytest.approx(largest[0], rel=1e-3)
            choose = "const m = document.getElementById('force'); m.value = 'f_classic';"
            view.run(f"(() => {{ {choose} m.oninput(); }})()")
            read = "parseFloat(document.getElementById('top').textContent)"
            view.until(f"Math.abs({read} - {largest[1]}) < {1e-3 * largest[1]}")
            assert view.run("document.title") == ran(name).scene.title
        assert view.silent
    assert math.isfinite(before)


# whether the canvas shows anything but its background
INK = """(() => {
  const canvas = document.querySelector('#canvasTarget canvas');
  const copy = document.createElement('canvas');
  copy.width = 80; copy.height = 60;
  const pen = copy.getContext('2d');
  pen.drawImage(canvas, 0, 0, 80, 60);
  const data = pen.getImageData(0, 0, 80, 60).data;
  let dark = 0;
  for (let i = 0; i < data.length; i += 4) if (data[i + 3] > 0 && data[i] < 200) dark += 1;
  return dark > 40;
})()"""
