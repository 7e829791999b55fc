"""cdopt's own solvers of rigid steps: one motion and load, each start, limit and setting."""

from __future__ import annotations

import functools
import logging

import numpy as np
import pytest
from conftest import FEASIBLE_STEPS, QUICK_STEPS, beam, random_step

import cdopt
from cdopt._util.errors import SolveFailed

CRAWLS = {"fclib-capsules", "fclib-spheres"}  # singular values of N over nine orders and more
SOLVERS = {"pgs": {}, "pgs, coloured": {"order": "coloured"}, "apgd": {}, "lcp": {}}
ITERATIVE = [name for name in SOLVERS if name != "lcp"]
LIMITS = {"pgs": "max_sweeps", "apgd": "max_iterations"}


def solve(cd: cdopt.ClassicCD, solver: str, **options: object) -> cdopt.StepSolution:
    return cd.solve(solver.partition(",")[0], **{**SOLVERS[solver], **options})


def limit(solver: str) -> str:
    return LIMITS[solver.partition(",")[0]]


@pytest.fixture(scope="module")
def falling() -> cdopt.ClassicCD:
    return cdopt.ClassicCD(cdopt.bank.load("pyramid-falling").step)


@functools.cache
def reference(name: str) -> cdopt.StepSolution:
    """By Clarabel; by the direct method where it does not reach the accuracy either."""
    step = cdopt.bank.load(name).step
    if name in CRAWLS:
        return cdopt.ClassicCD(step).solve("lcp")
    form = "force" if isinstance(step, cdopt.DelassusStep) else "velocity"
    return cdopt.ClassicCD(step, form).solve("clarabel", accuracy=1e-11, check=False)


@pytest.mark.parametrize(
    ("name", "solver"),
    [
        pytest.param(n, s, marks=[pytest.mark.slow] * (n not in QUICK_STEPS))
        for n in FEASIBLE_STEPS
        for s in SOLVERS
        if not (n in CRAWLS and s.startswith("pgs"))
    ],
)
def test_the_bank_is_solved_with_the_motion_and_load_of_an_interior_point(
    name: str, solver: str
) -> None:
    cd, expected = cdopt.ClassicCD(cdopt.bank.load(name).step), reference(name)
    step, data, solution = cd.step, cd.data, solve(cd, solver)
    assert solution.claimed
    assert solution.status == "solved"
    assert solution.certificate.worst < (1e-9 if solver == "lcp" else 1e-6), solution.certificate
    np.testing.assert_allclose(solution.gap / data.speed, expected.gap / data.speed, atol=1e-5)
    if solution.v_next is not None:
        unit = data.dof_speed
        np.testing.assert_allclose(solution.v_next / unit, expected.v_next / unit, atol=1e-5)
        momentum = data.inertia.diagonal * unit / step.dt
        loads = [step.B.T @ s.f / momentum for s in (solution, expected)]
        np.testing.assert_allclose(*loads, atol=1e-5)


@pytest.mark.parametrize("name", sorted(CRAWLS & set(FEASIBLE_STEPS)))
def test_where_it_crawls_it_says_so(name: str) -> None:
    crawled = cdopt.ClassicCD(cdopt.bank.load(name).step).solve("pgs", max_sweeps=20_000)
    assert not crawled.claimed
    assert not crawled.ok
    assert crawled.certificate.worst < 1e-2


@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.parametrize("seed", range(4))
def test_coupled_masses_and_matrices_known_by_products_agree(seed: int, solver: str) -> None:
    step = random_step(seed)
    alone = cdopt.ContactStep.from_delassus(step.N, step.p_vec, step.dt)
    full, known = (solve(cdopt.ClassicCD(s), solver, accuracy=1e-11) for s in (step, alone))
    assert full.ok
    assert known.ok
    data = cdopt.ClassicCD(step).data
    np.testing.assert_allclose(full.gap / data.speed, known.gap / data.speed, atol=1e-7)
    if solver != "lcp":
        np.testing.assert_allclose(full.f / data.force, known.f / data.force, atol=1e-6)


@pytest.mark.parametrize("solver", ITERATIVE)
def test_a_warm_start_saves_iterations_and_follows_names(
    solver: str, falling: cdopt.ClassicCD
) -> None:
    named = falling.step.replace(contact_ids=np.arange(falling.step.nc))
    earlier = solve(cdopt.ClassicCD(named), solver)
    order = np.random.default_rng(0).permutation(named.nc)
    today = cdopt.ClassicCD(named.select(order))
    warm = solve(today, solver, warm_start=earlier)
    assert warm.iterations < 0.1 * solve(today, solver).iterations
    assert warm.provenance["warm_start"] == "used"


@pytest.mark.parametrize("solver", ITERATIVE)
def test_history_and_log(
    solver: str, falling: cdopt.ClassicCD, caplog: pytest.LogCaptureFixture,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    with caplog.at_level(logging.INFO, logger="cdopt.backends"):
        kept = solve(falling, solver, history=True)
    residuals = kept.raw.residuals
    assert residuals.shape == (kept.iterations,)
    assert residuals[-1] <= 1e-8 < residuals[0]
    assert not residuals.flags.writeable
    assert caplog.records[-1].message.startswith(f"solved after {kept.iterations}")
    assert capsys.readouterr().out == ""
    assert solve(falling, solver, verbose=True).raw is None
    assert "solved after" in capsys.readouterr().out


@pytest.mark.parametrize("solver", ITERATIVE)
def test_the_limit_leaves_an_iterate_and_no_answer(solver: str, falling: cdopt.ClassicCD) -> None:
    stopped = solve(falling, solver, **{limit(solver): 20})
    assert not stopped.claimed
    assert (stopped.status, stopped.iterations, stopped.f) == ("iteration limit", 20, None)
    assert stopped.iterate.forces.any()
    longer = solve(falling, solver, **{limit(solver): 100})
    assert longer.certificate["penetration"] < stopped.certificate["penetration"]


@pytest.mark.parametrize("solver", SOLVERS)
def test_a_jammed_body_is_proven_so(solver: str) -> None:
    expected = "infeasible: secondary ray" if solver == "lcp" else "iteration limit"
    cd = cdopt.ClassicCD(cdopt.bank.load("squeezed").step)
    with pytest.raises(SolveFailed, match=expected) as failure:
        solve(cd, solver)
    assert failure.value.certificate is not None
    stopped = solve(cd, solver, check=False)
    assert stopped.f is None
    assert not stopped.claimed


@pytest.mark.parametrize("solver", SOLVERS)
def test_constraints_of_the_user_are_refused(solver: str) -> None:
    cd = cdopt.ClassicCD(beam())
    with pytest.raises(cdopt.Unsupported, match="no constraints beyond"):
        solve(cd.with_constraints(cd.forces <= 4), solver)


# --- Lemke's method: vertices, rays and limits ---------------------------------------------


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
