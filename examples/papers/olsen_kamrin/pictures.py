"""Kinds of pictures that only this paper needs: piles, force networks, histograms, platforms."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.collections import EllipseCollection
from matplotlib.colors import Normalize
from matplotlib.figure import Figure
from matplotlib.patches import Circle, Rectangle

import cdopt
from cdopt._util.formatting import significant
from cdopt.plots.bodies import Camera, contact_segments
from cdopt.plots.canvas import (
    SMALL,
    TEXT,
    WIDTH,
    blank,
    colour_bar,
    emphasise,
    head,
    headline,
    panels,
    quiet_axes,
    without_ticks,
)
from cdopt.plots.chains import Chains
from cdopt.plots.palette import BAND, EDGE, FIXED, INK, QUIET, force_colours

UNIT = "m g"  # the weight of a sphere; "mg" would be milligrams
NONZERO = 1e-6  # of the largest force: smaller ones are what solvers leave of zero
CHAINS_WIDTH = 5.1  # inches, the network next to a histogram
SUPPORT = 0.13  # radius of a drawn support, where the platform is 2 long


class Forces(NamedTuple):
    """One method's forces f (nc,), its name and its colour."""

    name: str
    f: np.ndarray
    colour: str


def chains_and_histogram(step: cdopt.ContactStep, forces: Forces, top: float, title: str) -> Figure:
    """(a) The network of forces in perspective, (b) the histogram of the nonzero ones.

    ``top`` is the end of the scales, so that figures can be compared.
    """
    figure = blank(WIDTH, 4.5)
    left, right = figure.subplots(1, 2, width_ratios=(CHAINS_WIDTH, WIDTH - CHAINS_WIDTH))
    net = contact_segments(step)
    camera = Camera.facing(net.ends, "perspective")
    Chains(net, CHAINS_WIDTH, top, camera).draw(left, forces.f)
    emphasise(left, False)
    head(left, f"(a) {forces.name}", "", f"max {significant(float(forces.f.max()), 4)} {UNIT}")
    colour_bar(figure, [left], top, f"contact force [{UNIT}], as colour and line width")
    loaded = _histogram(right, forces, top)
    head(right, "(b) nonzero forces", "", f"{loaded:,} of {forces.f.size:,} contacts")
    right.set_xlabel(f"contact force [{UNIT}]", fontsize=TEXT, color=INK)
    right.set_ylabel("number of contacts", fontsize=TEXT, color=INK)
    return headline(figure, title)


def histograms(methods: Sequence[Forces], title: str) -> Figure:
    """Histograms of nonzero forces side by side, on the same bins and scales."""
    figure, axes = panels(len(methods), len(methods), 2.6, sharex=True, sharey=True)
    top = max(float(forces.f.max()) for forces in methods)
    for panel, forces in zip(axes, methods, strict=True):
        loaded = _histogram(panel, forces, top)
        words = f"{loaded:,} of {forces.f.size:,} contacts carry force"
        head(panel, forces.name, words, f"max {significant(float(forces.f.max()), 6)} {UNIT}")
    figure.supxlabel(f"contact force [{UNIT}]", fontsize=TEXT, color=INK)
    figure.supylabel("number of contacts", fontsize=TEXT, color=INK)
    return headline(figure, title)


def _histogram(axes: Axes, forces: Forces, top: float) -> int:
    """Bars of the nonzero forces, and how many there are."""
    quiet_axes(axes)
    edges = np.linspace(0.0, 1.02 * top, 45)
    loaded = forces.f[forces.f > NONZERO * forces.f.max()]
    axes.hist(loaded, edges, color=forces.colour, alpha=0.75, edgecolor="white", linewidth=0.3)
    axes.set_xlim(0.0, 1.02 * top)
    return int(loaded.size)


# --- piles of spheres ------------------------------------------------------------------

State = tuple[str, str, np.ndarray, np.ndarray]  # name, note, centres (nb, 3) m, values (nb,)


