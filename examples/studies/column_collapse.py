"""``python -m examples.studies.column_collapse``: columns of discs collapse.

Discs of 9 mm to 11 mm settle behind a gate, which is then taken away; a second of the collapse
follows by contact dynamics with Coulomb friction, μ = 0.5 and no restitution. The steps of the
collapse that are certified to ``--tol`` are counted. The settling is preparation, and is not
certified: its steps end after 300 sweeps. ``--rolling`` lets the same column collapse with rolling
friction, by contact dynamics and with elastic contacts by velocity-Verlet, for each coefficient.

The runout (L − L₀) / L₀ ends at the farthest disc that is in contact with the heap. It is compared
with published ones of columns of a = H₀ / L₀, all as K. Kumar reports them in *Multi-scale
multiphase modelling of granular flows*, PhD thesis, Cambridge (2015):

- grains in channels, 1.2 a up to a = 2.3 and 1.9 a^(2/3) above: G. Lube et al., Phys. Rev. E 72,
  041301 (2005), and E. Lajeunesse, J. B. Monnier & G. M. Homsy, Phys. Fluids 17, 103302 (2005), as
  quoted in chapter 2. The experiments drawn in chapter 4 ran farther, 1.5 a to 1.8 a up to a = 2;
- his 3000 discs of friction 0.53 and restitution 0.75, chapter 4: 1.67 a up to a = 2.7 and
  2.7 a^(2/3) above. They resist rolling, "to model the shape effect of non-spherical grains".

Without rolling friction discs roll on, as far by contact dynamics as with elastic contacts: of 2000
discs with a = 1.33 to 3.2 and 3.1, still in motion. Kumar's discs have a rolling spring; he
gives no coefficient of rolling friction. With a coefficient of 0.1 the runout is 2.6. With 0.3 it
is 1.5, 2.3 and 4.2 for a = 1.00, 1.33 and 3.10, where his law gives 1.7, 2.2 and 5.7, and that of
channels 1.2, 1.6 and 4.0. The front depends on single contacts: another run by contact dynamics,
different by round-off, gave 2.7 instead of 3.2.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

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
from cdopt.scene import Material, Scene, State

TOLERANCE = 1e-2  # of the certificates, relative to the local load of each contact
ITERATIONS, PARTS = 5_000, 16  # of a solve, and parts of a step without a certified answer, at most
FRICTION, RADIUS, DENSITY, GRAVITY = 0.5, 0.005, 2500.0, 9.81  # SI units
SETTLING, SHARE = 0.4, 300  # s, and the sweeps of its steps
STIFFNESS, RESTITUTION, RESOLVED = 4e7, 0.5, 16  # N/m, e and steps of an elastic collision
LAWS = {  # factors below and above a change, which is the last number
    "channels, 1.2 a and 1.9 a^(2/3)": (1.2, 1.9, 2.3),
    "discs, 1.67 a and 2.7 a^(2/3)": (1.67, 2.7, 2.7),
}
# Runouts at a, read from the vector graphic "runout" of Kumar's chapter 4.
ASPECTS = (0.2, 0.4, 0.6, 0.8, 1.0, 2.0, 4.0, 6.0, 8.0, 10.0)
PUBLISHED = {
    "experiments in channels": (0.3, 0.63, 1.02, 1.41, 1.81, 3.47, 6.46, 8.3, 10.3, 11.2),
    "discs that resist rolling": (0.25, 0.6, 1.05, 1.4, 1.68, 3.79, 6.77, 8.19, 9.95, 11.0),
}
NEAR = 0.05  # of a radius: gaps that count as contact
FRAMES = 20  # recorded of a collapse


@dataclass(frozen=True)
class Column:
    """A column that has settled behind its gate.

    Attributes
    ----------
    centres : (n, 2) m. radius : (n,) m. seconds : of processor time that it took.
    """

    centres: np.ndarray
    radius: np.ndarray
    seconds: float

    @property
    def width(self) -> float:
        """L₀, m."""
        return float((self.centres[:, 0] + self.radius).max())

    @property
    def height(self) -> float:
        """H₀, m: the mean height of the tops of eight strips."""
        strip = np.digitize(self.centres[:, 0], np.linspace(0.0, self.width, 9)[1:-1])
        tops = self.centres[:, 1] + self.radius
        return float(np.mean([tops[strip == k].max() for k in range(8)]))

    @property
    def aspect(self) -> float:
        """H₀ / L₀."""
        return self.height / self.width

    def scene(self, **options: Any) -> Scene:
        """The column without its gate, between the wall and the floor."""
        walls = [[0.0, 0.0], [np.nan, np.nan]]
        discs = {"density": DENSITY, "friction": FRICTION, **options}
        return cdopt.scene.from_positions(self.centres, self.radius, walls=walls, **discs)


@dataclass(frozen=True)
class Collapse:
    """A collapse.

    Attributes
    ----------
    name : of its contacts. column : at the start. run : its trajectory.
    seconds : of processor time.
    """

    name: str
    column: Column
    run: Trajectory
    seconds: float

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
        return float((state.position[heap, 0] + self.column.radius[heap[free]]).max())

    @property
    def runouts(self) -> np.ndarray:
        """(L − L₀) / L₀ of the recorded frames."""
        fronts = [self.front(frame.state) for frame in self.run]
        return np.array(fronts) / self.column.width - 1.0

    @property
    def runout(self) -> float:
        """(L − L₀) / L₀ at the end."""
        return float(self.runouts[-1])

    @property
    def spread(self) -> float:
        """The runout of 98 % of the discs, which does not depend on single contacts."""
        scene = self.run.scene
        places = self.run.final.state.position[~scene.bodies.fixed, 0]
        return float(np.quantile(places, 0.98)) / self.column.width - 1.0

    @property
    def certified(self) -> tuple[int, int]:
        """Steps whose certificate holds, and all steps."""
        ok = np.asarray(self.run.diagnostics["ok"])[1:]
        return int(ok.sum()), ok.size

    @property
    def overlap(self) -> float:
        """The deepest overlap in a recorded frame, over the mean radius."""
        deepest = min(detect(self.run.scene, f.state, 0.0).phi.min(initial=0.0) for f in self.run)
        return -float(deepest) / RADIUS

    def __str__(self) -> str:
        rows = self.run.diagnostics
        speed = np.sqrt(rows["kinetic"][-1] / rows["kinetic"].max())
        shown = (
            f"a = {self.column.aspect:.2f}, {self.name}: runout {self.runout:.2f}, of 98 % of the "
            f"discs {self.spread:.2f}, last speed {speed:.1%} of the fastest, processor time "
            f"{self.seconds:.0f} s"
        )
        if "substeps" not in rows:
            return f"{shown}, overlaps of at most {self.overlap:.1%} of a radius"
        ok, steps = self.certified
        iterations = float(np.mean(rows["iterations_friction"][1:]))
        return (
            f"{shown} and {self.column.seconds:.0f} s to settle, {ok} of {steps:,} steps "
            f"certified, {int(np.max(rows['substeps'][1:]))} parts at most, {iterations:.0f} "
            f"iterations each"
        )


def settled(n: int, aspect: float, dt: float, seed: int = 0) -> Column:
    """A column of n discs, made about ``aspect`` times as high as wide."""
    started = time.process_time()
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
    return Column(centres, radii, time.process_time() - started)


def collapse(
    column: Column, duration: float, dt: float, tol: float = TOLERANCE, rolling: float = 0.0
) -> Collapse:
    """Let a column collapse by contact dynamics, with a coefficient of rolling friction."""
    started, grain = time.process_time(), Material(name="grain", rolling_friction=rolling)
    run = cdopt.simulate(
        *(column.scene(materials=[grain], material="grain"), dt, duration, "contact-dynamics"),
        backend=APGD(accuracy=tol, max_iterations=ITERATIONS),
        tol=tol,
        substeps=PARTS,
        on_failure="continue",
        every=max(1, round(duration / dt / FRAMES)),
        progress=True,
    )
    name = f"contact dynamics, rolling friction {rolling:g}" if rolling else "contact dynamics"
    return Collapse(name, column, run, time.process_time() - started)


def elastic(column: Column, duration: float, rolling: float) -> Collapse:
    """Let a column of elastic discs collapse, with a coefficient of rolling friction."""
    started = time.process_time()
    rate = np.sqrt(2.0 * STIFFNESS / (DENSITY * np.pi * RADIUS**2))  # of two mean discs, rad/s
    loss = -np.log(RESTITUTION)
    grain = Material(name="grain", stiffness=2.0 * STIFFNESS, rolling_friction=rolling)
    damping = 2.0 * loss / np.hypot(np.pi, loss) * rate
    scene = column.scene(materials=[grain], material="grain", damping=damping)
    steps = int(np.ceil(duration * rate * RESOLVED / np.pi))
    run = cdopt.simulate(
        *(scene, duration / steps, duration, "velocity-verlet"),
        every=max(1, steps // FRAMES),
        progress=True,
    )
    name = f"elastic, rolling friction {rolling:g}"
    return Collapse(name, column, run, time.process_time() - started)


def profiles(result: Collapse) -> Figure:
    """The column at five times, coloured by how high each disc was."""
    run, height = result.run, result.column.height
    frames = [run[k] for k in (0, len(run) // 5, 2 * len(run) // 5, 3 * len(run) // 5, -1)]
    free = ~run.scene.bodies.fixed
    reach = max(frame.state.position[free, 0].max() for frame in frames)
    reach = min(reach, 1.3 * result.front(run.final.state)) + 5 * RADIUS
    figure = plots.canvas.blank(8.0, 5.0 * 8.0 * 1.15 * height / reach)
    colours = frames[0].state.position[free, 1]
    for frame, axes in zip(frames, figure.subplots(len(frames), 1, sharex=True), strict=True):
        sizes = 2.0 * result.column.radius
        discs = EllipseCollection(
            *(sizes, sizes, np.zeros_like(sizes)),
            offsets=frame.state.position[free],
            offset_transform=axes.transData,
            units="xy",
            array=colours,
            cmap="viridis",
        )
        axes.add_collection(discs)
        axes.set(xlim=(0, reach), ylim=(0, 1.05 * height), aspect="equal")
        axes.set_title(f"t = {frame.state.t:.2f} s", loc="right", fontsize=9)
        axes.set_ylabel("m")
    axes.set_xlabel("distance from the wall, m")
    return figure


def law(first: float, second: float, change: float, a: np.ndarray) -> np.ndarray:
    """Runout by a published law, with its factors below and above the change."""
    return np.where(a < change, first * a, second * a ** (2.0 / 3.0))


def runouts(results: list[Collapse]) -> Figure:
    """Runout against aspect ratio with published ones, and against time."""
    figure = plots.canvas.blank(10.0, 4.4)
    left, right = figure.subplots(1, 2)
    aspects = np.array([result.column.aspect for result in results])
    a = np.linspace(0.0, 1.6 * aspects.max(), 400)
    for (name, factors), style in zip(LAWS.items(), ("--", "-"), strict=True):
        left.plot(a, law(*factors, a), style, color="0.4", label=name)
    for (name, values), marker in zip(PUBLISHED.items(), "sx", strict=True):
        left.plot(ASPECTS, values, marker, color="0.4", label=name)
    names = list(dict.fromkeys(result.name for result in results))
    for k, name in enumerate(names):
        same = [result for result in results if result.name == name]
        points = [(result.column.aspect, result.runout) for result in same]
        left.plot(*np.array(points).T, "o", color=f"C{k}", label=name)
        for result in same:
            times = np.array([frame.state.t for frame in result.run])
            unit = np.sqrt(result.column.height / GRAVITY)
            right.plot(times / unit, result.runouts, color=f"C{k}")
    most = max(result.runout for result in results)
    left.set(xlim=(0.0, a[-1]), ylim=(0.0, 1.6 * most))
    left.set(xlabel="a = H₀ / L₀", ylabel="(L − L₀) / L₀")
    left.legend(frameon=False, fontsize=8)
    right.set(xlabel="time / (H₀ / g)^½", ylabel="(L − L₀) / L₀")
    return figure


def main(arguments: Sequence[str] | None = None) -> None:
    """Collapse the columns that the command line names."""
    parser = argparse.ArgumentParser("python -m examples.studies.column_collapse")
    parser.add_argument("--n", type=int, default=2000, help="discs")
    parser.add_argument("--aspects", type=float, nargs="+", default=[2.0], help="H₀ / L₀, roughly")
    parser.add_argument("--duration", type=float, default=1.0, help="s")
    parser.add_argument("--dt", type=float, default=2e-3, help="time step, s")
    parser.add_argument("--tol", type=float, default=TOLERANCE, help="of the certificates")
    text = "also with these coefficients of rolling friction, and then with elastic contacts too"
    parser.add_argument("--rolling", type=float, nargs="+", default=[], help=text)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, default=Path(), help="folder of the pictures")
    options = parser.parse_args(arguments)
    options.out.mkdir(parents=True, exist_ok=True)
    results = list[Collapse]()
    for aspect in options.aspects:
        column = settled(options.n, aspect, options.dt, options.seed)
        for name, factors in LAWS.items():
            print(f"a = {column.aspect:.2f}, {name}: {law(*factors, np.array(column.aspect)):.2f}")
        limits = options.duration, options.dt, options.tol
        those = [collapse(column, *limits, rolling) for rolling in (0.0, *options.rolling)]
        those += [elastic(column, options.duration, rolling) for rolling in options.rolling]
        for result in those:
            print(result, flush=True)
            kind = result.name.replace(", rolling friction ", "-").replace(" ", "-")
            plots.save(profiles(result), options.out / f"{kind}-{aspect:g}.png")
        results += those
    plots.save(runouts(results), options.out / "runout.png")
    print(f"The pictures are in {options.out}")


if __name__ == "__main__":
    main()
