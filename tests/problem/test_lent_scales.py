"""What the campaign of lent scales finds in few problems: no exact answer is refused."""

from __future__ import annotations

import numpy as np
import pytest
from campaigns import lent_scales, rolling_answers

import cdopt
from cdopt.problem import correction
from cdopt.problem.certificate import worst_residual


def test_exact_answers_of_hard_families_are_certified_and_wrong_ones_are_not() -> None:
    """``python -m tests.campaigns lent_scales --count 2000`` is the long run."""
    table = lent_scales.run(45, seed=5)
    by_N = "known_by_N", "platforms_by_N", "friction_by_N"
    stiff = "fast_beside_slow", "heavy_on_light", *by_N, "near_duplicates"
    for family in (*stiff, "unconnected", "thin_wedges"):
        assert table[f"{family}: exact refused"] == 0
        assert table[f"{family}: not ok"] > 0  # answers of which most are wrong
    for family in (*stiff[:5], "unconnected", "large_mu", "idle_bodies"):
        assert table[f"{family}: false ok"] == 0
    assert table["other residual in a moving frame"] == 0
    assert table["false infeasible"] == 0
    assert table.get("large_mu: no answer", 0) == 0
    doubled = "near_duplicates_with_friction"
    assert table[f"{doubled}: false ok"] == table[f"{doubled}: wrong unique"] == 0
    moments = rolling_answers.run(1000, seed=5)
    assert moments["false ok"] == moments["exact refused"] == 0
    assert moments["wrong"] > 200


