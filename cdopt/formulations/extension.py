"""Constraints and objectives added to a formulation, their multipliers and optimality.

With the multipliers λ of the added constraints, the extended problem has the optimality conditions
of a contact problem whose rates or loads are changed by the gradient a of λᵀ(constraints) and of
the added objective, and those of the added constraints themselves::

    forms in forces     p + a (rows,) in m/s: rates that enforce the constraints on forces
    forms in motions    F̃ + a (nv,) in N, or M v* − a in N s: loads that enforce those on motions

The contact conditions are certified as usual. The conditions of the added constraints have four
residuals, each divided by the size of the terms of its row:

- ``added constraints``     what is violated
- ``added multipliers``     a wrong sign, or outside the dual cone
- ``added complementarity`` a multiplier where the constraint is not met with equality
- ``added variables``       the gradient with respect to variables that are not the formulation's

CVXPY reduces nonlinear constraints to cones, as it does for a solver, so that every constraint has
affine arguments and every gradient is exact.
"""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

import cvxpy as cp
import numpy as np
import scipy.sparse as sp
from cvxpy.reductions.dcp2cone.dcp2cone import Dcp2Cone

from cdopt._util import checks
from cdopt._util.checks import FloatArray, read_only
from cdopt._util.errors import InvalidInput
from cdopt.problem import ContactProblem
from cdopt.problem.certificate import Certificate, certify
from cdopt.problem.residual import Residual
from cdopt.problem.solution import Iterate

Multiplier = Any  # an array, or a list of arrays of a cone with several arguments
_OWNER = "_stated_for_contacts"  # mark of variables that belong to a statement


def claim(*variables: cp.Variable | None) -> None:
    """Mark variables as those of a statement, so that no other formulation can constrain them."""
    for variable in variables:
        if variable is not None:
            setattr(variable, _OWNER, True)


@dataclass(frozen=True, eq=False)
class Addition:
    """Constraints and objectives that were added to a statement."""

    constraints: tuple[cp.Constraint, ...] = ()  # as written.
    stated: tuple[cp.Constraint, ...] = ()  # reduced to affine arguments
    objectives: tuple[cp.Expression, ...] = ()  # expressions added to the objective, in its unit.
    costs: tuple[cp.Expression, ...] = ()  # these, reduced to quadratic or affine ones
    main: tuple[int, ...] = ()  # place of each constraint among those stated

    def __bool__(self) -> bool:
        return bool(self.constraints or self.objectives)

    def constrained(self, constraints: Iterable[cp.Constraint]) -> Addition:
        """With more constraints."""
        result = self
        for constraint in constraints:
            more = [constraint]
            if not all(argument.is_affine() for argument in constraint.args):
                more = _in_cones(cp.Problem(cp.Minimize(0.0), [constraint])).constraints
            result = dataclasses.replace(
                result,
                constraints=(*result.constraints, constraint),
                stated=(*result.stated, *more),
                main=(*result.main, len(result.stated) + len(more) - 1),
            )
        return result

    def minimised(self, expression: cp.Expression) -> Addition:
        """With one more objective."""
        cost, more = expression, list[cp.Constraint]()
        if not expression.is_quadratic():
            reduced = _in_cones(cp.Problem(cp.Minimize(expression)))
            cost, more = reduced.objective.args[0], reduced.constraints
        return dataclasses.replace(
            self,
            stated=(*self.stated, *more),
            objectives=(*self.objectives, expression),
            costs=(*self.costs, cost),
        )

    @property
    def variables(self) -> list[cp.Variable]:
        """All variables, each once."""
        by_id: dict[int, cp.Variable] = {}
        for one in (*self.stated, *self.costs):
            by_id |= {variable.id: variable for variable in one.variables()}
        return list(by_id.values())

    def require_own(self, own: Iterable[cp.Variable | None], name: str) -> None:
        """Raise an error for variables of other formulations, and for internal ones of this one.

        Raises
        ------
        InvalidInput : of the argument ``name``.
        """
        allowed = {variable.id for variable in own if variable is not None}
        for variable in self.variables:
            if getattr(variable, _OWNER, False) and variable.id not in allowed:
                found = f"the variable {variable.name()} of another formulation"
                expected = "expressions of this one: its forces, velocity or displacement"
                raise InvalidInput(name, found, expected)


