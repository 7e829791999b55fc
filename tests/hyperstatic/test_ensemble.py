"""The force network ensemble: exact integrals, polytopes without end, diagnostics, places."""

from __future__ import annotations

import dataclasses
import pickle

import numpy as np
import pytest
from hypothesis import assume, given, settings
from judges import networks, rays, step_of, step_on, vertices
from scipy.signal import lfilter
from scipy.spatial import ConvexHull, Delaunay

import cdopt
from cdopt.hyperstatic import UnboundedForces, ensemble
from cdopt.hyperstatic.ensemble import effective_size, mixing, rhat

SIGMAS = 5.0  # of the Monte Carlo error: what a mean may be off

# Beams on more supports than two: polytopes of 1 to 3 dimensions.
SUPPORTS = {n: np.column_stack([np.ones(n), np.linspace(-0.5, 0.5, n)]) for n in (3, 4, 5)}
LOADS = {3: [10.0, 0.0], 4: [10.0, 1.5], 5: [10.0, -2.0]}


def exact_moments(B, load):
    """Mean (nc,) and second moments (nc, nc) of the uniform distribution, from its vertices.

    The polytope is cut into simplices; over one with vertices v_i of k + 1, ∫f = V mean(v) and
    ∫ffᵀ = V (Σ v_i v_iᵀ + (Σ v_i)(Σ v_i)ᵀ) / ((k + 1)(k + 2)).
    """
    corners = vertices(np.asarray(B, float), np.asarray(load, float))
    middle = corners.mean(axis=0)
    _, values, Vt = np.linalg.svd(corners - middle)
    k = int(np.count_nonzero(values > 1e-9 * values[0]))
    flat = (corners - middle) @ Vt[:k].T
    pieces = (
        [[np.argmin(flat), np.argmax(flat)]]
        if k == 1
        else Delaunay(flat, qhull_options="Qbb Qc Qz Q12").simplices
    )
    total, first, second = 0.0, np.zeros(len(middle)), np.zeros((len(middle),) * 2)
    for piece in pieces:
        ends = corners[piece]
        edges = flat[piece][1:] - flat[piece][0]
        volume = abs(np.linalg.det(edges))
        s = ends.sum(axis=0)
        total += volume
        first += volume * s / (k + 1)
        second += volume * (ends.T @ ends + np.outer(s, s)) / ((k + 1) * (k + 2))
    if k > 1:  # the pieces fill the hull
        size = np.prod(np.arange(1, k + 1))
        assert total / size == pytest.approx(ConvexHull(flat).volume, rel=1e-9)
    return first / total, second / total


@pytest.mark.parametrize("n", [3, 4, 5])
def test_means_and_second_moments_are_those_of_exact_integration(n: int) -> None:
    """Dimension 1, 2 and 3. Tolerances from the effective sizes: a mean's error is std/√size."""
    samples = ensemble(step_of(SUPPORTS[n], LOADS[n]), draws=2000, seed=n)
    assert samples.converged, samples
    assert samples.dimension == n - 2
    mean, second = exact_moments(SUPPORTS[n], LOADS[n])
    assert np.all(np.abs(samples.mean - mean) <= SIGMAS * samples.error)
    assert np.all(samples.error < 0.05 * mean)  # the tolerance means something
    products = samples.forces[:, :, None] * samples.forces[:, None]
    error = products.std(axis=0) / np.sqrt(samples.bulk.min())
    assert np.all(np.abs(products.mean(axis=0) - second) <= SIGMAS * error)
    assert np.all(error < 0.05 * np.diag(second)[:, None])
    moments = samples.covariance + np.outer(samples.mean, samples.mean)
    np.testing.assert_allclose(moments, products.mean(axis=0))


def test_a_simplex_has_its_known_marginals() -> None:
    """Under one load n forces that add up to it are uniform on a simplex: E f = 1/n, and
    P(f > x) = (1 − x)^(n−1)."""
    n = 8
    samples = ensemble(step_of(np.ones((n, 1)), [1.0]), draws=2000, thin=10)
    assert samples.dimension == n - 1
    assert samples.converged
    assert np.all(np.abs(samples.mean - 1.0 / n) <= SIGMAS * samples.error)
    for x in (0.05, 0.2, 0.4):
        above = np.mean(samples.forces > x, axis=0)
        np.testing.assert_allclose(
            above, (1 - x) ** (n - 1), atol=SIGMAS / np.sqrt(samples.tail.min())
        )


