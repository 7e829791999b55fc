"""Loads set by sliders: a weight that moves, gravity that tilts, or one factor."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from cdopt._util.checks import BoolArray, FloatArray, read_only
from cdopt._util.frozen import Frozen
from cdopt.collision import applied_loads
from cdopt.scene import Scene

WEIGHT, GRAVITY, FACTOR = "weight", "gravity", "factor"

_EXACT = 1e-9  # of the largest entry: how well a load must be a weight at one point
_HEAVIEST = 3.0  # times the load at the start


@dataclass(frozen=True, eq=False)
class Load(Frozen):
    """F̃ (nv,) as a function of sliders, N and N·m.

    Attributes
    ----------
    kind : "weight": F̃ = W (base + Σ x_d ways_d), sliders W in N and its position x_d in m.
        "gravity": F̃ = s (base + Σ g_d ways_d), sliders the factor s and the angles that gravity
        g leans by, in degrees: from straight down, and in space towards which side.
        "factor": F̃ = s base.
    base : (nv,). ways : (n, nv).
    gravity : size of g, m/s²; zero for other kinds.
    names, units, start, low, high : of each slider.
    """

    kind: str
    base: FloatArray
    ways: FloatArray
    gravity: float
    names: tuple[str, ...]
    units: tuple[str, ...]
    start: tuple[float, ...]
    low: tuple[float, ...]
    high: tuple[float, ...]

    def at(self, values: Sequence[float]) -> FloatArray:
        """F̃ (nv,) where the sliders stand at these values."""
        first, others = values[0], np.array(values[1:])
        if self.kind == GRAVITY:
            lean, *turn = np.deg2rad(others)
            across = [np.cos(turn[0]), np.sin(turn[0])] if turn else [1.0]
            direction = [*(np.sin(lean) * np.array(across)), -np.cos(lean)]
            others = self.gravity * np.array(direction)
        return read_only(first * (self.base + others @ self.ways))


def factor(load: FloatArray) -> Load:
    """A load of fixed direction."""
    return _load(FACTOR, load, np.zeros((0, load.size)), [("load", "×", 1.0, 0.0, _HEAVIEST)])


def leaning(scene: Scene) -> Load:
    """Gravity that may lean, and what else acts on the bodies; straight down at the start.

    Where gravity does not point down the last axis, or there is none, a load of fixed direction.
    """
    g, dim = scene.gravity, scene.dim
    size = float(np.linalg.norm(g))
    if not (size > 0.0 and abs(g[-1] + size) <= _EXACT * size):
        return factor(-applied_loads(scene))
    b = scene.bodies
    heavy = np.where(b.fixed, 0.0, b.mass)
    turns = np.zeros((b.nb, 1 if dim == 2 else 3))
    ways = [scene.dofs.gather(np.hstack([heavy[:, None] * axis, turns])) for axis in np.eye(dim)]
    base = applied_loads(scene) - np.array(ways).T @ g
    sliders = [("load", "×", 1.0, 0.0, _HEAVIEST)]
    if dim == 2:
        sliders.append(("lean to the right", "°", 0.0, -90.0, 90.0))
    else:
        sliders += [("lean", "°", 0.0, 0.0, 90.0), ("lean towards", "°", 0.0, 0.0, 360.0)]
    return _load(GRAVITY, -base, -np.array(ways), sliders, size)


def weight(
    B: FloatArray,
    load: FloatArray,
    points: FloatArray,
    normals: FloatArray,
    upward: BoolArray,
    reach: tuple[FloatArray, FloatArray],
) -> Load | None:
    """A weight that moves over a platform; None if the load is not a weight on level supports.

    All contacts must push up, along the last axis. A weight on the platform then acts like one
    more contact under it, whose row of B is linear in its position.

    Parameters
    ----------
    B : (nc, nv). load : F̃ (nv,). points, normals : (nc, dim), as in ContactStep.
    upward : (nc,) whether the normal points into the platform; else away from it.
    reach : (dim,) least and largest coordinates that the platform reaches, m.
    """
    up = np.where(upward, 1.0, -1.0) * normals[:, -1]
    if (up < 1.0 - _EXACT).any():
        return None
    known = np.column_stack([np.ones(len(B)), points[:, :-1]])
    if np.linalg.matrix_rank(known) < known.shape[1]:
        return None
    rows: FloatArray = np.linalg.lstsq(known, B, rcond=None)[0].astype(np.float64)
    rows[:, np.abs(B).max(axis=0) <= 1e-12 * np.abs(B).max()] = 0.0  # no contact acts there
    share = np.linalg.lstsq(rows.T, load, rcond=None)[0]
    off = max(_worst(known @ rows - B, B), _worst(share @ rows - load, load))
    if off > _EXACT or not share[0] > 0.0:
        return None
    at = [round(float(x), 10) for x in share[1:] / share[0]]
    size = float(share[0])  # ten digits, without the round-off of least squares
    sliders = [("weight", "N", float(f"{size:.10g}"), 0.0, _HEAVIEST * size)]
    for name, x, least, most in zip("xy", at, *reach, strict=False):
        sliders.append((f"position {name}", "m", x, min(float(least), x), max(float(most), x)))
    return _load(WEIGHT, rows[0], rows[1:], sliders)


def _worst(difference: FloatArray, values: FloatArray) -> float:
    return float(np.abs(difference).max() / max(np.abs(values).max(), 1e-300))


def _load(
    kind: str,
    base: FloatArray,
    ways: FloatArray,
    sliders: Sequence[tuple[str, str, float, float, float]],
    gravity: float = 0.0,
) -> Load:
    names, units, start, low, high = zip(*sliders, strict=True)
    return Load(kind, base, ways, gravity, names, units, start, low, high)
