"""Faces of the friction cones that a motion selects."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp

from cdopt._util.checks import FloatArray, IntArray
from cdopt._util.frozen import Frozen
from cdopt.problem.cones import RESTING, SLIDING


@dataclass(frozen=True, eq=False)
class Faces(Frozen):
    """The forces that each contact may carry, given the motion.

    Attributes
    ----------
    status : (nc,) OPEN 0, SLIDING 1 or RESTING 2.
    ray : (nc, d) the force of a sliding contact per unit of its normal force, (1, −μ g_T/‖g_T‖);
        (1, 0) where μ = 0; zero at the others.
    mu : (nc,) friction coefficients.
    forces : (nc, d) N, the nearest forces on the faces to those of the answer.
    load : F̃ (nv,) = Bᵀ forces, or N forces in m/s with N alone.
    projected : size of the part of Bᵀf outside the faces, relative to the largest |B|ᵀ|f|.
    tol : share of the local speed of a contact below which its rates are zero.
    """

    status: IntArray
    ray: FloatArray
    mu: FloatArray
    forces: FloatArray
    load: FloatArray
    projected: float
    tol: float

    @property
    def generators(self) -> sp.csr_array:
        """G (nc d, columns) with forces G z: a column for a sliding contact, d for a resting."""
        nc, d = self.ray.shape
        slides, rests = self.status == SLIDING, self.status == RESTING
        blocks = np.zeros((nc, d, d))
        blocks[rests] = np.eye(d)
        blocks[slides, :, 0] = self.ray[slides]
        used = rests[:, None] | (slides[:, None] & (np.arange(d) == 0))
        each = np.arange(nc * d).reshape(nc, d)
        row, column = np.repeat(each, d, axis=1).ravel(), np.tile(each, d).ravel()
        G = sp.csr_array((blocks.ravel(), (row, column)), shape=(nc * d, nc * d))
        G.eliminate_zeros()
        return sp.csr_array(G[:, np.flatnonzero(used)])