def _in_cones(problem: cp.Problem) -> cp.Problem:
    """The problem as CVXPY reduces it to cones with affine arguments; the constraint comes last."""
    return Dcp2Cone().apply(problem)[0]


@dataclass(frozen=True, eq=False)
class ExtendedIterate(Iterate):
    """An iterate of an extended problem.

    Attributes
    ----------
    data : the contact problem with rates or loads changed by the added constraints.
    multipliers : of each added constraint, in physical units.
    residuals : of the added constraints.
    cost : of the added objectives at the answer, in J or W.
    """

    data: ContactProblem = None  # type: ignore[assignment]
    multipliers: tuple[Multiplier, ...] = ()
    residuals: tuple[Residual, ...] = ()
    cost: float = 0.0

    def __post_init__(self) -> None:
        plain = Iterate(self.motion, self.forces)
        self.__dict__.update(motion=plain.motion, forces=plain.forces)

    def certified(self, tol: float) -> Certificate:
        """The certificate at ``tol``, of the contacts and of the added constraints."""
        contacts = certify(self.data, self.motion, self.forces, tol)
        every = (*contacts.residuals, *self.residuals)
        return dataclasses.replace(contacts, kind=f"{contacts.kind}, extended", residuals=every)


def in_units(unit: float, multiplier: Any) -> Any:
    """A multiplier, or those of a cone, in physical units."""
    if isinstance(multiplier, list):
        return [in_units(unit, one) for one in multiplier]
    return read_only(np.array(unit * np.asarray(multiplier, dtype=float)))


class Extensible:
    """What users may add constraints and objectives to."""

    statement: Any  # the CVXPY statement, with an ``addition``.
    extended: bool = False  # whether something was added
    _multipliers: tuple[Multiplier, ...] = ()  # of the last answer, of each constraint of a user

    def with_constraints(self, *constraints: cp.Constraint) -> Self:
        """The same formulation with added constraints on its variables.

        Write them on the physical expressions (``forces``, ``velocity``, ``displacement``), and on
        further variables if needed. Only solvers of CVXPY can solve the result. Its certificate is
        that of the extended problem: it checks the added constraints, and the contact law with
        their multipliers as rates or loads. ``dual`` gives the multipliers in physical units.

        Raises
        ------
        InvalidInput : an argument is not a CVXPY constraint, breaks the rules of disciplined convex
            programming, or has variables of another formulation.

        >>> import cdopt
        >>> cd = cdopt.ClassicCD(cdopt.bank.load("beam-uniform").step)
        >>> cap = cd.forces[1] <= 2.0  # N
        >>> capped = cd.with_constraints(cap)
        >>> capped.solve("clarabel").ok
        True
        """
        for constraint in constraints:
            checks.instance("constraints", constraint, cp.Constraint)
        for constraint in constraints:
            if not constraint.is_dcp():
                raise InvalidInput("constraints", str(constraint)[:80], "a convex constraint")
        return self._extended(self.statement.addition.constrained(constraints), "constraints")

    def with_objective(self, expression: cp.Expression) -> Self:
        """The same formulation with an added objective.

        Write it on the physical expressions, in the unit of ``solution.objective``: N m/s of a step
        in force form, J of all others. Solving and certifying are as with constraints.

        Raises
        ------
        InvalidInput : not a convex scalar CVXPY expression, or it has variables of another
            formulation.
        """
        checks.instance("expression", expression, cp.Expression)
        if expression.size != 1 or not expression.is_real() or not expression.is_convex():
            expected = "one real number that is convex in the variables"
            raise InvalidInput("expression", str(expression)[:80], expected)
        return self._extended(self.statement.addition.minimised(expression), "expression")

    def _extended(self, addition: Addition, name: str) -> Self:
        """The formulation on the same variables, extended; ``name`` is that of the argument."""
        addition.require_own(self.statement.own.values(), name)
        extended, statement = copy.copy(self), self.statement.extended(addition)
        vars(extended).update(statement=statement, extended=True, _multipliers=())
        return extended

    def dual(self, constraint: cp.Constraint) -> Any:
        """The multiplier of an added constraint at the last answer, in physical units.

        It is the decrease of the objective when the constraint is relaxed by one unit: for an
        expression in newtons m/s of a step and m of a static network, for one in m/s the impulse in
        N s in velocity form and N in force form, for one in metres N. Inequalities have multipliers
        ≥ 0 of the shape of the constraint; a cone has a list, one for each of its arguments.

        Parameters
        ----------
        constraint : an argument of ``with_constraints``.

        Raises
        ------
        InvalidInput : it is not of this formulation, or there is no answer with multipliers.
        """
        checks.instance("constraint", constraint, cp.Constraint)
        known = [one.id for one in self.statement.addition.constraints]
        if constraint.id not in known:
            raise InvalidInput("constraint", str(constraint)[:80], "one of with_constraints")
        if not self._multipliers:
            raise InvalidInput("constraint", "no answer with multipliers", "a solved formulation")
        return self._multipliers[known.index(constraint.id)]


