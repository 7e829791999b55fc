"""Accelerated projected gradient descent (APGD), on (22) and with elastic energies.

minimise over f ≥ 0    ½ fᵀ H f + hᵀ f + Σ e_i(f_i),    H = R Sᵀ,  e_i′(f) = a_i f^s

Bilateral rows have forces of either sign.

H. Mazhar, T. Heyn, D. Negrut, A. Tasora, *Using Nesterov's method to accelerate multibody dynamics
with friction and contact*, ACM Trans. Graph. 34 (2015) 32, algorithm 1 without the friction cone,
which Olsen & Kamrin (2018) use for classic contact dynamics: Nesterov's momentum, L doubled until
the quadratic model is an upper bound and relaxed by 0.9 after every step, momentum dropped when it
points uphill, the best iterate kept. Two things differ. The upper bound is tested as dᵀHd ≤ L dᵀd,
the same number without cancellation. An elastic energy e, absent from their problem, enters by its
proximal operator (A. Beck, M. Teboulle, SIAM J. Imaging Sci. 2 (2009) 183), so that the infinite
slope of e′ at zero for p > 2 does no harm; without it the operator is their projection. The restart
is that of B. O'Donoghue, E. Candès, Found. Comput. Math. 15 (2015) 715, for such steps.

With friction f ∈ K_μ has d rows for each contact, and the steps are those of forces times √w, so
that they are equally long at light and at heavy bodies; cones do not change by such factors. With
Coulomb's law the shift s = μ‖g_T‖ of the normal rates is first that of the last iterate. Then
it follows this by a share of the difference, and the momentum is bounded: the law is no gradient,
and full momentum makes it swing. Where it still swings, s stays, so that the problem is convex,
until its natural map is below a share of that of the law; then it is renewed (V. Acary & F. Cadoux
2013). Nothing guarantees that it converges.

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
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numba import prange

from cdopt._util import checks
from cdopt._util.checks import FloatArray
from cdopt._util.compiled import compiled, in_threads, part
from cdopt.backends.base import RunResult
from cdopt.backends.deadline import Deadline
from cdopt.backends.linalg.sparse_rows import Indices, Rows, csr_parts, larger, multiply_rows
from cdopt.backends.native import (
    NativeBackend,
    Run,
    in_pieces,
    listed,
    natural_residual,
)
from cdopt.backends.network_problem import NetworkProblem
from cdopt.backends.threads import several
from cdopt.problem.cone_rules import Rules, project_rows, shift_of_rows
from cdopt.problem.cones import RULED
from cdopt.problem.friction_cone import project_contact, tangential_size
from cdopt.problem.scaling import scaled

_CHUNKS, _LEAST_CHUNK = 64, 256  # chunks of a loop at most, entries of a chunk at least
_FRESH_EVERY = 500  # steps between two fresh products, which keep round-off from gathering
_LEAST = 1e-3  # L never falls below this share of the largest H_ii
_DOUBLINGS = 100  # of L in one step
_THETA, _LIPSCHITZ, _BEST, _LEAST_LIPSCHITZ = 0, 1, 2, 3  # places in the scalars of the loop
_SQUARED, _CURVATURE, _UPHILL, _WORST = 0, 1, 2, 3  # places in the sums of a chunk
_LINE = 8  # doubles in a cache line: the sums of two chunks never share one
_NONE, _NO_COEFFICIENTS = np.zeros(0), np.zeros((0, 1))
_NO_RULES = np.zeros((0, 1), dtype=np.int8)

_CHECKS = 20  # with friction: steps between two checks of the natural map and the clock
_FRESH = 5  # checks between two fresh products
_SETTLED = 0.5  # residual of the convex problem over that of the law, at which the shift is renewed
# Phases for Coulomb's law, in order, as (patience, relaxation, largest momentum): a phase ends
# after ``patience`` checks in which the natural map has not halved; the shift moves by the
# ``relaxation`` of its change. After the last one the shift is fixed: the problem is convex.
_PHASES = (10, 1.0, 1.0), (100, 0.2, 0.95), (100, 0.2, 0.85)
_CONVEX = 0, 0.0, 1.0
_FURTHER = 1e-10  # accuracy of further steps,
_TRIES = 5  # which end when more certificates than this miss it
# checks to skip before the next certificate: worst residual over accuracy, or the tries so far,
# whichever is larger, at most this many
_PAUSE = 10


@listed
@dataclass(frozen=True)
class APGD(NativeBackend):
    """Settings of accelerated projected gradient descent.

    Parameters
    ----------
    max_iterations : steps at most.
    accuracy : the run is solved when max_i |min(N_ii f_i, (N f + p)_i)| / V ≤ accuracy, the
        projected gradient with each contact's own step; V is the closing speed of its part;
        and, down to 1e-10, when the certificate is met too. With friction it is the natural map.
    history : keep this residual of every step (with friction, every 20th) in ``raw.residuals``.
    further : with friction, additional steps as long as convergence to ``accuracy`` (or 1e-10, if
        larger) is likely.

    Raises
    ------
    InvalidInput : a setting out of range.
    """

    name: ClassVar[str] = "apgd"
    cones: ClassVar[frozenset[str]] = frozenset({RULED})
    kinds: ClassVar[frozenset[str]] = frozenset({"rigid step", "frictional step", "soft step"})
    limit: ClassVar[str] = "max_iterations"

    max_iterations: int = 100_000
    accuracy: float = 1e-8
    history: bool = False
    further: int = 0

    def __post_init__(self) -> None:
        super().__post_init__()
        self._set(further=checks.whole("further", self.further, 0))

    def _solve(self, problem: NetworkProblem, run: Run) -> RunResult:
        f, factors = problem.acting_start(run.start), problem.factors
        if problem.has_cones:
            return self._with_friction(problem, f, run)
        with run.iterating(problem.nc, factors.spread.shape[1]):  # sets the loops' threads
            descent = ProximalGradient(
                Terms(
                    *(*csr_parts(factors.rows), factors.diagonal, problem.p),
                    floor=_NONE if problem.lines is None else problem.floor,
                ),
                factors.columns(),
                f,
            )
            met = descent.minimise(
                self.accuracy,
                self.max_iterations,
                run.deadline,
                lambda n, residual: run.report(f"iteration {n}: residual {residual:.2e}"),
            )
        status = "solved" if met else "stopped"
        run.report(f"{status} after {descent.steps}: residual {descent.residual:.2e}")
        return run.ended(problem.caused(descent.forces), met, descent.steps, descent.residuals)

    def _with_friction(self, problem: NetworkProblem, f: FloatArray, run: Run) -> RunResult:
        """One run on the cones of friction."""
        with run.iterating(problem.rows, problem.factors.spread.shape[1]):
            f, steps, residuals = _on_cones(problem, f, self, run.deadline)
        least = min(residuals, default=0.0)
        run.report(f"{steps:,} steps, natural map {least:.1e}")
        met = least <= self.accuracy
        return run.ended(problem.caused(f), met, steps, residuals)


def _on_cones(
    problem: NetworkProblem, f: FloatArray, settings: APGD, deadline: Deadline
) -> tuple[FloatArray, int, list[float]]:
    """The best forces (nc, d), steps, and the natural map at each check.

    It ends when both the natural map and the certificate are at most the requested accuracy.
    """
    accuracy, first = settings.accuracy, settings.max_iterations
    most = first + settings.further
    name = APGD.name, problem.steep
    if name not in problem.cache:
        problem.cache[name] = _in_root_units(problem)
    root, factor, terms, transposed = problem.cache[name]
    terms = terms._replace(h=factor * problem.p, shift=np.zeros(problem.nc))
    descent = ProximalGradient(terms, transposed, (root * f).ravel())
    descent.scalars[_BEST] = -np.inf  # the forces of least natural map are kept here
    shift = descent.terms.shift
    best, best_forces, residuals, certify_at = np.inf, f, list[float](), 0
    least, tries = list[float](), 0
    mark, mark_at, phases = np.inf, 0, list(_PHASES) if problem.coulomb else []
    for look in range(most // _CHECKS + 2):
        done = min(look * _CHECKS, most)
        if look % _FRESH == 0:
            descent.refresh()
        forces, rates = (
            descent.state[0].reshape(f.shape) / root,
            root * descent.rates.reshape(f.shape),
        )
        error = problem.natural_map(forces, rates)
        residuals.append(error)
        if error < best:
            best, best_forces = error, forces
        least.append(best)
        if first <= done < most:
            accuracy = max(accuracy, _FURTHER)
            if tries > _TRIES or not _promising(least, accuracy, most // _CHECKS):
                break
        if error <= 0.5 * mark:
            mark, mark_at = error, look
        if error <= accuracy and look >= certify_at:
            worst = problem.worst(forces)
            if worst <= accuracy:
                return forces, done, residuals
            tries += 1
            certify_at = look + int(min(max(worst / accuracy, tries), _PAUSE))
        if deadline.passed or done == most or not np.isfinite(error):
            break
        if phases and look - mark_at >= phases[0][0]:
            mark, mark_at = error, look
            phases.pop(0)
            if not phases:
                descent.restart((root * best_forces).ravel())
            if not phases and not problem.steep:
                rates = root * descent.rates.reshape(f.shape)
                shift[:] = problem.shift(rates) / root[:, 0]
        elif problem.coulomb and not phases and not problem.steep:
            convex = problem.natural_map(forces, rates, root[:, 0] * shift)
            if convex <= _SETTLED * error:
                descent.restart(descent.state[0])
                shift[:] = problem.shift(rates) / root[:, 0]
        _, share, momentum = phases[0] if phases else _CONVEX
        descent.advance(np.zeros(min(_CHECKS, most - done)), -1.0, share, momentum)
    return best_forces, done, residuals


def _in_root_units(problem: NetworkProblem) -> tuple[FloatArray, FloatArray, Terms, Rows]:
    """√w (nc, 1) and 1/√w (rows,), the terms of forces times √w, and the rows of Sᵀ for them."""
    root, factors = np.sqrt(problem.weight)[:, None], problem.factors
    factor = (1.0 / root).repeat(problem.d)
    rules, coefficients = problem.rules_of_answers
    terms = Terms(
        *csr_parts(scaled(factors.rows, factor)),
        factor**2 * factors.diagonal,
        _NONE,
        mu=problem.mu,
        rules=rules,
        coefficients=coefficients,
    )
    return root, factor, terms, csr_parts(scaled(factors.spread, factor).tocsc())


def _promising(least: list[float], accuracy: float, looks: int) -> bool:
    """Whether the rate of the later checks reaches ``accuracy`` within ``looks`` checks."""
    done = len(least) - 1
    if least[-1] <= accuracy:
        return True
    rate = np.log(least[done // 2] / least[-1]) / (done - done // 2)
    return bool(rate * (looks - done) >= np.log(least[-1] / accuracy))


class Terms(NamedTuple):
    """The objective of one problem with n forces, d of each contact.

    Parallel loops take no nested tuples: the rows of R are flat. Without entries of ``mu`` d is
    one, and forces are at least zero.
    """

    pointers: Indices
    columns: Indices
    values: FloatArray
    diagonal: FloatArray  # (n,) of H
    h: FloatArray  # (n,)
    compliance: FloatArray = _NONE  # a (n,), or none
    exponent: float = 1.0  # s
    mu: FloatArray = _NONE  # (contacts,) friction coefficients, or none
    shift: FloatArray = _NONE  # (contacts,) added to the normal rates
    rules: Rules = _NO_RULES  # (contacts, d) of cones other than Coulomb's, or none
    coefficients: FloatArray = _NO_COEFFICIENTS  # (contacts, d) of these
    floor: FloatArray = _NONE  # (n,) the least forces, without cones; none for zero


@dataclass
class ProximalGradient:
    """The accelerated proximal gradient iteration and its state.

    ``transposed`` are the rows of Sᵀ, ``forces`` (n,) the iterate. ``scalars`` are θ, the Lipschitz
    estimate L, the least residual so far and the floor of L.
    """

    terms: Terms
    transposed: Rows
    forces: FloatArray
    steps: int = 0
    residual: float = np.inf
    residuals: list[FloatArray] = field(default_factory=list)

    def __post_init__(self) -> None:
        n, m = self.forces.size, self.transposed[0].size - 1
        contacts = self.terms.mu.size or n
        d = np.uint32(n // max(contacts, 1))
        edges = chunks(contacts)
        self._edges = edges, edges * d, chunks(m)
        self._threads = True if max(map(len, self._edges)) > 2 and several() else None
        cones, ruled = self.terms.shift.size > 0, self.terms.rules.shape[0] > 0
        self._kinds = self._threads, True if cones else None, True if ruled else None
        self.state = np.zeros((4, n))
        self._work = Work(self.state, np.empty((3, n)), self.forces.copy(), np.zeros(m))
        self._sums = np.zeros((edges.size - 1, _LINE))
        least = _LEAST * float(self.terms.diagonal.max(initial=0.0)) or 1.0
        self.scalars = np.array([1.0, 1.0, np.inf, least])
        self.state[:2] = self.forces

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
        self.residual = self._residual()
        self.scalars[_BEST] = self.residual
        self.scalars[_LIPSCHITZ] = max(self._estimate(), self.scalars[_LEAST_LIPSCHITZ])
        taken = 0
        while not self.residual <= tolerance and taken < limit and not deadline.passed:
            self.refresh()
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
        self.forces = self.state[0].copy() if met else self._work.best
        self.steps += taken
        return met

    def advance(
        self, trace: FloatArray, tolerance: float, share: float = 0.0, momentum: float = 1.0
    ) -> int:
        """The number of steps taken, at most ``trace.size``; arguments as of ``_accelerate``."""
        data = *self._kinds, self.terms, self.transposed, self._edges
        limits, room = (tolerance, share, momentum), (self._sums, self.scalars)
        taken: int = self._run(_accelerate)(*data, limits, self._work, room, trace)
        return taken

    def refresh(self) -> None:
        """Compute the gradients again."""
        for k in (0, 1):
            self.state[k + 2] = self._product(self.state[k]) + self.terms.h

    def restart(self, f: FloatArray) -> None:
        """Go on from forces f, without momentum."""
        self.state[:2], self.scalars[_THETA] = f, 1.0
        self.refresh()

    @property
    def rates(self) -> FloatArray:
        """H f + h at the iterate."""
        return self.state[2]

    def _residual(self) -> float:
        """The natural residual of the iterate."""
        terms, f = self.terms, self.state[0]
        gradient = self._product(f) + terms.h
        if terms.compliance.size:
            gradient += terms.compliance * np.maximum(f, 0.0) ** terms.exponent
        lines = terms.floor < 0.0 if terms.floor.size else None
        return natural_residual(terms.diagonal, gradient, f, lines)

    def _product(self, f: FloatArray) -> FloatArray:
        """H f."""
        multiply, product = self._run(_multiply), np.zeros(f.size)
        multiply(self._threads, self._edges[2], self.transposed, f, self._work.y)
        multiply(self._threads, self._edges[1], self.terms[:3], self._work.y, product)
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
def _multiply_in_threads(edges: Indices, rows: Rows, x: FloatArray, out: FloatArray) -> None:
    """out = R x in the chunks of ``edges``."""
    for c in prange(edges.shape[0] - 1):
        multiply_rows(edges[c], edges[c + 1], rows, x, out)


@compiled()
def _multiply(
    threads: bool | None, edges: Indices, rows: Rows, x: FloatArray, out: FloatArray
) -> None:
    """out = R x."""
    if threads is None:
        multiply_rows(edges[0], edges[edges.shape[0] - 1], rows, x, out)
    else:
        _multiply_in_threads(edges, rows, x, out)


@part()
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


class Work(NamedTuple):
    """The state of the iteration, and its workspace."""

    state: FloatArray  # (4, n) the iterate f, the extrapolated point z, H f + h and H z + h
    trial: FloatArray  # (3, n) the trial point x, d = x − z, and H d
    best: FloatArray  # (n,) the forces of the least residual
    y: FloatArray  # (m,) Sᵀ d


# Which code a loop has, for each the other is left out where it is compiled: None for one thread,
# for half-lines and lines, and for Coulomb's cones alone.
Kind = bool | None


class Proposal(NamedTuple):
    """How the next trial point is proposed, and whether the last one is taken over."""

    accept: bool  # take over the last trial point,
    keep: bool  # as the best one
    beta: float  # momentum
    length: float  # L
    share: float  # of its change that the shift follows


@part()
def _propose_chunk(
    first: int,
    last: int,
    cones: Kind,
    ruled: Kind,
    proposal: Proposal,
    terms: Terms,
    work: Work,
    sums: FloatArray,
) -> None:
    """The trial point taken over, and the shift with it, if accepted; then a new one proposed."""
    state, trial, best, shift = work.state, work.trial, work.best, terms.shift
    f, z, gradient_f, gradient_z = state[0], state[1], state[2], state[3]
    x, change, product_d = trial[0], trial[1], trial[2]
    accept, keep, beta, length, share = proposal
    rigid, bilateral = terms.compliance.shape[0] == 0, terms.floor.shape[0] > 0
    squared, uphill, step, d = 0.0, 0.0, 1.0 / length, np.uint32(1)
    if cones is not None:
        d = np.uint32(best.shape[0] // shift.shape[0])
    for i in range(first * d, last * d):
        if accept:
            gradient = gradient_z[i] + product_d[i]
            z[i] = x[i] + beta * (x[i] - f[i])
            gradient_z[i] = gradient + beta * (gradient - gradient_f[i])
            f[i], gradient_f[i] = x[i], gradient
            if keep:
                best[i] = x[i]
        target = z[i] - step * gradient_z[i]
        if cones is not None:
            x[i] = target
        else:
            if rigid:
                least = terms.floor[i] if bilateral else 0.0
                x[i] = target if target > least else least
            else:
                x[i] = _proximal(target, step * terms.compliance[i], terms.exponent)
            change[i] = x[i] - z[i]
            squared += change[i] * change[i]
            uphill -= change[i] * (x[i] - f[i])
    if cones is not None:
        for c in range(first, last):
            begin, end = c * d, c * d + d
            if share > 0.0:
                for i in range(begin, end):
                    change[i] = gradient_f[i]
                if ruled is None:
                    aim = terms.mu[c] * tangential_size(change[begin:end])
                else:
                    rule, numbers = terms.rules[c], terms.coefficients[c]
                    aim = shift_of_rows(change[begin:end], rule, numbers)
                shift[c] += share * (aim - shift[c])
            x[begin] -= step * shift[c]
            if ruled is None:
                project_contact(x[begin:end], terms.mu[c])
            else:
                project_rows(x[begin:end], terms.rules[c], terms.coefficients[c])
            for i in range(begin, end):
                change[i] = x[i] - z[i]
                squared += change[i] * change[i]
                uphill -= change[i] * (x[i] - f[i])
    sums[_SQUARED], sums[_UPHILL] = squared, uphill


@part(parallel=True)
def _propose(
    edges: Indices,
    cones: Kind,
    ruled: Kind,
    proposal: Proposal,
    terms: Terms,
    work: Work,
    sums: FloatArray,
) -> None:
    """Trial points, chunk by chunk."""
    for c in prange(edges.shape[0] - 1):
        _propose_chunk(edges[c], edges[c + 1], cones, ruled, proposal, terms, work, sums[c])


@part()
def _judge_chunk(first: int, last: int, terms: Terms, work: Work, sums: FloatArray) -> None:
    """H d at the trial point, and what decides on it."""
    gradient_z, y, bilateral = work.state[3], work.y, terms.floor.shape[0] > 0
    x, d, product_d = work.trial[0], work.trial[1], work.trial[2]
    curvature, worst, rigid = 0.0, 0.0, terms.compliance.shape[0] == 0
    for i in range(first, last):
        total = 0.0
        for k in range(terms.pointers[i], terms.pointers[i + 1]):
            total += terms.values[k] * y[terms.columns[k]]
        product_d[i] = total
        curvature += d[i] * total
        gradient = gradient_z[i] + total
        if not rigid and terms.compliance[i] > 0.0:
            gradient += terms.compliance[i] * x[i] ** terms.exponent
        scaled = terms.diagonal[i] * x[i]
        if bilateral and terms.floor[i] < 0.0:
            scaled = gradient
        worst = larger(worst, abs(gradient if gradient < scaled else scaled))
    sums[_CURVATURE], sums[_WORST] = curvature, worst


@part(parallel=True)
def _judge(edges: Indices, terms: Terms, work: Work, sums: FloatArray) -> None:
    """H d and the sums of each chunk."""
    for c in prange(edges.shape[0] - 1):
        _judge_chunk(edges[c], edges[c + 1], terms, work, sums[c])


@compiled()
def _accelerate(
    threads: Kind,
    cones: Kind,
    ruled: Kind,
    terms: Terms,
    transposed: Rows,
    edges: tuple[Indices, Indices, Indices],
    limits: tuple[float, float, float],
    work: Work,
    room: tuple[FloatArray, FloatArray],
    trace: FloatArray,
) -> int:
    """Accelerated proximal gradient steps, one for each entry of ``trace`` at most.

    ``threads``, ``cones`` and ``ruled`` are of ``Kind``. ``edges`` are the chunks of contacts, of
    forces and of y. ``limits`` are the tolerance, the share of its change that the shift follows,
    and the largest momentum. ``room`` is for the sums (chunks, 8) of each chunk, and for scalars.
    ``trace`` receives the natural residual of each iterate; the loop ends early when it is within
    the tolerance. Returns the number of steps.

    A step passes three times over its data: over the contacts to take over the last trial point
    x and propose the next, L doubled until dᵀHd ≤ L dᵀd with d = x − z; over y for Sᵀ d; and over
    the forces for R y, whose sums decide what follows.
    """
    (contacts, rows, dofs), (sums, scalars) = edges, room
    tolerance, share, momentum = limits
    accept, keep, beta, taken, ends = False, False, 0.0, 0, trace.shape[0] == 0
    due = share  # once in a step
    while not ends or accept:
        length = scalars[_LIPSCHITZ]
        for _ in range(_DOUBLINGS):
            # the last step is taken over without a shift: what follows it is ignored
            proposal = Proposal(accept, keep, beta, length, 0.0 if ends else due)
            if threads is None:
                for c in range(sums.shape[0]):
                    first, last = contacts[c], contacts[c + 1]
                    _propose_chunk(first, last, cones, ruled, proposal, terms, work, sums[c])
            else:
                _propose(contacts, cones, ruled, proposal, terms, work, sums)
            if ends:
                return taken
            if threads is None:
                multiply_rows(dofs[0], dofs[dofs.shape[0] - 1], transposed, work.trial[1], work.y)
                for c in range(sums.shape[0]):
                    _judge_chunk(rows[c], rows[c + 1], terms, work, sums[c])
            else:
                _multiply_in_threads(dofs, transposed, work.trial[1], work.y)
                _judge(rows, terms, work, sums)
            accept, due = False, 0.0
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
        beta = min(theta * (1.0 - theta) / (theta * theta + following), momentum)
        if uphill > 0.0:  # the momentum points uphill: restart it
            following, beta = 1.0, 0.0
        accept, keep, due = True, worst < scalars[_BEST], share
        scalars[_THETA] = following
        length, least = 0.9 * length, scalars[_LEAST_LIPSCHITZ]
        scalars[_LIPSCHITZ] = length if length > least else least
        scalars[_BEST] = worst if keep else scalars[_BEST]
        trace[taken] = worst
        taken += 1
        ends = worst <= tolerance or taken == trace.shape[0]
    return taken
