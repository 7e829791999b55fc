"""Problems with CVXPY parameters in physical units: DPP, and right at other values."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import cdopt

STEPS = {"beam": cdopt.bank.load("beam-stiff-middle").step, "box": cdopt.bank.load("ladder").step}
MADE: dict[str, tuple[str, Callable[[Any], Any]]] = {
    "classic": ("beam", cdopt.ClassicCD),
    "classic, velocity": ("beam", lambda step: cdopt.ClassicCD(step, form="velocity")),
    "compliant": ("beam", lambda step: cdopt.CompliantCD(step, 2.0, kappa=1e6)),
    "compliant, velocity": (
        "beam",
        lambda step: cdopt.CompliantCD(step, 2.0, kappa=1e6, form="velocity"),
    ),
    "associated": ("box", lambda step: cdopt.FrictionalCD(step, "associated")),
    "associated, force": ("box", lambda step: cdopt.FrictionalCD(step, "associated", form="force")),
}


@pytest.mark.parametrize("name", MADE)
def test_other_values_give_the_answer_of_the_other_step(name: str) -> None:
    on, make = MADE[name]
    step, rng = STEPS[on], np.random.default_rng(3)
    stated = make(step).parametrised()
    assert stated.problem.is_dpp()
    for size in (0.0, 1.0):
        changes = {
            "phi": step.phi + 1e-5 * size * rng.random(step.nc),
            "v": step.v + 1e-3 * size * rng.standard_normal(step.nv),
            "F_ext": step.F_ext * (1.0 + 0.3 * size * rng.random(step.nv)),
        }
        there = step.replace(**changes)
        if "flexibility" in stated.parameters:
            there = there.replace(stiffness=step.stiffness * (1.0 + size * rng.random(step.nc)))
            stated.parameters["flexibility"].value = 1e-6 / there.stiffness
        for key, value in changes.items():
            stated.parameters[key].value = value
        stated.problem.solve("CLARABEL", tol_gap_abs=1e-12, tol_gap_rel=1e-12, tol_feas=1e-12)
        answer = make(there).solve("newton")
        at = 1e-5 * max(np.abs(there.v_star).max(), np.abs(answer.v_next).max())
        np.testing.assert_allclose(stated.variables["v_next"].value, answer.v_next, atol=at)
        if "f" in stated.variables and name.startswith("compliant"):
            np.testing.assert_allclose(stated.variables["f"].value, answer.f, rtol=1e-5)


def test_cvxpy_differentiates_the_program() -> None:
    """By diffcp, an elastic step, against finite differences."""
    step = STEPS["beam"]
    stated = cdopt.CompliantCD(step, 2.0, kappa=1e6).parametrised()
    stated.problem.solve("DIFFCP", requires_grad=True, eps=1e-12)
    for variable in stated.problem.variables():
        variable.gradient = np.zeros(variable.shape)
    stated.variables["v_next"].gradient = np.array([1.0, 0.0])
    stated.problem.backward()
    size, slope = 1e-5, []
    for k in range(step.nv):
        way = size * np.eye(step.nv)[k]
        ends = [
            cdopt.CompliantCD(step.replace(F_ext=step.F_ext + s * way), 2.0, kappa=1e6).solve()
            for s in (1.0, -1.0)
        ]
        slope.append((ends[0].v_next[0] - ends[1].v_next[0]) / (2.0 * size))
    np.testing.assert_allclose(stated.parameters["F_ext"].gradient, slope, atol=1e-6)


def test_what_has_no_parameters() -> None:
    beam = STEPS["beam"]
    with pytest.raises(cdopt.Unsupported, match="Coulomb"):
        cdopt.FrictionalCD(STEPS["box"]).parametrised()
    with pytest.raises(cdopt.Unsupported, match="restitution"):
        cdopt.ClassicCD(beam.replace(restitution=0.5)).parametrised()
    with pytest.raises(cdopt.Unsupported, match="p is not 2"):
        cdopt.CompliantCD(beam, 2.5).parametrised()
    with pytest.raises(cdopt.Unsupported, match="matrices"):
        cdopt.ClassicCD(cdopt.bank.load("supports-delassus").step).parametrised()
    with pytest.raises(cdopt.Unsupported, match="matrices"):
        cdopt.NoTensionTruss(beam.B, [10.0, 0.0]).parametrised()
