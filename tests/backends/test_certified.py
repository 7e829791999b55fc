"""cdopt's own solvers are held to the certificate: an accuracy asked for is certified."""

from __future__ import annotations

import functools
import pickle

import numpy as np
import pytest

import cdopt
from cdopt import bank
from cdopt.backends import certified
from cdopt.backends.certified import CERTIFIED_FROM
from cdopt.backends.network_problem import network_problem
from cdopt.backends.selection import resolve
from cdopt.problem.certificate import Certificate
from cdopt.problem.residual import Residual

# Where a residual of each contact by itself, met to the accuracy, leaves a larger duality gap.
LEAVING = ("chains:32", "packings:100", "stacks:8", "brick-walls:5", "pyramids-hooke:5")


@functools.cache
def step_of(text: str) -> cdopt.ContactStep:
    name, size = text.split(":")
    return bank.families()[name].build(int(size))


@pytest.mark.parametrize("accuracy", [1e-3, 1e-6, 1e-9])
@pytest.mark.parametrize("name", ["newton", "apgd", "pgs"])
@pytest.mark.parametrize("text", LEAVING)
def test_steps_are_certified_to_the_accuracy(text: str, name: str, accuracy: float) -> None:
    found = cdopt.ClassicCD(step_of(text)).solve(name, accuracy=accuracy, tol=accuracy)
    assert found.claimed
    assert found.certificate.worst <= accuracy
    assert found.provenance["settings"]["accuracy"] == accuracy


@pytest.mark.parametrize("accuracy", [1e-3, 1e-6, 1e-9])
@pytest.mark.parametrize("name", ["newton", "augmented-lagrangian"])
@pytest.mark.parametrize("power", [2.0, 2.5])
def test_trusses_are_certified_to_the_accuracy(name: str, power: float, accuracy: float) -> None:
    step = bank.load("pyramid-species:n=4").step
    truss = cdopt.NoTensionTruss(step.B, -step.F_ext, step.stiffness, power)
    found = truss.solve(name, accuracy=accuracy, tol=accuracy)
    assert found.claimed
    assert found.certificate.worst <= accuracy


def test_a_limit_is_that_of_all_attempts_together() -> None:
    cd = cdopt.ClassicCD(step_of("chains:32"))
    free = cd.solve("pgs", accuracy=1e-6, history=True)
    assert free.raw.residuals.size == free.iterations  # both attempts are on record
    assert np.min(free.raw.residuals) < 1e-6  # sharper than was asked
    limit = int(np.argmax(free.raw.residuals <= 1e-6)) + 20
    short = cd.solve("pgs", accuracy=1e-6, max_sweeps=limit, check=False)
    assert short.iterations <= limit
    assert not short.claimed
    assert short.certificate.worst > 1e-6


def test_round_off_is_not_chased() -> None:
    found = cdopt.ClassicCD(step_of("pyramids-hooke:5")).solve(
        "newton", accuracy=CERTIFIED_FROM / 100
    )
    assert found.claimed


def test_runs_of_any_accuracy_are_held_to_the_certificate(monkeypatch) -> None:
    bad = Certificate("rigid step", (Residual("penetration", 1e-3, 1.0, "m/s"),))
    monkeypatch.setattr(cdopt.ClassicCD, "certify", lambda *_: bad)
    cd, backend = cdopt.ClassicCD(step_of("pyramids-hooke:2")), resolve("newton")
    assert backend.accuracy < CERTIFIED_FROM
    result = certified.solve_certified(backend, cd, None, False)
    assert result.claim == "inaccurate"
    assert "not by the certificate" in result.status


def test_runs_that_share_a_problem_count_their_own_work():
    data = cdopt.ClassicCD(bank.load("beam-uniform").step).data
    first = network_problem(data)
    first.net.methods.append("once")
    factors, methods = first.factors, first.net.methods
    again = network_problem(data)
    assert again.factors is factors
    assert again.net.methods is not methods
    assert "once" not in again.net.methods


def test_what_was_made_of_a_network_is_not_pickled() -> None:
    cd = cdopt.ClassicCD(bank.load("beam-uniform").step)
    cd.solve("newton")
    assert cd.data.cache
    assert not pickle.loads(pickle.dumps(cd.data)).cache


@pytest.mark.parametrize("solver", ["newton", "interior-point", "augmented-lagrangian"])
def test_what_a_solve_cost_is_counted_once(solver: str) -> None:
    """Networks are kept for further solves, whose counts begin at zero."""
    step = cdopt.bank.load("pyramid-falling").step
    costs = {str(cdopt.ClassicCD(step).solve(solver).provenance["how"]) for _ in range(3)}
    assert len(costs) == 1
    assert "factorisations" in costs.pop()
