"""The optimisation problem of a formulation as matrices, and its answers in newtons.

    min ½ xᵀPx + qᵀx + constant    with l ≤ A x ≤ u,  lb ≤ x ≤ ub,  G x + h ∈ second-order cones

By default unknowns are in units of the problem's scales. In physical units forces are in N, changes
of motion in m/s and rad/s (m in a static network), overlaps in m, and the objective is in J, or N
m/s for a step in force form. Rows, and unknowns that CVXPY added, remain in units of the scales.
All independent parts have the same unit. Absolute tolerances are meaningful only in units of the
scales.
"""

from __future__ import annotations

import copy
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

import numpy as np
import scipy.sparse as sp

from cdopt._util import checks
from cdopt._util.checks import FloatArray, IntArray, read_only
from cdopt._util.errors import InvalidInput, Unsupported
from cdopt._util.frozen import Frozen
from cdopt.backends.base import CVXPY_LOCK
from cdopt.backends.compiling import Compiled, compiled_for

if TYPE_CHECKING:
    from cdopt.formulations.statement import Statement

_SOLVED = {"status_val": 1, "iter": 0, "run_time": 0.0, "solve_time": 0.0, "setup_time": 0.0}
_NONE = np.zeros(0, dtype=np.intp)


@dataclass(frozen=True, eq=False)
class StatedProgram(Frozen):
    """A program as matrices, and the indices of forces and motions among its unknowns.

    Attributes
    ----------
    P : (n, n) symmetric, zero where the objective is linear. q : (n,). constant : of the objective.
    A, l, u : (m, n), (m,) and (m,): l ≤ A x ≤ u, equalities first; infinite without a bound.
    lb, ub : (n,) bounds of the unknowns.
    G, h, cones : (k, n), (k,) and the sizes of consecutive cones: in each, the first entry of G x +
        h is at least the norm of the others.
    force_place, force_unit : (rows,) index and unit (N) of each force, f = force_unit
        x[force_place]; empty in forms in motions, where forces are multipliers.
    motion_place, motion_unit, motion_dof, rest : v⁺ (nv,), or u of a static network, is ``rest``
        plus motion_unit x[motion_place] on the dofs motion_dof.
    objective_unit : unit of the objective, in J or N m/s.
    name : of the formulation. physical : whether units are physical.
    """

    P: sp.csc_array
    q: FloatArray
    constant: float
    A: sp.csc_array
    l: FloatArray  # noqa: E741  # as in OSQP
    u: FloatArray
    lb: FloatArray
    ub: FloatArray
    G: sp.csc_array
    h: FloatArray
    cones: IntArray
    force_place: IntArray
    force_unit: FloatArray
    motion_place: IntArray
    motion_unit: FloatArray
    motion_dof: IntArray
    rest: FloatArray
    objective_unit: float
    name: str
    physical: bool

    @property
    def n(self) -> int:
        """Number of unknowns."""
        return int(self.q.size)

    def objective(self, x: FloatArray) -> float:
        """½ xᵀPx + qᵀx + constant, of x (n,)."""
        x = checks.vector("x", x, self.n)
        return float(0.5 * x @ (self.P @ x) + self.q @ x + self.constant)

    def __repr__(self) -> str:
        sizes = f"{self.n:,} unknowns, {self.l.size:,} rows, {self.cones.size:,} cones"
        return f"StatedProgram({self.name}: {sizes})"


