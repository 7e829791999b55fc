"""``python -m examples.studies.friction_widths``: what friction leaves undetermined in packings.

Discs of random sizes fall into a box and come to rest. Their forces with friction are a convex set;
for each μ this study takes its dimension, the mean width of the range of a normal force, and the
mean fluctuation of a normal force in the uniform ensemble, both over the mean normal force:

- *one packing*, made without friction, whose contacts are then given μ: cones open, so that the
  sets are nested and all widths grow;
- *packings made with that μ*, whose contacts are fewer the larger μ is.

Published, for packings made with each μ: fluctuations vanish without friction, grow at small μ as
cones open, and decrease again as contacts become fewer (T. Unger, J. Kertész & D. E. Wolf, Phys.
Rev. Lett. 94, 178001, 2005); the dimension is 2M − 3N less the sliding contacts, of M contacts and
N discs (S. McNamara & H. J. Herrmann, Phys. Rev. E 70, 061303, 2004), one more for each motion of
discs that roll on each other. The published ensembles are others, so that trends are compared, and
numbers only in the count.
"""

from __future__ import annotations

import csv
from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import numpy as np
import typer

import cdopt
from cdopt.formulations.friction_network import OPEN, SLIDING
from cdopt.plots import canvas
from cdopt.scene import Scene, State

if TYPE_CHECKING:
    from matplotlib.figure import Figure

COEFFICIENTS = (0.0, 0.05, 0.1, 0.2, 0.4, 0.8)
DISCS, ACROSS, SPREAD = 20, 5, 0.3
DT, SETTLED = 8e-3, 0.6  # s
DRAWS = 400  # of each of four chains
KINDS = {"one packing": "#0072B2", "made with μ": "#D55E00"}


@dataclass(frozen=True)
class Row:
    """One packing at one μ.

    Attributes
    ----------
    kind : of ``KINDS``. mu : friction coefficient. seed : of the packing.
    contacts, discs : contacts M that some admissible force loads, and discs N that have any.
    sliding : those that all admissible forces have at the limit of friction.
    dimension : of the set of admissible forces.
    width, fluctuation : mean over contacts of the range, and of the standard deviation in the
        uniform ensemble, of the normal force, over the mean normal force.
    converged : whether the ensemble's diagnostics hold.
    """

    kind: str
    mu: float
    seed: int
    contacts: int
    discs: int
    sliding: int
    dimension: int
    width: float
    fluctuation: float
    converged: bool

    @property
    def counted(self) -> int:
        """2M − 3N less the sliding contacts; without friction M − 2N."""
        if self.mu == 0.0:
            return self.contacts - 2 * self.discs
        return 2 * self.contacts - 3 * self.discs - self.sliding


def settled(mu: float, seed: int, discs: int = DISCS) -> tuple[Scene, State]:
    """A box of discs, and the state in which they came to rest with friction ``mu``."""
    scene = cdopt.scene.random_packing(discs, dim=2, across=ACROSS, spread=SPREAD, seed=seed)
    run = cdopt.simulate(scene, DT, SETTLED, friction=mu or None, every=1_000_000)
    return scene, State(0.0, run.final.q, np.zeros_like(run.final.v))


def at_rest(scene: Scene, state: State, mu: float) -> cdopt.ContactStep:
    """The step of a packing at rest whose contacts have friction ``mu``."""
    contacts = cdopt.collision.detect(scene, state)
    return cdopt.collision.step(scene, state, contacts, DT, friction=mu)


def measured(kind: str, step: cdopt.ContactStep, mu: float, seed: int, draws: int) -> Row:
    """The numbers of one packing at rest."""
    report = cdopt.indeterminacy(step, law="coulomb")
    samples = cdopt.ensemble(report, draws=draws)
    status = report.reduced
    closed = status != OPEN
    mean = float(samples.mean[closed].mean())
    touched = np.unique(step.bodies[closed])
    return Row(
        kind=kind,
        mu=mu,
        seed=seed,
        contacts=int(closed.sum()),
        discs=int((touched > 2).sum()),  # bodies 0 to 2 are floor and walls
        sliding=int((status == SLIDING).sum()) if mu else 0,
        dimension=report.dimension,
        width=float(report.width[closed].mean()) / mean,
        fluctuation=float(samples.std[closed].mean()) / mean,
        converged=samples.converged,
    )


