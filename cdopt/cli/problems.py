"""``cdopt problems``: the problem bank."""

from __future__ import annotations

from typing import Annotated, Any

import typer

import cdopt
from cdopt.cli import output
from cdopt.cli.options import Json

HELP = (
    "List the problems of the bank and its families; with a name, describe one: what it is for, "
    "its parameters, which answers are unique and why, and known values."
)

_SHOWN = 4  # values of a reference that are written out


def problems(
    name: Annotated[
        str | None,
        typer.Argument(metavar="PROBLEM", help="A problem, such as table or pyramid-hooke:n=10."),
    ] = None,
    as_json: Json = False,
) -> None:
    """List the problems of the bank."""
    with output.errors_in_one_line():
        if name is not None:
            _describe(cdopt.bank.load(name), as_json)
            return
        manifests = {name: cdopt.bank.manifest(name) for name in cdopt.bank.names()}
    if as_json:
        output.print_json([{"name": name, **_fields(m)} for name, m in manifests.items()])
        return
    for name, manifest in manifests.items():
        listed = output.listed(manifest.parameters)
        about = f"{manifest.title}; {listed}" if listed else manifest.title
        output.say_entry(name, f"{manifest.kind:<12}{about}", 28, 12)
    every = cdopt.bank.families().items()
    families = ", ".join(f"family:{name}:{family.sizes[0]}" for name, family in every)
    output.say(f"\nMembers of families, the number is their size: {families}")
    output.say("Describe one: cdopt problems table. Solve one: cdopt solve pyramid-hooke:n=10")


def _fields(manifest: cdopt.bank.Manifest) -> dict[str, Any]:
    fields = ("title", "description", "kind", "power", "parameters")
    return {field: getattr(manifest, field) for field in fields}


def _describe(problem: cdopt.bank.BankProblem, as_json: bool) -> None:
    """Everything that the bank says of one problem."""
    manifest, unique = problem.manifest, problem.manifest.unique
    answers = unique.answers
    if as_json:
        output.print_json(
            {
                "name": problem.name,
                **_fields(manifest),
                "parameters": dict(problem.parameters),
                "unique": {**answers, "because": unique.because},
                "references": dict(problem.references),
            }
        )
        return
    output.say(f"{problem.name}: {manifest.title}", "bold")
    output.say(manifest.description)
    output.say(f"\n{problem.step or problem.kind}, power {problem.power:g}")
    if problem.parameters:
        output.say(f"parameters: {output.listed(problem.parameters)}")
    found = ", ".join(name for name, sure in answers.items() if sure) or "none"
    output.say(f"unique answers: {found}. {unique.because}")
    table = output.table("reference", "value", "source", wrap=["source"])
    for name, value in problem.references.items():
        values = [value] if isinstance(value, float) else value.ravel().tolist()
        few = len(values) <= _SHOWN
        shown = " ".join(f"{x:,.6g}" for x in values) if few else f"{len(values):,} values"
        table.add_row(name, shown, problem.stated[name].source)
    if problem.references:
        output.console().print(table)
