"""The discrete element columns: LAMMPS where it is installed, the elastic reference otherwise."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from cdopt import BackendUnavailable
from cdopt.interop import lammps
from cdopt.scene.generators.paper import pyramid_positions

from ..report import Arrays
from .pile import HOOKE, REFERENCE_ACCURACY, Material, Pile

SOFT = {"hooke": 1e5, "species": 3e5, "hertz": 1e7}  # k in m g / d^(p−1)
STIFFER = {"hooke": 2.0, "species": 2.0, "hertz": 8.0}  # the second run's k over the first's
DAMPINGS = (1.0, 0.5)  # of the critical 2√(km); the paper's is the first
MODULUS_RATIO = 5.0


@dataclass(frozen=True, eq=False)
class Dem:
    """Forces of the discrete element method on a settled pile.

    Attributes
    ----------
    f : (nc,) m g. source : where they are from, in words. steps : of LAMMPS; 0 without it.
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
    return pile.settings.dem != "elastic" and reason is None


def dem(pile: Pile, material: Material) -> Dem:
    """The column of one material."""
    if not uses_lammps(pile):
        accuracy = max(REFERENCE_ACCURACY, pile.reference_certificate(material))
        source = f"the settled elastic network, by Newton's method to {accuracy:.0e}"
        return Dem(pile.reference(material), source)
    soft, ratio = SOFT[material.name], STIFFER[material.name]
    runs = [_settled(pile, material, k, DAMPINGS[0]) for k in (soft, soft * ratio)]
    f = lammps.rigid_limit(runs[0]["f"], runs[1]["f"], ratio, material.power)
    unit = "m g/d" if material.power == HOOKE.power else f"m g/d^{material.power - 1.0:g}"
    source = (
        f"LAMMPS {int(runs[0]['version'])}, k = {soft:.0e} and {soft * ratio:.0e} {unit}, "
        "extrapolated to rigid spheres, γ = 2√(km)"
    )
    return Dem(f, source, sum(int(run["steps"]) for run in runs))


def damping_effect(pile: Pile) -> float | None:
    """Largest change of a static force between two viscous dampings, as a share of the largest.

    Of Hooke's pile; None without LAMMPS.
    """
    if not uses_lammps(pile):
        return None
    one, other = (_settled(pile, HOOKE, SOFT["hooke"], damping)["f"] for damping in DAMPINGS)
    return float(np.abs(one - other).max() / one.max())


def _settled(pile: Pile, material: Material, stiffness: float, damping: float) -> Arrays:
    def compute() -> Arrays:
        centres, layers = pyramid_positions(pile.settings.n)
        modulus = np.array([1.0, MODULUS_RATIO] if material.kind == "species" else [1.0])
        series = np.outer(modulus, modulus) / np.add.outer(modulus, modulus)
        run = lammps.settle(
            centres, layers == 0, pile.settled(material).bodies, series / series.max(),
            np.arange(layers.size) % modulus.size, power=material.power, stiffness=stiffness,
            damping=damping,
        )  # fmt: skip
        return {"f": run.forces, "steps": run.steps, "version": run.version}

    n = pile.settings.n
    name = f"lammps-{material.name}-n{n}-k{stiffness:.0e}-damping{damping:g}"
    settings = {
        "n": n, "power": material.power, "k": stiffness, "damping": damping, "floor": lammps.FLOOR,
    }  # fmt: skip
    return pile.store.get(name, settings, compute)
