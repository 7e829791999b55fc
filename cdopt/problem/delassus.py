"""Factorisation of a Delassus matrix: N = L Lᵀ by independent parts, cut at round-off."""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp

from cdopt.problem.scaling import matrix_parts

DENSE_LIMIT = 3000  # contacts of one part, beyond which its rows stay as they are


def root(N: sp.csr_array, rank_tol: float) -> sp.csr_array:
    """L (nc, r) with N = L Lᵀ up to eigenvalues below ``rank_tol`` of their part's largest.

    Each independent part is factorised by itself, so that a heavy part does not hide a light one.
    A part too large for a dense factorisation keeps its rows of N: then L Lᵀ is not N, but
    Lᵀf = Lᵀg still means N f = N g.
    """
    label = matrix_parts(N).contact
    pieces = []
    for part in range(int(label.max(initial=-1)) + 1):
        index = np.flatnonzero(label == part)
        block = sp.csr_array(N[index][:, index])
        ones = np.ones(index.size)
        scatter = sp.csr_array((ones, (index, np.arange(index.size))), (N.shape[0], index.size))
        pieces.append(
            scatter @ (block if index.size > DENSE_LIMIT else _dense_root(block, rank_tol))
        )
    if not pieces:
        return sp.csr_array((N.shape[0], 1))
    return sp.csr_array(sp.hstack(pieces))


def _dense_root(block: sp.csr_array, rank_tol: float) -> sp.csr_array:
    """The root of one part, its contacts in units of their own mobility."""
    scale = np.sqrt(np.maximum(block.diagonal(), 0.0))
    unit = np.where(scale > 0.0, scale, 1.0)
    values, vectors = np.linalg.eigh(block.toarray() / np.outer(unit, unit))
    significant = values > rank_tol * max(float(values[-1]), 0.0)
    return sp.csr_array(vectors[:, significant] * np.sqrt(values[significant]) * unit[:, None])
