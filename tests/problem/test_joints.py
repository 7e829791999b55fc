"""Joints as data, and the steps in coordinates that keep them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp
from jointed import bars, four_bars, random_step
from scipy.optimize import linprog

import cdopt
from cdopt.problem import rigid_data
from cdopt.problem.joint_elimination import eliminated
from cdopt.problem.step_problems import with_lines

FORMS = ("force", "velocity")


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        ({"J": [[0.0, 0.0]]}, "J: found nothing but zeros in row 0"),
        ({"J": [[1.0, np.nan]]}, "J: found nan"),
        ({"J": [[1.0], [1.0, 2.0]]}, "J: found a list of rows of different lengths"),
        ({"J": "pin"}, "J: found"),
        ({"J": [[1.0, 2.0]], "rate": [0.0, 1.0]}, "rate: found an array of shape (2,)"),
        ({"J": [[1.0, 2.0]], "rate": np.inf}, "rate: found inf in row 0"),
        ({"J": [[1.0, 2.0]], "stiffness": -1.0}, "stiffness: found -1.0 in row 0"),
        ({"J": [[1.0, 2.0]], "stiffness": np.nan}, "stiffness: found nan in row 0"),
        ({"J": np.eye(2), "names": ["a", "a"]}, "names: found the same name twice"),
        ({"J": np.eye(2), "names": ["a"]}, "names: found an array of shape (1,)"),
    ],
)
def test_malformed_joints_are_refused_by_name(arguments: dict[str, object], named: str) -> None:
    with pytest.raises(cdopt.InvalidInput) as caught:
        cdopt.Joints(**arguments)
    assert named in str(caught.value)


def test_a_step_refuses_joints_of_other_degrees_of_freedom() -> None:
    step = bars()
    with pytest.raises(cdopt.InvalidInput, match=r"J: found shape \(1, 2\).*nv columns"):
        step.replace(joints=cdopt.Joints([[1.0, 2.0]]))
    with pytest.raises(cdopt.InvalidInput, match="joints: found a list; expected a Joints"):
        step.replace(joints=[[1.0] * 6])
    with pytest.raises(cdopt.InvalidInput, match="joints"):
        cdopt.DelassusStep(np.eye(1), [0.0], joints=step.joints)


def test_files_copies_and_subsets_keep_joints(tmp_path: Path) -> None:
    J = bars().joints.J
    step = bars().replace(joints=cdopt.Joints(J, [0.1, 0.0], [np.inf, 3.0], ["pin x", "pin y"]))
    step.save(tmp_path / "step.npz")
    for other in (
        cdopt.ContactStep.load(tmp_path / "step.npz"),
        step.select([1, 2]),
        step.without_friction(),
        step.replace(dt=0.5),
    ):
        joints = other.joints
        assert abs(joints.J - step.joints.J).max() == 0.0
        for name in ("rate", "stiffness", "names"):
            assert np.array_equal(getattr(joints, name), getattr(step.joints, name))
    assert step.without_joints().joints is None
    assert bars().without_joints().without_joints().nc == 4


def test_coordinates_are_degrees_of_freedom_that_keep_the_joints() -> None:
    """J (offset + Z y) = −rate whatever y, idle reactions load nothing, lift inverts Jᵀ."""
    rng = np.random.default_rng(3)
    for redundant in (0, 2):
        step = random_step(rng, redundant=redundant)
        joints, kept = step.joints, eliminated(step)
        motions = kept.motions
        y = rng.standard_normal(motions.free.size)
        v = motions.motion(y)
        assert np.abs(joints.J @ v + joints.rate).max() < 1e-12
        assert np.allclose(kept.coordinates(v), y, atol=1e-13)
        assert motions.rank == joints.count - redundant
        assert motions.idle.shape[1] == redundant
        assert np.abs((joints.J.T @ motions.idle).toarray()).max(initial=0.0) < 1e-12
        r = rng.standard_normal(joints.count)
        load = joints.J.T @ r
        assert np.allclose(joints.J.T @ motions.reactions(load), load, atol=1e-12)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("backend", ["newton", pytest.param("clarabel", marks=pytest.mark.slow)])
def test_rigid_steps_meet_their_conditions_on_all_bodies(form: str, backend: str) -> None:
    """Balance of every body with reactions, joints held, and f as without elimination."""
    rng = np.random.default_rng(5)
    for redundant in (0, 1):
        step = random_step(rng, redundant=redundant)
        solution = cdopt.ClassicCD(step, form=form).solve(backend)
        assert solution.ok
        joints, v_next = step.joints, solution.v_next
        assert np.abs(joints.J @ v_next + joints.rate).max() < 1e-12
        missed = step.M @ (v_next - step.v_star) / step.dt
        missed -= step.B.T @ solution.f + joints.J.T @ solution.joint_forces
        assert np.abs(missed).max() < 1e-6 * np.abs(step.F_ext).max()
        gap = step.B @ v_next + step.bias
        assert min(gap.min(), solution.f.min()) > -1e-6
        assert np.abs(gap * solution.f).max() < 1e-5


def test_a_joint_is_not_two_contacts_that_push_against_each_other() -> None:
    """v⁺ is the same, the self-stress is not: each such pair adds a state."""
    step = bars()
    J = step.joints.J
    pair = cdopt.ContactStep(
        step.M, sp.vstack([step.B, J, -J]), np.zeros(8), step.v, step.F_ext, step.dt
    )
    jointed, split = cdopt.ClassicCD(step).solve(), cdopt.ClassicCD(pair).solve()
    assert np.allclose(jointed.v_next, split.v_next, atol=1e-12)
    assert np.allclose(jointed.f, split.f[:4], atol=1e-6)
    assert cdopt.indeterminacy(step).nullity == 1
    report = cdopt.indeterminacy(pair)
    assert report.nullity == 3
    assert np.isinf(report.upper[4:]).any()


def test_proofs_of_infeasibility_hold_the_multipliers_of_joints() -> None:
    """A rod that grows between two walls; and rows that contradict each other."""
    step = cdopt.ContactStep(
        np.eye(2), [[1, 0], [0, -1]], [0, 0], [0, 0], [0, 0], 0.1,
        joints=cdopt.Joints([[-1, 1]], rate=-1.0),
    )  # fmt: skip
    with pytest.raises(cdopt.SolveFailed) as caught:
        cdopt.ClassicCD(step).solve("clarabel")
    g = caught.value.proof.vector
    assert g.size == 3
    assert g[:2].min() >= 0.0
    rows, right = sp.vstack([step.B, step.joints.J]), np.append(step.bias, step.joints.rate)
    assert np.abs(rows.T @ g).max() < 1e-12
    assert right @ g == pytest.approx(caught.value.proof.value)
    assert right @ g < 0.0
    contradicting = step.replace(joints=cdopt.Joints([[-1, 1], [1, -1]], rate=[1.0, 1.0]))
    with pytest.raises(cdopt.SolveFailed, match="joints infeasible") as caught:
        cdopt.ClassicCD(contradicting)
    r = caught.value.proof.vector
    assert np.abs(contradicting.joints.J.T @ r).max() < 1e-12
    assert contradicting.joints.rate @ r < 0.0


def test_joints_may_hold_every_degree_of_freedom() -> None:
    step = bars().replace(joints=cdopt.Joints(np.eye(6)))
    solution = cdopt.CompatibleCD(step).solve()
    assert solution.ok
    assert not solution.v_next.any()
    assert np.allclose(solution.joint_forces, -step.F_ext)


def test_restitution_rebounds_by_the_approach_of_the_step() -> None:
    """Two balls on a rod, one hits the floor: v_n⁺ = −e v_n⁻ there, the rod keeps its length."""
    step = cdopt.ContactStep(
        np.eye(2), [[1.0, 0.0]], [0.0], v=[-2.0, -2.0], F_ext=[0.0, 0.0], dt=1e-2,
        restitution=0.5, joints=cdopt.Joints([[1.0, -1.0]]),
    )  # fmt: skip
    solution = cdopt.ClassicCD(step).solve()
    assert np.allclose(solution.v_next, [1.0, 1.0], atol=1e-12)
    assert np.allclose(solution.joint_forces, [-300.0])  # ball 2 by its 1 kg · 3 m/s / 10 ms


def test_a_motor_drives_at_its_rate() -> None:
    step = four_bars(rate=0.3)
    solution = cdopt.ClassicCD(step).solve()
    assert solution.ok
    assert np.allclose(step.joints.J @ solution.v_next, -step.joints.rate, atol=1e-12)


def test_bounds_are_those_of_a_linear_program_on_all_bodies() -> None:
    """Bounds of contacts and of reactions against HiGHS on [f, r] with [B; J]ᵀ."""
    step = bars()
    report = cdopt.indeterminacy(step)
    assert (report.rank, report.nullity) == (5, 1)
    rows = sp.vstack([step.B, step.joints.J]).toarray()
    load = step.M @ (report.solution.v_next - step.v_star) / step.dt
    ends = []
    for k in range(6):
        cost = np.eye(6)[k]
        sides = [(0, None)] * 4 + [(None, None)] * 2
        ends.append([
            sense * linprog(sense * cost, A_eq=rows.T, b_eq=load, bounds=sides).fun
            for sense in (1.0, -1.0)
        ])  # fmt: skip
    ends = np.array(ends)
    assert np.allclose(report.lower, ends[:4, 0], atol=1e-7)
    assert np.allclose(report.upper, ends[:4, 1], atol=1e-7)
    assert np.allclose(report.joints.lower, ends[4:, 0], atol=1e-7)
    assert np.allclose(report.joints.upper, ends[4:, 1], atol=1e-7)
    states = report.self_stress.toarray()
    assert states.shape == (1, 6)
    assert np.abs(states @ rows).max() < 1e-12


def test_of_redundant_hinges_the_total_is_determined_and_no_part_is() -> None:
    J = bars().joints.J.toarray()
    step = bars().replace(joints=cdopt.Joints(np.vstack([J, J[1]])))
    total = np.array([[0.0] * 4 + [0.0, 1.0, 1.0]])
    quantities = {"both": total, "bar": cdopt.wrench(step, 0)}
    report = cdopt.indeterminacy(step, quantities=quantities)
    single = cdopt.indeterminacy(bars())
    assert (report.rank, report.nullity) == (5, 2)
    assert np.isinf(report.joints.upper[1:]).all()
    assert np.isinf(report.joints.lower[1:]).all()
    both = report.quantity("both")
    assert np.allclose(both.lower, single.joints.lower[1], atol=1e-7)
    assert np.allclose(both.upper, single.joints.upper[1], atol=1e-7)
    assert report.quantity("bar").unique.all()  # its weight is known
    assert np.allclose(report.quantity("bar").lower, [0.0, 10.0, 0.0], atol=1e-9)
    states = report.self_stress.toarray()
    rows = np.vstack([step.B.toarray(), step.joints.J.toarray()])
    assert states.shape == (2, 7)
    assert np.linalg.matrix_rank(states) == 2
    assert np.abs(states @ rows).max() < 1e-12
    three = step.select([0, 1, 3])  # now contacts are determined, and the total with them
    report = cdopt.indeterminacy(three, quantities={"both": total[:, 1:]})
    assert report.unique.all()
    assert report.quantity("both").unique.all()
    assert np.isinf(report.joints.upper[1:]).all()


def test_a_wrench_counts_the_joints_it_is_asked_for() -> None:
    step = bars()
    whole, contacts = cdopt.wrench(step, 0), cdopt.wrench(step, 0, joints=[])
    assert whole.shape == contacts.shape == (3, 6)
    assert not contacts[:, 4:].nnz
    assert np.array_equal(whole[:, 4:].toarray(), step.joints.J[:, :3].T.toarray())
    assert np.array_equal(cdopt.wrench(step, 0, of=[0]).toarray()[:, 1:], np.zeros((3, 5)))
    with pytest.raises(cdopt.InvalidInput, match="about: found a point, with joints"):
        cdopt.wrench(step, 0, about=(0.0, 0.0))


def test_four_bars_on_three_feet() -> None:
    """By hand: with the thrust of the upper bars both outer feet bear 20/1.25 = 16 N, the corner 8.

    The linkage has one mechanism more than a rigid body, so that three feet are determined; with
    its angle held, they are not.
    """
    step = four_bars()
    assert eliminated(step).motions.free.size == 12 - 8  # three motions of the plane, a mechanism
    report = cdopt.indeterminacy(step)
    assert (report.rank, report.nullity) == (11, 0)
    assert np.allclose(report.force, [8.0, 16.0, 16.0], atol=1e-9)
    assert report.joints.unique.all()
    held = cdopt.indeterminacy(four_bars(rate=0.0))
    assert (held.rank, held.nullity) == (11, 1)
    assert not held.unique.any()
    assert not held.joints.unique[8]
    assert np.allclose([held.lower[0], held.upper[0]], [0.0, 40.0], atol=1e-6)
    assert np.allclose([held.lower[1], held.upper[1]], [0.0, 20.0], atol=1e-6)


@pytest.mark.parametrize("law", ["coulomb", "associated"])
@pytest.mark.parametrize("form", FORMS)
def test_friction_acts_beside_joints(law: str, form: str) -> None:
    step = bars(rough=True)
    step = step.replace(F_ext=step.F_ext + np.array([14.0, 0, 0, 0, 0, 0]))  # it slides
    solution = cdopt.FrictionalCD(step, law, form).solve()
    assert solution.ok
    joints = step.joints
    assert np.abs(joints.J @ solution.v_next).max() < 1e-12
    pushed = step.B.T @ solution.f + step.friction.B_t.T @ solution.f_t.ravel()
    missed = step.M @ (solution.v_next - step.v_star) / step.dt
    missed -= pushed + joints.J.T @ solution.joint_forces
    assert np.abs(missed).max() < 1e-8
    if law == "coulomb":  # both bars slide together, μ W against the push, over both masses
        assert np.allclose(solution.v_next[[0, 3]], (14.0 - 0.5 * 20.0) / 2.0 * step.dt)


def test_limit_load_with_joints_is_that_of_the_linkage() -> None:
    """A bar pinned to a mass that friction holds: λ = μ W of both."""
    step = bars(rough=True)
    limit = cdopt.limit_load(step, [1.0, 0, 0, 0, 0, 0])
    assert limit.ok
    assert limit.value == pytest.approx(0.5 * 20.0, rel=1e-8)
    assert np.abs(step.joints.J @ limit.mechanism).max() < 1e-12
    missed = step.F_ext + limit.value * limit.live + step.joints.J.T @ limit.joint_forces
    missed += step.B.T @ limit.f + step.friction.B_t.T @ limit.f_t.ravel()
    assert np.abs(missed).max() < 1e-7


# --- against the same rows as lines ------------------------------------------------------------


def test_certificates_are_those_of_all_bodies_and_rows() -> None:
    """A reaction that is off shows in the momentum of the certificate's problem."""
    step = random_step(np.random.default_rng(7))
    cd = cdopt.ClassicCD(step)
    solution = cd.solve()
    data = with_lines(rigid_data(step.without_joints()), step.joints.J, step.joints.rate)
    forces = np.append(solution.f, solution.joint_forces)
    certificate = cdopt.certify(data, solution.v_next, forces)
    assert certificate.ok
    assert certificate.worst == solution.certificate.worst
    forces[-1] += 0.01 * np.abs(forces).max()
    assert not cdopt.certify(data, solution.v_next, forces).ok
    moved = solution.v_next + 1e-3 * data.B[[-1]].toarray()[0]
    assert not cdopt.certify(data, moved, np.append(solution.f, solution.joint_forces)).ok


