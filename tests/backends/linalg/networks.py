"""Contact networks with random entries, and their solutions by dense algebra."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import scipy.sparse as sp

MIXED = [6, 3, 1, 2]  # dofs of bodies of unlike size


def contacts(
    sizes: Sequence[int], touched: Sequence[tuple[int, ...]], seed: int = 0
) -> tuple[sp.csr_array, np.ndarray]:
    """B with random entries on all dofs of the touched bodies, and the body of each dof."""
    random, body = np.random.default_rng(seed), np.repeat(np.arange(len(sizes)), sizes)
    kept = np.array([np.isin(body, bodies) for bodies in touched]).reshape(len(touched), body.size)
    values = random.uniform(0.5, 1.5, kept.shape) * random.choice([-1.0, 1.0], kept.shape)
    return sp.csr_array(np.where(kept, values, 0.0)), body


def chain(
    sizes: Sequence[int], seed: int = 0, three: bool = False
) -> tuple[sp.csr_array, np.ndarray]:
    """Bodies in a row: neighbours touch, some touch the fixed world or one further off."""
    n = len(sizes)
    touched: list[tuple[int, ...]] = [(i, i + 1) for i in range(n - 1)]
    touched += [(i,) for i in range(0, n, 2)]
    touched += [(i, (i + 7) % n) for i in range(0, n, 5)]
    touched += [(), ()]  # contacts that act on nothing
    touched += [(i, i + 1, i + 2) for i in range(0, n - 2, 4)] if three else []
    return contacts(sizes, touched, seed)


def shuffled(B: sp.csr_array, body: np.ndarray, seed: int = 0) -> tuple[sp.csr_array, np.ndarray]:
    """The same with its dofs in disorder and the bodies under other labels, with holes."""
    random = np.random.default_rng(seed)
    order = random.permutation(B.shape[1])
    label = 3 * random.permutation(int(body.max()) + 1) - 5
    mixed = sp.csr_array(sp.csc_array(B)[:, order])
    mixed.sort_indices()
    return mixed, label[body[order]]


def inertia(kind: str, body: np.ndarray, seed: int = 0) -> sp.csr_array | None:
    """S: none, diagonal, a block for each body, or one that ties bodies in pairs or in a row."""
    m, random = body.size, np.random.default_rng(seed)
    if kind == "none":
        return None
    if kind == "diagonal":
        return sp.csr_array(sp.diags_array(random.uniform(0.5, 2.0, m)))
    if kind == "row":
        return sp.csr_array(
            sp.diags_array([-1.0, 2.5, -1.0], offsets=[-1, 0, 1], shape=(m, m), dtype=float)
        )
    group = np.unique(body, return_inverse=True)[1] // (2 if kind == "pairs" else 1)
    root = sp.csr_array(np.where(group[:, None] == group, random.uniform(-1.0, 1.0, (m, m)), 0.0))
    return sp.csr_array(root @ root.T + sp.eye_array(m))


def matrix(
    B: sp.csr_array, mass: sp.csr_array | None, D: np.ndarray, shift: float = 0.0
) -> sp.csr_array:
    """S + shift I + Bᵀ D B on the given dofs."""
    H = B.T @ (B * D[:, None]) + shift * sp.eye_array(B.shape[1])
    return sp.csr_array(H if mass is None else H + mass)


def energy_error(H: sp.csr_array, x: np.ndarray, exact: np.ndarray) -> float:
    """‖x − exact‖ over ‖exact‖, both in the norm of H."""
    d = x - exact
    return float(np.sqrt(max(d @ (H @ d), 0.0) / (exact @ (H @ exact))))
