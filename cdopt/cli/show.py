"""``cdopt show``: what a run came to, its force chains, and a page to turn it around on."""

from __future__ import annotations

from typing import Annotated

import typer

from cdopt import plots
from cdopt._util.errors import InvalidInput
from cdopt.cli import output as cli_output
from cdopt.cli import run_output as cli_run_output
from cdopt.dynamics import Trajectory
from cdopt.plots.page import check_page, save_page
from cdopt.plots.run import run_overview

HELP = (
    "Summarise a run that cdopt simulate wrote, also one that is being written or was killed; "
    "draw a frame, or make a page of all. Exit code: 0, also when steps of the run are not "
    "certified, which the summary tells; 1 when the input is bad."
)

_Run = Annotated[str, typer.Argument(metavar="RUN", help="A file written by cdopt simulate --out.")]
_Frame = Annotated[
    int,
    typer.Option(help="Number of a frame, from 0; negative numbers count from the end."),
]
_Plot = Annotated[
    str | None,
    typer.Option(
        metavar="FILE",
        help="Draw the frame's force chains beside energy and overlap over time: .png, .pdf, .svg.",
    ),
]
_Page = Annotated[
    str | None,
    typer.Option(
        metavar="FILE.html",
        help="Make one page, to be opened without a network: bodies and force chains in space, "
        "with a slider over time. Needs pip install 'cdopt[pages]'.",
    ),
]
_Json = Annotated[
    bool, typer.Option("--json", help="Print JSON and nothing else, the frame's forces included.")
]


def show(
    run: _Run, frame: _Frame = -1, plot: _Plot = None, page: _Page = None, as_json: _Json = False
) -> None:
    """Summarise a run."""
    with cli_output.errors_in_one_line():
        if plot is not None:
            plots.check_path(plot)
        if page is not None:
            check_page(page)
        trajectory = Trajectory.load(run)
        count = len(trajectory)
        if not -count <= frame < count:
            raise InvalidInput("--frame", str(frame), f"a number from {-count} to {count - 1}")
        if as_json:
            cli_output.print_json(cli_run_output.record(trajectory, frame))
        else:
            cli_run_output.print_heading(trajectory)
            cli_run_output.print_summary(trajectory)
            cli_output.console().print()
            cli_run_output.print_table(trajectory)
            cli_output.console().print()
            cli_run_output.print_frame(trajectory, frame)
        if plot is not None:
            plots.save(run_overview(trajectory, frame), plot)
            typer.echo(f"picture: {plot}", err=True)
        if page is not None:
            size = save_page(trajectory, page, frame).stat().st_size
            typer.echo(f"page: {page} ({size / 1e6:.1f} MB)", err=True)
