"""The figures of Olsen & Kamrin (2018), drawn from cdopt's runs, each with a line of what it shows.

Figures 1 to 5 of the paper belong to its schematic parts and to the beam of section 8.1: ours show
that matter with cdopt's runs and do not copy a layout.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from cdopt._util.checks import FloatArray
from cdopt.plots.chains_and_histogram import Forces, chains_and_histogram, histograms
from cdopt.plots.palette import COMPATIBLE, PALETTE
from cdopt.plots.platforms import law_scatter, platform_forces, platform_overlaps
from cdopt.plots.pressure import floor_pressure_grid
from cdopt.plots.spheres import sphere_maps

from .beam import STIFF_MIDDLE, Beam, beam
from .classic import Answer, answers, column
from .dem import Dem, dem
from .pile import Pile
from .settings import MATERIALS, Material

UNIT = "mg"
SPEED_TIMES = (0.0, 0.004, 0.008, 0.016)  # s
DEM_COLOUR = PALETTE["clarabel"].colour  # a blue that no other method here has
HOOKE, SPECIES, HERTZ = MATERIALS
TABLE_ORDER = (HOOKE, HERTZ, SPECIES)


@dataclass(frozen=True, eq=False)
class Drawn:
    """A figure and what it shows."""

    figure: Any
    caption: str


class Results:
    """All runs that figures and numbers are made of, each made when first asked for."""

    def __init__(self, pile: Pile) -> None:
        self.pile = pile
        self._dem: dict[str, Dem] = {}

    @cached_property
    def beams(self) -> tuple[Beam, Beam]:
        """The platform on supports of one stiffness, and with the middle one stiffer."""
        self.pile.store.tell("the platform on three supports")
        return beam(self.pile.settings, 1.0), beam(self.pile.settings, STIFF_MIDDLE)

    @cached_property
    def classic(self) -> list[Answer]:
        """All classic answers on the step at rest."""
        return answers(self.pile)

    def dem(self, material: Material) -> Dem:
        """The column of the discrete element method."""
        if material.name not in self._dem:
            self._dem[material.name] = dem(self.pile, material)
        return self._dem[material.name]

    def forces(self, material: Material, method: str) -> Forces:
        """Forces of "dem", "apgd", "pgs" or "compatible", named and coloured."""
        if method == "dem":
            return Forces("DEM", self.dem(material).f, DEM_COLOUR)
        if method == "compatible":
            return Forces("Compatible", self.pile.compatible(material), COMPATIBLE.colour)
        found = column(self.classic, method)
        return Forces(found.solver.upper(), found.f, PALETTE[method].colour)


def _one(results: Results) -> Drawn:
    even = results.beams[0]
    shown = dict(list(even.classic.items())[:3])
    text = (
        "Our figure for the indeterminacy of forces: a platform of 10 N at rest on three supports. "
        "All three carry the same load and leave it at rest; the order of Gauss–Seidel's visits "
        "alone sets the forces."
    )
    return Drawn(platform_forces(shown, title="One motion, many forces"), text)


def _two(results: Results) -> Drawn:
    shown = {}
    for found, name in zip(results.beams, ("equal supports", "middle 3 × as stiff"), strict=True):
        shown[name] = (found.overlap, found.f)
    text = (
        "Our figure for the compatibility conditions: one small motion u of the rigid platform "
        "overlaps its supports by c = −B u, and every force is k c."
    )
    figure = platform_overlaps(shown, title="Forces that fit one micro-displacement")
    return Drawn(figure, text)


def _three(results: Results) -> Drawn:
    pile = results.pile
    shown = {
        m.title: (pile.overlap(m), pile.reference(m) / pile.settled(m).stiffness, m.power)
        for m in MATERIALS
    }
    text = (
        "Our figure for the no-tension truss: every contact of the settled pile, its force over "
        "its stiffness against the overlap of the pile's one micro-displacement; contacts that "
        "come apart carry nothing."
    )
    return Drawn(law_scatter(shown, title="Compatibility in the pile"), text)


def _beam_figure(which: int) -> Callable[[Results], Drawn]:
    def draw(results: Results) -> Drawn:
        found = results.beams[which]
        shown = {**found.classic, "Compatible": found.f, "Elastic supports": found.elastic}
        stiff = which == 1
        supports = "the middle support three times as stiff" if stiff else "three equal supports"
        text = (
            f"Our figure for section 8.1: the beam at rest after its drop, {supports}, by every "
            "solver from zero; the last panel is the elastic solution."
        )
        return Drawn(platform_forces(shown, title=f"The beam at rest, {supports}"), text)

    return draw


def _six(results: Results) -> Drawn:
    pile = results.pile
    scene = pile.scene(HOOKE)
    heights = scene.initial.position[:, 2] * 1e3
    shown = [(f"{scene.nb:,} spheres", "before the drop", scene.initial.position, heights)]
    text = (
        f"The cannonball pyramid of {pile.settings.n} layers, {scene.nb:,} spheres, layers 5 % of "
        "a radius apart, its base fixed."
    )
    radius = np.full(scene.nb, 0.5 * 2.5e-3)
    return Drawn(sphere_maps(shown, radius, "height [mm]", title="The cannonball pyramid"), text)


def _seven(results: Results) -> Drawn:
    run = results.pile.drop(HOOKE)
    shown = []
    for t in SPEED_TIMES:
        frame = run[int(np.argmin(np.abs(run.t - t)))]
        speed = 1e3 * np.linalg.norm(frame.state.velocity, axis=1)
        note = f"fastest sphere {speed.max():.3g} mm/s"
        shown.append((f"t = {1e3 * frame.t:.0f} ms", note, frame.state.position, speed))
    radius = np.full(run.scene.nb, 0.5 * 2.5e-3)
    text = "Speeds of the spheres as the pile lands and comes to rest, compatible contact dynamics."
    return Drawn(sphere_maps(shown, radius, "speed [mm/s]", title="The pile lands"), text)


def _network(material: Material, method: str) -> Callable[[Results], Drawn]:
    def draw(results: Results) -> Drawn:
        shown = results.forces(material, method)
        top = _top(results, material)
        step = results.pile.settled(material)
        title = material.title.capitalize()
        figure = chains_and_histogram(step, shown, top, unit=UNIT, title=title)
        source = "last step of the drop"
        if method == "dem":
            source = results.dem(material).source
        elif method != "compatible":
            source = column(results.classic, method).words
        text = f"Force distribution (a) and nonzero forces (b), {material.title}: {shown.name} "
        return Drawn(figure, text + f"({source}). Scales as in the other figures of this pile.")

    return draw


def _side_by_side(material: Material) -> Callable[[Results], Drawn]:
    def draw(results: Results) -> Drawn:
        shown = [results.forces(material, method) for method in ("dem", "compatible")]
        text = f"Nonzero contact forces of DEM and compatible contact dynamics, {material.title}."
        return Drawn(histograms(shown, unit=UNIT, title=material.title.capitalize()), text)

    return draw


def _nineteen(results: Results) -> Drawn:
    methods = {
        name: [
            (m.title, results.pile.settled(m), results.forces(m, method).f) for m in TABLE_ORDER
        ]
        for method, name in (
            ("dem", "DEM"), ("apgd", "APGD"), ("pgs", "PGS"), ("compatible", "Compatible"),
        )
    }  # fmt: skip
    text = (
        "Downward force on every sphere of the base, one colour scale; classic forces are the same "
        "for all materials, whose stiffness they do not know."
    )
    figure = floor_pressure_grid(methods, unit=UNIT, length="d")
    return Drawn(figure, text)


def _top(results: Results, material: Material) -> float:
    """One scale for all figures of a material; the classic columns are drawn for Hooke alone."""
    methods = ("dem", "compatible") + (("apgd", "pgs") if material is HOOKE else ())
    return max(float(forces(results, material, method).max()) for method in methods)


def forces(results: Results, material: Material, method: str) -> FloatArray:
    """(nc,) m g of one method on the settled contacts."""
    return results.forces(material, method).f


FIGURES: dict[int, Callable[[Results], Drawn]] = {
    1: _one, 2: _two, 3: _three, 4: _beam_figure(0), 5: _beam_figure(1), 6: _six, 7: _seven,
    8: _network(HOOKE, "dem"), 9: _network(HOOKE, "apgd"), 10: _network(HOOKE, "pgs"),
    11: _network(HOOKE, "compatible"), 12: _side_by_side(HOOKE),
    13: _network(SPECIES, "dem"), 14: _network(SPECIES, "compatible"), 15: _side_by_side(SPECIES),
    16: _network(HERTZ, "dem"), 17: _network(HERTZ, "compatible"), 18: _side_by_side(HERTZ),
    19: _nineteen,
}  # fmt: skip
