"""The default on steps with friction: methods in turn, on budgets, the best answer kept."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

import numpy as np
import pytest
import scipy.sparse as sp
from campaigns import frictional_answers
from population import friction_population

import cdopt
from cdopt.backends import APGD, NSGS, Auto, Newton, proximal_newton
from cdopt.backends.deadline import Deadline
from cdopt.backends.network_problem import NetworkProblem, network_problem
from cdopt.problem.solution import WarmStart

pytestmark = pytest.mark.usefixtures("one_thread")


def real() -> Iterator[str]:
    """Names of problems with friction in the bank."""
    for name in cdopt.bank.names():
        step = cdopt.bank.load(name).step
        if step is not None and step.friction is not None:
            yield name


def worst(problem: cdopt.FrictionalCD, **given: object) -> float:
    solution = problem.solve(tol=1e-8, **given)
    assert solution.ok, solution.certificate
    assert solution.backend == "auto"
    return solution.certificate.worst


@pytest.mark.slow
@pytest.mark.parametrize("law", ["coulomb", "associated"])
def test_the_default_certifies_every_problem_with_friction(law: str) -> None:
    for name in real():
        assert worst(cdopt.FrictionalCD(cdopt.bank.load(name).step, law)) <= 1e-8, name


@pytest.mark.parametrize("index", [24, 33, 38, 50, 51, 62, 88, 127, 221])
def test_steps_that_newton_alone_leaves_unsolved_or_takes_long(index: int) -> None:
    """Rocks, domes, capsules, walls and cards of the population, in several forms."""
    _, step = friction_population.member(index)
    assert worst(cdopt.FrictionalCD(step)) <= 1e-8


@pytest.mark.slow
def test_a_pile_of_rocks_of_low_rank() -> None:
    """466 contacts of coefficient 1 on 342 dofs: its path bends within 1e-6 of its length."""
    random = np.random.default_rng([77, 30])
    random.uniform(-2.0, 1.0), random.integers(4)
    rocks = friction_population.rubble(random, int(random.integers(55, 75)), 3, 6, 1.0)
    step = friction_population._in_state(rocks, "leaning", random)
    assert worst(cdopt.FrictionalCD(step)) <= 1e-8


def shaken_rubble(seed: int, patch: int, ratio: float) -> cdopt.ContactStep:
    """Rocks with velocities of 1 m/s, half of them heavier by ``ratio``."""
    random = np.random.default_rng([92, seed])
    step = friction_population.rubble(random, 24, 3, patch, 0.8)
    heavier = np.where(random.random(24) < 0.5, 1.0, ratio).repeat(6)
    M = step.M.diagonal() * heavier
    step = step.replace(M=sp.diags_array(M), F_ext=step.F_ext * heavier)
    return friction_population._in_state(step, "shaken", random)


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_light_rocks_between_heavy_ones(seed: int) -> None:
    """Forces are up to a million times what would stop a light rock by itself."""
    assert worst(cdopt.FrictionalCD(shaken_rubble(seed, 3, 1e6))) <= 1e-8


@pytest.mark.slow
def test_a_share_of_the_population() -> None:
    """Of every kind, form and state."""
    left = []
    for index in range(0, 400, 4):
        name, step = friction_population.member(index)
        solution = cdopt.FrictionalCD(step).solve(tol=1e-8, check=False)
        left += [] if solution.ok else [name]
    assert left == []


@pytest.mark.parametrize(
    ("seed", "turns"),
    [
        pytest.param(567, ["apgd", "natural-newton"], marks=pytest.mark.slow),
        (1137, ["nsgs"]),
        pytest.param(2758, ["natural-newton", "newton"], marks=pytest.mark.slow),
    ],
)
def test_turns_where_the_associated_law_has_no_solution(seed: int, turns: list[str]) -> None:
    """Coulomb's law has one, from which the problem is made.

    On 2758 the best forces lead elsewhere, so that Newton's method starts once more from zero.
    """
    problem = frictional_answers.Problem(np.random.default_rng(seed), "coulomb")
    solution = cdopt.FrictionalCD(problem.step, "coulomb").solve()
    assert solution.ok, solution.certificate
    ran = [turn.split(":")[0] for turn in solution.provenance["how"].split(" → ")]
    assert ran[-len(turns) :] == turns


def test_the_status_tells_why_a_step_may_have_no_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    """Forces in a wedge have no bound: its Slater number is zero; that of a slope is positive."""
    one = [NSGS(max_sweeps=1, accuracy=1e-15)]
    monkeypatch.setattr(Auto, "_methods", lambda *_: iter(one))
    monkeypatch.setattr(Auto, "_from_zero", lambda *_: iter(()))
    wedge = cdopt.bank.generators.pose(cdopt.bank.generators.wedge(angle=20.0, gap=0.0))
    wedge = wedge.replace(v=wedge.v + np.linspace(-1.0, 1.0, wedge.nv))
    wall = cdopt.bank.load("rough-wall").step
    for step, doubtful in ((wedge, True), (wall, False)):
        solution = cdopt.FrictionalCD(step).solve(check=False)
        assert solution.status.startswith("stopped at residual")
        assert ("Slater number" in solution.status) == doubtful


def test_forces_do_not_depend_on_the_order_of_the_contacts() -> None:
    """Where they are not unique either: the two feet of a box, and a wall."""
    for name in ("rough-wall", "rough-pile:n=3"):
        step = cdopt.bank.load(name).step
        order = np.random.default_rng(0).permutation(step.nc)
        first, second = (cdopt.FrictionalCD(s).solve().f for s in (step, step.select(order)))
        np.testing.assert_allclose(second, first[order], atol=1e-6 * first.max())


def test_it_says_what_ran_and_repeats_to_the_bit() -> None:
    _, step = friction_population.member(38)
    first, second = (cdopt.FrictionalCD(step).solve() for _ in range(2))
    assert "newton: " in first.provenance["how"]
    assert " → interior-point: " in first.provenance["how"]
    assert first.provenance["how"] == second.provenance["how"]
    np.testing.assert_array_equal(first.f, second.f)


def test_a_method_that_breaks_down_is_passed_over(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object) -> None:
        raise ArithmeticError("no digits left")

    _, step = friction_population.member(38)
    monkeypatch.setattr(proximal_newton, "solve_cones", broken)
    solution = cdopt.FrictionalCD(step).solve()
    assert solution.ok
    assert " → newton: ArithmeticError → interior-point: " in solution.provenance["how"]


@pytest.mark.parametrize("law", ["associated", "coulomb"])
def test_a_step_without_solution_is_proven_after_the_first_methods(law: str) -> None:
    """A wedge that overlaps; and a sphere between walls that close in, which no law permits."""
    if law == "associated":
        step = cdopt.bank.generators.pose(cdopt.bank.generators.wedge(gap=-1e-4))
    else:
        step = cdopt.ContactStep(
            M=np.eye(2), B=[[1.0, 0.0], [-1.0, 0.0]], phi=[-1e-3, -1e-3], v=np.zeros(2),
            F_ext=np.zeros(2), dt=1e-3, friction=cdopt.Friction(0.5, [[0.0, 1.0], [0.0, 1.0]]),
        )  # fmt: skip
    with pytest.raises(cdopt.SolveFailed, match=r"proof|infeasible|no solution") as failed:
        cdopt.FrictionalCD(step, law).solve()
    assert failed.value.status == "infeasible: proven"
    assert failed.value.proof is not None


@pytest.mark.parametrize("index", [2, 12, 36])
def test_newton_never_returns_worse_forces_than_it_was_given(index: int) -> None:
    _, step = friction_population.member(index)
    posed = network_problem(cdopt.FrictionalCD(step).data)
    answer = cdopt.FrictionalCD(step).solve()
    random = np.random.default_rng(index)
    for noise in (0.0, 1e-9, 1e-3, 1.0):
        forces = answer.iterate.forces * (1.0 + noise * random.standard_normal(posed.rows))
        f = posed.starting_forces(WarmStart(forces, None, posed.contact_ids))
        proximal = proximal_newton.Proximal(posed, Deadline(), 1e-12, 3)
        before = proximal.natural(f)
        after, _ = proximal.solve(f, 2)
        assert proximal.natural(after) <= before


@pytest.mark.parametrize("law", ["coulomb", "associated"])
@pytest.mark.parametrize(
    "name", ["fclib-capsules-friction", "siconos-capsules-i100-889", "fclib-boxes-friction"]
)
def test_few_contacts_known_by_n_have_no_further_turns_at_a_low_accuracy(
    name: str, law: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nor more certificates: gaps that are small for them move heavy bodies at low accuracies."""
    step, asked = cdopt.bank.load(name).step, list[int]()
    worst = NetworkProblem.worst_residual
    monkeypatch.setattr(
        NetworkProblem, "worst_residual", lambda *given: asked.append(1) or worst(*given)
    )

    def turns(accuracy: float) -> tuple[list[str], int]:
        asked.clear()
        answer = cdopt.FrictionalCD(step, law).solve(Auto(accuracy=accuracy), tol=accuracy)
        assert answer.ok
        how = str(answer.provenance["how"]).split(" → ")
        return [turn.split(":")[0] for turn in how if ": " in turn], len(asked)

    low, high = turns(1e-4), turns(1e-8)
    assert low[0] == high[0][: len(low[0])]
    assert low[1] <= high[1]


