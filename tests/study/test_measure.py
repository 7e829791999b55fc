"""What a run measures, against the same done by hand in this process."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import cdopt
from cdopt import bank
from cdopt._util.processes import peak_memory
from cdopt.backends import PGS
from cdopt.study import ProblemSource, StudyRun, problems
from cdopt.study.measure import measure
from cdopt.study.record import STAGES, Findings


@pytest.fixture(autouse=True)
def one_warm_up(monkeypatch) -> None:
    monkeypatch.setattr("cdopt.study.measure._WARM_UPS", ("beam-uniform",))


def measured(problem: str | ProblemSource, formulation: str, backend: str, **settings) -> Findings:
    """The last findings of a run in this process, whose stages come in their order."""
    source = problem if isinstance(problem, ProblemSource) else problems(problem)[0]
    run = StudyRun(source, formulation, backend, **{"repeats": 1, **settings})
    messages = list(measure(run))
    stages = [message for message in messages if isinstance(message, str)]
    order = [STAGES.index(name) for name in stages]
    assert order == sorted(order)
    last = messages[-1]
    if last.times:
        assert stages.count("solve") == run.repeats == len(last.times)
    return last


def first_is(contact: int, contacts: int) -> int:
    """A seed whose order begins with this contact."""
    orders = ((s, np.random.default_rng(s).permutation(contacts)) for s in range(100))
    return next(seed for seed, order in orders if order[0] == contact)


# --- forces ----------------------------------------------------------------------------


def test_forces_are_placed_by_hand() -> None:
    result = measured("beam-stiff-middle", "classic-force", "pgs")  # compatible: 2, 6, 2
    f = cdopt.ClassicCD(bank.load("beam-stiff-middle").step).solve("pgs").f
    assert result.outcome == "solved"
    assert result.forces.largest == pytest.approx(f.max())
    assert result.forces.distance == pytest.approx(np.linalg.norm(f - [2, 6, 2]) / np.sqrt(44.0))
    assert result.forces.distance_max == pytest.approx(np.abs(f - [2, 6, 2]).max() / 6.0)
    assert result.forces.ratio == pytest.approx(f.max() / 6.0)
    assert result.forces.undetermined == 3  # bounds: 0 to 5, 0 to 10, 0 to 5
    np.testing.assert_allclose(result.forces.positions, f / [5.0, 10.0, 5.0], atol=1e-6)
    assert result.forces.outside == pytest.approx(0.0, abs=1e-6)
    assert result.forces.reference_worst < 1e-6


def test_a_truss_leaves_open_contacts_out() -> None:
    result = measured("beam-middle-open", "truss-complementary", "clarabel", tolerance=1e-7)
    assert result.outcome == "solved"  # 5, 0, 5
    assert result.forces.distance < 1e-5
    assert result.forces.ratio == pytest.approx(1.0, abs=1e-5)
    assert (result.forces.undetermined, result.forces.positions) == (0, ())


def test_a_truss_of_the_bank() -> None:
    result = measured("fan", "truss-potential", "newton")
    assert (result.outcome, result.forces.undetermined) == ("solved", None)
    assert result.forces.distance == pytest.approx(0.0, abs=1e-9)


@pytest.mark.slow
def test_the_reference_is_that_of_the_named_backend() -> None:
    result = measured("beam-stiff-middle", "compatible", "newton", reference_backend="clarabel")
    assert 0.0 < result.forces.distance < 1e-4  # from clarabel's forces, not from its own
    assert result.forces.reference_worst > 0.0
    missing = measured("beam-stiff-middle", "compatible", "newton", reference_backend="pgs")
    assert missing.outcome == "solved"  # pgs solves no compatible step: nothing to compare with
    assert missing.forces.distance is None


# --- times and tolerances --------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize(
    ("formulation", "backend"),
    [("compatible", "clarabel"), ("classic-force", "osqp"), ("classic-force", "scs")],
)
def test_the_parts_of_a_solve_are_all_of_it(formulation: str, backend: str) -> None:
    (times,) = measured("beam-uniform", formulation, backend).times
    parts = times.pose, times.compile, times.solve, times.read, times.certify
    assert sum(parts) == pytest.approx(times.total, rel=1e-9)
    assert min(parts) > 0.0
    if formulation == "classic-force":  # SCS reports milliseconds
        assert 0.0 < times.setup < times.solve


@pytest.mark.slow
def test_the_tolerance_asked_is_that_of_the_certificate() -> None:
    loose, tight = (
        measured("pyramid-hooke:n=3", "classic-force", "apgd", tolerance=tolerance)
        for tolerance in (1e-3, 1e-9)
    )
    assert (loose.answer.tol, tight.answer.tol) == (1e-3, 1e-9)
    assert loose.answer.settings["accuracy"] == 1e-3
    assert tight.answer.worst < 1e-9 < loose.answer.worst
    assert loose.answer.iterations < tight.answer.iterations
    assert loose.times[0].setup is None
    assert 0.0 < loose.memory_before <= loose.memory <= peak_memory()


# --- orders and starts -----------------------------------------------------------------


def test_orders_of_contacts_are_put_back_and_compared() -> None:
    seed = first_is(1, 3)
    order = np.random.default_rng(seed).permutation(3)
    step = bank.load("beam-uniform").step
    in_order = cdopt.ClassicCD(step).solve(PGS()).f
    f = np.zeros(3)
    f[order] = cdopt.ClassicCD(step.select(order)).solve(PGS()).f
    assert f[1] == pytest.approx(10.0)  # the middle first: it takes all
    result = measured("beam-uniform", "classic-force", "pgs", seed=seed)
    assert result.outcome == "solved"
    assert result.forces.positions == pytest.approx([0.0, 1.0, 0.0], abs=1e-6)
    assert result.stability.order == pytest.approx(np.abs(f - in_order).max() / in_order.max())
    assert result.stability.order > 0.4


@pytest.mark.parametrize(
    "formulation", ["compatible", pytest.param("truss-potential", marks=pytest.mark.slow)]
)
def test_unique_forces_are_those_of_any_order(formulation: str) -> None:
    seed = first_is(1, 3)
    result = measured("beam-stiff-middle", formulation, "newton", seed=seed, repeats=2)
    assert result.stability.order < 1e-9
    assert result.stability.identical
    assert result.forces.distance < 1e-9


@pytest.mark.slow
@pytest.mark.parametrize(
    ("formulation", "backend", "named"),
    [("classic-force", "apgd", True), ("truss-potential", "newton", False)],
)
def test_a_warm_start_finds_its_contacts_in_another_order(
    tmp_path, monkeypatch, formulation: str, backend: str, named: bool
) -> None:
    monkeypatch.setattr("cdopt.study.measure.BOUNDS_UP_TO", 8)
    step = bank.load("pyramid-hooke:n=3").step
    step.replace(contact_ids=np.arange(step.nc) if named else None).save(tmp_path / "step.npz")
    (problem,) = problems(tmp_path / "step.npz")
    result = measured(problem, formulation, backend, mode="warm", seed=3, tolerance=1e-9)
    assert result.outcome == "solved"
    assert result.answer.iterations <= 0.35 * result.stability.cold_iterations
    assert result.stability.cold_total > 0.0
    assert result.stability.start < 1e-6
    assert result.forces.distance is not None
    assert result.forces.undetermined is result.forces.positions is None  # too large for bounds


@pytest.mark.parametrize(
    ("problem", "formulation", "backend", "settings"),
    [
        ("beam-uniform", "classic-force", "highs", {"mode": "warm"}),
        ("beam-uniform", "classic-force", "pgs", {"call": "direct"}),
        ("beam-uniform", "classic-force", "newton", {"mode": "previous"}),
        ("beam-uniform", "classic-force", "osqp", {"call": "direct", "mode": "warm"}),
        ("fan", "classic-force", "newton", {}),
        ("pyramid-hertz:n=2", "truss-potential", "osqp", {}),
        ("beam-uniform", "compatible", "pgs", {}),
        ("supports-delassus", "classic-velocity", "clarabel", {}),
    ],
)
def test_what_cannot_be_done_is_refused(
    problem: str, formulation: str, backend: str, settings
) -> None:
    result = measured(problem, formulation, backend, **settings)
    assert result.outcome == "refused"
    assert result.answer is None
    assert result.message


# --- problems without an answer --------------------------------------------------------


@pytest.mark.parametrize(
    ("problem", "formulation", "backend"),
    [("squeezed", "classic-force", "osqp"), ("unreachable-load", "truss-potential", "newton")],
)
def test_a_problem_without_an_answer_is_proven_so(
    problem: str, formulation: str, backend: str
) -> None:
    result = measured(problem, formulation, backend)
    assert result.outcome == "infeasible"
    assert not result.answer.claimed
    assert "infeasible" in result.message


def test_no_contacts_are_a_problem_too() -> None:
    result = measured("zero-contacts", "classic-force", "newton")
    assert result.outcome == "solved"
    assert result.forces.largest == 0.0
    assert result.forces.distance is None


# --- sources of problems ---------------------------------------------------------------


@pytest.mark.slow
def test_steps_of_a_run_are_problems_with_the_answers_of_the_run(tmp_path: Path) -> None:
    path = tmp_path / "drop.vtkhdf"
    trajectory = cdopt.simulate(
        cdopt.scene.pyramid(2), 1e-3, 4e-3, method="classic-cd", backend="newton", out=path
    )
    steps = problems(path)
    assert [p.step for p in steps] == [1, 2, 3, 4]
    assert steps[2] == problems(f"{path}#3")[0] == steps[3].previous_step()
    assert steps[2].label == "drop.vtkhdf#3"
    for problem in (steps[1], steps[3]):
        step, frame = problem.load().step, trajectory[problem.step]
        np.testing.assert_array_equal(step.contact_ids, frame.contact_ids)
        v = trajectory.scene.dofs.gather(frame.v)
        np.testing.assert_allclose(cdopt.ClassicCD(step).solve("newton").v_next, v, atol=1e-9)
    result = measured(steps[3], "classic-force", "apgd", mode="previous")
    assert result.outcome == "solved"
    assert result.stability.cold_iterations > 0
    refused = measured(steps[0], "classic-force", "apgd", mode="previous")
    assert refused.outcome == "refused"
    assert "first step" in refused.message
