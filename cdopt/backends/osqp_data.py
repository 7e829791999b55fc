"""CVXPY's data of a quadratic program in OSQP's words, on a sparsity pattern that lasts.

OSQP takes new numbers for P and A without a new set-up as long as no entry comes up where there
was none. Entries do come up: a normal along an axis turns off it by round-off. So the pattern that
OSQP is given has room for all dofs of a body wherever there is an entry for one, and what is zero
now is stored as a zero.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import cvxpy as cp
import numpy as np
import scipy.sparse as sp

from cdopt._util.checks import FloatArray, IntArray
from cdopt.backends import warm
from cdopt.problem import ProblemData, RigidStepData


@dataclass(frozen=True, eq=False)
class Pattern:
    """Places of the entries of a sparse matrix of some shape: column × rows + row, ascending."""

    shape: tuple[int, int]
    keys: IntArray

    @staticmethod
    def of(matrix: sp.csc_array) -> Pattern:
        """That of the entries a matrix holds, in the order in which it holds them."""
        columns = np.repeat(np.arange(matrix.shape[1]), np.diff(matrix.indptr))
        return Pattern(matrix.shape, columns * matrix.shape[0] + matrix.indices)

    def joined(self, other: Pattern) -> Pattern:
        """The places of both."""
        return Pattern(self.shape, np.union1d(self.keys, other.keys))

    def holds(self, other: Pattern) -> bool:
        """Whether all places of the other are among these."""
        if not self.keys.size:
            return not other.keys.size
        at = np.minimum(np.searchsorted(self.keys, other.keys), self.keys.size - 1)
        return np.array_equal(self.keys[at], other.keys)

    def widened(self, rows: IntArray, columns: IntArray) -> Pattern:
        """For every place, those in all rows and columns with the same labels."""
        ones = np.ones(self.keys.size)
        at = (self.keys % self.shape[0], self.keys // self.shape[0])
        places = sp.csr_array((ones, at), shape=self.shape)
        left, right = _members(rows), _members(columns)
        return Pattern.of(_sorted(left @ (left.T @ places @ right) @ right.T))

    def upper(self) -> Pattern:
        """The places on and above the diagonal."""
        keep = self.keys % self.shape[0] <= self.keys // self.shape[0]
        return Pattern(self.shape, self.keys[keep])

    def filled(self, matrix: sp.csc_array) -> sp.csc_matrix:
        """The matrix with all of these places stored, zeros where it has no entry."""
        rows, columns = self.keys % self.shape[0], self.keys // self.shape[0]
        values = np.zeros(self.keys.size)
        values[np.searchsorted(self.keys, Pattern.of(matrix).keys)] = matrix.data
        starts = np.searchsorted(columns, np.arange(self.shape[1] + 1))
        return sp.csc_matrix((values, rows, starts), shape=self.shape)


class Canonical:
    """CVXPY's data in OSQP's words: min ½ xᵀP x + qᵀx subject to l ≤ A x ≤ u; P its upper half."""

    def __init__(self, data: Mapping[str, Any], plain: ProblemData, inverse: list[Any]) -> None:
        self.plain, self.inverse = plain, inverse
        self.whole = data["P"]
        self.parts = {
            "P": _sorted(sp.triu(self.whole)),
            "A": _sorted(sp.vstack([data["A"], data["F"]])),
        }
        self.patterns = {name: Pattern.of(matrix) for name, matrix in self.parts.items()}
        self.vectors: dict[str, FloatArray] = {
            "q": np.asarray(data["q"], dtype=np.float64),
            "l": np.concatenate([data["b"], np.full(data["G"].shape, -np.inf)]),
            "u": np.concatenate([data["b"], data["G"]]),
        }

    def like(self, held: Canonical) -> bool:
        """Whether both are of one kind and shape, with the same contacts."""
        mine, theirs = self.plain.contact_ids, held.plain.contact_ids
        shapes = all(self.parts[name].shape == held.parts[name].shape for name in self.parts)
        if self.plain.kind != held.plain.kind or not shapes:
            return False
        if mine is None or theirs is None:
            return mine is theirs
        return np.array_equal(mine, theirs)

    def fits(self, held: Canonical) -> bool:
        """Whether the pattern held has a place for every entry; takes over its places."""
        fits = all(held.patterns[name].holds(self.patterns[name]) for name in self.parts)
        for name, pattern in held.patterns.items():
            self.patterns[name] = pattern if fits else pattern.joined(self.patterns[name])
        return fits

    def widen(self) -> None:
        """Make room for all dofs of a body where there is an entry for one.

        A direction that comes to lie off an axis by round-off then finds its place.
        """
        size, rows = self.parts["A"].shape[1], self.parts["A"].shape[0]
        columns, lines = _alone(size), _alone(rows)
        body = _bodies(self.plain)
        stuffing = self.inverse[-2]
        for key, variable in stuffing.id2var.items():
            if body is not None and variable.name() == "w" and variable.size == body.size:
                _place(columns, stuffing.var_offsets[key], body)
        offset = 0
        for constraint in self.inverse[-1]["eq_constr"]:
            if body is not None and constraint.size == body.size:
                _place(lines, offset, body)
            offset += constraint.size
        self.patterns["A"] = self.patterns["A"].widened(lines, columns)
        self.patterns["P"] = self.patterns["P"].widened(columns, columns).upper()

    def stored(self) -> dict[str, sp.csc_matrix]:
        """P and A with all places of their patterns."""
        return {name: self.patterns[name].filled(matrix) for name, matrix in self.parts.items()}

    def point(self, problem: cp.Problem) -> tuple[FloatArray, FloatArray]:
        """x and y of the values that stand in the CVXPY problem."""
        x, A = warm.primal(problem, self.inverse), sp.csr_array(self.parts["A"])
        return x, warm.multipliers(problem, self.inverse, self.whole, self.vectors["q"], A, x)


def _bodies(plain: ProblemData) -> IntArray | None:
    """The body of each dof (nv,); dofs that move no gap stand alone. None where it is not known."""
    if not isinstance(plain, RigidStepData) or plain.step.dof_body is None:
        return None
    body = plain.step.dof_body
    idle = np.bincount(plain.B.indices, minlength=body.size) == 0
    return np.where(idle, _alone(body.size), body)


def _alone(n: int) -> IntArray:
    """Labels that nothing else has."""
    return -1 - np.arange(n)


def _place(labels: IntArray, offset: int, body: IntArray) -> None:
    """Write the labels of bodies, and leave those that stand alone as they are."""
    here = labels[offset : offset + body.size]
    here[body >= 0] = body[body >= 0]


def _members(labels: IntArray) -> sp.csr_array:
    """(n, groups): one where an entry has the group's label."""
    names, group = np.unique(labels, return_inverse=True)
    at = (np.arange(labels.size), group)
    return sp.csr_array((np.ones(labels.size), at), shape=(labels.size, names.size))


def _sorted(matrix: Any) -> sp.csc_array:
    """The matrix by columns, each entry once and in order."""
    found = sp.csc_array(matrix)
    found.sum_duplicates()
    return found
