"""The figures of Olsen & Kamrin (2018), drawn from cdopt's runs, each with a caption.

Figures have the paper's numbers and show what its figures show; layouts are ours.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np
from matplotlib.figure import Figure

from cdopt.plots import PALETTE, floor_pressure_grid
from cdopt.plots.palette import COMPATIBLE

from .beam import STIFFNESS, beams
from .classic import column
from .dem import dem
from .pictures import (
    UNIT,
    Forces,
    chains_and_histogram,
    histograms,
    platform_forces,
    sphere_maps,
)
from .pile import HERTZ, HOOKE, SPECIES, Material, Pile

SPEED_TIMES = (0.0, 0.004, 0.008, 0.016)  # s
RADIUS = 1.25e-3  # m, of a sphere
TABLE_ORDER = (HOOKE, HERTZ, SPECIES)

Drawn = tuple[Figure, str]  # and its caption


def forces(pile: Pile, material: Material, method: str) -> np.ndarray:
    """(nc,) m g of "dem", "apgd", "pgs" or "compatible" on the settled contacts."""
    if method == "dem":
        return dem(pile, material).f
    return pile.compatible(material) if method == "compatible" else column(pile, method).f


def _named_forces(pile: Pile, material: Material, method: str) -> Forces:
    name, colour = {  # DEM in a blue that no other method here has
        "dem": ("DEM", PALETTE["clarabel"].colour),
        "apgd": ("APGD", PALETTE["apgd"].colour),
        "pgs": ("PGS", PALETTE["pgs"].colour),
        "compatible": ("Compatible", COMPATIBLE.colour),
    }[method]
    return Forces(name, forces(pile, material, method), colour)


def gauss_seidel(pile: Pile) -> Drawn:
    """Figure 1."""
    answers = beams(pile.settings)[0].classic
    shown = dict([item for item in answers.items() if item[0] != "APGD"][:2])
    return platform_forces(shown, "Projected Gauss–Seidel in two orders"), (
        "The beam at rest after its drop, three equal supports, by projected Gauss–Seidel from "
        "zero in two orders of visits. Both leave it at rest; the order alone sets the forces."
    )


def on_the_beam(pile: Pile, which: int, name: str) -> Drawn:
    """Figures 2 to 5: equal supports, or the middle one stiffer, by one method."""
    beam = beams(pile.settings)[which]
    answers = {**beam.classic, "Compatible": beam.f}
    f = beam.dem if name == "Discrete elements" else answers[name]
    supports = ("three equal supports", "the middle support three times as stiff")[which]
    how = {
        "APGD": "classic contact dynamics by APGD from zero",
        "Compatible": "compatible contact dynamics",
        "Discrete elements": f"its drop by velocity-Verlet, k = {STIFFNESS:.0e} N/m, γ = 2√(km)",
    }[name]
    return platform_forces({name: f}, ""), (f"The beam at rest, {supports}: {how}.")


def pyramid(pile: Pile) -> Drawn:
    """Figure 6."""
    frame = pile.drop(HOOKE).final
    centres = frame.state.position
    states = [(f"{len(centres):,} spheres", "at rest", centres, 1e3 * centres[:, 2])]
    return sphere_maps(states, RADIUS, "height [mm]", "The cannonball pyramid"), (
        f"The static cannonball pyramid of {pile.settings.n} layers, {len(centres):,} spheres, its "
        f"base fixed, at the end of its drop, t = {1e3 * frame.t:.0f} ms."
    )


def landing(pile: Pile) -> Drawn:
    """Figure 7."""
    run = pile.drop(HOOKE)
    states = []
    for t in SPEED_TIMES:
        frame = run[int(np.argmin(np.abs(run.t - t)))]
        speed = 1e3 * np.linalg.norm(frame.state.velocity, axis=1)
        note = f"fastest sphere {speed.max():.3g} mm/s"
        states.append((f"t = {1e3 * frame.t:.0f} ms", note, frame.state.position, speed))
    return sphere_maps(states, RADIUS, "speed [mm/s]", "The pile lands"), (
        "Speeds of the spheres as the pile lands and comes to rest, compatible contact dynamics."
    )


def distribution(pile: Pile, material: Material, method: str) -> Drawn:
    """Figures 8 to 11, 13, 14, 16 and 17: chains and histogram of one method."""
    shown = _named_forces(pile, material, method)
    # one scale for all figures of a material; the classic columns are drawn for Hooke only
    methods = ("dem", "compatible") + (("apgd", "pgs") if material is HOOKE else ())
    top = max(float(forces(pile, material, each).max()) for each in methods)
    figure = chains_and_histogram(pile.settled(material), shown, top, material.title.capitalize())
    source = "last step of the drop"
    if method == "dem":
        source = dem(pile, material).source
    elif method != "compatible":
        source = column(pile, method).case.description
    return figure, (
        f"Force distribution (a) and nonzero forces (b), {material.title}: {shown.name} "
        f"({source}). Colours, line widths and the axis of forces as in the other figures of this "
        "pile."
    )


def side_by_side(pile: Pile, material: Material) -> Drawn:
    """Figures 12, 15 and 18."""
    methods = [_named_forces(pile, material, method) for method in ("dem", "compatible")]
    caption = (
        f"Nonzero contact forces of DEM ({dem(pile, material).source}) and compatible contact "
        f"dynamics, {material.title}."
    )
    return histograms(methods, material.title.capitalize()), caption


def floor(pile: Pile) -> Drawn:
    """Figure 19."""
    methods = {"dem": "DEM", "apgd": "APGD", "pgs": "PGS", "compatible": "Compatible"}
    cells = {
        name: [(m.title, pile.settled(m), forces(pile, m, method)) for m in TABLE_ORDER]
        for method, name in methods.items()
    }
    return floor_pressure_grid(cells, unit=UNIT, length="d"), (
        "Downward force on every sphere of the base, one colour scale. In Hooke's pile DEM is "
        f"{dem(pile, HOOKE).source}. Classic forces are the same for all materials, "
        "whose stiffness they do not know."
    )


FIGURES: dict[str, Callable[[Pile], Drawn]] = {
    "1": gauss_seidel,
    "2": partial(on_the_beam, which=0, name="APGD"),
    "3": partial(on_the_beam, which=0, name="Compatible"),
    "4": partial(on_the_beam, which=1, name="Discrete elements"),
    "5": partial(on_the_beam, which=1, name="Compatible"),
    "6": pyramid,
    "7": landing,
    "8": partial(distribution, material=HOOKE, method="dem"),
    "9": partial(distribution, material=HOOKE, method="apgd"),
    "10": partial(distribution, material=HOOKE, method="pgs"),
    "11": partial(distribution, material=HOOKE, method="compatible"),
    "12": partial(side_by_side, material=HOOKE),
    "13": partial(distribution, material=SPECIES, method="dem"),
    "14": partial(distribution, material=SPECIES, method="compatible"),
    "15": partial(side_by_side, material=SPECIES),
    "16": partial(distribution, material=HERTZ, method="dem"),
    "17": partial(distribution, material=HERTZ, method="compatible"),
    "18": partial(side_by_side, material=HERTZ),
    "19": floor,
}
