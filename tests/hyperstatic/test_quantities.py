"""Bounds of linear quantities: brute force, sums of components, wrenches, witnesses."""

from __future__ import annotations

import numpy as np
import pytest
from conftest import MANIFESTS
from hypothesis import given, settings
from hypothesis import strategies as st
from judges import networks, rays, step_on, vertices

import cdopt

PILE = cdopt.bank.load("rough-pile:n=3").step
WALL = cdopt.bank.load("rough-wall:courses=3,bricks=2").step


@settings(max_examples=25)
@given(networks(), st.integers(0, 1000))
def test_against_every_vertex_of_small_networks(drawn, seed) -> None:
    """Costs of both signs, over all vertices; unbounded where a ray lets them grow."""
    B, forces = drawn
    C = np.random.default_rng(seed).integers(-2, 3, (3, len(B))).astype(float)
    report = cdopt.indeterminacy(step_on(B, forces), quantities={"q": C})
    found, closed = report.quantity("q"), report.closed
    assert found.ok, found.failures
    corners = np.zeros((1, len(B)))
    if closed.any():
        inside = vertices(B[closed], B.T @ forces)
        corners = np.zeros((len(inside), len(B)))
        corners[:, closed] = inside
    values, scale = corners @ C.T, max(np.abs(corners).max(initial=0.0), 1.0)
    if not closed.any() or not rays(B[closed]).any():
        np.testing.assert_allclose(found.lower, values.min(axis=0), atol=1e-7 * scale)
        np.testing.assert_allclose(found.upper, values.max(axis=0), atol=1e-7 * scale)
    assert (found.lower <= values.min(axis=0) + 1e-7 * scale).all()
    assert (found.upper >= values.max(axis=0) - 1e-7 * scale).all()
    for k, side in np.ndindex(3, 2):
        end, f = (found.lower, found.upper)[side][k], found.witnesses[k, side]
        if np.isfinite(end):
            assert f.min() >= -1e-8 * scale
            np.testing.assert_allclose(B.T @ f, B.T @ forces, atol=1e-6 * scale)
            assert C[k] @ f == pytest.approx(end, abs=1e-6 * scale)
        else:
            assert np.isnan(f).all()


@pytest.mark.parametrize("step", [PILE, WALL], ids=["space", "plane"])
def test_components_are_rows_of_the_identity_and_witnesses_are_admissible(step) -> None:
    d, some = step.friction.d, 4
    C = np.eye(step.nc * d)[: some * d]
    report = cdopt.indeterminacy(step, "coulomb", {"some": C}, contacts=range(some))
    found, (lower, upper) = report.quantity("some"), report.intervals
    unit = report.unit.max()
    np.testing.assert_allclose(found.lower, lower[:some].ravel(), atol=1e-6 * unit)
    np.testing.assert_allclose(found.upper, upper[:some].ravel(), atol=1e-6 * unit)
    B = cdopt.problem.frictional_data(step, "coulomb").B
    for f in found.witnesses.reshape(-1, step.nc * d):
        np.testing.assert_allclose(B.T @ f, report.faces.load, atol=1e-6 * unit)
        table = f.reshape(-1, d)
        slack = step.friction.mu * table[:, 0] - np.linalg.norm(table[:, 1:], axis=1)
        assert slack.min() >= -1e-6 * unit
    attained = np.einsum("kr,ksr->ks", C, found.witnesses)
    np.testing.assert_allclose(attained, np.column_stack([found.lower, found.upper]), atol=1e-5)


@pytest.mark.parametrize("step", [PILE, WALL], ids=["space", "plane"])
def test_the_wrench_on_a_free_body_is_determined_and_that_of_one_contact_is_not(step) -> None:
    body = int(step.dof_body[-1])
    whole = cdopt.wrench(step, body)
    here = np.flatnonzero((step.bodies == body).any(axis=1))
    one = cdopt.wrench(step, body, of=here[:1])
    report = cdopt.indeterminacy(step, "coulomb", {"all": whole, "one": one}, contacts=[])
    total, part = report.quantity("all"), report.quantity("one")
    weight = -step.F_ext[step.dof_body == body]  # it is at rest
    size = np.abs(weight).max()
    assert total.unique.all()
    np.testing.assert_allclose(total.lower, weight, atol=1e-6 * size)
    assert total.residual.max() <= 1e-12  # linear algebra gives it, without a program
    assert total.width.max() <= 1e-12 * size
    assert not part.unique.any()
    assert part.width.max() > 0.1 * size


