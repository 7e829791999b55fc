"""Accelerated proximal gradient steps on ½ fᵀ H f + hᵀ f + Σ e_i(f_i), H = R Sᵀ: compiled loops.

``apgd`` has the method and its papers; ``augmented_lagrangian`` solves its inner problems so.

H is never formed: its products are R (Sᵀ f). Where forces are indeterminate, a gradient method
started from zero stays in the range of B as long as no force has been cut at zero: on
``beam-uniform`` it finds the minimum-norm forces, 10/3 N on each of the three supports.

Threads change no result: each writes its own entries, and sums are taken over chunks whose number
depends only on the problem, added in order.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from numba import prange

from cdopt._util.checks import FloatArray, IntArray
from cdopt._util.compiled import compiled, in_threads, part
from cdopt._util.sparse_rows import Indices, Rows, larger, multiply_rows, row_times
from cdopt.backends.deadline import Deadline
from cdopt.backends.native import in_pieces, natural_residual
from cdopt.backends.threads import several
from cdopt.problem.cone_rules import Rules, project_rows, shift_of_rows
from cdopt.problem.friction_cone import project_contact, tangential_size
from cdopt.problem.residual import largest

_CHUNKS, _LEAST_CHUNK = 64, 256  # chunks of a loop at most, entries of a chunk at least
_FRESH_EVERY = 500  # steps between two fresh products, which keep round-off from gathering
_LEAST = 1e-3  # L never falls below this share of the largest H_ii
_DOUBLINGS = 100  # of L in one step
# places in the scalars of the loop
_THETA, _LIPSCHITZ, BEST, _LEAST_LIPSCHITZ, _MOMENTUM = 0, 1, 2, 3, 4
_SQUARED, _CURVATURE, _UPHILL, _WORST = 0, 1, 2, 3  # places in the sums of a chunk
_LINE = 8  # doubles in a cache line: the sums of two chunks never share one
_FIRST = np.arange(3)
_MATH = {"contract", "nsz"}  # as in ``linalg.block_pairs``
NONE, _NO_COEFFICIENTS = np.zeros(0), np.zeros((0, 1))
_NO_RULES, _NO_POINTS = np.zeros((0, 1), dtype=np.int8), np.zeros((0, 0))


class Terms(NamedTuple):
    """The objective of one problem with n forces, d of each contact, and the iteration's state.

    Parallel loops take no nested tuples: the rows of R are flat. Without entries of ``mu`` d is
    one, and forces are at least zero.
    """

    pointers: Indices
    columns: Indices
    values: FloatArray
    diagonal: FloatArray  # (n,) of H
    h: FloatArray  # (n,)
    compliance: FloatArray = NONE  # a (n,), or none
    exponent: float = 1.0  # s
    mu: FloatArray = NONE  # (contacts,) friction coefficients, or none
    shift: FloatArray = NONE  # (contacts,) added to the normal rates
    rules: Rules = _NO_RULES  # (contacts, d) of cones other than Coulomb's, or none
    coefficients: FloatArray = _NO_COEFFICIENTS  # (contacts, d) of these
    floor: FloatArray = NONE  # (n,) the least forces, without cones; none for zero
    # the state of the iteration, made by ``ProximalGradient``
    points: FloatArray = _NO_POINTS  # (4, n) iterate, the one before, the best one, trial point x
    rates: FloatArray = _NO_POINTS  # (4, n) H x + h of the points, but the best one
    places: IntArray = np.zeros(0, dtype=np.int64)  # (3,) of the first three: none is copied
    change: FloatArray = NONE  # (n,) d = x − z, of the point z extrapolated from the iterates
    y: FloatArray = NONE  # (m,) Sᵀ d


@dataclass
class ProximalGradient:
    """The accelerated proximal gradient iteration and its state.

    ``transposed`` are the rows of Sᵀ, ``forces`` (n,) the iterate. ``scalars`` are θ, the Lipschitz
    estimate L, the least residual so far, the floor of L, and the momentum.
    """

    terms: Terms
    transposed: Rows
    forces: FloatArray
    steps: int = 0
    residual: float = np.inf
    residuals: list[FloatArray] = field(default_factory=list)

    def __post_init__(self) -> None:
        n, lines = self.forces.size, self.transposed[0].size - 1
        contacts = self.terms.mu.size or n
        d = np.uint32(n // max(contacts, 1))
        edges = chunks(contacts)
        self._edges = edges, edges * d, chunks(lines)
        self._threads = True if max(map(len, self._edges)) > 2 and several() else None
        terms = self.terms
        some = terms.shift.size, terms.rules.shape[0], terms.compliance.size
        self._kinds = self._threads, *(True if size else None for size in some)
        threes = self.transposed[2].ndim == 3
        self.terms = self.terms._replace(
            points=np.empty((4, n)),
            rates=np.zeros((4, n)),
            places=_FIRST.copy(),
            change=np.empty(n),
            y=np.zeros(3 * lines if threes else lines),
        )
        self._sums, self.scalars = np.zeros((edges.size - 1, _LINE)), np.zeros(5)
        self.scalars[_LEAST_LIPSCHITZ] = _LEAST * largest(self.terms.diagonal) or 1.0
        self.begin(self.forces)

    def begin(self, forces: FloatArray) -> None:
        """Begin with these ``forces`` (n,), whatever was done before."""
        self.forces, self.steps, self.residual, self.residuals = forces, 0, np.inf, []
        self.terms.points[:], self.terms.shift[:], self.terms.places[:] = forces, 0.0, _FIRST
        self.scalars[:_LEAST_LIPSCHITZ], self.scalars[_MOMENTUM] = (1.0, 1.0, np.inf), 0.0

    def minimise(
        self,
        tolerance: float,
        limit: int,
        deadline: Deadline,
        progress: Callable[[int, float], None] = lambda n, residual: None,
    ) -> bool:
        """Step until the natural residual max |min(H_ii f_i, gradient_i)| ≤ tolerance.

        ``limit`` is the number of steps at most, ``deadline`` when they must end; a later call goes
        on. Returns whether the test was met; the iterate is then the last one, otherwise the best
        one.
        """
        taken = 0
        if not self.steps:
            self.residual = self.scalars[BEST] = self._residual()
            self.scalars[_LIPSCHITZ] = max(self._estimate(), self.scalars[_LEAST_LIPSCHITZ])
        while not self.residual <= tolerance and taken < limit and not deadline.passed:
            if self.scalars[_MOMENTUM]:  # the residual has renewed the rates of the iterate
                self._renew(1)
            trace = np.zeros(min(_FRESH_EVERY, limit - taken))
            done = 0
            for piece in in_pieces(trace, self.terms.columns.size, deadline):
                stepped = self.advance(piece, tolerance)
                done += stepped
                if stepped < piece.size or piece[-1] <= tolerance or deadline.passed:
                    break
            taken += done
            self.residuals.append(trace[:done].copy())
            self.residual = self._residual()
            progress(self.steps + taken, self.residual)
        met = bool(self.residual <= tolerance)
        self.forces = self.terms.points[self.terms.places[0 if met else 2]].copy()
        self.steps += taken
        return met

    def advance(
        self, trace: FloatArray, tolerance: float, share: float = 0.0, momentum: float = 1.0
    ) -> int:
        """The number of steps taken, at most ``trace.size``; arguments as of ``_accelerate``."""
        data = *self._kinds, self.terms, self.transposed, self._edges
        limits, room = (tolerance, share, momentum), (self._sums, self.scalars)
        taken: int = self._run(_accelerate)(*data, limits, room, trace)
        return taken

    @property
    def iterate(self) -> FloatArray:
        """f (n,)."""
        return self.terms.points[self.terms.places[0]]

    @property
    def rates(self) -> FloatArray:
        """H f + h (n,) at the iterate."""
        return self.terms.rates[self.terms.places[0]]

    def refresh(self) -> None:
        """Compute the rates again, of the iterate and of the one before."""
        self._renew(0)
        self._renew(1)

    def restart(self, f: FloatArray) -> None:
        """Go on from forces f, without momentum."""
        self.terms.points[self.terms.places[:2]] = f.copy()
        self.scalars[_THETA], self.scalars[_MOMENTUM] = 1.0, 0.0
        self.refresh()

    def _renew(self, which: int) -> None:
        """Compute the rates of one of the points again."""
        at = self.terms.places[which]
        self.terms.rates[at] = self._product(self.terms.points[at]) + self.terms.h

    def _residual(self) -> float:
        """The natural residual of the iterate, whose rates are computed again."""
        self._renew(0)
        terms, f, gradient = self.terms, self.iterate, self.rates
        if terms.compliance.size:
            gradient = gradient + terms.compliance * np.maximum(f, 0.0) ** terms.exponent
        lines = terms.floor < 0.0 if terms.floor.size else None
        return natural_residual(terms.diagonal, gradient, f, lines)

    def _product(self, f: FloatArray) -> FloatArray:
        """H f."""
        multiply, product = self._run(_multiply), np.zeros(f.size)
        multiply(self._threads, self._edges[2], f, self.terms.y, self.transposed)
        multiply(self._threads, self._edges[1], self.terms.y, product, self.terms[:3])
        return product

    def _run(self, loop: Callable[..., Any]) -> Callable[..., Any]:
        return functools.partial(in_threads, loop) if self._threads else loop

    def _estimate(self) -> float:
        """The paper's first L: ‖H (f₀ − 1)‖ / ‖f₀ − 1‖."""
        away = self.forces - 1.0
        length = float(np.linalg.norm(away))
        if length == 0.0:
            return float(self.terms.diagonal.max(initial=0.0))
        return float(np.linalg.norm(self._product(away))) / length


