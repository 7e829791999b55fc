"""Comparisons: numbers by hand, failures kept, nothing dropped without a word."""

from __future__ import annotations

import dataclasses
import json

import numpy as np
import pytest

import cdopt
from cdopt import bank
from cdopt._util.formatting import plain
from cdopt.backends import registry
from cdopt.backends.native import NATIVE
from cdopt.study import Comparison, SolutionSet, choose_backends, compare, solve_named
from cdopt.study.claims import is_false
from cdopt.study.record import Answer
from cdopt.study.solution_set import verdict


def with_forces(solution: cdopt.StepSolution, f, **changes) -> cdopt.StepSolution:
    return dataclasses.replace(solution, f=np.array(f, dtype=float), **changes)


def beam_comparison(*forces, compatible=(10 / 3, 10 / 3, 10 / 3)) -> Comparison:
    """The uniform beam with made-up but admissible classic forces."""
    step = bank.load("beam-uniform").step
    base = cdopt.CompatibleCD(step).solve("clarabel")
    return Comparison(
        [with_forces(base.classic, f) for f in forces],
        step=step,
        compatible=with_forces(base, compatible),
    )


# --- what answers agree on ---------------------------------------------------------------


def test_distances_spread_and_range_by_hand() -> None:
    result = beam_comparison((5, 0, 5), (0, 10, 0), (10 / 3, 10 / 3, 10 / 3))
    # differences (5, -10, 5)/3 and (-10, 20, -10)/3 where the norm is 10/sqrt(3)
    np.testing.assert_allclose(result.distances, [np.sqrt(0.5), np.sqrt(2.0), 0.0], atol=1e-12)
    result = beam_comparison((5, 0, 5), (1, 8, 1))
    assert result.force_range == (5.0, 8.0)
    assert result.force_spread == pytest.approx(1.0)  # the middle contact: 8 of 8
    assert result.motion_spread == 0.0  # one v⁺ was copied
    assert "middle ranges from 0 N to 8 N: the contact forces are not unique" in result.summary


def test_agreement_among_solvers_is_not_agreement_with_elasticity() -> None:
    result = beam_comparison((5, 0, 5), (5, 0, 5))
    assert "differ by 0.71 of their norm: the contact forces are not unique" in result.summary


@pytest.mark.parametrize(
    ("name", "backends", "unique"),
    [
        ("beam-middle-open", ["clarabel", "osqp"], True),
        ("free-flying", ["clarabel", "osqp"], True),
        ("impact", ["clarabel", "osqp"], True),
        ("beam-uniform", ["clarabel", "pgs"], False),
        ("supports-delassus", ["clarabel", "pgs"], False),
    ],
)
def test_forces_are_called_unique_where_they_are(name: str, backends: list, unique: bool) -> None:
    result = compare(bank.load(name).step, backends)
    assert result.motion_spread < 1e-5
    assert ("no sign here of more than one answer" in result.summary) == unique
    assert (result.force_spread < 1e-2) == unique
    assert ("the contact forces are not unique" in result.summary) != unique
    assert result.summary.endswith("what elastic contacts would carry.")


def test_forces_that_only_the_certificate_leaves_open_are_called_unique() -> None:
    """Three forces and three equations, two of them 1e-5 apart: f = 1 ± 0.05 within 1e-6."""
    B = [[1, 0, 0], [0, 1, 1], [0, 1, 1 + 1e-5]]
    step = cdopt.ContactStep(np.eye(3), B, np.zeros(3), np.zeros(3), [-1, -2, -2 - 1e-5], 1e-3)
    base = cdopt.CompatibleCD(step).solve("newton")
    answers = [with_forces(base.classic, (1, 1 + d, 1 - d)) for d in (0.0, 0.05, -0.05)]
    rows = cdopt.ContactStep.from_delassus(step.N, step.N @ [-1, -1, -1], dt=1e-3)
    for known in (step, rows):
        summary = Comparison(answers, step=known, compatible=base).summary
        assert "the contact forces are unique, but badly conditioned" in summary
        assert "a residual of 1e-06 allows" in summary
    assert cdopt.indeterminacy(step).unique.all()


@pytest.mark.slow
def test_more_forces_than_equations_are_not_unique_however_many() -> None:
    result = compare(bank.load("pyramid-hooke:n=20").step, ["newton"])  # too large for dense SVDs
    result.insert(0, with_forces(result[0], 2.0 * result[0].f))
    assert "the contact forces are not unique" in result.summary


def test_compatible_builds_on_the_first_certified_classic_solution() -> None:
    step = bank.load("pyramid-hooke").step
    result = compare(step, ["osqp", "clarabel"], tol=1e-8)
    assert [s.ok for s in result] == [False, True]
    assert result.compatible.classic.backend == "clarabel"
    np.testing.assert_array_equal(result.compatible.classic.f, result[1].f)


# --- every backend has its place ---------------------------------------------------------


