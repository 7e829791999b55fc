"""One part of a rigid step: its matrices, and its forces for gaps that close.

On the contacts A that press forces solve N_A f = −p_A. Small parts use the singular values of
B_A M^(−1/2), which are not squared, large ones a sparse factorisation or conjugate gradients, and
all iterative refinement with residuals in extended precision (N. J. Higham, Accuracy and Stability
of Numerical Algorithms, SIAM 2002, chapter 12).
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import scipy.linalg
import scipy.sparse as sp
from scipy.linalg.lapack import dpotrf, dpotri

from cdopt._util.cached import cached_property, twin
from cdopt._util.checks import BoolArray, FloatArray, IntArray
from cdopt._util.frozen import transposed, unit_columns
from cdopt.problem.contact_problem import ContactProblem
from cdopt.problem.residual import EPS
from cdopt.problem.scaling import chosen_columns, chosen_rows, scaled
from cdopt.problem.sparse_inverse import LARGE, SparseInverse

MOST = 100  # dense: contacts of one part, or rows with friction, and three times as many dofs
_SINGULAR = 1e-12  # eigenvalues of N that belong to no force
# errors of gaps magnified by less, or of less than a share of the load, are left in large parts
MAGNIFIED, _SMALL = 1e3, 1e-6
DEPENDENT = 1e-9  # singular values below this share of the largest belong to no force
PASSES = 6  # of refinement
_LEFT = 5.0  # times the change by gaps that projections on faces leave open, to first order
CHANGES = 12  # of the set of contacts that press
NEGATIVE = 1e-9  # of the local load: smaller pulling forces are treated as 0
_OPEN = 1e-9  # of the local speed: smaller negative gap rates are treated as 0
_UNIT = float(np.finfo(float).eps)
# of the local load: if forces are less certain they are recomputed in exact rational arithmetic
# (``Fraction``), provided that B has at most ``_EXACT`` entries
_KNOWN, _EXACT = 1e-7, 1000
_SETTLED = 1e-10  # of the local load: errors of forces that need no other solution, by N
_FINER = float(np.finfo(np.longdouble).eps)


def dense_block(
    B: sp.csr_array, rows: IntArray, columns: IntArray | None = None
) -> tuple[IntArray, FloatArray]:
    """The ``rows`` (n,) of B with all entries in the ``columns`` (m,), and these; default all."""
    many = B.indptr[rows + 1] - B.indptr[rows]
    row = np.arange(rows.size).repeat(many)
    at = np.arange(row.size) + (B.indptr[rows] - (many.cumsum() - many)).repeat(many)
    column = B.indices[at]
    columns = np.unique(column) if columns is None else columns
    block = np.zeros((rows.size, columns.size))
    block[row, np.searchsorted(columns, column)] = B.data[at]
    return columns, block


class PartStep:
    """The closed contacts (n,) of one part, and its dofs (m,).

    Attributes
    ----------
    B, root : (n, m) the rows, and B M^(−1/2), M^(1/2) the ``factor`` of an inertia that is not
        diagonal.
    mass : (m,) the diagonal of M.
    turn : (m, m) that of a motion in units of ``factor`` which makes it one in √mass; or None.
    """

    passes = PASSES

    def __init__(self, data: ContactProblem, contacts: IntArray, dofs: IntArray) -> None:
        self.contacts, self.B = contacts, dense_block(data.B, contacts, dofs)[1]
        self.mass, root = data.mass.diagonal[dofs], np.sqrt(data.mass.diagonal[dofs])
        self.factor: FloatArray | None = None
        self.turn: FloatArray | None = None
        if data.mass.is_diagonal:
            self.root = self.B / root
        else:
            block: Any = dense_block(data.mass.M, dofs, dofs)[1]
            self.factor = np.linalg.cholesky(block)
            inverse = scipy.linalg.solve_triangular(self.factor, np.eye(dofs.size), lower=True)
            self.root, self.turn = self.B @ inverse.T, root[:, None] * inverse.T
        self._inverses: dict[bytes, tuple[Any, Any, Any]] = {}  # the last one
        self._closings: dict[tuple[float, bytes], FloatArray | SparseInverse] = {}  # the last one

    @classmethod
    def of(cls, data: ContactProblem, contacts: IntArray, dofs: IntArray) -> PartStep:
        """The step of these contacts, whose matrices are kept for each part of a network."""
        cache, name = data.cache, (cls.__name__, int(dofs[0]))
        last: PartStep | None = cache.get(name)
        if last is None or not np.array_equal(last.contacts, contacts):
            last = cache[name] = cls(data, contacts, dofs)
        step = twin(last)
        vars(step)["_wide"] = last._wide
        step._begin(data, dofs)
        return step

    def _begin(self, data: ContactProblem, dofs: IntArray) -> None:
        """The motion without contacts, and what its rates are known to."""
        self.dt, self.bias = data.dt, data.bias[self.contacts]
        rest: FloatArray = data.free_motion[dofs]
        self.exactly, blur = False, _UNIT  # of the motion without contacts
        if data.mass.is_diagonal and data.start is not None and data.applied.size:
            self.start, self.loads = data.start[dofs], data.applied[dofs]
            loads = self.loads.astype(np.longdouble)
            rest, blur = self.start + data.dt * loads / self.mass, _FINER
            self.exactly = isinstance(self.B, np.ndarray) and self.B.size <= _EXACT
        moved = np.abs(self.B) @ np.abs(rest.astype(np.float64))
        self.rest, self.rounded = rest, 2.0 * _UNIT * np.abs(self.bias)
        self.noise = self.rounded + 2.0 * blur * moved  # m/s, of p

    def _inverse(self, chosen: BoolArray) -> tuple[Any, Any, Any]:
        """The ``chosen`` rows (a, m) of ``root``, their lengths (a,), and their inverse (m, a)."""
        name = chosen.tobytes()
        known = self._inverses.get(name)
        if known is None:
            rows = self.root[chosen]
            unit, length = unit_rows(rows)
            known = rows, length, np.linalg.pinv(unit, rcond=DEPENDENT)
            self._inverses.clear()
            self._inverses[name] = known
        return known

    def solved(
        self, f: FloatArray, presses: BoolArray, speed: FloatArray, force: FloatArray
    ) -> tuple[FloatArray, FloatArray]:
        """Forces and their uncertainty (n,), N; unchanged if no set of contacts is a solution."""
        given, presses = np.where(presses, f, 0.0), presses.copy()
        first = presses.copy()
        for _ in range(CHANGES):
            changes = self._closed(presses)
            refined, spread = self._closing(given, changes, force)
            gap = self._gap(refined)
            pulls = presses & (refined < -NEGATIVE * force)
            closes = ~presses & (gap < -_OPEN * speed - self.noise)
            if not (pulls.any() or closes.any()):
                return np.maximum(refined.astype(np.float64), 0.0), spread
            presses = (presses & ~pulls) | closes
            given = np.where(presses, np.maximum(refined.astype(np.float64), 0.0), 0.0)
        error = np.abs(self._gap(np.where(first, f, 0.0))).astype(np.float64)
        return f, self._spread(self._closed(first), error + self.noise)

    def along(
        self,
        f: FloatArray,
        G: Any,
        R: Any,
        nearest: Callable[[FloatArray], FloatArray],
        force: FloatArray,
    ) -> tuple[FloatArray, FloatArray]:
        """Forces on the faces of cones that make R g (k,) zero along G (n, k), or those given.

        Projections on the faces and forces without gaps alternate. The result is the forces whose
        remaining gaps change them least, and five times that change, (n,) in N.
        """
        changes, unit = self._changes(G, R), np.where(force > 0.0, force, np.inf)
        answers = [f]
        for _ in range(CHANGES):
            refined, spread = self._closing(answers[-1], changes, force)
            answers.append(nearest(refined.astype(np.float64)))
            if np.all(np.abs(answers[-1] - refined) <= spread):
                break
        left = [np.abs(changes @ self._gap(some).astype(np.float64)) for some in answers]
        best = int(np.argmin([np.max(some / unit) for some in left]))
        return answers[best], spread + _LEFT * left[best]

    def _closing(
        self, f: FloatArray, changes: FloatArray | SparseInverse, force: FloatArray
    ) -> tuple[Any, FloatArray]:
        """Forces f (n,) by their ``changes`` for a gap closed; their uncertainty."""
        spread = self._spread(changes, self.noise)
        if not self.exactly or np.all(spread <= _KNOWN * force):
            return self._refined(f, changes, force), spread
        refined = self._refined(f, changes, force, self._exact)
        return refined, self._spread(changes, self.rounded)

    def closed(
        self, presses: BoolArray, gap: FloatArray, pushes: FloatArray
    ) -> tuple[FloatArray, FloatArray, FloatArray]:
        """√m δv (m,) that closes the ``gap`` (n,) of contacts; changes of forces and rates."""
        taken = -self.dt * (self.root.T @ pushes)
        rows, length, inverse = self._inverse(presses)
        left = (gap[presses] + rows @ taken) / length
        change = inverse @ left
        moved, forces = taken - change, -pushes
        forces[presses] -= inverse.T @ change / length / self.dt
        rates = self.root @ moved
        if self.turn is not None:
            moved = self.turn @ moved
        return moved, forces, rates

    def block_of(self, A: sp.csr_array, rows: IntArray, columns: IntArray) -> Any:
        """These rows and columns of A, in the form of the part's matrices."""
        return dense_block(A, rows, columns)[1]

    def _closed(self, presses: BoolArray) -> FloatArray | SparseInverse:
        """Changes of the forces of the rows that press, for changes of their gaps."""
        name = self.dt, presses.tobytes()
        known = self._closings.get(name)
        if known is None:
            unit = np.eye(presses.size)
            known = self._changes(unit[:, presses], unit[presses])
            self._closings.clear()
            self._closings[name] = known
        return known

    def _changes(self, G: Any, R: Any) -> FloatArray | SparseInverse:
        """Changes of forces (n,) along G (n, k) for which R g (k,) changes as the gaps (n,) do.

        That is G (R N G)⁻¹ R, of dependent columns the generalised inverse.
        """
        across, along = unit_rows(R @ self.root), unit_rows(G.T @ self.root)
        vectors, values, right = np.linalg.svd(along[0], full_matrices=False)
        used = values > DEPENDENT * values.max(initial=0.0)
        half = vectors[:, used] / values[used]
        other = half.T
        if not np.array_equal(R, G.T):
            other = np.linalg.pinv(across[0] @ right[used].T, rcond=DEPENDENT)
        left, right = G @ (half / along[1][:, None]), other @ (R / across[1][:, None])
        return np.asarray(left @ right) / self.dt

    def _spread(self, changes: Any, noise: FloatArray) -> FloatArray:
        """(n,) N, the most that errors of gaps of the sizes ``noise`` (n,) change the forces."""
        return np.asarray(np.abs(changes) @ noise)

    def _pushed(self, load: Any) -> Any:
        """(m,) change of the motion by a ``load`` (m,) for one second."""
        if self.factor is None:
            return load / self.mass
        return scipy.linalg.cho_solve((self.factor, True), load.astype(float))

    @cached_property
    def _wide(self) -> tuple[Any, Any]:
        """B and Bᵀ in extended precision."""
        wide: Any = self.B.astype(np.longdouble)
        return wide, wide.T

    def _gap(self, f: FloatArray) -> FloatArray:
        """(n,) m/s, in extended precision."""
        rows, columns = self._wide
        motion = self.rest + np.longdouble(self.dt) * self._pushed(columns @ f)
        return np.asarray(rows @ motion + self.bias)

    @cached_property
    def _exact(self) -> Callable[[Any], Any]:
        """Gaps (n,) of forces (n,), both fractions."""
        exact = np.vectorize(Fraction, otypes=[object])
        B, bias, mass, dt = exact(self.B), exact(self.bias), exact(self.mass), Fraction(self.dt)
        rest = exact(self.start) + dt * exact(self.loads) / mass
        return lambda f: B @ (rest + dt * (B.T @ f) / mass) + bias

    def _refined(
        self,
        f: FloatArray,
        changes: FloatArray | SparseInverse,
        force: FloatArray,
        gap: Callable[[Any], Any] | None = None,
    ) -> Any:
        """(n,) forces, by their ``changes`` for a gap, in extended precision.

        Changes below the round-off of the local ``force`` (n,) are the last. With the ``gap`` of
        fractions forces are fractions, and gaps exact.
        """
        result: Any = f.astype(np.longdouble)
        if gap is not None:
            result = np.array([Fraction(x) for x in f.tolist()], dtype=object)
        last, enough = np.inf, _UNIT * force
        for _ in range(self.passes):
            error = np.asarray((gap or self._gap)(result)).astype(np.float64)
            change = np.asarray(changes @ error)
            size = float(np.abs(change).max(initial=0.0))
            if not size < last:
                break
            result -= change if gap is None else [Fraction(x) for x in change.tolist()]
            last = size
            if gap is None and np.all(np.abs(change) <= enough):
                break
        return result


