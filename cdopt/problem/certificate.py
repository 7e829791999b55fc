"""Certificates: what an answer is worth, computed from the data and the answer alone.

One implementation per problem kind. Each residual is a pure number: an error divided by what acts
at that contact or on that body (``cdopt.problem.exchange``). None is taken from a solver, and
where something acts none is scaled by something elsewhere in the network, so that a light body
beside a heavy one, or a slow one beside a fast one, is judged as sharply as by itself.
``docs/residuals.md`` derives the scales.

Round-off of the terms that make up an error is taken off it: so large is the backward error that
data in double precision have anyway. In ``law`` it may hide a wrong force, because stiffness
multiplies it. There round-off over the scale is the residual's resolution, and where that is above
the tolerance the certificate is not ok.

**Rigid step** (v⁺, f), with gaps g = B v⁺ + bias. √E_b is the change of motion of body b in this
step, E_b = Σ M_jj a_j² over its dofs, with a_j the larger of |v⁺ − v*|_j and Δt |M⁻¹F_ext|_j; S_i
is the gap speed that this means at contact i:

- ``penetration``      max (−g_i)₊ / S_i
- ``tension``          max (−N_ii f_i)₊ / S_i
- ``complementarity``  max min(N_ii f_i, g_i)₊ / S_i
- ``momentum``         max_j |M(v⁺ − v*) − Δt Bᵀf|_j / √(M_jj E_b)
- ``duality gap``      |primal + Δt · dual| / Σ E_b, for each independent part

**Elastic step** (v⁺, f), with overlap c = −Δt g and F_i the smaller of the forces that the bodies
of contact i exchange, or what it makes of all that closes in the step if less:

- ``law``              max |f_i − w′(c_i)| / F_i
- ``tension``          max (−f_i)₊ / F_i
- ``momentum`` and ``duality gap`` as for the rigid step

**Truss** (u, f), with overlap c = −B u, Y_b the largest max(|B|ᵀ|f|, |F̃|)_j / β_j of a body's dofs
and F_i the smaller Y_b of the contact's bodies:

- ``equilibrium``  max_j |Bᵀf − F̃|_j / (β_j Y_b) over free dofs
- ``tension``      max (−f_i)₊ / F_i
- ``law``          max |f_i − w′(c_i)| / F_i
- ``duality gap``  |potential + complementary energy| / their size, for each independent part
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from cdopt._util import checks
from cdopt._util.checks import FloatArray
from cdopt._util.errors import InvalidInput
from cdopt.problem import kernels
from cdopt.problem.contact_law import PowerLaw
from cdopt.problem.elastic import ElasticStepData
from cdopt.problem.exchange import Exchange, exchange_of
from cdopt.problem.rigid import RigidStepData
from cdopt.problem.truss import TrussData

ProblemData = RigidStepData | ElasticStepData | TrussData

TOLERANCE = 1e-6
_EPS = 8.0 * float(np.finfo(float).eps)  # round-off of the terms of a sum
_FLOOR = 1e-3  # of the energy of what acts at a contact, where it stores less
_NOTHING = 10.0  # what is this many times its round-off, or less, is taken for nothing


@dataclass(frozen=True)
class Residual:
    """One optimality condition.

    Attributes
    ----------
    name : which one.
    value : error beyond round-off over ``scale``, where that is largest.
    scale : what acts there, in ``unit``.
    unit : of the scale.
    resolution : of ``law``, round-off / scale where that is largest: it may hide a wrong force.
    """

    name: str
    value: float
    scale: float
    unit: str
    resolution: float = 0.0


@dataclass(frozen=True)
class Certificate:
    """Residuals of one answer and the tolerance they are held to.

    ``kind`` says which problem: "rigid step", "elastic step" or "truss".
    ``ok`` is true when every residual is at most ``tol`` and so is its resolution, whatever the
    solver said.
    """

    kind: str
    residuals: tuple[Residual, ...]
    tol: float = TOLERANCE

    @property
    def worst(self) -> float:
        """The largest residual; infinite when one is not a number."""
        values = [r.value if r.value == r.value else np.inf for r in self.residuals]
        return float(max(values, default=0.0))

    @property
    def ok(self) -> bool:
        """Whether every residual is within the tolerance, and round-off lets it be told."""
        return self.worst <= self.tol and self.resolution <= self.tol

    @property
    def resolution(self) -> float:
        """What round-off alone may make of ``law``: no force can be told to be better."""
        return max((r.resolution for r in self.residuals), default=0.0)

    def __getitem__(self, name: str) -> float:
        for residual in self.residuals:
            if residual.name == name:
                return residual.value
        raise InvalidInput("name", repr(name), "one of " + ", ".join(r.name for r in self))

    def __iter__(self) -> Iterator[Residual]:
        return iter(self.residuals)

    def as_dict(self) -> dict[str, Any]:
        """Plain numbers, for JSON."""
        residuals = {r.name: r.value for r in self.residuals}
        return {
            "kind": self.kind,
            "ok": self.ok,
            "tol": self.tol,
            "residuals": residuals,
            "resolution": self.resolution,
        }

    def __str__(self) -> str:
        verdict = "ok" if self.ok else "NOT OK"
        if self.worst <= self.tol < self.resolution:
            verdict += f" (round-off alone may be {self.resolution:.1e})"
        lines = [f"{self.kind}: {verdict} at {self.tol:g}"]
        lines += [f"  {r.name:<16}{r.value:9.1e}  of {r.scale:.3g} {r.unit}" for r in self]
        return "\n".join(lines)


def certify(
    data: ProblemData,
    motion: FloatArray | None,
    forces: FloatArray,
    tol: float = TOLERANCE,
) -> Certificate:
    """Check a primal–dual pair against the optimality conditions of its problem.

    Parameters
    ----------
    data : the problem.
    motion : v⁺ (nv,) of a rigid step (None when only N and p are known), u (nv,) of a truss.
    forces : f (nc,), N.
    tol : residuals up to this count as met.

    Raises
    ------
    InvalidInput : motion or forces have the wrong length, masked entries or no real numbers; tol
        is not in (0, 1].
    """
    forces = checks.answer("forces", forces, data.nc)
    motion = None if motion is None else checks.answer("motion", motion, None)
    tol = checks.scalar("tol", tol, above=0.0, at_most=1.0)
    with np.errstate(all="ignore"):  # what is not a number fails its residual
        if isinstance(data, RigidStepData):
            nv = data.step.nv
            if motion is not None or nv is not None:
                _require_length("motion", motion, nv or 0)
            return _certify_rigid(data, motion, forces, tol)
        if isinstance(data, ElasticStepData):
            _require_length("motion", motion, data.step.nv or 0)
            return _certify_elastic(data, np.asarray(motion), forces, tol)
        _require_length("motion", motion, data.B.shape[1])
        return _certify_truss(data, np.asarray(motion), forces, tol)


def _require_length(name: str, value: FloatArray | None, size: int) -> None:
    shape = None if value is None else np.shape(value)
    if shape != (size,):
        raise InvalidInput(name, f"shape {shape}", f"shape ({size},)")


def _positive(values: FloatArray) -> FloatArray:
    return np.maximum(values, 0.0)


def _worst(
    name: str,
    error: FloatArray,
    scale: FloatArray,
    round_off: FloatArray,
    unit: str,
    decides: bool = False,
) -> Residual:
    """The largest error beyond round-off over its scale; not-a-number wins.

    Where the scale itself is round-off nothing acts: an error of that size is none. ``decides``
    says that round-off may hide a wrong answer, so that the resolution counts.
    """
    if error.size == 0:
        return Residual(name, 0.0, 1.0, unit)
    value, of, resolution = kernels.worst(error, scale, round_off, _NOTHING)
    return Residual(name, float(value), float(of), unit, float(resolution) if decides else 0.0)


def _certify_rigid(
    data: RigidStepData, v_next: FloatArray | None, f: FloatArray, tol: float
) -> Certificate:
    exchange = exchange_of(data, v_next, f)
    gap = data.gap(v_next, f)
    speed, none = exchange.speed, np.zeros(data.nc)
    push = data.mobility * f
    residuals = [
        _worst("penetration", _positive(-gap), speed, exchange.gap_round_off, "m/s"),
        _worst("tension", _positive(-push), speed, none, "m/s"),
        _worst(
            "complementarity", _positive(np.minimum(push, gap)), speed, exchange.gap_round_off,
            "m/s",
        ),
    ]  # fmt: skip
    gaps = data.dt * f * gap
    gaps_round_off = data.dt * np.abs(f) * exchange.gap_round_off
    if v_next is not None:
        residuals.append(_momentum(data, exchange))
    residuals.append(_duality_gap(data, exchange, gaps, gaps_round_off, np.zeros(data.nc)))
    return Certificate("rigid step", tuple(residuals), tol)


def _momentum(data: RigidStepData, exchange: Exchange) -> Residual:
    return _worst(
        "momentum",
        np.abs(exchange.imbalance) / exchange.root_mass,
        np.sqrt(exchange.energy)[exchange.bodies.label],
        exchange.momentum_round_off / exchange.root_mass,
        "m/s √kg",
    )


def _duality_gap(
    data: RigidStepData,
    exchange: Exchange,
    left: FloatArray,
    round_off: FloatArray,
    stored: FloatArray,
) -> Residual:
    """P + Δt D = ½ ‖M(v⁺ − v*) − Δt Bᵀf‖² in the norm of M⁻¹, plus what each contact leaves.

    Summed in this way it does not cancel.
    """
    parts = data.parts
    gap = parts.total(parts.contact, left)
    floor = parts.total(parts.contact, round_off)
    energy = parts.total(parts.contact, stored + exchange.contact_energy)
    if data.mass is not None and exchange.imbalance.size:
        kinetic = 0.5 * exchange.imbalance * data.mass.solve(exchange.imbalance)
        gap = gap + parts.total(parts.dof, kinetic)
        energy = energy + exchange.energy_of_parts(parts)
        kinetic_off = exchange.momentum_round_off / exchange.root_mass
        floor = floor + parts.total(parts.dof, kinetic_off**2)
    return _worst("duality gap", np.abs(gap), energy, floor, "J")


def _certify_elastic(
    data: ElasticStepData, v_next: FloatArray, f: FloatArray, tol: float
) -> Certificate:
    rigid, law = data.rigid, data.law
    exchange = exchange_of(rigid, v_next, f)
    c, slack = data.overlap(v_next, f), rigid.dt * exchange.gap_round_off
    most = law.force(rigid.dt * (_positive(-rigid.step.p_vec) + exchange.speed))
    force = np.minimum(exchange.force(), most)
    stored, conjugate = law.energy(c), law.conjugate(f)
    left = stored + conjugate - f * c
    round_off = _energy_round_off(law, f, c, slack)
    residuals = (
        _law_residual(law, f, c, slack, force),
        _worst("tension", _positive(-f), force, np.zeros(data.nc), "N"),
        _momentum(rigid, exchange),
        _duality_gap(rigid, exchange, left, round_off, stored + conjugate),
    )
    return Certificate("elastic step", residuals, tol)


def _law_residual(
    law: PowerLaw, f: FloatArray, c: FloatArray, slack: FloatArray, force: FloatArray
) -> Residual:
    """|f − w′(c)| over the force that the contact's bodies exchange."""
    spread = np.maximum(law.force(c + slack) - law.force(c), law.force(c) - law.force(c - slack))
    return _worst("law", np.abs(f - law.force(c)), force, spread + _EPS * np.abs(f), "N", True)


