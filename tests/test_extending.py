"""A formulation and a solver that one file defines take part as those of cdopt do."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pytest

import cdopt
from cdopt.backends import registry
from cdopt.backends.native import (
    NATIVE,
    NativeBackend,
    Run,
    listed,
    natural_residual,
)
from cdopt.backends.network_problem import NetworkProblem
from cdopt.formulations.base import FORMS
from cdopt.formulations.compliant_cd import ElasticStep
from cdopt.formulations.printing import align
from cdopt.problem import HalfLines, elastic_data
from cdopt.problem.contact_law import HOOKE, PowerLaw
from cdopt.problem.rolling_cones import RollingCones


class RegularisedCD(ElasticStep):
    """minimise over f ≥ 0    ½ fᵀN f + pᵀf + ½ α ‖f‖², with α in m/(N s)."""

    def __init__(self, step: cdopt.ContactStep, alpha: float = 1e-6, form: str = "force") -> None:
        self.step = self._keep_joints(self._take(step, form))
        stiffness = np.full(step.nc, 1.0 / (alpha * step.dt))
        self.data = elastic_data(self.step, PowerLaw(stiffness, HOOKE), springs=self.springs)

    def latex(self) -> str:
        return align(
            r"\min_{f \ge 0}\quad & \tfrac12 f^\mathsf{T} N f + p^\mathsf{T} f"
            r" + \tfrac12 \alpha \lVert f \rVert^2"
        )


@dataclass(frozen=True)
class Jacobi(NativeBackend):
    """Projected Jacobi, which updates all forces at once."""

    name: ClassVar[str] = "jacobi"
    kinds: ClassVar[frozenset[str]] = frozenset({"rigid step"})
    cones: ClassVar[frozenset[str]] = frozenset({HalfLines.name})
    limit: ClassVar[str] = "max_sweeps"

    max_sweeps: int = 100_000
    accuracy: float = 1e-8

    def _solve(self, problem: NetworkProblem, run: Run) -> Run:
        diagonal, N = problem.factors.diagonal, problem.factors.dense()
        f, met, sweeps = problem.acting_start(run.start), False, 0
        most = np.maximum(np.abs(N).sum(axis=1), np.finfo(float).tiny)
        with run.iterating(problem.nc):
            while not met and sweeps < self.max_sweeps and not run.deadline.passed:
                f = np.maximum(f - (N @ f + problem.p) / most, 0.0)
                met = natural_residual(diagonal, N @ f + problem.p, f) <= self.accuracy
                sweeps += 1
        return run.ended(problem.caused(f), met, sweeps)


class BoxCones(RollingCones):
    """|f_1| ≤ μ_1 f_n and |f_2| ≤ μ_2 f_n: friction with two coefficients."""

    name = "box cones"


@pytest.fixture
def jacobi(monkeypatch: pytest.MonkeyPatch) -> str:
    for table in (NATIVE, registry.SOLVERS):
        monkeypatch.setitem(table, Jacobi.name, None)  # taken out again afterwards
        del table[Jacobi.name]
    return listed(Jacobi).name


@pytest.mark.parametrize("form", FORMS)
def test_a_formulation_is_stated_solved_and_certified(form: str) -> None:
    """The beam on three supports, with forces unique: all equal, less what the penalty takes."""
    step, alpha = cdopt.bank.load("beam-uniform").step, 1e-6
    cd = RegularisedCD(step, alpha, form)
    data = cdopt.ClassicCD(step).data
    exact = np.linalg.solve(data.delassus + alpha * np.eye(3), -data.p)
    assert "minimize ½ wᵀ M w" in str(cd.problem)
    for backend in ("newton", "clarabel", "interior-point"):
        solution = cd.solve(backend, accuracy=1e-10)
        assert solution.ok
        np.testing.assert_allclose(solution.f, exact, rtol=1e-5)
    capped = cd.with_constraints((cd.forces if form == "force" else cd.velocity)[0] <= 3.0)
    assert capped.solve("clarabel", accuracy=1e-11).ok


def test_a_solver_is_listed_described_compared_and_certified(jacobi: str) -> None:
    step = cdopt.bank.load("pyramid-hooke:n=3").step
    assert jacobi in cdopt.backends.available()
    record = cdopt.backends.describe(jacobi)
    assert record["note"].startswith("Projected Jacobi")
    assert record["takes"] == ["rigid step"]
    assert jacobi in cdopt.study.choose_backends(step.nc)[0]
    table = cdopt.compare(step, [jacobi, "newton"])
    assert [solution.ok for solution in table] == [True, True]
    assert table.motion_spread < 1e-5
    assert "jacobi" in str(table)
    with pytest.raises(cdopt.InvalidInput, match="max_sweeps"):
        cdopt.ClassicCD(step).solve(jacobi, max_sweeps=0)
    with pytest.raises(cdopt.Unsupported, match="jacobi"):
        cdopt.FrictionalCD(cdopt.bank.load("incline").step).solve(jacobi)
    stopped = cdopt.ClassicCD(step).solve(jacobi, max_sweeps=1, check=False)
    assert (stopped.claimed, stopped.status) == (False, "iteration limit")


@pytest.mark.parametrize("form", FORMS)
def test_cones_are_stated_solved_and_certified(form: str) -> None:
    """A block pulled along both tangents: each is held up to its own limit.

    By the associated law what slides at s opens at μ s: f_n = W + μ (5 − μ f_n) with μ = 0.2.
    """
    weight, cones = 20.0, BoxCones(np.array([[0.2, 0.6]]), (1, 1))
    step = cdopt.problem.ConeStep(
        *(2.0 * np.eye(3), np.eye(3), cones, np.zeros(3), np.zeros(3)),
        F_ext=[-weight, 5.0, 9.0],
        dt=1e-3,
    )
    cd = cdopt.SoftCD(step, 1e-7, form=form)
    for backend in ("newton", "apgd", "clarabel"):
        solution = cd.solve(backend, accuracy=1e-10)
        assert solution.ok
        f = cd.row_forces(solution)
        normal = (weight + 0.2 * 5.0) / (1.0 + 0.2**2)
        np.testing.assert_allclose(f, [normal, -0.2 * normal, -9.0], rtol=1e-3)
