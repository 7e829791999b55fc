"""Functions shared by commands: options, tables, JSON, errors, progress, and quiet solvers.

rich is imported when something is printed.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
import json
import logging
import math
import os
import sys
import textwrap
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TextIO, get_type_hints

import typer
from typer.models import OptionInfo

import cdopt
from cdopt._util.formatting import one_line, plain, visible
from cdopt.cli import INTERRUPTED as INTERRUPTED

if TYPE_CHECKING:
    from rich.console import Console
    from rich.text import Text

    from cdopt.problem.step import Step
    from cdopt.study import NamedProblem

NO_ANSWER, INFEASIBLE, UNDECIDED = 1, 2, 3  # exit codes
PIPE_WIDTH = 100  # columns when the output is no terminal
PAUSE = 2.0  # s between lines of progress when stderr is no terminal
REFERENCE_BACKEND = "newton"  # as cdopt.study.REFERENCE_BACKEND, which is slow to import


# --- options that several commands have ---------------------------------------------------


def _log_errors_only(quiet: bool) -> bool:
    if quiet:
        logging.getLogger("cdopt.compiling").setLevel(logging.ERROR)
    return quiet


def option(about: str, *names: str, **settings: Any) -> Any:
    """An option with these names, by default that of its parameter; ``about`` is its help text."""
    return typer.Option(*names, help=about, **settings)


def solvers(about: str) -> Any:
    """The option ``--solver``, whose help text begins with ``about``."""
    return option(f"{about} Separated by commas, or repeated.", "--solver", "--solvers")


PROBLEM = (
    "A bank problem, such as beam-uniform or pyramid-hooke:n=10; a member of a family, "
    "family:chains:32; a .npz file written by ContactStep.save; an FCLib file (.hdf5); a "
    "step of a recorded run, drop.vtkhdf#12; or a scene, such as beam "
    "or FILE.toml, where it comes to rest."
)
ProblemName = Annotated[str, typer.Argument(metavar="PROBLEM", help=PROBLEM)]
SceneName = Annotated[
    str,
    typer.Argument(
        metavar="SCENE",
        help="A scene file (.toml); a scene that ships with cdopt, such as beam, table or "
        "pyramid-5; or a generator of cdopt.scene with parameters, such as "
        "pyramid:n=8,power=2.5.",
    ),
]
Supports = Annotated[
    list[str] | None, option("Fixed blocks by name or number, separated by commas.")
]
Density = Annotated[
    float | None,
    option("Density of all blocks, kg/m³; required for loads in N and strengths in Pa."),
]
Unit = Annotated[float | None, option("Length of the file's unit, m.")]
StrengthOfJoints = Annotated[
    str | None,
    option(
        "Strength of joints in addition to friction, Pa (in a scene N for each "
        "contact): cohesion=1e5,tension=0,compression=5e6.",
        metavar="VALUES",
    ),
]
Json = Annotated[bool, option("Print only JSON.", "--json")]
Quiet = Annotated[
    bool, typer.Option("--quiet", "-q", callback=_log_errors_only, help="No progress on stderr.")
]
Force = Annotated[bool, option("Replace existing files.", "--force")]
Frictionless = Annotated[
    bool, option("Ignore friction: use only the normal rows.", "--frictionless")
]
Picture = Annotated[
    str | None, option("Draw a picture: .png, .pdf or .svg.", "--plot", metavar="FILE")
]
View = Annotated[
    str | None,
    option("View of a picture in space: side, isometric or perspective.", metavar="NAME"),
]
Power = Annotated[
    float | None, option("Power of the contact energy, 2 Hooke, 2.5 Hertz; default the problem's.")
]
Law = Annotated[str | None, option("Law of a problem with friction: coulomb or associated.")]


def split(texts: list[str] | None) -> list[str]:
    """The names in the values of an option, which may be repeated or separated by commas."""
    parts = (part.strip() for text in texts or () for part in text.split(","))
    return [part for part in parts if part]


def blocks(texts: list[str] | None) -> list[str | int] | None:
    """Names or numbers of blocks in the values of ``--supports``; None without any."""
    return [int(word) if word.isdecimal() else word for word in split(texts)] or None


def vectors(option: str, texts: list[str], expected: str) -> dict[str | int, list[float]]:
    """The values of an option that takes NAME=0,0,1, by name or number; "" without a name."""
    values: dict[str | int, list[float]] = {}
    for text in texts:
        name, _, numbers = text.rpartition("=")
        try:
            values[int(name) if name.isdecimal() else name] = [float(x) for x in numbers.split(",")]
        except ValueError:
            raise cdopt.InvalidInput(option, repr(text), expected) from None
    return values


def require_view(view: str | None) -> None:
    """Check the value of ``--view`` before anything is solved."""
    if view is not None and view not in cdopt.plots.bodies.VIEWS:
        expected = f"one of {', '.join(cdopt.plots.bodies.VIEWS)}"
        raise cdopt.InvalidInput("--view", repr(view), expected)


def strength(text: str | None) -> cdopt.Strength | None:
    """The value of ``--strength``."""
    if text is None:
        return None
    values: dict[str, float] = {}
    for word in split([text]):
        name, _, value = word.partition("=")
        try:
            values[name] = float(value)
        except ValueError:
            expected = "cohesion=…,tension=…,compression=… with numbers"
            raise cdopt.InvalidInput("--strength", repr(text), expected) from None
    known = ("cohesion", "tension", "compression")
    for name in values:
        if name not in known:
            raise cdopt.InvalidInput("--strength", repr(name), f"some of {', '.join(known)}")
    return cdopt.Strength(**values)


# --- what is printed ----------------------------------------------------------------------


def console() -> Console:
    """Where results are printed; made for each use, so that a redirected stdout is respected."""
    from rich.console import Console

    out = Console(highlight=False)
    if not out.is_terminal and "COLUMNS" not in os.environ:
        return Console(highlight=False, width=PIPE_WIDTH)
    return out


def text(content: str, style: str = "") -> Text:
    """Text that is printed without markup, with control characters as escapes."""
    from rich.text import Text

    return Text(visible(content), style=style)


def echo(content: str, err: bool = False) -> None:
    """Print a line to stdout or stderr, with control characters as escapes."""
    typer.echo(visible(content), err=err)


def say(content: str, style: str = "") -> None:
    """Print a paragraph."""
    console().print(text(content, style))


def say_of(name: str, about: str, style: str = "") -> None:
    """Print a name in bold and its description."""
    console().print(text(name, "bold").append(visible(about), f"not bold {style}"))


def say_entry(name: str, about: str, column: int, indent: int = 0) -> None:
    """A name that is never broken, and its description from ``column`` on, or below it."""
    start = f"{name:<{column}}" if len(name) < column else f"{name}\n{column * ' '}"
    lines = textwrap.wrap(about, console().width - column, subsequent_indent=indent * " ")
    say_of(start, ("\n" + column * " ").join(lines))


def print_table(
    columns: Sequence[str],
    rows: Iterable[Sequence[Any]],
    numbers: Sequence[str] = (),
    wrap: Sequence[str] = (),
    sections: Sequence[int] = (),
) -> None:
    """Print a table; ``numbers`` are columns aligned right, ``sections`` rows with a gap above."""
    from rich.table import Table

    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim")
    table.show_header = any(columns)
    for name in columns:
        justify: Any = "right" if name in numbers else "left"
        table.add_column(text(name), justify=justify, no_wrap=name not in wrap)
    for number, row in enumerate(rows):
        if number in sections:
            table.add_section()
        table.add_row(*(text(cell) if isinstance(cell, str) else cell for cell in row))
    console().print(table)


def listed(parameters: Mapping[str, object]) -> str:
    """Parameters and their values: "n=5 power=2.5"."""
    return " ".join(f"{key}={value}" for key, value in parameters.items())


def force(value: float, largest: float) -> str:
    """A force to five digits of the ``largest`` in its table; 0 if it rounds to zero."""
    if not math.isfinite(value):
        return "–" if math.isnan(value) else "∞"
    if abs(value) <= 0.5e-4 * largest:
        return "0"
    digits = 4 - math.floor(math.log10(0.999 * largest))
    return f"{value:,.{max(digits, 0)}f}" if -3 <= digits <= 9 else f"{value:.4e}"


def largest_finite(values: Iterable[float]) -> float:
    """The largest finite absolute value; 0 without any."""
    return max((abs(float(x)) for x in values if math.isfinite(x)), default=0.0)


def print_json(content: Any) -> None:
    """Print a value as strict JSON, which escapes all control characters but one."""
    stated = json.dumps(plain(content), indent=2, allow_nan=False)
    typer.echo(stated.replace("\x7f", "\\u007f"))


def save_picture(figure: Any, path: str) -> None:
    """Write a picture and print its path."""
    cdopt.plots.save(figure, path)
    echo(f"picture: {path}", err=True)


# --- errors ---------------------------------------------------------------------------------


def command(function: Callable[..., None]) -> Callable[..., None]:
    """A command that checks ``--plot`` first; errors are one line on stderr and an exit code."""

    @functools.wraps(function)
    def run(**given: Any) -> None:
        try:
            if given.get("plot") is not None:
                cdopt.plots.check_path(given["plot"])
            function(**given)
        except cdopt.CdoptError as error:
            echo(f"error: {one_line(_message(error, function), 500)}", err=True)
            raise typer.Exit(NO_ANSWER) from None
        except KeyboardInterrupt:
            echo("interrupted", err=True)
            raise typer.Exit(INTERRUPTED) from None

    return run


def _options(function: Callable[..., None]) -> dict[str, str]:
    """The name of each option of a command, ``--at-rest``, by that of its parameter."""
    found = {}
    for name, annotation in get_type_hints(function, include_extras=True).items():
        for info in getattr(annotation, "__metadata__", ()):
            if isinstance(info, OptionInfo):
                found[name] = next(iter(info.param_decls or ()), f"--{name.replace('_', '-')}")
    return found


def _message(error: cdopt.CdoptError, function: Callable[..., None]) -> str:
    """The text of an error, with the option of the command instead of the library's argument."""
    if isinstance(error, cdopt.InvalidInput):
        option = _options(function).get(error.argument)
        if option is not None:
            found = "none" if error.found == "None" else error.found
            return f"{option}: found {found}; expected {error.expected}"
    return str(error)