# --- where contacts are elastic ----------------------------------------------------------------


@pytest.mark.parametrize("stiffness", [np.inf, [np.inf, 3.0], [2.0, 5.0]])
def test_compatible_reactions_are_the_limit_of_stiff_networks(stiffness: object) -> None:
    """Of springs κ times as stiff: with slope −1 in κ."""
    joints = cdopt.Joints(bars().joints.J, stiffness=stiffness)
    step = bars().replace(joints=joints, F_ext=bars().F_ext + np.array([0, -3, 1, 0, 2, 0]))
    compatible, kappas, errors = cdopt.CompatibleCD(step).solve(), [1e9, 1e10, 1e11], []
    assert compatible.ok
    for kappa in kappas:
        elastic = cdopt.CompliantCD(step, kappa=kappa).solve()
        assert elastic.ok
        both = np.append(elastic.f, elastic.joint_forces)
        errors.append(np.abs(both - np.append(compatible.f, compatible.joint_forces)).max())
    slope = np.polyfit(np.log(kappas), np.log(errors), 1)[0]
    assert slope == pytest.approx(-1.0, abs=0.02)
    balanced = step.B.T @ compatible.f + joints.J.T @ compatible.joint_forces + step.F_ext
    assert np.abs(balanced).max() < 1e-9


