"""The interior point: rigid steps, elastic steps and trusses, and what has no solution."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
import scipy.sparse as sp
from conftest import renumbered
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st

import cdopt
from cdopt.backends import interior_point, proximal_newton
from cdopt.backends.deadline import Deadline
from cdopt.backends.linalg.network import DENSE_UP_TO
from cdopt.backends.network_problem import NetworkProblem, network_problem
from cdopt.backends.semismooth import Point
from cdopt.bank import generators
from cdopt.problem import FrictionCones
from cdopt.problem.contact_law import PowerLaw

TOL, LIMIT = 1e-12, 200
POWERS = [1.5, 2.0, 2.5, 4.0]
seeds = st.integers(0, 10_000)
few_and_many = pytest.mark.parametrize("nb", [4, 90])  # bodies, on the dense ways and the sparse

pytestmark = pytest.mark.usefixtures("one_thread")


# --- problems ------------------------------------------------------------------------------


def random_rows(seed: int, nc: int, m: int, share: float) -> sp.csr_array:
    """B (nc, m) with this share of its entries, at least one to a row."""
    random = np.random.default_rng(seed)
    kept = random.random((nc, m)) < share
    kept[np.arange(nc), random.integers(0, m, nc)] = True
    return sp.csr_array(np.where(kept, random.standard_normal((nc, m)), 0.0))


def couples_of(seed: int, nb: int, nc: int) -> tuple[sp.csr_array, np.ndarray]:
    """B of contacts between bodies anywhere, and the body of each dof."""
    random = np.random.default_rng(seed)
    B = sp.lil_array((nc, 3 * nb))
    for i in range(nc):
        for sign, b in zip((1.0, -1.0), random.choice(nb, 2, replace=False), strict=True):
            normal = random.standard_normal(3)
            B[i, 3 * b + np.arange(3)] = sign * normal / np.linalg.norm(normal)
    return sp.csr_array(B), np.repeat(np.arange(nb), 3)


def rigid(
    B: sp.csr_array, p: np.ndarray, body: np.ndarray | None = None,
    mass: sp.csr_array | None = None,
) -> NetworkProblem:  # fmt: skip
    """A rigid step of unit masses, unless told otherwise."""
    S = sp.csr_array(sp.eye_array(B.shape[1])) if mass is None else mass
    mobility = np.asarray(B.multiply(B) @ (1.0 / S.diagonal()))
    return NetworkProblem(p, mobility, B, S, body=body)


def elastic(posed: NetworkProblem, law: PowerLaw) -> NetworkProblem:
    """The same step with contacts that give."""
    return dataclasses.replace(posed, mobility=np.ones(posed.p.size), compliance=law)


def truss(
    B: sp.csr_array, load: np.ndarray, law: PowerLaw, body: np.ndarray | None = None
) -> NetworkProblem:
    """A truss without inertia."""
    nc = B.shape[0]
    return NetworkProblem(np.zeros(nc), np.ones(nc), B, F=load, compliance=law, body=body)


def law_of(seed: int, nc: int, power: float, decades: float = 0.6) -> PowerLaw:
    random = np.random.default_rng(seed)
    return PowerLaw(10.0 ** random.uniform(-decades / 2, decades / 2, nc), power)


def feasible_gaps(
    seed: int, B: sp.csr_array, overlapping: bool = False, room: float = 0.05
) -> np.ndarray:
    """Gap rates (nc,) that some motion makes nonnegative, half of them just ``room`` there."""
    random = np.random.default_rng(seed)
    slack = room + random.random(B.shape[0]) * (random.random(B.shape[0]) < 0.5)
    if overlapping:
        slack -= 0.5 * np.asarray(B @ np.asarray(B.T @ np.ones(B.shape[0])))
    return slack - np.asarray(B @ random.standard_normal(B.shape[1]))


def solved(posed: NetworkProblem, near: np.ndarray | None = None) -> Point:
    return interior_point.solve(posed, interior_point.start_from(posed, near), TOL, LIMIT)


def check_solved(posed: NetworkProblem, run: Point | None = None) -> Point:
    """The conditions of optimality by dense algebra, relative to the largest terms."""
    run = solved(posed) if run is None else run
    assert run.converged, run.history
    assert run.error <= TOL
    B, tol = posed.net.B.toarray(), 1e-10 * (1.0 + np.abs(run.f).max(initial=0.0))
    S = 0.0 * run.w if posed.net.mass is None else posed.net.mass.toarray() @ run.w
    assert np.abs(posed.load + S - B.T @ run.f).max(initial=0.0) <= tol
    gap, push = B @ run.w + posed.p, posed.mobility * run.f
    assert run.f.min(initial=0.0) >= 0.0
    if posed.compliance is not None:
        tol *= posed.compliance.stiffness.max() / posed.compliance.stiffness.min()
        gap, push = gap + posed.compliance.overlap(run.f), run.f
    assert gap.min(initial=0.0) >= -tol
    assert np.abs(np.minimum(push, gap)).max(initial=0.0) <= tol
    return run


# --- solutions -----------------------------------------------------------------------------


@settings(max_examples=120)
@given(
    seeds,
    st.integers(1, 40),
    st.integers(1, 25),
    st.sampled_from([0.1, 0.4, 1.0]),
    st.sampled_from(["rigid", "elastic", "truss"]),
    st.sampled_from(POWERS),
)
def test_any_small_problem(
    seed: int, nc: int, m: int, share: float, kind: str, power: float
) -> None:
    """Gaps that are zero, open and closing; loads that leave contacts idle; B of any rank."""
    B, law = random_rows(seed, nc, m, share), law_of(seed, nc, power)
    random = np.random.default_rng(seed)
    if kind == "rigid":
        check_solved(rigid(B, feasible_gaps(seed, B)))
    elif kind == "elastic":
        check_solved(elastic(rigid(B, random.standard_normal(nc)), law))
    else:
        f = np.where(random.random(nc) < 1 / 3, 0.0, random.uniform(0.1, 1.0, nc))
        check_solved(truss(B, B.T @ f, law))


@pytest.mark.parametrize("power", [1.3, *POWERS])
def test_steps_and_trusses_of_every_power(power: float) -> None:
    """An open contact, whose compliance vanishes with its force; many couples."""
    alone = rigid(sp.csr_array([[0.115]]), np.array([0.0669]))
    check_solved(elastic(alone, PowerLaw(np.array([0.505]), power)))
    B, body = couples_of(3, 90, 350)
    posed = rigid(B, np.random.default_rng(3).standard_normal(350), body)
    check_solved(elastic(posed, law_of(3, 350, power)))
    for nc in (150, 500):  # some dofs move for nothing; over-braced
        B, body = couples_of(4, 90, nc)
        load = B.T @ np.random.default_rng(4).random(nc)
        check_solved(truss(B, load, law_of(4, nc, power), body))


def test_bodies_that_fit_exactly() -> None:
    """Both walls touch what stands between them: one motion is left, and it keeps the gaps.

    Round-off in the gaps leaves no motion at all, and forces that grow to close it. Neither way
    reaches the accuracy; neither says that it did.
    """
    B = random_rows(8, 25, 8, 0.1)
    posed = rigid(B, feasible_gaps(8, B, room=0.0))
    for run in (solved(posed), proximal_newton.solve_rigid(posed, None, TOL, 200)):
        assert run.converged == (run.error <= TOL)
        assert run.error <= 1e-4


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
@few_and_many
def test_rest_and_free_flight_need_no_force(away: float, nb: int) -> None:
    B, body = couples_of(1, nb, 2 * nb)
    run = check_solved(rigid(B, away * np.random.default_rng(0).uniform(0.5, 1.0, 2 * nb), body))
    np.testing.assert_allclose(run.w, 0.0, atol=1e-10)
    if away > 0.0:
        np.testing.assert_allclose(run.f, 0.0, atol=1e-11)


def test_overlaps_at_the_start_and_one_contact_far_beyond_the_others() -> None:
    for seed in range(3):
        B, body = couples_of(seed, 90, 250)
        p = feasible_gaps(seed, B, overlapping=True)
        assert np.mean(p < 0.0) > 0.4
        check_solved(rigid(B, p, body))
    p = feasible_gaps(2, B)
    p[3] = 1e8
    check_solved(rigid(B, p, body))


@few_and_many
def test_contacts_that_stand_there_three_times(nb: int) -> None:
    """Rigid forces are not unique, but their motion and their sums; elastic ones share equally."""
    B, body = couples_of(4, nb, 3 * nb)
    p, tripled = feasible_gaps(4, B), sp.csr_array(sp.vstack([B] * 3))
    once, thrice = (
        check_solved(rigid(B, p, body)),
        check_solved(rigid(tripled, np.tile(p, 3), body)),
    )
    np.testing.assert_allclose(thrice.w, once.w, atol=1e-9 * np.abs(once.w).max())
    sums = B.T @ thrice.f.reshape(3, -1).sum(axis=0)
    np.testing.assert_allclose(sums, B.T @ once.f, atol=1e-8 * once.f.max())
    load = B.T @ np.random.default_rng(4).random(3 * nb)
    for power in (1.5, 2.0, 2.5):
        law = law_of(4, 3 * nb, power)
        third = PowerLaw(np.tile(law.stiffness / 3.0, 3), power)
        once = check_solved(truss(B, load, law, body))
        shares = check_solved(truss(tripled, load, third, body)).f.reshape(3, -1)
        np.testing.assert_allclose(shares, np.tile(once.f / 3.0, (3, 1)), atol=1e-8 * once.f.max())


@few_and_many
def test_contacts_that_act_on_nothing(nb: int) -> None:
    """Idle next to others that work: no force that the certificate could miss."""
    B, body = couples_of(5, nb, 2 * nb)
    idle = sp.csr_array(sp.vstack([B, sp.csr_array((3, B.shape[1]))]))
    p = np.append(feasible_gaps(5, B), [0.0, 1.0, 2.0])
    np.testing.assert_allclose(check_solved(rigid(idle, p, body)).f[-2:], 0.0, atol=1e-9)


@pytest.mark.parametrize("power", [2.0, 2.5])
def test_stiffness_ratios_of_a_million(power: float) -> None:
    B, body = couples_of(6, 90, 350)
    law = law_of(6, 350, power, decades=6.0)
    run = solved(truss(B, B.T @ np.random.default_rng(6).random(350), law, body))
    assert run.error <= 1e-9
    posed = rigid(B, np.random.default_rng(6).standard_normal(350), body)
    assert solved(elastic(posed, law)).error <= 1e-9


def test_a_load_without_contacts() -> None:
    """S w = −F̃ is all that is asked; without inertia it is no success."""
    none, S = np.zeros(0), sp.csr_array(2.0 * sp.eye_array(5))
    run = solved(NetworkProblem(none, none, sp.csr_array((0, 5)), S, np.ones(5)))
    assert run.converged
    np.testing.assert_allclose(run.w, -0.5, atol=1e-12)
    for m in (3, 300):
        alone = cdopt.NoTensionTruss(sp.csr_array((0, m)), np.ones(m))
        assert not alone.solve("newton", check=False).claimed


# --- cones ---------------------------------------------------------------------------------


def rough(seed: int, d: int, nb: int, nc: int) -> NetworkProblem:
    """Contacts with friction between bodies anywhere, some without any, that can all open."""
    random = np.random.default_rng(seed)
    B, body = couples_of(seed, nb, nc)
    rows = [B, *(B.multiply(random.uniform(-1.0, 1.0, B.shape)) for _ in range(d - 1))]
    order = np.arange(d * nc).reshape(d, nc).T.ravel()
    G = sp.csr_array(sp.vstack(rows).tocsr()[order])
    mu = np.where(random.random(nc) < 0.2, 0.0, random.uniform(0.1, 1.5, nc))
    p = -np.asarray(G @ random.standard_normal(G.shape[1])).reshape(nc, d)
    p[:, 0] += 0.05 + random.random(nc) * (random.random(nc) < 0.5)
    S = sp.csr_array(sp.eye_array(G.shape[1]))
    mobility = np.asarray(G.multiply(G).sum(axis=1)).reshape(nc, d).mean(axis=1).repeat(d)
    return NetworkProblem(p.ravel(), mobility, G, S, body=body, d=d, cones=FrictionCones(mu, d))


@pytest.mark.parametrize("d", [2, 3])
@few_and_many
@settings(max_examples=10)
@given(seed=seeds)
@example(seed=1320)
@example(seed=1103)  # pairs of two sliding contacts, far from the path at a small mean product
def test_the_associated_law_has_the_motion_that_newton_finds(nb: int, d: int, seed: int) -> None:
    """Residuals by their definitions; the motion, which is unique, by another method."""
    posed = rough(seed, d, nb, 2 * nb)
    with np.errstate(all="raise", under="ignore"):
        run = solved(posed)
    f, g = posed.table(run.f), posed.table(posed.net.gap(run.w) + posed.p)
    tol = 1e-6 * (1.0 + np.abs(f).max())
    assume(np.count_nonzero(f[:, 0] > tol) > 1)
    assert np.linalg.norm(f[:, 1:], axis=1) == pytest.approx(
        np.minimum(np.linalg.norm(f[:, 1:], axis=1), posed.mu * f[:, 0] + tol), abs=tol
    )
    assert np.all(g[:, 0] >= posed.mu * np.linalg.norm(g[:, 1:], axis=1) - tol)
    assert np.abs(np.sum(f * g, axis=1)).max() <= tol
    other, _ = proximal_newton.Proximal(posed, Deadline(), TOL).solve(0.0 * f, LIMIT)
    motion = posed.net.motion(posed.net.load(other.ravel()))
    np.testing.assert_allclose(run.w, motion, atol=1e-6 * (1.0 + np.abs(motion).max()))


def test_coulombs_law_on_real_problems() -> None:
    """Problems known by N and p, and by matrices; forces that are unique and that are not."""
    for name in (
        "siconos-capsules-i100-889",
        "siconos-confeti-ex13-fc3d-sbm",
        "siconos-rover4144",
        "siconos-frictioncontactproblem00071",
        "fclib-box-stacks-friction",
    ):
        posed = network_problem(cdopt.FrictionalCD(cdopt.bank.load(name).step).data)
        start = interior_point.start_from(posed, None)
        run = interior_point.solve(posed, start, 1e-9, LIMIT)
        assert run.error <= 3e-8, (name, run.history)
        f, g = posed.table(run.f), posed.table(posed.operator.gap(run.w) + posed.p)
        shifted = g[:, 0] + posed.mu * np.linalg.norm(g[:, 1:], axis=1)
        tol = 1e-6 * (1.0 + np.abs(f).max())
        assert np.all(np.linalg.norm(f[:, 1:], axis=1) <= posed.mu * f[:, 0] + tol)
        assert g[:, 0].min() >= -tol
        assert np.abs(f[:, 0] * shifted + np.sum(f[:, 1:] * g[:, 1:], axis=1)).max() <= tol


@pytest.mark.parametrize("form", ["N", "B"])
def test_a_sliding_box_rises_by_the_associated_law_only(form: str) -> None:
    """Coulomb's box keeps to the floor: g_n = 0; the other rises at μ times its speed."""
    step = cdopt.ContactStep(
        M=np.eye(2), B=[[0.0, 1.0]], phi=[0.0], v=[1.0, 0.0], F_ext=[0.0, -9.81], dt=1e-3,
        friction=cdopt.Friction(0.5, B_t=[[1.0, 0.0]]),
    )  # fmt: skip
    if form == "N":
        friction = cdopt.Friction([0.5])
        step = cdopt.DelassusStep(1e-3 * np.eye(2), [-9.81e-3, 1.0], 1e-3, friction=friction)
    rest = cdopt.FrictionalCD(step, "coulomb").solve("interior-point")
    assert (rest.f[0], rest.f_t[0, 0]) == pytest.approx((9.81, -4.905), rel=1e-8)
    rises = cdopt.FrictionalCD(step, "associated").solve("interior-point")
    speeds = np.array([-9.81e-3, 1.0]) + 1e-3 * np.array([rises.f[0], rises.f_t[0, 0]])
    assert speeds[0] == pytest.approx(0.5 * speeds[1], rel=1e-8)
    assert rises.f_t[0, 0] == pytest.approx(-0.5 * rises.f[0], rel=1e-8)


