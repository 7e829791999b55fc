"""Cases in which round-off, scales or a stranger's data once led to a wrong answer called ok."""

from __future__ import annotations

import cvxpy as cp
import numpy as np
import pytest
from conftest import DT, beam

import cdopt
from cdopt.problem import rigid_data
from cdopt.problem.certificate import certify


@pytest.mark.parametrize("noise", [1e-17, 1e-13])
def test_a_round_off_column_beside_a_beam(noise: float) -> None:
    step = beam([1, 3, 1])
    wide = cdopt.ContactStep(
        M=np.diag([*step.M.diagonal(), 1.0]),
        B=np.column_stack([step.B.toarray(), noise * np.array([1.0, -2.0, 0.5])]),
        phi=step.phi,
        v=np.zeros(3),
        F_ext=[*step.F_ext, 0.0],
        dt=DT,
        stiffness=[1, 3, 1],
    )
    for backend in ("clarabel", "osqp"):
        solution = cdopt.CompatibleCD(wide).solve(backend)
        assert solution.ok
        np.testing.assert_allclose(solution.f, [2.0, 6.0, 2.0], rtol=1e-5)


def test_noise_in_a_delassus_matrix_ties_nothing() -> None:
    step = beam([1, 3, 1])
    rng = np.random.default_rng(0)
    noise = 1e-10 * rng.standard_normal((3, 3))
    N = step.N.toarray() * (1.0 + noise + noise.T)
    rows = cdopt.ContactStep.from_delassus(N, step.p_vec, dt=DT, stiffness=[1, 3, 1])
    solution = cdopt.CompatibleCD(rows).solve("clarabel")
    np.testing.assert_allclose(solution.f, [2.0, 6.0, 2.0], rtol=1e-5)


def test_heavy_and_light_parts_of_a_delassus_matrix_are_cut_apart() -> None:
    step = cdopt.bank.load("ten-orders").step
    rows = cdopt.ContactStep.from_delassus(step.N, step.p_vec, dt=step.dt)
    by_rows = cdopt.CompatibleCD(rows).solve("osqp", classic="clarabel")
    by_matrices = cdopt.CompatibleCD(step).solve("osqp", classic="clarabel")
    assert by_rows.certificate.ok
    np.testing.assert_allclose(by_rows.f, by_matrices.f, rtol=1e-5)


def test_multipliers_of_an_extended_problem_with_several_parts() -> None:
    """A harmless constraint changes nothing, in any form."""
    light, heavy = 1.0, 1e2
    step = cdopt.ContactStep(
        np.diag([light, heavy]), np.eye(2), [0, 0], [0, 0], [-9.81 * light, -9.81 * heavy], DT
    )
    exact = 9.81 * np.array([light, heavy])
    velocity = cdopt.ClassicCD(step, "velocity")
    solution = velocity.with_constraints(velocity.velocity <= 1e3).solve("clarabel")
    np.testing.assert_allclose(solution.f, exact, rtol=1e-4)
    for form, name in (("complementary", "forces"), ("potential", "displacement")):
        truss = cdopt.NoTensionTruss(np.eye(2), exact, form=form)
        tied = truss.with_constraints(getattr(truss, name) <= 1e5)
        solution = tied.solve("clarabel", accuracy=1e-11)
        np.testing.assert_allclose(solution.f, exact, rtol=1e-3)
        np.testing.assert_allclose(solution.u, -exact, rtol=1e-3)


def test_an_extension_by_a_cone_is_refused_to_quadratic_solvers() -> None:
    cd = cdopt.ClassicCD(beam())
    round_one = cd.with_constraints(cp.norm(cd.forces) <= 50.0)
    assert round_one.solve("clarabel").ok
    with pytest.raises(cdopt.Unsupported) as refusal:
        round_one.solve("osqp")
    assert "clarabel" in refusal.value.alternatives


def test_a_classic_solution_of_another_problem_does_not_pass() -> None:
    other = cdopt.ClassicCD(beam(F_ext=[-99.0, 0.0])).solve("clarabel")
    solution = cdopt.CompatibleCD(beam()).solve("clarabel", classic=other)
    assert not solution.ok
    assert not solution.certificates["classic"].ok
    truss = cdopt.NoTensionTruss(beam().B, [20.0, 0.0]).solve("clarabel")
    with pytest.raises(cdopt.InvalidInput, match="classic"):
        cdopt.CompatibleCD(beam()).solve("clarabel", classic=truss)


