"""Pages of runs in the plane: what they store, and that they draw it in a browser, offline."""

from __future__ import annotations

import base64
import functools
import json
import re
import zlib
from typing import Any

import numpy as np
import pytest
import shapes
from browser import PROGRAM, browser

import cdopt
from cdopt.plots.bodies import Solids
from cdopt.plots.page import run_page, save_page
from cdopt.scene import Body, Box, HalfSpace, Scene, Sphere

STOPS = 1.0 / (0.3 * 9.81)  # s: a box at 1 m/s with μ = 0.3


@functools.cache
def slid() -> cdopt.Trajectory:
    """A box that slides to rest, and a disc that turns above it, without a contact."""
    box = Body(Box([0.4, 0.2]), [0, 0.1], mass=2.0, velocity=[1, 0])
    disc = Body(Sphere(0.1), [0.8, 3.0], mass=1.0, angular_velocity=4.0)
    floor = Body(HalfSpace([0, 1]), [0, 0], fixed=True)
    return cdopt.simulate(Scene([box, disc, floor], dim=2), 5e-3, 0.4, friction=0.3)


def stored(run: cdopt.Trajectory) -> dict[str, Any]:
    """What a page holds, as its program reads it."""
    packed = re.search(r'const PACKED = "([^"]+)";', run_page(run)).group(1)
    content: dict[str, Any] = json.loads(zlib.decompress(base64.b64decode(packed)))
    return content


def test_bodies_are_where_they_were() -> None:
    """Within a step of the grid and of an angle."""
    run = cdopt.simulate(shapes.flat(), 1e-2, 0.2)
    page, solids = stored(run), Solids.of(run.scene, run.q[..., :2])
    step = max(solids.high - solids.low) / 10000
    reach = np.linalg.norm(solids.corners, axis=1).max()
    for frame, kept in zip(run, page["frames"], strict=True):
        corners, x = solids.placed(frame.state), np.reshape(kept["x"], (-1, 2))
        for piece, drawn in zip(solids.pieces, page["outlines"], strict=True):
            a = kept["a"][drawn["body"]] / page["turn"]
            turn = np.array([[np.cos(a), -np.sin(a)], [np.sin(a), np.cos(a)]])
            places = x[drawn["body"]] + np.array(drawn["ring"]) @ turn.T
            found = solids.low[:2] + step * places
            off = np.abs(found - corners[piece.faces[0], :2]).max()
            assert off < 2.0 * step + reach / page["turn"]
    turned = page["frames"][-1]["a"][page["balls"][0]] - page["frames"][0]["a"][page["balls"][0]]
    rate = run.scene.initial.v[page["balls"][0], 2]
    assert turned == pytest.approx(1000.0 * rate * 0.2, abs=2.0)


def test_contacts_slide_until_the_box_rests() -> None:
    for kept in stored(slid())["frames"][1:]:
        assert len(kept["slides"]) > 0
        if abs(kept["t"] - STOPS) > 0.01:
            assert all(kept["slides"]) == (kept["t"] < STOPS)


def test_forces_are_shares_of_the_largest() -> None:
    run, page = slid(), stored(slid())
    for frame, kept in zip(run, page["frames"], strict=True):
        assert kept["top"]["f"] == pytest.approx(frame.f.max(initial=0.0), rel=1e-5)
        found = np.array(kept["f"]["f"]) * kept["unit"] / page["shares"]
        loaded = frame.f[frame.f > 1e-3 * frame.f.max(initial=0.0)]
        np.testing.assert_allclose(found, loaded, atol=1e-3 * kept["unit"])


COUNT = """(() => {
  const flat = document.getElementById('flat');
  const copy = document.createElement('canvas');
  Object.assign(copy, { width: flat.width, height: flat.height });
  const pen = copy.getContext('2d', { willReadFrequently: true });
  pen.drawImage(flat, 0, 0);
  const data = pen.getImageData(0, 0, flat.width, flat.height).data;
  let many = 0;
  for (let i = 0; i < data.length; i += 4) {
    if ([%s].every((x, k) => Math.abs(data[i + k] - x) < 8)) many += 1;
  }
  return many;
})()"""
BLUE, RED = COUNT % "0, 114, 178", COUNT % "213, 94, 0"


@pytest.mark.slow
@pytest.mark.skipif(PROGRAM is None, reason="no chromium here to open a page with")
def test_a_page_in_a_browser(tmp_path) -> None:
    """Colours tell sliding from sticking; slider and play work; wide and narrow; no requests."""
    page = save_page(slid(), tmp_path / "slid.html", 0)
    go = "(() => { const s = document.getElementById('frame'); s.value = %d; s.oninput(); })()"
    with browser(tmp_path / "profile") as view:
        for width, height in ((1000, 700), (400, 700)):
            view.open(page, width, height)
            view.until("document.body && document.body.dataset.frame === '0'")
            assert "no forces yet" in view.run("document.getElementById('count').textContent")
            assert view.run("document.documentElement.scrollWidth") <= width
            view.run(go % 20)
            assert view.run(RED) > 20
            assert view.run(BLUE) == 0
            assert "of them slide" in view.run("document.getElementById('count').textContent")
            view.run(go % 79)
            assert view.run(RED) == 0
            assert view.run(BLUE) > 20
        view.run("document.getElementById('play').onclick()")
        view.until("document.body.dataset.frame === '80'")
        assert view.silent
