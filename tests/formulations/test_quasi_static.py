"""Quasi-static equilibrium: analytic cases, both forms, the truss it becomes, what has none."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize

import cdopt


@pytest.mark.parametrize(
    ("form", "power", "gap"),
    [("potential", 1.5, 0.25), ("potential", 2.0, -0.1), ("complementary", 2.5, 0.25)],
)
def test_a_ball_on_a_spring(form, power, gap):
    """It sinks by the gap and by (W/k)^(1/(p−1))."""
    problem = cdopt.QuasiStatic([[1.0]], [gap], [-3.0], stiffness=6.0, power=power, form=form)
    depth = 0.5 ** (1.0 / (power - 1.0))
    solution = problem.solve("newton")
    assert solution.ok
    assert solution.u.shape == (1,)
    assert solution.u[0] == pytest.approx(-gap - depth, rel=1e-9)
    assert solution.f[0] == pytest.approx(3.0, rel=1e-9)
    assert solution.gap[0] == pytest.approx(-depth, rel=1e-9)
    modelled = problem.solve("clarabel")
    assert modelled.u[0] == pytest.approx(-gap - depth, rel=1e-3)


def test_the_middle_support_of_a_beam_comes_in_when_the_ends_have_yielded():
    """k (u − gap) in the middle, k u at the ends, together the load: u = (W + k gap) / 3k."""
    k, gap = 1000.0, 1e-3
    B = [[1, -0.5], [1, 0], [1, 0.5]]
    for load, touching in ((1.0, False), (10.0, True)):
        solution = cdopt.QuasiStatic(B, [0, gap, 0], [-load, 0], stiffness=k).solve("newton")
        down = (load + k * gap) / (3 * k) if touching else load / (2 * k)
        assert solution.u[0] == pytest.approx(-down, rel=1e-9)
        assert solution.f[1] == pytest.approx(k * max(down - gap, 0.0), abs=1e-9)


@settings(max_examples=25)
@given(st.integers(0, 10_000), st.sampled_from([2.0, 2.5]))
def test_against_plain_minimisation(seed, power):
    random = np.random.default_rng(seed)
    nc, nv = int(random.integers(3, 7)), 2
    B = random.normal(size=(nc, nv))
    k, phi = random.uniform(0.5, 2.0, nc), random.uniform(-0.2, 0.2, nc)
    applied = -B.T @ random.uniform(0.1, 1.0, nc)
    solution = cdopt.QuasiStatic(B, phi, applied, stiffness=k, power=power).solve("newton")

    def energy(u):
        c = np.maximum(-phi - B @ u, 0.0)
        return np.sum(k / power * c**power) - applied @ u

    plain = minimize(energy, solution.u, method="BFGS", options={"gtol": 1e-12})
    assert energy(solution.u) <= plain.fun + 1e-9 * (1.0 + abs(plain.fun))
    np.testing.assert_allclose(B.T @ solution.f, -applied, atol=1e-8)
    np.testing.assert_allclose(solution.gap, phi + B @ solution.u, atol=1e-12)
    np.testing.assert_allclose(
        solution.f, k * np.maximum(-solution.gap, 0.0) ** (power - 1.0), atol=1e-7
    )


@pytest.mark.parametrize("power", [2.0, 2.5])
def test_touching_contacts_carry_the_compatible_forces_at_any_stiffness(power):
    step = cdopt.bank.load("pyramid-species").step
    limit = cdopt.CompatibleCD(step, power).solve("newton").f
    for factor in (1.0, 1e6):
        solution = cdopt.QuasiStatic(
            step.B, np.zeros(step.nc), step.F_ext, factor * step.stiffness, power
        ).solve("newton")
        np.testing.assert_allclose(solution.f, limit, atol=1e-8 * limit.max())


def test_what_nothing_holds_is_named():
    B = np.array([[1.0, 0, 0], [0, 0, 0]])
    problem = cdopt.QuasiStatic(
        B, [0.0, 0.0], [-1.0, 0.0, -2.0], dof_body=[4, 7, 7]
    )  # body 7 falls past everything
    with pytest.raises(cdopt.SolveFailed, match="no contacts hold bodies 7 against") as caught:
        problem.solve("newton")
    assert caught.value.proof.value < 0.0
    with pytest.raises(cdopt.SolveFailed, match="no contacts hold dofs 2"):
        cdopt.QuasiStatic(B, [0.0, 0.0], [-1.0, 0.0, -2.0]).solve("clarabel")


@pytest.mark.parametrize("form", ["potential", "complementary"])
@pytest.mark.parametrize("backend", ["newton", "clarabel"])
def test_a_bolt_pulls_where_a_foot_would_lift(form, backend):
    """A beam with the load W at its right end, on a foot in the middle and a bolt with play.

    Arms are equal: the bolt bears −W, the foot 2 W. The right foot stays open.
    """
    k, play, load = 1000.0, 2e-3, 6.0
    B, phi = [[1.0, -1.0], [1.0, 0.0], [1.0, 1.0]], [play, 0.0, 0.1]
    problem = cdopt.QuasiStatic(B, phi, [-load, -load], k, form=form, two_sided=[0])
    found = problem.solve(backend)
    assert found.ok
    np.testing.assert_allclose(found.f, [-load, 2.0 * load, 0.0], rtol=1e-6, atol=1e-6)
    sunk, turned = -2.0 * load / k, -2.0 * load / k + play - load / k
    np.testing.assert_allclose(found.u, [sunk, turned], rtol=1e-6)
    np.testing.assert_allclose(found.gap[0], load / k, rtol=1e-6)
    with pytest.raises(cdopt.SolveFailed):
        cdopt.QuasiStatic(B[:2], phi[:2], [-load, -load], k, form=form).solve(backend)
    with pytest.raises(cdopt.InvalidInput, match="two_sided"):
        cdopt.QuasiStatic(B, phi, [-load, -load], k, two_sided=[3])


def test_a_structure_of_bolts_alone_is_a_linear_frame():
    """Kᵤ u = F − Bᵀ k Φ with K = Bᵀ k B."""
    rng = np.random.default_rng(0)
    B, k, phi = rng.normal(size=(6, 3)), rng.uniform(1.0, 9.0, 6), 0.01 * rng.normal(size=6)
    applied = rng.normal(size=3)
    found = cdopt.QuasiStatic(B, phi, applied, k, two_sided=np.ones(6, bool)).solve("newton")
    u = np.linalg.solve(B.T @ (k[:, None] * B), applied - B.T @ (k * phi))
    np.testing.assert_allclose(found.u, u, rtol=1e-9)
    np.testing.assert_allclose(found.f, -k * (B @ u + phi), rtol=1e-9)
