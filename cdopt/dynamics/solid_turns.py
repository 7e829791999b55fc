"""Turns in space of the variational integrator: solids that turn by rotation vectors.

The unknown turn of a step is the rotation vector θ in the global frame, q⁺ = exp(θ) q and
q_α = exp(αθ) q. The discrete Lagrangian of a body that turns is, with Θ = Rᵀ θ::

    L_d(q, q⁺) = (1/2h) Θᵀ J₀ Θ − h V(q_α)

Its derivatives are, with φ = |θ|, P = 1 − θθᵀ/φ² and J_m the inertia at exp(½θ) q::

    ℓ  = J(θ) θ/h − h Aᵀ τ,   ℓ⁺ = J(θ) θ/h + h Bᵀ τ,   ℓ⁺ − ℓ = h τ
    J(θ) = S J_m S,   S = 1 + (½φ / sin ½φ − 1) P
    B = (exp(αθ) − 1) (exp(θ) − 1)⁻¹,   A = 1 − B

with τ the torque of V at q_α. A free body has τ = 0 and keeps ℓ exactly; J(θ) is symmetric and
positive definite, so that a pass of a step with J(θ̂) is the convex problem of a body that is
displaced. For α = ½, Aᵀ τ = ½ (τ − tan(¼φ) θ × τ/φ). Spheres have J(θ) θ = J₀ θ.

Bou-Rabee & Marsden (2009), Hamilton–Pontryagin integrators on Lie groups, with the exponential map;
the forces are those of De Klerk et al. (2021).
"""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp

from cdopt._util.checks import FloatArray
from cdopt.collision import mass_matrix
from cdopt.collision.motion import body_axes, cross_matrices, rates, uneven
from cdopt.geometry.rotations import turned
from cdopt.scene import SHAPES, Dofs, Scene, Sphere, State

_PASSES = 60  # of Newton's method for the free motion; four to eight at small turns
_SETTLED = 1e-15  # change of θ, as a share, that ends it
_SMALL = 1e-4  # rad, below which series are used


class SolidTurns:
    """The free solids of a scene that turn in space; none in the plane.

    Attributes
    ----------
    body : (n,) their numbers; spheres, which no elastic force turns, are not among them.
    uneven : (n,) bodies with unequal moments of inertia, a part of them.
    """

    def __init__(self, scene: Scene, dofs: Dofs) -> None:
        b = scene.bodies
        solid = ~b.fixed & (b.kind != SHAPES.index(Sphere)) & (scene.dim == 3)
        self.scene, self.dofs = scene, dofs
        self.body = np.flatnonzero(solid)
        self.uneven = uneven(scene, dofs)

    def free_turn(self, state: State, h: float) -> FloatArray:
        """θ (n, 3) of the uneven bodies in a step h without forces, rad.

        Newton's method along the principal axes for h Λ = J₀Θ + ½ Θ × J₀Θ + c Θ × (Θ × J₀Θ), which
        is J(θ) θ = h ℓ, c = (1 − ½φ cot ½φ)/φ². The change of c is left out of the derivative.
        """
        body, bodies = self.uneven, self.scene.bodies
        axes, moments = body_axes(bodies, body, state.orientation[body]), bodies.inertia[body]
        turn = h * np.einsum("nji,nj->ni", axes, state.angular_velocity[body])
        aim = moments * turn
        for _ in range(_PASSES):
            angle, cross = np.linalg.norm(turn, axis=1)[:, None, None], cross_matrices(turn)
            spin, inertia = moments * turn, moments[:, :, None] * np.eye(3)
            factor = np.eye(3) + 0.5 * cross + _second(angle) * (cross @ cross)
            missing = aim - np.einsum("nij,nj->ni", factor, spin)
            slope = factor @ inertia - 0.5 * cross_matrices(spin)
            change = np.linalg.solve(slope, missing[:, :, None])[:, :, 0]
            turn = turn + change
            if np.abs(change).max(initial=0.0) <= _SETTLED * np.abs(turn).max(initial=0.0):
                break
        return np.asarray(np.einsum("nij,nj->ni", axes, turn))

    def mass(self, state: State, d: FloatArray) -> sp.csr_array:
        """M (nv, nv) of a step from ``state`` by d (nv,), the turns of uneven bodies by J(θ)."""
        body = self.uneven
        turn = self._rows(d)[body, 3:]
        if not turn.any():
            return mass_matrix(self.scene, state, self.dofs)
        q = np.array(state.q)
        q[body, 3:] = turned(state.orientation[body], 0.5 * turn)
        M = mass_matrix(self.scene, State(state.t, q, state.v), self.dofs)
        angle = np.linalg.norm(turn, axis=1)[:, None, None]
        axis = turn / np.where(angle > 0.0, angle, 1.0)[:, :, 0]
        across = np.eye(3) - axis[:, :, None] * axis[:, None, :]
        stretch = (1.0 / np.sinc(angle / (2.0 * np.pi)) - 1.0) * across
        number = self.dofs.number[body, 3:]
        entries = np.repeat(number, 3, axis=1).ravel(), np.tile(number, (1, 3)).ravel()
        S = sp.coo_array((stretch.ravel(), entries), shape=M.shape).tocsr()
        S = sp.csr_array(S + sp.eye_array(M.shape[0]))
        return sp.csr_array(S @ M @ S)

    def later_share(self, alpha: float, d: FloatArray, force: FloatArray) -> FloatArray:
        """(α − Bᵀ) τ (nv,) of generalised elastic forces (nv,): what acts before q_α, not after.

        Parameters
        ----------
        alpha : α. d : (nv,) displacement of the step. force : (nv,) N and N·m.
        """
        torque, turn = self._rows(force)[self.body, 3:], self._rows(d)[self.body, 3:]
        angle = np.linalg.norm(turn, axis=1)[:, None]
        axis = turn / np.where(angle > 0.0, angle, 1.0)
        along = (axis * torque).sum(axis=1)[:, None] * axis
        length = alpha * np.sinc(alpha * angle / (2.0 * np.pi)) / np.sinc(angle / (2.0 * np.pi))
        late = 0.5 * (1.0 - alpha) * angle
        across = np.cos(late) * (torque - along) + np.sin(late) * np.cross(axis, torque)
        table = np.zeros_like(self.scene.initial.v)
        table[self.body, 3:] = alpha * (torque - along) - length * across
        return self.dofs.gather(table)

    def velocities(self, q: FloatArray, v: FloatArray, mom: FloatArray) -> FloatArray:
        """``v`` (nb, 6) with the angular velocities of the momenta ``mom`` (nv,) at q (nb, 7)."""
        spin, result = self._rows(mom)[self.body, 3:], np.array(v)
        result[self.body, 3:] = rates(self.scene.bodies, self.body, q[self.body, 3:], spin)
        return result

    def _rows(self, values: FloatArray) -> FloatArray:
        """Degrees of freedom (nv,) as a table like State.v."""
        return self.dofs.scatter(values, np.zeros_like(self.scene.initial.v))


def _second(angle: FloatArray) -> FloatArray:
    """(1 − ½φ cot ½φ)/φ² of angles φ."""
    half = 0.5 * np.where(angle > _SMALL, angle, 1.0)
    exact = (1.0 - half / np.tan(half)) / (4.0 * half * half)
    return np.where(angle > _SMALL, exact, 1.0 / 12.0 + angle * angle / 720.0)
