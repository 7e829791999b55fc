"""The constraints of MuJoCo's step as rows with cones, a compliance and a bias.

MuJoCo minimises ½ fᵀ(A + R) f + fᵀ(a⁰ − a_ref) over forces f in a product Ω of sets, A = J M⁻¹ Jᵀ
(Todorov, ICRA 2014; its documentation, chapter "Computation"). In velocities, times Δt: R Δt is the
compliance, and −J v − Δt a_ref the bias of the rates J v⁺ + b. Ω has

- a line for each row of an equality;
- a box for dry friction of a joint or a tendon, |f| ≤ frictionloss;
- a half-line for a limit, a contact without friction, and each edge of a pyramid;
- an ellipse f_n² ≥ Σ (f_k/μ_k)² for a contact with friction, in 3, 4 or 6 rows.

Here rows of the same kind are adjacent.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from cdopt._util import mujoco_state
from cdopt._util.checks import FloatArray, IntArray
from cdopt._util.errors import Unsupported
from cdopt.problem import Cones, ConeStep, HalfLines
from cdopt.problem.boxes import Boxes
from cdopt.problem.cone_products import Product
from cdopt.problem.cones import Lines
from cdopt.problem.rolling_cones import EllipticCones

_DIMENSIONS = (3, 4, 6)  # rows of elliptic contacts


def mujoco_rows(model: Any, data: Any) -> tuple[ConeStep, FloatArray, IntArray]:
    """The step, compliance R Δt (rows,) in m/(s N), and the index of each of MuJoCo's rows.

    Raises
    ------
    InvalidInput, Unsupported : as in ``SoftCD.from_mujoco``.
    """
    engine, model, now = mujoco_state.current(model, data)
    if model.opt.noslip_iterations:
        raise Unsupported(
            "noslip_iterations", "they solve another problem after that of the engine"
        )
    sticky = np.flatnonzero(getattr(now.contact, "adhesion", np.zeros(now.ncon)) != 0.0)
    if sticky.size:
        raise Unsupported(f"adhesion of contact {sticky[0]}", "its cone has no tip at zero")
    kind, rows, nv = np.array([int(t) for t in now.efc_type]), now.nefc, model.nv
    kinds = engine.mjtConstraint
    lines = _of(kind, kinds.mjCNSTR_EQUALITY)
    boxes = _of(kind, kinds.mjCNSTR_FRICTION_DOF, kinds.mjCNSTR_FRICTION_TENDON)
    pushes = _of(
        kind,
        kinds.mjCNSTR_LIMIT_JOINT,
        kinds.mjCNSTR_LIMIT_TENDON,
        kinds.mjCNSTR_CONTACT_FRICTIONLESS,
        kinds.mjCNSTR_CONTACT_PYRAMIDAL,
    )
    cones: list[Cones] = [Lines(lines.size), Boxes(np.array(now.efc_frictionloss[boxes]))]
    cones += [HalfLines(pushes.size)]
    order = [lines, boxes, pushes]
    first, many = np.array(now.contact.efc_address), np.array(now.contact.dim)
    elliptic = first >= 0
    elliptic[elliptic] = kind[first[elliptic]] == int(kinds.mjCNSTR_CONTACT_ELLIPTIC)
    for d in _DIMENSIONS:
        chosen = np.flatnonzero(elliptic & (many == d))
        cones.append(EllipticCones(np.array(now.contact.friction[chosen, : d - 1]), sliding=2))
        order.append((first[chosen, None] + np.arange(d)).ravel())
    here = np.concatenate(order).astype(np.int64)
    J = np.array(list(_rows(engine, model, now))).reshape(rows, nv)[here]
    dt, used = float(model.opt.timestep), [p for p in cones if p.nc]
    bias = -(J @ now.qvel) - dt * np.array(now.efc_aref)[here]
    step = ConeStep(
        M=mujoco_state.sparse_rows(
            mujoco_state.images(engine.mj_mulM, model, now, range(nv), nv), nv
        ),
        G=J,
        cones=Product(*used) if len(used) != 1 else used[0],
        bias=bias,
        v=now.qvel,
        F_ext=now.qfrc_smooth,
        dt=dt,
        dof_body=model.dof_bodyid,
    )
    place = np.empty(rows, dtype=np.int64)
    place[here] = np.arange(rows)
    return step, dt * np.array(now.efc_R)[here], place


def _rows(engine: Any, model: Any, now: Any) -> Any:
    """The rows of J, one after the other."""
    for row in mujoco_state.images(engine.mj_mulJacTVec, model, now, range(now.nefc), now.nefc):
        yield row.copy()


def _of(kind: IntArray, *kinds: Any) -> IntArray:
    """The rows of these kinds."""
    return np.flatnonzero(np.isin(kind, [int(k) for k in kinds]))
