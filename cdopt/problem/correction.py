"""Rigid steps corrected once at the contacts that press: the change of motions or forces.

A gap may be small on the local scale and yet change a motion or a force much, as that of a heavy
body on a light one. No residual of a single contact shows it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from cdopt._util.checks import BoolArray, FloatArray, IntArray
from cdopt.problem.cones import Cones
from cdopt.problem.contact_problem import ContactProblem, LocalScales
from cdopt.problem.local_speeds import NEIGHBOUR
from cdopt.problem.part_step import CHANGES, PartStep, dense_block, inverted, part_step
from cdopt.problem.residual import Condition
from cdopt.problem.scaling import components, places_of

_SIGN = 1e-6  # of the local load or speed: smaller pulling forces and closing gaps are ignored
_MAGNIFIED, _MAGNIFIED_BY_N = 1e3, 5e2  # loads in the scale of errors; where N alone is known
_MOST, _MOST_BY_N = 100, 1000  # most closed rows of a part, and most dofs over 3
_RISK = 1e-4  # of the speed of a body: larger errors are examined in large parts too
_ACCURATE = 1e-5  # of the local speed: only where errors are smaller
_DOUBT = 1e-2  # of the local speed: answers with larger errors are wrong anyway
_NULL = 1e-12  # least share of a contact's own mobility while its neighbours are closed
_TIED = 1e-8  # a share of a self-balanced state above round-off
_PASSES = 2  # of refinement
_PAIRS = 500  # most pairs of clusters of a part by N that are tested
_CERTAIN = 10.0  # a load counts if it is larger than its uncertainty by this factor


def motion_condition(
    data: ContactProblem,
    f: FloatArray,
    local: LocalScales,
    chosen_rows: Callable[[], tuple[BoolArray, BoolArray]],
    off: FloatArray,
    enough: float = np.inf,
) -> tuple[Condition, ...]:
    """Change of the motion if gaps are closed exactly: √m δv of each dof, over 10³ √E_b.

    A gap between a heavy body and a light one that others support may be small on the scale of the
    light one, but moves the heavy one fully. So the answer with forces f (rows,) is corrected once.
    Of the ``chosen_rows``, both (rows,), forces of the first, A, make rates zero, as contacts press
    and stick, and those of the second vanish, as they push across open gaps,

        δv = −Δt M⁻¹Bᵀf₀ − M^(−1/2) (B_A M^(−1/2))⁺ (g − Δt B M⁻¹Bᵀf₀)_A.

    The scale has the factor 10³ because closely spaced supports amplify gap errors that are within
    tolerance. Contacts that would then pull are opened, and those whose gaps would close are
    closed, a few times. Contacts with friction whose rates are within the errors of the answer
    stick, except those whose forces would then be outside their cones: such rates do not tell
    whether a contact sticks, slides or opens. The error is set to 0 in parts where this does not
    settle, in large parts, in parts of one body, where an error ``off`` (nc,) in m/s is not small,
    and for round-off. If only N is known, forces are compared instead of motions: see ``_Coupled``.

    Parts with the largest errors ``off`` are first, and none is examined after one whose change
    exceeds ``enough``.
    """
    by_bodies, part, count = data.inertia is not None, data.row_part, data.parts.count
    if by_bodies and local.body_energy.size < 2:
        return ()
    kept, taken = chosen_rows()
    most, pressing = _MOST if by_bodies else _MOST_BY_N, np.bincount(part[kept], minlength=count)
    large = _at_risk(data, local, off) if by_bodies else np.zeros(count, dtype=bool)
    if not np.any(((pressing <= most) | large) & (np.bincount(part, minlength=count) > 1)):
        return ()
    rows = _rows(data, f, local, kept, taken, off)
    some, gone = rows.first
    wrong = np.where(some, rows.beyond, np.where(gone, f, 0.0)) != 0.0
    many, errors = (np.bincount(part[chosen], minlength=count) for chosen in (some, wrong))
    errors[data.parts.contact[~(off <= _DOUBT * local.speed)]] = 0
    if by_bodies:
        _, first = np.unique(data.bodies, return_index=True)
        errors[np.bincount(data.parts.dof[first], minlength=count) < 2] = 0
    error, scale = np.zeros((2, data.nv if by_bodies else data.nc))
    if by_bodies:
        scale = _MAGNIFIED * np.sqrt(local.body_energy)[data.bodies]
    inexact = np.flatnonzero((many > 1) & ((many <= most) | large) & (errors > 0))
    if not inexact.size:
        return ()
    cones = data.cones.in_units(np.broadcast_to(np.asarray(data.scales.lever), f.shape))
    places = [places_of(of, count) for of in (part, data.parts.dof, data.parts.contact)]
    share = data.parts.largest(data.parts.contact, off / local.speed)
    for k in inexact[np.argsort(-share[inexact], kind="stable")].tolist():
        here, dofs, contacts = (places_at(k) for places_at in places)
        if dofs.size > 3 * most and not large[k]:
            continue
        own, laws = rows.of(here), cones.take(contacts)
        if by_bodies:
            bodies, ignored = part_step(data, here, dofs), partial(_ignored, own)
            settled = _settled(bodies, own, laws, ignored)
            at = dofs
            error[at] = 0.0 if settled is None else np.abs(settled[1])
        else:
            piece = _Coupled(dense_block(data.products, here, here)[1], own)
            settled = _settled(piece, own, laws, piece.slack)
            if settled is None:
                continue
            worst, *sizes = piece.worst(settled[0], settled[2])
            at = np.array([worst])
            error[at], scale[at] = sizes
        if np.any(error[at] > enough * scale[at]):
            break
    if not error.any():
        return ()
    of = data.parts.dof if by_bodies else data.parts.contact
    return (Condition("motion", "m/s √kg", error, scale, 0.0 * error, part=of),)


def _at_risk(data: ContactProblem, local: LocalScales, off: FloatArray) -> BoolArray:
    """(parts,) whether small errors ``off`` (nc,) are large on the scale of the slowest body."""
    mass = np.bincount(data.bodies, data.mass.diagonal, minlength=local.body_energy.size)
    slowest = np.full(data.parts.count, np.inf)
    speed = np.sqrt(np.where(local.body_energy > 0.0, local.body_energy, np.inf) / mass)[
        data.bodies
    ]
    np.minimum.at(slowest, data.parts.dof, speed)
    at, parts = data.parts.contact, data.parts
    accurate = parts.largest(at, off / local.speed) <= _ACCURATE
    return accurate & (parts.largest(at, off) > _RISK * slowest)


class _PartAnswer(NamedTuple):
    """An answer in some rows: arrays (n,)."""

    # f (N), gap (m/s), beyond (m/s: the gap without round-off), round_off (m/s, of the gap)
    f: FloatArray
    gap: FloatArray
    beyond: FloatArray
    round_off: FloatArray
    one_sided: BoolArray  # normal rows of contacts that cannot pull
    # kept, taken: rows that press and rows that push across open gaps, by the natural map
    kept: BoolArray
    taken: BoolArray
    sticks: BoolArray  # rows of contacts with friction whose rates are within the answer's errors
    contact: IntArray  # of each row
    # speed, force: the local scales, m/s and N
    speed: FloatArray
    force: FloatArray
    error: FloatArray  # N, of the forces, estimated from the residuals of their contacts
    arm: FloatArray  # m, of moments; 1 for forces

    @property
    def first(self) -> tuple[BoolArray, BoolArray]:
        """The rows that close and those that lose their forces at first."""
        return self.kept | self.sticks, self.taken & ~self.sticks

    def of(self, rows: IntArray) -> _PartAnswer:
        """The same in ``rows`` (k,) alone."""
        some: Any = [values[rows] for values in self]
        return _PartAnswer(*some)


def _rows(
    data: ContactProblem,
    f: FloatArray,
    local: LocalScales,
    kept: BoolArray,
    taken: BoolArray,
    off: FloatArray,
) -> _PartAnswer:
    """An answer in all rows; ``off`` (nc,) m/s are the errors of its contacts."""
    gap, round_off, cones, parts = local.rates, local.gap_round_off, data.cones, data.parts
    beyond = np.sign(gap) * np.maximum(np.abs(gap) - round_off, 0.0)
    one_sided = np.zeros(data.rows, dtype=bool)
    one_sided[cones.ends[:-1]] = ~cones.bilateral
    speed, mobility = cones.on_rows(local.speed), cones.on_rows(data.mobility)
    arm = np.broadcast_to(np.asarray(data.scales.lever), f.shape)
    share = np.maximum(parts.largest(parts.contact, off / local.speed), _SIGN)[parts.contact]
    within = cones.norms(arm * gap) <= _CERTAIN * share * local.speed
    sticks = (within & (np.diff(cones.ends) > 1))[cones.contact]
    sizes = speed, speed / mobility, cones.on_rows(off) * arm / mobility, arm
    chosen = one_sided, kept, taken, sticks
    return _PartAnswer(f, gap, beyond, round_off, *chosen, cones.contact, *sizes)


def _settled(
    piece: PartStep | _Coupled,
    rows: _PartAnswer,
    cones: Cones,
    slack: Callable[[BoolArray], tuple[FloatArray, FloatArray]],
) -> tuple[BoolArray, FloatArray, FloatArray] | None:
    """The answer corrected; None where it does not settle. ``cones`` are those of forces over arms.

    Returns the rows (n,) whose rates are made zero, √m δv (m,) in m/s √kg, without entries where
    bodies are not known, and the changes of forces (n,), N. ``slack`` of the closed rows are (n,) N
    and m/s: smaller pulling forces and closing gaps are ignored. Contacts that stick outside their
    cones are returned to what they were.
    """
    (some, gone), sticks = rows.first, rows.sticks
    several, slid = (np.diff(cones.ends) > 1)[cones.contact], np.zeros(some.size, dtype=bool)
    for tried in range(2 * CHANGES):
        moved, pushed, rates = piece.closed(some, rows.beyond, np.where(gone, rows.f, 0.0))
        force, speed = slack(some)
        pull, close = rows.f + pushed + force, rows.gap + rates + speed
        if sticks.any():
            off = cones.distance((rows.f + pushed) / rows.arm) > cones.norms(force / rows.arm)
            slides = sticks & off[cones.contact]
            if slides.any():
                some, gone = np.where(slides, (rows.kept, rows.taken), (some, gone))
                sticks, slid = sticks & ~slides, slid | slides
                continue
        excess = np.where(some, pull / rows.force, close / rows.speed)
        wrong = rows.one_sided & (np.where(some, pull, close) < 0.0)
        if not wrong.any():
            return some, moved, pushed
        if tried >= CHANGES // 2:  # one at a time, where all at once would come back
            wrong &= excess == excess[wrong].min()
        opens = np.isin(rows.contact, rows.contact[wrong & some])
        closes = wrong & ~some
        stick = several & ~slid & np.isin(rows.contact, rows.contact[closes])
        sticks, closes = (sticks & ~opens) | stick, closes | stick
        some, gone = (some & ~opens) | closes, (gone | opens) & ~closes
    return None


def _ignored(rows: _PartAnswer, closed: BoolArray) -> tuple[FloatArray, FloatArray]:
    """The ``slack`` of rows whose bodies are known."""
    return _SIGN * rows.force, _SIGN * rows.speed


class _Coupled:
    """The rows (n,) of one part of which only N is known.

    Bodies are not known. A contact's mobility while the other closed ones stay closed is
    s = 1/(N_A⁻¹)_ii; the error s^½ |δf| is compared with 500 times its load s^½ |f|, with the f
    that close all gaps. Rows of one contact, and rows coupled by a self-balanced state, form a
    *cluster* c and are tested together, because their single forces are not determined. Here s is
    the inverse of (N_A⁺)_cc. Two contacts of a light body may each move a heavy one, so clusters
    that share a body are tested together too, by s f and s δf, the speeds if all of them open, each
    over s_ii^½. Contacts that open by less than the answer's errors are tested as open and as
    members of A. If the load is within round-off, or within the uncertainty ``error`` of forces
    that are not recomputed, a share of the local speed replaces it. That uncertainty also counts as
    an error, relative to the cluster's force or 1e-5 of the local force, whichever is larger.
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

    def slack(self, closed: BoolArray) -> tuple[FloatArray, FloatArray]:
        """(n,) N and m/s, round-off of forces and gaps; more for dependent forces."""
        rows, (inverse, null) = self.rows, self._inverse(closed)
        root, force = self.root[closed], _SIGN * rows.force
        least = np.abs(inverse) @ (rows.round_off[closed] / root) / root
        force[closed] = np.where(null.diagonal() > _TIED, force[closed], least)
        return force, _CERTAIN * rows.round_off

    def worst(self, closed: BoolArray, pushed: FloatArray) -> tuple[int, float, float]:
        """The contact of the worst cluster; its error and the scale of that, m/s √kg.

        ``closed`` and ``pushed`` (n,) are those of ``_settled``.
        """
        rows, gap = self.rows, self.rows.gap + self.N @ pushed
        share = max(_SIGN, float((rows.error / rows.force).max()))
        grazing = ~closed & rows.one_sided & (gap <= share * rows.speed)
        judged = self._clusters(closed, pushed)
        if grazing.any():
            judged += self._clusters(closed | grazing, pushed)
        return max(judged, key=lambda one: one[1] / max(one[2], 1e-300))

    def _clusters(self, closed: BoolArray, pushed: FloatArray) -> list[tuple[int, float, float]]:
        """As ``worst``, of each cluster of the rows ``closed`` (n,)."""
        rows = self.rows
        inverse, null = self._inverse(closed)
        root, contact = self.root[closed], rows.contact[closed]
        left = ~closed & (rows.f + pushed != 0.0)
        doubt = rows.round_off + np.abs(self.N[:, left]) @ rows.error[left]
        blur = np.abs(inverse) @ (doubt[closed] / root)
        change = root * pushed[closed]
        force, speed = root * rows.f[closed] + change, rows.speed[closed] / root
        row, other = np.nonzero((np.abs(null) > _TIED) | (contact[:, None] == contact))
        label, _ = components(row, other, root.size)
        sliding = np.zeros(self.root.size)  # m/s √kg, errors of forces that stay as they are
        sliding[left] = (self.root * rows.error)[left]
        least_force = np.maximum(np.abs(force), _CERTAIN * _SIGN * root * rows.force[closed])
        own = np.zeros(int(rows.contact.max(initial=-1)) + 1)
        np.maximum.at(own, rows.contact, sliding)
        judged = [(0, 0.0, 1.0)]
        for here, shared in _together(self.N[np.ix_(closed, closed)] != 0.0, label):
            values, vectors = np.linalg.eigh(inverse[here[:, :, None], here[:, None, :]])
            used = values > 0.5 / closed.size  # the others are self-balanced: N has none above n
            values = np.where(used, values, 0.0)
            half = vectors.transpose(0, 2, 1) * np.where(used, values, np.inf)[:, :, None] ** -0.5
            heavy = values.max(axis=1)
            if shared:
                free = half.transpose(0, 2, 1) @ half
                each = np.maximum(np.diagonal(free, axis1=1, axis2=2), _NULL)
                half, heavy = free / np.sqrt(each)[:, :, None], 1.0 / each.max(axis=1)
            forces = np.stack([change, force, blur])[:, here]
            error, load, least = np.linalg.norm(np.einsum("kij,skj->ski", half, forces), axis=2)
            stays = own[contact[here]].max(axis=1)
            most = np.maximum(np.maximum(least_force[here].max(axis=1), stays), 1e-300)
            error = np.maximum(error, load * stays / most)
            usual = NEIGHBOUR * speed[here].max(axis=1) * np.sqrt(heavy)
            load = _MAGNIFIED_BY_N * np.where(load <= _CERTAIN * least, usual, load)
            judged += zip(contact[here[:, 0]].tolist(), error.tolist(), load.tolist(), strict=True)
        return judged

    def _inverse(self, closed: BoolArray) -> tuple[FloatArray, FloatArray]:
        """N_A⁺ (a, a) of the ``closed`` rows over the root of its diagonal; the null projector."""
        if self._known is None or not np.array_equal(self._known[0], closed):
            root = self.root[closed]
            N = self.N[np.ix_(closed, closed)] / np.outer(root, root)
            self._known = closed, *inverted(N)
        return self._known[1:]


