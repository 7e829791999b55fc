"""Elastic networks with friction: both forms, both flows, increments, history, bounds."""

from __future__ import annotations

import numpy as np
import pytest

import cdopt
from cdopt.problem.cones import FixedFaces

EXACT = {"tol_gap_abs": 1e-13, "tol_gap_rel": 1e-13, "tol_feas": 1e-13}
PILE = cdopt.bank.load("rough-pile:n=3").step


def table(forces: cdopt.formulations.NetworkForces) -> np.ndarray:
    return np.column_stack([forces.f, forces.f_t])


def matrices(network: cdopt.FrictionNetwork) -> tuple[np.ndarray, ...]:
    normal = np.arange(network.B.shape[0]) % network.d == 0
    return network.B[normal], network.B[~normal], network.load, network.mu


@pytest.mark.parametrize("name", ["rough-pile:n=3", "rough-wall:courses=3,bricks=2"])
def test_both_forms_and_newton_agree(name: str) -> None:
    network = cdopt.CompatibleFriction(cdopt.bank.load(name).step, flow="associated").network()
    forces = network.solve()
    assert forces.certificate.worst <= 1e-9
    stiffness, faces = network.D[:, 0], {"status": network.status, "rays": network.rays}
    faces["dof_body"] = network.data.dof_body
    ratio = network.D[:, 1] / stiffness
    for form in ("complementary", "potential"):
        posed = cdopt.FrictionNetwork(
            *matrices(network), stiffness, ratio, flow="associated", form=form, **faces
        )
        other = posed.solve("clarabel", **EXACT)
        assert other.ok
        assert other.solution.backend == "clarabel"
        np.testing.assert_allclose(table(other), table(forces), atol=2e-7 * forces.f.max())
        assert "minimize" in str(posed.problem)
    scaled = table(forces) / np.sqrt(network.D)
    energy = 0.5 * np.sum(scaled**2)
    dual = 0.5 * np.sum(scaled**2) + network.load @ forces.u
    assert abs(energy + dual) <= 1e-9 * energy


@pytest.mark.parametrize("flow", ["coulomb", "associated"])
def test_wrong_forces_of_a_network_are_not_certified(flow: str) -> None:
    """A self-balanced change keeps equilibrium: the law of the springs finds it."""
    network = cdopt.CompatibleFriction(PILE, flow=flow).network()
    forces = network.solve()
    right, u = forces.solution.iterate.forces, forces.u
    assert cdopt.certify(network.data, u, right, 1e-9).ok
    balanced = np.linalg.svd(network.B.T.toarray())[2][-1]
    wrong = cdopt.certify(network.data, u, right + 1e-3 * right.max() * balanced)
    assert not wrong.ok
    assert wrong["equilibrium"] < 1e-6 < wrong["law"]
    assert not cdopt.certify(network.data, u, 1.001 * right).ok
    assert not cdopt.certify(network.data, 1.001 * u, right).ok


def test_coulombs_micro_slip_takes_newtons_method_alone() -> None:
    network = cdopt.CompatibleFriction(PILE).network()
    with pytest.raises(cdopt.Unsupported, match="convex"):
        network.solve("clarabel")


@pytest.mark.parametrize("d", [2, 3])
def test_springs_project_on_cones_and_faces_in_their_own_norm(d: int) -> None:
    """The nearest forces by the energy of the springs: f = y − D g with g in the dual cone."""
    rng = np.random.default_rng(d)
    nc = 40
    status, mu = rng.integers(0, 3, nc), rng.uniform(0.1, 1.5, nc)
    ray = np.column_stack([np.ones(nc), mu[:, None] * np.eye(d - 1)[rng.integers(d - 1, size=nc)]])
    k = rng.uniform(0.5, 2.0, nc)
    D = np.column_stack([k, *[k * rng.uniform(0.3, 3.0, nc)] * (d - 1)]).ravel()
    faces = FixedFaces(mu, d, status, ray)
    root = np.sqrt(D)
    y = rng.standard_normal(nc * d)
    f = root * faces.in_units(root).project(y / root)
    assert np.abs(f - faces.project(f)).max() <= 1e-14
    slack = ((f - y) / D * f).reshape(nc, d).sum(axis=1)
    assert np.abs(slack).max() <= 1e-13
    for _ in range(50):  # of all admissible forces none is nearer
        other = faces.project(3.0 * rng.standard_normal(nc * d))
        assert np.all(((f - y) / D * (other - f)).reshape(nc, d).sum(axis=1) >= -1e-12)
    change = 1e-7 * rng.standard_normal(nc * d)
    slope = faces.projection_derivative(y)
    moved = (faces.project(y + change) - faces.project(y - change)).reshape(nc, d) / 2.0
    expected = np.einsum("ikl,il->ik", slope, change.reshape(nc, d))
    np.testing.assert_allclose(moved, expected, atol=1e-12)


