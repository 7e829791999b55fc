"""One step of the variational integrator: its convex problem against what it is made of."""

from __future__ import annotations

import dataclasses

import cvxpy as cp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from steps_to_take import random_case

import cdopt

BACKENDS = [("clarabel", {"accuracy": 1e-10}), ("osqp", {"accuracy": 1e-9}), ("newton", {})]
CLARABEL = {"solver": "CLARABEL", "tol_gap_abs": 1e-10, "tol_gap_rel": 1e-10, "tol_feas": 1e-10}


def ball(**changes):
    """1 kg at touch with a spring of 100 N/m, h = 0.1 s."""
    step = cdopt.ContactStep([[1.0]], [[1.0]], [0.0], [0.0], [0.0], 0.1, stiffness=100.0)
    return step.replace(**changes)


@pytest.mark.parametrize("form", ["force", "velocity"])
@pytest.mark.parametrize(("backend", "options"), BACKENDS)
def test_a_ball_hitting_a_floor_by_hand(form, backend, options):
    """v̄ = −1 + ½·0.1 f and f = −100·½·0.1 v̄: v̄ = −0.8, f = 4, mom⁺ = −1 + 0.1·4."""
    hit = cdopt.VariationalStep(ball(), [-1.0], form=form).solve(backend, **options)
    assert hit.ok
    assert hit.u == pytest.approx([-0.08], rel=1e-7)
    assert hit.f == pytest.approx([4.0], rel=1e-7)
    assert hit.mom == pytest.approx([-0.6], rel=1e-7)
    assert hit.v_next == pytest.approx([-0.6], rel=1e-7)
    assert hit.gap == pytest.approx([-0.04], rel=1e-7)


@pytest.mark.parametrize(
    ("power", "alpha", "split", "bonds"),
    [
        (1.7, 0.2, "paper", 0),
        (2.0, 0.5, "forced", 2),
        (2.0, 0.9, "paper", 0),
        (2.5, 0.9, "forced", 2),
    ],
)
def test_both_forms_and_all_backends_agree(power, alpha, split, bonds):
    case = random_case(3, alpha=alpha, power=power, split=split, bonds=bonds)
    exact = case.pose().solve("newton")
    assert exact.ok
    assert exact.certificate.worst < 1e-10
    assert np.count_nonzero(exact.f) > 3
    assert np.any(exact.f == 0.0)
    for form in ("force", "velocity"):
        formulation = case.pose(form)
        assert formulation.problem.is_dcp()
        assert formulation.problem.is_qp() == (power == 2.0)
        for backend, options in BACKENDS[: 3 if power == 2.0 else 1]:
            solution = formulation.solve(backend, **options)
            assert solution.ok
            np.testing.assert_allclose(solution.u, exact.u, atol=1e-5 * np.abs(exact.u).max())
            np.testing.assert_allclose(solution.f, exact.f, atol=1e-4 * exact.f.max())
            np.testing.assert_allclose(solution.mom, exact.mom, atol=1e-5 * np.abs(exact.mom).max())
            assert solution.objective == pytest.approx(
                formulation._objective(exact.iterate), rel=1e-6
            )


@pytest.mark.parametrize(
    ("power", "bonds", "alpha", "split"),
    [
        (2.0, 0, 0.5, "forced"),
        (2.0, 3, 0.3, "paper"),
        (2.5, 3, 0.5, "paper"),
        (2.5, 7, 0.3, "forced"),
    ],
)
def test_the_answer_minimises_psi_as_it_is_written(power, bonds, alpha, split):
    """Bonds enter the literal statement as squares, whatever the power of the others."""
    case = random_case(11, alpha=alpha, power=power, split=split, bonds=bonds)
    u, problem = case.primal()
    problem.solve(**CLARABEL)
    formulation = case.pose()
    solution = formulation.solve("newton")
    assert solution.ok
    np.testing.assert_allclose(solution.u, u.value, atol=1e-5 * np.abs(u.value).max())
    assert formulation.potential(solution.u) == pytest.approx(problem.value, rel=1e-8)
    assert formulation.potential(u.value) >= formulation.potential(solution.u) - 1e-14
    overlap = -case.phi - alpha * case.B @ solution.u
    law = np.where(case.bonds, case.k * overlap, case.k * np.maximum(overlap, 0.0) ** (power - 1.0))
    np.testing.assert_allclose(solution.f, law, atol=1e-9 * np.abs(law).max())
    np.testing.assert_allclose(solution.gap, -overlap, atol=1e-14)