# --- compiled loops ----------------------------------------------------------------------


@functools.lru_cache
def chunks(n: int) -> Indices:
    """(chunks + 1,) where each chunk of a loop over n entries begins, and n; at least one chunk."""
    count = max(1, min(_CHUNKS, n // _LEAST_CHUNK))
    return (np.arange(count + 1) * n // count).astype(np.uint32)


@part(parallel=True)
def _multiply_in_threads(edges: Indices, x: FloatArray, out: FloatArray, rows: Rows) -> None:
    """out = R x in the chunks of ``edges``."""
    for c in prange(edges.shape[0] - 1):
        multiply_rows(edges[c], edges[c + 1], x, out, rows[0], rows[1], rows[2])


@compiled()
def _multiply(
    threads: bool | None, edges: Indices, x: FloatArray, out: FloatArray, rows: Rows
) -> None:
    """out = R x."""
    if threads is None:
        multiply_rows(edges[0], edges[edges.shape[0] - 1], x, out, *rows)
    else:
        _multiply_in_threads(edges, x, out, rows)


@part(fastmath=_MATH)
def _proximal(z: float, a: float, s: float) -> float:
    """The x ≥ 0 with x + a x^s = z, or zero for z ≤ 0, by Newton's method from one side."""
    if not z > 0.0:
        return 0.0
    if a == 0.0:
        return z
    if s == 1.0:
        return z / (1.0 + a)
    x = 0.5 * z if s < 1.0 else z
    root = (x / a) ** (1.0 / s)
    if root < x:
        x = root
    for _ in range(60):
        if x == 0.0:
            return 0.0
        elastic = a * x**s
        step = (x + elastic - z) / (1.0 + s * elastic / x)
        x = x - step if x > step else 0.0
        if abs(step) <= 2e-16 * x:
            break
    return x


# Which code a loop has, for each the other is left out where it is compiled: None for one thread,
# for half-lines and lines, for Coulomb's cones alone, and without elastic energies.
Kind = bool | None


class Proposal(NamedTuple):
    """How the next trial point is proposed."""

    now: int  # places of the iterate, of the one before and of the trial point
    before: int
    trial: int
    beta: float  # momentum
    length: float  # L
    share: float  # of its change that the shift follows


@part(fastmath=_MATH)
def _propose_chunk(
    first: int,
    last: int,
    cones: Kind,
    ruled: Kind,
    elastic: Kind,
    proposal: Proposal,
    terms: Terms,
) -> None:
    """A trial point, its change and the rates at the extrapolated point; the shift moves first."""
    now, before, trial, beta, length, share = proposal
    f, x, old = terms.points[now], terms.points[trial], terms.points[before]
    rates, trial_rates, old_rates = terms.rates[now], terms.rates[trial], terms.rates[before]
    change, shift, bilateral = terms.change, terms.shift, terms.floor.shape[0] > 0
    step, d = 1.0 / length, np.uint32(1)
    if cones is not None:
        d = np.uint32(f.shape[0] // shift.shape[0])
    for i in range(first * d, last * d):
        z = f[i] + beta * (f[i] - old[i])
        gradient = rates[i] + beta * (rates[i] - old_rates[i])
        trial_rates[i] = gradient
        target = z - step * gradient
        if cones is not None:
            x[i], change[i] = target, z
        else:
            if elastic is None:
                least = terms.floor[i] if bilateral else 0.0
                target = target if target > least else least
            else:
                target = _proximal(target, step * terms.compliance[i], terms.exponent)
            x[i], change[i] = target, target - z
    if cones is not None:
        for c in range(first, last):
            begin, end = c * d, c * d + d
            if share > 0.0:
                if ruled is None:
                    aim = terms.mu[c] * tangential_size(rates[begin:end])
                else:
                    rule, numbers = terms.rules[c], terms.coefficients[c]
                    aim = shift_of_rows(rates[begin:end], rule, numbers)
                shift[c] += share * (aim - shift[c])
            x[begin] -= step * shift[c]
            if ruled is None:
                project_contact(x[begin:end], terms.mu[c])
            else:
                project_rows(x[begin:end], terms.rules[c], terms.coefficients[c])
            for i in range(begin, end):
                change[i] = x[i] - change[i]


@part(parallel=True)
def _propose(
    edges: Indices,
    cones: Kind,
    ruled: Kind,
    elastic: Kind,
    proposal: Proposal,
    terms: Terms,
) -> None:
    """Trial points, chunk by chunk."""
    for c in prange(edges.shape[0] - 1):
        _propose_chunk(edges[c], edges[c + 1], cones, ruled, elastic, proposal, terms)


@part(fastmath=_MATH)
def _judge_chunk(
    first: int,
    last: int,
    elastic: Kind,
    now: int,
    trial: int,
    terms: Terms,
    sums: FloatArray,
) -> None:
    """The rates at the trial point, which has this place, and what decides on it."""
    f, x, rates = terms.points[now], terms.points[trial], terms.rates[trial]
    d, y = terms.change, terms.y
    squared, uphill, curvature, worst = 0.0, 0.0, 0.0, 0.0
    bilateral = terms.floor.shape[0] > 0
    for i in range(first, last):
        total = row_times(i, terms.pointers, terms.columns, terms.values, y)
        squared += d[i] * d[i]
        uphill -= d[i] * (x[i] - f[i])
        curvature += d[i] * total
        gradient = rates[i] + total
        rates[i] = gradient
        if elastic is not None and terms.compliance[i] > 0.0:
            gradient += terms.compliance[i] * x[i] ** terms.exponent
        scaled = terms.diagonal[i] * x[i]
        error = gradient if gradient < scaled else scaled  # compiled without a branch
        if bilateral and terms.floor[i] < 0.0:
            error = gradient
        worst = larger(worst, abs(error))
    sums[_SQUARED], sums[_UPHILL] = squared, uphill
    sums[_CURVATURE], sums[_WORST] = curvature, worst


@part(parallel=True)
def _judge(
    edges: Indices, elastic: Kind, now: int, trial: int, terms: Terms, sums: FloatArray
) -> None:
    """The rates and the sums of each chunk."""
    for c in prange(edges.shape[0] - 1):
        _judge_chunk(edges[c], edges[c + 1], elastic, now, trial, terms, sums[c])


@compiled()
def _accelerate(
    threads: Kind,
    cones: Kind,
    ruled: Kind,
    elastic: Kind,
    terms: Terms,
    transposed: Rows,
    edges: tuple[Indices, Indices, Indices],
    limits: tuple[float, float, float],
    room: tuple[FloatArray, FloatArray],
    trace: FloatArray,
) -> int:
    """Accelerated proximal gradient steps, one for each entry of ``trace`` at most.

    The first four arguments are of ``Kind``. ``edges`` are the chunks of contacts, of
    forces and of y. ``limits`` are the tolerance, the share of its change that the shift follows,
    and the largest momentum. ``room`` is for the sums (chunks, 8) of each chunk, and for scalars.
    ``trace`` receives the natural residual of each iterate; the loop ends early when it is within
    the tolerance. Returns the number of steps.

    A step passes three times over its data: over the contacts to propose a trial point x, L
    doubled until dᵀHd ≤ L dᵀd with d = x − z; over y for Sᵀ d; and over the forces for R y, whose
    sums decide what follows.
    """
    (contacts, rows, dofs), (sums, scalars) = edges, room
    tolerance, share, momentum = limits
    now, before, best = terms.places[0], terms.places[1], terms.places[2]
    beta, taken, ends = scalars[_MOMENTUM], 0, trace.shape[0] == 0
    while not ends:
        length, due, trial = scalars[_LIPSCHITZ], share, 0
        while trial in (now, before, best):
            trial += 1
        for _ in range(_DOUBLINGS):
            proposal = Proposal(now, before, trial, beta, length, due)
            if threads is None:
                for c in range(sums.shape[0]):
                    first, last = contacts[c], contacts[c + 1]
                    _propose_chunk(first, last, cones, ruled, elastic, proposal, terms)
                multiply_rows(dofs[0], dofs[dofs.shape[0] - 1], terms.change, terms.y, *transposed)
                for c in range(sums.shape[0]):
                    _judge_chunk(rows[c], rows[c + 1], elastic, now, trial, terms, sums[c])
            else:
                _propose(contacts, cones, ruled, elastic, proposal, terms)
                _multiply_in_threads(dofs, terms.change, terms.y, transposed)
                _judge(rows, elastic, now, trial, terms, sums)
            due = 0.0
            squared = curvature = uphill = worst = 0.0
            for c in range(sums.shape[0]):
                squared += sums[c, _SQUARED]
                curvature += sums[c, _CURVATURE]
                uphill += sums[c, _UPHILL]
                worst = larger(worst, sums[c, _WORST])
            if curvature <= length * squared * (1.0 + 1e-12):
                break
            length *= 2.0
        theta = scalars[_THETA]
        following = 0.5 * theta * (np.sqrt(theta * theta + 4.0) - theta)
        beta = theta * (1.0 - theta) / (theta * theta + following)
        beta = momentum if momentum < beta else beta
        if uphill > 0.0:  # the momentum points uphill: restart it
            following, beta = 1.0, 0.0
        now, before = trial, now
        if worst < scalars[BEST]:
            best, scalars[BEST] = trial, worst
        scalars[_THETA] = following
        length, least = 0.9 * length, scalars[_LEAST_LIPSCHITZ]
        scalars[_LIPSCHITZ] = length if length > least else least
        trace[taken] = worst
        taken += 1
        ends = worst <= tolerance or taken == trace.shape[0]
    scalars[_MOMENTUM] = beta
    terms.places[0], terms.places[1], terms.places[2] = now, before, best
    return taken
