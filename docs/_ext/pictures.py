"""The pictures of the concepts page. What they show is computed by cdopt where it can be."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
from matplotlib.figure import Figure
from matplotlib.patches import Circle, FancyArrowPatch, Polygon

import cdopt
from cdopt.plots import palette
from cdopt.problem.contact_law import HERTZ, HOOKE, PowerLaw

BLUE = palette.PALETTE["clarabel"].colour
RED = palette.PALETTE["osqp"].colour
GREEN = palette.PALETTE["scs"].colour
LOOK = {
    "svg.hashsalt": "cdopt", "font.size": 9, "axes.titlesize": 9.5, "axes.spines.top": False,
    "axes.spines.right": False, "text.color": palette.INK, "axes.labelcolor": palette.INK,
}  # fmt: skip


def write(folder: Path) -> None:
    """Draw every picture into a folder, as SVG."""
    folder.mkdir(parents=True, exist_ok=True)
    with matplotlib.rc_context(LOOK):
        for draw in (network, gap, duality, bracing, unique, rigid_limit, laws, integrator):
            draw().savefig(
                folder / f"{draw.__name__}.svg", bbox_inches="tight", metadata={"Date": None}
            )


def _figure(width: float = 7.0, height: float = 2.7) -> Figure:
    return Figure(figsize=(width, height), layout="constrained", facecolor="white")


def _drawing(axes: Any, title: str = "") -> None:
    axes.set_aspect("equal")
    axes.axis("off")
    axes.set_title(title)


def _arrow(axes: Any, start: Any, end: Any, colour: str = BLUE, width: float = 1.8) -> None:
    axes.add_patch(FancyArrowPatch(
        start, end, arrowstyle="-|>", mutation_scale=11, color=colour, linewidth=width,
        shrinkA=0, shrinkB=0, zorder=5,
    ))  # fmt: skip


def _pile() -> tuple[Any, Any, Any]:
    """A small crystal of discs at rest: its scene, its step, and the compatible forces."""
    scene = cdopt.scene.crystal(4, 3)
    contacts = cdopt.collision.detect(scene, scene.initial)
    step = cdopt.collision.step(scene, scene.initial, contacts, dt=1e-3)
    return scene, step, cdopt.CompatibleCD(step).solve("newton").f


def network() -> Figure:
    """Bodies and contacts; the same as a graph; the forces it carries."""
    scene, step, forces = _pile()
    centre, radius = scene.initial.position, scene.bodies.reach
    figure = _figure(7.0, 2.3)
    balls, graph, chains = figure.subplots(1, 3)
    for axes, title in ((balls, "bodies"), (graph, "contact network"), (chains, "forces f")):
        _drawing(axes, title)
        for x, r in zip(centre, radius, strict=True):
            if np.isfinite(r):
                shade = palette.BODY if axes is balls else "none"
                axes.add_patch(Circle(x, r, facecolor=shade, edgecolor=palette.RULE))
    for k, (point, normal) in enumerate(zip(step.points, step.normals, strict=True)):
        reach = 0.7 * float(radius[np.isfinite(radius)].max())
        line = np.array([point - reach * normal, point + reach * normal])
        balls.plot(*point, ".", color=RED, markersize=4)
        graph.plot(*line.T, color=palette.QUIET, linewidth=1)
        width = 5.0 * forces[k] / forces.max()
        chains.plot(*line.T, color=BLUE, linewidth=width, solid_capstyle="round")
    for axes in (balls, graph, chains):
        axes.autoscale_view()
    return figure


def gap() -> Figure:
    """The gap between two bodies, and what its gradient says."""
    figure = _figure(7.0, 2.4)
    left, right = figure.subplots(1, 2)
    for axes in (left, right):
        axes.add_patch(Circle((-1.25, 0), 1, facecolor=palette.BODY, edgecolor=palette.EDGE))
        axes.add_patch(Circle((1.25, 0), 1, facecolor=palette.BODY, edgecolor=palette.EDGE))
        axes.text(-1.45, 0, "i", ha="center", va="center", style="italic")
        axes.text(1.45, 0, "j", ha="center", va="center", style="italic")
        axes.set(xlim=(-2.9, 2.9), ylim=(-1.25, 1.25))
    _drawing(left, "B v is how fast the gap Φ opens")
    left.plot([-0.25, 0.25], [0, 0], color=RED, linewidth=2)
    left.text(0, 0.12, "Φ", color=RED, ha="center")
    _arrow(left, (1.25, 0.45), (2.1, 0.45))
    left.text(2.15, 0.4, "v", color=BLUE)
    _drawing(right, "Bᵀ f is what f does to the bodies")
    _arrow(right, (-0.25, 0), (-0.95, 0), RED)
    _arrow(right, (0.25, 0), (0.95, 0), RED)
    right.text(-0.62, 0.1, "f", color=RED, ha="center")
    right.text(0.62, 0.1, "f", color=RED, ha="center")
    return figure


def duality() -> Figure:
    """One ball on a floor: the same answer from its motion and from its force."""
    mass, dt, weight = 1.0, 0.1, 9.81
    free = -weight * dt / mass
    step = cdopt.ContactStep([[mass]], [[1.0]], [0.0], [0.0], [-weight], dt)
    answer = cdopt.ClassicCD(step).solve("newton")
    figure = _figure()
    motion, force = figure.subplots(1, 2)
    v = np.linspace(-1.8, 1.0, 200)
    motion.plot(v, 0.5 * mass * (v - free) ** 2, color=BLUE)
    motion.axvspan(-1.8, 0.0, color=palette.RULE, alpha=0.5, linewidth=0)
    motion.plot(answer.v_next, 0.5 * mass * (answer.v_next - free) ** 2, "o", color=RED)
    motion.set(xlabel="v⁺ [m/s]", ylabel="½ M (v⁺ − v*)²  [J]",
               title="over motions: the floor forbids the grey")  # fmt: skip
    f = np.linspace(0.0, 20.0, 200)
    value = -dt * (0.5 * step.N[0, 0] * f**2 + step.p_vec[0] * f)
    force.plot(f, value, color=BLUE)
    best = -dt * (0.5 * step.N[0, 0] * answer.f**2 + step.p_vec[0] * answer.f)
    force.plot(answer.f, best, "o", color=RED)
    force.set(xlabel="f [N]", ylabel="−Δt (½ N f² + p f)  [J]",
              title="over forces: its top is the other's lowest point")  # fmt: skip
    for axes in (motion, force):
        axes.set_ylim(-0.1, 1.4)
        axes.axhline(best[0], color=palette.QUIET, linewidth=0.7, linestyle=":")
    return figure


def _beam(axes: Any, places: Any, forces: Any, words: Any = None, low: float = -0.85) -> None:
    axes.add_patch(Polygon([(-0.6, 0), (0.6, 0), (0.6, 0.07), (-0.6, 0.07)], facecolor=palette.INK))
    _arrow(axes, (0.0, 0.42), (0.0, 0.1), palette.QUIET)
    for k, (x, f) in enumerate(zip(places, forces, strict=True)):
        axes.add_patch(Polygon([(x, 0), (x - 0.06, -0.1), (x + 0.06, -0.1)],
                               facecolor=palette.FIXED, edgecolor=palette.QUIET))  # fmt: skip
        if f is not None and f > 1e-6:
            _arrow(axes, (x, -0.13 - 0.05 * f), (x, -0.12))
        text = words[k] if words else f"{f:.3g} N"
        axes.text(x, -0.18 - 0.05 * (f or 0.0), text, ha="center", va="top", fontsize=8)
    axes.set(xlim=(-0.75, 0.75), ylim=(low, 0.5))


def bracing() -> Figure:
    """Two supports: forces determined. Three: each anywhere in its interval."""
    figure = _figure(7.0, 1.9)
    for axes, places in zip(figure.subplots(1, 2), ([-0.5, 0.5], [-0.5, 0.0, 0.5]), strict=True):
        step = cdopt.bank.generators.beam_on(places)
        report = cdopt.indeterminacy(step)
        middle = 0.5 * (report.lower + report.upper)
        words = [
            f"{low:.3g} N" if high - low < 1e-9 else f"{low:.3g} to {high:.3g} N"
            for low, high in zip(report.lower, report.upper, strict=True)
        ]
        _drawing(axes, f"{report.nc} forces − {report.rank} equations = {report.nullity} free")
        _beam(axes, places, middle, words, -0.55)
    return figure


def unique() -> Figure:
    """Three certified answers: the motion and Bᵀf are the same, f is not."""
    places = [-0.5, 0.0, 0.5]
    step = cdopt.bank.generators.beam_on(places)
    classic = cdopt.ClassicCD(step)
    figure = _figure(7.0, 2.4)
    answers = {
        "pgs, in order": classic.solve("pgs"),
        "pgs, middle first": classic.solve("pgs", order=(1, 0, 2)),
        "compatible": cdopt.CompatibleCD(step).solve("newton"),
    }
    for axes, (name, answer) in zip(figure.subplots(1, 3), answers.items(), strict=True):
        total = step.B.T @ answer.f
        _drawing(axes, f"{name}\nBᵀf = ({total[0]:.3g} N, {abs(total[1]):.1f} N m)")
        _beam(axes, places, answer.f)
    return figure


def rigid_limit() -> Figure:
    """Stiffer and stiffer contacts: forces settle, their distance from the limit falls."""
    step = cdopt.bank.load("beam-stiff-middle").step
    limit = cdopt.CompatibleCD(step).solve("newton").f
    kappas = np.logspace(3, 9, 13)
    runs = [cdopt.CompliantCD(step, kappa=kappa).solve("newton") for kappa in kappas]
    figure = _figure()
    forces, distance = figure.subplots(1, 2)
    for i, colour, style in ((0, BLUE, "o-"), (1, RED, "s-"), (2, GREEN, "x--")):
        forces.semilogx(kappas, [run.f[i] for run in runs], style, color=colour, markersize=4,
                        label=("left", "middle, three times as stiff", "right")[i])  # fmt: skip
    forces.set(xlabel="stiffness κ [N/m]", ylabel="force [N]", title="forces tend to a limit")
    figure.legend(loc="outside lower left", frameon=False, ncols=3)
    away = [float(np.abs(run.f - limit).max()) for run in runs]
    distance.loglog(kappas, away, "o-", color=palette.INK, markersize=3)
    distance.set(xlabel="stiffness κ [N/m]", ylabel="distance from it [N]",
                 title="in the end, ten times stiffer is ten times nearer")  # fmt: skip
    return figure


def laws() -> Figure:
    """Hooke and Hertz, in energy and in force."""
    c = np.linspace(-0.5, 1.5, 200)
    figure = _figure(7.0, 2.5)
    energy, force = figure.subplots(1, 2)
    for name, power, colour in (("Hooke, p = 2", HOOKE, BLUE), ("Hertz, p = 5/2", HERTZ, RED)):
        law = PowerLaw(np.ones(1), power)
        energy.plot(c, law.energy(c), color=colour, label=name)
        force.plot(c, law.force(c), color=colour)
    energy.set(xlabel="overlap c", ylabel="energy w(c)", title="no pull where there is no overlap")
    force.set(xlabel="overlap c", ylabel="force w′(c)", title="Hertz starts soft and stiffens")
    figure.legend(loc="outside lower left", frameon=False, ncols=3)
    return figure


def integrator() -> Figure:
    """A ball on an elastic floor, long steps: energy under α = ½ and under implicit Euler."""
    mass, stiffness, dt, weight = 1.0, 1000.0, 0.02, 9.81
    figure = _figure()
    axes = figure.subplots()
    for name, alpha, colour in (("α = ½", 0.5, BLUE), ("α = 0.9", 0.9, RED)):
        q, momentum, energies = 0.05, 0.0, []
        for _ in range(150):
            step = cdopt.ContactStep(
                [[mass]], [[1.0]], [q], [momentum / mass], [-mass * weight], dt,
                stiffness=stiffness,
            )  # fmt: skip
            taken = cdopt.VariationalStep(step, [momentum], alpha=alpha).solve("newton")
            q, momentum = q + taken.u[0], taken.mom[0]
            stored = 0.5 * stiffness * max(-q, 0.0) ** 2
            energies.append(0.5 * momentum**2 / mass + mass * weight * q + stored)
        axes.plot(dt * np.arange(1, 151), energies, color=colour, label=name)
    axes.set(xlabel="time [s]", ylabel="energy [J]", ylim=(0.0, None),
             title="a ball that bounces on an elastic floor, 20 ms a step")  # fmt: skip
    figure.legend(loc="outside lower left", frameon=False, ncols=3)
    return figure