@pytest.mark.parametrize("power", [1.7, 2.0, 2.5])
def test_strong_duality_with_the_dual_as_it_is_written(power):
    case = random_case(3, alpha=0.3, power=power)
    N, p = case.dual()
    f = cp.Variable(case.k.size, nonneg=True)
    q = power / (power - 1.0)
    stored = cp.sum(cp.multiply(case.k ** (-1.0 / (power - 1.0)) / q, cp.power(f, q, approx=False)))
    span = case.alpha * case.h
    dual = cp.Problem(cp.Minimize(0.5 * cp.quad_form(f, cp.psd_wrap(N)) + p @ f + stored / span))
    dual.solve(**CLARABEL)
    exact = case.pose("force").solve("newton")
    assert np.count_nonzero(exact.f) > 3
    np.testing.assert_allclose(exact.f, f.value, atol=1e-5 * exact.f.max())
    assert exact.objective == pytest.approx(dual.value, rel=1e-7)
    formulation = case.pose("velocity")
    primal = formulation.solve("newton").objective
    assert primal == pytest.approx(-span * exact.objective, rel=1e-10)
    A, b = case.M + 0.5 * case.h * case.C, case.b()
    psi = formulation.potential(exact.u) / case.h**2 + 0.5 * b @ np.linalg.solve(A, b)
    assert primal == pytest.approx(case.alpha / (1.0 - case.alpha) * psi, rel=1e-10)


@pytest.mark.parametrize(
    ("alpha", "power", "split"), [(0.0, 2.5, "paper"), (0.3, 2.0, "forced"), (0.5, 2.5, "paper")]
)
def test_the_gradient_of_psi_is_minus_h_times_the_residual(alpha, power, split):
    case = random_case(7, alpha=alpha, power=power, split=split, bonds=2)
    formulation = case.pose()
    u, eps = np.linspace(-0.3, 0.2, 5), 1e-6
    slope = [
        (formulation.potential(u + e) - formulation.potential(u - e)) / (2 * eps)
        for e in eps * np.eye(5)
    ]
    np.testing.assert_allclose(slope, -case.h * formulation.residual(u), rtol=1e-6, atol=1e-7)


@given(
    st.integers(0, 10_000),
    st.sampled_from([0.0, 0.1, 0.5, 0.9]),
    st.sampled_from([1.7, 2.0, 2.5]),
    st.sampled_from(["paper", "forced"]),
    st.integers(0, 3),
    st.floats(-4.0, 0.0),
)
@settings(max_examples=30)
def test_every_answer_is_a_root_of_the_residual(seed, alpha, power, split, bonds, exponent):
    """R = 0, and mom⁺ from the impulses is MΔq/h + hα(Bᵀf + F_ext) + Q⁺."""
    case = random_case(
        seed, alpha=alpha, power=power, split=split, bonds=bonds, h=0.1 * 10.0**exponent
    )
    formulation = case.pose()
    solution = formulation.solve("newton")
    assert solution.ok
    h, u = case.h, solution.u
    size = np.abs(case.mom).max() + h * np.abs(case.B.T @ solution.f).max()
    assert np.abs(formulation.residual(u)).max() < 1e-10 * size
    plus = 0.5 * (h * case.drive - case.C @ u) * (split == "forced")
    mom = case.M @ u / h + h * alpha * (case.B.T @ solution.f + case.F) + plus
    np.testing.assert_allclose(solution.mom, mom, atol=1e-10 * size)
    np.testing.assert_allclose(case.M @ solution.v_next, solution.mom, atol=1e-12 * size)


