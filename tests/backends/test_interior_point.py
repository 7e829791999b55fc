"""The interior point: rigid steps, elastic steps and trusses, and what has no solution."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

from cdopt.backends import interior_point, potential_newton
from cdopt.backends.linalg import network
from cdopt.backends.network_problem import IterationResult, NetworkProblem
from cdopt.problem.contact_law import PowerLaw

TOL, LIMIT = 1e-12, 200
POWERS = [1.5, 2.0, 2.5, 4.0]
seeds = st.integers(0, 10_000)


pytestmark = pytest.mark.usefixtures("one_thread")


# --- problems ------------------------------------------------------------------------------


def random_rows(seed: int, nc: int, m: int, share: float) -> sp.csr_array:
    """B (nc, m) with this share of its entries, at least one to a row."""
    random = np.random.default_rng(seed)
    kept = random.random((nc, m)) < share
    kept[np.arange(nc), random.integers(0, m, nc)] = True
    return sp.csr_array(np.where(kept, random.standard_normal((nc, m)), 0.0))


def couples_of(seed: int, nb: int, nc: int, size: int = 3) -> tuple[sp.csr_array, np.ndarray]:
    """B of contacts between bodies anywhere, and the body of each dof."""
    random = np.random.default_rng(seed)
    B = sp.lil_array((nc, size * nb))
    for i in range(nc):
        for sign, b in zip((1.0, -1.0), random.choice(nb, 2, replace=False), strict=True):
            normal = random.standard_normal(size)
            B[i, size * b + np.arange(size)] = sign * normal / np.linalg.norm(normal)
    return sp.csr_array(B), np.repeat(np.arange(nb), size)


def rigid(
    B: sp.csr_array, p: np.ndarray, body: np.ndarray | None = None,
    mass: sp.csr_array | None = None,
) -> NetworkProblem:  # fmt: skip
    """A rigid step of unit masses, unless told otherwise."""
    S = sp.csr_array(sp.eye_array(B.shape[1])) if mass is None else mass
    net = network(sp.csr_array(B, copy=True), body, S)
    mobility = np.asarray(B.multiply(B) @ (1.0 / S.diagonal()))
    return NetworkProblem(net, np.zeros(net.m), p, mobility)


def elastic(posed: NetworkProblem, law: PowerLaw) -> NetworkProblem:
    """The same step with contacts that give."""
    return dataclasses.replace(posed, mobility=np.ones(posed.p.size), law=law)


def truss(
    B: sp.csr_array, load: np.ndarray, law: PowerLaw, body: np.ndarray | None = None
) -> NetworkProblem:
    """A truss without inertia."""
    net = network(sp.csr_array(B, copy=True), body)
    return NetworkProblem(
        net, net.arranged(load), np.zeros(net.nc), np.ones(net.nc), law
    )  # fmt: skip


def forces(posed: NetworkProblem) -> np.ndarray:
    """Forces of the contacts as they were given."""
    return check_solved(posed).f


def feasible_gaps(
    seed: int, B: sp.csr_array, overlapping: bool = False, room: float = 0.05
) -> np.ndarray:
    """Gap rates (nc,) that some motion makes nonnegative, half of them just ``room`` there."""
    random = np.random.default_rng(seed)
    slack = room + random.random(B.shape[0]) * (random.random(B.shape[0]) < 0.5)
    if overlapping:
        slack -= 0.5 * np.asarray(B @ np.asarray(B.T @ np.ones(B.shape[0])))
    return slack - np.asarray(B @ random.standard_normal(B.shape[1]))


def solved(posed: NetworkProblem, near: np.ndarray | None = None) -> IterationResult:
    cold = interior_point.far_start(posed)
    begin = cold if near is None else interior_point.start_from(posed, near)
    return interior_point.solve(posed, begin, TOL, LIMIT)


def check(posed: NetworkProblem, run: IterationResult, tol: float = 1e-10) -> None:
    """The conditions of optimality by dense algebra, relative to the largest terms."""
    B = posed.net.B.toarray()
    S = 0.0 * run.w if posed.net.mass is None else posed.net.mass.toarray() @ run.w
    scale = 1.0 + np.abs(run.f).max(initial=0.0)
    balance = posed.load + S - B.T @ run.f
    assert np.abs(balance).max(initial=0.0) <= tol * scale
    gap = B @ run.w + posed.p
    assert run.f.min(initial=0.0) >= 0.0
    if posed.law is None:
        assert gap.min(initial=0.0) >= -tol * scale
        assert np.abs(np.minimum(posed.mobility * run.f, gap)).max(initial=0.0) <= tol * scale
        return
    stretch = scale * posed.law.stiffness.max() / posed.law.stiffness.min()
    c = posed.law.overlap(run.f)
    assert np.all(c >= -gap - tol * stretch)
    assert np.abs(np.minimum(run.f, gap + c)).max(initial=0.0) <= tol * stretch


def check_solved(posed: NetworkProblem, start: np.ndarray | None = None) -> IterationResult:
    run = solved(posed, start)
    assert run.converged, run.history
    assert run.residual <= TOL
    check(posed, run)
    return run


# --- rigid steps ---------------------------------------------------------------------------


@settings(max_examples=60)
@given(seeds, st.integers(1, 40), st.integers(1, 25), st.sampled_from([0.1, 0.5, 1.0]))
def test_any_small_rigid_step(seed: int, nc: int, m: int, share: float) -> None:
    """Gaps that are zero, open and closing; more contacts than dofs, or fewer."""
    B = random_rows(seed, nc, m, share)
    check_solved(rigid(B, feasible_gaps(seed, B)))


def test_bodies_that_fit_exactly() -> None:
    """Both walls touch what stands between them: one motion is left, and it keeps the gaps.

    Round-off in the gaps leaves no motion at all, and forces that grow to close it. Neither way
    reaches the accuracy; neither says that it did.
    """
    B = random_rows(8, 25, 8, 0.1)
    posed = rigid(B, feasible_gaps(8, B, room=0.0))
    inside = solved(posed)
    around = potential_newton.solve_rigid(posed, None, TOL, 200)
    for run in (inside, around):
        assert run.converged == (run.residual <= TOL)
        assert run.residual <= 1e-4


@pytest.mark.slow
@settings(max_examples=15)
@given(seeds, st.integers(100, 400), st.booleans())
def test_any_rigid_step_of_couples(seed: int, nc: int, blocks: bool) -> None:
    """Ninety bodies, on the sparse ways, with and without knowing them."""
    B, body = couples_of(seed, 90, nc)
    check_solved(rigid(B, feasible_gaps(seed, B), body if blocks else None))


@settings(max_examples=8)
@given(seeds)
def test_masses_that_tie_bodies(seed: int) -> None:
    for m, nc in ((12, 20), (250, 200)):
        S = sp.diags_array([-1.0, 2.5, -1.0], offsets=[-1, 0, 1], shape=(m, m), dtype=float)
        B = random_rows(seed, nc, m, 4.0 / m)
        check_solved(rigid(B, feasible_gaps(seed, B), mass=sp.csr_array(S)))


@pytest.mark.parametrize("away", [0.0, 1.0, 1e3, 1e6])
def test_rest_and_free_flight_need_no_force(away: float) -> None:
    for nb, nc in ((4, 8), (90, 200)):
        B, body = couples_of(1, nb, nc)
        run = check_solved(rigid(B, away * np.random.default_rng(0).uniform(0.5, 1.0, nc), body))
        np.testing.assert_allclose(run.w, 0.0, atol=1e-10)
        if away > 0.0:
            np.testing.assert_allclose(run.f, 0.0, atol=1e-11)


def test_one_contact_far_beyond_the_others() -> None:
    B, body = couples_of(2, 90, 200)
    p = feasible_gaps(2, B)
    p[3] = 1e8
    check_solved(rigid(B, p, body))


def test_overlaps_at_the_start() -> None:
    for seed in range(3):
        B, body = couples_of(seed, 90, 250)
        p = feasible_gaps(seed, B, overlapping=True)
        assert np.mean(p < 0.0) > 0.4
        check_solved(rigid(B, p, body))


@pytest.mark.parametrize("nb", [4, 90])
def test_contacts_that_stand_there_three_times(nb: int) -> None:
    """Forces are not unique; the motion is, and the sum of each contact's forces carries it."""
    B, body = couples_of(4, nb, 3 * nb)
    p = feasible_gaps(4, B)
    one = rigid(B, p, body)
    three = rigid(sp.csr_array(sp.vstack([B] * 3)), np.tile(p, 3), body)
    once, thrice = check_solved(one), check_solved(three)
    np.testing.assert_allclose(thrice.w, once.w, atol=1e-9 * np.abs(once.w).max())
    np.testing.assert_allclose(
        B.T @ thrice.f.reshape(3, -1).sum(axis=0), B.T @ once.f, atol=1e-8 * once.f.max()
    )


