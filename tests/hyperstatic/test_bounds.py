"""Bounds of forces: analytic cases, brute force, exact arithmetic, the whole bank."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from conftest import STEPS
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from judges import exact_error, networks, rays, step_of, step_on, vertices
from scipy.optimize import linprog

import cdopt
from cdopt.bank.quantities import nullity
from cdopt.hyperstatic import linear_bounds, network
from cdopt.hyperstatic.linear_bounds import CERTIFIED

EXACT = ("beam-uniform", "supports", "table", "tripod", "rank-deficient", "duplicated-contacts",
         "beam-middle-open", "zero-contacts")  # fmt: skip


def report_of(name, **options):
    return cdopt.indeterminacy(cdopt.bank.load(name).step, **options)


@pytest.mark.parametrize("n", [2, 3, 7, 30])
def test_n_supports_against_statics(n):
    """Support i at x alone with the far end: (L/2) / (L/2 + |x|) of the weight, at most."""
    report = report_of(f"supports:n={n}")
    x = np.abs(np.linspace(-0.5, 0.5, n))
    assert (report.rank, report.nullity, report.dimension) == (2, n - 2, n - 2)
    assert report.unique.all() if n == 2 else not report.unique.any()
    np.testing.assert_allclose(report.upper, 10 * 0.5 / (0.5 + x), rtol=1e-9)
    np.testing.assert_allclose(report.lower, 5 if n == 2 else 0, atol=1e-8)


def test_an_eccentric_load_raises_the_lower_bound():
    """A table loaded near one corner: that leg cannot be idle, the opposite one can carry little.

    With the load at (a, a) of the half width: f1 − f3 = W a along its diagonal, f2 = f4 = t.
    """
    a, legs = 0.4, np.array([[1, 1], [-1, 1], [-1, -1], [1, -1]], float)
    report = cdopt.indeterminacy(step_of(np.column_stack([np.ones(4), legs]), [10, 4, 4]))
    np.testing.assert_allclose(report.lower, [10 * a, 0, 0, 0], atol=1e-8)
    top = 10 * (1 - a) / 2
    np.testing.assert_allclose(report.upper, [10 * a + top, top, top, top], rtol=1e-8)


def test_wedged_contacts_have_no_upper_bound():
    """A ball of weight 10 in a slot between two walls: their forces are equal and endless."""
    report = cdopt.indeterminacy(step_on([[0.0, 1.0], [1.0, 0.0], [-1.0, 0.0]], [10.0, 0, 0]))
    np.testing.assert_array_equal(report.unbounded, [False, True, True])
    np.testing.assert_array_equal(report.unique, [True, False, False])
    assert np.isinf(report.upper[1:]).all()
    np.testing.assert_allclose(report.rays, [[0, 1, 1]], atol=1e-12)
    assert np.isnan(report.position([10.0, 3.0, 3.0])).all()
    np.testing.assert_allclose(report.outside([10.0, -1.0, 1e9]), [0, 1, 0], atol=1e-9)


def test_closed_loaded_and_loadable_are_three_things():
    """An open middle support; and a ball on the floor that just touches a wall."""
    report = report_of("beam-middle-open")
    assert [report.verdict_of(i) for i in range(3)] == ["unique", "open", "unique"]
    np.testing.assert_allclose(report.lower, [5, 0, 5], atol=1e-9)
    report = cdopt.indeterminacy(step_on([[0.0, 1.0], [1.0, 0.0]], [10.0, 0.0]))
    assert report.closed.all()
    np.testing.assert_array_equal(report.loaded, [True, False])
    np.testing.assert_array_equal(report.loadable, [True, False])
    assert report.unique.all()


@pytest.mark.parametrize("name", STEPS)
def test_every_bound_of_the_bank_is_certified(name):
    report = report_of(name, jobs=2)
    assert report.ok, report.failures
    assert report.bounded.all()
    assert report.residual.max(initial=0.0) <= CERTIFIED
    assert report.outside(report.force).max(initial=0.0) <= 1e-8 * report.force.max(initial=1e-300)
    known = cdopt.bank.load(name).references
    if "nullity" in known and report.closed.all():
        assert report.nullity == known["nullity"]


@pytest.mark.parametrize("name", ["table", "beam-uniform", "rank-deficient", "crystal-2d"])
def test_segments_and_programs_in_motions_and_in_forces_agree(name, monkeypatch):
    """The last are tried where the others leave no certified bound; threads change nothing."""
    usual, several = report_of(name), report_of(name, jobs=3)
    monkeypatch.setattr(linear_bounds, "_segment", lambda network: None)
    programs = report_of(name)
    failing = linear_bounds._FromHighs("stopped")
    monkeypatch.setattr(linear_bounds._OverMotions, "solve", lambda *_: failing)
    others = report_of(name)
    at = 1e-8 * usual.force.max()
    for report in (several, programs, others):
        assert report.ok
        np.testing.assert_array_equal(report.unbounded, usual.unbounded)
        for end in ("lower", "upper"):
            np.testing.assert_allclose(getattr(report, end), getattr(usual, end), atol=at)


@pytest.mark.slow
def test_large_pyramids() -> None:
    seven = report_of("pyramid-hooke:n=7", jobs=2)
    assert seven.ok
    assert seven.nullity == nullity(cdopt.bank.load("pyramid-hooke:n=7").step.B)
    assert seven.bounded.all()
    assert report_of("pyramid-hooke:n=10", contacts=[]).nullity == 765
    fourteen = report_of("pyramid-hooke:n=14", contacts=2, jobs=2)
    assert fourteen.ok
    assert np.count_nonzero(fourteen.bounded) == 2
    twenty = report_of("pyramid-hooke:n=20", contacts=[])
    assert (twenty.nullity, twenty.rank) == (7030, 7410)
    assert not twenty.unique.any()


# --- other judges ------------------------------------------------------------------------


@pytest.mark.parametrize("name", EXACT)
def test_against_exact_arithmetic(name):
    assert exact_error(report_of(name)) <= 1e-11


def test_the_bounds_are_those_of_plain_linear_programs():
    """The same by SciPy, without any elimination, on a network with unique forces in it."""
    step = cdopt.bank.load("pyramid-falling").step
    report = cdopt.indeterminacy(step)
    index = np.flatnonzero(report.closed)
    B = step.B[index].toarray()
    for i in range(0, index.size, 4):
        for sign, bound in ((1.0, report.lower), (-1.0, report.upper)):
            cost = sign * np.eye(index.size)[i]
            answer = linprog(cost, A_eq=B.T, b_eq=B.T @ report.force[index])
            assert answer.status == 0
            tol = 1e-6 * report.force.max()
            assert bound[index[i]] == pytest.approx(sign * answer.fun, abs=tol)


@pytest.mark.slow
@settings(max_examples=25)
@given(networks())
def test_against_every_vertex_of_small_networks(drawn):
    B, forces = drawn
    report = cdopt.indeterminacy(step_on(B, forces))
    assert report.ok, report.failures
    closed = report.closed
    corners = vertices(B[closed], B.T @ forces)
    endless = np.zeros(len(B), dtype=bool)
    endless[closed] = rays(B[closed])
    np.testing.assert_array_equal(report.unbounded, endless)
    assert report.nullity == closed.sum() - np.linalg.matrix_rank(B[closed])
    assert corners.size or not closed.any()
    if closed.any():
        scale = max(corners.max(), 1.0)
        np.testing.assert_allclose(report.lower[closed], corners.min(axis=0), atol=1e-7 * scale)
        bounded = closed & ~endless
        highest = corners.max(axis=0)[bounded[closed]]
        np.testing.assert_allclose(report.upper[bounded], highest, atol=1e-7 * scale)
        flat = report.upper - report.lower <= 1e-7 * scale
        np.testing.assert_array_equal(report.unique, flat)


@settings(max_examples=20)
@given(networks(), st.sampled_from(["clarabel", "osqp", "pgs", "apgd", "lcp"]))
def test_certified_forces_lie_inside(drawn, backend):
    """Inside their bounds, but for what they miss of admissibility times the bounds' duals."""
    step = step_on(*drawn)
    solution = cdopt.ClassicCD(step).solve(backend, check=False)
    assume(solution.f is not None and solution.ok)
    report = cdopt.indeterminacy(step)
    slack = np.nan_to_num(report.slack(solution.f), nan=np.inf)
    excess = report.outside(solution.f) - slack
    scale = max(float(report.force.max()), 1e-3)
    assert excess[~report.unique].max(initial=-1.0) <= 1e-6 * scale
    compatible = cdopt.CompatibleCD(step).solve("newton", classic=report.solution)
    assert report.outside(compatible.f).max() <= 1e-7 * scale


