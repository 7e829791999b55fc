import numpy as np
import pytest
import scipy.linalg
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

from cdopt._util.errors import InvalidInput
from cdopt.problem.mass import MassMatrix


def spd(size: int, seed: int) -> np.ndarray:
    root = np.random.default_rng(seed).standard_normal((size, size))
    return root @ root.T + 0.1 * np.eye(size)


@settings(max_examples=25)
@given(st.lists(st.integers(1, 7), min_size=1, max_size=8), st.integers(0, 1000))
def test_blocks_of_any_size_and_order_are_inverted(sizes: list[int], seed: int) -> None:
    dense = scipy.linalg.block_diag(*(spd(s, seed + i) for i, s in enumerate(sizes)))
    order = np.random.default_rng(seed).permutation(len(dense))
    dense = dense[np.ix_(order, order)]
    mass = MassMatrix(sp.csr_array(dense))
    x = np.random.default_rng(seed + 1).standard_normal(len(dense))
    np.testing.assert_allclose(dense @ mass.solve(x), x, atol=1e-8)
    np.testing.assert_allclose(mass.inverse.toarray() @ dense, np.eye(len(dense)), atol=1e-8)


def test_a_matrix_that_couples_everything_is_factorised_as_a_whole() -> None:
    size = 200
    M = sp.csr_array(sp.diags_array([-1.0, 2.5, -1.0], offsets=[-1, 0, 1], shape=(size, size)))
    mass = MassMatrix(M)
    x = np.linspace(-1.0, 1.0, size)
    np.testing.assert_allclose(M @ mass.solve(x), x, atol=1e-12)
    X = sp.csr_array(np.eye(size)[:, :3])
    np.testing.assert_allclose((M @ mass.solve_sparse(X)).toarray(), X.toarray(), atol=1e-12)
    np.testing.assert_allclose((M @ mass.inverse).toarray(), np.eye(size), atol=1e-12)


@pytest.mark.parametrize(
    "matrix",
    [
        [[0.0]],
        [[-1.0]],
        [[1.0, 1.0], [1.0, 1.0]],
        [[1.0, 2.0], [2.0, 1.0]],
        [[1.0, 0.1], [0.0, 1.0]],
        np.ones((2, 3)),
    ],
)
def test_what_is_not_positive_definite_is_refused(matrix: object) -> None:
    with pytest.raises(InvalidInput, match=r"^M: found .*; expected"):
        MassMatrix(sp.csr_array(np.asarray(matrix)))


@pytest.mark.parametrize("shift", [2.0, 1.9])
def test_a_large_indefinite_matrix_is_refused(shift: float) -> None:
    size = 100
    M = sp.diags_array([-1.0, shift, -1.0], offsets=[-1, 0, 1], shape=(size, size)).tolil()
    M[0, size - 1] = M[size - 1, 0] = -1.0  # a ring: singular for 2, indefinite below
    with pytest.raises(InvalidInput, match="positive definite"):
        MassMatrix(sp.csr_array(M))


def test_masses_over_many_orders_are_no_singularity() -> None:
    mass = MassMatrix(sp.csr_array(sp.diags_array([1e-12, 1.0, 1e12])))
    np.testing.assert_allclose(mass.solve(np.ones(3)), [1e12, 1.0, 1e-12])
