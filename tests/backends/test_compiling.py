"""Steps of one structure are compiled twice by CVXPY; later ones are filled in, bit for bit."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import cvxpy as cp
import numpy as np
import pytest

import cdopt
from cdopt.backends import compiling

POSED: dict[str, Callable[[cdopt.ContactStep], Any]] = {
    "classic, force": cdopt.ClassicCD,
    "classic, velocity": lambda step: cdopt.ClassicCD(step, "velocity"),
    "compliant": lambda step: cdopt.CompliantCD(step, kappa=1e6),
    "compliant, Hertz": lambda step: cdopt.CompliantCD(step, 2.5, 1e9, "velocity"),
    "truss": lambda step: cdopt.NoTensionTruss(step.B, -step.F_ext, step.stiffness),
    "truss, potential": lambda step: cdopt.NoTensionTruss(
        step.B, -step.F_ext, step.stiffness, form="potential"
    ),
    "N and p": lambda step: cdopt.ClassicCD(cdopt.DelassusStep(step.N, step.p_vec)),
}
SECOND_ORDER = ("compliant, Hertz",)
CASES = [(name, "clarabel") for name in POSED]
CASES += [
    (name, solver) for name in POSED if name not in SECOND_ORDER for solver in ("osqp", "scs")
]


@pytest.fixture(autouse=True)
def compilations(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Nothing kept from other tests; the solvers for which CVXPY compiled."""
    compiled: list[str] = []
    original = cp.Problem.get_problem_data

    def counted(self: cp.Problem, solver: str, *args: Any, **options: Any) -> Any:
        compiled.append(solver)
        return original(self, solver, *args, **options)

    monkeypatch.setattr(cp.Problem, "get_problem_data", counted)
    monkeypatch.setattr(compiling, "_KEPT", type(compiling._KEPT)())
    return compiled


def beam(seed: int, **changes: Any) -> cdopt.ContactStep:
    """A beam on three supports in another state of motion each time."""
    rng = np.random.default_rng(seed)
    arguments = {
        "M": [[1.02, 0.01], [0.01, 0.085]],
        "B": [[1.0, -0.5], [1.0, 0.1], [1.0, 0.5]],
        "phi": rng.uniform(0.0, 1e-4, 3),
        "v": rng.normal(0.0, 0.01, 2),
        "F_ext": [-10.0 - rng.uniform(), rng.normal()],
        "dt": 1e-3,
        "stiffness": [1.0, 3.0, 1.0],
    }
    return cdopt.ContactStep(**(arguments | changes))


@pytest.mark.parametrize(("name", "solver"), CASES)
def test_filled_in_it_is_what_cvxpy_compiles(name, solver, compilations) -> None:
    again = [POSED[name](beam(seed)).solve(solver, check=False) for seed in range(5)]
    assert len(compilations) == 3  # two problems, and the second with random numbers
    for seed, solution in enumerate(again):
        compiling._KEPT.clear()
        fresh = POSED[name](beam(seed)).solve(solver, check=False)
        np.testing.assert_array_equal(solution.iterate.forces, fresh.iterate.forces)
        np.testing.assert_array_equal(solution.iterate.motion, fresh.iterate.motion)
        assert (solution.status, solution.iterations) == (fresh.status, fresh.iterations)


def test_another_structure_is_compiled(compilations) -> None:
    for seed in range(3):
        cdopt.ClassicCD(beam(seed)).solve("clarabel")
    before = len(compilations)
    changed: list[Any] = [
        cdopt.ClassicCD(beam(3, B=[[1.0, -0.5], [1.0, 0.0], [1.0, 0.5]])),
        cdopt.ClassicCD(beam(3, M=np.diag([1.02, 0.085]))),
        cdopt.CompliantCD(beam(3), 2.5, 1e9),
        cdopt.CompliantCD(beam(3), 3.0, 1e9),
    ]
    for cd in changed:
        assert cd.solve("clarabel").ok
    cdopt.ClassicCD(beam(3)).solve("clarabel", accuracy=1e-6)
    assert len(compilations) == before + len(changed) + 1


def test_constraints_of_the_users_own_count_each_time() -> None:
    """Their numbers, their parameters, and what a cone holds beside its arguments."""
    still = {"phi": np.zeros(3), "v": np.zeros(2), "F_ext": [-10.0, 0.0]}
    first, cap = cdopt.ClassicCD(beam(0, **still)), cp.Parameter()
    parametrised = first.with_constraints(first.forces[1] <= cap)
    for cap.value in (2.0, 2.5, 3.0, 3.5, 3.5, 3.5):
        cd = cdopt.ClassicCD(first.step)
        stated = (cd.forces[1] <= cap.value, cd.forces <= np.array([9.0, cap.value, 9.0]))
        for capped in (*map(cd.with_constraints, stated), parametrised):
            assert capped.solve("clarabel").f[1] <= cap.value + 1e-6
    for share in (0.5, 0.5, 0.5, 0.8, 0.8, 0.8):
        cd = cdopt.ClassicCD(first.step)
        f = cd.forces
        cone = cp.PowCone3D(f[[0]], f[[2]], f[[1]] / 2.0, np.array([share]))
        f = cd.with_constraints(cone, cd.forces[2] <= 1.0).solve("scs", accuracy=1e-9).f
        assert f[0] ** share * f[2] ** (1.0 - share) >= f[1] / 2.0 - 1e-5


def test_products_of_constants_are_compiled_each_time(compilations) -> None:
    rough = cdopt.Friction(0.5, np.ones((3, 2)))
    for seed in range(4):
        cd = cdopt.FrictionalCD(beam(seed, friction=rough), law="associated")
        forces = cd.solve("clarabel", check=False).iterate.forces
        fresh = compiling._compile(cd.problem, "clarabel", {})
        filled = compiling.compiled_for(cd.problem, "clarabel", {})
        np.testing.assert_array_equal(fresh.data["b"], filled.data["b"])
        assert np.isfinite(forces).all()
    assert not any(compiling._KEPT.values())
    assert len(compilations) <= 13  # three for each problem here, and one with random numbers


def test_large_problems_and_old_structures_are_not_kept(compilations, monkeypatch) -> None:
    for number in range(40):
        cdopt.NoTensionTruss(np.ones((number + 1, 1)), [1.0]).solve("clarabel")
    assert len(compiling._KEPT) == compiling._MOST
    monkeypatch.setattr(compiling, "_LARGEST", 10)
    compilations.clear()
    for seed in range(4):
        cdopt.ClassicCD(beam(seed)).solve("clarabel")
    assert len(compilations) == 4


def test_a_problem_filled_in_holds_its_own_answer_and_start() -> None:
    posed = [cdopt.ClassicCD(beam(seed)) for seed in range(4)]
    solutions = [cd.solve("osqp", accuracy=1e-9) for cd in posed]
    for cd, solution in zip(posed, solutions, strict=True):
        np.testing.assert_array_equal(cd.forces.value, solution.f)
        assert cd.problem.value == pytest.approx(cd.problem.objective.value)
    again = {"accuracy": 1e-9, "warm_start": solutions[3]}
    warm = cdopt.ClassicCD(beam(3)).solve("osqp", **again)
    compiling._KEPT.clear()
    fresh = cdopt.ClassicCD(beam(3)).solve("osqp", **again)
    assert warm.ok
    np.testing.assert_array_equal(warm.f, fresh.f)
    assert warm.iterations == fresh.iterations
