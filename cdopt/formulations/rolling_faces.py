"""Faces of cones with moments: admissible forces of contacts that resist rotation, given a motion.

The rows after the normal one form groups: sliding and turning in the product cone, one group in the
elliptic cone. If the rates of a group are not zero, they determine its force up to the normal force
as a factor; otherwise its force may be any within its limit.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from cdopt._util.checks import BoolArray, FloatArray, IntArray
from cdopt.formulations.faces import EVERY, Faces
from cdopt.problem import ContactProblem
from cdopt.problem.cones import OPEN, RESTING, SLIDING, Cones
from cdopt.problem.scales import step_scales


@dataclass(frozen=True, eq=False)
class RollingFaces(Faces):
    """Faces of contacts with moments; ``status`` is RESTING if some group is free."""

    limits: FloatArray  # (nc, d − 1) coefficients of the rows after the normal one
    widths: tuple[int, ...]  # rows of each of the k groups
    # (nc, k) groups that are free; the rows of the others are ``ray`` times the normal force
    free: BoolArray

    @property
    def free_rows(self) -> BoolArray:
        """(nc, d − 1) rows of the groups that are free."""
        return np.repeat(self.free, self.widths, axis=1)

    @property
    def groups(self) -> list[slice]:
        """The rows of each group; the normal row comes first."""
        return groups_of(self.widths)

    def nearest(
        self, cones: Cones, forces: FloatArray, contacts: IntArray | slice = EVERY
    ) -> FloatArray:
        """(n, d) N, forces on the faces, near ``forces`` projected onto ``cones``."""
        result = cones.table(cones.project(np.asarray(forces).ravel()))
        for k, group in enumerate(self.groups):
            fixed = (result[:, :1] * self.ray[contacts])[:, group]
            free = self.free[contacts, k : k + 1]
            result[:, group] = np.where(free, result[:, group], fixed)
        result[self.status[contacts] == OPEN] = 0.0
        return result


def groups_of(widths: tuple[int, ...]) -> list[slice]:
    """The rows of groups of these ``widths``; the normal row comes first."""
    ends = np.cumsum([1, *widths]).tolist()
    return [slice(a, b) for a, b in pairwise(ends)]


def rolling_faces(
    data: ContactProblem, motion: FloatArray | None, f: FloatArray, tol: float
) -> RollingFaces:
    """Faces of an answer, as in ``faces_of``; moments are scaled by the lever arms of contacts."""
    cones, w, scales = data.cones, data.mobility, step_scales(data)
    local, rates = scales.local(motion, f), data.gap(motion, f)
    arm = np.broadcast_to(np.asarray(data.scales.lever), rates.shape)
    even = cones.in_units(arm)
    forces, speeds = cones.table(f / arm), cones.table(rates * arm)
    small = tol * local.speed + cones.norms(local.gap_round_off * arm)
    closed = (scales.opening(rates) <= small) | (w * forces[:, 0] > small)
    limits, slope = cones.table(even.stretch), even.shift_gradient(rates * arm)
    groups = groups_of(cones.widths)
    free: BoolArray = np.zeros((data.nc, len(cones.widths)), dtype=np.bool_)
    ray = np.zeros_like(forces)
    ray[closed, 0] = 1.0
    for k, group in enumerate(groups):
        mu, of = limits[:, group].max(axis=1), limits[:, group]
        there = mu > 0.0
        size = np.linalg.norm(forces[:, group] / np.where(of > 0.0, of, np.inf), axis=1)
        speed = np.linalg.norm(of * speeds[:, group], axis=1) / np.where(there, mu, 1.0)
        inside = w * mu * (forces[:, 0] - size) > small
        slips = closed & there & (speed > small) & ~inside
        free[:, k] = closed & there & ~slips
        ray[:, group] = np.where(slips[:, None], -slope[:, group], 0.0)
    ray = ray * cones.table(arm)
    status = np.where(free.any(axis=1), RESTING, np.where(closed, SLIDING, OPEN))
    there = cones.table(cones.stretch)[:, 1:], cones.widths, free
    each = np.zeros(0), 0.0, tol, np.zeros(data.nc), *there
    return RollingFaces(status, ray, cones.mu, ray, *each).carrying(data, f)
