"""Linear quantities of contact forces: a wrench on a body, the force of one foot."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp

from cdopt._util import checks
from cdopt._util.checks import BoolArray, FloatArray, read_only
from cdopt._util.errors import InvalidInput
from cdopt._util.formatting import listed
from cdopt._util.frozen import Frozen
from cdopt.hyperstatic.bounds import Bounds
from cdopt.problem.contact_list import ListedBodies
from cdopt.problem.contact_step import ContactStep
from cdopt.problem.delassus_step import ROUND_OFF
from cdopt.problem.step import Step
from cdopt.problem.step_problems import interleaved

_SHOWN = 20  # names of bodies in a message
_ZERO = 1e-12  # of the largest force times the largest entry of C: round-off, shown as 0


@dataclass(frozen=True, eq=False)
class Quantity(Frozen):
    """Least and largest values of m numbers C f over the admissible forces.

    With joints C may have a further column for the reaction of each row of J; witnesses are then
    the contact forces at the bounds.

    Attributes
    ----------
    name : its name. C : (m, nc d).
    lower, upper : (m,) in units of C times N; infinite where unbounded, not-a-number where unknown.
    unique : (m,) the same in every admissible answer.
    residual : (m,) certificate, as ``Indeterminacy.residual``.
    witnesses : (m, 2, nc d) N, admissible forces that attain lower and upper, component by
        component; not-a-number where the bound is infinite or unknown.
    failures : numbers whose bounds are not certified, and why.
    """

    name: str
    C: sp.csr_array
    lower: FloatArray
    upper: FloatArray
    unique: BoolArray
    residual: FloatArray
    witnesses: FloatArray
    failures: Mapping[int, str]

    @staticmethod
    def of(
        name: str,
        C: sp.csr_array,
        bounds: Bounds,
        narrow: float,
        constant: FloatArray,
        endless: BoolArray,
    ) -> Quantity:
        """The verdict of ``bounds``; numbers within ``narrow`` of their scale are unique.

        The ``constant`` (m,) is added; ``endless`` (m,) numbers have no bounds.
        """
        checks.instance("bounds", bounds, Bounds)
        narrow = checks.not_negative("narrow", narrow)
        lower = np.where(endless, -np.inf, bounds.lower + constant)
        upper = np.where(endless, np.inf, bounds.upper + constant)
        with np.errstate(invalid="ignore"):
            unique = upper - lower <= narrow * bounds.scale + ROUND_OFF * np.abs(constant)
        arrays = lower, upper, unique, bounds.residual, bounds.witnesses
        lower, upper, unique, residual, witnesses = map(read_only, arrays)
        return Quantity(name, C, lower, upper, unique, residual, witnesses, bounds.failures)

    @property
    def ok(self) -> bool:
        """Whether every bound is certified."""
        return not self.failures

    @property
    def width(self) -> FloatArray:
        """(m,) upper minus lower."""
        with np.errstate(invalid="ignore"):
            return np.asarray(self.upper - self.lower)

    def as_dict(self) -> dict[str, Any]:
        """Plain values for JSON."""
        names = ("lower", "upper", "unique", "residual")
        return {**{name: getattr(self, name) for name in names}, "failures": dict(self.failures)}

    def __repr__(self) -> str:
        forces = np.where(np.isfinite(self.witnesses), np.abs(self.witnesses), 0.0)
        zero = _ZERO * np.max(np.abs(self.C.data), initial=0.0) * forces.max(initial=0.0)
        ends = [np.where(np.abs(end) <= zero, 0.0, end) for end in (self.lower, self.upper)]
        shown = ", ".join(f"[{a:.5g}, {b:.5g}]" for a, b in zip(*ends, strict=True))
        return f"Quantity({self.name}: {shown})"


def stated_quantities(quantities: Any, step: Step, friction: bool) -> dict[str, sp.csr_array]:
    """C (m, nc d) by name, or (m, nc d + nj) with joints; raises InvalidInput if one is bad."""
    d = 1 if step.friction is None else step.friction.d + step.friction.moments
    columns, joints = step.nc * (d if friction else 1), 0
    if step.joints is not None:
        joints = step.joints.count
    if quantities is None:
        return {}
    if not isinstance(quantities, Mapping):
        found = checks.describe(quantities)
        raise InvalidInput("quantities", found, "a mapping from names to rows C of C f")
    result = {}
    for name, value in quantities.items():
        if not isinstance(name, str):
            raise InvalidInput("quantities", checks.describe(name), "names that are strings")
        table = value if sp.issparse(value) else np.atleast_2d(value)
        C = checks.matrix(f"quantities[{name!r}]", table, None, None)
        if C.shape[1] - step.nc * d in {0, joints} and step.nc * d != columns:  # normal forces
            C = sp.csr_array(sp.hstack([C[:, : step.nc * d : d], C[:, step.nc * d :]]))
        if C.shape[1] - columns not in {0, joints}:
            expected = f"{columns} columns, one for each component of a force"
            expected += f", or {columns + joints} with those of joints" if joints else ""
            raise InvalidInput(f"quantities[{name!r}]", f"{C.shape[1]} columns", expected)
        result[name] = C
    return result


def wrench(
    step: ContactStep, body: int | str, of: Any = None, about: Any = None, joints: Any = None
) -> sp.csr_array:
    """Rows C of the wrench C f of contact forces on a body: force, and moment about a point.

    Of a step with joints the columns of contacts come first, then one for each row of J.

    Parameters
    ----------
    step : the step; a force f has ``step.friction.d`` components, or one without friction.
    body : its number, as in ``step.dof_body`` and ``step.bodies``; or its name in the scene or
        the block model that the step was made of. A body that does not move needs ``about``.
    of : indices or a mask (nc,) of the contacts whose forces count; default all.
    about : (2,) or (3,) m, the reference point of the moment; the step then needs ``bodies``,
        ``normals`` and ``points``, with friction also ``tangents``. By default rows are those of
        the body's own degrees of freedom, with moments about its centre of mass in steps made of
        scenes.
    joints : indices or a mask (nj,) of the rows of joints to include; by default all, or none if
        ``of`` is given. Not available with ``about``, because rows of joints have no points.

    Returns
    -------
    (m, nc d) : for ``indeterminacy(step, law, quantities={"left foot": C})``. In the plane m is 3,
        two forces in N and a moment in N·m; in space 6, three forces and three moments. Of a step
        with joints it is (m, nc d + nj).

    Raises
    ------
    InvalidInput : no such body, contact or point; a step without what is needed.

    >>> import cdopt
    >>> wall = cdopt.bank.load("rough-wall:courses=3,bricks=2").step
    >>> brick = cdopt.wrench(wall, 3)
    >>> report = cdopt.indeterminacy(wall, "coulomb", {"brick": brick}, contacts=[])
    >>> report.quantity("brick").unique  # its weight is known
    array([ True,  True,  True])
    """
    checks.instance("step", step, ContactStep)
    number = _number(step, body)
    chosen = np.ones(step.nc, dtype=bool)
    if of is not None:
        chosen[:] = False
        chosen[checks.positions("of", of, step.nc)] = True
    step.require_no_moments("wrench")
    d = 1 if step.friction is None else step.friction.d
    ties = _counted_joints(step, of, about, joints)
    if about is None:
        owner = np.full(step.nv, -1) if step.dof_body is None else step.dof_body
        dofs = np.flatnonzero(owner == number) if number >= 0 else np.zeros(0, np.int64)
        if not dofs.size:
            expected = "a body with degrees of freedom, or a point for the moment: about=(0, 0)"
            raise InvalidInput("body", checks.describe(body), expected)
        B = step.B if step.friction is None else interleaved(step.B, step.friction.B_t)
        if step.joints is not None:
            B = sp.vstack([B, step.joints.J])
        rows = sp.csr_array(sp.csc_array(B)[:, dofs].T)
    else:
        rows = _about(step, number, about)
        if ties.size:
            rows = sp.csr_array(sp.hstack([rows, sp.csr_array((rows.shape[0], ties.size))]))
    return checks.freeze(sp.csr_array(rows * np.append(chosen.repeat(d), ties)[None, :]))


def _counted_joints(step: ContactStep, of: Any, about: Any, joints: Any) -> BoolArray:
    """(nj,) the rows of joints that count."""
    many = 0 if step.joints is None else step.joints.count
    counted = np.full(many, of is None and joints is None)
    if joints is not None:
        counted[checks.positions("joints", joints, many)] = True
    if about is not None and counted.any():
        raise InvalidInput("about", "a point, with joints", "None; or joints=[], contacts alone")
    return counted


def _number(step: ContactStep, body: Any) -> int:
    """The number of a body."""
    if isinstance(body, str):
        names = step.names.body_names
        known = [name for name in names if name]
        if not known:
            raise InvalidInput("body", repr(body), "a number: the step names no bodies")
        if body not in known:
            raise InvalidInput("body", repr(body), f"one of: {listed(known, _SHOWN)}")
        return names.index(body)
    return checks.whole("body", body, -1)


def _about(step: ContactStep, body: int, about: Any) -> sp.csr_array:
    """Force and moment about a point, from the geometry of the contacts."""
    given = {"bodies": step.bodies, "normals": step.normals, "points": step.points}
    missing = [name for name, value in given.items() if value is None]
    if step.bodies is None or step.normals is None or step.points is None:
        raise InvalidInput("step", "no " + " or ".join(missing), "a step built with them")
    point = checks.vector("about", about, step.normals.shape[1], "m")
    if step.friction is not None and step.friction.tangents is None:
        raise InvalidInput("step", "no tangents", "friction built with tangents")
    if not (step.bodies == body).any():
        raise InvalidInput("body", str(body), "a body with contacts")
    return sp.csr_array(contact_rows(step, point[None], np.where(step.bodies == body, 0, -1)).T)


def contact_rows(step: ContactStep, centres: FloatArray, bodies: Any) -> sp.csr_array:
    """(nc d, n) rates of the contacts of ``bodies`` (nc, 2), −1 for none, as these move.

    n are the motions of bodies with ``centres`` (nb, dim) m, body after body.
    """
    axes = step.normals[:, None]  # (nc, d, dim), the directions of the components
    if step.friction is not None:
        axes = np.concatenate([axes, step.friction.tangents], axis=1)
    nb, dim = centres.shape
    number = np.arange(nb * (dim + (1 if dim == 2 else 3))).reshape(nb, -1)
    who = ListedBodies(np.ones(nb), None, centres, number, np.arange(number.size))
    return who.rows(step.points, np.asarray(bodies), axes)
