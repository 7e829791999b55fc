"""``cdopt scenes``: scenes that ship with cdopt, and generators with their parameters."""

from __future__ import annotations

import inspect
from typing import Annotated, Any

import typer

import cdopt
from cdopt.cli import output
from cdopt.cli.options import Json

HELP = (
    "List the scenes that ship with cdopt and the generators of scenes with their parameters; with "
    "a name, describe one."
)


def scenes(
    name: Annotated[
        str | None,
        typer.Argument(metavar="SCENE", help="A scene, such as arch or pyramid:n=4."),
    ] = None,
    as_json: Json = False,
) -> None:
    """List scenes and generators of scenes."""
    with output.errors_in_one_line():
        if name is not None:
            described = [_record(name, cdopt.scene.load(name))]
        else:
            shipped = cdopt.scene.shipped_scenes()
            described = [_record(each, cdopt.scene.load(each)) for each in shipped]
    if as_json:
        generators = {} if name else {key: _parameters(key) for key in cdopt.scene.GENERATORS}
        output.print_json(described[0] if name else {"scenes": described, "generators": generators})
        return
    if name is not None:
        _describe(name, described[0])
        return
    table = output.table("scene", "bodies", "title", wrap=["title"])
    for record in described:
        bodies = f"{record['bodies']:,} in {record['dim']}D"
        table.add_row(output.text(record["name"], "bold"), bodies, record["title"])
    output.console().print(table)
    output.say("")
    table = output.table("generator", "parameters and defaults", wrap=["parameters and defaults"])
    for key in sorted(cdopt.scene.GENERATORS):
        table.add_row(output.text(key.replace("_", "-"), "bold"), _listed(_parameters(key)))
    output.console().print(table)
    output.say("\nSimulate one: cdopt simulate pyramid:n=8. Describe one: cdopt scenes pyramid:n=8")


def _record(name: str, scene: cdopt.scene.Scene) -> dict[str, Any]:
    return {
        "name": name,
        "title": scene.title,
        "dim": scene.dim,
        "bodies": scene.nb,
        "free": int((~scene.bodies.fixed).sum()),
        "power": scene.power,
        "materials": [material.name for material in scene.materials],
    }


def _describe(name: str, record: dict[str, Any]) -> None:
    """One scene, and the parameters of its generator if there is one."""
    output.say(f"{name}: {record['title'] or record['name']}", "bold")
    output.say(
        f"{record['bodies']:,} bodies in {record['dim']}D, {record['free']:,} of them free, "
        f"power {record['power']:g}"
    )
    key = name.partition(":")[0].replace("-", "_")
    if key in cdopt.scene.GENERATORS:
        about = inspect.getdoc(cdopt.scene.GENERATORS[key]) or ""
        output.say(f"generator cdopt.scene.{key}: {about.partition(chr(10))[0]}")
        output.say(f"parameters: {_listed(_parameters(key))}")


def _parameters(key: str) -> dict[str, Any]:
    return cdopt.scene.files.parameters_of(key)


def _listed(parameters: dict[str, Any]) -> str:
    return " ".join(f"{key}={value}" for key, value in parameters.items())