def sphere_maps(states: Sequence[State], radius: float, label: str, title: str) -> Figure:
    """A panel per state: all spheres in perspective, coloured by a value on one scale."""
    camera = Camera.facing(np.concatenate([state[2] for state in states]), "perspective")
    top = max(float(values.max()) for *_, values in states) or 1.0
    corners = []
    for _, _, centres, _ in states:
        place, _, larger = camera.project(centres)
        reach = 1.05 * radius * larger[:, None]
        corners += [(place - reach).min(axis=0), (place + reach).max(axis=0)]
    box = np.array([np.min(corners, axis=0), np.max(corners, axis=0)])
    columns = 2 if len(states) > 1 else 1
    width = WIDTH if columns > 1 else 5.4
    tall = 0.94 * width / columns * float(np.ptp(box[:, 1]) / np.ptp(box[:, 0]))
    figure, axes = panels(len(states), columns, tall, foot=0.75, caption=0.6, width=width)
    colours = ScalarMappable(Normalize(0.0, top), force_colours())
    for panel, (name, note, centres, values) in zip(axes, states, strict=True):
        _spheres(panel, camera, centres, radius, colours.to_rgba(values))
        without_ticks(panel, box)
        panel.spines[:].set_visible(False)
        head(panel, name, note, "")
    colour_bar(figure, axes, top, label)
    return headline(figure, title)


def _spheres(
    axes: Axes, camera: Camera, centres: np.ndarray, radius: float, colours: np.ndarray
) -> None:
    """Discs from back to front, each with a highlight that makes it look round."""
    place, near, larger = camera.project(centres)
    back = np.argsort(near, kind="stable")
    wide = 2.0 * (radius * larger)[back]
    shine = colours[back].copy()
    shine[:, :3] += 0.28 * (1.0 - shine[:, :3])
    sizes = np.column_stack([wide, 0.38 * wide]).ravel()
    offsets = np.stack([place[back], place[back] + wide[:, None] * [-0.09, 0.11]], axis=1)
    discs = EllipseCollection(
        sizes,
        sizes,
        np.zeros(sizes.size),
        units="xy",
        offsets=offsets.reshape(-1, 2),
        offset_transform=axes.transData,
        facecolors=np.stack([colours[back], shine], axis=1).reshape(-1, 4),
        edgecolors=np.tile([INK, "none"], wide.size).tolist(),
        linewidths=0.3,
    )
    axes.add_collection(discs, autolim=False)


# --- a platform on supports ------------------------------------------------------------


def platform_forces(answers: Mapping[str, np.ndarray], title: str) -> Figure:
    """A panel per answer: a platform on supports, and each support's force (ns,) N as an arrow."""
    columns = min(len(answers), 3)
    figure, axes = panels(len(answers), columns, 2.05, foot=0.05, width=columns * WIDTH / 3.0)
    top = max(float(np.nanmax(f)) for f in answers.values())
    for panel, (name, f) in zip(axes, answers.items(), strict=True):
        style = {"facecolor": BAND, "edgecolor": EDGE, "linewidth": 0.8}
        panel.add_patch(Rectangle((-1.2, 0.0), 2.4, 0.12, **style))
        for x, force in zip(np.linspace(-1.0, 1.0, f.size), f, strict=True):
            style = {"facecolor": FIXED, "edgecolor": QUIET, "linewidth": 0.6}
            panel.add_patch(Circle((x, -SUPPORT), SUPPORT, **style))
            _arrow(panel, float(x), float(force), float(force) / top)
        panel.set_xlim(-1.35, 1.35)
        panel.set_ylim(-1.62, 0.3)
        panel.set_aspect("equal")
        panel.axis("off")
        head(panel, name, "", "")
    return headline(figure, title)


def _arrow(axes: Axes, x: float, force: float, length: float) -> None:
    """An arrow that ends under the support, and its number below."""
    start = -2.0 * SUPPORT - 0.05
    if length > 0.02:
        style = {"arrowstyle": "-|>", "color": INK, "linewidth": 2.2, "mutation_scale": 11}
        style |= {"shrinkA": 0.0, "shrinkB": 0.0}
        axes.annotate("", (x, start), (x, start - length), arrowprops=style)
    text = {"ha": "center", "va": "top", "fontsize": SMALL, "color": INK}
    axes.text(x, start - max(length, 0.0) - 0.05, f"{force:.3g} N", **text)
