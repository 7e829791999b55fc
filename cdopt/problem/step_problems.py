"""Steps and static networks as contact problems: rigid, with friction, elastic, or at rest."""

from __future__ import annotations

import dataclasses
from functools import lru_cache
from typing import Any

import numpy as np
import scipy.sparse as sp

from cdopt._util import checks
from cdopt._util.cached import changed
from cdopt._util.checks import BoolArray, FloatArray, IntArray, freeze, read_only
from cdopt._util.errors import InvalidInput
from cdopt._util.frozen import frozen_rows
from cdopt.problem.cone_products import Product
from cdopt.problem.cone_step import ConeStep
from cdopt.problem.cones import Cones, HalfLines, Lines
from cdopt.problem.contact_law import PowerLaw, RowSprings, TwoSidedLaw
from cdopt.problem.contact_problem import ContactProblem
from cdopt.problem.contact_step import ContactStep, with_matrices
from cdopt.problem.delassus_scales import DelassusScales
from cdopt.problem.delassus_step import DelassusStep
from cdopt.problem.friction import Friction
from cdopt.problem.joints import Joints
from cdopt.problem.scales import MatrixScales
from cdopt.problem.scaling import rows_of, total_by
from cdopt.problem.sliders import StepSliders
from cdopt.problem.static_scales import StaticScales
from cdopt.problem.step import Step

LAWS = ("coulomb", "associated")
_FEW, _STEPS = 200, 16  # contacts at most, and number, of the steps whose problems are kept
_IDLE = 1e-20  # a dof with less than this share of every contact's mobility moves none of them


def rigid_data(step: Step) -> ContactProblem:
    """The problem of classic contact dynamics on the normal rows of a step."""
    return _problem(checks.instance("step", step, Step), None)


def _problem(step: Step, law: str | None) -> ContactProblem:
    """The problem of a step under a law of friction; those of the last small steps are kept.

    So further formulations of a step find its parts, bodies and units again, but no answers.
    """
    if step.nc > _FEW:
        return _made(step, law)
    data = _kept(step, law)
    data.forget_answers()
    return data


def _made(step: Step, law: str | None) -> ContactProblem:
    return _rigid(step) if law is None else _frictional(step, law)


_kept = lru_cache(_STEPS)(_made)


def _rigid(step: Step) -> ContactProblem:
    cones = HalfLines(step.nc)
    if isinstance(step, DelassusStep):
        return _with_delassus("rigid step", cones, step, step.N, step.p_vec)
    step = with_matrices(step, "a step with bodies")
    return _with_matrices("rigid step", cones, step, step.B, step.bias, step.gap_rate)


def frictional_data(step: Step, law: str) -> ContactProblem:
    """The problem of a step with friction under a law of ``LAWS``.

    Raises
    ------
    InvalidInput : a step without friction, or no such law.
    """
    checks.instance("step", step, Step)
    if step.friction is None:
        raise InvalidInput("step", "one without friction", "a step with friction")
    return _problem(step, checks.choice("law", law, LAWS))


def _frictional(step: Step, law: str) -> ContactProblem:
    friction: Any = step.friction
    cones = friction.cones
    if isinstance(step, DelassusStep):
        return _with_delassus("frictional step", cones, step, step.N_rows, step.p_rows, law)
    step = with_matrices(step, "a step with bodies")
    B = interleaved(step.B, *friction.matrices)
    bias, rate = (_with_tangents(x, friction) for x in (step.bias, step.gap_rate))
    return _with_matrices("frictional step", cones, step, B, bias, rate, law=law)


def with_lines(data: ContactProblem, J: sp.csr_array, rate: FloatArray) -> ContactProblem:
    """The same step with bilateral rows after its contacts: J v⁺ + rate = 0.

    ``J`` is (n, nv), ``rate`` (n,) in m/s or rad/s. The rows count as contacts of one row each,
    without names and points. Raises InvalidInput for a step without a mass matrix.
    """
    J = checks.matrix("J", J, None, data.nv)
    rate = checks.answer("rate", rate, J.shape[0])
    if data.inertia is None:
        raise InvalidInput("data", f"a {data.kind} without a mass matrix", "a step of bodies")
    B = sp.csr_array(sp.vstack([data.B, _without_idle(J, data.inertia.diagonal)]))
    return dataclasses.replace(
        data,
        cones=Product(data.cones, Lines(J.shape[0])),
        B=freeze(B),
        p=read_only(np.concatenate([data.p, J @ data.free_motion + rate])),
        bias=read_only(np.concatenate([data.bias, rate])),
        free_rates=read_only(np.concatenate([data.free_rates, J @ data.free_motion + rate])),
        contact_ids=None,
        points=None,
    )


