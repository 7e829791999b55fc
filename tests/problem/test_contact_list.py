"""ContactStep.from_contacts: the same step as from a scene, statics by hand, orders of rows."""

from __future__ import annotations

import numpy as np
import pytest

import cdopt


@pytest.mark.parametrize("name", ["rough-pile:n=3", "rough-wall:courses=3,bricks=2"])
def test_a_step_of_the_bank_from_its_list(name) -> None:
    """Points, normals and masses of a step made of a scene give the same matrices."""
    step = cdopt.bank.load(name).step
    scene, state = cdopt.scene.files.placed(step)
    b = scene.bodies
    inertias = b.inertia if scene.dim == 2 else b.inertia[:, 0]
    again = cdopt.ContactStep.from_contacts(
        step.points, step.normals, step.bodies, np.where(b.fixed, 1.0, b.mass),
        np.where(b.fixed, 1.0, inertias), state.position, gravity=scene.gravity,
        fixed=b.fixed, friction=step.friction.mu, dt=step.dt, phi=step.phi,
    )  # fmt: skip
    np.testing.assert_allclose(again.B.toarray(), step.B.toarray(), atol=1e-12)
    np.testing.assert_allclose(
        again.friction.B_t.toarray(), step.friction.B_t.toarray(), atol=1e-12
    )
    np.testing.assert_allclose(again.M.toarray(), step.M.toarray(), rtol=1e-12)
    np.testing.assert_allclose(again.F_ext, step.F_ext, rtol=1e-12)
    assert again.dof_body.tolist() == step.dof_body.tolist()


def test_rates_are_those_of_moved_points() -> None:
    """B v against the motion of the points of two turning bodies, by finite differences."""
    rng = np.random.default_rng(4)
    points, centres = rng.standard_normal((5, 3)), rng.standard_normal((2, 3))
    normals = rng.standard_normal((5, 3))
    normals /= np.linalg.norm(normals, axis=1)[:, None]
    moments = np.array([np.eye(3) + 0.1 * np.ones((3, 3))] * 2)
    step = cdopt.ContactStep.from_contacts(
        points, normals, [[0, 1]] * 5, [1.0, 2.0], moments, centres, friction=0.3
    )
    v, h = rng.standard_normal(12), 1e-7
    moved = []
    for k in (0, 1):
        linear, turn = v[6 * k : 6 * k + 3], v[6 * k + 3 : 6 * k + 6]
        moved.append(points + h * (linear + np.cross(turn, points - centres[k])))
    rate = (moved[1] - moved[0]) / h
    np.testing.assert_allclose(step.B @ v, np.sum(rate * normals, axis=1), atol=1e-6)
    along = np.einsum("ikx,ix->ik", step.friction.tangents, rate)
    np.testing.assert_allclose((step.friction.B_t @ v).reshape(5, 2), along, atol=1e-6)
    np.testing.assert_allclose(step.M.toarray()[3:6, 3:6], moments[0])


def test_a_plank_on_two_trestles() -> None:
    """40 N at a third of its length: 80/3 and 40/3 N, by levers."""
    step = cdopt.ContactStep.from_contacts(
        [[0, 0], [3, 0]], [[0, 1], [0, 1]], [[0, 1], [0, 1]], [5.0, 4.0], [1.0, 1.0],
        [[0, -1], [1, 0.1]], gravity=[0, -10], fixed=[0],
    )  # fmt: skip
    np.testing.assert_allclose(cdopt.ClassicCD(step).solve("newton").f, [80 / 3, 40 / 3])
    beads = cdopt.ContactStep.from_contacts([[0, 0, 1]], [[0, 0, 1]], [[-1, 0]], [2.0],
                                            gravity=[0, 0, -10])  # fmt: skip
    np.testing.assert_allclose(cdopt.ClassicCD(beads).solve("newton").f, [20])


def test_orders_of_rows() -> None:
    last = np.array([[1.0, 2.0, 9.0], [3.0, 4.0, 8.0]])
    first = cdopt.interop.normal_first(last)
    np.testing.assert_array_equal(first, [[9, 1, 2], [8, 3, 4]])
    np.testing.assert_array_equal(cdopt.interop.normal_last(first), last)
    np.testing.assert_array_equal(cdopt.interop.normal_first(last, "normal-first"), last)
    with pytest.raises(cdopt.InvalidInput, match="rows"):
        cdopt.interop.normal_first(last, "sideways")


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("points", {"points": [[0, 0, 0, 0]]}),
        ("normals", {"normals": [[0, 2]]}),
        ("masses", {"masses": [0.0]}),
        ("bodies", {"bodies": [[-1, 1]]}),
        ("centres", {"inertias": [1.0]}),
        ("gravity", {"gravity": [0, 0, 1]}),
        ("loads", {"loads": [[1, 2, 3, 4]]}),
        ("fixed", {"fixed": [3]}),
    ],
)
def test_refusals(name, change) -> None:
    good = {"points": [[0, 0]], "normals": [[0, 1]], "bodies": [[-1, 0]], "masses": [1.0]}
    with pytest.raises(cdopt.InvalidInput, match=name):
        cdopt.ContactStep.from_contacts(**{**good, **change})
