"""What backends do alike: they refuse, stop at their limits and keep their histories."""

from __future__ import annotations

import dataclasses
import logging

import cvxpy as cp
import numpy as np
import pytest

import cdopt
from cdopt.backends.native import NATIVE
from cdopt.formulations import Formulation

STEP = cdopt.bank.load("pyramid-species").step
RIGID, VELOCITY = cdopt.ClassicCD(STEP), cdopt.ClassicCD(STEP, "velocity")
TRUSS = cdopt.NoTensionTruss(STEP.B, -STEP.F_ext, STEP.stiffness)
HERTZ = cdopt.NoTensionTruss(STEP.B, -STEP.F_ext, STEP.stiffness, power=2.5)
ELASTIC = cdopt.CompliantCD(STEP, kappa=1e9)
IN_TIME = cdopt.VariationalStep(STEP, np.zeros(STEP.nv))
ROUGH = cdopt.FrictionalCD(cdopt.bank.load("rough-pile:n=3").step)


@pytest.mark.parametrize(
    ("posed", "backend"),
    [
        *((posed, "pgs") for posed in (TRUSS, ELASTIC, IN_TIME, ROUGH)),
        *((TRUSS, name) for name in ("apgd", "lcp", "nsgs", "admm")),
        *((HERTZ, name) for name in ("osqp", "highs")),
        (ELASTIC, "augmented-lagrangian"),
    ],
)
def test_what_one_cannot_take_is_refused_before_the_solve(posed: Formulation, backend: str) -> None:
    with pytest.raises(cdopt.Unsupported, match=backend) as refusal:
        posed.solve(backend)
    able = refusal.value.alternatives
    assert {"newton", "clarabel"} <= set(able)
    assert backend not in able
    assert "clarabel" in str(refusal.value)


@pytest.mark.parametrize(
    ("posed", "backend", "limit", "status"),
    [
        (HERTZ, "newton", {"max_steps": 1}, "stopped at residual"),
        (TRUSS, "augmented-lagrangian", {"max_iterations": 10}, "iteration limit"),
        (TRUSS, "augmented-lagrangian", {"max_outer": 1}, "iteration limit"),
        (RIGID, "lcp", {"max_pivots": 3}, "pivot limit"),
        (RIGID, "osqp", {"max_iter": 3}, "maximum iterations"),
        (ROUGH, "nsgs", {"max_sweeps": 1}, "iteration limit"),
        (ROUGH, "admm", {"max_iterations": 10}, "iteration limit"),
    ],
)
def test_a_limit_leaves_an_iterate_and_no_answer(
    posed: Formulation, backend: str, limit: dict[str, int], status: str
) -> None:
    stopped = posed.solve(backend, check=False, **limit)
    assert not stopped.claimed
    assert stopped.status.startswith(status)
    assert stopped.f is None
    assert not stopped.ok
    assert not stopped.certificate.ok
    assert stopped.iterate.forces.shape == (posed.data.rows,)
    assert stopped.iterations == next(iter(limit.values())) or "max_outer" in limit


@pytest.mark.parametrize(
    ("posed", "backend"),
    [
        *((posed, name) for posed in (RIGID, VELOCITY) for name in ("osqp", "scs")),
        (HERTZ, "newton"),
        (TRUSS, "augmented-lagrangian"),
        (ROUGH, "newton"),
        (ROUGH, "nsgs"),
        (ROUGH, "admm"),
        (ROUGH, "apgd"),
    ],
)
def test_a_warm_start_saves_iterations(posed: Formulation, backend: str) -> None:
    cold = posed.solve(backend, accuracy=1e-6)
    warm = posed.solve(backend, accuracy=1e-6, warm_start=cold)
    assert warm.claimed
    assert warm.iterations < cold.iterations
    assert warm.provenance["warm_start"] == "used"
    assert cold.provenance["warm_start"] == "none"


def test_second_order_cones_start_from_an_earlier_solution() -> None:
    """Of friction, and a cone of the user's own."""
    cd = cdopt.ClassicCD(STEP)
    for pose in (
        lambda: cdopt.FrictionalCD(ROUGH.step, "associated", "velocity"),
        lambda: cdopt.FrictionalCD(ROUGH.step, "associated", "force"),
        lambda: cd.with_constraints(cp.SOC(cp.Constant(1e6), cd.forces)),
    ):
        cold, posed = pose().solve("scs", accuracy=1e-7), pose()
        for _ in range(2):  # the second time the multipliers of the first are there
            warm = posed.solve("scs", accuracy=1e-7, warm_start=cold)
            assert warm.claimed
            assert warm.iterations <= cold.iterations


@pytest.mark.parametrize(
    ("backend", "words", "accuracy"),
    [("newton", "truss step", 1e-12), ("augmented-lagrangian", "outer", 1e-8)],
)
def test_histories_are_kept_when_asked_for_and_logged(
    backend: str, words: str, accuracy: float, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.INFO, logger=f"cdopt.backends.{backend}"):
        residuals = TRUSS.solve(backend, history=True).raw.residuals
    told = sum(words in record.message for record in caplog.records)
    assert residuals.size - told == (backend == "newton")  # which has one before its first step
    assert residuals[-1] <= accuracy
    assert TRUSS.solve(backend).raw is None


BAD = {
    "accuracy": (0.0, 2.0, "tight"),
    "history": (1,),
    "order": ("backwards", (0, 0, 1), 1.5, [0.0, 1.0, 2.0]),
    "seed": (-1, True),
    "relaxation": (0.0, 2.0),
    "memory": (-1, 1.5),
    "further": (-1, 1.5),
    "penalty": (0.0,),
}


@pytest.mark.parametrize("name", NATIVE)
def test_bad_settings_are_refused_by_name(name: str) -> None:
    for field in dataclasses.fields(NATIVE[name]):
        for bad in BAD.get(field.name, (0, -1, 1.5)):  # others are counts
            with pytest.raises(cdopt.InvalidInput) as caught:
                cdopt.backends.resolve(name, **{field.name: bad})
            assert caught.value.argument == field.name


@pytest.mark.parametrize("backend", ["pgs", "nsgs"])
def test_an_order_is_one_of_all_contacts(backend: str) -> None:
    posed = ROUGH if backend == "nsgs" else RIGID
    with pytest.raises(cdopt.InvalidInput, match="order"):
        posed.solve(backend, order=(1, 0))
