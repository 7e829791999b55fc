"""``cdopt problems``, ``scenes``, ``backends``: what ships with cdopt."""

from __future__ import annotations

import inspect
from typing import Annotated, Any

import typer

import cdopt
from cdopt.cli import output
from cdopt.cli.output import option

_SHOWN = 4  # values of a reference that are written out
_KINDS = {
    "rigid step": "steps",
    "elastic step": "elastic steps",
    "truss": "trusses",
    "frictional step": "steps with friction",
    "elastic step with sliders": "elastic steps with sliders",
}


# --- problems -----------------------------------------------------------------------------


def problems(
    name: Annotated[
        str | None,
        typer.Argument(metavar="PROBLEM", help="A problem, such as table or pyramid-hooke:n=10."),
    ] = None,
    as_json: output.Json = False,
) -> None:
    """List the problems of the bank and its families.

    With a name, describe one: what it is for, its parameters, which answers are unique and why, and
    known values.
    """
    if name is not None:
        _describe_problem(cdopt.bank.load(name), as_json)
        return
    manifests = {name: cdopt.bank.manifest(name) for name in cdopt.bank.names()}
    if as_json:
        output.print_json([{"name": name, **_fields(m)} for name, m in manifests.items()])
        return
    for name, manifest in manifests.items():
        listed = output.listed(manifest.parameters)
        about = f"{manifest.title}; {listed}" if listed else manifest.title
        output.say_entry(name, f"{manifest.kind:<12}{about}", 28, 12)
    every = cdopt.bank.families().items()
    families = ", ".join(f"family:{name}:{family.sizes[0]}" for name, family in every)
    output.say(f"\nMembers of families, the number is their size: {families}")
    output.say("Describe one: cdopt problems table. Solve one: cdopt solve pyramid-hooke:n=10")


def _fields(manifest: cdopt.bank.Manifest) -> dict[str, Any]:
    fields = ("title", "description", "kind", "power", "parameters")
    return {field: getattr(manifest, field) for field in fields}


def _describe_problem(problem: cdopt.bank.BankProblem, as_json: bool) -> None:
    """Everything that the bank says of one problem."""
    manifest, unique = problem.manifest, problem.manifest.unique
    answers, parameters = unique.answers, dict(problem.parameters)
    if as_json:
        content = {"name": problem.name, **_fields(manifest), "parameters": parameters}
        content |= {"unique": {**answers, "because": unique.because}}
        output.print_json({**content, "references": dict(problem.references)})
        return
    output.say(f"{problem.name}: {manifest.title}", "bold")
    output.say(manifest.description)
    output.say(f"\n{problem.step or problem.kind}, power {problem.power:g}")
    if parameters:
        output.say(f"parameters: {output.listed(parameters)}")
    sure = ", ".join(name for name, sure in answers.items() if sure) or "none"
    output.say(f"unique answers: {sure}. {unique.because}")
    rows = []
    for name, value in problem.references.items():
        values = [value] if isinstance(value, float) else value.ravel().tolist()
        few = len(values) <= _SHOWN
        shown = " ".join(f"{x:,.6g}" for x in values) if few else f"{len(values):,} values"
        rows.append((name, shown, problem.stated[name].source))
    if rows:
        output.print_table(("reference", "value", "source"), rows, wrap=["source"])


# --- scenes -------------------------------------------------------------------------------


def scenes(
    name: Annotated[
        str | None,
        typer.Argument(metavar="SCENE", help="A scene, such as arch or pyramid:n=4."),
    ] = None,
    as_json: output.Json = False,
) -> None:
    """List scenes and generators of scenes.

    The scenes ship with cdopt; generators have parameters. With a name, describe one.
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


# --- backends -----------------------------------------------------------------------------


def backends(
    name: Annotated[
        str | None, typer.Argument(metavar="BACKEND", help="A solver, such as newton or osqp.")
    ] = None,
    accuracy: Annotated[float | None, option("Accuracy to ask for, such as 1e-6.")] = None,
    as_json: output.Json = False,
) -> None:
    """List every known solver.

    The list says whether it is installed, what it takes, and its licence. With a name, describe
    one. With --accuracy, list the settings that each solver is given for it, what they promise, and
    which defaults CVXPY changes when nothing is asked.
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
    """Everything that is known of one solver."""
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
    output.say("steps, trusses: cdopt's own solvers take the plain data, of any power.")
    output.say("QP: quadratic programs (every classic step; compatible forces with p = 2).")
    output.say("cones: second-order cones (compatible forces with other powers, such as Hertz).")
    others = [s["name"] for s in known if not s["available"] and not s["note"] and s["takes"]]
    output.say(f"CVXPY can also reach, once installed and licensed: {', '.join(others)}.")
