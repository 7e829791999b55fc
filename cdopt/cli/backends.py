"""``cdopt backends``: every known solver, what it takes, and its settings for an accuracy."""

from __future__ import annotations

from typing import Annotated, Any

import typer

import cdopt
from cdopt.cli import output
from cdopt.cli.options import Json

HELP = (
    "List every known solver: whether it is installed, what it takes, its licence; with a name, "
    "describe one. With "
    "--accuracy: the settings that each solver is given for it, what they promise, and which "
    "defaults CVXPY changes when nothing is asked."
)
_KINDS = {
    "rigid step": "steps",
    "elastic step": "elastic steps",
    "truss": "trusses",
    "frictional step": "steps with friction",
    "elastic step with sliders": "elastic steps with sliders",
}


def backends(
    name: Annotated[
        str | None, typer.Argument(metavar="BACKEND", help="A solver, such as newton or osqp.")
    ] = None,
    accuracy: Annotated[
        float | None, typer.Option(help="Accuracy to ask for, such as 1e-6.")
    ] = None,
    as_json: Json = False,
) -> None:
    """List every known solver."""
    with output.errors_in_one_line():
        names = cdopt.backends.known_names() if name is None else [name]
        known = [record(each, accuracy) for each in names]
        if as_json:
            output.print_json(known if name is None else known[0])
        elif name is not None:
            _describe(known[0])
        elif accuracy is not None:
            _print_settings(known, accuracy)
        else:
            _print(known)


def record(name: str, accuracy: float | None) -> dict[str, Any]:
    """What is known of one solver, as plain values."""
    described = cdopt.backends.describe(name)
    settings = {} if accuracy is None else cdopt.backends.settings_for(name, accuracy)
    return {**described, "settings": settings}


def _describe(solver: dict[str, Any]) -> None:
    """Everything that is known of one solver."""
    here = "installed" if solver["available"] else solver["why_not"]
    output.say(f"{solver['name']}: {solver['note'] or 'a solver of CVXPY'}", "bold")
    output.say(f"{here}; licence: {solver['licence'] or 'see its vendor'}")
    output.say(f"takes: {', '.join(_KINDS.get(kind, kind) for kind in solver['takes'])}")
    if solver["settings"]:
        given = ", ".join(f"{key} = {value}" for key, value in solver["settings"].items())
        output.say(f"settings for this accuracy: {given}")
    elif solver["accuracy_options"]:
        options = ", ".join(solver["accuracy_options"])
        output.say(f"accuracy= sets {options}: {solver['accuracy_meaning']}")
    if solver["cvxpy_rewrites"]:
        output.say(f"CVXPY changes its defaults: {solver['cvxpy_rewrites']}")


def _print(known: list[dict[str, Any]]) -> None:
    for solver in known:
        if not solver["available"] and not solver["note"]:
            continue  # only CVXPY knows it
        takes = solver["takes"]
        classes = "QP, cones" if "SOCP" in takes else "QP"
        kinds = ", ".join(_KINDS[kind] for kind in takes if kind in _KINDS)
        notes = [f"takes {kinds or classes}", solver["note"], f"licence {solver['licence']}"]
        here = solver["why_not"] or "installed"
        output.say_entry(solver["name"], "; ".join(note for note in [here, *notes] if note), 22)
    output.say("\nDescribe one, with its settings: cdopt backends osqp")
    output.say("steps, trusses: cdopt's own solvers take the plain data, of any power.")
    output.say("QP: quadratic programs (every classic step; compatible forces with p = 2).")
    output.say("cones: second-order cones (compatible forces with other powers, such as Hertz).")
    others = [s["name"] for s in known if not s["available"] and not s["note"] and s["takes"]]
    output.say(f"CVXPY can also reach, once installed and licensed: {', '.join(others)}.")


def _print_settings(known: list[dict[str, Any]], accuracy: float) -> None:
    output.say(f"Accuracy {accuracy:g}", "bold")
    for solver in known:
        settings = ", ".join(f"{key} = {value}" for key, value in solver["settings"].items())
        if not settings and not solver["available"]:
            continue
        notes = [settings or "nothing: its settings are not known, give options"]
        notes += [f"promises: {solver['accuracy_meaning']}"] if solver["accuracy_meaning"] else []
        notes += [f"CVXPY changes {solver['cvxpy_rewrites']}"] if solver["cvxpy_rewrites"] else []
        notes += [] if solver["available"] else ["not installed"]
        output.say_entry(solver["name"], "; ".join(notes), 22)
    output.say(
        "What each solver is given, what it promises when it stops, and which of its defaults "
        "CVXPY changes when nothing is asked. Promises differ, and none of them is cdopt's "
        "certificate, which alone decides whether a problem counts as solved.",
        "dim",
    )