@contextlib.contextmanager
def replacing(force: bool, *paths: str | Path | None) -> Iterator[None]:
    """Name ``--force`` in the refusal of a file that exists; with it, put such files away first.

    They are back after an error before a file was written.
    """
    there = [Path(path) for path in paths if path is not None and Path(path).is_file()]
    away = {path: path.with_name(f".{path.name}.{os.getpid()}") for path in there if force}
    for path, kept in away.items():
        with contextlib.suppress(OSError):  # writing it reports why it cannot be written
            path.replace(kept)
    refused = True
    try:
        yield
        refused = False
        if there:
            more = f" and {len(there) - 1} more" if len(there) > 1 else ""
            echo(f"replaced: {there[0]}{more}", err=True)
    except cdopt.InvalidInput as error:
        if force or not any(str(path) in error.found for path in there):
            raise
        expected = f"{error.expected}, or --force to replace it"
        raise cdopt.InvalidInput(error.argument, error.found, expected) from error
    finally:
        for path, kept in away.items():
            with contextlib.suppress(OSError):
                kept.replace(path) if refused and not path.exists() else kept.unlink()


@contextlib.contextmanager
def solving(title: str, as_json: bool, **content: Any) -> Iterator[None]:
    """Keep solvers quiet; print a proof of infeasibility, after ``content``, and leave."""
    try:
        with solvers_kept_quiet(to_stderr=as_json):
            yield
    except cdopt.SolveFailed as error:
        if error.proof is None:
            raise
        failed = cdopt.study.SolutionSet(failures={error.backend: error}, title=title)
        if as_json:
            print_json({**content, **failed.as_dict()})
        else:
            say(failed.summary)
        raise typer.Exit(INFEASIBLE) from None


