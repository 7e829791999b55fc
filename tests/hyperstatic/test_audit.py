"""audit(): errors of mechanics are found, self-balanced changes within the cones are a choice."""

from __future__ import annotations

import numpy as np
import pytest
from campaigns import audited_forces
from campaigns.audited_forces import ROUGH, SMOOTH, injected, judged, prepared, self_balanced
from conftest import MANIFESTS

import cdopt
from cdopt.hyperstatic.audit import CHOICE, ERROR, OUTSIDE


def test_injected_errors_are_found_and_changes_without_load_are_a_choice() -> None:
    found = audited_forces.run(24, 1, (*ROUGH[1:4:2], *SMOOTH[:4:3]))
    assert found["errors found"] == found["choices"] == 24
    assert found["of them moved"] >= 12


@pytest.mark.slow
def test_a_thousand_of_each() -> None:
    """``python -m tests.campaigns audited_forces --count 10000`` is the long run."""
    found = audited_forces.run(1000, 2)
    assert found["errors found"] == found["choices"] == 1000
    assert found["of them moved"] >= 500


@pytest.mark.parametrize("name", ["beam-uniform", "rough-wall:courses=3,bricks=2", "ladder"])
def test_without_a_report_and_with_a_motion(name) -> None:
    step, _law, report, forces, data = prepared(name)
    rng = np.random.default_rng(3)
    wrong = injected(rng, step, data, forces, 1e-4)
    at = report.solution.v_next
    for more in ({}, {"v_next": at}):
        assert judged(step, forces, **more).verdict == CHOICE
        assert judged(step, wrong, **more).verdict == ERROR
        assert judged(step, self_balanced(rng, step, report, forces), **more).verdict == CHOICE


def test_four_findings_on_a_platform_by_hand() -> None:
    """10 N on three supports a metre apart; the middle force m leaves (10 − m)/2 to the others."""
    beam = cdopt.bank.load("beam-uniform").step
    fine = cdopt.audit(beam, [4.0, 2.0, 4.0])
    assert fine.ok
    assert fine.balanced
    assert fine.admissible
    np.testing.assert_allclose(fine.compatible[:, 0], 10.0 / 3.0, rtol=1e-9)
    np.testing.assert_allclose(fine.choice[:, 0], [2.0 / 3.0, -4.0 / 3.0, 2.0 / 3.0], rtol=1e-8)
    short = cdopt.audit(beam, [3.0, 3.0, 3.0])  # a newton is missing, evenly
    assert short.verdict == ERROR
    np.testing.assert_allclose(short.error, [1.0], rtol=1e-8)
    np.testing.assert_allclose(short.nearest[:, 0], 10.0 / 3.0, rtol=1e-8)
    np.testing.assert_allclose(short.distance, 1.0 / 3.0, rtol=1e-8)
    assert not short.certificates["classic"].ok
    pulls = cdopt.audit(beam, [6.0, -2.0, 6.0])  # balanced, but the middle pulls
    assert pulls.verdict == OUTSIDE
    assert pulls.balanced
    np.testing.assert_allclose(pulls.nearest[:, 0], [5.0, 0.0, 5.0], atol=1e-8)
    assert pulls.outside.tolist() == [0, 1, 2]  # the outer ones carry 5 N at most
    np.testing.assert_allclose(pulls.beyond, [1.0, 2.0, 1.0], rtol=1e-6)


def test_rows_that_nearly_depend_on_each_other() -> None:
    """Two feet 6 µm apart: 9 mN moved from one to the other change a load of 2 N by 5e-8 of it."""
    B = np.array([[1.0, 0.0, 1.0], [0.0, 1.0, 0.0], [0.0, 1.0, 6e-6]])
    step = cdopt.ContactStep(np.eye(3), B, np.zeros(3), np.zeros(3), -B.T @ np.ones(3), 1e-3)
    report = cdopt.indeterminacy(step)
    assert report.nullity == 0
    for moved, verdict in ((0.009, CHOICE), (0.9, ERROR)):
        forces = 1.0 + np.array([0.0, -moved, moved])
        for more in ({}, {"report": report}, {"v_next": np.zeros(3)}):
            found = cdopt.audit(step, forces, **more)
            assert found.verdict == verdict, (moved, more)
            assert found.outside.size == 0 or verdict == ERROR


