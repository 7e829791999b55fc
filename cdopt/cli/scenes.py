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
        listed = cdopt.scene.shipped_scenes() if name is None else [name]
        described = [{**record(cdopt.scene.load(each)), "name": each} for each in listed]
    if as_json:
        parameters_of = cdopt.scene.files.parameters_of
        generators = {} if name else {key: parameters_of(key) for key in cdopt.scene.GENERATORS}
        output.print_json(described[0] if name else {"scenes": described, "generators": generators})
        return
    if name is not None:
        _describe(name, described[0])
        return
    table = output.table("scene", "bodies", "title", wrap=["title"])
    for known in described:
        bodies = f"{known['bodies']:,} in {known['dim']}D"
        table.add_row(output.text(known["name"], "bold"), bodies, known["title"])
    output.console().print(table)
    output.say("")
    table = output.table("generator", "parameters and defaults", wrap=["parameters and defaults"])
    for key in sorted(cdopt.scene.GENERATORS):
        table.add_row(output.text(key.replace("_", "-"), "bold"), _parameters(key))
    output.console().print(table)
    output.say("\nSimulate one: cdopt simulate pyramid:n=8. Describe one: cdopt scenes pyramid:n=8")


def record(scene: cdopt.scene.Scene) -> dict[str, Any]:
    """What a scene is, as plain values."""
    return {
        "name": scene.name,
        "title": scene.title,
        "dim": scene.dim,
        "bodies": scene.nb,
        "free": int((~scene.bodies.fixed).sum()),
        "power": scene.power,
        "materials": [material.name for material in scene.materials],
    }


def _describe(name: str, known: dict[str, Any]) -> None:
    """One scene, and the parameters of its generator if there is one."""
    output.say(f"{name}: {known['title'] or known['name']}", "bold")
    output.say(
        f"{known['bodies']:,} bodies in {known['dim']}D, {known['free']:,} of them free, "
        f"power {known['power']:g}"
    )
    key = name.partition(":")[0].replace("-", "_")
    if key in cdopt.scene.GENERATORS:
        about = inspect.getdoc(cdopt.scene.GENERATORS[key]) or ""
        output.say(f"generator cdopt.scene.{key}: {about.partition(chr(10))[0]}")
        output.say(f"parameters: {_parameters(key)}")


def _parameters(key: str) -> str:
    """The parameters of a generator and their defaults, in words."""
    return output.listed(cdopt.scene.files.parameters_of(key))
