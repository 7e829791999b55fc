"""Steps with joints in coordinates that satisfy them: elimination of joints, and reactions.

The motions with J v + rate = 0 are v = v₀ + Z y, with y some of the degrees of freedom. In y a
step has no joints: its mass is ZᵀM Z, its gap gradient B Z, its load ZᵀF. Its contact forces are
those of the step, its objectives, too, up to a constant. Reactions balance the bodies,

    Jᵀ r = M (v⁺ − v*)/Δt − Bᵀ f,

unique if the rows of J are independent. A joint is not equivalent to two contacts that push against
each other: opposite forces of such a pair would be a further self-stress state.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp

from cdopt._util.checks import FloatArray, IntArray, freeze, read_only
from cdopt._util.errors import InfeasibilityProof
from cdopt._util.frozen import Frozen
from cdopt.problem.contact_step import ContactStep, with_matrices
from cdopt.problem.joints import JointedMotion, Joints
from cdopt.problem.mass import MassMatrix
from cdopt.problem.scaling import components, rows_of
from cdopt.problem.step import Step


@dataclass(frozen=True, eq=False)
class Eliminated(Frozen):
    """A step in coordinates that satisfy its rigid joints."""

    given: ContactStep  # the step with joints
    joints: Joints  # those that are eliminated
    kept: Joints | None  # the others, springs, in the remaining coordinates; or None
    motions: JointedMotion  # the motions that satisfy the joints
    step: ContactStep  # the step in their coordinates, with the same contacts and no joints

    def coordinates(self, motion: FloatArray) -> FloatArray:
        """y (m,) of a motion (nv,) that satisfies the joints."""
        return np.asarray((motion - self.motions.offset)[self.motions.free])

    def full(self, y: FloatArray) -> FloatArray:
        """The motion (nv,) of coordinates y (m,)."""
        return self.motions.motion(y)

    def load(
        self, f: FloatArray, f_t: FloatArray | None = None, f_r: FloatArray | None = None
    ) -> FloatArray:
        """Bᵀ f (nv,) of contact forces f (nc,), f_t (nc, d − 1) and moments f_r (nc, k)."""
        step, load = self.given, np.asarray(self.given.B.T @ f)
        if f_t is not None and step.friction is not None:
            load = load + step.friction.B_t.T @ f_t.ravel()
        if f_r is not None and step.friction is not None:
            load = load + step.friction.B_r.T @ f_r.ravel()
        return load

    def moved(self, given: ContactStep) -> Eliminated:
        """The same for a step that differs only in gaps, velocity and loads."""
        changes = _state(given, self.motions, self.step.mass)
        there = type(given)._of(**{**self.step.__getstate__(), **changes})
        return dataclasses.replace(self, given=given, step=there)

    @property
    def rates(self) -> FloatArray:
        """(nc d,) m/s: the rates of the contacts where the coordinates are zero."""
        step, offset = self.given, self.motions.offset
        rows, friction = [np.asarray(step.B @ offset)[:, None]], step.friction
        if friction is not None:
            rows += [np.asarray(B @ offset).reshape(step.nc, -1) for B in friction.matrices]
        return np.hstack(rows).ravel()

    def proof(self, reduced: InfeasibilityProof) -> InfeasibilityProof:
        """The proof that the step has no solution, of one in coordinates: joints come last."""
        nc, friction = self.given.nc, self.given.friction
        rows, f_t, f_r = reduced.vector.reshape(nc, -1), None, None
        if rows.shape[1] > 1 and friction is not None:
            f_t, f_r = rows[:, 1 : friction.d], rows[:, friction.d :] if friction.moments else None
        of_joints = -self.motions.reactions(self.load(rows[:, 0], f_t, f_r))
        vector = read_only(np.concatenate([reduced.vector, of_joints]))
        return dataclasses.replace(reduced, vector=vector)

    def reactions(
        self,
        v_next: FloatArray,
        f: FloatArray,
        f_t: FloatArray | None = None,
        f_r: FloatArray | None = None,
        springs: FloatArray | None = None,
    ) -> FloatArray:
        """(nj,) N, the least reactions of all joints; ``springs`` (n,) are forces of those kept."""
        return self.balance(v_next, self.load(f, f_t, f_r), springs)

    def balance(
        self, v_next: FloatArray, load: FloatArray, springs: FloatArray | None = None
    ) -> FloatArray:
        """The same under a ``load`` (nv,) of the contacts, N and N·m."""
        step = self.given
        return self.bearing(step.mass.times(v_next - step.v_star) / step.dt - load, springs)

    def bearing(self, needed: FloatArray, springs: FloatArray | None = None) -> FloatArray:
        """(nj,) N, the least reactions with the resultant ``needed`` (nv,), N and N·m."""
        if self.kept is None or springs is None:
            return self.motions.reactions(needed)
        result = np.empty(self.all.count)
        result[self.soft] = springs
        result[self.all.rigid] = self.motions.reactions(needed - self.all.J[self.soft].T @ springs)
        return result

    @property
    def all(self) -> Joints:
        """The joints of the step."""
        return self.joints if self.given.joints is None else self.given.joints

    @property
    def soft(self) -> IntArray:
        """(n,) indices of the joints that are springs."""
        return np.flatnonzero(np.isfinite(self.all.stiffness))


def _moved(B: sp.csr_array, offset: FloatArray, rate: FloatArray) -> FloatArray:
    """The ``rate`` (nc, k) of rows B (nc k, nv), with the motion ``offset`` (nv,) in it."""
    return np.asarray(rate + np.asarray(B @ offset).reshape(rate.shape))


def eliminated(step: Step, springs: bool = False) -> Eliminated | None:
    """The step in coordinates that satisfy its joints, but for ``springs``; None without any."""
    joints, kept = step.joints, None
    if joints is None:
        return None
    step = with_matrices(step, "joints")
    if springs and joints.rigid.size < joints.count:
        soft = np.isfinite(joints.stiffness)
        joints, kept = joints.rows(~soft), joints.rows(soft)
    motions = JointedMotion.of(joints, 1.0 / np.sqrt(step.mass.diagonal))
    Z, offset, friction = motions.Z, motions.offset, step.friction
    M = sp.csr_array(Z.T @ step.M @ Z)
    if not Z.nnz:  # nothing moves
        M = sp.csr_array(np.eye(1))
    mass = MassMatrix(freeze(sp.csr_array((M + M.T) * 0.5)))
    if friction is not None:
        rough: dict[str, Any] = {"B_t": freeze(sp.csr_array(friction.B_t @ Z))}
        rough["rate"] = _moved(friction.B_t, offset, friction.rate)
        if friction.B_r is not None:
            rough["B_r"] = freeze(sp.csr_array(friction.B_r @ Z))
            rough["spin"] = _moved(friction.B_r, offset, friction.spin)
        friction = dataclasses.replace(friction, **rough)
    if kept is not None:
        J = freeze(sp.csr_array(kept.J @ Z))
        moved = read_only(kept.rate + kept.J @ offset)
        kept = Joints._of(J=J, rate=moved, stiffness=kept.stiffness, names=kept.names)
    changes: dict[str, Any] = {
        "M": mass,
        "B": freeze(sp.csr_array(step.B @ Z)),
        **_state(step, motions, mass),
        "dof_body": None if step.dof_body is None else _assemblies(step)[motions.free],
        "friction": friction,
        "joints": None,
    }
    there = type(step)._of(**{**step.__getstate__(), **changes})
    return Eliminated(step, joints, kept, motions, there)


def _state(step: ContactStep, motions: JointedMotion, mass: MassMatrix) -> dict[str, Any]:
    """Gaps, velocity and loads in coordinates, in which bodies have this ``mass``."""
    Z, offset = motions.Z, motions.offset
    rates, phi, rebound = np.asarray(step.B @ offset), step.phi, step.restitution
    gap_rate = step.gap_rate + rates
    if step.impacting.any():  # the rebound is that of the step
        phi, gap_rate = step.dt * (step.bias + rates), np.zeros(step.nc)
        rebound = gap_rate
    return {
        "phi": phi,
        "gap_rate": gap_rate,
        "restitution": rebound,
        "v": mass.solve(np.asarray(Z.T @ step.mass.times(step.v - offset))),
        "F_ext": np.asarray(Z.T @ step.F_ext),
    }


def _assemblies(step: ContactStep) -> IntArray:
    """(nv,) the body of each dof, the first one of each assembly.

    An assembly counts as one body for the scales of a certificate: coordinates of one of its bodies
    may bear no load while the others do.
    """
    body, J = step.dof_body, step.joints
    if body is None or J is None:
        raise TypeError("a step without bodies or joints")
    rows, many = J.count, int(body.max(initial=-1)) + 1
    label, _ = components(rows_of(J.J), rows + body[J.J.indices], rows + many)
    first = np.full(label.max(initial=-1) + 1, many)
    np.minimum.at(first, label[rows:], np.arange(many))
    return read_only(first[label[rows:]][body])
