"""The independent networks whose forces can differ, in units of local loads.

Coordinates whose share in every self-stress state is 1e-7 or less (for example the points of a
face contact in another code's file) are scaled by the change that those states allow; otherwise
they would be below the solver's tolerances.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.linalg
import scipy.sparse as sp

from cdopt._util.checks import FloatArray, IntArray, freeze
from cdopt._util.frozen import Frozen
from cdopt.hyperstatic.admissible import ForcePart
from cdopt.hyperstatic.network import SILENT, STIFF, null_states
from cdopt.problem.scaling import (
    by_label,
    chosen_rows,
    column_scale,
    network_parts,
    scaled,
    transposed_times,
    used_columns,
)

_FAR = 1e6  # a tight contact farther from zero than this many times its reach is left out


@dataclass(frozen=True, eq=False)
class FreeNetwork(Frozen):
    """A network of contacts whose forces can differ, in coordinates x = z over their units."""

    index: IntArray  # (n,) which of the coordinates of all closed contacts
    G: sp.csr_array  # (rows, n) forces are G (unit x)
    sizes: IntArray  # of the cones that x is in, in turn
    B: sp.csr_array  # (n, m) in these units, each equation divided by its largest entry
    load: FloatArray  # (m,) what the forces deliver
    force: FloatArray  # (n,) admissible
    unit: FloatArray  # (n,) N, the local load of each contact, at most the network's largest force

    @property
    def polyhedral(self) -> bool:
        """Whether all cones are half-lines."""
        return bool((self.sizes == 1).all())

    def forces(self, x: FloatArray | None) -> FloatArray:
        """(rows,) N, of coordinates x (n,) alone; not-a-number for None."""
        if x is None:
            return np.full(self.G.shape[0], np.nan)
        return np.asarray(self.G @ (self.unit * x))


def free_networks(part: ForcePart, loose: FloatArray, rank_tol: float) -> list[FreeNetwork]:
    """The networks of a part after reduction; ``loose`` (n,) of its coordinates in the states."""
    rows = np.flatnonzero(loose > SILENT)
    if not rows.size:
        return []
    if not part.polyhedral:
        gradient = scaled(part.B, part.length)
        return [_scaled(part, np.arange(loose.size), gradient, np.ones(loose.size))]
    rows, gradient, ratio = _equations(part, rows, loose, rank_tol)
    parts = network_parts(gradient)
    pieces = [i for i in by_label(parts.contact, parts.count) if i.size]  # some have dofs alone
    return [_scaled(part, rows[i], chosen_rows(gradient, i), ratio[i]) for i in pieces]


def _scaled(
    part: ForcePart, rows: IntArray, gradient: sp.csr_array, ratio: FloatArray
) -> FreeNetwork:
    """Coordinates ``rows`` of a part with these equations, in their units times ``ratio``."""
    force, most, plain = part.z[rows], part.local_load[rows], ratio == 1.0
    top = float(force[plain].max(initial=0.0))  # the other rows have a unit already
    unit = np.minimum(most, top) if top > 0.0 else most
    if not part.polyhedral:  # the components of a cone have one unit
        unit = np.full(rows.size, top or float(most.max()))
    unit = np.where(plain, unit, top or float(most.max()))
    B = scaled(used_columns(gradient), unit)
    B = scaled(B, None, 1.0 / column_scale(B))
    unit = unit * ratio
    forces = force / unit
    sizes = np.ones(rows.size, dtype=np.int64) if part.polyhedral else part.sizes
    whole = rows.size == part.z.size and bool((rows == np.arange(rows.size)).all())
    G = part.G if whole else sp.csr_array(sp.csc_array(part.G)[:, rows])
    return FreeNetwork._of(
        index=part.index[rows],
        G=G,
        sizes=sizes,
        B=freeze(B),
        load=transposed_times(B, forces),
        force=forces,
        unit=unit,
    )


def _equations(
    part: ForcePart, rows: IntArray, looseness: FloatArray, rank_tol: float
) -> tuple[IntArray, sp.csr_array, FloatArray]:
    """Rows of a part to bound, what their forces must keep, and each one's share of the unit.

    Where some take part in the states by very little, other equations replace those of B: the loose
    forces change along the states alone, and each tight force is a linear function of them.
    """
    tight = looseness[rows] <= STIFF
    basis = null_states(part.B, rank_tol) if tight.any() else None
    if basis is None or tight.all():
        return rows, scaled(chosen_rows(part.B, rows), part.length[rows]), np.ones(rows.size)
    loose, stiff = rows[~tight], rows[tight]
    of_loose, of_stiff = basis[loose], basis[stiff]
    follow = of_stiff @ np.linalg.pinv(of_loose)
    size = np.linalg.norm(follow, axis=1)
    ratio = size / part.length[stiff]
    top = float(part.z[loose].max(initial=0.0))
    near = (size > 0.0) & (part.z[stiff] <= _FAR * top * ratio)
    stiff, follow, size, ratio = stiff[near], follow[near], size[near], ratio[near]
    length = part.length[loose][:, None]
    upper = [sp.csr_array(scipy.linalg.null_space(of_loose.T) * length)]
    upper.append(sp.csr_array((follow / size[:, None]).T * length))
    lower = [sp.csr_array((stiff.size, upper[0].shape[1])), -sp.eye_array(stiff.size)]
    gradient = sp.csr_array(sp.block_array([upper, lower]))
    return np.append(loose, stiff), gradient, np.append(np.ones(loose.size), ratio)
