"""The script that solves in a page, against cdopt's own backends and against closed forms."""

from __future__ import annotations

import math

import numpy as np
import pytest
from browser import browser
from chromium import answer, evaluate, load_solver, needs_browser

import cdopt
from cdopt.bank.generators import fan_forces
from cdopt.hyperstatic import indeterminacy, minimum_norm

pytestmark = needs_browser

SAME = 1e-6  # of the largest force
BEAM = [[1.0, -0.5], [1.0, 0.0], [1.0, 0.5]]


@pytest.fixture(scope="module")
def view(tmp_path_factory):
    with browser(tmp_path_factory.mktemp("profile")) as opened:
        load_solver(opened)
        yield opened


def problem(B, load, stiffness=1.0, power=2.0, order=None, start=0.0) -> dict:
    B = np.array(B, dtype=float)
    return {
        "B": B.tolist(),
        "W": (1e-3 * B).tolist(),  # unit masses, 1 ms
        "load": np.array(load, dtype=float).tolist(),
        "stiffness": np.broadcast_to(stiffness, len(B)).tolist(),
        "power": power,
        "order": list(range(len(B))) if order is None else [int(i) for i in order],
        "start": np.broadcast_to(start, len(B)).tolist(),
    }


def step_of(given) -> cdopt.ContactStep:
    """The same load on bodies at rest."""
    B = np.array(given["B"])
    nc, nv = B.shape
    force = -np.array(given["load"])
    return cdopt.ContactStep(np.eye(nv), B, np.zeros(nc), np.zeros(nv), force, 1e-3)


def random_problem(seed: int) -> dict:
    """Between 3 and 25 contacts on up to 9 degrees of freedom, a third of the entries zero."""
    rng = np.random.default_rng(seed)
    nv = int(rng.integers(2, 10))
    nc = int(rng.integers(nv + 1, 2 * nv + 8))
    B = rng.standard_normal((nc, nv)) * (rng.random((nc, nv)) < 0.7)
    B[~B.any(axis=1), 0] = 1.0
    carried = rng.random(nc) * (rng.random(nc) < 0.6)
    carried[0] += 1.0
    power = (1.5, 2.0, 2.5, 3.0)[seed % 4]
    wide = 3.0 if power >= 2.0 and seed % 8 < 4 else 1.0  # beyond, newton is blunt
    k = 10.0 ** rng.uniform(-wide, wide, nc)
    return problem(B, B.T @ carried, k, power, rng.permutation(nc))


@pytest.mark.parametrize(
    "seed", [pytest.param(k, marks=[pytest.mark.slow] * (k >= 8)) for k in range(16)]
)
def test_random_problems_have_the_forces_that_cdopt_finds(view, seed) -> None:
    given = random_problem(seed)
    result = answer(view, **given)
    B, load = np.array(given["B"]), np.array(given["load"])
    truss = cdopt.NoTensionTruss(B, load, given["stiffness"], given["power"])
    known = truss.solve("newton")
    assert known.ok
    assert result["feasible"]
    size = known.f.max()
    np.testing.assert_allclose(result["f"], known.f, rtol=0.0, atol=SAME * size)
    assert result["rank"] == np.linalg.matrix_rank(B)
    assert result["residual"] < 1e-9
    report = indeterminacy(step_of(given))
    assert result["nullity"] == report.nullity
    np.testing.assert_allclose(result["known"]["lower"], report.lower, rtol=0.0, atol=SAME * size)
    np.testing.assert_allclose(result["known"]["upper"], report.upper, rtol=0.0, atol=SAME * size)
    least = minimum_norm(report).f
    np.testing.assert_allclose(result["least"], least, rtol=0.0, atol=SAME * size)


@pytest.mark.parametrize("seed", range(6))
def test_sweeps_are_those_of_pgs(view, seed) -> None:
    """Seven sweeps, wherever they lead; and the same start."""
    given = random_problem(seed)
    start = 0.1 * (seed % 3)
    call = (
        f"CdoptForces.gaussSeidel({given['B']}, {given['W']}, {given['load']}, {given['order']},"
        f" new Array({len(given['B'])}).fill({start}), 1e-150, 7)"
    )
    result = evaluate(view, call)
    assert result["sweeps"] == 7
    assert not result["met"]
    classic = cdopt.ClassicCD(step_of(given))
    pgs = cdopt.backends.PGS(order=given["order"], max_sweeps=7, accuracy=1e-150)
    begun = classic.solve("newton")
    from_there = type(begun)(**{**vars(begun), "f": np.full(len(given["B"]), start)})
    known = classic.solve(pgs, warm_start=from_there, check=False)
    forces = known.f if known.f is not None else known.iterate.forces
    np.testing.assert_allclose(result["f"], forces, rtol=0.0, atol=1e-10 * forces.max())


