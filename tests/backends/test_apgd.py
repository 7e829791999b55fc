from __future__ import annotations

import logging

import numpy as np
import pytest
from conftest import random_step

import cdopt
from cdopt._util.errors import InvalidInput, SolveFailed
from cdopt.backends import APGD, Modelled
from cdopt.backends.apgd import _proximal

STEPS = [
    name
    for name in cdopt.bank.names()
    if cdopt.bank.manifest(name).kind == "step" and cdopt.bank.manifest(name).feasible
]


@pytest.fixture(scope="module")
def crystal() -> cdopt.ClassicCD:
    return cdopt.ClassicCD(cdopt.bank.load("pyramid-falling").step)


@pytest.mark.parametrize("name", STEPS)
def test_the_bank_is_solved_with_the_motion_of_a_direct_method(name: str) -> None:
    cd = cdopt.ClassicCD(cdopt.bank.load(name).step)
    ours, theirs = cd.solve("apgd"), cd.solve("lcp")
    assert ours.claimed
    assert ours.certificate.worst < 1e-6, ours.certificate
    np.testing.assert_allclose(ours.gap / cd.data.speed, theirs.gap / cd.data.speed, atol=1e-5)
    if ours.v_next is not None:
        unit = cd.data.dof_speed
        np.testing.assert_allclose(ours.v_next / unit, theirs.v_next / unit, atol=1e-5)


def test_motion_and_load_are_those_of_an_interior_point(crystal: cdopt.ClassicCD) -> None:
    ours = crystal.solve("apgd", accuracy=1e-10)
    velocity = cdopt.ClassicCD(crystal.step, "velocity")
    theirs = velocity.solve(Modelled("clarabel", accuracy=1e-12))
    unit = crystal.data.dof_speed
    np.testing.assert_allclose(ours.v_next / unit, theirs.v_next / unit, atol=1e-6)
    momentum = crystal.data.mass.diagonal * unit / crystal.step.dt
    loads = [crystal.step.B.T @ s.f / momentum for s in (ours, theirs)]
    np.testing.assert_allclose(loads[0], loads[1], atol=1e-6)


@pytest.mark.parametrize("name", ["beam-uniform", "beam-stiff-middle", "supports", "table"])
def test_from_zero_it_finds_the_forces_of_least_norm(name: str) -> None:
    """As long as none is held at zero: the beam gets 10/3 each, however stiff its middle."""
    cd = cdopt.ClassicCD(cdopt.bank.load(name).step)
    solution = cd.solve("apgd", accuracy=1e-12)
    least = np.linalg.pinv(cd.step.B.toarray().T) @ (cd.step.B.T @ solution.f)
    np.testing.assert_allclose(solution.f, least, atol=1e-9)
    if name.startswith("beam"):
        np.testing.assert_allclose(solution.f, 10 / 3, atol=1e-9)


def test_the_start_selects_among_indeterminate_forces() -> None:
    cd = cdopt.ClassicCD(cdopt.bank.load("beam-uniform").step)
    middle = cd.solve("pgs", order=(1, 0, 2))
    warm = cd.solve("apgd", warm_start=middle)
    np.testing.assert_allclose(warm.f, [0.0, 10.0, 0.0], atol=1e-9)
    assert warm.iterations == 0


@pytest.mark.parametrize("seed", range(4))
def test_coupled_masses_and_matrices_known_by_products_agree(seed: int) -> None:
    step = random_step(seed)
    full = cdopt.ClassicCD(step).solve("apgd", accuracy=1e-11)
    alone = cdopt.ContactStep.from_delassus(step.N, step.p_vec, step.dt)
    known = cdopt.ClassicCD(alone).solve("apgd", accuracy=1e-11)
    assert full.ok
    assert known.ok
    speed = cdopt.ClassicCD(step).data.speed
    np.testing.assert_allclose(full.gap / speed, known.gap / speed, atol=1e-7)


def test_two_runs_are_equal_and_a_warm_start_saves_iterations(crystal: cdopt.ClassicCD) -> None:
    first, second = crystal.solve("apgd"), crystal.solve("apgd")
    np.testing.assert_array_equal(first.f, second.f)
    assert crystal.solve("apgd", warm_start=first).iterations < 0.1 * first.iterations


def test_history_and_log(crystal: cdopt.ClassicCD, caplog) -> None:
    with caplog.at_level(logging.INFO, logger="cdopt.backends.apgd"):
        kept = crystal.solve("apgd", history=True)
    assert kept.raw.residuals.shape == (kept.iterations,)
    assert kept.raw.residuals[-1] <= 1e-8
    assert caplog.records[-1].message.startswith(f"solved after {kept.iterations}")


def test_the_limit_leaves_the_best_iterate_and_no_answer(crystal: cdopt.ClassicCD) -> None:
    stopped = crystal.solve("apgd", max_iterations=20, history=True)
    assert not stopped.claimed
    assert stopped.status == "iteration limit"
    assert stopped.f is None
    longer = crystal.solve("apgd", max_iterations=100)
    assert longer.certificate["penetration"] < stopped.certificate["penetration"]


def test_a_jammed_body_is_proven_so() -> None:
    with pytest.raises(SolveFailed, match="iteration limit") as failure:
        cdopt.ClassicCD(cdopt.bank.load("squeezed").step).solve("apgd")
    assert failure.value.certificate is not None


@pytest.mark.parametrize(
    ("settings", "field"),
    [
        ({"max_iterations": 0}, "max_iterations"),
        ({"max_iterations": 1.5}, "max_iterations"),
        ({"accuracy": 2.0}, "accuracy"),
        ({"history": 1}, "history"),
        ({"max_sweeps": 10}, "max_sweeps"),
    ],
)
def test_bad_settings_are_refused_by_name(settings, field: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        cdopt.backends.resolve("apgd", **settings)
    assert caught.value.argument == field


@pytest.mark.parametrize("s", [1.0, 2 / 3, 1.0 / 3.0, 1.0 / 0.7, 4.0])
@pytest.mark.parametrize("a", [1e-8, 1.0, 1e8])
def test_the_proximal_operator_of_the_contact_energy(s: float, a: float) -> None:
    for z in (1e-12, 1e-3, 1.0, 1e6):
        x = _proximal(z, a, s)
        assert x > 0.0
        assert x + a * x**s == pytest.approx(z, rel=1e-12)
    assert _proximal(-1.0, a, s) == _proximal(0.0, a, s) == 0.0
    assert _proximal(3.0, 0.0, s) == 3.0


def test_the_settings_object() -> None:
    assert APGD().name == "apgd"
    assert APGD().capability.structured == {"rigid step"}
    assert APGD(max_iterations=7).settings == {"max_iterations": 7, "accuracy": 1e-8}
