"""The method that suits the problem; steps with friction by several methods in turn.

No method solves every step with friction, and which one will is not known beforehand. So methods
take turns, each within a budget set by the problem's size, never by the clock: answers repeat.
Each starts from the best forces so far, and the best are kept. But the interior point starts far
from the boundary of the cones, where forces of another method are of no use to it, a path to
Coulomb's law has another start, and later turns of gradients go on where the one before ended.
Gauss–Seidel is quick, but its answers depend on the order of the contacts. So first are those whose
answers do not: accelerated gradients, which need a few milliseconds, solve most steps, and what
they leave is a start for Newton's method (``benchmarks/friction_population.md``). Early turns end
where the rate of their residuals so far does not promise a solution. If systems are large and an
accuracy of 1e-6 or more suffices, no fast convergence is needed: gradients and Gauss–Seidel have
far larger budgets then, and come three times before it, in short turns: each often solves soon what
the other one cycles in. But few contacts of which only N is known have the turns of 1e-8 at every
lower accuracy, and only fewer of them: a certificate costs as much as hundreds of iterations there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import lru_cache
from itertools import chain, repeat
from typing import ClassVar

import numpy as np

from cdopt._util.cached import changed
from cdopt.backends import homotopy
from cdopt.backends.admm import ADMM
from cdopt.backends.apgd import APGD
from cdopt.backends.base import Claim
from cdopt.backends.block_gauss_seidel import NSGS
from cdopt.backends.certified import CERTIFIED_FROM, ROUNDS, sharpened
from cdopt.backends.homotopy import Homotopy
from cdopt.backends.native import BREAKDOWN, NativeBackend, Run, listed
from cdopt.backends.natural_newton import NaturalNewton
from cdopt.backends.network_problem import NetworkProblem
from cdopt.backends.newton import InteriorPoint, Newton
from cdopt.problem.solution import WarmStart

_GRADIENTS, _GRADIENTS_GROW = 400, 40.0  # iterations of the first turn, or this times ∛contacts
_ROUGH, _MORE = 1e-6, 10  # accuracy from which first turns have as many times more; others later
_SURE = 8  # of the iterations of a first turn at such an accuracy one in as many is sure
_DENSE = 50  # entries per row above which the first turn gets fewer iterations
_FURTHER = 5  # times as many more, if the convergence rate suggests that they suffice
_SWEEPS = 40  # which cost less than some Newton steps; their rate may suggest more
# products of entries that cost as much as what Newton's turn does apart from products, and as what
# an iteration of gradients does apart from them: few contacts get more iterations before that turn
_OVERHEAD, _ITERATION = 2.5e6, 1_000
# where the first turn ends: a few iterations after what counts as solved, unless contacts are many
_ROUND_OFF, _LARGE = 1e-13, 5_000
_FEW = 1_000  # contacts up to which Newton's turn is short, however much its systems cost
_STEPS, _NEWTON_STEPS = 60, 60  # proximal and Newton steps of the second
_FINE = 1e-11  # natural map at which Newton's turns are certified: the rest is a fifth of them
_INSIDE, _ENDING = 120, 100  # steps of the interior point, Newton steps that end it
_SYSTEMS, _PRODUCTS = 50, 6  # systems of an interior point; products of entries an iteration
# up to as many times what gradients cost, few contacts have the interior point before them, and at
# accuracies below ``_COARSE``, which cheap turns reach soon, Newton's method before three of them
_EVEN, _DEARER, _COARSE = 1.5, 2.0, 1e-3
_WORK, _LEAST, _MOST = 2e9, 200, 20_000  # entries, and iterations at least and at most, later
_PATH_WORK = 1.6e11  # products for one system at each step of a path,
# and steps along it: with fewer it is left out; at most 60 for each contact, between these
_PATH_LEAST, _PATH_EACH, _PATH_FEW, _PATH_MOST = 200, 60, 6_000, 12_000
_SPLITTINGS, _LAST = 2_000, 2_000  # iterations of ADMM, Newton steps of the last turn, at most
# rows of dense systems that cost little, less than a path, and that are tried at all; and worst
# residual from which those that cost less than a path come before it
_TINY, _SMALL, _DENSE_ROWS, _NEARBY = 180, 600, 1_500, 1e-2
_NEAR = 1e-6  # worst residual below which these come before the path
_VERY_FEW = 100  # contacts, up to which some methods at last start once more from zero forces
_REACHABLE = 1e-10  # worst residual that counts as solved, even if a higher accuracy is requested
_ENOUGH = 1e-8  # and at which no further method is tried
_FAR = 2e-2  # worst residual above which Newton's turn is left out, of Coulomb's law with μ > 1
_UNSOLVED = 1e-4  # worst residual after Newton's turn above which a solution may not exist


@listed
class Auto(Newton):
    """The method that suits the kind and the size of the problem; ``provenance["how"]`` names it.

    Trusses and elastic steps: Newton's method. Rigid steps: up to 240 dofs the augmented
    Lagrangian, which remains near the initial forces; above that the interior point, whose number
    of iterations hardly depends on the step. If the first does not converge, the other one is
    tried.

    Steps with friction: in turn, until the certificate's residuals are at most 1e-8 (or
    ``accuracy``, if larger): accelerated gradients (``apgd``) and Newton's method on multipliers
    (from near forces only, if μ > 1), both within 1e-10, between them Gauss–Seidel (``nsgs``) and,
    for few contacts, further gradients; the interior point; more of the first and of ``nsgs``,
    before it if its systems are large, and above 1,000 contacts before Newton's method too; for
    Coulomb's law ``homotopy``, unless systems are large; splitting (``admm``); ``nsgs``; and
    Newton's method again, these three first if the residual is at most 1e-6; up to 100 contacts
    they start once more from zero forces. Newton's method on the natural map (``natural-newton``),
    with dense systems, is tried up to 180 rows after the further gradients, and up to 1,500 from
    near forces before ``homotopy``, and at the end. If Newton's turn on multipliers does not come
    close, the step may have no solution, and cdopt tries to prove that.
    With an ``accuracy`` of 1e-6 or more and large systems, gradients and Gauss–Seidel are first,
    three times, unless a step of at most 1,000 contacts is known by N alone. The status of an
    unsolved step includes its Slater number, if that leaves a doubt.
    """

    name: ClassVar[str] = "auto"

    def _solve(self, problem: NetworkProblem, run: Run) -> Run:
        if not problem.has_cones or problem.compliance is not None:
            return super()._solve(problem, run)
        return self._in_turn(problem, run)

    def _in_turn(self, problem: NetworkProblem, run: Run) -> Run:
        """The best answer of the methods, each started from the best so far."""
        best: Run | None = None
        least, spent = np.inf, 0
        story, trouble = list[str](), list[Exception]()
        goal, enough = max(self.accuracy, _REACHABLE), max(self.accuracy, _ENOUGH)
        prepared: float | None = None
        turns = zip(self._methods(problem, lambda: least), repeat(False))
        for method, from_zero in chain(turns, zip(self._from_zero(problem), repeat(True))):
            if method is None:
                doubtful = least / max(goal / _ROUGH, 1.0) > _UNSOLVED
                if best is not None and doubtful and problem.infeasible():
                    how, status = " → ".join(story), "infeasible: proven"
                    return changed(best, how=how, status=status, claim="infeasible")
                continue
            if method.capability.unknown_cones(problem.K):
                continue
            turn = run
            if best is not None:
                near = WarmStart(best.forces, None, problem.contact_ids)
                from_zero = from_zero or method.name == InteriorPoint.name
                turn = changed(run, start=None if from_zero else near)
            try:
                result, worst = _certified(method, problem, turn, enough)
            except BREAKDOWN as error:
                story.append(f"{method.name}: {type(error).__name__}")
                trouble.append(error)
                continue
            prepared = turn.prepared if prepared is None else prepared
            run.threads, run.solved = max(run.threads, turn.threads), turn.solved
            steps = result.iterations or 0
            spent += steps
            story.append(f"{method.name}: {result.how or f'{steps:,} iterations'}")
            run.report(f"{story[-1]}, residual {worst:.1e}")
            if best is None or worst < least:
                best, least = result, worst
            if least <= (goal if len(story) == 1 else enough) or run.deadline.passed:
                break
        if best is None:
            raise trouble[-1]
        run.prepared = run.prepared if prepared is None else prepared
        doubt = problem.doubt() if least > enough and not run.deadline.passed else ""
        status = f"stopped at residual {least:.1e}" + (f"; {doubt}" if doubt else "")
        how = " → ".join(story)
        claim: Claim = "solved" if least <= goal else "inaccurate"
        status = claim if least <= goal else status
        return changed(best, status=status, claim=claim, iterations=spent, how=how)

    def _methods(
        self, problem: NetworkProblem, least: Callable[[], float]
    ) -> Iterator[NativeBackend | None]:
        """The methods in their order, with their budgets; None where a proof is due.

        ``least`` is the residual so far.
        """
        entries = max(problem.factors.rows.data.size, 1)
        many = int(min(max(_WORK / entries, _LEAST), _MOST))
        accuracy, most = self.accuracy, self.max_steps
        if problem.by_n and problem.nc <= _FEW:
            accuracy = min(accuracy, _ENOUGH)
        loose = max(accuracy, _REACHABLE)
        first = max(_GRADIENTS, int(_GRADIENTS_GROW * np.cbrt(problem.nc)))
        if entries > _DENSE * problem.rows:  # dense matrices, whose systems cost less
            first = max(first * _DENSE * problem.rows // entries, _GRADIENTS // 2)
        gradients = _MORE * first * _PRODUCTS * entries  # what as many iterations cost, in products
        costs = _SYSTEMS * homotopy.work(problem) if accuracy >= _ROUGH else 0.0
        few = problem.nc <= _FEW
        rough = costs > gradients * (_DEARER if few and accuracy < _COARSE else 1.0)
        turns = _many_cheap(_MORE * first, accuracy)
        if rough:
            yield from turns
        else:
            near = max(accuracy, _ROUND_OFF) if problem.nc <= _LARGE else loose
            yield next(turns) if costs > gradients else _gradients(first, near)
            yield NSGS(max_sweeps=_SWEEPS, accuracy=loose, further=max(first - _SWEEPS, 0))
            more = int(_OVERHEAD / (_ITERATION + entries))
            if more > first:
                yield APGD(more, loose, further=more, resume=True)
                if problem.rows <= _TINY:
                    yield NaturalNewton(accuracy)
        fine = max(accuracy, _FINE)
        newton = Newton(fine, min(most, _STEPS), newton_steps=_NEWTON_STEPS)
        inside = InteriorPoint(fine, min(most, _INSIDE), newton_steps=_ENDING)
        cheap: list[NativeBackend] = []  # next to the path
        if not rough:
            further = _gradients(_MORE * first, max(accuracy, _ROUND_OFF), True)
            cheap = [NSGS(max_sweeps=first, accuracy=loose), further]
        far = problem.coulomb and float(problem.mu.max(initial=0.0)) > 1.0
        if few:
            if not (far and least() > _FAR):
                yield newton
            yield None
        work = max(homotopy.work(problem), 1.0)  # only here: it takes longer than first turns
        costly = _SYSTEMS * work > gradients * (_EVEN if few else 1.0)
        if few:
            yield from [*cheap, inside] if costly else [inside, *cheap]
        else:
            after = [newton, None, inside]
            yield from [*cheap[::-1], *after] if costly else [*after, *cheap]
        less = _MORE if rough else 1  # is spent on what takes longest
        along = int(_PATH_WORK / less / work) if problem.coulomb else 0
        most_along = min(max(_PATH_EACH * problem.nc, _PATH_FEW), _PATH_MOST)
        path = [Homotopy(accuracy, min(along, most_along))] if along >= _PATH_LEAST else []
        last: list[NativeBackend] = [
            ADMM(max_iterations=min(many, _SPLITTINGS), accuracy=loose),
            NSGS(max_sweeps=many, accuracy=loose),
            Newton(accuracy, most, newton_steps=_LAST // less),
        ]
        near = _NEARBY if problem.rows <= _SMALL else _UNSOLVED
        if problem.rows <= _DENSE_ROWS and least() <= near:
            yield NaturalNewton(accuracy)
        yield from [*last, *path] if least() <= _NEAR else [*path, *last]
        if problem.rows <= _DENSE_ROWS:
            yield NaturalNewton(accuracy)

    def _from_zero(self, problem: NetworkProblem) -> Iterator[NativeBackend]:
        """The last methods, for few contacts: the best forces may be a start that leads nowhere.

        That is so where the associated law has no solution and Coulomb's has one.
        """
        if problem.nc <= _VERY_FEW:
            loose = max(self.accuracy, _REACHABLE)
            yield Newton(self.accuracy, self.max_steps, newton_steps=_LAST)
            yield ADMM(max_iterations=_SPLITTINGS, accuracy=loose)
            yield NSGS(max_sweeps=_MOST, accuracy=loose)


def _many_cheap(first: int, accuracy: float) -> Iterator[NativeBackend]:
    """The first turns at a low accuracy; each goes on as long as its rate promises a solution."""
    for most, order in ((2 * first, "given"), (4 * first, "shuffled"), (4 * first, "reversed")):
        sure = most // _SURE
        yield APGD(sure, accuracy, further=most - sure)
        yield NSGS(max_sweeps=sure, accuracy=accuracy, order=order, further=most - sure)


@lru_cache
def _gradients(first: int, accuracy: float, resume: bool = False) -> APGD:
    """The method of the first turn, and of a later one, which goes on where that ended."""
    return APGD(first, accuracy, further=_FURTHER * first, resume=resume)


def _certified(
    method: NativeBackend, problem: NetworkProblem, run: Run, enough: float
) -> tuple[Run, float]:
    """The answer of a method, which goes on where its own test is met before the certificate."""
    spent = 0
    for _ in range(ROUNDS):
        result = method._solve(problem, run)
        worst = problem.worst_residual(result.forces, enough)
        spent += result.iterations or 0
        if result.claim != "solved" or worst <= enough or method.accuracy <= CERTIFIED_FROM:
            break
        sharper = method.sharper(sharpened(method.accuracy, enough, worst), spent)
        if sharper is None:
            break
        method, run.start = sharper, WarmStart(result.forces, None, problem.contact_ids)
    return result if result.iterations == spent else changed(result, iterations=spent), worst