# --- gradients and residuals -----------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class OwnOptimality:
    """Optimality of added constraints at the values of CVXPY's variables."""

    # by the variable's id, of λᵀ(constraints) and the added objectives, in the unit of the
    # statement's objective
    gradient: Mapping[int, FloatArray]
    constant: float  # the part of λᵀ(constraints) that does not depend on the variables
    multipliers: tuple[Multiplier, ...]  # of the constraints as written, in the same unit
    residuals: tuple[Residual, ...]  # the four of the module


@np.errstate(all="ignore")
def optimality(
    addition: Addition, weights: Mapping[int, FloatArray], unit: float
) -> OwnOptimality | None:
    """The optimality of added constraints and objectives.

    Parameters
    ----------
    weights : by id of the formulation's variables, the energy of the part of each entry.
    unit : of the statement's objective, J or W.

    Returns
    -------
    None where a solver gave no values or multipliers.
    """
    rows = [_Row.of(constraint, weights) for constraint in addition.stated]
    if any(row is None for row in rows) or any(v.value is None for v in addition.variables):
        return None
    total = {v.id: np.zeros(v.size) for v in addition.variables}
    size = {v.id: np.zeros(v.size) for v in addition.variables}
    energy = dict.fromkeys(total, 1.0)  # of the lightest part that a variable is tied to
    constant = 0.0
    for row in rows:
        for argument, multiplier in row.pulls if row else ():
            constant += float(argument.constant @ multiplier)
            for variable, matrix in argument.jacobian.items():
                pull = matrix @ multiplier
                total[variable.id] += pull
                size[variable.id] += abs(matrix) @ np.abs(multiplier)
                least = float(argument.energy.min(initial=1.0))
                energy[variable.id] = min(energy[variable.id], least)
    for cost in addition.costs:
        for variable, matrix in (cost.grad or {}).items():
            pull = np.ravel(matrix.toarray() if sp.issparse(matrix) else matrix) / unit
            total[variable.id] += pull
            size[variable.id] += np.abs(pull)
    every = [residual for row in rows if row for residual in row.residuals]
    others = [v for v in addition.variables if v.id not in weights]
    every += [_stationary(v, total[v.id], size[v.id], energy[v.id]) for v in others]
    names = ("added constraints", "added multipliers", "added complementarity", "added variables")
    worst = [
        max((r for r in every if r.name == name), key=_size, default=Residual(name, 0.0, 1.0, ""))
        for name in names
    ]
    multipliers = tuple(rows[k].multiplier for k in addition.main)  # type: ignore[union-attr]
    return OwnOptimality(total, constant, multipliers, tuple(worst))


