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

With friction f ∈ K_μ has d rows for each contact, and the steps are those of forces times √N_ii, so
that they are equally long at light and at heavy bodies, and along and across a contact: spheres
take half the steps. Rows of one norm have one factor, and cones become steeper by the ratio. With
Coulomb's law the shift s = μ‖g_T‖ of the normal rates is first that of the last iterate. Then
it follows this by a share of the difference, and the momentum is bounded: the law is no gradient,
and full momentum makes it swing. Where it still swings, s stays, so that the problem is convex,
until its natural map is below a share of that of the law; then it is renewed (V. Acary & F. Cadoux
2013). Large networks begin with s = 0: where bodies come to rest it is zero in the end.
Nothing guarantees that it converges.

The steps are those of ``proximal_gradient``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from cdopt._util import checks
from cdopt._util.checks import FloatArray
from cdopt._util.sparse_rows import factor_parts
from cdopt.backends.certified import CERTIFIED_FROM, ROUNDS, sharpened
from cdopt.backends.deadline import Deadline
from cdopt.backends.native import NativeBackend, Run, listed, promising
from cdopt.backends.network_problem import NetworkProblem
from cdopt.backends.proximal_gradient import BEST, NONE, ProximalGradient, Terms
from cdopt.problem.cone_rules import CUT, Rules
from cdopt.problem.cones import RULED
from cdopt.problem.scaling import scaled