# --- limits ------------------------------------------------------------------------------------


@pytest.mark.parametrize(("power", "split"), [(2.0, "paper"), (2.5, "forced")])
def test_alpha_zero_is_a_linear_solve_with_forces_at_the_start(power, split):
    case = random_case(2, alpha=0.0, power=power, split=split, bonds=2)
    law = case.k * np.maximum(-case.phi, 0.0) ** (power - 1.0)
    f = np.where(case.bonds, -case.k * case.phi, law)
    A = case.M + 0.5 * case.h * case.C
    u = case.h * np.linalg.solve(A, case.b() + case.h * case.B.T @ f)
    for form in ("force", "velocity"):
        for backend, options in BACKENDS:
            solution = case.pose(form).solve(backend, **options)
            assert solution.ok
            np.testing.assert_allclose(solution.f, f, rtol=1e-14)
            np.testing.assert_allclose(solution.u, u, atol=1e-9 * np.abs(u).max())
            np.testing.assert_allclose(solution.gap, case.phi, atol=1e-14)


def test_alpha_tends_to_zero_at_first_order():
    case = random_case(2, bonds=2, split="paper")
    limit = case.pose(alpha=0.0).solve("newton")
    alphas = np.array([1e-2, 1e-4, 1e-6])
    near = [case.pose(alpha=a).solve("newton") for a in alphas]
    assert all(solution.ok for solution in near)
    for name in ("u", "f", "mom"):
        errors = [np.abs(getattr(s, name) - getattr(limit, name)).max() for s in near]
        assert np.polyfit(np.log(alphas), np.log(errors), 1)[0] == pytest.approx(1.0, abs=0.02)
    assert case.pose(alpha=1e-9).solve("newton").ok
    assert case.pose(alpha=1.0 - 1e-12).solve("newton").ok


@pytest.mark.parametrize(("power", "alpha"), [(2.0, 0.3), (2.5, 0.8)])
def test_without_inertia_the_gap_at_alpha_is_that_at_rest(power, alpha):
    """αΔq tends to QuasiStatic's displacement, the error in proportion to the mass."""
    case = random_case(4, alpha=alpha, power=power)
    case = dataclasses.replace(
        case, C=0.0 * case.C, drive=0.0 * case.F, mom=0.0 * case.mom, F=-case.B.T @ np.full(7, 3.0)
    )
    rest = cdopt.QuasiStatic(case.B, case.phi, case.F, case.k, power).solve("newton")
    masses, errors = np.array([1e-5, 1e-7]), []
    for mass in masses:
        solution = dataclasses.replace(case, M=mass * case.M).pose().solve("newton")
        assert solution.ok
        errors.append(np.abs(alpha * solution.u - rest.u).max())
        np.testing.assert_allclose(solution.f, rest.f, atol=10.0 * mass * rest.f.max() / case.h**2)
    assert errors[1] < 1e-5 * np.abs(rest.u).max()
    assert np.polyfit(np.log(masses), np.log(errors), 1)[0] == pytest.approx(1.0, abs=0.05)


# --- invariances -------------------------------------------------------------------------------


@given(st.integers(0, 10_000), st.sampled_from([2.0, 2.5]))
@settings(max_examples=15)
def test_units_do_not_matter(seed, power):
    m, x, t = 10.0 ** np.random.default_rng(seed).uniform(-3.0, 3.0, 3)
    N = m * x / t**2
    case = random_case(seed, power=power, bonds=2)
    k = case.k * np.where(case.bonds, N / x, N / x ** (power - 1.0))
    other = dataclasses.replace(
        case,
        M=m * case.M,
        phi=x * case.phi,
        F=N * case.F,
        mom=m * x / t * case.mom,
        C=m / t * case.C,
        k=k,
        drive=N * case.drive,
        h=t * case.h,
    )
    here, there = case.pose().solve("newton"), other.pose().solve("newton")
    for name, unit in (("u", x), ("f", N), ("mom", m * x / t), ("v_next", x / t), ("gap", x)):
        value = getattr(here, name)
        np.testing.assert_allclose(
            getattr(there, name) / unit, value, atol=1e-9 * np.abs(value).max()
        )
    values = [[r.value for r in s.certificate] for s in (here, there)]
    np.testing.assert_allclose(values[0], values[1], atol=1e-11)


