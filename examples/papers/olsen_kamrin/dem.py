"""The discrete element columns: LAMMPS where it is installed, the elastic reference otherwise."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from cdopt._util.checks import FloatArray
from cdopt._util.errors import BackendUnavailable
from cdopt.interop import lammps
from cdopt.problem.contact_law import HOOKE
from cdopt.scene.generators.paper import pyramid_positions

from .pile import REFERENCE_ACCURACY, Pile
from .settings import MATERIALS, Material
from .store import Arrays

SOFT = {"hooke": 1e5, "species": 3e5, "hertz": 1e7}  # k in m g / d^(p−1)
STIFFER = {"hooke": 2.0, "species": 2.0, "hertz": 8.0}
DAMPINGS = (1.0, 0.5)  # of the critical 2√(km); the paper's is the first
MODULUS_RATIO = 5.0


@dataclass(frozen=True, eq=False)
class Dem:
    """Forces of the discrete element method on a settled pile.

    Attributes
    ----------
    f : (nc,) m g. source : where they are from, in words.
    steps : time steps of LAMMPS; 0 without it.
    """

    f: FloatArray
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
        words = (
            "the settled elastic network, by Newton's method to "
            f"{max(REFERENCE_ACCURACY, pile.reference_certificate(material)):.0e}"
        )
        return Dem(pile.reference(material), words)
    soft, ratio = SOFT[material.name], STIFFER[material.name]
    runs = [_settled(pile, material, k, DAMPINGS[0]) for k in (soft, soft * ratio)]
    f = lammps.rigid_limit(runs[0]["f"], runs[1]["f"], ratio, material.power)
    unit = "m g/d" if material.power == HOOKE else f"m g/d^{material.power - 1.0:g}"
    words = (
        f"LAMMPS {int(runs[0]['version'])}, k = {soft:.0e} and {soft * ratio:.0e} {unit}, "
        "extrapolated to rigid spheres, γ = 2√(km)"
    )
    return Dem(f, words, sum(int(run["steps"]) for run in runs))


def damping_effect(pile: Pile) -> tuple[float, float] | None:
    """Largest change of a static force, Hooke, between two viscous dampings; and LAMMPS' own error.

    Returns
    -------
    Both as a share of the largest force; None without LAMMPS.
    """
    if not uses_lammps(pile):
        return None
    material = MATERIALS[0]
    one, other = (_settled(pile, material, SOFT["hooke"], damping) for damping in DAMPINGS)
    top = float(one["f"].max())
    reference = pile.reference(material)
    off = np.abs(dem(pile, material).f - reference).max() / reference.max()
    return float(np.abs(one["f"] - other["f"]).max()) / top, float(off)


def _settled(pile: Pile, material: Material, stiffness: float, damping: float) -> Arrays:
    def make() -> Arrays:
        centres, layers = pyramid_positions(pile.settings.n)
        two = material.kind == "species"
        modulus = np.array([1.0, MODULUS_RATIO] if two else [1.0])
        series = np.outer(modulus, modulus) / np.add.outer(modulus, modulus)
        found = lammps.settle(
            centres, layers == 0, pile.pairs(material), series / series.max(),
            np.arange(layers.size) % modulus.size, power=material.power, stiffness=stiffness,
            damping=damping,
        )  # fmt: skip
        return {
            "f": found.forces, "steps": found.steps, "version": found.version,
            "residual": found.residual, "elsewhere": found.elsewhere,
        }  # fmt: skip

    n = pile.settings.n
    name = f"lammps-{material.name}-n{n}-k{stiffness:.0e}-damping{damping:g}"
    law = "hooke" if material.power == HOOKE else "hertz"
    made_with = {"n": n, "law": law, "k": stiffness, "damping": damping, "floor": lammps.FLOOR}
    return pile.store.get(name, made_with, make)
