"""Linear programs with coefficients of very different sizes have the answers they have."""

from __future__ import annotations

import numpy as np

from cdopt._util.linear_program import linprog


def test_nothing_is_a_solution_whatever_the_sizes_of_coefficients() -> None:
    """max Σ r, Bᵀr = 0, 0 ≤ r ≤ 1 for two tables one on another: r = 0, which is feasible."""
    corners = np.array([[-0.5, -0.5], [0.5, -0.5], [0.5, 0.5], [-0.5, 0.5]])
    legs = np.column_stack([np.ones(4), corners[:, 1], -corners[:, 0]])
    for small in (1e-6, 1e-7, 4e-8, 1e-8, 1e-9):
        B = np.block([[legs, np.zeros((4, 3))], [-small * legs, legs]])
        B /= np.linalg.norm(B, axis=1)[:, None]
        answer = linprog(-np.ones(8), A_eq=B.T, b_eq=np.zeros(6), bounds=(0.0, 1.0))
        assert answer.status == 0, small
        np.testing.assert_allclose(answer.x, 0.0, atol=1e-6)


def test_programs_without_a_solution_have_none() -> None:
    assert linprog([1.0], A_ub=[[1.0]], b_ub=[-1.0], bounds=(0.0, 1.0)).status == 2
    assert linprog([-1.0], bounds=(0.0, None)).status == 3
