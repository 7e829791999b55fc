"""``cdopt simulate``, ``show``, ``explore``: scenes in time, what came of it, and pages."""

from __future__ import annotations

import math
import re
import shlex
import webbrowser
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

import cdopt
from cdopt._util.formatting import count, one_line, seconds, short
from cdopt.cli import output
from cdopt.cli.lists import scene_record
from cdopt.cli.output import option

if TYPE_CHECKING:
    from cdopt import Trajectory
    from cdopt.dynamics import StepFailed
    from cdopt.plots.explore import Exploration, FrictionalExploration

ROWS = 12  # of the table over time
CARRIES = 1e-6  # share of the largest force from which on a contact counts as carrying


# --- simulate -----------------------------------------------------------------------------


def simulate(
    scene: output.SceneName,
    dt: Annotated[float, option("Time step, s.", "--dt")] = 1e-3,
    duration: Annotated[
        float, option("How long, s; the default is the paper's for its pyramid.")
    ] = 0.02,
    method: Annotated[
        str | None,
        option(
            "classic-cd, compatible-cd (the default), contact-dynamics (the default with "
            "friction), compatible-friction, variational, velocity-verlet or quasi-static."
        ),
    ] = None,
    friction: Annotated[
        float | None,
        option("Friction coefficient of all contacts; default those that the scene states."),
    ] = None,
    law: Annotated[
        str | None, option("Of contact-dynamics: coulomb (the default) or associated.")
    ] = None,
    backend: Annotated[
        str | None, option("Solver of the forces; of classic-cd's only problem.", metavar="NAME")
    ] = None,
    classic_backend: Annotated[
        str | None, option("Solver of the classic step, for the motion.", metavar="NAME")
    ] = None,
    out: Annotated[
        str | None,
        option("Write the run to a new file, for cdopt show and ParaView.", metavar="RUN.vtkhdf"),
    ] = None,
    resume: Annotated[
        bool, option("Continue the run in --out; begin it if it is new.", "--resume")
    ] = False,
    every: Annotated[int, option("Record every so many steps.")] = 1,
    overlaps: Annotated[
        str | None,
        option(
            "Of bodies that overlap at the start: touching, resolve (push them apart) or "
            "refuse; default what the scene says.",
            metavar="POLICY",
        ),
    ] = None,
    frictionless: output.Frictionless = False,
    as_json: output.Json = False,
    quiet: output.Quiet = False,
    force: output.Force = False,
) -> None:
    """Simulate a scene in time.

    Its contacts are rigid, or elastic (variational, velocity-verlet, quasi-static, which need
    materials with a stiffness); the run is summarised. Exit code: 0 when every step is certified, 1
    when one is not or the input is bad, 2 when a step is proven infeasible, 130 after Ctrl-C.
    """
    if resume and out is None:
        raise cdopt.InvalidInput("--resume", "no --out", "the file of the run to continue")
    if out is not None:
        _check_out(out, resume, force)
    stated = {"backend": backend, "classic_backend": classic_backend, "law": law}
    options: dict[str, Any] = {name: value for name, value in stated.items() if value}
    opened = cdopt.scene.load(scene, overlaps=overlaps)
    failure, interrupted = None, False
    fresh = None if resume else out
    common: dict[str, Any] = {"out": out, "every": every, "friction": friction, **options}
    with output.solvers_kept_quiet(to_stderr=as_json), output.replacing(force, fresh):
        progress = output.progress(quiet, "step", output.PAUSE)
        switches: dict[str, Any] = {
            "resume": resume,
            "frictionless": frictionless,
            "progress": progress,
        }
        try:
            run = cdopt.simulate(opened, dt, duration, method, **common, **switches)
        except cdopt.dynamics.Interrupted as stop:
            run, interrupted = stop.trajectory, True
        except cdopt.dynamics.StepFailed as error:
            run, failure = error.trajectory, error
    proof = None if failure is None else failure.proof
    if as_json:
        content = {**record(run), "failure": _failure_record(failure)}
        output.print_json({**content, "file": out, "interrupted": interrupted})
    else:
        print_summary(run)
        if failure is not None and proof is not None:
            output.say(f"t = {failure.t:g} s. {cdopt.study.proof_text(proof)}")
        elif failure is not None:
            typer.echo(f"error: {one_line(str(failure), 500)}", err=True)
    if out is not None:
        typer.echo(f"run: {out}", err=True)
    if interrupted and out is not None:
        times = {"dt": repr(dt), "duration": repr(duration), "method": method}
        command = ["cdopt", "simulate", scene, *(["--frictionless"] if frictionless else [])]
        for name, value in {**times, "overlaps": overlaps, **common}.items():
            command += [] if value is None else [f"--{name.replace('_', '-')}", str(value)]
        again, t = shlex.join([*command, "--resume"]), run.diagnostics["time"][-1]
        typer.echo(f"interrupted at t = {t:.6g} s; go on: {again}", err=True)
    elif interrupted:
        typer.echo("interrupted; without --out nothing is kept", err=True)
    if interrupted:
        raise typer.Exit(output.INTERRUPTED)
    if failure is not None or not run.ok:
        raise typer.Exit(output.NO_ANSWER if proof is None else output.INFEASIBLE)


