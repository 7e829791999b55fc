"""The lessons of examples/, each run once per process as its readers run it, and kept."""

from __future__ import annotations

import contextlib
import io
import os
import runpy
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import SimpleNamespace
from typing import Any

EXAMPLES = Path(__file__).parents[1] / "examples"
LESSONS = sorted(EXAMPLES.glob("[0-9]*.py"))  # lesson n is LESSONS[n]: they begin at zero
PNG = b"\x89PNG\r\n\x1a\n"


@dataclass(frozen=True)
class Ran:
    """What a lesson came to: its names, what it said, and the files it left in its folder."""

    names: SimpleNamespace
    said: str
    errors: str
    left: dict[str, bytes]


@cache
def ran(number: int) -> Ran:
    """The lesson as a script in an empty folder."""
    path = LESSONS[number]
    said = io.StringIO()
    with tempfile.TemporaryDirectory() as made, tempfile.TemporaryDirectory() as aside:
        errors = Path(aside) / "errors"
        with contextlib.chdir(made), contextlib.redirect_stdout(said), _errors_into(errors):
            names = runpy.run_path(str(path), run_name="__main__")
        left = {file.name: file.read_bytes() for file in Path(made).iterdir()}
        return Ran(SimpleNamespace(**names), said.getvalue(), errors.read_text("utf-8"), left)


def what_if(number: int, *changes: str) -> dict[str, Any]:
    """The lesson's names after some of its lines were changed, as its readers do: old, new, …"""
    source = LESSONS[number].read_text(encoding="utf-8")
    for line, instead in zip(changes[::2], changes[1::2], strict=True):
        assert source.count(line) == 1, line
        source = source.replace(line, instead)
    names: dict[str, Any] = {"__name__": "lesson"}
    with contextlib.redirect_stdout(io.StringIO()):
        exec(compile(source, LESSONS[number].name, "exec"), names)
    return names


@cache
def lesson(number: int) -> SimpleNamespace:
    """The lesson's names, without its picture."""
    return SimpleNamespace(**what_if(number))


def drawn(number: int) -> SimpleNamespace:
    """The lesson's names, from a run of which the picture is checked, too."""
    check_picture(number)
    return ran(number).names


@contextlib.contextmanager
def _errors_into(path: Path) -> Iterator[None]:
    """All that goes to stderr, from Python and from compiled solvers alike."""
    kept = os.dup(2)
    try:
        with path.open("w", encoding="utf-8") as stream, contextlib.redirect_stderr(stream):
            os.dup2(stream.fileno(), 2)
            try:
                yield
            finally:
                os.dup2(kept, 2)
    finally:
        os.close(kept)


def check_picture(number: int) -> None:
    """A lesson says where its picture is, draws it, and leaves nothing else and no complaint."""
    name, run = LESSONS[number].stem, ran(number)
    picture = f"{name}.png"
    assert run.errors == ""
    assert f"The picture is in {picture}" in run.said
    assert run.left[picture][:8] == PNG
    assert set(run.left) - {picture} == ({"plank.npz"} if number == 6 else set())
