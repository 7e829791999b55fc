"""``cdopt limit``: the load that a structure with friction can bear."""

from __future__ import annotations

from typing import Annotated, Any

import typer

import cdopt
from cdopt.cli import output
from cdopt.cli.output import option


def limit(
    structure: Annotated[
        str,
        typer.Argument(
            metavar="STRUCTURE",
            help="A block model, wall.obj:density=2000,fixed=base (.obj, .stl, COMPAS .json); or "
            "a scene: a file (.toml), one that ships with cdopt, a generator with parameters.",
        ),
    ],
    live: Annotated[
        list[str] | None,
        option(
            "Live load: a direction, 1,0 or 1,0,0, for each body's weight in this "
            "direction (default: along x); or the load of a body in N, with a "
            "torque if needed: 'voussoir 2=0,-100'. May be repeated for several "
            "bodies.",
            metavar="LOAD",
        ),
    ] = None,
    friction: Annotated[
        float | None, option("Friction coefficient, if the scene has none.")
    ] = None,
    supports: output.Supports = None,
    density: output.Density = None,
    unit: output.Unit = None,
    strength: output.StrengthOfJoints = None,
    law: Annotated[
        str, option("Law: associated (exact), or coulomb (an upper estimate).")
    ] = "associated",
    solver: Annotated[
        str | None,
        option("CVXPY's name of the solver; the default depends on the dimension.", metavar="NAME"),
    ] = None,
    plot: output.Picture = None,
    view: output.View = None,
    as_json: output.Json = False,
) -> None:
    """Compute the load that a structure can bear.

    The result is the largest multiple of the live load that contacts with friction can balance, and
    the collapse mechanism. Exit code: 0, 1 if the input is bad or the value is not certified, 2 if
    it is proven that no multiple of the live load can be balanced.
    """
    output.require_view(view)
    placed, dim = _structure(structure, supports, density, unit), 3
    if isinstance(placed, cdopt.scene.Scene):
        dim = placed.dim
    live = live or ["1" + ",0" * (dim - 1)]
    load = _load(live, dim)
    with output.solving("limit load", as_json, scene=structure):
        strong = output.strength(strength)
        result = cdopt.limit_load(
            placed, load, law, friction=friction, strength=strong, solver=solver
        )
    if as_json:
        output.print_json({"scene": structure, **result.as_dict()})
    else:
        if isinstance(placed, cdopt.scene.Scene):
            output.say(f"{structure}: {placed.title}", "dim")
        output.say(result.summary)
        what = "; ".join(live) if isinstance(load, dict) else f"each body's weight {in_words(load)}"
        output.say(f"live load: {what}", "dim")
        if result.model is not None:
            for line in [repr(result.model), *result.model.repairs]:
                output.say(line, "dim")
    if plot is not None and result.mechanism is None:
        output.echo("no picture: no mechanism limits the load", err=True)
    elif plot is not None:
        title = f"{structure}: {result.value:.5g} times the live load"
        output.save_picture(cdopt.plots.collapse(result, view=view or "side", title=title), plot)
    if not result.ok:
        raise typer.Exit(output.NO_ANSWER)


def _structure(
    name: str, supports: list[str] | None, density: float | None, unit: float | None
) -> cdopt.scene.Scene | cdopt.scene.BlockModel:
    """A block model or a scene, or the scene of a problem."""
    if not cdopt.study.is_scene(name):
        bodies = cdopt.open_problem(name).bodies
        if bodies is None:
            raise cdopt.InvalidInput("scene", name, "a scene, or a problem that has one")
        return bodies[0]
    fixed = output.blocks(supports)
    return cdopt.scene.files.open_structure(name, supports=fixed, density=density, unit=unit)


def in_words(direction: list[float]) -> str:
    """In words: the name of an axis if it is one, with the multiple of the weight."""
    axes = [k for k, x in enumerate(direction) if x]
    if len(axes) != 1:
        return f"along {','.join(f'{x:g}' for x in direction)}"
    way = direction[axes[0]]
    size = "" if abs(way) == 1.0 else f"times {abs(way):g} "
    return f"{size}along {'+' if way > 0.0 else '-'}{'xyz'[axes[0]]}"


def _load(texts: list[str], dim: int) -> Any:
    """The value of ``--live``: a direction, or loads by body."""
    expected = "numbers separated by commas, or BODY=numbers"
    loads = output.vectors("--live", texts, expected)
    if "" not in loads:
        return loads
    if len(texts) > 1 or len(loads[""]) != dim:
        raise cdopt.InvalidInput("--live", repr(texts[-1]), f"one direction of {dim} numbers")
    return loads[""]
