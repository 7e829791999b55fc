"""``cdopt limit``: the load that a structure with friction can bear."""

from __future__ import annotations

from typing import Annotated, Any

import typer

import cdopt
from cdopt.cli import output
from cdopt.cli.options import Json, Picture, SceneName

HELP = (
    "Find the largest multiple of a live load that contacts with friction can balance, and the "
    "mechanism of the collapse. Exit code: 0, 1 when the input is bad or the value is not "
    "certified, 2 when no multiple of the live load is proven to be balanced."
)


def limit(
    structure: SceneName,
    live: Annotated[
        list[str] | None,
        typer.Option(
            metavar="LOAD",
            help="A direction, 1,0 or 1,0,0: each body's weight in it (default, along x). Or the "
            "load of a body in N, with torque if there is one: 'voussoir 2=0,-100'; repeated for "
            "several.",
        ),
    ] = None,
    friction: Annotated[
        float | None, typer.Option(help="Friction coefficient where the scene states none.")
    ] = None,
    law: Annotated[
        str, typer.Option(help="associated (exact), or coulomb: an upper estimate.")
    ] = "associated",
    solver: Annotated[
        str | None, typer.Option(metavar="NAME", help="Solver of CVXPY; default by dimension.")
    ] = None,
    plot: Picture = None,
    as_json: Json = False,
) -> None:
    """Find the load that a structure can bear."""
    with output.errors_in_one_line():
        if plot is not None:
            cdopt.plots.check_path(plot)
        scene = _scene(structure)
        if friction is not None:
            scene = scene.with_friction(friction)
        live = live or ["1" + ",0" * (scene.dim - 1)]
        load = _load(live, scene.dim)
        with (
            output.proof_or_error("limit load", as_json, scene=structure),
            output.solvers_kept_quiet(to_stderr=as_json),
        ):
            result = cdopt.limit_load(scene, load, law, solver=solver)
        if as_json:
            output.print_json({"scene": structure, **result.as_dict()})
        else:
            output.say(f"{structure}: {scene.title}", "dim")
            output.say(result.summary)
            what = "; ".join(live) if "=" in live[0] else f"each body's weight along {live[0]}"
            output.say(f"live load: {what}", "dim")
        if plot is not None:
            if result.mechanism is None:
                typer.echo("no picture: no mechanism limits the load", err=True)
            else:
                title = f"{structure}: {result.value:.5g} times the live load"
                output.save_picture(cdopt.plots.collapse(result, title=title), plot)
    if not result.ok:
        raise typer.Exit(output.NO_ANSWER)


def _scene(name: str) -> cdopt.scene.Scene:
    """A scene by its name; of a bank problem with friction its scene."""
    if cdopt.study.is_scene(name):
        return cdopt.scene.load(name)
    bodies = cdopt.open_problem(name).bodies
    if bodies is None:
        raise cdopt.InvalidInput("scene", name, "a scene, or a problem that has one")
    return bodies[0]


def _load(texts: list[str], dim: int) -> Any:
    """What ``--live`` says: a direction, or loads by body."""
    loads: dict[str | int, list[float]] = {}
    for text in texts:
        body, is_named, numbers = text.rpartition("=")
        try:
            values = [float(number) for number in numbers.split(",")]
        except ValueError:
            expected = "numbers with commas between, or BODY=numbers"
            raise cdopt.InvalidInput("--live", repr(text), expected) from None
        if not is_named:
            if len(texts) > 1 or len(values) != dim:
                raise cdopt.InvalidInput("--live", repr(text), f"one direction of {dim} numbers")
            return values
        loads[int(body) if body.isdecimal() else body] = values
    return loads
