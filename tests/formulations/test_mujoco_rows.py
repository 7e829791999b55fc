"""MuJoCo's own step restated: its forces and accelerations to round-off."""

from __future__ import annotations

import numpy as np
import pytest
from mujoco_soft_models import MODELS, engine, random_state

import cdopt
from cdopt._util.errors import InvalidInput, Unsupported

STATES, FEW = 200, 4
CLOSE = 1e-8
EVERY = set(range(8))  # kinds of rows


def agree(name: str, states: range) -> None:
    """The engine's efc_force and qacc, of every state, relative to the largest."""
    model = MODELS[name]()
    for seed in states:
        data = random_state(model, seed)
        soft = cdopt.SoftCD.from_mujoco(model, data)
        solution = soft.solve("newton")
        assert solution.ok
        for ours, theirs in (
            (soft.row_forces(solution), data.efc_force),
            (soft.acceleration(solution), data.qacc),
        ):
            np.testing.assert_allclose(ours, theirs, atol=CLOSE * np.abs(theirs).max())


@pytest.mark.parametrize("name", MODELS)
def test_forces_and_accelerations_are_the_engines(name: str):
    agree(name, range(FEW))


@pytest.mark.slow
@pytest.mark.parametrize("name", MODELS)
def test_forces_and_accelerations_of_many_states_are_the_engines(name: str):
    agree(name, range(STATES))


@pytest.mark.parametrize("name", MODELS)
def test_both_statements_have_the_engines_forces(name: str):
    """Lines, boxes, half-lines and ellipses in CVXPY, in forces and in motions."""
    model = MODELS[name]()
    data, answers = random_state(model, 1), {}
    for form in ("force", "velocity"):
        soft = cdopt.SoftCD.from_mujoco(model, data, form=form)
        answers[form] = soft.solve("scs", accuracy=1e-9)
        assert answers[form].ok
        forces = soft.row_forces(answers[form])
        np.testing.assert_allclose(forces, data.efc_force, atol=1e-7 * data.efc_force.max())
    dual = -model.opt.timestep * answers["force"].objective
    assert answers["velocity"].objective == pytest.approx(dual, rel=1e-9)


def test_the_models_have_every_kind_of_row():
    kinds = set[int]()
    for make in MODELS.values():
        model = make()
        for seed in range(FEW):
            kinds |= {int(kind) for kind in random_state(model, seed).efc_type}
    assert kinds == EVERY


def test_what_the_engine_does_otherwise_is_refused():
    model = MODELS["quadruped"]()
    data = random_state(model, 0)
    with pytest.raises(InvalidInput, match="data of another model"):
        cdopt.SoftCD.from_mujoco(MODELS["strings"](), data)
    model.opt.noslip_iterations = 3
    with pytest.raises(Unsupported, match="noslip_iterations"):
        cdopt.SoftCD.from_mujoco(model, data)
    assert engine.mj_versionString()
