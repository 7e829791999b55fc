"""Classic contact dynamics at rest, where its answer depends on solver, order and start."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from cdopt._util.checks import FloatArray
from cdopt.backends import APGD, PGS
from cdopt.dynamics import simulate
from cdopt.formulations import ClassicCD
from cdopt.problem.certificate import TOLERANCE
from cdopt.problem.warm_start import WarmStart

from .pile import Pile
from .settings import MATERIALS
from .store import Arrays

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
        """The settings."""
        return PGS(order=self.order, seed=self.seed) if self.solver == "pgs" else APGD()

    @property
    def visits(self) -> str:
        """The order in words."""
        return f"{self.order} (seed {self.seed})" if self.order == "shuffled" else self.order

    @property
    def name(self) -> str:
        """A name for its file."""
        order = f"-{self.order}{self.seed or ''}" if self.order else ""
        start = {COLD: "zero", CARRIED: "carried"}.get(self.start, f"from-{1e3 * self.t:g}-ms")
        return f"classic-{self.solver}{order}-{start}"


@dataclass(frozen=True, eq=False)
class Answer:
    """One solver's forces on the step at rest.

    Attributes
    ----------
    solver : "apgd" or "pgs". order : of the visits; "" for APGD.
    start : where the iteration started.
    f : (nc,) m g, on the settled contacts.
    iterations, seconds, residual : of the last solve; its certificate.
    """

    solver: str
    order: str
    start: str
    f: FloatArray
    iterations: int
    seconds: float
    residual: float

    @property
    def certified(self) -> bool:
        """Whether its certificate holds."""
        return self.residual <= TOLERANCE

    @property
    def words(self) -> str:
        """Solver, order and start in a few words."""
        order = f", {self.order} order" if self.order else ""
        return f"{self.solver.upper()}{order}, {self.start}"


def answers(pile: Pile) -> list[Answer]:
    """APGD and PGS in several orders, from several starts; the first of each solver is the one
    that stands in its column: from zero, in the given order.
    """
    result = []
    for case in _cases(pile.settings.seed):
        found = _one(pile, case)
        result.append(
            Answer(
                case.solver, case.visits, case.start, np.asarray(found["f"]),
                int(found["iterations"]), float(found["solve_seconds"]), float(found["residual"]),
            )
        )  # fmt: skip
    return result


def column(found: list[Answer], solver: str) -> Answer:
    """The answer in a solver's column."""
    return next(answer for answer in found if answer.solver == solver)


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


def _one(pile: Pile, case: Case) -> Arrays:
    def make() -> Arrays:
        return _carried(pile, case) if case.start == CARRIED else _at_rest(pile, case)

    made_with = pile.made_with(backend=repr(case.backend), start=case.start)
    return pile.store.get(f"{case.name}-n{pile.settings.n}", made_with, make)


def _at_rest(pile: Pile, case: Case) -> Arrays:
    """The step at rest alone, from zero or from classic forces of an earlier step."""
    run, step = pile.drop(MATERIALS[0]), pile.rest(MATERIALS[0])  # no material changes it
    start = None
    if case.t > 0.0:
        frame = run[int(np.argmin(np.abs(run.t - case.t)))]
        start = WarmStart(frame.f_classic, contact_ids=frame.contact_ids)
    found = ClassicCD(step).solve(case.backend, warm_start=start)
    held = found.certificate
    forces = np.full(step.nc, np.nan) if found.f is None else found.f
    return {
        "f": pile.on_network(MATERIALS[0], forces),
        "iterations": -1 if found.iterations is None else found.iterations,
        "solve_seconds": found.seconds,
        "residual": np.nan if held is None else held.worst,
    }


def _carried(pile: Pile, case: Case) -> Arrays:
    """A drop of its own, every step started from the forces of the step before."""
    s = pile.settings
    run = simulate(
        pile.scene(MATERIALS[0]), s.dt, s.length, "classic-cd", backend=case.backend,
        warm_start=True, on_failure="continue",
    )  # fmt: skip
    rows = run.diagnostics
    return {
        "f": pile.on_network(MATERIALS[0], run.final.f),
        "iterations": rows["iterations_classic"][-1],
        "solve_seconds": rows["seconds_classic"][-1],
        "residual": rows["residual_classic"][-1],
    }
