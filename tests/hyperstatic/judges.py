"""Slow and simple judges of bounds: vertices by brute force, linear programs by SciPy."""

from __future__ import annotations

from itertools import combinations

import numpy as np
from scipy.optimize import linprog

import cdopt


def step_on(B, forces, gaps=None):
    """A step at rest whose contacts deliver Bᵀ forces: its loads are what balances them."""
    B = np.asarray(B, dtype=float)
    nc, nv = B.shape
    phi = np.zeros(nc) if gaps is None else gaps
    return cdopt.ContactStep(
        M=np.eye(nv), B=B, phi=phi, v=np.zeros(nv), F_ext=-(B.T @ forces), dt=1.0
    )


def vertices(B, load):
    """Every vertex of {f ≥ 0, Bᵀf = load}, from every choice of a basis."""
    nc = B.shape[0]
    rank = int(np.linalg.matrix_rank(B))
    found = []
    for chosen in combinations(range(nc), rank):
        rows = B[list(chosen)]
        if np.linalg.matrix_rank(rows) < rank:
            continue
        f = np.zeros(nc)
        f[list(chosen)] = np.linalg.lstsq(rows.T, load, rcond=None)[0]
        if np.abs(B.T @ f - load).max() < 1e-9 and f.min() > -1e-9:
            found.append(f)
    return np.array(found)


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