@pytest.mark.parametrize("power", [2.0, 2.5])
def test_rigid_joints_are_the_limit_of_stiff_ones(power: float) -> None:
    """Relative stiffness k → ∞ at joints alone: slope −1/(p − 1), by both forms."""
    step, k = bars().replace(F_ext=bars().F_ext + np.array([0, -3, 1, 0, 2, 0])), [1e2, 1e3, 1e4]
    rigid, errors = cdopt.CompatibleCD(step, power).solve(), []
    for stiffness in k:
        joints = cdopt.Joints(step.joints.J, stiffness=stiffness)
        solution = cdopt.CompatibleCD(step.replace(joints=joints), power).solve()
        assert solution.ok
        errors.append(np.abs(solution.joint_forces - rigid.joint_forces).max())
    slope = np.polyfit(np.log(k), np.log(errors), 1)[0]
    assert slope == pytest.approx(-1.0 / (power - 1.0), abs=0.02)
    dual = cdopt.CompatibleCD(step.replace(joints=joints), power, form="complementary")
    again = dual.solve("clarabel")
    assert np.allclose(again.joint_forces, solution.joint_forces, atol=1e-3)


def test_variational_steps_hold_joints_and_balance_all_impulses() -> None:
    step = bars().replace(stiffness=1e4, dt=1e-2, F_ext=[0.3, -10, 0, 0, -12, 0.1])
    mom, C = np.array([0, -1, 0, 0, -1, 0.1]), np.diag([0.1, 0.2, 0.1] * 2)
    J = step.joints.J
    for form in FORMS:
        integrator = cdopt.VariationalStep(step, mom, damping_matrix=C, form=form)
        solution = integrator.solve()
        assert solution.ok
        assert np.abs(J @ solution.u).max() < 1e-15
        reaction = J.T @ solution.joint_forces
        assert np.abs(integrator.residual(solution.u) + 0.5 * step.dt * reaction).max() < 1e-9
        pushed = step.B.T @ solution.f + step.F_ext + reaction
        assert np.allclose(solution.mom, mom + step.dt * pushed - C @ solution.u, atol=1e-12)


