"""Figures 4 and 6 to 11 of De Klerk et al. (2021), each with a line of what it shows.

The paper's figures 1 to 3 and 5 are drawings; ours show the same quantities in panels of their
own and do not copy a layout.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from cdopt.plots.palette import BAND, INK

from ..olsen_kamrin.figures import Drawn
from . import parameters as given
from .analytic import HeadOn
from .curves import Band, Curve, Panel, curve_panels
from .parameters import COARSE, FINE, PAPER
from .references import stored
from .runs import EXACT, FIRST, PEER, SECOND, Runs, Way

BLUE, SKY, RED, GREEN = "#0072B2", "#56B4E9", "#D55E00", "#009E73"
LOOKS = {  # name, colour, dash
    EXACT: ("reference (DOP853)", INK, "solid"),
    PEER: ("velocity-Verlet (LAMMPS)", RED, "dashed"),
    FIRST: ("variational, α = 0", SKY, "dash-dot"),
    SECOND: ("variational, α = 1/2", BLUE, "dotted"),
}
TIME = "$t / t_c$ from first touch"
LINEAR, ROTATIONAL = "$K_L(t)\\,/\\,K_L(0)$", "$K_R(t)\\,/\\,K_L(0)$"
Case = tuple[float, float, float]  # γ, Δy/d, time step
_FLOOR = 1e-16  # errors below are round-off, and drawn there


def drawn_step(dt: float, unit: str = "t_c") -> str:
    """A time step in words, h = t_c/…"""
    return f"h = {unit}/{PAPER.contact_time / dt:.3g}"


def _step(dt: float) -> str:
    """The same for a picture."""
    return drawn_step(dt, "$t_c$")


def _impacts(runs: Runs, cases: Sequence[Case], quantity: str, until: float) -> list[Panel]:
    """A panel for each case: energy of translation or rotation by every way."""
    shown = []
    for gamma, offset, dt in cases:
        curves = []
        for way, (name, colour, dash) in LOOKS.items():
            found = runs.impact(way, gamma, offset, FINE if way == EXACT else dt)
            near = (found["t"] >= -1.1 * dt / PAPER.contact_time) & (found["t"] <= until)
            coarse = dt in COARSE and way != EXACT
            curves.append(
                Curve(name, found["t"][near], found[quantity][near], colour, dash, coarse)
            )
        flat = max(float(curve.y.max()) for curve in curves) == 0.0
        label = {"linear": LINEAR, "rotational": ROTATIONAL}[quantity]
        words = f"Δy/d = {offset:g}, {_step(dt)}"
        limits = (-0.05, 1.0) if flat else None
        shown.append(Panel(f"γ = {gamma:g}", words, curves, TIME, label, limits=limits))
    return shown


def _errors(runs: Runs, cases: Sequence[Case], until: float) -> list[Panel]:
    """A panel for each case: what energies of translation differ by from the reference."""
    shown = []
    for gamma, offset, dt in cases:
        exact = runs.impact(EXACT, gamma, offset, dt)
        near = (exact["t"] >= 0.0) & (exact["t"] <= until)
        curves = []
        for way, (name, colour, dash) in LOOKS.items():
            if way != EXACT:
                off = np.abs(runs.impact(way, gamma, offset, dt)["linear"] - exact["linear"])
                curves.append(
                    Curve(name, exact["t"][near], np.maximum(off[near], _FLOOR), colour, dash)
                )
        shown.append(Panel(f"γ = {gamma:g}", "error of translation", curves, TIME,
                           "|difference| / $K_L(0)$", log=True, limits=(1e-8, 1e-2)))  # fmt: skip
    return shown


def _four(runs: Runs) -> Drawn:
    cases = [(gamma, offset, FINE) for gamma, offset in given.SMALL_STEPS]
    shown = [
        *_impacts(runs, cases, "linear", 1.4), *_impacts(runs, cases, "rotational", 1.4),
        *_errors(runs, cases, 1.4),
    ]  # fmt: skip
    figure = curve_panels(shown, tall=1.9, title="Two spheres collide, small steps")
    text = (
        "Kinetic energy of translation and of rotation of one of two spheres that collide, small "
        "time steps, and what the first differs by from the reference. Δy is counted from centre "
        "to centre."
    )
    return Drawn(figure, text)


def _six(runs: Runs) -> Drawn:
    cases = [(*given.LARGE_STEPS, dt) for dt in COARSE]
    shown = [*_impacts(runs, cases, "linear", 2.5), *_impacts(runs, cases, "rotational", 2.5)]
    figure = curve_panels(shown, title="Two spheres collide, large steps")
    text = (
        "As figure 4 with large time steps, every step marked; first touch falls in the middle of "
        "a step, for all methods."
    )
    return Drawn(figure, text)


def _seven(runs: Runs) -> Drawn:
    energies, errors = [], []
    for gamma, colour in zip(given.ANALYTIC, (BLUE, GREEN, RED), strict=True):
        theory = HeadOn(PAPER.mass, PAPER.stiffness, gamma)
        found = runs.impact(SECOND, gamma, 0.0, FINE)
        t = found["t"]
        exact = theory.kinetic_share(t * PAPER.contact_time)
        name = f"variational, α = 1/2, γ = {gamma:g}"
        energies += [Curve(name, t, found["linear"], colour),
                     Curve("closed form", t, exact, INK, "dotted")]  # fmt: skip
        errors.append(Curve(name, t, np.maximum(np.abs(found["linear"] - exact), _FLOOR), colour))
    shown = [
        Panel("Kinetic energy", f"Δy = 0, {_step(FINE)}", energies, TIME, LINEAR),
        Panel("Error", "against the closed form", errors, TIME, "|difference|", log=True,
              limits=(1e-9, 1e-1)),
    ]  # fmt: skip
    figure = curve_panels(shown, columns=2, tall=2.8, title="Head-on collision and closed form")
    text = (
        "Kinetic energy of one of two spheres that collide head-on, beside the closed form (32)–"
        "(34) with t counted from first touch, and the difference."
    )
    return Drawn(figure, text)


def _eight(runs: Runs) -> Drawn:
    looks = {PEER: ("velocity-Verlet (LAMMPS)", RED), SECOND: ("variational, α = 1/2", BLUE)}
    shown = []
    for dt in given.WALL_STEPS:
        between, last = [], []
        for way, (name, colour) in looks.items():
            found = runs.walls(way, dt)
            count = np.arange(found["flights"].size, dtype=np.float64)
            between.append(Curve(name, count, found["flights"], colour))
            last.append(Curve(name, found["t"], found["energy"], colour))
        energy = "$E/E_0 - 1$"
        shown += [Panel("Between collisions", f"in free flight, {_step(dt)}", between,
                        "number of the collision", energy),
                  Panel("The last collisions", _step(dt), last, "$t / t_c$", energy)]  # fmt: skip
    figure = curve_panels(shown, columns=2, title="A sphere between two walls, undamped")
    text = (
        f"Total energy of a sphere between walls {given.WALL_DISTANCE:g} d apart over "
        f"{runs.settings.collisions} collisions: in free flight, and in full over the last ones. "
        "t_c is that of two spheres; a contact with a wall lasts √2 longer."
    )
    return Drawn(figure, text)


def _nine(runs: Runs) -> Drawn:
    ways: tuple[tuple[Way, float, str, str], ...] = (
        (EXACT, FINE, "reference", "solid"), (SECOND, FINE, _step(FINE), "dashed"),
        (SECOND, COARSE[0], _step(COARSE[0]), "dotted"),
    )  # fmt: skip
    shown = []
    for ratio in given.BOND_STIFFNESS:
        for offset in given.BOND_OFFSETS:
            curves = []
            for way, dt, words, dash in ways:
                found = runs.bonded(way, ratio, offset, dt)
                for force, name, colour in (("contact", "contact", RED), ("bond", "bond", BLUE)):
                    curves.append(Curve(f"{name}, {words}", found["t"], found[force], colour, dash))
            where = "collinear" if offset == 0.0 else f"Δy/d = {offset:g}"
            shown.append(Panel(f"$k_B/k$ = {ratio:g}", where, curves, TIME, "force / $k d$"))
    figure = curve_panels(shown, columns=2, tall=2.4, title="A bonded pair hit by a third sphere")
    text = (
        "Force of the contact that hits a bonded pair and of its bond, compression positive, by "
        "the variational integrator with α = 1/2 at two time steps and by the reference."
    )
    return Drawn(figure, text)


def _box(quantity: str, column: int, label: str, title: str) -> Callable[[Runs], Drawn]:
    def draw(runs: Runs) -> Drawn:
        known = stored("box")["band_visc"]
        known = known[known[:, 0] <= runs.settings.box_time]
        mean, spread = known[:, column], known[:, column + 1]
        wide = 1.0 + 2.0 * spread / mean
        name = "12 LAMMPS runs from starts 10⁻⁹ apart, mean times or over 1 + 2 σ/mean"
        band = Band(name, known[:, 0], mean / wide, mean * wide, BAND)
        curves = []
        for way in (PEER, SECOND):
            found = runs.box(way)
            name, colour, _ = LOOKS[way]
            curves.append(Curve(name, found["t"], found[quantity], colour))
        words = f"h = $t_c$/{runs.settings.box_step}"
        time = "$t \\sqrt{g/d}$"
        top = 1.05 * max(float(curve.y.max()) for curve in curves)
        low = 0.3 * min(float(curve.y[curve.y > 0.0].min()) for curve in curves)
        shown = [
            Panel("Linear", words, curves, time, label, bands=[band], limits=(0.0, top)),
            Panel("Logarithmic", words, curves, time, label, bands=[band], log=True,
                  limits=(low, 2.0 * top)),
        ]  # fmt: skip
        figure = curve_panels(shown, columns=2, tall=2.8, title=title)
        text = (
            f"{title}: 218 spheres, γ_n = 30 √(g/d). The motion is chaotic: runs compare with the "
            "band, made at t_c/32, not with each other."
        )
        return Drawn(figure, text)

    return draw


FIGURES: dict[int, Callable[[Runs], Drawn]] = {
    4: _four, 6: _six, 7: _seven, 8: _eight, 9: _nine,
    10: _box("K", 1, "$\\bar{K} / m g d$", "Filling a box: mean kinetic energy (35)"),
    11: _box("dv", 3, "$\\delta v / g d$", "Filling a box: velocity fluctuation (36)"),
}  # fmt: skip