@pytest.mark.parametrize("name", ["rough-pile:n=3", "pyramid-hooke:n=4"])
@pytest.mark.parametrize("tol", [pytest.param(1e-3, marks=pytest.mark.slow), 1e-6])
def test_verdict_and_certificate_have_one_tolerance(name, tol) -> None:
    step, law, report, right, _data = prepared(name)
    rng, seen = np.random.default_rng(8), set[str]()
    for size in np.geomspace(0.1, 3.0, 8):
        noise = size * tol * np.abs(right).max() * rng.standard_normal(right.shape)
        for more in ({}, {"report": report}, {"v_next": report.solution.v_next}):
            found = judged(step, right + noise, law=law, tol=tol, contacts=[], **more)
            seen.add(found.verdict)
            assert found.ok == found.certificates[law or "classic"].ok
    assert seen >= {CHOICE, ERROR}


def test_a_light_body_beside_a_heavy_one() -> None:
    """1e-4 of a gram is found next to a hundred tonnes, by its own load."""
    masses = np.array([1e5, 1e-3])
    step = cdopt.ContactStep(
        M=np.diag(masses), B=np.eye(2), phi=[0, 0], v=[0, 0], F_ext=-9.81 * masses, dt=1e-3,
        dof_body=[0, 1],
    )  # fmt: skip
    forces = 9.81 * masses
    assert cdopt.audit(step, forces).ok
    found = cdopt.audit(step, forces * [1.0, 1.0 + 1e-4])
    assert found.verdict == ERROR
    assert found.wrong_bodies.tolist() == [1]
    np.testing.assert_allclose(found.error_share, [0.0, 1e-4], rtol=1e-6)


def test_friction_beyond_its_cone_is_no_choice() -> None:
    """A box between two walls of μ = 0.5, pressed by 10 N: 6 N of friction hold 6 N of weight."""
    slot = cdopt.ContactStep(
        np.eye(2), [[1, 0], [-1, 0]], [0, 0], [0, 0], [0, -6], 1e-3,
        friction=cdopt.Friction(0.5, [[0, 1], [0, 1]]),
    )  # fmt: skip
    rest, sides = np.zeros(2), np.array([[3.0], [3.0]])
    assert cdopt.audit(slot, [10, 10], sides, rest).verdict == CHOICE
    weak = cdopt.audit(slot, [5, 5], sides, rest)  # 3 N of friction under 5 N
    assert weak.verdict == OUTSIDE
    assert weak.balanced
    np.testing.assert_allclose(weak.nearest, [[6, 3], [6, 3]], atol=1e-8)
    with pytest.raises(cdopt.InvalidInput, match="law"):
        cdopt.audit(slot, [5, 5], sides, law="dry")
    no_motion = cdopt.audit(slot, [10, 10], sides, np.array([0.0, 1.0]))
    assert not no_motion.ok  # it would need 1,000 N upward


def by_products(step: cdopt.ContactStep) -> cdopt.DelassusStep:
    """The step as its N and p alone."""
    if step.friction is None:
        return cdopt.DelassusStep(step.N, step.p_vec, step.dt)
    data = cdopt.FrictionalCD(step).data
    friction = cdopt.Friction(step.friction.mu)
    return cdopt.DelassusStep(data.delassus, data.p, step.dt, friction=friction)


def test_same_answer_of_a_box_that_may_rest_or_fall() -> None:
    """Pressed between two walls it rests, unpressed it falls: two motions, both certified."""
    step = cdopt.ContactStep(
        np.eye(2), [[1, 0], [-1, 0]], [0, 0], [0, 0], [0, -6], 1e-3,
        friction=cdopt.Friction(0.5, [[0, 1], [0, 1]]),
    )  # fmt: skip
    pressed, harder = np.array([[10.0, 3.0]] * 2), np.array([[20.0, 2.0], [20.0, 4.0]])
    for known in (step, by_products(step)):
        assert cdopt.same_answer(known, pressed, harder)
        assert cdopt.same_answer(known, 0.0 * pressed, 0.0 * pressed)
        assert not cdopt.same_answer(known, pressed, 0.0 * pressed)
        assert not cdopt.same_answer(known, pressed, [[4.0, 3.0]] * 2)  # friction beyond its cone


ANSWERS = {
    "pyramid-hooke:n=4": ("newton", "pgs", "apgd", "clarabel", "highs", "piqp"),
    "rough-pile:n=3": ("newton", "apgd", "nsgs", "admm"),
}


