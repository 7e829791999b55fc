"""The door: arguments, choices of contacts, words and records."""

from __future__ import annotations

import json

import numpy as np
import pytest

import cdopt

STEP = cdopt.bank.load("pyramid-hooke").step


@pytest.mark.parametrize(
    ("options", "match"),
    [
        ({"contacts": [160]}, "0 to 159"),
        ({"contacts": [-1]}, "0 to 159"),
        ({"contacts": -3}, "contacts"),
        ({"contacts": 2.5}, "contacts"),
        ({"contacts": "all"}, "contacts"),
        ({"contacts": [[0]]}, "contacts"),
        ({"contacts": np.ones(3, bool)}, "contacts"),
        ({"tol": 0.0}, "tol"),
        ({"tol": 0.5}, "tol"),
        ({"tol": float("nan")}, "tol"),
        ({"jobs": 0}, "jobs"),
        ({"jobs": 1.5}, "jobs"),
        ({"classic": "no-such-solver"}, "no-such-solver"),
        ({"progress": 3}, "progress"),
        ({"closed_tol": -1.0}, "closed_tol"),
    ],
)
def test_bad_arguments_are_named(options, match):
    with pytest.raises(cdopt.CdoptError, match=match):
        cdopt.indeterminacy(STEP, **options)
    with pytest.raises(cdopt.InvalidInput, match="step"):
        cdopt.indeterminacy("beam")


def test_a_subset_a_mask_and_a_sample():
    report = cdopt.indeterminacy(STEP, contacts=[5, 3, 5])
    np.testing.assert_array_equal(report.contacts, [3, 5])
    np.testing.assert_array_equal(np.flatnonzero(report.bounded), [3, 5])
    mask = np.zeros(160, bool)
    mask[[3, 5]] = True
    other = cdopt.indeterminacy(STEP, contacts=mask)
    np.testing.assert_allclose(other.upper[[3, 5]], report.upper[[3, 5]], rtol=1e-8)
    assert cdopt.indeterminacy(STEP, contacts=7).bounded.sum() == 7
    assert cdopt.indeterminacy(STEP, contacts=1000).bounded.all()
    assert not cdopt.indeterminacy(STEP, contacts=[]).bounded.any()


def test_threads_change_nothing():
    one, two = (cdopt.indeterminacy(STEP, jobs=jobs) for jobs in (1, 2))
    np.testing.assert_allclose(one.upper, two.upper, rtol=1e-8)
    np.testing.assert_allclose(one.lower, two.lower, atol=1e-8)


def test_progress_is_told_to_the_end():
    seen = []
    cdopt.indeterminacy(STEP, jobs=2, progress=lambda done, total: seen.append((done, total)))
    assert seen[-1] == (160, 160)
    assert seen == sorted(seen)


def test_the_classic_answer_may_be_given_and_must_be_certified():
    beam = cdopt.bank.load("beam-uniform").step
    cd = cdopt.ClassicCD(beam)
    found = cdopt.indeterminacy(beam, classic=cd.solve("clarabel"))
    np.testing.assert_allclose(found.upper, [5, 10, 5], rtol=1e-6)
    assert cdopt.indeterminacy(beam, classic="osqp").classic.backend == "osqp"
    both = cdopt.CompatibleCD(beam).solve("newton")
    assert cdopt.indeterminacy(beam, classic=both).nullity == 1
    poor = cd.solve("pgs", max_sweeps=1, check=False)
    assert not poor.ok
    with pytest.raises(cdopt.CdoptError, match="classic"):
        cdopt.indeterminacy(beam, classic=poor)
    with pytest.raises(cdopt.InvalidInput, match="classic"):
        cdopt.indeterminacy(STEP, classic=both)


def test_a_solvers_false_optimum_is_no_ground_for_bounds():
    """HiGHS calls zero forces optimal here; the certificate does not, and neither do bounds."""
    step = cdopt.bank.load("supports-delassus:n=7").step
    with pytest.raises(cdopt.SolveFailed, match="not certified"):
        cdopt.indeterminacy(step, classic="highs")


def test_words_and_records():
    report = cdopt.indeterminacy(cdopt.bank.load("beam-uniform").step)
    assert "1 self-stress state" in report.summary
    assert "[0, 10] N, at contact middle" in report.summary
    assert "undetermined" in str(report)
    record = report.as_dict()
    assert json.loads(json.dumps(record, allow_nan=False)) == record
    assert [line["upper"] for line in record["forces"]] == pytest.approx([5, 10, 5])
    assert "forces" not in report.as_dict(contacts=False)
    with pytest.raises(ValueError, match="read-only"):
        report.force[0] = 1.0


def test_a_step_without_contacts_and_a_free_flight():
    for name in ("zero-contacts", "free-flying"):
        report = cdopt.indeterminacy(cdopt.bank.load(name).step)
        assert report.nullity == 0
        assert report.unique.all()
        assert report.self_stress.shape == (0, report.nc)
        assert "Every force is determined" in report.summary
