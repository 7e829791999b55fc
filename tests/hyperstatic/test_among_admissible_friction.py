"""Ensembles, places of answers and derivatives of forces with friction."""

from __future__ import annotations

import numpy as np
import pytest
from command_line import run, run_json
from scipy.optimize import minimize_scalar

import cdopt
from cdopt.hyperstatic import UnboundedForces, place_solutions

LADDER = cdopt.bank.load("ladder").step
PILE = cdopt.bank.load("rough-pile:n=3").step
WEIGHT, MU = 10.0, 0.5


def doubled(d: int, mu: float = MU) -> cdopt.ContactStep:
    """A body on two contacts at one place: one force is in K ∩ (W e_n − K), a double cone."""
    tangential = np.tile(np.eye(d)[:-1], (2, 1))
    load = -WEIGHT * np.eye(d)[-1]
    return cdopt.ContactStep(
        np.eye(d), np.tile(np.eye(d)[-1], (2, 1)), [0, 0], np.zeros(d), load, 1e-3,
        friction=cdopt.Friction(mu, tangential),
    )  # fmt: skip


@pytest.mark.parametrize("d", [2, pytest.param(3, marks=pytest.mark.slow)])
def test_a_double_cone_by_hand(d: int) -> None:
    """The density of f_n/W = x is proportional to min(x, 1 − x)^(d − 1)."""
    samples = cdopt.ensemble(doubled(d), draws=4000, law="associated")
    assert (samples.dimension, samples.converged) == (d, True)
    assert samples.mean[0] == pytest.approx(WEIGHT / 2, rel=0.02)
    variance = {2: 1 / 24, 3: 1 / 40}[d]  # ∫ (x − ½)² ρ(x) dx
    sideways = {2: 1 / 24, 3: 3 / 80}[d]  # ⟨r²⟩/3 on a segment, ⟨r²⟩/4 on a disc, r = μ min
    assert samples.std[0] == pytest.approx(WEIGHT * np.sqrt(variance), rel=0.03)
    spread = samples.tangential[:, 0].std(axis=0)
    np.testing.assert_allclose(spread, MU * WEIGHT * np.sqrt(sideways), rtol=0.03)


def test_every_sample_is_admissible_and_the_compatible_forces_store_least() -> None:
    report = cdopt.indeterminacy(PILE, law="coulomb")
    samples = cdopt.ensemble(report, draws=50)
    assert (samples.dimension, samples.components.shape) == (42, (4, 50, 24, 3))
    B = cdopt.problem.frictional_data(PILE, "coulomb").B
    missed = samples.components.reshape(200, -1) @ B.toarray() - report.faces.load
    assert np.abs(missed).max() <= 1e-10 * report.unit.max()
    assert (samples.mobilised <= 1.0 + 1e-12).all()
    for forces, tangential in zip(samples.forces[::40], samples.tangential[::40], strict=True):
        assert report.outside(forces, tangential).max() <= 1e-6 * report.unit.max()
    least = cdopt.CompatibleFriction(PILE, flow="associated").solve()
    place = samples.place(least.f, f_t=least.f_t)
    assert place.less_energy == 0.0
    assert place.outside <= 1e-9 * report.unit.max()
    again = cdopt.ensemble(PILE, draws=50, law="coulomb")
    np.testing.assert_array_equal(again.components, samples.components)
    wrong = samples.place(1.1 * least.f, f_t=least.f_t)
    assert wrong.outside > 0.01 * report.unit.max()
    with pytest.raises(cdopt.InvalidInput):
        samples.place(least.f)
    with pytest.raises(cdopt.InvalidInput, match="power"):
        samples.place(least.f, 2.5, f_t=least.f_t)


def test_what_has_no_ensemble() -> None:
    slope = cdopt.bank.load("incline:ratio=1.5").step
    one = cdopt.ensemble(slope, law="coulomb")
    assert (one.dimension, one.converged, one.components.shape[:2]) == (0, True, (1, 1))
    with pytest.raises(UnboundedForces, match="without end") as caught:
        cdopt.ensemble(cdopt.bank.load("wedge:gap=0,speed=0").step, law="coulomb")
    assert caught.value.residual <= 1e-7
    assert caught.value.contacts.tolist() == [0, 1, 2, 3]
    with pytest.raises(cdopt.Unsupported):
        cdopt.ensemble(LADDER)
    with pytest.raises(cdopt.InvalidInput, match="law"):
        cdopt.ensemble(cdopt.indeterminacy(LADDER, law="coulomb", contacts=[]), law="coulomb")


