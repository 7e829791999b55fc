"""``cdopt simulate``: a scene in time."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

import cdopt
from cdopt._util.formatting import one_line
from cdopt.cli import output, show
from cdopt.cli.options import Force, Frictionless, Json, Quiet, SceneName

if TYPE_CHECKING:
    from cdopt import Trajectory
    from cdopt.dynamics import StepFailed

HELP = (
    "Simulate a scene in time, by contact dynamics or with elastic contacts (variational, "
    "velocity-verlet, quasi-static, which need materials with a stiffness), and summarise the run. "
    "Exit code: 0 when every step is certified, 1 when one is not or the input is bad, 2 when "
    "a step is proven infeasible, 130 after Ctrl-C."
)


def simulate(
    scene: SceneName,
    dt: Annotated[float, typer.Option("--dt", help="Time step, s.")] = 1e-3,
    duration: Annotated[
        float, typer.Option(help="How long, s; the default is the paper's for its pyramid.")
    ] = 0.02,
    method: Annotated[
        str | None,
        typer.Option(
            help="classic-cd, compatible-cd (the default), contact-dynamics (the default with "
            "friction), compatible-friction, variational, velocity-verlet or quasi-static."
        ),
    ] = None,
    friction: Annotated[
        float | None,
        typer.Option(
            help="Friction coefficient of all contacts; default those that the scene states."
        ),
    ] = None,
    law: Annotated[
        str | None,
        typer.Option(help="Of contact-dynamics: coulomb (the default) or associated."),
    ] = None,
    backend: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="Solver of the forces; of classic-cd's only problem."),
    ] = None,
    classic_backend: Annotated[
        str | None, typer.Option(metavar="NAME", help="Solver of the classic step, for the motion.")
    ] = None,
    out: Annotated[
        str | None,
        typer.Option(
            metavar="RUN.vtkhdf",
            help="Write the run to a new file, for cdopt show and ParaView.",
        ),
    ] = None,
    resume: Annotated[
        bool, typer.Option("--resume", help="Continue the run in --out; begin it if it is new.")
    ] = False,
    every: Annotated[int, typer.Option(help="Record every so many steps.")] = 1,
    overlaps: Annotated[
        str | None,
        typer.Option(
            metavar="POLICY",
            help="Of bodies that overlap at the start: touching, resolve (push them apart) or "
            "refuse; default what the scene says.",
        ),
    ] = None,
    frictionless: Frictionless = False,
    as_json: Json = False,
    quiet: Quiet = False,
    force: Force = False,
) -> None:
    """Simulate a scene in time."""
    with output.errors_in_one_line():
        if resume and out is None:
            raise cdopt.InvalidInput("--resume", "no --out", "the file of the run to continue")
        if out is not None:
            _check_out(out, resume, force)
        stated = {"backend": backend, "classic_backend": classic_backend, "law": law}
        options: dict[str, Any] = {name: value for name, value in stated.items() if value}
        opened = cdopt.scene.load(scene, overlaps=overlaps)
        failure, interrupted = None, False
        fresh = None if resume else out
        with output.solvers_kept_quiet(to_stderr=as_json), output.replacing(force, fresh):
            try:
                run = cdopt.simulate(
                    opened, dt, duration, method, out=out, resume=resume, every=every,
                    friction=friction, frictionless=frictionless,
                    progress=output.progress(quiet, "step", output.PAUSE), **options,
                )  # fmt: skip
            except cdopt.dynamics.Interrupted as stop:
                run, interrupted = stop.trajectory, True
            except cdopt.dynamics.StepFailed as error:
                run, failure = error.trajectory, error
        if as_json:
            output.print_json({**_record(run, failure), "file": out, "interrupted": interrupted})
        else:
            show.print_summary(run)
            _print_failure(failure)
        if out is not None:
            typer.echo(f"run: {out}", err=True)
            if interrupted:
                more = {"dt": repr(dt), "duration": repr(duration), "every": every, **options}
                more |= {"method": method, "friction": friction, "overlaps": overlaps, "out": out}
                again = _again(scene, more, frictionless)
                t = run.diagnostics["time"][-1]
                typer.echo(f"interrupted at t = {t:.6g} s; go on: {again}", err=True)
        elif interrupted:
            typer.echo("interrupted; without --out nothing is kept", err=True)
    if interrupted:
        raise typer.Exit(output.INTERRUPTED)
    if failure is not None and failure.proof is not None:
        raise typer.Exit(output.INFEASIBLE)
    if failure is not None or not run.ok:
        raise typer.Exit(output.NO_ANSWER)


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


def _again(scene: str, options: dict[str, Any], frictionless: bool) -> str:
    """The command that continues a run; options without a value are left out."""
    command = ["cdopt", "simulate", scene, *(["--frictionless"] if frictionless else [])]
    for name, value in options.items():
        command += [] if value is None else [f"--{name.replace('_', '-')}", str(value)]
    return shlex.join([*command, "--resume"])


def _print_failure(failure: StepFailed | None) -> None:
    """The proof or the reason of a failure."""
    if failure is None:
        return
    if failure.proof is not None:
        output.say(f"t = {failure.t:g} s. {cdopt.study.proof_text(failure.proof)}")
    else:
        typer.echo(f"error: {one_line(str(failure), 500)}", err=True)


def _record(run: Trajectory, failure: StepFailed | None) -> dict[str, Any]:
    described = None
    if failure is not None:
        described = {"t": failure.t, "message": str(failure)}
        described["proven_infeasible"] = failure.proof is not None
    return {**show.record(run), "failure": described}
