"""Accelerated projected gradient descent (APGD), on (22) and with elastic energies.

minimise over f ≥ 0    ½ fᵀ H f + hᵀ f + Σ e_i(f_i),    H = R Sᵀ,  e_i′(f) = a_i f^s

H. Mazhar, T. Heyn, D. Negrut, A. Tasora, *Using Nesterov's method to accelerate multibody
dynamics with friction and contact*, ACM Trans. Graph. 34 (2015) 32, algorithm 1 without the
friction cone, which Olsen & Kamrin (2018) use for classic contact dynamics: Nesterov's momentum,
L doubled until the quadratic model is an upper bound and relaxed by 0.9 after every step, momentum
dropped when it points uphill, the best iterate kept. Two things differ. The upper bound is tested
as dᵀHd ≤ L dᵀd, the same number without cancellation. An elastic energy e, which their problem has
not, enters by its proximal operator (A. Beck, M. Teboulle, SIAM J. Imaging Sci. 2 (2009) 183), so
that the infinite slope of e′ at zero for p > 2 does no harm; without it the operator is their
projection. The restart is that of B. O'Donoghue, E. Candès, Found. Comput. Math. 15 (2015) 715,
for such steps.

With friction the steps are those of ``cone_descent``.

H is never formed: its products are R (Sᵀ f). Where forces are indeterminate, a gradient method
started from zero stays in the range of B as long as no force has been held at zero: on
``beam-uniform`` it finds the minimum-norm forces, 10/3 N on each of the three supports.

Threads change no result: each writes its own entries, and sums are taken over chunks whose number
depends on the problem alone, added in order.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, ClassVar, NamedTuple

import numpy as np
import scipy.sparse as sp
from numba import prange

from cdopt._util import checks
from cdopt._util.checks import FloatArray
from cdopt._util.compiled import compiled, part, side_by_side
from cdopt.backends.cone_descent import descend
from cdopt.backends.cone_step import ConeStep
from cdopt.backends.deadline import Deadline
from cdopt.backends.linalg.sparse_rows import Indices, Rows, csr_parts, larger, multiply_rows
from cdopt.backends.native import (
    NativeBackend,
    Outcome,
    Run,
    in_pieces,
    natural_residual,
    outcome_of,
    scaled_step,
    starting_forces,
)
from cdopt.backends.threads import several
from cdopt.problem import (
    DelassusStepData,
    FrictionalDelassusData,
    FrictionalStepData,
    RigidStepData,
)

_CHUNKS, _LEAST_CHUNK = 64, 256  # chunks of a loop at most, entries of a chunk at least
_FRESH_EVERY = 500  # steps between two fresh products, which keep round-off from gathering
_LEAST = 1e-3  # L never falls below this share of the largest H_ii
_DOUBLINGS = 100  # of L in one step
_THETA, _LIPSCHITZ, _BEST, _LEAST_LIPSCHITZ = 0, 1, 2, 3  # places in the scalars of the loop
_SQUARED, _CURVATURE, _UPHILL, _WORST = 0, 1, 2, 3  # places in the sums of a chunk
_LINE = 8  # doubles in a cache line: the sums of two chunks never share one


@dataclass(frozen=True)
class APGD(NativeBackend):
    """Settings of accelerated projected gradient descent.

    Parameters
    ----------
    max_iterations : steps at most.
    accuracy : the run is solved when max_i |min(N_ii f_i, (N f + p)_i)| / V ≤ accuracy, the
        projected gradient with each contact's own step; V is the closing speed of its part;
        and, down to 1e-10, when the certificate is met too. With friction it is the natural map.
    history : keep that residual of every step in ``raw.residuals``; with friction of every 20th.

    Raises
    ------
    InvalidInput : a setting out of range.
    """

    name: ClassVar[str] = "apgd"
    kinds: ClassVar[frozenset[str]] = frozenset({"rigid step", "frictional step"})
    limit: ClassVar[str] = "max_iterations"

    max_iterations: checks.Count = 100_000
    accuracy: checks.Tolerance = 1e-8
    history: bool = False

    def _solve(self, data: RigidStepData | DelassusStepData, run: Run) -> Outcome:
        if isinstance(data, (FrictionalStepData, FrictionalDelassusData)):
            return self._with_friction(ConeStep(data), run)
        step = scaled_step(data)
        descent = ProximalGradient(
            Terms(*csr_parts(step.rows), step.diagonal, step.p),
            csr_parts(sp.csr_array(step.spread.T)),
            np.where(step.diagonal > 0.0, starting_forces(data, run.start), 0.0),
        )
        with run.iterating(data.nc):
            met = descent.minimise(
                self.accuracy,
                self.max_iterations,
                run.deadline,
                lambda n, residual: run.report(f"iteration {n}: residual {residual:.2e}"),
            )
        status = "solved" if met else "stopped"
        run.report(f"{status} after {descent.steps}: residual {descent.residual:.2e}")
        forces = step.force * descent.forces
        return outcome_of(data, forces, met, descent.steps, descent.residuals)

    def _with_friction(self, step: ConeStep, run: Run) -> Outcome:
        """One run on the cones of friction."""
        limits = self.accuracy, self.max_iterations, run.deadline
        f = step.start(run.start)
        with run.iterating(step.data.nc):
            f, steps, residuals = descend(step, f, *limits)
        least = min(residuals, default=0.0)
        run.report(f"{steps:,} steps, natural map {least:.1e}")
        return step.outcome(f, least <= self.accuracy, steps, residuals)


class Terms(NamedTuple):
    """The objective of one problem.

    Attributes
    ----------
    pointers, columns, values : the rows of R, flat: parallel loops take no nested tuples.
    diagonal : (nc,) of H.
    h : (nc,).
    compliance : a (nc,); without entries the iteration is the plain projected gradient.
    exponent : s.
    """

    pointers: Indices
    columns: Indices
    values: FloatArray
    diagonal: FloatArray
    h: FloatArray
    compliance: FloatArray = np.zeros(0)
    exponent: float = 1.0


@dataclass
class ProximalGradient:
    """The accelerated proximal gradient iteration and where it stands.

    Attributes
    ----------
    terms : the problem. transposed : the rows of Sᵀ.
    forces : (nc,) the iterate.
    steps, residual, residuals : taken so far; of the last iterate; of all.
    """

    terms: Terms
    transposed: Rows
    forces: FloatArray
    steps: int = 0
    residual: float = np.inf
    residuals: list[FloatArray] = field(default_factory=list)
    _threads: bool | None = None  # True or None, which are two types: two compiled loops

    def minimise(
        self,
        tolerance: float,
        limit: int,
        deadline: Deadline,
        progress: Callable[[int, float], None] = lambda n, residual: None,
    ) -> bool:
        """Step until the natural residual max |min(H_ii f_i, gradient_i)| ≤ tolerance.

        ``limit`` is the number of steps at most, ``deadline`` when they must end. Returns whether
        the test was met; the iterate is then the last one, otherwise the best one.
        """
        terms, nc = self.terms, self.forces.size
        y, best = np.zeros(self.transposed[0].size - 1), self.forces.copy()
        self._edges = chunks(nc), chunks(y.size)
        if several() and max(edges.size for edges in self._edges) > 2:
            self._threads = True
        self.residual = self._fresh(self.forces, y)[1]
        least = _LEAST * float(terms.diagonal.max(initial=0.0)) or 1.0
        scalars = np.empty(4)
        scalars[[_BEST, _LEAST_LIPSCHITZ]] = self.residual, least
        scalars[_LIPSCHITZ] = max(self._estimate(y), least)
        scalars[_THETA] = 1.0
        state, trial = np.zeros((4, nc)), np.empty((3, nc))
        sums = np.zeros((self._edges[0].size - 1, _LINE))
        state[0] = state[1] = self.forces
        taken = 0
        while not self.residual <= tolerance and taken < limit and not deadline.passed:
            for target in (0, 1):
                state[target + 2] = self._fresh(state[target], y)[0]
            trace = np.zeros(min(_FRESH_EVERY, limit - taken))
            done = 0
            for piece in in_pieces(trace, terms.columns.size, deadline):
                data = self._threads, terms, self.transposed, self._edges, tolerance
                stepped = self._call(
                    _accelerate, *data, state, trial, sums, scalars, best, y, piece
                )
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
        return met

    def _fresh(self, f: FloatArray, y: FloatArray) -> tuple[FloatArray, float]:
        """H f and the natural residual at f."""
        terms, product = self.terms, np.zeros(f.size)
        self._multiply(self._edges[1], self.transposed, f, y)
        rows = terms.pointers, terms.columns, terms.values
        self._multiply(self._edges[0], rows, y, product)
        gradient = product + terms.h
        if terms.compliance.size:
            gradient += terms.compliance * np.maximum(f, 0.0) ** terms.exponent
        return product, natural_residual(terms.diagonal, gradient, f)

    def _multiply(self, edges: Indices, rows: Rows, x: FloatArray, out: FloatArray) -> None:
        if self._threads:
            side_by_side(_multiply, edges, rows, x, out)
        else:
            multiply_rows(edges[0], edges[-1], rows, x, out)

    def _call(self, loop: Callable[..., Any], *arguments: Any) -> Any:
        return side_by_side(loop, *arguments) if self._threads else loop(*arguments)

    def _estimate(self, y: FloatArray) -> float:
        """The paper's first L: ‖H (f₀ − 1)‖ / ‖f₀ − 1‖."""
        away = self.forces - 1.0
        length = float(np.linalg.norm(away))
        if length == 0.0:
            return float(self.terms.diagonal.max(initial=0.0))
        return float(np.linalg.norm(self._fresh(away, y)[0])) / length


