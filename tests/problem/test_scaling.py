"""Short cuts for small problems give what the general way gives, to the last bit."""

from __future__ import annotations

import copy

import numpy as np
import pytest
import scipy.sparse as sp

import cdopt
from cdopt._util import frozen
from cdopt._util.checks import freeze
from cdopt.problem import scaling
from cdopt.problem.residual import Condition, residuals_of


@pytest.fixture
def matrix() -> sp.csr_array:
    rng = np.random.default_rng(3)
    dense = rng.normal(size=(12, 7)) * (rng.random((12, 7)) < 0.5)
    return sp.csr_array(dense)


def test_few_contact_rows_are_those_of_a_product(matrix, monkeypatch):
    ends = np.array([0, 3, 4, 7, 12])
    few = scaling.contact_rows(matrix, ends)
    monkeypatch.setattr(scaling, "_FEW", 0)
    many = scaling.contact_rows(matrix, ends)
    assert few.nnz == many.nnz
    assert np.array_equal(few.toarray(), many.toarray())


def test_all_rows_or_columns_are_the_matrix_and_some_are_those_of_scipy(matrix):
    assert scaling.chosen_rows(matrix, np.arange(12)) is matrix
    assert scaling.chosen_columns(matrix, np.arange(7)) is matrix
    some = np.array([1, 4, 5])
    assert np.array_equal(scaling.chosen_rows(matrix, some).toarray(), matrix.toarray()[some])
    assert np.array_equal(scaling.chosen_columns(matrix, some).toarray(), matrix.toarray()[:, some])
    gaps = sp.csr_array(np.insert(matrix.toarray(), 3, 0.0, axis=1))
    assert np.array_equal(scaling.used_columns(gaps).toarray(), matrix.toarray())


def test_products_of_small_matrices_are_those_of_large_ones(matrix, monkeypatch):
    few = scaling.product(matrix.T, matrix)
    monkeypatch.setattr(scaling, "_SMALL", 0)
    assert np.allclose(few.toarray(), scaling.product(matrix.T, matrix).toarray(), 1e-14, 1e-14)


def test_a_zero_in_a_matrix_on_the_indices_of_a_frozen_one_leaves_that_as_it_is(matrix):
    first = freeze(matrix.copy())
    second = scaling.scaled(first, np.where(np.arange(12) == 3, 0.0, 1.0))
    frozen = freeze(second)
    assert frozen.nnz == first.nnz - np.diff(first.indptr)[3]
    assert np.array_equal(first.toarray(), matrix.toarray())
    assert np.array_equal(frozen.toarray()[4:], matrix.toarray()[4:])


def test_few_components_and_values_are_numbered_as_many(monkeypatch):
    rng = np.random.default_rng(5)
    left, right, values = rng.integers(0, 20, (3, 14))
    few = scaling.components(left, right, 20), scaling.distinct(values)
    monkeypatch.setattr(scaling, "_FEW", 0)
    many = scaling.components(left, right, 20), scaling.distinct(values)
    assert few[0][1] == many[0][1]
    assert np.array_equal(few[0][0], many[0][0])
    assert all(map(np.array_equal, few[1], many[1]))
    in_order = scaling.distinct(np.sort(values))
    assert np.array_equal(in_order[0], few[1][0])
    assert np.array_equal(in_order[0][in_order[1]], np.sort(values))


def test_products_are_those_of_scipy(matrix):
    x, y = np.arange(7.0) - 3.0, np.arange(12.0) - 6.0
    assert np.array_equal(scaling.times(matrix, x), matrix @ x)
    assert np.array_equal(scaling.transposed_times(matrix, y), sp.csr_array(matrix.T) @ y)
    assert np.array_equal(scaling.times_size(matrix, x), abs(matrix) @ abs(x))
    assert np.array_equal(scaling.transposed_times_size(matrix, y), abs(matrix).T @ abs(y))


def test_parts_of_large_networks_follow_their_pattern_and_fixed_dofs():
    many = scaling._MANY  # contacts, each with two dofs: one part for each pair of dofs
    B = sp.csr_array(np.kron(np.eye(2), np.ones((many, 2))))
    assert scaling.network_parts(B).count == 2
    free = np.array([True, False, True, True])
    assert scaling.network_parts(B, tied=free).count == 3
    assert scaling.network_parts(B).count == 2
    B.indices[:2] = 1, 2  # in place: what is kept is a copy
    assert scaling.network_parts(B).count == 1


def test_scales_follow_the_answer():
    cd = cdopt.ClassicCD(cdopt.open_problem("beam-uniform").step)
    f, scales = np.array([2.5, 5.0, 2.5]), cd.data.scales
    first = scales.local(None, f)
    assert scales.local(None, f.copy()) is first
    f *= 2.0  # in place: what is kept is a copy
    again = scales.local(None, f)
    fresh = cdopt.ClassicCD(cd.step).data.scales.local(None, f)
    assert np.array_equal(again.rates, fresh.rates)
    assert not np.array_equal(again.rates, first.rates)


