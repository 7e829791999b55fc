from __future__ import annotations

import cvxpy as cp
import numpy as np
import pytest
from conftest import random_step
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import cdopt

BEAM = [[1.0, -0.5], [1.0, 0.0], [1.0, 0.5]]
LOAD = [10.0, 0.0]
FORMS = ["complementary", "potential"]


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("power", [1.5, 2.0, 2.2371, 3.0, 6.0])
def test_any_power_by_hand(power: float, form: str) -> None:
    """Same overlap everywhere, so forces are in the ratio of the stiffness, whatever p is.

    Through second-order cones an interior point places forces at about the square root of its
    duality gap: 1e-4 at the default 1e-8, hence the accuracy asked for.
    """
    truss = cdopt.NoTensionTruss(BEAM, LOAD, [1, 3, 1], power, form)
    np.testing.assert_allclose(truss.solve("clarabel").f, [2.0, 6.0, 2.0], rtol=3e-4)
    sharp = truss.solve("clarabel", accuracy=1e-12)
    assert sharp.ok
    np.testing.assert_allclose(sharp.f, [2.0, 6.0, 2.0], rtol=5e-6)


@settings(max_examples=15)
@given(st.integers(0, 10_000), st.sampled_from([1.5, 2.0, 2.5, 3.0]))
def test_both_forms_give_the_same_forces_and_opposite_values(seed: int, power: float) -> None:
    step = random_step(seed)
    load = step.B.T @ np.random.default_rng(seed).random(step.nc)
    one, two = (
        cdopt.NoTensionTruss(step.B, load, step.stiffness, power, form).solve(
            "clarabel", check=False
        )
        for form in FORMS
    )
    assume(one.f is not None and two.f is not None)  # failures of Clarabel are not cdopt's
    scale = np.abs(one.f).max()
    np.testing.assert_allclose(one.f, two.f, atol=(3e-4 if power == 2.0 else 3e-3) * scale)
    assert one.objective == pytest.approx(-two.objective, rel=1e-5)


@settings(max_examples=10)
@given(st.integers(0, 10_000))
def test_the_multiplier_of_equilibrium_is_the_micro_displacement(seed: int) -> None:
    """f = k (−B u)₊ with u read from the multipliers alone (Hooke)."""
    step = random_step(seed)
    load = step.B.T @ np.random.default_rng(seed).random(step.nc)
    truss = cdopt.NoTensionTruss(step.B, load, step.stiffness)
    solution = truss.solve("clarabel", accuracy=1e-11, check=False)
    assume(solution.f is not None)
    scale = np.abs(solution.f).max()
    law = step.stiffness * np.maximum(-(step.B @ solution.u), 0.0)
    np.testing.assert_allclose(solution.f, law, atol=1e-5 * scale)
    assert solution.dual is solution.u


@pytest.mark.parametrize("power", [2.0, 2.5])
def test_displacement_scales_with_stiffness_as_stated(power: float) -> None:
    """u_physical = κ^{−1/(p−1)} u, and f does not see κ."""
    soft = cdopt.NoTensionTruss(BEAM, LOAD, 1.0, power).solve("clarabel")
    hard = cdopt.NoTensionTruss(BEAM, LOAD, 1e6, power).solve("clarabel")
    np.testing.assert_allclose(soft.f, hard.f, rtol=1e-9)
    np.testing.assert_allclose(hard.u[0], soft.u[0] * 1e6 ** (-1.0 / (power - 1.0)), rtol=1e-9)


