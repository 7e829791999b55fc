"""Slow and simple judges of bounds, and the small networks that they judge."""

from __future__ import annotations

from itertools import combinations

import numpy as np
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
