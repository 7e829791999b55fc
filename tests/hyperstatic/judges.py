"""Slow and simple judges of bounds, and the small networks that they judge."""

from __future__ import annotations

from fractions import Fraction
from itertools import combinations

import numpy as np
import pytest
from hypothesis import strategies as st
from scipy.optimize import linprog

import cdopt


def step_of(B, load):
    """A step at rest whose contacts must deliver a load."""
    B = np.asarray(B, dtype=float)
    nc, nv = B.shape
    return cdopt.ContactStep(
        M=np.eye(nv), B=B, phi=np.zeros(nc), v=np.zeros(nv), F_ext=-np.asarray(load), dt=1.0
    )


def step_on(B, forces):
    """A step at rest whose contacts deliver Bᵀ forces."""
    return step_of(B, np.asarray(B, dtype=float).T @ forces)


@st.composite
def networks(draw):
    """B and forces of small whole numbers: repeated, opposite and vanishing rows."""
    nv, nc = draw(st.integers(1, 3)), draw(st.integers(2, 6))
    number = st.integers(-3, 3)
    rows = draw(st.lists(st.lists(number, min_size=nv, max_size=nv), min_size=nc, max_size=nc))
    forces = draw(st.lists(st.integers(0, 3), min_size=nc, max_size=nc))
    return np.array(rows, float), np.array(forces, float)


def vertices(B, load):
    """Every vertex of {f ≥ 0, Bᵀf = load}, from every choice of a basis."""
    nc = B.shape[0]
    rank = int(np.linalg.matrix_rank(B))
    corners = []
    for chosen in combinations(range(nc), rank):
        rows = B[list(chosen)]
        if np.linalg.matrix_rank(rows) < rank:
            continue
        f = np.zeros(nc)
        f[list(chosen)] = np.linalg.lstsq(rows.T, load, rcond=None)[0]
        if np.abs(B.T @ f - load).max() < 1e-9 and f.min() > -1e-9:
            corners.append(f)
    return np.array(corners)


def rays(B):
    """Contacts that some f ≥ 0 with Bᵀf = 0 loads, one linear program for each."""
    nc, nv = B.shape
    mask = np.zeros(nc, dtype=bool)
    for i in range(nc):
        cost = np.zeros(nc)
        cost[i] = -1.0
        answer = linprog(cost, A_eq=B.T, b_eq=np.zeros(nv), bounds=(0.0, 1.0), method="highs")
        mask[i] = answer.fun < -1e-9
    return mask


def exact_error(report):
    """Largest error of a report's bounds over the largest one, by rational simplex tableaux.

    The load is what the report's classic forces deliver, to the last bit. A degeneracy that needs
    irrational numbers, such as that of a close-packed lattice, is lost by their rounding.
    """
    sympy = pytest.importorskip("sympy")
    from sympy.solvers.simplex import UnboundedLPError
    from sympy.solvers.simplex import linprog as rational

    def fractions(values):
        return sympy.Matrix(values).applyfunc(lambda x: sympy.Rational(Fraction(float(x))))

    closed = np.flatnonzero(report.closed)
    if not closed.size:
        return 0.0
    rows, idle = fractions(report.step.B[closed].toarray()), sympy.zeros(1, closed.size)
    load = rows.T * fractions(np.maximum(report.faces.forces[closed, 0], 0.0)[:, None])
    assert report.nullity == closed.size - rows.rank()
    errors, top = [0.0], 0.0
    for k, i in enumerate(closed.tolist()):
        for sense, bound in ((1, report.lower[i]), (-1, report.upper[i])):
            cost = [sense * (j == k) for j in range(closed.size)]
            try:
                value = sense * float(rational(cost, idle, idle[:, :1], rows.T, load)[0])
                errors.append(abs(value - bound))
                top = max(top, value)
            except UnboundedLPError:
                assert bound == np.inf
    return max(errors) / (top or 1.0)
