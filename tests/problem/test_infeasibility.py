from __future__ import annotations

import numpy as np
import pytest
from conftest import beam, random_step
from hypothesis import given, settings
from hypothesis import strategies as st

import cdopt
from cdopt.problem import prove_infeasible, rigid_data

SQUEEZED = cdopt.ContactStep([[1.0]], [[1.0], [-1.0]], [-0.01, -0.02], [0.0], [0.0], 1e-3)
HANGING = cdopt.NoTensionTruss([[1.0, -0.5], [1.0, 0.0], [1.0, 0.5]], [-10.0, 0.0])


def test_a_squeezed_body_is_proven_jammed() -> None:
    """Trap 10: g ≥ 0, Bᵀg = 0, gᵀΦ < 0."""
    proof = prove_infeasible(rigid_data(SQUEEZED))
    assert proof is not None
    assert (proof.vector >= 0).all()
    np.testing.assert_allclose(SQUEEZED.B.T @ proof.vector, 0.0, atol=1e-12)
    assert proof.vector @ SQUEEZED.phi < 0.0
    assert "infeasible" in str(proof)


def test_a_load_that_contacts_cannot_carry_is_proven_so() -> None:
    """Trap 11: some u has B u ≥ 0 and F̃ᵀu < 0."""
    proof = prove_infeasible(HANGING.data)
    assert proof is not None
    assert (HANGING.data.B @ proof.vector >= -1e-12).all()
    assert HANGING.data.contact_load @ proof.vector < 0.0
    ray = 1e3 * proof.vector  # the unbounded ray of the corrected (32)
    energy = [
        float(HANGING.data.motion_objective(s * ray, np.zeros(0)).sum()) for s in (0.0, 1.0, 2.0)
    ]
    assert energy[2] < energy[1] < energy[0]


def test_a_step_known_by_n_and_p_alone_is_proven_too() -> None:
    rows = cdopt.ContactStep.from_delassus(SQUEEZED.N, SQUEEZED.p_vec, dt=1e-3)
    proof = prove_infeasible(rigid_data(rows))
    assert proof is not None
    np.testing.assert_allclose(rows.N @ proof.vector, 0.0, atol=1e-15)
    assert proof.vector @ rows.p_vec < 0.0


@settings(max_examples=25)
@given(st.integers(0, 10_000))
def test_what_is_feasible_is_never_proven_infeasible(seed: int) -> None:
    step = random_step(seed)
    assert prove_infeasible(rigid_data(step)) is None
    f = np.random.default_rng(seed).random(step.nc)
    assert prove_infeasible(cdopt.NoTensionTruss(step.B, step.B.T @ f).data) is None
    assert prove_infeasible(rigid_data(beam())) is None


@settings(max_examples=25)
@given(st.integers(0, 10_000))
def test_either_a_truss_solves_or_its_infeasibility_is_proven(seed: int) -> None:
    """Theorem of alternatives, on random loads: exactly one of the two happens."""
    rng = np.random.default_rng(seed)
    truss = cdopt.NoTensionTruss(rng.standard_normal((5, 3)), rng.standard_normal(3))
    proof = prove_infeasible(truss.data)
    if proof is None:
        assert truss.solve("newton").ok
        return
    for backend in ("clarabel", "newton"):
        with pytest.raises(cdopt.SolveFailed) as failure:
            truss.solve(backend)
        assert failure.value.certificate is not None


@pytest.mark.parametrize("backend", ["clarabel", "osqp", "scs", "newton"])
@pytest.mark.parametrize("form", ["force", "velocity"])
def test_the_failure_carries_its_evidence(backend: str, form: str) -> None:
    with pytest.raises(cdopt.SolveFailed) as failure:
        cdopt.ClassicCD(SQUEEZED, form).solve(backend)
    error = failure.value
    assert error.backend == backend
    assert error.certificate is not None
    assert error.certificate.value < 0.0
    assert error.status
    assert error.problem is not None
    quiet = cdopt.ClassicCD(SQUEEZED, form).solve(backend, check=False)
    assert quiet.f is None
    assert not quiet.ok


def test_a_claim_of_success_on_an_infeasible_problem_is_returned_not_ok() -> None:
    """HiGHS calls the squeezed body optimal, with forces of 1e11 N."""
    solution = cdopt.ClassicCD(SQUEEZED).solve("highs")
    assert solution.claimed
    assert not solution.ok
    assert solution.certificate["penetration"] > 0.1


@pytest.mark.parametrize("angle", 10.0 ** np.arange(-12.0, -4.0))
def test_a_thin_wedge_is_not_called_infeasible(angle: float) -> None:
    """Walls that open by a small angle: out of the wedge is a way, however long."""
    B = np.array([[1, angle], [-1, angle], [0, 1]])
    for rate in (0.0, -1e-3, -1.0):
        step = cdopt.ContactStep(
            np.eye(2), B, np.zeros(3), np.zeros(2), [0, -8.0], 2.0**-10, gap_rate=[rate, 0, 0]
        )
        assert prove_infeasible(cdopt.ClassicCD(step).data) is None
    truss = cdopt.NoTensionTruss(B, [0.3, 1.0])  # a force of 0.3/angle delivers it
    assert prove_infeasible(truss.data) is None


@pytest.mark.parametrize("turn", [0.0, 0.3, 1.1, 2.7])
def test_walls_that_close_in_are_proven_infeasible_whatever_their_direction(turn: float) -> None:
    wall = np.array([np.cos(turn), np.sin(turn)])
    other = np.array([np.cos(turn + np.pi), np.sin(turn + np.pi)])
    phi = [-1e-3, 0.5e-3, 0.0]
    step = cdopt.ContactStep(
        np.diag([1.0, 3.0]), [wall, other, [0, 1]], phi, [0, 0], [0, -8.0], 1e-3
    )
    proof = prove_infeasible(cdopt.ClassicCD(step).data)
    assert proof is not None
    assert np.abs(step.B.T @ proof.vector).max() <= 1e-15
    assert proof.vector @ step.phi < 0.0