def test_a_wall_pulled_away_does_not_blunt_the_certificate() -> None:
    """k = 1e9 N/m and a support withdrawn by 10 mm: the load of 1 N is still the scale."""
    truss = cdopt.NoTensionTruss(
        [[1.0, 0.0], [1.0, -1.0]], [1.0, 0.0], 1e9, free_dofs=[0], prescribed_u=[0.0, -0.01]
    )
    assert not certify(truss.data, np.array([0.0, -0.01]), np.zeros(2)).ok
    for backend in ("clarabel", "osqp", "scs"):
        solution = truss.solve(backend, check=False)
        if solution.ok:
            np.testing.assert_allclose(solution.f, [1.0, 0.0], atol=1e-5)
    pulled = cdopt.NoTensionTruss(
        [[1.0, -1.0]], [-1.0, 0.0], 1e9, free_dofs=[0], prescribed_u=[0.0, -0.01]
    )
    with pytest.raises(cdopt.SolveFailed, match="truss infeasible"):
        pulled.solve("clarabel")


@pytest.mark.parametrize("form", ["force", "velocity"])
def test_sliding_along_a_wall_is_no_collision(form: str) -> None:
    """B v* is zero up to round-off: nothing happens, and that is certified."""
    rng = np.random.default_rng(1)
    for _ in range(5):
        angle = rng.uniform(0.0, 2.0 * np.pi)
        n, t = np.array([np.cos(angle), np.sin(angle)]), np.array([-np.sin(angle), np.cos(angle)])
        v = rng.uniform(0.1, 10.0) * t
        step = cdopt.ContactStep(np.eye(2), [n], [0.0], v, [0.0, 0.0], DT)
        solution = cdopt.ClassicCD(step, form).solve("osqp")
        assert solution.ok, solution.certificate
        np.testing.assert_allclose(solution.v_next, v, atol=1e-9)


def test_a_light_body_between_heavy_ones_is_certified_by_its_own_momentum() -> None:
    """A grain of 1 kg under 1e6 kg: 1 % of its motion is not its motion."""
    step = cdopt.ContactStep(
        M=np.diag([1.0, 1.0, 1e6]),
        B=[[0.0, 1.0, 0.0], [0.0, -1.0, 1.0]],
        phi=[0.0, 0.0],
        v=[0.1, 0.0, 0.0],
        F_ext=[0.0, -9.81, -9.81e6],
        dt=DT,
    )
    data = rigid_data(step)
    f = np.array([9.81 * (1.0 + 1e6), 9.81e6])
    assert certify(data, np.array([0.1, 0.0, 0.0]), f).ok
    assert not certify(data, np.array([1e-3, 0.0, 0.0]), f).ok


def test_small_powers_cannot_hide_a_self_stress() -> None:
    """p = 1.2: an overlap of 1e-12 already carries a visible force, so forces are compared."""
    truss = cdopt.NoTensionTruss(beam().B, [10.0, 0.0], power=1.2)
    u = np.array([-((10.0 / 3.0) ** 5), 0.0])
    exact = np.full(3, 10.0 / 3.0)
    assert certify(truss.data, u, exact).ok
    assert not certify(truss.data, u, exact + 1e-3 * np.array([1.0, -2.0, 1.0])).ok


def test_an_unfinished_first_step_is_returned_as_such() -> None:
    step = cdopt.bank.load("pyramid-hooke:n=4").step
    solution = cdopt.CompatibleCD(step).solve(
        "clarabel", classic=cdopt.backends.Modelled("osqp", options={"max_iter": 5})
    )
    assert solution.f is None
    assert not solution.ok
    assert set(solution.certificates) == {"classic"}


def test_warm_starts_follow_names_onto_the_closed_contacts() -> None:
    step = beam(phi=[0.0, 1e-3, 0.0], contact_ids=["left", "middle", "right"])
    earlier = cdopt.CompatibleCD(beam(contact_ids=["left", "middle", "right"])).solve("osqp")
    solution = cdopt.CompatibleCD(step).solve("osqp", warm_start=earlier, accuracy=1e-9)
    np.testing.assert_allclose(solution.f, [5.0, 0.0, 5.0], atol=1e-6)
