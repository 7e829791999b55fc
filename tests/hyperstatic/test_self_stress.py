"""Rank, looseness and self-stress states."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st
from judges import step_of

import cdopt
from cdopt.hyperstatic import network

NAMES = ("beam-uniform", "supports", "table", "rank-deficient", "duplicated-contacts",
         "ten-orders", "pyramid-falling", "fclib-boxes")  # fmt: skip


def require_states(report):
    """One state for each degree of nullity; independent, loading nothing, largest entry one."""
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


@pytest.mark.parametrize("name", [*NAMES, pytest.param("crystal-2d", marks=pytest.mark.slow)])
def test_states_load_nothing_and_are_independent(name):
    require_states(cdopt.indeterminacy(cdopt.bank.load(name).step, contacts=[]))


def test_states_are_local():
    """A pyramid's live on a few of 72 contacts, a beam's on no more than three supports."""
    report = cdopt.indeterminacy(cdopt.bank.load("pyramid-hooke:n=4").step, contacts=[])
    assert np.median(np.diff(report.self_stress.indptr)) <= 10
    beam = cdopt.indeterminacy(cdopt.bank.load("supports:n=7").step, contacts=[])
    assert np.diff(beam.self_stress.indptr).max() == 3


@pytest.mark.parametrize("name", ["pyramid-hooke:n=3", "pyramid-falling"])
def test_one_factorisation_finds_the_states_that_neighbourhoods_do_not(name, monkeypatch):
    monkeypatch.setattr(network, "_RADII", ())
    require_states(cdopt.indeterminacy(cdopt.bank.load(name).step, contacts=[]))


@pytest.mark.parametrize("limit", [0, 10_000])
def test_sparse_and_dense_linear_algebra_agree(limit, monkeypatch):
    """The same verdict by singular values and by the inertia of a sparse factorisation."""
    step = cdopt.bank.load("pyramid-falling").step
    known = cdopt.indeterminacy(step, contacts=[])
    monkeypatch.setattr(network, "DENSE_LIMIT", limit)
    report = cdopt.indeterminacy(step, contacts=[])
    assert (report.rank, report.nullity, report.dimension) == (89, 10, 10)
    np.testing.assert_array_equal(report.unique, known.unique)
    ratio = report.looseness[~known.unique] / known.looseness[~known.unique]
    assert ratio.min() > 0.3
    assert ratio.max() < 2.0
    assert report.looseness[known.unique].max() < 1e-9


@given(st.integers(0, 10_000))
def test_looseness_is_one_less_leverage(seed):
    """trace of the projector on null(Bᵀ) = nullity; zero exactly where a row is alone."""
    random = np.random.default_rng(seed)
    nc, nv = random.integers(1, 9), random.integers(1, 5)
    dense = random.integers(-2, 3, (nc, nv)).astype(float)
    dense = dense[np.abs(dense).sum(axis=1) > 0]
    if not dense.size:
        return
    B, _ = network.equilibrated(sp.csr_array(dense))
    nullity = dense.shape[0] - network.rank_of(B, 1e-9)
    assert nullity == dense.shape[0] - np.linalg.matrix_rank(dense)
    assert np.sum(network.looseness(B, 1e-9) ** 2) == pytest.approx(nullity, abs=1e-9)


def test_how_the_verdict_depends_on_tolerances():
    """A support a little too low closes, and two legs 1e-10 apart are one, once tolerances say."""
    step = cdopt.bank.load("beam-uniform").step
    speed = 9.81e-3  # m/s, what gravity gives in one step of 1 ms
    low = step.replace(phi=[0.0, 1e-6 * speed * 1e-3, 0.0])
    report = cdopt.indeterminacy(low)
    assert (report.closed_count, report.nullity) == (2, 0)
    assert report.faces.tol == pytest.approx(1e-7)
    wide = cdopt.indeterminacy(low, closed_tol=1e-5)
    assert (wide.closed_count, wide.nullity) == (3, 1)
    assert not wide.unique.any()
    B = np.column_stack([np.ones(3), [-0.5, 0.5, 0.5 + 1e-10], [0.0, 0.0, 1e-10]])
    for tol in (1e-11, 1e-9, 1e-7):
        assert cdopt.indeterminacy(step_of(B, [10, 0, 0]), contacts=[], tol=tol).nullity in (0, 1)
