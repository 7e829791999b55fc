"""The cannonball pyramid: its drops, its step at rest, and the elastic reference.

Olsen & Kamrin (2018), section 8.2. Forces are in units of a sphere's weight m g.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache, cached_property
from typing import Any

import numpy as np

import cdopt
from cdopt import backends, collision
from cdopt._util import checks
from cdopt.dynamics import Trajectory

from ..report import Arrays, Store

PAPER_N = 20  # layers of the paper's pile
DURATION = 0.02  # s; that pile is static by 16 ms
DEM = ("auto", "lammps", "verlet", "elastic")
REFERENCE_ACCURACY = 1e-13
FIRST_BACKENDS = ("apgd", "pgs", "newton", "clarabel")


@dataclass(frozen=True)
class Material:
    """One of the paper's three piles: ``kind`` is the pyramid's ``material``, ``power`` its p."""

    name: str
    title: str
    kind: str
    power: float


HOOKE = Material("hooke", "Hooke", "uniform", 2.0)
SPECIES = Material("species", "two species", "species", 2.0)
HERTZ = Material("hertz", "Hertz", "uniform", 2.5)
MATERIALS = (HOOKE, SPECIES, HERTZ)


@dataclass(frozen=True)
class Settings:
    """Settings of a reproduction.

    Parameters
    ----------
    n : spheres along a side of the pile's base; the paper's is 20.
    dt : time step, s.
    duration : of the drop, s; default 20 ms, longer in proportion for larger piles.
    seed : the first of the seeds of shuffled orders.
    dem : source of the columns of the discrete element method: "lammps"; "verlet", the paper's
        drop by our velocity-Verlet; "elastic", the settled elastic network solved to 1e-12, a
        stand-in; or "auto", LAMMPS where it is installed, else velocity-Verlet.

    Raises
    ------
    InvalidInput : a setting out of range.
    """

    n: int = PAPER_N
    dt: float = 1e-3
    duration: float | None = None
    seed: int = 0
    dem: str = "auto"

    def __post_init__(self) -> None:
        checks.whole("n", self.n, 3, 60)
        checks.whole("seed", self.seed, 0, 2**31)
        checks.scalar("dt", self.dt, above=0.0)
        checks.scalar("duration", self.length, at_least=0.016)
        checks.choice("dem", self.dem, DEM)

    @property
    def length(self) -> float:
        """Length of the drop, s."""
        return DURATION * max(1.0, self.n / PAPER_N) if self.duration is None else self.duration


class Pile:
    """Runs of the pile in three materials, each computed when it is first needed.

    Parameters
    ----------
    settings : size and time step. store : keeps the results.
    """

    def __init__(self, settings: Settings, store: Store) -> None:
        self.settings = settings
        self.store = store
        # each of these is needed many times, and costs seconds
        self.drop = cache(self._drop)
        self.rest = cache(self._rest)
        self.settled = cache(self._settled)
        self._classic_by = cache(self._solve_classic)

    def scene(self, material: Material) -> cdopt.Scene:
        """The pile before its drop, layers 5 % of a radius apart."""
        return cdopt.scene.pyramid(self.settings.n, power=material.power, material=material.kind)

    @cached_property
    def weight(self) -> float:
        """m g of a sphere, N."""
        scene = self.scene(HOOKE)
        return float(scene.bodies.mass[-1] * np.linalg.norm(scene.gravity))

    def made_with(self, **more: Any) -> dict[str, Any]:
        """Settings that the drops depend on, and more."""
        s = self.settings
        return {"n": s.n, "dt": s.dt, "duration": s.length} | more

    # --- the settled network -----------------------------------------------------------

    def _settled(self, material: Material) -> cdopt.ContactStep:
        """The network of exactly touching spheres; units m = d = g = 1."""
        step = cdopt.bank.load(f"pyramid-{material.name}:n={self.settings.n}").step
        assert step is not None
        return step

    def reference(self, material: Material) -> np.ndarray:
        """(nc,) m g, forces of the settled elastic network, by Newton's method to 1e-12."""
        return np.asarray(self._reference(material)["f"])

    def reference_certificate(self, material: Material) -> float:
        """Largest residual of the reference."""
        return float(self._reference(material)["residual"])

    def _reference(self, material: Material) -> Arrays:
        def compute() -> Arrays:
            step = self.settled(material)
            data = step.B, -step.F_ext, step.stiffness, material.power
            truss = cdopt.NoTensionTruss(*data, form="potential", dof_body=step.dof_body)
            answer = truss.solve(backends.Newton(accuracy=REFERENCE_ACCURACY))
            return {"f": answer.f, "residual": answer.certificate.worst}

        name = f"reference-{material.name}-n{self.settings.n}"
        settings = {"n": self.settings.n, "accuracy": REFERENCE_ACCURACY}
        return self.store.get(name, settings, compute)

    def floor_forces(self, f: np.ndarray) -> np.ndarray:
        """(n²,) downward force on every fixed sphere, the first ones, in the units of f."""
        forces = self.settled(HOOKE).body_forces(f)  # no material changes the geometry
        return -np.asarray(forces[: self.settings.n**2, -1])

    # --- drops -------------------------------------------------------------------------

    def _drop(self, material: Material) -> Trajectory:
        """Compatible contact dynamics from the drop to rest, streamed to a VTKHDF file."""
        self.store.folder.mkdir(parents=True, exist_ok=True)
        s = self.settings
        name = f"drop-{material.name}-n{s.n}-{s.dt:g}-{s.length:g}"
        out = self.store.folder / f"{name}.vtkhdf"

        def progress(done: int, total: int, text: str) -> None:
            self.store.progress(f"{name}: step {done} of {total}")

        run = cdopt.simulate(
            self.scene(material),
            s.dt,
            s.length,
            "compatible-cd",
            out=out,
            resume=True,
            progress=progress,
        )
        rows = run.diagnostics
        seconds = (np.nansum(rows[key]) for key in rows if key.startswith("seconds_"))
        self.store.seconds[name] = float(sum(seconds))
        return run

    def _rest(self, material: Material) -> cdopt.ContactStep:
        """The contact step at the state that the drop ends in."""
        scene, dt = self.scene(material), self.settings.dt
        state = self.drop(material).final.state
        contacts = collision.detect(scene, state, collision.safe_margin(scene, state, dt))
        return collision.step(scene, state, contacts, dt)

    def compatible(self, material: Material) -> np.ndarray:
        """(nc,) m g, forces of the drop's last step, on the contacts of ``settled``."""
        return self.on_network(material, self.drop(material).final.f)

    def certificates(self, material: Material) -> tuple[float, float]:
        """Largest residuals of the last step: of the classic step, and of the forces."""
        rows = self.drop(material).diagnostics
        return float(rows["residual_classic"][-1]), float(rows["residual_forces"][-1])

    def on_network(self, material: Material, f: np.ndarray) -> np.ndarray:
        """Forces (nc,) N of the step at rest, on the settled contacts, in m g.

        Contacts that only one of the two has are within round-off of closing.
        """
        pairs = self.drop(material).final.bodies
        return matched(pairs, f / self.weight, self.settled(material).bodies)

    def first_steps(self, material: Material) -> dict[str, tuple[float, float, float]]:
        """Compatible forces with another backend in the first step.

        Returns
        -------
        By backend: largest error of a force, as a share of the largest; the certificate of the
        first step; and its largest force, m g.
        """

        def compute() -> Arrays:
            both = cdopt.CompatibleCD(self.rest(material), power=material.power)
            reference, rows = self.reference(material), []
            for name in FIRST_BACKENDS:
                first = both.certified_here(self._classic_by(name))
                second = both.solve("newton", classic=first)
                off = np.abs(self.on_network(material, second.f) - reference).max()
                peak = float(first.f.max()) / self.weight
                rows.append([off / reference.max(), first.certificate.worst, peak])
            return {"rows": np.array(rows)}

        name = f"first-steps-{material.name}-n{self.settings.n}"
        result = self.store.get(name, self.made_with(backends=FIRST_BACKENDS), compute)
        return dict(zip(FIRST_BACKENDS, map(tuple, result["rows"].tolist()), strict=True))

    def _solve_classic(self, backend: str) -> cdopt.StepSolution:
        """The classic step at rest, which no material changes, by one backend."""
        self.store.progress(f"the step at rest by {backend}")
        return cdopt.CompatibleCD(self.rest(HOOKE)).classic_cd.solve(backend)


def matched(pairs: np.ndarray, f: np.ndarray, wanted: np.ndarray) -> np.ndarray:
    """Forces on body pairs (n, 2), on other pairs ``wanted`` (m, 2); zero where there is none."""
    known = dict(zip(map(tuple, pairs.tolist()), f.tolist(), strict=True))
    return np.array([known.get(pair, 0.0) for pair in map(tuple, wanted.tolist())])