@dataclass(frozen=True, eq=False)
class Layout:
    """A compiled statement: its rows by kind, and physical units of its unknowns."""

    # statement, compiled: the statement, and its compilation by CVXPY for SCS
    statement: Statement
    compiled: Compiled
    rows: IntArray  # linear constraints that remain rows.
    bounds: IntArray  # those that are bounds of one unknown.
    cones: IntArray  # of second-order cones
    unit: FloatArray  # (n,) unit of each unknown in N, m/s, rad/s or m; one if it has none
    energy: float  # unit of the objective, in J or N m/s

    @classmethod
    def of(cls, statement: Statement, linear: bool, name: str) -> Layout:
        """The layout of a statement; ``linear`` replaces a quadratic objective by cones."""
        settings = {"use_quad_obj": False} if linear else {}
        compiled = compiled_for(statement.problem, "scs", settings)
        dims, A = compiled.data["dims"], compiled.A
        if dims.exp or dims.psd or dims.p3d or dims.pnd:
            raise Unsupported(f"a file of {name}", "it needs cones that are not of second order")
        number = dims.zero + dims.nonneg
        entries = np.diff(A.indptr)
        alone = np.flatnonzero((entries == 1) & (np.arange(A.shape[0]) < number))
        bounds = alone[alone >= dims.zero]
        rows = np.setdiff1d(np.arange(number), bounds)
        places, unit = compiled.places(A.shape), np.ones(A.shape[1])
        for variable, size in statement.physical_units():
            unit[places[variable.id][0]] = size
        return cls(
            statement, compiled, rows, bounds, np.arange(number, A.shape[0]), unit, statement.unit
        )

    def program(self, name: str, physical: bool) -> StatedProgram:
        """The matrices."""
        data, n = self.compiled.data, self.unit.size
        unit = self.unit if physical else np.ones(n)
        energy = self.energy if physical else 1.0
        over = sp.diags_array(1.0 / unit)
        P = data.get("P")
        P = sp.csc_array((n, n)) if P is None else sp.csc_array(over @ P @ over) * energy
        A, b = sp.csc_array(self.compiled.A @ over), np.asarray(data["b"], dtype=float)
        lower = np.full(b.size, -np.inf)
        lower[: data["dims"].zero] = b[: data["dims"].zero]
        lb, ub = np.full(n, -np.inf), np.full(n, np.inf)
        entries = sp.csr_array(A)[self.bounds].tocoo()
        j, a = entries.coords[1], entries.data
        limit = b[self.bounds][entries.coords[0]] / a
        np.minimum.at(ub, j[a > 0.0], limit[a > 0.0])
        np.maximum.at(lb, j[a < 0.0], limit[a < 0.0])
        statement, places = self.statement, self.compiled.places(self.compiled.A.shape)
        own, scaled = statement.own, statement.scaled
        force, motion, dof = _NONE, _NONE, _NONE
        if "forces" in own and statement.data.nc:
            force = places[own["forces"].id][0]
        if "motion" in own and statement.dofs:
            motion, dof = places[own["motion"].id][0], scaled.used
        c = np.asarray(data["c"], dtype=float)
        applied = data["param_prob"].apply_parameters(quad_obj="P" in data)
        constant = float(applied[2 if "P" in data else 1])
        known = read_only(self.unit / unit)
        return StatedProgram(
            P=P,
            q=read_only(energy * c / unit),
            constant=energy * constant,
            A=sp.csc_array(sp.csr_array(A)[self.rows]),
            l=read_only(lower[self.rows]),
            u=read_only(b[self.rows]),
            lb=read_only(lb),
            ub=read_only(ub),
            G=sp.csc_array(-sp.csr_array(A)[self.cones]),
            h=read_only(b[self.cones]),
            cones=read_only(np.array(data["dims"].soc, dtype=np.intp)),
            force_place=force,
            force_unit=known[force],
            motion_place=motion,
            motion_unit=known[motion],
            motion_dof=dof,
            rest=np.array(statement.data.free_motion),
            objective_unit=self.energy / energy,
            name=name,
            physical=physical,
        )

    def unpack(self, x: FloatArray, y: FloatArray | None, z: FloatArray) -> None:
        """Write an answer in units of the scales into CVXPY's variables and multipliers."""
        A, data = self.compiled.A, self.compiled.data
        rows = np.zeros(A.shape[0])
        if y is not None:
            rows[self.rows], rows[self.cones] = y, z
            gradient = np.asarray(data["c"], dtype=float) + A.T @ rows
            gradient = gradient if data.get("P") is None else gradient + data["P"] @ x
            entries = A[self.bounds].tocoo()
            against = -gradient[entries.coords[1]] / entries.data
            rows[self.bounds[entries.coords[0]]] = np.maximum(against, 0.0)
        raw = {"x": x, "y": rows, "info": {**_SOLVED, "obj_val": 0.0, "pobj": 0.0}}
        problem = self.statement.problem
        problem.unpack(self.compiled.invert(raw))
        for constraint in problem.constraints if y is None else ():
            for multiplier in constraint.dual_variables:
                multiplier.save_value(None)


class Stated(Protocol):
    """An object with a statement, such as a formulation."""

    @property
    def name(self) -> str:
        """Its name."""

    @property
    def statement(self) -> Statement:
        """Its problem in CVXPY."""


AnyStated = TypeVar("AnyStated", bound=Stated)


def in_one_unit(formulation: AnyStated) -> AnyStated:
    """The formulation with the same unit of energy for all parts."""
    other = copy.copy(formulation)
    statement = formulation.statement.extended(formulation.statement.addition)
    vars(other)["statement"] = statement
    return other


def stated_program(
    formulation: Stated, physical: bool = False, linear: bool = False
) -> StatedProgram:
    """The program of a ``formulation``.

    Parameters
    ----------
    physical : in N, m/s and J. linear : replace a quadratic objective by cones.

    Raises
    ------
    Unsupported : it needs cones of other kinds.
    """
    physical, linear = checks.flag("physical", physical), checks.flag("linear", linear)
    with CVXPY_LOCK:
        statement = in_one_unit(formulation).statement
        return Layout.of(statement, linear, formulation.name).program(formulation.name, physical)


def unpacked(formulation: AnyStated, x: Any, y: Any, z: Any, physical: bool) -> AnyStated:
    """The formulation in one unit, whose variables hold an answer to its stated program.

    ``x``, ``y``, ``z`` and ``physical`` are those of ``Formulation.from_vector``.
    """
    x, other, sizes = checks.vector("x", x, None), in_one_unit(formulation), []
    for linear in (False, True):
        layout = Layout.of(other.statement, linear, other.name)
        sizes.append(f"{layout.unit.size:,}")
        if layout.unit.size == x.size:
            break
    else:
        expected = f"{sizes[0]} unknowns, or the {sizes[1]} of a linear objective"
        raise InvalidInput("x", f"{x.size:,} entries", expected)
    over = 1.0 / layout.energy if physical else 1.0
    if y is not None:
        y = over * checks.vector("y", y, layout.rows.size)
    z = np.zeros(layout.cones.size) if z is None else checks.vector("z", z, layout.cones.size)
    layout.unpack(x / layout.unit if physical else x, y, over * z)
    return other