def test_cheap_turns_come_before_those_that_cost_far_more() -> None:
    """Sweeps before Newton's method for few contacts, and before a path for many."""
    for index in (2, 223):
        _, step = friction_population.member(index)
        solution = cdopt.FrictionalCD(step).solve(tol=1e-8)
        assert solution.ok
        how = solution.provenance["how"]
        assert how.rpartition(" → ")[2].startswith("nsgs: "), how
        assert "homotopy" not in how


@pytest.mark.parametrize(("layers", "turns"), [(8, ["newton", "nsgs"]), (10, ["apgd", "nsgs"])])
def test_gradients_go_on_before_systems_of_many_contacts(layers: int, turns: list[str]) -> None:
    """After the first two turns; 784 and 1,620 contacts."""
    step = cdopt.bank.load(f"rough-pile:n={layers}").step
    methods = Auto()._methods(network_problem(cdopt.FrictionalCD(step).data), lambda: 1e-3)
    assert [method.name for method in methods if method][:4] == ["apgd", "nsgs", *turns]


@pytest.mark.parametrize(
    ("law", "mu", "least", "there"),
    [
        ("coulomb", 2.0, 0.1, False),
        ("coulomb", 2.0, 1e-3, True),
        ("coulomb", 0.5, 0.1, True),
        ("associated", 2.0, 0.1, True),
    ],
)
def test_newtons_turn_starts_near_where_coulombs_law_is_steep(
    law: str, mu: float, least: float, there: bool
) -> None:
    """Far forces go to the interior point, with the proof that there may be none before it."""
    step = cdopt.bank.load("rough-arch").step
    step = step.replace(friction=dataclasses.replace(step.friction, mu=mu))
    methods = Auto()._methods(network_problem(cdopt.FrictionalCD(step, law).data), lambda: least)
    turns = [method and method.name for method in methods]
    assert ("newton" in turns[: turns.index("interior-point")]) == there
    assert None in turns[: turns.index("interior-point")]


