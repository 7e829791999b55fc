"""Reactions of joints as functions of the contact forces, and quantities that have both.

Under contact forces f the joints bear what the contacts do not: r = r₀ − A f, and any idle
reactions, which do nothing to the bodies. So their bounds are those of quantities of f; a quantity
that idle reactions change has none.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp

from cdopt._util.checks import BoolArray, FloatArray
from cdopt._util.frozen import Frozen
from cdopt.problem.joint_elimination import Eliminated
from cdopt.problem.solution import StepSolution
from cdopt.problem.step_problems import interleaved

_ROUND_OFF = 1e-13  # of the terms of a coefficient, what they leave when they cancel
_IDLE = 1e-9  # of a row of C: an idle reaction that changes the number by less does not change it


@dataclass(frozen=True, eq=False)
class JointReactions(Frozen):
    """The reactions r (nj,) under contact forces f (nc d,): r₀ − A f, and any of the idle ones."""

    A: sp.csr_array  # (nj, nc d)
    at_zero: FloatArray  # r₀ (nj,) N
    idle: sp.csr_array  # (nj, k) reactions that do nothing
    rank: int  # number of independent rows of J

    @staticmethod
    def of(joints: Eliminated, solution: StepSolution, d: int) -> JointReactions:
        """Reactions of a solution of the step, with d components of each contact's force."""
        step, rows = joints.given, joints.given.B
        if d > 1 and step.friction is not None:
            rows = interleaved(step.B, *step.friction.matrices)
        A = sp.csr_array(joints.motions.lift @ sp.csr_array(rows.T))
        at_zero = joints.reactions(np.asarray(solution.v_next), np.zeros(step.nc))
        return JointReactions(A, at_zero, joints.motions.idle, joints.motions.rank)

    @property
    def count(self) -> int:
        """Number of rows of joints."""
        return int(self.at_zero.size)

    def reactions(self, f: FloatArray) -> FloatArray:
        """(…, nj) N, the least reactions under forces f (…, nc d)."""
        return np.asarray(self.at_zero - (self.A @ f.T).T)

    def on_contacts(self, C: sp.csr_array) -> tuple[sp.csr_array, FloatArray, BoolArray]:
        """Rows C (m, nc d + nj) as numbers C′f + c: C′, c (m,), and which idle reactions change."""
        contacts = self.A.shape[1]
        own, of_joints = sp.csr_array(C[:, :contacts]), sp.csr_array(C[:, contacts:])
        size = np.sqrt(np.asarray(of_joints.multiply(of_joints).sum(axis=1)).ravel())
        size *= float(abs(self.idle).max()) if self.idle.nnz else 0.0
        moved = np.abs((of_joints @ self.idle).toarray()).max(axis=1, initial=0.0)
        free = moved > _IDLE * size
        rows = sp.csr_array(own - of_joints @ self.A)
        terms = abs(own) + abs(of_joints) @ abs(self.A)
        rows = sp.csr_array(rows.multiply(abs(rows) > _ROUND_OFF * terms))
        return rows, of_joints @ self.at_zero, free

    def states(self, of_contacts: sp.csr_array) -> sp.csr_array:
        """(k, nc d + nj) self-stress states, largest entry one, with those of idle reactions."""
        followed = sp.hstack([of_contacts, -(of_contacts @ self.A.T)])
        alone = sp.hstack([sp.csr_array((self.idle.shape[1], self.A.shape[1])), self.idle.T])
        states = sp.csr_array(sp.vstack([followed, alone]))
        largest = abs(states).max(axis=1).toarray().ravel()
        return sp.csr_array(states * (1.0 / np.where(largest > 0.0, largest, 1.0))[:, None])