class LargePart(PartStep):
    """The same by sparse matrices."""

    passes = 5 * PASSES

    def __init__(self, data: ContactProblem, contacts: IntArray, dofs: IntArray) -> None:
        self.contacts, self.mass = contacts, data.mass.diagonal[dofs]
        root = np.sqrt(self.mass)
        self.B = chosen_columns(chosen_rows(data.B, contacts), dofs)
        self.root, self.dofs, self.inertia = scaled(self.B, columns=1.0 / root), dofs, data.mass
        block = chosen_columns(chosen_rows(data.mass.M, dofs), dofs)
        self.over = scaled(block, 1.0 / root, 1.0 / root)

    def solved(
        self, f: FloatArray, presses: BoolArray, speed: FloatArray, force: FloatArray
    ) -> tuple[FloatArray, FloatArray]:
        """As of few rows; forces that errors of this size hardly change are those given."""
        given = np.where(presses, f, 0.0)
        gap = self._gap(given).astype(np.float64)
        if self.mass.size > LARGE:
            worst = float(np.max(np.abs(gap[presses]) / speed[presses], initial=0.0))
            error = np.minimum(np.abs(gap), worst * speed)  # what hardly opens may press
            changes = SparseInverse(self.root, self.root, self.over, self.dt)
            if not self._magnified(changes, error + self.noise, worst, force).any():
                return given, np.zeros(f.size)
        elif np.all(presses | (gap >= -_OPEN * speed - self.noise)):
            spread = self._closed(presses).glance(np.abs(gap) + self.noise)
            if spread is not None and np.all(spread <= _KNOWN * force):
                return given, spread
        again, spread = super().solved(f, presses, speed, force)
        if self.mass.size > LARGE:  # conjugate gradients may have ended early
            left = self._closed(again > 0.0) @ self._gap(again).astype(np.float64)
            spread = spread + _LEFT * np.abs(left)
        return again, spread

    def along(
        self,
        f: FloatArray,
        G: Any,
        R: Any,
        nearest: Callable[[FloatArray], FloatArray],
        force: FloatArray,
    ) -> tuple[FloatArray, FloatArray]:
        """As of few rows; forces of large parts stay if errors of gaps are not magnified."""
        if self.mass.size > LARGE:
            rows = sp.csr_array(G.T @ self.root)  # whatever R: dependent columns of G are in both
            each = sp.eye_array(rows.shape[0], format="csr")
            changes = SparseInverse(rows, rows, self.over, self.dt, (G, each))
            speed = self.dt * force * np.asarray((self.root**2).sum(axis=1)).ravel()
            error, speed = np.abs(R @ self._gap(f).astype(np.float64)), abs(R) @ speed
            worst = float(np.max(error[speed > 0.0] / speed[speed > 0.0], initial=0.0))
            change = self._magnified(changes, error + abs(R) @ self.noise, worst, force)
            if not change.any() or (changes.fills and not self._changes(G, R).symmetric):
                return f, change
        return super().along(f, G, R, nearest, force)

    def closed(
        self, presses: BoolArray, gap: FloatArray, pushes: FloatArray
    ) -> tuple[FloatArray, FloatArray, FloatArray]:
        forces, changes = -pushes, self._closed(presses)
        forces -= changes @ (gap + self.dt * (self.B @ self._pushed(self.B.T @ forces)))
        moved = self.dt * self._pushed(self.B.T @ forces)
        return np.sqrt(self.mass) * moved, forces, self.B @ moved

    @staticmethod
    def _magnified(
        changes: SparseInverse, error: FloatArray, worst: float, force: FloatArray
    ) -> FloatArray:
        """What an ``error`` of rates changes, N; zero if it is not much more than ``worst``."""
        spread = changes.glance(error)
        if spread is None:
            return np.full(force.size, np.inf)
        few = np.all(spread <= max(MAGNIFIED * worst, _SMALL) * force)
        return np.zeros(force.size) if few else spread

    def block_of(self, A: sp.csr_array, rows: IntArray, columns: IntArray) -> Any:
        return sp.csr_array(A[rows][:, columns])

    def _closed(self, presses: BoolArray) -> SparseInverse:
        columns, rows = unit_columns(presses), chosen_rows(self.root, np.flatnonzero(presses))
        return SparseInverse(rows, rows, self.over, self.dt, (columns, transposed(columns)))

    def _changes(self, G: Any, R: Any) -> SparseInverse:
        across, into = sp.csr_array(R @ self.root), sp.csr_array(R)
        along = sp.csr_array(G.T @ self.root)
        same = (across != along).nnz == 0
        return SparseInverse(across, across if same else along, self.over, self.dt, (G, into))

    def _spread(self, changes: Any, noise: FloatArray) -> FloatArray:
        return np.asarray(changes.spread(noise))

    def _pushed(self, load: Any) -> Any:
        if self.inertia.is_diagonal:
            return load / self.mass
        every = np.zeros(self.inertia.diagonal.size)
        every[self.dofs] = load
        return self.inertia.solve(every)[self.dofs]


