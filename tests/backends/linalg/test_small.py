"""Products and dense factors of few dofs, called as compiled loops call them."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from numba import njit

from cdopt.backends.linalg import small


@njit
def factorised(H, x):
    done = small.factorise(H)
    if done:
        small.substitute(H, x)
    return done


@njit
def filled(H, B, D, mass, shift):
    small.fill(H, B, D, mass, shift)


@njit
def products(A, x, f):
    return small.times(A, x), small.transposed_times(A, f, x.size)


@pytest.mark.parametrize("m", [1, 2, 7, 40])
def test_factors_solve_the_system(m: int) -> None:
    rng = np.random.default_rng(m)
    root, x = rng.standard_normal((m, m)), rng.standard_normal(m)
    H = root @ root.T + np.eye(m)
    factor, y = np.triu(H), H @ x
    assert factorised(factor, y)
    np.testing.assert_allclose(np.triu(factor), np.linalg.cholesky(H).T, rtol=1e-10, atol=1e-12)
    np.testing.assert_allclose(y, x, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize(
    "H", [[[1.0, 1.0], [0.0, 1.0]], [[-1.0]], [[np.nan]], [[np.inf]], [[1.0, np.nan], [0.0, 1.0]]]
)
def test_a_factorisation_that_breaks_down_says_so(H: list[list[float]]) -> None:
    assert not factorised(np.array(H), np.zeros(len(H)))


def random_matrix(rng: np.random.Generator, rows: int, columns: int) -> sp.csr_array:
    full = rng.standard_normal((rows, columns)) * (rng.random((rows, columns)) < 0.6)
    return sp.csr_array(full)


@pytest.mark.parametrize("massive", [False, True])
@pytest.mark.parametrize("seed", range(5))
def test_matrices_and_products_are_those_of_dense_ones(seed: int, massive: bool) -> None:
    rng = np.random.default_rng(seed)
    nc, m = rng.integers(1, 12, 2)
    B, D = random_matrix(rng, nc, m), np.maximum(rng.standard_normal(nc), 0.0)
    root = random_matrix(rng, m, m)
    mass = sp.csr_array(root.T @ root) if massive else sp.csr_array((0, 0))
    H, shift = np.full((m, m), np.nan), rng.random()
    filled(H, small.rows(B), D, small.rows(mass), shift)
    whole = B.toarray().T @ np.diag(D) @ B.toarray() + shift * np.eye(m)
    expected = whole + mass.toarray() if massive else whole
    np.testing.assert_allclose(H, np.triu(expected), rtol=1e-12, atol=1e-12)
    x, f = rng.standard_normal(m), rng.standard_normal(nc)
    moved, pushed = products(small.rows(B), x, f)
    np.testing.assert_allclose(moved, B @ x, rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(pushed, B.T @ f, rtol=1e-12, atol=1e-12)


def test_matrices_of_any_kind_are_of_one_type_to_compiled_loops() -> None:
    plain = sp.csr_array(np.eye(3))
    wide = plain.copy()
    wide.indices, wide.indptr = wide.indices.astype(np.int64), wide.indptr.astype(np.int64)
    wide.indices.flags.writeable = False
    for matrix in (plain, wide):
        pointers, columns, values = small.rows(matrix, np.arange(3.0))
        assert pointers.dtype == columns.dtype == np.int32
        assert not pointers.flags.writeable
        assert not columns.flags.writeable
        np.testing.assert_array_equal(values, [0.0, 1.0, 2.0])
    assert plain.indices.flags.writeable  # a view of it is not
