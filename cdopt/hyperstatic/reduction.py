"""Which faces of their cones the admissible forces reach, and how far they can differ there.

The first two counts come from the closed contacts: the rank of their balance, and the nullity. The
dimension of the set is counted after reduction, when each cone is as small as the forces allow.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp

from cdopt._util.checks import FloatArray
from cdopt._util.frozen import Frozen
from cdopt.hyperstatic.admissible import ForcePart
from cdopt.hyperstatic.cone_bounds import ConeSet
from cdopt.hyperstatic.free_network import FreeNetwork, free_networks
from cdopt.hyperstatic.network import loadable_of, looseness, rank_of

_ROUND_OFF = 1e-9  # of the normal force of a ray: smaller entries are zero
_CLEAR = 1e-4  # of the largest force: larger ones of the answer show a ray best


@dataclass(frozen=True, eq=False)
class Reduced(Frozen):
    """Admissible forces of independent parts after facial reduction."""

    # rank, nullity, dimension: as in ``Indeterminacy``
    rank: int
    nullity: int
    dimension: int
    parts: tuple[ForcePart, ...]  # whose coordinates can all carry force, in some admissible answer
    # for each part (n,) how much its coordinates take part in the self-stress states
    loose: tuple[FloatArray, ...]
    free: tuple[FreeNetwork, ...]  # the networks of those that do


def reduce(parts: Sequence[ForcePart], rank_tol: float) -> Reduced:
    """Ranks, faces and free networks of independent parts; ``rank_tol`` as in ``rank_of``."""
    total = nullity = dimension = 0
    left: list[ForcePart] = []
    loose: list[FloatArray] = []
    free: list[FreeNetwork] = []
    for part in parts:
        full, n = rank_of(part.B, rank_tol), part.z.size
        total, nullity = total + full, nullity + n - full
        for one, bound in _reduced(part, full, rank_tol):
            freedom = one.z.size - bound
            dimension += freedom
            moves = looseness(one.B, rank_tol) if freedom else np.zeros(one.z.size)
            left.append(one)
            loose.append(moves)
            free += free_networks(one, moves, rank_tol)
    return Reduced(total, nullity, dimension, tuple(left), tuple(loose), tuple(free))


def _reduced(part: ForcePart, full: int, rank_tol: float) -> list[tuple[ForcePart, int]]:
    """The parts of what can carry force, and their ranks."""
    if part.polyhedral:
        can, bound = loadable_of(part.B, part.z > part.floor, rank_tol, full)
        return [(part if can.all() else part.select(np.flatnonzero(can)), bound)]
    if part.z.size == full:  # every force is determined
        return [(part, full)]
    smaller = _on_faces(part)
    return [(one, rank_of(one.B, rank_tol)) for one in smaller]


def _on_faces(part: ForcePart) -> list[ForcePart]:
    """The part after reduction: a cone with no force inside becomes a ray, or is dropped."""
    unit = float(part.z.max(initial=0.0)) or float(part.local_load.max())
    B = sp.csr_array(part.B * part.length[:, None])
    z = part.z / unit
    x, inside, loaded = ConeSet(B, B.T @ z, part.sizes, z).inside()
    if (inside & loaded).all():
        return [part]
    if not loaded.any():
        return []
    first, blocks = np.cumsum(part.sizes) - part.sizes, list[FloatArray]()
    for k in np.flatnonzero(loaded).tolist():
        own = slice(first[k], first[k] + part.sizes[k])
        along = z[own] if z[first[k]] > _CLEAR else x[own]
        ray = np.where(np.abs(along) > _ROUND_OFF * along[0], along, 0.0)
        whole = inside[k] or along.size == 1
        blocks.append(np.eye(along.size) if whole else ray[None] / along[0])
    used = np.flatnonzero(np.repeat(loaded, part.sizes))
    columns = sp.eye_array(part.z.size, format="csr")[used]
    sparse = [sp.coo_array(block) for block in blocks]
    E = sp.csr_array(sp.block_diag(sparse, format="csr") @ columns)
    new = (E @ part.z) / np.asarray(E.multiply(E).sum(axis=1)).ravel()
    return part.mapped(E, np.array([len(block) for block in blocks]), new)
