"""What the command line prints: tables, sentences, errors; and what it keeps solvers from."""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TextIO

import numpy as np
import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from cdopt import bank
from cdopt._util.errors import CdoptError
from cdopt._util.formatting import one_line, plain
from cdopt.backends import ACCURACY, available, resolve, why_unavailable
from cdopt.backends.catalogue import TABLE, capability
from cdopt.backends.registry import NOTES, STRUCTURED, known_names
from cdopt.study.compare import Comparison
from cdopt.study.formatting import failure
from cdopt.study.solutions import COLUMNS, Row, SolutionSet, cells

NO_ANSWER, INFEASIBLE = 1, 2  # exit codes

PIPE_WIDTH = 100  # columns when the output is no terminal
FORCES_UP_TO = 12  # contacts whose forces are written out
_SHORT = {"rigid step": "steps", "elastic step": "elastic steps", "truss": "trusses"}
_FORCE_WIDTH = 10  # characters per contact force


def console() -> Console:
    """Where results are printed; made anew, so that a redirected stdout is respected."""
    out = Console(highlight=False)
    if not out.is_terminal and "COLUMNS" not in os.environ:
        return Console(highlight=False, width=PIPE_WIDTH)
    return out


def print_json(content: Any) -> None:
    """A value as strict JSON, on stdout."""
    typer.echo(json.dumps(plain(content), indent=2, allow_nan=False))


@contextlib.contextmanager
def errors_in_one_line() -> Iterator[None]:
    """Turn every error of cdopt into one line on stderr and exit code 1."""
    try:
        yield
    except CdoptError as error:
        typer.echo(f"error: {one_line(str(error), 500)}", err=True)
        raise typer.Exit(NO_ANSWER) from None


@contextlib.contextmanager
def solvers_kept_quiet(verbose: bool, to_stderr: bool) -> Iterator[None]:
    """Keep what solvers write to standard output out of ours.

    Some write through C, past Python and past their own verbosity settings; so the file
    descriptor itself is redirected, and put back whatever happens.

    Parameters
    ----------
    verbose : let it through: to stderr when ``to_stderr``, otherwise untouched.
    to_stderr : stdout is reserved, for JSON.
    """
    if verbose and not to_stderr:
        yield
        return
    _flush()
    try:
        saved = os.dup(1)
    except OSError:  # no standard output at all
        yield
        return
    with contextlib.ExitStack() as stack:
        stack.callback(os.close, saved)
        stack.callback(os.dup2, saved, 1)
        stack.callback(_flush)
        if verbose:
            aside: TextIO = sys.stderr
            os.dup2(2, 1)
        else:
            aside = stack.enter_context(Path(os.devnull).open("w"))
            os.dup2(aside.fileno(), 1)
        stack.enter_context(contextlib.redirect_stdout(aside))
        yield


def _flush() -> None:
    """Empty Python's and C's buffers into the descriptor that they were written for."""
    sys.stdout.flush()
    try:
        ctypes.CDLL(None).fflush(None)
    except (OSError, TypeError, AttributeError):  # a C library of another kind: it has its own
        return


@contextlib.contextmanager
def progress() -> Iterator[Callable[[str], None]]:
    """A spinner on stderr that names the running backend; nothing when stderr is no terminal."""
    err = Console(stderr=True)
    if not err.is_terminal:
        yield lambda label: None
        return
    with err.status("starting") as status:
        yield lambda label: status.update(f"solving: {label}")


# --- solve -----------------------------------------------------------------------------


def print_solutions(solutions: SolutionSet, heading: str, contacts: list[str]) -> None:
    """The table, failures, small force vectors and the summary."""
    out = console()
    out.print(Text(heading, style="bold"))
    out.print(Text(solutions.title, style="dim"))
    out.print()
    rows = solutions.rows()
    last = solutions.compatible_row() if isinstance(solutions, Comparison) else None
    if rows or last is not None:
        out.print(_table(rows, last, solutions.reference is not None))
        key = f"certificate: our largest residual, held to {solutions.tol:g}"
        if solutions.reference is not None:
            key += "; distance: of the forces from the compatible ones, relative"
        if isinstance(solutions, Comparison) and solutions.compatible is not None:
            found = solutions.compatible
            key += f"; compatible: by {found.backend}"
        out.print(Text(key, style="dim"))
    print_failures(out, solutions)
    for reason in dict.fromkeys(solutions.left_out.values()):
        names = [n for n, why in solutions.left_out.items() if why == reason]
        out.print(Text(f"left out, {reason}: {', '.join(names)}", style="dim"))
    if 0 < len(contacts) <= FORCES_UP_TO:
        _print_forces(out, solutions, contacts)
    out.print()
    out.print(solutions.summary, markup=False)


def print_failures(out: Console, solutions: SolutionSet) -> None:
    """Why each other solver has no answer."""
    for label, error in solutions.failures.items():
        out.print(Text.assemble((f"{label}: ", "bold"), (failure(error), "red")))


def _table(rows: list[Row], last: Row | None, with_distance: bool) -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim")
    for name in COLUMNS if with_distance else COLUMNS[:-1]:
        number = name in COLUMNS[3:]
        table.add_column(name, justify="right" if number else "left", no_wrap=number)
    everything = [*rows, *([] if last is None else [last])]
    for line in everything:
        text = [Text(cell) for cell in cells(line)]
        text[0].stylize("bold" if line is last else "")
        text[2].stylize("green" if line.ok else "bold red")
        if line is last:
            table.add_section()
        table.add_row(*text[: len(table.columns)])
    return table


