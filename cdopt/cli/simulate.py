"""``cdopt simulate``: a scene in time."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

import cdopt
from cdopt._util.formatting import one_line
from cdopt.cli import output
from cdopt.cli.output import option
from cdopt.cli.show import print_summary, record

if TYPE_CHECKING:
    from cdopt.dynamics import StepFailed


def simulate(
    scene: output.SceneName,
    dt: Annotated[float, option("Time step, s.", "--dt")] = 1e-3,
    duration: Annotated[
        float, option("Duration, s; the default is that of the paper's pyramid.")
    ] = 0.02,
    method: Annotated[
        str | None,
        option(
            "Method: classic-cd, compatible-cd (the default), contact-dynamics (the "
            "default with friction), compatible-friction, variational, "
            "velocity-verlet or quasi-static."
        ),
    ] = None,
    friction: Annotated[
        float | None,
        option("Friction coefficient of all contacts; default those of the scene."),
    ] = None,
    law: Annotated[
        str | None, option("Law of contact-dynamics: coulomb (the default) or associated.")
    ] = None,
    backend: Annotated[
        str | None,
        option("Solver of the forces; for classic-cd that of its only problem.", metavar="NAME"),
    ] = None,
    classic_backend: Annotated[
        str | None, option("Solver of the classic step, for the motion.", metavar="NAME")
    ] = None,
    out: Annotated[
        str | None,
        option("Write the run to a new file, for cdopt show and ParaView.", metavar="RUN.vtkhdf"),
    ] = None,
    resume: Annotated[
        bool, option("Continue the run in --out, or start it if there is none.", "--resume")
    ] = False,
    every: Annotated[int, option("Record every n-th step.")] = 1,
    overlaps: Annotated[
        str | None,
        option(
            "Treatment of bodies that overlap at the start: touching, resolve (push "
            "them apart) or refuse; default that of the scene.",
            metavar="POLICY",
        ),
    ] = None,
    frictionless: output.Frictionless = False,
    as_json: output.Json = False,
    quiet: output.Quiet = False,
    force: output.Force = False,
) -> None:
    """Simulate a scene in time.

    Contacts are rigid, or elastic with the methods variational, velocity-verlet and quasi-static,
    which need materials with a stiffness. Exit code: 0 if every step is certified, 1 if a step is
    not or the input is bad, 2 if a step is proven infeasible, 130 after Ctrl-C.
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
            output.echo(f"error: {one_line(str(failure), 500)}", err=True)
    if out is not None:
        output.echo(f"run: {out}", err=True)
    if interrupted and out is not None:
        times = {"dt": repr(dt), "duration": repr(duration), "method": method}
        command = ["cdopt", "simulate", scene, *(["--frictionless"] if frictionless else [])]
        for name, value in {**times, "overlaps": overlaps, **common}.items():
            command += [] if value is None else [f"--{name.replace('_', '-')}", str(value)]
        again, t = shlex.join([*command, "--resume"]), run.diagnostics["time"][-1]
        output.echo(f"interrupted at t = {t:.6g} s; go on: {again}", err=True)
    elif interrupted:
        output.echo("interrupted; without --out nothing is kept", err=True)
    if interrupted:
        raise typer.Exit(output.INTERRUPTED)
    if failure is not None or not run.ok:
        raise typer.Exit(output.NO_ANSWER if proof is None else output.INFEASIBLE)


def _check_out(out: str, resume: bool, force: bool) -> None:
    """Raise an error for an existing file, or an ending that no reader supports."""
    if Path(out).suffix != cdopt.study.RUN_SUFFIX:
        expected = f"a name ending in {cdopt.study.RUN_SUFFIX}, which cdopt show and ParaView open"
        raise cdopt.InvalidInput("--out", repr(out), expected)
    if resume and force:
        raise cdopt.InvalidInput("--force", "together with --resume", "one of them")
    if Path(out).exists() and not (resume or force):
        expected = "a new path, --force to replace it, or --resume to continue it"
        raise cdopt.InvalidInput("--out", f"{out}: a file that exists", expected)


def _failure_record(failure: StepFailed | None) -> dict[str, Any] | None:
    if failure is None:
        return None
    proven = failure.proof is not None
    return {"t": failure.t, "message": str(failure), "proven_infeasible": proven}
