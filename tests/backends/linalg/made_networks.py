"""Networks of known make, and what dense algebra says of them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import scipy.sparse as sp

from cdopt.backends.linalg import Network, network


def contacts(
    sizes: Sequence[int], who: Sequence[tuple[int, ...]], seed: int = 0
) -> tuple[sp.csr_array, np.ndarray]:
    """B with random entries on all dofs of the bodies in ``who``, and the body of each dof."""
    first = np.concatenate([[0], np.cumsum(sizes)])
    columns = [
        np.concatenate([np.arange(first[b], first[b + 1]) for b in touched] or [np.zeros(0, int)])
        for touched in who
    ]
    lengths = [c.size for c in columns]
    random = np.random.default_rng(seed)
    data = random.uniform(0.5, 1.5, sum(lengths)) * random.choice([-1.0, 1.0], sum(lengths))
    rows = np.repeat(np.arange(len(who)), lengths)
    B = sp.csr_array((data, (rows, np.concatenate(columns))), shape=(len(who), int(first[-1])))
    return B, np.repeat(np.arange(len(sizes)), sizes)


def chain(
    sizes: Sequence[int], seed: int = 0, three: bool = False
) -> tuple[sp.csr_array, np.ndarray]:
    """Bodies in a row: neighbours touch, some touch the fixed world or one further off."""
    n = len(sizes)
    who: list[tuple[int, ...]] = [(i, i + 1) for i in range(n - 1)]
    who += [(i,) for i in range(0, n, 2)]
    who += [(i, (i + 7) % n) for i in range(0, n, 5)]
    who += [(), ()]  # contacts that act on nothing
    if three:
        who += [(i, i + 1, i + 2) for i in range(0, n - 2, 4)]
    return contacts(sizes, who, seed)


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
    group = body // 2 if kind == "pairs" else body
    root = sp.csr_array(np.where(group[:, None] == group, random.uniform(-1.0, 1.0, (m, m)), 0.0))
    return sp.csr_array(root @ root.T + sp.eye_array(m))


def matrix(
    B: sp.csr_array, mass: sp.csr_array | None, D: np.ndarray, shift: float = 0.0
) -> np.ndarray:
    """S + shift I + Bᵀ D B, dense, on the given dofs."""
    full = B.toarray()
    H = full.T @ (D[:, None] * full) + shift * np.eye(B.shape[1])
    return H if mass is None else H + mass.toarray()


def energy_error(H: np.ndarray, x: np.ndarray, exact: np.ndarray) -> float:
    """‖x − exact‖ over ‖exact‖, both in the norm of H."""
    d = x - exact
    return float(np.sqrt(max(d @ H @ d, 0.0) / (exact @ H @ exact)))


def copied(B: sp.csr_array, body: np.ndarray | None, mass: sp.csr_array | None = None) -> Network:
    """A network of a copy of B."""
    return network(sp.csr_array(B, copy=True), body, mass)
