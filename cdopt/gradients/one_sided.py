"""The derivative of a step along one direction, where it is another one along the opposite.

A contact that just touches may open or press, and of contacts that hold the same motion a change
may leave some behind. The change of motion is the answer of one more contact step: contacts that
press in every answer keep their rate, as joints do, and the others may open,

    minimise over dv    ½ ‖dv − M⁻¹q‖²_M    subject to    G dv + r ≥ 0,  = 0 where forces press.

Where forces are not unique those count that the change decides for: of the admissible ones with the
least rᵀf (J. F. Bonnans & A. Shapiro, *Perturbation Analysis of Optimization Problems*, 2000,
section 5.2). Elastic contacts that touch are springs which cannot pull.

With friction a contact at the onset of slip, or one that slides without force, has two sides, on
each of which the law is linear: the one that fits is sought (``linear_law.Sides``).
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from cdopt._util.checks import BoolArray, FloatArray, IntArray
from cdopt._util.errors import Unsupported
from cdopt._util.linear_program import solved_program
from cdopt.formulations import ClassicCD, CompliantCD
from cdopt.gradients.step_tangent import Change, Result, StepTangent
from cdopt.hyperstatic import network
from cdopt.hyperstatic.sensitivity import require_certified
from cdopt.problem import ContactStep, Joints
from cdopt.problem.contact_law import HOOKE

_PRESSES = 1e-7  # of the largest force
_RANK = 1e-9  # singular values below this share of the largest are zero
_TURNS = 200  # of sides of kinks
_SLACK, _SEEN = 1e-9, 1e-5  # of the value of the first program, and of forces in the second


def jvp(tangent: StepTangent, change: Change) -> Result:
    """The change of results for a small step t ≥ 0 along a ``change`` of the data."""
    data = tangent.data
    if data.compliance is not None and (data.d > 1 or data.compliance.pulls):
        raise _at_kink(tangent, "regularised contacts")
    if data.d > 1:
        return _rough(tangent, change)
    return _rigid(tangent, change) if data.compliance is None else _elastic(tangent, change)


def _at_kink(tangent: StepTangent, who: str) -> Unsupported:
    near = [f"{k} (margin {tangent.margin[k]:.1e})" for k in tangent.kinks[:8].tolist()]
    why = f"{who} are at a kink of the law: {', '.join(near)}"
    return Unsupported("the one-sided derivative", why, ("a solution away from kinks",))


def _rough(tangent: StepTangent, change: Change) -> Result:
    """With friction, by trying sides of the kinks: the first that does not fit is turned.

    K. G. Murty, *Linear Complementarity* (1988), chapter 4: least-index pivots.
    """
    data, kinks = tangent.data, tangent.kinks
    if data.cones.d > 3 or not data.cones.uniform:
        raise _at_kink(tangent, "contacts with moments")
    sides = tangent.kinks_of_friction
    if sides.idle.any():
        raise _at_kink(tangent, "contacts with friction that have neither force nor rate")
    if change.mu is not None and np.any(change.mu[kinks]):
        raise _at_kink(tangent, "contacts whose friction changes")
    for _ in range(_TURNS):
        there = tangent.on(sides)
        if there.loose.any():
            raise _at_kink(tangent, "contacts whose forces are not determined")
        result = there.jvp(change)
        force, rate = there.along_kinks(sides, change, result)
        wrong = np.where(sides.held, force, rate) < -_SLACK
        if not wrong.any():
            return result
        held = sides.held.copy()
        held[np.argmax(wrong)] ^= True
        sides = sides._replace(held=held)
    raise _at_kink(tangent, "contacts without a consistent one-sided state")


def _rigid(tangent: StepTangent, change: Change) -> Result:
    many, nc = tangent.G.shape[0], tangent.rows
    rates = tangent.rates_of(change)
    contacts = np.flatnonzero(tangent.law.held | (tangent.margin <= tangent.tol))
    decided = _decided(tangent, contacts, rates)
    if change.G is not None and not decided.unique:
        why = "it depends on forces that are not determined"
        raise Unsupported("the one-sided derivative by B", why, ("compatible forces",))
    held = np.append(contacts[decided.presses], np.arange(nc, many))
    free, df = contacts[~decided.presses], np.zeros(many)
    joints = Joints(tangent.G[held], rates[held]) if held.size else None
    q = tangent.loads_of(change, decided.forces)
    step = _step(tangent, q, free, rates, joints=joints)
    answer = require_certified(ClassicCD(step).solve())
    df[free] = answer.f
    if answer.joint_forces is not None:
        df[held] = answer.joint_forces
    return tangent.result_of(change, decided.forces, np.asarray(answer.v_next), df)


def _elastic(tangent: StepTangent, change: Change) -> Result:
    data, nc = tangent.data, tangent.rows
    law = data.elastic_law
    if law.power != HOOKE:
        why = "springs that touch have no stiffness, or an infinite one, to first order"
        raise Unsupported("the one-sided derivative", why, ("power=2",))
    rates, many = tangent.rates_of(change), tangent.G.shape[0]
    touches = (tangent.margin <= tangent.tol) & ~np.asarray(data.cones.bilateral)
    springs = law.tangent(data.overlap(tangent.motion, tangent.forces[:nc]))
    pushes = np.flatnonzero((springs > 0.0) & ~touches)
    e = np.broadcast_to(np.asarray(change.forces, dtype=float), (many,))
    rates = rates.copy()
    rates[pushes] -= e[pushes] / (springs[pushes] * data.dt)
    held = np.append(pushes, np.arange(nc, many))
    stiffness = np.append(springs[pushes], np.full(many - nc, np.inf))
    joints = Joints(tangent.G[held], rates[held], stiffness) if held.size else None
    free, df = np.flatnonzero(touches), np.zeros(many)
    q = tangent.loads_of(change, tangent.forces)
    step = _step(tangent, q, free, rates, joints=joints, stiffness=law.stiffness[free])
    answer = require_certified(CompliantCD(step, HOOKE).solve())
    df[free] = answer.f
    if answer.joint_forces is not None:
        df[held] = answer.joint_forces
    return tangent.result_of(change, tangent.forces, np.asarray(answer.v_next), df)


def _step(
    tangent: StepTangent, q: FloatArray, free: IntArray, rates: FloatArray, **more: Any
) -> ContactStep:
    """The contact step whose motion is dv: loads q, and contacts ``free`` to open."""
    dt = tangent.data.dt
    still = np.zeros(q.size)
    B, phi = sp.csr_array(tangent.G[free]), np.zeros(free.size)
    return ContactStep(
        tangent.mass, B, phi, still, q / dt, dt, gap_rate=rates[free],
        dof_body=tangent.data.dof_body, **more,
    )  # fmt: skip


class _Decided(NamedTuple):
    """Forces (rows + nj,) N, which contacts (n,) press, and whether these are all forces."""

    forces: FloatArray
    presses: BoolArray
    unique: bool


def _decided(tangent: StepTangent, contacts: IntArray, rates: FloatArray) -> _Decided:
    """The admissible forces of these contacts (n,) with the least Σ f · rates."""
    own, n = tangent.forces[contacts], contacts.size
    unit = float(np.abs(own).max(initial=0.0)) or 1.0
    if not tangent.loose.any():
        return _Decided(tangent.forces, own > _PRESSES * unit, True)
    rows = np.append(contacts, np.arange(tangent.rows, tangent.G.shape[0]))
    G = sp.csr_array(tangent.G[rows] * (1.0 / np.sqrt(tangent.mass.diagonal))[None, :])
    length = network.equilibrated(G)[1]
    balance = sp.csr_array(G.T) * (1.0 / length)[None, :]
    load = balance @ (length * tangent.forces[rows] / unit)
    bounds: Any = [(0.0, None)] * n + [(None, None)] * (rows.size - n)
    cost = rates[rows] / length
    cost = cost / (float(np.abs(cost).max(initial=0.0)) or 1.0)
    what = "the forces of a one-sided derivative"
    least = solved_program(cost, what, A_eq=balance, b_eq=load, bounds=bounds)
    value = float(cost @ least)
    seen, none = sp.eye_array(n, rows.size), sp.csr_array((1, n))
    caps = [[-seen, sp.eye_array(n)], [sp.csr_array(cost[None, :]), none]]
    most = solved_program(
        np.append(np.zeros(rows.size), -np.ones(n)),
        what,
        A_ub=sp.block_array(caps, format="csr"),
        b_ub=np.append(np.zeros(n), value + _SLACK * (1.0 + abs(value))),
        A_eq=sp.hstack([balance, sp.csr_array((balance.shape[0], n))], format="csr"),
        b_eq=load,
        bounds=[*bounds, *[(0.0, 1.0)] * n],
    )
    presses = most[:n] > _SEEN
    held = np.append(np.flatnonzero(presses), np.arange(n, rows.size))
    forces = np.zeros_like(tangent.forces)
    forces[rows] = unit * most[: rows.size] / length
    bound = network.rank_of(network.equilibrated(sp.csr_array(G[held]))[0], _RANK)
    return _Decided(forces, presses, bound == held.size)
