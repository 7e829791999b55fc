"""Exact lower and upper bounds of contact forces over the admissible ones.

Contacts that take no part in any self-stress state are taken to the right-hand side first; what
is left falls into independent networks, each in units of its own largest force. Contacts that
take part by 1e-7 or less (the points of a face contact in another code's file are such) are
measured in units of what they can do: their force matters where it may vanish, their stiffness
in Bᵀf is beyond a linear program's tolerances.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np
import scipy.linalg
import scipy.sparse as sp

from cdopt._util.checks import BoolArray, FloatArray, IntArray, freeze, read_only
from cdopt._util.frozen import Frozen
from cdopt.backends.deadline import NEVER, TIME_LIMIT, Deadline
from cdopt.hyperstatic.admissible import Block, Verdict
from cdopt.hyperstatic.linear_programs import CERTIFIED, Extreme, ForceRange
from cdopt.hyperstatic.rank import states
from cdopt.problem.scaling import column_scale, network_parts

_ZERO = 1e-9  # a force of at most this share of its network's largest is idle
_ALONG = 1e-3  # a ray grows the forces whose entries are above this share of its largest
_FAR = 1e6  # a tight contact farther from zero than so many times its reach is out of it
_CHUNK = 200  # contacts in one go of a thread
_NONE = np.zeros(0)


@dataclass(frozen=True, eq=False)
class Free(Frozen):
    """A network of contacts whose forces can differ, in its own units.

    Attributes
    ----------
    contacts : (n,) the step's contacts.
    B : (n, m) in these units, each equation divided by its largest entry.
    load : (m,) what the forces deliver. force : (n,) admissible.
    unit : (n,) N, what acts on each contact, at most the network's largest force.
    """

    contacts: IntArray
    B: sp.csr_array
    load: FloatArray
    force: FloatArray
    unit: FloatArray


@dataclass(frozen=True, eq=False)
class Bounds(Frozen):
    """Bounds of the forces asked for.

    Attributes
    ----------
    lower, upper : (nc,) N; not-a-number where not asked for, or not certified.
    residual : (nc,) the worse certificate of the two; zero where linear algebra decided.
    pull : (nc,) how far the bounds move, at most, with one unit of load on every dof.
    rays : directions (nc,) of forces that load nothing, f ≥ 0 and Bᵀf = 0, largest entry one;
        along them forces grow without bound.
    failures : what went wrong, in words, by contact.
    programs : number of linear programs that were solved.
    """

    lower: FloatArray
    upper: FloatArray
    residual: FloatArray
    pull: FloatArray
    rays: tuple[FloatArray, ...]
    failures: dict[int, str]
    programs: int


@dataclass(frozen=True)
class _Interval:
    """Both bounds of a contact, without the vectors that attain them."""

    contact: int
    lower: float
    upper: float
    residual: float
    pull: float
    failure: str


def free_networks(
    parts: Sequence[Block],
    verdict: Verdict,
    forces: FloatArray,
    acting: FloatArray,
) -> list[Free]:
    """The independent networks of contacts whose forces can differ.

    Parameters
    ----------
    parts : of the closed network. verdict : says which forces can differ, however little.
    forces : (nc,) N, admissible.
    acting : (nc,) N, what acts on each contact: the unit of its force, unless all forces of its
        network are smaller.
    """
    moving, found = verdict.moving, []
    for part in parts:
        rows = np.flatnonzero(moving[part.contacts])
        if rows.size:
            rows, gradient, ratio = _posed(part, rows, verdict, forces)
            found += _split(gradient, part.contacts[rows], forces, acting, ratio)
    return found


def _posed(
    part: Block, rows: IntArray, verdict: Verdict, forces: FloatArray
) -> tuple[IntArray, sp.csr_array, FloatArray]:
    """Rows of a part to bound, what their forces must keep, and each one's share of the unit.

    Where some take part in the states by very little, the equations are written anew: the loose
    forces keep the complement of the states, and each tight one follows them.
    """
    plain = sp.csr_array(part.B[rows] * part.length[rows][:, None])
    tight = verdict.tight[part.contacts[rows]]
    can = np.flatnonzero(verdict.loadable[part.contacts])
    basis = states(sp.csr_array(part.B[can]), verdict.rank_tol) if tight.any() else None
    if basis is None or tight.all():
        return rows, plain, np.ones(rows.size)
    loose, stiff = rows[~tight], rows[tight]
    own, others = basis[np.searchsorted(can, loose)], basis[np.searchsorted(can, stiff)]
    follow = others @ np.linalg.pinv(own)
    size = np.linalg.norm(follow, axis=1)
    ratio = size / part.length[stiff]
    top = float(forces[part.contacts[loose]].max(initial=0.0))
    near = (size > 0.0) & (forces[part.contacts[stiff]] <= _FAR * top * ratio)
    stiff, follow, size, ratio = stiff[near], follow[near], size[near], ratio[near]
    length = part.length[loose][:, None]
    upper = [sp.csr_array(scipy.linalg.null_space(own.T) * length)]
    upper.append(sp.csr_array((follow / size[:, None]).T * length))
    lower = [sp.csr_array((stiff.size, upper[0].shape[1])), -sp.eye_array(stiff.size)]
    gradient = sp.csr_array(sp.block_array([upper, lower]))
    return np.append(loose, stiff), gradient, np.append(np.ones(loose.size), ratio)


def _split(
    gradient: sp.csr_array,
    contacts: IntArray,
    forces: FloatArray,
    acting: FloatArray,
    ratio: FloatArray,
) -> list[Free]:
    """The independent networks of some rows, in units of what acts times the rows' ``ratio``."""
    label = network_parts(gradient).contact
    found = []
    for part in np.unique(label):
        own = np.flatnonzero(label == part)
        block = sp.csr_array(gradient[own])
        B = sp.csr_array(block[:, np.unique(block.indices)])
        here, plain = contacts[own], ratio[own] == 1.0
        top = float(forces[here[plain]].max(initial=0.0))
        unit = np.minimum(acting[here], top) if top > 0.0 else acting[here]
        unit = np.where(plain, unit, top or float(acting[here].max()))
        B = sp.csr_array(B * unit[:, None])  # the other rows are in shares of their own already
        unit = unit * ratio[own]
        force = forces[here] / unit
        B = sp.csr_array(B * (1.0 / column_scale(B))[None, :])
        load = read_only(np.asarray(B.T @ force))
        found.append(Free(read_only(here), freeze(B), load, read_only(force), read_only(unit)))
    return found


