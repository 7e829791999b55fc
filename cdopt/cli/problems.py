"""``cdopt problems``: the problem bank."""

from __future__ import annotations

import cdopt
from cdopt.cli import output
from cdopt.cli.options import Json

HELP = "List the problems of the bank."


def problems(as_json: Json = False) -> None:
    """List the problems of the bank."""
    with output.errors_in_one_line():
        manifests = {name: cdopt.bank.manifest(name) for name in cdopt.bank.names()}
    if as_json:
        fields = ("title", "description", "kind", "power", "parameters")
        records = [
            {"name": name, **{field: getattr(manifest, field) for field in fields}}
            for name, manifest in manifests.items()
        ]
        output.print_json(records)
        return
    columns = ("problem", "kind", "title", "parameters and defaults")
    table = output.table(*columns, wrap=columns[2:])
    for name, manifest in manifests.items():
        parameters = " ".join(f"{key}={value}" for key, value in manifest.parameters.items())
        table.add_row(output.text(name, "bold"), manifest.kind, manifest.title, parameters)
    output.console().print(table)
    output.say("\nSolve one: cdopt solve pyramid-hooke:n=10")