# Steps before the certificate, which costs as much as dozens: until the residual is this share of
# the accuracy that was met, if that takes no more than a share of the steps so far
_AHEAD, _MORE = 0.15, 0.25
_CHECKS = 20  # with friction: steps between two checks of the natural map and the clock
_FRESH = 5  # checks between two fresh products
_SETTLED = 0.5  # residual of the convex problem over that of the law, at which the shift is renewed
# A network of this many contacts or more begins with the shift at zero, as long as one of the two
# is at most ``_SAME`` times the other: of bodies that come to rest both laws have the same forces
_MANY, _SAME = 1_000, 2.0
# Phases for Coulomb's law, in order, as (patience, relaxation, largest momentum): a phase ends
# after ``patience`` checks in which the natural map has not halved; the shift moves by the
# ``relaxation`` of its change. After the last one the shift is fixed: the problem is convex. The
# patience of each is at least ``_LAYERS`` times ∛contacts: impulses pass on layer by layer.
_PHASES, _LAYERS = ((10, 1.0, 1.0), (100, 0.2, 0.95), (100, 0.2, 0.85)), 0.3
_CONVEX = 10, 0.0, 1.0
_FURTHER = 1e-10  # accuracy of further steps;
# where more certificates than this miss it, they end at a share ``_AHEAD`` of it
_TRIES = 5
# checks to skip before the next certificate: worst residual over accuracy, or the tries so far,
# whichever is larger, at most as many for each try
_PAUSE = 10
_ENDED = "apgd ended"  # the place of the state that a later run resumes
_LEAST = 1e-3  # N_ii of a row over the mean of its contact, at least


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
    resume : with friction, go on where the run before on the same problem ended, with its momentum,
        not from the given forces.

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
    resume: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        self._set(further=checks.whole("further", self.further, 0))
        self._set(resume=checks.flag("resume", self.resume))

    def _solve(self, problem: NetworkProblem, run: Run) -> Run:
        f, factors = problem.acting_start(run.start), problem.factors
        if problem.has_cones:
            return self._with_friction(problem, f, run)
        with run.iterating(problem.nc, factors.spread.shape[1]):  # sets the loops' threads
            rows, transposed = factor_parts(factors.rows, factors.spread)
            floor = NONE if problem.lines is None else problem.floor
            terms = Terms(*rows, factors.diagonal, problem.p, floor=floor)
            descent = ProximalGradient(terms, transposed, f)
            met = self._certified(problem, descent, run)
        status = "solved" if met else "stopped"
        run.report(f"{status} after {descent.steps}: residual {descent.residual:.2e}")
        return run.ended(problem.caused(descent.forces), met, descent.steps, descent.residuals)

    def _certified(self, problem: NetworkProblem, descent: ProximalGradient, run: Run) -> bool:
        """Whether the natural residual meets the accuracy; iterates until the certificate does.

        The momentum stays: that takes fewer steps than a new run from the forces of this one.
        """

        def report(n: int, residual: float) -> None:
            run.report(f"iteration {n}: residual {residual:.2e}")

        met, tolerance = False, self.accuracy
        for _ in range(ROUNDS):
            left = self.max_iterations - descent.steps
            if not descent.minimise(tolerance, left, run.deadline, report):
                break
            met = True
            if self.accuracy < CERTIFIED_FROM:
                break
            more = min(int(_MORE * descent.steps), self.max_iterations - descent.steps)
            descent.minimise(_AHEAD * tolerance, more, run.deadline, report)
            worst = problem.worst(descent.forces, self.accuracy)
            if worst <= self.accuracy or not np.isfinite(worst):
                break
            tolerance = sharpened(tolerance, self.accuracy, worst)
        return met

    def _with_friction(self, problem: NetworkProblem, f: FloatArray, run: Run) -> Run:
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
    best, best_forces, residuals, certify_at = np.inf, f, list[float](), 0
    name = APGD.name, problem.steep
    if name not in problem.cache:
        error = problem.natural_map(f, problem.rates_of(problem.effect(f)))
        if error <= accuracy and problem.worst(f, accuracy) <= accuracy:
            return f, 0, [error]
        problem.cache[name] = _in_root_units(problem)
    root, factor, descent = problem.cache[name]
    descent.terms.h[:] = factor * problem.p
    if settings.resume and _ENDED in problem.cache:
        mark, mark_at, at_rest, phases = problem.cache[_ENDED]
    else:
        problem.cache.pop(_ENDED, None)
        descent.begin((root * f).ravel())
        mark, mark_at, phases = np.inf, 0, list(_PHASES) if problem.coulomb else []
        at_rest = problem.coulomb and problem.nc >= _MANY and not problem.steep
        phases = [_CONVEX, *phases] if at_rest else phases
    descent.scalars[BEST] = -np.inf  # the forces of least natural map are kept here
    shift = descent.terms.shift
    least, tries, in_vain = list[float](), 0, False
    for look in range(most // _CHECKS + 2):
        done = min(look * _CHECKS, most)
        if look % _FRESH == 0:
            descent.refresh()
        forces, rates = (
            descent.iterate.reshape(f.shape) / root,
            root * descent.rates.reshape(f.shape),
        )
        error = problem.natural_map(forces, rates)
        residuals.append(error)
        if error < best:
            best, best_forces = error, forces
        least.append(best)
        if first <= done < most:
            accuracy = max(accuracy, _FURTHER)
            aim = accuracy if tries <= _TRIES else _AHEAD * accuracy
            if in_vain or not promising(least, aim, most // _CHECKS):
                break
        if error <= 0.5 * mark:
            mark, mark_at = error, look
        if error <= accuracy and look >= certify_at:
            worst = problem.worst(forces, accuracy)
            if worst <= accuracy:
                return forces, done, residuals
            tries += 1
            in_vain = tries > _TRIES and error <= _AHEAD * accuracy
            certify_at = look + int(min(max(worst / accuracy, tries), _PAUSE * tries))
        if deadline.passed or done == most or not np.isfinite(error):
            break
        patience = max(phases[0][0], _LAYERS * np.cbrt(problem.nc)) if phases else np.inf
        if at_rest:
            convex = problem.natural_map(forces, rates, shift)
            at_rest = error <= _SAME * convex and convex <= _SAME * error
        if look - mark_at >= patience or (phases[:1] == [_CONVEX] and not at_rest):
            mark, mark_at, at_rest = error, look, False
            phases.pop(0)
            if not phases:
                descent.restart((root * best_forces).ravel())
            if not phases and not problem.steep:
                rates = root * descent.rates.reshape(f.shape)
                shift[:] = problem.shift(rates) / root[:, 0]
        elif problem.coulomb and not phases and not problem.steep:
            convex = problem.natural_map(forces, rates, root[:, 0] * shift)
            if convex <= _SETTLED * error:
                descent.restart(descent.iterate)
                shift[:] = problem.shift(rates) / root[:, 0]
        _, share, momentum = phases[0] if phases else _CONVEX
        descent.advance(np.zeros(min(_CHECKS, most - done)), -1.0, share, momentum)
    problem.cache[_ENDED] = mark, mark_at - look, at_rest, phases
    return best_forces, done, residuals


def _in_root_units(problem: NetworkProblem) -> tuple[FloatArray, FloatArray, ProximalGradient]:
    """√N_ii (nc, d), its inverse (rows,), and the iteration for forces times √N_ii, with any h."""
    (rules, coefficients), factors = problem.rules_of_answers, problem.factors
    mu = coefficients if rules.size else np.repeat(problem.mu[:, None], problem.d, axis=1)
    root = np.sqrt(_units(problem, rules, mu))
    factor = (1.0 / root).ravel()
    R = scaled(factors.rows, factor)
    same = factors.spread is factors.rows
    rows, transposed = factor_parts(R, R if same else scaled(factors.spread, factor))
    mu = mu * root / root[:, :1]
    terms = Terms(
        *rows,
        factor**2 * factors.diagonal,
        np.empty(problem.rows),
        mu=mu[:, 1].copy(),
        shift=np.zeros(problem.nc),
        rules=rules,
        coefficients=mu if rules.size else coefficients,
    )
    return root, factor, ProximalGradient(terms, transposed, np.zeros(problem.rows))


def _units(problem: NetworkProblem, rules: Rules, mu: FloatArray) -> FloatArray:
    """(nc, d) the N_ii of each row, their mean for rows of one norm; for cones of ``mu`` (nc, d).

    No cone becomes steeper than one: a large μ makes Coulomb's shift swing.
    """
    own = problem.table(problem.factors.diagonal)
    units = own.copy()
    if not rules.size:
        units[:, 1:] = own[:, 1:].sum(axis=1, keepdims=True) / (problem.d - 1)
    for rule in np.unique(rules[(rules > 0) | (rules == CUT)]) if rules.size else ():
        norm = rules == rule
        many = norm.sum(axis=1, keepdims=True)
        mean = np.where(norm, own, 0.0).sum(axis=1, keepdims=True) / np.maximum(many, 1)
        units = np.where(norm, mean, units)
    units = np.maximum(units, _LEAST * problem.weight[:, None])
    most = units[:, :1] / np.clip(mu, _LEAST, 1.0) ** 2
    return np.where(mu > 0.0, np.minimum(units, most), units)