@pytest.mark.parametrize(("split", "form"), [("paper", "force"), ("forced", "velocity")])
def test_forces_in_pairs_keep_momentum_however_roughly_they_are_solved(split, form):
    B = np.array([[-1.0, 1.0, 0.0], [0.0, -1.0, 1.0], [-1.0, 0.0, 1.0]])
    C = 3.0 * B.T @ B
    step = cdopt.ContactStep(
        M=np.diag([1.0, 2.0, 5.0]),
        B=B,
        phi=[-0.01, -0.02, 0.1],
        v=np.zeros(3),
        F_ext=np.zeros(3),
        dt=0.05,
        stiffness=[300.0, 100.0, 50.0],
    )
    rough = cdopt.VariationalStep(
        step,
        [3.0, 0.5, -2.0],
        power=2.5,
        damping_matrix=C,
        damping=split,
        form=form,
        two_sided=[False, False, True],
    ).solve("clarabel", accuracy=1e-3, tol=0.1)
    assert rough.f is not None
    np.testing.assert_array_equal(rough.f[:2], rough.iterate.forces)
    assert rough.mom.sum() == pytest.approx(1.5, abs=1e-14)


# --- as part of the package --------------------------------------------------------------------


def test_names_warm_starts_files_and_constraints(tmp_path):
    case = random_case(9, bonds=2)
    names = [f"c{i}" for i in range(7)]
    step = case.step(contact_ids=names, dof_body=[0, 0, 1, 1, 1])
    arguments = {"damping": case.damping(), "two_sided": case.bonds}
    formulation = cdopt.VariationalStep(step, case.mom, form="force", **arguments)
    solution = formulation.solve("osqp", accuracy=1e-9)
    assert solution.contact_ids.tolist() == names
    assert solution.f.shape == (7,)
    np.testing.assert_allclose(formulation.forces.value, solution.f, atol=1e-6 * solution.f.max())
    assert formulation.data.contact_ids.tolist() == names[2:]
    fresh = cdopt.VariationalStep(step, case.mom, form="force", **arguments)
    fresh.seed(solution.warm_start())
    np.testing.assert_allclose(fresh.forces.value, solution.f, atol=1e-9 * solution.f.max())
    again = formulation.solve("osqp", accuracy=1e-9, warm_start=solution)
    assert again.iterations <= solution.iterations
    np.testing.assert_allclose(again.f, solution.f, atol=1e-6 * solution.f.max())
    solution.save(tmp_path / "answer.npz")
    np.testing.assert_array_equal(
        cdopt.StepSolution.load(tmp_path / "answer.npz").mom, solution.mom
    )
    assert not solution.mom.flags.writeable
    polished = formulation.polish(solution)
    assert polished.certificate.worst < 1e-10
    np.testing.assert_allclose(polished.f, case.pose().solve("newton").f, atol=1e-9)

    free = cdopt.VariationalStep(step, case.mom, **arguments)
    least = float(free.solve("newton").u[0])
    held = free.with_constraints(free.displacement[0] >= least + 0.01).solve("clarabel")
    assert held.u is None or held.u[0] == pytest.approx(least + 0.01, abs=1e-5)
    assert free.displacement.value[0] == pytest.approx(least + 0.01, abs=1e-5)
    assert held.ok  # as the extended problem
    assert not cdopt.certify(free.data, held.iterate.motion, held.iterate.forces).ok


