"""The cannonball pyramid: its drops, its step at rest, and the elastic reference.

Olsen & Kamrin (2018), section 8.2. Forces are in units of a sphere's weight m g.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np

from cdopt import backends, collision
from cdopt._util.checks import FloatArray, IntArray
from cdopt.bank import piles
from cdopt.dynamics import Trajectory, simulate
from cdopt.formulations import CompatibleCD, NoTensionTruss
from cdopt.problem.contact_step import ContactStep
from cdopt.problem.solution import StepSolution
from cdopt.scene import Scene
from cdopt.scene.generators import paper

from .settings import MATERIALS, Material, Settings
from .store import Arrays, Store

REFERENCE_ACCURACY = 1e-13
FIRST_BACKENDS = ("apgd", "pgs", "newton", "clarabel")
LOADED = 1e-6  # forces above this share of the largest are counted as nonzero


class Pile:
    """Runs of the pile in three materials, each computed when first asked for.

    Parameters
    ----------
    settings : size and time step.
    store : keeps the runs.
    """

    def __init__(self, settings: Settings, store: Store) -> None:
        self.settings = settings
        self.store = store
        self._drops: dict[str, Trajectory] = {}
        self._rest: dict[str, ContactStep] = {}
        self._settled: dict[str, ContactStep] = {}

    # --- what there is -----------------------------------------------------------------

    def scene(self, material: Material) -> Scene:
        """The pile before its drop, layers 5 % of a radius apart."""
        return paper.pyramid(self.settings.n, power=material.power, material=material.kind)

    @cached_property
    def weight(self) -> float:
        """m g of a sphere, N."""
        scene = self.scene(MATERIALS[0])
        return float(scene.bodies.mass[-1] * np.linalg.norm(scene.gravity))

    @property
    def base(self) -> int:
        """Number of fixed spheres, the first ones."""
        return self.settings.n**2

    def settled(self, material: Material) -> ContactStep:
        """The network of exactly touching spheres; units m = d = g = 1."""
        if material.kind not in self._settled:
            self._settled[material.kind] = piles.pyramid(self.settings.n, material.kind)
        return self._settled[material.kind]

    def pairs(self, material: Material) -> IntArray:
        """(nc, 2) numbers of the spheres in contact, in the settled network."""
        bodies = self.settled(material).bodies
        return np.zeros((0, 2), dtype=np.int64) if bodies is None else bodies

    def made_with(self, **more: Any) -> dict[str, Any]:
        """Settings that the drops depend on, and more."""
        s = self.settings
        return {"n": s.n, "dt": s.dt, "duration": s.length} | more

    # --- runs --------------------------------------------------------------------------

    def drop(self, material: Material) -> Trajectory:
        """Compatible contact dynamics from the drop to rest, streamed to a VTKHDF file."""
        if material.name not in self._drops:
            self.store.folder.mkdir(parents=True, exist_ok=True)
            s = self.settings
            name = f"drop-{material.name}-n{s.n}-{s.dt:g}-{s.length:g}"

            def along(done: int, total: int, text: str) -> None:
                self.store.tell(f"{name}: step {done} of {total}, {text}")

            self._drops[material.name] = simulate(
                self.scene(material), s.dt, s.length, "compatible-cd",
                out=self.store.folder / f"{name}.vtkhdf", resume=True, progress=along,
            )  # fmt: skip
            self.store.seconds[name] = seconds_of(self._drops[material.name])
        return self._drops[material.name]

    def rest(self, material: Material) -> ContactStep:
        """The contact step at the state that the drop ends in."""
        if material.name not in self._rest:
            scene, dt = self.scene(material), self.settings.dt
            state = self.drop(material).final.state
            found = collision.detect(scene, state, collision.safe_margin(scene, state, dt))
            self._rest[material.name] = collision.step(scene, state, found, dt)
        return self._rest[material.name]

    def compatible(self, material: Material) -> FloatArray:
        """(nc,) m g, forces of the drop's last step, on the contacts of ``settled``."""
        return self.on_network(material, self.drop(material).final.f)

    def certificates(self, material: Material) -> tuple[float, float]:
        """Worst residuals of the last step: of the classic step, and of the forces."""
        rows = self.drop(material).diagnostics
        return float(rows["residual_classic"][-1]), float(rows["residual_forces"][-1])

    def on_network(self, material: Material, f: FloatArray) -> FloatArray:
        """Forces (nc,) N of the step at rest, on the settled contacts, in m g.

        Contacts that one of the two has alone are those within round-off of closing.
        """
        count = int(self.scene(material).nb)
        own, wanted = self.drop(material).final.bodies, self.pairs(material)
        return matched(own, f / self.weight, wanted, count)

    def reference(self, material: Material) -> FloatArray:
        """(nc,) m g, forces of the settled elastic network, by Newton's method to 1e-12."""
        return np.asarray(self._reference(material)["f"])

    def overlap(self, material: Material) -> FloatArray:
        """(nc,) relative overlaps c = −B u of the reference's micro-displacement."""
        step = self.settled(material)
        return -np.asarray(step.B @ self._reference(material)["u"])

    def reference_certificate(self, material: Material) -> float:
        """Worst residual of the reference."""
        return float(self._reference(material)["residual"])

    def _reference(self, material: Material) -> Arrays:
        def make() -> Arrays:
            step = self.settled(material)
            load = np.zeros(0) if step.F_ext is None else -step.F_ext
            found = NoTensionTruss(
                step.B, load, step.stiffness, material.power, "potential", dof_body=step.dof_body
            ).solve(backends.Newton(accuracy=REFERENCE_ACCURACY))
            held = found.certificate
            residual = np.nan if held is None else held.worst
            return {"f": found.f, "u": found.u, "residual": residual}

        name = f"reference-{material.name}-n{self.settings.n}"
        return self.store.get(name, {"n": self.settings.n, "accuracy": REFERENCE_ACCURACY}, make)

    def first_steps(self, material: Material) -> dict[str, tuple[float, float, float]]:
        """Compatible forces with another backend in the first step.

        Returns
        -------
        By backend: largest error of a force, as a share of the largest; the certificate of the
        first step; and its largest force, m g.
        """

        def make() -> Arrays:
            both = CompatibleCD(self.rest(material), power=material.power)
            reference, rows = self.reference(material), []
            for name in FIRST_BACKENDS:
                first = both.certified_here(self._first(name))
                second = both.solve("newton", classic=first)
                if second.f is None or first.f is None or first.certificate is None:
                    rows.append([np.nan] * 3)
                    continue
                off = np.abs(self.on_network(material, second.f) - reference).max()
                peak = float(first.f.max()) / self.weight
                rows.append([off / reference.max(), first.certificate.worst, peak])
            return {"rows": np.array(rows)}

        name = f"first-steps-{material.name}-n{self.settings.n}"
        rows = self.store.get(name, self.made_with(backends=FIRST_BACKENDS), make)["rows"]
        return {
            name: (float(a), float(b), float(c))
            for name, (a, b, c) in zip(FIRST_BACKENDS, rows, strict=True)
        }

    def _first(self, backend: str) -> StepSolution:
        """The classic step at rest, which no material changes, by one backend."""
        if backend not in self._solved:
            self.store.tell(f"the step at rest by {backend}")
            both = CompatibleCD(self.rest(MATERIALS[0]))
            self._solved[backend] = both.classic_cd.solve(backend)
        return self._solved[backend]

    @cached_property
    def _solved(self) -> dict[str, StepSolution]:
        return {}


def matched(own: IntArray, f: FloatArray, wanted: IntArray, count: int) -> FloatArray:
    """Forces on pairs ``own`` (n, 2) of ``count`` bodies, on pairs ``wanted``; zero elsewhere."""
    keys, sought = own[:, 0] * count + own[:, 1], wanted[:, 0] * count + wanted[:, 1]
    order = np.argsort(keys)
    at = np.clip(np.searchsorted(keys[order], sought), 0, max(keys.size - 1, 0))
    hit = keys[order][at] == sought
    return np.where(hit, f[order][at], 0.0)


def seconds_of(run: Trajectory) -> float:
    """Wall-clock time of all steps of a run, s."""
    rows = run.diagnostics
    return float(sum(np.nansum(rows[name]) for name in rows if name.startswith("seconds_")))
