"""The pictures of a study's report."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from cdopt._util.formatting import count
from cdopt.plots.study_lines import accuracy_against_time, growth_with_size, performance_profiles
from cdopt.study.report import Results, statistics
from cdopt.study.report.all_tables import FEWEST, growth
from cdopt.study.report.chosen import asked, solver


@dataclass(frozen=True)
class Picture:
    """A picture to draw.

    Attributes
    ----------
    name : fit for a file. caption : what it shows. draw : makes the matplotlib figure.
    """

    name: str
    caption: str
    draw: Callable[[], Any]


def pictures(study: Results) -> tuple[Picture, ...]:
    """Those that the study's runs allow: profiles by formulation, growth by family."""
    found = [
        Picture(
            _file(f"profiles-{form}"),
            f"{form}: the share of problems that a solver solves, by our certificate, within so "
            "many times the time of the fastest on each.",
            partial(performance_profiles, panels, title=f"Performance profiles, {form}"),
        )
        for form, panels in _profiles(study).items()
    ]
    accuracy = _accuracy(study)
    if accuracy:
        found.append(Picture(
            "accuracy",
            "Worst residual and time of the whole solve, medians over the problems that the "
            "solver answered, joined from loose to tight tolerance.",
            partial(accuracy_against_time, accuracy, title="Accuracy against time"),
        ))  # fmt: skip
    found += [
        Picture(
            _file(f"growth-{family}"),
            f"{family}: time of the whole solve over the number of contacts, certified runs, with "
            "the exponent of the line through them.",
            partial(growth_with_size, panels, title=f"Growth with size, {family}"),
        )
        for family, panels in _growth(study).items()
    ]
    return tuple(found)


def _file(name: str) -> str:
    """A name fit for a file."""
    return re.sub(r"[^A-Za-z0-9-]+", "-", name)


def _profiles(study: Results) -> dict[str, dict[str, dict[str, statistics.Profile]]]:
    """Profiles by formulation, comparison and solver."""
    found: dict[str, dict[str, dict[str, statistics.Profile]]] = {}
    for tolerance, form in study.comparisons:
        times = {name: list(row.values()) for name, row in study.times(tolerance, form).items()}
        profiles = statistics.performance_profiles(times)
        if not any(profile.ratios.size for profile in profiles.values()):
            continue  # nobody solved anything
        number = count(next(iter(profiles.values())).problems, "problem")
        found.setdefault(form, {})[f"tolerance {asked(tolerance)}, {number}"] = profiles
    return found


def _accuracy(study: Results) -> dict[str, dict[str, list[tuple[float, float]]]]:
    """Median (seconds, residual) by formulation and solver, one for each tolerance."""
    cells: dict[str, dict[str, dict[float | None, list[tuple[float, float]]]]] = {}
    for r in study.plain:
        if r.answer is not None and r.answer.worst is not None and r.seconds:
            by_solver = cells.setdefault(r.run.formulation, {})
            by_tolerance = by_solver.setdefault(solver(r.run), {})
            by_tolerance.setdefault(r.run.tolerance, []).append((r.seconds, r.answer.worst))
    order = {tolerance: k for k, tolerance in enumerate(study.tolerances)}
    return {
        form: {
            name: [
                (float(medians[0]), float(medians[1]))
                for tolerance in sorted(found, key=order.__getitem__)
                for medians in [np.median(np.array(found[tolerance]), axis=0)]
            ]
            for name, found in by_solver.items()
        }
        for form, by_solver in cells.items()
    }


def _growth(study: Results) -> dict[str, dict[str, dict[str, list[tuple[float, float]]]]]:
    """(contacts, seconds) by family, panel and solver, of families with enough sizes."""
    found: dict[str, dict[str, dict[str, list[tuple[float, float]]]]] = {}
    for (family, form, tolerance, name), points in growth(study).items():
        if len({contacts for contacts, _ in points}) >= FEWEST:
            panel = found.setdefault(family, {}).setdefault(f"{form}, {asked(tolerance)}", {})
            panel[name] = [(float(n), s) for n, s in points]
    return found
