"""``python -m examples.papers``: both papers reproduced, from cdopt's own runs."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from cdopt.cli import output as cli_output

from . import Report, Settings, de_klerk, olsen_kamrin
from .olsen_kamrin.page import cells

app = typer.Typer(
    help="Reproduce a paper: its figures and numbers, from cdopt's own runs.",
    no_args_is_help=True,
)

_Figure = Annotated[
    int | None, typer.Option(min=1, help="One figure alone; quick after a full run.")
]
_Layers = Annotated[int, typer.Option("--n", help="Layers of the pile; the paper's has 20.")]
_Out = Annotated[str, typer.Option(metavar="DIR", help="Folder of the page and of all runs.")]
_Dem = Annotated[
    str,
    typer.Option(help="Source of the DEM columns: lammps, elastic, or auto (LAMMPS if installed)."),
]
_Peer = Annotated[
    str,
    typer.Option(help="Source of velocity-Verlet: lammps, stored, or auto (LAMMPS if installed)."),
]
_Split = Annotated[
    str, typer.Option("--damping", help="Split of dissipation in variational steps: paper, forced.")
]
_BoxTime = Annotated[
    float, typer.Option(help="Time of the filling of the box, √(d/g); at most 16.")
]
_BoxStep = Annotated[str, typer.Option(help="Its time step is t_c over 16.1, 32 or 160.")]
_Json = Annotated[bool, typer.Option("--json", help="Print JSON and nothing else.")]


@app.callback()
def _reproduce() -> None:
    """Reproduce a paper: its figures and numbers, from cdopt's own runs."""


@app.command(name="olsen-kamrin")
def olsen_kamrin_command(
    figure: _Figure = None,
    n: _Layers = 20,
    out: _Out = "olsen-kamrin",
    dem: _Dem = "auto",
    as_json: _Json = False,
) -> None:
    """Figures 1-19 and Table 1 of Olsen & Kamrin (arXiv 1805.07437), on one page."""
    with cli_output.errors_in_one_line():
        settings = Settings(n=n, dem=dem)
        with _progress() as tell, cli_output.solvers_kept_quiet(False, as_json):
            report = olsen_kamrin(out, settings, figure, tell)
        if as_json:
            cli_output.print_json(report.as_dict())
        else:
            _print(report)


@app.command(name="de-klerk")
def de_klerk_command(
    figure: _Figure = None,
    out: _Out = "de-klerk",
    peer: _Peer = "auto",
    damping: _Split = "paper",
    box_time: _BoxTime = 16.0,
    box_step: _BoxStep = "16.1",
    as_json: _Json = False,
) -> None:
    """Figures 4 and 6-11 of De Klerk et al. (arXiv 2103.01757), on one page."""
    with cli_output.errors_in_one_line():
        settings = de_klerk.Settings(
            peer=peer, damping=damping, box_time=box_time, box_step=box_step
        )
        with _progress() as tell, cli_output.solvers_kept_quiet(False, as_json):
            report = de_klerk.reproduce(out, settings, figure, tell)
        if as_json:
            cli_output.print_json(report.as_dict())
        else:
            _print(report)


def _print(report: Report) -> None:
    """The table, and where everything is."""
    for number, (path, words) in report.figures.items():
        if not report.rows:
            typer.echo(f"figure {number}: {path}\n{words}")
    if report.page is None:
        return
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("quantity")
    for name in (report.wanted, "ours", "difference"):
        table.add_column(name, justify="right", no_wrap=True)
    for row in report.rows:
        table.add_row(*map(Text, cells(row)[:4]))
    cli_output.console().print(table)
    typer.echo(f"\npage: {report.page}")


@contextlib.contextmanager
def _progress() -> Iterator[Callable[[str], None]]:
    """What is being done, on stderr: one line that changes, or a line each without a terminal."""
    err = Console(stderr=True)
    if err.is_terminal:
        with err.status("starting") as status:
            yield status.update
        return
    said: list[str] = []

    def tell(text: str) -> None:
        what = text.partition(":")[0]
        if said[-1:] != [what]:
            said.append(what)
            typer.echo(what, err=True)

    yield tell


if __name__ == "__main__":
    app()
