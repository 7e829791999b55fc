"""Arguments and options that several commands share."""

from __future__ import annotations

import logging
from typing import Annotated, Any

import typer

REFERENCE_BACKEND = "newton"  # as cdopt.study.REFERENCE_BACKEND, which is slow to import

ProblemName = Annotated[
    str,
    typer.Argument(
        metavar="PROBLEM",
        help="A bank problem, such as beam-uniform or pyramid-hooke:n=10; a member of a family, "
        "family:chains:32; a .npz file written by ContactStep.save; an FCLib file (.hdf5); a "
        "step of a recorded run, drop.vtkhdf#12; or a scene, such as beam "
        "or FILE.toml, where it comes to rest.",
    ),
]
SceneName = Annotated[
    str,
    typer.Argument(
        metavar="SCENE",
        help="A scene file (.toml); a scene that ships with cdopt, such as beam, table or "
        "pyramid-5; or a generator of cdopt.scene with parameters, such as "
        "pyramid:n=8,power=2.5.",
    ),
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON and nothing else.")]


def _log_errors_only(quiet: bool) -> bool:
    if quiet:
        logging.getLogger("cdopt.compiling").setLevel(logging.ERROR)
    return quiet


Quiet = Annotated[
    bool,
    typer.Option("--quiet", "-q", callback=_log_errors_only, help="No progress on stderr."),
]
Picture = Annotated[
    str | None,
    typer.Option("--plot", metavar="FILE", help="Draw a picture: .png, .pdf or .svg."),
]
Power = Annotated[
    float | None,
    typer.Option(help="Power of the contact energy, 2 Hooke, 2.5 Hertz; default the problem's."),
]
Frictionless = Annotated[
    bool,
    typer.Option("--frictionless", help="Leave friction out: the normal rows alone."),
]
Law = Annotated[
    str | None,
    typer.Option(help="Of a problem with friction: the law of its motion, coulomb or associated."),
]
Force = Annotated[bool, typer.Option("--force", help="Replace a file that exists.")]


def solvers(about: str) -> Any:
    """The option ``--solver``, whose help text is ``about``."""
    return typer.Option("--solver", "--solvers", help=f"{about} With commas between, or repeated.")


def split(texts: list[str] | None) -> list[str]:
    """The names in the values of an option that takes them with commas between, or repeated."""
    parts = (part.strip() for text in texts or () for part in text.split(","))
    return [part for part in parts if part]
