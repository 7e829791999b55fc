"""``cdopt problems``: the problem bank."""

from __future__ import annotations

from typing import Annotated, Any

import typer

import cdopt
from cdopt.cli import output

_SHOWN = 4  # values of a reference that are written out


def problems(
    name: Annotated[
        str | None,
        typer.Argument(metavar="PROBLEM", help="A problem, such as table or pyramid-hooke:n=10."),
    ] = None,
    as_json: output.Json = False,
) -> None:
    """List the problems of the bank and its families.

    With a name, describe one problem: its purpose, its parameters, which answers are unique and
    why, and known values.
    """
    if name is not None:
        _describe_problem(cdopt.bank.load(name), as_json)
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


def _describe_problem(problem: cdopt.bank.BankProblem, as_json: bool) -> None:
    manifest, unique = problem.manifest, problem.manifest.unique
    answers, parameters = unique.answers, dict(problem.parameters)
    if as_json:
        content = {"name": problem.name, **_fields(manifest), "parameters": parameters}
        content |= {"unique": {**answers, "because": unique.because}}
        output.print_json({**content, "references": dict(problem.references)})
        return
    output.say(f"{problem.name}: {manifest.title}", "bold")
    output.say(manifest.description)
    output.say(f"\n{problem.step or problem.kind}, power {problem.power:g}")
    if parameters:
        output.say(f"parameters: {output.listed(parameters)}")
    sure = ", ".join(name for name, sure in answers.items() if sure) or "none"
    output.say(f"unique answers: {sure}. {unique.because}")
    rows = []
    for name, value in problem.references.items():
        values = [value] if isinstance(value, float) else value.ravel().tolist()
        few = len(values) <= _SHOWN
        shown = " ".join(f"{x:,.6g}" for x in values) if few else f"{len(values):,} values"
        rows.append((name, shown, problem.stated[name].source))
    if rows:
        output.print_table(("reference", "value", "source"), rows, wrap=["source"])
