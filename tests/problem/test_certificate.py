"""The certificate is computed from the data and the answer alone, and every residual can fail."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from campaigns import frictional_answers, wrong_answers
from conftest import DT, WEIGHT, beam, random_step

import cdopt
from cdopt._util.errors import InvalidInput
from cdopt.problem import rigid_data
from cdopt.problem.certificate import certify

REST = np.zeros(2)


def rigid(step=None):
    return rigid_data(beam() if step is None else step)


def test_forces_by_hand_are_checked_with_the_motion_that_they_cause() -> None:
    """Homework: forces of the beam, rounded to three digits; a slope under both laws."""
    assert cdopt.check(beam(), [2.0, 6.0, 2.0]).ok
    rounded = cdopt.check(beam(), [3.33, 3.33, 3.33], tol=1e-2)
    assert rounded.ok
    assert not cdopt.check(beam(), [3.33, 3.33, 3.33]).ok
    assert not cdopt.check(beam(), [-1.0, 12.0, -1.0]).ok
    rough = cdopt.bank.load("incline").step
    solution = cdopt.FrictionalCD(rough).solve()
    assert cdopt.check(rough, solution.f, solution.f_t).ok
    assert not cdopt.check(rough, solution.f).ok
    associated = cdopt.FrictionalCD(rough, "associated").solve()
    assert cdopt.check(rough, associated.f, associated.f_t, law="associated").ok


def test_a_step_is_certified_as_its_problem_is() -> None:
    step, f = beam(), np.array([10 / 3] * 3)
    assert certify(step, REST, f) == certify(rigid(), REST, f)
    rough = cdopt.bank.load("incline").step
    solution = cdopt.FrictionalCD(rough).solve()
    forces = np.column_stack([solution.f, solution.f_t]).ravel()
    assert certify(rough, solution.v_next, forces).ok


def test_what_cannot_be_checked_is_refused() -> None:
    for arguments in ([[1.0, 2.0]], [[1.0] * 3, [[0.0]] * 3], [[1.0] * 3, None, "coulomb"]):
        with pytest.raises(InvalidInput):
            cdopt.check(beam(), *arguments)
    joined = cdopt.ContactStep(np.eye(2), [[1.0, 0.0]], [0.0], [0.0, 0.0], [0.0, 0.0], DT,
                               joints=cdopt.Joints([[1.0, -1.0]]))  # fmt: skip
    with pytest.raises(cdopt.Unsupported, match="audit"):
        cdopt.check(joined, [0.0])


@pytest.mark.parametrize("f", [[10 / 3] * 3, [5.0, 0.0, 5.0], [0.0, 10.0, 0.0], [2.0, 6.0, 2.0]])
def test_every_admissible_force_of_the_beam_is_certified(f: list[float]) -> None:
    """Classic contact dynamics accepts them all: that is the indeterminacy."""
    certificate = certify(rigid(), REST, np.array(f))
    assert certificate.worst < 1e-14
    assert certificate.ok


@pytest.mark.parametrize(
    ("motion", "forces", "caught_by"),
    [
        (REST, [4.0, 4.0, 4.0], "momentum"),
        (REST, [-1.0, 12.0, -1.0], "tension"),
        ([-1e-4, 0.0], [10 / 3] * 3, "penetration"),
        ([1e-4, 0.0], [10 / 3] * 3, "complementarity"),
        ([0.0, 1e-4], [10 / 3] * 3, "penetration"),
        (REST, [0.0, 0.0, 0.0], "duality gap"),
        (REST, [np.nan, 1.0, 1.0], "tension"),
        ([np.inf, 0.0], [10 / 3] * 3, "complementarity"),
    ],
)
def test_each_violation_is_caught(motion: list, forces: list, caught_by: str) -> None:
    certificate = certify(rigid(), np.array(motion), np.array(forces))
    assert not certificate.ok
    assert not certificate[caught_by] <= 1e-3


def test_residuals_say_what_they_are_made_of() -> None:
    certificate = certify(rigid(), np.array([-0.25 * 9.81 * DT, 0.0]), np.array([10 / 3] * 3))
    scales = {r.name: r for r in certificate}
    assert scales["penetration"].unit == "m/s"
    assert scales["penetration"].value * scales["penetration"].scale == pytest.approx(
        0.25 * 9.81e-3
    )
    u, f = np.array([-10 / 3, 0.0]), np.array([10 / 3] * 3)
    assert 0.0 < certify(beam_truss(), u, f).resolution < 1e-13
    assert "penetration" in str(certificate)
    assert "NOT OK" in str(certificate)
    with pytest.raises(InvalidInput, match="'nothing'"):
        certificate["nothing"]


@pytest.mark.parametrize("v", [0.5, 1.5, 2.0])
def test_a_row_is_not_judged_by_another_row_of_the_same_body(v: float) -> None:
    """Constraints 1e-7 (v − 1) ≥ 0 and v − 0.5 ≥ 0: the answer is v = 1, however small the row."""
    step = cdopt.ContactStep(
        [[1.0]], [[1e-7], [1.0]], [0, 0], [0.0], [0.0], 1.0, gap_rate=[-1e-7, -0.5]
    )
    assert certify(rigid(step), np.array([1.0]), np.array([1e7, 0.0])).ok
    assert certify(rigid(step), np.array([v]), np.array([v * 1e7, 0.0])).worst > 0.3


@pytest.mark.parametrize("dt", [1e-3, 1e-8])
def test_a_resting_ball_is_not_judged_by_a_fast_one_beside_it(dt: float) -> None:
    """Tied by an open contact only: one hits the floor at 100 m/s, the other rests."""
    step = cdopt.ContactStep(
        np.eye(2), [[1, 0], [0, 1], [-1, 1]], [0, 0, 10.0], [-100.0, 0], [0, -9.81], dt
    )
    hit = 100.0 / dt
    assert certify(rigid(step), REST, np.array([hit, 9.81, 0.0])).ok
    wrong = certify(rigid(step), np.array([0.0, -9.81 * dt]), np.array([hit, 0.0, 0.0]))
    assert wrong["penetration"] == pytest.approx(1.0)


@pytest.mark.parametrize(("ratio", "power"), [(62e3 / 0.8e-3, 2.0), (1e6, 2.5)])
def test_a_light_tile_is_not_judged_by_the_block_it_lies_on(ratio: float, power: float) -> None:
    mass = np.array([ratio, 1.0])
    step = cdopt.ContactStep(np.diag(mass), [[1, 0], [-1, 1]], [0, 0], REST, -9.81 * mass, DT)
    for backend in ("newton", "clarabel", "scs", *(("osqp", "highs") if power == 2.0 else ())):
        solution = cdopt.CompatibleCD(step, power).solve(backend, classic="newton", check=False)
        if backend == "newton" or solution.ok:
            assert solution.ok
            assert solution.f[1] == pytest.approx(9.81, rel=1e-5)


def test_what_round_off_hides_is_not_called_right() -> None:
    """Masses in the ratio 1e12: the tile's force is lost in the round-off of the block's."""
    mass = np.array([1e12, 1.0])
    step = cdopt.ContactStep(np.diag(mass), [[1, 0], [-1, 1]], [0, 0], REST, -9.81 * mass, DT)
    truss = cdopt.CompatibleCD(step).solve("newton", classic="newton", check=False).certificate
    assert truss.resolution > truss.tol
    assert not truss.ok


@pytest.mark.parametrize("noise", [0.0, 2e-18, -2e-18])
def test_contacts_are_closed_within_the_round_off_of_their_position(noise: float) -> None:
    """Δt = 1 µs: 2e-18 m of a gap is 2e-7 of what gravity closes, and round-off of x = 5 cm."""
    step = beam(phi=[0.0, noise, 0.0], dt=1e-6, points=[[0.0, 0.0], [0.025, 0.0], [0.05, 0.0]])
    solution = cdopt.CompatibleCD(step).solve("newton")
    assert solution.ok
    np.testing.assert_allclose(solution.f, 10 / 3, rtol=1e-6)


@pytest.mark.parametrize("f", [0.0, 10.08, 23.95, 28.8])
def test_a_slow_body_is_not_judged_by_the_fast_one_it_rests_on(f: float) -> None:
    """A is stopped by a ledge at 100 m/s; B rests on A, and weighs 9.81 N."""
    step = cdopt.ContactStep(
        np.eye(2), [[-1, 0], [-1, 1]], [0, 0], [100, 0], [0, -9.81], 1e-6, dof_body=[0, 1]
    )
    data = rigid(step)
    assert certify(data, REST, np.array([1e8 + 9.81, 9.81])).ok
    ledge = 1e8 + f  # A is at rest, B is not
    wrong = certify(data, np.array([0.0, 1e-6 * (f - 9.81)]), np.array([ledge, f]))
    assert wrong.worst > 1e-2
    both = certify(data, np.full(2, 1e-6 * (f - 9.81)), np.array([1e8 + 2 * f - 9.81, f]))
    assert both.worst > 1e-2  # B does not leave A, which moves 1e-8 of what it lost
    friction = cdopt.Friction(0.3, np.zeros((2, 2)))
    coulomb = cdopt.FrictionalCD(step.replace(friction=friction)).data
    assert certify(coulomb, np.zeros(2), np.array([1e8 + 9.81, 0, 9.81, 0])).ok
    assert (
        certify(coulomb, np.array([0, 1e-6 * (f - 9.81)]), np.array([ledge, 0, f, 0])).worst > 1e-2
    )


@pytest.mark.parametrize("mu", [1e-3, 1.0, 1e3, 1e6])
@pytest.mark.parametrize("vx", [0.0, 1.0])
def test_no_friction_coefficient_lets_a_block_fall_through_the_floor(mu: float, vx: float) -> None:
    step = cdopt.ContactStep(
        np.eye(2), [[0, 1.0]], [0.0], [vx, 0.0], [0.0, -9.81], 1e-3,
        friction=cdopt.Friction(mu, [[1.0, 0.0]]), dof_body=[0, 0],
    )  # fmt: skip
    data, held = cdopt.FrictionalCD(step).data, min(vx / 1e-3, mu * 9.81)
    assert certify(data, np.array([vx - 1e-3 * held, 0]), np.array([9.81, -held])).ok
    for share in (0.0, 0.9, 0.999):  # of the weight that the floor bears
        f = np.array([9.81 * share, -min(vx / 1e-3, mu * 9.81 * share)])
        motion = step.v_star + 1e-3 * f[::-1]
        assert certify(data, motion, f).worst > 1e-4 * (1.0 - share)


def test_a_common_velocity_changes_no_residual() -> None:
    step = random_step(3)
    rng = np.random.default_rng(3)
    v, f, push = rng.standard_normal(step.nv), rng.standard_normal(step.nc), 7.0
    step = step.replace(gap_rate=0.1 * rng.standard_normal(step.nc))
    moving = step.replace(v=step.v + push, gap_rate=step.gap_rate - push * step.B.sum(axis=1))
    one, two = certify(rigid(step), v, f), certify(rigid(moving), v + push, f)
    for residual in one:
        assert two[residual.name] == pytest.approx(residual.value, rel=1e-9)


def test_vanishing_loads_and_no_contacts_have_a_floor() -> None:
    still = beam(F_ext=np.zeros(2))
    assert certify(rigid(still), REST, np.zeros(3)).ok
    assert not certify(rigid(still), REST, np.array([1.0, 0.0, 0.0])).ok
    none = beam(B=np.zeros((0, 2)), phi=[])
    falling = np.array([-9.81 * DT, 0.0])
    assert certify(rigid(none), falling, np.zeros(0)).ok
    assert not certify(rigid(none), REST, np.zeros(0)).ok


def test_a_body_that_leaves_an_overlap_is_judged_by_the_gap_that_it_opens() -> None:
    """At 1 m/s, of which the overlap leaves 1 mm/s; no load, no force."""
    dt, left = 0.01, 1e-3
    step = cdopt.ContactStep([[1.0]], [[1.0]], [(left - 1.0) * dt], [1.0], [0.0], dt)
    assert certify(rigid(step), np.ones(1), np.zeros(1)).ok
    assert certify(rigid(step), np.ones(1) - 1e-7 * left, np.zeros(1)).ok
    assert not certify(rigid(step), np.ones(1) - 1e-4 * left, np.zeros(1)).ok


def test_no_part_hides_behind_a_larger_one() -> None:
    """A grain of 1e-9 kg next to a block of 1e3 kg: an error of the grain's weight is seen."""
    mass = np.array([1e3, 1e-9])
    step = cdopt.ContactStep(
        np.diag(mass), np.eye(2), [0, 0], [0, 0], -9.81 * mass, DT, contact_ids=["block", "grain"]
    )
    exact = 9.81 * mass
    assert certify(rigid_data(step), REST, exact).ok
    wrong = certify(rigid_data(step), REST, exact * [1.0, 0.5])
    assert wrong["momentum"] == pytest.approx(0.5)
    load = cdopt.NoTensionTruss(np.eye(2), exact).data
    assert certify(load, -exact, exact).ok
    assert certify(load, -exact, exact * [1.0, 0.5])["equilibrium"] == pytest.approx(0.5)


