"""Many cone programs over one bounded set of forces: min cᵀx, A x = b, x in Lorentz cones.

Only the cost c differs. All start at the analytic centre of the set, where x∘s = e for s = Aᵀy:
then (x, c + t Aᵀy) is feasible for both the program and its dual, once t is large enough for c, and
near the central path. Steps are Mehrotra's with the scaling of Nesterov and Todd (E. D. Andersen,
C. Roos & T. Terlaky, Math. Program. 95, 2003), lengthened by the centrality correctors of J.
Gondzio (Comput. Optim. Appl. 6, 1996), each a solution of the same linear system. Its matrix
A H Aᵀ, H the scaling, has a Cholesky factor within its band. Cones have three components: zeros are
added to those of the plane and to half-lines.
"""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np
import scipy.sparse as sp
from numba.extending import get_cython_function_address
from scipy.sparse.csgraph import reverse_cuthill_mckee

from cdopt._util.checks import FloatArray, IntArray
from cdopt.hyperstatic.centre import analytic_centre
from cdopt.hyperstatic.cone_steps import (
    Points,
    Rows,
    Steps,
    advance,
    assemble,
    correct,
    direct,
    follow,
    lengthen,
)

_STEPS = 60  # of one program
_GAP = 1e-8  # of the value, or of the unit of forces if that is larger: where a program ends,
_STALLS = 3  # or after this many steps in turn without progress
_NEAR = 0.8  # share of the centre's s that a cost may change
_TO_BOUNDARY = 0.99
_MISSED = 1e-10  # of A dx, above which a step is refined
_CORRECTORS = 3  # of a step, at most,
_GAINED = 0.02  # while each adds this much to the sum of the lengths of both steps


def _lapack(name: str, arguments: int) -> Any:
    """A routine of SciPy's LAPACK; SciPy's own interface would keep Python's lock."""
    address = get_cython_function_address("scipy.linalg.cython_lapack", name)
    return ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * arguments)(address)


_FACTORISE, _SOLVE = _lapack("dpbtrf", 6), _lapack("dpbtrs", 9)


class ConePrograms:
    """Programs min cᵀx subject to A x = b and x in Lorentz cones, with one A and b.

    Parameters
    ----------
    A : (rows, cones · 3), the components of a cone side by side. b : (rows,).
    x : (cones, 3), a point inside the cones.
    """

    def __init__(self, A: sp.csr_array, b: FloatArray, x: FloatArray) -> None:
        touched = sp.csr_array(abs(A) @ sp.kron(sp.eye_array(len(x)), np.ones((3, 1))))
        order = reverse_cuthill_mckee(sp.csr_matrix(touched @ touched.T), symmetric_mode=True)
        self.b, self.order = b[order], np.argsort(order)
        self.rows = Rows.of(sp.csr_array(A[order]), sp.csc_array(touched[order]))
        first, row = self.rows.first, self.rows.row
        full = np.flatnonzero(np.diff(first))
        self.height = 1 + int((row[first[full + 1] - 1] - row[first[full]]).max(initial=0))
        x, y, _ = analytic_centre(A, b, x)
        s = (A.T @ y).reshape(x.shape)
        self.centre = x, s[:, 0] - np.linalg.norm(s[:, 1:], axis=1), y[order]

    def solve(self, cost: FloatArray) -> tuple[FloatArray, FloatArray]:
        """x (many, cones, 3) and multipliers (many, rows), feasible, of costs (many, cones, 3)."""
        (x, room, y), many = self.centre, len(cost)
        batch = _Batch(self, cost)
        t = (np.linalg.norm(cost, axis=2) / room).max(axis=1, initial=0.0) / _NEAR
        batch.at.x[:], batch.at.y[:], left = x, t[:, None] * y, np.arange(many)
        batch.advance(left)
        best, least, stalls = (
            (batch.at.x.copy(), batch.at.y.copy()),
            np.full(many, np.inf),
            0 * left,
        )
        for _ in range(_STEPS):
            gap, missed, value = batch.ends[left].T
            error = gap + missed
            stalls[left] = np.where(error < 0.95 * least[left], 0, stalls[left] + 1)
            better = left[error < least[left]]
            least[left] = np.fmin(error, least[left])
            best[0][better], best[1][better] = batch.at.x[better], batch.at.y[better]
            enough = _GAP * np.maximum(np.abs(value), 1.0)
            left = left[(gap > enough) & (gap < np.inf) & (stalls[left] < _STALLS)]
            if not left.size:
                break
            batch.step(left)
        return best[0], best[1][:, self.order]


class _Batch:
    """Points of many programs, and two steps of each: the best one known and a trial."""

    def __init__(self, owner: ConePrograms, cost: FloatArray) -> None:
        many, cones, rows = len(cost), cost.shape[1], owner.b.size
        self.rows, self.at = owner.rows, Points.of(cost, owner.b)
        self.steps, self.place = Steps.of(2 * many, cones, rows), np.arange(many)
        self.mu, self.ends = np.zeros(many), np.zeros((many, 3))
        self.bands = np.zeros((many, rows * owner.height))
        dimensions = (rows, owner.height - 1, owner.height, 1)
        self.sizes = [ctypes.byref(ctypes.c_int(k)) for k in dimensions]

    def advance(self, programs: IntArray) -> None:
        """Take the best steps known."""
        places = self.place[programs]
        advance(self.rows, programs, self.at, self.steps, places, _TO_BOUNDARY, self.ends)

    def step(self, programs: IntArray) -> None:
        """A step of some programs; not-a-number without a Cholesky factor."""
        at, steps, many, failed = self.at, self.steps, self.place.size, ctypes.c_int()
        n, below, height, _ = self.sizes
        assemble(self.rows, programs, at, self.bands)
        for m in programs:
            band = self.bands[m]
            _FACTORISE(b"L", n, below, band.ctypes.data, height, ctypes.byref(failed))
            band[0] = np.nan if failed.value else band[0]
        self.place[programs] = programs
        steps.h[programs], steps.left[programs] = -at.x[programs], -at.b
        steps.dy[programs] = 0.0
        self._solve(programs, programs)
        correct(programs, at, steps, self.mu)
        self._directed(programs, programs)
        still = programs
        for _ in range(_CORRECTORS):
            places = self.place[still]
            trials = (places + many) % (2 * many)
            lengthen(still, at, steps, places, self.mu, trials)
            self._directed(still, trials)
            now, new = (np.minimum(steps.reach[k], 1.0).sum(axis=1) for k in (places, trials))
            longer = new > now + _GAINED
            still = still[longer]
            if not still.size:
                break
            self.place[still] = trials[longer]
        places = self.place[programs]
        rough = np.abs(steps.left[places]).max(axis=1) > _MISSED
        self._solve(programs[rough], places[rough])
        self.advance(programs)

    def _directed(self, programs: IntArray, places: IntArray) -> None:
        """The steps at ``places`` to their aims."""
        direct(self.rows, programs, self.at, self.steps, places)
        self._solve(programs, places)

    def _solve(self, programs: IntArray, places: IntArray) -> None:
        """Do what ``left`` requires; the second time it refines."""
        n, below, height, one = self.sizes
        bands, lefts = (
            (array.ctypes.data, array.strides[0]) for array in (self.bands, self.steps.left)
        )
        failed = ctypes.byref(ctypes.c_int())
        for m, k in zip(programs.tolist(), places.tolist(), strict=True):
            factor, left = bands[0] + m * bands[1], lefts[0] + k * lefts[1]
            _SOLVE(b"L", n, below, one, factor, height, left, n, failed)
        follow(self.rows, programs, self.at, self.steps, places)
