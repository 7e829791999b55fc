from __future__ import annotations

import cvxpy as cp
import numpy as np
import pytest
from conftest import DT, beam, random_step
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import cdopt

BOTH = ["clarabel", "osqp"]


@pytest.mark.parametrize("backend", BOTH)
@pytest.mark.parametrize("form", ["force", "velocity"])
def test_the_beam_rests_on_forces_that_are_not_unique(backend: str, form: str) -> None:
    solution = cdopt.ClassicCD(beam(), form).solve(backend, accuracy=1e-9)
    assert solution.ok
    np.testing.assert_allclose(solution.v_next, 0.0, atol=1e-9)
    assert solution.f.sum() == pytest.approx(10.0, rel=1e-6)
    assert solution.f[0] == pytest.approx(solution.f[2], rel=1e-5)


@settings(max_examples=12)
@given(st.integers(0, 10_000), st.sampled_from(BOTH))
def test_both_forms_agree_on_everything_unique(seed: int, backend: str) -> None:
    step = random_step(seed)
    force = cdopt.ClassicCD(step, "force").solve(backend, accuracy=1e-10, check=False)
    velocity = cdopt.ClassicCD(step, "velocity").solve(backend, accuracy=1e-10, check=False)
    assume(force.ok and velocity.ok)  # a failure of the solver is not one of cdopt
    speed = np.abs(step.v_star).max()
    np.testing.assert_allclose(force.v_next, velocity.v_next, atol=1e-6 * speed)
    load, stopping = step.B.T @ force.f, np.abs(step.M @ step.v_star).max() / DT
    np.testing.assert_allclose(load, step.B.T @ velocity.f, atol=1e-6 * stopping)
    energy = float(cdopt.problem.rigid_data(step).part_energy.sum()) + velocity.objective
    assert velocity.objective == pytest.approx(-DT * force.objective, abs=1e-6 * energy)
    np.testing.assert_allclose(force.dual, force.gap)
    np.testing.assert_allclose(velocity.dual, DT * velocity.f)


def test_multipliers_of_the_force_form_are_the_gaps() -> None:
    """CVXPY's own multiplier of f ≥ 0, where it is stated as a constraint, is the gap."""
    step = random_step(7)
    f = cp.Variable(step.nc)
    positive = f >= 0
    N = step.N.toarray()
    objective = 0.5 * cp.quad_form(f, N, assume_PSD=True) + step.p_vec @ f
    cp.Problem(cp.Minimize(objective), [positive]).solve(solver="CLARABEL")
    ours = cdopt.ClassicCD(step).solve("clarabel")
    scale = np.abs(ours.gap).max()
    np.testing.assert_allclose(positive.dual_value, ours.gap, atol=1e-5 * scale)


def test_the_problem_can_be_extended() -> None:
    """No support takes more than 3.5 N: still admissible, and the cap is respected."""
    cd = cdopt.ClassicCD(beam())
    capped = cd.with_constraints(cd.forces <= 3.5)
    solution = capped.solve("clarabel")
    assert solution.ok
    assert solution.f.max() <= 3.5 + 1e-6
    assert solution.f.sum() == pytest.approx(10.0, rel=1e-6)
    assert not cd.extended
    with pytest.raises(cdopt.InvalidInput, match="constraints"):
        cd.with_constraints(cd.forces.value is None)
    with pytest.raises(cdopt.InvalidInput, match="convex"):
        cd.with_constraints(cp.square(cd.forces) >= 1)


def test_an_extension_that_moves_the_answer_has_its_own_certificate() -> None:
    """Of the problem as it stands: the answer is ok there, and not for the problem without it."""
    cd = cdopt.ClassicCD(beam())
    solution = cd.with_constraints(cd.forces <= 2.0).solve("clarabel")
    assert solution.ok
    assert solution.certificate["added constraints"] <= 1e-6
    without = cdopt.certify(cd.data, solution.v_next, solution.f)
    assert without["penetration"] == pytest.approx(0.4, abs=1e-6)
