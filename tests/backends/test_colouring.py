"""Contacts in colours, and projected Gauss–Seidel that visits them so."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import scipy.sparse as sp
from conftest import random_step
from hypothesis import given
from hypothesis import strategies as st

import cdopt
from cdopt.backends.native import ScaledStep, scaled_step
from cdopt.backends.pgs import coloured
from cdopt.problem import RigidStepData

COLOURS = 64  # at most

STEPS = [
    name
    for name in cdopt.bank.names()
    if cdopt.bank.manifest(name).kind == "step" and cdopt.bank.manifest(name).feasible
]
CRAWLS = {"fclib-capsules", "fclib-spheres"}  # singular values of N over nine orders and more


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
    step = ScaledStep(R, S, np.zeros(nc), np.ones(nc), np.ones(nc))
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
    order, edges = coloured(scaled_step(RigidStepData(step)), step.dof_body)
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
    order, edges = coloured(scaled_step(cd.data), np.zeros(cd.step.nv))
    assert edges.size - 1 == COLOURS
    assert edges[-1] == COLOURS
    np.testing.assert_array_equal(order, np.arange(cd.step.nc))
    one, other = cd.solve("pgs", order="coloured"), cd.solve("pgs", order="given")
    assert one.ok
    assert one.iterations == other.iterations
    np.testing.assert_array_equal(one.f, other.f)


@pytest.mark.parametrize("name", sorted(set(STEPS) - CRAWLS))
def test_the_bank_is_certified_in_coloured_order(name: str) -> None:
    cd = cdopt.ClassicCD(cdopt.bank.load(name).step)
    ours, given = cd.solve("pgs", order="coloured"), cd.solve("pgs")
    assert ours.claimed
    assert ours.ok, ours.certificate
    np.testing.assert_allclose(ours.gap / cd.data.speed, given.gap / cd.data.speed, atol=1e-5)


@pytest.mark.parametrize(
    ("name", "order", "forces"),
    [
        ("beam-uniform", "coloured", (5 / 3, 20 / 3, 5 / 3)),
        ("table", "coloured", (20 / 7, 15 / 7, 20 / 7, 15 / 7)),
        ("table", "given", (20 / 7, 15 / 7, 20 / 7, 15 / 7)),
        ("table", "reversed", (15 / 7, 20 / 7, 15 / 7, 20 / 7)),
        ("table", (0, 2, 1, 3), (45 / 14, 25 / 14, 45 / 14, 25 / 14)),
        ("table", (1, 0, 2, 3), (2.5, 2.5, 2.5, 2.5)),
    ],
)
def test_the_order_selects_the_forces_that_are_written_down(name, order, forces) -> None:
    solution = cdopt.ClassicCD(cdopt.bank.load(name).step).solve("pgs", order=order, accuracy=1e-12)
    assert solution.ok
    np.testing.assert_allclose(solution.f, forces, atol=1e-10)


@pytest.mark.parametrize("seed", range(4))
def test_coupled_masses_and_matrices_known_by_products_agree(seed: int) -> None:
    step = random_step(seed)
    alone = cdopt.ContactStep.from_delassus(step.N, step.p_vec, step.dt)
    full, known = (
        cdopt.ClassicCD(s).solve("pgs", order="coloured", accuracy=1e-11) for s in (step, alone)
    )
    assert full.ok
    assert known.ok
    scale = cdopt.ClassicCD(step).data.force
    np.testing.assert_allclose(full.f / scale, known.f / scale, atol=1e-6)


def test_the_settings_and_the_start_are_those_of_any_order() -> None:
    cd = cdopt.ClassicCD(cdopt.bank.load("pyramid-falling").step)
    plain = cd.solve("pgs", order="coloured", history=True)
    assert plain.raw.residuals.shape == (plain.iterations,)
    assert plain.provenance["settings"]["order"] == "coloured"
    assert cd.solve("pgs", order="coloured", relaxation=1.5).iterations < 0.7 * plain.iterations
    warm = cd.solve("pgs", order="coloured", warm_start=plain)
    assert warm.iterations < 0.1 * plain.iterations
    stopped = cd.solve("pgs", order="coloured", max_sweeps=3)
    assert (stopped.status, stopped.iterations, stopped.f) == ("iteration limit", 3, None)