class CoupledPart(PartStep):
    """The ``rows`` (n,) of one part of which only N is known, with forces ``f`` (n,)."""

    exactly = False

    def __init__(self, data: ContactProblem, rows: IntArray, f: FloatArray) -> None:
        self.N, self.p = data.products[rows][:, rows].toarray(), data.p[rows]
        self.wide = self.N.astype(np.longdouble)
        self.noise = EPS * (np.abs(self.N) @ np.abs(f) + np.abs(self.p))

    def along(
        self,
        f: FloatArray,
        G: Any,
        R: Any,
        nearest: Callable[[FloatArray], FloatArray],
        force: FloatArray,
    ) -> tuple[FloatArray, FloatArray]:
        """As of few rows; forces that their gaps hardly change stay as they are."""
        changes = self._changes(G, R)
        left = np.abs(changes @ self._gap(f).astype(np.float64))
        spread = self._spread(changes, self.noise) + _LEFT * left
        if np.all(spread <= _SETTLED * force):
            return f, spread
        return super().along(f, G, R, nearest, force)

    def _gap(self, f: FloatArray) -> FloatArray:
        return np.asarray(self.wide @ f + self.p)

    def _changes(self, G: Any, R: Any) -> FloatArray:
        across, along = (np.sqrt(np.sum((A @ self.N) * A, axis=1)) for A in (R, G.T))
        across, along = (np.where(x > 0.0, x, 1.0) for x in (across, along))
        left, right = G / along, R / across[:, None]
        inverse = np.linalg.pinv(right @ self.N @ left, rcond=_SINGULAR)
        return np.asarray(left @ inverse @ right)


