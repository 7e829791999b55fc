"""Pictures of forces with friction: lengths, cones and colours on the page."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import cdopt
from cdopt import plots
from cdopt.plots.chains import mobilised


@pytest.fixture(scope="module")
def sliding() -> tuple[Any, Any]:
    step = cdopt.bank.load("incline", ratio=2.0).step
    return step, cdopt.FrictionalCD(step).solve("newton")


def drawn(figure: Any, gid: str) -> Any:
    (found,) = [c for c in figure.axes[0].collections if c.get_gid() == gid]
    return found


def test_lines_are_the_forces_within_their_cones(sliding) -> None:
    step, answer = sliding
    figure = plots.friction_forces(step, [answer])
    lines = np.array(drawn(figure, "forces").get_segments())
    vectors = step.contact_vectors(answer.f, answer.f_t)
    np.testing.assert_allclose(lines[:, 0], step.points, atol=1e-12)
    along = lines[:, 1] - lines[:, 0]
    ratio = along[0] @ vectors[0] / (vectors[0] @ vectors[0])
    np.testing.assert_allclose(along, ratio * vectors, atol=1e-12)
    np.testing.assert_allclose(drawn(figure, "forces").get_array(), 1.0, atol=1e-9)  # it slides
    cones = np.array([path.vertices[:3] for path in drawn(figure, "cones").get_paths()])
    near = np.abs(cones[:, 1:] - lines[:, None, 1]).sum(axis=2).min(axis=1)
    np.testing.assert_allclose(near, 0.0, atol=1e-9)  # sliding forces lie on the cone


def test_mobilised_friction() -> None:
    mu, f = np.array([0.5, 0.5, 0.0, 0.5]), np.array([2.0, 2.0, 2.0, 0.0])
    f_t = np.array([[0.3, 0.4], [1.0, 0.0], [0.0, 0.0], [0.0, 0.0]])
    np.testing.assert_allclose(mobilised(mu, f, f_t), [0.5, 1.0, 0.0, 0.0])


def test_steps_in_space_with_their_bodies() -> None:
    scene = cdopt.scene.pyramid(3, separation=0.0)
    contacts = cdopt.collision.detect(scene, scene.initial)
    step = cdopt.collision.step(scene, scene.initial, contacts, dt=1e-3, friction=0.5)
    answer = cdopt.FrictionalCD(step).solve("newton")
    figure = plots.friction_forces(step, [answer], bodies=(scene, scene.initial))
    assert len(drawn(figure, "forces").get_segments()) == step.nc
    assert "mobilised" in figure.axes[-1].get_xlabel()


def test_what_cannot_be_drawn_is_named(sliding) -> None:
    step, answer = sliding
    smooth = step.without_friction()
    with pytest.raises(cdopt.InvalidInput, match="no friction"):
        plots.friction_forces(smooth, [answer])
    with pytest.raises(cdopt.InvalidInput, match="none with friction"):
        plots.friction_forces(step, [cdopt.ClassicCD(smooth).solve("newton")])
    with pytest.raises(cdopt.InvalidInput, match="no points"):
        plots.friction_forces(step.replace(points=None), [answer])


def test_an_admissible_region_has_every_answer_as_a_point() -> None:
    step = cdopt.bank.load("ladder").step
    report = cdopt.indeterminacy(step, law="coulomb")
    answers = [cdopt.FrictionalCD(step).solve(name) for name in ("newton", "clarabel")]
    network = cdopt.CompatibleFriction(step).solve()
    panel = plots.admissible_region(report, 1, answers, [network]).axes[0]
    labels = [text.get_text() for text in panel.get_legend().get_texts()]
    assert labels == ["admissible", "Newton", "Clarabel", "network with Coulomb micro-slip"]
    drawn = [line.get_xydata()[0] for line in panel.lines if line.get_marker() != "None"]
    np.testing.assert_allclose(drawn[0], [answers[0].f[1], answers[0].f_t[1, 0]])
    with pytest.raises(cdopt.InvalidInput, match="contact"):
        plots.admissible_region(report, 2)
