"""Projected Gauss–Seidel on (21), as Olsen & Kamrin (2018) use it for classic contact dynamics.

Contact after contact, in a fixed order, each force becomes the one that keeps its own contact
from closing while all others stay as they are::

    f_i ← max(0, f_i − ω (N f + p)_i / N_ii)

Forces of bilateral rows are not cut at zero.

The motion is kept up to date instead of N f, so that N is never formed where B and M are known:
one visit reads the contact's row and touches the velocities of its two bodies. M. Jean, *The
non-smooth contact dynamics method*, Comput. Methods Appl. Mech. Engrg. 177 (1999); with
ω ≠ 1 successive over-relaxation: C. W. Cryer, SIAM J. Control 9 (1971).

Where forces are indeterminate the answer depends on the order of the visits. From zero the beam of
10 N on three supports (``beam-uniform``; f unique only up to multiples of (1, −2, 1)) gets

=========================  =====================
order                      left, middle, right
=========================  =====================
given, reversed, coloured  5/3, 20/3, 5/3
(0, 2, 1)                  10/3, 10/3, 10/3
(1, 0, 2)                  0, 10, 0
=========================  =====================

and the table of 10 N on four legs, numbered around, 20/7, 15/7, 20/7, 15/7 in the given order, in
reverse 15/7, 20/7, 15/7, 20/7.

Contacts of one body never have one colour, so that on a single body the coloured order is the
given one. Within a colour no visit sees another, and the forces do not depend on the number of
threads. The pyramid has 12 colours, as many as a sphere has neighbours.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numba import prange
from numpy.typing import NDArray

from cdopt._util import checks
from cdopt._util.checks import BoolArray, FloatArray, IntArray
from cdopt._util.compiled import compiled, in_threads, part
from cdopt._util.errors import InvalidInput
from cdopt._util.sparse_rows import Indices, Rows, csr_parts, larger
from cdopt.backends.native import NativeBackend, Run, in_pieces, listed, natural_residual
from cdopt.backends.network_problem import Factors, NetworkProblem
from cdopt.backends.threads import several
from cdopt.problem.cones import HalfLines, Lines

ORDERS = ("given", "reversed", "shuffled", "coloured")
_REPORT_EVERY = 1000  # sweeps between two lines of progress, and two fresh products
_CHUNKS, _LEAST_CHUNK = 64, 256  # chunks of a colour at most, contacts of a chunk at least
_COLOURS = 64  # beyond them contacts are visited one by one


@listed
@dataclass(frozen=True)
class PGS(NativeBackend):
    """Settings of projected Gauss–Seidel.

    Parameters
    ----------
    order : the order of visits: "given", "reversed", "shuffled" (one random order for the whole
        run, drawn with ``seed``), "coloured" (by colours, such that no two contacts of a colour are
        on the same moving body: for many contacts, in parallel threads) or a permutation of the
        contacts.
    seed : of the shuffle.
    relaxation : ω in (0, 2); 1 is Gauss–Seidel.
    max_sweeps : sweeps at most.
    accuracy : the run is solved when max_i |min(N_ii f_i, (N f + p)_i)| / V ≤ accuracy, with the
        closing speed V of the contact's part. It is tested in every sweep, then confirmed with a
        newly computed motion and, down to 1e-10, by the certificate.
    history : keep the residual of each sweep in ``raw.residuals``.

    Raises
    ------
    InvalidInput : a setting out of range.
    """

    name: ClassVar[str] = "pgs"
    cones: ClassVar[frozenset[str]] = frozenset({HalfLines.name, Lines.name})
    kinds: ClassVar[frozenset[str]] = frozenset({"rigid step", "soft step"})
    limit: ClassVar[str] = "max_sweeps"
    _orders: ClassVar[tuple[str, ...]] = ORDERS

    order: Any = "given"
    seed: int = 0
    relaxation: float = 1.0
    max_sweeps: int = 100_000
    accuracy: float = 1e-8
    history: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        self._set(seed=checks.whole("seed", self.seed, 0))
        self._set(relaxation=checks.positive("relaxation", self.relaxation))
        if isinstance(self.order, str):
            checks.choice("order", self.order, self._orders)
        else:
            self._set(order=_permutation(self.order))
        if self.relaxation >= 2.0:
            raise InvalidInput("relaxation", repr(self.relaxation), "a number below 2")

    def _solve(self, problem: NetworkProblem, run: Run) -> Run:
        f, factors = problem.acting_start(run.start), problem.factors
        p, order, edges = problem.p, None, np.zeros(1, dtype=np.uint32)
        floor = problem.floor
        if self.order == "coloured":
            order, edges = coloured(factors, problem.body)
        elif self.order != "given":
            order = self._visits(problem.nc)
        if order is not None:
            factors, p, f = factors.in_order(order), p[order], f[order]
            floor = floor[order]
        with run.iterating(problem.rows, factors.spread.shape[1]):
            sweeps = HalfLineSweeps(self, factors, p, edges, f, floor)
            unmet, count, residuals = self._swept(sweeps, run)
        if edges.size == 1:
            run.threads = 1
        forces = sweeps.f
        if order is not None:
            forces = np.zeros(problem.nc)
            forces[order] = sweeps.f
        return run.ended(problem.caused(forces), not unmet, count, residuals, status=unmet)

    def _swept(self, sweeps: Sweeps, run: Run) -> tuple[str, int, list[FloatArray]]:
        """Why the test was not met (empty if it was), the number of sweeps and the residuals."""
        count, residuals = 0, list[FloatArray]()
        error, settled = np.inf, False
        while True:
            before, error = error, sweeps.renewed()
            met = bool(error <= self.accuracy)
            if not sweeps.traced:
                residuals.append(np.array([error]))
            idle = settled and error == before  # the rows that are off are those no force moves
            left = sweeps.left(count)
            if met or idle or not left or run.deadline.passed:
                break
            trace = np.zeros(min(sweeps.batch, left))
            done = 0
            for piece in in_pieces(trace, sweeps.entries, run.deadline):
                swept, settled = sweeps.sweep(piece)
                done += swept
                if settled or swept < piece.size or run.deadline.passed:
                    break
            count += done
            if sweeps.traced:
                residuals.append(trace[:done].copy())
            if done == _REPORT_EVERY:
                run.report(f"sweep {count}: residual {trace[-1]:.2e}")
            sweeps.combine(done)
        status = "solved" if met else "stopped"
        run.report(f"{status} after {count} sweeps: residual {error:.2e}")
        if met:
            return "", count, residuals
        full = count >= self.max_sweeps
        return "iteration limit" if full else f"stopped at residual {error:.1e}", count, residuals

    def _visits(self, count: int) -> NDArray[np.intp]:
        """The order in which ``count`` contacts are visited."""
        if self.order == "given":
            return np.arange(count)
        if self.order == "reversed":
            return np.arange(count)[::-1]
        if self.order == "shuffled":
            return np.random.default_rng(self.seed).permutation(count)
        if len(self.order) != count:
            raise InvalidInput(
                "order", f"a permutation of {len(self.order):,}", f"one of {count:,} contacts"
            )
        return np.array(self.order, dtype=np.intp)


class Sweeps(ABC):
    """Forces f and what they do to the motion, kept up to date by sweeps."""

    f: FloatArray  # the forces
    entries: int  # passed over in one
    most: int  # sweeps at most
    batch: ClassVar[int]  # sweeps between two fresh sums of what the forces do
    traced: ClassVar[bool]  # whether each sweep leaves its error

    def left(self, count: int) -> int:
        """Sweeps that may follow the first ``count``."""
        return max(self.most - count, 0)

    @abstractmethod
    def renewed(self) -> float:
        """The error of the forces, their motion summed again: round-off does not accumulate."""

    @abstractmethod
    def sweep(self, trace: FloatArray) -> tuple[int, bool]:
        """Sweeps, one for each entry of ``trace`` at most; their number, whether they settled."""

    def combine(self, done: int) -> None:  # noqa: B027
        """What follows a batch of ``done`` sweeps; nothing by default."""


class HalfLineSweeps(Sweeps):
    """Frictionless contacts, and bilateral rows, in the order of visits."""

    batch, traced = _REPORT_EVERY, True

    def __init__(
        self,
        settings: PGS,
        factors: Factors,
        p: FloatArray,
        edges: Indices,
        f: FloatArray,
        floor: FloatArray,
    ) -> None:
        self.accuracy, self.factors, self.p, self.f = settings.accuracy, factors, p, f
        self.most = settings.max_sweeps
        diagonal = factors.diagonal
        active = diagonal > 0.0
        inverse = np.where(active, 1.0 / np.where(active, diagonal, 1.0), 0.0)
        rows = csr_parts(factors.rows)
        spread = rows if factors.spread is factors.rows else csr_parts(factors.spread)
        self.lines = floor < 0.0 if (floor < 0.0).any() else None
        self.visits = Visits(*rows, *spread, p, diagonal, inverse, floor, settings.relaxation)
        self.edges, self.y, self.entries = edges, np.zeros(0), int(rows[1].size)
        largest = int(np.diff(edges.astype(np.int64)).max(initial=0))
        threads = largest >= 2 * _LEAST_CHUNK and several()
        self.errors = np.empty(_CHUNKS) if threads else None
        self.loop = partial(in_threads, gauss_seidel) if threads else gauss_seidel

    def renewed(self) -> float:
        self.y = np.asarray(self.factors.scatter @ self.f)
        gap = self.factors.gather @ self.y + self.p
        return natural_residual(self.factors.diagonal, gap, self.f, self.lines)

    def sweep(self, trace: FloatArray) -> tuple[int, bool]:
        """They end when the error met on the way is within the accuracy."""
        data = self.errors, self.edges, self.visits, self.accuracy, self.f, self.y, trace
        swept = int(self.loop(*data))
        return swept, bool(trace[swept - 1] <= self.accuracy)


def _permutation(value: Any) -> tuple[int, ...]:
    """A permutation as plain integers."""
    expected = "one of " + ", ".join(map(repr, ORDERS)) + ", or a permutation of 0 … nc − 1"
    index = checks.array("order", value, expected)
    whole = index.ndim == 1 and (index.dtype.kind in "iu" or index.size == 0)
    if not whole or not np.array_equal(np.sort(index), np.arange(index.size)):
        raise InvalidInput("order", checks.describe(value), expected)
    return tuple(int(i) for i in index)


# --- colours -----------------------------------------------------------------------------


def coloured(factors: Factors, body: IntArray | None) -> tuple[IntArray, Indices]:
    """An order of the contacts in which those that share no body follow one another, in colours.

    Greedy: contact after contact, each takes the first colour that none of its bodies has met. The
    colours depend only on the order of the contacts. After 64 colours what is left over, the
    contacts of bodies with very many, is visited one by one.

    Parameters
    ----------
    factors : R and S (nc, m): a visit reads y where R has entries and writes it where S has.
    body : (m,) the body of each entry of y; each is a body where it is None.

    Returns
    -------
    A permutation (nc,): colour after colour, then the contacts left over, within each as they were
    given; and (colours + 1,) where each colour begins, and where the last one ends.
    """
    R, S = factors.rows, factors.spread
    block = np.arange(R.shape[1]) if body is None else body
    names = np.unique(block, return_inverse=True)[1].astype(np.uint32)
    touched = R if S is R else abs(R) + abs(S)
    colour = np.empty(R.shape[0], dtype=np.int64)
    met = np.zeros((int(names.max(initial=0)) + 1, _COLOURS), dtype=np.bool_)
    count = _greedy(csr_parts(touched), names, met, colour)
    order = np.argsort(colour, kind="stable")
    edges = np.searchsorted(colour[order], np.arange(count + 1))
    return order, edges.astype(np.uint32)


@compiled()
def _greedy(touched: Rows, block: Indices, met: BoolArray, colour: IntArray) -> int:
    """The first colour (64 for none) of each contact that none of its bodies has ``met``."""
    pointers, columns, _ = touched
    count = 0
    for i in range(colour.shape[0]):
        colour[i] = _COLOURS
        for c in range(_COLOURS):
            free = True
            for k in range(pointers[i], pointers[i + 1]):
                free = free and not met[block[columns[k]], c]
            if free:
                colour[i], count = c, max(count, c + 1)
                for k in range(pointers[i], pointers[i + 1]):
                    met[block[columns[k]], c] = True
                break
    return count


# --- sweeps ------------------------------------------------------------------------------


class Visits(NamedTuple):
    """The data of a sweep over n contacts; flat, as parallel loops take no nested tuples."""

    # R (n, m) by rows: pointers (n + 1,), columns and values (entries,)
    pointers: Indices
    columns: Indices
    values: FloatArray
    # S (n, m), in the same layout
    out_pointers: Indices
    out_columns: Indices
    out_values: FloatArray
    p: FloatArray  # (n,) rates without forces
    diagonal: FloatArray  # (n,) N_ii
    inverse: FloatArray  # (n,) 1/N_ii, zero where forces move nothing
    floor: FloatArray  # (n,) least forces
    relaxation: float  # ω


@part()
def _visit(first: Any, last: Any, visits: Visits, f: FloatArray, y: FloatArray) -> float:
    """Visits of contacts one after the other; the largest |min(N_ii f_i, gap_i)| met."""
    worst = 0.0
    for i in range(first, last):
        if visits.inverse[i] == 0.0:
            continue
        gap = visits.p[i]
        for k in range(visits.pointers[i], visits.pointers[i + 1]):
            gap += visits.values[k] * y[visits.columns[k]]
        newton, above = gap * visits.inverse[i], f[i] - visits.floor[i]
        worst = larger(worst, visits.diagonal[i] * abs(newton if newton < above else above))
        relaxed = visits.relaxation * newton
        change = -(relaxed if relaxed < above else above)
        if change != 0.0:
            f[i] += change
            for k in range(visits.out_pointers[i], visits.out_pointers[i + 1]):
                y[visits.out_columns[k]] += visits.out_values[k] * change
    return worst


@part(parallel=True)
def _visit_apart(
    errors: FloatArray, first: int, last: int, visits: Visits, f: FloatArray, y: FloatArray
) -> None:
    """Visits of contacts that share no body, in as many parts as ``errors`` has entries."""
    count = errors.shape[0]
    for c in prange(count):
        begin = np.uint32(first + (last - first) * c // count)
        end = np.uint32(first + (last - first) * (c + 1) // count)
        errors[c] = _visit(begin, end, visits, f, y)


@compiled()
def gauss_seidel(
    errors: FloatArray | None,
    edges: Indices,
    visits: Visits,
    tolerance: float,
    f: FloatArray,
    y: FloatArray,
    trace: FloatArray,
) -> int:
    """Projected Gauss–Seidel sweeps in place, one for each entry of ``trace`` at most.

    ``errors`` is workspace for those of the chunks of a colour, visited in threads; with None the
    loop is compiled without threads. ``edges`` are where each colour begins, and where the last
    one ends; the contacts after it are visited one by one. ``trace`` receives the largest error
    that a sweep met; they end when it is within ``tolerance``. Returns the number of sweeps.
    """
    nc, colours = f.shape[0], edges.shape[0] - 1
    for sweep in range(trace.shape[0]):
        worst = 0.0
        for c in range(colours):
            first: Any = np.int64(edges[c])
            last: Any = np.int64(edges[c + 1])
            count = (last - first) // _LEAST_CHUNK
            if errors is not None and count > 1:
                count = min(_CHUNKS, count)
                _visit_apart(errors[:count], first, last, visits, f, y)
                for k in range(count):
                    worst = larger(worst, errors[k])
            else:
                worst = larger(worst, _visit(edges[c], edges[c + 1], visits, f, y))
        worst = larger(worst, _visit(edges[colours], np.uint32(nc), visits, f, y))
        trace[sweep] = worst
        if worst <= tolerance:
            return sweep + 1
    return trace.shape[0]
