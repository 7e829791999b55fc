"""Trusses and elastic steps of few dofs: one compiled run, the same method and the same answers."""

from __future__ import annotations

import logging

import numpy as np
import pytest
from conftest import beam, random_step

import cdopt
from cdopt.backends import newton_truss, newton_truss_small
from cdopt.backends.linalg import network
from cdopt.backends.linalg.network import DENSE_UP_TO
from cdopt.backends.newton_truss import Potential
from cdopt.problem.contact_law import PowerLaw

CRYSTAL = cdopt.bank.load("pyramid-hooke:n=4").step


def truss_of(step: cdopt.ContactStep, power: float, **options) -> cdopt.NoTensionTruss:
    return cdopt.NoTensionTruss(
        step.B, -step.F_ext, step.stiffness, power, dof_body=step.dof_body, **options
    )


def random_truss(seed: int, power: float, nc: int = 24, nv: int = 7) -> cdopt.NoTensionTruss:
    """A load that some pushing forces hold, and stiffnesses over three orders of magnitude."""
    rng = np.random.default_rng(seed)
    B = rng.standard_normal((nc, nv))
    load = B.T @ np.maximum(rng.standard_normal(nc), 0.0)
    return cdopt.NoTensionTruss(B, load, 10.0 ** rng.uniform(-2.0, 1.0, nc), power)


def pressed(power: float) -> cdopt.NoTensionTruss:
    """A crystal whose lowest ball is pushed up by a prescribed displacement."""
    moved = np.zeros(CRYSTAL.nv)
    moved[2] = 1e-3
    held = np.arange(CRYSTAL.nv) < 3
    return truss_of(CRYSTAL, power, free_dofs=~held, prescribed_u=moved)


CASES = {
    "beam": lambda power: truss_of(beam(stiffness=[1.0, 5.0, 2.0]), power),
    "crystal": lambda power: truss_of(CRYSTAL, power),
    "pressed": pressed,
    "random": lambda power: random_truss(1, power),
    "many dofs": lambda power: random_truss(2, power, nc=200, nv=150),
}


@pytest.fixture
def general(monkeypatch: pytest.MonkeyPatch):
    """Solves the general way, whatever the size."""

    def solve(posed, **options) -> cdopt.StepSolution:
        with monkeypatch.context() as patched:
            patched.setattr(newton_truss_small, "takes", lambda *arguments: False)
            return posed.solve("newton", **options)

    return solve


@pytest.mark.parametrize("power", [2.0, 2.5, 4.0])
@pytest.mark.parametrize("name", CASES)
def test_forces_are_those_of_the_general_way(name: str, power: float, general) -> None:
    posed = CASES[name](power)
    solution, expected = posed.solve("newton"), general(posed)
    scale = np.abs(expected.f).max()
    np.testing.assert_allclose(solution.f, expected.f, rtol=0.0, atol=1e-10 * scale)
    np.testing.assert_allclose(solution.u, expected.u, rtol=1e-8, atol=1e-9 * abs(expected.u).max())
    assert solution.certificate.worst <= 1e-10
    assert solution.provenance["how"] == expected.provenance["how"]


@pytest.mark.parametrize("power", [2.0, 2.5])
@pytest.mark.parametrize("seed", range(5))
def test_elastic_steps_have_inertia(seed: int, power: float, general) -> None:
    step = random_step(seed, nc=12, nv=6)
    posed = cdopt.CompliantCD(step, power)
    solution, expected = posed.solve("newton"), general(posed)
    scale = np.abs(expected.f).max(initial=1e-300)
    np.testing.assert_allclose(solution.f, expected.f, rtol=0.0, atol=1e-10 * scale)
    np.testing.assert_allclose(solution.v_next, expected.v_next, rtol=1e-10, atol=1e-12)


def test_the_run_is_really_the_compiled_one(monkeypatch: pytest.MonkeyPatch) -> None:
    def never(*arguments: object) -> None:
        raise AssertionError("the general way")

    monkeypatch.setattr(newton_truss, "_direction", never)
    assert truss_of(beam(), 2.5).solve("newton").ok
    with pytest.raises(AssertionError, match="general"):
        truss_of(beam(), 1.8).solve("newton")


@pytest.mark.parametrize("power", [2.0, 2.5])
def test_history_and_log_are_those_of_the_general_way(
    power: float, caplog: pytest.LogCaptureFixture, general
) -> None:
    told, sizes = [], []
    for solve in (lambda posed, **options: posed.solve("newton", **options), general):
        caplog.clear()
        with caplog.at_level(logging.INFO, logger="cdopt.backends.newton"):
            solution = solve(truss_of(beam(stiffness=[1.0, 5.0, 2.0]), power), history=True)
        told.append([one.getMessage().partition("residual")[0] for one in caplog.records])
        sizes.append(solution.raw.residuals[:-1])  # the last is round-off
    assert told[0] == told[1]
    assert len(told[0]) >= 2
    np.testing.assert_allclose(sizes[0], sizes[1], rtol=1e-6)


def test_warm_starts_take_no_step_where_nothing_changes() -> None:
    posed = truss_of(CRYSTAL, 2.5)
    again = posed.solve("newton", warm_start=posed.solve("newton"))
    assert again.iterations == 0
    assert again.ok


def loose(load: float) -> Potential:
    """Two dofs, one contact that a start leaves open: the second system has only its shift."""
    B = cdopt.NoTensionTruss(np.array([[1.0, 0.0], [0.0, 1.0]]), [1.0, 1.0]).data.B
    return Potential(network(B, None), np.full(2, load), np.zeros(2), PowerLaw(np.ones(2), 2.0))


def test_numbers_that_overflow_are_left_to_the_general_way() -> None:
    posed, stiff = loose(1.0), PowerLaw(np.full(2, np.inf), 2.0)
    run = newton_truss_small.descend(
        posed.net, posed.load, posed.opening, stiff, -np.ones(2), 1e-12, 10
    )
    assert run is None


def test_a_network_that_no_spring_holds_breaks_down_or_moves_by_its_shift() -> None:
    posed = loose(1.0)
    run = newton_truss_small.descend(
        posed.net, posed.load, posed.opening, posed.law, np.ones(2), 1e-12, 100
    )
    assert run is not None
    np.testing.assert_allclose(run.u, -1.0, rtol=1e-9)
    np.testing.assert_allclose(run.f, 1.0, rtol=1e-9)


def test_it_takes_few_dofs_and_powers_from_two() -> None:
    def takes(nv: int, power: float, limit: int = 10) -> bool:
        law = PowerLaw(np.ones(3), power)
        B = cdopt.NoTensionTruss(np.ones((3, nv)), np.zeros(nv)).data.B
        return newton_truss_small.takes(network(B, None), law, limit)

    assert takes(DENSE_UP_TO, 2.0)
    assert takes(2, 2.5)
    assert not takes(DENSE_UP_TO + 1, 2.0)
    assert not takes(2, 1.9)
    assert not takes(2, 2.0, limit=10**9)


def test_a_truss_that_nothing_holds_is_told_as_before(general) -> None:
    posed = cdopt.NoTensionTruss([[1.0, 0.0], [1.0, 0.0]], [1.0, 1.0])
    for solve in (lambda: posed.solve("newton", check=False), lambda: general(posed, check=False)):
        found = solve()
        assert not found.ok
        assert not found.claimed
