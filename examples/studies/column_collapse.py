"""``python -m examples.studies.column_collapse``: columns of discs collapse.

Discs of 9 mm to 11 mm settle behind a gate, which is then taken away; a second of the collapse
follows by contact dynamics with Coulomb friction, μ = 0.5 and no restitution. The steps of the
collapse that are certified to ``--tol`` are counted. The settling is preparation, and is not
certified: its steps end after 300 sweeps. The runout (L − L₀) / L₀ ends at the farthest disc that
is in contact with the heap, as in Kumar's. It is set beside published laws of a = H₀ / L₀:

- grains in channels, 1.2 a up to a = 2.3 and 1.9 a^(2/3) above: G. Lube et al., Phys. Rev. E 72,
  041301 (2005), and E. Lajeunesse, J. B. Monnier & G. M. Homsy, Phys. Fluids 17, 103302 (2005), as
  quoted by K. Kumar, chapter 2;
- discrete elements, 3000 discs of friction 0.53, 1.67 a and 2.5 a^(2/3) with the same limit:
  K. Kumar, Multi-scale multiphase modelling of granular flows, PhD thesis, Cambridge (2015), ch. 4.
  Discs in the plane run farther than grains in a channel, which its walls slow down. Restitution
  up to 0.8 hardly matters (L. Staron & E. J. Hinch, 2007, as quoted there).
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from matplotlib.collections import EllipseCollection
from matplotlib.figure import Figure
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

import cdopt
from cdopt import plots
from cdopt.backends import APGD, NSGS
from cdopt.collision import detect
from cdopt.dynamics import Trajectory
from cdopt.scene import State

TOLERANCE = 1e-2  # of the certificates, relative to what acts at each contact
ITERATIONS, PARTS = 20_000, 4  # of a solve, and parts of a step without a certified answer, at most
FRICTION, RADIUS = 0.5, 0.005  # m
SETTLING, SHARE = 0.4, 300  # s, and the sweeps of its steps
LAWS = {
    "channels, 1.2 a and 1.9 a^(2/3)": (1.2, 1.9),
    "discs, 1.67 a and 2.5 a^(2/3)": (1.67, 2.5),
}
CHANGE = 2.3  # aspect ratio between the two branches of both laws
NEAR = 0.05  # of a radius: gaps that count as contact


@dataclass(frozen=True)
class Collapse:
    """A collapse.

    Attributes
    ----------
    run : its trajectory. radius : (n,) m. width, height : of the column at the start, m.
    settling, processor : seconds of processor time of the preparation and of the collapse.
    """

    run: Trajectory
    radius: np.ndarray
    width: float
    height: float
    settling: float
    processor: float

    @property
    def aspect(self) -> float:
        """H₀ / L₀ of the settled column."""
        return self.height / self.width

    def front(self, state: State) -> float:
        """How far the heap reaches from the wall, without discs that have left it, m."""
        scene = self.run.scene
        contacts = detect(scene, state, NEAR * RADIUS)
        touching = contacts.bodies[contacts.phi <= NEAR * RADIUS]
        free = ~scene.bodies.fixed
        pairs = touching[free[touching].all(axis=1)]
        graph = coo_array((np.ones(len(pairs)), pairs.T), shape=(len(free), len(free)))
        label = connected_components(graph, directed=False)[1]
        heap = free & (label == np.bincount(label[free]).argmax())
        return float((state.position[heap, 0] + self.radius[heap[free]]).max())

    @property
    def runout(self) -> float:
        """(L − L₀) / L₀ at the end."""
        return self.front(self.run.final.state) / self.width - 1.0

    @property
    def certified(self) -> tuple[int, int]:
        """Steps whose certificate holds, and all steps."""
        ok = np.asarray(self.run.diagnostics["ok"])[1:]
        return int(ok.sum()), ok.size

    def __str__(self) -> str:
        ok, steps = self.certified
        rows = self.run.diagnostics
        iterations = float(np.mean(rows["iterations_friction"][1:]))
        speed = np.sqrt(rows["kinetic"][-1] / rows["kinetic"].max())
        return (
            f"a = {self.aspect:.2f}: runout {self.runout:.2f}, {ok} of {steps:,} steps certified, "
            f"{int(np.max(rows['substeps'][1:]))} parts at most, {iterations:.0f} iterations each, "
            f"last speed {speed:.1%} of the fastest, processor time {self.processor:.0f} s and "
            f"{self.settling:.0f} s to settle"
        )


def settled(n: int, aspect: float, dt: float, seed: int) -> tuple[np.ndarray, np.ndarray, float]:
    """Centres (n, 2) and radii (n,) of a column behind its gate, and its width, m."""
    scene = cdopt.scene.grain_column(
        n, aspect=aspect, radius=RADIUS, spread=0.1, mu=FRICTION, gate=True, seed=seed
    )
    backend = NSGS(accuracy=TOLERANCE, max_sweeps=SHARE)
    options = {"backend": backend, "tol": TOLERANCE, "substeps": 1}
    run = cdopt.simulate(
        scene, dt, SETTLING, "contact-dynamics", on_failure="continue", every=100, **options
    )
    free = ~scene.bodies.fixed
    centres, radii = run.final.state.position[free], scene.bodies.reach[free]
    return centres, radii, float((centres[:, 0] + radii).max())


def collapse(
    n: int, aspect: float, duration: float, dt: float, seed: int = 0, tol: float = TOLERANCE
) -> Collapse:
    """Let a column of n discs settle, and collapse."""
    started = time.process_time()
    centres, radii, width = settled(n, aspect, dt, seed)
    scene = cdopt.scene.from_positions(
        centres, radii, walls=[[0.0, 0.0], [np.nan, np.nan]], friction=FRICTION
    )
    begun = time.process_time()
    backend = APGD(accuracy=tol, max_iterations=ITERATIONS)
    run = cdopt.simulate(
        *(scene, dt, duration, "contact-dynamics"),
        backend=backend,
        tol=tol,
        substeps=PARTS,
        on_failure="continue",
        every=max(1, round(duration / dt / 20)),
        progress=True,
    )
    columns = np.linspace(0.0, width, 9)  # the mean height of the tops of eight strips
    strip = np.clip(np.digitize(centres[:, 0], columns) - 1, 0, 7)
    tops = [(centres[strip == k, 1] + radii[strip == k]).max() for k in range(8)]
    seconds = begun - started, time.process_time() - begun
    return Collapse(run, radii, width, float(np.mean(tops)), *seconds)


def profiles(result: Collapse) -> Figure:
    """The column at five times, coloured by how high each disc was."""
    run = result.run
    frames = [run[k] for k in (0, len(run) // 5, 2 * len(run) // 5, 3 * len(run) // 5, -1)]
    free = ~run.scene.bodies.fixed
    reach = max(frame.state.position[free, 0].max() for frame in frames)
    reach = min(reach, 1.3 * result.front(run.final.state)) + 5 * RADIUS
    figure = plots.canvas.blank(8.0, 5.0 * 8.0 * 1.15 * result.height / reach)
    colours = frames[0].state.position[free, 1]
    for frame, axes in zip(frames, figure.subplots(len(frames), 1, sharex=True), strict=True):
        sizes = 2.0 * result.radius
        discs = EllipseCollection(
            *(sizes, sizes, np.zeros_like(sizes)),
            offsets=frame.state.position[free],
            offset_transform=axes.transData,
            units="xy",
            array=colours,
            cmap="viridis",
        )
        axes.add_collection(discs)
        axes.set(xlim=(0, reach), ylim=(0, 1.05 * result.height), aspect="equal")
        axes.set_title(f"t = {frame.state.t:.2f} s", loc="right", fontsize=9)
        axes.set_ylabel("m")
    axes.set_xlabel("distance from the wall, m")
    return figure


def law(first: float, second: float, a: np.ndarray) -> np.ndarray:
    """Runout by a published law, with its factors below and above the change."""
    return np.where(a < CHANGE, first * a, second * a ** (2.0 / 3.0))


def runouts(results: list[Collapse]) -> Figure:
    """Runout against aspect ratio, beside the published laws."""
    figure = plots.canvas.blank(6.0, 4.2)
    axes = figure.subplots()
    points = np.array([[result.aspect, result.runout] for result in results])
    a = np.geomspace(0.6 * points[:, 0].min(), 1.6 * points[:, 0].max(), 200)
    for (name, factors), style in zip(LAWS.items(), ("--", "-"), strict=True):
        axes.plot(a, law(*factors, a), style, color="0.4", label=name)
    axes.plot(*points.T, "o", color="#0072B2", label="cdopt")
    axes.set(xscale="log", yscale="log", xlabel="a = H₀ / L₀", ylabel="(L − L₀) / L₀")
    axes.legend(frameon=False)
    return figure


def main(arguments: Sequence[str] | None = None) -> None:
    """Collapse the columns that the command line names."""
    parser = argparse.ArgumentParser("python -m examples.studies.column_collapse")
    parser.add_argument("--n", type=int, default=2000, help="discs")
    parser.add_argument("--aspects", type=float, nargs="+", default=[2.0], help="H₀ / L₀, roughly")
    parser.add_argument("--duration", type=float, default=1.0, help="s")
    parser.add_argument("--dt", type=float, default=2e-3, help="time step, s")
    parser.add_argument("--tol", type=float, default=TOLERANCE, help="of the certificates")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, default=Path(), help="folder of the pictures")
    options = parser.parse_args(arguments)
    options.out.mkdir(parents=True, exist_ok=True)
    results = []
    for aspect in options.aspects:
        settings = options.duration, options.dt, options.seed, options.tol
        result = collapse(options.n, aspect, *settings)
        print(result, flush=True)
        for name, factors in LAWS.items():
            print(f"    {name}: {law(*factors, np.array(result.aspect)):.2f}")
        plots.save(profiles(result), options.out / f"collapse-{aspect:g}.png")
        results.append(result)
    plots.save(runouts(results), options.out / "runout.png")
    print(f"The pictures are in {options.out}")


if __name__ == "__main__":
    main()
