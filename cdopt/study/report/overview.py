"""The tables that answer at a glance: a line for each solver, and the quickest at each size."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import numpy as np

from cdopt.study.report.chosen import Results, asked, question, solved_in, solver
from cdopt.study.report.statistics import performance_profiles
from cdopt.study.report.table import Cell, Table
from cdopt.study.runs.record import NEAR, Record

WITHIN = 10.0  # times the fastest
PLACES = 3  # solvers named at each size


def overview(study: Results) -> Table:
    """A line for each solver, in the formulation that most runs have."""
    form = _usual(study)
    runs = [r for r in study.plain if r.run.formulation == form and r.run.call == "cvxpy"]
    levels = [t for t in study.tolerances if any(r.run.tolerance == t for r in runs)]
    middle = levels[len(levels) // 2] if levels else None
    times = {name: list(row.values()) for name, row in study.times(middle, form).items()}
    profiles = performance_profiles(times) if any(times.values()) else {}
    rows: list[tuple[Cell, ...]] = []
    for name in dict.fromkeys(solver(r.run) for r in runs):
        own = [r for r in runs if solver(r.run) == name]
        able = [r for r in own if r.outcome != "refused"]
        if not able:
            continue
        profile = profiles.get(name)
        far = _distances(able)
        rows.append((
            name,
            *(_solved([r for r in able if r.run.tolerance == level]) for level in levels),
            honesty(able),
            None if profile is None else 100.0 * profile.at(1.0),
            None if profile is None else 100.0 * profile.at(WITHIN),
            float(np.median(far)) if far else None,
            max(far, default=None),
            len(own) - len(able),
        ))  # fmt: skip
    rows.sort(key=lambda row: tuple(-float(c or 0.0) for c in row[1 : 2 + len(levels)]))
    return Table(
        "overview", "At a glance",
        f"{form}, a line for each solver. Solved: our certificate holds at the accuracy asked for, "
        "of the problems that the solver takes. Honest: of its claims of success, how many our "
        f"certificate confirms to within {NEAR:g} times that accuracy. "
        f"Fastest, and within {WITHIN:g}×: share of the problems at {asked(middle)} "
        "(performance profile). Distance: of its certified forces from the compatible ones, "
        "relative, median and largest over problems whose forces are not unique.",
        ("solver", *(f"solved at {asked(level)} [%]" for level in levels), "honest [%]",
         "fastest [%]", f"within {WITHIN:g}× [%]", "distance", "largest distance", "refused"),
        tuple(rows),
    )  # fmt: skip


def quickest(study: Results) -> Table:
    """The quickest certified solvers of each problem, at each accuracy, cold and warm."""
    groups: dict[tuple[str, float | None, str], list[Record]] = {}
    for r in study.records:
        if r.run.seed is None and r.outcome not in ("missing", "refused"):
            groups.setdefault((question(r.run), r.run.tolerance, r.run.mode), []).append(r)
    rows: list[tuple[Cell, ...]] = []
    for (what, tolerance, mode), runs in groups.items():
        if len(runs) < 2:
            continue
        best = sorted((r for r in runs if r.outcome == "solved" and r.seconds), key=solved_in)
        size = max((r.answer.contacts for r in runs if r.answer is not None), default=None)
        named: list[Cell] = []
        for place in range(PLACES):
            found = best[place] if place < len(best) else None
            named += [None if found is None else solver(found.run),
                      None if found is None else found.seconds]  # fmt: skip
        rows.append((what, size, asked(tolerance), mode, *named, len(best), len(runs)))
    head = [word for k in ("first", "second", "third") for word in (k, f"{k} [s]")]
    return Table(
        "quickest", "The quickest",
        "Of the solvers asked, those whose certificate holds at the accuracy asked for, by the "
        "time of the whole solve.",
        ("problem", "contacts", "tolerance", "start", *head, "solved", "asked"),
        tuple(rows),
    )  # fmt: skip


def _usual(study: Results) -> str:
    counts = Counter(r.run.formulation for r in study.plain)
    return counts.most_common(1)[0][0] if counts else ""


def _solved(runs: Sequence[Record]) -> float | None:
    return 100.0 * float(np.mean([r.outcome == "solved" for r in runs])) if runs else None


def honesty(runs: Sequence[Record]) -> float | None:
    """Of the claims of success, how many are true or nearly so, in per cent."""
    claims = [r.answer.honest for r in runs if r.answer is not None and r.answer.claimed]
    return 100.0 * float(np.mean(claims)) if claims else None


def _distances(runs: Sequence[Record]) -> list[float]:
    """Of certified forces, where they could have been others."""
    return [
        r.forces.distance
        for r in runs
        if r.outcome == "solved" and r.forces is not None and r.forces.distance is not None
        and r.forces.undetermined != 0
    ]  # fmt: skip
