"""indeterminacy(): its arguments, the choice of contacts, what a report says."""

from __future__ import annotations

import json

import numpy as np
import pytest
from judges import step_on

import cdopt

BEAM = cdopt.bank.load("beam-uniform").step


def test_bad_arguments_are_named():
    for options, match in (
        ({"contacts": [3]}, "0 to 2"), ({"contacts": [-1]}, "0 to 2"),
        ({"contacts": [[0], [1, 2]]}, "contacts"), ({"contacts": np.ones(4, bool)}, "contacts"),
        *(({"contacts": bad}, "contacts") for bad in (-3, 2.5, "all")),
        ({"tol": 0.0}, "tol"), ({"jobs": 0}, "jobs"), ({"closed_tol": -1.0}, "closed_tol"),
        ({"solution": "no-such-solver"}, "no-such-solver"),
    ):  # fmt: skip
        with pytest.raises(cdopt.CdoptError, match=match):
            cdopt.indeterminacy(BEAM, **options)


def test_a_subset_a_mask_a_sample_and_threads():
    step = cdopt.bank.load("pyramid-hooke:n=3").step
    calls = []
    everything = cdopt.indeterminacy(
        step, jobs=2, progress=lambda done, total: calls.append((done, total))
    )
    assert calls == sorted(calls)
    assert calls[-1] == (step.nc, step.nc)
    mask = np.zeros(step.nc, bool)
    mask[[3, 5]] = True
    for contacts in ([5, 3, 5], mask):
        report = cdopt.indeterminacy(step, contacts=contacts)
        np.testing.assert_array_equal(report.contacts, [3, 5])
        np.testing.assert_array_equal(np.flatnonzero(report.bounded), [3, 5])
        np.testing.assert_allclose(report.upper[mask], everything.upper[mask], rtol=1e-8)
        np.testing.assert_allclose(report.lower[mask], everything.lower[mask], atol=1e-8)
    for number, bounded in ((7, 7), (1000, step.nc), ([], 0)):
        assert cdopt.indeterminacy(step, contacts=number).bounded.sum() == bounded


def test_the_classic_answer_may_be_given_and_must_be_certified():
    cd = cdopt.ClassicCD(BEAM)
    report = cdopt.indeterminacy(BEAM, solution=cd.solve("clarabel"))
    np.testing.assert_allclose(report.upper, [5, 10, 5], rtol=1e-6)
    assert cdopt.indeterminacy(BEAM, solution="osqp").solution.backend == "osqp"
    both = cdopt.CompatibleCD(BEAM).solve("newton")
    assert cdopt.indeterminacy(BEAM, solution=both).nullity == 1
    poor = cd.solve("pgs", max_sweeps=1, check=False)
    assert not poor.ok
    with pytest.raises(cdopt.CdoptError, match="solution"):
        cdopt.indeterminacy(BEAM, solution=poor)
    with pytest.raises(cdopt.InvalidInput, match="solution"):
        cdopt.indeterminacy(cdopt.bank.load("table").step, solution=both)
    # HiGHS calls zero forces optimal here; the certificate does not, and neither do bounds
    seven = cdopt.bank.load("supports-delassus:n=7").step
    with pytest.raises(cdopt.SolveFailed, match="not certified"):
        cdopt.indeterminacy(seven, solution="highs")


def test_the_verdict_does_not_depend_on_who_solved_the_classic_step():
    """A force of 1e-8 left by a first-order method is no force, nor a width of as much one."""
    step = step_on([[0, -1], [-1, -2], [2, -1]], [0.0, 1.0, 0.0])
    for solution in ("newton", "pgs", "apgd"):
        assert cdopt.indeterminacy(step, solution=solution).unique.all()


def test_texts_and_records():
    report = cdopt.indeterminacy(BEAM)
    assert report.names == ["left", "middle", "right"]
    assert "1 self-stress state" in report.summary
    assert "[0, 10] N, at contact middle" in report.summary
    assert "undetermined" in str(report)
    record = report.as_dict()
    assert json.loads(json.dumps(record, allow_nan=False)) == record
    assert [line["upper"] for line in record["forces"]] == pytest.approx([5, 10, 5])
    assert "forces" not in report.as_dict(contacts=False)
    arrays = (
        report.lower, report.upper, report.unique, report.loadable, report.closed,
        report.looseness, report.residual, report.force, report.self_stress.data,
        report.free[0].force, report.parts[0].length,
    )  # fmt: skip
    assert not any(array.flags.writeable for array in arrays)


def test_a_step_without_contacts_and_a_free_flight():
    for name in ("zero-contacts", "free-flying"):
        report = cdopt.indeterminacy(cdopt.bank.load(name).step)
        assert report.nullity == 0
        assert report.unique.all()
        assert report.self_stress.shape == (0, report.nc)
        assert "Every force is determined" in report.summary
