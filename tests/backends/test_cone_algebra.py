"""Scalings of half-lines and second-order cones: their definitions, at random points."""

from __future__ import annotations

import numpy as np
import pytest

from cdopt.backends.cone_algebra import ConeScaling, HalfLineScaling

GIVE = np.full(1, 1e-3)


def inside(random: np.random.Generator, n: int, d: int) -> np.ndarray:
    """Points of n cones, some of them near the boundary."""
    x = random.standard_normal((n, d))
    x[:, 0] = np.linalg.norm(x[:, 1:], axis=1) * (1.0 + 10.0 ** random.uniform(-6.0, 0.0, n))
    return x + (d == 1) * random.random((n, d)) + np.eye(d)[0] * 1e-8


def product(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """x ∘ y of one cone."""
    return np.concatenate([[x @ y], x[0] * y[1:] + y[0] * x[1:]])


def matrix(scaling: ConeScaling, n: int, d: int) -> np.ndarray:
    """(W² + give)⁻¹ of each cone, column by column."""
    scaling.soften(GIVE)
    columns = [scaling.stiff(np.tile(e, n)).reshape(n, d) for e in np.eye(d)]
    return np.stack(columns, axis=2)


@pytest.mark.parametrize("d", [2, 3])
def test_the_scaling_takes_forces_and_rates_to_one_point(d: int) -> None:
    """W f = W⁻¹ s = λ, that is W² f = s."""
    random, n = np.random.default_rng(d), 40
    f, s = inside(random, n, d), inside(random, n, d)
    scaling = ConeScaling(f.ravel(), s.ravel(), d)
    give = np.eye(d) * GIVE
    for i, D in enumerate(matrix(scaling, n, d)):
        square = np.linalg.inv(D) - give
        assert np.linalg.eigvalsh(square).min() > 0.0
        size = np.abs(square).max() * np.abs(f[i]).max()
        np.testing.assert_allclose(square @ f[i], s[i], atol=1e-9 * size)
        lam = scaling.scaled[i]
        np.testing.assert_allclose(lam @ lam, f[i] @ s[i], rtol=1e-8)
        mu = scaling.products.reshape(n, d)[i]
        np.testing.assert_allclose(mu, product(lam, lam), rtol=1e-12)


@pytest.mark.parametrize("d", [2, 3])
def test_the_root_of_the_stiffness(d: int) -> None:
    random, n = np.random.default_rng(d), 40
    scaling = ConeScaling(inside(random, n, d).ravel(), inside(random, n, d).ravel(), d)
    D, F = matrix(scaling, n, d), scaling.root()
    np.testing.assert_allclose(F.transpose(0, 2, 1) @ F, D, rtol=1e-9, atol=1e-12 * D.max())


@pytest.mark.parametrize("d", [1, 2, 3])
def test_steps_that_aim_at_products_reach_them_to_first_order(d: int) -> None:
    """W⁻¹ ds + W df = W⁻¹ (what is aimed at) changes f ∘ s by the target."""
    random, n = np.random.default_rng(d), 12
    f = inside(random, n, d).ravel() + np.tile(np.eye(d)[0], n)
    s = inside(random, n, d).ravel() + np.tile(np.eye(d)[0], n)
    scaling = HalfLineScaling(f, s) if d == 1 else ConeScaling(f, s, d)
    target = random.standard_normal(n * d)
    ds = scaling.aimed(target)  # with df = 0
    change = scaling.second(ds * 0.0 + f, ds)  # (W f) ∘ (W⁻¹ ds) = λ ∘ (λ \ target)
    np.testing.assert_allclose(change, target, atol=1e-9 * np.abs(target).max())


def room(both: np.ndarray, change: np.ndarray, t: float, d: int) -> float:
    """The least x₀ − ‖x_T‖ of all cones, after t of a change."""
    x = (both + t * change).reshape(-1, d)
    return float((x[:, 0] - np.linalg.norm(x[:, 1:], axis=1)).min())


@pytest.mark.parametrize("d", [1, 2, 3])
def test_the_way_to_the_boundary(d: int) -> None:
    """At the length a cone is on its boundary, and none has been left before."""
    random = np.random.default_rng(d)
    for _ in range(30):
        f, s = inside(random, 5, d).ravel(), inside(random, 5, d).ravel()
        df, ds = random.standard_normal((2, 5 * d))
        scaling = HalfLineScaling(f, s) if d == 1 else ConeScaling(f, s, d)
        t, both, change = scaling.length(df, ds), np.append(f, s), np.append(df, ds)
        assert t < 1e6
        size = np.abs(both).max() + t * np.abs(change).max()
        before = [room(both, change, share * t, d) for share in np.linspace(0.0, 0.999, 50)]
        assert min(before) > -1e-12 * size
        assert abs(room(both, change, t, d)) <= 1e-9 * size