def _check_out(out: str, resume: bool, force: bool) -> None:
    """Refuse a path that nothing opens afterwards, and a file that exists."""
    if Path(out).suffix != cdopt.study.RUN_SUFFIX:
        expected = f"a name ending in {cdopt.study.RUN_SUFFIX}, which cdopt show and ParaView open"
        raise cdopt.InvalidInput("--out", repr(out), expected)
    if resume and force:
        raise cdopt.InvalidInput("--force", "--resume beside it", "one of them")
    if Path(out).exists() and not (resume or force):
        expected = "a new path, --force to replace it, or --resume to continue it"
        raise cdopt.InvalidInput("--out", f"{out}: a file that exists", expected)


def _failure_record(failure: StepFailed | None) -> dict[str, Any] | None:
    if failure is None:
        return None
    proven = failure.proof is not None
    return {"t": failure.t, "message": str(failure), "proven_infeasible": proven}


# --- show ---------------------------------------------------------------------------------


def show(
    run: Annotated[str, typer.Argument(metavar="RUN", help="A file of cdopt simulate --out.")],
    frame: Annotated[
        int, option("Number of a frame, from 0; negative numbers count from the end.")
    ] = -1,
    plot: Annotated[
        str | None,
        option(
            "Draw the frame's force chains beside energy and overlap over time: .png, .pdf, .svg.",
            metavar="FILE",
        ),
    ] = None,
    page: Annotated[
        str | None,
        option(
            "Make one page, to be opened without a network: bodies and force chains in "
            "space, with a slider over time. Needs k3d: pip install 'cdopt[pages]'.",
            metavar="FILE.html",
        ),
    ] = None,
    as_json: output.Json = False,
    force: output.Force = False,
) -> None:
    """Summarise a run that cdopt simulate wrote.

    It may be one that is being written or was killed. Draw a frame, or make a page of all. Exit
    code: 0, also when steps of the run are not certified, which the summary says;
    1 when the input is bad.
    """
    why_no_page = ""
    if page is not None:
        try:
            with output.replacing(force, page):
                cdopt.plots.page.check_page(page)
        except cdopt.Unsupported as error:
            why_no_page = str(error)
    trajectory = cdopt.Trajectory.load(run)
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
        typer.echo(f"no page: {one_line(why_no_page)}", err=True)
        raise typer.Exit(output.NO_ANSWER)
    if page is not None:
        size = cdopt.plots.page.save_page(trajectory, page, frame).stat().st_size
        typer.echo(f"page: {page} ({size / 1e6:.1f} MB)", err=True)


def print_summary(run: Trajectory) -> None:
    """What the run is of, and its results, a line for each."""
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
    """What a force is called: "compatible", "classic", "elastic" or "tangential"."""
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


# --- explore ------------------------------------------------------------------------------


def explore(
    scene: Annotated[
        str,
        typer.Argument(
            metavar="SCENE",
            help="A scene file (.toml); a scene that ships with cdopt, such as beam or table; a "
            "generator with parameters, such as pyramid:n=3; or a bank problem, such as tripod.",
        ),
    ],
    out: Annotated[
        str | None,
        option("The page to write; default SCENE.html in this folder.", metavar="FILE.html"),
    ] = None,
    show: Annotated[bool, option("Show the page in the browser.", "--open")] = False,
    force: output.Force = False,
    frictionless: output.Frictionless = False,
) -> None:
    """Write a page to play with.

    The page is for teaching, and is opened without a network: sliders for each contact's stiffness,
    the load, the power and the order of projected Gauss-Seidel, and the forces that follow, solved
    in the page. Up to 100 contacts and 100 degrees of freedom. Problems with friction in the plane
    get a slider of μ and what each force may be. Exit code: 0, or 1 when the input is bad.
    """
    if out is None:  # beam.html, pyramid-n-3.html for pyramid:n=3
        name = Path(scene).stem if scene.endswith(".toml") else scene
        out = re.sub(r"[^\w.-]+", "-", name) + ".html"
    with output.replacing(force, out):
        cdopt.plots.explore.check_page(out)
    with output.solvers_kept_quiet():
        posed = _posed(scene, frictionless)
    size = cdopt.plots.explore.save_page(posed, out).stat().st_size
    typer.echo(f"page: {out} ({posed.size}, {size / 1e3:.0f} kB)")
    if show and not webbrowser.open(Path(out).resolve().as_uri()):
        typer.echo("no browser was found: open the page yourself", err=True)


def _posed(name: str, frictionless: bool) -> Exploration | FrictionalExploration:
    """What a page shows of a scene or a problem: with friction in the plane, a slider of μ.

    Raises
    ------
    InvalidInput, Unsupported : the page cannot show it.
    """
    pages = cdopt.plots.explore
    if name in cdopt.scene.shipped_scenes() or cdopt.study.is_scene(name):
        scene = cdopt.scene.load(name)
        pages.check_bodies(scene)
        if frictionless or not scene.has_friction:
            return pages.of_scene(scene.with_friction(0.0))
    named = cdopt.open_problem(name, frictionless=frictionless)
    if named.step is not None and named.step.friction is not None and named.step.friction.d == 2:
        return pages.of_friction(named)
    named.require_frictionless("pages")
    return pages.of_problem(named)