def test_comparisons_and_own_constraints_keep_joints() -> None:
    """Solvers agree on the motion of all bodies, and constraints may be written on it."""
    step = bars()
    table = cdopt.compare(step, ["newton", "clarabel"])
    assert table.ok
    assert table.motion_spread < 1e-6
    cd = cdopt.ClassicCD(step, form="velocity")
    driven = cd.with_constraints(cd.velocity[0] >= 0.01).solve("clarabel").v_next
    assert np.allclose(driven[[0, 3]], 0.01, atol=1e-6)  # the pin takes the other bar along


def tilted(rough: bool = False, stiffness: object = np.inf, **changes: object) -> cdopt.ContactStep:
    """The bars under uneven loads, on uneven supports."""
    step, push = bars(rough), np.array([0.8, -3.0, 0.3, 0.4, 2.0, 0.5])
    push = push if rough else push * [0, 1, 1, 0, 1, 1]
    given = {"F_ext": step.F_ext + push, "stiffness": np.array([1.0, 2.0, 3.0, 1.5]), **changes}
    return step.replace(joints=cdopt.Joints(step.joints.J, stiffness=stiffness), **given)


def slope_of(stiffness: list[float], errors: list[float]) -> float:
    """The exponent by which errors change with the stiffness."""
    return float(np.polyfit(np.log(stiffness), np.log(errors), 1)[0])


