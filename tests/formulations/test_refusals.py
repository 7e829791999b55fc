"""What each formulation refuses before it solves anything, by the name of the argument."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from conftest import beam

import cdopt
from cdopt import Friction
from cdopt.formulations import Sliders, StepDamping

BEAM, ROWS = beam(), cdopt.ContactStep.from_delassus([[1.0]], [-1.0])
THREE = cdopt.ContactStep(np.eye(2), np.ones((3, 2)), np.zeros(3), [0, 0], [0, 0], 0.1)
BALL = cdopt.ContactStep([[1.0]], [[1.0]], [0.0], [0.0], [0.0], 0.1)
POINT = cdopt.ContactStep(np.eye(2), [[0.0, 1.0]], [0.0], [6.0, 0.0], [0.0, -9.81], 1e-3)
SLIDING = POINT.replace(friction=Friction(0.5, [[1.0, 0.0]]))
CLASSIC = cdopt.ClassicCD(BEAM)
TIED = CLASSIC.with_constraints(CLASSIC.forces <= 4.0)


def one_step(**changes: Any) -> cdopt.CompatibleCD:
    return cdopt.CompatibleCD(BEAM, **{"method": "one-step", **changes})


def rest(**changes: Any) -> cdopt.QuasiStatic:
    return cdopt.QuasiStatic(**{"B": [[1.0]], "phi": [0.0], "applied": [-1.0], **changes})


def variational(**changes: Any) -> cdopt.VariationalStep:
    return cdopt.VariationalStep(**{"step": THREE, "mom": np.zeros(2), **changes})


def slider(**changes: Any) -> cdopt.VariationalStep:
    sliders = Sliders([[1.0, 0.0]], 100.0, [1.0])
    return cdopt.VariationalStep(POINT, [1.0, 0.0], **{"sliders": sliders, **changes})


def rough(**changes: Any) -> cdopt.ContactStep:
    return POINT.replace(friction=Friction(**{"mu": 0.5, "B_t": [[1.0, 0.0]], **changes}))


def rough_rows(mu: Any) -> cdopt.DelassusStep:
    return cdopt.DelassusStep(np.eye(4), -np.ones(4), friction=Friction(mu))


BAD_VARIATIONAL: dict[str, list[Any]] = {
    "alpha": [1.0, np.nan, 1e-12, "half"],
    "mom": [[1.0], [np.inf, 0.0]],
    "power": [1.0],
    "form": ["potential"],
    "step": [np.eye(2)],
    "damping": ["viscous"],
    "damping_matrix": [np.eye(3), [[1, 0.5], [0, 1]], [[1, 2], [2, 1]], [[0, 1], [1, 1]]],
    "two_sided": [[True], [1, 0, 1]],
}
BAD_FRICTION: dict[str, list[Any]] = {
    "mu": [-0.1, np.nan, [0.1, 0.2], True],
    "B_t": [None, np.ones((3, 2)), [["a", "b"]]],
    "rate": [[[1.0, 2.0]], "fast"],
    "stiffness_ratio": [0.0],
    "tangents": [[[[2.0, 0.0]]]],
}
INVALID: list[tuple[str, Callable[[], Any]]] = [
    *((n, lambda n=n, v=v: variational(**{n: v})) for n, vs in BAD_VARIATIONAL.items() for v in vs),
    *((n, lambda n=n, v=v: rough(**{n: v})) for n, vs in BAD_FRICTION.items() for v in vs),
    ("damping_matrix", lambda: variational(damping_matrix=[[np.nan, 0.0], [0.0, 1.0]])),
    ("damping_matrix", lambda: variational(damping_matrix=np.eye(2), damping=StepDamping([[1]]))),
    ("damping_matrix", lambda: variational(damping=StepDamping(np.eye(3)))),
    ("damping start", lambda: StepDamping(np.eye(2), start=(-np.eye(2), [0.0, 0.0]))),
    ("damping end", lambda: StepDamping(np.eye(2), end=(np.ones((2, 3)), [0.0, 0.0]))),
    ("damping end", lambda: StepDamping(np.eye(2), end=(np.eye(2), [0.0]))),
    ("damping drive", lambda: StepDamping(np.eye(2), drive=[1.0])),
    ("u", lambda: variational().residual([1.0])),
    ("cap", lambda: slider(two_sided=np.array([True]))),
    ("cap", lambda: Sliders([[1.0, 0.0]], 100.0, [-1.0])),
    ("B_t", lambda: Sliders(np.ones((3, 2)), 1.0, [1.0])),
    ("sliders", lambda: slider(sliders=Sliders(np.ones((1, 3)), 1.0, [1.0]))),
    ("rate", lambda: Sliders(np.zeros((0, 2)), 1.0, [], rate=5.0)),
    ("kappa", lambda: cdopt.CompliantCD(BEAM, kappa=0.0)),
    ("form", lambda: cdopt.CompliantCD(BEAM, form="potential")),
    ("method", lambda: one_step(method="three-step")),
    ("epsilon", lambda: one_step(method="two-step", epsilon=1e-3)),
    ("epsilon", lambda: one_step(epsilon=-1.0)),
    ("classic", lambda: one_step().solve("newton", classic="pgs")),
    ("phi", lambda: rest(phi=[0.0, 1.0])),
    ("applied", lambda: rest(applied=[-1.0, 2.0])),
    ("stiffness", lambda: rest(stiffness=0.0)),
    ("solution", lambda: CLASSIC.polish(None)),
    ("warm_start", lambda: CLASSIC.polish(cdopt.ClassicCD(THREE.select([0])).solve("newton"))),
    ("step", lambda: cdopt.FrictionalCD(POINT)),
    ("law", lambda: cdopt.FrictionalCD(SLIDING, "viscous")),
    ("friction", lambda: POINT.replace(friction=0.5)),
    ("mu", lambda: rough_rows(0.5)),
    ("N", lambda: rough_rows([0.5])),
    ("N", lambda: rough_rows([])),
    ("relaxation", lambda: cdopt.FrictionalCD(SLIDING).solve("nsgs", relaxation=1.5)),
]
UNSUPPORTED: list[tuple[str, Callable[[], Any]]] = [
    ("alpha 0", lambda: slider(alpha=0.0)),
    ("force form", lambda: slider(form="force")),
    ("restitution", lambda: cdopt.VariationalStep(BALL.replace(restitution=0.5), [0.0])),
    ("N and p", lambda: cdopt.VariationalStep(ROWS, [0.0])),
    ("N and p", lambda: cdopt.CompliantCD(ROWS)),
    ("N and p", lambda: cdopt.CompatibleCD(ROWS, method="one-step")),
    ("velocity", lambda: cdopt.FrictionalCD(rough_rows([0.5, 0.5]), form="velocity")),
    ("polishing", lambda: TIED.polish(TIED.solve("clarabel"))),
]


@pytest.mark.parametrize(("argument", "call"), INVALID)
def test_the_error_names_the_argument(argument: str, call: Callable[[], Any]) -> None:
    with pytest.raises(cdopt.InvalidInput) as error:
        call()
    assert error.value.argument == argument


@pytest.mark.parametrize(("why", "call"), UNSUPPORTED)
def test_what_a_formulation_is_not_for_is_refused(why: str, call: Callable[[], Any]) -> None:
    with pytest.raises(cdopt.Unsupported, match=re.escape(why)):
        call()
