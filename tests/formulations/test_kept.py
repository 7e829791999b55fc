"""Small problems of one structure share what CVXPY compiled, and nothing else."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from typing import Any

import cvxpy as cp
import numpy as np
import pytest
import scipy.sparse as sp

import cdopt
from cdopt.backends.registry import takes_quadratic
from cdopt.formulations import Formulation, kept


def step(seed: int, friction: bool = False, **changes: Any) -> cdopt.ContactStep:
    """Two bodies on four contacts; all numbers differ with the ``seed``, the patterns do not."""
    rng = np.random.default_rng(seed)
    B = np.array([[1, 1, 0, 0], [1, 0, 0, 0], [1, 0, 1, 1], [0, 0, 1, 1]]) * (
        0.5 + rng.random((4, 4))
    )
    M = np.diag(1.0 + rng.random(4))
    M[0, 1] = M[1, 0] = 0.3 * rng.random()
    more = {"friction": cdopt.Friction(0.2, B[:, ::-1] * rng.random((4, 4)))} if friction else {}
    given = {
        "M": M,
        "B": B,
        "phi": rng.uniform(0.0, 1e-4, 4),
        "v": rng.normal(0.0, 0.1, 4),
        "F_ext": -10.0 - rng.random(4),
        "dt": 1e-3,
        "stiffness": 1e5 * (1.0 + rng.random(4)),
    }
    return cdopt.ContactStep(**(given | more | changes))


def delassus(seed: int) -> cdopt.problem.Step:
    one = step(seed)
    return cdopt.ContactStep.from_delassus(one.N + np.eye(4), one.p_vec, one.dt)


def jointed(seed: int) -> cdopt.ContactStep:
    return step(seed, joints=cdopt.Joints(np.array([[0.0, 0.0, 1.0 + seed, -1.0]])))


def truss(seed: int, **more: Any) -> cdopt.NoTensionTruss:
    one = step(seed)
    load = one.B.T @ (1.0 + np.random.default_rng(seed).random(4))
    return cdopt.NoTensionTruss(one.B, load, stiffness=one.stiffness, **more)


MADE: dict[str, Callable[[int], Formulation]] = {
    "classic": lambda seed: cdopt.ClassicCD(step(seed)),
    "classic, velocity": lambda seed: cdopt.ClassicCD(step(seed), form="velocity"),
    "diagonal mass": lambda seed: cdopt.ClassicCD(step(seed, M=np.diag(1.0 + np.arange(4.0)))),
    "delassus": lambda seed: cdopt.ClassicCD(delassus(seed)),
    "joints": lambda seed: cdopt.ClassicCD(jointed(seed), form="velocity"),
    "compliant": lambda seed: cdopt.CompliantCD(step(seed)),
    "compliant, Hertz": lambda seed: cdopt.CompliantCD(step(seed), 2.5),
    "compliant, velocity": lambda seed: cdopt.CompliantCD(step(seed), 2.5, form="velocity"),
    "truss": truss,
    "truss, potential": lambda seed: truss(seed, form="potential", power=2.5),
    "associated": lambda seed: cdopt.FrictionalCD(step(seed, True), "associated"),
    "associated, force": lambda seed: cdopt.FrictionalCD(step(seed, True), "associated", "force"),
    "coulomb": lambda seed: cdopt.FrictionalCD(step(seed, True)),
    "coulomb, force": lambda seed: cdopt.FrictionalCD(step(seed, True), form="force"),
}


SOLVED = [(name, solver) for name in MADE for solver in ("clarabel", "scs")]
SOLVED += [(name, "osqp") for name, make in MADE.items() if make(0).problem_class == "QP"]


@pytest.fixture(autouse=True)
def _nothing_kept() -> Iterator[None]:
    kept._kept.clear()
    yield
    kept._kept.clear()


def fresh(posed: Formulation, backend: str, **settings: Any) -> cdopt.StepSolution:
    """The solution by constants."""
    assert posed.problem.parameters() == [] or posed._varying
    return posed.solve(backend, **settings)


def compiled(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Grows when CVXPY compiles."""
    built, chain = list[int](), cp.Problem._construct_chain

    def counted(problem: cp.Problem, *args: object, **more: object) -> object:
        built.append(1)
        return chain(problem, *args, **more)

    monkeypatch.setattr(cp.Problem, "_construct_chain", counted)
    return built


