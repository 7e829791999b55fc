"""Rank, looseness and self-stress states."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st

import cdopt
from cdopt.hyperstatic import rank

NAMES = ("beam-uniform", "supports", "table", "rank-deficient", "duplicated-contacts",
         "ten-orders", "crystal-2d", "pyramid-hooke", "pyramid-falling", "fclib-boxes")  # fmt: skip


@pytest.mark.parametrize("name", NAMES)
def test_states_load_nothing_and_are_independent(name):
    report = cdopt.indeterminacy(cdopt.bank.load(name).step, contacts=[])
    states = report.self_stress
    assert states.shape == (report.nullity, report.nc)
    dense = states.toarray()
    np.testing.assert_allclose(np.abs(dense).max(axis=1, initial=0.0), 1.0)
    assert np.linalg.matrix_rank(dense) == report.nullity
    assert not dense[:, ~report.closed].any()
    step = report.step
    gradient = getattr(step, "B", step.N)
    left = abs(gradient.T @ states.T).max() if report.nullity else 0.0
    assert left <= 1e-8 * abs(gradient).max()


def test_states_are_local():
    """A pyramid's states live on a few neighbouring contacts, not on all 784."""
    report = cdopt.indeterminacy(cdopt.bank.load("pyramid-hooke:n=8").step, contacts=[])
    states = report.self_stress
    assert states.shape == (364, 784)
    sizes = np.diff(states.indptr)
    assert np.median(sizes) <= 20
    assert abs(report.step.B.T @ states.T).max() <= 1e-12
    assert np.linalg.matrix_rank(states.toarray()) == 364


def test_each_state_is_as_small_as_can_be():
    """No state of the beam with seven supports involves more than three of them."""
    states = cdopt.indeterminacy(cdopt.bank.load("supports:n=7").step, contacts=[]).self_stress
    assert np.diff(states.indptr).max() == 3


@pytest.mark.parametrize("limit", [0, 10_000])
def test_sparse_and_dense_linear_algebra_agree(limit, monkeypatch):
    """The same verdict by singular values and by the inertia of a sparse factorisation."""
    step = cdopt.bank.load("pyramid-falling").step
    known = cdopt.indeterminacy(step, contacts=[])
    monkeypatch.setattr(rank, "DENSE_LIMIT", limit)
    report = cdopt.indeterminacy(step, contacts=[])
    assert (report.rank, report.nullity, report.dimension) == (89, 10, 10)
    np.testing.assert_array_equal(report.unique, known.unique)
    loose = ~known.unique
    ratio = report.looseness[loose] / known.looseness[loose]
    assert ratio.min() > 0.3
    assert ratio.max() < 2.0
    assert report.looseness[known.unique].max() < 1e-9


def test_sparse_factors_find_the_states_that_balls_do_not(monkeypatch):
    from cdopt.hyperstatic import self_stress

    monkeypatch.setattr(self_stress, "_RADII", ())
    monkeypatch.setattr(self_stress, "_DENSE", 0)
    for name in ("pyramid-hooke", "crystal-2d", "pyramid-falling"):
        report = cdopt.indeterminacy(cdopt.bank.load(name).step, contacts=[])
        states = report.self_stress
        assert states.shape[0] == report.nullity
        assert np.linalg.matrix_rank(states.toarray()) == report.nullity
        assert abs(report.step.B.T @ states.T).max() < 1e-10


@given(st.integers(0, 10_000))
def test_looseness_is_one_less_leverage(seed):
    """trace of the projector on null(Bᵀ) = nullity; zero exactly where a row is alone."""
    random = np.random.default_rng(seed)
    nc, nv = random.integers(1, 9), random.integers(1, 5)
    dense = random.integers(-2, 3, (nc, nv)).astype(float)
    dense = dense[np.abs(dense).sum(axis=1) > 0]
    if not dense.size:
        return
    B, _ = rank.equilibrated(sp.csr_array(dense))
    found = rank.looseness(B, 1e-9)
    nullity = dense.shape[0] - rank.ranks(B, [1e-9])[0]
    assert nullity == dense.shape[0] - np.linalg.matrix_rank(dense)
    assert np.sum(found**2) == pytest.approx(nullity, abs=1e-9)


def test_how_the_verdict_depends_on_tolerance():
    """A support 1e-5 m too low closes once the closing tolerance allows it."""
    step = cdopt.bank.load("beam-uniform").step
    speed = 9.81e-3  # m/s, what gravity gives in one step of 1 ms
    low = step.replace(phi=[0.0, 1e-6 * speed * 1e-3, 0.0])
    report = cdopt.indeterminacy(low)
    assert (int(report.closed.sum()), report.nullity) == (2, 0)
    loose = {record.closed_tol: record for record in report.by_tolerance}
    widest = loose[max(loose)]
    assert (widest.closed, widest.nullity, widest.unique) == (3, 1, 0)
    assert report.network.tol == pytest.approx(1e-7)


def test_nearly_redundant_legs_depend_on_the_rank_tolerance():
    """Two legs 1e-10 of the top apart are one leg to the rank, and the verdict says when."""
    x = np.array([-0.5, 0.5, 0.5 + 1e-10])
    z = np.array([0.0, 0.0, 1e-10])
    B = np.column_stack([np.ones(3), x, z])
    step = cdopt.ContactStep(
        M=np.eye(3), B=B, phi=np.zeros(3), v=np.zeros(3), F_ext=[-10, 0, 0], dt=1.0
    )
    report = cdopt.indeterminacy(step, contacts=[])
    assert {record.nullity for record in report.by_tolerance} <= {0, 1}
