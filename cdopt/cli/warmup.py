"""``cdopt warmup``: compile all loops once, for images and classrooms."""

from __future__ import annotations

import importlib
import time
from typing import Annotated

import typer

from cdopt.cli import output


def warmup(
    processes: Annotated[
        int | None, typer.Option(min=1, help="At the same time; default one a core.")
    ] = None,
) -> None:
    """Compile all loops once, for images and classrooms.

    The loops are compiled on all cores and stored; otherwise each is compiled on first use.
    """
    began, total = time.perf_counter(), 0.0
    for name, seconds in importlib.import_module("cdopt.study.warmup").compile_all(processes):
        output.say(f"{name}: {f'{seconds:.1f} s' if seconds else 'compiled before'}")
        total += seconds
    output.say(f"{total:.0f} s of compiling in {time.perf_counter() - began:.0f} s")
