"""Systems of couples of bodies, by conjugate gradients preconditioned with each body's block."""

from __future__ import annotations

import numpy as np

from cdopt._util.checks import FloatArray
from cdopt._util.compiled import side_by_side
from cdopt.backends.linalg import couple_kernels
from cdopt.backends.linalg.base import Tally
from cdopt.backends.linalg.couples import Couples


class CoupleSystem:
    """S + shift I + Bᵀ D B matrix-free, only its contacts with D > 0 kept.

    ``base`` (blocks, size, size) holds S where it is not diagonal, and is empty where it is.
    """

    def __init__(
        self, net: Couples, base: FloatArray, diagonal: FloatArray, D: FloatArray, shift: float,
        tally: Tally,
    ) -> None:  # fmt: skip
        self.net, self.tally, self.gave_up = net, tally, False
        self.begin, self.middle, self.end = (np.empty_like(net.begin) for _ in range(3))
        self.two, self.W = np.empty_like(net.other), np.empty_like(net.entry)
        side_by_side(
            couple_kernels.compress,
            net.begin, net.middle, net.end, net.contact, net.other, net.entry, net.start,
            np.sqrt(D), self.begin, self.middle, self.end, self.two, self.W, net.shape,
        )  # fmt: skip
        self.diagonal = (diagonal + shift).reshape(-1, net.size)
        own = np.eye(net.size)
        self.base = base + shift * own if base.size else base
        self.inverse = self.base.copy() if base.size else self.diagonal[:, :, None] * own
        side_by_side(
            couple_kernels.blocks,
            self.begin,
            self.middle,
            self.end,
            self.two,
            self.W,
            net.start,
            self.inverse,
            net.shape,
        )
        self.part = np.empty(net.start.size - 1)

    def solve(self, rhs: FloatArray, tol: float, limit: int | None = None) -> FloatArray:
        """x, its preconditioned residual reduced by ``tol``."""
        net = self.net
        most = 20 * rhs.size if limit is None else limit
        work = np.zeros((3, net.count + 1, net.size))
        x = np.zeros((net.count, net.size))
        spent = side_by_side(
            couple_kernels.conjugate_gradients,
            self.begin, self.middle, self.end, self.two, self.W, net.start, self.diagonal,
            self.base, self.inverse, rhs.reshape(-1, net.size).copy(), x, work, self.part,
            tol, most, net.shape,
        )  # fmt: skip
        self.tally.iterations += spent
        self.gave_up = spent == most
        return x.ravel()
