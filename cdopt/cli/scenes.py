"""``cdopt scenes``: scenes that come with cdopt, and generators with their parameters."""

from __future__ import annotations

import inspect
from typing import Annotated, Any

import typer

import cdopt
from cdopt.cli import output


def scenes(
    name: Annotated[
        str | None, typer.Argument(metavar="SCENE", help="A scene, such as arch or pyramid:n=4.")
    ] = None,
    as_json: output.Json = False,
) -> None:
    """List scenes and generators of scenes.

    Generators have parameters. With a name, describe one scene or generator.
    """
    listed = cdopt.scene.shipped_scenes() if name is None else [name]
    described = [{**scene_record(cdopt.scene.load(each)), "name": each} for each in listed]
    generators, parameters_of = cdopt.scene.GENERATORS, cdopt.scene.files.parameters_of
    if as_json:
        known = {} if name else {key: parameters_of(key) for key in generators}
        output.print_json(described[0] if name else {"scenes": described, "generators": known})
        return
    if name is not None:
        scene = described[0]
        output.say(f"{name}: {scene['title'] or scene['name']}", "bold")
        bodies = f"{scene['bodies']:,} bodies in {scene['dim']}D, {scene['free']:,} of them free"
        output.say(f"{bodies}, power {scene['power']:g}")
        key = name.partition(":")[0].replace("-", "_")
        if key in generators:
            about = (inspect.getdoc(generators[key]) or "").partition("\n")[0]
            output.say(f"generator cdopt.scene.{key}: {about}")
            output.say(f"parameters: {output.listed(parameters_of(key))}")
        return
    rows = [
        (output.text(s["name"], "bold"), f"{s['bodies']:,} in {s['dim']}D", s["title"])
        for s in described
    ]
    output.print_table(("scene", "bodies", "title"), rows, wrap=["title"])
    output.say("")
    made = [
        (output.text(key.replace("_", "-"), "bold"), output.listed(parameters_of(key)))
        for key in sorted(generators)
    ]
    output.print_table(
        ("generator", "parameters and defaults"), made, wrap=["parameters and defaults"]
    )
    output.say("\nSimulate one: cdopt simulate pyramid:n=8. Describe one: cdopt scenes pyramid:n=8")


def scene_record(scene: cdopt.scene.Scene) -> dict[str, Any]:
    """Description of a scene as plain values."""
    return {
        "name": scene.name,
        "title": scene.title,
        "dim": scene.dim,
        "bodies": scene.nb,
        "free": int((~scene.bodies.fixed).sum()),
        "power": scene.power,
        "materials": [material.name for material in scene.materials],
    }