@pytest.mark.parametrize(
    "name", [pytest.param("pyramid-hooke:n=4", marks=pytest.mark.slow), "rough-pile:n=3"]
)
def test_same_answer_of_several_solvers(name) -> None:
    step = cdopt.bank.load(name).step
    problem = cdopt.ClassicCD(step) if step.friction is None else cdopt.FrictionalCD(step)
    answers = []
    for solver in ANSWERS[name]:
        solution = problem.solve(solver)
        assert solution.ok, solver
        sides = np.zeros((step.nc, 0)) if solution.f_t is None else solution.f_t
        answers.append(np.column_stack([solution.f, sides]))
    spread = max(np.abs(a - answers[0]).max() for a in answers)
    assert spread > 0.05 * np.abs(answers[0]).max()
    for known in (step, by_products(step)):
        assert all(cdopt.same_answer(known, answers[0], other) for other in answers)
        assert not cdopt.same_answer(known, answers[0], 1.001 * answers[0])


SIX = {
    None: ("newton", "pgs", "apgd", "clarabel", "osqp", "scs"),
    "associated": ("newton", "nsgs", "apgd", "admm", "clarabel", "scs"),
}
MOST = 700  # contacts


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name, m in MANIFESTS.items() if m.kind != "truss"])
def test_same_answer_of_six_solvers_on_the_whole_bank(name: str) -> None:
    """Motions are unique, under the associated law too; every certified answer is the same one."""
    step = cdopt.bank.load(name).step
    if not 0 < step.nc <= MOST:
        pytest.skip("without contacts, or large")
    law = None if step.friction is None else "associated"
    problem = cdopt.ClassicCD(step) if law is None else cdopt.FrictionalCD(step, law)
    answers = []
    for solver in SIX[law]:
        solution = problem.solve(solver, time_limit=20.0, check=False)
        if solution.ok:
            rows = (solution.f, solution.f_t, solution.f_r)
            answers.append(np.column_stack([x for x in rows if x is not None]))
    if not answers:
        with pytest.raises(cdopt.SolveFailed):  # no motion is possible, which is proven
            problem.solve()
        return
    assert len(answers) >= 2
    assert all(cdopt.same_answer(step, answers[0], f, law) for f in answers[1:])
    pushed = answers[0] + 0.01 * np.abs(answers[0]).max()
    if np.abs(problem.data.products @ (pushed - answers[0]).ravel()).max() > 0.0:
        assert not cdopt.same_answer(step, answers[0], pushed, law)


def test_refusals() -> None:
    beam = cdopt.bank.load("beam-uniform").step
    rows = cdopt.DelassusStep(beam.N, beam.p_vec, 1e-3)
    with pytest.raises(cdopt.Unsupported, match="N and p"):
        cdopt.audit(rows, [1, 1, 1])
    with pytest.raises(cdopt.InvalidInput, match="f_t"):
        cdopt.audit(beam, [1, 1, 1], [[0], [0], [0]])
    other = cdopt.indeterminacy(cdopt.bank.load("table").step)
    with pytest.raises(cdopt.InvalidInput, match="report"):
        cdopt.audit(beam, [1, 1, 1], report=other)


def test_as_tables_and_text() -> None:
    found = cdopt.audit(cdopt.bank.load("beam-uniform").step, [6.0, -2.0, 6.0])
    frame = found.to_frame()
    assert frame["outside"].all()
    assert frame.loc["middle", "nearest"] == pytest.approx(0, abs=1e-8)
    assert found.bodies_frame()["error_share"].max() < 1e-9
    assert "not admissible" in str(found)
    assert "<table>" in found._repr_html_()
    plain = found.as_dict()
    assert plain["verdict"] == OUTSIDE
    assert plain["outside"] == ["left", "middle", "right"]


def test_forces_of_elastic_contacts_are_no_choice() -> None:
    B = np.array([[1.0, 1.0, 1.0], [1.0, 1.0, -1.0], [1.0, -1.0, 1.0], [1.0, -1.0, -1.0]])
    step = cdopt.ContactStep(np.eye(3), B, np.zeros(4), np.zeros(3), [-9.81, 0.0, 0.0], 1e-3)
    state = np.array([1.0, -1.0, -1.0, 1.0])
    elastic = cdopt.CompatibleCD(step).solve().f + 1e-12 * state
    assert cdopt.audit(step, elastic).summary.endswith("They are the forces of elastic contacts.")
    assert cdopt.audit(step, elastic + 0.1 * state).summary.endswith(
        "which is self-balanced and no error."
    )


def test_wrong_forces_without_tangential_ones_are_told_apart() -> None:
    """On an incline normal forces alone are wrong, and the text says that there are no others."""
    step = cdopt.bank.load("incline").step
    answer = cdopt.FrictionalCD(step).solve("newton")
    said = "All tangential forces are zero, as without f_t."
    assert said in str(cdopt.audit(step, answer.f))
    assert said not in str(cdopt.audit(step, 1.1 * answer.f, answer.f_t))
    assert said not in str(cdopt.audit(step, answer.f, answer.f_t))
