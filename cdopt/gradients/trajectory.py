"""Gradients of a whole run of contact dynamics: from its end back to its start and its data.

One step takes positions x and velocities v to v⁺, the answer of a contact step with gaps and rows
at x, and to x⁺ = x + Δt v⁺, turns included. Backwards, step by step,

    v̄ = v̄⁺ + Δt x̄⁺,    x̄ = x̄⁺ + (∂(G, b)/∂x)ᵀ of the step's own cotangents,

with the states between recomputed from checkpoints, about √n of n (A. Griewank & A. Walther,
*Evaluating Derivatives*, 2008, chapter 12). Rows and gaps follow the positions of the bodies by
central differences of the narrow phase: bodies move by 1e-5 of their size, contacts keep their
names.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp

from cdopt import collision
from cdopt._util import checks
from cdopt._util.checks import FloatArray, IntArray
from cdopt._util.errors import Unsupported
from cdopt.collision.contacts import safe_margins
from cdopt.collision.motion import uneven
from cdopt.formulations import ClassicCD, FrictionalCD
from cdopt.gradients.at import of
from cdopt.gradients.derivatives import StepDerivatives
from cdopt.gradients.step_tangent import Pull, Result
from cdopt.problem import LAWS, ContactStep, StepSolution
from cdopt.problem.step_problems import interleaved
from cdopt.scene import Dofs, Scene, State

SceneOf = Callable[[float], Scene]
_NEAR = 1e-5  # of the smallest body's size, and rad: how far bodies move for a difference


@dataclass(frozen=True, eq=False)
class _Rows:
    """G and b of a step, and the number of each row: its contact's name, or that of its joint."""

    G: sp.csr_array
    bias: FloatArray
    names: IntArray

    @staticmethod
    def of(step: ContactStep) -> _Rows:
        """Of all rows of a step."""
        G, bias, d = step.B, step.bias[:, None], 1
        if step.friction is not None:
            G = interleaved(step.B, step.friction.B_t)
            bias, d = np.hstack([bias, step.friction.rate]), step.friction.d
        names = np.asarray(step.contact_ids).repeat(d) * d + np.tile(np.arange(d), step.nc)
        if step.joints is None:
            return _Rows(G, bias.ravel(), names)
        G = sp.csr_array(sp.vstack([G, step.joints.J], format="csr"))
        own = -1 - np.arange(step.joints.count)
        bias = np.append(bias.ravel(), step.joints.rate)
        return _Rows(G, bias, np.append(names, own))

    def like(self, other: _Rows) -> tuple[sp.csr_array, FloatArray, IntArray]:
        """G and b of the rows of ``other``, zero where there are none, and which there are."""
        _, there, here = np.intersect1d(other.names, self.names, return_indices=True)
        many = other.names.size
        pick = sp.csr_array((np.ones(here.size), (there, here)), shape=(many, self.names.size))
        return sp.csr_array(pick @ self.G), pick @ self.bias, there