def _together(coupled: BoolArray, label: IntArray) -> Iterator[tuple[IntArray, bool]]:
    """Rows of each cluster, then of those that share a body, and whether they do.

    Each is (k, m): the rows of k clusters, or of k sets of them, of one size m. ``coupled`` (n, n)
    marks entries of N, ``label`` (n,) is the cluster of each row. Clusters may share a body if each
    of them is coupled to all others. Two of them may also share a further body, so that pairs are
    tested too, if they are at most ``_PAIRS``.
    """
    member = label == np.arange(label.max(initial=-1) + 1)[:, None]
    near, (row, other) = np.zeros((len(member), len(member)), dtype=bool), np.nonzero(coupled)
    near[label[row], label[other]] = True
    yield from ((rows, False) for rows in _of_one_size(member))
    first, second = np.nonzero(np.triu(near, 1))
    bodies = near[first] & near[second]
    if first.size <= _PAIRS:
        pairs = np.zeros_like(bodies)
        pairs[np.arange(first.size), first] = pairs[np.arange(first.size), second] = True
        bodies = np.concatenate([bodies, pairs])
    bodies = np.unique(bodies, axis=0)
    whole = ~((bodies @ ~near) & bodies).any(axis=1)  # none of its clusters is far from another
    yield from ((rows, True) for rows in _of_one_size(bodies[whole] @ member))


def _of_one_size(sets: BoolArray) -> Iterator[IntArray]:
    """The rows (k, m) of those of the ``sets`` (sets, n) that have m rows, for each m."""
    size = sets.sum(axis=1)
    for m in np.unique(size).tolist():
        yield np.nonzero(sets[size == m])[1].reshape(-1, m)
