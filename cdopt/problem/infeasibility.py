"""Proofs that a problem has no solution: a vector anyone can check by two products.

- A truss is infeasible exactly when some motion u has B u ≥ 0 and F̃ᵀu < 0: it presses on
  no contact, so that nothing resists it, yet the load drives it: an unbounded ray of (32).
- A rigid step is infeasible exactly when multipliers g ≥ 0 have Bᵀg = 0 and gᵀ bias < 0: a body
  squeezed between fixed walls.

The vector is found by a linear program (HiGHS through SciPy) and then checked here, to 1e-7 in
scaled units: a problem whose every answer is 1e7 times its own scale cannot be told from one that
has none.
"""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp

from cdopt._util.checks import read_only
from cdopt._util.errors import InfeasibilityProof
from cdopt._util.linear_program import linprog
from cdopt.problem import ProblemData, RigidStepData, TrussData
from cdopt.problem.scaling import column_scale

_OPTIONS = {"time_limit": 60.0}  # seconds; no proof is found by then
_MARGIN = 1e-7  # the proof's value must be this clear of zero, in scaled units


def prove(data: ProblemData) -> InfeasibilityProof | None:
    """Look for a proof that the problem is infeasible; None when there is none.

    Elastic steps always have an answer.
    """
    if isinstance(data, RigidStepData):
        return _prove_rigid(data)
    return _prove_truss(data) if isinstance(data, TrussData) else None


def _prove_truss(data: TrussData) -> InfeasibilityProof | None:
    free = np.flatnonzero(data.in_play)
    if free.size == 0:
        return None
    lever = data.dof_lever[free]
    B = sp.csr_array(data.B[:, free] * (1.0 / lever)[None, :])
    load = data.contact_load[free] / (lever * data.part_force[data.parts.dof][free])
    if not (np.isfinite(B.data).all() and np.isfinite(load).all()):
        return None
    answer = linprog(load, A_ub=-B, b_ub=np.zeros(data.nc), bounds=(-1.0, 1.0), options=_OPTIONS)
    if answer.x is None:
        return None
    motion = np.asarray(answer.x)
    value = float(load @ motion)
    violation = abs(float(np.min(B @ motion, initial=0.0)))
    if not value < -_MARGIN or violation > _MARGIN * abs(value):
        return None
    u = np.zeros(data.B.shape[1])
    u[free] = motion / lever
    return InfeasibilityProof("truss", read_only(u), float(data.contact_load @ u), violation)


def _prove_rigid(data: RigidStepData) -> InfeasibilityProof | None:
    step = data.step
    bias = step.p_vec if step.bias is None else step.bias
    rows = step.N if data.B is None else sp.csr_array(data.B.T)
    if data.nc == 0 or not np.any(bias < 0.0):
        return None
    reach = column_scale(sp.csr_array(rows.T))
    used = np.flatnonzero(reach > 0.0)
    scaled = sp.csr_array(rows[used] * (1.0 / reach[used])[:, None])
    closing = np.maximum(-bias, 0.0)
    height = data.parts.largest(data.parts.contact, closing)[data.parts.contact]
    slope = bias / np.where(height > 0.0, height, 1.0)
    if not (np.isfinite(scaled.data).all() and np.isfinite(slope).all()):
        return None
    answer = linprog(
        slope,
        A_eq=scaled,
        b_eq=np.zeros(used.size),
        bounds=(0.0, 1.0),
        options=_OPTIONS,
    )
    if answer.x is None:
        return None
    g = np.maximum(answer.x, 0.0)
    value = float(slope @ g)
    violation = float(np.abs(scaled @ g).max(initial=0.0))
    if not value < -_MARGIN or violation > _MARGIN * abs(value):
        return None
    return InfeasibilityProof("rigid step", read_only(g), float(bias @ g), violation)
