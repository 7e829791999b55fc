"""Accelerated proximal gradient: the iteration that APGD and the augmented Lagrangian share.

minimise over f ≥ 0    ½ fᵀ H f + hᵀ f + Σ e_i(f_i),    H = R Sᵀ,  e_i′(f) = a_i f^s

H. Mazhar, T. Heyn, D. Negrut, A. Tasora, *Using Nesterov's method to accelerate multibody
dynamics with friction and contact*, ACM Trans. Graph. 34 (2015) 32, algorithm 1 without the
friction cone: Nesterov's momentum, L doubled until the quadratic model is an upper bound and
relaxed by 0.9 after every step, momentum dropped when it points uphill, the best iterate kept.
Two things differ. The upper bound is tested as dᵀHd ≤ L dᵀd, the same number without
cancellation. An elastic energy e, which their problem has not, enters by its proximal operator
(A. Beck, M. Teboulle, SIAM J. Imaging Sci. 2 (2009) 183), so that the infinite slope of e′ at
zero for p > 2 harms nothing; without it the operator is their projection. The restart is that of
B. O'Donoghue, E. Candès, Found. Comput. Math. 15 (2015) 715, for such steps.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from cdopt._util.checks import FloatArray
from cdopt._util.compiled import side_by_side
from cdopt.backends import kernels
from cdopt.backends.deadline import Deadline
from cdopt.backends.kernels import Rows
from cdopt.backends.proximal_kernels import (
    BEST,
    LEAST_LIPSCHITZ,
    LIPSCHITZ,
    THETA,
    accelerate,
)
from cdopt.backends.structured import in_pieces
from cdopt.backends.threads import several

_CHUNK = 500  # steps between two fresh products, which keep round-off from gathering
_LEAST = 1e-3  # L never falls below this share of the largest H_ii


@dataclass
class Proximal:
    """One problem and where its iteration stands.

    Attributes
    ----------
    rows, columns : R, and the rows of Sᵀ.
    own : (nc,) diagonal of H.
    h : (nc,).
    compliance : a (nc,); without entries the iteration is the plain projected gradient.
    exponent : s.
    forces : (nc,) the iterate.
    """

    rows: Rows
    columns: Rows
    own: FloatArray
    h: FloatArray
    compliance: FloatArray
    exponent: float
    forces: FloatArray
    steps: int = 0
    residual: float = np.inf
    residuals: list[FloatArray] = field(default_factory=list)
    lipschitz: float = 0.0

    def minimise(
        self, tolerance: float, limit: int, deadline: Deadline,
        progress: Callable[[int, float], None],
    ) -> bool:  # fmt: skip
        """Step until the natural residual max |min(H_ii f_i, gradient_i)| ≤ tolerance.

        ``limit`` is the number of steps at most, ``deadline`` when they must end. Returns whether
        the test was met; the iterate is then the last one, otherwise the best one.
        """
        nc = self.forces.size
        y, best = np.zeros(self.columns[0].size - 1), self.forces.copy()
        self._edges, self._threaded = (kernels.chunks(nc), kernels.chunks(y.size)), several()
        self.residual = self._fresh(self.forces, y)[1]
        least = _LEAST * float(self.own.max(initial=0.0)) or 1.0
        scalars = np.empty(4)
        scalars[[BEST, LEAST_LIPSCHITZ]] = self.residual, least
        scalars[LIPSCHITZ] = max(self.lipschitz or self._estimate(y), least)
        state = np.zeros((4, nc))
        state[0] = state[1] = self.forces
        scalars[THETA] = 1.0
        taken = 0
        while not self.residual <= tolerance and taken < limit and not deadline.passed:
            for target in (0, 1):
                state[target + 2] = self._fresh(state[target], y)[0]
            trace = np.zeros(min(_CHUNK, limit - taken))
            done = 0
            for piece in in_pieces(trace, self.rows[1].size, deadline):
                stepped = self._loop(
                    accelerate, self._threaded, self.rows, self.columns, self._edges, self.own,
                    self.h, self.compliance, self.exponent, tolerance, state, scalars, best, y,
                    piece,
                )  # fmt: skip
                done += stepped
                if stepped < piece.size or piece[-1] <= tolerance or deadline.passed:
                    break
            taken += done
            self.residuals.append(trace[:done])
            self.residual = self._fresh(state[0], y)[1]
            progress(self.steps + taken, self.residual)
        met = bool(self.residual <= tolerance)
        self.forces = state[0].copy() if met else best
        self.steps += taken
        self.lipschitz = float(scalars[LIPSCHITZ])
        return met

    def _fresh(self, f: FloatArray, y: FloatArray) -> tuple[FloatArray, float]:
        """H f and the natural residual at f."""
        product = np.zeros(f.size)
        self._loop(kernels.multiply, self._threaded, self._edges[1], self.columns, f, y)
        self._loop(kernels.multiply, self._threaded, self._edges[0], self.rows, y, product)
        gradient = product + self.h
        if self.compliance.size:
            gradient += self.compliance * np.maximum(f, 0.0) ** self.exponent
        return product, float(kernels.natural_residual(self.own, gradient, f))

    def _loop(self, loop: Callable[..., Any], *arguments: Any) -> Any:
        return side_by_side(loop, *arguments) if self._threaded else loop(*arguments)

    def _estimate(self, y: FloatArray) -> float:
        """The paper's first L: ‖H (f₀ − 1)‖ / ‖f₀ − 1‖."""
        away = self.forces - 1.0
        length = float(np.linalg.norm(away))
        if length == 0.0:
            return float(self.own.max(initial=0.0))
        return float(np.linalg.norm(self._fresh(away, y)[0])) / length