def test_a_pyramid() -> None:
    """Samples are admissible; distributions; the centre is that of the interior point."""
    step = cdopt.bank.load("pyramid-hooke:n=3").step
    bounds = cdopt.indeterminacy(step)
    samples = ensemble(bounds)
    assert samples.converged, samples
    assert samples.samples.min() >= 0.0
    assert not samples.samples.flags.writeable
    missed = (samples.forces - bounds.force) @ step.B.toarray()
    np.testing.assert_allclose(missed, 0.0, atol=1e-12)
    assert bounds.outside(samples.forces.min(axis=0)).max() <= 1e-9
    assert bounds.outside(samples.forces.max(axis=0)).max() <= 1e-9
    edges, density = samples.distribution(bins=25)
    assert np.sum(np.diff(edges) * density) == pytest.approx(1.0)
    assert samples.magnitudes.mean() == pytest.approx(1.0)
    edges, _ = samples.distribution(bins=10, contact=3)
    assert edges[-1] == pytest.approx(samples.forces[:, 3].max())
    (part,) = samples.parts
    centre = cdopt.hyperstatic.analytic_centre(bounds)
    np.testing.assert_allclose(part.forces(part.centre), centre.f, rtol=1e-6)


def test_determined_forces_and_no_contacts() -> None:
    samples = ensemble(cdopt.bank.load("beam-middle-open").step)
    assert (samples.dimension, samples.converged) == (0, True)
    assert samples.samples.shape == (1, 1, 3)
    np.testing.assert_allclose(samples.forces, [[5, 0, 5]], atol=1e-9)
    assert "every force is determined" in repr(samples)
    np.testing.assert_array_equal(samples.mean, samples.report.force)
    place = samples.place([5, 0, 6])
    assert np.isnan([place.distance, *place.quantile]).all()
    assert place.outside == pytest.approx(1.0)
    empty = ensemble(cdopt.bank.load("zero-contacts").step)
    assert empty.converged
    assert empty.samples.shape == (1, 1, 0)
    assert not empty.distribution(5)[1].any()
    assert empty.place([]).less_energy == 0.0


def test_networks_and_forces_that_cannot_differ_are_independent() -> None:
    """Two beams on three supports, one a hundred times lighter, and a ball on the floor."""
    B = np.zeros((7, 5))
    B[:3, :2], B[3:6, 2:4], B[6, 4] = SUPPORTS[3], SUPPORTS[3], 1.0
    samples = ensemble(step_of(B, [10.0, 0.0, 0.1, 0.0, 7.0]), draws=2000)
    assert (samples.dimension, len(samples.parts)) == (2, 2)
    correlation = np.corrcoef(samples.forces[:, :6], rowvar=False)
    assert abs(correlation[1, 4]) < SIGMAS / np.sqrt(samples.bulk.min())
    assert correlation[0, 1] == pytest.approx(-1.0)
    assert np.abs(samples.mean[3:6] * 100.0 - samples.mean[:3]).max() < 1.0
    np.testing.assert_array_equal(samples.loose, [True] * 6 + [False])
    np.testing.assert_allclose(samples.forces[:, 6], 7.0, rtol=1e-9)
    assert (samples.rhat[6], samples.bulk[6]) == (1.0, np.inf)
    assert np.isnan(samples.place(samples.report.force).quantile[6])


# --- polytopes without end -------------------------------------------------------------


WEDGED_BEAM = np.zeros((5, 3))  # on three supports, wedged between walls at its ends
WEDGED_BEAM[:3, :2], WEDGED_BEAM[3, 2], WEDGED_BEAM[4, 2] = SUPPORTS[3], 1.0, -1.0


