"""The CVXPY side of a formulation: its statement, made on first use or shared with others."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from types import MappingProxyType
from typing import Any, Self

import cvxpy as cp
from cvxpy.reductions.solution import Solution

from cdopt._util import checks
from cdopt._util.cached import twin
from cdopt._util.checks import FloatArray
from cdopt.backends.base import computed_once
from cdopt.backends.compiling import Compiled, compiled_for
from cdopt.backends.modelled import ThroughCVXPY
from cdopt.backends.selection import require_capable
from cdopt.formulations.extension import Extensible
from cdopt.formulations.kept import by_place, kept_statement, placed
from cdopt.formulations.statement import InForces, InMotion, Statement
from cdopt.problem import ContactProblem
from cdopt.problem.solution import Iterate

_OF_CVXPY = ("statement", "forces", "velocity", "displacement", "_unpacked", "_posed", "_data")


class Stating(Extensible):
    """A contact problem and its statement in one of two forms.

    Attributes
    ----------
    data : the contact problem.
    form : "force" or "complementary" of a form in forces, else one in motions.
    """

    data: ContactProblem
    form: str
    _varying: Collection[str] = ()  # numbers for which the statement is compiled once
    _numbers: Mapping[str, cp.Expression] = MappingProxyType({})  # expressions in place of these
    _like: Stating | None = None  # one of the same network, whose statement serves this one too
    _asked: Stating | None = None  # of which this one is solved in place
    _unpacked: Solution | None = None  # found in its place, by place
    _posed: tuple[str, Any] | None = None  # a solver, and the copy that it solves in place
    _data: Compiled | None = None  # of such a copy

    def __getstate__(self) -> dict[str, Any]:
        """Without what CVXPY compiled."""
        return {name: value for name, value in vars(self).items() if name != "_posed"}

    @property
    def in_forces(self) -> bool:
        """Whether the problem is stated in forces, or else in motions."""
        return self.form in ("force", "complementary")

    @property
    def _shift(self) -> FloatArray | None:
        """(nc,) m/s, added to the normal rates of the statement; None for nothing."""
        return None

    @computed_once
    def statement(self) -> Statement:
        """The variables and the problem on them."""
        if self._like is not None:
            return self._like.statement.with_rates(self.data, self._shift)
        stated = InForces if self.in_forces else InMotion
        statement = stated(self.data, self._shift, self._varying, self._numbers)
        if self._unpacked is not None:
            statement.unpack(placed(self._unpacked, statement.parts))
        return statement

    def for_solver(self, backend: ThroughCVXPY) -> Self:
        """This formulation, or a copy on a statement kept for small ones of its structure.

        To be called under CVXPY's lock. The answer that the copy unpacks is this one's, too. Raises
        InvalidInput for a ``backend`` that is not behind CVXPY.
        """
        checks.instance("backend", backend, ThroughCVXPY)
        solver = backend.solver
        formulation: Any = self
        first = self if self._like is None else self._like
        stated = "statement" in vars(self) or "statement" in vars(first)
        if self.extended or stated or not backend.keeps_parameters(formulation.problem_class):
            return self
        if self._posed is None or self._posed[0] != solver:
            statement = kept_statement(self.data, self.in_forces, self._shift, solver)
            if statement is None:
                return self
            self._posed = solver, self._restated(statement=statement, _asked=first)
        posed: Self = self._posed[1]
        posed.statement.forget()
        return posed

    def compiled(self, backend: ThroughCVXPY) -> Compiled:
        """CVXPY's data for a solver behind it; to be called under CVXPY's lock.

        Those of a statement that others share are kept. Raises InvalidInput for another
        ``backend``, Unsupported for one that does not solve this problem.
        """
        checks.instance("backend", backend, ThroughCVXPY)
        if self._data is not None:
            return self._data
        formulation: Any = self
        require_capable(backend, formulation, formulation.name)
        data = compiled_for(self.problem, backend.compiled_by, backend.compiling)
        self._data = None if self._asked is None else data
        return data

    def unpack(self, answer: Solution) -> Iterate | None:
        """Write CVXPY's ``answer`` into the variables; the iterate.

        Raises InvalidInput for an answer without values of all variables.
        """
        checks.instance("answer", answer, Solution)
        self.statement.unpack(answer)
        if self._asked is not None:
            self._asked._unpacked = by_place(answer, self.statement.parts)
        return self.iterate()

    def iterate(self) -> Iterate | None:
        """The primal–dual pair in the CVXPY variables, in physical units."""
        iterate = self.statement.iterate()
        if iterate is None or not self.extended:
            return iterate
        return self.statement.with_optimality(iterate)

    @property
    def problem(self) -> cp.Problem:
        """The problem as CVXPY states it."""
        return self.statement.problem

    def _restated(self, **changes: Any) -> Self:
        """A copy with other attributes, without the CVXPY objects of this formulation."""
        other = twin(self)
        for name in _OF_CVXPY:
            vars(other).pop(name, None)
        vars(other).update(changes)
        return other