def bounds_of(
    networks: list[Free],
    forces: FloatArray,
    asked: BoolArray,
    jobs: int,
    tell: Callable[[int, int], None],
    deadline: Deadline = NEVER,
) -> Bounds:
    """Bounds of the contacts asked for.

    Parameters
    ----------
    networks : from ``free_networks``. forces : (nc,) N, admissible.
    asked : (nc,) which bounds are wanted.
    jobs : threads, each with linear programs of its own.
    tell : called with the number of contacts done and in all.
    deadline : when the linear programs must end; bounds not found by then are failures.
    """
    free = np.zeros(forces.shape, dtype=bool)
    for network in networks:
        free[network.contacts] = True
    lower, upper = np.where(free, np.nan, forces), np.where(free, np.nan, forces)
    residual, pull = np.zeros(forces.shape), np.zeros(forces.shape)
    rays: list[FloatArray] = []
    failures: dict[int, str] = {}
    tasks = _tasks(networks, asked, jobs)
    total, done, programs = sum(chunk.size for _, chunk in tasks), 0, 0
    with ThreadPoolExecutor(jobs) as pool:
        searches = pool.map(lambda task: _searched(task, deadline), tasks)
        for (network, _), search in zip(tasks, searches, strict=True):
            done += len(search.found)
            programs += search.programs
            rays += [_on_all(network, ray, forces.size) for ray in search.rays]
            for one in search.found:
                if one.failure:
                    failures[one.contact] = one.failure
                    continue
                lower[one.contact], upper[one.contact] = one.lower, one.upper
                residual[one.contact], pull[one.contact] = one.residual, one.pull
            tell(done, total)
    return Bounds(
        read_only(lower), read_only(upper), read_only(residual), read_only(pull),
        tuple(read_only(ray) for ray in rays), failures, programs,
    )  # fmt: skip