# --- compiled loops ----------------------------------------------------------------------


def chunks(n: int) -> Indices:
    """(chunks + 1,) where each chunk of a loop over n entries begins, and n; at least one chunk."""
    count = max(1, min(_CHUNKS, n // _LEAST_CHUNK))
    return (np.arange(count + 1) * n // count).astype(np.uint32)


@compiled(parallel=True)
def _multiply(edges: Indices, rows: Rows, x: FloatArray, out: FloatArray) -> None:
    """out = R x in the chunks of ``edges``."""
    for c in prange(edges.shape[0] - 1):
        multiply_rows(edges[c], edges[c + 1], rows, x, out)


@part()
def _proximal(z: float, a: float, s: float) -> float:
    """The x ≥ 0 with x + a x^s = z, or zero for z ≤ 0: the minimiser of ½(x − z)² + e(x).

    Newton's method from the side on which it is monotone; for a = 0 the projection.
    """
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


class Proposal(NamedTuple):
    """How the next trial point is proposed, and whether the last one is taken over.

    Attributes
    ----------
    accept : take over the last trial point; ``keep`` as the best one.
    beta : momentum. length : L.
    """

    accept: bool
    keep: bool
    beta: float
    length: float


@part()
def _propose_chunk(
    first: int,
    last: int,
    proposal: Proposal,
    terms: Terms,
    state: FloatArray,
    trial: FloatArray,
    best: FloatArray,
    sums: FloatArray,
) -> None:
    """The trial point of the step before taken over if accepted, then a new one proposed."""
    f, z, product_f, product_z = state[0], state[1], state[2], state[3]
    x, d, product_d = trial[0], trial[1], trial[2]
    accept, keep, beta, length = proposal
    squared, rigid = 0.0, terms.compliance.shape[0] == 0
    for i in range(first, last):
        if accept:
            product = product_z[i] + product_d[i]
            z[i] = x[i] + beta * (x[i] - f[i])
            product_z[i] = product + beta * (product - product_f[i])
            f[i], product_f[i] = x[i], product
            if keep:
                best[i] = x[i]
        target = z[i] - (product_z[i] + terms.h[i]) / length
        if rigid:
            x[i] = target if target > 0.0 else 0.0
        else:
            x[i] = _proximal(target, terms.compliance[i] / length, terms.exponent)
        d[i] = x[i] - z[i]
        squared += d[i] * d[i]
    sums[_SQUARED] = squared


@part(parallel=True)
def _propose(
    edges: Indices,
    proposal: Proposal,
    terms: Terms,
    state: FloatArray,
    trial: FloatArray,
    best: FloatArray,
    sums: FloatArray,
) -> None:
    """Trial points x and d = x − z, chunk by chunk."""
    for c in prange(edges.shape[0] - 1):
        _propose_chunk(edges[c], edges[c + 1], proposal, terms, state, trial, best, sums[c])


@part()
def _judge_chunk(
    first: int,
    last: int,
    terms: Terms,
    state: FloatArray,
    trial: FloatArray,
    y: FloatArray,
    sums: FloatArray,
) -> None:
    """H d at the trial point, and what decides on it."""
    f, product_z = state[0], state[3]
    x, d, product_d = trial[0], trial[1], trial[2]
    curvature, uphill, worst, rigid = 0.0, 0.0, 0.0, terms.compliance.shape[0] == 0
    for i in range(first, last):
        total = 0.0
        for k in range(terms.pointers[i], terms.pointers[i + 1]):
            total += terms.values[k] * y[terms.columns[k]]
        product_d[i] = total
        curvature += d[i] * total
        uphill -= d[i] * (x[i] - f[i])
        gradient = product_z[i] + total + terms.h[i]
        if not rigid and terms.compliance[i] > 0.0:
            gradient += terms.compliance[i] * x[i] ** terms.exponent
        scaled = terms.diagonal[i] * x[i]
        worst = larger(worst, abs(gradient if gradient < scaled else scaled))
    sums[_CURVATURE], sums[_UPHILL], sums[_WORST] = curvature, uphill, worst


@part(parallel=True)
def _judge(
    edges: Indices,
    terms: Terms,
    state: FloatArray,
    trial: FloatArray,
    y: FloatArray,
    sums: FloatArray,
) -> None:
    """H d and the sums of each chunk."""
    for c in prange(edges.shape[0] - 1):
        _judge_chunk(edges[c], edges[c + 1], terms, state, trial, y, sums[c])


@compiled()
def _accelerate(
    threads: bool | None,
    terms: Terms,
    transposed: Rows,
    edges: tuple[Indices, Indices],
    tolerance: float,
    state: FloatArray,
    trial: FloatArray,
    sums: FloatArray,
    scalars: FloatArray,
    best: FloatArray,
    y: FloatArray,
    trace: FloatArray,
) -> int:
    """Accelerated proximal gradient steps, one for each entry of ``trace`` at most.

    ``threads`` is None where all chunks are of one thread: the loop is then compiled without
    loops in threads. ``edges`` are the chunks of contacts and of y. ``state`` (4, nc) holds f, the
    extrapolated point z, H f and H z; ``trial`` (3, nc) and ``sums`` (chunks, 8) are room for the
    trial point and for the sums of each chunk. ``scalars`` are θ, the Lipschitz estimate L, the
    least residual so far and the floor of L; ``best`` the forces of that residual; ``y`` is room
    for the intermediate vector. ``trace`` receives the natural residual of each iterate; the loop
    ends early when it is within ``tolerance``. Returns the number of steps.

    A step passes three times over its data: over the contacts to take over the last trial point
    x and propose the next, L doubled until dᵀHd ≤ L dᵀd with d = x − z; over y for Sᵀ d; and over
    the contacts for R y, whose sums decide what follows.
    """
    contacts, dofs = edges
    accept, keep, beta, taken, ends = False, False, 0.0, 0, trace.shape[0] == 0
    while not ends or accept:
        length = scalars[_LIPSCHITZ]
        for _ in range(_DOUBLINGS):
            proposal = Proposal(accept, keep, beta, length)
            if threads is None:
                for c in range(sums.shape[0]):
                    first, last = contacts[c], contacts[c + 1]
                    _propose_chunk(first, last, proposal, terms, state, trial, best, sums[c])
            else:
                _propose(contacts, proposal, terms, state, trial, best, sums)
            if ends:  # the last step is taken over; what follows it is left aside
                return taken
            if threads is None:
                multiply_rows(dofs[0], dofs[dofs.shape[0] - 1], transposed, trial[1], y)
                for c in range(sums.shape[0]):
                    first, last = contacts[c], contacts[c + 1]
                    _judge_chunk(first, last, terms, state, trial, y, sums[c])
            else:
                _multiply(dofs, transposed, trial[1], y)
                _judge(contacts, terms, state, trial, y, sums)
            accept = False
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
        if uphill > 0.0:  # the momentum points uphill: start it anew
            following, beta = 1.0, 0.0
        accept, keep = True, worst < scalars[_BEST]
        scalars[_THETA] = following
        length, least = 0.9 * length, scalars[_LEAST_LIPSCHITZ]
        scalars[_LIPSCHITZ] = length if length > least else least
        scalars[_BEST] = worst if keep else scalars[_BEST]
        trace[taken] = worst
        taken += 1
        ends = worst <= tolerance or taken == trace.shape[0]
    return taken
