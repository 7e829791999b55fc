"""Classic contact dynamics at rest, where the answer depends on solver, order and start."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

import cdopt
from cdopt.backends import APGD, PGS
from cdopt.problem.certificate import TOLERANCE
from cdopt.problem.solution import WarmStart

from ..report import Arrays
from .pile import HOOKE, Pile

COLD, CARRIED = "from zero", "carried through the drop"
FALLING = (0.006, 0.008, 0.010, 0.012)  # s, steps of the drop whose forces are starts
SHUFFLES = 3  # random orders from zero


@dataclass(frozen=True)
class Case:
    """A solver ("apgd" or "pgs"), its order of visits and its start.

    ``t`` is the time of the falling step whose forces are the start, s.
    """

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
    def file(self) -> str:
        """The name of its file."""
        order = f"-{self.order}{self.seed or ''}" if self.order else ""
        start = {COLD: "zero", CARRIED: "carried"}.get(self.start, f"from-{1e3 * self.t:g}-ms")
        return f"classic-{self.solver}{order}-{start}"

    @property
    def visits(self) -> str:
        """The order of visits, of a random one with its seed."""
        return f"shuffled (seed {self.seed})" if self.order == "shuffled" else self.order

    @property
    def description(self) -> str:
        """Solver, order and start in a few words."""
        order = f", {self.visits} order" if self.order else ""
        return f"{self.solver.upper()}{order}, {self.start}"


class Answer(NamedTuple):
    """Forces f (nc,) m g on the settled contacts; iterations and certificate of the last solve."""

    case: Case
    f: np.ndarray
    iterations: int
    residual: float

    @property
    def certified(self) -> bool:
        """Whether its certificate holds."""
        return self.residual <= TOLERANCE


def answers(pile: Pile) -> list[Answer]:
    """APGD, and PGS in several orders, from several starts."""
    results = [(case, _result(pile, case)) for case in _cases(pile.settings.seed)]
    return [
        Answer(case, np.asarray(r["f"]), int(r["iterations"]), float(r["residual"]))
        for case, r in results
    ]


def column(pile: Pile, solver: str) -> Answer:
    """The answer in a solver's column: from zero, in the given order."""
    return next(answer for answer in answers(pile) if answer.case.solver == solver)


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
    name = f"{case.file}-n{pile.settings.n}"
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
    """A separate drop, every step started from the forces of the step before."""
    s = pile.settings
    options = {"backend": case.backend, "warm_start": True, "on_failure": "continue"}
    run = cdopt.simulate(pile.scene(HOOKE), s.dt, s.length, "classic-cd", **options)
    rows = run.diagnostics
    return {
        "f": pile.on_network(HOOKE, run.final.f),
        "iterations": rows["iterations_classic"][-1],
        "residual": rows["residual_classic"][-1],
    }
