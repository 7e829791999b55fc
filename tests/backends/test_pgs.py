"""Projected Gauss–Seidel: the order of visits, and the colours in which they may go in threads."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st

import cdopt
from cdopt.backends.gauss_seidel import coloured
from cdopt.backends.network_problem import Factors, network_problem
from cdopt.problem import rigid_data

COLOURS = 64  # at most


@pytest.fixture(scope="module")
def crystal() -> cdopt.ClassicCD:
    return cdopt.ClassicCD(cdopt.bank.load("pyramid-falling").step)


@pytest.mark.parametrize(
    ("name", "order", "forces"),
    [
        ("beam-uniform", "given", (5 / 3, 20 / 3, 5 / 3)),
        ("beam-uniform", "coloured", (5 / 3, 20 / 3, 5 / 3)),
        ("beam-uniform", (0, 2, 1), (10 / 3, 10 / 3, 10 / 3)),
        ("beam-uniform", (1, 0, 2), (0.0, 10.0, 0.0)),
        ("beam-uniform", np.array([1, 2, 0]), (0.0, 10.0, 0.0)),
        ("table", "coloured", (20 / 7, 15 / 7, 20 / 7, 15 / 7)),
        ("table", "given", (20 / 7, 15 / 7, 20 / 7, 15 / 7)),
        ("table", "reversed", (15 / 7, 20 / 7, 15 / 7, 20 / 7)),
        ("table", (0, 2, 1, 3), (45 / 14, 25 / 14, 45 / 14, 25 / 14)),
        ("table", (1, 0, 2, 3), (2.5, 2.5, 2.5, 2.5)),
    ],
)
def test_the_order_of_visits_selects_the_forces(
    name: str, order: object, forces: tuple[float, ...]
) -> None:
    """Visiting the middle first gives it all the weight: section 8.1 of Olsen & Kamrin."""
    solution = cdopt.ClassicCD(cdopt.bank.load(name).step).solve("pgs", order=order, accuracy=1e-12)
    assert solution.ok
    np.testing.assert_allclose(solution.f, forces, atol=1e-10)


def test_the_inertia_of_the_platform_selects_too() -> None:
    step = cdopt.bank.load("beam-uniform").step
    for inertia in (0.5, 2.0):
        other = cdopt.ClassicCD(step.replace(M=step.M.toarray() * np.diag([1.0, inertia])))
        solution = other.solve("pgs")
        assert solution.ok
        assert abs(solution.f[1] - 20 / 3) > 0.5


@pytest.mark.parametrize("order", ["given", "coloured"])
def test_over_relaxation_saves_sweeps(order: str, crystal: cdopt.ClassicCD) -> None:
    plain = crystal.solve("pgs", order=order)
    faster = crystal.solve("pgs", order=order, relaxation=1.5)
    assert faster.ok
    assert faster.iterations < 0.7 * plain.iterations


def test_shuffles_differ_by_seed(crystal: cdopt.ClassicCD) -> None:
    answers = [crystal.solve("pgs", order="shuffled", seed=seed) for seed in (0, 1)]
    assert all(answer.ok for answer in answers)
    assert not np.array_equal(answers[0].f, answers[1].f)
    again = crystal.solve("pgs", order="shuffled", seed=1)
    np.testing.assert_array_equal(again.f, answers[1].f)


def test_sweeps_end_where_no_force_moves_the_gap_that_is_left() -> None:
    """The second contact overlaps and moves nothing: each sweep repeats the last one."""
    step = cdopt.ContactStep([[1.0]], [[1.0], [0.0]], [0.0, -0.01], [0.0], [-8.0], 2.0**-10,
                             dof_body=[0])  # fmt: skip
    solution = cdopt.ClassicCD(step).solve("pgs", check=False)
    assert not solution.claimed
    assert solution.status.startswith("stopped at residual 1.0e+00")
    assert solution.iterations <= 3


def test_an_unmet_accuracy_beyond_round_off_is_no_claim() -> None:
    solution = cdopt.ClassicCD(cdopt.bank.load("pyramid-hooke").step).solve("pgs", accuracy=1e-20)
    assert not solution.claimed
    assert solution.ok


# --- colours -------------------------------------------------------------------------------


def matrix(rng: np.random.Generator, nc: int, m: int, density: float) -> sp.csr_array:
    entries = rng.standard_normal((nc, m)) * (rng.random((nc, m)) < density)
    return sp.csr_array(entries)


@given(
    st.integers(0, 2**32), st.integers(0, 60), st.integers(1, 30), st.floats(0.0, 0.4),
    st.booleans(), st.integers(1, 6),
)  # fmt: skip
def test_no_two_contacts_of_a_colour_meet_in_a_body(
    seed: int, nc: int, m: int, density: float, same: bool, size: int
) -> None:
    """Neither writes what the other reads or writes; and every contact has its one place."""
    rng = np.random.default_rng(seed)
    R = matrix(rng, nc, m, density)
    S = R if same else matrix(rng, nc, m, density)
    block = rng.permutation(np.arange(m) // size)
    step = Factors(R, S, np.ones(nc))
    order, edges = coloured(step, block)
    np.testing.assert_array_equal(np.sort(order), np.arange(nc))
    member = (block[:, None] == np.unique(block)[None, :]).astype(int)
    read, written = [(abs(A.toarray()) > 0.0) @ member > 0 for A in (R, S)]
    touched = (read | written).astype(int)
    meet = written.astype(int) @ touched.T
    for first, last in itertools.pairwise(edges):
        members = order[first:last]
        assert members.size
        assert (np.diff(members) > 0).all()
        among = meet[np.ix_(members, members)]
        assert not (among - np.diag(np.diag(among))).any()
    assert edges[-1] == nc or edges.size - 1 == COLOURS


def test_spheres_have_as_many_colours_as_neighbours() -> None:
    step = cdopt.bank.load("pyramid-hooke:n=8").step
    order, edges = coloured(network_problem(rigid_data(step)).factors, step.dof_body)
    pairs = step.bodies
    moving = np.unique(step.dof_body)
    most = max(int((pairs == body).any(axis=1).sum()) for body in moving)
    assert edges.size - 1 == most == 12
    assert edges[-1] == step.nc
    for first, last in itertools.pairwise(edges):
        bodies = pairs[order[first:last]].ravel()
        bodies = bodies[np.isin(bodies, moving)]
        assert np.unique(bodies).size == bodies.size


def test_a_body_with_very_many_contacts_is_visited_as_given() -> None:
    """On one body no two contacts share a colour, and after 64 colours the rest follow."""
    cd = cdopt.ClassicCD(cdopt.bank.load("supports", n=COLOURS + 10).step)
    order, edges = coloured(network_problem(cd.data).factors, np.zeros(cd.step.nv))
    assert edges.size - 1 == COLOURS
    assert edges[-1] == COLOURS
    np.testing.assert_array_equal(order, np.arange(cd.step.nc))
    one, other = cd.solve("pgs", order="coloured"), cd.solve("pgs", order="given")
    assert one.ok
    assert one.iterations == other.iterations
    np.testing.assert_array_equal(one.f, other.f)