class TrajectoryGradients:
    """A run of ``steps`` steps of contact dynamics, and the gradients of its end.

    Attributes
    ----------
    scene, dt, steps, law, v_min : of the run. start, end : its first and last state.
    dofs : whose order (nv,) vectors have.

    Parameters
    ----------
    how : law and v_min. state : the first. stride : steps between states that are kept.

    Raises
    ------
    Unsupported : bodies in space with unequal moments of inertia.
    """

    def __init__(
        self,
        scene: Scene,
        dt: float,
        steps: int,
        how: tuple[str | None, float],
        state: State,
        stride: int,
    ) -> None:
        self.scene, self.dt, self.steps = scene, dt, steps
        law, self.v_min = how
        self.law = law
        self.dofs: Dofs = scene.dofs if law is None else scene.full_dofs
        if uneven(scene, self.dofs).size:
            why = "bodies in space with unequal moments of inertia change M as they turn"
            raise Unsupported("gradients of this run", why, ("spheres and cubes, or the plane",))
        self.start, self.stride = state, stride
        self._kept = {0: state}
        for k in range(steps):
            state = self._after(state)[0]
            if (k + 1) % stride == 0:
                self._kept[k + 1] = state
        self.end = state

    # --- one step ------------------------------------------------------------------------------

    def _step(self, state: State, wider: float = 0.0, scene: Scene | None = None) -> ContactStep:
        """The contact step from a state, with contacts within a margin that is ``wider`` by m.

        Of another ``scene`` where one is given.
        """
        scene = self.scene if scene is None else scene
        margin = safe_margins(scene, state, self.dt) + wider
        contacts = collision.detect(scene, state, margin)
        friction = None if self.law is None else True
        return collision.step(
            scene,
            state,
            contacts,
            self.dt,
            v_min=self.v_min,
            overlaps="resolve",
            friction=friction,
        )

    def _after(self, state: State) -> tuple[State, ClassicCD | FrictionalCD, StepSolution]:
        """The next state, the formulation, and its solution."""
        step = self._step(state)
        problem = ClassicCD(step) if self.law is None else FrictionalCD(step, self.law)
        answer = problem.solve()
        v_next = np.asarray(answer.v_next)
        return (
            collision.advance(self.scene, state, v_next, self.dt, dofs=self.dofs),
            problem,
            answer,
        )

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
        ``M`` as a sparse matrix; with friction ``mu``, and ``restitution``, of a change of all
        contacts' coefficients together; and those by t of each of ``scenes``, by name.

        Raises
        ------
        InvalidInput : another shape.
        Unsupported : a step with a contact at a kink, or with an event within the difference.
        """
        nv = self.dofs.nv
        x = np.zeros(nv) if x is None else checks.vector("x", x, nv)
        v = np.zeros(nv) if v is None else checks.vector("v", v, nv)
        total: dict[str, Any] = {"F_ext": np.zeros(nv), "M": 0.0, "restitution": 0.0}
        total |= {} if self.law is None else {"mu": 0.0}
        given = checks.mapping("scenes", {} if scenes is None else scenes)
        sides = {name: (make(_NEAR), make(-_NEAR)) for name, make in given.items()}
        by_t = dict.fromkeys(sides, 0.0)
        last = self.steps
        for first in sorted((k for k in self._kept if k < self.steps), reverse=True):
            state, taken = self._kept[first], []
            for _ in range(first, last):
                following, problem, answer = self._after(state)
                taken.append((state, problem, answer))
                state = following
            while taken:
                state = taken[-1][0]
                x, v, pull = self._back(*taken.pop(), x, v, total)
                for name, pair in sides.items():
                    by_t[name] += self._of_scenes(state, pair, pull)
            last = first
        return {"x": x, "v": v, **total, **by_t}

    def _of_scenes(self, state: State, pair: tuple[Scene, Scene], pull: Pull) -> float:
        """The gradient of a step by t, of the scenes at t and −t."""
        base = _Rows.of(self._step(state))
        steps: list[Any] = [self._step(state, 0.0, scene) for scene in pair]
        ahead, behind = steps
        (G, bias, _), (before, rates, _) = (_Rows.of(step).like(base) for step in steps)
        G, bias = (G - before) / (2.0 * _NEAR), (bias - rates) / (2.0 * _NEAR)
        M = sp.csr_array(ahead.M - behind.M) / (2.0 * _NEAR)
        value = pull.G.along(G) + float(pull.bias @ bias) + pull.M.along(M)
        value += float(pull.F @ (ahead.F_ext - behind.F_ext)) / (2.0 * _NEAR)
        if pull.mu is not None:
            of = [dict(zip(s.contact_ids, s.friction.mu, strict=True)) for s in steps]
            names = base.names[:: self.scene.dim][: pull.mu.size] // self.scene.dim
            change = [of[0].get(i, 0.0) - of[1].get(i, 0.0) for i in names.tolist()]
            value += float(pull.mu @ np.array(change)) / (2.0 * _NEAR)
        return value

    def _back(
        self, state: State, problem: ClassicCD | FrictionalCD, answer: StepSolution, *after: Any
    ) -> tuple[FloatArray, FloatArray, Pull]:
        """Cotangents of a state for those of the next one; those of the data are added.

        ``after`` : x and v (nv,), those of the next one, and the sums of those of the data.
        """
        x, v, total = after
        derivatives = of(problem, answer)
        if not isinstance(derivatives, StepDerivatives):
            raise TypeError(type(derivatives).__name__)
        derivatives._require_smooth("vjp")
        before, speed = self._turned(x, np.asarray(answer.v_next))
        tangent, nothing = derivatives.tangent, np.zeros(x.size)
        weights = Result(v + self.dt * speed, nothing, np.zeros(tangent.G.shape[0]))
        pull = tangent.pull(weights)
        known = derivatives.parameters.known
        for name in total:
            found = known[name].pull(pull)
            total[name] = total[name] + (
                found if np.shape(total[name]) or name == "M" else found.sum()
            )
        places = self._of_places(state, derivatives.step, pull)
        return np.asarray(before + places), np.asarray(known["v"].pull(pull)), pull

    def _of_places(self, state: State, step: ContactStep, pull: Any) -> FloatArray:
        """(nv,) the cotangent of positions that rows and gaps have."""
        result, base = np.zeros(self.dofs.nv), _Rows.of(step)
        acts = np.abs(pull.bias) > 0.0
        for left, _ in pull.G.terms:
            acts |= left != 0.0
        rows = np.flatnonzero(acts)
        if not rows.size:
            return result
        touched = np.unique(sp.csr_array(base.G[rows]).indices)
        bodies = np.unique(self.dofs.body[touched])
        size = float(np.min(self.scene.bodies.reach[np.isfinite(self.scene.bodies.reach)]))
        for k in np.flatnonzero(np.isin(self.dofs.body, bodies)).tolist():
            h = _NEAR * (size if self.dofs.column[k] < self.scene.dim else 1.0)
            sides = []
            for sign in (1.0, -1.0):
                way = np.zeros(self.dofs.nv)
                way[k] = sign * h
                there = _Rows.of(self._step(self._moved(state, way), 10.0 * h))
                G, bias, found = there.like(base)
                if np.setdiff1d(rows, found).size:
                    why = "a contact appears or vanishes close to this state"
                    raise Unsupported("gradients of this run", why)
                sides.append((G, bias))
            dG, db = (sides[0][0] - sides[1][0]) / (2 * h), (sides[0][1] - sides[1][1]) / (2 * h)
            result[k] = float(pull.bias[rows] @ db[rows]) + pull.G.along(dG)
        return result


def _turn(way: FloatArray) -> tuple[FloatArray, FloatArray]:
    """R of a turn (3,) rad, and how it changes with the turn, in the global frame."""
    angle = float(np.linalg.norm(way))
    cross = np.array([[0.0, -way[2], way[1]], [way[2], 0.0, -way[0]], [-way[1], way[0], 0.0]])
    if angle < 1e-6:
        square = cross @ cross
        return np.eye(3) + cross + 0.5 * square, np.eye(3) + 0.5 * cross + square / 6.0
    a, b = math.sin(angle) / angle, (1.0 - math.cos(angle)) / angle**2
    c = (1.0 - a) / angle**2
    square = cross @ cross
    return np.eye(3) + a * cross + b * square, np.eye(3) + b * cross + c * square


def trajectory(
    scene: Scene,
    dt: float,
    steps: int,
    *,
    law: str | None = None,
    v_min: float = 0.0,
    state: State | None = None,
    stride: int | None = None,
) -> TrajectoryGradients:
    """A run of contact dynamics, one contact problem a step, that can be differentiated.

    Parameters
    ----------
    scene : the bodies; in space spheres, cubes and others with equal moments of inertia.
    dt : Δt, s. steps : how many.
    law : "coulomb" or "associated", with the friction of the scene's materials; None without.
    v_min : approach speed below which restitution does not act, m/s; above zero bodies that bounce
        come to rest, where with zero they are at a kink.
    state : to start from, by default the scene's own.
    stride : steps from one kept state to the next, by default about √steps.

    Raises
    ------
    InvalidInput : a bad argument. Unsupported : other bodies in space.
    SolveFailed : a step has no certified answer.

    Notes
    -----
    Gradients are those away from events: touch, lift-off and the onset of sliding in a step.
    """
    checks.instance("scene", scene, Scene)
    dt, steps = checks.positive("dt", dt), checks.whole("steps", steps, 1)
    if law is not None:
        checks.choice("law", law, LAWS)
    begin = scene.initial if state is None else checks.instance("state", state, State)
    scene.check_state(begin)
    every = max(math.isqrt(steps), 1) if stride is None else checks.whole("stride", stride, 1)
    how = law, checks.not_negative("v_min", v_min)
    return TrajectoryGradients(scene, dt, steps, how, begin, every)
