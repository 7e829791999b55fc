"""Compatible contact dynamics as one problem: exact in the limit, at first order in ε."""

from __future__ import annotations

import numpy as np
import pytest

import cdopt


@pytest.mark.parametrize(
    ("name", "power"),
    [("beam-stiff-middle", 1.7), ("pyramid-species", 2.0), ("pyramid-species", 2.5)],
)
def test_the_error_is_first_order_in_epsilon(name, power):
    step = cdopt.bank.load(name).step
    if name.startswith("beam"):
        step = step.replace(F_ext=[-10.0, -1.0])
    limit = cdopt.CompatibleCD(step, power).solve("newton").f
    base = cdopt.CompatibleCD(step, power, method="one-step").epsilon
    factors = np.array([1e4, 1e3, 1e2])
    errors = []
    for factor in factors:
        problem = cdopt.CompatibleCD(step, power, method="one-step", epsilon=factor * base)
        solution = problem.solve("newton")
        assert solution.ok
        assert solution.provenance["epsilon"] == factor * base
        errors.append(np.abs(solution.f - limit).max())
    slope = np.polyfit(np.log(factors), np.log(errors), 1)[0]
    assert slope == pytest.approx(1.0, abs=0.05)


@pytest.mark.parametrize(
    ("power", "backend"), [(2.0, "newton"), (2.0, "clarabel"), (2.5, "newton")]
)
def test_the_default_is_close(power, backend):
    problem = cdopt.CompatibleCD(
        cdopt.bank.load("beam-stiff-middle").step, power, method="one-step"
    )
    solution = problem.solve(backend, accuracy=1e-11)
    np.testing.assert_allclose(solution.f, [2.0, 6.0, 2.0], atol=1e-4)
    np.testing.assert_allclose(solution.v_next, 0.0, atol=1e-7)
    assert "one step" in problem.name
    assert r"\min" in problem.latex()


def test_an_interior_point_is_not_certified_on_a_law_so_stiff():
    """Its overlaps are right to 1e-9, its forces not: the certificate asks for both."""
    step = cdopt.bank.load("beam-stiff-middle").step
    solution = cdopt.CompatibleCD(step, 2.5, method="one-step").solve("clarabel", check=False)
    assert not solution.ok
    assert solution.certificate["law"] > 1e-6
    np.testing.assert_allclose(solution.iterate.forces, [2.0, 6.0, 2.0], atol=0.05)
