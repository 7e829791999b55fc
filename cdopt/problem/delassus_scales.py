"""The units and local scales of a step known only by N and p."""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp

from cdopt._util.cached import cached_property
from cdopt._util.checks import BoolArray, FloatArray, IntArray
from cdopt.problem.contact_problem import ContactProblem, LocalScales, ScaledProblem
from cdopt.problem.residual import EPS, positive
from cdopt.problem.scales import BACKGROUND, NEGLIGIBLE, NEIGHBOUR, StepScales
from cdopt.problem.scaling import BodyBlocks, Entries, Parts, matrix_parts, scaled

_MOST = 100  # contacts of a part whose own loads are computed: N is inverted
_OWN = 10.0  # times what its own load does to its gap a contact is judged by, at most
_HOPS = 10  # so far an error reaches
_PRIVATE = 1.0 / 30.0  # of its mobility, what a contact has while the others are closed
_DEPENDENT = 1e-12  # eigenvalues of N below this share of the largest belong to no force


class DelassusScales(StepScales):
    """A step known by N and p alone.

    The local speed S_i is the largest of −p_i and of the speed that forces make at the contact,
    Σ_j |N_ij||f_j| or, if less, √(N_ii fᵀN f): that bounds |N f|_i by Cauchy and Schwarz and does
    not count forces that cancel. N does not show which contacts share a body, and a fast body must
    not set the scale of a slow one: without friction S_i is at most 3 N_ii f_i, of the forces
    that close the contacts that press, where these determine f_i well. The energy of a part is
    Δt fᵀN f; if no contact closes, at least Δt Σ S_i²/N_ii, so that the scale of round-off is not
    round-off.
    """

    def __init__(self, problem: ContactProblem) -> None:
        super().__init__(problem)
        self._N: sp.csr_array = problem.products

    @cached_property
    def parts(self) -> Parts:
        """Independent parts of the contact network."""
        return matrix_parts(self._N, self.problem.cones.contact)

    @cached_property
    def bodies(self) -> BodyBlocks:
        """None."""
        return BodyBlocks(np.zeros(0, dtype=np.int64), 0)

    @cached_property
    def dof_speed(self) -> FloatArray:
        """Without entries: there are no degrees of freedom."""
        return np.zeros(0)

    def _local(self, motion: FloatArray | None, f: FloatArray) -> LocalScales:
        """The local scales of forces f (rows,) in N; there is no ``motion`` (nv,).

        With friction at least a small share of the speed of the part: the scale of round-off at an
        open contact must not be round-off.
        """
        problem, N, parts, at = self.problem, self._N, self.parts, self.problem.row_part
        terms, pushed, unit = Entries(N).times_size(f), np.asarray(N @ f), self.part_speed[at]
        rates = pushed + problem.p
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
            speed=self._own_speeds(problem.cones.largest(speed), f, rates),
            rates=rates,
        )

    def _own_speeds(self, speed: FloatArray, f: FloatArray, rates: FloatArray) -> FloatArray:
        """(nc,) m/s, the ``speed`` (nc,), less where the own load of a contact is less.

        Which contacts press follows from the forces f (rows,) and the ``rates`` (rows,) of the
        answer. Not with friction, whose forces would have to be known before.
        """
        N, p, part, result = self._N, self.problem.p, self.parts.contact, speed.copy()
        if self.problem.d > 1:
            return result
        size = N.diagonal()
        presses = (size * f > rates) & (size > 0.0)
        closing = np.bincount(part[presses], minlength=self.parts.count)
        for k in np.flatnonzero((closing > 1) & (self._contacts <= _MOST)):
            at = np.flatnonzero(part == k)
            coupled, chosen = N[at][:, at].toarray(), presses[at]
            own = np.full(at.size, np.inf)
            own[chosen] = _OWN * _own_loads(coupled[chosen][:, chosen], p[at][chosen])
            result[at] = _reached(coupled, own, speed[at])
        return result

    @cached_property
    def _contacts(self) -> IntArray:
        """(parts,) how many contacts each part has."""
        return np.bincount(self.parts.contact, minlength=self.parts.count)

    def acting_force(self, local: LocalScales) -> FloatArray:
        """(nc,) N, the local load of each contact: the force that stops its local speed."""
        return local.speed / self.mobility

    def acting_energy(self, motion: FloatArray | None, f: FloatArray) -> FloatArray:
        """(parts,) J: of the motion that forces f (rows,) make; there is no ``motion`` (nv,)."""
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

    def scaled(self) -> ScaledProblem:
        """The step in units of the forces and speeds of its parts."""
        problem = self.problem
        N = scaled(self._N, problem.force, 1.0 / problem.speed)
        N = sp.csr_array((N + N.T) * 0.5)
        p, cones = problem.p / problem.speed, problem.scaled_cones
        return ScaledProblem(problem.B, np.zeros(0), p, N=N, cones=cones)


def _own_loads(N: FloatArray, p: FloatArray) -> FloatArray:
    """(n,) m/s, s_i |f_i| of the forces that close all contacts, N f + p = 0; p (n,) in m/s.

    s_i = 1/(N⁻¹)_ii is the mobility of a contact while the others are closed, so that this is what
    its force does to its gap. Contacts that do exactly the same count as one. It is zero where no
    more than round-off is left, and infinite where a contact moves hardly by itself while the
    others are closed: its force is not told from theirs.
    """
    root = np.sqrt(N.diagonal())
    rates, coupled = p / root, N / np.outer(root, root)
    same = coupled >= 1.0 - EPS
    first = np.where(same, rates, np.inf).argmin(axis=1)  # of those the one that closes most
    chosen, place = np.unique(first, return_inverse=True)
    values, vectors = np.linalg.eigh(coupled[np.ix_(chosen, chosen)])
    used = values > _DEPENDENT * values[-1]
    half = vectors[:, used] / np.sqrt(values[used])
    inverse = half @ half.T
    load, size = np.abs(inverse @ rates[chosen]), np.abs(inverse) @ np.abs(rates[chosen])
    load = np.where(load > EPS * size, load, 0.0)
    tied, alone = (vectors[:, ~used] ** 2).sum(axis=1) > _DEPENDENT, 1.0 / inverse.diagonal()
    load = np.where(tied | (alone < _PRIVATE), np.inf, alone * load)
    return np.asarray(root * load[place])


def _reached(N: FloatArray, own: FloatArray, speed: FloatArray) -> FloatArray:
    """(n,) m/s, the ``speed`` of each contact (n,), at most its ``own`` (n,).

    Less where its errors reach others that have one of their own: an error of one at contact i
    changes the gap of contact k by N_ik / N_ii. Idle contacts take a small share of the speed.
    """
    idle = own <= NEGLIGIBLE * speed
    result = np.where(idle, NEIGHBOUR * speed, np.minimum(speed, own))
    near = np.flatnonzero((own < np.inf) & ~idle)
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = np.where(N[:, near] != 0.0, N.diagonal()[:, None] / np.abs(N[:, near]), np.inf)
    for _ in range(_HOPS):
        least = np.min(ratio * result[near], axis=1, initial=np.inf)
        if not np.any(least < result):
            break
        result = np.minimum(result, least)
    return result
