"""The experiments of De Klerk et al. (2021), section 3, by every way there is, each run once.

Ways are cdopt's integrators, LAMMPS or its stored series, and the high-order reference.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from cdopt import BackendUnavailable
from cdopt.dynamics import simulate
from cdopt.dynamics.analysis import (
    Motion,
    centre_of_mass,
    mean_kinetic_energy,
    restitution,
    rotational_energy,
    velocity_fluctuation,
)
from cdopt.scene import Scene, State

from ..report import Arrays, Store
from . import lammps, ode, scenes
from .parameters import BOX, FINE, PAPER, SPEED, WALL_DISTANCE, Settings
from .references import stored

LEAD = 5.5  # steps before first touch, which so falls in the middle of a step
SPAN = 3.0  # t_c that an impact goes on from first touch
BOND_LEAD, BOND_SPAN = 0.01, 4.0  # s before first touch, out of the reach of bonds; t_c after it
PATH_LEAD = 0.3  # s before first touch where paths begin, and half of the time after it
SILO_STEP, SILO_TIME, SILO_EVERY = 0.02, 9.0, 150  # √(d/g), and steps between pictures
_BEFORE = 0.5  # t_c before first touch that series of bonds begin with
_BEYOND = 0.9  # collisions: half a flight comes first, and half a flight ends the run
LAST = 6  # collisions with the walls that are shown in full
_WALL_FRAMES = 10e-5  # s between frames, at most
_BOX_FRAMES = 0.02  # √(d/g) between frames


@dataclass(frozen=True)
class Way:
    """A way to a motion.

    Attributes
    ----------
    method : a method of ``simulate``, "lammps" or "ode".
    alpha : of the variational integrator.
    """

    method: str
    alpha: float = 0.5

    @property
    def label(self) -> str:
        """A word for the names of files."""
        return f"{self.method}-{self.alpha:g}" if self.method == "variational" else self.method


SECOND, FIRST = Way("variational", 0.5), Way("variational", 0.0)
PEER, EXACT = Way("lammps"), Way("ode")


class Runs:
    """Runs by experiment and way, each computed when first asked for.

    Parameters
    ----------
    settings : lengths and sources. store : keeps the runs.
    """

    def __init__(self, settings: Settings, store: Store) -> None:
        self.settings = settings
        self.store = store

    def uses_lammps(self) -> bool:
        """Whether the curves of velocity-Verlet come from LAMMPS, not from stored series.

        Raises
        ------
        BackendUnavailable : it was asked for and is not installed.
        """
        if self.settings.peer == "stored":
            return False
        reason = lammps.why_unavailable()
        if self.settings.peer == "lammps" and reason is not None:
            raise BackendUnavailable("lammps", reason)
        return reason is None

    # --- impact ------------------------------------------------------------------------

    def impact(self, way: Way, gamma: float, offset: float, dt: float) -> Arrays:
        """Energies of the first sphere in a collision of two.

        Returns
        -------
        ``t`` in t_c from first touch, ``linear`` and ``rotational`` kinetic energy over that at
        the start, all (frames,); ``restitution``.
        """
        key = f"gamma={gamma:g}|offset={offset:g}|h={dt:g}"
        if way == PEER and not self.uses_lammps():
            series = stored("impact")
            columns = dict(zip(("t", "linear", "rotational"), series[key].T, strict=True))
            return {**columns, "restitution": float(series[f"{key}|e"])}

        def compute() -> Arrays:
            scene = scenes.impact(gamma, offset, LEAD * dt * SPEED)
            steps = math.ceil(LEAD + SPAN * PAPER.contact_time / dt)
            return impact_series(self._motion(scene, way, dt, steps), LEAD * dt)

        return self._stored("impact", way, compute, gamma=gamma, offset=offset, dt=dt)

    # --- walls -------------------------------------------------------------------------

    def walls(self, way: Way, dt: float) -> Arrays:
        """Energy of a sphere between two walls.

        Returns
        -------
        ``flights`` (collisions + 1,) E/E₀ − 1 between collisions; over the last collisions ``t``
        in t_c and ``energy`` E/E₀ − 1 (frames,).
        """
        if way == PEER and not self.uses_lammps():
            series = stored("walls")
            t, energy = series[f"h={dt:g}|last"].T
            flights = series[f"h={dt:g}|flights"][: self.settings.collisions + 1]
            return {"t": t, "energy": energy, "flights": flights}

        def compute() -> Arrays:
            scene = scenes.walls()
            period = math.sqrt(2.0) * PAPER.contact_time + (
                (WALL_DISTANCE - 1.0) * PAPER.diameter / SPEED
            )
            steps = math.ceil((self.settings.collisions + _BEYOND) * period / dt)
            motion = self._motion(scene, way, dt, steps, max(1, round(_WALL_FRAMES / dt)))
            series = wall_series(scene, motion, (LAST - 0.5) * period)
            return {**series, "flights": series["flights"][: self.settings.collisions + 1]}

        return self._stored("walls", way, compute, dt=dt, collisions=self.settings.collisions)

    # --- bonded pair -------------------------------------------------------------------

    def bonded(self, way: Way, ratio: float, offset: float, dt: float) -> Arrays:
        """Forces in a bonded pair that a third sphere hits.

        Returns
        -------
        ``t`` in t_c from first touch; ``contact`` and ``bond``, forces over k d, compression
        positive, all (frames,).
        """

        def compute() -> Arrays:
            lead = math.ceil(BOND_LEAD / dt) + 0.5
            scene = scenes.bonded(ratio, offset, lead * dt * SPEED)
            steps = math.ceil(lead + BOND_SPAN * PAPER.contact_time / dt)
            return bond_series(self._motion(scene, way, dt, steps), ratio, lead * dt)

        return self._stored("bonded", way, compute, ratio=ratio, offset=offset, dt=dt)

    def bonded_paths(self, ratio: float, offset: float) -> Arrays:
        """Centres ``x`` (frames, 3 spheres, 3), in d, of the bonded pair and the third sphere."""

        def compute() -> Arrays:
            lead = math.ceil(PATH_LEAD / FINE)
            scene = scenes.bonded(ratio, offset, lead * FINE * SPEED)
            motion = self._motion(scene, SECOND, FINE, 3 * lead, lead // 20)
            return {"x": motion.x / PAPER.diameter}

        return self._stored("bonded-paths", SECOND, compute, ratio=ratio, offset=offset)

    # --- silo --------------------------------------------------------------------------

    def silo(self) -> list[tuple[Scene, State, str]]:
        """A draining silo: its scene, states and their times."""
        scene = scenes.silo()

        def compute() -> Arrays:
            self.store.progress("silo")
            run = simulate(scene, SILO_STEP, SILO_TIME, "classic-cd", every=SILO_EVERY)
            return {"q": run.q, "t": run.t}

        kept = self.store.get("silo", {"step": SILO_STEP, "time": SILO_TIME}, compute)
        still = np.zeros((scene.nb, scene.initial.v.shape[1]))
        return [
            (scene, State(float(t), q, still), f"t = {t:.3g} √(d/g)")
            for t, q in zip(kept["t"], kept["q"], strict=True)
        ]

    # --- box ---------------------------------------------------------------------------

    def box(self, way: Way) -> Arrays:
        """Statistics of the spheres that fill a box; m = d = g = 1.

        Returns
        -------
        ``t``, ``K`` of (35), ``dv`` of (36), ``rotational`` energy per sphere, ``com`` height of
        the centre of mass and ``top`` of the highest centre, all (frames,).
        """
        if way == PEER and not self.uses_lammps():
            table = stored("box")[f"gn=30.0|mu=10000|h=tc/{self.settings.box_step}"]
            names = ("t", "K", "dv", "rotational", "com", "top")
            kept = table[table[:, 0] <= self.settings.box_time + _BOX_FRAMES]
            return dict(zip(names, kept.T, strict=True))

        def compute() -> Arrays:
            dt = BOX.contact_time / float(self.settings.box_step)
            steps = math.ceil(self.settings.box_time / dt)
            motion = self._motion(scenes.box(), way, dt, steps, max(1, round(_BOX_FRAMES / dt)))
            return box_series(motion)

        s = self.settings
        return self._stored("box", way, compute, step=s.box_step, time=s.box_time)

    # --- ways --------------------------------------------------------------------------

    def _stored(
        self, what: str, way: Way, compute: Callable[[], Arrays], **given: float | str
    ) -> Arrays:
        words = "-".join(f"{name}-{value}" for name, value in given.items())
        split = self.settings.damping if way.method == "variational" else ""
        settings = {"way": way.label, "damping": split, **given}
        name = f"{what}-{way.label}{f'-{split}' if split else ''}-{words}"
        return self.store.get(name, settings, compute)

    def _motion(self, scene: Scene, way: Way, dt: float, steps: int, every: int = 1) -> Motion:
        if way.method == "lammps":
            return lammps.run(scene, dt, steps, every)
        if way.method == "ode":
            return ode.solve(scene, dt * np.append(np.arange(0, steps, every), steps))
        options: dict[str, Any] = {}
        if way.method == "variational":
            options = {"alpha": way.alpha, "damping": self.settings.damping}
        return Motion.of(simulate(scene, dt, dt * steps, way.method, every=every, **options))


def impact_series(motion: Motion, touch: float) -> Arrays:
    """What ``Runs.impact`` returns, of two spheres that touch first at ``touch`` s."""
    first = one_of(motion, 0)
    linear = 0.5 * first.mass[0] * (first.v[:, 0] ** 2).sum(axis=1)
    return {
        "t": (motion.t - touch) / PAPER.contact_time,
        "linear": linear / linear[0],
        "rotational": rotational_energy(first) / linear[0],
        "restitution": restitution(motion),
    }


def wall_series(scene: Scene, motion: Motion, last: float) -> Arrays:
    """What ``Runs.walls`` returns; the last ``last`` s are shown in full."""
    model = ode.Model.of(scene)
    kinetic = mean_kinetic_energy(motion)
    elastic = model.energy(motion)
    off = (kinetic + elastic) / (kinetic[0] + elastic[0]) - 1.0
    free = np.flatnonzero(elastic == 0.0)
    way = np.sign(motion.v[free, 0, 0])
    begins = np.append(True, way[1:] != way[:-1])
    late = motion.t >= motion.t[-1] - last
    return {
        "t": motion.t[late] / PAPER.contact_time,
        "energy": off[late],
        "flights": off[free[begins]],
    }


def bond_series(motion: Motion, ratio: float, touch: float) -> Arrays:
    """What ``Runs.bonded`` returns, of spheres that touch first at ``touch`` s."""

    def overlap(i: int, j: int) -> np.ndarray:
        apart = np.linalg.norm(motion.x[:, i] - motion.x[:, j], axis=1)
        return np.asarray(1.0 - apart / PAPER.diameter)

    t = (motion.t - touch) / PAPER.contact_time
    late = t >= -_BEFORE
    return {
        "t": t[late],
        "contact": np.maximum(overlap(0, 2), 0.0)[late],
        "bond": ratio * overlap(0, 1)[late],
    }


def box_series(motion: Motion) -> Arrays:
    """What ``Runs.box`` returns."""
    return {
        "t": motion.t,
        "K": mean_kinetic_energy(motion),
        "dv": velocity_fluctuation(motion),
        "rotational": rotational_energy(motion) / motion.mass.size,
        "com": centre_of_mass(motion)[:, 2],
        "top": motion.x[:, :, 2].max(axis=1),
    }


def one_of(motion: Motion, k: int) -> Motion:
    """The motion of one body alone."""
    tables = (table[:, k : k + 1] for table in (motion.x, motion.v, motion.w))
    return Motion(motion.t, *tables, motion.mass[k : k + 1], motion.spin[:, k : k + 1])