def test_a_heavy_body_in_a_long_column_of_light_ones_known_by_n_alone() -> None:
    """Gaps that are small for the light ones move it by a fifth of its load: these are not ok."""
    n, dt = 150, 2.0**-10
    mass = np.full(n, 2.0**-10)
    mass[n // 2] = 64.0
    B = np.eye(n) - np.eye(n, k=-1)
    B[0, 0] = -1.0  # a ledge stops the lowest, which runs into it
    f = np.append(2.0**18, np.cumsum(10.0 * mass[:0:-1])[::-1])
    N, root = dt * (B / mass) @ B.T, np.linalg.inv(B.T)
    data = cdopt.ClassicCD(cdopt.ContactStep.from_delassus(N, -N @ f, dt)).data
    assert cdopt.certify(data, None, f).ok
    wrong = 0
    for at in (n // 2, n // 2 + 1):
        for gap in 10.0 ** np.arange(-9, 0, 0.5):
            moved = np.linalg.solve(B, gap * np.eye(n)[at])
            off = float(np.max(np.abs(moved) / (10.0 * dt)))
            wrong += off > 1e-3
            ok = cdopt.certify(data, None, f + root @ (mass * moved) / dt).ok
            assert not ok or off <= 1e-3
    assert wrong > 10


def test_a_fast_body_gives_its_speed_to_no_other_where_n_alone_is_known() -> None:
    """One body stopped by a ledge at 100 m/s, another at rest on it: 9.81 N between them."""
    dt = 1e-6
    N, p = dt * np.array([[1.0, 1.0], [1.0, 2.0]]), np.array([-100.0, -100.0 - 9.81 * dt])
    data = cdopt.ClassicCD(cdopt.ContactStep.from_delassus(N, p, dt)).data
    assert cdopt.certify(data, None, [1e8 - 9.81, 9.81]).ok
    for wrong in (0.0, 10.08, 23.95, 28.8):
        assert not cdopt.certify(data, None, [1e8 - wrong, wrong]).ok
    still = cdopt.ClassicCD(cdopt.ContactStep.from_delassus(N, [-100.0, -100.0], dt)).data
    assert cdopt.certify(still, None, [1e8, 0.0]).ok  # nothing acts on the other:
    assert cdopt.certify(still, None, [1e8 - 0.1, 0.1]).ok  # noise there does not count
    twice = cdopt.ContactStep.from_delassus(N[[0, 1, 1]][:, [0, 1, 1]], p[[0, 1, 1]], dt)
    data = cdopt.ClassicCD(twice).data
    assert cdopt.certify(data, None, [1e8 - 9.81, 4.0, 5.81]).ok
    assert not cdopt.certify(data, None, [1e8 - 9.0, 4.0, 5.0]).ok


def by_n(mass, B, v, load, dt):
    """A step given as N and p."""
    B, mass = np.array(B), np.array(mass)
    p = B @ (np.array(v) + dt * np.array(load) / mass)
    return cdopt.ClassicCD(cdopt.ContactStep.from_delassus(dt * (B / mass) @ B.T, p, dt)).data


def test_a_platform_turned_by_a_contact_that_only_touches_known_by_n_alone() -> None:
    """A heavy one rests on a light one; 2.5 N where 0 N is right turn it by 1e-3 of its load.

    All five contacts move the light one, and only the last two the heavy one.
    """
    B = [[-1, -1, 0, 0], [-1, 0.5, 0, 0], [-1, 0, 0, 0], [-1, 0, 1, 0], [-1, 0.5, 1, -0.5]]
    mass, v = [0.0625, 0.015625, 256.0, 64.0], [256.0, 32.0, 0.0, 0.0]
    data = by_n(mass, B, v, [0.0, 0.0, -2560.0, 0.0], 2.0**-10)
    assert cdopt.certify(data, None, [14848 / 3, 26624 / 3, 0.0, 2560.0, 0.0]).ok
    wrong = [3328.5170354317493, 5630.55489287019, 4863.208941094396, 2559.239206859387]
    assert not cdopt.certify(data, None, [*wrong, 2.4790382794115358]).ok


def test_doubled_contacts_are_held_to_the_accuracy_of_single_ones_known_by_n_alone() -> None:
    """Two pairs in a column of four are both 6.5e-4 too weak, which is more than 5e-4."""
    B = np.zeros((6, 4))
    B[[0, 1, 1, 2, 2, 3, 3, 4, 4, 5, 5], [0, 0, 1, 1, 2, 1, 2, 2, 3, 2, 3]] = (
        -1, -1, 1, -1, 1, -1, 1, -1, 1, -1, 1,
    )  # fmt: skip
    mass, load = [2.0**-11, 8.0, 2.0**-9, 4096.0], [0.0, -80.0, -(2.0**-9) * 10, -40960.0]
    data = by_n(mass, B, [512.0, 0.0, 0.0, 0.0], load, 2.0**-13)
    right = np.array([0.0, 2048.004639147347, *[1022.0062146375] * 2, *[1022.00572730722] * 2])
    assert cdopt.certify(data, None, right).ok
    wrong = [0.0, 2048.004476951372, *[1021.34329089] * 2, *[1021.34272286] * 2]
    assert not cdopt.certify(data, None, wrong).ok


@pytest.mark.parametrize("law", [None, "coulomb", "associated"])
def test_the_gap_of_a_heavy_body_on_a_light_one_is_judged_by_the_heavy_one(law) -> None:
    """The light one is held by a ledge, so that a gap moves the heavy one alone."""
    light, heavy, dt, g = 2.0**-12, 2.0, 2.0**-19, 10.0
    B = np.array([[-1.0, 0.0], [-1.0, 1.0]])
    v, load = np.array([4.0, 0.0]), np.array([0.0, -g * heavy])
    friction = None if law is None else cdopt.Friction(0.5, np.zeros((2, 2)))
    step = cdopt.ContactStep(
        np.diag([light, heavy]), B, [0, 0], v, load, dt, dof_body=[0, 1], friction=friction
    )
    data = (cdopt.ClassicCD(step) if law is None else cdopt.FrictionalCD(step, law)).data

    def certificate(weight):
        f = np.zeros(data.rows)
        f[:: data.d] = 4.0 * light / dt - weight, weight
        least = worst_residual(data, f, doubt=0.0)  # without ``motion``, which follows
        given = cdopt.certify(data, data.velocity(f), f)
        assert least == max(r.value for r in given if r.name != "motion")
        return given

    right = certificate(g * heavy)
    assert right.ok
    assert "motion" not in {r.name for r in right}
    wrong = certificate(g * heavy * (1.0 + 2e-3))
    assert max(r.value for r in wrong if r.name != "motion") < 1e-6
    np.testing.assert_allclose(wrong["motion"], 2e-6, rtol=1e-2)  # a thousandth of the error
    assert not wrong.ok


def test_a_solver_examines_no_part_after_one_that_misses_its_accuracy(monkeypatch) -> None:
    """Two heavy bodies on light ones, both 1e-3 too light: the certificate examines both."""
    dt, g, parts = 2.0**-24, 10.0, []
    settled = correction._settled
    monkeypatch.setattr(correction, "_settled", lambda *a: parts.append(1) or settled(*a))
    N, p, f = np.zeros((4, 4)), np.zeros(4), np.zeros(4)
    for k, ratio in enumerate((2.0**20, 2.0**9)):
        here = slice(2 * k, 2 * k + 2)
        N[here, here] = dt * np.array([[1.0, 1.0], [1.0, 1.0 + 1.0 / ratio]])
        p[here] = -4.0, -4.0 - g * dt
        f[here] = 4.0 / dt - g * ratio * 0.999, g * ratio * 0.999
    data = cdopt.ClassicCD(cdopt.ContactStep.from_delassus(N, p, dt)).data
    np.testing.assert_allclose(worst_residual(data, f, doubt=1e-6), 2e-6, rtol=1e-2)
    assert len(parts) == 1
    assert worst_residual(data, f, doubt=1e-5) < 1e-5
    assert len(parts) == 3
    certificate = cdopt.certify(data, None, f)
    assert len(parts) == 3  # kept from the call before
    assert not certificate.ok
    np.testing.assert_allclose(certificate["motion"], 2e-6, rtol=1e-2)


@pytest.mark.parametrize("bodies", [20, 120])
def test_a_heavy_body_in_a_tall_column_is_judged_as_one_in_a_low_one(bodies: int) -> None:
    """Light ones on it move with it: forces that lift it by 2e-3 of its load are refused."""
    heavy, dt, g, error = 2.0, 2.0**-19, 10.0, 2e-3
    B = np.eye(bodies) - np.eye(bodies, k=-1)
    B[0, 0] = -1.0
    mass = np.append([2.0**-12, heavy], np.full(bodies - 2, 2.0**-19))
    v, load = np.zeros(bodies), -g * mass
    v[0], load[0] = 4.0, 0.0
    f = np.linalg.solve(B.T, -(mass * v / dt + load))
    step = cdopt.ContactStep(
        np.diag(mass), B, np.zeros(bodies), v, load, dt, dof_body=np.arange(bodies)
    )
    data = cdopt.ClassicCD(step).data
    assert cdopt.certify(data, data.velocity(f), f).ok
    lifted = f * (1.0 + error)
    lifted[0] = f[0] - error * f[1]
    certificate = cdopt.certify(data, data.velocity(lifted), lifted)
    assert max(r.value for r in certificate if r.name != "motion") < 1e-6
    np.testing.assert_allclose(certificate["motion"], error / 1e3, rtol=1e-2)


@pytest.mark.parametrize("law", [None, "coulomb", "associated"])
@pytest.mark.parametrize("ratio", [2.0**4, 2.0**9, 2.0**20])
def test_the_load_of_a_heavy_body_counts_where_n_alone_is_known(law, ratio) -> None:
    """A light body stopped by a ledge at 4 m/s, a heavy one at rest on it."""
    dt, g = 2.0**-24, 10.0
    N = dt * np.array([[1.0, 1.0], [1.0, 1.0 + 1.0 / ratio]])
    p = np.array([-4.0, -4.0 - g * dt])
    step = cdopt.ContactStep.from_delassus(N, p, dt)
    if law is not None:
        N, p = np.kron(N, np.eye(2)), np.kron(p, [1.0, 0.0])
        step = cdopt.ContactStep.from_delassus(N, p, dt, friction=cdopt.Friction([0.5, 0.5]))
    data = (cdopt.ClassicCD(step) if law is None else cdopt.FrictionalCD(step, law)).data

    def certificate(weight):
        f = np.zeros(data.rows)
        f[:: data.d] = 4.0 / dt - weight, weight
        return cdopt.certify(data, None, f)

    assert certificate(g * ratio).ok
    assert certificate(g * ratio * (1.0 + 1e-5)).ok
    for wrong in (0.99, 0.999, 1.001, 1.01):
        assert not certificate(g * ratio * wrong).ok
    np.testing.assert_allclose(certificate(g * ratio * 0.999)["motion"], 2e-6, rtol=1e-2)


def test_friction_that_is_missing_on_a_slow_body_is_seen_where_n_alone_is_known() -> None:
    """256 kg stopped by a ledge at 256 m/s hold 0.5 kg, whose friction of 0.3 N is left out."""
    dt, mass = 2.0**-19, np.repeat([256.0, 0.5], 2)
    B = np.array([[-1.0, 0, 0, 0], [0, 1.0, 0, 0], [-1.0, 0, 1.0, 0], [0, -1.0, 0, 1.0]])
    moves = np.array([256.0, 64.0, -10.0 * dt, -0.625 * dt])
    friction = cdopt.Friction([0.75, 0.75])
    step = cdopt.ContactStep.from_delassus(dt * (B / mass) @ B.T, B @ moves, dt, friction=friction)
    data, f = cdopt.FrictionalCD(step).data, np.linalg.solve(B.T, -mass * moves / dt)
    np.testing.assert_allclose(f[2:], [5.0, 0.3125])
    assert cdopt.certify(data, None, f).ok
    assert not cdopt.certify(data, None, [f[0] - 2e3, f[1] + 2.6e3, 5.0 - 1.5e-6, 4.7e-7]).ok


@pytest.mark.parametrize("law", ["coulomb", "associated"])
def test_whether_a_contact_sticks_is_not_read_from_rates_within_the_errors(law) -> None:
    """One body stopped by a ledge holds another: errors of its speed exceed the other's load."""
    dt, B = 2.0**-19, np.kron([[1.0, 0.0], [-1.0, 1.0]], np.eye(2))
    B[0, 0] = -1.0

    def certificate(mass, moves, change):
        f = np.linalg.solve(B.T, -np.repeat(mass, 2) * moves / dt)
        N, friction = dt * (B / np.repeat(mass, 2)) @ B.T, cdopt.Friction([0.75, 0.75])
        step = cdopt.ContactStep.from_delassus(N, B @ moves, dt, friction=friction)
        return f, cdopt.certify(cdopt.FrictionalCD(step, law).data, None, f + change)

    moves = np.array([512.0, -64.0, -10.0 * dt, -0.625 * dt])
    f, right = certificate([2.0, 1.0], moves, [92.7, 21.2, -2.4e-6, 3.3e-7])
    np.testing.assert_allclose(f[2:], [10.0, 0.625], rtol=1e-6)
    assert right.ok
    moves = np.array([128.0, 16.0, -10.0 * dt, 1.25 * dt])
    for off, ok in ((0.0, True), (1e-3, True), (0.1, False), (1.86, False)):
        f, judged = certificate([0.5, 2.0], moves, [32.4, 0.9, 4.5e-6, off])
        assert judged.ok == ok
    np.testing.assert_allclose(f[2:], [20.0, -2.5], rtol=1e-6)


@pytest.mark.parametrize("law", [None, "coulomb", "associated"])
@pytest.mark.parametrize("ratio", [2.0**10, 2.0**15, 2.0**20])
def test_a_light_body_between_heavy_ones_counts_where_n_alone_is_known(law, ratio) -> None:
    """At rest on a body that a ledge stops at 256 m/s, with ``ratio`` times its mass on it."""
    dt, g, mass = 2.0**-18, 10.0, np.array([0.5, 1.0, ratio])
    B = np.eye(3) - np.eye(3, k=-1)
    B[0, 0] = -1.0
    moves = np.array([256.0, -g * dt, -g * dt])
    f = np.linalg.solve(B.T, -mass * moves / dt)
    N, p = dt * (B / mass) @ B.T, B @ moves
    friction = None if law is None else cdopt.Friction([0.5] * 3)
    if law is not None:
        N, p = np.kron(N, np.eye(2)), np.kron(p, [1.0, 0.0])
    step = cdopt.ContactStep.from_delassus(N, p, dt, friction=friction)
    data = (cdopt.ClassicCD(step) if law is None else cdopt.FrictionalCD(step, law)).data

    def certificate(share):  # of the load of the light body, that it is off by
        forces = np.zeros(data.rows)
        forces[:: data.d] = f + share * g * mass[1] * np.array([1.0, 1.0, 0.0])
        return cdopt.certify(data, None, forces)

    assert certificate(0.0).ok
    assert certificate(1e-6).ok
    for wrong in (-0.06, -2e-3, 2e-3, 0.06):
        assert not certificate(wrong).ok
    np.testing.assert_allclose(certificate(2e-3)["motion"], 8**0.5 * 2e-6, rtol=1e-2)


def test_levers_of_one_network_set_no_scale_of_another() -> None:
    """A machine in picometres next to one in metres: the load of the latter was left out."""
    truss = cdopt.NoTensionTruss([[1e13, 0.0], [0.0, 1.0]], [1e15, 1.0], [1.0, 1.0])
    solution = truss.solve()
    np.testing.assert_allclose(solution.f, [100.0, 1.0], rtol=1e-9)
    assert not cdopt.certify(truss.data, [-1e-11, 0.0], [100.0, 0.0]).ok


@pytest.mark.parametrize("speed", [0.0, 1e3, 1e5])
def test_a_law_that_round_off_hides_is_not_resolved(speed: float) -> None:
    """Two springs share a load; in a fast frame their overlap is lost, and the share with it."""
    step = cdopt.ContactStep(
        [[1.0]], [[1.0], [1.0]], [0, 0], v=[speed], F_ext=[-10.0], dt=1e-3,
        gap_rate=[-speed, -speed], stiffness=3e7, dof_body=[0],
    )  # fmt: skip
    data = cdopt.CompliantCD(step, power=1.5, kappa=1.0).data
    motion = [speed - (5.0 / 3e7) ** 2 / 1e-3]
    assert cdopt.certify(data, motion, [5.0, 5.0]).ok == (speed == 0.0)
    for wrong in ([5.1, 4.9], [9.0, 1.0], [0.0, 10.0]):
        assert not cdopt.certify(data, motion, wrong).ok


@pytest.mark.parametrize("seed", [2, 7])
def test_gaps_of_sliding_rows_cancel_before_two_close_supports_amplify_them(seed: int) -> None:
    """A platform slides on supports 2^−18 apart under 120 blocks, by the associated law."""
    n, mu, dt = 120, 0.25, 2.0**-10
    B, across = np.zeros((2, 2 + n, 3 + n))
    B[:2, :2], across[:2, 2] = [[1.0, 0.5], [1.0, 0.5 + 2.0**-18]], 1.0
    B[2:, 3:] = np.eye(n) - np.eye(n, k=-1)
    B[2, :2] = [-1.0, -0.5]
    f = 256.0 * np.random.default_rng(seed).integers(1, 9, 2 + n)
    f_t = np.where(np.arange(2 + n) < 2, -mu, 0.0) * f
    after = np.where(np.arange(3 + n) == 1, 0.0, mu)  # what slides at 1 m/s opens at μ
    after[2] = 1.0
    bodies = np.append([0, 0, 0], 1 + np.arange(n))
    step = cdopt.ContactStep(
        np.eye(3 + n), B, np.zeros(2 + n), after - dt * (B.T @ f + across.T @ f_t),
        np.zeros(3 + n), dt, dof_body=bodies, friction=cdopt.Friction(mu, across),
    )  # fmt: skip
    answer = cdopt.FrictionalCD(step, "associated").solve("newton")
    assert np.abs(answer.f[:2] - f[:2]).max() > 200.0  # N, though its certificate is ok
    report = cdopt.indeterminacy(step, law="associated", solution=answer, contacts=[0, 1])
    for bound in (report.lower, report.upper):
        np.testing.assert_allclose(bound[:2], f[:2], atol=1e-5 * f.max())