# --- which force -----------------------------------------------------------------------------


def test_places_of_answers_on_the_ladder() -> None:
    """On a segment: the centre maximises Σ ½ log((μ f_n)² − f_t²), the minimum norm Σ ‖f‖²."""
    report = cdopt.indeterminacy(LADDER, law="coulomb")
    problem = cdopt.FrictionalCD(LADDER)
    chosen = place_solutions(report, [problem.solve(name) for name in ("newton", "nsgs")])
    low, high = report.lower[1], report.upper[1]
    ends = np.stack([cdopt.ensemble(report, draws=2).components[0, k] for k in (0, 1)])
    way = (ends[1] - ends[0]) / (ends[1] - ends[0])[1, 0]

    def at(normal: float) -> np.ndarray:
        return ends[0] + (normal - ends[0][1, 0]) * way

    def barrier(normal: float) -> float:
        f = at(normal)
        return -np.log((LADDER.friction.mu * f[:, 0]) ** 2 - f[:, 1] ** 2).sum()

    best = minimize_scalar(barrier, bounds=(low, high), method="bounded", options={"xatol": 1e-9}).x
    centre = chosen.analytic_centre
    assert centre.ok
    np.testing.assert_allclose(np.column_stack([centre.f, centre.f_t]), at(best), rtol=1e-5)
    least = chosen.minimum_norm
    free = -np.sum(at(0.0) * way) / np.sum(way**2)
    expected = at(np.clip(free, low, high))
    np.testing.assert_allclose(np.column_stack([least.f, least.f_t]), expected, rtol=1e-7)
    labels = [row.label for row in chosen.rows()]
    assert labels[2:] == ["compatible", "Haar–Kármán", "minimum norm", "analytic centre"]
    assert all(row.outside <= 1e-6 * report.unit.max() and row.ok for row in chosen.rows())
    assert chosen.rows()[0].at_lower == 3
    assert "Haar–K." in str(chosen)
    assert chosen.position.shape == (2, 4)


def test_sliders_have_no_coulomb_network_and_frictionless_answers_are_refused() -> None:
    slope = cdopt.bank.load("incline:ratio=1.5").step
    report = cdopt.indeterminacy(slope, law="coulomb")
    chosen = place_solutions(report, [])
    assert chosen.compatible is None
    np.testing.assert_allclose(chosen.haar_karman.f, report.lower, rtol=1e-7)
    smooth = cdopt.ClassicCD(slope.without_friction()).solve("newton")
    for bad in ({"solutions": [smooth]}, {"solutions": [], "power": 2.5}):
        with pytest.raises(cdopt.InvalidInput):
            place_solutions(report, **bad)


# --- derivatives -----------------------------------------------------------------------------

BY = ("log_stiffness", "log_ratio", "mu", "load")


def moved(network: cdopt.FrictionNetwork, flow: str, **change: np.ndarray) -> np.ndarray:
    """Forces (nc d,) of the network with changed parameters."""
    zero = dict.fromkeys(BY, 0.0) | change
    normal = np.arange(network.B.shape[0]) % network.d == 0
    forces = cdopt.FrictionNetwork(
        network.B[normal], network.B[~normal], network.load + zero["load"],
        network.mu + zero["mu"], network.D[:, 0] * np.exp(zero["log_stiffness"]),
        network.D[:, 1] / network.D[:, 0] * np.exp(zero["log_ratio"]),
        network.status, rays=network.rays, flow=flow,
    ).solve()  # fmt: skip
    return np.column_stack([forces.f, forces.f_t]).ravel()


