"""Bounds of forces and moments of contacts that resist turns, against programs written plainly."""

from __future__ import annotations

from itertools import pairwise

import cvxpy as cp
import numpy as np
import pytest

import cdopt
from cdopt._util.errors import Unsupported
from cdopt.problem import Cones


def plate(d: int, cone: str, push: float = 0.0) -> cdopt.ContactStep:
    """A body of 2 kg on two contacts in the plane, or three in space, that resist turns.

    ``push`` (N) along x.
    """
    if d == 2:
        points = np.array([[-0.5, 0.0], [0.7, 0.0]])
        B = np.array([[0.0, 1.0, x] for x, _ in points])
        B_t = np.array([[1.0, 0.0, 0.3]] * 2)
        B_r, mass = np.array([[0.0, 0.0, 1.0]] * 2), np.diag([2.0, 2.0, 0.4])
        moments = {"rolling": [0.05, 0.02]}
        load = np.array([push, -20.0, 0.1 * push])
    else:
        points = np.array([[-0.5, -0.3], [0.7, 0.0], [0.0, 0.6]])
        B, B_t, B_r = [], [], []
        for x, y in points:
            at = np.array([x, y, -0.3])
            rows = [np.append(e, np.cross(at, e)) for e in (np.eye(3)[2], *np.eye(3)[:2])]
            B.append(rows[0])
            B_t += rows[1:]
            B_r += [np.append(np.zeros(3), e) for e in (np.eye(3)[2], *np.eye(3)[:2])]
        mass = np.diag([2.0] * 3 + [0.4] * 3)
        moments = {"torsion": [0.01, 0.02, 0.0], "rolling": [0.05, 0.02, 0.03]}
        load = np.array([push, 0.0, -20.0, 0.0, 0.0, 0.0])
    friction = cdopt.Friction(0.4, np.array(B_t), B_r=np.array(B_r), cone=cone, **moments)
    nc, nv = len(points), len(load)
    return cdopt.ContactStep(mass, np.array(B), np.zeros(nc), np.zeros(nv), load, 1e-3,
                             friction=friction)  # fmt: skip


def in_cones(cones: Cones, f: cp.Variable) -> list[cp.Constraint]:
    """That forces (rows,) are in the cones, written plainly."""
    constraints, stretch = [], cones.table(cones.stretch)
    for k in range(cones.nc):
        one = f[k * cones.d : (k + 1) * cones.d]
        ends = np.cumsum([1, *cones.widths])
        for a, b in pairwise(ends.tolist()):
            zero = np.flatnonzero(stretch[k, a:b] == 0.0) + a
            used = np.flatnonzero(stretch[k, a:b]) + a
            constraints += [one[zero] == 0.0] if zero.size else []
            if used.size:
                scaled = cp.multiply(one[used], 1.0 / stretch[k, used])
                constraints.append(cp.norm(scaled, 2) <= one[0])
        constraints.append(one[0] >= 0.0)
    return constraints


def plain_bounds(step: cdopt.ContactStep) -> np.ndarray:
    """(rows, 2) least and largest of each row with CVXPY, of contacts that all rest.

    Reactions of joints come last.
    """
    data = cdopt.FrictionalCD(step.without_joints(), "associated").data
    J = np.zeros((0, step.nv)) if step.joints is None else step.joints.J.toarray()
    rows = data.rows
    f = cp.Variable(rows)
    constraints = in_cones(data.cones, f)
    f = cp.hstack([f, cp.Variable(len(J))]) if len(J) else f
    constraints.append(np.vstack([data.B.toarray(), J]).T @ f == -step.F_ext)
    ends = np.zeros((rows + len(J), 2))
    for row in range(len(ends)):
        for side, sense in enumerate((cp.Minimize, cp.Maximize)):
            ends[row, side] = cp.Problem(sense(f[row]), constraints).solve("CLARABEL")
    return ends


@pytest.mark.parametrize("cone", ["product", "elliptic"])
@pytest.mark.parametrize("d", [2, 3])
def test_bounds_of_moments_are_those_of_plain_programs(d: int, cone: str) -> None:
    step = plate(d, cone)
    report = cdopt.indeterminacy(step, law="coulomb")
    assert report.ok
    expected = plain_bounds(step)
    lower, upper = report.intervals
    assert np.allclose(lower.ravel(), expected[:, 0], atol=1e-5)
    assert np.allclose(upper.ravel(), expected[:, 1], atol=1e-5)
    rows = np.count_nonzero(cdopt.FrictionalCD(step).data.cones.stretch)
    assert (report.rank, report.nullity) == (step.nv, rows - step.nv)
    data = cdopt.FrictionalCD(step).data
    states = report.self_stress.toarray()
    assert np.linalg.matrix_rank(states) == report.nullity
    assert np.abs(states @ data.B.toarray()).max() < 1e-9
    total = cdopt.FrictionalCD(step).data.B.toarray().T[-1]  # of all moments about the last axis
    named = cdopt.indeterminacy(step, law="coulomb", quantities={"total": total}, contacts=[])
    assert named.quantity("total").unique