def _size(residual: Residual) -> float:
    return residual.value if residual.value == residual.value else np.inf


def _stationary(
    variable: cp.Variable, gradient: FloatArray, size: FloatArray, energy: float
) -> Residual:
    """|z − P(z − gradient)| of a variable z with its attributes, both without dimensions."""
    z = np.asarray(variable.value, dtype=float)
    length = float(np.abs(z).max(initial=0.0)) or 1.0
    steep = max(float(size.max(initial=0.0)), energy / length)
    step = np.reshape(gradient / steep, z.shape, order="F")
    moved = np.asarray(variable.project(z - length * step))
    off = float(np.abs(z - moved).max(initial=0.0)) / length
    return Residual("added variables", off, length, "")


@dataclass(frozen=True, eq=False)
class _Argument:
    """An affine argument of a constraint: its value, gradient, the size of its terms, energies."""

    value: FloatArray
    constant: FloatArray
    jacobian: Mapping[Any, sp.csc_array]  # by variable, (entries of the variable, rows)
    size: FloatArray
    energy: FloatArray

    @classmethod
    def of(cls, expression: cp.Expression, weights: Mapping[int, FloatArray]) -> _Argument | None:
        """An expression at the values of its variables; None where one has none."""
        if any(v.value is None for v in expression.variables()):
            return None
        value = np.ravel(np.asarray(expression.value, dtype=float), order="F")
        constant, size, energy = value.copy(), np.zeros(value.size), np.zeros(value.size)
        jacobian: dict[Any, sp.csc_array] = {}
        for variable, matrix in expression.grad.items():
            entries = sp.csc_array(np.atleast_2d(matrix) if np.isscalar(matrix) else matrix)
            entries = sp.csc_array(entries.reshape((variable.size, value.size)))
            x = np.ravel(np.asarray(variable.value, dtype=float), order="F")
            jacobian[variable] = entries
            constant -= entries.T @ x
            weight = weights.get(variable.id)
            size += abs(entries).T @ (np.abs(x) + (0.0 if weight is None else 1.0))
            if weight is not None:
                pattern = sp.csc_array((entries != 0.0).astype(float) * weight[:, None])
                energy = np.maximum(energy, pattern.max(axis=0).toarray().ravel())
        sizes = size + np.abs(constant), np.where(energy > 0.0, energy, 1.0)
        return cls(value, constant, jacobian, *sizes)


def size_of_terms(expression: cp.Expression, own: Iterable[cp.Variable]) -> float:
    """The largest size of the terms of an affine expression, of variables ``own`` at one."""
    for variable in expression.variables():
        variable.save_value(np.zeros(variable.shape))
    argument = _Argument.of(expression, {v.id: np.ones(v.size) for v in own})
    return 0.0 if argument is None else float(argument.size.max(initial=0.0))


@dataclass(frozen=True, eq=False)
class _Row:
    """A constraint with affine arguments and its multiplier."""

    pulls: Sequence[tuple[_Argument, FloatArray]]
    multiplier: Multiplier
    residuals: Sequence[Residual]

    @classmethod
    def of(cls, constraint: cp.Constraint, weights: Mapping[int, FloatArray]) -> _Row | None:
        """A constraint at its present values; None without values or multipliers."""
        linear = isinstance(constraint, _SIGNED)
        expressions = [constraint.expr] if linear else list(constraint.args)
        arguments = [_Argument.of(expression, weights) for expression in expressions]
        value = constraint.dual_value
        values = value if isinstance(value, list) else [value]
        if any(a is None for a in arguments) or any(v is None for v in values):
            return None
        known = [a for a in arguments if a is not None]
        if linear:
            sign = -1.0 if isinstance(constraint, cp.constraints.NonNeg) else 1.0
            y = np.ravel(np.asarray(value, dtype=float), order="F")
            equal = isinstance(constraint, cp.constraints.Equality | cp.constraints.Zero)
            residuals = _of_rows(known[0], sign * known[0].value, y, equal)
            return cls([(known[0], sign * y)], value, residuals)
        flat = [np.ravel(np.asarray(v, dtype=float), order="F") for v in values]
        flat = [
            y if y.size == a.value.size else np.resize(y, a.value.size)
            for y, a in zip(flat, known, strict=True)
        ]
        pulls = [(a, -y) for a, y in zip(known, flat, strict=True)]
        return cls(pulls, value, _of_cone(constraint, known, flat))