def _energy_round_off(law: PowerLaw, f: FloatArray, c: FloatArray, slack: FloatArray) -> FloatArray:
    """(nc,) J, of w(c) + w*(f) − f c, for an overlap known to ± slack."""
    stored = law.energy(c)
    summed = stored + law.conjugate(f) + np.abs(f * c)
    return _EPS * summed + (law.energy(c + slack) - stored) + np.abs(f) * slack


def _certify_truss(data: TrussData, u: FloatArray, f: FloatArray, tol: float) -> Certificate:
    law, parts, used = data.law, data.parts, data.in_play
    acting, exchanged, force = data.exchange(f)
    c, slack = data.overlap(u), data.overlap_error(u)
    error = np.abs(data.load(f) - data.contact_load)
    stored, conjugate = law.energy(c), law.conjugate(f)
    work = np.where(data.free, (data.contact_load - data.load(f)) * u, 0.0)
    gap = parts.total(parts.contact, stored + conjugate - f * c) + parts.total(parts.dof, work)
    loads = np.where(data.free, (data.entries.load_size(f) + np.abs(data.contact_load)), 0.0)
    floor = parts.total(parts.contact, _energy_round_off(law, f, c, slack))
    floor = floor + _EPS * parts.total(parts.dof, loads * np.abs(u))
    least = _FLOOR * law.conjugate(force)  # of contacts that carry nothing
    energy = parts.total(parts.contact, np.maximum(stored + conjugate, least))
    residuals = (
        _worst(
            "equilibrium", (error / data.dof_lever)[used], exchanged[data.bodies.label][used],
            _EPS * acting[used], "N",
        ),
        _worst("tension", _positive(-f), force, np.zeros(data.nc), "N"),
        _law_residual(law, f, c, slack, force),
        _worst("duality gap", np.abs(gap), energy, floor, "J"),
    )  # fmt: skip
    return Certificate("truss", residuals, tol)
