"""Bounds of forces: analytic cases, brute force, exact arithmetic, the whole bank."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from judges import rays, step_on, vertices
from scipy.optimize import linprog

import cdopt
from cdopt.hyperstatic import exact_bounds
from cdopt.hyperstatic.bounds import CERTIFIED

STEPS = [name for name in cdopt.bank.names() if cdopt.bank.load(name).step is not None]
FEASIBLE = [name for name in STEPS if cdopt.bank.manifest(name).feasible]
EXACT = ("beam-uniform", "supports", "table", "tripod", "rank-deficient", "duplicated-contacts",
         "beam-middle-open", "zero-contacts")  # fmt: skip


def report_of(name, **options):
    return cdopt.indeterminacy(cdopt.bank.load(name).step, **options)


def test_the_beam():
    report = report_of("beam-uniform")
    assert (report.rank, report.nullity, report.dimension) == (2, 1, 1)
    np.testing.assert_allclose(report.lower, [0, 0, 0], atol=1e-9)
    np.testing.assert_allclose(report.upper, [5, 10, 5], rtol=1e-9)
    assert not report.unique.any()
    assert report.names == ["left", "middle", "right"]


@pytest.mark.parametrize("n", [2, 3, 4, 7, 30])
def test_n_supports_against_statics(n):
    """Support i at x alone with the far end: (L/2) / (L/2 + |x|) of the weight, at most."""
    report = report_of(f"supports:n={n}")
    x = np.abs(np.linspace(-0.5, 0.5, n))
    assert report.nullity == n - 2
    if n == 2:
        assert report.unique.all()
        np.testing.assert_allclose(report.upper, [5, 5], rtol=1e-9)
        return
    np.testing.assert_allclose(report.upper, 10 * 0.5 / (0.5 + x), rtol=1e-9)
    np.testing.assert_allclose(report.lower, 0, atol=1e-8)


def test_the_table_and_the_tripod():
    table, tripod = report_of("table"), report_of("tripod")
    assert table.nullity == 1
    np.testing.assert_allclose(table.upper, 5, rtol=1e-9)
    np.testing.assert_allclose(table.lower, 0, atol=1e-9)
    assert tripod.nullity == 0
    assert tripod.unique.all()
    np.testing.assert_allclose(tripod.lower, 10 / 3, rtol=1e-9)
    np.testing.assert_array_equal(tripod.lower, tripod.upper)


def test_an_eccentric_load_raises_the_lower_bound():
    """A table loaded near one corner: that leg cannot be idle, the opposite one can carry little.

    With the load at (a, a) of the half width: f1 − f3 = W a along its diagonal, f2 = f4 = t.
    """
    a, legs = 0.4, np.array([[1, 1], [-1, 1], [-1, -1], [1, -1]], float)
    B = np.column_stack([np.ones(4), legs])
    step = cdopt.ContactStep(
        M=np.eye(3), B=B, phi=np.zeros(4), v=np.zeros(3), F_ext=[-10, -4, -4], dt=1.0
    )
    report = cdopt.indeterminacy(step)
    np.testing.assert_allclose(report.lower, [10 * a, 0, 0, 0], atol=1e-8)
    top = 10 * (1 - a) / 2
    np.testing.assert_allclose(report.upper, [10 * a + top, top, top, top], rtol=1e-8)


def test_wedged_contacts_have_no_upper_bound():
    """A ball of weight 10 in a slot between two walls: their forces are equal and endless."""
    B = np.array([[0.0, 1.0], [1.0, 0.0], [-1.0, 0.0]])
    report = cdopt.indeterminacy(step_on(B, [10.0, 0.0, 0.0]))
    np.testing.assert_array_equal(report.unbounded, [False, True, True])
    np.testing.assert_array_equal(report.unique, [True, False, False])
    assert np.isinf(report.upper[1:]).all()
    (ray,) = report.rays
    np.testing.assert_allclose(ray, [0, 1, 1], atol=1e-12)
    assert np.isnan(report.position([10.0, 3.0, 3.0])).all()
    assert report.outside([10.0, 1e9, 1e9]).max() <= 1e-9
    assert report.outside([10.0, -1.0, 1e9])[1] == pytest.approx(1.0)


def test_open_contacts_carry_nothing():
    report = report_of("beam-middle-open")
    assert list(report.closed) == [True, False, True]
    assert report.unique.all()
    np.testing.assert_allclose(report.lower, [5, 0, 5], atol=1e-9)
    assert [report.verdict_of(i) for i in range(3)] == ["unique", "open", "unique"]


def test_a_closed_contact_that_cannot_be_loaded():
    """A ball on the floor that just touches a wall: nothing can press it there.

    Closed, not loaded and not loadable are three different things.
    """
    report = cdopt.indeterminacy(step_on([[0.0, 1.0], [1.0, 0.0]], [10.0, 0.0]))
    assert report.closed.all()
    np.testing.assert_array_equal(report.loaded, [True, False])
    np.testing.assert_array_equal(report.loadable, [True, False])
    assert report.unique.all()


@pytest.mark.parametrize("name", FEASIBLE)
def test_every_bound_of_the_bank_is_certified(name):
    report = report_of(name, jobs=2)
    assert report.ok, report.failures
    assert report.bounded.all()
    assert report.residual.max(initial=0.0) <= CERTIFIED
    assert report.outside(report.force).max(initial=0.0) <= 1e-8 * report.force.max(initial=1e-300)
    known = cdopt.bank.load(name).references
    if "nullity" in known and report.closed.all():
        assert report.nullity == known["nullity"]


def test_an_infeasible_step_has_no_forces_to_bound():
    with pytest.raises(cdopt.SolveFailed) as caught:
        report_of("squeezed")
    assert caught.value.proof is not None


@pytest.mark.parametrize("n", [5, 10])
@pytest.mark.parametrize("material", ["hooke", "hertz", "species"])
def test_settled_pyramids(n, material):
    report = report_of(f"pyramid-{material}:n={n}", contacts=[])
    assert report.nullity == {5: 70, 10: 765}[n]
    assert report.closed.all()
    assert not report.unique.any()


@pytest.mark.slow
def test_all_bounds_of_a_pyramid_of_ten_and_the_mask_of_twenty():
    ten = report_of("pyramid-hooke:n=10", jobs=2)
    assert ten.ok
    assert ten.bounded.all()
    twenty = report_of("pyramid-hooke:n=20", contacts=4, jobs=2)
    assert twenty.ok
    assert (twenty.nullity, twenty.rank) == (7030, 7410)
    assert not twenty.unique.any()


@pytest.mark.parametrize("name", EXACT)
def test_against_exact_arithmetic(name):
    report = report_of(name)
    exact = exact_bounds(report)
    assert exact.nullity == report.nullity
    assert exact.error(report) <= 1e-11


def test_exact_arithmetic_refuses_what_it_cannot_do():
    with pytest.raises(cdopt.Unsupported, match="40 closed contacts"):
        exact_bounds(report_of("ten-orders", contacts=[]))
    with pytest.raises(cdopt.Unsupported, match="N alone"):
        exact_bounds(report_of("supports-delassus", contacts=[]))


def test_the_bounds_are_those_of_plain_linear_programs():
    """The same, by SciPy, without any elimination, on a network with unique forces in it."""
    step = cdopt.bank.load("pyramid-falling").step
    report = cdopt.indeterminacy(step)
    index = np.flatnonzero(report.closed)
    B = step.B[index].toarray()
    load = B.T @ report.force[index]
    for place in range(0, index.size, 4):
        for sign, bound in ((1.0, report.lower), (-1.0, report.upper)):
            cost = np.zeros(index.size)
            cost[place] = sign
            answer = linprog(cost, A_eq=B.T, b_eq=load, bounds=(0, None), method="highs")
            assert answer.status == 0
            found = sign * answer.fun
            assert bound[index[place]] == pytest.approx(found, abs=1e-6 * report.force.max())


WHOLE = st.integers(-3, 3)


@st.composite
def networks(draw):
    nv = draw(st.integers(1, 3))
    nc = draw(st.integers(2, 6))
    B = np.array(
        draw(st.lists(st.lists(WHOLE, min_size=nv, max_size=nv), min_size=nc, max_size=nc))
    )
    forces = np.array(draw(st.lists(st.integers(0, 3), min_size=nc, max_size=nc)), float)
    return B.astype(float), forces


@given(networks())
def test_against_every_vertex_of_small_networks(drawn):
    """Small whole numbers make degenerate networks: repeated, opposite and vanishing rows."""
    B, forces = drawn
    step = step_on(B, forces)
    report = cdopt.indeterminacy(step)
    assert report.ok, report.failures
    closed = report.closed
    load = B.T @ forces
    corners = vertices(B[closed], load)
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


@given(networks(), st.sampled_from(["clarabel", "osqp", "pgs", "apgd", "lcp"]))
def test_certified_forces_lie_inside(drawn, backend):
    """Inside their bounds, but for what they miss of admissibility times the bounds' duals."""
    B, forces = drawn
    step = step_on(B, forces)
    solution = cdopt.ClassicCD(step).solve(backend, check=False)
    assume(solution.f is not None and solution.ok)
    report = cdopt.indeterminacy(step)
    slack = np.nan_to_num(report.slack(solution.f), nan=np.inf)
    loose = ~report.unique
    excess = report.outside(solution.f) - slack
    scale = max(float(report.force.max()), 1e-3)
    assert excess[loose].max(initial=-1.0) <= 1e-6 * scale
    compatible = cdopt.CompatibleCD(step).solve("newton", classic=report.classic)
    assert report.outside(compatible.f).max() <= 1e-7 * scale


@settings(max_examples=40)
@given(networks(), st.floats(1e-6, 1e6), st.floats(1e-6, 1e6))
def test_units_do_not_matter(drawn, length, force):
    B, forces = drawn
    report = cdopt.indeterminacy(step_on(B, forces))
    other = cdopt.indeterminacy(step_on(B * length, forces * force))
    assert (other.rank, other.nullity, other.dimension) == (
        report.rank, report.nullity, report.dimension,
    )  # fmt: skip
    np.testing.assert_array_equal(other.unique, report.unique)
    np.testing.assert_allclose(other.lower, report.lower * force, atol=1e-6 * force)


@settings(max_examples=40)
@given(networks(), st.randoms())
def test_the_order_of_contacts_does_not_matter(drawn, random):
    B, forces = drawn
    order = list(range(len(B)))
    random.shuffle(order)
    report = cdopt.indeterminacy(step_on(B, forces))
    shuffled = cdopt.indeterminacy(step_on(B[order], forces[order]))
    np.testing.assert_array_equal(shuffled.unique, report.unique[order])
    np.testing.assert_allclose(shuffled.lower, report.lower[order], atol=1e-6)
    np.testing.assert_allclose(shuffled.upper, report.upper[order], atol=1e-6)
