"""The units and local scales of a step known only by N and p."""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp

from cdopt._util.cached import cached_property
from cdopt._util.checks import BoolArray, FloatArray, IntArray
from cdopt.problem.contact_problem import ContactProblem, LocalScales
from cdopt.problem.local_speeds import NEGLIGIBLE
from cdopt.problem.residual import EPS, positive
from cdopt.problem.scales import BACKGROUND, StepScales
from cdopt.problem.scaling import Parts, matrix_parts, scaled, times_size


class DelassusScales(StepScales):
    """A step known by N and p alone.

    The local speed S_i is the largest of −p_i and of the speed that forces make at the contact,
    Σ_j |N_ij||f_j| or, if less, √(N_ii fᵀN f): that bounds |N f|_i by Cauchy and Schwarz and does
    not count forces that cancel. N does not show which contacts share a body: the residual
    ``motion`` tells a slow or heavy body from a fast or light one. The energy of a part is
    Δt fᵀN f; if no contact closes, at least Δt Σ S_i²/N_ii, so that the scale of round-off is not
    round-off.
    """

    def __init__(self, problem: ContactProblem) -> None:
        super().__init__(problem)
        self._N: sp.csr_array = problem.products

    @cached_property
    def parts(self) -> Parts:
        return matrix_parts(self._N, self.problem.cones.contact)

    @cached_property
    def bodies(self) -> IntArray:
        return np.zeros(0, dtype=np.int64)

    @cached_property
    def dof_speed(self) -> FloatArray:
        return np.zeros(0)

    def _local(self, motion: FloatArray | None, f: FloatArray) -> LocalScales:
        """The local scales of forces f (rows,) in N; there is no ``motion`` (nv,).

        With friction at least a small share of the speed of the part: the scale of round-off at an
        open contact must not be round-off.
        """
        problem, N, parts, at = self.problem, self._N, self.parts, self.problem.row_part
        terms, pushed, unit = times_size(N, f), np.asarray(N @ f), self.part_speed[at]
        work = f * pushed
        of_part = parts.total(at, work)[at]
        bound = np.sqrt(positive(N.diagonal() * of_part)) * self.lever
        summed = terms * self.lever
        closing = problem.cones.on_rows(positive(-self.opening(problem.p)))
        speed = np.maximum(closing, np.minimum(np.minimum(summed, bound), unit))
        speed = np.where(self.idle_parts[at], unit, speed)
        energy, mobility = parts.total(at, problem.dt * work), problem.cones.on_rows(self.mobility)
        least = parts.total(at, problem.dt * speed**2 / mobility)
        moved = (energy > 0.0) & ~self.idle_parts  # forces of round-off move idle parts
        if problem.d > 1:
            speed = np.maximum(speed, BACKGROUND * unit)
        zero = np.zeros(parts.count)
        return LocalScales(
            EPS * (np.abs(problem.p) + terms),
            np.where(moved, energy, np.maximum(energy, least)),
            zero,
            zero,
            speed=problem.cones.largest(speed),
            rates=pushed + problem.p,
        )

    def acting_force(self, local: LocalScales) -> FloatArray:
        """(nc,) N, the local load of each contact: the force that stops its local speed."""
        return local.speed / self.mobility

    def acting_energy(self, motion: FloatArray | None, f: FloatArray) -> FloatArray:
        return self.local(motion, f).part_energy

    @property
    def effect(self) -> sp.csr_array:
        """N, each row over √w of its contact."""
        root = np.sqrt(self.problem.cones.on_rows(self.mobility))
        return sp.csr_array(self._N * (self.lever / root)[:, None])

    @cached_property
    def idle_parts(self) -> BoolArray:
        """(parts,) those in which no contact closes in free motion."""
        closing = (self.opening(self.problem.p) < 0.0).astype(np.float64)
        return self.parts.largest(self.parts.contact, closing) == 0.0

    def _closing_speeds(self) -> FloatArray:
        p, parts = self.problem.p, self.parts
        closing = parts.largest(parts.contact, -self.opening(p))
        largest = parts.largest(parts.contact, self.opening_size(p))
        return np.where(closing > NEGLIGIBLE * largest, closing, largest)

    def _diagonal(self) -> FloatArray:
        return np.asarray(self._N.diagonal())

    @cached_property
    def B(self) -> sp.csr_array:
        return self.problem.B

    @cached_property
    def N(self) -> sp.csr_array:
        N = scaled(self._N, self.problem.force, 1.0 / self.problem.speed)
        return sp.csr_array((N + N.T) * 0.5)
