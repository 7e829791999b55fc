"""``cdopt stability``: whether blocks stand, stand only if pressed beforehand, or fall."""

from __future__ import annotations

from typing import Annotated, Any

import typer

import cdopt
from cdopt._util.formatting import short
from cdopt.cli import output
from cdopt.cli.output import option


def stability(
    structure: Annotated[
        str,
        typer.Argument(
            metavar="FILE",
            help="A block model: a mesh (.obj, .stl), or a file of COMPAS (.json); or a scene.",
        ),
    ],
    friction: Annotated[
        float | None, option("Friction coefficient, if the structure has none.")
    ] = None,
    supports: output.Supports = None,
    density: output.Density = None,
    unit: output.Unit = None,
    strength: output.StrengthOfJoints = None,
    settle: Annotated[
        list[str] | None,
        option("Motion of a support in m, NAME=0,0,-0.02; the cracks are printed and drawn."),
    ] = None,
    plot: output.Picture = None,
    view: output.View = None,
    as_json: output.Json = False,
) -> None:
    """Report whether a structure of blocks stands, stands only if pressed beforehand, or falls.

    The picture shows the blocks with forces that balance the weights, or those that fall. Exit
    code: 0 if it stands, 1 if it does not or the input is bad, 3 if this is not decided or a limit
    load is not certified.
    """
    output.require_view(view)
    if settle:
        opening = {"supports": output.blocks(supports), "density": density, "unit": unit}
        moves = output.vectors("--settle", settle, "NAME=0,0,-0.02, in m")
        _settled(structure, opening, friction, moves, (plot, view, as_json))
        return
    with output.solving("stability", as_json, structure=structure):
        fixed, strong = output.blocks(supports), output.strength(strength)
        verdict = cdopt.stability(
            structure, friction, supports=fixed, density=density, unit=unit, strength=strong
        )
    if as_json:
        output.print_json({"structure": structure, **verdict.as_dict()})
    else:
        output.say(verdict.summary)
        if verdict.model is not None:
            for line in [repr(verdict.model), *verdict.model.repairs]:
                output.say(line, "dim")
        rows = [
            (name, short(limit.value, 6) if limit.value < float("inf") else "∞", str(limit.ok))
            for name, limit in verdict.limits.items()
        ]
        if rows:
            output.print_table(("live load", "limit", "certified"), rows, ["limit"])
    if plot is not None:
        if verdict.model is not None:
            figure = cdopt.plots.structure(verdict, view=view, title=structure)
        else:
            figure = cdopt.plots.friction_forces(
                verdict.step,
                [verdict.associated],
                view=view or "side",
                title=structure,
                subtitle=verdict.summary,
            )
        output.save_picture(figure, plot)
    if verdict.verdict == "not decided" or (verdict.verdict == "stands" and verdict.uncertified):
        raise typer.Exit(output.UNDECIDED)
    if verdict.verdict != "stands":
        raise typer.Exit(output.NO_ANSWER)


def _settled(
    structure: str,
    opening: dict[str, Any],
    friction: float | None,
    moves: dict[str | int, list[float]],
    shown: tuple[Any, str | None, bool],
) -> None:
    """Print and draw the settlement due to motions of supports."""
    plot, view, as_json = shown
    with output.solving("settlement", as_json, structure=structure):
        result = cdopt.settlement(
            cdopt.scene.files.open_structure(structure, **opening), moves, friction
        )
    if as_json:
        output.print_json({"structure": structure, **result.as_dict()})
    else:
        output.say(f"{result.title}: {result.summary}")
    if plot is not None:
        output.save_picture(cdopt.plots.collapse(result, view=view or "side"), plot)
    if not result.ok:
        raise typer.Exit(output.UNDECIDED)