def test_order_and_labels_follow_the_request() -> None:
    step = bank.load("beam-uniform").step
    settings = [cdopt.backends.Modelled("osqp", accuracy=a) for a in (1e-4, 1e-9)]
    result = compare(step, [*settings, "clarabel"])
    assert [s.backend for s in result] == ["osqp", "osqp", "clarabel"]
    assert len(set(result.labels)) == 3
    assert "1e-09" in result.labels[1]
    assert result.labels[2] == "clarabel"
    assert compare(step, ["scs", "scs"]).labels == ["scs", "scs #2"]


def test_infeasible_steps_keep_every_failure_and_its_proof() -> None:
    result = compare(bank.load("squeezed").step, ["clarabel", "osqp"])
    assert list(result) == []
    assert set(result.failures) == {"clarabel", "osqp"}
    assert all(e.proof.value < 0.0 for e in result.failures.values())
    assert isinstance(result.compatible_failure, cdopt.SolveFailed)
    assert "Proven infeasible" in result.summary
    assert "clarabel: infeasible, with proof" in str(result)
    content = json.loads(json.dumps(result.as_dict(), allow_nan=False))
    assert content["failures"]["clarabel"]["proof"]["value"] < 0.0
    assert content["force_range"] == {"lowest": None, "highest": None}
    false = compare(bank.load("squeezed").step, "highs")
    assert [(s.claimed, s.ok) for s in false] == [(True, False)]
    assert "Yet 1 solver claimed success." in false.summary


def test_a_truss_has_its_proof_and_its_spread() -> None:
    failed = solve_named(cdopt.open_problem("unreachable-load"), None, ["clarabel"])
    assert "no pushing contact forces deliver this load" in failed.summary
    assert f"{failed.proof.value:.3g} J" in failed.summary
    solved = solve_named(cdopt.open_problem("fan", 2.0), None, ["clarabel", "newton"])
    assert solved.force_spread < 1e-6
    assert "The certified forces differ by" in solved.summary
    assert solved.rows()[0].largest == pytest.approx(solved[0].f.max())


def test_unavailable_backends_are_failures_not_gaps(monkeypatch) -> None:
    monkeypatch.setattr(registry, "installed", lambda name: name != "scs")
    result = compare(bank.load("tripod").step, ["clarabel", "scs"])
    assert result.labels == ["clarabel"]
    assert isinstance(result.failures["scs"], cdopt.BackendUnavailable)


def test_the_compatible_step_may_fail_or_be_left_out() -> None:
    result = compare(bank.load("tripod").step, ["clarabel"], power=2.5, compatible_backend="osqp")
    assert result.compatible is None
    assert isinstance(result.compatible_failure, cdopt.Unsupported)
    assert all(np.isnan(result.distances))
    assert "There are no compatible forces" in result.summary
    result = compare(bank.load("beam-uniform").step, ["clarabel", "osqp"], compatible_backend=None)
    assert result.compatible is result.compatible_failure is None
    assert "ompatible" not in str(result)
    assert "distance" not in str(result)


@pytest.mark.parametrize(
    ("name", "changes"),
    [
        ("backend", {"backends": ["clarabell"]}),
        ("backends", {"backends": []}),
        ("backends", {"backends": 3}),
        ("tol", {"tol": 2.0}),
        ("power", {"power": 1.0}),
        ("form", {"form": "momentum"}),
        ("law", {"law": "coulomb"}),
    ],
)
def test_bad_arguments_are_refused_before_any_solve(name: str, changes: dict) -> None:
    asked: list[str] = []
    with pytest.raises(cdopt.InvalidInput) as caught:
        compare(**{"step": "tripod", "backends": ["pgs"], "progress": asked.append, **changes})
    assert (caught.value.argument, asked) == (name, [])


FRICTIONAL = [
    n for n in cdopt.backends.known_names() if n in NATIVE and "rigid step" not in NATIVE[n].kinds
]


def test_default_backends_are_all_available_ones() -> None:
    asked: list[str] = []
    result = compare(bank.load("beam-uniform").step, progress=asked.append)
    unasked = dict.fromkeys(FRICTIONAL, "only for: frictional step") | {"auto": "chooses"}
    assert result.labels == [n for n in cdopt.backends.available() if n not in unasked]
    assert list(result.left_out) == list(unasked)
    assert all(result.left_out[name].startswith(why) for name, why in unasked.items())
    assert asked == [*result.labels, "compatible forces"]


def test_large_problems_leave_dense_backends_out_with_a_reason() -> None:
    everything = set(cdopt.backends.available())
    chosen, left_out = choose_backends(2001, dofs=1000)
    records = registry.SOLVERS.items()
    dense = {n for n, s in records if s.most_unknowns or (s.most_contacts or [9999])[0] < 2001}
    assert dense >= {"proxqp", "daqp", "lcp"}
    assert set(left_out) == {*dense, *FRICTIONAL, "auto"} & everything
    assert set(chosen) == everything - set(left_out)
    assert "3,001 contacts and degrees of freedom exceed 3,000" in left_out["daqp"]
    assert "daqp" in choose_backends(2001)[0]
    assert "2,001 contacts exceed 500" in left_out["lcp"]
    _, left_out = choose_backends(10, "SOCP")
    assert "osqp: not asked, no second-order" in str(SolutionSet(left_out=left_out))