@pytest.mark.parametrize("cone", ["product", pytest.param("elliptic", marks=pytest.mark.slow)])
@pytest.mark.parametrize("d", [2, 3])
def test_bounds_with_a_joint_are_those_of_plain_programs(d: int, cone: str) -> None:
    """A pushed plate is held by a hinge on its last axis and by its contacts: both have a range."""
    J = np.zeros((2, 3 * d - 3))
    J[0, 0], J[1, -1] = 1.0, 1.0
    step = plate(d, cone, push=1.0).replace(joints=cdopt.Joints(J))
    report = cdopt.indeterminacy(step, law="coulomb")
    assert report.ok
    expected, rows = plain_bounds(step), report.lower.size * (1 + report.lower_t.shape[1])
    lower, upper = report.intervals
    assert np.allclose(lower.ravel(), expected[:rows, 0], atol=1e-5)
    assert np.allclose(upper.ravel(), expected[:rows, 1], atol=1e-5)
    assert np.allclose(report.joints.lower, expected[rows:, 0], atol=1e-5)
    assert np.allclose(report.joints.upper, expected[rows:, 1], atol=1e-5)
    assert np.all(report.joints.upper > report.joints.lower + 1e-3)
    there = np.count_nonzero(cdopt.FrictionalCD(step).data.cones.stretch)
    assert (report.rank, report.nullity) == (step.nv, there + 2 - step.nv)
    states = report.self_stress.toarray()
    plain = cdopt.FrictionalCD(step.without_joints()).data.B.toarray()
    assert np.linalg.matrix_rank(states) == report.nullity
    assert np.abs(states @ np.vstack([plain, J])).max() < 1e-9
    one = cdopt.FrictionalCD(step).solve("newton")
    first = cdopt.audit(step, one.f, one.f_t, f_r=one.f_r)
    assert (first.verdict, first.ok) == ("a choice", True)
    off = cdopt.audit(step, 1.1 * one.f, one.f_t, f_r=one.f_r)
    assert off.verdict == "error of mechanics"
    table = np.column_stack([report.force, report.force_t])
    assert cdopt.same_answer(step, table, np.column_stack([one.f, one.f_t, one.f_r]))


def test_what_slides_may_still_rest_in_its_turns() -> None:
    """A pushed plate slides without turning: friction is at its limit, moments are free.

    The sum of normal forces is the weight's, and one moment balances: two equations of four forces.
    """
    step = plate(2, "product", push=30.0)
    report = cdopt.indeterminacy(step, law="coulomb")
    assert report.ok
    lower, upper = report.intervals
    for k in range(step.nc):  # f_t = −μ f_n
        assert lower[k, 1] == pytest.approx(-0.4 * upper[k, 0], abs=1e-5)
    assert (report.rank, report.nullity) == (2, 2)
    assert np.all(upper[:, 2] > lower[:, 2] + 1e-3)


def test_a_wheel_has_no_choice() -> None:
    """One contact of three rows, a body of three dofs: the moment is that of balance."""
    r, mu_r = 0.3, 0.02
    friction = cdopt.Friction(0.8, [[1.0, 0.0, -r]], rolling=mu_r, B_r=[[0.0, 0.0, 1.0]])
    load = [1.0, -98.1, 0.0]
    step = cdopt.ContactStep(np.diag([10.0, 10.0, 0.45]), [[0.0, 1.0, 0.0]], [0.0], np.zeros(3),
                             load, 1e-3, friction=friction)  # fmt: skip
    report = cdopt.indeterminacy(step, law="coulomb")
    assert (report.rank, report.nullity) == (3, 0)
    assert report.force_t[0] == pytest.approx([-1.0, -r], abs=1e-6)


def test_what_has_no_moments_yet_is_refused() -> None:
    step = plate(2, "product")
    report = cdopt.indeterminacy(step, law="coulomb")
    with pytest.raises(Unsupported):
        cdopt.ensemble(report, draws=10)
    with pytest.raises(Unsupported):
        report.mobilised(0)


R, MU, MU_R, WEIGHT = 0.3, 0.8, 0.02, 98.1


def wheel(space: bool, cone: str, pull: float = 0.0) -> cdopt.ContactStep:
    """A wheel or a sphere on a floor, pulled along x."""
    if not space:
        friction = cdopt.Friction(MU, [[1, 0, R]], rolling=MU_R, B_r=[[0, 0, 1]], cone=cone)
        M, B, load = np.diag([10.0, 10.0, 0.45]), [[0.0, 1.0, 0.0]], [pull, -WEIGHT, 0.0]
    else:
        B_t = [[1, 0, 0, 0, -R, 0], [0, 1, 0, R, 0, 0]]
        turns = np.eye(6)[3:5]
        friction = cdopt.Friction(MU, B_t, rolling=MU_R, B_r=turns, cone=cone)
        M, B = np.diag([10.0] * 3 + [0.36] * 3), [[0.0, 0.0, 1.0, 0.0, 0.0, 0.0]]
        load = [pull, 0.0, -WEIGHT, 0.0, 0.0, 0.0]
    nv = len(load)
    return cdopt.ContactStep(M, B, [0.0], np.zeros(nv), load, 1e-3, friction=friction)