STIFF = [1e2, 1e3, 1e4]


@pytest.mark.parametrize("flow", ["coulomb", "associated"])
def test_springs_of_joints_in_networks_with_friction(flow: str) -> None:
    """They follow r = −k J u, balance the bodies, and tend to rigid joints with slope −1."""
    rigid, errors = cdopt.CompatibleFriction(tilted(True), flow=flow).solve(), []
    for k in STIFF:
        step = tilted(True, [k, 2.0 * k])
        forces = cdopt.CompatibleFriction(step, flow=flow).solve()
        assert forces.ok
        pulled = step.joints.stiffness * (step.joints.J @ forces.u)
        assert np.abs(forces.joint_forces + pulled).max() < 1e-9
        load = step.B.T @ forces.f + step.friction.B_t.T @ forces.f_t.ravel()
        balance = load + step.joints.J.T @ forces.joint_forces + step.F_ext
        assert np.abs(balance).max() < 1e-9
        errors.append(np.abs(forces.joint_forces - rigid.joint_forces).max())
    assert slope_of(STIFF, errors) == pytest.approx(-1.0, abs=0.02)
    soft = cdopt.CompatibleFriction(tilted(True, [2.0, np.inf]), flow="associated")
    dual = soft.network().solve("clarabel")
    assert np.allclose(dual.rows, soft.solve().rows, atol=1e-5)


