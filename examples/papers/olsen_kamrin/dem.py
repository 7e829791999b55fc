"""The discrete element columns: LAMMPS where it is installed, our own velocity-Verlet otherwise."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

import cdopt
from cdopt import BackendUnavailable
from cdopt.scene import Material as Stuff
from cdopt.scene import Scene, Spheres

from .. import lammps
from ..report import Arrays
from .pile import HOOKE, REFERENCE_ACCURACY, Material, Pile, matched

SOFT = {"hooke": 1e5, "species": 3e5, "hertz": 1e7}  # k in m g / d^(p−1)
STIFFER = {"hooke": 2.0, "species": 2.0, "hertz": 8.0}  # the second run's k over the first's
DAMPINGS = (1.0, 0.5)  # of the critical 2√(km); the paper's is the first
MODULUS_RATIO = 5.0
YOUNG = 50e9  # Pa, the paper's
LINEAR = 1e5  # N/m, of Hooke's contacts, for which the paper gives no number
VERLET_STEP = 5e-7  # s, the paper's
_DROPS = 1.5  # lengths of the drops by contact dynamics: how long spheres fall and settle


@dataclass(frozen=True, eq=False)
class Dem:
    """Forces of the discrete element method on a settled pile.

    Attributes
    ----------
    f : (nc,) m g. source : where they are from, in words. steps : time steps; 0 without any.
    """

    f: np.ndarray
    source: str
    steps: int = 0


def uses_lammps(pile: Pile) -> bool:
    """Whether the columns come from LAMMPS.

    Raises
    ------
    BackendUnavailable : it was asked for and is not installed.
    """
    reason = lammps.why_unavailable()
    if pile.settings.dem == "lammps" and reason is not None:
        raise BackendUnavailable("lammps", reason)
    return pile.settings.dem in ("auto", "lammps") and reason is None


def dem(pile: Pile, material: Material) -> Dem:
    """The column of one material."""
    if pile.settings.dem == "elastic":
        accuracy = max(REFERENCE_ACCURACY, pile.reference_certificate(material))
        source = (
            "a stand-in for discrete elements, the settled elastic network by Newton's method to "
            f"{accuracy:.0e}"
        )
        return Dem(pile.reference(material), source)
    if not uses_lammps(pile):
        return _dropped(pile, material)
    soft, ratio = SOFT[material.name], STIFFER[material.name]
    runs = [_settled(pile, material, k, DAMPINGS[0]) for k in (soft, soft * ratio)]
    f = lammps.rigid_limit(runs[0]["f"], runs[1]["f"], ratio, material.power)
    unit = "m g/d" if material.power == HOOKE.power else f"m g/d^{material.power - 1.0:g}"
    source = (
        f"the drop by LAMMPS {int(runs[0]['version'])}, k = {soft:.0e} and "
        f"{soft * ratio:.0e} {unit}, extrapolated to rigid spheres, γ = 2√(km)"
    )
    return Dem(f, source, sum(int(run["steps"]) for run in runs))


def _dropped(pile: Pile, material: Material) -> Dem:
    """The paper's own protocol: the separated layers fall, and settle with γ = 2√(km)."""

    def compute() -> Arrays:
        scene = elastic_scene(pile, material)
        steps = math.ceil(_DROPS * pile.settings.length / VERLET_STEP)
        run = cdopt.simulate(
            scene, VERLET_STEP, steps * VERLET_STEP, "velocity-verlet", every=steps
        )
        network = pile.settled(material)
        f = matched(run.final.bodies, run.final.f / pile.weight, network.bodies)
        free = np.flatnonzero(~scene.bodies.fixed)
        unbalanced = network.body_forces(f)[free] - [0.0, 0.0, 1.0]
        return {"f": f, "steps": steps, "unbalanced": np.abs(unbalanced).max()}

    settings = pile.made_with(step=VERLET_STEP, young=YOUNG, linear=LINEAR, drops=_DROPS)
    name = f"verlet-{material.name}-n{pile.settings.n}"
    run = pile.store.get(name, settings, compute)
    law = f"k = {LINEAR:.0e} N/m" if material.power == HOOKE.power else "E = 50 GPa"
    source = (
        f"the drop by our velocity-Verlet, {law}, γ = 2√(km), Δt = {VERLET_STEP:g} s, unbalanced "
        f"{float(run['unbalanced']):.0e} m g"
    )
    return Dem(np.asarray(run["f"]), source, int(run["steps"]))


def elastic_scene(pile: Pile, material: Material) -> Scene:
    """The pile before its drop, of elastic spheres; a half-contact has twice a contact's stiffness.

    γ is the critical damping 2√(km) of the stiffest contact of Hooke's law, for Hertz too: at
    the overlaps of this pile its tangent stiffness is of that size.
    """
    rigid = pile.scene(material)
    bodies = rigid.bodies
    ratios = {"soft": 1.0, "hard": MODULUS_RATIO} if material.kind == "species" else {"grain": 1.0}
    half = 2.0 * LINEAR if material.power == HOOKE.power else YOUNG
    names = list(ratios)
    spheres = Spheres(
        centres=bodies.position,
        radius=float(bodies.reach[0]),
        mass=float(bodies.mass[-1]),
        fixed=bodies.fixed,
        material=[names[k % len(names)] for k in range(rigid.nb)],
    )
    return Scene(
        [spheres],
        dim=3,
        power=material.power,
        materials=[Stuff(name=name, stiffness=half * ratio) for name, ratio in ratios.items()],
        damping=4.0 * math.sqrt(LINEAR * max(ratios.values()) / float(bodies.mass[-1])),
        tangential_damping=0.0,
    )


def damping_effect(pile: Pile) -> float | None:
    """Largest change of a static force between two viscous dampings, as a share of the largest.

    Of Hooke's pile; None without LAMMPS.
    """
    if not uses_lammps(pile):
        return None
    one, other = (_settled(pile, HOOKE, SOFT["hooke"], damping)["f"] for damping in DAMPINGS)
    return float(np.abs(one - other).max() / one.max())


def _settled(pile: Pile, material: Material, stiffness: float, damping: float) -> Arrays:
    """The separated layers fall in LAMMPS, and settle until the forces balance."""

    def compute() -> Arrays:
        bodies = pile.scene(material).bodies  # before the drop
        modulus = np.array([1.0, MODULUS_RATIO] if material.kind == "species" else [1.0])
        series = np.outer(modulus, modulus) / np.add.outer(modulus, modulus)
        run = lammps.settle(
            bodies.position / (2.0 * bodies.reach[0]), bodies.fixed, pile.settled(material).bodies,
            series / series.max(), np.arange(bodies.mass.size) % modulus.size,
            power=material.power, stiffness=stiffness, damping=damping,
        )  # fmt: skip
        return {"f": run.forces, "steps": run.steps, "version": run.version}

    n = pile.settings.n
    name = f"lammps-{material.name}-n{n}-k{stiffness:.0e}-damping{damping:g}"
    settings = {
        "n": n, "power": material.power, "k": stiffness, "damping": damping, "floor": lammps.FLOOR,
        "start": "drop",
    }  # fmt: skip
    return pile.store.get(name, settings, compute)