def _with_tangents(normal: FloatArray, friction: Friction) -> FloatArray:
    """(rows,) rates of the normal rows (nc,), and those of the tangential ones and of moments."""
    return np.column_stack([normal, friction.rate, friction.spin]).ravel()


def on_same_network(data: ContactProblem, step: ContactStep) -> ContactProblem:
    """The rigid problem of a step that differs from that of ``data`` only in phi, v and F_ext.

    Results that depend only on B and M are taken from ``data``, also scaled matrices: the ratios of
    the units of rigid contacts do not depend on the rates; for others a TypeError is raised.
    """
    scales, moved = data.scales, data.times(step.v_star)
    if not isinstance(scales, MatrixScales) or data.compliance is not None:
        raise TypeError(f"the units of a {data.kind} depend on its rates")
    bias, rate = data.bias.copy(), data.bias.copy()  # those of tangents and joints stay
    normal = slice(0, step.nc * data.d, data.d)
    bias[normal], rate[normal] = step.bias, step.gap_rate
    new = changed(
        data,
        free_motion=step.v_star,
        start=step.v,
        applied=step.F_ext,
        p=read_only(moved + bias),
        bias=read_only(bias),
        free_rates=read_only(moved + rate),
    )
    known = {name: getattr(data, name) for name in ("entry_row", "products", "row_part", "_cache")}
    vars(new).update(known, scales=scales.of(new))
    return new


def elastic_data(
    step: ContactStep,
    compliance: PowerLaw,
    sliders: StepSliders | None = None,
    springs: Joints | None = None,
) -> ContactProblem:
    """The problem of a step on elastic contacts.

    ``compliance`` has the stiffness (nc,) in N/m^(p−1), ``sliders`` are its springs with caps.
    ``springs`` are joints of finite stiffness, in the same unit, whose rows come after the
    contacts': they push and pull with the same power.
    """
    checks.instance("step", step, ContactStep)
    checks.instance("compliance", compliance, PowerLaw)
    if springs is not None:
        compliance = _with_springs(compliance, springs)
    if sliders is not None:
        checks.instance("sliders", sliders, StepSliders)
    kind = "elastic step" if sliders is None else "elastic step with sliders"
    cones, more = HalfLines(step.nc), {"compliance": compliance, "sliders": sliders}
    data = _with_matrices(kind, cones, step, step.B, step.bias, step.gap_rate, **more)
    if springs is None:
        return data
    if sliders is not None:
        padded = sliders.sliders.and_without(springs.count)
        data = dataclasses.replace(data, sliders=dataclasses.replace(sliders, sliders=padded))
    return with_lines(data, springs.J, springs.rate)


def _with_springs(law: PowerLaw, springs: Joints) -> TwoSidedLaw:
    """The law of contacts, then of joints of finite stiffness, which also pull."""
    stiffness = read_only(np.append(law.stiffness, springs.stiffness))
    return TwoSidedLaw(stiffness, law.power, np.arange(stiffness.size) >= law.stiffness.size)


def soft_data(
    step: ContactStep | ConeStep, compliance: Any, bias: Any = None, springs: Joints | None = None
) -> ContactProblem:
    """The problem of a step under the associated law with R f added to the rates.

    Parameters
    ----------
    step : with friction or without, or with rows of any cones.
    compliance : R, m/(s·N), positive: one number or (rows,).
    bias : (rows,) m/s; by default that of the step.
    springs : joints of finite stiffness k, N/m, whose rows come after those of the contacts: they
        have R = 1/(k Δt).

    Raises
    ------
    InvalidInput : compliance that differs between the tangential rows of a contact whose cone is
        round.
    """
    if isinstance(step, ConeStep):
        data = _with_matrices("soft step", step.cones, step, step.G, step.bias, 0.0 * step.bias)
    else:
        checks.instance("step", step, ContactStep, ConeStep)
        data = rigid_data(step) if step.friction is None else frictional_data(step, "associated")
    cones = data.cones
    compliance = checks.per_contact("compliance", compliance, cones.rows, positive=True)
    uneven = np.flatnonzero(~cones.takes_units(1.0 / np.sqrt(compliance)))
    if uneven.size:
        found = f"different values for the tangential rows of contact {uneven[0]}"
        raise InvalidInput("compliance", found, "equal ones, as its cone is round")
    bias = data.bias if bias is None else checks.vector("bias", bias, cones.rows, "m/s")
    p = read_only(np.asarray(data.B @ data.free_motion + bias))
    soft = dataclasses.replace(data, kind="soft step", bias=bias, p=p)
    if springs is not None:
        springs = checks.instance("springs", springs, Joints)
        soft = with_lines(soft, springs.J, springs.rate)
        compliance = np.append(compliance, 1.0 / (springs.stiffness * soft.dt))
    return soft.softened(compliance)


