from __future__ import annotations

import numpy as np
import pytest
from conftest import random_step

import cdopt
from cdopt._util.errors import InvalidInput, SolveFailed

STEPS = [
    name
    for name in cdopt.bank.names()
    if cdopt.bank.manifest(name).kind == "step" and cdopt.bank.manifest(name).feasible
]


@pytest.mark.parametrize("name", STEPS)
def test_the_bank_is_solved_to_round_off(name: str) -> None:
    cd = cdopt.ClassicCD(cdopt.bank.load(name).step)
    ours, theirs = cd.solve("lcp"), cd.solve("apgd")
    assert ours.claimed
    assert ours.status == "solved"
    speed = (
        cd.data.speed.max(initial=0.0) or 1.0
    )  # the capsules' N is singular but for 3e-11 of its norm
    errors = [r.value * r.scale / speed for r in ours.certificate if r.unit == "m/s"]
    assert max(errors, default=0.0) < 1e-10, ours.certificate
    assert ours.certificate.worst < 1e-9, ours.certificate
    np.testing.assert_allclose(ours.gap / cd.data.speed, theirs.gap / cd.data.speed, atol=1e-5)


@pytest.mark.parametrize("seed", range(8))
def test_random_steps(seed: int) -> None:
    step = random_step(seed, nc=30, nv=12)
    solution = cdopt.ClassicCD(step).solve("lcp")
    assert solution.claimed
    assert solution.certificate.worst < 1e-10


def test_it_ends_at_a_vertex_of_the_beam_s_solutions() -> None:
    solution = cdopt.ClassicCD(cdopt.bank.load("beam-uniform").step).solve("lcp")
    np.testing.assert_allclose(solution.f, [0.0, 10.0, 0.0], atol=1e-12)


def test_vertices_load_no_more_contacts_than_there_are_equations() -> None:
    step = cdopt.bank.load("pyramid-hooke").step
    solution = cdopt.ClassicCD(step).solve("lcp")
    assert np.count_nonzero(solution.f) <= np.linalg.matrix_rank(step.B.toarray())


def test_two_runs_are_equal() -> None:
    cd = cdopt.ClassicCD(cdopt.bank.load("crystal-2d").step)
    np.testing.assert_array_equal(cd.solve("lcp").f, cd.solve("lcp").f)


def test_a_jammed_body_ends_on_a_ray() -> None:
    cd = cdopt.ClassicCD(cdopt.bank.load("squeezed").step)
    with pytest.raises(SolveFailed, match="infeasible: secondary ray") as failure:
        cd.solve("lcp")
    assert failure.value.certificate is not None
    left = cd.solve("lcp", check=False)
    assert left.f is None
    assert not left.claimed


def test_a_contact_that_acts_on_nothing_and_must_open_is_infeasible() -> None:
    step = cdopt.ContactStep(np.eye(1), [[1.0], [0.0]], [0.0, -1e-3], [0.0], [-1.0], 1e-3)
    assert "infeasible" in cdopt.ClassicCD(step).solve("lcp", check=False).status


def test_large_problems_are_refused_before_any_work() -> None:
    cd = cdopt.ClassicCD(cdopt.bank.load("pyramid-hooke").step)
    with pytest.raises(cdopt.Unsupported, match="at most 100") as refusal:
        cd.solve("lcp", max_contacts=100)
    assert "pgs" in refusal.value.alternatives


def test_the_pivot_limit_is_no_claim() -> None:
    stopped = cdopt.ClassicCD(cdopt.bank.load("pyramid-hooke").step).solve("lcp", max_pivots=3)
    assert not stopped.claimed
    assert stopped.status == "pivot limit"
    assert stopped.f is None


def test_starts_are_not_used() -> None:
    cd = cdopt.ClassicCD(cdopt.bank.load("beam-uniform").step)
    warm = cd.solve("lcp", warm_start=cd.solve("pgs"))
    assert warm.provenance["warm_start"] == "not used by this backend"


@pytest.mark.parametrize("field", ["max_contacts", "max_pivots", "accuracy"])
def test_bad_settings_are_refused_by_name(field: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        cdopt.backends.resolve("lcp", **{field: -1})
    assert caught.value.argument == field
