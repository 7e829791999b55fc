"""Problems of one structure that follow each other do not take each other's numbers."""

from __future__ import annotations

from typing import Any

import cvxpy as cp
import numpy as np
import pytest

import cdopt


def beam(seed: int, **changes: Any) -> cdopt.ContactStep:
    """A beam on three supports in another state of motion each time."""
    rng = np.random.default_rng(seed)
    arguments = {
        "M": [[1.02, 0.01], [0.01, 0.085]],
        "B": [[1.0, -0.5], [1.0, 0.1], [1.0, 0.5]],
        "phi": rng.uniform(0.0, 1e-4, 3),
        "v": rng.normal(0.0, 0.01, 2),
        "F_ext": [-10.0 - rng.uniform(), rng.normal()],
        "dt": 1e-3,
        "stiffness": [1.0, 3.0, 1.0],
    }
    return cdopt.ContactStep(**(arguments | changes))


def test_constraints_of_the_users_own_count_each_time() -> None:
    """Their numbers, their parameters, and what a cone holds besides its arguments."""
    still = {"phi": np.zeros(3), "v": np.zeros(2), "F_ext": [-10.0, 0.0]}
    first, cap = cdopt.ClassicCD(beam(0, **still)), cp.Parameter()
    parametrised = first.with_constraints(first.forces[1] <= cap)
    for cap.value in (2.0, 2.5, 3.0, 3.5, 3.5, 3.5):
        cd = cdopt.ClassicCD(first.step)
        stated = (cd.forces[1] <= cap.value, cd.forces <= np.array([9.0, cap.value, 9.0]))
        for capped in (*map(cd.with_constraints, stated), parametrised):
            assert capped.solve("clarabel").f[1] <= cap.value + 1e-6
    for share in (0.5, 0.5, 0.5, 0.8, 0.8, 0.8):
        cd = cdopt.ClassicCD(first.step)
        f = cd.forces
        cone = cp.PowCone3D(f[[0]], f[[2]], f[[1]] / 2.0, np.array([share]))
        f = cd.with_constraints(cone, cd.forces[2] <= 1.0).solve("scs", accuracy=1e-9).f
        assert f[0] ** share * f[2] ** (1.0 - share) >= f[1] / 2.0 - 1e-5


def test_each_problem_holds_its_own_answer_and_start() -> None:
    posed = [cdopt.ClassicCD(beam(seed)) for seed in range(4)]
    solutions = [cd.solve("osqp", accuracy=1e-9) for cd in posed]
    for cd, solution in zip(posed, solutions, strict=True):
        np.testing.assert_array_equal(cd.forces.value, solution.f)
        assert cd.problem.value == pytest.approx(cd.problem.objective.value)
    again = {"accuracy": 1e-9, "warm_start": solutions[3]}
    warm = cdopt.ClassicCD(beam(3)).solve("osqp", **again)
    fresh = cdopt.ClassicCD(beam(3)).solve("osqp", **again)
    assert warm.ok
    np.testing.assert_array_equal(warm.f, fresh.f)
    assert warm.iterations == fresh.iterations
