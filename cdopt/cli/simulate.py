"""``cdopt simulate``: a scene in time."""

from __future__ import annotations

import contextlib
import shlex
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.text import Text

from cdopt._util import checks
from cdopt._util.errors import InvalidInput
from cdopt._util.formatting import one_line
from cdopt._util.progress import ProgressCallback
from cdopt.cli import output as cli_output
from cdopt.cli import run_output as cli_run_output
from cdopt.cli.output import INFEASIBLE, NO_ANSWER
from cdopt.cli.problem import SceneName
from cdopt.dynamics import METHODS, Interrupted, StepFailed, Trajectory
from cdopt.dynamics import simulate as run_simulation
from cdopt.scene.files import open_scene
from cdopt.study.formatting import proof_in_words

HELP = (
    "Let a scene go on in time, by contact dynamics or with elastic contacts (variational, "
    "velocity-verlet, quasi-static: they want materials with a stiffness), and say what it came "
    "to. Exit code: 0 when every step is certified, 1 when one is not or the input is bad, 2 when "
    "a step is proven infeasible, 130 after Ctrl-C."
)
INTERRUPTED = 130
PAUSE = 2.0  # seconds between lines of progress where stderr is no terminal

_Dt = Annotated[float, typer.Option("--dt", help="Time step, s.")]
_Duration = Annotated[
    float, typer.Option(help="How long, s; the default is the paper's for its pyramid.")
]
_Method = Annotated[str, typer.Option(help=" or ".join(METHODS) + ".")]
_Backend = Annotated[
    str | None,
    typer.Option(metavar="NAME", help="Solver of the forces; of classic-cd's only problem."),
]
_Classic = Annotated[
    str | None, typer.Option(metavar="NAME", help="Solver of the classic step, for the motion.")
]
_Out = Annotated[
    str | None,
    typer.Option(
        metavar="RUN.vtkhdf",
        help="Write the run to a new file, for cdopt show and ParaView; without, only what is "
        "printed remains.",
    ),
]
_Resume = Annotated[
    bool, typer.Option("--resume", help="Go on with the run in --out; begin it if there is none.")
]
_Every = Annotated[int, typer.Option(help="Record every so many steps.")]
_Json = Annotated[
    bool, typer.Option("--json", help="Print JSON and nothing else, with diagnostics.")
]
_Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="No progress on stderr.")]


@dataclass(frozen=True)
class _Ended:
    """How a run ended.

    Attributes
    ----------
    trajectory : as far as it came. failure : the step that failed. stopped : by Ctrl-C.
    """

    trajectory: Trajectory
    failure: StepFailed | None = None
    stopped: bool = False


def simulate(
    scene: SceneName,
    dt: _Dt = 1e-3,
    duration: _Duration = 0.02,
    method: _Method = "compatible-cd",
    backend: _Backend = None,
    classic_backend: _Classic = None,
    out: _Out = None,
    resume: _Resume = False,
    every: _Every = 1,
    as_json: _Json = False,
    quiet: _Quiet = False,
) -> None:
    """Let a scene go on in time."""
    with cli_output.errors_in_one_line():
        if resume and out is None:
            raise InvalidInput("--resume", "no --out", "the file of the run to go on with")
        if out is not None and not resume and Path(out).exists():
            found = f"{out}: a file that exists"
            raise InvalidInput("--out", found, "a new path, or --resume to go on with it")
        asked = open_scene(scene)
        checks.choice("--method", method, METHODS)
        backends = {"backend": backend, "classic_backend": classic_backend}
        options = {name: value for name, value in backends.items() if value is not None}
        with _progress(quiet) as tell, cli_output.solvers_kept_quiet(False, as_json):
            ended = _run(
                scene=asked, dt=dt, duration=duration, method=method, out=out, resume=resume,
                every=every, progress=tell, **options,
            )  # fmt: skip
        if as_json:
            cli_output.print_json(_record(ended, out))
        else:
            _print(ended)
        if out is not None:
            _say_where(ended, out, _again(scene, dt, duration, method, out, every, options))
        elif ended.stopped:
            typer.echo("interrupted; without --out nothing is kept", err=True)
    code = _exit_code(ended)
    if code:
        raise typer.Exit(code)


def _run(**arguments: Any) -> _Ended:
    """The run, however it ends."""
    try:
        return _Ended(run_simulation(**arguments))
    except Interrupted as stop:
        return _Ended(stop.trajectory, stopped=True)
    except StepFailed as failure:
        return _Ended(failure.trajectory, failure)


def _exit_code(ended: _Ended) -> int:
    if ended.stopped:
        return INTERRUPTED
    if ended.failure is not None:
        return INFEASIBLE if ended.failure.proof is not None else NO_ANSWER
    return 0 if ended.trajectory.ok else NO_ANSWER


def _print(ended: _Ended) -> None:
    """Heading, summary, and the proof or the reason of a failure."""
    cli_run_output.print_heading(ended.trajectory)
    cli_run_output.print_summary(ended.trajectory)
    if ended.failure is None:
        return
    if ended.failure.proof is not None:
        words = f"t = {ended.failure.t:g} s. {proof_in_words(ended.failure.proof)}"
        cli_output.console().print(Text(words))
    else:
        typer.echo(f"error: {one_line(str(ended.failure), 500)}", err=True)


def _record(ended: _Ended, out: str | None) -> dict[str, Any]:
    content = cli_run_output.record(ended.trajectory)
    failure = ended.failure
    content["file"] = out
    content["interrupted"] = ended.stopped
    content["failure"] = None if failure is None else {
        "t": failure.t, "message": str(failure), "proven_infeasible": failure.proof is not None,
    }  # fmt: skip
    return content


def _say_where(ended: _Ended, out: str, again: str) -> None:
    """Where the run is, and how to go on if it has not come to its end."""
    typer.echo(f"run: {out}", err=True)
    if ended.stopped:
        t = ended.trajectory.diagnostics["time"][-1]
        typer.echo(f"interrupted at t = {t:.6g} s; go on: {again}", err=True)


def _again(
    scene: str, dt: float, duration: float, method: str, out: str, every: int,
    options: dict[str, str],
) -> str:  # fmt: skip
    """The command that resumes a run."""
    words = ["cdopt", "simulate", scene, "--dt", f"{dt!r}", "--duration", f"{duration!r}"]
    words += ["--method", method, "--every", str(every)]
    for name, value in options.items():
        words += [f"--{name.replace('_', '-')}", value]
    return shlex.join([*words, "--out", out, "--resume"])


@contextlib.contextmanager
def _progress(quiet: bool) -> Iterator[bool | ProgressCallback]:
    """A bar on a terminal; elsewhere a line now and then, and at the end."""
    if quiet or Console(stderr=True).is_terminal:
        yield not quiet
        return
    last = time.monotonic()

    def line(done: int, total: int, text: str = "") -> None:
        nonlocal last
        now = time.monotonic()
        if done == total or now - last >= PAUSE:
            last = now
            typer.echo(f"step {done} of {total}: {text}", err=True)

    yield line