@settings(max_examples=8)
@given(networks(), st.floats(1e-6, 1e6), st.floats(1e-6, 1e6), st.randoms())
def test_units_and_the_order_of_contacts_do_not_matter(drawn, length, force, random):
    B, forces = drawn
    order = list(range(len(B)))
    random.shuffle(order)
    report = cdopt.indeterminacy(step_on(B, forces))
    for other, places in (
        (cdopt.indeterminacy(step_on(B * length, forces * force)), slice(None)),
        (cdopt.indeterminacy(step_on(B[order], forces[order] * force)), order),
    ):
        for name in ("rank", "nullity", "dimension"):
            assert getattr(other, name) == getattr(report, name)
        np.testing.assert_array_equal(other.unique, report.unique[places])
        for ends, expected in ((other.lower, report.lower), (other.upper, report.upper)):
            np.testing.assert_allclose(ends, expected[places] * force, atol=1e-6 * force)


@pytest.mark.parametrize("seed", range(6))
def test_small_networks_and_the_linear_program_tell_the_same(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Integers, so that many contacts are held by others and many just not."""
    rng = np.random.default_rng(seed)
    rows = rng.integers(-1, 2, (14, 6)).astype(float)
    B = network.equilibrated(sp.csr_array(rows[np.abs(rows).any(axis=1)]))[0]
    loaded = rng.random(B.shape[0]) < 0.2
    can, rank = network.loadable_of(B, loaded, 1e-9)
    monkeypatch.setattr(network, "DENSE_LIMIT", 0)
    monkeypatch.setattr(network, "rank_of", lambda B, tol: int(np.linalg.matrix_rank(B.toarray())))
    expected, bound = network.loadable_of(B, loaded, 1e-9)
    np.testing.assert_array_equal(can, expected)
    assert rank == bound