# --- tables, JSON and sentences ----------------------------------------------------------


def test_table_and_json_are_complete() -> None:
    result = compare(bank.load("pyramid-hooke").step, ["clarabel", "osqp"])
    lines = [line for line in str(result).splitlines() if line]
    assert [line.split()[0] for line in lines[2:5]] == ["clarabel", "osqp", "compatible"]
    assert "NOT OK" in lines[3]
    assert f"{result.distances[0]:.1e}" in lines[2]
    worst = max(result[1].certificate, key=lambda r: r.value)
    assert verdict(result[1]) == f"NOT OK {worst.value:.0e} {worst.name}"
    content = json.loads(json.dumps(result.as_dict(forces=True), allow_nan=False))
    assert [s["label"] for s in content["solutions"]] == ["clarabel", "osqp"]
    np.testing.assert_array_equal(content["solutions"][1]["f"], result[1].f)
    np.testing.assert_array_equal(content["compatible"]["f"], result.compatible.f)
    assert content["solutions"][0]["distance"] == result.distances[0]
    assert content["compatible"]["distance"] is None
    assert content["certified"] == 1
    assert "f" not in result.as_dict()["solutions"][0]
    value = {"a": np.array([1.0, np.nan]), 2: (np.int64(3), np.inf, None, True, "x", object)}
    assert plain(value) == {"a": [1.0, None], "2": [3, None, None, True, "x", repr(object)]}


def answer(worst: float, claimed: bool = True) -> cdopt.StepSolution:
    """An answer whose largest residual is made up."""
    solution = cdopt.ClassicCD(bank.load("beam-uniform").step).solve("newton")
    residual = dataclasses.replace(solution.certificate.residuals[0], value=worst)
    certificate = dataclasses.replace(solution.certificate, residuals=(residual,))
    return dataclasses.replace(solution, claimed=claimed, certificates={"forces": certificate})


@pytest.mark.parametrize(
    ("answers", "sentence"),
    [
        ([], "No solver has an answer."),
        ([answer(1e-9)], "1 of 1 answer certified at 1e-06."),
        ([answer(1e-3, False), answer(1.5e-6)],
         "0 of 2 answers certified at 1e-06; 1 claim of success has a residual of 1.5 times "
         "1e-06."),
        ([answer(1.1e-6), answer(9e-6), answer(2e-5)],
         "0 of 3 answers certified at 1e-06; 3 claims of success have residuals of 1.1 to 20 times "
         "1e-06; 1 of them is false."),
        ([answer(1e-3)], "0 of 1 answer certified at 1e-06; 1 claim of success has a residual of "
                         "1,000 times 1e-06 and is false."),
        ([answer(1e-3), answer(np.nan)],
         "0 of 2 answers certified at 1e-06; 2 claims of success have residuals of 1,000 to more "
         "than a million times 1e-06; all are false."),
    ],
)  # fmt: skip
def test_the_sentence_tells_misses_from_false_claims(answers: list, sentence: str) -> None:
    assert SolutionSet(answers).summary == sentence


@pytest.mark.parametrize("worst", [2e-6, 9.9e-6, 1.1e-5, 1e-3, np.inf])
def test_false_is_the_same_for_a_study_and_a_comparison(worst: float) -> None:
    record = Answer("fine", True, False, 1e-6, worst, {}, 1, 1.0, {}, 4, 2)
    assert is_false(answer(worst)) == (not record.near)


def test_a_step_with_friction_is_compared_under_its_law() -> None:
    named = cdopt.open_problem("rough-wall")
    result = solve_named(named, None, ["newton", "nsgs"])
    assert (result.law, result.ok) == ("coulomb", True)
    assert "the contact forces are not unique" in result.summary
    assert "Answers under Coulomb's law need not be unique" in result.summary
    assert "compatible" in result.left_out
    assert solve_named(named, "associated", ["newton"]).law == "associated"
    with pytest.raises(cdopt.Unsupported, match="with friction"):
        solve_named(named, "classic")
    with pytest.raises(cdopt.Unsupported, match="frictionless"):
        named.require_frictionless("bounds")
    assert named.without_friction().formulations == ("compare", "classic", "compatible")
    sliding = compare(bank.load("launched-box").step, ["newton", "nsgs"])
    assert "not unique" not in sliding.summary.partition("Answers")[0]


@pytest.mark.parametrize("name", ["siconos-frictioncontactproblem00394", "rolling-cube"])
def test_steps_known_by_n_and_p_alone_are_compared_by_all_their_rates(name: str) -> None:
    """Sliding and rolling rates, not the gaps alone."""
    solvers = ["newton", "nsgs", "apgd"]
    found = cdopt.compare(cdopt.open_problem(name).step, solvers, law="associated")
    assert len(found.certified) == 3
    assert found.motion_spread <= 1e-6
    assert "certified" in found.summary
