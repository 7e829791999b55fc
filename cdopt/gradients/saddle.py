"""Linear systems of a network whose rates are held in some directions, which may depend on others.

    S x − Gᵀ f = q,    f = T a − D G x,    R G x = s

x is unique where S is positive definite and the law symmetric, a only up to directions that do
nothing to the bodies. No N is regularised: the system S + Gᵀ(D + σ T R) G is solved with a large σ
again and again, on what is left of both equations (the method of multipliers; Hestenes, J. Optim.
Theory Appl. 4, 1969), until nothing is, or until what is left of s no longer falls: that part of s
no motion has.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp

from cdopt._util.cached import cached_property
from cdopt._util.checks import FloatArray, IntArray
from cdopt.backends.linalg import ContactNetwork, network
from cdopt.backends.linalg.factorisation import sparse_solve
from cdopt.gradients.linear_law import LinearLaw

_STRONG = 1e8  # σ of directions, over the mobility of each
_STRONGEST = 1e11  # where an iteration takes it
_PASSES, _FEW = 60, 4
_NEAR = 1e-10  # what may be left of an equation that an iteration solves
_MOST = 400  # iterations; then a factorisation
_DONE = 1e-14  # of the terms of an equation: what is left of it is round-off
_FALLS = 0.7  # what is left of s falls by this at least while it still can
_TIGHT = 1e-11  # of iterated systems

Step = Callable[[FloatArray], FloatArray]


@dataclass(frozen=True, eq=False)
class SaddlePoint:
    """x (m,), a (n,) and what is ``left`` (n,) of s; ``missed`` is the share of s that this is."""

    x: FloatArray
    a: FloatArray
    left: FloatArray
    missed: float


class Saddle:
    """The systems of one law on one network.

    Parameters
    ----------
    G : (rows, m), scaled. S : (m, m) inertia. law : of the rows.
    body : (m,) the body of each dof, or None.
    """

    def __init__(
        self, G: sp.csr_array, S: sp.csr_array, law: LinearLaw, body: IntArray | None = None
    ) -> None:
        self.G, self.S, self.law, self.body = G, S, law, body
        self.held = sp.csr_array(law.R @ G)  # (n, m)
        self.forced = sp.csr_array(law.T.T @ G)
        self.follows = sp.csr_array(law.D @ G)
        self.has_springs = bool(law.D.nnz and law.D.data.any())
        inertia = S.diagonal()
        own = np.asarray(self.held.multiply(self.forced) @ (1.0 / inertia)).ravel()
        size = np.sqrt(np.asarray(self.held.multiply(self.held) @ (1.0 / inertia)).ravel())
        other = np.sqrt(np.asarray(self.forced.multiply(self.forced) @ (1.0 / inertia)).ravel())
        own = np.maximum(np.abs(own), 1e-3 * size * other)
        self.unit = 1.0 / np.where(own > 0.0, own, 1.0)

    def solve(self, q: FloatArray, s: FloatArray) -> SaddlePoint:
        """The solution for loads q (m,) and rates s (n,)."""
        if self._iterates:
            point, left = self._refined(q, s, self._iterated, _STRONGEST * self.unit, _FEW)
            if left <= _NEAR:
                return point
            self._iterates = False
        return self._refined(q, s, self._step, _STRONG * self.unit, _PASSES)[0]

    def _refined(
        self, q: FloatArray, s: FloatArray, step: Step, sigma: FloatArray, passes: int
    ) -> tuple[SaddlePoint, float]:
        """The solution by ``step``, and the larger share that is left of the two equations."""
        x, a = np.zeros(q.size), np.zeros(s.size)
        left_q, left_s, last, of_s = q, s, np.inf, 0.0
        size_s = max(_largest(s), self._reach(q)) or 1.0
        for _ in range(passes):
            change = step(left_q + self.forced.T @ (sigma * left_s))
            x = x + change
            a = a + sigma * (left_s - self.held @ change)
            loads = self.forced.T @ a
            inertia, reached = self.S @ x, self.held @ x
            left_q, left_s = q - inertia + loads, s - reached
            terms = [q, inertia, loads]
            if self.has_springs:
                springs = self.G.T @ (self.follows @ x)
                left_q = left_q - springs
                terms.append(springs)
            of_q = _largest(left_q) / (max(map(_largest, terms)) or 1.0)
            of_s = _largest(left_s) / size_s
            worst = max(of_q, of_s)
            if worst <= (_NEAR if passes == _FEW else _DONE):
                break
            if worst > _FALLS * last and (worst <= _NEAR or of_s > of_q or worst >= last):
                break
            last = worst
        return SaddlePoint(x, a, left_s, of_s), worst

    def _reach(self, q: FloatArray) -> float:
        """The largest rate of the motion that q causes where nothing is held."""
        return _largest(abs(self.held) @ (np.abs(q) / self.S.diagonal()))

    @cached_property
    def _net(self) -> ContactNetwork:
        return network(self.G, self.body, self.S)

    @cached_property
    def _iterates(self) -> bool:
        """Whether conjugate gradients are tried first: large networks of pairs of bodies."""
        return self.law.by_rows and not self._net.small and self._net.pairs is not None

    def _weights(self, strength: float) -> FloatArray:
        return np.asarray(self.law.D.diagonal() + self.law.T @ (strength * self.unit))

    @cached_property
    def _iterated(self) -> Step:
        net = self._net
        system = net.system(self._weights(_STRONGEST))
        return lambda rhs: np.asarray(system.solve(net.arranged(rhs), _TIGHT, _MOST)[net.position])

    @cached_property
    def _step(self) -> Step:
        """The solution of S + Gᵀ(D + σ T R) G, by factors."""
        if self.law.by_rows:
            net = self._net
            factors = net.factored(self._weights(_STRONG))
            return lambda rhs: np.asarray(factors.solve(net.arranged(rhs), _TIGHT)[net.position])
        H = self.law.D + self.law.T @ sp.csr_array(self.law.R * (_STRONG * self.unit)[:, None])
        return sparse_solve(sp.csr_array(self.S + self.G.T @ (H @ self.G)))

    @cached_property
    def idle(self) -> FloatArray:
        """(n,) one a, made at random, that does nothing to the bodies in the adjoint of this.

        Its zeros are the directions whose rates are independent of all others.
        """
        probe = np.random.default_rng(47).standard_normal(self.unit.size) / np.sqrt(self.unit)
        step, strength = self._step, _STRONG
        if self._iterates:
            step, strength = self._iterated, _STRONGEST
        x = np.zeros(self.S.shape[0])
        for _ in range(3):
            left = probe - self.held @ x
            x = x + step(self.forced.T @ (strength * self.unit * left))
        return np.asarray(self.unit * (probe - self.held @ x))


def _largest(x: FloatArray) -> float:
    return float(np.abs(x).max(initial=0.0))
