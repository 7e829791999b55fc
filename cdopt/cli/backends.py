"""``cdopt backends``: all known solvers, the problems they solve, and settings for an accuracy."""

from __future__ import annotations

from typing import Annotated, Any

import typer

import cdopt
from cdopt.cli import output
from cdopt.cli.output import option

_KINDS = {
    "rigid step": "steps",
    "elastic step": "elastic steps",
    "truss": "trusses",
    "frictional step": "steps with friction",
    "elastic step with sliders": "elastic steps with sliders",
    "soft step": "soft steps",
}


def backends(
    name: Annotated[
        str | None, typer.Argument(metavar="BACKEND", help="A solver, such as newton or osqp.")
    ] = None,
    accuracy: Annotated[float | None, option("Requested accuracy, such as 1e-6.")] = None,
    as_json: output.Json = False,
) -> None:
    """List every known solver.

    The list shows whether each is installed, which problems it solves, and its licence. With a
    name, describe one solver. With --accuracy, list the settings for this accuracy, their
    definitions, and the defaults that CVXPY changes.
    """
    known = [
        {**cdopt.backends.describe(each)}
        | {"settings": {} if accuracy is None else cdopt.backends.settings_for(each, accuracy)}
        for each in (cdopt.backends.known_names() if name is None else [name])
    ]
    if as_json:
        output.print_json(known if name is None else known[0])
    elif name is not None:
        _describe_backend(known[0])
    elif accuracy is not None:
        output.say(f"Accuracy {accuracy:g}", "bold")
        for solver in known:
            _print_settings(solver)
        output.say(
            "What each solver is given, what it promises when it stops, and which of its defaults "
            "CVXPY changes when nothing is asked. Promises differ, and none of them is cdopt's "
            "certificate, which alone decides whether a problem counts as solved.",
            "dim",
        )
    else:
        _print_backends(known)


def _settings(solver: dict[str, Any]) -> str:
    return ", ".join(f"{key} = {value}" for key, value in solver["settings"].items())


def _describe_backend(solver: dict[str, Any]) -> None:
    here = "installed" if solver["available"] else solver["why_not"]
    output.say(f"{solver['name']}: {solver['note'] or 'a solver of CVXPY'}", "bold")
    output.say(f"{here}; licence: {solver['licence'] or 'see its vendor'}")
    output.say(f"takes: {', '.join(_KINDS.get(kind, kind) for kind in solver['takes'])}")
    if solver["settings"]:
        output.say(f"settings for this accuracy: {_settings(solver)}")
    elif solver["accuracy_options"]:
        options = ", ".join(solver["accuracy_options"])
        output.say(f"accuracy= sets {options}: {solver['accuracy_meaning']}")
    if solver["cvxpy_rewrites"]:
        output.say(f"CVXPY changes its defaults: {solver['cvxpy_rewrites']}")


def _print_settings(solver: dict[str, Any]) -> None:
    if not solver["settings"] and not solver["available"]:
        return
    notes = [_settings(solver) or "nothing: its settings are not known, give options"]
    notes += [f"promises: {solver['accuracy_meaning']}"] if solver["accuracy_meaning"] else []
    notes += [f"CVXPY changes {solver['cvxpy_rewrites']}"] if solver["cvxpy_rewrites"] else []
    notes += [] if solver["available"] else ["not installed"]
    output.say_entry(solver["name"], "; ".join(notes), 22)


def _print_backends(known: list[dict[str, Any]]) -> None:
    for solver in known:
        takes = solver["takes"]
        if not solver["available"] and not solver["note"]:
            continue  # only CVXPY knows it
        kinds = ", ".join(_KINDS[kind] for kind in takes if kind in _KINDS)
        kinds = kinds or ("QP, cones" if "SOCP" in takes else "QP")
        notes = [f"takes {kinds}", solver["note"], f"licence {solver['licence']}"]
        here = solver["why_not"] or "installed"
        output.say_entry(solver["name"], "; ".join(note for note in [here, *notes] if note), 22)
    output.say("\nDescribe one, with its settings: cdopt backends osqp")
    output.say("steps, trusses: cdopt's solvers take the plain data, of any power.")
    output.say("QP: quadratic programs (every classic step; compatible forces with p = 2).")
    output.say("cones: second-order cones (compatible forces with other powers, such as Hertz).")
    others = [s["name"] for s in known if not s["available"] and not s["note"] and s["takes"]]
    output.say(f"CVXPY can also reach, once installed and licensed: {', '.join(others)}.")
