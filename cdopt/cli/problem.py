"""Which problem a command is about, and the options that commands share."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from cdopt import bank
from cdopt._util.parameters import split
from cdopt.bank import BankProblem
from cdopt.cli import scene as cli_scene
from cdopt.dynamics.rest import at_rest, contact_names
from cdopt.interop import fclib
from cdopt.problem.contact_law import HOOKE
from cdopt.problem.contact_step import ContactStep

ProblemName = Annotated[
    str,
    typer.Argument(
        metavar="PROBLEM",
        help="A bank problem, such as beam-uniform or pyramid-hooke:n=10, a .npz file "
        "written by ContactStep.save, an FCLib file (.hdf5, its frictionless part), or a scene, "
        "such as beam or FILE.toml, where it comes to rest.",
    ),
]
AsJson = Annotated[
    bool, typer.Option("--json", help="Print JSON and nothing else, forces included.")
]
PlotFile = Annotated[
    str | None, typer.Option(metavar="FILE", help="Draw a picture: .png, .pdf or .svg.")
]


@dataclass(frozen=True)
class Task:
    """What to solve: a step or a truss, under a name.

    Attributes
    ----------
    name, title : for headings.
    power : p of the contact energy.
    step : the step, or None for a truss.
    truss : the bank's truss, or None for a step.
    """

    name: str
    title: str
    power: float
    step: ContactStep | None = None
    truss: BankProblem | None = None

    @property
    def contact_names(self) -> list[str]:
        """Names of the contacts, their numbers where they have none."""
        if self.step is not None and self.step.contact_ids is not None:
            return [str(name) for name in self.step.contact_ids]
        known = self.step if self.step is not None else self.truss
        if known is None or known.stiffness is None:
            return []
        return [str(i) for i in range(known.stiffness.shape[0])]


def load(problem: str, power: float | None) -> Task:
    """A bank problem by name, a step by the path of its file, or a scene at rest."""
    if problem.endswith(".npz"):
        step = ContactStep.load(problem)
        return Task(Path(problem).name, repr(step), HOOKE if power is None else power, step)
    if problem.endswith(fclib.SUFFIXES):
        stored = fclib.read(problem)
        title = f"{stored.step!r}; {stored.label}"
        return Task(Path(problem).name, title, HOOKE if power is None else power, stored.step)
    if problem.endswith(".toml") or _is_scene(problem):
        return _at_rest(problem, power)
    found = bank.load(problem)
    chosen = found.power if power is None else power
    truss = found if found.kind == "truss" else None
    return Task(found.name, found.title, chosen, found.step, truss)


def _is_scene(problem: str) -> bool:
    """Whether a word means a scene and no bank problem."""
    name, _ = split(problem)
    return name not in bank.names() and cli_scene.known(problem)


def _at_rest(text: str, power: float | None) -> Task:
    scene = cli_scene.load(text)
    _, step, _ = at_rest(scene)
    named = step.replace(contact_ids=list(contact_names(scene, step)))
    title = f"{scene.title or scene.name or text}, at rest"
    return Task(Path(text).name, title, scene.power if power is None else power, named)
