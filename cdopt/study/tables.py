"""The tables of a study, its limitations, and how it was made."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np
import pandas as pd

from cdopt._util.formatting import count
from cdopt.study.plan import MODES
from cdopt.study.record import LIMITED
from cdopt.study.results import Results, solver_of, tolerance_of
from cdopt.study.statistics import Profile, performance_profiles, power_fit, shifted_geometric_mean
from cdopt.study.table import Table

FEWEST = 3  # sizes from which an exponent is fitted

Runs: TypeAlias = pd.DataFrame
Rows = list[tuple[Any, ...]]
Columns = Mapping[str, Callable[[Runs], Any]]  # by name: of the runs in a row


Made = tuple[Sequence[str], Sequence[tuple[Any, ...]]]  # a header and rows


def table(make: Callable[[Results], tuple[Any, ...]]) -> Callable[[Results], Table]:
    """A function of this name that makes a table: its docstring is the title and what it shows.

    A third entry of what ``make`` returns fills the places in braces.
    """
    title, _, about = inspect.cleandoc(make.__doc__ or make.__name__).partition("\n")

    @functools.wraps(make)
    def made(study: Results) -> Table:
        header, rows, *known = make(study)
        text = " ".join(about.format(**(known[0] if known else {})).split())
        return Table(make.__name__, title.rstrip("."), text, header, rows)

    return made


@table
def overview(study: Results) -> tuple[Any, ...]:
    """At a glance.

    {form}, a line for each solver. Solved: share of the supported problems whose
    certificate is ok at the requested tolerance. Honest: share of its claims of success that the
    certificate confirms to within ten times that tolerance. Fastest, and within 10×: share of the
    problems at {middle} (performance profile). Distance: of its certified forces from the
    compatible ones, relative, median and largest over problems whose forces are not unique.
    """
    form = study.plain["formulation"].mode().get(0, "")
    runs = study.plain[(study.plain["formulation"] == form) & (study.plain["call"] == "cvxpy")]
    levels = [t for t in study.tolerances if (runs["tolerance"] == t).any()]
    middle = levels[len(levels) // 2] if levels else ""
    by_solver = profiles_of(study, middle, form)

    def solved(level: str) -> Callable[[Runs], float]:
        return lambda r: _percent(_is(_able(r[r["tolerance"] == level]), "solved"))

    def fast(within: float) -> Callable[[Runs], float | None]:
        names = {name: 100.0 * profile.at(within) for name, profile in by_solver.items()}
        return lambda r: names.get(r["solver"].iloc[0])

    def distance(r: Runs) -> pd.Series:
        return r.loc[_is(r, "solved") & (r["undetermined"] != 0), "distance"]

    def typical(r: Runs) -> float:
        known = distance(r).dropna()
        return known.median() if len(known) else np.nan  # old pandas warns of the median of none

    columns: Columns = {
        **{f"solved at {level} [%]": solved(level) for level in levels},
        "honest [%]": lambda r: _honest(_able(r)),
        "fastest [%]": fast(1.0),
        "within 10× [%]": fast(10.0),
        "distance": typical,
        "largest distance": lambda r: distance(r).max(),
        "refused": lambda r: len(r) - len(_able(r)),
    }
    header, rows = _grouped(runs[runs["solver"].isin(_able(runs)["solver"])], ["solver"], columns)
    rows.sort(key=lambda row: tuple(-np.nan_to_num(cell) for cell in row[1 : 2 + len(levels)]))
    return header, rows, {"form": form, "middle": middle}


@table
def quickest(study: Results) -> Made:
    """The quickest.

    Solvers whose certificate is ok at the requested tolerance, by the time of the
    whole solve.
    """

    def place(k: int, column: str) -> Callable[[Runs], Any]:
        def cell(r: Runs) -> Any:
            best = r[_is(r, "solved") & (r["seconds"] > 0.0)].sort_values("seconds", kind="stable")
            return best[column].iloc[k] if k < len(best) else None

        return cell

    columns: dict[str, Callable[[Runs], Any]] = {"contacts": lambda r: _whole(r["contacts"].max())}
    for k, name in enumerate(("first", "second", "third")):
        columns |= {name: place(k, "solver"), f"{name} [s]": place(k, "seconds")}
    columns |= {"solved": lambda r: (_is(r, "solved") & (r["seconds"] > 0.0)).sum(), "asked": len}
    runs = study.frame[study.frame["seed"].isna() & ~_is(study.frame, "missing", "refused")]
    return _grouped(runs, ["question", "tolerance", "mode"], columns, least=2)


@table
def success(study: Results) -> Made:
    """Success and honesty.

    Solved: the certificate is ok at the requested tolerance, whatever the solver claims. Near: the
    solver claims success, and the certificate misses by less than ten times, which different
    definitions may explain. False: it misses by more. Modest: the certificate is ok and the solver
    claims nothing. Honest: share of its claims of success that are not false.
    """
    columns: Columns = {
        "runs": len,
        "solved": lambda r: _is(r, "solved").sum(),
        "near": lambda r: r["near"].sum(),
        "false": lambda r: _is(r, "wrong").sum() - r["near"].sum(),
        "gave up": lambda r: _is(r, "gave up").sum(),
        "modest": lambda r: (_is(r, "solved") & ~r["claimed"]).sum(),
        "refused": lambda r: _is(r, "refused").sum(),
        "failed": lambda r: _is(r, "error", "crash", "timeout", "memory").sum(),
        "solved [%]": lambda r: _percent(_is(r, "solved")),
        "honest [%]": _honest,
    }
    runs = pd.concat([study.at(tolerance) for tolerance in study.tolerances] or [study.plain])
    return _grouped(runs, ["tolerance", "solver"], columns)


@table
def means(study: Results) -> Made:
    """Time: shifted geometric means.

    exp(mean ln(t + shift)) − shift of the whole solve, the median of its repeats, with shifts of
    1 s and 0.01 s: with 1 s all solves far below a second count alike. An unsolved problem, or one
    solved later, counts with the smallest time limit of all runs. Only problems that all solvers
    of the formulation were given, except solvers with few problems.
    Solver alone: without stating, compiling and certifying, over what it solved, shift 0.01 s.
    """
    rows: Rows = []
    for tolerance, form in study.comparisons:
        times, runs = study.times(tolerance, form), study.at(tolerance, form)
        counted = times.where(np.isfinite(times), study.limit(tolerance, form))
        alone = runs[_is(runs, "solved")].groupby("solver")["solver_seconds"]
        one, small = (counted.apply(shifted_geometric_mean, shift=shift) for shift in (1.0, 0.01))
        table = pd.DataFrame(
            {
                "problems": len(times),
                "solved": np.isfinite(times).sum(),
                "mean, shift 1 s [s]": one,
                "over the best": one / one.min(),
                "mean, shift 0.01 s [s]": small,
                "over the best, small shift": small / small.min(),
                "solver alone [s]": alone.apply(shifted_geometric_mean, shift=0.01),
            },
            index=times.columns,
        )
        rows += [(row[0], tolerance, form, *row[1:]) for row in table.itertuples()]
    return ["solver", "tolerance", "formulation", *(table if rows else ())], rows


@table
def certified(study: Results) -> Made:
    """Time to certificate.

    For each solver and problem the quickest of the requested tolerances whose answer is certified
    at 1e-6: the time that a solver needs for an answer of this quality. Times are of the whole
    solve, the median of its repeats; solver alone is without stating, compiling and certifying,
    also a median. Shifted geometric means with 0.01 s; a problem without such an answer counts with
    the smallest time limit of all runs, and in "solver alone" not at all.
    """
    rows: Rows = []
    for form in dict.fromkeys(form for _, form in study.comparisons):
        times, runs = study.times_to_certificate(form), study.certified(form)
        limit = runs["time_limit"].min()
        mean = times.where(np.isfinite(times), limit).apply(shifted_geometric_mean, shift=0.01)
        for name in times.columns:
            mine = runs[(runs["solver"] == name) & np.isfinite(runs["seconds"])]
            asked = mine["tolerance"].value_counts(sort=False)
            alone = mine["solver_seconds"].dropna()
            numbers = len(times), int(np.isfinite(times[name]).sum()), mean[name]
            rows.append((
                *(name, form, *numbers, mean[name] / mean.min()),
                shifted_geometric_mean(alone, shift=0.01) if len(alone) else None,
                ", ".join(f"{asked[t]} at {t}" for t in study.tolerances if t in asked),
            ))  # fmt: skip
    header = ["solver", "formulation", "problems", "certified", "mean, shift 0.01 s [s]"]
    return [*header, "over the best", "solver alone [s]", "quickest tolerance"], rows


@table
def profiles(study: Results) -> Made:
    """Performance profiles.

    Share of the problems, in percent, that a solver solves within a multiple of the time of the
    fastest (Dolan & Moré 2002). Which of two solvers is better may change when a third is taken
    out: use a profile to find the best, not to rank the others.
    """
    within = {"fastest": 1.0, "within 2×": 2.0, "within 10×": 10.0, "within 100×": 100.0}
    shares = {**within, "ever": np.inf}
    rows = [
        (name, tolerance, form, p.problems, *(100.0 * p.at(tau) for tau in shares.values()))
        for tolerance, form in study.comparisons
        for name, p in profiles_of(study, tolerance, form).items()
    ]
    return ["solver", "tolerance", "formulation", "problems", *shares], rows


def profiles_of(study: Results, tolerance: str, form: str) -> dict[str, Profile]:
    """Performance profiles by solver, of one comparison; empty without times."""
    return _profiles(study.times(tolerance, form))


def profiles_to_certificate(study: Results, form: str) -> dict[str, Profile]:
    """Performance profiles by solver of the time to a certificate at 1e-6; empty without times."""
    return _profiles(study.times_to_certificate(form))


def _profiles(times: pd.DataFrame) -> dict[str, Profile]:
    return performance_profiles(times.to_dict("list")) if times.size else {}


@table
def exponents(study: Results) -> Made:
    """Growth with size.

    Exponent of time against the number of contacts, by least squares on logarithms, with its 95 %
    interval (Student's t). Solved runs, families of at least three sizes. Overheads dominate small
    problems, which flattens the line.
    """
    rows: Rows = []
    for (family, form, tolerance, name), points in growth(study):
        contacts = points["contacts"].astype(int)
        fit = power_fit(contacts, points["seconds"], 0.95)
        sizes = fit.points, contacts.min(), contacts.max()
        rows.append((family, form, name, tolerance, *sizes, fit.exponent, fit.low, fit.high))
    numbers = ["points", "fewest contacts", "most contacts", "exponent", "low", "high"]
    return ["family", "formulation", "solver", "tolerance", *numbers], rows


def growth(study: Results) -> Iterator[tuple[tuple[str, str, str, str], Runs]]:
    """Solved runs by family, formulation, tolerance and solver, of families with enough sizes."""
    runs = study.plain.query("outcome == 'solved' and seconds > 0.0 and contacts > 0")
    for key, points in runs.groupby(["family", "formulation", "tolerance", "solver"], sort=False):
        if points["contacts"].nunique() >= FEWEST:
            yield key, points


@table
def forces(study: Results) -> Made:
    """Which force was selected.

    Distance to the compatible forces, 2-norm and largest, relative. Ratio: largest force over the
    largest compatible one. Position: mean position of undetermined forces in their admissible
    intervals, 0 the lower and 1 the upper end. Outside: how far a force lies outside its interval,
    over the largest upper bound.
    """
    runs = study.plain[study.plain["distance"].notna()]
    columns = {
        "certified": _is(runs, "solved"),
        "largest [N]": runs["largest"],
        "ratio": runs["ratio"],
        "distance": runs["distance"],
        "largest distance": runs["distance_max"],
        "undetermined": [_whole(number) for number in runs["undetermined"]],
        "position": [np.mean(entries) if entries else None for entries in runs["positions"]],
        "outside": runs["outside"],
    }
    return _listing(runs.assign(**columns), ["question", "solver", "tolerance", *columns])


@table
def spread(study: Results) -> Made:
    """Spread between certified solvers.

    Of solvers whose certificates are ok: least and greatest of their largest forces, over the
    largest compatible one; nearest and farthest from the compatible forces; and how far apart they
    lie in the admissible intervals, mean of greatest less least position.
    """

    def apart(r: Runs) -> float | None:
        positions = [entries for entries in r["positions"] if entries]
        if len(positions) < 2 or len(set(map(len, positions))) > 1:
            return None
        return float(np.ptp(np.array(positions), axis=0).mean())

    columns: Columns = {
        "solvers": len,
        "least": lambda r: r["ratio"].min(),
        "greatest": lambda r: r["ratio"].max(),
        "greatest over least": lambda r: r["ratio"].max() / (r["ratio"].min() or np.nan),
        "nearest": lambda r: r["distance"].min(),
        "farthest": lambda r: r["distance"].max(),
        "apart": apart,
    }
    solved = study.plain[_is(study.plain, "solved") & study.plain["ratio"].notna()]
    return _grouped(solved, ["question", "tolerance"], columns, least=2)


@table
def starts(study: Results) -> Made:
    """Warm and cold starts.

    Time over the cold time, geometric mean; iterations over the cold ones, mean; and the largest
    change of the forces by the start, max |f − f'| / max f'. Warm: from the answer of the problem;
    previous: from the step before in a recorded run.
    """
    runs = study.frame[study.frame["mode"].isin(MODES[1:])]
    runs = runs[(runs["cold_total"] > 0.0) & (runs["seconds"] > 0.0)]
    ratio = runs["iterations"] / runs["cold_iterations"].replace(0, np.nan)
    columns: Columns = {
        "runs": len,
        "time ratio": lambda r: _geometric_mean(r["seconds"] / r["cold_total"]),
        "iterations ratio": lambda r: r["ratio"].mean(),
        "moved": lambda r: r["start"].max(),
    }
    return _grouped(runs.assign(ratio=ratio), ["solver", "mode", "tolerance"], columns)


@table
def calls(study: Results) -> Made:
    """With the defaults that CVXPY sets, and with the solver's.

    Problems solved both ways, on the data that CVXPY compiled; compiling is part of both times.
    Time with CVXPY's defaults over that with the solver's, geometric means: of the whole solve,
    and of the solver alone. Share: the part of the time through CVXPY that is not the solver's.
    """
    keys = ["backend", "tolerance", "question"]
    solved = study.plain[_is(study.plain, "solved")].drop_duplicates([*keys, "call"], keep="last")
    ways = [solved[solved["call"] == call] for call in ("cvxpy", "direct")]
    both = ways[0].merge(ways[1], on=keys, suffixes=("", "_direct"))
    columns: Columns = {
        "problems": len,
        "whole": lambda r: _geometric_mean(r["seconds"] / r["seconds_direct"]),
        "solver alone": lambda r: _geometric_mean(r["solver_seconds"] / r["solver_seconds_direct"]),
        "share [%]": lambda r: 100.0 * (1.0 - r["solver_seconds"] / r["seconds"]).mean(),
    }
    return _grouped(both, ["backend", "tolerance"], columns)


@table
def repeats(study: Results) -> Made:
    """Repeats and the order of contacts.

    Runs repeated and, of these, those whose forces were the same bit by bit; the largest difference
    of a repeat; and of runs with the contacts in another order, the largest difference from the
    answer in the problem's order, max |f − f'| / max f'.
    """
    columns: Columns = {
        "repeated": lambda r: r["identical"].count(),
        "identical": lambda r: r["identical"].dropna().sum(),
        "largest difference": lambda r: r["repeats"].max(),
        "reordered": lambda r: r["order"].count(),
        "largest difference by order": lambda r: r["order"].max(),
    }
    runs = study.frame[study.frame[["identical", "order"]].notna().any(axis=1)]
    return _grouped(runs, ["solver"], columns)


@table
def failures(study: Results) -> Made:
    """Runs without a certified answer.

    Outcome, the solver's status, the largest residual of its answer, and why.
    """
    columns = ["question", "solver", "tolerance", "outcome", "status", "worst", "message"]
    return _listing(study.frame[~_is(study.frame, "solved")], columns)


@table
def settings(study: Results) -> Made:
    """Settings.

    The settings of each solver, as it names them.
    """
    plain = [r for r in study.records if r.run.mode == "cold" and r.run.seed is None]
    rows: dict[tuple[str, ...], None] = {}
    for r in plain:
        if r.answer is not None:
            stated = ", ".join(f"{k} = {v}" for k, v in r.answer.settings.items()) or "its defaults"
            rows.setdefault((solver_of(r.run), tolerance_of(r.run), stated))
    return ["solver", "tolerance", "settings"], list(rows)


def tables(study: Results) -> tuple[Table, ...]:
    """All tables of a study but its settings, those without rows included."""
    first = overview, quickest, success, certified, means, profiles, exponents
    return tuple(make(study) for make in (*first, forces, spread, starts, calls, repeats, failures))


# --- groups of runs, and statements on them ------------------------------------------------


_NAMES = {"question": "problem", "mode": "start", "backend": "solver", "worst": "worst residual"}


def _grouped(runs: Runs, keys: list[str], columns: Columns, least: int = 1) -> tuple[Any, Rows]:
    """Header and rows: at least ``least`` runs with equal ``keys``, and columns of each group."""
    rows = [
        (*key, *(column(group) for column in columns.values()))
        for key, group in runs.groupby(keys, sort=False)
        if len(group) >= least
    ]
    return [*(_NAMES.get(key, key) for key in keys), *columns], rows


def _listing(runs: Runs, columns: list[str]) -> Made:
    """Header and rows: these columns of every run."""
    header = [_NAMES.get(column, column) for column in columns]
    return header, list(runs[columns].itertuples(index=False, name=None))


def _is(runs: Runs, *outcomes: str) -> pd.Series:
    return runs["outcome"].isin(outcomes)


def _able(runs: Runs) -> Runs:
    return runs[~_is(runs, "refused")]


def _percent(true: pd.Series) -> float:
    """The share of true entries; not-a-number of none."""
    return 100.0 * true.mean() if len(true) else np.nan


def _honest(runs: Runs) -> float:
    """The share of claims of success that are true or nearly so, in percent."""
    return _percent(runs.loc[runs["claimed"], "honest"].astype(bool))


def _whole(number: float) -> int | None:
    return None if np.isnan(number) else int(number)


def _geometric_mean(ratios: pd.Series) -> float:
    return float(np.exp(np.log(ratios).mean()))


# --- limitations ---------------------------------------------------------------------------

ALWAYS = (
    "Solvers define their tolerances differently. One table translates the requested accuracy "
    "(cdopt backends --accuracy); success is decided by cdopt's certificate, which only cdopt's "
    "solvers aim at.",
    "Solvers are reached through CVXPY unless a run is direct. CVXPY changes some defaults, and "
    "its compile time is part of the whole solve.",
    "Each problem is stated in units of its scales before a solver sees it. A solver may do "
    "better or worse on the same problem in other units.",
    "A performance profile compares with the best solver of this set; taking one out can change "
    "the order of the others.",
    "Contact forces of hyperstatic problems are not unique. A certified force far from the "
    "compatible one is no error: it is another admissible force.",
    "The problems are those of this study. They are no sample of anything else.",
    "Times are wall clock on the machine below. Other load on it makes them longer.",
)


def limitations(study: Results) -> tuple[str, ...]:
    """Sentences on the limitations of the study: general ones, and those about its runs."""
    runs = study.records
    hosts = len({(r.machine.host, r.machine.processor) for r in runs})
    versions = len({tuple(sorted(r.machine.versions.items(), key=str)) for r in runs})
    short = sum(r.run.repeats < 3 for r in runs)
    cut = sum(r.outcome in LIMITED for r in runs)
    left = sum(r.outcome == "interrupted" for r in runs)
    missing = _listed(sorted(r.run.backend for r in runs if r.outcome == "missing"))
    there = {r.run.backend for r in runs if r.outcome != "missing"}
    siconos = _listed(sorted(name for name in there if name.startswith("siconos-")))
    sentences = {
        f"Runs come from {hosts} machines: their times are not comparable.": hosts > 1,
        f"Runs were made with {versions} different sets of package versions.": versions > 1,
        f"{count(short, 'run')} repeated fewer than three times: times are single shots.": short,
        f"{count(cut, 'run')} ended at the limit of time or memory.": cut,
        f"{count(left, 'run')} ended from outside, and left out: still to be made.": left,
        f"Not installed, and so not compared: {missing}.": missing,
        f"{siconos}: each solve starts a process, about a third of a second, which "
        "is in the time of the whole solve and not in that of the solver alone.": siconos,
    }
    for tolerance, form in study.comparisons:
        asked, times = study.at(tolerance, form), study.times(tolerance, form)
        every, where = asked["question"].nunique(), f"{form} at {tolerance}"
        few = _listed(sorted(set(_able(asked)["solver"]) - set(times)))
        sentences |= {
            f"{where}: {every - len(times)} of {every} problems were not asked of every solver; "
            "means and profiles leave them out.": len(times) < every,
            f"{where}: asked fewer than half of the problems, and so in no mean and no profile: "
            f"{few}.": few,
        }
    return (*(sentence for sentence, holds in sentences.items() if holds), *ALWAYS)


def facts(study: Results) -> dict[str, str]:
    """Machine, versions, limits, seeds and dates."""
    runs = study.records
    dates = sorted(r.date for r in runs)
    content: dict[str, str] = {
        "runs": str(len(runs)),
        "dates": " to ".join(dict.fromkeys((*dates[:1], *dates[-1:]))),
        "machine": _listed(r.machine.host for r in runs),
        "processor": _listed(f"{r.machine.processor}, {r.machine.cores} cores" for r in runs),
        "memory": _listed(f"{r.machine.memory:.0f} MB" for r in runs if r.machine.memory),
        "system": _listed(r.machine.system for r in runs),
        "Python": _listed(r.machine.python for r in runs),
        "time limit": _listed(f"{r.time_limit:g} s" for r in runs),
        "memory limit": _listed(f"{r.memory_limit:g} MB" for r in runs if r.memory_limit),
        "repeats": _listed(str(r.run.repeats) for r in runs),
        "threads": _listed(str(r.run.threads or "not set") for r in runs),
        "seeds": _listed(str(r.run.seed) for r in runs if r.run.seed is not None) or "none",
    }
    packages = sorted({name for r in runs for name in r.machine.versions})
    for name in packages:
        known = {r.machine.versions.get(name) or "not installed" for r in runs}
        content[name] = ", ".join(sorted(known))
    return {name: text for name, text in content.items() if text}


def _listed(values: Iterable[str]) -> str:
    return ", ".join(dict.fromkeys(values))