def _tasks(networks: list[Free], asked: BoolArray, jobs: int) -> list[tuple[Free, IntArray]]:
    """The contacts asked for, in chunks that keep the threads busy and progress moving."""
    found = []
    for network in networks:
        wanted = np.flatnonzero(asked[network.contacts])
        pieces = max(4 * jobs if jobs > 1 else 1, -(-wanted.size // _CHUNK))
        chunks = np.array_split(wanted, min(pieces, max(wanted.size, 1)))
        found += [(network, chunk) for chunk in chunks if chunk.size]
    return found


def _on_all(network: Free, forces: FloatArray, nc: int) -> FloatArray:
    everywhere = np.zeros(nc)
    everywhere[network.contacts] = forces * network.unit
    return everywhere / everywhere.max()


def _searched(task: tuple[Free, IntArray], deadline: Deadline) -> _Search:
    network, wanted = task
    search = _Search(network, deadline)
    search.run(wanted)
    return search


def _failure(worst: Extreme) -> str:
    if worst.words == TIME_LIMIT:
        return TIME_LIMIT
    return f"HiGHS: {worst.words}; certificate {worst.residual:.1e}, above {CERTIFIED:g}"


class _Search:
    """Bounds of some contacts of one network, remembering what earlier vertices showed.

    A contact that is idle in an admissible answer already met has the lower bound zero; one
    that a ray already met loads has no upper bound.
    """

    def __init__(self, network: Free, deadline: Deadline) -> None:
        self.network = network
        self.problem = ForceRange(network.B, network.load, deadline)
        self.rays: list[FloatArray] = []
        self.found: list[_Interval] = []
        self.programs = 0
        n = network.contacts.size
        self._idle = np.full(n, np.inf)  # residual of the proof that the least force is zero
        self._endless = np.full(n, np.inf)  # residual of the ray along which a force grows
        self._remember(network.force, 0.0)

    def run(self, wanted: IntArray) -> None:
        """Largest forces first: their vertices settle most of the least ones."""
        highest = [self._largest(int(column)) for column in wanted]
        for column, high in zip(wanted, highest, strict=True):
            self.found.append(self._interval(int(column), self._least(int(column)), high))

    def _largest(self, column: int) -> Extreme:
        if self._endless[column] <= CERTIFIED:
            return Extreme(np.inf, float(self._endless[column]), _NONE, "by a ray already met")
        high = self.problem.largest(column)
        self.programs += 1
        if high.ok and np.isinf(high.value):
            self.rays.append(high.forces)
            share = high.forces / high.forces.max()
            along = share > _ALONG
            self._endless[along] = np.minimum(
                self._endless[along], high.residual / np.minimum(share[along], 1.0)
            )
        elif high.ok:
            self._remember(high.forces, high.residual)
        return dataclasses.replace(high, forces=_NONE)

    def _least(self, column: int) -> Extreme:
        if self._idle[column] <= CERTIFIED:
            return Extreme(0.0, float(self._idle[column]), _NONE, "zero in an answer already met")
        self.programs += 1
        return dataclasses.replace(self.problem.least(column), forces=_NONE)

    def _remember(self, forces: FloatArray, residual: float) -> None:
        idle = forces <= _ZERO
        proof = np.maximum(residual, np.abs(forces[idle]))
        self._idle[idle] = np.minimum(self._idle[idle], proof)

    def _interval(self, column: int, low: Extreme, high: Extreme) -> _Interval:
        worst, unit = max(low, high, key=lambda bound: bound.residual), self.network.unit[column]
        return _Interval(
            contact=int(self.network.contacts[column]),
            lower=float(low.value * unit),
            upper=float(high.value * unit),
            residual=worst.residual,
            pull=max(low.pull, high.pull),
            failure="" if low.ok and high.ok else _failure(worst),
        )
