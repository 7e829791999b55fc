"""Scales, parts and certificates, computed entry by entry, against their dense definitions."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from conftest import beam, random_step
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse.csgraph import connected_components

import cdopt
from cdopt.problem import ContactProblem, rigid_data
from cdopt.problem.certificate import certify
from cdopt.problem.scaling import matrix_parts, network_parts

seeds = st.integers(0, 10_000)
few = settings(max_examples=30)


def scattered(rng, shape, share):
    return sp.csr_array(rng.standard_normal(shape) * (rng.random(shape) < share))


def same_partition(found, wanted):
    """Equal up to the names of the parts."""
    pairs = set(zip(found.tolist(), wanted.tolist(), strict=True))
    return len(pairs) == len(set(found.tolist())) == len(set(wanted.tolist()))


@few
@given(seeds, st.integers(0, 9), st.integers(1, 9), st.booleans(), st.booleans())
def test_parts_are_the_connected_components(seed, nc, nv, coupled, loose) -> None:
    rng = np.random.default_rng(seed)
    B = scattered(rng, (nc, nv), 0.2)
    M = scattered(rng, (nv, nv), 0.1) if coupled else None
    tied = rng.random(nv) < 0.6 if loose else np.ones(nv, dtype=bool)
    ties = np.zeros((nc + nv, nc + nv))
    ties[:nc, nc:] = (B.toarray() != 0.0) & tied
    if M is not None:
        ties[nc:, nc:] = M.toarray() != 0.0
    count, wanted = connected_components(sp.csr_array(ties), directed=False)
    parts = network_parts(B, M, tied if loose else None)
    assert parts.count == count
    assert same_partition(np.append(parts.contact, parts.dof), wanted)
    assert parts.contact.tolist() == wanted[:nc].tolist()  # numbered in order of contacts


@few
@given(seeds, st.integers(0, 9))
def test_parts_of_a_delassus_matrix_are_its_blocks(seed, nc) -> None:
    root = scattered(np.random.default_rng(seed), (nc, nc + 1), 0.15)
    N = sp.csr_array(root @ root.T)
    count, wanted = connected_components(N, directed=False)
    parts = matrix_parts(N)
    assert parts.count == count
    assert parts.contact.tolist() == wanted.tolist()


def test_a_held_dof_ties_nothing_together() -> None:
    B = [[1.0, 0.0, 1.0], [0.0, 1.0, 1.0]]
    free = cdopt.NoTensionTruss(B, [1.0, 1.0, 0.0]).data
    held = cdopt.NoTensionTruss(B, [1.0, 1.0, 0.0], free_dofs=[0, 1]).data
    assert (free.parts.count, held.parts.count) == (1, 3)


@few
@given(seeds, st.booleans())
def test_scales_of_a_step_are_those_of_its_definition(seed, diagonal) -> None:
    step = random_step(seed)
    if diagonal:
        step = step.replace(M=sp.diags_array(step.M.diagonal()))
    data, N, p = rigid_data(step), step.N.toarray(), step.p_vec
    np.testing.assert_allclose(data.mobility, np.diag(N), rtol=1e-12)
    if p.min() < -1e-12 * np.abs(p).max():
        assert data.part_speed == pytest.approx([-p.min()])
    mean = np.exp(np.log(np.diag(N)).mean())
    assert data.part_force == pytest.approx(data.part_speed / mean)
    M, B = data.scales.S, data.scales.B
    s, E = data.dof_speed, data.part_energy[0]
    np.testing.assert_allclose(M.toarray(), step.M.toarray() * np.outer(s, s) / E, rtol=1e-12)
    np.testing.assert_allclose(B.toarray(), step.B.toarray() * s / data.part_speed, rtol=1e-12)
    assert np.abs(B.toarray()).max() <= 1.0 + 1e-12


def test_speeds_fall_back_from_closing_to_moving_to_gaps() -> None:
    rising = beam(phi=[1e-3, 2e-3, 3e-3], v=[0.5, 0.0], F_ext=[0.0, 0.0])
    assert rigid_data(rising).part_speed == pytest.approx([0.5])
    still = rising.replace(v=[0.0, 0.0])
    assert rigid_data(still).part_speed == pytest.approx([3.0])
    nothing = still.replace(phi=np.zeros(3))
    assert rigid_data(nothing).part_speed == pytest.approx([1.0])


def test_columns_of_round_off_move_nothing_and_others_stay() -> None:
    rows = np.array([[1.0, -0.5, 1e-14], [1.0, 0.0, 0.0], [1.0, 0.5, -1e-14]])
    data = rigid_data(beam(B=rows, M=np.eye(3), v=np.zeros(3), F_ext=[-10.0, 0.0, 0.0]))
    np.testing.assert_array_equal(data.B.toarray(), rows * [1.0, 1.0, 0.0])
    whole = beam()
    assert rigid_data(whole).B is whole.B
    kept = rows * [1.0, 1.0, 1e6]
    other = rigid_data(beam(B=kept, M=np.eye(3), v=np.zeros(3), F_ext=[-10.0, 0.0, 0.0]))
    np.testing.assert_array_equal(other.B.toarray(), kept)


@few
@given(seeds)
def test_the_certificate_of_a_step_is_its_definition_written_out(seed) -> None:
    """The dense mass matrix makes one body of all dofs."""
    step, rng = random_step(seed), np.random.default_rng(seed)
    v, f, dt = rng.standard_normal(step.nv), rng.standard_normal(step.nc), step.dt
    data = rigid_data(step)
    certificate = certify(data, v, f)
    M, B, N = step.M.toarray(), step.B.toarray(), step.N.toarray()
    gap, push, mass, jump = B @ v + step.bias, np.diag(N) * f, np.diag(M), v - step.v_star
    a = np.maximum(np.abs(jump), np.abs(step.v_star - step.v))
    E = (mass * a**2).sum()
    pushed = dt * np.abs(B).T @ np.abs(f) / mass  # counts where bodies are not stated
    acts = (mass * np.maximum(a, pushed) ** 2).sum()
    S = np.minimum(np.sqrt((B**2 / mass).sum(axis=1) * acts), data.part_speed[0])
    r = M @ jump - dt * B.T @ f
    eps = 8.0 * np.finfo(float).eps  # round-off of each sum is taken off its error
    gap_off = eps * (np.abs(B) @ np.abs(v) + np.abs(step.bias))
    moved = np.abs(M) @ (np.abs(v) + np.abs(step.v_star))
    off = eps * (moved + dt * np.abs(B).T @ np.abs(f))
    expected = {
        "penetration": (np.maximum(-gap - gap_off, 0.0) / S).max(),
        "tension": (np.maximum(-push, 0.0) / S).max(),
        "complementarity": (np.maximum(np.minimum(push, gap) - gap_off, 0.0) / S).max(),
        "momentum": (np.maximum(np.abs(r) - off, 0.0) / np.sqrt(mass * acts)).max(),
        "duality gap": abs(0.5 * r @ np.linalg.solve(M, r) + dt * f @ gap) / E,
    }
    for name, value in expected.items():
        assert certificate[name] == pytest.approx(value, rel=1e-9)
    primal, dual = 0.5 * jump @ M @ jump, dt * (0.5 * f @ N @ f + step.p_vec @ f)
    assert certificate["duality gap"] * E == pytest.approx(abs(primal + dual), rel=1e-6)


@few
@given(seeds, st.sampled_from([2.0, 2.5, 1.7]))
def test_the_certificate_of_a_truss_is_its_definition_written_out(seed, power) -> None:
    rng = np.random.default_rng(seed)
    B, load, k = rng.standard_normal((6, 3)), rng.standard_normal(3), rng.uniform(0.5, 2.0, 6)
    data: ContactProblem = cdopt.NoTensionTruss(B, load, k, power, dof_body=[0, 0, 1]).data
    u, f = rng.standard_normal(3), rng.standard_normal(6)
    certificate, c = certify(data, u, f), -B @ u
    lever, law = np.abs(B).max(axis=0), data.elastic_law
    acting = np.maximum(np.abs(B).T @ np.abs(f), np.abs(load)) / lever
    Y = np.array([acting[:2].max(), acting[2]])
    F = np.full(6, Y.min())
    energy, conjugate = law.energy(c), law.conjugate(f)
    e = np.maximum(energy + conjugate, 1e-3 * law.conjugate(F))
    potential, complementary = energy.sum() + load @ u, conjugate.sum()
    expected = {
        "equilibrium": (np.abs(B.T @ f - load) / lever / Y[[0, 0, 1]]).max(),
        "tension": (np.maximum(-f, 0.0) / F).max(),
        "law": (np.abs(f - law.force(c)) / F).max(),
        "duality gap": abs(potential + complementary) / e.sum(),
    }
    for name, value in expected.items():
        assert certificate[name] == pytest.approx(value, rel=1e-6)
