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
    at_rest = [state for state in posed.states if state["rests"]]
    widths = [state["rows"][1]["upper"][0] - state["rows"][1]["lower"][0] for state in at_rest]
    assert (np.diff(widths) > 0.0).all()
    assert len(at_rest) > 10


def test_what_has_no_slider() -> None:
    for name in ("rough-pile:n=3", "beam-uniform"):
        with pytest.raises(cdopt.InvalidInput):
            explore.of_friction(cdopt.open_problem(name))
    refuses("has friction", "explore", "rough-pile:n=3")


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
            near = int(np.argmin([abs(state["mu"] - mu) for state in posed.states]))
            slider = "document.getElementById('mu')"
            evaluate(view, f"({slider}.value = {near}, {slider}.dispatchEvent(new Event('input')))")
            texts[mu] = evaluate(view, "[...document.querySelectorAll('output')].map(o => o.value)")
            low, high = (posed.states[near]["rows"][0][side][0] for side in ("lower", "upper"))
            low, high = (float(f"{force:.4g}") for force in (low, high))
            assert texts[mu][1] == f"{low:,g} to {high:,g} N"
        assert evaluate(view, "document.querySelectorAll('svg .free').length") == 1
        assert evaluate(view, "document.querySelectorAll('svg .contact').length") == 2
    assert texts[0.3] != texts[0.8]