def beam_truss(power: float = 2.0, stiffness=1.0):
    return cdopt.NoTensionTruss(
        [[1.0, -0.5], [1.0, 0.0], [1.0, 0.5]], [WEIGHT, 0.0], stiffness, power
    ).data


@pytest.mark.parametrize("power", [1.3, 2.0, 2.5, 4.0])
def test_the_exact_truss_answer_has_no_residual(power: float) -> None:
    f = np.full(3, WEIGHT / 3)
    u = np.array([-((WEIGHT / 3) ** (1.0 / (power - 1.0))), 0.0])
    assert certify(beam_truss(power), u, f).worst < 1e-13


@pytest.mark.parametrize(
    ("u", "f", "caught_by"),
    [
        ([-10 / 3, 0.0], [5.0, 0.0, 5.0], "law"),
        ([-10 / 3, 0.0], [4.0, 4.0, 4.0], "equilibrium"),
        ([-10 / 3, 0.0], [-1.0, 12.0, -1.0], "tension"),
        ([-3.0, 0.0], [10 / 3] * 3, "law"),
        ([-3.0, 0.0], [10 / 3] * 3, "duality gap"),
    ],
)
def test_each_violation_of_a_truss_is_caught(u: list, f: list, caught_by: str) -> None:
    certificate = certify(beam_truss(), np.array(u), np.array(f))
    assert not certificate.ok
    assert certificate[caught_by] > 1e-3


