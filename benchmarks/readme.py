"""The figures of the README, from the rows of the page "What it costs" alone."""

from __future__ import annotations

import datetime
import re
from pathlib import Path
from typing import Any

from benchmarks.direct import SOLVERS
from benchmarks.record import Row, counts

_PLACE = re.compile(r"(?<=<!-- measured -->\n).*?(?=<!-- /measured -->)", re.DOTALL)


def write(record: dict[str, Any], path: Path) -> None:
    """Put the figures between the two marks of a file; one without the marks is refused."""
    text, found = _PLACE.subn("\n".join(lines(record)) + "\n", path.read_text())
    if found != 1:
        raise ValueError(f"{path}: no place for the figures")
    path.write_text(text)


def lines(record: dict[str, Any]) -> list[str]:
    """The table, and when and on what it was measured; rows that were not measured are left out."""
    machine, groups = record["machine"], record["groups"]
    date = datetime.datetime.fromisoformat(machine["date"])
    table = [*_trusses(groups.get("trusses", [])), *_steps(groups.get("rigid", []))]
    table += [*_large(groups.get("scaling", [])), *_runs(groups.get("trajectory", []))]
    return [
        f"On {machine['cores']} cores ({machine['processor']}), {date:%-d %B %Y}; medians, and the "
        "largest residual of the certificates:",
        "",
        "| work | time | residual |",
        "|---|---|---|",
        *(f"| {work} | {time} | {residual:.0e} |" for work, time, residual in table),
    ]


_Line = tuple[str, str, float]
_SETTLED = "pyramid-hooke:n=20"


def _trusses(rows: list[Row]) -> list[_Line]:
    own = _quickest([r for r in rows if r["task"] == "newton_truss" and r["problem"] == _SETTLED])
    return _compared("compatible forces of a settled pyramid", own, rows)


def _steps(rows: list[Row]) -> list[_Line]:
    of_apgd = [r for r in rows if r.get("solver") == "apgd" and r["problem"] == _SETTLED]
    return _compared("motion of the same pyramid (`ClassicCD`, `apgd`)", _quickest(of_apgd), rows)


def _compared(work: str, own: Row | None, rows: list[Row]) -> list[_Line]:
    """A solve, and how many times as long the quickest other solvers take."""
    if own is None:
        return []
    settled = [r for r in rows if r["problem"] == _SETTLED and r["task"].startswith("general")]
    of_cvxpy = [r for r in settled if r.get("solver") in SOLVERS]
    best, through, more = _quickest(settled), _quickest(of_cvxpy), ""
    if best is not None:
        more = f"; {best['solver']}, the quickest other solver: {_times(best, own)}"
    if through is not None and through is not best:
        more += f"; {through['solver']}, the quickest of CVXPY's: {_times(through, own)}"
    return [(f"{work}, {own['contacts']:,} contacts", _time(own) + more, own["worst"])]


def _times(row: Row, own: Row) -> str:
    return f"{row['seconds'] / own['seconds']:.2g} times as long"


def _large(rows: list[Row]) -> list[_Line]:
    own = [r for r in rows if r["task"] == "newton_truss" and counts(r)]
    row = max(own, key=lambda r: r["contacts"], default=None)
    if row is None:
        return []
    return [(f"compatible forces, {row['contacts']:,} contacts", _time(row), row["worst"])]


def _runs(rows: list[Row]) -> list[_Line]:
    quickest = [_quickest([r for r in rows if r["n"] == n]) for n in (20, 40)]
    return [
        (
            f"{r['steps']} steps of a dropped pyramid, {r['contacts']:,.0f} contacts",
            _time(r),
            r["worst"],
        )
        for r in quickest
        if r is not None
    ]


def _quickest(rows: list[Row]) -> Row | None:
    """The quickest of the rows that count."""
    done = [r for r in rows if counts(r) and "seconds" in r]
    return min(done, key=lambda r: r["seconds"], default=None)


def _time(row: Row) -> str:
    seconds = row["seconds"]
    return f"{1e3 * seconds:.3g} ms" if seconds < 1.0 else f"{seconds:.2g} s"