@cache
def after_two(name: str, backend: str) -> dict[Any, Any]:
    """What is kept once two problems of the structure were solved, from nothing."""
    for seed in (0, 1):
        MADE[name](seed).solve(backend)
    return dict(kept._kept)


@pytest.mark.parametrize(("name", "backend"), SOLVED)
def test_answers_are_those_of_the_problem_by_itself(
    name: str, backend: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Forces, motions, multipliers, objectives and certificates, to the last bit."""
    make = MADE[name]
    kept._kept.update(after_two(name, backend))
    built = compiled(monkeypatch)
    shared = [make(seed).solve(backend) for seed in (2, 3, 4)]
    assert not built
    for seed, answer in zip((2, 3, 4), shared, strict=True):
        alone = fresh(make(seed), backend)
        for field in ("f", "f_t", "v_next", "u", "gap", "dual"):
            one, other = getattr(answer, field, None), getattr(alone, field, None)
            assert (one is None) == (other is None)
            if one is not None:
                np.testing.assert_array_equal(one, other)
        assert answer.objective == alone.objective
        assert answer.certificate == alone.certificate
        assert (answer.status, answer.iterations) == (alone.status, alone.iterations)


@pytest.mark.parametrize(("name", "backend"), SOLVED)
def test_numbers_of_the_next_problem_are_those_that_cvxpy_computes(name: str, backend: str) -> None:
    """P, q, the offset, A and b, by three products, at values that CVXPY has not seen."""
    (statement,) = after_two(name, backend).values()
    posed = statement.with_rates(MADE[name](5).data)
    program = posed.problem._cache.param_prog
    if program.P is None:
        return
    assert "apply_parameters" in vars(program)
    quick = program.apply_parameters(quad_obj=True)
    for one, other in zip(
        quick, type(program).apply_parameters(program, quad_obj=True), strict=True
    ):
        one, other = (x.toarray() if sp.issparse(x) else x for x in (one, other))
        np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("name", ["classic", "truss, potential", "associated"])
def test_what_a_user_sees_is_the_equation_with_the_answer(name: str) -> None:
    make = MADE[name]
    for seed in (0, 1, 2):
        cd = make(seed)
        solution = cd.solve("clarabel")
        assert "statement" not in vars(cd) or seed == 0
        assert not cd.problem.parameters()
        assert str(cd.problem) == str(make(seed).problem)
        np.testing.assert_array_equal(cd.iterate().forces, solution.iterate.forces)
        assert cd.problem.value == pytest.approx(cd.problem.objective.value, rel=1e-12)
        assert cd.solve("clarabel").objective == pytest.approx(solution.objective, rel=1e-9)


@pytest.mark.parametrize("backend", ["clarabel", "scs", "osqp", "highs"])
def test_one_object_has_one_answer_whatever_is_solved_between(backend: str) -> None:
    make, posed = MADE["classic, velocity"], []
    for seed in (0, 1, 2, 3):
        posed.append(make(seed))
        posed[-1].solve(backend)
    cd = posed[2]
    first = cd.solve(backend)
    for other in posed:
        other.solve(backend)
        again, away = cd.solve(backend), pickle.loads(pickle.dumps(cd)).solve(backend)
        for answer in (again, away):
            np.testing.assert_array_equal(answer.f, first.f)
            assert answer.certificate == first.certificate
        np.testing.assert_array_equal(cd.iterate().forces, first.f)
        prepared = cd.prepare()
        np.testing.assert_array_equal(prepared.solve(backend).f, first.f)
        np.testing.assert_array_equal(
            pickle.loads(pickle.dumps(prepared)).solve(backend).f, first.f
        )


def test_another_pattern_cone_or_power_is_another_structure() -> None:
    for _ in range(3):
        cdopt.ClassicCD(step(0)).solve("clarabel")
        cdopt.FrictionalCD(step(0, True), "associated").solve("clarabel")
        cdopt.CompliantCD(step(0)).solve("clarabel")
    B = step(1).B.toarray()
    B[0, 0] = 0.0
    rough = step(1, True)
    slippery = rough.replace(friction=cdopt.Friction(0.05, rough.friction.B_t))
    for posed in (
        lambda: cdopt.ClassicCD(step(1, B=B)),
        lambda: cdopt.ClassicCD(step(1, M=np.eye(4))),
        lambda: cdopt.FrictionalCD(slippery, "associated"),
        lambda: cdopt.CompliantCD(step(1), 3.0),
    ):
        answer, alone = posed().solve("clarabel"), fresh(posed(), "clarabel")
        assert answer.claimed
        np.testing.assert_array_equal(answer.f, alone.f)


def test_no_answer_is_left_for_the_next_problem() -> None:
    """Contacts that cannot both open have no motion: the next one of the structure has."""

    def between(gap: float) -> cdopt.ClassicCD:
        walls = cdopt.ContactStep(
            [[1.0]], [[1.0], [-1.0]], [gap, -0.01], [0.0], [0.0], 1e-3, stiffness=1.0
        )
        return cdopt.ClassicCD(walls, form="velocity")

    for gap in (0.02, 0.03, -0.01, 0.04, -0.02, 0.02):
        if gap > 0.0:
            assert between(gap).solve("clarabel").ok
            continue
        cd = between(gap)
        with pytest.raises(cdopt.SolveFailed) as error:
            cd.solve("clarabel")
        assert error.value.proof is not None
        assert cd.iterate() is None
    assert cdopt.ClassicCD(between(0.02).step, form="velocity").iterate() is None


def test_threads_solve_problems_of_one_structure_at_once() -> None:
    posed = [MADE["associated"](seed) for seed in range(12)]
    alone = [fresh(MADE["associated"](seed), "clarabel") for seed in range(12)]
    with ThreadPoolExecutor(4) as pool:
        answers = list(pool.map(lambda cd: cd.solve("clarabel"), posed))
    for cd, answer, known in zip(posed, answers, alone, strict=True):
        np.testing.assert_array_equal(answer.f, known.f)
        assert answer.certificate == known.certificate
        np.testing.assert_array_equal(cd.iterate().forces, answer.iterate.forces)


def test_a_start_is_that_of_the_problem_by_itself() -> None:
    """Of OSQP, whose answer depends on it."""
    start = MADE["classic"](9).solve("osqp")
    settings = {"warm_start": start, "accuracy": 1e-4}
    for seed in range(4):
        answer = MADE["classic"](seed).solve("osqp", **settings)
        alone = fresh(MADE["classic"](seed), "osqp", **settings)
        assert answer.iterations == alone.iterations
        np.testing.assert_array_equal(answer.f, alone.f)


def test_a_linear_objective_is_compiled_with_its_numbers() -> None:
    """CVXPY would keep the factor of the first M; solvers of linear objectives need it too."""
    assert takes_quadratic("clarabel", "QP")
    assert takes_quadratic("osqp", "QP")
    assert not takes_quadratic("ecos", "SOCP")
    assert not takes_quadratic("osqp", "SOCP")
    for seed in range(4):
        answer = MADE["classic"](seed).solve("clarabel", use_quad_obj=False)
        np.testing.assert_allclose(answer.f, MADE["classic"](seed).solve("newton").f, atol=1e-2)


def test_few_and_small_problems_are_kept() -> None:
    for nc in range(1, kept._STATEMENTS + 3):
        eye, none = np.eye(nc), np.zeros(nc)
        for _ in range(2):
            cdopt.ClassicCD(cdopt.ContactStep(eye, eye, none, none, none, 1e-3)).solve("clarabel")
    assert len(kept._kept) == kept._STATEMENTS
    nc = kept._NUMBERS // 3 + 1  # numbers in B, M and the rates
    wide = sp.eye_array(nc).tocsr()
    posed = cdopt.ContactStep(wide, wide, np.zeros(nc), np.zeros(nc), np.zeros(nc), 1e-3)
    before = list(kept._kept)
    for _ in range(2):
        cdopt.ClassicCD(posed).solve("clarabel")
    assert list(kept._kept) == before