@pytest.mark.parametrize("count", [1_500, pytest.param(100_000, marks=pytest.mark.slow)])
def test_no_wrong_answer_is_certified_and_no_exact_one_refused(count: int) -> None:
    table = wrong_answers.run(count, seed=17)
    assert table["wrong"] > 0.3 * count
    assert {name: table[name] for name in wrong_answers.FORBIDDEN} == {
        "false ok": 0,
        "exact refused": 0,
    }


@pytest.mark.parametrize("count", [500, pytest.param(20_000, marks=pytest.mark.slow)])
def test_with_friction_no_wrong_answer_is_certified_in_any_units(count: int) -> None:
    table = frictional_answers.run(count, seed=3)
    assert table["wrong"] > 0.3 * count
    assert {name: table[name] for name in frictional_answers.FORBIDDEN} == dict.fromkeys(
        frictional_answers.FORBIDDEN, 0
    )


@pytest.mark.parametrize("share", [0.0, 0.9, 55.0])
def test_a_prescribed_displacement_does_not_set_the_scale_of_what_yields(share: float) -> None:
    """Two springs, stiffness 1 and 1e-8, one end pushed by a metre; a chain of 1,000 of p = 4."""
    for k, power in ((np.array([1.0, 1e-8]), 2.0), (np.ones(1000), 4.0)):
        n, each = k.size, k ** (-1.0 / (power - 1.0))
        B = sp.diags_array([-np.ones(n), np.ones(n)], offsets=[0, 1], shape=(n, n + 1))
        free = np.arange(n + 1) % n > 0
        u = np.append(0.0, -np.cumsum(each) / each.sum())
        given = {"free_dofs": free, "prescribed_u": np.where(free, 0.0, u)}
        truss = cdopt.NoTensionTruss(B, np.zeros(n + 1), k, power, **given)
        force = np.full(n, each.sum() ** (1.0 - power))
        assert certify(truss.data, u, force).ok
        assert certify(truss.data, u, share * force).worst > 1e-2
        assert certify(truss.data, truss.data.free_motion, share * force).worst > 1e-2


