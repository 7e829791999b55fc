"""Bounds and nullity of small networks in rational numbers, without any rounding.

Floating-point numbers are fractions, so that SymPy's simplex method solves the linear programs
exactly. A degeneracy that needs irrational numbers, such as that of a close-packed lattice, is lost
by their rounding: use it to test other arithmetic on networks whose B is written in fractions.
"""

from __future__ import annotations

import importlib
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from cdopt._util.checks import FloatArray
from cdopt._util.errors import BackendUnavailable, Unsupported
from cdopt.hyperstatic.indeterminacy import Indeterminacy
from cdopt.problem.contact_step import ContactStep

LARGEST = 40  # closed contacts; rational simplex tableaux grow quickly


@dataclass(frozen=True, eq=False)
class ExactBounds:
    """Exact answers, contact by contact.

    Attributes
    ----------
    nullity : of the closed network. lower, upper : bounds in N; None for no upper bound.
    """

    nullity: int
    lower: tuple[Fraction, ...]
    upper: tuple[Fraction | None, ...]

    def error(self, report: Indeterminacy) -> float:
        """Largest difference from a report's bounds, relative to the largest finite bound.

        Infinite when the report lacks a bound, or has one where there is none.
        """
        worst, top = 0.0, max((float(x) for x in self.upper if x is not None), default=0.0)
        for i, (low, high) in enumerate(zip(self.lower, self.upper, strict=True)):
            unknown = np.isnan(report.lower[i]) or np.isnan(report.upper[i])
            if unknown or (high is None) != bool(np.isinf(report.upper[i])):
                return float("inf")
            worst = max(worst, abs(float(low) - report.lower[i]))
            worst = worst if high is None else max(worst, abs(float(high) - report.upper[i]))
        return worst / top if top > 0.0 else worst


def exact_bounds(report: Indeterminacy) -> ExactBounds:
    """The bounds of every contact of a small step, in exact arithmetic.

    The load is what the report's classic forces deliver, to the last bit.

    Parameters
    ----------
    report : of a step with at most 40 closed contacts and its own B.

    Raises
    ------
    InvalidInput : not a report.
    Unsupported : more contacts, or a step known by N and p alone.
    BackendUnavailable : SymPy is not installed (``pip install cdopt[exact]``).
    """
    contacts = np.flatnonzero(report.closed)
    if not isinstance(report.step, ContactStep):
        raise Unsupported("exact bounds", "N alone gives no B")
    if contacts.size > LARGEST:
        raise Unsupported("exact bounds", f"more than {LARGEST} closed contacts")
    B = report.step.B
    simplex, sympy = _sympy("sympy.solvers.simplex"), _sympy("sympy")
    rows = _fractions(sympy, B[contacts].toarray())
    forces = _fractions(sympy, np.maximum(report.network.forces[contacts], 0.0)[:, None])
    rank = int(rows.rank()) if rows.cols else 0
    lower = [Fraction(0)] * report.nc
    upper: list[Fraction | None] = [Fraction(0)] * report.nc
    for position, contact in enumerate(contacts.tolist()):
        low = _extreme(simplex, sympy, rows.T, forces, position, 1)
        lower[contact] = Fraction(0) if low is None else low
        high = _extreme(simplex, sympy, rows.T, forces, position, -1)
        upper[contact] = None if high is None else -high
    return ExactBounds(contacts.size - rank, tuple(lower), tuple(upper))


def _sympy(name: str) -> Any:
    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise BackendUnavailable("sympy", "install it with: pip install cdopt[exact]") from error


def _fractions(sympy: Any, values: FloatArray) -> Any:
    """The same matrix in rational numbers, every float exactly what it is."""
    entries = [[sympy.Rational(Fraction(float(x))) for x in row] for row in values]
    return sympy.Matrix(values.shape[0], values.shape[1], [x for row in entries for x in row])


def _extreme(
    simplex: Any, sympy: Any, rows: Any, forces: Any, position: int, sense: int
) -> Fraction | None:
    """min sense · f_position subject to rows f = rows forces, f ≥ 0; None when unbounded."""
    cost = [0] * rows.cols
    cost[position] = sense
    idle = sympy.zeros(1, rows.cols)
    try:
        value, _ = simplex.linprog(cost, A=idle, b=sympy.zeros(1, 1), A_eq=rows, b_eq=rows * forces)
    except simplex.UnboundedLPError:
        return None
    return Fraction(int(value.p), int(value.q))