@pytest.mark.parametrize("flow", ["coulomb", "associated"])
@pytest.mark.parametrize("name", ["ladder", "rough-pile:n=3"])
def test_derivatives_are_those_of_finite_differences(name: str, flow: str) -> None:
    step, rng, h = cdopt.bank.load(name).step, np.random.default_rng(3), 1e-5
    derivatives = cdopt.sensitivity(step, law="coulomb", flow=flow)
    network, nc, d = derivatives.tangent.network, derivatives.nc, derivatives.d
    weights = rng.standard_normal(nc * d)
    gradient, size = derivatives.gradient(weights), np.abs(derivatives.f).max()
    for by in BY:
        direction = rng.standard_normal(nc)
        if by == "load":  # of forces that the contacts bear
            direction = network.B.T @ np.repeat(direction, d) * np.abs(network.load).max() / 10
        ahead, behind = (moved(network, flow, **{by: s * h * direction}) for s in (1, -1))
        slope = derivatives.along(**{by: direction})
        np.testing.assert_allclose(slope, (ahead - behind) / (2 * h), atol=1e-7 * size)
        np.testing.assert_allclose(getattr(derivatives, by) @ direction, slope, atol=1e-10 * size)
        total = float(getattr(gradient, by) @ direction)
        assert total == pytest.approx(float(np.sum(weights * slope)), abs=1e-9 * size)


@pytest.mark.parametrize("flow", ["coulomb", "associated"])
def test_invariances(flow: str) -> None:
    """Of a common factor of all stiffness, and of the load (Euler); forces stay balanced."""
    derivatives = cdopt.sensitivity(PILE, law="associated", flow=flow)
    size, network = np.abs(derivatives.f).max(), derivatives.tangent.network
    assert np.abs(derivatives.log_stiffness.sum(axis=1)).max() <= 1e-10 * size
    forces = np.column_stack([derivatives.f, derivatives.f_t]).ravel()
    np.testing.assert_allclose(derivatives.load @ network.load, forces, atol=1e-10 * size)
    balance = network.B.T @ derivatives.log_stiffness
    assert np.abs(balance).max() <= 1e-10 * size


def test_sliders_and_kinks() -> None:
    """Derivatives of sliding contacts by load and ratio; by μ they are refused, as at kinks."""
    slope = cdopt.bank.load("incline:ratio=1.5").step
    derivatives = cdopt.sensitivity(slope, law="coulomb", flow="associated")
    along = derivatives.load @ derivatives.tangent.network.load
    np.testing.assert_allclose(along[::2], derivatives.f, rtol=1e-9)
    np.testing.assert_allclose(along[1::2], derivatives.f_t[:, 0], rtol=1e-9)
    assert np.isnan(derivatives.gradient(np.ones(2 * slope.nc)).mu).all()
    for call in (lambda: derivatives.mu, lambda: derivatives.along(mu=np.ones(slope.nc))):
        with pytest.raises(cdopt.Unsupported, match="slide in the motion"):
            call()
    with pytest.raises(cdopt.Unsupported, match="Coulomb"):
        cdopt.sensitivity(slope, law="coulomb")
    wall = cdopt.bank.load("rough-wall:courses=3,bricks=2").step
    kinked = cdopt.sensitivity(wall, law="coulomb")
    assert not kinked.two_sided
    with pytest.raises(cdopt.Unsupported, match="onset of slip"):
        kinked.along(log_stiffness=np.ones(wall.nc))
    with pytest.raises(cdopt.InvalidInput, match="power"):
        cdopt.sensitivity(LADDER, 2.5, law="coulomb")
    with pytest.raises(cdopt.Unsupported):
        cdopt.sensitivity(LADDER)


def test_the_commands() -> None:
    result = run_json("ensemble", "ladder", "--law", "coulomb", "--solver", "newton")
    assert result["dimension"] == 1
    assert set(result["answers"]) == {"compatible", "Haar–Kármán", "newton"}
    result = run_json("sensitivity", "ladder", "--law", "coulomb")
    np.testing.assert_allclose(result["log_stiffness"], np.zeros((4, 2)), atol=1e-9)
    text = run("sensitivity", "rough-pile:n=3", "--law", "coulomb", "--flow", "associated").stdout
    assert "Haar–Kármán" in text
