"""``cdopt limit``: the load that a structure with friction can bear."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

import cdopt
from cdopt.cli import output
from cdopt.cli.output import option

if TYPE_CHECKING:
    pass


def limit(
    structure: output.SceneName,
    live: Annotated[
        list[str] | None,
        option(
            "A direction, 1,0 or 1,0,0: each body's weight in it (default, along x). Or the "
            "load of a body in N, with torque if there is one: 'voussoir 2=0,-100'; repeated for "
            "several.",
            metavar="LOAD",
        ),
    ] = None,
    friction: Annotated[
        float | None, option("Friction coefficient where the scene states none.")
    ] = None,
    law: Annotated[
        str, option("associated (exact), or coulomb: an upper estimate.")
    ] = "associated",
    solver: Annotated[
        str | None, option("Solver of CVXPY; default by dimension.", metavar="NAME")
    ] = None,
    plot: output.Picture = None,
    as_json: output.Json = False,
) -> None:
    """Find the load that a structure can bear.

    That is the largest multiple of a live load that contacts with friction can balance; the
    mechanism of the collapse comes with it. Exit code: 0, 1 when the input is bad or the value is
    not certified, 2 when no multiple of the live load is proven to be balanced.
    """
    bodies = None if cdopt.study.is_scene(structure) else cdopt.open_problem(structure).bodies
    if bodies is None and not cdopt.study.is_scene(structure):
        raise cdopt.InvalidInput("scene", structure, "a scene, or a problem that has one")
    scene = bodies[0] if bodies is not None else cdopt.scene.load(structure)
    if friction is not None:
        scene = scene.with_friction(friction)
    live = live or ["1" + ",0" * (scene.dim - 1)]
    load = _load(live, scene.dim)
    with output.solving("limit load", as_json, scene=structure):
        result = cdopt.limit_load(scene, load, law, solver=solver)
    if as_json:
        output.print_json({"scene": structure, **result.as_dict()})
    else:
        output.say(f"{structure}: {scene.title}", "dim")
        output.say(result.summary)
        what = "; ".join(live) if "=" in live[0] else f"each body's weight along {live[0]}"
        output.say(f"live load: {what}", "dim")
    if plot is not None and result.mechanism is None:
        output.echo("no picture: no mechanism limits the load", err=True)
    elif plot is not None:
        title = f"{structure}: {result.value:.5g} times the live load"
        output.save_picture(cdopt.plots.collapse(result, title=title), plot)
    if not result.ok:
        raise typer.Exit(output.NO_ANSWER)


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