# --- problems ---------------------------------------------------------------------------------


def open_problem(
    problem: str, what: str, frictionless: bool, law: str | None, power: float | None = None
) -> NamedProblem:
    """A problem for a command with ``--law``; ``what`` with friction requires a law."""
    if law is not None and frictionless:
        raise cdopt.InvalidInput("--frictionless", "both --frictionless and --law", "one of them")
    named = cdopt.open_problem(problem, power, frictionless=frictionless)
    if law is None:
        named.require_frictionless(what)
    return named


def step_of(named: NamedProblem) -> Step:
    """The step of a problem."""
    if named.step is None:
        raise cdopt.InvalidInput("problem", f"{named.name}, a truss", "a contact step")
    return named.step


# --- progress, and what solvers print -----------------------------------------------------------


@contextlib.contextmanager
def spinner() -> Iterator[Callable[[str], None]]:
    """A spinner on stderr with a changing text; nothing when stderr is no terminal."""
    from rich.console import Console

    err = Console(stderr=True)
    if not err.is_terminal:
        yield lambda label: None
        return
    with err.status("starting") as status:
        yield lambda label: status.update(text(f"solving: {label}"))


def progress(quiet: bool, noun: str, pause: float = 0.0) -> bool | Callable[..., None]:
    """The ``progress`` argument of long work: a bar on a terminal, else lines every ``pause`` s."""
    from rich.console import Console

    if quiet or Console(stderr=True).is_terminal:
        return not quiet
    last = time.monotonic()

    def line(done: int, total: int, note: str = "") -> None:
        nonlocal last
        now = time.monotonic()
        if done and (done == total or now - last >= pause):
            last = now
            echo(f"{noun} {done:,} of {total:,}: {note}", err=True)

    return line


@contextlib.contextmanager
def solvers_kept_quiet(verbose: bool = False, to_stderr: bool = False) -> Iterator[None]:
    """Keep what solvers write to standard output out of the command's output.

    Some write through C: so the file descriptor is redirected, to stderr if they are ``verbose``
    and stdout is for JSON.
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
        aside: TextIO = sys.stderr
        if verbose:
            os.dup2(2, 1)
        else:
            aside = stack.enter_context(Path(os.devnull).open("w"))
            os.dup2(aside.fileno(), 1)
        stack.enter_context(contextlib.redirect_stdout(aside))
        yield


def _flush() -> None:
    """Flush the buffers of Python and C to the present descriptor."""
    if sys.stdout is not None:  # which it is where the descriptor was closed
        sys.stdout.flush()
    with contextlib.suppress(OSError, TypeError, AttributeError):  # another kind of C library
        ctypes.CDLL(None).fflush(None)