@pytest.mark.parametrize("nb", [4, 90])
def test_contacts_that_act_on_nothing(nb: int) -> None:
    """Idle beside others that work: no force that the certificate could miss."""
    B, body = couples_of(5, nb, 2 * nb)
    idle = sp.csr_array(sp.vstack([B, sp.csr_array((3, B.shape[1]))]))
    p = np.append(feasible_gaps(5, B), [0.0, 1.0, 2.0])
    np.testing.assert_allclose(forces(rigid(idle, p, body))[-2:], 0.0, atol=1e-9)


# --- elastic steps and trusses -------------------------------------------------------------


def law_of(seed: int, nc: int, power: float, decades: float = 0.6) -> PowerLaw:
    random = np.random.default_rng(seed)
    return PowerLaw(10.0 ** random.uniform(-decades / 2, decades / 2, nc), power)


@settings(max_examples=40)
@given(seeds, st.integers(1, 40), st.integers(1, 25), st.sampled_from(POWERS))
def test_any_small_elastic_step(seed: int, nc: int, m: int, power: float) -> None:
    B = random_rows(seed, nc, m, 0.4)
    p = np.random.default_rng(seed).standard_normal(nc)
    check_solved(elastic(rigid(B, p), law_of(seed, nc, power)))


@settings(max_examples=40)
@given(seeds, st.integers(1, 40), st.integers(1, 25), st.sampled_from(POWERS))
def test_any_small_truss(seed: int, nc: int, m: int, power: float) -> None:
    """Loads that forces of order one carry, a third of the contacts idle; B of any rank."""
    B = random_rows(seed, nc, m, 0.4)
    random = np.random.default_rng(seed)
    load = B.T @ np.where(random.random(nc) < 1 / 3, 0.0, random.uniform(0.1, 1.0, nc))
    check_solved(truss(B, load, law_of(seed, nc, power)))


