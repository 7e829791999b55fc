"""The admissible forces of a contact step: {f ≥ 0, Bᵀf = F̃, f = 0 on open contacts}.

A contact is *closed* when its gap is zero at the end of the step, *loaded* when it carries force
in the answer at hand, and *loadable* when it carries force in some admissible answer. Only on
loadable contacts does a self-stress state mean that forces can differ. A closed contact that no
motion opens or closes, between two fixed bodies, is itself a self-stress state.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp

from cdopt._util.checks import BoolArray, FloatArray, IntArray, freeze, read_only
from cdopt._util.frozen import Frozen
from cdopt._util.linear_program import solved_program
from cdopt.hyperstatic import rank
from cdopt.problem.scaling import network_parts

STIFF = 1e-7  # a force this tight counts as unique, unless its bounds say otherwise
SILENT = 1e-12  # looseness below this is plain round-off


@dataclass(frozen=True, eq=False)
class Block(Frozen):
    """An independent part of the closed network.

    Attributes
    ----------
    contacts : (n,) the step's contacts in it.
    B : (n, m) their gap gradient, equilibrated (``cdopt.hyperstatic.rank``).
    length : (n,) what its rows were divided by; an entry of null(Bᵀ) over it is a force.
    """

    contacts: IntArray
    B: sp.csr_array
    length: FloatArray


@dataclass(frozen=True, eq=False)
class Verdict(Frozen):
    """Rank, loadable contacts and unique forces, with the attributes of ``Indeterminacy``."""

    rank_tol: float
    closed: BoolArray
    loadable: BoolArray
    looseness: FloatArray
    rank: int
    nullity: int
    dimension: int

    @property
    def tight(self) -> BoolArray:
        """(nc,) contacts whose force is the same in every admissible answer, or very nearly."""
        return read_only(self.looseness <= STIFF)

    @property
    def moving(self) -> BoolArray:
        """(nc,) contacts that take part in a self-stress state, however little."""
        return read_only(self.looseness > SILENT)


def blocks(gradient: sp.csr_array, contacts: IntArray) -> list[Block]:
    """The independent parts of a network, whose rows of ``gradient`` belong to ``contacts``."""
    parts = network_parts(gradient)
    by_part = np.argsort(parts.contact, kind="stable")
    ends = np.flatnonzero(np.diff(parts.contact[by_part])) + 1
    result = []
    for rows in np.split(by_part, ends) if by_part.size else []:
        block = sp.csr_array(gradient[np.sort(rows)])
        B, length = rank.equilibrated(sp.csr_array(block[:, np.unique(block.indices)]))
        result.append(Block(contacts[np.sort(rows)], freeze(B), length))
    return result


def judge(
    parts: Sequence[Block],
    forces: FloatArray,
    floor: FloatArray,
    rank_tol: float,
) -> Verdict:
    """Rank, loadable contacts and unique forces of a closed network.

    Parameters
    ----------
    parts : the independent parts of the network.
    forces : (nc,) N, an admissible answer; the more contacts it loads the less there is to do.
    floor : (nc,) N, the force below which a contact counts as not loaded.
    rank_tol : share of the largest singular value below which others count as zero.

    Raises
    ------
    SolveFailed : the linear program that finds loadable contacts failed.
    Unsupported : a part is too large and too ill-conditioned for its rank.
    """
    nc = forces.shape[0]
    closed, loadable, loose = np.zeros(nc, bool), np.zeros(nc, bool), np.zeros(nc)
    total = nullity = dimension = 0
    for part in parts:
        closed[part.contacts] = True
        full = rank.rank_of(part.B, rank_tol)
        total, nullity = total + full, nullity + part.contacts.size - full
        loaded = forces[part.contacts] > floor[part.contacts]
        can, bound = loadable_of(part.B, loaded, full, rank_tol)
        dimension += int(np.count_nonzero(can)) - bound
        loadable[part.contacts] = can
        if np.count_nonzero(can) > bound:
            loose[part.contacts[can]] = rank.looseness(sp.csr_array(part.B[can]), rank_tol)
    return Verdict(rank_tol, closed, loadable, loose, total, nullity, dimension)


def loadable_of(
    B: sp.csr_array, loaded: BoolArray, full: int, rank_tol: float
) -> tuple[BoolArray, int]:
    """Which contacts can carry force, and the rank of their rows.

    Contact i cannot exactly when some motion u leaves the loaded contacts closed, closes none of
    the others, and opens i: its force would have to do work. Where the loaded contacts already
    have the full rank, no motion opens any.

    Parameters
    ----------
    B : (n, m) equilibrated. loaded : (n,) contacts with force in an admissible answer.
    full : rank of B.

    Raises
    ------
    SolveFailed : the linear program for u failed.
    """
    if loaded.all():
        return loaded, full
    if rank.rank_of(sp.csr_array(B[loaded]), rank_tol) == full:
        return np.ones_like(loaded), full
    can = loaded.copy()
    can[~loaded] = ~_opened(sp.csr_array(B[loaded]), sp.csr_array(B[~loaded]))
    return can, rank.rank_of(sp.csr_array(B[can]), rank_tol)


def _opened(closed: sp.csr_array, idle: sp.csr_array) -> BoolArray:
    """(ni,) idle contacts that some motion opens which keeps ``closed`` shut and closes none.

    The linear program max Σ s, 0 ≤ s ≤ 1, closed u = 0, idle u ≥ s has s in {0, 1} at its optimum.
    """
    nu, ni = closed.shape[1], idle.shape[0]
    answer = solved_program(
        np.concatenate([np.zeros(nu), -np.ones(ni)]),
        "the contacts that can carry force",
        A_ub=sp.hstack([-idle, sp.eye_array(ni)], format="csr"),
        b_ub=np.zeros(ni),
        A_eq=sp.hstack([closed, sp.csr_array((closed.shape[0], ni))], format="csr"),
        b_eq=np.zeros(closed.shape[0]),
        bounds=[(None, None)] * nu + [(0.0, 1.0)] * ni,
    )
    return np.asarray(answer[nu:] > 0.5)
