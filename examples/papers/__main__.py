"""``python -m examples.papers``: reproduce one of the papers."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from cdopt import CdoptError

from . import de_klerk, olsen_kamrin
from .report import Report


def main(arguments: Sequence[str] | None = None) -> None:
    """Reproduce the paper that the command line names."""
    given = parser().parse_args(arguments)
    try:
        if given.paper == "olsen-kamrin":
            settings = olsen_kamrin.Settings(n=given.n, dem=given.dem)
            report = olsen_kamrin.reproduce(given.out, settings, given.figure, Progress())
        else:
            settings = de_klerk.Settings(
                given.peer, given.damping, box_time=given.box_time, box_step=given.box_step
            )
            report = de_klerk.reproduce(given.out, settings, given.figure, Progress())
    except CdoptError as error:
        sys.exit(f"error: {' '.join(str(error).split())}")
    print_report(report)


def parser() -> argparse.ArgumentParser:
    """The options of both papers."""
    top = argparse.ArgumentParser("python -m examples.papers", description=__doc__)
    papers = top.add_subparsers(dest="paper", required=True)
    kamrin = papers.add_parser("olsen-kamrin", help="figures 1 to 19 and Table 1, arXiv 1805.07437")
    klerk = papers.add_parser("de-klerk", help="figures 2 and 4 to 11, arXiv 2103.01757")
    for paper, name in ((kamrin, "olsen-kamrin"), (klerk, "de-klerk")):
        paper.add_argument("--out", default=name, help="folder of the page and of all runs")
        paper.add_argument("--figure", help="draw this figure only, such as 9 or 11(a)")
    kamrin.add_argument("--n", type=int, default=20, help="layers of the pile (20 in the paper)")
    kamrin.add_argument(
        "--dem", default="auto", help="source of the DEM columns: lammps, verlet, elastic or auto"
    )
    klerk.add_argument(
        "--peer", default="auto", help="source of velocity-Verlet: lammps, stored or auto"
    )
    klerk.add_argument(
        "--damping", default="paper", help="dissipation of variational steps: paper or forced"
    )
    klerk.add_argument(
        "--box-time", type=float, default=16.0, help="time of the filling, √(d/g), up to 16"
    )
    klerk.add_argument(
        "--box-step", default="16.1", help="its time step is t_c over 16.1, 32 or 160"
    )
    return top


class Progress:
    """Prints on stderr what is being computed, each thing once."""

    def __init__(self) -> None:
        self._last = ""

    def __call__(self, text: str) -> None:
        what = text.partition(":")[0]
        if what != self._last:
            self._last = what
            print(what, file=sys.stderr)


def print_report(report: Report) -> None:
    """The table and the page, or the figure that was asked for."""
    if report.page is None:
        for number, (path, caption) in report.figures.items():
            print(f"figure {number}: {path}\n{caption}")
        return
    rows = [report.columns[:4], *(number.cells()[:4] for number in report.numbers)]
    widths = [max(len(row[k]) for row in rows) for k in range(4)]
    for name, *values in rows:
        numbers = (value.rjust(width) for value, width in zip(values, widths[1:], strict=True))
        print(name.ljust(widths[0]), *numbers, sep="  ")
    print(f"\npage: {report.page}")


if __name__ == "__main__":
    main()