@pytest.mark.parametrize("power", [1.3, *POWERS])
def test_steps_and_trusses_of_every_power(power: float) -> None:
    """An open contact, whose compliance vanishes with its force; a small truss; many couples."""
    alone = rigid(sp.csr_array([[0.115]]), np.array([0.0669]))
    check_solved(elastic(alone, PowerLaw(np.array([0.505]), power)))
    B, random = random_rows(0, 8, 1, 0.4), np.random.default_rng(0)
    load = B.T @ np.where(random.random(8) < 1 / 3, 0.0, random.uniform(0.1, 1.0, 8))
    check_solved(truss(B, load, law_of(0, 8, power)))
    B, body = couples_of(3, 90, 350)
    posed = rigid(B, np.random.default_rng(3).standard_normal(350), body)
    check_solved(elastic(posed, law_of(3, 350, power)))


@pytest.mark.parametrize(
    "power", [1.3, 2.5, 4.0, *(pytest.param(p, marks=pytest.mark.slow) for p in (1.5, 2.0))]
)
def test_trusses_of_couples(power: float) -> None:
    """Over-braced, and with fewer contacts than dofs: some dofs then move for nothing."""
    for nc in (150, 500):
        B, body = couples_of(4, 90, nc)
        load = B.T @ np.random.default_rng(4).random(nc)
        check_solved(truss(B, load, law_of(4, nc, power), body))


@pytest.mark.parametrize("power", [2.0, 2.5])
def test_stiffness_ratios_of_a_million(power: float) -> None:
    B, body = couples_of(6, 90, 350)
    law = law_of(6, 350, power, decades=6.0)
    run = solved(truss(B, B.T @ np.random.default_rng(6).random(350), law, body))
    assert run.residual <= 1e-9
    posed = rigid(B, np.random.default_rng(6).standard_normal(350), body)
    assert solved(elastic(posed, law)).residual <= 1e-9


@pytest.mark.parametrize("power", [1.5, 2.0, 2.5])
@pytest.mark.parametrize("nb", [4, 90])
def test_equal_contacts_share_equally(nb: int, power: float) -> None:
    """Three springs in the place of one, each a third as stiff: elastic forces are unique."""
    B, body = couples_of(4, nb, 4 * nb)
    load = B.T @ np.random.default_rng(4).random(4 * nb)
    law = law_of(4, 4 * nb, power)
    once = forces(truss(B, load, law, body))
    threefold = PowerLaw(np.tile(law.stiffness / 3.0, 3), power)
    thrice = forces(truss(sp.csr_array(sp.vstack([B] * 3)), load, threefold, body))
    shares = thrice.reshape(3, -1)
    np.testing.assert_allclose(shares, np.tile(once / 3.0, (3, 1)), atol=1e-8 * once.max())


