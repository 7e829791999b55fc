"""Verlet list: pairs of bodies that may touch, searched again when a body has moved too far."""

from __future__ import annotations

import numpy as np

from cdopt._util import checks
from cdopt._util.checks import FloatArray, IntArray
from cdopt._util.errors import InvalidInput
from cdopt.geometry.broad_phase import ROUND_OFF, near_pairs, unbounded_pairs
from cdopt.scene import Scene, State

_SHARE = 0.1  # of the smallest half-width


def default_margin(scene: Scene) -> float:
    """A tenth of the smallest half-width of a bounded body, m."""
    bounded = scene.bodies.core[np.isfinite(scene.bodies.core)]
    return _SHARE * float(bounded.min())


def safe_margin(scene: Scene, state: State, dt: float) -> float:
    """A margin that includes every contact that the free motion of one step can close, m.

    Twice the way of the fastest surface in a step, at the velocities of ``state`` and under
    gravity and applied loads, and no less than ``default_margin``. Contacts of
    bodies that an impact makes faster still are found one step later.

    Raises
    ------
    InvalidInput : dt is not positive.
    """
    return 2.0 * float(safe_margins(scene, state, dt).max())


def safe_margins(scene: Scene, state: State, dt: float) -> FloatArray:
    """(nb,) share of each body in a margin that includes what free motion can close in a step, m.

    The way of its fastest surface in a step, as in ``safe_margin``, and no less than half of
    ``default_margin``: a fast body does not widen the search between two bodies at rest.

    Raises
    ------
    InvalidInput : dt is not positive.
    """
    step = checks.scalar("dt", dt, above=0.0)
    scene.check_state(state)
    b = scene.bodies
    turning = np.array(np.abs(state.angular_velocity).reshape(b.nb, -1).sum(axis=1))
    turning *= np.where(b.turns & np.isfinite(b.reach), b.reach, 0.0)
    load = np.where(b.fixed, 0.0, np.linalg.norm(b.force, axis=1) / b.mass)
    fall = np.where(b.fixed, 0.0, np.linalg.norm(scene.gravity))
    speed = np.linalg.norm(state.velocity, axis=1) + turning + step * (fall + load)
    if scene.box is not None and scene.box.moves:  # images move past each other
        speed = speed + 0.5 * float(np.abs(scene.box.rate @ scene.box.cell(state.t)).sum())
    return np.maximum(0.5 * default_margin(scene), step * speed)


class VerletList:
    """The neighbour list of a scene, searched again when a body has moved half the skin.

    The list only decides which pairs are examined; it does not change the contacts.

    Parameters
    ----------
    scene : the bodies.
    skin : extra distance of the search, m; default twice ``default_margin``.

    Attributes
    ----------
    searches : how often the tree was searched so far.

    Raises
    ------
    InvalidInput : a negative skin.
    """

    def __init__(self, scene: Scene, skin: float | None = None) -> None:
        self.scene = scene
        wide = 2.0 * default_margin(scene) if skin is None else skin
        self.skin = checks.scalar("skin", wide, at_least=0.0)
        self.searches = 0
        self._walls = unbounded_pairs(scene.bodies.reach, scene.bodies.fixed)
        self._bounded = np.isfinite(scene.bodies.reach)
        self._near: IntArray | None = None
        self._searched: FloatArray = np.empty(0)
        self._reach = self._time = 0.0

    def pairs(self, state: State, margin: float | FloatArray) -> IntArray:
        """Pairs (np, 2), i < j, including all that can be within ``margin`` m of each other.

        ``margin`` is one number, or (nb,) shares of which a pair has both.

        Raises
        ------
        InvalidInput : a state of another scene, or a negative margin.
        """
        self.scene.check_state(state)
        b = self.scene.bodies
        widest, shares = self._widest(margin)
        position = state.position[self._bounded]
        if self._near is None or self._outdated(state, position, widest):
            self._reach = widest + self.skin
            self._near = _search(self.scene, state, self._reach)
            self._time = state.t
            self._searched = position
            self.searches += 1
        if shares is None:
            return np.concatenate([self._near, self._walls])
        i, j = self._near.T
        arm = state.position[j] - state.position[i]
        box = self.scene.box
        apart = np.linalg.norm(arm if box is None else box.nearest(arm, state.t), axis=1)
        reach = b.reach * (1.0 + ROUND_OFF) + shares
        return np.concatenate([self._near[apart <= reach[i] + reach[j]], self._walls])

    def _outdated(self, state: State, position: FloatArray, widest: float) -> bool:
        """Whether bodies, or a cell that deforms, are no longer where the list was made."""
        if widest + 2.0 * self._moved(position) > self._reach:
            return True
        return self.scene.box is not None and self.scene.box.moves and state.t != self._time

    def _widest(self, margin: float | FloatArray) -> tuple[float, FloatArray | None]:
        """The widest margin of any pair, m, and the shares of all bodies where they differ."""
        if np.ndim(margin) == 0:
            return checks.scalar("margin", margin, at_least=0.0), None
        shares = checks.vector("margin", margin, self.scene.nb, "m")
        if shares.min() < 0.0:
            raise InvalidInput("margin", "a share below 0", "shares of at least 0 m")
        return 2.0 * float(shares.max()), shares

    def _moved(self, position: FloatArray) -> float:
        """The longest way of a bounded body since the last search, m."""
        return float(np.sqrt(((position - self._searched) ** 2).sum(axis=1).max(initial=0.0)))


def _search(scene: Scene, state: State, margin: float) -> IntArray:
    """Pairs of bounded bodies within ``margin`` m, images included."""
    b = scene.bodies
    if scene.box is None:
        return near_pairs(state.position, b.reach, b.fixed, margin)
    return scene.box.near_pairs(state.position, b.reach, b.fixed, margin, state.t)