@pytest.mark.parametrize("form", FORMS)
def test_prescribed_dofs_give_reactions(form: str) -> None:
    """A weight on a column: held, the base takes the weight above it as a reaction.

    Its own contact then just touches (c = f = 0), where an interior point is off by the square
    root of its gap, hence the accuracy asked for.
    """
    column = [[1.0, 0.0], [-1.0, 1.0]]  # ground–lower, lower–upper
    free = cdopt.NoTensionTruss(column, [2.0, 3.0], form=form).solve("clarabel")
    np.testing.assert_allclose(free.f, [5.0, 3.0], rtol=1e-6)
    held = cdopt.NoTensionTruss(column, [2.0, 3.0], form=form, free_dofs=[1])
    solution = held.solve("clarabel", accuracy=1e-13)
    assert solution.ok
    assert solution.f[1] == pytest.approx(3.0, rel=1e-6)
    assert solution.u[0] == 0.0
    np.testing.assert_allclose(held.data.reactions(solution.f), [-3.0], rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(("form", "power"), [("complementary", 2.5), ("potential", 2.0)])
def test_a_prescribed_displacement_presses(form: str, power: float) -> None:
    """Two equal springs in series, one end driven in by 0.2: each takes 0.1."""
    chain = [[-1.0, 1.0, 0.0], [0.0, -1.0, 1.0]]
    truss = cdopt.NoTensionTruss(
        chain, np.zeros(3), 7.0, power, form, free_dofs=[1], prescribed_u=[0.2, 0.0, 0.0]
    )
    solution = truss.solve("clarabel", accuracy=1e-12)
    assert solution.ok
    np.testing.assert_allclose(solution.f, 7.0 * 0.1 ** (power - 1.0), rtol=1e-5)
    np.testing.assert_allclose(solution.u, [0.2, 0.1, 0.0], atol=1e-6)
    other = cdopt.NoTensionTruss(
        chain, np.zeros(3), 7.0, power, form, free_dofs=[1], prescribed_u=[-0.2, 0.0, 0.0]
    ).solve("clarabel", accuracy=1e-12)
    np.testing.assert_allclose(other.f, 0.0, atol=1e-5)


def test_sphere_rotations_are_left_out() -> None:
    """Trap 5: columns of zeros carry no load and ask for none."""
    B = np.hstack([np.array(BEAM), np.zeros((3, 3))])
    solution = cdopt.NoTensionTruss(B, [10.0, 0.0, 0.0, 0.0, 0.0]).solve("clarabel")
    assert solution.ok
    np.testing.assert_allclose(solution.f, 10 / 3, rtol=1e-6)
    with pytest.raises(cdopt.SolveFailed, match="infeasible"):
        cdopt.NoTensionTruss(B, [10.0, 0.0, 1.0, 0.0, 0.0]).solve("clarabel")


def test_extending_a_truss_that_has_independent_parts_keeps_true_weights() -> None:
    """A budget over two beams, one loaded 1,000 times more: the parts' energies must compare."""
    B = np.kron(np.eye(2), np.array(BEAM))
    truss = cdopt.NoTensionTruss(B, [10.0, 0.0, 1e4, 0.0])
    tied = truss.with_constraints(truss.forces[1] + truss.forces[4] <= 2e3)
    f = cp.Variable(6, nonneg=True)
    direct = cp.Problem(
        cp.Minimize(0.5 * cp.sum_squares(f)),
        [B.T @ f == np.array([10.0, 0.0, 1e4, 0.0]), f[1] + f[4] <= 2e3],
    )
    direct.solve(solver="CLARABEL", tol_gap_abs=1e-12, tol_gap_rel=1e-12, tol_feas=1e-12)
    ours = tied.solve("clarabel", accuracy=1e-12)
    np.testing.assert_allclose(ours.f, f.value, atol=1e-2)
    assert ours.f[1] == pytest.approx(f.value[1], abs=1e-2)


# --- members that also pull -------------------------------------------------------------------


def _frame(seed: int = 0) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """B (7, 4), a load and stiffness of seven members."""
    rng = np.random.default_rng(seed)
    return rng.standard_normal((7, 4)), 10.0 * rng.standard_normal(4), rng.uniform(0.5, 2.0, 7)


@pytest.mark.parametrize("form", ["complementary", "potential"])
@pytest.mark.parametrize("backend", ["newton", "interior-point", "clarabel"])
def test_members_that_all_pull_are_a_linear_frame(form: str, backend: str) -> None:
    """By hand: K u = −F̃ with K = Bᵀ k B, f = −k B u."""
    B, load, k = _frame()
    u = -np.linalg.solve(B.T @ (k[:, None] * B), load)
    truss = cdopt.NoTensionTruss(B, load, k, form=form, two_sided=np.ones(7, bool))
    solution = truss.solve(backend)
    assert solution.ok
    np.testing.assert_allclose(solution.f, -k * (B @ u), atol=1e-8)
    np.testing.assert_allclose(solution.u, u, atol=1e-8)
    assert (solution.f < 0.0).any()


@pytest.mark.parametrize("power", [2.0, 2.5, 1.5])
def test_some_members_pull(power: float) -> None:
    """Both forms, values that sum to zero, the law of each member; mask and indices alike."""
    B, load, k = _frame()
    mask = np.array([1, 0, 1, 1, 0, 0, 1], bool)
    one = cdopt.NoTensionTruss(B, load, k, power, two_sided=mask).solve("newton")
    two = cdopt.NoTensionTruss(
        B, load, k, power, form="potential", two_sided=np.flatnonzero(mask)
    ).solve("clarabel")
    assert one.ok
    assert two.ok
    np.testing.assert_allclose(one.f, two.f, atol=2e-3)
    assert one.objective + two.objective == pytest.approx(0.0, abs=1e-5 * one.objective)
    c = -B @ one.u
    law = np.where(mask, np.sign(c), c > 0.0) * k * np.abs(c) ** (power - 1.0)
    np.testing.assert_allclose(one.f, law, atol=1e-9)
    np.testing.assert_allclose(B.T @ one.f, load, atol=1e-9)
    assert one.f[mask].min() < 0.0 <= one.f[~mask].min()


def test_no_member_that_pulls_is_the_truss_as_it_was() -> None:
    B, load = [[1.0, -1.0], [1.0, 0.0], [1.0, 1.0]], [10.0, 0.0]
    plain, masked = (
        cdopt.NoTensionTruss(B, load, two_sided=mask).solve("newton") for mask in (None, [])
    )
    assert np.array_equal(plain.f, masked.f)


def test_loads_that_no_member_bears_are_proven() -> None:
    with pytest.raises(cdopt.SolveFailed) as caught:
        cdopt.NoTensionTruss(np.eye(2), [1.0, -1.0], two_sided=[0]).solve("newton")
    assert caught.value.proof.kind == "truss"
    assert cdopt.NoTensionTruss(np.eye(2), [1.0, -1.0], two_sided=[1]).solve("newton").ok
    with pytest.raises(cdopt.InvalidInput, match="two_sided: found an index out of range"):
        cdopt.NoTensionTruss(np.eye(2), [1.0, -1.0], two_sided=[2])
    with pytest.raises(cdopt.Unsupported, match="members that also pull"):
        cdopt.NoTensionTruss(np.eye(2), [1.0, -1.0], two_sided=[1]).solve("augmented-lagrangian")


def test_a_load_of_the_wrong_sign_is_hinted_at_and_others_are_not() -> None:
    B = [[1.0, -1.0], [1.0, 1.0]]  # a beam on two supports
    with pytest.raises(cdopt.SolveFailed, match="the opposite load can be carried") as failed:
        cdopt.NoTensionTruss(B, [-10.0, 0.0]).solve()
    assert "upward for a weight" in str(failed.value)
    with pytest.raises(cdopt.SolveFailed) as failed:
        cdopt.NoTensionTruss(B, [1.0, 10.0]).solve()  # it turns over, either way
    assert "opposite" not in str(failed.value)