def test_ten_increments_of_a_network_with_springs_are_one() -> None:
    step, history = tilted(True, [2.0, 5.0]), None
    for share in np.linspace(0.1, 1.0, 10):
        part = cdopt.CompatibleFriction(step.replace(F_ext=share * step.F_ext), history=history)
        history = part.solve()
    whole = cdopt.CompatibleFriction(step).solve()
    assert np.allclose(history.rows, whole.rows, atol=1e-9)
    assert np.allclose(history.joint_forces, whole.joint_forces, atol=1e-9)


@pytest.mark.parametrize("rough", [False, True])
@pytest.mark.parametrize("form", FORMS)
def test_soft_laws_take_joints_rigid_or_as_springs(rough: bool, form: str) -> None:
    """With R = 1/(k Δt) in the row of a spring; slope −1 to rigid joints; by hand the balance."""
    step, errors = tilted(rough), []
    rigid = cdopt.SoftCD(step, 1e-6, form=form).solve()
    for k in (1e11, 1e12, 1e13):
        sprung = cdopt.SoftCD(tilted(rough, [k, 2.0 * k]), 1e-6, form=form).solve()
        assert sprung.ok
        rate = step.joints.J @ sprung.v_next
        expected = -sprung.joint_forces / (np.array([1.0, 2.0]) * k * step.dt)
        assert np.allclose(rate, expected, rtol=1e-2, atol=1e-17)
        load = step.B.T @ sprung.f + step.joints.J.T @ sprung.joint_forces + step.F_ext
        load += step.friction.B_t.T @ sprung.f_t.ravel() if rough else 0.0
        assert np.abs(step.M @ sprung.v_next / step.dt - load).max() < 1e-6
        errors.append(np.abs(sprung.joint_forces - rigid.joint_forces).max())
    assert slope_of([1e11, 1e12, 1e13], errors) == pytest.approx(-1.0, abs=0.05)


def test_soft_laws_without_friction_are_compliant_contact_dynamics() -> None:
    step = tilted(stiffness=[2e7, 5e7]).replace(stiffness=1e9)
    soft, elastic = cdopt.SoftCD(step, 1e-9 / step.dt), cdopt.CompliantCD(step)
    first, second = soft.solve(), elastic.solve()
    assert np.allclose(first.f, second.f, atol=1e-9)
    assert np.allclose(first.joint_forces, second.joint_forces, atol=1e-9)
    driven = step.replace(joints=cdopt.Joints(step.joints.J, rate=[0.0, 1e-3]))
    bias = np.array([1e-3, 0.0, -1e-3, 0.0])
    by_gaps = cdopt.SoftCD(driven.replace(gap_rate=bias), 1e-6).solve()
    by_bias = cdopt.SoftCD(driven, 1e-6, bias=bias).solve()
    assert np.allclose(by_gaps.f, by_bias.f, atol=1e-9)  # the bias is that of the given step