@pytest.mark.parametrize(
    ("B", "force", "ray"),
    [
        ([[0.0, 1.0], [1.0, 0.0], [-1.0, 0.0]], [10.0, 0, 0], [0, 1, 1]),  # a ball between walls
        ([[1.0, 0.0], [0.0, 0.0]], [10.0, 0.0], [0, 1]),  # a contact that no motion opens
        (WEDGED_BEAM, [2.5, 5.0, 2.5, 3.0, 0.0], [0, 0, 0, 1, 1]),
    ],
)
def test_forces_without_end_are_refused_with_their_ray(B, force, ray) -> None:
    step = step_on(B, force)
    with pytest.raises(UnboundedForces, match="without end, loading nothing") as caught:
        ensemble(step)
    np.testing.assert_allclose(caught.value.ray, ray, atol=1e-9)
    np.testing.assert_allclose(step.B.T @ caught.value.ray, 0.0, atol=1e-9)
    assert caught.value.residual < 1e-9
    assert list(caught.value.contacts) == list(np.flatnonzero(ray))
    again = pickle.loads(pickle.dumps(caught.value))
    np.testing.assert_array_equal(again.ray, caught.value.ray)
    assert str(again) == str(caught.value)


# --- diagnostics -----------------------------------------------------------------------


def test_a_short_run_does_not_call_itself_converged() -> None:
    short = ensemble(cdopt.bank.load("pyramid-hooke:n=4").step, draws=20, thin=1, warm_up=0)
    assert not short.converged
    assert "NOT converged" in repr(short)
    assert "effective size" in short.verdict
    assert np.isnan(short.place(short.report.force).distance)
    # twelve supports, chains begun in corners and no warm-up: R̂ itself says no
    corners = ensemble(cdopt.bank.load("supports:n=12").step, draws=100, thin=1, warm_up=0)
    assert corners.rhat.max() > 1.01
    assert not corners.converged


def test_each_diagnostic_counts_by_itself_and_the_seed_decides() -> None:
    """Vehtari and others' limits: R̂ 1.01, and 100 effective draws for each of four chains."""
    step, done = cdopt.bank.load("table").step, []
    good = ensemble(step, progress=lambda *counts: done.append(counts))
    assert good.converged
    assert done == [(k, 4) for k in range(5)]
    for name, value, word in (
        ("rhat", 1.02, "R̂ 1.02 above 1.01"), ("bulk", 399.0, "bulk effective size 399"),
        ("tail", 399.0, "tail effective size 399"), ("rhat", np.nan, "R̂ nan"),
    ):  # fmt: skip
        bad = dataclasses.replace(good, **{name: np.full(4, value)})
        assert not bad.converged
        assert word in bad.verdict
    np.testing.assert_array_equal(ensemble(step).samples, good.samples)
    assert np.abs(ensemble(step, seed=2).samples - good.samples).max() > 0.1
    assert np.abs(good.samples[0] - good.samples[1]).max() > 0.1  # chains differ


def autoregressive(rho: float, draws: int = 20_000):
    """Chains x_t = ρ x_{t−1} + noise, begun in their stationary distribution."""
    noise = np.random.default_rng(0).standard_normal((4, draws))
    noise[:, 1:] *= np.sqrt(1.0 - rho**2)
    return lfilter([1.0], [1.0, -rho], noise, axis=1)


@pytest.mark.parametrize("rho", [0.0, 0.3, 0.9, 0.97])
def test_effective_size_of_autoregressive_chains(rho: float) -> None:
    """Their autocorrelation time is (1 + ρ)/(1 − ρ)."""
    x = autoregressive(rho)
    result = mixing(x)
    assert result.bulk == pytest.approx(x.size * (1.0 - rho) / (1.0 + rho), rel=0.15)
    assert result.rhat < 1.01


def test_formulas_and_extremes() -> None:
    """Two chains of three draws by hand: W = 1, variance of the means 2."""
    x = np.array([[0.0, 1.0, 2.0], [2.0, 3.0, 4.0]])
    assert rhat(x) == pytest.approx(np.sqrt(2.0 / 3.0 + 2.0))
    alternating = autoregressive(-0.5)
    assert effective_size(alternating) > 2.0 * alternating.size
    assert mixing(np.zeros((4, 3))) == (np.inf, 0.0, 0.0)  # too few draws
    assert rhat(np.ones((2, 5))) == 1.0
    assert rhat(np.repeat([[0.0], [1.0]], 5, axis=1)) == np.inf
    cauchy = np.random.default_rng(1).standard_cauchy((4, 1000))  # no variance, but ranks
    assert mixing(cauchy).rhat < 1.01
    assert mixing(cauchy).bulk == pytest.approx(mixing(np.arctan(cauchy)).bulk)
    assert mixing(cauchy).bulk > 3000


