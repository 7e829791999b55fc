"""A run of steps and the gradients of its end, backwards from checkpoints, whatever the method.

About √n of n states are kept, those between are computed again (A. Griewank & A. Walther,
*Evaluating Derivatives*, 2008, chapter 12). Methods define the result of one step, and how
cotangents of its end become those of its start and of the data.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from cdopt import collision
from cdopt._util import checks
from cdopt._util.checks import FloatArray
from cdopt.geometry.rotations import cross_matrices
from cdopt.scene import Dofs, Scene, State

SceneOf = Callable[[float], Scene]
NEAR = 1e-5  # of the smallest body's size, and rad: how far bodies move for a difference


class TrajectoryGradients(ABC):
    """A run of ``steps`` steps, and the gradients of its end.

    Attributes
    ----------
    scene, dt, steps : of the run. start, end : its first and last state.
    dofs : whose order (nv,) vectors have.

    Parameters
    ----------
    state : the first. stride : steps between states that are kept.
    """

    def __init__(
        self, scene: Scene, dt: float, steps: int, state: State, stride: int, dofs: Dofs
    ) -> None:
        self.scene, self.dt, self.steps, self.dofs = scene, dt, steps, dofs
        self.start, self.stride = state, stride
        self._kept = {0: state}
        for k in range(steps):
            state = self._after(state)[0]
            if (k + 1) % stride == 0:
                self._kept[k + 1] = state
        self.end = state

    # --- of a method ---------------------------------------------------------------------------

    @abstractmethod
    def _after(self, state: State) -> tuple[State, Any]:
        """The next state, and what ``_back`` needs of the step."""

    @abstractmethod
    def _totals(self) -> dict[str, Any]:
        """Zero for the cotangent of each of the data that all steps share."""

    @abstractmethod
    def _back(self, state: State, taken: Any, *after: Any) -> tuple[FloatArray, FloatArray, Any]:
        """Cotangents of a state for those ``after`` it; those of the data are added."""

    @abstractmethod
    def _of_scenes(self, state: State, pair: tuple[Scene, Scene], cotangent: Any) -> float:
        """The gradient of a step by t, of the scenes at t = ``NEAR`` and at its opposite."""

    # --- motion --------------------------------------------------------------------------------

    def _moved(self, state: State, way: FloatArray) -> State:
        """The state with its bodies moved by ``way`` (nv,), m and rad."""
        table = self.dofs.scatter(way, np.zeros_like(state.v))
        return State._of(t=state.t, q=collision.move(state, table, 1.0), v=state.v)

    def _turned(self, x: FloatArray, v: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Cotangents of x and of Δt v for those of x⁺ = x, then Δt v: turns do not commute."""
        if self.scene.dim == 2:
            return x, x
        number = self.dofs.number[:, 3:]
        turns = number[(number >= 0).all(axis=1)]
        before, speed = x.copy(), x.copy()
        for own in turns:
            R, left = _turn(self.dt * v[own])
            before[own], speed[own] = R.T @ x[own], left.T @ x[own]
        return before, speed

    @property
    def _size(self) -> float:
        """Radius of the smallest body, m."""
        reach = self.scene.bodies.reach
        return float(np.min(reach[np.isfinite(reach)]))

    # --- backwards -----------------------------------------------------------------------------

    def vjp(
        self, x: Any = None, v: Any = None, scenes: Mapping[str, SceneOf] | None = None
    ) -> dict[str, Any]:
        """Gradients of x̄ · (position at the end) + v̄ · (velocity at the end).

        Parameters
        ----------
        x, v : (nv,) cotangents of the positions at the end, per m and per rad of a turn in the
            global frame, and of the velocities; default zero.
        scenes : by name, functions of a number t that give the scene at t with the same bodies in
            the same order, and this scene at t = 0: such as one whose ball has the radius r + t.
            The start stays where it is.

        Returns
        -------
        ``x`` and ``v`` (nv,), of the start; ``F_ext`` (nv,), of a constant load on all steps, and
        ``M`` as a sparse matrix; ``mu`` with friction and ``restitution``, or of the variational
        integrator ``stiffness``, of a change of all contacts' coefficients together; and those by t
        of each of ``scenes``, by name.

        Raises
        ------
        InvalidInput : another shape.
        Unsupported : a step with a contact at a kink, or with an event within the difference.
        """
        nv = self.dofs.nv
        x = np.zeros(nv) if x is None else checks.vector("x", x, nv)
        v = np.zeros(nv) if v is None else checks.vector("v", v, nv)
        total = self._totals()
        given = checks.mapping("scenes", {} if scenes is None else scenes)
        sides = {name: (make(NEAR), make(-NEAR)) for name, make in given.items()}
        by_t = dict.fromkeys(sides, 0.0)
        last = self.steps
        for first in sorted((k for k in self._kept if k < self.steps), reverse=True):
            state, steps = self._kept[first], []
            for _ in range(first, last):
                following, taken = self._after(state)
                steps.append((state, taken))
                state = following
            while steps:
                state, taken = steps.pop()
                x, v, cotangent = self._back(state, taken, x, v, total)
                for name, pair in sides.items():
                    by_t[name] += self._of_scenes(state, pair, cotangent)
            last = first
        return {"x": x, "v": v, **total, **by_t}


def _turn(way: FloatArray) -> tuple[FloatArray, FloatArray]:
    """R of a turn (3,) rad, and how it changes with the turn, in the global frame."""
    angle = float(np.linalg.norm(way))
    cross = cross_matrices(way[None])[0]
    square = cross @ cross
    if angle < 1e-6:
        return np.eye(3) + cross + 0.5 * square, np.eye(3) + 0.5 * cross + square / 6.0
    a, b = math.sin(angle) / angle, (1.0 - math.cos(angle)) / angle**2
    c = (1.0 - a) / angle**2
    return np.eye(3) + a * cross + b * square, np.eye(3) + b * cross + c * square
