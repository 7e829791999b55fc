"""Cases that an adversary found: weak couplings, mass ratios, decaying chains, loose solvers."""

from __future__ import annotations

import numpy as np
import pytest
from judges import step_on

import cdopt
from cdopt.hyperstatic import exact_bounds, which_force


@pytest.mark.parametrize(
    ("B", "forces"),
    [
        ([[1, 0, 0], [1, 1e-7, 0], [0, 1e-6, 0], [0, 1, 1]], [1, 1, 0.03, 1]),
        ([[1, 0, 0], [1, 1e-7, 0], [0, 1, 0], [0, 0, 1]], [1, 1, 0, 0]),
    ],
)
def test_a_barely_coupled_contact_still_binds(B, forces):
    """A force that the states move by 1e-7 of the others stops them where it reaches zero."""
    report = cdopt.indeterminacy(step_on(B, np.array(forces, float)))
    assert report.ok
    assert exact_bounds(report).error(report) < 1e-6
    assert not report.unique[:3].any()
    assert report.unique[3]


@pytest.mark.parametrize(("n", "ratio"), [(20, 0.3), (40, 0.5)])
def test_states_of_chains_that_decay(n, ratio):
    """One state runs through the whole chain, each force a fraction of the one before."""
    B = np.zeros((n + 1, n))
    B[0, 0] = 1.0
    B[np.arange(1, n + 1), np.arange(n)] = 1.0
    B[np.arange(1, n), np.arange(1, n)] = ratio
    report = cdopt.indeterminacy(step_on(B, np.ones(n + 1)), contacts=[])
    states = report.self_stress
    assert states.shape == (1, n + 1)
    assert np.abs(B.T @ states.toarray().T).max() < 1e-7


def test_n_alone_knows_what_b_knows():
    """Short levers and heavy neighbours: N holds their equations in its small eigenvalues."""
    for B, forces in (
        (np.array([[1e-4, 1], [1e-4, -1]]), np.array([1.0, 2.0])),
        (np.array([[1.0, 0], [-1e4, 1e4]]), np.array([1.0, 1e-4])),
    ):
        N = B @ B.T
        report = cdopt.indeterminacy(cdopt.ContactStep.from_delassus(N, -N @ forces))
        assert report.nullity == 0
        assert report.unique.all()
        np.testing.assert_allclose(report.upper, forces, rtol=1e-3)


def test_the_verdict_does_not_depend_on_who_solved_the_classic_step():
    """A force of 1e-8 left by a first-order method is no force, nor a width of as much one."""
    step = step_on([[0, -1], [-1, -2], [2, -1]], [0.0, 1.0, 0.0])
    for classic in ("newton", "pgs", "apgd"):
        assert cdopt.indeterminacy(step, classic=classic).unique.all()


def test_what_is_not_known_is_not_right():
    beam = cdopt.bank.load("beam-uniform").step
    report = cdopt.indeterminacy(beam, contacts=[])
    assert exact_bounds(report).error(report) == np.inf


def test_reports_cannot_be_written_to():
    report = cdopt.indeterminacy(cdopt.bank.load("table").step)
    arrays = (
        report.lower, report.upper, report.unique, report.loadable, report.closed,
        report.looseness, report.residual, report.force, report.self_stress.data,
        report.free[0].force, report.blocks[0].length,
    )  # fmt: skip
    assert not any(array.flags.writeable for array in arrays)


def test_wrong_things_are_named():
    beam = cdopt.bank.load("beam-uniform").step
    report = cdopt.indeterminacy(beam, contacts=[])
    for call in (
        lambda: cdopt.indeterminacy(beam, contacts=[[0], [1, 2]]),
        lambda: which_force(report, None),
        lambda: which_force(report, [None]),
        lambda: which_force(None, []),
        lambda: exact_bounds(None),
    ):
        with pytest.raises(cdopt.InvalidInput):
            call()