@pytest.mark.slow
def test_a_truss_of_bodies_of_unlike_size() -> None:
    """Spheres with three dofs beside bodies with six."""
    B, body = couples_of(4, 160, 500, size=2)
    body = np.where(body < 40, body // 3, body)  # the first dofs in blocks of six
    load = B.T @ np.random.default_rng(4).random(500)
    posed = truss(B, load, law_of(4, 500, 2.0), body)
    assert posed.net.m > B.shape[1]
    check_solved(posed)


# --- no solution ---------------------------------------------------------------------------


def no_success(posed: NetworkProblem, start: np.ndarray | None = None) -> None:
    run = solved(posed, start)
    assert not run.converged
    assert run.steps <= LIMIT
    assert np.all(np.isfinite(run.w))
    assert np.all(np.isfinite(run.f))
    assert run.residual > 1e-7


@pytest.mark.parametrize("m", [3, 300])
@pytest.mark.parametrize("depth", [1e-6, 1.0, 1e6])
def test_bodies_squeezed_between_walls(m: int, depth: float) -> None:
    """A row of bodies that has no room."""
    B = sp.diags_array([1.0, -1.0], offsets=[0, -1], shape=(m + 1, m))
    no_success(rigid(sp.csr_array(B), np.full(m + 1, -depth), np.arange(m) // 3))


def test_contacts_that_contradict_each_other() -> None:
    B, body = couples_of(7, 90, 250)
    p = feasible_gaps(7, B) - 0.1
    no_success(rigid(sp.csr_array(sp.vstack([B, -B])), np.concatenate([p, -p - 0.2]), body))
    idle = sp.csr_array(sp.vstack([B, sp.csr_array((1, B.shape[1]))]))
    no_success(rigid(idle, np.append(feasible_gaps(7, B), -1.0), body))


@pytest.mark.parametrize("power", [1.3, *POWERS])
@pytest.mark.parametrize("nb", [4, 90])
def test_loads_out_of_reach(nb: int, power: float) -> None:
    """Contacts would have to pull; or a body that none touches is loaded."""
    B, body = couples_of(8, nb, 2 * nb)
    pulling = -np.asarray(B.T @ np.random.default_rng(8).uniform(0.5, 1.0, 2 * nb))
    no_success(truss(B, pulling, law_of(8, 2 * nb, power), body))
    untouched = sp.csr_array(sp.hstack([B, sp.csr_array((2 * nb, 3))]))
    load = np.append(-pulling, [0.0, 1.0, 0.0])
    no_success(truss(untouched, load, law_of(8, 2 * nb, power), np.append(body, [nb] * 3)))


# --- starts --------------------------------------------------------------------------------


@pytest.mark.parametrize("nb", [4, pytest.param(90, marks=pytest.mark.slow)])
@pytest.mark.parametrize("kind", ["rigid", "elastic"])
def test_every_start_ends_in_the_same_place(kind: str, nb: int) -> None:
    nc = 4 * nb
    B, body = couples_of(9, nb, nc)
    posed = rigid(B, feasible_gaps(9, B), body)
    if kind == "elastic":
        posed = elastic(posed, law_of(9, nc, 2.0))
    cold = check_solved(posed)
    random = np.random.default_rng(1)
    for start in (cold.f, np.zeros(nc), 1e3 * random.random(nc), np.full(nc, 1e8), cold.f[::-1]):
        warm = check_solved(posed, start)
        moved = posed.net.gap(warm.w) - posed.net.gap(cold.w)
        np.testing.assert_allclose(moved, 0.0, atol=1e-8 * max(1.0, np.abs(cold.w).max()))
    assert solved(posed, cold.f).steps < cold.steps


@pytest.mark.parametrize("nb", [4, pytest.param(90, marks=pytest.mark.slow)])
@pytest.mark.parametrize("force", [1e-4, 1.0, 1e4])
@pytest.mark.parametrize("gap", [1e-4, 1e4])
def test_trusses_from_any_size_of_forces_and_gaps(gap: float, force: float, nb: int) -> None:
    B, body = couples_of(9, nb, 4 * nb)
    load = B.T @ np.random.default_rng(9).random(4 * nb)
    posed = truss(B, load, law_of(9, 4 * nb, 2.0), body)
    begin = interior_point.far_start(posed, force, gap)
    run = interior_point.solve(posed, begin, TOL, LIMIT)
    assert run.converged
    check(posed, run)


def test_a_limit_of_steps_and_starts_that_are_not_written_into() -> None:
    B, body = couples_of(9, 90, 300)
    posed = rigid(B, feasible_gaps(9, B), body)
    begin = interior_point.start_from(posed, np.ones(300))
    before = [x.copy() for x in begin]
    run = interior_point.solve(posed, begin, TOL, 3)
    for x, was in zip(begin, before, strict=True):
        np.testing.assert_array_equal(x, was)
    assert not run.converged
    assert run.steps == 3
    assert len(run.history) == 5
    assert run.residual == min(run.history)
