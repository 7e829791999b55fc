"""``cdopt show``: the results of a run, its force chains, and an interactive page."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any

import typer

import cdopt
from cdopt._util.formatting import count, one_line, seconds, short
from cdopt.cli import output, scenes
from cdopt.cli.options import Force, Json

if TYPE_CHECKING:
    from cdopt import Trajectory

HELP = (
    "Summarise a run that cdopt simulate wrote, also one that is being written or was killed; "
    "draw a frame, or make a page of all. Exit code: 0, also when steps of the run are not "
    "certified, which the summary says; 1 when the input is bad."
)
ROWS = 12  # of the table over time
CARRIES = 1e-6  # share of the largest force from which on a contact counts as carrying


def show(
    run: Annotated[str, typer.Argument(metavar="RUN", help="A file of cdopt simulate --out.")],
    frame: Annotated[
        int, typer.Option(help="Number of a frame, from 0; negative numbers count from the end.")
    ] = -1,
    plot: Annotated[
        str | None,
        typer.Option(
            metavar="FILE",
            help="Draw the frame's force chains beside energy and overlap over time: .png, .pdf, "
            ".svg.",
        ),
    ] = None,
    page: Annotated[
        str | None,
        typer.Option(
            metavar="FILE.html",
            help="Make one page, to be opened without a network: bodies and force chains in "
            "space, with a slider over time. Needs k3d: pip install 'cdopt[pages]'.",
        ),
    ] = None,
    as_json: Json = False,
    force: Force = False,
) -> None:
    """Summarise a run."""
    with output.errors_in_one_line():
        if plot is not None:
            cdopt.plots.check_path(plot)
        why_no_page = None if page is None else _why_no_page(page, force)
        trajectory = cdopt.Trajectory.load(run)
        total = len(trajectory)
        if not -total <= frame < total:
            expected = f"a number from {-total:,} to {total - 1:,}"
            raise cdopt.InvalidInput("--frame", str(frame), expected)
        if as_json:
            output.print_json({**record(trajectory), "frame": _frame_record(trajectory, frame)})
        else:
            out = output.console()
            print_summary(trajectory)
            out.print()
            _print_table(trajectory)
            out.print()
            output.say(_describe_frame(trajectory, frame))
        if plot is not None:
            output.save_picture(cdopt.plots.run_overview(trajectory, frame), plot)
        if why_no_page is not None:
            typer.echo(f"no page: {one_line(why_no_page)}", err=True)
            raise typer.Exit(output.NO_ANSWER)
        if page is not None:
            size = cdopt.plots.page.save_page(trajectory, page, frame).stat().st_size
            typer.echo(f"page: {page} ({size / 1e6:.1f} MB)", err=True)


def _why_no_page(page: str, force: bool) -> str | None:
    """Why what draws pages is not there; None when it is. A path that cannot be is refused."""
    try:
        with output.replacing(force, page):
            cdopt.plots.page.check_page(page)
    except cdopt.Unsupported as error:
        return str(error)
    return None


def _solvers(settings: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """What each solver of a run was for; ``--json`` prints all settings."""
    motion, forces = settings.get("classic_backend"), settings.get("backend")
    if motion:
        yield "motion by", str(motion)
    if forces:
        yield "forces by" if motion else "solved by", str(forces)


def print_summary(run: Trajectory) -> None:
    """What the run is of, and its results, a line for each."""
    scene, settings = run.scene, dict(run.settings)
    name = ": ".join(filter(None, (scene.name, scene.title))) or "a scene"
    output.say(f"{name}, p = {scene.power:g}", "bold")
    free = scenes.record(scene)["free"]
    parts = [f"{count(scene.nb, 'body')} in {scene.dim}D, {free:,} free"]
    parts.append(f"{settings.pop('method')}, dt = {settings.pop('dt'):g} s")
    parts += [f"{word} {solver.partition('(')[0]}" for word, solver in _solvers(settings)]
    output.say("; ".join(parts), "dim")
    table = output.table("", "", wrap=["", ""])
    table.show_header = False
    for label, content in _lines(run):
        table.add_row(output.text(label, "dim"), content)
    output.console().print(table)


def _lines(run: Trajectory) -> Iterator[tuple[str, Any]]:
    """The summary, line by line."""
    summary, text = cdopt.dynamics.RunSummary.of(run), output.text
    steps = count(summary.steps, "step")
    yield "steps", text(f"{steps} to t = {summary.t:.6g} s, {count(summary.frames, 'frame')}")
    certified = text(f"all {steps} certified", "green")
    if summary.not_ok:
        failed = count(summary.not_ok, "step")
        certified = text(f"{failed} of {summary.steps:,} NOT certified", "bold red")
    elif not summary.residual_of:
        certified = text("an explicit method solves nothing")
    yield "certificates", certified
    if summary.split:
        split = f"{count(summary.split, 'step')} had no certified answer as a whole"
        yield "sub-steps", text(f"{split}, and took up to {summary.parts} parts")
    worst = f"{summary.residual:.1e}, in the {summary.residual_of} problem"
    worst += f" of step {summary.residual_at}"
    yield "worst residual", text(worst if summary.residual_of and summary.steps else "–")
    final = f"{short(summary.overlap_final, 3)} m"
    yield "deepest overlap", text(f"{short(summary.overlap, 3)} m; at the end {final}")
    left = f"{short(summary.kinetic, 3)} J"
    if summary.kinetic_peak > 0.0:
        share = summary.kinetic / summary.kinetic_peak
        moving = "" if summary.at_rest else "; not at rest"
        left += f", {share:.1e} of the largest ({short(summary.kinetic_peak, 3)} J){moving}"
    yield "kinetic energy left", text(left)
    if math.isfinite(summary.balance):
        amounts = f"{short(summary.dissipated, 3)} J dissipated, work {short(summary.work, 3)} J"
        yield "energy balance", text(f"closes within {short(summary.balance, 3)} J; {amounts}")
    forces = [f"{_kind(run, name)} {short(value)} N" for name, value in summary.largest.items()]
    yield "largest force", text((", ".join(forces) or "no contacts") + ", in the last step")
    if math.isfinite(summary.coordination):
        rattlers = count(summary.rattlers, "rattler")
        yield "coordination", text(f"{summary.coordination:.3g} neighbours a body, {rattlers}")
    if math.isfinite(summary.reaction) and run.scene.bodies.fixed.any():
        carried = f"{short(summary.reaction, 6)} N of {short(summary.weight + summary.load, 6)} N"
        name = "weight and load on fixed bodies" if summary.load else "weight on fixed bodies"
        yield name, text(carried)
    parts = ", ".join(f"{name} {seconds(spent)}" for name, spent in summary.seconds.items())
    yield "time", text(f"{seconds(sum(summary.seconds.values()))}: {parts}")


def _print_table(run: Trajectory) -> None:
    """A dozen steps, evenly spread."""
    data, stages = run.diagnostics, run.diagnostics.stages
    columns = ["step", "t [s]", "contacts", "kinetic [J]", "energy [J]", "overlap [m]"]
    columns += [*stages, "ok"]
    table = output.table(*columns, numbers=columns, wrap=columns[3:6])
    steps = data["step"].size
    energies = [data[name] for name in ("kinetic", "potential", "elastic") if name in data]
    rows = min(ROWS, steps)
    for k in sorted({round(i * (steps - 1) / max(rows - 1, 1)) for i in range(rows)}):
        cells = [f"{data['step'][k]:,}", f"{data['time'][k]:.5g}", f"{data['contacts'][k]:,}"]
        energy = float(sum(e[k] for e in energies))
        cells += [short(float(data["kinetic"][k]), 3), short(energy, 5)]
        cells.append(short(float(data["overlap"][k]), 3))
        cells += ["–" if k == 0 else f"{data[f'residual_{name}'][k]:.0e}" for name in stages]
        ok = bool(data["ok"][k])
        certified = output.text("yes" if ok else "NO", "green" if ok else "bold red")
        table.add_row(*cells, certified)
    output.console().print(table)
    if stages:
        output.say(f"{' and '.join(stages)}: worst residual of the certificate", "dim")


def _describe_frame(run: Trajectory, number: int) -> str:
    """One frame in a sentence or two."""
    frame, total = run[number], len(run)
    text = f"frame {number % total:,} of 0 to {total - 1:,}: step {frame.step:,}, "
    text += f"t = {frame.t:.6g} s, " + count(frame.nc, "contact")
    for name, largest in cdopt.dynamics.records.largest_forces(frame.forces).items():
        if largest > 0.0:
            forces = cdopt.dynamics.records.sizes(frame.forces[name]).tolist()
            i, j = frame.bodies[forces.index(largest)]
            carry = sum(force > CARRIES * largest for force in forces)
            text += f"; {_kind(run, name)} forces: {carry:,} of them carry, "
            text += f"the largest {short(largest)} N between {_body(run, i)} and {_body(run, j)}"
    return text


def _body(run: Trajectory, number: int) -> str:
    """The name of a body; its number where it has none."""
    return run.scene.bodies.names[number] or f"body {number}"


def _kind(run: Trajectory, name: str) -> str:
    """What a force is called: "compatible", "classic", "elastic" or "tangential"."""
    if "f_t" in run.header.forces:
        return {"f": "normal", "f_t": "tangential"}.get(name, name)
    if "elastic" in run.diagnostics:
        return "elastic"
    return run.method.removesuffix("-cd") if name == "f" else name.removeprefix("f_")


def record(run: Trajectory) -> dict[str, Any]:
    """The run as plain values."""
    scene = run.scene
    return {
        "scene": scenes.record(scene),
        "settings": dict(run.settings),
        "ok": run.ok,
        "summary": asdict(cdopt.dynamics.RunSummary.of(run)),
        "frames": {"step": run.steps, "t": run.t},
        "diagnostics": dict(run.diagnostics),
    }


def _frame_record(run: Trajectory, number: int) -> dict[str, Any]:
    frame = run[number]
    fields = ("step", "t", "q", "v", "bodies", "normals", "points")
    content = {name: getattr(frame, name) for name in fields}
    number = number % len(run)
    return {"number": number, **content, "gap": frame.phi, "forces": dict(frame.forces)}
