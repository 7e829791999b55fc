"""The figures of Olsen & Kamrin (2018), drawn from cdopt's runs, each with a caption.

Figures 1 to 5 of the paper belong to its schematic parts and to the beam of section 8.1: ours show
the same matter with cdopt's runs and do not copy a layout.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np
from matplotlib.figure import Figure

from cdopt.plots import PALETTE, floor_pressure_grid
from cdopt.plots.palette import COMPATIBLE

from .beam import beams
from .classic import column
from .dem import dem
from .pictures import (
    UNIT,
    Forces,
    chains_and_histogram,
    histograms,
    law_scatter,
    platform_forces,
    platform_overlaps,
    sphere_maps,
)
from .pile import HERTZ, HOOKE, MATERIALS, SPECIES, Material, Pile

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


def indeterminacy(pile: Pile) -> Drawn:
    """Figure 1."""
    answers = {name: f for name, f in beams(pile.settings)[0].classic.items() if name != "APGD"}
    return platform_forces(answers, "One motion, many forces"), (
        "Our figure for the indeterminacy of forces: a platform of 10 N at rest on three supports. "
        "All three carry the same load and leave it at rest; the order of Gauss–Seidel's visits "
        "alone sets the forces."
    )


def compatibility(pile: Pile) -> Drawn:
    """Figure 2."""
    names = ("equal supports", "middle 3 × as stiff")
    answers = {n: (b.overlap, b.f) for n, b in zip(names, beams(pile.settings), strict=True)}
    return platform_overlaps(answers, "Forces that fit one micro-displacement"), (
        "Our figure for the compatibility conditions: one small motion u of the rigid platform "
        "overlaps its supports by c = −B u, and every force is k c."
    )


def truss(pile: Pile) -> Drawn:
    """Figure 3."""
    piles = {
        m.title: (pile.overlap(m), pile.reference(m) / pile.settled(m).stiffness, m.power)
        for m in MATERIALS
    }
    return law_scatter(piles, "Compatibility in the pile"), (
        "Our figure for the no-tension truss: every contact of the settled pile, its force over "
        "its stiffness against the overlap of the pile's one micro-displacement; contacts that "
        "come apart carry nothing."
    )


def beam_at_rest(pile: Pile, which: int) -> Drawn:
    """Figures 4 and 5: equal supports, and the middle one stiffer."""
    beam = beams(pile.settings)[which]
    answers = {**beam.classic, "Compatible": beam.f, "Elastic supports": beam.elastic}
    supports = ("three equal supports", "the middle support three times as stiff")[which]
    return platform_forces(answers, f"The beam at rest, {supports}"), (
        f"Our figure for section 8.1: the beam at rest after its drop, {supports}, by every "
        "solver from zero; the last panel is the elastic solution."
    )


def pyramid(pile: Pile) -> Drawn:
    """Figure 6."""
    scene = pile.scene(HOOKE)
    centres = scene.initial.position
    states = [(f"{scene.nb:,} spheres", "before the drop", centres, 1e3 * centres[:, 2])]
    return sphere_maps(states, RADIUS, "height [mm]", "The cannonball pyramid"), (
        f"The cannonball pyramid of {pile.settings.n} layers, {scene.nb:,} spheres, layers 5 % of "
        "a radius apart, its base fixed."
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
        f"({source}). Scales as in the other figures of this pile."
    )


def side_by_side(pile: Pile, material: Material) -> Drawn:
    """Figures 12, 15 and 18."""
    methods = [_named_forces(pile, material, method) for method in ("dem", "compatible")]
    caption = f"Nonzero contact forces of DEM and compatible contact dynamics, {material.title}."
    return histograms(methods, material.title.capitalize()), caption


def floor(pile: Pile) -> Drawn:
    """Figure 19."""
    methods = {"dem": "DEM", "apgd": "APGD", "pgs": "PGS", "compatible": "Compatible"}
    cells = {
        name: [(m.title, pile.settled(m), forces(pile, m, method)) for m in TABLE_ORDER]
        for method, name in methods.items()
    }
    return floor_pressure_grid(cells, unit=UNIT, length="d"), (
        "Downward force on every sphere of the base, one colour scale; classic forces are the same "
        "for all materials, whose stiffness they do not know."
    )


FIGURES: dict[int, Callable[[Pile], Drawn]] = {
    1: indeterminacy,
    2: compatibility,
    3: truss,
    4: partial(beam_at_rest, which=0),
    5: partial(beam_at_rest, which=1),
    6: pyramid,
    7: landing,
    8: partial(distribution, material=HOOKE, method="dem"),
    9: partial(distribution, material=HOOKE, method="apgd"),
    10: partial(distribution, material=HOOKE, method="pgs"),
    11: partial(distribution, material=HOOKE, method="compatible"),
    12: partial(side_by_side, material=HOOKE),
    13: partial(distribution, material=SPECIES, method="dem"),
    14: partial(distribution, material=SPECIES, method="compatible"),
    15: partial(side_by_side, material=SPECIES),
    16: partial(distribution, material=HERTZ, method="dem"),
    17: partial(distribution, material=HERTZ, method="compatible"),
    18: partial(side_by_side, material=HERTZ),
    19: floor,
}
