"""Pictures of audits: arrows where mechanics is wrong, strokes of the choice, dots outside."""

from __future__ import annotations

import numpy as np
import pytest
from pictures import all_by_gid, by_gid

import cdopt
from cdopt import plots
from cdopt.plots.audited import error_arrows

STEP = cdopt.bank.load("rough-wall:courses=3,bricks=2").step


def test_an_error_is_an_arrow_as_long_as_what_is_missing() -> None:
    answer = cdopt.FrictionalCD(STEP).solve("newton")
    lifted = answer.f.copy()
    lifted[0] += 10.0  # the floor pushes brick 0 up by 10 N more than it should
    found = cdopt.audit(STEP, lifted, answer.f_t)
    places, errors, names = error_arrows(found)
    assert names == ["brick 0"]
    np.testing.assert_allclose(errors, [[0.0, 10.0]], atol=1e-6)
    here = (STEP.bodies == STEP.bodies[0].max()).any(axis=1)
    np.testing.assert_allclose(places[0], STEP.points[here].mean(axis=0))
    figure = plots.audited_forces(found, bodies=cdopt.scene.files.placed(STEP), title="wall")
    assert any("10 N" in text.get_text() for text in figure.axes[0].get_legend().texts)


def test_a_choice_has_strokes_and_no_arrow() -> None:
    answer = cdopt.FrictionalCD(STEP).solve("newton")
    found = cdopt.audit(STEP, answer.f, answer.f_t)
    assert not len(error_arrows(found)[0])
    axes = plots.audited_forces(found).axes[0]
    strokes = np.array(by_gid(axes, "choice").get_segments())
    along = strokes[:, 1] - strokes[:, 0]
    vectors = STEP.contact_vectors(found.choice[:, 0], found.choice[:, 1:])
    ratio = float(np.sum(along * vectors) / np.sum(vectors**2))
    np.testing.assert_allclose(along, ratio * vectors, atol=1e-9)
    assert not all_by_gid(axes, "outside")
    key = axes.get_legend().texts[0].get_text()
    assert f"{np.linalg.norm(found.choice):,.4g} N in all" in key  # the number of the title
    assert f"longest stroke {np.linalg.norm(vectors, axis=1).max():,.3g} N" in key


def test_a_robot_whose_legs_turn_on_joints_has_the_arrow_of_its_trunk() -> None:
    """A trunk (x, z, turn) on two feet; the left one is a leg that turns on a hinge above it."""
    B = np.array([[0.0, 1.0, -1.0, 0.3], [0.0, 1.0, 1.0, 0.0], [0.0, 1.0, 0.0, 0.0]])
    step = cdopt.ContactStep(
        np.eye(4), B, np.zeros(3), np.zeros(4), -B.T @ [5.0, 5.0, 5.0], 1e-3,
        points=[[-1, 0], [1, 0], [0, 0]], normals=[[0, 1]] * 3, bodies=[[-1, 1], [-1, 0], [-1, 0]],
        dof_body=[0, 0, 0, 1], body_names=["trunk", "leg"], contact_ids=["left", "right", "middle"],
    )  # fmt: skip
    found = cdopt.audit(step, [6.0, 5.0, 5.0], v_next=np.zeros(4))
    places, errors, names = error_arrows(found)
    assert sorted(names) == ["leg", "trunk"]
    trunk, leg = names.index("trunk"), names.index("leg")
    np.testing.assert_allclose(errors[trunk], [0.0, 1.0], atol=1e-9)
    np.testing.assert_array_equal(errors[leg], 0.0)  # drawn as a ring
    np.testing.assert_allclose(places, [[0.5, 0.0], [-1.0, 0.0]][:: 1 if trunk == 0 else -1])
    axes = plots.audited_forces(found).axes
    assert {"trunk", "leg"} <= {text.get_text() for text in axes[0].texts}
    assert [tick.get_text() for tick in axes[1].get_xticklabels()] == ["left", "right", "middle"]
    np.testing.assert_allclose(found.sums["trunk"], [0.0, 10.0])
    np.testing.assert_allclose(found.sums["leg"], [0.0, 6.0])
    assert "contact forces on" in str(found)


def test_steps_without_points_show_contacts_alone() -> None:
    beam = cdopt.ContactStep(np.eye(1), [[1], [1]], [0, 0], [0], [-2], 1e-3)
    figure = plots.audited_forces(cdopt.audit(beam, [3, -1]))
    assert len(figure.axes) == 1
    assert len(by_gid(figure.axes[0], "outside").get_xdata()) == 2
    with pytest.raises(cdopt.InvalidInput, match="view"):
        plots.audited_forces(cdopt.audit(STEP, np.ones(STEP.nc)), view="below")


def test_without_nearest_forces_the_contacts_outside_come_first() -> None:
    """Of 100 contacts the one whose force pulls is shown, although it is the last."""
    n = 100
    step = cdopt.ContactStep(np.eye(n), np.eye(n), np.zeros(n), np.zeros(n), -np.ones(n), 1e-3)
    forces = np.ones(n)
    forces[-1] = -1.0
    judged = cdopt.audit(step, forces, v_next=np.zeros(n))
    unknown = np.full(n, np.nan)
    hidden = type(judged)._of(**{**vars(judged), "nearest": None, "distance": unknown})
    axes = plots.audited_forces(hidden).axes[-1]
    np.testing.assert_array_equal(by_gid(axes, "outside").get_ydata(), [-1.0])
    assert any("farthest outside" in text.get_text() for text in axes.texts)
