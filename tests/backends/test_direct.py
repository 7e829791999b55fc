"""Solvers with their own defaults: the same problems, the same certificate."""

from __future__ import annotations

import numpy as np
import pytest

import cdopt
from cdopt import InvalidInput, Unsupported, bank
from cdopt.backends import available
from cdopt.backends.modelled import Direct
from cdopt.backends.registry import DIRECT

NAMES = [name for name in DIRECT if name in available()]


@pytest.mark.parametrize("name", NAMES)
def test_a_step_and_its_compatible_forces(name: str) -> None:
    problem = bank.load("beam-stiff-middle")
    found = cdopt.CompatibleCD(problem.step).solve(Direct(name, 1e-9))
    assert found.ok
    assert problem.error("f_compatible", found) < 1e-6
    for form in ("force", "velocity"):
        step = bank.load("pyramid-hooke:n=3").step
        found = cdopt.ClassicCD(step, form).solve(Direct(name, 1e-9), tol=1e-6)
        assert found.ok
        assert found.claimed
        assert found.backend == f"{name}, direct"
        assert found.iterations > 0
        assert "1e-09" in str(found.provenance["settings"])


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=[pytest.mark.slow] * (name == "scs"))
        for name in NAMES
        if "SOCP" in Direct(name).capability.classes
    ],
)
def test_cones_go_to_those_that_take_them(name: str) -> None:
    posed = cdopt.CompatibleCD(bank.load("pyramid-hertz:n=3").step, 2.5)
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


def test_what_is_refused() -> None:
    assert {"clarabel", "osqp", "scs"} <= set(NAMES)
    for name in ("newton", "pgs", "highs"):
        with pytest.raises(Unsupported, match="direct"):
            Direct(name)
    for name, accuracy, argument in (("no-such", None, "backend"), ("osqp", 0.0, "accuracy")):
        with pytest.raises(InvalidInput, match=argument):
            Direct(name, accuracy)
    hertz = cdopt.CompatibleCD(bank.load("pyramid-hertz:n=2").step, 2.5)
    with pytest.raises(Unsupported, match="second-order cones"):
        hertz.solve(Direct("osqp"))