def test_an_idle_body_next_to_an_impact_has_no_force_of_round_off() -> None:
    """A ball hits a wall; the one that it touches on the other side feels nothing."""
    step = cdopt.ContactStep(
        np.eye(4), 0.707 * np.array([[1, -1, 0, 0], [1, -1, -1, 1]]), [0, 0],
        [-0.5, 1.3, 0, 0], np.zeros(4), 1e-3, dof_body=[0, 0, 1, 1],
    )  # fmt: skip
    solution = cdopt.CompatibleCD(step).solve()
    assert solution.ok
    assert solution.f == pytest.approx([0.9 / 0.707 * 1e3, 0.0], abs=1e-6)
    data = cdopt.CompatibleCD(step)
    wrong = data.truss(data.network(solution.classic)).data
    f = solution.f[data.network(solution.classic).contacts] + [0.0, 1.0]
    assert not certify(wrong, np.zeros(4), f).ok


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("tied", [False, True])
def test_the_motion_is_off_by_no_more_than_the_duality_gap_allows(seed: int, tied: bool) -> None:
    """Feasible motions and forces near the answer, and motions that are not feasible."""
    rng = np.random.default_rng(seed)
    B, M = rng.uniform(0.1, 1.0, (4, 3)), np.diag(rng.uniform(0.1, 10.0, 3))
    if tied:  # nearly singular: entries of M⁻¹ are far above those of 1/M
        side = rng.standard_normal((3, 2))
        M = side @ side.T + 1e-2 * np.eye(3)
    step = cdopt.ContactStep(M, B, np.zeros(4), np.zeros(3), -rng.uniform(size=3), 1.0)
    for problem in (cdopt.ClassicCD(step), cdopt.CompliantCD(step, kappa=1e3)):
        answer = problem.solve("newton")
        for size in (1.0, 1e-3, 1e-6):
            motion = answer.v_next + size * rng.uniform(0.1, 1.0, 3)  # opens every contact
            f = np.abs(answer.f + size * rng.standard_normal(4))
            bound = certify(problem.data, motion, f).motion_error
            assert np.abs(motion - answer.v_next).max() <= bound
            assert bound <= 100.0 * np.sqrt(size) * (30.0 if tied else 1.0)
    closing = certify(cdopt.ClassicCD(step).data, answer.v_next - 1.0, f)
    assert closing.motion_error is None
    assert "not feasible" in closing.no_motion_error


def test_problems_without_a_bound_of_the_motion_say_why() -> None:
    truss = cdopt.NoTensionTruss([[1.0]], [1.0])
    assert "inertia" in certify(truss.data, np.array([-1.0]), np.array([1.0])).no_motion_error
    block = cdopt.ContactStep(
        np.eye(2), [[0, 1.0]], [0.0], [0, 0], [0, -9.81], 1e-3,
        friction=cdopt.Friction(0.5, [[1.0, 0.0]]),
    )  # fmt: skip
    rest, weight = np.zeros(2), np.array([9.81, 0.0])
    assert "Coulomb" in certify(cdopt.FrictionalCD(block).data, rest, weight).no_motion_error
    bound = certify(cdopt.FrictionalCD(block, law="associated").data, rest, weight).motion_error
    assert bound is not None
    assert bound < 1e-8
