"""One form of a problem as CVXPY states it, posed when somebody asks for it."""

from __future__ import annotations

import copy
from abc import ABC, abstractmethod
from typing import TypeVar

import cvxpy as cp
import numpy as np
import scipy.sparse as sp

from cdopt._util.checks import FloatArray
from cdopt.backends.posing import posed_once
from cdopt.problem import ProblemData
from cdopt.problem.entries import Entries
from cdopt.problem.solution import Iterate
from cdopt.problem.warm_start import WarmStart

Self = TypeVar("Self", bound="Statement")


class Statement(ABC):
    """A convex problem in CVXPY, in units of its own scales.

    Variables, constraints and expressions are made when they are first read: a backend that takes
    the plain data pays for none. Formulations that are copies of each other share them.

    Attributes
    ----------
    data : the plain data of the problem.
    forces, velocity, displacement : physical quantities as CVXPY expressions of the variables;
        None where the form does not hold them.
    """

    def __init__(self, data: ProblemData) -> None:
        self.data = data

    @posed_once
    def weight(self) -> FloatArray:
        """(parts,) factor of each part's share of the objective.

        Independent parts share no variable, so each may count in its own units.
        """
        return np.ones(self.data.parts.count)

    @posed_once
    def problem(self) -> cp.Problem:
        """The problem."""
        return cp.Problem(cp.Minimize(self.objective()), self.constraints)

    @property
    def forces(self) -> cp.Expression | None:
        """Forces f (nc,), N."""
        return None

    @property
    def velocity(self) -> cp.Expression | None:
        """Velocity (nv,), m/s."""
        return None

    @property
    def displacement(self) -> cp.Expression | None:
        """Displacement (nv,), m."""
        return None

    @property
    @abstractmethod
    def constraints(self) -> list[cp.Constraint]:
        """The constraints."""

    @abstractmethod
    def objective(self) -> cp.Expression:
        """The objective, each part's share times its weight."""

    @abstractmethod
    def iterate(self) -> Iterate | None:
        """The primal–dual pair that the variables hold, in physical units."""

    @abstractmethod
    def seed(self, start: WarmStart) -> None:
        """Write a previous solution into the variables."""

    def with_constraints(self: Self, weight: FloatArray, *constraints: cp.Constraint) -> Self:
        """The same statement on the same variables, with more constraints and other weights."""
        stated = self.problem.constraints  # every variable is there before the copy is made
        other = copy.copy(self)
        del vars(other)["problem"]
        vars(other).update(weight=weight, constraints=[*stated, *constraints])
        return other


def seed_dual(constraint: cp.Constraint, value: FloatArray) -> None:
    """Write the multiplier of a constraint."""
    constraint.dual_variables[0].save_value(value)


def momentum(M: sp.csr_array, B: sp.csr_array, w: cp.Variable, f: cp.Expression) -> cp.Constraint:
    """M w = Bᵀ f, each row in units of its own mass."""
    own = 1.0 / M.diagonal()
    push = Entries(B).scaled(columns=own)
    paced = Entries(M).scaled(rows=own)
    return (w if paced.nnz == w.size else paced @ w) == push.T @ f


def weighted(matrix: sp.csr_array, weight: FloatArray) -> sp.csr_array:
    """The matrix with each part's block multiplied by the part's weight."""
    if np.all(weight == 1.0):
        return matrix
    root = np.sqrt(weight)
    return Entries(matrix).scaled(root, root)
