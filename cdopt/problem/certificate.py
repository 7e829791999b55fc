"""Certificates: residuals computed from the data and the answer alone.

Each residual is an error divided by what acts at that contact or on that body, so that a light body
beside a heavy one is judged as sharply as by itself. Each problem kind computes its own residuals
(``ProblemData.residuals``); ``docs/residuals.md`` derives the scales.

The round-off of the terms of an error is subtracted from it. In the residual ``law``, where
stiffness multiplies round-off, it may hide a wrong force: there round-off over the scale is the
residual's resolution, and a resolution above the tolerance makes the certificate not ok.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, NamedTuple

import numpy as np
import scipy.sparse as sp

from cdopt._util import checks, notebook
from cdopt._util.arguments import trusted
from cdopt._util.checks import FloatArray, read_only
from cdopt._util.errors import InfeasibilityProof, InvalidInput
from cdopt._util.formatting import beside
from cdopt._util.linear_program import linprog
from cdopt.problem.contact_law import PowerLaw

TOLERANCE = 1e-6
EPS = 8.0 * float(np.finfo(float).eps)  # round-off of a sum, relative to its terms' sizes
_PROOF = {"time_limit": 60.0}  # seconds
_MARGIN = 1e-7  # the proof's value must be this clear of zero, in scaled units
_NOTHING = 10.0  # a scale of at most this many times its round-off is no scale


@dataclass(frozen=True)
class Residual:
    """One optimality condition.

    Attributes
    ----------
    name : of the condition.
    value : the largest error beyond round-off, divided by its scale.
    scale : what acts there, in ``unit``.
    unit : of the scale.
    resolution : of ``law``, the largest round-off divided by its scale.
    """

    name: str
    value: float
    scale: float
    unit: str
    resolution: float = 0.0


@dataclass(frozen=True)
class Certificate:
    """Residuals of an answer, and their tolerance ``tol``.

    ``kind`` is that of the problem: "rigid step", "elastic step" or "truss". ``ok`` is true when
    every residual and every resolution is at most ``tol``, whatever the solver reported.
    ``slater`` is the Slater number of the contacts in question, where friction made it necessary to
    compute it (``FrictionalCD.slater``).
    """

    kind: str
    residuals: tuple[Residual, ...]
    tol: float = TOLERANCE
    slater: float | None = None

    @cached_property
    def worst(self) -> float:
        """The largest residual; infinite when one is not a number."""
        values = [r.value if r.value == r.value else np.inf for r in self.residuals]
        return float(max(values, default=0.0))

    @cached_property
    def resolution(self) -> float:
        """The largest resolution: no force can be certified beyond it."""
        return max((r.resolution for r in self.residuals), default=0.0)

    @property
    def ok(self) -> bool:
        """Whether every residual and its resolution are within the tolerance."""
        return self.worst <= self.tol and self.resolution <= self.tol

    def __getitem__(self, name: str) -> float:
        by_name = {r.name: r.value for r in self}
        if name not in by_name:
            raise InvalidInput("name", repr(name), "one of " + ", ".join(by_name))
        return by_name[name]

    def __iter__(self) -> Iterator[Residual]:
        return iter(self.residuals)

    def as_dict(self) -> dict[str, Any]:
        """Plain numbers, for JSON."""
        return {
            **({} if self.slater is None else {"slater": self.slater}),
            "kind": self.kind,
            "ok": self.ok,
            "tol": self.tol,
            "residuals": {r.name: r.value for r in self},
            "resolution": self.resolution,
        }

    @property
    def shown(self) -> str:
        """The worst residual as text, in as many digits as tell it from the tolerance."""
        return beside(self.worst, self.tol, 1)

    def rows(self) -> list[tuple[str, str, str]]:
        """Name, value and scale of each residual as texts."""
        return [(r.name, beside(r.value, self.tol, 1), f"{r.scale:,.3g} {r.unit}") for r in self]

    @property
    def _verdict(self) -> str:
        verdict = "ok" if self.ok else "NOT OK"
        if self.worst <= self.tol < self.resolution:
            verdict += f" (round-off alone may be {beside(self.resolution, self.tol, 1)})"
        return f"{self.kind}: {verdict} at {self.tol:g}"

    def _repr_html_(self) -> str:
        """What a notebook shows."""
        return notebook.table(self._verdict, ("residual", "value", "of"), self.rows())

    def __str__(self) -> str:
        lines = [f"  {name:<16}{value:>9}  of {scale}" for name, value, scale in self.rows()]
        lines += [] if self.slater is None else [f"  Slater number   {self.slater:9.1e}"]
        return "\n".join([self._verdict, *lines])


class ProblemData(ABC):
    """The data of a problem, with its residuals, proofs of infeasibility and scales.

    A motion is v⁺ (nv,) of a step, in m/s and rad/s, or u (nv,) of a truss, in m. Forces f (nc,)
    are in N. Every kind has

    - ``nc``, ``nv`` : numbers of contacts and dofs, the latter zero with N and p alone;
    - ``contact_ids`` : names of the contacts, or None;
    - ``parts`` : independent parts of the contact network;
    - ``free_motion`` : the motion without contact forces; None with N and p alone;
    - ``part_force``, ``part_energy`` : (parts,) N and J, units of each part.
    """

    kind: ClassVar[str]
    expected: ClassVar[str] = "the data of a formulation, such as ClassicCD(step).data"
    nc: Any
    nv: Any
    contact_ids: Any
    parts: Any
    free_motion: Any
    part_force: Any
    part_energy: Any

    @cached_property
    def force(self) -> FloatArray:
        """(nc,) N, unit of each contact's force: that of its part."""
        return read_only(self.part_force[self.parts.contact])

    def residuals_once(self, motion: FloatArray | None, forces: FloatArray) -> tuple[Residual, ...]:
        """``residuals``, kept for the answer that they were computed of last."""
        kept: Any = self.__dict__.get("_residuals")
        answer: Any = np.array(forces), None if motion is None else np.array(motion)
        if kept is None or not all(map(np.array_equal, kept, answer)):
            kept = self.__dict__["_residuals"] = *answer, self.residuals(motion, forces)
        residuals: tuple[Residual, ...] = kept[2]
        return residuals

    @abstractmethod
    def residuals(self, motion: FloatArray | None, f: FloatArray) -> tuple[Residual, ...]:
        """By how much an answer violates each optimality condition."""

    def attainment(
        self, motion: FloatArray | None, f: FloatArray, worst: float
    ) -> tuple[float | None, tuple[Residual, ...]]:
        """Why forces that look right may be none: with friction an infimum need not be attained.

        It is asked of answers whose ``worst`` residual is within the tolerance, and returns a
        Slater number, or None, and further residuals.
        """
        return None, ()

    @abstractmethod
    def prove_infeasible(self) -> InfeasibilityProof | None:
        """A proof that the problem has no solution; None when none is found."""

    @abstractmethod
    def scaled(self) -> Any:
        """The same problem in units of its independent parts, without dimensions."""


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
    motion : v⁺ (nv,) of a step (None when only N and p are known), u (nv,) of a truss.
    forces : f (nc,), N.
    tol : residuals up to this count as met.

    Raises
    ------
    InvalidInput : motion or forces have the wrong length, masked entries or no real numbers; tol
        is not in (0, 1].
    """
    forces = checks.answer("forces", forces, data.nc)
    if motion is not None:
        motion = checks.answer("motion", motion, data.nv)
    elif data.nv:
        raise InvalidInput("motion", "None", f"shape ({data.nv},)")
    tol = checks.scalar("tol", tol, above=0.0, at_most=1.0)
    with np.errstate(all="ignore"):  # what is not a number fails its residual
        certificate = trusted(Certificate, data.kind, data.residuals_once(motion, forces), tol)
        if not certificate.ok:
            return certificate
        slater, doubts = data.attainment(motion, forces, certificate.worst)
        return trusted(Certificate, data.kind, (*certificate.residuals, *doubts), tol, slater)


# --- parts of residuals ----------------------------------------------------------------


def positive(values: FloatArray) -> FloatArray:
    """max(values, 0)."""
    return np.maximum(values, 0.0)


class Condition(NamedTuple):
    """The errors (n,) of one optimality condition, what acts there, and the errors' round-off.

    ``decides`` says that round-off may hide a wrong answer: then the resolution is computed.
    """

    name: str
    unit: str
    error: FloatArray
    scale: FloatArray
    round_off: FloatArray
    decides: bool = False


@np.errstate(all="ignore")
def residuals_of(*conditions: Condition) -> tuple[Residual, ...]:
    """Of each the largest error beyond round-off over its scale; not-a-number counts as largest.

    Where the scale itself is round-off, an error of that size counts as zero.
    """
    residuals = []
    for name, unit, error, scale, round_off, decides in conditions:
        value, size, resolution = 0.0, 1.0, 0.0
        if error.size:
            floor = _NOTHING * round_off
            acts, ratio = scale > floor, positive(error - round_off) / scale
            if not acts.all():
                beyond = np.where(scale > 0.0, error / scale, np.inf)
                ratio = np.where(acts, ratio, np.where(error <= floor, 0.0, beyond))
            ratio[~np.isfinite(error + scale + floor)] = np.nan
            at = int(ratio.argmax())
            value, size = float(ratio[at]), float(scale[at])
            if decides:
                blurred = float(np.where(acts, round_off / scale, 0.0).max())
                resolution = blurred if value == value else np.nan
        residuals.append(trusted(Residual, name, value, size, unit, resolution))
    return tuple(residuals)


def tension(f: FloatArray, force: FloatArray) -> Condition:
    """(−f)₊ over the force (nc,) in N that acts at each contact."""
    return Condition("tension", "N", positive(-f), force, np.zeros(f.size))


def law_condition(
    law: PowerLaw, f: FloatArray, c: FloatArray, slack: FloatArray, force: FloatArray
) -> Condition:
    """|f − w′(c)| over the force (nc,) in N that acts there; the overlap is known to ± slack."""
    at_c = law.force(c)
    spread = np.maximum(law.force(c + slack) - at_c, at_c - law.force(c - slack))
    return Condition("law", "N", np.abs(f - at_c), force, spread + EPS * np.abs(f), True)


def energy_round_off(law: PowerLaw, f: FloatArray, c: FloatArray, slack: FloatArray) -> FloatArray:
    """(nc,) J, of w(c) + w*(f) − f c, for an overlap known to ± slack."""
    stored = law.energy(c)
    summed = stored + law.conjugate(f) + np.abs(f * c)
    return EPS * summed + (law.energy(c + slack) - stored) + np.abs(f) * slack


# --- proofs that a problem has no solution, which two matrix products verify ---------------
#
# A truss is infeasible exactly when some motion u has B u ≥ 0 and F̃ᵀu < 0: no contact resists it,
# and the load drives it. It is an unbounded ray of (32). A rigid step is infeasible exactly when
# multipliers g ≥ 0 have Bᵀg = 0 and gᵀ bias < 0: a body squeezed between fixed walls.


def descending_ray(
    cost: FloatArray,
    rows: sp.csr_array,
    violation: Callable[[FloatArray], FloatArray],
    **program: Any,
) -> tuple[FloatArray, float] | None:
    """A vector x of negative costᵀx that meets its conditions, and by how much it misses them.

    HiGHS finds it; ``program`` has constraints and bounds, as ``scipy.optimize.linprog`` takes
    them. The ``violation`` of the products with the ``rows`` (m, n) must be at most 1e-7 in scaled
    units: a problem whose answers are all 1e7 times its own scale looks infeasible.
    """
    if not (np.isfinite(rows.data).all() and np.isfinite(cost).all()):
        return None
    x = linprog(cost, options=_PROOF, **program).x
    if x is None:
        return None
    x = np.clip(x, *program["bounds"])
    value, missed = float(cost @ x), float(violation(rows @ x).max(initial=0.0))
    return (x, missed) if value < -_MARGIN and missed <= _MARGIN * abs(value) else None
