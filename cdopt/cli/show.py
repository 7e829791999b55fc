"""``cdopt show``: the results of a run, its force chains, and an interactive page."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any

import typer

import cdopt
from cdopt._util.formatting import count, one_line, seconds, short
from cdopt.cli import output
from cdopt.cli.output import option
from cdopt.cli.scenes import scene_record

if TYPE_CHECKING:
    from cdopt import Trajectory

ROWS = 12  # of the table over time
CARRIES = 1e-6  # share of the largest force from which on a contact counts as carrying


def show(
    run: Annotated[str, typer.Argument(metavar="RUN", help="A file of cdopt simulate --out.")],
    frame: Annotated[
        int, option("Number of the frame, from 0; negative numbers count from the end.")
    ] = -1,
    plot: Annotated[
        str | None,
        option(
            "Draw the frame's force chains next to energy and overlap over time: .png, .pdf, .svg.",
            metavar="FILE",
        ),
    ] = None,
    page: Annotated[
        str | None,
        option(
            "Write a page that works offline and animates bodies and force chains. "
            "Runs in space need k3d: pip install k3d.",
            metavar="FILE.html",
        ),
    ] = None,
    as_json: output.Json = False,
    force: output.Force = False,
) -> None:
    """Summarise a run recorded by cdopt simulate.

    The run may be unfinished. Options draw a frame, or make a page of the run. Exit code: 0, also
    if steps of the run are not certified, which the summary reports; 1 if the input is bad.
    """
    trajectory = cdopt.Trajectory.load(run)
    why_no_page = ""
    if page is not None:
        try:
            with output.replacing(force, page):
                cdopt.plots.page.check_page(page, trajectory.scene)
        except cdopt.Unsupported as error:
            why_no_page = str(error)
    total = len(trajectory)
    if not -total <= frame < total:
        expected = f"a number from {-total:,} to {total - 1:,}"
        raise cdopt.InvalidInput("--frame", str(frame), expected)
    if as_json:
        output.print_json({**record(trajectory), "frame": _frame_record(trajectory, frame)})
    else:
        print_summary(trajectory)
        output.say("")
        _print_steps(trajectory)
        output.say(f"\n{_describe_frame(trajectory, frame)}")
    if plot is not None:
        output.save_picture(cdopt.plots.run_overview(trajectory, frame), plot)
    if why_no_page:
        output.echo(f"no page: {one_line(why_no_page)}", err=True)
        raise typer.Exit(output.NO_ANSWER)
    if page is not None:
        size = cdopt.plots.page.save_page(trajectory, page, frame).stat().st_size
        output.echo(f"page: {page} ({size / 1e6:.1f} MB)", err=True)


def print_summary(run: Trajectory) -> None:
    """Print the scene and the results of a run, line by line."""
    scene, settings = run.scene, run.settings
    name = ": ".join(filter(None, (scene.name, scene.title))) or "a scene"
    output.say(f"{name}, p = {scene.power:g}", "bold")
    free = int((~scene.bodies.fixed).sum())
    parts = [f"{count(scene.nb, 'body')} in {scene.dim}D, {free:,} free"]
    parts.append(f"{settings['method']}, dt = {settings['dt']:g} s")
    motion, forces = settings.get("classic_backend"), settings.get("backend")
    by = {"motion by": motion, "forces by" if motion else "solved by": forces}
    parts += [f"{word} {str(solver).partition('(')[0]}" for word, solver in by.items() if solver]
    output.say("; ".join(parts), "dim")
    rows = [(output.text(label, "dim"), content) for label, content in _lines(run)]
    output.print_table(("", ""), rows, wrap=[""])


def _lines(run: Trajectory) -> Iterator[tuple[str, Any]]:
    """The summary, line by line."""
    summary = cdopt.dynamics.RunSummary.of(run)
    steps = count(summary.steps, "step")
    yield "steps", f"{steps} to t = {summary.t:.6g} s, {count(summary.frames, 'frame')}"
    certified = output.text(f"all {steps} certified", "green")
    if summary.not_ok:
        failed = count(summary.not_ok, "step")
        certified = output.text(f"{failed} of {summary.steps:,} NOT certified", "bold red")
    elif not summary.residual_of:
        certified = output.text("an explicit method solves nothing")
    yield "certificates", certified
    if summary.split:
        split = f"{count(summary.split, 'step')} had no certified answer as a whole"
        yield "sub-steps", f"{split}, and took up to {summary.parts} parts"
    worst = f"{summary.residual:.1e}, in the {summary.residual_of} problem"
    worst += f" of step {summary.residual_at}"
    yield "worst residual", worst if summary.residual_of and summary.steps else "–"
    final = f"{short(summary.overlap_final, 3)} m"
    yield "deepest overlap", f"{short(summary.overlap, 3)} m; at the end {final}"
    left = f"{short(summary.kinetic, 3)} J"
    if summary.kinetic_peak > 0.0:
        share = summary.kinetic / summary.kinetic_peak
        moving = "" if summary.at_rest else "; not at rest"
        left += f", {share:.1e} of the largest ({short(summary.kinetic_peak, 3)} J){moving}"
    yield "kinetic energy left", left
    if math.isfinite(summary.balance):
        amounts = f"{short(summary.dissipated, 3)} J dissipated, work {short(summary.work, 3)} J"
        yield "energy balance", f"closes within {short(summary.balance, 3)} J; {amounts}"
    forces = [f"{_kind(run, name)} {short(value)} N" for name, value in summary.largest.items()]
    yield "largest force", (", ".join(forces) or "no contacts") + ", in the last step"
    if math.isfinite(summary.coordination):
        rattlers = count(summary.rattlers, "rattler")
        yield "coordination", f"{summary.coordination:.3g} neighbours a body, {rattlers}"
    if math.isfinite(summary.reaction) and run.scene.bodies.fixed.any():
        carried = f"{short(summary.reaction, 6)} N of {short(summary.weight + summary.load, 6)} N"
        yield f"weight {'and load ' if summary.load else ''}on fixed bodies", carried
    parts = ", ".join(f"{name} {seconds(spent)}" for name, spent in summary.seconds.items())
    yield "time", f"{seconds(sum(summary.seconds.values()))}: {parts}"


def _print_steps(run: Trajectory) -> None:
    """A dozen steps, evenly spread."""
    data, stages = run.diagnostics, run.diagnostics.stages
    energies = [data[name] for name in ("kinetic", "potential", "elastic") if name in data]
    last, rows = data["step"].size - 1, []
    for k in sorted({round(i * last / (ROWS - 1)) for i in range(ROWS)}):
        ok = bool(data["ok"][k])
        rows.append([
            f"{data['step'][k]:,}", f"{data['time'][k]:.5g}", f"{data['contacts'][k]:,}",
            short(float(data["kinetic"][k]), 3), short(float(sum(e[k] for e in energies)), 5),
            short(float(data["overlap"][k]), 3),
            *("–" if k == 0 else f"{data[f'residual_{name}'][k]:.0e}" for name in stages),
            output.text("yes" if ok else "NO", "green" if ok else "bold red"),
        ])  # fmt: skip
    columns = ["step", "t [s]", "contacts", "kinetic [J]", "energy [J]", "overlap [m]"]
    columns += [*stages, "ok"]
    output.print_table(columns, rows, columns, wrap=columns[3:6])
    if stages:
        output.say(f"{' and '.join(stages)}: worst residual of the certificate", "dim")


def _describe_frame(run: Trajectory, number: int) -> str:
    """One frame in a sentence or two."""
    frame, total, names = run[number], len(run), run.scene.bodies.names
    text = f"frame {number % total:,} of 0 to {total - 1:,}: step {frame.step:,}, "
    text += f"t = {frame.t:.6g} s, " + count(frame.nc, "contact")
    for name, largest in cdopt.dynamics.records.largest_forces(frame.forces).items():
        if largest > 0.0:
            forces = cdopt.dynamics.records.sizes(frame.forces[name]).tolist()
            pair = frame.bodies[forces.index(largest)]
            carry = sum(force > CARRIES * largest for force in forces)
            text += f"; {_kind(run, name)} forces: {carry:,} of them carry, the largest "
            text += f"{short(largest)} N between "
            text += " and ".join(names[body] or f"body {body}" for body in pair)
    return text


def _kind(run: Trajectory, name: str) -> str:
    """Name of a kind of force: "compatible", "classic", "elastic" or "tangential"."""
    if "f_t" in run.header.forces:
        return {"f": "normal", "f_t": "tangential"}.get(name, name)
    if "elastic" in run.diagnostics:
        return "elastic"
    return run.method.removesuffix("-cd") if name == "f" else name.removeprefix("f_")


def record(run: Trajectory) -> dict[str, Any]:
    """The run as plain values."""
    return {
        "scene": scene_record(run.scene),
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
