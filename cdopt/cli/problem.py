"""Arguments and options that commands share."""

from __future__ import annotations

from typing import Annotated

import typer

ProblemName = Annotated[
    str,
    typer.Argument(
        metavar="PROBLEM",
        help="A bank problem, such as beam-uniform or pyramid-hooke:n=10, a .npz file "
        "written by ContactStep.save, an FCLib file (.hdf5, its frictionless part), "
        "a step of a recorded run (RUN.vtkhdf#12), or a scene, such as beam or FILE.toml, where "
        "it comes to rest.",
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
AsJson = Annotated[
    bool, typer.Option("--json", help="Print JSON and nothing else, forces included.")
]
PlotFile = Annotated[
    str | None, typer.Option(metavar="FILE", help="Draw a picture: .png, .pdf or .svg.")
]
