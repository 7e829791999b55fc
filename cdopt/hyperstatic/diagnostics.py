"""Whether chains have converged: split-R̂ and effective sample sizes, rank-normalised.

Vehtari, Gelman, Simpson, Carpenter, Bürkner, Bayesian Analysis 16 (2021): each chain is split in
halves, values are replaced by the normal scores of their ranks, and R̂ compares the variance
between halves with that within. The effective size divides the number of draws by their
autocorrelation time, from Geyer's initial monotone sequence.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.fft import irfft, next_fast_len, rfft
from scipy.stats import norm, rankdata

from cdopt._util.checks import FloatArray

RHAT = 1.01  # Vehtari and others' limits: above this R̂ chains have not mixed
PER_CHAIN = 100  # effective draws per chain, below which the estimates themselves are doubtful
_TAILS = (0.05, 0.95)
_FEWEST = 4  # draws of a chain, so that its halves have a variance


class Mixing(NamedTuple):
    """How well chains of one number have mixed.

    Attributes
    ----------
    rhat : the larger R̂ of the values and of their distances from the median; one is perfect.
    bulk, tail : effective number of draws for the middle, and for the 5 % and 95 % quantiles.
    """

    rhat: float
    bulk: float
    tail: float


def mixing(draws: FloatArray) -> Mixing:
    """The diagnostics of chains (chains, draws) of one number.

    Chains of fewer than four draws have an R̂ of infinity and an effective size of zero.
    """
    if draws.shape[1] < _FEWEST:
        return Mixing(np.inf, 0.0, 0.0)
    scores = _normal_scores(_split(draws))
    folded = _normal_scores(_split(np.abs(draws - np.median(draws))))
    ends = [effective_size(_split((draws <= q).astype(float))) for q in np.quantile(draws, _TAILS)]
    return Mixing(max(rhat(scores), rhat(folded)), effective_size(scores), min(ends))


def rhat(halves: FloatArray) -> float:
    """√(var⁺/W) of chains (m, n), split already: equations (1) to (4) of the source."""
    n = halves.shape[1]
    within = float(np.mean(np.var(halves, axis=1, ddof=1)))
    between = float(np.var(np.mean(halves, axis=1), ddof=1)) if halves.shape[0] > 1 else 0.0
    if within == 0.0:
        return 1.0 if between == 0.0 else np.inf
    return float(np.sqrt((n - 1.0) / n + between / within))


def effective_size(halves: FloatArray) -> float:
    """Draws over autocorrelation time of chains (m, n), split already; at most m n log₁₀(m n)."""
    m, n = halves.shape
    total = float(m * n)
    covariance = _autocovariance(halves)
    within = float(np.mean(covariance[:, 0])) * n / (n - 1.0)
    spread = within * (n - 1.0) / n
    spread += float(np.var(np.mean(halves, axis=1), ddof=1)) if m > 1 else 0.0
    if spread == 0.0:
        return total
    rho = 1.0 - (within - np.mean(covariance, axis=0)) / spread
    rho[0] = 1.0
    pairs = rho[: n - n % 2].reshape(-1, 2).sum(axis=1)
    ended = np.flatnonzero(pairs < 0.0)
    pairs = np.minimum.accumulate(pairs[: ended[0] if ended.size else None])
    time = max(2.0 * float(pairs.sum()) - 1.0, 1.0 / np.log10(max(total, 10.0)))
    return total / time


def _split(draws: FloatArray) -> FloatArray:
    """Each chain's first and last half; the middle draw of an odd number is left out."""
    half = draws.shape[1] // 2
    return np.concatenate([draws[:, :half], draws[:, draws.shape[1] - half :]])


def _normal_scores(values: FloatArray) -> FloatArray:
    """Φ⁻¹ of the fractional ranks, (r − 3/8) / (S + 1/4)."""
    ranks = rankdata(values, method="average").reshape(values.shape)
    return np.asarray(norm.ppf((ranks - 0.375) / (values.size + 0.25)))


def _autocovariance(chains: FloatArray) -> FloatArray:
    """Autocovariance (m, n) of each chain at lags 0 to n − 1, divided by n."""
    n = chains.shape[1]
    size = next_fast_len(2 * n, real=True)
    spectrum = rfft(chains - chains.mean(axis=1, keepdims=True), size, axis=1)
    return np.asarray(irfft(spectrum * spectrum.conj(), size, axis=1)[:, :n]) / n
