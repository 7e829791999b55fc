"""Dissipation in a variational step: its two splits, by formula, by energy and by order."""

from __future__ import annotations

import numpy as np
import pytest
from steps_to_take import random_case

import cdopt
from cdopt.formulations import StepDamping

K, GAMMA = 50.0, 6.0


def oscillator(q, h, **changes):
    """1 kg on a spring that also pulls, at q."""
    step = cdopt.ContactStep([[1.0]], [[1.0]], [q], [0.0], [0.0], h, stiffness=K)
    return step.replace(**changes)


def integrate(q, mom, h, steps, **arguments):
    """(q, mom) after each step, linear contacts in one dimension."""
    path = [(q, mom)]
    for _ in range(steps):
        solution = cdopt.VariationalStep(oscillator(q, h), [mom], **arguments).solve("newton")
        assert solution.ok
        q, mom = q + float(solution.u[0]), float(solution.mom[0])
        path.append((q, mom))
    return np.array(path)


def energy(path):
    return 0.5 * path[:, 1] ** 2 + 0.5 * K * np.minimum(path[:, 0], 0.0) ** 2


@pytest.mark.parametrize(("split", "order"), [("forced", 2.0), ("paper", 1.0)])
def test_the_order_of_each_split_with_damping(split, order):
    """Against the damped oscillator's solution; without damping the paper's split is of order 2."""
    end, q0 = 0.25, 0.3
    rate, omega = GAMMA / 2, np.sqrt(K - GAMMA**2 / 4)
    exact = np.exp(-rate * end) * q0 * (np.cos(omega * end) + rate / omega * np.sin(omega * end))
    counts, errors = np.array([15, 30]), []
    for count in counts:
        path = integrate(
            q0, 0.0, end / count, count, damping=split, damping_matrix=[[GAMMA]], two_sided=[True]
        )
        errors.append(abs(path[-1, 0] - exact))
    assert -np.polyfit(np.log(counts), np.log(errors), 1)[0] == pytest.approx(order, abs=0.06)


@pytest.mark.parametrize("split", ["forced", "paper"])
def test_the_energy_of_a_damped_contact_falls_and_of_an_undamped_one_stays(split):
    """At α = ½ and while the linear contact lasts, in steps as long as a tenth of it."""
    h, start, push = 0.04, -0.01, -1.0
    free = integrate(start, push, h, 8, damping=split)
    assert np.all(free[:, 0] < 0.0)
    np.testing.assert_allclose(energy(free), energy(free)[0], rtol=1e-12)
    damped = integrate(start, push, h, 8, damping=split, damping_matrix=[[GAMMA]])
    assert np.all(np.diff(energy(damped)) < 0.0)
    assert energy(damped)[-1] < 0.7 * energy(damped)[0]


def test_the_splits_differ_by_their_formulas():
    """Paper: (M + hC/2 + h²α(1−α)BᵀkB) v̄ starts from mom − (h/2)CM⁻¹mom; forced from mom."""
    case = random_case(8, bonds=7)
    h, alpha, M, C, B = case.h, 0.5, case.M, case.C, case.B
    A = M + 0.5 * h * C + h * h * alpha * (1 - alpha) * B.T @ (case.k[:, None] * B)
    load = h * (1 - alpha) * (case.F - B.T @ (case.k * case.phi)) + 0.5 * h * case.drive
    past = 0.5 * h * (case.drive - C @ np.linalg.solve(M, case.mom))
    for split, start in (("forced", case.mom), ("paper", case.mom + past)):
        solution = case.pose(split=split).solve("newton")
        u = h * np.linalg.solve(A, start + load)
        np.testing.assert_allclose(solution.u, u, rtol=1e-9)
        impulse = h * (B.T @ solution.f + case.F) + 0.5 * (h * case.drive - C @ u)
        late = past if split == "paper" else 0.5 * (h * case.drive - C @ u)
        np.testing.assert_allclose(solution.mom, case.mom + impulse + late, rtol=1e-9)


def test_each_split_reads_the_matrix_of_its_own_moment():
    case = random_case(8)
    given, other = (case.C, case.drive), (2.0 * case.C + np.eye(5), case.drive)
    pairs = {"forced": "end", "paper": "start"}
    for split, name in pairs.items():
        same = case.pose(split=split).solve("newton")
        stated = case.pose(split=split, **{name: given}).solve("newton")
        np.testing.assert_array_equal(same.mom, stated.mom)
        unread = case.pose(split=split, **{n: other for n in pairs.values() if n != name})
        np.testing.assert_array_equal(same.mom, unread.solve("newton").mom)
        read = case.pose(split=split, **{name: other}).solve("newton")
        if split == "forced":
            np.testing.assert_array_equal(read.u, same.u)
            change = -0.5 * (other[0] - case.C) @ same.u
            np.testing.assert_allclose(read.mom - same.mom, change, rtol=1e-9)
        else:
            v = np.linalg.solve(case.M, case.mom)
            change = -0.5 * case.h * (other[0] - case.C) @ v
            R = case.pose(split=split).residual(read.u) + change
            np.testing.assert_allclose(R, 0.0, atol=1e-10)


@pytest.mark.parametrize("split", ["forced", "paper"])
def test_a_body_that_moves_with_its_wall_feels_no_damping(split):
    """Q = −C (q̇ − V) as drive C V and a gap that follows: nothing happens at q̇ = V."""
    h, V = 0.1, 0.7
    step = oscillator(0.0, h, gap_rate=-V)
    solution = cdopt.VariationalStep(
        step, [V], damping=StepDamping([[GAMMA]], [GAMMA * V], split)
    ).solve("newton")
    assert solution.u[0] == pytest.approx(h * V, rel=1e-12)
    assert solution.mom[0] == pytest.approx(V, rel=1e-12)
    assert solution.f[0] == pytest.approx(0.0, abs=1e-10)


def test_nearly_semidefinite_matrices_are_accepted_and_indefinite_ones_refused():
    """C is judged by its own eigenvalues, even where inertia would hide a negative one."""
    rng = np.random.default_rng(0)
    b = rng.standard_normal((3, 6)) * 10.0 ** rng.uniform(-3.0, 3.0, 6)
    step = cdopt.ContactStep(
        M=1e9 * np.eye(6), B=np.zeros((0, 6)), phi=[], v=np.zeros(6), F_ext=np.zeros(6), dt=1e-6
    )
    assert cdopt.VariationalStep(step, np.zeros(6), damping_matrix=b.T @ b).solve("newton").ok
    unit = np.diag(1.0 / np.linalg.norm(b, axis=0))
    _, vectors = np.linalg.eigh(unit @ b.T @ b @ unit)
    worse = np.linalg.inv(unit) @ np.outer(vectors[:, 0], vectors[:, 0]) @ np.linalg.inv(unit)
    with pytest.raises(cdopt.InvalidInput, match="damping_matrix: found a negative eigenvalue"):
        cdopt.VariationalStep(step, np.zeros(6), damping_matrix=b.T @ b - 1e-7 * worse)
