"""Overlaps that span more decades than the displacements hold in double precision.

An overlap is c = (f/k)^{1/(p−1)}: at p = 1.05 a force ten times smaller has an overlap 10²⁰ times
smaller, below the round-off of c = −B u. Two means hold such overlaps to full relative precision:
a basis of contacts from the stiffest on, of which the others are combinations without
cancellation, and displacements in as many decimal digits as it takes.
"""

from __future__ import annotations

import decimal
from decimal import Decimal

import numpy as np

from cdopt._util.checks import FloatArray, IntArray
from cdopt.problem.scaling import Entries

LARGEST = 240  # dofs, beyond which dense matrices take too long
LEAST = 1e-290  # of an overlap
_DEPENDENT = 1e-9  # of a row's largest entry: what is left of a row that depends on others
_SPARE, _MOST_DIGITS, _GAIN = 30, 700, 12.0  # decimal digits, and those that one refinement adds


def stiffest_basis(B: FloatArray, weight: FloatArray) -> tuple[IntArray, IntArray, FloatArray]:
    """Independent rows of B (nc, m) of positive weight, heaviest first, and all rows by them.

    Returns
    -------
    The rows R and the columns C (rank,) of a regular square block, and T (nc, rank) = B[:, C]
    B[R, C]⁻¹: gaps are T times the gaps of R where no other displacement than those of C acts. A
    row of weight combines heavier rows alone, the entries of the others are exactly zero.
    """
    M, size = B.copy(), np.abs(B).max(axis=1, initial=0.0)
    rows, columns = [], []
    root = np.sqrt(weight)
    waiting, free = size > 0.0, np.ones(B.shape[1], dtype=bool)
    while free.any():
        left = np.abs(M[:, free]).max(axis=1, initial=0.0)
        dependent = waiting & (left <= _DEPENDENT * size)
        M[np.ix_(dependent, free)] = 0.0
        waiting &= ~dependent
        strength = np.where(waiting, root * left, 0.0)
        row = int(np.argmax(strength))
        if not strength[row] > 0.0:
            break
        column = int(np.argmax(np.where(free, np.abs(M[row]), -1.0)))
        M[:, column] /= M[row, column]
        others = M[row].copy()
        others[column] = 0.0
        M -= np.outer(M[:, column], others)
        M[row] = 0.0
        M[row, column] = 1.0
        waiting[row] = free[column] = False
        rows.append(row)
        columns.append(column)
    order = np.array(columns, dtype=np.int64)
    return np.array(rows, dtype=np.int64), order, M[:, order]


def resolved(
    entries: Entries, block: FloatArray, R: IntArray, C: IntArray, c: FloatArray, u: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Displacements near u (m,) that give the rows R the overlaps c (rank,), in decimal numbers.

    ``block`` is B[R, C] of the B with these entries; other displacements than those of C stay.

    Returns
    -------
    The overlaps −B u* (nc,) of the displacements u* in many digits, and u* (m,) rounded.
    """
    size = float(entries.times_size(u).max(initial=0.0))
    smallest = float(np.abs(c[c != 0.0]).min(initial=size))
    range_ = np.log10(size) - np.log10(smallest) if size > 0.0 else 0.0
    digits = int(min(_SPARE + max(range_, 0.0), _MOST_DIGITS))
    with decimal.localcontext(decimal.Context(prec=digits)):
        terms = [
            (int(i), int(j), Decimal(float(v)))
            for i, j, v in zip(entries.row, entries.column, entries.value, strict=True)
        ]
        exact = [Decimal(float(x)) for x in u]
        wanted = [Decimal(float(x)) for x in c]
        for _ in range(int(digits / _GAIN) + 2):
            overlap = _overlaps(terms, exact, entries.shape[0])
            error = [overlap[i] - x for i, x in zip(R, wanted, strict=True)]
            most = max((abs(e) for e in error), default=Decimal(0))
            if most == 0:
                break
            change = np.linalg.solve(block, np.array([float(e / most) for e in error]))
            for j, step in zip(C, change, strict=True):
                exact[j] += Decimal(float(step)) * most
        overlap = _overlaps(terms, exact, entries.shape[0])
    return np.array([float(x) for x in overlap]), np.array([float(x) for x in exact])


def _overlaps(terms: list[tuple[int, int, Decimal]], u: list[Decimal], count: int) -> list[Decimal]:
    """−B u."""
    total = [Decimal(0)] * count
    for i, j, value in terms:
        total[i] -= value * u[j]
    return total
