"""What a study does not show, and how it was made."""

from __future__ import annotations

from collections.abc import Iterable

from cdopt._util.formatting import count
from cdopt.study.results import Results, solver_of, tolerance_of
from cdopt.study.table import Table

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
