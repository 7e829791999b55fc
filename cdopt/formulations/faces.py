"""Faces of the friction cones that a motion selects."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Self

import numpy as np
import scipy.sparse as sp

from cdopt._util.checks import BoolArray, FloatArray, IntArray
from cdopt._util.frozen import Frozen
from cdopt.problem import ContactProblem
from cdopt.problem.active_set import resolved_along
from cdopt.problem.cones import OPEN, RESTING, Cones

EVERY = slice(None)  # contact


@dataclass(frozen=True, eq=False)
class Faces(Frozen):
    """The forces that each contact may carry, given the motion."""

    status: IntArray  # (nc,) OPEN 0, SLIDING 1 or RESTING 2
    # (nc, d) the force of a sliding contact per unit of its normal force, (1, −μ g_T/‖g_T‖); (1, 0)
    # where μ = 0; zero at the others
    ray: FloatArray
    mu: FloatArray  # (nc,) friction coefficients
    forces: FloatArray  # (nc, d) N, the nearest forces on the faces to those of the answer
    load: FloatArray  # F̃ (nv,) = Bᵀ forces, or N forces in m/s with N alone
    projected: float  # size of the part of Bᵀf outside the faces, relative to the largest |B|ᵀ|f|
    tol: float  # share of the local speed of a contact below which its rates are zero
    # (nc,) N, effect on ``forces`` of errors of the answer and round-off of its data; zero where it
    # was not computed
    uncertain: FloatArray

    def carrying(self, data: ContactProblem, f: FloatArray) -> Self:
        """The same with the forces nearest to f (rows,)."""
        nearest = self.nearest(data.cones, data.cones.table(f))
        load = np.asarray(data.products @ nearest.ravel())
        missed = float(np.abs(load - data.products @ f).max(initial=0.0))
        size = float((abs(data.products) @ np.abs(f)).max(initial=0.0)) or 1.0
        return replace(self, forces=nearest, load=load, projected=missed / size)

    def resolved(self, data: ContactProblem, motion: FloatArray | None, f: FloatArray) -> Self:
        """The same, the forces of an answer v⁺ (nv,) and f (rows,) as accurate as the data."""
        cones, local = data.cones, data.scales.local(motion, f)

        def nearest(contacts: IntArray, forces: FloatArray) -> FloatArray:
            laws = cones.take(contacts)
            return self.nearest(laws, laws.table(forces), contacts).ravel()

        columns = self.generators(data.law)
        f, uncertain = resolved_along(data, self.forces.ravel(), *columns, nearest, local)
        load = np.asarray(data.products @ f)
        return replace(self, forces=cones.table(f), load=load, uncertain=uncertain)

    @property
    def free_rows(self) -> BoolArray:
        """(nc, d − 1) rows after the normal one whose forces are not tied to the normal force."""
        return np.repeat((self.status == RESTING)[:, None], self.ray.shape[1] - 1, axis=1)

    def nearest(
        self, cones: Cones, forces: FloatArray, contacts: IntArray | slice = EVERY
    ) -> FloatArray:
        """(n, d) N, the forces on the faces nearest to ``forces`` (n, d) of n ``contacts``.

        ``cones`` are those of these contacts, by default of all.
        """
        rests, ray = (self.status[contacts] == RESTING)[:, None], self.ray[contacts]
        result = np.where(rests, cones.table(cones.project(forces.ravel())), 0.0)
        along = np.sum(forces * ray, axis=1) / np.maximum(np.sum(ray**2, axis=1), 1.0)
        return np.where(rests, result, np.maximum(along, 0.0)[:, None] * ray)

    def generators(self, law: str) -> tuple[sp.csr_array, sp.csr_array]:
        """G (nc d, k) and R (k, nc d): forces are G z, and the rates R g (k,) are zero.

        A column for the normal force, with what is tied to it, and one for each free row. Where
        contacts slide R has the normal rate; by the associated ``law`` Gᵀ g is zero.
        """
        nc, d = self.ray.shape
        blocks, free = np.zeros((nc, d, d)), np.diag(np.ones(d))
        blocks[:, :, 0] = self.ray
        blocks[self.status != OPEN, 0, 0] = 1.0
        blocks[:, :, 1:] = np.where(self.free_rows[:, None, :], free[:, 1:], 0.0)
        rates = blocks.copy()
        if law == "coulomb":
            rates[:, 1:, 0] = 0.0
        used = np.flatnonzero((rates[:, 0, 0] > 0.0)[:, None] & np.insert(self.free_rows, 0, 1, 1))
        each = np.arange(nc * d).reshape(nc, d)
        at = np.repeat(each, d, axis=1).ravel(), np.tile(each, d).ravel()
        G, across = (sp.csc_array((x.ravel(), at), (nc * d, nc * d)) for x in (blocks, rates))
        for matrix in (G, across):
            matrix.eliminate_zeros()
        return sp.csr_array(G[:, used]), sp.csr_array(across[:, used].T)
