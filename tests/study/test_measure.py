"""What a run measures, against the same done by hand; in this process, where nothing goes wrong."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import numpy as np
import pytest

import cdopt
from cdopt import InvalidInput, bank
from cdopt.backends import PGS
from cdopt.study import ProblemSource, StudyRun, problems
from cdopt.study.machine import peak_memory
from cdopt.study.measure import difference, measure
from cdopt.study.record import STAGES, Findings

MISBEHAVING = str(Path(__file__).with_name("misbehaving.py")) + ":factory"


def measured(problem: str | ProblemSource, formulation: str, backend: str, **settings) -> Findings:
    """The last findings of a run, made here; its stages come in their order."""
    found: list[Findings] = []
    stages: list[str] = []
    known = problem if isinstance(problem, ProblemSource) else problems(problem)[0]
    run = StudyRun(known, formulation, backend, **settings)
    measure(run, stages.append, found.append)
    order = [STAGES.index(name) for name in stages]
    assert order == sorted(order)
    if found[-1].times:
        assert stages.count("solve") == run.repeats == len(found[-1].times)
    return found[-1]


def first_is(contact: int, contacts: int) -> int:
    """A seed whose order begins with this contact."""
    orders = ((s, np.random.default_rng(s).permutation(contacts)) for s in range(100))
    return next(seed for seed, order in orders if order[0] == contact)


# --- forces ----------------------------------------------------------------------------


def test_forces_are_placed_by_hand() -> None:
    found = measured("beam-stiff-middle", "classic-force", "pgs")  # compatible: 2, 6, 2
    f = cdopt.ClassicCD(bank.load("beam-stiff-middle").step).solve("pgs").f
    assert found.outcome == "solved"
    assert found.forces.largest == pytest.approx(f.max())
    assert found.forces.distance == pytest.approx(np.linalg.norm(f - [2, 6, 2]) / np.sqrt(44.0))
    assert found.forces.distance_max == pytest.approx(np.abs(f - [2, 6, 2]).max() / 6.0)
    assert found.forces.ratio == pytest.approx(f.max() / 6.0)
    assert found.forces.undetermined == 3  # bounds: 0 to 5, 0 to 10, 0 to 5
    np.testing.assert_allclose(found.forces.positions, f / [5.0, 10.0, 5.0], atol=1e-6)
    assert found.forces.outside == pytest.approx(0.0, abs=1e-6)
    assert found.forces.reference_worst < 1e-6


@pytest.mark.parametrize("formulation", ["compatible", "truss-complementary", "truss-potential"])
def test_what_has_one_answer_is_at_no_distance(formulation: str) -> None:
    found = measured("beam-middle-open", formulation, "clarabel", tolerance=1e-7)
    assert found.outcome == "solved"  # the truss leaves the open contact out: 5, 0, 5
    assert found.forces.distance < 1e-5
    assert found.forces.ratio == pytest.approx(1.0, abs=1e-5)
    assert found.forces.undetermined == 0
    assert found.forces.positions == ()


def test_large_problems_are_not_bounded() -> None:
    found = measured("pyramid-hooke:n=5", "classic-force", "newton", repeats=1)
    assert found.forces.distance is not None
    assert found.forces.undetermined is found.forces.positions is None


def test_a_truss_of_the_bank() -> None:
    found = measured("fan", "truss-potential", "newton")
    assert (found.outcome, found.forces.undetermined) == ("solved", None)
    assert found.forces.distance == pytest.approx(0.0, abs=1e-9)


# --- times and tolerances --------------------------------------------------------------


@pytest.mark.parametrize("formulation", ["classic-velocity", "compatible"])
def test_the_parts_of_a_solve_are_all_of_it(formulation: str) -> None:
    found = measured("beam-uniform", formulation, "clarabel", repeats=2)
    for times in found.times:
        parts = times.pose + times.compile + times.solve + times.read + times.certify
        assert parts == pytest.approx(times.total, rel=1e-9)
        assert min(times.pose, times.compile, times.solve, times.certify) > 0.0


def test_the_set_up_is_known_where_the_solver_tells_it() -> None:
    (osqp,) = measured("beam-uniform", "classic-force", "osqp", repeats=1).times
    (newton,) = measured("beam-uniform", "classic-force", "newton", repeats=1).times
    (scs,) = measured("beam-uniform", "classic-force", "scs", repeats=1).times
    assert 0.0 < osqp.setup < osqp.solve
    assert 0.0 < scs.setup < scs.solve  # SCS tells milliseconds
    assert newton.setup is None


def test_the_tolerance_asked_is_what_the_answer_is_held_to() -> None:
    loose = measured("pyramid-hooke:n=5", "classic-force", "apgd", tolerance=1e-3, repeats=1)
    tight = measured("pyramid-hooke:n=5", "classic-force", "apgd", tolerance=1e-9, repeats=1)
    default = measured("pyramid-hooke:n=5", "classic-force", "apgd", repeats=1)
    assert (loose.answer.tol, tight.answer.tol, default.answer.tol) == (1e-3, 1e-9, 1e-6)
    assert loose.answer.settings["accuracy"] == 1e-3
    assert loose.answer.worst > 1e-9
    assert tight.answer.worst < loose.answer.worst
    assert loose.answer.iterations < tight.answer.iterations


def test_memory_is_that_of_the_process() -> None:
    found = measured("beam-uniform", "classic-force", "newton", repeats=1)
    assert 0.0 < found.memory_before <= found.memory <= peak_memory()
    held = np.ones(10_000_000)
    assert peak_memory() >= held.nbytes / 2**20


# --- orders and starts -----------------------------------------------------------------


def test_orders_of_contacts_are_put_back_and_compared() -> None:
    seed = first_is(1, 3)
    order = np.random.default_rng(seed).permutation(3)
    step = bank.load("beam-uniform").step
    own = cdopt.ClassicCD(step).solve(PGS()).f
    f = np.zeros(3)
    f[order] = cdopt.ClassicCD(step.select(order)).solve(PGS()).f
    assert f[1] == pytest.approx(10.0)  # the middle first: it takes all
    found = measured("beam-uniform", "classic-force", "pgs", seed=seed)
    assert found.outcome == "solved"
    assert found.forces.positions == pytest.approx([0.0, 1.0, 0.0], abs=1e-6)
    assert found.stability.order == pytest.approx(np.abs(f - own).max() / own.max())
    assert found.stability.order > 0.4


@pytest.mark.parametrize("formulation", ["compatible", "truss-potential"])
def test_unique_forces_are_those_of_any_order(formulation: str) -> None:
    found = measured("beam-stiff-middle", formulation, "newton", seed=first_is(1, 3))
    assert found.stability.order < 1e-9
    assert found.stability.identical
    assert found.forces.distance < 1e-9


def test_a_warm_start_is_beside_the_cold_one() -> None:
    found = measured("pyramid-hooke:n=5", "classic-force", "apgd", mode="warm", repeats=2)
    assert found.outcome == "solved"
    assert found.stability.cold_iterations > 10 * found.answer.iterations
    assert found.stability.cold_total > 0.0
    assert found.stability.start < 1e-3


@pytest.mark.parametrize(
    ("formulation", "backend"),
    [("classic-force", "apgd"), ("truss-potential", "newton"), ("compatible", "newton")],
)
@pytest.mark.parametrize("named", [True, False])
def test_a_warm_start_finds_its_contacts_in_another_order(
    tmp_path, formulation: str, backend: str, named: bool
) -> None:
    step = bank.load("pyramid-hooke:n=5").step
    step.replace(contact_ids=np.arange(step.nc) if named else None).save(tmp_path / "step.npz")
    (problem,) = problems(tmp_path / "step.npz")
    asked = {"mode": "warm", "repeats": 1, "seed": 3, "tolerance": 1e-9}
    found = measured(problem, formulation, backend, **asked)
    assert found.outcome == "solved"
    assert found.answer.iterations <= 0.35 * found.stability.cold_iterations
    assert found.stability.start < 1e-6


@pytest.mark.parametrize(
    ("backend", "settings"),
    [("highs", {"mode": "warm"}), ("pgs", {"call": "direct"}), ("daqp", {"call": "direct"}),
     ("newton", {"mode": "previous"}), ("osqp", {"call": "direct", "mode": "warm"})],
)  # fmt: skip
def test_what_cannot_be_done_so_is_refused(backend: str, settings) -> None:
    found = measured("beam-uniform", "classic-force", backend, **settings)
    assert found.outcome == "refused"
    assert found.answer is None
    assert backend in found.message or "no step of a recorded run" in found.message


@pytest.mark.parametrize(
    ("problem", "formulation", "backend"),
    [("fan", "classic-force", "newton"), ("fan", "compatible", "newton"),
     ("pyramid-hertz:n=2", "truss-potential", "osqp"), ("beam-uniform", "compatible", "pgs"),
     ("supports-delassus", "classic-velocity", "clarabel")],
)  # fmt: skip
def test_problems_that_a_solver_cannot_take_are_refused(
    problem: str, formulation: str, backend: str
) -> None:
    assert measured(problem, formulation, backend).outcome == "refused"


def test_the_reference_is_that_of_the_named_backend() -> None:
    found = measured("beam-stiff-middle", "compatible", "newton", reference_backend="clarabel")
    assert 0.0 < found.forces.distance < 1e-4  # from clarabel's forces, not from its own
    assert found.forces.reference_worst > 0.0
    missing = measured("beam-stiff-middle", "compatible", "newton", reference_backend="pgs")
    assert missing.outcome == "solved"  # pgs solves no compatible step: nothing to compare with
    assert missing.forces.distance is None


# --- problems without an answer --------------------------------------------------------


@pytest.mark.parametrize(
    ("problem", "formulation", "backend"),
    [("squeezed", "classic-force", "newton"), ("squeezed", "classic-force", "osqp"),
     ("unreachable-load", "truss-complementary", "clarabel")],
)  # fmt: skip
def test_a_problem_without_an_answer_is_proven_so(
    problem: str, formulation: str, backend: str
) -> None:
    found = measured(problem, formulation, backend, repeats=1)
    assert found.outcome == "infeasible"
    assert not found.answer.claimed
    assert "infeasible" in found.message


def test_no_contacts_are_a_problem_too() -> None:
    found = measured("zero-contacts", "classic-force", "newton")
    assert found.outcome == "solved"
    assert found.forces.largest == 0.0
    assert found.forces.distance is None


# --- recorded runs ---------------------------------------------------------------------


@pytest.fixture(scope="module")
def drop(tmp_path_factory) -> Path:
    """A small pyramid falling for four steps."""
    path = tmp_path_factory.mktemp("run") / "drop.vtkhdf"
    cdopt.simulate(cdopt.scene.pyramid(2), 1e-3, 4e-3, method="classic-cd", backend="newton",
                   out=path)  # fmt: skip
    return path


def test_every_step_of_a_run_is_a_problem_with_the_answer_of_the_run(drop: Path) -> None:
    found = problems(drop)
    assert [p.step for p in found] == [1, 2, 3, 4]
    assert found[2] == problems(f"{drop}#3")[0]
    assert found[2].label == "drop.vtkhdf#3"
    trajectory = cdopt.Trajectory.load(drop)
    for problem in (found[1], found[3]):
        step, frame = problem.load().step, trajectory[problem.step]
        np.testing.assert_array_equal(step.contact_ids, frame.contact_ids)
        v = trajectory.scene.dofs.gather(frame.v)
        np.testing.assert_allclose(cdopt.ClassicCD(step).solve("newton").v_next, v, atol=1e-9)


def test_the_step_before_is_a_start(drop: Path) -> None:
    found = measured(problems(drop)[3], "classic-force", "apgd", mode="previous", repeats=1)
    assert found.outcome == "solved"
    assert found.stability.cold_iterations > 0
    assert problems(drop)[3].previous_step() == problems(drop)[2]
    refused = measured(problems(drop)[0], "classic-force", "apgd", mode="previous")
    assert refused.outcome == "refused"
    assert "first step" in refused.message


def test_a_file_that_changed_is_not_the_one_that_was_planned(tmp_path, beam_step) -> None:
    path = tmp_path / "beam.npz"
    beam_step.save(path)
    (planned,) = problems(path)
    assert planned.load().nc == 3
    beam_step.replace(dt=2e-3).save(path)
    with pytest.raises(InvalidInput, match="another content"):
        planned.load()


def test_members_of_a_family() -> None:
    sizes = bank.families()["chains"].sizes
    assert [p.source for p in problems("family:chains")] == [f"family:chains:{n}" for n in sizes]
    (hertz,) = problems("family:chains:8", power=2.5)
    assert (hertz.label, hertz.load().power) == ("family:chains:8, p = 2.5", 2.5)
    for text in ("family:no-such", "family:chains:many", "family:"):
        with pytest.raises(InvalidInput, match="chains"):
            problems(text)


# --- small things ----------------------------------------------------------------------


def test_differences_by_hand() -> None:
    f = np.array([1.0, 2.0])
    assert difference(f, np.array([1.0, 4.0])) == 0.5
    assert difference(f, np.zeros(2)) == 1.0  # over the larger, where the other vanishes
    assert difference(np.zeros(0), np.zeros(0)) == 0.0


def test_errors_of_solvers_are_not_swallowed() -> None:
    run = StudyRun(ProblemSource("beam-uniform"), "classic-force", "fail", plugins=(MISBEHAVING,))
    with pytest.raises(ZeroDivisionError):
        measure(run, lambda name: None, lambda findings: None)
    with pytest.raises(InvalidInput, match="backend"):
        measure(dataclasses.replace(run, backend="none"), lambda name: None, lambda findings: None)
