"""Which force a solver picked, and the distinguished ones."""

from __future__ import annotations

import cvxpy as cp
import numpy as np
import pytest
from judges import step_of
from scipy.optimize import minimize

import cdopt
from cdopt.hyperstatic import analytic_centre, minimum_norm, place_solutions


def beam(**changes):
    return cdopt.bank.load("beam-uniform").step.replace(**changes)


def test_gauss_seidel_from_the_middle_is_at_the_ends_of_the_intervals():
    step = beam()
    cd = cdopt.ClassicCD(step)
    solutions = [cd.solve("pgs", order=order) for order in ([1, 0, 2], [0, 1, 2])]
    chosen = place_solutions(cdopt.indeterminacy(step), solutions)
    np.testing.assert_allclose(chosen.position[0], [0, 1, 0], atol=1e-9)
    np.testing.assert_allclose(chosen.spread, np.abs(solutions[0].f - solutions[1].f))
    row, *others = chosen.rows()
    assert (row.at_lower, row.at_upper) == (2, 1)
    assert row.outside == pytest.approx(0.0, abs=1e-9)
    assert row.to_compatible == pytest.approx(np.sqrt(2.0), rel=1e-9)
    assert chosen.labels == ("pgs 1", "pgs 2")
    assert [r.label for r in others[1:]] == ["compatible", "minimum norm", "analytic centre"]
    assert "pgs 1" in str(chosen)
    assert np.isnan(place_solutions(cdopt.indeterminacy(step), []).spread).all()


def test_bad_arguments():
    report = cdopt.indeterminacy(beam(), contacts=[])
    table = cdopt.ClassicCD(cdopt.bank.load("table").step).solve("newton")
    for call in (
        lambda: place_solutions(report, None), lambda: place_solutions(report, [None]),
        lambda: place_solutions(None, []), lambda: place_solutions(report, [table]),
    ):  # fmt: skip
        with pytest.raises(cdopt.InvalidInput):
            call()


def test_the_analytic_centre_of_the_table_with_an_eccentric_load():
    """max log f along the one self-stress direction, against a scalar minimisation."""
    legs = np.array([[1, 1], [-1, 1], [-1, -1], [1, -1]], float)
    B = np.column_stack([np.ones(4), legs])
    centre = analytic_centre(cdopt.indeterminacy(step_of(B, [10, 4, 2])))
    assert centre.ok
    assert centre.residual < 1e-12
    along = np.array([1.0, -1.0, 1.0, -1.0])

    def barrier(t):
        return -np.log(np.maximum(centre.f + t[0] * along, 1e-300)).sum()

    best = minimize(barrier, [1e-3], method="Nelder-Mead", options={"xatol": 1e-10}).x[0]
    assert abs(best) < 1e-6
    np.testing.assert_allclose(B.T @ centre.f, [10, 4, 2], atol=1e-9)


def test_stiffness_moves_the_compatible_force_and_no_other():
    steps = beam(), beam(stiffness=[1.0, 3.0, 1.0])
    soft, stiff = (place_solutions(cdopt.indeterminacy(step), []) for step in steps)
    np.testing.assert_allclose(stiff.compatible.f, [2, 6, 2], rtol=1e-9)
    expected = np.linalg.pinv(beam().B.toarray().T) @ [10.0, 0.0]  # nothing lifts off
    for chosen in (soft, stiff):
        np.testing.assert_allclose(chosen.minimum_norm.f, expected, rtol=1e-9)
        assert chosen.minimum_norm.ok
    np.testing.assert_allclose(soft.analytic_centre.f, stiff.analytic_centre.f, rtol=1e-9)


def test_unbounded_forces_have_no_centre():
    step = cdopt.bank.load("crystal-2d").step
    for contacts in ([0], []):
        assert analytic_centre(cdopt.indeterminacy(step, contacts=contacts)) is None
    stuck = step_of([[1.0, 0.0], [0.0, 0.0]], [10.0, 0.0])  # a contact that no motion opens
    assert analytic_centre(cdopt.indeterminacy(stuck, contacts=[])) is None


def test_an_interior_point_stops_near_the_analytic_centre():
    """Of the settled pyramid, where Clarabel and the minimum norm are far apart."""
    step = cdopt.bank.load("pyramid-hooke").step
    solution = cdopt.ClassicCD(step).solve("clarabel")
    row = place_solutions(cdopt.indeterminacy(step), [solution]).rows()[0]
    assert row.to_analytic_centre < 0.05
    assert row.to_minimum_norm > 0.3


@pytest.mark.parametrize("mu", [None, 0.4])
@pytest.mark.parametrize("stiffness", [np.inf, 0.7])
def test_the_minimum_norm_is_of_contacts_alone_whatever_the_stiffness_of_joints(mu, stiffness):
    """A bar on four feet that a post holds in the middle: f = W/4 − r/4 with the least Σ f²."""
    x = np.array([-2.0, -1.0, 1.0, 2.0])
    rows = np.column_stack([0.0 * x, 0.0 * x + 1.0, x])
    more = {}
    if mu is not None:
        more = {"friction": cdopt.Friction(mu, np.tile([1.0, 0.0, 0.0], (4, 1)))}
    load, joint = np.array([0.0, -20.0, 3.0]), np.array([[0.0, 1.0, 0.5]])
    step = cdopt.ContactStep(
        np.diag([2.0, 2.0, 1.0]), rows, np.zeros(4), np.zeros(3), load, 1e-2,
        joints=cdopt.Joints(joint, stiffness=stiffness), **more,
    )  # fmt: skip
    report = cdopt.indeterminacy(step, law=None if mu is None else "coulomb", contacts=[])
    found = minimum_norm(report)
    assert found.ok
    f, r = cp.Variable(4, nonneg=True), cp.Variable(1)
    balance = rows[:, 1:].T @ f + joint[:, 1:].T @ r + load[1:] == 0
    cp.Problem(cp.Minimize(cp.sum_squares(f)), [balance]).solve("CLARABEL")
    np.testing.assert_allclose(found.f, f.value, atol=1e-6)
    if mu is not None:
        np.testing.assert_allclose(found.f_t, 0.0, atol=1e-8)