@pytest.mark.parametrize("index", [77, 3418])
def test_near_forces_take_fewer_newton_steps_by_long_proximal_steps(
    index: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two domes, from exact forces with errors of 1e-7."""
    _, step = friction_population.member(index)
    exact = cdopt.FrictionalCD(step).solve().warm_start().forces

    def steps() -> int:
        spent = 0
        for seed in range(5):
            noise = np.random.default_rng(seed).standard_normal(exact.shape)
            start = WarmStart(exact * (1.0 + 1e-7 * noise), None, step.contact_ids)
            answer = cdopt.FrictionalCD(step).solve(Newton(), warm_start=start, tol=1e-10)
            spent += int(str(answer.provenance["how"]).split(" proximal steps, ")[1].split()[0])
        return spent

    few = steps()
    monkeypatch.setattr(proximal_newton, "_FIRST_MOST", 16.0)
    assert 10 * few <= 9 * steps()


@pytest.mark.parametrize(("index", "solved"), [(2347, True), (2003, False)])
def test_sweeps_go_on_as_long_as_their_rate_promises_a_solution(index: int, solved: bool) -> None:
    """Cards, and an arch on which 400 sweeps leave a tenth."""
    _, step = friction_population.member(index)
    answer = cdopt.FrictionalCD(step).solve(
        NSGS(max_sweeps=40, further=360, accuracy=1e-10), check=False
    )
    assert (answer.certificate.worst <= 1e-8) == solved
    assert answer.iterations > 40 if solved else answer.iterations == 40


@pytest.mark.parametrize(("index", "solved"), [(2144, True), (2142, False)])
def test_the_second_turn_ends_where_natural_maps_do_not_fall(index: int, solved: bool) -> None:
    """A dome, and capsules on which every proximal step raises the natural map."""
    _, step = friction_population.member(index)
    problem = cdopt.FrictionalCD(step)
    posed = network_problem(problem.data)
    forces = problem.solve(APGD(400), check=False).iterate.forces
    f = posed.starting_forces(WarmStart(forces, None, posed.contact_ids))
    proximal = proximal_newton.Proximal(posed, Deadline(), 1e-12, 60)
    after, _ = proximal.solve(f, 60)
    assert (posed.worst(after) <= 1e-8) == solved
    assert solved or proximal.newton_steps < 30


@pytest.mark.parametrize("index", [2172, 2311])
def test_turns_before_the_interior_point_solve_what_they_come_near(index: int) -> None:
    """An arch whose gradients stall at first; capsules on which a proximal step is hard.

    Which turn ends it differs by processor: gradients sometimes meet the accuracy by themselves.
    """
    _, step = friction_population.member(index)
    solution = cdopt.FrictionalCD(step).solve(tol=1e-8)
    assert solution.ok
    turns = solution.provenance["how"].split(" → ")
    assert not any(turn.startswith("interior-point") for turn in turns)


def test_newton_goes_on_where_the_natural_map_is_met_before_the_certificate() -> None:
    _, step = friction_population.member(51)
    problem = cdopt.FrictionalCD(step)
    posed = network_problem(problem.data)
    forces = problem.solve(APGD(max_iterations=120), check=False).iterate.forces
    f = posed.starting_forces(WarmStart(forces, None, posed.contact_ids))
    accuracy = 1.01 * proximal_newton.Proximal(posed, Deadline(), 1.0).natural(f)
    assert posed.worst(f) > accuracy
    after, _ = proximal_newton.Proximal(posed, Deadline(), accuracy).solve(f, 20)
    assert posed.worst(after) <= accuracy


def test_settings_reach_the_methods() -> None:
    """An accuracy ends it early; a limit of steps is that of each method's own."""
    _, step = friction_population.member(38)
    loose = cdopt.FrictionalCD(step).solve(Auto(accuracy=1e-3, max_steps=5), check=False)
    sharp = cdopt.FrictionalCD(step).solve()
    assert loose.certificate.worst <= 1e-3 or not loose.claimed
    assert sharp.certificate.worst <= 1e-8
    assert dataclasses.asdict(Auto())["newton_steps"] == 10_000


def test_a_step_by_n_and_p_of_low_rank_has_the_systems_of_its_motions() -> None:
    """A dome of many contacts on few blocks: as many unknowns as dofs, and the same motion."""
    step = friction_population.dome(2, 6, 0.5)
    posed = cdopt.FrictionalCD(step, "associated")
    p = posed.data.gap(posed.data.free_motion, np.zeros(posed.data.rows))
    friction = cdopt.Friction(np.full(step.nc, 0.5))
    by_n = cdopt.FrictionalCD(
        cdopt.DelassusStep(posed.data.delassus, p, step.dt, friction=friction), "associated"
    )
    operator = network_problem(by_n.data).operator
    assert operator.m == np.linalg.matrix_rank(posed.data.delassus.toarray(), tol=1e-9) == 72
    for solver in ("newton", "interior-point"):
        one, other = posed.solve(solver, tol=1e-8), by_n.solve(solver, tol=1e-8)
        assert one.ok
        assert other.ok
        rates = [np.column_stack([s.gap, s.slip.reshape(step.nc, -1)]) for s in (one, other)]
        np.testing.assert_allclose(*rates, atol=1e-8 * np.abs(p).max())