def truss_data(
    B: sp.csr_array,
    contact_load: FloatArray,
    compliance: PowerLaw,
    gaps: FloatArray | None = None,
    free: BoolArray | None = None,
    prescribed_u: FloatArray | None = None,
    two_sided: BoolArray | None = None,
    **names: Any,
) -> ContactProblem:
    """The problem of a static network: Bᵀf = F̃ on free dofs, f = w′(c), c = −(B u + gaps).

    Equations (32), (33) and (36) of Olsen & Kamrin (2018), with the sign of (32) corrected.

    Parameters
    ----------
    B : (nc, nv). contact_load : F̃ (nv,), N and N·m; not used on dofs that are not free.
    compliance : stiffness (nc,) in N/m^(p−1) and power.
    gaps : (nc,) m, at u = 0; by default all contacts touch.
    free : (nv,) mask of the free dofs; by default all.
    prescribed_u : (nv,) displacement of the others, m; zero on free dofs.
    two_sided : (nc,) which also pull; by default none.
    names : ``contact_ids``, ``dof_body``, ``step_bodies`` and ``step_acting``, as in
        ``ContactProblem``.
    """
    B = checks.matrix("B", B, None, None)
    nc, nv = B.shape
    checks.instance("compliance", compliance, PowerLaw)
    contact_load = checks.answer("contact_load", contact_load, nv)
    gaps = np.zeros(nc) if gaps is None else checks.answer("gaps", gaps, nc)
    u = np.zeros(nv) if prescribed_u is None else checks.answer("prescribed_u", prescribed_u, nv)
    free = None if free is None else checks.flags("free", free, (nv,))
    opened = total_by(rows_of(B), B.data * u[B.indices], nc)
    cones: Cones = HalfLines(nc)
    if two_sided is not None and np.any(two_sided):
        both = checks.flags("two_sided", two_sided, (nc,))
        compliance = TwoSidedLaw(compliance.stiffness, compliance.power, both)
        cones = _runs(both)
    return ContactProblem(
        "truss",
        cones,
        B,
        read_only(opened + gaps),
        gaps,
        contact_load,
        read_only(u),
        StaticScales,
        compliance=compliance,
        free=free,
        **names,
    )


def under_load(
    data: ContactProblem, contact_load: FloatArray, step_acting: FloatArray | None
) -> ContactProblem:
    """The static network ``data`` under another load (nv,), with local loads of a step (nv,).

    Results that do not depend on the load are taken from ``data``. Raises a TypeError for a step.
    """
    scales = data.scales
    if not isinstance(scales, StaticScales):
        raise TypeError(f"a {data.kind}, whose load is that of its forces")
    new = changed(data, contact_load=contact_load, step_acting=step_acting)
    same = scales.under_load(new)
    if same is not None:
        known = {name: getattr(data, name) for name in ("entry_row", "products", "_cache")}
        vars(new).update(known, scales=same)
    return new


def _runs(both: BoolArray) -> Cones:
    """Lines where ``both`` (nc,), half-lines elsewhere."""
    ends = np.flatnonzero(np.diff(both)) + 1
    starts = np.concatenate([[0], ends]).tolist()
    many = np.diff([*starts, both.size]).tolist()
    kinds = zip(starts, many, strict=True)
    runs = [Lines(n) if both[at] else HalfLines(n) for at, n in kinds]
    return runs[0] if len(runs) == 1 else Product(*runs)


def friction_network_data(
    B: sp.csr_array,
    contact_load: FloatArray,
    cones: Cones,
    stiffness: FloatArray,
    trial: FloatArray,
    law: str,
    dof_body: IntArray | None = None,
) -> ContactProblem:
    """The problem of an elastic network with friction: Bᵀf = F̃, f of springs in cones or faces.

    Parameters
    ----------
    B : (rows, nv). contact_load : F̃ (nv,), N and N·m. cones : of the contacts, and of joints of
        finite stiffness after them.
    stiffness : (rows,) N/m. trial : (rows,) N, forces of the springs at u = 0.
    law : of the micro-slip, "associated" (Haar & Kármán) or "coulomb".
    dof_body : (nv,) the body of each dof; by default each is by itself.
    """
    gaps = read_only(-trial / stiffness)
    return ContactProblem(
        "friction network",
        cones,
        B,
        gaps,
        gaps,
        contact_load,
        read_only(np.zeros(B.shape[1])),
        StaticScales,
        compliance=RowSprings(stiffness),
        law=law,
        dof_body=dof_body,
    )