def part_step(data: ContactProblem, rows: IntArray, dofs: IntArray) -> PartStep:
    """The ``rows`` (n,) and ``dofs`` (m,) of one part, by dense matrices if they are few."""
    few = rows.size <= MOST and dofs.size <= 3 * MOST
    return (PartStep if few else LargePart).of(data, rows, dofs)


def inverted(N: FloatArray) -> tuple[FloatArray, FloatArray]:
    """N⁺ (a, a) of N (a, a) with a diagonal of ones, and the projector (a, a) on its null space."""
    factor, failed = dpotrf(N, lower=1)
    if not failed and N.size:
        inverse, _ = dpotri(factor, lower=1)
        inverse = np.tril(inverse) + np.tril(inverse, -1).T
        if float(np.abs(inverse).sum(axis=0).max() * np.abs(N).sum(axis=0).max()) < 1.0 / _SINGULAR:
            return inverse, np.zeros(N.shape)
    values, vectors = np.linalg.eigh(N)
    used = values > _SINGULAR * values.max(initial=0.0)
    half, null = vectors[:, used] / np.sqrt(values[used]), vectors[:, ~used]
    return half @ half.T, null @ null.T


def unit_rows(A: FloatArray) -> tuple[FloatArray, FloatArray]:
    """The rows of A (n, m) over their lengths, and these (n,); one for a row of zeros."""
    length = np.linalg.norm(A, axis=1)
    length = np.where(length > 0.0, length, 1.0)
    return A / length[:, None], length
