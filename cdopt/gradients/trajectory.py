"""Gradients of a whole run, of contact dynamics or of the variational integrator.

One step of contact dynamics takes positions x and velocities v to v⁺, the answer of a contact step
with gaps and rows at x, and to x⁺ = x + Δt v⁺, turns included. Backwards, step by step,

    v̄ = v̄⁺ + Δt x̄⁺,    x̄ = x̄⁺ + (∂(G, b)/∂x)ᵀ of the step's own cotangents,

Rows and gaps follow the positions of the bodies by central differences of the narrow phase: bodies
move by 1e-5 of their size, contacts keep their names.
"""

from __future__ import annotations

import math
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
from cdopt.dynamics import VariationalSteps
from cdopt.formulations import ClassicCD, FrictionalCD
from cdopt.gradients.at import of
from cdopt.gradients.derivatives import StepDerivatives
from cdopt.gradients.run import NEAR, TrajectoryGradients
from cdopt.gradients.step_tangent import Cotangent, Result
from cdopt.gradients.variational_run import VariationalRun
from cdopt.problem import LAWS, ContactStep, StepSolution
from cdopt.problem.step_problems import interleaved
from cdopt.scene import Scene, State

METHODS = ("contact-dynamics", "variational")


@dataclass(frozen=True, eq=False)
class _Rows:
    """G and b of a step, and the number of each row: its contact's name, or that of its joint."""

    G: sp.csr_array
    bias: FloatArray
    names: IntArray

    @staticmethod
    def of(step: ContactStep) -> _Rows:
        """Rows of the contacts and joints of a step."""
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
        """G and b of the rows of ``other``, zero for missing rows, and the other rows' numbers."""
        _, there, here = np.intersect1d(other.names, self.names, return_indices=True)
        many = other.names.size
        pick = sp.csr_array((np.ones(here.size), (there, here)), shape=(many, self.names.size))
        return sp.csr_array(pick @ self.G), pick @ self.bias, there


