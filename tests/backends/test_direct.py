"""Solvers called by their own interfaces: the same problems, the same certificate."""

from __future__ import annotations

import numpy as np
import pytest

import cdopt
from cdopt import InvalidInput, Unsupported, bank
from cdopt.backends import available
from cdopt.backends.modelled import DIRECT, Direct

NAMES = [name for name in DIRECT if name in available()]


def test_those_that_always_are_there_are_among_them() -> None:
    assert {"clarabel", "osqp", "scs"} <= set(NAMES)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("form", ["force", "velocity"])
def test_a_step_by_the_solver_itself(name: str, form: str) -> None:
    step = bank.load("pyramid-hooke:n=3").step
    found = cdopt.ClassicCD(step, form).solve(Direct(name, 1e-9), tol=1e-6)
    assert found.ok
    assert found.claimed
    assert found.backend == f"{name}, direct"
    assert found.iterations > 0
    assert set(found.timings) == {"compile", "solve", "read", "certify"}
    assert "1e-09" in str(found.provenance["settings"])


@pytest.mark.parametrize("name", NAMES)
def test_compatible_forces_are_those_of_the_bank(name: str) -> None:
    problem = bank.load("beam-stiff-middle")
    found = cdopt.CompatibleCD(problem.step).solve(Direct(name, 1e-9))
    assert found.ok
    assert problem.error("f_compatible", found) < 1e-6


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=[pytest.mark.slow] * (name == "scs"))
        for name in NAMES
        if "SOCP" in Direct(name).capability.classes
    ],
)
def test_cones_go_to_those_that_take_them(name: str) -> None:
    step = bank.load("pyramid-hertz:n=3").step
    posed = cdopt.CompatibleCD(step, 2.5)
    own, newton = posed.solve(Direct(name, 1e-9)), posed.solve("newton")
    assert own.ok
    np.testing.assert_allclose(own.f, newton.f, atol=1e-4 * newton.f.max())


def test_defaults_are_the_solver_s_own_not_those_of_cvxpy() -> None:
    posed = cdopt.ClassicCD(bank.load("pyramid-falling").step)
    own, usual = posed.solve(Direct("osqp")), posed.solve("osqp")
    assert own.provenance["settings"] == {}
    assert own.iterations < usual.iterations  # eps 1e-3; CVXPY makes it 1e-5


@pytest.mark.parametrize("name", NAMES)
def test_a_problem_without_an_answer_gets_none(name: str) -> None:
    posed = cdopt.ClassicCD(bank.load("squeezed").step)
    found = posed.solve(Direct(name), check=False)
    assert not found.ok
    assert found.claimed == (name == "qoco")  # which looks for no proof that there is none
    assert found.claimed == posed.solve(name, check=False).claimed


@pytest.mark.parametrize("name", ["newton", "pgs", "highs"])
def test_others_are_refused(name: str) -> None:
    with pytest.raises(Unsupported, match="direct"):
        Direct(name)


def test_bad_settings_are_refused() -> None:
    with pytest.raises(InvalidInput, match="backend"):
        Direct("no-such")
    with pytest.raises(InvalidInput, match="accuracy"):
        Direct("osqp", 0.0)


def test_cones_are_refused_by_those_that_take_none() -> None:
    step = bank.load("pyramid-hertz:n=2").step
    with pytest.raises(Unsupported, match="second-order cones"):
        cdopt.CompatibleCD(step, 2.5).solve(Direct("osqp"))