def _print_forces(out: Console, solutions: SolutionSet, names: list[str]) -> None:
    """Every force vector, in blocks of as many contacts as fit."""
    found = list(zip(solutions.labels, solutions, strict=True))
    if isinstance(solutions, Comparison) and solutions.compatible is not None:
        found.append(("compatible", solutions.compatible))
    vectors = [(label, s.f) for label, s in found if s.f is not None]
    if not vectors:
        return
    out.print()
    out.print(Text("contact forces [N]", style="bold"))
    fit = max((out.width - 14) // _FORCE_WIDTH, 1)
    blocks = np.array_split(np.arange(len(names)), -(-len(names) // fit))
    for block in (part.tolist() for part in blocks):
        table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim")
        table.add_column("contact", no_wrap=True)
        for i in block:
            table.add_column(one_line(names[i], 8), justify="right", no_wrap=True)
        for label, f in vectors:
            style = "bold" if label == "compatible" else ""
            table.add_row(Text(label, style=style), *(Text(force(f[i])) for i in block))
        out.print(table)


def force(value: float) -> str:
    """A force in at most eight characters; what rounds to nothing is 0."""
    rounded = float(np.round(value, 4))
    return (
        f"{rounded:.4f}" if 0.0 < abs(rounded) < 1e3 else "0" if rounded == 0.0 else f"{value:.2e}"
    )


# --- backends and problems -------------------------------------------------------------


def backend_records() -> list[dict[str, object]]:
    """Everything known of every backend, as plain values."""
    here = available()
    records: list[dict[str, object]] = []
    for name in known_names():
        takes = sorted(capability(name).classes)
        if name in STRUCTURED:
            takes = sorted(resolve(name).capability.structured)
        entry, words = TABLE.get(name), ACCURACY.get(name)
        records.append(
            {
                "name": name,
                "available": name in here,
                "why_not": why_unavailable(name),
                "takes": takes,
                "licence": entry.licence if entry else "cdopt's own" if name in NOTES else "",
                "note": entry.note if entry else NOTES.get(name, ""),
                "accuracy_options": list(words.options) if words else [],
                "accuracy_meaning": words.meaning if words else "",
                "cvxpy_rewrites": words.rewritten if words else "",
            }
        )
    return records


def print_backends() -> None:
    """What each backend takes, and how it spells accuracy."""
    out = console()
    table = Table(box=None, pad_edge=False, padding=(0, 2, 1, 0), header_style="dim")
    table.add_column("backend", no_wrap=True)
    table.add_column("here", no_wrap=True)
    table.add_column("takes", no_wrap=True)
    table.add_column("licence", no_wrap=True)
    table.add_column("notes")
    others: list[str] = []
    for r in backend_records():
        name = str(r["name"])
        if not r["available"] and name not in TABLE and name not in STRUCTURED:
            others.append(name)
            continue
        takes = "QP, cones" if "SOCP" in capability(name).classes else "QP"
        if name in STRUCTURED:
            takes = ", ".join(_SHORT[kind] for kind in sorted(resolve(name).capability.structured))
        here = Text("yes", style="green") if r["available"] else Text("no", style="red")
        table.add_row(Text(name, style="bold"), here, takes, str(r["licence"]), _notes(r))
    out.print(table)
    out.print("steps, trusses: cdopt's own solvers take the plain data, of any power.")
    out.print("QP: quadratic programs (every classic step; compatible forces with p = 2).")
    out.print("cones: second-order cones (compatible forces with other powers, such as Hertz).")
    usable = ", ".join(n for n in others if capability(n).classes)
    out.print(f"CVXPY can also reach, once installed and licensed: {usable}.")


def _notes(record: dict[str, object]) -> Text:
    lines = [str(record["note"])]
    options = record["accuracy_options"]
    if isinstance(options, list) and options:
        lines.append(f"accuracy: {', '.join(options)} ({record['accuracy_meaning']})")
    if record["cvxpy_rewrites"]:
        lines.append(f"CVXPY changes its defaults: {record['cvxpy_rewrites']}")
    text = Text("\n".join(line for line in lines if line))
    if record["why_not"]:
        text.append(f"\n{record['why_not']}", style="red")
    return text


def problem_records() -> list[dict[str, object]]:
    """Name, title, kind, power and parameters of every problem of the bank."""
    records: list[dict[str, object]] = []
    for name in bank.names():
        known = bank.manifest(name)
        records.append(
            {
                "name": name,
                "title": known.title,
                "description": known.description,
                "kind": known.kind,
                "power": known.power,
                "parameters": known.parameters,
            }
        )
    return records


def print_problems() -> None:
    """The bank, one line per problem."""
    out = console()
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim")
    table.add_column("problem", no_wrap=True)
    table.add_column("kind", no_wrap=True)
    table.add_column("title")
    table.add_column("parameters and defaults")
    for known in problem_records():
        parameters = known["parameters"]
        text = " ".join(f"{k}={v}" for k, v in parameters.items()) if isinstance(
            parameters, dict
        ) else ""  # fmt: skip
        name = Text(str(known["name"]), style="bold")
        table.add_row(name, str(known["kind"]), str(known["title"]), text)
    out.print(table)
    out.print()
    out.print("Solve one: cdopt solve pyramid-hooke:n=10", markup=False)