@pytest.mark.parametrize(
    "spoil",
    [
        lambda x: x + np.eye(4)[:, -1:],  # one chain elsewhere
        lambda x: x * (1.0 + 2.0 * np.eye(4)[:, -1:]),  # one chain wider
        lambda x: x + np.linspace(0.0, 2.0, x.shape[1]),  # all chains wander
    ],
    ids=["place", "width", "drift"],
)
def test_chains_that_disagree_are_seen(spoil) -> None:
    x = autoregressive(0.0, draws=1000)
    assert mixing(x).rhat < 1.01 < 1.05 < mixing(spoil(x)).rhat


# --- places ----------------------------------------------------------------------------


def test_the_compatible_force_stores_least() -> None:
    step = cdopt.bank.load("pyramid-species:n=3").step
    samples = ensemble(step)
    for power in (2.0, 2.5):
        compatible = cdopt.CompatibleCD(step, power).solve("newton")
        place = samples.place(compatible, power)
        assert place.less_energy == 0.0
        assert place.outside < 1e-8
        assert samples.place(samples.forces[7], power).less_energy > 0.0
    corner = samples.report.force + 1e-3
    assert samples.place(corner).outside == pytest.approx(1e-3, rel=1.0)


@pytest.mark.parametrize("unit", [1.0, 1e6])
def test_places_on_the_beam(unit: float) -> None:
    """The middle is uniform on [0, 10]: quantile x/10, distance |x − 5| over 10/√12."""
    step = cdopt.bank.load("beam-uniform").step
    samples = ensemble(step.replace(F_ext=unit * step.F_ext), draws=4000)
    for x in (1.0, 10.0 / 3.0, 7.0):
        place = samples.place(unit * np.array([(10 - x) / 2, x, (10 - x) / 2]))
        np.testing.assert_allclose(place.quantile, [1 - x / 10, x / 10, 1 - x / 10], atol=0.03)
        assert place.distance == pytest.approx(abs(x - 5) / (10 / np.sqrt(12)), abs=0.03)
        assert place.depth == pytest.approx(1 - abs(x - 5) / 5, abs=0.03)
        energy = ((10 - x) ** 2 / 4 * 2 + x**2) / 2
        assert place.energy == pytest.approx(energy * unit**2)
        assert place.less_energy == pytest.approx(2 * abs(x - 10 / 3) / 10, abs=0.03)


def test_bad_arguments() -> None:
    step = cdopt.bank.load("table").step
    samples = ensemble(step, draws=20)
    for name, value in (
        ("draws", 0), ("draws", 2.5), ("chains", 0), ("seed", -1), ("thin", 0), ("warm_up", -1),
        ("problem", 3),
    ):  # fmt: skip
        with pytest.raises(cdopt.InvalidInput) as caught:
            ensemble(**{"problem": step, name: value})
        assert caught.value.argument == name
    for ask in (
        lambda: samples.quantile(1.5), lambda: samples.distribution(contact=4),
        lambda: samples.distribution(bins=0), lambda: samples.place([1.0]),
        lambda: samples.place([1.0] * 4, power=1.0),
    ):  # fmt: skip
        with pytest.raises(cdopt.InvalidInput):
            ask()


@pytest.mark.slow
@settings(max_examples=30)
@given(networks())
def test_small_networks_are_sampled_or_refused(drawn) -> None:
    """Refused exactly where some force has no end; else inside the hull of the vertices."""
    B, forces = drawn
    assume(forces.any())
    step = step_on(B, forces)
    report = cdopt.indeterminacy(step, contacts=[])
    closed = report.closed
    assume(closed.any())
    if rays(B[closed]).any():
        with pytest.raises(UnboundedForces):
            ensemble(report, draws=10)
        return
    samples = ensemble(report, draws=50, thin=5)
    assert samples.dimension == report.dimension
    corners = vertices(B[closed], B.T @ forces)
    scale = corners.max()
    assert np.all(samples.forces[:, closed] >= corners.min(axis=0) - 1e-8 * scale)
    assert np.all(samples.forces[:, closed] <= corners.max(axis=0) + 1e-8 * scale)
    np.testing.assert_allclose(samples.forces @ B, np.tile(forces @ B, (len(samples.forces), 1)),
                               atol=1e-7 * scale)  # fmt: skip