@pytest.mark.parametrize("cone", ["product", "elliptic"])
@pytest.mark.parametrize("space", [False, True])
def test_the_pull_that_a_wheel_bears_is_by_hand(space: bool, cone: str) -> None:
    """μ_r N/r, or where sliding and rolling share N: N/√(μ⁻² + (r/μ_r)²)."""
    step = wheel(space, cone)
    limit = cdopt.limit_load(step, np.eye(step.nv)[0])
    share = MU_R / R if cone == "product" else 1.0 / np.hypot(1.0 / MU, R / MU_R)
    assert limit.ok
    assert limit.stands
    assert limit.value == pytest.approx(share * WEIGHT, rel=1e-9)
    assert limit.bound == pytest.approx(share * WEIGHT, rel=1e-9)
    assert np.linalg.norm(limit.f_r) == pytest.approx(limit.value * R, rel=1e-9)
    assert limit.mechanism @ np.eye(step.nv)[0] == pytest.approx(1.0)
    cones = step.friction.cones
    assert cones.dual_distance(limit.rates.ravel()).max() < 1e-9
    assert np.abs(limit.rates).max() > 1.0  # it rolls
    assert "f_r" in limit.as_dict()


@pytest.mark.parametrize("cone", ["product", "elliptic"])
def test_no_load_across_keeps_a_sphere_that_is_pulled_too_hard(cone: str) -> None:
    step = wheel(True, cone, pull=0.2 * WEIGHT)
    with pytest.raises(cdopt.SolveFailed) as error:
        cdopt.limit_load(step, np.eye(6)[1])
    proof, data = error.value.proof, cdopt.FrictionalCD(step, "associated").data
    assert data.cones.dual_distance(data.B @ proof.vector).max() < 1e-6
    assert step.F_ext @ proof.vector > 0.0
    assert abs(proof.vector[1]) < 1e-6


@pytest.mark.parametrize("cone", ["product", "elliptic"])
@pytest.mark.parametrize("d", [2, 3])
def test_limit_loads_with_a_joint_are_those_of_plain_programs(d: int, cone: str) -> None:
    """A plate is held against turning by a hinge, and by its contacts against a pull along x."""
    J = np.zeros((1, 3 * d - 3))
    J[0, -1] = 1.0
    step = plate(d, cone).replace(joints=cdopt.Joints(J))
    live = np.eye(step.nv)[0]
    limit = cdopt.limit_load(step, live)
    data = cdopt.FrictionalCD(step.without_joints(), "associated").data
    f, r, load = cp.Variable(data.rows), cp.Variable(1), cp.Variable()
    balance = data.B.toarray().T @ f + J.T @ r + step.F_ext + load * live == 0
    plain = cp.Problem(cp.Maximize(load), [balance, *in_cones(data.cones, f)]).solve("CLARABEL")
    assert limit.ok
    assert limit.value == pytest.approx(plain, rel=1e-6)
    forces = np.column_stack([limit.f, limit.f_t, limit.f_r]).ravel()
    missed = data.B.T @ forces + J.T @ limit.joint_forces + step.F_ext + limit.value * live
    assert np.abs(missed).max() < 1e-6
    assert data.cones.distance(forces).max() < 1e-9


@pytest.mark.parametrize("cone", ["product", "elliptic"])
@pytest.mark.parametrize("d", [2, 3])
def test_audits_judge_moments(d: int, cone: str) -> None:
    """Another admissible answer is a choice; moments beyond limits or off balance are not."""
    step = plate(d, cone)
    solution = cdopt.FrictionalCD(step).solve("newton")
    data = cdopt.FrictionalCD(step).data
    first = cdopt.audit(step, solution.f, solution.f_t, f_r=solution.f_r)
    assert (first.verdict, first.ok) == ("a choice", True)
    report = cdopt.indeterminacy(step, law="coulomb")
    rows = np.column_stack([report.force, report.force_t]).ravel()
    table = rows.reshape(step.nc, -1)
    off = table.copy()
    off[0, -1] += 0.5
    assert cdopt.audit(step, off[:, 0], off[:, 1:d], f_r=off[:, d:]).verdict == "error of mechanics"
    beyond = table.copy()
    beyond[0, -1] += 3.0
    beyond[1, -1] -= 3.0  # balances the first
    verdict = cdopt.audit(step, beyond[:, 0], beyond[:, 1:d], f_r=beyond[:, d:])
    assert verdict.verdict == "not admissible"
    assert {0, 1} <= set(verdict.outside.tolist())
    assert verdict.nearest is not None
    assert data.cones.distance(verdict.nearest.ravel()).max() < 1e-6
    missed = data.B.toarray().T @ (verdict.nearest.ravel() - rows)
    assert np.abs(missed).max() < 1e-5
    other = verdict.nearest  # another admissible answer
    assert np.abs(other - table).max() > 1e-3
    assert cdopt.audit(step, other[:, 0], other[:, 1:d], f_r=other[:, d:]).verdict == "a choice"
    assert cdopt.same_answer(step, other, table)
    assert not cdopt.same_answer(step, beyond, table)