# --- no solution ---------------------------------------------------------------------------


def no_success(posed: NetworkProblem) -> None:
    run = solved(posed)
    assert not run.converged
    assert run.steps <= LIMIT
    assert np.all(np.isfinite(run.w))
    assert np.all(np.isfinite(run.f))
    assert run.error > 1e-7


@pytest.mark.parametrize("depth", [1e-6, 1.0, 1e6])
def test_steps_without_room(depth: float) -> None:
    """Bodies in a row between walls; contacts that contradict each other; an idle one overlaps."""
    for m in (3, 300):
        B = sp.csr_array(sp.diags_array([1.0, -1.0], offsets=[0, -1], shape=(m + 1, m)))
        no_success(rigid(B, np.full(m + 1, -depth), np.arange(m) // 3))
    B, body = couples_of(7, 90, 250)
    p = feasible_gaps(7, B) - 0.1
    both = sp.csr_array(sp.vstack([B, -B]))
    no_success(rigid(both, np.concatenate([p, -p - 0.2 * min(depth, 1e2)]), body))
    idle = sp.csr_array(sp.vstack([B, sp.csr_array((1, B.shape[1]))]))
    no_success(rigid(idle, np.append(feasible_gaps(7, B), -depth), body))


@pytest.mark.parametrize("power", [1.3, *POWERS])
@few_and_many
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
        warm = check_solved(posed, solved(posed, start))
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
    check_solved(posed, interior_point.solve(posed, begin, TOL, LIMIT))


def test_a_limit_of_steps_and_starts_that_are_not_written_into() -> None:
    B, body = couples_of(9, 90, 300)
    posed = rigid(B, feasible_gaps(9, B), body)
    begin = interior_point.start_from(posed, np.ones(300))
    before = [x.copy() for x in begin]
    run = interior_point.solve(posed, begin, TOL, 3)
    for x, was in zip(begin, before, strict=True):
        np.testing.assert_array_equal(x, was)
    assert not run.converged
    assert (run.steps, len(run.history), run.error) == (3, 5, min(run.history))


# --- large steps by newton, whose interior point they take ---------------------------------


def pile() -> cdopt.ContactStep:
    step = generators.pyramid_falling(n=7, seed=3)
    assert step.nv > DENSE_UP_TO
    return step


def certified(step: cdopt.ContactStep) -> cdopt.StepSolution:
    solution = cdopt.ClassicCD(step).solve("newton", check=False)
    assert solution.claimed, solution.status
    assert solution.certificate.worst <= 1e-10, solution.certificate
    return solution


@pytest.mark.parametrize(
    "pile",
    [
        *({"n": n, "seed": seed} for n, seed in ((5, 1), (6, 0), (8, 1), (10, 2))),
        *({"n": 8, "opened": opened} for opened in (0.0, 0.9, 1.0)),
    ],
)
def test_piles_in_mid_fall_with_some_gaps_open_few_or_all(pile: dict[str, float]) -> None:
    certified(generators.pyramid_falling(**pile))


def test_order_and_numbering() -> None:
    step, random = pile(), np.random.default_rng(5)
    contacts, dofs = random.permutation(step.nc), random.permutation(step.nv)
    one, two = certified(step), certified(renumbered(step, contacts, dofs))
    speed = np.abs(step.v_star).max()
    np.testing.assert_allclose(two.v_next, one.v_next[dofs], atol=1e-9 * speed)


@pytest.mark.parametrize("problem", ["rigid", "elastic", "truss"])
def test_a_second_solve_equals_the_first(problem: str) -> None:
    """Dofs in disorder: what a formulation keeps is not rearranged under it."""
    step = pile()
    mixed = renumbered(step, np.arange(step.nc), np.random.default_rng(5).permutation(step.nv))
    formulation = {
        "rigid": lambda: cdopt.ClassicCD(mixed),
        "elastic": lambda: cdopt.CompliantCD(mixed.replace(stiffness=1e6)),
        "truss": lambda: cdopt.NoTensionTruss(mixed.B, -mixed.F_ext, dof_body=mixed.dof_body),
    }[problem]()
    first, second = (formulation.solve("newton", check=False) for _ in range(2))
    assert first.certificate.worst <= 1e-9
    np.testing.assert_array_equal(second.f, first.f)


def test_masses_and_stiffness_over_six_powers_of_ten() -> None:
    step, random = pile(), np.random.default_rng(2)
    mass = np.repeat(10.0 ** random.uniform(-3.0, 3.0, step.nv // 3), 3)
    heavy = step.replace(M=sp.diags_array(mass), F_ext=step.F_ext * mass)
    solution = cdopt.ClassicCD(heavy).solve("newton")  # to round-off, which is above 1e-12 here
    assert solution.certificate.worst <= 1e-9