@pytest.mark.parametrize("bad", [np.inf, np.nan])
@pytest.mark.parametrize("where", range(3))
def test_what_is_not_finite_is_the_largest_residual(bad, where):
    values = [np.array([1e-9, 1e-9]), np.ones(2), np.zeros(2)]
    values[where][1] = bad
    assert np.isnan(residuals_of(Condition("c", "N", *values))[0].value)


@pytest.mark.parametrize("parts", [1, 3])
def test_a_root_of_low_rank_has_as_many_columns_as_the_rank(parts: int) -> None:
    rng = np.random.default_rng(7)
    factor = sp.block_diag(
        [sp.coo_array(rng.standard_normal((30, 6))) for _ in range(parts)], format="csr"
    )
    N = sp.csr_array(factor @ factor.T)
    root = scaling.low_rank_root(N, 0.6, 1e-13)
    assert root is not None
    assert root.shape == (30 * parts, 6 * parts)
    np.testing.assert_allclose((root @ root.T).toarray(), N.toarray(), atol=1e-12)


def test_no_root_of_low_rank_where_the_rank_is_high_or_an_eigenvalue_negative() -> None:
    rng = np.random.default_rng(8)
    factor = rng.standard_normal((40, 8))
    N = factor @ factor.T
    assert scaling.low_rank_root(sp.csr_array(N + np.eye(40)), 0.6, 1e-13) is None
    turn, _ = np.linalg.qr(rng.standard_normal((40, 40)))
    away = N - 1e-6 * np.outer(turn[0], turn[0])
    assert scaling.low_rank_root(sp.csr_array(away), 0.6, 1e-13) is None
    assert scaling.low_rank_root(sp.csr_array(N), 0.1, 1e-13) is None


def test_products_and_parts_of_many_entries_are_those_of_few(monkeypatch):
    rng = np.random.default_rng(7)
    A = sp.random_array((40, 30), density=0.04, format="csr", rng=rng)
    x, f = rng.normal(size=30), rng.normal(size=40)

    def made() -> list[np.ndarray]:
        parts = scaling.network_parts(A)
        products = [of(A, y) for of, y in ((scaling.times, x), (scaling.times_size, x))]
        products += [
            of(A, y)
            for of, y in ((scaling.transposed_times, f), (scaling.transposed_times_size, f))
        ]
        bodies = scaling.likely_bodies(A, np.ones(30), None)
        return [*products, bodies, parts.contact, parts.dof, np.array(parts.count)]

    few = made()
    assert few[-1] > 1
    for name in ("_FEW", "_MANY", "_SMALL"):
        monkeypatch.setattr(scaling, name, 0)
    assert all(map(np.array_equal, few, made()))


def test_extremes_of_few_values_are_those_of_many(monkeypatch):
    rng = np.random.default_rng(9)
    label, values = rng.integers(0, 6, 25), rng.normal(size=25)
    values[3] = np.nan  # spreads to the label's largest; a label without values has zero

    def made() -> list[np.ndarray]:
        with np.errstate(invalid="ignore"):
            return [of(label, values, 8) for of in (scaling.largest_by, scaling.smallest_by)]

    few = made()
    assert np.flatnonzero(np.isnan(few[0])).tolist() == [label[3]]
    assert (few[0][6:] == 0.0).all()
    monkeypatch.setattr(scaling, "_HANDFUL", 0)
    for a, b in zip(few, made(), strict=True):
        np.testing.assert_array_equal(a, b)


def test_few_entries_are_transposed_as_many_are(monkeypatch):
    rng = np.random.default_rng(10)
    A = freeze(sp.random_array((7, 9), density=0.3, format="csr", rng=rng))
    few = frozen.transposed(A)
    monkeypatch.setattr(frozen, "_FEW", 0)
    many = frozen.transposed(A)
    for name in ("data", "indices", "indptr", "shape"):
        np.testing.assert_array_equal(getattr(few, name), getattr(many, name))


def test_rows_of_a_changed_copy_are_its_own() -> None:
    """Rows are kept with a read-only matrix, and not with what is made of it."""
    A = freeze(sp.csr_array(np.array([[1.0, 2.0], [0.0, 3.0]])))
    np.testing.assert_array_equal(scaling.rows_of(A), [0, 0, 1])
    np.testing.assert_array_equal(scaling.rows_of(A), [0, 0, 1])
    more = copy.copy(A)
    more.indptr, more.indices = np.array([0, 2, 4]), np.array([0, 1, 0, 1])
    more.data = np.arange(1.0, 5.0)
    np.testing.assert_array_equal(scaling.rows_of(freeze(more)), [0, 0, 1, 1])
    less = freeze(scaling.scaled(A, np.array([0.0, 1.0])))
    np.testing.assert_array_equal(scaling.rows_of(less), [1])
