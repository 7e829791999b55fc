"""Classic contact dynamics at rest, where the answer depends on solver, order and start."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

import cdopt
from cdopt.backends import APGD, PGS
from cdopt.problem.certificate import TOLERANCE
from cdopt.problem.warm_start import WarmStart

from ..report import Arrays
from .pile import HOOKE, Pile

COLD, CARRIED = "from zero", "carried through the drop"
FALLING = (0.006, 0.008, 0.010, 0.012)  # s, steps of the drop whose forces are starts
SHUFFLES = 3  # random orders from zero


@dataclass(frozen=True)
class Case:
    """A solver, its order of visits and its start; t is the time of a falling step, s."""

    solver: str
    order: str = ""
    seed: int = 0
    start: str = COLD
    t: float = 0.0

    @property
    def backend(self) -> APGD | PGS:
        """The solver's settings."""
        return PGS(order=self.order, seed=self.seed) if self.solver == "pgs" else APGD()

    @property
    def name(self) -> str:
        """The name of its file."""
        order = f"-{self.order}{self.seed or ''}" if self.order else ""
        start = {COLD: "zero", CARRIED: "carried"}.get(self.start, f"from-{1e3 * self.t:g}-ms")
        return f"classic-{self.solver}{order}-{start}"


@dataclass(frozen=True, eq=False)
class Answer:
    """One solver's forces on the step at rest.

    Attributes
    ----------
    solver : "apgd" or "pgs". order : of the visits; "" for APGD. start : of the iteration.
    f : (nc,) m g, on the settled contacts.
    iterations, residual : of the last solve; its certificate.
    """

    solver: str
    order: str
    start: str
    f: np.ndarray
    iterations: int
    residual: float

    @property
    def certified(self) -> bool:
        """Whether its certificate holds."""
        return self.residual <= TOLERANCE

    @property
    def description(self) -> str:
        """Solver, order and start in a few words."""
        order = f", {self.order} order" if self.order else ""
        return f"{self.solver.upper()}{order}, {self.start}"


def answers(pile: Pile) -> list[Answer]:
    """APGD, and PGS in several orders, from several starts."""
    found = []
    for case in _cases(pile.settings.seed):
        order = f"{case.order} (seed {case.seed})" if case.order == "shuffled" else case.order
        result = _result(pile, case)
        found.append(
            Answer(
                case.solver, order, case.start, np.asarray(result["f"]),
                int(result["iterations"]), float(result["residual"]),
            )
        )  # fmt: skip
    return found


def column(pile: Pile, solver: str) -> Answer:
    """The answer in a solver's column: from zero, in the given order."""
    return next(answer for answer in answers(pile) if answer.solver == solver)


def _cases(seed: int) -> list[Case]:
    apgd, given, back = Case("apgd"), Case("pgs", "given"), Case("pgs", "reversed")
    shuffled = [Case("pgs", "shuffled", seed + k) for k in range(SHUFFLES)]
    falling = [
        replace(case, start=f"from the forces of the drop at {1e3 * t:g} ms", t=t)
        for t in FALLING
        for case in (apgd, given)
    ]
    carried = [replace(case, start=CARRIED) for case in (apgd, given, back, shuffled[0])]
    return [apgd, given, back, *shuffled, *falling, *carried]


def _result(pile: Pile, case: Case) -> Arrays:
    way = _carried if case.start == CARRIED else _at_rest
    settings = pile.made_with(backend=repr(case.backend), start=case.start)
    name = f"{case.name}-n{pile.settings.n}"
    return pile.store.get(name, settings, lambda: way(pile, case))


def _at_rest(pile: Pile, case: Case) -> Arrays:
    """The step at rest alone, from zero or from classic forces of an earlier step."""
    run, step = pile.drop(HOOKE), pile.rest(HOOKE)
    start = None
    if case.t > 0.0:
        frame = run[int(np.argmin(np.abs(run.t - case.t)))]
        start = WarmStart(frame.f_classic, contact_ids=frame.contact_ids)
    answer = cdopt.ClassicCD(step).solve(case.backend, warm_start=start)
    return {
        "f": pile.on_network(HOOKE, answer.f),
        "iterations": answer.iterations,
        "residual": answer.certificate.worst,
    }


def _carried(pile: Pile, case: Case) -> Arrays:
    """A drop of its own, every step started from the forces of the step before."""
    s = pile.settings
    run = cdopt.simulate(
        pile.scene(HOOKE), s.dt, s.length, "classic-cd", backend=case.backend, warm_start=True,
        on_failure="continue",
    )  # fmt: skip
    rows = run.diagnostics
    return {
        "f": pile.on_network(HOOKE, run.final.f),
        "iterations": rows["iterations_classic"][-1],
        "residual": rows["residual_classic"][-1],
    }
