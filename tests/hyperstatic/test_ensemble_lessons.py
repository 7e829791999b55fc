"""Lessons 0 and 12 to 14: their numbers, and answers to their questions."""

from __future__ import annotations

import numpy as np
import pytest
from lessons import check_picture, drawn, lesson, ran, what_if

import cdopt
from cdopt.hyperstatic import UnboundedForces


@pytest.mark.parametrize("number", [0, 12, 14])
def test_it_draws_its_picture(number: int) -> None:
    check_picture(number)


def test_counting() -> None:
    it = lesson(0)
    few = {name: it.counts[name] for name, step in it.structures.items() if step.nc <= 6}
    assert list(few.values()) == [(0, 1), (0, 0), (1, 0), (0, 0), (1, 0), (3, 0), (2, 1)]
    for name, (nullity, loose) in it.counts.items():
        step = it.structures[name]
        assert nullity - loose == step.nc - step.nv
    assert it.counts["pyramid of 30 balls"] == (30, 0)
    assert np.all(np.diff(it.shares) > 0)
    assert 0.45 < it.shares[-1] < 0.5
    assert it.report.nullity == 3
    # what if?
    assert it.count(it.beam_on(0.0, 0.0, 0.5)) == (1, 0)
    assert it.count(it.table_on(*[(0.3, 0.2)] * 4)) == (3, 2)
    wide = cdopt.bank.generators.crystal_2d(14, 14)
    nullity, loose = it.count(wide)
    assert loose == 0
    assert 0.28 < nullity / wide.nc < 1 / 3


def test_intervals() -> None:
    it = lesson(12)
    assert it.work == 5.0
    np.testing.assert_allclose(it.report.upper[0], it.work)
    assert np.all(it.beam.B @ it.motion >= [1.0, 0.0, 0.0])  # which makes it a proof
    assert np.count_nonzero(it.certain) == 8
    assert it.bounds.upper[it.certain].max() == 0.0
    assert np.count_nonzero(it.needed) == 8
    np.testing.assert_allclose(it.limits(it.floor), [it.weight] * 2)
    least, most = it.limits(it.first)
    assert it.bounds.lower[it.first].sum() <= least + 1e-6
    assert most < 0.9 * it.bounds.upper[it.first].sum()
    np.testing.assert_array_equal(it.stuck.upper, [np.inf, np.inf])
    assert np.abs(it.wedged.B.T @ it.stuck.rays[0]).max() < 1e-12


@pytest.mark.slow
def test_intervals_what_if() -> None:
    it = lesson(12)  # without a turn the middle opens by one
    assert np.all(it.beam.B @ [1.0, 0.0] >= [0.0, 1.0, 0.0])
    np.testing.assert_allclose(-it.beam.F_ext @ [1.0, 0.0], it.report.upper[1])
    higher = what_if(12, "courses, bricks = 3, 2", "courses, bricks = 4, 2")
    assert higher["bounds"].nullity > it.bounds.nullity
    groove = np.sqrt(0.5) * np.array([[1.0, 1.0], [-1.0, 1.0]])
    step = cdopt.ContactStep(np.eye(2), groove, [0, 0], [0, 0], [0, -1], 1e-3)
    assert cdopt.indeterminacy(step).unique.all()


@pytest.mark.slow
def test_the_ensemble_lesson() -> None:
    it = drawn(13)
    assert it.beam.converged
    np.testing.assert_allclose(it.beam.mean, [2.5, 5.0, 2.5], atol=5 * it.beam.error.max())
    assert not it.short.converged
    assert it.samples.converged
    assert it.samples.dimension == 30
    for times in (1, 2, 3):
        assert np.mean(it.samples.magnitudes > times) == pytest.approx(np.exp(-times), rel=0.25)
    assert it.places["clarabel"].depth == 1.0
    assert it.places["lcp"].depth == 0.0
    assert it.places["compatible"].less_energy == 0.0
    assert 0.02 < it.places["compatible"].depth < 0.3
    assert all(place.outside < 1e-6 for place in it.places.values())


@pytest.mark.slow
def test_the_ensemble_lesson_what_if() -> None:
    many = cdopt.ensemble(cdopt.bank.generators.supports(22))
    assert 6 <= int(np.argmax(many.mean)) <= 15
    with pytest.raises(UnboundedForces):
        cdopt.ensemble(cdopt.ContactStep(np.eye(1), [[1], [-1]], [0, 0], [0], [0], 1))
    larger = what_if(13, "n = 4  #", "n = 5  #")
    assert larger["samples"].converged
    assert larger["places"]["compatible"].depth < ran(13).names.places["compatible"].depth


def test_the_sensitivity_lesson() -> None:
    it = lesson(14)
    np.testing.assert_allclose(it.slopes.f, [1, 3, 4, 2], atol=1e-9)
    expected = np.outer([1, -1, 1, -1], [0.25, -0.75, 1.0, -0.5])
    np.testing.assert_allclose(it.slopes.log_stiffness, expected, atol=1e-9)
    assert 1e-6 < it.missed < 1e-4
    assert list(it.edge.touching) == [0]
    assert [r.rank for r in it.recovered.values()] == [1, 2, 3, 3]
    for count in (3, 4):
        ratio, error = it.recovered[count].ratio(3, 0)
        assert abs(np.log(ratio / 0.4)) < 4 * error < 0.2
    assert it.forces.min() > 0.1  # no leg lifts


@pytest.mark.slow
def test_the_sensitivity_lesson_what_if() -> None:
    line = "places = [(0.0, 0.0), (0.15, 0.05), (-0.05, -0.1), (0.05, -0.1)]  # m"
    one = what_if(14, line, "places = [(0.15, 0.05)] * 4")
    assert one["recovered"][4].rank == 1
    sharp, it = what_if(14, "+ 0.01 * rng", "+ 0.001 * rng")["recovered"][4], lesson(14)
    assert sharp.ratio(3, 0)[1] < 0.2 * it.recovered[4].ratio(3, 0)[1]
    trusses = [cdopt.NoTensionTruss(it.B, F, it.truth, 2.5) for F in it.loads]
    hertz = np.array([truss.solve("newton").f for truss in trusses])
    right = cdopt.recover_stiffness(it.B, it.loads, hertz, 2.5)
    wrong = cdopt.recover_stiffness(it.B, it.loads, hertz)
    assert right.ratio(3, 0)[0] == pytest.approx(0.4, rel=1e-6)
    assert abs(wrong.ratio(3, 0)[0] - 0.4) > 0.03
    assert wrong.misfit > 1e4 * right.misfit
