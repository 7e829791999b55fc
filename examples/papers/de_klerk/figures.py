"""Figures 2 and 4 to 11 of De Klerk et al. (2021), each with a caption.

Figures have the paper's numbers and show what its figures show; layouts are ours. Its figures 1 and
3 are schemes of methods, without anything to compute.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

import numpy as np
from matplotlib.figure import Figure

from cdopt.plots.palette import BAND, INK
from cdopt.problem.contact_law import HOOKE, PowerLaw

from . import parameters as given
from . import scenes
from .curves import Band, Curve, Panel, curve_panels
from .parameters import COARSE, FINE, PAPER
from .pictures import configuration_panels, path_panels, scene_states
from .references import HeadOn, stored
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
Drawn = tuple[Figure, str]  # and its caption
ROUND_OFF = 1e-16  # errors below are round-off, and drawn there


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
            series = runs.impact(way, gamma, offset, FINE if way == EXACT else dt)
            near = (series["t"] >= -1.1 * dt / PAPER.contact_time) & (series["t"] <= until)
            coarse = dt in COARSE and way != EXACT
            curves.append(
                Curve(name, series["t"][near], series[quantity][near], colour, dash, coarse)
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
                    Curve(name, exact["t"][near], np.maximum(off[near], ROUND_OFF), colour, dash)
                )
        shown.append(Panel(f"γ = {gamma:g}", "error of translation", curves, TIME,
                           "|difference| / $K_L(0)$", log=True, limits=(1e-8, 1e-2)))  # fmt: skip
    return shown


def silo(runs: Runs) -> Drawn:
    """Figure 2."""
    frames = runs.silo()
    count = int(np.count_nonzero(~frames[0][0].bodies.fixed))
    return scene_states(frames, "A silo drains"), (
        f"A plane silo of {count} discs that drains, without friction, by "
        "classic contact dynamics; lengths in d, times in √(d/g)."
    )


def potential(runs: Runs) -> Drawn:
    """Figure 4."""
    delta = np.linspace(-0.1, 0.1, 201)
    law = PowerLaw(np.full(1, PAPER.stiffness), HOOKE)
    energy, force = law.energy(delta), law.force(delta)
    bond = 0.5 * delta**2
    label = "overlap $\\delta / d$"
    shown = [
        Panel("Potential", "of a contact and of a bond", [
            Curve("contact", delta, energy / PAPER.stiffness, BLUE),
            Curve("bond", delta, bond, RED, "dashed"),
        ], label, "$U / k d^2$"),
        Panel("Force", "its derivative", [
            Curve("contact", delta, force / PAPER.stiffness, BLUE),
            Curve("bond", delta, delta, RED, "dashed"),
        ], label, "$F / k d$"),
    ]  # fmt: skip
    return curve_panels(shown, columns=2, title="Hooke's potential"), (
        "Hooke's potential and force over the overlap: of a contact, which only pushes, and of a "
        "bond, which keeps a two-sided spring."
    )


def configurations(runs: Runs) -> Drawn:
    """Figure 5."""
    touch = 0.25 * PAPER.diameter
    drawn = [
        ("Impact", "section 3.1, Δy/d = 0.3", scenes.impact(0.0, 0.3, touch)),
        ("Between walls", "section 3.2, 1.01 d apart", scenes.walls()),
        ("Bonded pair", "section 3.3, Δy/d = 0.1", scenes.bonded(10.0, 0.1, touch)),
    ]
    return configuration_panels(drawn, "Configurations at the start"), (
        "Configurations at the start, with velocities: two spheres that collide, a sphere between "
        "two walls, and a bonded pair (joined by a line) that a third sphere hits."
    )


def bonded_paths(runs: Runs) -> Drawn:
    """Figure 10 (a, b)."""
    ratio = given.BOND_STIFFNESS[0]
    drawn = [
        ("collinear" if offset == 0.0 else f"Δy/d = {offset:g}", runs.bonded_paths(ratio, offset))
        for offset in given.BOND_OFFSETS
    ]
    return path_panels(drawn, "A bonded pair before and after"), (
        "Spheres of a bonded pair (joined by a line) and the third before (pale) and after, and "
        f"the paths of their centres, k_B/k = {ratio:g}, by the variational integrator with "
        f"α = 1/2, {drawn_step(FINE)}."
    )


def small_steps(runs: Runs) -> Drawn:
    """Figure 6."""
    cases = [(gamma, offset, FINE) for gamma, offset in given.SMALL_STEPS]
    shown = [
        *_impacts(runs, cases, "linear", 1.4), *_impacts(runs, cases, "rotational", 1.4),
        *_errors(runs, cases, 1.4),
    ]  # fmt: skip
    figure = curve_panels(shown, tall=1.9, title="Two spheres collide, small steps")
    return figure, (
        "Kinetic energy of translation and of rotation of one of two spheres that collide, small "
        "time steps, and what the first differs by from the reference. Δy is counted from centre "
        "to centre."
    )


def large_steps(runs: Runs) -> Drawn:
    """Figure 7."""
    cases = [(*given.LARGE_STEPS, dt) for dt in COARSE]
    shown = [*_impacts(runs, cases, "linear", 2.5), *_impacts(runs, cases, "rotational", 2.5)]
    figure = curve_panels(shown, title="Two spheres collide, large steps")
    return figure, (
        "As figure 6 with large time steps, every step marked; first touch falls in the middle of "
        "a step, for all methods."
    )


def head_on(runs: Runs) -> Drawn:
    """Figure 8."""
    energies, errors = [], []
    for gamma, colour in zip(given.ANALYTIC, (BLUE, GREEN, RED), strict=True):
        theory = HeadOn(PAPER.mass, PAPER.stiffness, gamma)
        series = runs.impact(SECOND, gamma, 0.0, FINE)
        t = series["t"]
        exact = theory.kinetic_share(t * PAPER.contact_time)
        name = f"variational, α = 1/2, γ = {gamma:g}"
        energies += [Curve(name, t, series["linear"], colour),
                     Curve("closed form", t, exact, INK, "dotted")]  # fmt: skip
        errors.append(
            Curve(name, t, np.maximum(np.abs(series["linear"] - exact), ROUND_OFF), colour)
        )
    shown = [
        Panel("Kinetic energy", f"Δy = 0, {_step(FINE)}", energies, TIME, LINEAR),
        Panel("Error", "against the closed form", errors, TIME, "|difference|", log=True,
              limits=(1e-9, 1e-1)),
    ]  # fmt: skip
    figure = curve_panels(shown, columns=2, tall=2.8, title="Head-on collision and closed form")
    return figure, (
        "Kinetic energy of one of two spheres that collide head-on, and the closed form (32)–"
        "(34) with t counted from first touch, and the difference."
    )


def between_walls(runs: Runs) -> Drawn:
    """Figure 9."""
    looks = {PEER: ("velocity-Verlet (LAMMPS)", RED), SECOND: ("variational, α = 1/2", BLUE)}
    shown = []
    for dt in given.WALL_STEPS:
        between, last = [], []
        for way, (name, colour) in looks.items():
            series = runs.walls(way, dt)
            count = np.arange(series["flights"].size, dtype=np.float64)
            between.append(Curve(name, count, series["flights"], colour))
            last.append(Curve(name, series["t"], series["energy"], colour))
        energy = "$E/E_0 - 1$"
        shown += [Panel("Between collisions", f"in free flight, {_step(dt)}", between,
                        "number of the collision", energy),
                  Panel("The last collisions", _step(dt), last, "$t / t_c$", energy)]  # fmt: skip
    figure = curve_panels(shown, columns=2, title="A sphere between two walls, undamped")
    return figure, (
        f"Total energy of a sphere between walls {given.WALL_DISTANCE:g} d apart over "
        f"{runs.settings.collisions} collisions: in free flight, and in full over the last ones. "
        "t_c is that of two spheres; a contact with a wall lasts √2 longer."
    )


def bonded_pair(runs: Runs) -> Drawn:
    """Figure 10(c)."""
    ways: tuple[tuple[Way, float, str, str], ...] = (
        (EXACT, FINE, "reference", "solid"), (SECOND, FINE, _step(FINE), "dashed"),
        (SECOND, COARSE[0], _step(COARSE[0]), "dotted"),
    )  # fmt: skip
    shown = []
    for ratio in given.BOND_STIFFNESS:
        for offset in given.BOND_OFFSETS:
            curves = []
            for way, dt, words, dash in ways:
                series = runs.bonded(way, ratio, offset, dt)
                for force, name, colour in (("contact", "contact", RED), ("bond", "bond", BLUE)):
                    curves.append(
                        Curve(f"{name}, {words}", series["t"], series[force], colour, dash)
                    )
            where = "collinear" if offset == 0.0 else f"Δy/d = {offset:g}"
            shown.append(Panel(f"$k_B/k$ = {ratio:g}", where, curves, TIME, "force / $k d$"))
    figure = curve_panels(shown, columns=2, tall=2.4, title="A bonded pair hit by a third sphere")
    return figure, (
        "Force of the contact that hits a bonded pair and of its bond, compression positive, by "
        "the variational integrator with α = 1/2 at two time steps and by the reference."
    )


def box(runs: Runs, quantity: str, column: int, label: str, title: str) -> Drawn:
    """Figures 11(a) and 11(b)."""
    band = stored("box")["band_visc"]
    band = band[band[:, 0] <= runs.settings.box_time]
    mean, wide = band[:, column], 1.0 + 2.0 * band[:, column + 1] / band[:, column]
    name = "12 LAMMPS runs from starts 10⁻⁹ apart, mean times or over 1 + 2 σ/mean"
    bands = [Band(name, band[:, 0], mean / wide, mean * wide, BAND)]
    curves = []
    for way in (PEER, SECOND):
        series, (name, colour, _) = runs.box(way), LOOKS[way]
        curves.append(Curve(name, series["t"], series[quantity], colour))
    step, time = f"h = $t_c$/{runs.settings.box_step}", "$t \\sqrt{g/d}$"
    top = max(float(curve.y.max()) for curve in curves)
    low = min(float(curve.y[curve.y > 0.0].min()) for curve in curves)
    shown = [
        Panel("Linear", step, curves, time, label, bands, limits=(0.0, 1.05 * top)),
        Panel("Logarithmic", step, curves, time, label, bands, True, (0.3 * low, 2.1 * top)),
    ]
    return curve_panels(shown, columns=2, tall=2.8, title=title), (
        f"{title}: 218 spheres, γ_n = 30 √(g/d). The motion is chaotic: runs compare with the "
        "band, made at t_c/32, not with each other."
    )


FIGURES: dict[str, Callable[[Runs], Drawn]] = {
    "2": silo,
    "4": potential,
    "5": configurations,
    "6": small_steps,
    "7": large_steps,
    "8": head_on,
    "9": between_walls,
    "10(ab)": bonded_paths,
    "10(c)": bonded_pair,
    "11(a)": partial(
        box,
        quantity="K",
        column=1,
        label="$\\bar{K} / m g d$",
        title="Filling a box: mean kinetic energy (35)",
    ),
    "11(b)": partial(
        box,
        quantity="dv",
        column=3,
        label="$\\delta v / g d$",
        title="Filling a box: velocity fluctuation (36)",
    ),
}