_SIGNED = (
    cp.constraints.Inequality,
    cp.constraints.Equality,
    cp.constraints.Zero,
    cp.constraints.NonNeg,
    cp.constraints.NonPos,
)


def _of_rows(a: _Argument, excess: FloatArray, y: FloatArray, equal: bool) -> list[Residual]:
    """Residuals of rows ``excess`` ≤ 0, or = 0, with multipliers y."""
    scale = np.where(a.size > 0.0, a.size, 1.0)
    over, force = excess / scale, y * scale / a.energy
    if equal:
        return [_worst("added constraints", np.abs(over), scale)]
    both = np.minimum(np.maximum(force, 0.0), np.maximum(-over, 0.0))
    return [
        _worst("added constraints", np.maximum(over, 0.0), scale),
        _worst("added multipliers", np.maximum(-force, 0.0), scale),
        _worst("added complementarity", both, scale),
    ]


def _of_cone(
    constraint: cp.Constraint, arguments: Sequence[_Argument], y: Sequence[FloatArray]
) -> list[Residual]:
    """Residuals of a cone with these arguments and multipliers, by CVXPY's distances."""
    scale = max(float(a.size.max(initial=0.0)) for a in arguments) or 1.0
    energy = min(float(a.energy.min(initial=1.0)) for a in arguments)
    outside = np.max(np.atleast_1d(constraint.residual), initial=0.0) / scale
    wrong = np.max(np.atleast_1d(constraint.dual_residual), initial=0.0) * scale / energy
    work = abs(sum(float(a.value @ v) for a, v in zip(arguments, y, strict=True))) / energy
    values = {"constraints": outside, "multipliers": wrong, "complementarity": work}
    return [Residual(f"added {name}", float(value), scale, "") for name, value in values.items()]


def _worst(name: str, errors: FloatArray, scale: FloatArray) -> Residual:
    if not errors.size:
        return Residual(name, 0.0, 1.0, "")
    k = int(np.argmax(np.where(np.isnan(errors), np.inf, errors)))
    return Residual(name, float(errors[k]), float(scale[k]), "")


# --- the contact problem that the multipliers make ---------------------------------------------


def with_rates(
    data: ContactProblem, on_forces: FloatArray, on_motion: FloatArray
) -> ContactProblem:
    """The problem of a form in forces with the gradient of added constraints as rates.

    Parameters
    ----------
    on_forces : (rows,) gradient with respect to forces, m/s, or m of a static network.
    on_motion : (nv,) gradient with respect to the motion of a step, N.
    """
    rates = on_forces
    if on_motion.any() and data.inertia is not None:
        rates = rates + data.dt * (data.B @ data.inertia.solve(on_motion))
    if not rates.any():
        return data
    p, bias = (checks.read_only(np.asarray(known + rates)) for known in (data.p, data.bias))
    return dataclasses.replace(data, p=p, bias=bias)


def with_loads(data: ContactProblem, on_motion: FloatArray) -> ContactProblem:
    """The problem of a form in motions with the gradient of added constraints as loads.

    ``on_motion`` (nv,) is the gradient with respect to the motion: N s of a step, N of a static
    network.
    """
    if not on_motion.any():
        return data
    if data.inertia is None:
        load = checks.read_only(data.contact_load + on_motion)
        return dataclasses.replace(data, contact_load=load)
    moved = np.asarray(data.inertia.solve(on_motion))
    rest, p = data.free_motion - moved, data.p - data.B @ moved
    return dataclasses.replace(data, free_motion=checks.read_only(rest), p=checks.read_only(p))
