"""Numbers of the experiments and their references, each from the runs of the figures."""

from __future__ import annotations

import numpy as np

from ..report import Arrays, Number
from . import parameters as given
from .figures import drawn_step
from .parameters import COARSE, FINE, PAPER
from .references import HeadOn, stored
from .runs import EXACT, FIRST, PEER, SECOND, Runs

WAYS = {SECOND: "variational, α = 1/2", FIRST: "variational, α = 0", PEER: "velocity-Verlet"}
BOX_TIMES = (0.5, 1.0, 2.0, 4.0, 8.0)  # √(d/g)
SETTLED = (1e-2, 1e-3)  # m g d: when K̄ falls below for good


def numbers(runs: Runs) -> list[Number]:
    """Every row, in the order of the page."""
    parts = (_small, _large, _analytic, _walls, _bonded, _box)
    return [row for part in parts for row in part(runs)]


def _small(runs: Runs) -> list[Number]:
    rows = []
    for gamma, offset in given.SMALL_STEPS:
        exact = runs.impact(EXACT, gamma, offset, FINE)
        for way, name in WAYS.items():
            ours = runs.impact(way, gamma, offset, FINE)
            what = f"γ = {gamma:g}, Δy/d = {offset:g}, {name}"
            worst = _worst(ours["t"], ours["linear"], exact["t"], exact["linear"])
            note = f"largest difference of K_L over the collision {worst:.1e} K_L(0)"
            pair = float(exact["restitution"]), float(ours["restitution"])
            group = f"Figure 6: restitution at {drawn_step(FINE)}"
            rows.append(Number(group, what, *pair, note=note))
            if offset > 0.0 and gamma > 0.0:
                last = float(exact["rotational"][-1]), float(ours["rotational"][-1])
                words = f"rotation after impact, K_R/K_L(0), {what}"
                rows.append(Number("Figure 6: rotation", words, *last))
    return rows


def _large(runs: Runs) -> list[Number]:
    gamma, offset = given.LARGE_STEPS
    exact = float(runs.impact(EXACT, gamma, offset, FINE)["restitution"])
    group = f"Figure 7: restitution, γ = {gamma:g}, Δy/d = {offset:g}"
    rows = []
    for dt in COARSE:
        for way, name in WAYS.items():
            ours = float(runs.impact(way, gamma, offset, dt)["restitution"])
            rows.append(Number(group, f"{drawn_step(dt)}, {name}", exact, ours))
    return rows


def _analytic(runs: Runs) -> list[Number]:
    rows = []
    for gamma in given.ANALYTIC:
        theory = HeadOn(PAPER.mass, PAPER.stiffness, gamma)
        ours = runs.impact(SECOND, gamma, 0.0, FINE)
        off = np.abs(ours["linear"] - theory.kinetic_share(ours["t"] * PAPER.contact_time)).max()
        note = f"largest error of K_L {off:.1e} K_L(0), {drawn_step(FINE)}"
        pair = theory.restitution, float(ours["restitution"])
        group = "Figure 8: head-on, against the closed form"
        rows.append(Number(group, f"restitution, γ = {gamma:g}", *pair, note=note))
    return rows


def _walls(runs: Runs) -> list[Number]:
    rows = []
    for dt in given.WALL_STEPS:
        known = runs.walls(PEER, dt)["flights"]
        ours = runs.walls(SECOND, dt)["flights"]
        group = f"Figure 9: E/E₀ − 1 in free flight, {drawn_step(dt)}; reference: velocity-Verlet"
        count = min(known.size, ours.size)
        for name, pick in (("largest", np.max), ("smallest", np.min)):
            pair = float(pick(known)), float(pick(ours))
            rows.append(Number(group, f"{name} over {count - 1} collisions", *pair))
        rows.append(Number(group, "after the last", float(known[-1]), float(ours[-1])))
    return rows


def _bonded(runs: Runs) -> list[Number]:
    rows = []
    for ratio in given.BOND_STIFFNESS:
        for offset in given.BOND_OFFSETS:
            exact = runs.bonded(EXACT, ratio, offset, FINE)
            ours = runs.bonded(SECOND, ratio, offset, FINE)
            group = f"Figure 10(c): largest forces over k d, {drawn_step(FINE)}"
            where = f"k_B/k = {ratio:g}, Δy/d = {offset:g}"
            for name in ("contact", "bond"):
                off = np.abs(ours[name] - exact[name]).max()
                note = f"largest difference at one time {off:.1e}"
                pair = float(exact[name].max()), float(ours[name].max())
                rows.append(Number(group, f"{name}, {where}", *pair, note=note))
            pull = float(exact["bond"].min()), float(ours["bond"].min())
            rows.append(Number(group, f"bond in tension, {where}", *pull))
    return rows


def _box(runs: Runs) -> list[Number]:
    known, ours = runs.box(PEER), runs.box(SECOND)
    band = stored("box")["band_visc"]
    group = f"Figure 11: filling a box, h = t_c/{runs.settings.box_step}; reference: LAMMPS"
    rows = []
    for t in BOX_TIMES:
        if t > runs.settings.box_time:
            continue
        for name, words, column in (("K", "K̄ / m g d", 1), ("dv", "δv / g d", 3)):
            mean, spread = (float(np.interp(t, band[:, 0], band[:, column + k])) for k in (0, 1))
            note = f"12 runs: {mean:.4g} ± {spread:.2g}"
            pair = at(known, name, t), at(ours, name, t)
            rows.append(Number(group, f"{words} at t = {t:g} √(d/g)", *pair, note=note))
    for level in SETTLED:
        times = settled(known, level), settled(ours, level)
        if max(times) < runs.settings.box_time:
            rows.append(Number(group, f"K̄ below {level:g} m g d for good, t √(g/d)", *times))
    last = float(known["com"][-1]), float(ours["com"][-1])
    rows.append(Number(group, "height of the centre of mass at last, d", *last))
    return rows


def at(series: Arrays, name: str, t: float) -> float:
    """A column at a time, by interpolation."""
    return float(np.interp(t, series["t"], series[name]))


def settled(series: Arrays, level: float) -> float:
    """When K̄ falls below a level for good; the end if it does not."""
    above = np.flatnonzero(series["K"] > level)
    last = int(above[-1]) + 1 if above.size else 0
    return float(series["t"][min(last, series["t"].size - 1)])


def _worst(t: np.ndarray, y: np.ndarray, known_t: np.ndarray, known: np.ndarray) -> float:
    """Largest difference of two curves where both have times, m g d or shares."""
    inside = (t >= known_t[0]) & (t <= known_t[-1])
    return float(np.abs(y[inside] - np.interp(t[inside], known_t, known)).max())