def measure(
    coefficients: Sequence[float] = COEFFICIENTS,
    seeds: Sequence[int] = (0,),
    discs: int = DISCS,
    draws: int = DRAWS,
) -> list[Row]:
    """The rows of all packings: for each seed both kinds at each μ."""
    rows = []
    for seed in seeds:
        smooth = settled(0.0, seed, discs)
        for mu in coefficients:
            packings = {"one packing": smooth}
            packings["made with μ"] = settled(mu, seed, discs) if mu else smooth
            for kind, packing in packings.items():
                rows.append(measured(kind, at_rest(*packing, mu), mu, seed, draws))
    return rows


def picture(rows: Sequence[Row]) -> Figure:
    """Fluctuation, width, and contacts of each disc over μ; a point is the mean over the seeds."""
    figure = canvas.blank(canvas.WIDTH, 4.2)
    panels = figure.subplots(1, 3)
    quantities = {
        "Fluctuation": lambda row: row.fluctuation,
        "Width": lambda row: row.width,
        "Contacts": lambda row: row.contacts / row.discs,
    }
    below = ("over the mean force", "over the mean force", "of each disc")
    for axes, (title, of), subtitle in zip(panels, quantities.items(), below, strict=True):
        canvas.quiet_axes(axes)
        for kind, colour in KINDS.items():
            chosen = [row for row in rows if row.kind == kind]
            mus = sorted({row.mu for row in chosen})
            means = [np.mean([of(row) for row in chosen if row.mu == mu]) for mu in mus]
            axes.plot(mus, means, "o-", color=colour, label=kind)
        axes.set_ylim(0.0, 1.08 * max(of(row) for row in rows) or 1.0)
        canvas.axis_labels(axes, "friction coefficient μ", "")
        canvas.head(axes, title, subtitle, "")
    canvas.legend(figure, panels[0].get_legend_handles_labels()[0], "outside lower left", ncols=2)
    return canvas.headline(figure, "What friction leaves undetermined", "discs in a box, at rest")


def table(rows: Sequence[Row]) -> str:
    """The rows as text."""
    head = f"{'packing':<13}{'μ':>6}{'M':>5}{'N':>5}{'sliding':>9}{'dimension':>11}{'counted':>9}"
    lines = [head + f"{'width':>8}{'fluctuation':>13}"]
    for r in rows:
        line = f"{r.kind:<13}{r.mu:>6g}{r.contacts:>5}{r.discs:>5}{r.sliding:>9}{r.dimension:>11}"
        line += f"{r.counted:>9}{r.width:>8.3f}{r.fluctuation:>13.4f}"
        lines.append(line + ("" if r.converged else "  ensemble not converged"))
    key = (
        "counted: 2M − 3N less the sliding contacts (McNamara & Herrmann), M − 2N without friction;"
    )
    return "\n".join([*lines, key, "width and fluctuation of normal forces, over their mean"])


def main(
    out: Annotated[str, typer.Option(metavar="DIR", help="Folder of table and picture.")] = ".",
    seeds: Annotated[int, typer.Option(help="Packings of each kind and μ.")] = 1,
    discs: Annotated[int, typer.Option(help="In a packing.")] = DISCS,
    draws: Annotated[int, typer.Option(help="Of each of four chains.")] = DRAWS,
) -> None:
    """Measure, print and draw what friction leaves undetermined in packings of discs."""
    folder = Path(out)
    folder.mkdir(parents=True, exist_ok=True)
    rows = measure(seeds=range(seeds), discs=discs, draws=draws)
    typer.echo(table(rows))
    with (folder / "friction-widths.csv").open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, [field.name for field in fields(Row)])
        writer.writeheader()
        writer.writerows(asdict(row) for row in rows)
    cdopt.plots.save(picture(rows), folder / "friction-widths.png")


if __name__ == "__main__":
    typer.run(main)
