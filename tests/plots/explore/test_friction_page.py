"""Pages with a slider of μ."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from browser import browser
from chromium import evaluate, needs_browser
from command_line import refuses, run

import cdopt
from cdopt.plots import explore


@pytest.fixture(scope="module")
def posed() -> explore.FrictionalExploration:
    return explore.of_friction(cdopt.open_problem("ladder"))


@pytest.mark.slow
def test_the_states_are_those_of_the_bounds(posed: explore.FrictionalExploration) -> None:
    """The first one is the problem's own μ; without friction a ladder slides; sets are nested."""
    step = cdopt.open_problem("ladder").step
    own = posed.states[posed.start]
    report = cdopt.indeterminacy(step, law="coulomb")
    assert own["mu"] == step.friction.mu.max()
    np.testing.assert_allclose(
        [row["upper"] for row in own["rows"]], report.intervals[1], rtol=1e-9
    )
    assert own["rests"]
    assert not posed.states[0]["rests"]
    assert own["push"] == 0.0
    level = [state for state in posed.states if state["push"] == 0.0]
    assert len(level) == posed.values
    at_rest = [state for state in level if state["rests"]]
    widths = [state["rows"][1]["upper"][0] - state["rows"][1]["lower"][0] for state in at_rest]
    assert (np.diff(widths) > 0.0).all()
    assert len(at_rest) > 10


@pytest.mark.slow
def test_a_push_is_a_share_of_the_weight(posed: explore.FrictionalExploration) -> None:
    """Horizontal forces on the ladder balance it; the climber is a load and is not pushed."""
    tangents = np.array(posed.picture["tangents"])
    normals = np.array(posed.picture["normals"])
    for state in posed.states:
        if state["rests"] and all("coulomb" in row for row in state["rows"]):
            f = np.array([row["coulomb"] for row in state["rows"]])
            total = (f[:, :1] * normals + f[:, 1:] * tangents).sum(axis=0)
            np.testing.assert_allclose(
                total, [-state["push"] * 20.0 * 9.81, 100.0 * 9.81], atol=1e-5
            )
    assert {state["push"] for state in posed.states if state["rests"]} > {0.0, 0.1}
    (load,) = posed.picture["loads"]
    np.testing.assert_allclose(load["force"], [0.0, -100.0 * 9.81])
    assert load["weight"] == pytest.approx(20.0 * 9.81)


def wedged(**more) -> cdopt.study.NamedProblem:
    """A block between two slanted walls, as matrices, with places and directions alone."""
    n = np.array([[0.6, 0.8], [-0.6, 0.8]])
    t, x = n @ np.array([[0.0, -1.0], [1.0, 0.0]]), np.array([[-0.5, 0.0], [0.5, 0.0]])
    arm = lambda way: (x[:, 0] * way[:, 1] - x[:, 1] * way[:, 0])[:, None]  # noqa: E731
    friction = cdopt.Friction(0.5, np.hstack([t, arm(t)]), tangents=t[:, None])
    step = cdopt.ContactStep(
        np.diag([1.0, 1.0, 0.1]), np.hstack([n, arm(n)]), np.zeros(2), np.zeros(3),
        [0.0, -9.81, 0.0], 1e-3, friction=friction, points=x, normals=n, **more,
    )  # fmt: skip
    return cdopt.study.NamedProblem("wedged", "wedged", 2.0, step)


@pytest.mark.slow
def test_a_step_without_a_scene_is_drawn_and_its_load_scales() -> None:
    posed = explore.of_friction(wedged())
    assert posed.pushes == (0.0,)
    assert posed.heaviest == 2.0
    (body,) = posed.picture["shapes"]
    assert not body["fixed"]
    assert len(body["outline"]) >= 4
    heavy = wedged().step.replace(F_ext=[0.0, -2.0 * 9.81, 0.0])
    twice = explore.of_friction(cdopt.study.NamedProblem("wedged", "wedged", 2.0, heavy))
    for one, two in zip(posed.states, twice.states, strict=True):
        for row, double in zip(one["rows"], two["rows"], strict=True):
            if one["rests"] and None not in row["upper"]:
                np.testing.assert_allclose(2.0 * np.array(row["upper"]), double["upper"], rtol=1e-6)
    falling = wedged().step.replace(v=[0.0, -1.0, 0.0])
    moving = cdopt.study.NamedProblem("wedged", "wedged", 2.0, falling)
    assert explore.of_friction(moving).heaviest == 1.0


def test_what_has_no_slider() -> None:
    for name in ("rough-pile:n=3", "beam-uniform"):
        with pytest.raises(cdopt.InvalidInput):
            explore.of_friction(cdopt.open_problem(name))
    refuses("has friction", "explore", "rough-pile:n=3")


@pytest.mark.slow
def test_a_scene_that_states_friction_has_the_slider(tmp_path: Path) -> None:
    result = run("explore", "house-of-cards:storeys=1", "--out", tmp_path / "cards.html")
    assert "values of μ" in result.stdout, result.output


@pytest.mark.slow
@needs_browser
def test_the_slider_moves_the_bands(posed: explore.FrictionalExploration, tmp_path: Path) -> None:
    path = tmp_path / "page.html"
    explore.save_page(posed, path)
    texts = {}
    with browser(tmp_path / "profile") as view:
        for mu in (0.3, 0.8):
            view.open(path, 1000, 700)
            view.until("document.body && document.body.dataset.shown")
            level = [state for state in posed.states if state["push"] == 0.0]
            near = int(np.argmin([abs(state["mu"] - mu) for state in level]))
            slider = "document.getElementById('mu')"
            evaluate(view, f"({slider}.value = {near}, {slider}.dispatchEvent(new Event('input')))")
            texts[mu] = evaluate(view, "[...document.querySelectorAll('output')].map(o => o.value)")
            low, high = (level[near]["rows"][0][side][0] for side in ("lower", "upper"))
            low, high = (float(f"{force:.4g}") for force in (low, high))
            assert texts[mu][3] == f"{low:,g} to {high:,g} N"
            assert evaluate(view, "document.querySelectorAll('svg polygon.force').length") == 2
            assert evaluate(view, "document.querySelectorAll('svg polygon.load').length") == 1
            load = "document.getElementById('load')"
            evaluate(view, f"({load}.value = 2, {load}.dispatchEvent(new Event('input')))")
            double = evaluate(view, "[...document.querySelectorAll('output')].map(o => o.value)")
            low, high = (float(f"{2.0 * level[near]['rows'][0][side][0]:.4g}")
                         for side in ("lower", "upper"))  # fmt: skip
            assert double[3] == f"{low:,g} to {high:,g} N"
        assert evaluate(view, "document.querySelectorAll('svg .free').length") == 1
        assert evaluate(view, "document.querySelectorAll('svg .contact').length") == 2
    assert texts[0.3] != texts[0.8]