def test_a_sum_is_determined_where_forces_grow_without_bound() -> None:
    """6 N in a steep rough groove, in space: its sides press at will, together they carry it."""
    s, c = 0.28, 0.96
    across = np.array([[-s, 0, c], [0, 1, 0], [s, 0, c], [0, 1, 0]])
    groove = cdopt.ContactStep(
        np.eye(3), [[c, 0, s], [-c, 0, s]], [0, 0], np.zeros(3), [0, 0, -6], 1e-3,
        friction=cdopt.Friction(0.5, across), dof_body=[0, 0, 0],
    )  # fmt: skip
    quantities = {"all": cdopt.wrench(groove, 0), "press": np.eye(6)[0]}
    report = cdopt.indeterminacy(groove, "coulomb", quantities, contacts=[])
    total, press = report.quantity("all"), report.quantity("press")
    for end in (total.lower, total.upper):
        np.testing.assert_allclose(end, [0.0, 0.0, 6.0], atol=1e-12)
    assert total.residual.max() <= 1e-12
    assert press.upper[0] == np.inf
    assert repr(total) == "Quantity(all: [0, 0], [0, 0], [6, 6])"


@pytest.mark.parametrize("dim", [2, 3])
def test_wrenches_by_geometry_are_those_of_the_degrees_of_freedom(dim: int) -> None:
    """About the centre of mass; about another point the moment has the force's lever in it."""
    scene = cdopt.scene.box_stack(2, dim=dim)
    contacts = cdopt.collision.detect(scene, scene.initial)
    step = cdopt.collision.step(scene, scene.initial, contacts, 1e-3, friction=0.5)
    body = int(step.dof_body[-1])
    place = scene.initial.position[body]
    own = cdopt.wrench(step, body).toarray()
    at = cdopt.wrench(step, body, about=place).toarray()
    np.testing.assert_allclose(own, at, atol=1e-12)
    away = np.arange(1.0, dim + 1.0)
    moved = cdopt.wrench(step, body, about=place + away).toarray()
    np.testing.assert_allclose(moved[:dim], at[:dim], atol=1e-12)
    f = np.random.default_rng(1).standard_normal(own.shape[1])
    arm, force = np.zeros((2, 3))
    arm[:dim], force[:dim] = -away, (at @ f)[:dim]
    turned = np.cross(arm, force)[-1:] if dim == 2 else np.cross(arm, force)
    np.testing.assert_allclose((moved - at)[dim:] @ f, turned, atol=1e-10)
    point, everyone = np.zeros(dim), np.unique(step.bodies).tolist()
    balance = sum(cdopt.wrench(step, k, about=point).toarray() for k in everyone)
    np.testing.assert_allclose(balance, 0.0, atol=1e-12)  # action is reaction
    assert abs(at).max() > 0.5


def test_bad_arguments_are_named() -> None:
    beam = cdopt.bank.load("beam-uniform").step
    for quantities in (3, {1: [1.0, 0.0, 0.0]}, {"q": [1.0]}, {"q": "left"}):
        with pytest.raises(cdopt.InvalidInput, match="quantities"):
            cdopt.indeterminacy(beam, quantities=quantities)
    with pytest.raises(cdopt.InvalidInput, match="name"):
        cdopt.indeterminacy(beam).quantity("left foot")
    bare = cdopt.ContactStep(np.eye(1), [[1.0]], [0.0], [0.0], [-1.0], 1e-3)
    for arguments, name in (
        ((bare, 0), "body"), ((bare, 0, None, [0.0, 0.0]), "step"), ((PILE, "nobody"), "body"),
        ((PILE, 10**6), "body"), ((PILE, 1, [10**6]), "of"), ((PILE, 1, None, [0.0]), "about"),
        ((3, 1), "step"),
    ):  # fmt: skip
        with pytest.raises(cdopt.InvalidInput, match=name):
            cdopt.wrench(*arguments)


BANK = [name for name, m in MANIFESTS.items() if m.kind != "truss"]


@pytest.mark.slow
@pytest.mark.parametrize("name", BANK)
def test_resultants_are_determined_on_the_whole_bank(name: str) -> None:
    """The wrench on a body, or N f where N and p alone are known, to 1e-8 from both sides."""
    step = cdopt.bank.load(name).step
    if step.nc == 0 or step.nc > 300:
        pytest.skip("without contacts, or large")
    law = None if step.friction is None else "coulomb"
    problem = cdopt.ClassicCD(step) if law is None else cdopt.FrictionalCD(step, law)
    if not isinstance(step, cdopt.ContactStep):
        C = problem.data.N[:3] / step.dt
    elif step.dof_body is None:
        C = problem.data.B.T[:3]
    else:
        C = cdopt.wrench(step, int(step.dof_body.max()))
    if not problem.solve("auto", check=False).ok:
        pytest.skip("it has no answer")
    found = cdopt.indeterminacy(step, law, {"total": C}, contacts=[]).quantity("total")
    assert found.ok, found.failures
    assert found.unique.all()
    assert np.nanmax(found.residual) <= 1e-8
