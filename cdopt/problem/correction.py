"""Rigid steps corrected once at the contacts that press: the change of motions or forces.

A gap may be small on the local scale and yet change a motion or a force much, as that of a heavy
body on a light one. No residual of a single contact shows it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from scipy.linalg.lapack import dpotrf, dpotri

from cdopt._util.checks import BoolArray, FloatArray, IntArray
from cdopt.problem.active_set import CHANGES, PartStep
from cdopt.problem.contact_problem import ContactProblem, LocalScales
from cdopt.problem.residual import Condition
from cdopt.problem.scales import NEIGHBOUR
from cdopt.problem.scaling import components

_SIGN = 1e-6  # of the local load or speed: forces that pull, gaps that close by less do not
_MAGNIFIED = 1e3  # times as far as the gaps' own share the motion may be off,
_MOST, _MOST_BY_N = 100, 1000  # rows of a part that press, and a third of its dofs
_MAGNIFIED_BY_N = 5e2  # and forces where N alone is known
_DOUBT = 1e-2  # of the local speed: answers with larger errors are wrong anyway
_NULL = 1e-12  # eigenvalues of N below this share of the largest belong to no force
_TIED = 1e-8  # a share of a self-balanced state above round-off
_PASSES = 2  # of refinement
_CERTAIN = 10.0  # times what is uncertain of it, a load counts


def motion_condition(
    data: ContactProblem,
    f: FloatArray,
    local: LocalScales,
    kept: BoolArray,
    taken: BoolArray,
    off: FloatArray,
) -> tuple[Condition, ...]:
    """Change of the motion if gaps are closed exactly: √m δv of each dof, over 10³ √E_b.

    A gap between a heavy body and a light one that others support may be small on the scale of the
    light one, but moves the heavy one fully. So the answer with forces f (rows,) is corrected once:
    forces of the rows ``taken`` (rows,) vanish, as they push across open gaps, and those of the
    rows ``kept`` (rows,), A, make rates zero, as contacts press and stick,

        δv = −Δt M⁻¹Bᵀf₀ − M^(−1/2) (B_A M^(−1/2))⁺ (g − Δt B M⁻¹Bᵀf₀)_A.

    Supports close together magnify gaps within the tolerance, so δv counts a thousandth.
    Contacts that would then pull are opened and those that would close are kept, a few times. A
    part for which this does not end counts zero, and so do large ones, those of one body and
    those in which an error ``off`` (nc,) in m/s is not small. Zero for round-off. If N alone is
    known, forces are judged in place of bodies: see ``_Coupled``.
    """
    by_bodies, part, count = data.inertia is not None, data.row_part, data.parts.count
    if by_bodies and local.body_energy.size < 2:
        return ()
    rows = _rows(data, f, local, off)
    wrong = np.where(kept, rows.beyond, np.where(taken, f, 0.0)) != 0.0
    many, errors = (np.bincount(part[some], minlength=count) for some in (kept, wrong))
    errors[data.parts.contact[~(off <= _DOUBT * local.speed)]] = 0
    if by_bodies:
        _, first = np.unique(data.bodies.label, return_index=True)
        errors[np.bincount(data.parts.dof[first], minlength=count) < 2] = 0
    error, scale = np.zeros((2, data.nv if by_bodies else data.nc))
    if by_bodies:
        scale = _MAGNIFIED * np.sqrt(local.body_energy)[data.bodies.label]
    most = _MOST if by_bodies else _MOST_BY_N
    for k in np.flatnonzero((many > 1) & (many <= most) & (errors > 0)):
        here, dofs = np.flatnonzero(part == k), np.flatnonzero(data.parts.dof == k)
        if dofs.size > 3 * most:
            continue
        own = rows.of(here)
        if by_bodies:
            settled = _settled(_Bodies(data, here, dofs), own, kept[here], taken[here])
            error[dofs] = 0.0 if settled is None else np.abs(settled.moved)
            continue
        piece = _Coupled(data.products[here][:, here].toarray(), own)
        settled = _settled(piece, own, kept[here], taken[here])
        if settled is not None:
            at, error[at], scale[at] = piece.worst(settled)
    if not error.any():
        return ()
    of = data.parts.dof if by_bodies else data.parts.contact
    return (Condition("motion", "m/s √kg", error, scale, 0.0 * error, part=of),)


class _PartAnswer(NamedTuple):
    """Of an answer: (n,) arrays of the rows of a part."""

    # f, gap, beyond, round_off: N, m/s, m/s beyond round-off, and that
    f: FloatArray
    gap: FloatArray
    beyond: FloatArray
    round_off: FloatArray
    one_sided: BoolArray  # whether the row is that of a normal force which does not pull
    contact: IntArray  # of each row
    # speed, force: the local scales, m/s and N
    speed: FloatArray
    force: FloatArray
    error: FloatArray  # N, of the forces by the residuals of their contacts

    def of(self, rows: IntArray) -> _PartAnswer:
        """Those of some ``rows`` (k,)."""
        some: Any = [values[rows] for values in self]
        return _PartAnswer(*some)


def _rows(data: ContactProblem, f: FloatArray, local: LocalScales, off: FloatArray) -> _PartAnswer:
    """Of all rows of an answer, with contacts ``off`` (nc,) m/s."""
    gap, round_off, cones = local.rates, local.gap_round_off, data.cones
    beyond = np.sign(gap) * np.maximum(np.abs(gap) - round_off, 0.0)
    one_sided = np.zeros(data.rows, dtype=bool)
    one_sided[cones.ends[:-1]] = ~cones.bilateral
    speed, mobility = cones.on_rows(local.speed), cones.on_rows(data.mobility)
    error = cones.on_rows(off) * data.scales.lever / mobility
    contact, force = cones.contact, speed / mobility
    return _PartAnswer(f, gap, beyond, round_off, one_sided, contact, speed, force, error)


class _Settled(NamedTuple):
    """A corrected answer: which rows close, and the changes that this makes."""

    closed: BoolArray  # (n,) rows whose rates are made zero
    moved: FloatArray  # √m δv (m,) in m/s √kg; without entries where bodies are not known
    pushed: FloatArray  # (n,) N, changes of forces


def _settled(
    piece: _Bodies | _Coupled, rows: _PartAnswer, some: BoolArray, gone: BoolArray
) -> _Settled | None:
    """The answer with rows ``some`` closed and ``gone`` without force; None where it never ends."""
    for tried in range(2 * CHANGES):
        moved, pushed, rates = piece.closed(some, rows.beyond, np.where(gone, rows.f, 0.0))
        force, speed = piece.slack(rows, some)
        pull, close = rows.f + pushed + force, rows.gap + rates + speed
        excess = np.where(some, pull / rows.force, close / rows.speed)
        wrong = rows.one_sided & (np.where(some, pull, close) < 0.0)
        if not wrong.any():
            return _Settled(some, moved, pushed)
        if tried >= CHANGES // 2:  # one at a time, where all at once would come back
            wrong &= excess == excess[wrong].min()
        opens = np.isin(rows.contact, rows.contact[wrong & some])
        closes = wrong & ~some
        some, gone = (some & ~opens) | closes, (gone | opens) & ~closes
    return None


class _Bodies(PartStep):
    """The rows of one part whose bodies are known."""

    def slack(self, rows: _PartAnswer, closed: BoolArray) -> tuple[FloatArray, FloatArray]:
        """(n,) N and m/s: forces that pull and gaps that close by less do not."""
        return _SIGN * rows.force, _SIGN * rows.speed


class _Coupled:
    """The rows (n,) of one part of which N alone is known.

    Bodies are not named. A contact is judged by what it does while the other closed ones stay
    closed: its mobility is then s = 1/(N_A⁻¹)_ii, its load s^½ |f| of the forces that close all,
    and the error s^½ |δf| counts a 500th part. In place of a contact stands a *cluster* c: rows of
    one contact, and those that share a self-balanced state, whose forces are not determined one by
    one; s is then the inverse of (N_A⁺)_cc, and the error of the latter counts a 1000th part.
    Two contacts of a light body may each move a heavy one, so clusters c that share a body are
    judged together too: by s f and s δf, the speeds if all of them open, each over s_ii^½.
    Contacts that open by less than the answer's own errors belong to A, as these errors choose
    between them. A cluster on which nothing acts but round-off, or what ``error`` of forces
    that are not recomputed leaves, takes a share of the local speed. That error counts as a
    share of the cluster's own force, or of 1e-5 of the local one if that is larger.
    """

    def __init__(self, N: FloatArray, rows: _PartAnswer) -> None:
        root = np.sqrt(N.diagonal())
        self.N, self.rows, self.root = N, rows, np.where(root > 0.0, root, 1.0)
        self._known: tuple[BoolArray, FloatArray, FloatArray] | None = None

    def closed(
        self, closed: BoolArray, gap: FloatArray, pushes: FloatArray
    ) -> tuple[FloatArray, FloatArray, FloatArray]:
        """As ``PartStep.closed``, without the motion."""
        inverse, _ = self._inverse(closed)
        root, change = self.root[closed], -pushes
        for _ in range(_PASSES):
            left = (gap + self.N @ change)[closed]
            change[closed] -= inverse @ (left / root) / root
        return np.zeros(0), change, self.N @ change

    def slack(self, rows: _PartAnswer, closed: BoolArray) -> tuple[FloatArray, FloatArray]:
        """(n,) N and m/s, what round-off leaves of forces and gaps; more of dependent forces."""
        inverse, null = self._inverse(closed)
        root, force = self.root[closed], _SIGN * rows.force
        least = np.abs(inverse) @ (rows.round_off[closed] / root) / root
        force[closed] = np.where(null.diagonal() > _TIED, force[closed], least)
        return force, _CERTAIN * rows.round_off

    def worst(self, settled: _Settled) -> tuple[int, float, float]:
        """A contact where the error is largest over the load; the error, 500 loads in m/s √kg."""
        rows, gap = self.rows, self.rows.gap + self.N @ settled.pushed
        share = max(_SIGN, float((rows.error / rows.force).max()))
        closed = settled.closed | (rows.one_sided & (gap <= share * rows.speed))
        inverse, null = self._inverse(closed)
        root, contact = self.root[closed], rows.contact[closed]
        left = ~closed & (rows.f + settled.pushed != 0.0)
        doubt = rows.round_off + np.abs(self.N[:, left]) @ rows.error[left]
        blur = np.abs(inverse) @ (doubt[closed] / root)
        change = root * settled.pushed[closed]
        force, speed = root * rows.f[closed] + change, rows.speed[closed] / root
        row, other = np.nonzero((np.abs(null) > _TIED) | (contact[:, None] == contact))
        label, _ = components(row, other, root.size)
        sliding = np.zeros(self.root.size)  # m/s √kg, errors of forces that stay as they are
        sliding[left] = (self.root * rows.error)[left]
        least_force = np.maximum(np.abs(force), _CERTAIN * _SIGN * root * rows.force[closed])
        judged = [(0, 0.0, 1.0)]
        for here, shared in _together(self.N[np.ix_(closed, closed)] != 0.0, label):
            values, vectors = np.linalg.eigh(inverse[np.ix_(here, here)])
            used = values > 0.5 / closed.size  # the others are self-balanced: N has none above n
            values, vectors = values[used], vectors[:, used]
            half, heavy = vectors.T / np.sqrt(values)[:, None], values.max(initial=0.0)
            if shared:
                free = half.T @ half
                each = np.maximum(free.diagonal(), _NULL)
                half, heavy = free / np.sqrt(each)[:, None], 1.0 / each.max()
            sizes = (np.linalg.norm(half @ x[here]) for x in (change, force, blur))
            error, load, least = (float(size) for size in sizes)
            own = float(sliding[np.isin(rows.contact, contact[here])].max(initial=0.0))
            error = max(error, load * own / max(float(least_force[here].max()), own, 1e-300))
            if load <= _CERTAIN * least:
                load = NEIGHBOUR * float(speed[here].max() * np.sqrt(heavy))
            tied = float(null.diagonal()[here].max(initial=0.0)) > _TIED
            at, scale = int(contact[here[0]]), (_MAGNIFIED if tied else _MAGNIFIED_BY_N) * load
            judged.append((at, error, scale))
        return judged[int(np.argmax([size / max(most, 1e-300) for _, size, most in judged]))]

    def _inverse(self, closed: BoolArray) -> tuple[FloatArray, FloatArray]:
        """N_A⁺ (a, a) of the ``closed`` rows over the root of its diagonal; the null projector."""
        if self._known is None or not np.array_equal(self._known[0], closed):
            root = self.root[closed]
            N = self.N[np.ix_(closed, closed)] / np.outer(root, root)
            self._known = closed, *_inverted(N)
        return self._known[1:]


def _inverted(N: FloatArray) -> tuple[FloatArray, FloatArray]:
    """N⁺ (a, a) of N (a, a) with a diagonal of ones, and the projector (a, a) on its null space."""
    factor, failed = dpotrf(N, lower=1)
    if not failed and N.size:
        inverse, _ = dpotri(factor, lower=1)
        inverse = np.tril(inverse) + np.tril(inverse, -1).T
        if float(np.abs(inverse).sum(axis=0).max() * np.abs(N).sum(axis=0).max()) < 1.0 / _NULL:
            return inverse, np.zeros(N.shape)
    values, vectors = np.linalg.eigh(N)
    used = values > _NULL * values.max(initial=0.0)
    half, null = vectors[:, used] / np.sqrt(values[used]), vectors[:, ~used]
    return half @ half.T, null @ null.T


def _together(coupled: BoolArray, label: IntArray) -> Iterator[tuple[IntArray, bool]]:
    """Rows of each cluster, then of those that share a body, and whether they do.

    ``coupled`` (n, n) marks entries of N, ``label`` (n,) is the cluster of each row. Clusters share
    a body if each of them is coupled to all others.
    """
    member = label == np.arange(label.max(initial=-1) + 1)[:, None]
    near, (row, other) = np.zeros((len(member), len(member)), dtype=bool), np.nonzero(coupled)
    near[label[row], label[other]] = True
    for some in member:
        yield np.flatnonzero(some), False
    first, second = np.nonzero(np.triu(near, 1))
    for body in np.unique(near[first] & near[second], axis=0):
        if near[np.ix_(body, body)].all():
            yield np.flatnonzero(member[body].any(axis=0)), True
