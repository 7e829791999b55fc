"""Run the benchmarks and write the page about them.

    python -m benchmarks.run [--quick] [--only GROUP ...] [--limit SECONDS]
                             [--general-limit SECONDS] [--who own|general] [--note TEXT] [--page]
                             [--out DIR]

Every run is a separate process with a hard time limit; medians of five with compiled code
warmed. The rows go to ``DIR/costs.json`` as they come, with the machine and its limits; then the
pictures and ``costs.md`` are made from that file, and, where DIR is ``docs``, the figures of the
README. All of it takes about ten minutes on an idle machine of two cores. ``--only`` replaces the
rows of these groups in an existing file, and with ``--who`` only those of cdopt's own solvers or of
the others. The default DIR is ``docs``.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from pathlib import Path
from typing import Any

from benchmarks import limits, page, readme
from benchmarks.child import ROOT, call
from benchmarks.record import Row, counts, machine
from benchmarks.suites import GROUPS, Job

_LONGEST = 10.0  # s that the repeats of one task may take


def main(argv: list[str] | None = None) -> None:
    asked = _arguments(argv)
    asked.out.mkdir(parents=True, exist_ok=True)
    path = asked.out / "costs.json"
    if asked.page:
        _written(json.loads(path.read_text()), asked.out)
        return
    chosen = asked.only or list(GROUPS)
    record = _started(path, asked)
    for name in chosen:
        jobs = list(GROUPS[name](asked.quick))
        rows = {k: _earlier(record, name, job, jobs) for k, job in enumerate(jobs)}
        for k, job in enumerate(jobs):
            if asked.who is None or (asked.who == "general") == _general(job[0]):
                rows[k] = _measured(name, job, asked)
            record["groups"][name] = [row for made in rows.values() for row in made]
            path.write_text(json.dumps(record, indent=1, ensure_ascii=False) + "\n")
    _written(record, asked.out)


def _written(record: dict[str, Any], out: Path) -> None:
    """The page of a folder, and the README's figures where it is that of the guide."""
    print(f"wrote {page.write(record, out)}")
    if out.resolve() == ROOT / "docs" and not record["settings"]["quick"]:
        readme.write(record, ROOT / "README.md")
        print("wrote what README.md has of it")


def _measured(group: str, job: Job, asked: argparse.Namespace) -> list[Row]:
    """The rows of one task, made now."""
    task, arguments = job
    begun = time.perf_counter()
    rows = call(task, arguments | _budget(task, asked), _limit(task, asked))
    told = [row | {"counted": counts(row)} for row in rows]
    _say(group, told, time.perf_counter() - begun)
    return told


def _earlier(record: dict[str, Any], group: str, job: Job, jobs: list[Job]) -> list[Row]:
    """The rows that an earlier run of this one of the group's tasks left."""
    task, arguments = job
    names = {name for other, given in jobs if other == task for name in given} - {"repeats"}
    asked = {name: arguments[name] for name in names if name in arguments}
    return [
        row for row in record["groups"].get(group, [])
        if row["task"] == task and {name: row[name] for name in names if name in row} == asked
    ]  # fmt: skip


def _general(task: str) -> bool:
    """Whether a task is that of a general solver."""
    return task.startswith("general")


def _started(path: Path, asked: argparse.Namespace) -> dict[str, Any]:
    """The record to fill: an existing one where only some groups are run again."""
    fresh: dict[str, Any] = {
        "machine": machine(),
        "settings": {
            "quick": asked.quick, "limit": asked.limit, "general_limit": asked.general_limit,
            "repeats": asked.repeats,
        },
        "limits": limits.measure(asked.quick),
        "groups": {},
    }  # fmt: skip
    if asked.only and path.exists():
        earlier = json.loads(path.read_text())
        if earlier["settings"]["quick"] == asked.quick:  # sizes are never mixed in one page
            fresh["groups"] = earlier["groups"]
            fresh |= {"note": earlier["note"]} if "note" in earlier else {}
    return fresh | ({"note": asked.note} if asked.note else {})


def _limit(task: str, asked: argparse.Namespace) -> float:
    """Seconds for one task; general solvers may be given less, for most of them never end."""
    return asked.general_limit if _general(task) else asked.limit


def _budget(task: str, asked: argparse.Namespace) -> dict[str, Any]:
    """Repeats and their time, for tasks that take them."""
    repeated = (
        "newton_truss", "own_rigid", "warm_rigid", "general_truss", "general_rigid",
        "through_cvxpy", "compatible", "drop", "rough_pile",
    )  # fmt: skip
    if task not in repeated:
        return {}
    return {"repeats": asked.repeats, "budget": min(0.3 * _limit(task, asked), _LONGEST)}


_NAMES = ("problem", "form", "solver", "method", "product", "preconditioner")


def _say(group: str, rows: list[Row], spent: float) -> None:
    for row in rows:
        words = [str(row[k]) for k in _NAMES if k in row]
        told = row.get("failed") or row.get("refused")
        if told is None:
            told = f"{row['seconds']:.3g} s" if "seconds" in row else ""
            told += f", residual {row['worst']:.1e}" if row.get("worst") is not None else ""
            told += "" if row["counted"] else ", not counted"
        print(f"{group}: {row['task']} {' '.join(words)}: {told}", flush=True)
    print(f"  ({spent:.0f} s)", file=sys.stderr, flush=True)


def _arguments(argv: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="small sizes, to see that it runs")
    parser.add_argument(
        "--only", nargs="+", choices=list(GROUPS), metavar="GROUP", help="of " + ", ".join(GROUPS)
    )
    parser.add_argument("--page", action="store_true", help="write the page from DIR/costs.json")
    parser.add_argument("--limit", type=float, help="seconds for one run, by default 120")
    parser.add_argument(
        "--general-limit", type=float, help="seconds for one general solver, by default 12"
    )
    parser.add_argument("--who", choices=["own", "general"], help="with --only: whose rows")
    parser.add_argument("--note", help="a sentence for the page: what else the machine did")
    parser.add_argument("--repeats", type=int, help="by default 5, with --quick 2")
    parser.add_argument("--out", type=Path, default=ROOT / "docs")
    asked = parser.parse_args(argv)
    asked.limit = asked.limit or 120.0
    asked.general_limit = asked.general_limit or min(asked.limit, 12.0)
    asked.repeats = asked.repeats or (2 if asked.quick else 5)
    return asked


if __name__ == "__main__":
    main()
