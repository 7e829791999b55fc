"""``python -m examples.loading``: run a small loading experiment, print its table, draw it."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from cdopt import plots
from cdopt._util import documents

from . import biaxial, compress, confine, disc_box, disc_pile, loading_path, press
from .record import LoadingPath

Table = dict[str, np.ndarray]  # columns


def compression() -> tuple[LoadingPath, Table, str]:
    """A box of discs under 2 kPa, whose top then moves down by 4 %."""
    box = disc_box(30)
    run = compress(box, "top", 0.04, 16, start=confine(box, 2e3), progress=True)
    table = {"strain": run.strain, "stress [Pa]": run.stress, "dissipated [J]": run.dissipated}
    return run, table, "A box of discs is compressed"


def biaxial_test() -> tuple[LoadingPath, Table, str]:
    """A box of discs shortened by 4 % while its side walls bear 2 kPa."""
    run = biaxial(disc_box(30), 2e3, 0.04, 16, progress=True)
    table = {
        "axial strain": run.axial_strain,
        "deviator [Pa]": run.deviator,
        "volumetric strain": run.volumetric_strain,
    }
    return run, table, "A biaxial test"


def pile() -> tuple[LoadingPath, Table, str]:
    """A pile of three rows of discs under a growing load, until it collapses."""
    run = press(disc_pile(3), np.linspace(20.0, 400.0, 8), progress=True)
    table = {
        "load [N]": run.load,
        "settlement [m]": run.settlement,
        "largest force [N]": run.largest,
    }
    return run, table, "A pile under a growing load"


EXPERIMENTS = {"compression": compression, "biaxial": biaxial_test, "pile": pile}


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the experiment that the command line names."""
    parser = argparse.ArgumentParser("python -m examples.loading", description=__doc__)
    parser.add_argument("experiment", nargs="?", choices=EXPERIMENTS, default="biaxial")
    parser.add_argument("--out", type=Path, default=Path(), help="folder of picture and table")
    given = parser.parse_args(arguments)
    run, columns, title = EXPERIMENTS[given.experiment]()
    columns |= {"contacts": run.contacts, "gained": run.gained, "lost": run.lost}
    rows = list(zip(*(values.tolist() for values in columns.values()), strict=True))
    for row in [list(columns), *([f"{value:.6g}" for value in row] for row in rows)]:
        print(*(cell.rjust(18) for cell in row))
    if run.failure:
        print(run.failure)
    given.out.mkdir(parents=True, exist_ok=True)
    table, picture = (given.out / f"{given.experiment}{end}" for end in (".csv", ".png"))
    table.write_text(documents.csv_text(list(columns), rows), encoding="utf-8")
    plots.save(loading_path(run, title=title), picture)
    print(f"{picture}, {table}")


if __name__ == "__main__":
    main()