@pytest.mark.parametrize("flow", ["coulomb", "associated"])
def test_ten_increments_are_one(flow: str) -> None:
    network = cdopt.CompatibleFriction(PILE, flow=flow).network()
    whole = network.solve()
    normal, tangential = network.B[::3], network.B[np.arange(network.B.shape[0]) % 3 > 0]
    trial = None
    for k in range(1, 11):
        part = cdopt.FrictionNetwork(
            normal, tangential, 0.1 * k * network.load, network.mu, trial=trial, flow=flow
        ).solve()
        trial = part.trial
    np.testing.assert_allclose(table(part), table(whole), atol=1e-9 * whole.f.max())


def test_the_flows_differ_where_contacts_slip_and_lie_in_the_bounds() -> None:
    report = cdopt.indeterminacy(PILE, law="coulomb")
    coulomb, associated = (
        cdopt.CompatibleFriction(PILE, flow=flow).solve() for flow in ("coulomb", "associated")
    )
    for forces in (coulomb, associated):
        assert forces.ok
        assert report.outside(forces.f, forces.f_t).max() <= 1e-6 * report.unit.max()
    assert np.abs(coulomb.f - associated.f).max() > 0.01 * coulomb.f.max()
    sticky = PILE.replace(friction=cdopt.Friction(5.0, PILE.friction.B_t))
    one, two = (cdopt.CompatibleFriction(sticky, flow=f).solve() for f in ("coulomb", "associated"))
    np.testing.assert_allclose(one.f, two.f, atol=1e-9 * one.f.max())


def test_sliders_are_refused_or_labelled_and_mu_zero_is_the_truss() -> None:
    slope = cdopt.bank.load("incline:ratio=1.5").step
    with pytest.raises(cdopt.Unsupported, match="Coulomb"):
        cdopt.CompatibleFriction(slope).solve()
    forces = cdopt.CompatibleFriction(slope, sliders="haar-karman").solve()
    assert "in place of Coulomb" in forces.label
    np.testing.assert_allclose(np.abs(forces.f_t[:, 0]), 0.5 * forces.f, rtol=1e-9)
    step = cdopt.bank.load("beam-stiff-middle").step
    flat = step.replace(friction=cdopt.Friction(0.0, np.zeros((step.nc, step.nv))))
    smooth = cdopt.CompatibleFriction(flat, flow="associated").solve()
    np.testing.assert_allclose(smooth.f, [2.0, 6.0, 2.0], rtol=1e-9)


def test_faces_are_stated_by_a_report_or_by_numbers() -> None:
    slope = cdopt.bank.load("incline:ratio=1.5").step
    faces = cdopt.indeterminacy(slope, law="coulomb").faces
    assert set(faces.status.tolist()) == {1}
    matrices = (slope.B, slope.friction.B_t, faces.load, slope.friction.mu)
    by_report = cdopt.FrictionNetwork(*matrices, status=faces, flow="associated").solve()
    by_numbers = cdopt.FrictionNetwork(
        *matrices, status=faces.status, rays=faces.ray, flow="associated"
    ).solve()
    np.testing.assert_array_equal(by_numbers.f, by_report.f)
    np.testing.assert_allclose(np.abs(by_report.f_t[:, 0]), 0.5 * by_report.f, rtol=1e-9)
    for bad in ({"status": [3] * slope.nc}, {"status": [1] * slope.nc}, {"status": [2]}):
        with pytest.raises(cdopt.InvalidInput):
            cdopt.FrictionNetwork(*matrices, flow="associated", **bad)
    with pytest.raises(cdopt.InvalidInput, match="rays"):
        cdopt.FrictionNetwork(*matrices, status=faces, rays=faces.ray)


def test_forces_within_the_tolerance_of_certificates_are_an_answer() -> None:
    """Newton's method stops above an accuracy that round-off hides, within that of certificates."""
    step = cdopt.bank.load("rough-pile").step
    forces = cdopt.CompatibleFriction(step, flow="associated").solve(tol=1e-30)
    assert forces.residual > 1e-30
    assert forces.ok
    assert forces.solution is not None
    assert forces.solution.certificate is not None
    assert forces.solution.certificate.worst <= 1e-6