@pytest.mark.parametrize("power", [2.0, 2.5])
@pytest.mark.parametrize("form", FORMS)
def test_variational_steps_have_springs_as_joints(power: float, form: str) -> None:
    """r = w′(c) at c = −α (J Δq + h rate), Ψ has that gradient, and stiff springs are rigid."""
    rate, k, errors = np.array([0.0, 0.1]), [1e8, 1e9, 1e10], []
    base = bars().replace(stiffness=1e4, dt=1e-2, F_ext=[0.3, -10, 0, 0, -12, 0.1])
    J, mom = base.joints.J, np.array([0, -1, 0, 0, -1, 0.1])

    def step(stiffness: object) -> cdopt.VariationalStep:
        joints = cdopt.Joints(J, rate, stiffness)
        return cdopt.VariationalStep(base.replace(joints=joints), mom, form=form, power=power)

    rigid = step(np.inf).solve()
    for stiffness in k:
        integrator = step([stiffness, np.inf])
        hit = integrator.solve()
        assert hit.ok
        c = -0.5 * (J @ hit.u + base.dt * rate)[0]
        by_law = stiffness * abs(c) ** (power - 1.0) * np.sign(c)
        assert hit.joint_forces[0] == pytest.approx(by_law, rel=1e-8)
        left = integrator.residual(hit.u) + 0.5 * base.dt * J[[1]].T @ hit.joint_forces[[1]]
        assert np.abs(left).max() < 1e-9
        errors.append(np.abs(hit.joint_forces - rigid.joint_forces).max())
    assert slope_of(k, errors) == pytest.approx(-1.0 / (power - 1.0), abs=0.06)
    u, way, eps = np.full(6, 1e-3), np.arange(1.0, 7.0), 1e-6
    rise = (integrator.potential(u + eps * way) - integrator.potential(u - eps * way)) / (2 * eps)
    assert rise == pytest.approx(-base.dt * integrator.residual(u) @ way, rel=1e-6)
    again = integrator.solve(warm_start=hit)
    assert np.allclose(again.joint_forces, hit.joint_forces, rtol=1e-8)


def test_springs_without_a_force_to_take_are_refused() -> None:
    step = bars().replace(joints=cdopt.Joints(bars().joints.J, stiffness=5.0))
    with pytest.raises(cdopt.Unsupported, match="without force at the start of the step"):
        cdopt.VariationalStep(step, np.zeros(6), alpha=0.0)
    with pytest.raises(cdopt.InvalidInput, match="joints: found row 0 of infinite stiffness"):
        cdopt.FrictionNetwork([[1.0]], [[1.0]], [1.0], 0.5, joints=cdopt.Joints([[1.0]]))


@pytest.mark.parametrize("rough", [False, True])
def test_a_prepared_step_with_joints_is_the_step_itself(rough: bool) -> None:
    rng, step = np.random.default_rng(3), bars(rough)
    kind = cdopt.FrictionalCD if rough else cdopt.ClassicCD
    for form in FORMS:
        prepared = kind(step, form=form).prepare()
        for backend in ("newton", "clarabel"):
            other = {"phi": np.abs(rng.standard_normal(4)) * 1e-3, "v": rng.standard_normal(6)}
            found, plain = prepared.solve(backend, **other), kind(step.replace(**other), form=form)
            expected = plain.solve(backend)
            assert np.allclose(found.v_next, expected.v_next, atol=1e-9)
            assert np.allclose(found.joint_forces, expected.joint_forces, atol=1e-6)


# --- derivatives, ensembles, audit -------------------------------------------------------------


def test_derivatives_with_joints_are_those_of_differences() -> None:
    step, eps = bars(), 1e-6
    change = np.array([0.0, -1.0, 0.3, 0.0, 0.5, -0.1])  # of F̃, what the contacts deliver
    derivatives = cdopt.sensitivity(step)
    sides = [
        cdopt.CompatibleCD(step.replace(F_ext=step.F_ext - t * change)).solve() for t in (eps, -eps)
    ]
    slope = (sides[0].f - sides[1].f) / (2.0 * eps)
    along = derivatives.along(load=change)
    assert np.allclose(along, slope, atol=1e-7)
    assert np.allclose(derivatives.load @ change, slope, atol=1e-7)
    assert np.allclose(derivatives.gradient([1, 0, 0, 0]).load @ change, slope[0], atol=1e-7)
    reactions = (sides[0].joint_forces - sides[1].joint_forces) / (2.0 * eps)
    assert np.allclose(derivatives.reactions(along, change), reactions, atol=1e-7)


