"""Anderson's acceleration of a map from forces to forces."""

from __future__ import annotations

import numpy as np

from cdopt._util.checks import FloatArray

_WORSE = 2.0  # times the natural map before: combinations beyond it are refused


class AndersonAcceleration:
    """Anderson's acceleration, of the map from forces to those some sweeps later.

    D. G. Anderson, J. ACM 12 (1965). The next forces are the combination of the last results of
    the map whose changes cancel best. It is refused where it increases the natural map: more than
    twofold, or a second time before the sweeps have reached a new least one. ``swept`` are the
    forces before the last combination.
    """

    def __init__(self, weights: FloatArray, memory: int) -> None:
        """``weights`` (contacts, d) make changes of forces at different contacts comparable."""
        self.weights, self.memory = weights, memory
        self.swept, self.before, self.least, self.may_increase = np.zeros(0), np.inf, np.inf, True
        self.results, self.changes = np.zeros((2, memory, weights.size))
        self.count = 0  # of the results

    def mixed(self, before: FloatArray, after: FloatArray, error: float) -> FloatArray:
        """The combination, after the sweeps that began at ``before``, of natural map ``error``."""
        if error < self.least:
            self.least, self.may_increase = error, True
        self.swept, self.before = after, error
        last = self.count % self.memory
        self.count += 1
        size = min(self.count, self.memory)
        self.results[last] = after.ravel()
        self.changes[last] = ((after - before) * self.weights).ravel()
        if size == 1:
            return after
        others = np.delete(np.arange(size), last)
        differences = self.changes[others] - self.changes[last]
        gram = differences @ differences.T
        gram.flat[::size] += 1e-12 * np.trace(gram) / (size - 1)
        shares = np.zeros(size)
        shares[others] = np.linalg.lstsq(gram, -differences @ self.changes[last], rcond=None)[0]
        shares[last] = 1.0 - shares.sum()
        return np.asarray(shares @ self.results[:size]).reshape(after.shape)

    def refuses(self, error: float) -> bool:
        """Whether the natural map of the combination is too large; then the memory is cleared."""
        before, self.before = self.before, np.inf
        if error <= before:
            return False
        if self.may_increase and error <= _WORSE * before:
            self.may_increase = False
            return False
        self.count = 0
        return True
