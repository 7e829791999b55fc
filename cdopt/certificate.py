"""Certificates: what an answer is worth, computed from the data and the answer alone.

One implementation per problem kind. Each residual is a pure number: an error divided by a
scale of the problem (``cdopt.data``), which has an absolute floor of one unit when loads or
contacts vanish. No residual is taken from a solver.

Scales are those of the contact network's independent parts, so that no part hides behind a
larger one.

**Rigid step** (v⁺, f), with gap g = B v⁺ + bias, V the closing speed of the free motion, and
N_ii f_i the speed that a contact's own force makes:

- ``penetration``      max (−g_i)₊ / V
- ``tension``          max (−N_ii f_i)₊ / V
- ``complementarity``  max min(N_ii f_i, g_i)₊ / V
- ``momentum``         max_j |M(v⁺ − v*) − Δt Bᵀf|_j / M_jj V_j, where V_j is the dof's speed that
  moves a gap at V; round-off of what is summed, 1e-14 (Δt|B|ᵀ|f| + M_jj(|v⁺| + |v*|))_j, is taken
  off first
- ``duality gap``      |primal + Δt · dual| / (|primal| + Δt |dual|), floored by the energy scale

**Elastic step** (v⁺, f), with overlap c = −Δt g and F the part's force: what stops its speed or,
if less, what its stiffest contact makes of all that closes in the step; V_j follows from it:

- ``law``              max |f_i − w′(c_i)| / F
- ``tension``          max (−f_i)₊ / F
- ``momentum`` and ``duality gap`` as for the rigid step

**Truss** (u, f), with overlap c = −B u and F the largest load:

- ``equilibrium``  max_j |Bᵀf − F̃|_j / (β_j F) over free dofs
- ``tension``      max (−f_i)₊ / F
- ``law``          max |f_i − w′(c_i)| / F, nearest w′ of the overlaps within 4ε|B||u| of c_i,
  which is their round-off, ε = 2.2e-16: stiff contacts between bodies that soft ones
  let move far have no sharper overlap
- ``duality gap``  |potential + complementary energy| / (their absolute sum)
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from cdopt import checks
from cdopt.checks import FloatArray
from cdopt.data import ElasticStepData, ProblemData, RigidStepData, TrussData, kernels
from cdopt.errors import InvalidInput

TOLERANCE = 1e-6
_ROUND_OFF = 1e-14  # of the terms of a sum


@dataclass(frozen=True)
class Residual:
    """One optimality condition ``name``: ``value`` = error / ``scale``; ``unit`` is the scale's."""

    name: str
    value: float
    scale: float
    unit: str


@dataclass(frozen=True)
class Certificate:
    """Residuals of one answer and the tolerance they are held to.

    ``kind`` says which problem: "rigid step", "elastic step" or "truss".
    ``ok`` is true when every residual is at most ``tol``, whatever the solver said.
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
        """Whether every residual is within the tolerance."""
        return self.worst <= self.tol

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
        return {"kind": self.kind, "ok": self.ok, "tol": self.tol, "residuals": residuals}

    def __str__(self) -> str:
        verdict = "ok" if self.ok else "NOT OK"
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


def _worst(name: str, error: FloatArray, scale: FloatArray, unit: str) -> Residual:
    """The largest error / scale, with its scale; not-a-number wins."""
    if error.size == 0:
        return Residual(name, 0.0, 1.0, unit)
    at = kernels.worst(error, scale)
    size, of = float(error[at]), float(scale[at])
    return Residual(name, size / of if of > 0.0 else size, of or 1.0, unit)


def _certify_rigid(
    data: RigidStepData, v_next: FloatArray | None, f: FloatArray, tol: float
) -> Certificate:
    speed = data.speed
    gap = data.gap(v_next, f)
    own = data.mobility * f
    residuals = [
        _worst("penetration", _positive(-gap), speed, "m/s"),
        _worst("tension", _positive(-own), speed, "m/s"),
        _worst("complementarity", _positive(np.minimum(own, gap)), speed, "m/s"),
    ]
    if v_next is not None:
        residuals.append(_momentum(data, v_next, f))
    primal = data.velocity_objective(v_next, f)
    dual = data.dt * data.force_objective(f)
    scale = np.maximum(np.abs(primal) + np.abs(dual), data.part_energy)
    residuals.append(_worst("duality gap", np.abs(primal + dual), scale, "J"))
    return Certificate("rigid step", tuple(residuals), tol)


def _certify_elastic(
    data: ElasticStepData, v_next: FloatArray, f: FloatArray, tol: float
) -> Certificate:
    rigid = data.rigid
    primal, dual = data.primal(v_next, f), rigid.dt * data.dual(f)
    scale = np.maximum(np.abs(primal) + np.abs(dual), rigid.part_energy)
    error = np.abs(f - data.law.force(data.overlap(v_next, f)))
    residuals = (
        _worst("law", error, rigid.force, "N"),
        _worst("tension", _positive(-f), rigid.force, "N"),
        _momentum(rigid, v_next, f),
        _worst("duality gap", np.abs(primal + dual), scale, "J"),
    )
    return Certificate("elastic step", residuals, tol)


def _momentum(data: RigidStepData, v_next: FloatArray, f: FloatArray) -> Residual:
    mass, v_star = data.mass, data.step.v_star
    if mass is None or v_star is None:
        raise InvalidInput("motion", "a velocity", "None for a step without matrices")
    jump = v_next - v_star
    error = np.abs(mass.M @ jump - data.dt * data.load(f))
    summed = data.dt * data.entries.load_size(f)
    terms = summed + mass.diagonal * (np.abs(v_next) + np.abs(v_star))
    beyond = _positive(error - _ROUND_OFF * terms)
    return _worst("momentum", beyond, mass.diagonal * data.dof_speed, "N s")


def _certify_truss(data: TrussData, u: FloatArray, f: FloatArray, tol: float) -> Certificate:
    force = data.part_force
    error = np.abs(data.load(f) - data.contact_load) / data.dof_lever
    potential, complementary = data.potential_energy(u), data.complementary_energy(f)
    energy = np.maximum(np.abs(potential) + np.abs(complementary), force * data.part_length)
    residuals = (
        _worst("equilibrium", error[data.in_play], force[data.parts.dof][data.in_play], "N"),
        _worst("tension", _positive(-f), data.force, "N"),
        _worst("law", _off_law(data, u, f), data.force, "N"),
        _worst("duality gap", np.abs(potential + complementary), energy, "J"),
    )
    return Certificate("truss", residuals, tol)


def _off_law(data: TrussData, u: FloatArray, f: FloatArray) -> FloatArray:
    """(nc,) N, from each force to the nearest of an overlap within round-off of u's."""
    c, slack = data.overlap(u), data.overlap_error(u)
    least, most = data.law.force(c - slack), data.law.force(c + slack)
    return np.maximum(np.maximum(f - most, least - f), 0.0)
