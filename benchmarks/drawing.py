"""Pictures of the measurements: time against contacts with fitted exponents, and bars of ratios."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import matplotlib as mpl
import numpy as np

from benchmarks.record import Row

mpl.use("Agg")

from matplotlib import pyplot as plt
from matplotlib.patches import Patch

PALE = "#b9c4d0"
COLOURS = ("#1f3a5f", "#c8553d", "#588157", "#8f6bb3", "#d9a441", "#4b8f8c", "#7a7a7a", "#a0522d",
           "#9fb4d0", "#d98c9f", "#2f2f2f")  # fmt: skip


def exponent(points: Sequence[tuple[float, float]]) -> float | None:
    """Slope of log seconds against log contacts; None for fewer than two sizes."""
    if len({x for x, _ in points}) < 2:
        return None
    x, y = np.log(np.array(points, dtype=float)).T
    return float(np.polyfit(x, y, 1)[0])


def growth(
    lines: Mapping[str, Sequence[tuple[float, float]]], path: Path, ylabel: str, unit: str = "s",
    least: float = 0.0,
) -> None:  # fmt: skip
    """Each line's points (contacts, value), log-log; its exponent from ``least`` contacts on."""
    figure, axes = plt.subplots(figsize=(7.0, 4.4), layout="constrained")
    for k, (name, points) in enumerate(lines.items()):
        if not points:
            continue
        ordered = sorted(points)
        slope = exponent([point for point in ordered if point[0] >= least])
        told = name if slope is None else f"{name}: exponent {slope:.2f}"
        axes.loglog(*zip(*ordered, strict=True), "o-", color=COLOURS[k % len(COLOURS)], label=told)
    axes.set_xlabel("contacts")
    axes.set_ylabel(f"{ylabel} [{unit}]")
    axes.grid(visible=True, which="both", color=PALE, linewidth=0.4)
    axes.legend(frameon=False, fontsize=8)
    _save(figure, path)


def bars(
    values: Sequence[tuple[str, str, float, bool]], path: Path, xlabel: str, line: float = 1.0
) -> None:
    """Bars (group, member, value, whether it counts), logarithmic; one colour for each member."""
    groups = list(dict.fromkeys(group for group, *_ in values))[::-1]
    members = list(dict.fromkeys(member for _, member, *_ in values))
    colour = {m: COLOURS[k % len(COLOURS)] for k, m in enumerate(members)}
    figure, axes = plt.subplots(
        figsize=(7.5, 1.2 + 0.2 * (len(values) + len(groups))), layout="constrained"
    )
    place, ticks = 0.0, []
    for group in groups:
        first = place
        for _, member, value, counted in [v for v in values if v[0] == group][::-1]:
            axes.barh(
                place, value, height=0.85, color=colour[member], alpha=1.0 if counted else 0.25
            )
            told = f" {value:.3g}" if value < 100.0 else f" {value:,.0f}"
            told += "" if counted else ", not counted"
            axes.text(value, place, told, va="center", fontsize=6)
            place += 1.0
        ticks.append(0.5 * (first + place - 1.0))
        place += 1.0
    axes.set_yticks(ticks, groups, fontsize=7)
    axes.set_xscale("log")
    axes.axvline(line, color="black", linewidth=0.8)
    axes.set_xlabel(xlabel)
    axes.margins(x=0.22, y=0.01)
    figure.legend(
        [Patch(color=colour[member]) for member in members], members,
        frameon=False, fontsize=7, ncols=4, loc="outside upper center",
    )  # fmt: skip
    _save(figure, path)


def shares(rows: Sequence[Row], names: Sequence[str], path: Path) -> None:
    """One stacked bar for each row: where its seconds go."""
    figure, axes = plt.subplots(figsize=(7.0, 0.9 + 0.5 * len(rows)), layout="constrained")
    for k, row in enumerate(rows):
        left, total = 0.0, sum(row[f"seconds_{name}"] for name in names)
        for j, name in enumerate(names):
            share = row[f"seconds_{name}"] / total
            axes.barh(
                k, share, left=left, color=COLOURS[j], height=0.6, label=name if k == 0 else None
            )
            left += share
    axes.set_yticks(range(len(rows)), [f"n = {row['n']}" for row in rows])
    axes.set_xlabel("share of the time")
    axes.legend(frameon=False, ncols=len(names), fontsize=8, loc="lower left",
                bbox_to_anchor=(0.0, 1.0))  # fmt: skip
    _save(figure, path)


def _save(figure: plt.Figure, path: Path) -> None:
    figure.savefig(path, dpi=130, metadata={"Software": None})
    plt.close(figure)
