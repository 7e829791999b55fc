"""The force network ensemble: exact integrals, polytopes without end, diagnostics, places."""

from __future__ import annotations

import dataclasses
import pickle

import numpy as np
import pytest
from hypothesis import assume, given, settings
from judges import networks, rays, step_of, step_on, vertices
from scipy.spatial import ConvexHull, Delaunay

import cdopt
from cdopt.hyperstatic import UnboundedForces, ensemble

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
    least = samples.bulk.min()
    f = samples.forces
    for i, j in np.ndindex(n, n):
        product = f[:, i] * f[:, j]
        error = product.std() / np.sqrt(least)
        assert abs(product.mean() - second[i, j]) <= SIGMAS * error
        assert error < 0.05 * second[i, i]
    np.testing.assert_allclose(
        samples.covariance + np.outer(samples.mean, samples.mean), f.T @ f / len(f)
    )


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
    B = step.B.toarray()
    load = B.T @ samples.report.force
    assert samples.samples.min() >= 0.0
    assert not samples.samples.flags.writeable
    np.testing.assert_allclose(
        samples.forces @ B, np.tile(load, (len(samples.forces), 1)), atol=1e-12
    )
    assert np.all(samples.forces >= bounds.lower - 1e-9)
    assert np.all(samples.forces <= bounds.upper + 1e-9)
    edges, density = samples.distribution(bins=25)
    assert np.sum(np.diff(edges) * density) == pytest.approx(1.0)
    assert samples.magnitudes.mean() == pytest.approx(1.0)
    assert samples.magnitudes.size == samples.forces.size
    edges, _ = samples.distribution(bins=10, contact=3)
    assert edges[-1] == pytest.approx(samples.forces[:, 3].max())
    (part,) = samples.parts
    centre = cdopt.hyperstatic.analytic_centre(bounds)
    np.testing.assert_allclose(part.centre * part.unit, centre.f[part.rows], rtol=1e-6)


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
    step = cdopt.bank.load("pyramid-hooke:n=4").step
    short = ensemble(step, draws=20, thin=1, warm_up=0)
    assert not short.converged
    assert "NOT converged" in repr(short)
    assert "effective size" in short.verdict
    assert np.isnan(short.place(short.report.force).distance)
    # twelve supports, chains begun in corners and no warm-up: R̂ itself says no
    corners = ensemble(cdopt.bank.load("supports:n=12").step, draws=100, thin=1, warm_up=0)
    assert corners.rhat.max() > 1.01
    assert not corners.converged


@pytest.mark.parametrize(
    ("spoilt", "word"),
    [({"rhat": 1.02}, "R̂ 1.02 above 1.01"), ({"bulk": 399.0}, "bulk effective size 399"),
     ({"tail": 399.0}, "tail effective size 399"), ({"rhat": np.nan}, "R̂ nan")],
)  # fmt: skip
def test_each_diagnostic_counts_by_itself(spoilt, word) -> None:
    """Vehtari and others' limits: R̂ 1.01, and 100 effective draws for each of four chains."""
    good = ensemble(cdopt.bank.load("table").step)
    assert good.converged
    bad = dataclasses.replace(good, **{name: np.full(4, value) for name, value in spoilt.items()})
    assert not bad.converged
    assert word in bad.verdict
    assert "NOT converged" in repr(bad)


def test_the_seed_decides() -> None:
    step = cdopt.bank.load("table").step
    first, same, other = (ensemble(step, draws=50, seed=s) for s in (1, 1, 2))
    np.testing.assert_array_equal(first.samples, same.samples)
    assert np.abs(first.samples - other.samples).max() > 0.1
    assert np.abs(first.samples[0] - first.samples[1]).max() > 0.1  # chains differ


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


def test_places_on_the_beam() -> None:
    """The middle is uniform on [0, 10]: quantile x/10, distance |x − 5| over 10/√12."""
    samples = ensemble(cdopt.bank.load("beam-uniform").step, draws=4000)
    for x in (1.0, 10.0 / 3.0, 7.0):
        place = samples.place([(10 - x) / 2, x, (10 - x) / 2])
        np.testing.assert_allclose(place.quantile, [1 - x / 10, x / 10, 1 - x / 10], atol=0.03)
        assert place.distance == pytest.approx(abs(x - 5) / (10 / np.sqrt(12)), abs=0.03)
        assert place.depth == pytest.approx(1 - abs(x - 5) / 5, abs=0.03)
        energy = ((10 - x) ** 2 / 4 * 2 + x**2) / 2
        assert place.energy == pytest.approx(energy)
        assert place.less_energy == pytest.approx(2 * abs(x - 10 / 3) / 10, abs=0.03)


def test_the_distance_does_not_depend_on_units() -> None:
    plain = ensemble(step_of(SUPPORTS[5], LOADS[5]), draws=2000)
    large = ensemble(step_of(SUPPORTS[5], 1e6 * np.array(LOADS[5])), draws=2000)
    f = plain.forces[3]
    assert large.place(1e6 * f).distance == pytest.approx(plain.place(f).distance, rel=1e-6)
    np.testing.assert_allclose(large.mean, 1e6 * plain.mean, rtol=1e-6)


# --- arguments -------------------------------------------------------------------------


@pytest.mark.parametrize(
    "options",
    [{"draws": 0}, {"draws": 2.5}, {"chains": 0}, {"seed": -1}, {"thin": 0}, {"warm_up": -1},
     {"problem": 3}],
    ids=str,
)  # fmt: skip
def test_bad_arguments(options) -> None:
    with pytest.raises(cdopt.InvalidInput) as caught:
        ensemble(**{"problem": cdopt.bank.load("table").step, **options})
    assert caught.value.argument == next(iter(options))


def test_bad_questions() -> None:
    samples = ensemble(cdopt.bank.load("table").step, draws=20)
    for ask in (
        lambda: samples.quantile(1.5), lambda: samples.distribution(contact=4),
        lambda: samples.distribution(bins=0), lambda: samples.place([1.0]),
        lambda: samples.place([1.0] * 4, power=1.0),
    ):  # fmt: skip
        with pytest.raises(cdopt.InvalidInput):
            ask()


# --- properties ------------------------------------------------------------------------


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


def test_progress_counts_every_chain() -> None:
    reports: list[tuple[int, int]] = []
    step = cdopt.bank.load("beam-uniform").step
    cdopt.ensemble(step, 10, 3, progress=lambda done, total: reports.append((done, total)))
    assert reports == [(0, 3), (1, 3), (2, 3), (3, 3)]