@pytest.mark.parametrize("stiffness", [[2.0, 5.0], [3.0, np.inf]])
@pytest.mark.parametrize("law", [None, "coulomb"])
def test_derivatives_with_springs_are_those_of_differences(
    stiffness: list[float], law: str | None
) -> None:
    """By log k of contacts and joints, by load and by power; reactions of rigid joints, too."""
    step, h, rng = tilted(law is not None, stiffness), 1e-5, np.random.default_rng(0)
    soft = np.isfinite(stiffness)
    way, change = rng.standard_normal(4 + soft.sum()), np.array([0.1, -1.0, 0.3, 0.1, 0.5, -0.1])
    change = change if law else change * [0, 1, 1, 0, 1, 1]

    def compatible(t: float, moved: float = 0.0) -> object:
        k = np.array(stiffness)
        k[soft] *= np.exp(t * way[4:])
        joints = cdopt.Joints(step.joints.J, stiffness=k)
        k = step.stiffness * np.exp(t * way[:4])
        other = step.replace(stiffness=k, joints=joints, F_ext=step.F_ext - moved * change)
        return (cdopt.CompatibleFriction if law else cdopt.CompatibleCD)(other).solve()

    def rows(answer: object) -> np.ndarray:
        return np.append(answer.rows if law else answer.f, answer.joint_forces[soft])

    derivatives = cdopt.sensitivity(step, law=law)
    by_stiffness = (rows(compatible(h)) - rows(compatible(-h))) / (2.0 * h)
    assert np.allclose(derivatives.log_stiffness @ way, by_stiffness, atol=1e-7)
    assert np.allclose(derivatives.along(log_stiffness=way), by_stiffness, atol=1e-7)
    assert np.abs(derivatives.log_stiffness.sum(axis=1)).max() < 1e-9
    ends = [compatible(0.0, t) for t in (h, -h)]
    by_load = (rows(ends[0]) - rows(ends[1])) / (2.0 * h)
    along = derivatives.along(load=change)
    assert np.allclose(along, by_load, atol=1e-7)
    reactions = (ends[0].joint_forces - ends[1].joint_forces) / (2.0 * h)
    assert np.allclose(derivatives.reactions(along, change), reactions, atol=1e-7)
    weights = rng.standard_normal(along.size)
    gradient = derivatives.gradient(weights)
    assert gradient.log_stiffness @ way == pytest.approx(weights @ by_stiffness, abs=1e-6)
    assert gradient.load @ change == pytest.approx(weights @ by_load, abs=1e-6)


def test_derivatives_of_a_truss_count_members_that_pull() -> None:
    """A member in tension yields like one in compression, which a no-tension member does not."""
    B, load, h = np.array([[1.0, 0.5], [-0.5, 1.0], [0.3, 1.0]]), np.array([1.0, -2.0]), 1e-6
    both, way = np.ones(3, bool), np.array([0.3, -0.2, 0.5])

    def forces(t: float) -> np.ndarray:
        return cdopt.NoTensionTruss(B, load, np.exp(t * way), two_sided=both).solve().f

    truss = cdopt.NoTensionTruss(B, load, np.ones(3), two_sided=both)
    assert truss.solve().f.min() < 0.0
    slope = (forces(h) - forces(-h)) / (2.0 * h)
    assert np.allclose(cdopt.sensitivity(truss).along(log_stiffness=way), slope, atol=1e-8)


def test_samples_of_the_ensemble_balance_with_their_reactions() -> None:
    step = bars()
    samples = cdopt.ensemble(step, draws=100, chains=2)
    assert samples.dimension == 1
    balanced = samples.forces @ step.B.toarray() + samples.joint_forces @ step.joints.J.toarray()
    assert np.abs(balanced + step.F_ext).max() < 1e-9


def test_audit_blames_no_joint_for_what_it_bears() -> None:
    step = bars()
    report = cdopt.indeterminacy(step)
    other = report.force + 0.5 * report.self_stress.toarray()[0, :4]
    assert cdopt.audit(step, other).verdict == "a choice"
    assert cdopt.same_answer(step, other, report.force)
    assert cdopt.audit(step, other + 0.1 * np.eye(4)[0]).verdict == "error of mechanics"
    assert cdopt.audit(step.without_joints(), other).verdict == "error of mechanics"
    with pytest.raises(cdopt.InvalidInput, match="v_next: found 1 m/s off what the joints allow"):
        cdopt.audit(step, other, v_next=[1, 0, 0, 0, 0, 0])
