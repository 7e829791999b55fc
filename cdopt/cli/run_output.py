"""What the command line says of a run: a summary, a table over time, JSON."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from rich.table import Table
from rich.text import Text

from cdopt._util.formatting import count, seconds, short
from cdopt.cli import output as cli_output
from cdopt.dynamics import Frame, Trajectory

_ROWS = 12  # of the table over time
_CARRIES = 1e-6  # share of the largest force from which on a contact carries one


@dataclass(frozen=True)
class Summary:
    """A run in numbers.

    Attributes
    ----------
    t : s, the end. steps, frames, not_ok : counts; the last of steps that are not certified.
    residual : the worst of all certificates, of stage ``residual_of`` in step ``residual_at``.
    overlap, overlap_final : m, the deepest of all steps and the last one.
    kinetic, kinetic_peak : J, left at the end, and the most there was.
    largest : N, largest force of the last frame, by name of the force.
    reaction, weight : N, what fixed bodies push up with at the end, and what free ones weigh.
    seconds : by what the time went into.
    """

    t: float
    steps: int
    frames: int
    not_ok: int
    residual: float
    residual_of: str
    residual_at: int
    overlap: float
    overlap_final: float
    kinetic: float
    kinetic_peak: float
    largest: dict[str, float]
    reaction: float
    weight: float
    seconds: dict[str, float]


def summary(trajectory: Trajectory) -> Summary:
    """What a run came to."""
    seen = trajectory.diagnostics
    residual, residual_of, at = _worst(trajectory)
    names = [name for name in seen if name.startswith("seconds_")]
    depth = seen["overlap"][np.isfinite(seen["overlap"])]
    final, scene = trajectory.final, trajectory.scene
    fixed, pull = scene.bodies.fixed, float(np.linalg.norm(scene.gravity))
    pushed = final.body_forces()[fixed].sum(axis=0) @ scene.gravity / pull if pull else np.nan
    return Summary(
        t=float(seen["time"][-1]),
        steps=int(seen["step"][-1]),
        frames=len(trajectory),
        not_ok=int(np.count_nonzero(~seen["ok"])),
        residual=residual,
        residual_of=residual_of,
        residual_at=int(seen["step"][at]),
        overlap=float(depth.max(initial=0.0)),
        overlap_final=float(depth[-1]) if depth.size else np.nan,
        kinetic=float(seen["kinetic"][-1]),
        kinetic_peak=float(np.nanmax(seen["kinetic"])),
        largest=_largest(final),
        reaction=float(pushed),
        weight=pull * float(scene.bodies.mass[~fixed].sum()),
        seconds={name.removeprefix("seconds_"): float(seen[name].sum()) for name in names},
    )


def _worst(trajectory: Trajectory) -> tuple[float, str, int]:
    """The worst residual of a run, its stage and its row; nothing of an explicit method."""
    seen, stages = trajectory.diagnostics, _stages(trajectory)
    if not stages:
        return 0.0, "", 0
    table = np.array([seen[f"residual_{name}"] for name in stages])
    size = np.where(np.isnan(table), np.inf, table)
    which, at = np.unravel_index(int(size.argmax()), size.shape)
    return float(size[which, at]), stages[which], int(at)


def print_heading(trajectory: Trajectory) -> None:
    """What the run is of."""
    out, scene, settings = cli_output.console(), trajectory.scene, dict(trajectory.settings)
    free = int(np.count_nonzero(~scene.bodies.fixed))
    name = ": ".join(filter(None, (scene.name, scene.title))) or "a scene"
    out.print(Text(f"{name}, p = {scene.power:g}", style="bold"))
    bodies = f"{count(scene.nb, 'body')} in {scene.dim}D, {free} free"
    method = f"{settings.pop('method')}, dt = {settings.pop('dt'):g} s"
    others = ", ".join(f"{key} {value}" for key, value in settings.items() if value is not None)
    out.print(Text(f"{bodies}; {method}; {others}", style="dim"))


def print_summary(trajectory: Trajectory) -> None:
    """The summary, a line for each thing."""
    found, out = summary(trajectory), cli_output.console()
    table = Table(box=None, show_header=False, pad_edge=False, padding=(0, 2, 0, 0))
    table.add_column(style="dim", no_wrap=True)
    table.add_column()
    for name, text in _lines(found, trajectory):
        table.add_row(name, text)
    out.print(table)


def print_table(trajectory: Trajectory) -> None:
    """A dozen steps, evenly spread."""
    seen, stages = trajectory.diagnostics, _stages(trajectory)
    kinds = ("kinetic", "potential", "elastic")
    total = np.sum([seen[name] for name in kinds if name in seen], axis=0)
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim")
    names = ["step", "t [s]", "contacts", "kinetic [J]", "energy [J]", "overlap [m]"]
    for name in [*names, *(f"{stage} residual" for stage in stages), "certified"]:
        table.add_column(Text(name), justify="right")
    steps = seen["step"].size
    for k in np.unique(np.linspace(0, steps - 1, min(_ROWS, steps)).round().astype(int)):
        numbers = [short(float(seen[name][k]), 3) for name in ("kinetic", "overlap")]
        residuals = ["–" if k == 0 else f"{seen[f'residual_{name}'][k]:.0e}" for name in stages]
        good = bool(seen["ok"][k])
        table.add_row(
            str(seen["step"][k]), f"{seen['time'][k]:.5g}", str(seen["contacts"][k]), numbers[0],
            short(float(total[k]), 6), numbers[1], *residuals,
            Text("yes" if good else "NO", style="green" if good else "bold red"),
        )  # fmt: skip
    cli_output.console().print(table)


def print_frame(trajectory: Trajectory, k: int) -> None:
    """One frame in a sentence or two."""
    frame, total = trajectory[k], len(trajectory)
    words = f"frame {k % total} of 0 to {total - 1}: step {frame.step}, t = {frame.t:.6g} s, "
    words += f"{count(frame.nc, 'contact')}"
    for name, f in frame.forces.items():
        top = float(np.nan_to_num(f).max(initial=0.0))
        if top > 0.0:
            i, j = frame.bodies[int(np.nanargmax(f))]
            carry = np.count_nonzero(f > _CARRIES * top)
            place = f"between bodies {i} and {j}"
            words += f"; {_kind(trajectory, name)} forces: {carry} of them carry, "
            words += f"the largest {short(top)} N {place}"
    cli_output.console().print(Text(words))


def record(trajectory: Trajectory, k: int | None = None) -> dict[str, Any]:
    """The run as plain values; with frame k, if one is asked for."""
    scene, seen = trajectory.scene, trajectory.diagnostics
    content: dict[str, Any] = {
        "scene": {
            "name": scene.name, "title": scene.title, "dim": scene.dim, "bodies": scene.nb,
            "free": int(np.count_nonzero(~scene.bodies.fixed)), "power": scene.power,
        },
        "settings": dict(trajectory.settings),
        "ok": trajectory.ok,
        "summary": asdict(summary(trajectory)),
        "frames": {"step": trajectory.steps, "t": trajectory.t},
        "diagnostics": {name: seen[name] for name in seen},
    }  # fmt: skip
    if k is not None:
        frame = trajectory[k]
        content["frame"] = {
            "number": k % len(trajectory), "step": frame.step, "t": frame.t, "q": frame.q,
            "v": frame.v, "bodies": frame.bodies, "gap": frame.phi, "normals": frame.normals,
            "points": frame.points, "forces": dict(frame.forces),
        }  # fmt: skip
    return content


def _lines(found: Summary, trajectory: Trajectory) -> list[tuple[str, Text]]:
    steps = count(found.steps, "step")
    held = (
        Text("an explicit method solves nothing") if not found.residual_of and not found.not_ok
        else Text(f"all {steps} certified", style="green") if not found.not_ok
        else Text(f"{count(found.not_ok, 'step')} of {found.steps} NOT certified", style="bold red")
    )  # fmt: skip
    worst = f"{found.residual:.1e}, in the {found.residual_of} problem of step {found.residual_at}"
    if not found.residual_of:
        worst = "–"
    left = f"{short(found.kinetic, 3)} J"
    if found.kinetic_peak > 0.0:
        share = found.kinetic / found.kinetic_peak
        moving = "" if share < 1e-6 else "; not at rest"
        left += f", {share:.1e} of the most there was ({short(found.kinetic_peak, 3)} J){moving}"
    forces = ", ".join(
        f"{_kind(trajectory, name)} {short(value)} N" for name, value in found.largest.items()
    )
    lines = [
        ("steps", Text(f"{steps} to t = {found.t:.6g} s, {count(found.frames, 'frame')}")),
        ("certificates", held),
        ("worst residual", Text(worst if found.steps else "–")),
        ("deepest overlap", Text(
            f"{short(found.overlap, 3)} m; at the end {short(found.overlap_final, 3)} m"
        )),
        ("kinetic energy left", Text(left)),
        ("largest force", Text((forces or "no contacts") + ", in the last step")),
    ]  # fmt: skip
    if np.isfinite(found.reaction) and trajectory.scene.bodies.fixed.any():
        words = f"{short(found.reaction, 6)} N of {short(found.weight, 6)} N"
        lines.append(("weight on fixed bodies", Text(words)))
    total = sum(found.seconds.values())
    parts = ", ".join(f"{name} {seconds(spent)}" for name, spent in found.seconds.items())
    return [*lines, ("time", Text(f"{seconds(total)}: {parts}"))]


def _largest(frame: Frame) -> dict[str, float]:
    return {
        name: float(np.nan_to_num(f).max(initial=0.0)) for name, f in frame.forces.items()
    }  # fmt: skip


def _kind(trajectory: Trajectory, name: str) -> str:
    """What a force is called: "compatible", "classic" or "elastic"."""
    if "elastic" in trajectory.diagnostics:
        return "elastic"
    return trajectory.method.removesuffix("-cd") if name == "f" else name.removeprefix("f_")


def _stages(trajectory: Trajectory) -> list[str]:
    """Names of the solves of a step."""
    prefix = "residual_"
    return [n.removeprefix(prefix) for n in trajectory.diagnostics if n.startswith(prefix)]
