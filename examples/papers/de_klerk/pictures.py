"""Drawings of spheres: configurations with velocities, paths of centres, states of a scene."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Circle

from cdopt.plots.bodies import Camera, Solids, box_of, draw_bodies
from cdopt.plots.canvas import head, headline, panels, without_ticks
from cdopt.plots.palette import BODY, EDGE, INK, QUIET
from cdopt.scene import Scene, State

RED = "#D55E00"
_ROOM = 0.15  # around what is drawn, in d


def configuration_panels(drawn: Sequence[tuple[str, str, Scene]], title: str) -> Figure:
    """A panel per scene (name, words, scene): spheres in x and y, walls, velocities, bonds."""
    figure, axes = panels(len(drawn), len(drawn), 1.9, foot=0.1)
    for place, (name, words, scene) in zip(axes, drawn, strict=True):
        bodies, state = scene.bodies, scene.initial
        free = ~bodies.fixed
        x, radius = state.position[free, :2], bodies.reach[free]
        _spheres(place, x, radius)
        numbers = np.flatnonzero(free).tolist()
        for bond in scene.bonds.tolist():
            place.plot(*x[[numbers.index(k) for k in bond]].T, color=INK, linewidth=2.0)
        for centre, velocity in zip(x, state.velocity[free, :2], strict=True):
            style = {"arrowstyle": "-|>", "color": RED, "linewidth": 1.6}
            place.annotate("", centre + 0.45 * velocity, centre, arrowprops=style)
        for wall in state.position[~free, 0]:
            place.axvline(wall, color=QUIET, linewidth=2.5)
        ends = np.concatenate([x - radius[:, None], x + radius[:, None]])
        without_ticks(place, _box(ends))
        place.axis("off")
        head(place, name, words, "")
    return headline(figure, title)


def path_panels(drawn: Sequence[tuple[str, dict[str, np.ndarray]]], title: str) -> Figure:
    """A panel per run: spheres at the start and the end, and the paths of their centres."""
    figure, axes = panels(len(drawn), len(drawn), 2.4, foot=0.1)
    for place, (words, run) in zip(axes, drawn, strict=True):
        x = np.asarray(run["x"])[:, :, :2]
        radius = np.full(x.shape[1], 0.5)
        for centres, pale in ((x[0], True), (x[-1], False)):
            _spheres(place, centres, radius, pale)
            style = {"color": QUIET if pale else INK, "linewidth": 1.0 if pale else 2.0}
            place.plot(*centres[:2].T, **style)
        for k in range(x.shape[1]):
            place.plot(*x[:, k].T, color=RED, linewidth=1.2)
        ends = x[[0, -1]].reshape(-1, 2)
        without_ticks(place, _box(np.concatenate([ends - 0.5, ends + 0.5])))
        place.axis("off")
        head(place, words, "pale: before", "")
    return headline(figure, title)


def scene_states(states: Sequence[tuple[Scene, State, str]], title: str) -> Figure:
    """A panel per state (scene, state, words) of a plane scene: all bodies, on one scale."""
    camera = Camera("side", np.zeros(2), 1.0)
    solids = [Solids.of(scene, state.position) for scene, state, _ in states]
    boxes = np.array(
        [box_of(s, state, camera) for s, (_, state, _) in zip(solids, states, strict=True)]
    )
    box = np.array([boxes[:, 0].min(axis=0), boxes[:, 1].max(axis=0)])
    wide, high = box[1] - box[0]
    figure, axes = panels(len(states), len(states), 9.0 / len(states) * high / wide, foot=0.1)
    for place, bodies, (_, state, words) in zip(axes, solids, states, strict=True):
        draw_bodies(place, bodies, state, camera)
        without_ticks(place, box)
        place.axis("off")
        head(place, words, "", "")
    return headline(figure, title)


def _spheres(axes: Axes, centres: np.ndarray, radii: np.ndarray, pale: bool = False) -> None:
    for centre, radius in zip(centres, radii, strict=True):
        style = {"facecolor": "none" if pale else BODY, "edgecolor": QUIET if pale else EDGE}
        axes.add_patch(Circle(centre, radius, linewidth=0.8, **style))


def _box(points: np.ndarray) -> np.ndarray:
    return np.array([points.min(axis=0) - _ROOM, points.max(axis=0) + _ROOM])