def test_only_bonds_only_explicit_forces_and_no_contacts_at_all():
    bonded = random_case(1, bonds=7)
    for form in ("force", "velocity"):
        formulation = bonded.pose(form)
        solution = formulation.solve("clarabel")
        assert solution.ok
        assert np.any(solution.f < 0.0)
        if form == "force":
            np.testing.assert_allclose(formulation.forces.value, solution.f, rtol=1e-9)
    explicit = bonded.pose("force", alpha=0.0)
    np.testing.assert_allclose(explicit.forces.value, explicit.solve("osqp").f)
    alone = dataclasses.replace(
        bonded, B=np.zeros((0, 5)), phi=np.zeros(0), k=np.ones(0), bonds=np.zeros(0, dtype=bool)
    )
    u = alone.h * np.linalg.solve(alone.M + 0.5 * alone.h * alone.C, alone.b())
    for backend in ("clarabel", "newton"):
        np.testing.assert_allclose(alone.pose().solve(backend).u, u, atol=1e-9)


def test_a_moving_wall_shifts_the_gap_by_its_way_to_alpha():
    moving = cdopt.VariationalStep(ball(gap_rate=0.3), [-1.0], alpha=0.4).solve("newton")
    shifted = cdopt.VariationalStep(ball(phi=[0.4 * 0.1 * 0.3]), [-1.0], alpha=0.4).solve("newton")
    np.testing.assert_allclose(moving.f, shifted.f, rtol=1e-12)
    np.testing.assert_allclose(moving.gap, shifted.gap, rtol=1e-12)


@pytest.mark.parametrize("h", [1e-7, 1e-5])
@pytest.mark.parametrize("form", ["force", "velocity"])
def test_short_steps_are_certified_in_units_of_the_contact_force(h, form):
    """Where contacts yield a little in a step, a force off by 1e-5 of itself is no answer."""
    step = ball(phi=[-1e-3], dt=h, stiffness=1e6)
    formulation = cdopt.VariationalStep(step, [-1.0], form=form)
    exact = formulation.solve("newton")
    assert exact.f[0] == pytest.approx(1000.0, rel=0.02)
    assert exact.certificate.worst < 1e-9
    off = cdopt.certify(formulation.data, exact.iterate.motion, exact.iterate.forces * (1.0 + 1e-5))
    assert off["law"] == pytest.approx(1e-5, rel=0.05)
    assert not off.ok
    modelled = formulation.solve("clarabel")
    assert modelled.ok
    assert modelled.f[0] == pytest.approx(exact.f[0], rel=1e-6)
    assert modelled.mom[0] == pytest.approx(exact.mom[0], rel=1e-8)


@pytest.mark.parametrize("stiff", [1e6, 1e12, 1e16, 1e18])
def test_bonds_stiffer_than_round_off_allows_are_not_certified(stiff: float) -> None:
    """A soft bond to the wall, a stiff one behind it: both bodies move on the soft one."""
    step = cdopt.ContactStep(
        np.eye(2), [[1, 0], [-1, 1]], [0, 0], [0, 0], [0, 10.0], 1e-3, stiffness=[1e3, stiff]
    )
    solution = cdopt.VariationalStep(step, [0.0, 0.0], two_sided=[True, True]).solve(check=False)
    assert solution.ok == (stiff < 1e15)
    if stiff == 1e18:
        assert solution.certificate.resolution > 1e-5
    if 1e12 <= stiff < 1e15:
        assert solution.f[1] == pytest.approx(-5.000624, rel=1e-5)


def test_bonds_too_stiff_for_double_precision_are_refused_by_name():
    step = cdopt.ContactStep(
        np.eye(2), [[1.0, 0.0], [-1.0, 1.0]], [0.0, 0.0], [0.0, 0.0], [0.0, 1.0], 2.0**-6,
        stiffness=[1.0, 1e20],
    )  # fmt: skip
    with pytest.raises(cdopt.InvalidInput, match="softer bonds"):
        cdopt.VariationalStep(step, [0.0, 0.0], two_sided=[True, True])
