"""Dense systems: LAPACK without a detour."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.linalg import cho_factor, cho_solve

from cdopt.backends.linalg.base import Tally
from cdopt.backends.linalg.dense import DenseSystem


def parts(seed: int, nc: int, m: int) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """B, S, D and a right-hand side."""
    rng = np.random.default_rng(seed)
    root = rng.standard_normal((m, m))
    B, D = rng.standard_normal((nc, m)), rng.uniform(0.0, 1e6, nc)
    return B, root @ root.T + np.eye(m), D, rng.standard_normal(m)


@pytest.mark.parametrize(("nc", "m"), [(1, 1), (3, 2), (7, 5), (40, 30)])
@pytest.mark.parametrize("with_mass", [False, True])
def test_solutions_are_those_of_scipy_bit_for_bit(nc: int, m: int, with_mass: bool) -> None:
    B, S, D, rhs = parts(nc, nc, m)
    tally = Tally()
    system = DenseSystem(B, S if with_mass else None, D, 0.5, tally)
    H = (B.T * D) @ B + 0.5 * np.eye(m) + (S if with_mass else 0.0)
    np.testing.assert_allclose(system.H, H, rtol=1e-13)
    expected = cho_solve(cho_factor(system.H), rhs)
    np.testing.assert_array_equal(system.solve(rhs, 1e-12), expected)
    np.testing.assert_array_equal(system.solve(rhs, 1e-12), expected)
    assert tally.factorisations == 1


def test_a_singular_system_is_solved_by_least_squares() -> None:
    B = np.array([[1.0, 1.0, 0.0]])
    system = DenseSystem(B, None, np.array([2.0]), 0.0, Tally())
    x = system.solve(np.array([4.0, 4.0, 0.0]), 1e-12)
    np.testing.assert_allclose(x, [1.0, 1.0, 0.0], atol=1e-14)


def test_numbers_that_are_none_are_refused() -> None:
    B, S, D, rhs = parts(0, 3, 2)
    with pytest.raises(ArithmeticError, match="beyond what a double"):
        DenseSystem(B, S, D * np.nan, 0.0, Tally()).solve(rhs, 1e-12)
    with pytest.raises(ArithmeticError, match="beyond what a double"):
        DenseSystem(B, S, D, 0.0, Tally()).solve(rhs * np.inf, 1e-12)


def test_a_system_without_dofs_has_an_empty_solution() -> None:
    system = DenseSystem(np.zeros((3, 0)), None, np.ones(3), 1.0, Tally())
    assert system.solve(np.zeros(0), 1e-12).shape == (0,)
