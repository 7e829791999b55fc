"""split-R̂ and effective sample sizes: chains whose mixing is known."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.signal import lfilter

from cdopt.hyperstatic.ensemble import effective_size, mixing, rhat


def autoregressive(rho: float, chains: int = 4, draws: int = 20_000, seed: int = 0):
    """Chains x_t = ρ x_{t−1} + noise, begun in their stationary distribution."""
    rng = np.random.default_rng(seed)
    noise = rng.standard_normal((chains, draws))
    noise[:, 1:] *= np.sqrt(1.0 - rho**2)
    return lfilter([1.0], [1.0, -rho], noise, axis=1)


@pytest.mark.parametrize("rho", [0.0, 0.3, 0.9, 0.97])
def test_effective_size_of_autoregressive_chains(rho: float) -> None:
    """Their autocorrelation time is (1 + ρ)/(1 − ρ)."""
    x = autoregressive(rho)
    expected = x.size * (1.0 - rho) / (1.0 + rho)
    result = mixing(x)
    assert result.bulk == pytest.approx(expected, rel=0.15)
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


@pytest.mark.parametrize(
    "spoil",
    [
        lambda x: x + np.array([[0.0], [0.0], [0.0], [1.0]]),  # one chain elsewhere
        lambda x: x * np.array([[1.0], [1.0], [1.0], [3.0]]),  # one chain wider
        lambda x: x + np.linspace(0.0, 2.0, x.shape[1]),  # all chains wander
    ],
    ids=["place", "width", "drift"],
)
def test_chains_that_disagree_are_seen(spoil) -> None:
    x = autoregressive(0.0, draws=1000)
    assert mixing(x).rhat < 1.01 < 1.05 < mixing(spoil(x)).rhat


def test_ranks_do_not_mind_heavy_tails() -> None:
    """Cauchy draws have no variance; their ranks are as good as any."""
    x = np.random.default_rng(1).standard_cauchy((4, 1000))
    result = mixing(x)
    assert result.rhat < 1.01
    assert result.bulk > 3000
    assert mixing(np.arctan(x)).bulk == pytest.approx(result.bulk)