@pytest.mark.parametrize(
    ("order", "forces"),
    [
        ((0, 1, 2), (5 / 3, 20 / 3, 5 / 3)),
        ((0, 2, 1), (10 / 3, 10 / 3, 10 / 3)),
        ((1, 0, 2), (0.0, 10.0, 0.0)),
    ],
)
def test_the_order_of_visits_decides_the_beam(view, order, forces) -> None:
    """As cdopt.backends.gauss_seidel says of the paper's beam, its mass a thin rod's."""
    given = problem(BEAM, [10.0, 0.0], order=order)
    given["W"] = (np.array(BEAM) * [1.0, 12.0]).tolist()
    swept = answer(view, **given)["swept"]
    assert swept["met"]
    np.testing.assert_allclose(swept["f"], forces, rtol=0.0, atol=1e-9)


@pytest.mark.parametrize("power", [1.2, 1.3, 1.5, 2.0, 2.5, 3.0])
def test_the_fan_has_its_closed_form_at_every_power(view, power) -> None:
    fan = cdopt.bank.load("fan:n=60")
    result = answer(view, **problem(fan.B.toarray(), fan.contact_load, 1.0, power))
    np.testing.assert_allclose(result["f"], fan_forces(60, 10.0, power), rtol=0.0, atol=1e-8)


@pytest.mark.parametrize("power", [1.2, 2.0, 3.0])
def test_three_supports_of_very_different_stiffness(view, power) -> None:
    """One free number t, by bisection: f = f₀ + t z ≥ 0 with zᵀ(f/k)^(q−1) = 0."""
    rng = np.random.default_rng(int(10 * power))
    for _ in range(8):
        x = np.sort(rng.uniform(-0.5, 0.5, 3))
        moment = 10.0 * rng.uniform(x[0], x[2])
        k = 10.0 ** rng.uniform(-3.0, 3.0, 3)
        B = np.column_stack([np.ones(3), x])
        result = answer(view, **problem(B, [10.0, moment], k, power))
        z = np.array([x[2] - x[1], x[0] - x[2], x[1] - x[0]])
        f0 = np.array([10.0 * x[2] - moment, 0.0, moment - 10.0 * x[0]]) / (x[2] - x[0])
        low, high = (-f0 / z)[z > 0.0].max(), (-f0 / z)[z < 0.0].min()
        for _ in range(200):
            t = 0.5 * (low + high)
            slope = z @ (np.maximum(f0 + t * z, 0.0) / k) ** (1.0 / (power - 1.0))
            low, high = (low, t) if slope > 0.0 else (t, high)
        exact = np.maximum(f0 + low * z, 0.0)
        np.testing.assert_allclose(result["f"], exact, rtol=0.0, atol=1e-8)


def test_a_load_that_no_contacts_can_carry_is_proven_by_a_motion(view) -> None:
    for load in ([10.0, 6.0], [-1.0, 0.0]):
        result = answer(view, **problem(BEAM, load))
        assert not result["feasible"]
        u = np.array(result["known"]["motion"])
        assert (np.array(BEAM) @ u >= -1e-12).all()
        assert np.array(load) @ u < 0.0
    sideways = np.column_stack([BEAM, np.zeros(3)])
    result = answer(view, **problem(sideways, [10.0, 0.0, 1.0]))
    assert not result["feasible"]
    assert result["known"]["motion"][2] < 0.0


def test_forces_that_squeeze_a_body_have_no_upper_bound(view) -> None:
    disc = [[1.0, 0.0], [-1.0, 0.0], [0.0, 1.0]]
    for power, close in ((1.2, 1e-6), (2.0, 1e-8), (3.0, 1e-8)):
        result = answer(view, **problem(disc, [0.0, 10.0], [1e3, 1e3, 1e-3], power))
        assert result["known"]["upper"][:2] == [math.inf, math.inf]
        np.testing.assert_allclose(result["f"], [0.0, 0.0, 10.0], atol=close)
        pushed = answer(view, **problem(disc, [4.0, 10.0], 1.0, power))
        np.testing.assert_allclose(pushed["f"], [4.0, 0.0, 10.0], atol=close)


@pytest.mark.slow
def test_simple_loads(view) -> None:
    """At the last support one answer is left; no load needs no force."""
    edge = answer(view, **problem(BEAM, [10.0, 5.0], [1.0, 3.0, 1.0], 2.5))
    np.testing.assert_allclose(edge["f"], [0.0, 0.0, 10.0], atol=1e-8)
    np.testing.assert_allclose(edge["known"]["upper"], [0.0, 0.0, 10.0], atol=1e-8)
    none = answer(view, **problem(BEAM, [0.0, 0.0]))
    assert none["f"] == none["least"] == none["known"]["upper"] == [0.0, 0.0, 0.0]
