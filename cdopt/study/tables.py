"""The tables of a study, what it does not show, and how it was made."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
import pandas as pd

from cdopt._util.formatting import count
from cdopt.study.plan import MODES
from cdopt.study.record import NEAR
from cdopt.study.results import Results, solver_of, tolerance_of
from cdopt.study.statistics import (
    Profile,
    performance_profiles,
    power_fit,
    shifted_geometric_mean,
)
from cdopt.study.table import Table

SHIFTS = (1.0, 0.01)  # s
CONFIDENCE = 0.95
FEWEST = 3  # sizes from which an exponent is fitted
WITHIN = 10.0  # times the fastest
_PLACES = ("first", "second", "third")
_FAILED = ["error", "crash", "timeout", "memory"]

Rows = list[tuple[Any, ...]]


def tables(study: Results) -> tuple[Table, ...]:
    """All tables of a study, those without rows included."""
    return (
        overview(study), quickest(study), success(study), means(study), profiles(study),
        exponents(study), forces(study), spread(study), starts(study), calls(study),
        repeats(study), failures(study),
    )  # fmt: skip


def overview(study: Results) -> Table:
    """A line for each solver, in the formulation that most runs have."""
    form = study.plain["formulation"].mode().get(0, "")
    runs = study.plain.query("formulation == @form and call == 'cvxpy'")
    levels = [t for t in study.tolerances if (runs["tolerance"] == t).any()]
    middle = levels[len(levels) // 2] if levels else ""
    by_solver = profiles_of(study, middle, form)
    rows: Rows = []
    for name, asked in _groups(runs, "solver"):
        able = asked[asked["outcome"] != "refused"]
        if able.empty:
            continue
        solved = able["outcome"] == "solved"
        distance = able.loc[solved & (able["undetermined"] != 0), "distance"]
        profile = by_solver.get(name)
        rows.append((
            name,
            *(_percent(solved[able["tolerance"] == level]) for level in levels),
            _honest(able),
            profile and 100.0 * profile.wins,
            profile and 100.0 * profile.at(WITHIN),
            distance.median() if distance.notna().any() else np.nan,
            distance.max(),
            len(asked) - len(able),
        ))  # fmt: skip
    rows.sort(key=lambda row: tuple(-np.nan_to_num(cell) for cell in row[1 : 2 + len(levels)]))
    return Table(
        "overview", "At a glance",
        f"{form}, a line for each solver. Solved: share of the problems that the solver takes "
        "whose certificate holds at the tolerance asked. Honest: share of its claims of success "
        f"that the certificate confirms to within {NEAR:g} times that tolerance. "
        f"Fastest, and within {WITHIN:g}×: share of the problems at {middle} "
        "(performance profile). Distance: of its certified forces from the compatible ones, "
        "relative, median and largest over problems whose forces are not unique.",
        ("solver", *(f"solved at {level} [%]" for level in levels), "honest [%]",
         "fastest [%]", f"within {WITHIN:g}× [%]", "distance", "largest distance", "refused"),
        rows,
    )  # fmt: skip


def quickest(study: Results) -> Table:
    """The quickest certified solvers of each problem, at each tolerance, cold and warm."""
    runs = study.frame
    runs = runs[runs["seed"].isna() & ~runs["outcome"].isin(["missing", "refused"])]
    rows: Rows = []
    for (question, tolerance, mode), asked in _groups(runs, "question", "tolerance", "mode"):
        if len(asked) < 2:
            continue
        solved = asked[(asked["outcome"] == "solved") & (asked["seconds"] > 0.0)]
        best = solved.sort_values("seconds", kind="stable")[: len(_PLACES)]
        cells = best[["solver", "seconds"]].to_numpy().ravel().tolist()
        cells += [None] * (2 * len(_PLACES) - len(cells))
        size = _whole(asked["contacts"].max())
        rows.append((question, size, tolerance, mode, *cells, len(solved), len(asked)))
    places = [column for place in _PLACES for column in (place, f"{place} [s]")]
    return Table(
        "quickest", "The quickest",
        "Of the solvers asked, those whose certificate holds at the tolerance asked, by the "
        "time of the whole solve.",
        ("problem", "contacts", "tolerance", "start", *places, "solved", "asked"),
        rows,
    )  # fmt: skip


def success(study: Results) -> Table:
    """How often each solver solved, and how often its claims were true."""
    rows: Rows = []
    for tolerance in study.tolerances:
        for name, runs in _groups(study.at(tolerance), "solver"):
            outcome = runs["outcome"]
            counts, near = outcome.value_counts(), runs["near"].sum()
            modest = (outcome == "solved") & ~runs["claimed"]
            rows.append((
                name, tolerance, len(runs), counts.get("solved", 0), near,
                counts.get("wrong", 0) - near, counts.get("gave up", 0), modest.sum(),
                counts.get("refused", 0), outcome.isin(_FAILED).sum(),
                _percent(outcome == "solved"), _honest(runs),
            ))  # fmt: skip
    return Table(
        "success", "Success and honesty",
        "Solved: the certificate holds at the tolerance asked, whatever the solver said. Near: the "
        f"solver claims success, and the certificate misses by less than {NEAR:g} times, which may "
        "come from different definitions. False: it misses by more. Modest: the certificate holds "
        "and the solver claims nothing. Honest: share of its claims of success that are not false.",
        ("solver", "tolerance", "runs", "solved", "near", "false", "gave up", "modest", "refused",
         "failed", "solved [%]", "honest [%]"),
        rows,
    )  # fmt: skip


def means(study: Results) -> Table:
    """Shifted geometric means of time."""
    rows: Rows = []
    for tolerance, form in study.comparisons:
        times, runs = study.times(tolerance, form), study.at(tolerance, form)
        limits = runs.pivot_table("time_limit", "question", "solver", aggfunc="last")
        counted = times.where(np.isfinite(times), limits)
        mean = pd.DataFrame({s: counted.apply(shifted_geometric_mean, shift=s) for s in SHIFTS})
        over = mean / mean.min()
        alone = runs[runs["outcome"] == "solved"].groupby("solver")["solver_seconds"]
        alone = alone.apply(shifted_geometric_mean, shift=SHIFTS[1])
        for name in times:
            both = [cell for s in SHIFTS for cell in (mean.loc[name, s], over.loc[name, s])]
            solved = np.isfinite(times[name]).sum()
            rows.append((name, tolerance, form, len(times), solved, *both, alone.get(name)))
    one, small = (f"{shift:g} s" for shift in SHIFTS)
    return Table(
        "means", "Time: shifted geometric means",
        f"exp(mean ln(t + shift)) − shift of the whole solve, with shifts of {one} and {small}: "
        f"with {one} all solves far below a second count alike. An unsolved problem counts with "
        "its time limit. Only problems that all solvers of the formulation were asked, except "
        "those that were asked few. Solver alone: without stating, compiling and certifying, over "
        f"what it solved, shift {small}.",
        ("solver", "tolerance", "formulation", "problems", "solved", f"mean, shift {one} [s]",
         "over the best", f"mean, shift {small} [s]", "over the best, small shift",
         "solver alone [s]"),
        rows,
    )  # fmt: skip


def profiles(study: Results) -> Table:
    """Performance profiles at a few ratios."""
    rows: Rows = []
    for tolerance, form in study.comparisons:
        for name, profile in profiles_of(study, tolerance, form).items():
            shares = [100.0 * profile.at(tau) for tau in (1.0, 2.0, 10.0, 100.0)]
            rows.append((
                name, tolerance, form, profile.problems, *shares, 100.0 * profile.solved,
            ))  # fmt: skip
    return Table(
        "profiles", "Performance profiles",
        "Share of the problems, in percent, that a solver solves within so many times the time of "
        "the fastest (Dolan & Moré 2002). Which of two solvers is better may change when a third "
        "is taken out: use a profile to find the best, not to rank the others.",
        ("solver", "tolerance", "formulation", "problems", "fastest", "within 2×", "within 10×",
         "within 100×", "ever"),
        rows,
    )  # fmt: skip


def profiles_of(study: Results, tolerance: str, form: str) -> dict[str, Profile]:
    """Performance profiles by solver, of one comparison; empty without times."""
    times = study.times(tolerance, form)
    return performance_profiles(times.to_dict("list")) if times.size else {}


def exponents(study: Results) -> Table:
    """How time grows with the number of contacts."""
    rows: Rows = []
    for (family, form, tolerance, name), points in growth(study):
        contacts = points["contacts"]
        fit = power_fit(contacts, points["seconds"], CONFIDENCE)
        rows.append((
            family, form, name, tolerance, fit.points, int(contacts.min()), int(contacts.max()),
            fit.exponent, fit.low, fit.high,
        ))  # fmt: skip
    return Table(
        "exponents", "Growth with size",
        "Exponent of time against the number of contacts, by least squares on logarithms, with its "
        f"{CONFIDENCE:.0%} interval (Student's t). Solved runs, families of at least {FEWEST} "
        "sizes. Overheads dominate small problems, which flattens the line.",
        ("family", "formulation", "solver", "tolerance", "points", "fewest contacts",
         "most contacts", "exponent", "low", "high"),
        rows,
    )  # fmt: skip


def growth(study: Results) -> Iterator[tuple[tuple[str, str, str, str], pd.DataFrame]]:
    """Solved runs by family, formulation, tolerance and solver, of families with enough sizes."""
    runs = study.plain
    runs = runs[(runs["outcome"] == "solved") & (runs["seconds"] > 0.0) & (runs["contacts"] > 0)]
    for key, points in _groups(runs, "family", "formulation", "tolerance", "solver"):
        if points["contacts"].nunique() >= FEWEST:
            yield key, points


def forces(study: Results) -> Table:
    """Which of the admissible forces each solver selected."""
    runs = study.plain[study.plain["distance"].notna()]
    rows = [
        (r.question, r.solver, r.tolerance, r.outcome == "solved", r.largest, r.ratio, r.distance,
         r.distance_max, _whole(r.undetermined), np.mean(r.positions) if r.positions else None,
         r.outside)
        for r in runs.itertuples()
    ]  # fmt: skip
    return Table(
        "forces", "Which force was selected",
        "Distance to the compatible forces, 2-norm and largest, relative. Ratio: largest force "
        "over the largest compatible one. Position: mean position of undetermined forces in their "
        "admissible intervals, 0 the lower and 1 the upper end. Outside: how far a force lies "
        "outside its interval, over the largest upper bound.",
        ("problem", "solver", "tolerance", "certified", "largest [N]", "ratio", "distance",
         "largest distance", "undetermined", "position", "outside"),
        rows,
    )  # fmt: skip


def spread(study: Results) -> Table:
    """How far certified solvers disagree about the force."""
    solved = study.plain[(study.plain["outcome"] == "solved") & study.plain["ratio"].notna()]
    rows: Rows = []
    for (question, tolerance), runs in _groups(solved, "question", "tolerance"):
        if len(runs) < 2:
            continue
        least, greatest = runs["ratio"].min(), runs["ratio"].max()
        positions = [position for position in runs["positions"] if position]
        apart = None
        if len(positions) > 1 and len(set(map(len, positions))) == 1:
            apart = np.ptp(np.array(positions), axis=0).mean()
        rows.append((
            question, tolerance, len(runs), least, greatest,
            greatest / least if least > 0.0 else None,
            runs["distance"].min(), runs["distance"].max(), apart,
        ))  # fmt: skip
    return Table(
        "spread", "Spread between certified solvers",
        "Of solvers whose certificates hold: least and greatest of their largest forces, over the "
        "largest compatible one; nearest and farthest from the compatible forces; and how far "
        "apart they lie in the admissible intervals, mean of greatest less least position.",
        ("problem", "tolerance", "solvers", "least", "greatest", "greatest over least", "nearest",
         "farthest", "apart"),
        rows,
    )  # fmt: skip


def starts(study: Results) -> Table:
    """Warm against cold."""
    frame = study.frame
    started = frame["mode"].isin(MODES[1:]) & (frame["cold_total"] > 0.0) & (frame["seconds"] > 0.0)
    rows: Rows = []
    for key, runs in _groups(frame[started], "solver", "mode", "tolerance"):
        iterations = runs["iterations"] / runs["cold_iterations"].where(runs["cold_iterations"] > 0)
        time = _geometric_mean(runs["seconds"] / runs["cold_total"])
        rows.append((*key, len(runs), time, iterations.mean(), runs["start"].max()))
    return Table(
        "starts", "Warm and cold starts",
        "Time over the cold time, geometric mean; iterations over the cold ones, mean; and the "
        "largest change of the forces by the start, max |f − f'| / max f'. Warm: from the "
        "problem's own answer; previous: from the step before in a recorded run.",
        ("solver", "start", "tolerance", "runs", "time ratio", "iterations ratio", "moved"),
        rows,
    )  # fmt: skip


def calls(study: Results) -> Table:
    """Through CVXPY against called directly."""
    keys = ["backend", "tolerance", "question"]
    solved = study.plain[study.plain["outcome"] == "solved"]
    ways = (solved[solved["call"] == call] for call in ("cvxpy", "direct"))
    cvxpy, direct = (runs.drop_duplicates(keys, keep="last") for runs in ways)
    rows: Rows = []
    both = cvxpy.merge(direct, on=keys, suffixes=("", "_direct"))
    for key, runs in _groups(both, "backend", "tolerance"):
        rows.append((
            *key, len(runs),
            _geometric_mean(runs["seconds"] / runs["seconds_direct"]),
            _geometric_mean(runs["solver_seconds"] / runs["solver_seconds_direct"]),
            100.0 * (1.0 - runs["solver_seconds"] / runs["seconds"]).mean(),
        ))  # fmt: skip
    return Table(
        "calls", "Through CVXPY, and by the solver's own interface",
        "Problems solved both ways, on the data that CVXPY compiled; compiling is part of both "
        "times. Time through CVXPY over that by the solver's own interface, geometric means: of "
        "the whole solve, and of the solver alone. Share: the part of the time through CVXPY that "
        "is not the solver's.",
        ("solver", "tolerance", "problems", "whole", "solver alone", "share [%]"),
        rows,
    )  # fmt: skip


def repeats(study: Results) -> Table:
    """Whether the same question gets the same answer."""
    rows: Rows = []
    for name, runs in _groups(study.frame, "solver"):
        identical, order = runs["identical"].dropna(), runs["order"].dropna()
        if len(identical) or len(order):
            rows.append((
                name, len(identical), identical.sum(), runs["repeats"].max(), len(order),
                order.max(),
            ))  # fmt: skip
    return Table(
        "repeats", "Repeats and the order of contacts",
        "Runs repeated and, of these, those whose forces were the same bit by bit; the largest "
        "difference of a repeat; and of runs with the contacts in another order, the largest "
        "difference from the answer in the problem's own order, max |f − f'| / max f'.",
        ("solver", "repeated", "identical", "largest difference", "reordered",
         "largest difference by order"),
        rows,
    )  # fmt: skip


def failures(study: Results) -> Table:
    """Runs without a certified answer, one by one."""
    columns = ["question", "solver", "tolerance", "outcome", "status", "worst", "message"]
    runs = study.frame.loc[study.frame["outcome"] != "solved", columns]
    return Table(
        "failures", "Runs without a certified answer",
        "Outcome, the solver's status, the largest residual of its answer, and why.",
        ("problem", "solver", "tolerance", "outcome", "status", "worst residual", "message"),
        list(runs.itertuples(index=False, name=None)),
    )  # fmt: skip


def _groups(runs: pd.DataFrame, *columns: str) -> Iterator[tuple[Any, pd.DataFrame]]:
    """Runs with equal values in these columns, in order of first appearance."""
    key: Any = list(columns) if len(columns) > 1 else columns[0]
    yield from runs.groupby(key, sort=False)


def _percent(true: pd.Series) -> float:
    """The share of true entries; not-a-number of none."""
    return 100.0 * true.mean() if len(true) else np.nan


def _honest(runs: pd.DataFrame) -> float:
    """The share of claims of success that are true or nearly so, in percent."""
    return _percent(runs.loc[runs["claimed"], "honest"].astype(bool))


def _whole(number: float) -> int | None:
    return None if np.isnan(number) else int(number)


def _geometric_mean(ratios: pd.Series) -> float:
    return float(np.exp(np.log(ratios).mean()))


# --- what a study does not show ------------------------------------------------------------

ALWAYS = (
    "Solvers define their tolerances differently. One table translates the requested accuracy "
    "(cdopt backends --accuracy); success is judged by cdopt's certificate, which only cdopt's own "
    "solvers aim at.",
    "Solvers are reached through CVXPY unless a run says direct. CVXPY changes some defaults, and "
    "its compile time is part of the whole solve.",
    "Each problem is stated in units of its own scales before a solver sees it. A solver may do "
    "better or worse on the same problem in other units.",
    "A performance profile compares with the best solver of this set; taking one out can change "
    "the order of the others.",
    "Contact forces of hyperstatic problems are not unique. A certified force far from the "
    "compatible one is no error: it is another admissible force.",
    "The problems are those of this study. They are no sample of anything else.",
    "Times are wall clock on the machine below. Other load on it makes them longer.",
)


def limitations(study: Results) -> tuple[str, ...]:
    """Sentences on what the study cannot show: general ones, and those about its own runs."""
    runs, sentences = study.records, []
    hosts = {(r.machine.host, r.machine.processor) for r in runs}
    if len(hosts) > 1:
        sentences.append(f"Runs come from {len(hosts)} machines: their times are not comparable.")
    versions = {tuple(sorted(r.machine.versions.items(), key=str)) for r in runs}
    if len(versions) > 1:
        sentences.append(f"Runs were made with {len(versions)} different sets of package versions.")
    short = {r.run.repeats for r in runs if r.run.repeats < 3}
    if short:
        sentences.append(
            "Some runs were repeated fewer than three times: their times are single shots."
        )
    cut = sum(r.outcome in ("timeout", "memory") for r in runs)
    if cut:
        sentences.append(f"{count(cut, 'run')} ended at the limit of time or memory.")
    left = sum(r.outcome == "interrupted" for r in runs)
    if left:
        sentences.append(
            f"{count(left, 'run')} ended from outside, and left out: still to be made."
        )
    missing = sorted({r.run.backend for r in runs if r.outcome == "missing"})
    if missing:
        sentences.append(f"Not installed, and so not compared: {', '.join(missing)}.")
    installed = {r.run.backend for r in runs if r.outcome != "missing"}
    siconos = sorted(name for name in installed if name.startswith("siconos-"))
    if siconos:
        sentences.append(
            f"{', '.join(siconos)}: each solve starts a process, about a third of a second, which "
            "is in the time of the whole solve and not in that of the solver alone."
        )
    for tolerance, form in study.comparisons:
        asked, times = study.at(tolerance, form), study.times(tolerance, form)
        every = asked["question"].nunique()
        if len(times) < every:
            sentences.append(
                f"{form} at {tolerance}: {every - len(times)} of {every} "
                "problems were not asked of every solver; means and profiles leave them out."
            )
        few = set(asked.loc[asked["outcome"] != "refused", "solver"]) - set(times)
        if few:
            sentences.append(
                f"{form} at {tolerance}: asked fewer than half of the problems, and so in "
                f"no mean and no profile: {', '.join(sorted(few))}."
            )
    return (*sentences, *ALWAYS)


def facts(study: Results) -> dict[str, str]:
    """Machine, versions, limits, seeds and dates."""
    runs = study.records
    content: dict[str, str] = {
        "runs": str(len(runs)),
        "dates": " to ".join(dict.fromkeys((min(r.date for r in runs), max(r.date for r in runs))))
        if runs else "",
        "machine": _listed(r.machine.host for r in runs),
        "processor": _listed(f"{r.machine.processor}, {r.machine.cores} cores" for r in runs),
        "memory": _listed(f"{r.machine.memory:.0f} MB" for r in runs if r.machine.memory),
        "system": _listed(r.machine.system for r in runs),
        "Python": _listed(r.machine.python for r in runs),
        "time limit": _listed(f"{r.time_limit:g} s" for r in runs),
        "memory limit": _listed(f"{r.memory_limit:g} MB" for r in runs if r.memory_limit),
        "repeats": _listed(str(r.run.repeats) for r in runs),
        "threads": _listed("not set" if r.run.threads is None else str(r.run.threads)
                           for r in runs),
        "seeds": _listed(str(r.run.seed) for r in runs if r.run.seed is not None) or "none",
    }  # fmt: skip
    packages: dict[str, set[str]] = {}
    for r in runs:
        for name, version in r.machine.versions.items():
            packages.setdefault(name, set()).add(version or "not installed")
    content.update({name: ", ".join(sorted(packages[name])) for name in sorted(packages)})
    return {name: text for name, text in content.items() if text}


def settings(study: Results) -> Table:
    """The settings that each solver was given."""
    rows: dict[tuple[str, str, str], None] = {}
    for r in study.records:
        if r.answer is not None and r.run.mode == "cold" and r.run.seed is None:
            stated = ", ".join(f"{k} = {v}" for k, v in r.answer.settings.items()) or "its defaults"
            rows.setdefault((solver_of(r.run), tolerance_of(r.run), stated))
    return Table(
        "settings", "Settings", "What each solver was given, as it names its settings.",
        ("solver", "tolerance", "settings"), list(rows),
    )  # fmt: skip


def _listed(values: Iterable[str]) -> str:
    return ", ".join(dict.fromkeys(values))