def _with_matrices(
    kind: str,
    cones: Cones,
    step: ContactStep | ConeStep,
    B: sp.csr_array,
    bias: FloatArray,
    rate: FloatArray,
    **more: Any,
) -> ContactProblem:
    """A step of bodies with inertia, whose rows (rows, nv) are B.

    ``rate`` (rows,) in m/s is the share of the ``bias`` (rows,) that moves with the frame.
    """
    rest = step.v_star
    free = total_by(rows_of(B), B.data * rest[B.indices], B.shape[0])
    return ContactProblem(
        kind,
        cones,
        _without_idle(B, step.mass.diagonal),
        read_only(free + bias),
        read_only(bias),
        np.zeros(step.nv),
        rest,
        MatrixScales,
        step.dt,
        inertia=step.mass,
        start=step.v,
        applied=step.F_ext,
        free_rates=read_only(free + rate),
        dof_body=step.dof_body,
        contact_ids=step.contact_ids,
        points=step.points,
        **more,
    )


def _with_delassus(
    kind: str,
    cones: Cones,
    step: DelassusStep,
    N: sp.csr_array,
    p: FloatArray,
    law: str = "associated",
) -> ContactProblem:
    """A step known only by N (rows, rows) and p (rows,)."""
    return ContactProblem(
        kind,
        cones,
        sp.csr_array((cones.rows, 0)),
        p,
        p,
        np.zeros(0),
        np.zeros(0),
        DelassusScales,
        step.dt,
        N=N,
        law=law,
        contact_ids=step.contact_ids,
        points=step.points,
    )


def _without_idle(B: sp.csr_array, mass: FloatArray) -> sp.csr_array:
    """B (rows, nv) without columns that move gaps only by round-off.

    These are rotations of spheres, whose levers are zero up to 1e-16: they would couple the forces
    like any other.
    """
    moving, rows = np.zeros(B.shape[1], dtype=bool), rows_of(B)
    share = B.data**2 / mass[B.indices]
    total = total_by(rows, share, B.shape[0])
    moving[B.indices[share > _IDLE * total[rows]]] = True
    if moving[B.indices].all():
        return B
    return freeze(sp.csr_array(B * np.where(moving, 1.0, 0.0)[None, :]))


def loaded_by_sliders(data: ContactProblem, motion: FloatArray) -> ContactProblem:
    """The elastic step with the forces of its sliders at a ``motion`` (nv,) as loads.

    Given the motion, these forces follow from the law. Without sliders a TypeError is raised.
    """
    if data.sliders is None:
        raise TypeError("a problem without sliders")
    rest = data.free_motion + data.dt * data.mass.solve(data.sliders.load(motion))
    p = data.times(rest) + data.bias
    rates = data.free_rates + (p - data.p)
    return dataclasses.replace(
        data, kind="elastic step", sliders=None, free_motion=rest, p=p, free_rates=rates
    )


def interleaved(B: sp.csr_array, *others: sp.csr_array) -> sp.csr_array:
    """Normal rows B (nc, nv) and those of others, the rows of a contact together.

    The others have (nc k, nv) rows, each its own k, and all are in canonical order without zeros.
    """
    nc, nv = B.shape
    pieces, before = (B, *others), np.cumsum([0, *(piece.nnz for piece in (B, *others[:-1]))])
    parts = [(piece.indptr, int(begin)) for piece, begin in zip(pieces, before, strict=True)]
    begins = np.column_stack([a + p[:-1].reshape(nc, (p.size - 1) // max(nc, 1)) for p, a in parts])
    counts = np.column_stack([np.diff(p).reshape(nc, (p.size - 1) // max(nc, 1)) for p, _ in parts])
    begins, counts = begins.ravel(), counts.ravel()
    indptr = np.append(0, np.cumsum(counts))
    place = np.arange(indptr[-1]) + np.repeat(begins - indptr[:-1], counts)
    data = np.concatenate([piece.data for piece in pieces])[place]
    indices = np.concatenate([piece.indices for piece in pieces])[place]
    return frozen_rows(data, indices, indptr, (counts.size, nv))