class ContactRun(TrajectoryGradients):
    """A run of contact dynamics, by ``how``: law and v_min.

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
        self.law, self.v_min = how
        dofs = scene.dofs if self.law is None else scene.full_dofs
        if uneven(scene, dofs).size:
            why = "bodies in space with unequal moments of inertia change M as they turn"
            raise Unsupported("gradients of this run", why, ("spheres and cubes, or the plane",))
        super().__init__(scene, dt, steps, state, stride, dofs)

    def _totals(self) -> dict[str, Any]:
        total: dict[str, Any] = {"F_ext": np.zeros(self.dofs.nv), "M": 0.0, "restitution": 0.0}
        return total if self.law is None else {**total, "mu": 0.0}

    def _step(self, state: State, wider: float = 0.0, scene: Scene | None = None) -> ContactStep:
        """The contact step from a state, with contacts in a margin that is ``wider`` by m."""
        scene = self.scene if scene is None else scene
        margin = safe_margins(scene, state, self.dt) + wider
        contacts = collision.detect(scene, state, margin)
        friction = None if self.law is None else True
        return collision.step(
            scene, state, contacts, self.dt, v_min=self.v_min, overlaps="resolve", friction=friction
        )

    def _after(self, state: State) -> tuple[State, tuple[ClassicCD | FrictionalCD, StepSolution]]:
        step = self._step(state)
        problem = ClassicCD(step) if self.law is None else FrictionalCD(step, self.law)
        answer = problem.solve()
        v_next = np.asarray(answer.v_next)
        there = collision.advance(self.scene, state, v_next, self.dt, dofs=self.dofs)
        return there, (problem, answer)

    def _of_scenes(self, state: State, pair: tuple[Scene, Scene], cotangent: Cotangent) -> float:
        base = _Rows.of(self._step(state))
        steps: list[Any] = [self._step(state, 0.0, scene) for scene in pair]
        ahead, behind = steps
        (G, bias, _), (before, rates, _) = (_Rows.of(step).like(base) for step in steps)
        G, bias = (G - before) / (2.0 * NEAR), (bias - rates) / (2.0 * NEAR)
        M = sp.csr_array(ahead.M - behind.M) / (2.0 * NEAR)
        value = cotangent.G.along(G) + float(cotangent.bias @ bias) + cotangent.M.along(M)
        value += float(cotangent.F @ (ahead.F_ext - behind.F_ext)) / (2.0 * NEAR)
        if cotangent.mu is not None:
            of = [dict(zip(s.contact_ids, s.friction.mu, strict=True)) for s in steps]
            names = base.names[:: self.scene.dim][: cotangent.mu.size] // self.scene.dim
            change = [of[0].get(i, 0.0) - of[1].get(i, 0.0) for i in names.tolist()]
            value += float(cotangent.mu @ np.array(change)) / (2.0 * NEAR)
        return value

    def _back(
        self, state: State, taken: Any, *after: Any
    ) -> tuple[FloatArray, FloatArray, Cotangent]:
        (problem, answer), (x, v, total) = taken, after
        derivatives = of(problem, answer)
        if not isinstance(derivatives, StepDerivatives):
            raise TypeError(type(derivatives).__name__)
        derivatives._require_smooth("vjp")
        before, speed = self._turned(x, np.asarray(answer.v_next))
        tangent, nothing = derivatives.tangent, np.zeros(x.size)
        weights = Result(v + self.dt * speed, nothing, np.zeros(tangent.G.shape[0]))
        cotangent = tangent.vjp(weights)
        known = derivatives.parameters.known
        for name in total:
            gradient = known[name].vjp(cotangent)
            total[name] = total[name] + (
                gradient if np.shape(total[name]) or name == "M" else gradient.sum()
            )
        places = self._of_places(state, derivatives.step, cotangent)
        return np.asarray(before + places), np.asarray(known["v"].vjp(cotangent)), cotangent

    def _of_places(self, state: State, step: ContactStep, cotangent: Any) -> FloatArray:
        """(nv,) the cotangent of positions that rows and gaps have."""
        result, base = np.zeros(self.dofs.nv), _Rows.of(step)
        acts = np.abs(cotangent.bias) > 0.0
        for left, _ in cotangent.G.terms:
            acts |= left != 0.0
        rows = np.flatnonzero(acts)
        if not rows.size:
            return result
        touched = np.unique(sp.csr_array(base.G[rows]).indices)
        bodies = np.unique(self.dofs.body[touched])
        for k in np.flatnonzero(np.isin(self.dofs.body, bodies)).tolist():
            h = NEAR * (self._size if self.dofs.column[k] < self.scene.dim else 1.0)
            sides = []
            for sign in (1.0, -1.0):
                way = np.zeros(self.dofs.nv)
                way[k] = sign * h
                there = _Rows.of(self._step(self._moved(state, way), 10.0 * h))
                G, bias, shared = there.like(base)
                if np.setdiff1d(rows, shared).size:
                    why = "a contact appears or vanishes close to this state"
                    raise Unsupported("gradients of this run", why)
                sides.append((G, bias))
            dG, db = (sides[0][0] - sides[1][0]) / (2 * h), (sides[0][1] - sides[1][1]) / (2 * h)
            result[k] = float(cotangent.bias[rows] @ db[rows]) + cotangent.G.along(dG)
        return result


def trajectory(
    scene: Scene,
    dt: float,
    steps: int,
    *,
    method: str | VariationalSteps = "contact-dynamics",
    law: str | None = None,
    v_min: float = 0.0,
    state: State | None = None,
    stride: int | None = None,
) -> TrajectoryGradients:
    """A run that can be differentiated: one contact problem a step, or the variational integrator.

    Parameters
    ----------
    scene : the bodies; in space spheres, and with rigid contacts others with equal moments of
        inertia. dt : Δt, s. steps : how many.
    method : "contact-dynamics" for rigid contacts; "variational", or
        ``cdopt.dynamics.VariationalSteps`` with its α, for elastic ones without friction.
    law : "coulomb" or "associated", with the friction of the scene's materials; None without.
    v_min : approach speed below which restitution does not act, m/s; above zero bodies that bounce
        come to rest, where with zero they are at a kink.
    state : to start from, by default the scene's own.
    stride : steps from one kept state to the next, by default about √steps.

    Raises
    ------
    InvalidInput : a bad argument. Unsupported : other bodies in space; of the variational
        integrator joints, friction, and damping with α other than ½.
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
    v_min = checks.not_negative("v_min", v_min)
    if isinstance(method, str) and checks.choice("method", method, METHODS) == METHODS[0]:
        return ContactRun(scene, dt, steps, (law, v_min), begin, every)
    if law is not None:
        why = "its springs of friction remember the steps before"
        raise Unsupported("gradients of the variational integrator", why, ("law=None",))
    elastic: Any = VariationalSteps() if isinstance(method, str) else method
    settings: VariationalSteps = checks.instance("method", elastic, VariationalSteps)
    return VariationalRun(scene, dt, steps, settings, begin, every)
