"""Lemke's method: vertices, rays and limits."""

from __future__ import annotations

import numpy as np
import pytest

import cdopt


def test_it_ends_at_a_vertex_of_the_beam_s_solutions() -> None:
    solution = cdopt.ClassicCD(cdopt.bank.load("beam-uniform").step).solve("lcp")
    np.testing.assert_allclose(solution.f, [0.0, 10.0, 0.0], atol=1e-12)


def test_vertices_load_no_more_contacts_than_there_are_equations() -> None:
    step = cdopt.bank.load("pyramid-hooke").step
    solution = cdopt.ClassicCD(step).solve("lcp")
    assert np.count_nonzero(solution.f) <= np.linalg.matrix_rank(step.B.toarray())


def test_a_contact_that_acts_on_nothing_and_must_open_is_infeasible() -> None:
    step = cdopt.ContactStep(np.eye(1), [[1.0], [0.0]], [0.0, -1e-3], [0.0], [-1.0], 1e-3)
    assert "infeasible" in cdopt.ClassicCD(step).solve("lcp", check=False).status


def test_large_problems_are_refused_before_any_work() -> None:
    cd = cdopt.ClassicCD(cdopt.bank.load("pyramid-hooke").step)
    with pytest.raises(cdopt.Unsupported, match="at most 100") as refusal:
        cd.solve("lcp", max_contacts=100)
    assert "pgs" in refusal.value.alternatives


def test_starts_are_not_used() -> None:
    cd = cdopt.ClassicCD(cdopt.bank.load("beam-uniform").step)
    warm = cd.solve("lcp", warm_start=cd.solve("pgs"))
    assert warm.provenance["warm_start"] == "not used by this backend"
