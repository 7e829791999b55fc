"""Rigid steps of few dofs: one compiled run, the same method and the same answers."""

from __future__ import annotations

import logging

import numpy as np
import pytest
import scipy.sparse as sp
from conftest import beam, random_step

import cdopt
from cdopt.backends import newton_small
from cdopt.backends.linalg.base import Tally
from cdopt.backends.linalg.network import DENSE_UP_TO

STEPS = {
    "beam": beam(),
    "beam that opens in the middle": beam(phi=(0.0, 1e-2, 0.0)),
    "coupled mass": random_step(3),
    "more contacts than dofs": random_step(4, nc=40, nv=6),
    "many dofs": random_step(5, nc=60, nv=120),
    "no contact": random_step(6, nc=0, nv=3),
    "crystal": cdopt.bank.load("pyramid-hooke:n=4").step,
}


@pytest.fixture
def general(monkeypatch: pytest.MonkeyPatch):
    """Solves the general way, whatever the size."""

    def solve(step: cdopt.ContactStep, **options) -> cdopt.StepSolution:
        with monkeypatch.context() as patched:
            patched.setattr(newton_small, "takes", lambda data: False)
            return cdopt.ClassicCD(step).solve("newton", **options)

    return solve


def settings_of_run(solution: cdopt.StepSolution) -> tuple:
    return solution.status, solution.claimed, solution.provenance["settings"]


@pytest.mark.parametrize("name", STEPS)
def test_forces_are_those_of_the_general_way(name: str, general) -> None:
    step = STEPS[name]
    solution, expected = cdopt.ClassicCD(step).solve("newton"), general(step)
    scale = np.abs(expected.f).max(initial=1e-300)
    np.testing.assert_allclose(solution.f, expected.f, rtol=0.0, atol=1e-10 * scale)
    np.testing.assert_allclose(solution.v_next, expected.v_next, rtol=1e-9, atol=1e-12)
    assert settings_of_run(solution) == settings_of_run(expected)
    assert solution.certificate.worst <= 1e-10


@pytest.mark.parametrize("seed", range(20))
def test_of_many_admissible_forces_both_ways_choose_the_same(seed: int, general) -> None:
    """Three times as many contacts as dofs: forces are not unique, the method decides."""
    rng = np.random.default_rng(seed)
    step = random_step(seed, nc=18, nv=6, phi=np.zeros(18), v=np.zeros(6))
    start = cdopt.ClassicCD(step.replace(F_ext=step.F_ext * rng.uniform(0.8, 1.2))).solve("newton")
    for options in ({}, {"warm_start": start}):
        solution, expected = (
            cdopt.ClassicCD(step).solve("newton", **options),
            general(step, **options),
        )
        scale = np.abs(expected.f).max(initial=1e-300)
        np.testing.assert_allclose(solution.f, expected.f, rtol=0.0, atol=1e-9 * scale)


def test_the_run_is_really_the_compiled_one(monkeypatch: pytest.MonkeyPatch) -> None:
    def never(*arguments: object) -> None:
        raise AssertionError("the general way")

    monkeypatch.setattr(cdopt.backends.newton.newton_rigid, "solve", never)
    monkeypatch.setattr(cdopt.backends.newton, "threads_for", never)
    assert cdopt.ClassicCD(beam()).solve("newton").ok


def test_history_and_log_are_those_of_the_general_way(
    caplog: pytest.LogCaptureFixture, general
) -> None:
    told = []
    for solve in (lambda step, **o: cdopt.ClassicCD(step).solve("newton", **o), general):
        caplog.clear()
        with caplog.at_level(logging.INFO, logger="cdopt.backends.newton"):
            solution = solve(random_step(1), history=True)
        lines = [record.getMessage() for record in caplog.records]
        told.append([line.partition("residual")[0] for line in lines])
        assert solution.raw.residuals[0] == np.inf
        assert solution.raw.residuals[-1] <= 1e-12
        assert len(lines) == solution.raw.residuals.size
        assert f"{solution.iterations} steps, augmented Lagrangian, " in lines[-1]
    assert told[0] == told[1]


def test_what_it_does_not_reach_goes_the_general_way(general) -> None:
    step = random_step(2, nc=30, nv=6)
    data = cdopt.ClassicCD(step).data
    assert newton_small.solve(data, np.zeros(30), 1e-12, 1, False, Tally()) is None
    solution = cdopt.ClassicCD(step).solve("newton", max_steps=1, check=False)
    expected = general(step, max_steps=1, check=False)
    np.testing.assert_array_equal(solution.iterate.forces, expected.iterate.forces)
    assert settings_of_run(solution) == settings_of_run(expected)


def test_it_takes_few_dofs() -> None:
    def data(step: cdopt.ContactStep):
        return cdopt.ClassicCD(step).data

    assert newton_small.takes(data(random_step(0, nc=2, nv=DENSE_UP_TO)))
    assert not newton_small.takes(data(random_step(0, nc=2, nv=DENSE_UP_TO + 1)))


def test_indices_of_any_width_do() -> None:
    step = beam()
    wide = sp.csr_array(step.B)
    wide.indices, wide.indptr = wide.indices.astype(np.int64), wide.indptr.astype(np.int64)
    f = cdopt.ClassicCD(step.replace(B=wide)).solve("newton").f
    np.testing.assert_array_equal(f, cdopt.ClassicCD(step).solve("newton").f)
