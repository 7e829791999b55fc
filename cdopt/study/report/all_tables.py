"""The tables of a study."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence

import numpy as np

from cdopt.study.report.chosen import Results, asked, family, question, solver
from cdopt.study.report.overview import honesty, overview, quickest
from cdopt.study.report.statistics import (
    performance_profiles,
    power_fit,
    shifted_geometric_mean,
)
from cdopt.study.report.table import Cell, Table
from cdopt.study.runs.record import NEAR, Record
from cdopt.study.runs.run import CALLS

SHIFTS = (1.0, 0.01)  # s
CONFIDENCE = 0.95
FEWEST = 3  # sizes from which an exponent is fitted


def tables(study: Results) -> tuple[Table, ...]:
    """All tables of a study, those without rows included."""
    return (
        overview(study), quickest(study), success(study), means(study), profiles(study),
        exponents(study), forces(study), spread(study), starts(study), calls(study),
        repeats(study), failures(study),
    )  # fmt: skip


def success(study: Results) -> Table:
    """How often each solver solved, and how often its word was true."""
    rows: list[tuple[Cell, ...]] = []
    for tolerance in study.tolerances:
        for name, runs in _by_solver(study.at(tolerance)).items():
            outcome = Counter(r.outcome for r in runs)
            answers = [r.answer for r in runs if r.answer is not None]
            near = sum(a.near for a in answers)
            rows.append((
                name, asked(tolerance), len(runs), outcome["solved"], near,
                outcome["wrong"] - near, outcome["gave up"],
                sum(a.ok and not a.claimed for a in answers), outcome["refused"],
                sum(outcome[word] for word in ("error", "crash", "timeout", "memory")),
                100.0 * outcome["solved"] / len(runs),
                honesty(runs),
            ))  # fmt: skip
    return Table(
        "success", "Success and honesty",
        "Solved: our certificate holds at the tolerance asked, whatever the solver said. Near: the "
        f"solver claims success, and our certificate misses by less than {NEAR:g} times, which may "
        "be a matter of definitions. False: it misses by more. Modest: the certificate holds and "
        "the solver claims nothing. Honest: of its claims of success, how many are not false.",
        ("solver", "tolerance", "runs", "solved", "near", "false", "gave up", "modest", "refused",
         "failed", "solved [%]", "honest [%]"),
        tuple(rows),
    )  # fmt: skip


def means(study: Results) -> Table:
    """Shifted geometric means of time."""
    rows: list[tuple[Cell, ...]] = []
    for tolerance, form in study.comparisons:
        limit = {(solver(r.run), question(r.run)): r.time_limit for r in study.at(tolerance, form)}
        counted, solved = {}, {}
        for name, row in study.times(tolerance, form).items():
            counted[name] = [s if math.isfinite(s) else limit[name, q] for q, s in row.items()]
            solved[name] = sum(map(math.isfinite, row.values()))
        found = [
            {name: shifted_geometric_mean(values, shift) for name, values in counted.items()}
            for shift in SHIFTS
        ]
        for name, values in counted.items():
            pairs = [(column[name], column[name] / min(column.values())) for column in found]
            alone = [median_solve(r) for r in study.at(tolerance, form)
                     if solver(r.run) == name and r.outcome == "solved"]  # fmt: skip
            rows.append((name, asked(tolerance), form, len(values), solved[name],
                         *(cell for pair in pairs for cell in pair),
                         shifted_geometric_mean(alone, SHIFTS[1]) if alone else None))  # fmt: skip
    one, small = (f"{shift:g} s" for shift in SHIFTS)
    return Table(
        "means", "Time: shifted geometric means",
        f"exp(mean ln(t + shift)) − shift of the whole solve, with shifts of {one} and {small}: "
        f"with {one} all solves far below a second count alike. An unsolved problem counts with "
        "its time limit. Only problems that all solvers of the formulation were asked, but for "
        "those that were asked few. Solver alone: without posing, compiling and certifying, over "
        f"what it solved, shift {small}.",
        ("solver", "tolerance", "formulation", "problems", "solved", f"mean, shift {one} [s]",
         "over the best", f"mean, shift {small} [s]", "over the best, small shift",
         "solver alone [s]"),
        tuple(rows),
    )  # fmt: skip


def median_solve(record: Record) -> float:
    """Seconds of the solver alone, median over the repeats."""
    return float(np.median([t.solve for t in record.times]))


def profiles(study: Results) -> Table:
    """Performance profiles at a few ratios."""
    rows: list[tuple[Cell, ...]] = []
    for tolerance, form in study.comparisons:
        times = {name: list(row.values()) for name, row in study.times(tolerance, form).items()}
        for name, profile in performance_profiles(times).items():
            shares = [100.0 * profile.at(tau) for tau in (1.0, 2.0, 10.0, 100.0)]
            rows.append((name, asked(tolerance), form, profile.problems, *shares,
                         100.0 * profile.solved))  # fmt: skip
    return Table(
        "profiles", "Performance profiles",
        "Share of the problems, in percent, that a solver solves within so many times the time of "
        "the fastest (Dolan & Moré 2002). Which of two solvers is better may change when a third "
        "is taken out: read a profile for the best, not for a ranking.",
        ("solver", "tolerance", "formulation", "problems", "fastest", "within 2×", "within 10×",
         "within 100×", "ever"),
        tuple(rows),
    )  # fmt: skip


def exponents(study: Results) -> Table:
    """How time grows with the number of contacts."""
    rows: list[tuple[Cell, ...]] = []
    for (group, form, tolerance, name), points in growth(study).items():
        x, y = np.array(points).T
        if np.unique(x).size < FEWEST:
            continue
        fit = power_fit(x, y, CONFIDENCE)
        rows.append((group, form, name, asked(tolerance), fit.points, int(x.min()), int(x.max()),
                     fit.exponent, fit.low, fit.high))  # fmt: skip
    return Table(
        "exponents", "Growth with size",
        "Exponent of time against the number of contacts, by least squares on logarithms, with its "
        f"{CONFIDENCE:.0%} interval (Student's t). Solved runs, families of at least {FEWEST} "
        "sizes. Small problems are ruled by overheads, which flattens the line.",
        ("family", "formulation", "solver", "tolerance", "points", "fewest contacts",
         "most contacts", "exponent", "low", "high"),
        tuple(rows),
    )  # fmt: skip


def growth(study: Results) -> dict[tuple[str, str, float | None, str], list[tuple[int, float]]]:
    """(contacts, seconds) of solved runs by family, formulation, tolerance and solver."""
    found: dict[tuple[str, str, float | None, str], list[tuple[int, float]]] = {}
    for r in study.plain:
        if r.outcome == "solved" and r.answer is not None and r.seconds and r.answer.contacts:
            key = (family(r.run), r.run.formulation, r.run.tolerance, solver(r.run))
            found.setdefault(key, []).append((r.answer.contacts, r.seconds))
    return found


def forces(study: Results) -> Table:
    """Which of the admissible forces each solver selected."""
    rows: list[tuple[Cell, ...]] = []
    for r in study.plain:
        if r.forces is None or r.answer is None or r.forces.distance is None:
            continue
        f = r.forces
        rows.append((
            question(r.run), solver(r.run), asked(r.run.tolerance), r.outcome == "solved",
            f.largest, f.ratio, f.distance, f.distance_max, f.undetermined, _mean(f.positions),
            f.outside,
        ))  # fmt: skip
    return Table(
        "forces", "Which force was selected",
        "Distance to the compatible forces, 2-norm and largest, relative. Ratio: largest force "
        "over the largest compatible one. Position: mean place of undetermined forces in their "
        "admissible intervals, 0 the lower and 1 the upper end. Outside: how far a force lies out "
        "of its interval, over the largest upper bound.",
        ("problem", "solver", "tolerance", "certified", "largest [N]", "ratio", "distance",
         "largest distance", "undetermined", "position", "outside"),
        tuple(rows),
    )  # fmt: skip


def spread(study: Results) -> Table:
    """How far certified solvers disagree about the force."""
    groups: dict[tuple[str, float | None], list[Record]] = {}
    for r in study.plain:
        if r.outcome == "solved" and r.forces is not None and r.forces.ratio is not None:
            groups.setdefault((question(r.run), r.run.tolerance), []).append(r)
    rows: list[tuple[Cell, ...]] = []
    for (what, tolerance), runs in groups.items():
        if len(runs) < 2:
            continue
        ratios = [r.forces.ratio for r in runs if r.forces and r.forces.ratio is not None]
        places = [r.forces.positions for r in runs if r.forces and r.forces.positions]
        apart = None
        if len(places) > 1 and len({len(p) for p in places}) == 1:
            apart = float(np.ptp(np.array(places), axis=0).mean())
        far = [r.forces.distance for r in runs if r.forces and r.forces.distance is not None]
        rows.append((what, asked(tolerance), len(runs), min(ratios), max(ratios),
                     max(ratios) / min(ratios) if min(ratios) > 0.0 else None,
                     min(far) if far else None, max(far) if far else None, apart))  # fmt: skip
    return Table(
        "spread", "Spread between certified solvers",
        "Of solvers whose certificates hold: least and greatest of their largest forces, over the "
        "largest compatible one; nearest and farthest from the compatible forces; and how far "
        "apart they lie in the admissible intervals, mean of greatest less least position.",
        ("problem", "tolerance", "solvers", "least", "greatest", "greatest over least", "nearest",
         "farthest", "apart"),
        tuple(rows),
    )  # fmt: skip


def starts(study: Results) -> Table:
    """Warm against cold."""
    groups: dict[tuple[str, str, float | None], list[tuple[float, float | None, float | None]]] = {}
    for r in study.records:
        held = r.stability
        if r.run.mode == "cold" or held is None or not held.cold_total or not r.seconds:
            continue
        count = r.answer.iterations if r.answer else None
        fewer = count / held.cold_iterations if held.cold_iterations and count is not None else None
        key = (solver(r.run), r.run.mode, r.run.tolerance)
        groups.setdefault(key, []).append((r.seconds / held.cold_total, fewer, held.start))
    rows: list[tuple[Cell, ...]] = []
    for (name, mode, tolerance), found in groups.items():
        time = _geometric([f[0] for f in found])
        moved = [f[2] for f in found if f[2] is not None]
        rows.append((name, mode, asked(tolerance), len(found), time, _mean([f[1] for f in found]),
                     max(moved) if moved else None))  # fmt: skip
    return Table(
        "starts", "Warm and cold starts",
        "Time over the cold time, geometric mean; iterations over the cold ones, mean; and how far "
        "the start moved the forces at most, max |f − f'| / max f'. Warm: from the problem's own "
        "answer; previous: from the step before in a recorded run.",
        ("solver", "start", "tolerance", "runs", "time ratio", "iterations ratio", "moved"),
        tuple(rows),
    )  # fmt: skip


def calls(study: Results) -> Table:
    """Through CVXPY against called directly."""
    pairs: dict[tuple[str, float | None], dict[str, dict[str, Record]]] = {}
    for r in study.plain:
        if r.outcome == "solved":
            key = (r.run.backend, r.run.tolerance)
            pairs.setdefault(key, {}).setdefault(question(r.run), {})[r.run.call] = r
    rows: list[tuple[Cell, ...]] = []
    for (name, tolerance), found in pairs.items():
        both = [(one["cvxpy"], one["direct"]) for one in found.values() if len(one) == len(CALLS)]
        if both:
            whole = [through.seconds / own.seconds for through, own in both
                     if through.seconds and own.seconds]  # fmt: skip
            alone = [median_solve(through) / median_solve(own) for through, own in both]
            share = [1.0 - median_solve(one) / one.seconds for one, _ in both if one.seconds]
            rows.append((name, asked(tolerance), len(both), _geometric(whole), _geometric(alone),
                         100.0 * float(np.mean(share))))  # fmt: skip
    return Table(
        "calls", "Through CVXPY, and by the solver's own interface",
        "Problems solved both ways, on the data that CVXPY compiled; making them is part of both "
        "times. Time through CVXPY over that by the solver's own interface, geometric means: of "
        "the whole solve, and of the solver alone. Share: what of the time through CVXPY is not "
        "the solver's.",
        ("solver", "tolerance", "problems", "whole", "solver alone", "share [%]"),
        tuple(rows),
    )  # fmt: skip


def repeats(study: Results) -> Table:
    """Whether the same question gets the same answer."""
    rows: list[tuple[Cell, ...]] = []
    for name, runs in _by_solver(study.records).items():
        held = [r.stability for r in runs if r.stability is not None]
        same = [s.identical for s in held if s.identical is not None]
        again = [s.repeats for s in held if s.repeats is not None]
        order = [s.order for s in held if s.order is not None]
        if same or order:
            rows.append((name, len(same), sum(same), max(again, default=None), len(order),
                         max(order, default=None)))  # fmt: skip
    return Table(
        "repeats", "Repeats and the order of contacts",
        "Runs repeated and, of these, those whose forces were the same bit by bit; the largest "
        "difference of a repeat; and of runs with the contacts in another order, the largest "
        "difference from the answer in the problem's own order, max |f − f'| / max f'.",
        ("solver", "repeated", "identical", "largest difference", "reordered",
         "largest difference by order"),
        tuple(rows),
    )  # fmt: skip


def failures(study: Results) -> Table:
    """Runs without a certified answer, one by one."""
    rows = tuple(
        (question(r.run), solver(r.run), asked(r.run.tolerance), r.outcome,
         None if r.answer is None else r.answer.status,
         None if r.answer is None else r.answer.worst, r.message)
        for r in study.records
        if r.outcome != "solved"
    )  # fmt: skip
    return Table(
        "failures", "Runs without a certified answer",
        "Outcome, the solver's own words, the largest residual that we measured, and why.",
        ("problem", "solver", "tolerance", "outcome", "status", "worst residual", "message"),
        rows,
    )  # fmt: skip


def _by_solver(records: Iterable[Record]) -> dict[str, list[Record]]:
    found: dict[str, list[Record]] = {}
    for record in records:
        found.setdefault(solver(record.run), []).append(record)
    return found


def _geometric(values: Sequence[float]) -> float:
    return float(np.exp(np.mean(np.log(values))))


def _mean(values: Sequence[float | None] | None) -> float | None:
    known = [value for value in values or () if value is not None]
    return float(np.mean(known)) if known else None
