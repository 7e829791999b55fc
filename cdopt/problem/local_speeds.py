"""The local speeds and energies of an answer of a step with matrices, in compiled loops.

Loops take their arrays as lines of tables: one table for all contacts, one for all dofs, and so on.
Sums have the order of the stored entries. Not-a-number spreads to all that depends on it.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from cdopt._util.checks import FloatArray, IntArray
from cdopt._util.compiled import compiled, compiled_if_stored, part
from cdopt.problem.residual import EPS

NEIGHBOUR = 1e-2  # least gap speed of a body without load over that of its neighbours
# a load that changes gap speeds by less than this share of the neighbours' is round-off
NEGLIGIBLE = 1e-12
_ROUND_OFF = 1e-10  # least speed of a part over the terms whose difference its rates are
_STOPPED = 1e-1  # least gap speed of a body over the speed at which it meets its neighbours
_MEETS = 1e-6  # meeting speeds below this share of the neighbours' gap speeds are treated as 0
_HOPS = 3  # repetitions of scales from neighbours of idle bodies
_TOUCHES = 1e-6  # a contact that opens at less than this share of the local speed touches
# of each loop in Python, for an entry of B; the rest takes as long as that many entries
_SECONDS_IN_PYTHON, _REST = 2e-6, 20


class NetworkTables(NamedTuple):
    """What loops need of a contact network: B, its bodies and its independent parts.

    A pair is a body at a contact, as in ``ContactBodies``.
    """

    entry: IntArray  # (2, entries) row and dof of each entry of B
    value: FloatArray  # (entries,) of B
    normal: IntArray  # (2, normal entries) pair and dof of each entry of the normal rows
    normal_value: FloatArray  # (normal entries,) of B
    pair: IntArray  # (2, pairs) contact and body
    # (4, pairs) 1/kg, w² and its sum over the contact, then both of the normal row alone
    mobility: FloatArray
    dof: IntArray  # (2, nv) body and part of each dof
    inertia: FloatArray  # (3, nv) M_jj, its root, and the dofs of the body of each dof
    contact_part: IntArray  # (nc,) part of each contact
    bodies: int
    parts: int


class FreeMotion(NamedTuple):
    """What the motion without contact forces, and the loads, say of contacts, bodies and parts."""

    drift: FloatArray  # (nv,) the size of the change of motion by loads
    load_energy: FloatArray  # (bodies,) kg m²/s², of this change
    closing: FloatArray  # (nc,) m/s, how fast contacts close; zero if by no more than round-off
    part_speed: FloatArray  # (parts,) m/s, the fastest closing; where nothing closes, of rates
    busy_bodies: FloatArray  # (bodies,) one with a load, or with a contact that closes; else zero
    busy_parts: FloatArray  # (parts,) one with a busy body or a contact that closes; else zero


def free_motion(
    network: NetworkTables,
    contacts: tuple[FloatArray, FloatArray, FloatArray, FloatArray],
    dofs: tuple[FloatArray, FloatArray],
) -> FreeMotion:
    """The free motion, of ``contacts`` (nc,) in m/s and of the motions v* and v (nv,), ``dofs``.

    ``contacts`` are the rates p at which they open, the size of p, that of the terms of p, and that
    of the rates without gaps.
    """
    by_contact, by_dof = np.zeros((5, contacts[0].size)), np.zeros((3, dofs[0].size))
    by_body, by_part = np.zeros((2, network.bodies)), np.zeros((5, network.parts))
    by_contact[0], by_contact[1], by_contact[2], by_contact[3] = contacts
    by_dof[0], by_dof[1] = dofs
    fixed = network.pair, network.contact_part, network.dof, network.inertia
    seconds = _SECONDS_IN_PYTHON * (_REST + network.value.size)
    compiled_if_stored(_free_motion, seconds, *fixed, by_contact, by_dof, by_body, by_part)
    return FreeMotion(by_dof[2], by_body[0], by_contact[4], by_part[0], by_body[1], by_part[4])


@compiled()
def _free_motion(
    pair: IntArray,
    contact_part: IntArray,
    dof: IntArray,
    inertia: FloatArray,
    by_contact: FloatArray,
    by_dof: FloatArray,
    by_body: FloatArray,
    by_part: FloatArray,
) -> None:
    for i in range(contact_part.size):
        opening, p = by_contact[0, i], contact_part[i]
        closes = opening < -EPS * by_contact[2, i]
        by_contact[4, i] = -opening if closes else 0.0
        by_part[4, p] = 1.0 if closes else by_part[4, p]
        by_part[0, p] = _most(by_part[0, p], by_contact[4, i])
        for line in range(1, 4):
            by_part[line, p] = _most(by_part[line, p], by_contact[line, i])
    for k in range(pair.shape[1]):
        if by_contact[4, pair[0, k]] > 0.0:
            by_body[1, pair[1, k]] = 1.0
    for j in range(dof.shape[1]):
        by_dof[2, j] = abs(by_dof[0, j] - by_dof[1, j])
        by_body[0, dof[0, j]] += inertia[0, j] * (by_dof[2, j] * by_dof[2, j])
    for b in range(by_body.shape[1]):
        if by_body[0, b] != 0.0:
            by_body[1, b] = 1.0
    for j in range(dof.shape[1]):
        if by_body[1, dof[0, j]] == 1.0:
            by_part[4, dof[1, j]] = 1.0
    for p in range(by_part.shape[1]):
        speed, size, terms, rate = by_part[0, p], by_part[1, p], by_part[2, p], by_part[3, p]
        if not speed > NEGLIGIBLE * size:
            speed = _smaller(rate, size) if rate > NEGLIGIBLE * size else size
        by_part[0, p] = _larger(speed, _ROUND_OFF * terms)


class MotionTerms(NamedTuple):
    """What follows from a motion and forces before contacts are known to open or to close."""

    rates: FloatArray  # (rows,) m/s, B v⁺ + b
    round_off: FloatArray  # (rows,) m/s, of these
    load: FloatArray  # (nv,) Bᵀf
    pushed: FloatArray  # (nv,) N s, Δt |B|ᵀ|f|
    change: FloatArray  # (nv,) a_j, the size of the change of motion
    motion_energy: FloatArray  # (nv,) kg m²/s², M_jj a_j² of the motion alone
    own: FloatArray  # (bodies,) kg m²/s², Σ M_jj a_j²


def motion_terms(
    network: NetworkTables,
    rows: tuple[FloatArray, FloatArray],
    dofs: tuple[FloatArray, FloatArray, FloatArray],
    dt: float,
    known: bool,
) -> MotionTerms:
    """The terms of ``rows`` f and b, and of ``dofs`` v⁺, v⁺ − v* and the drift |v* − v|.

    Forces may cancel in dofs of a body that moves: unless bodies are ``known``, a_j is at least
    Δt (|B|ᵀ|f|)_j / M_jj.
    """
    by_row, by_dof = np.zeros((4, rows[0].size)), np.zeros((7, dofs[0].size))
    by_row[0], by_row[1] = rows
    by_dof[0], by_dof[1], by_dof[2] = dofs
    own = np.zeros(network.bodies)
    fixed = network.entry, network.value, network.dof, network.inertia
    seconds = _SECONDS_IN_PYTHON * (_REST + network.value.size)
    compiled_if_stored(_motion_terms, seconds, *fixed, by_row, by_dof, own, dt, known)
    return MotionTerms._make((by_row[2], by_row[3], *by_dof[3:], own))


@compiled()
def _motion_terms(
    entry: IntArray,
    value: FloatArray,
    dof: IntArray,
    inertia: FloatArray,
    by_row: FloatArray,
    by_dof: FloatArray,
    own: FloatArray,
    dt: float,
    known: bool,
) -> None:
    for k in range(value.size):
        i, j = entry[0, k], entry[1, k]
        push, rate = value[k] * by_row[0, i], value[k] * by_dof[0, j]
        by_row[2, i] += rate
        by_row[3, i] += abs(rate)
        by_dof[3, j] += push
        by_dof[4, j] += abs(push)
    for i in range(by_row.shape[1]):
        by_row[2, i] += by_row[1, i]
        by_row[3, i] = EPS * (abs(by_row[1, i]) + by_row[3, i])
    for j in range(by_dof.shape[1]):
        by_dof[4, j] *= dt
        change = _larger(abs(by_dof[1, j]), by_dof[2, j])
        by_dof[6, j] = inertia[0, j] * (change * change)
        if not known:
            change = _larger(change, by_dof[4, j] / inertia[0, j])
        by_dof[5, j] = change
        own[dof[0, j]] += inertia[0, j] * (change * change)


class LocalSpeeds(NamedTuple):
    """Local gap speeds, the energies behind them, and the errors of the balance."""

    speed: FloatArray  # (nc,) m/s
    energy: FloatArray  # (bodies,) kg m²/s²
    error: FloatArray  # (nv,) m/s √kg, of the momentum
    scale: FloatArray  # (nv,) m/s √kg
    round_off: FloatArray  # (nv,) m/s √kg
    acting: FloatArray  # (nv,) N s
    part_energy: FloatArray  # (parts,) J
    imbalance: FloatArray  # (parts,) J
    imbalance_round_off: FloatArray  # (parts,) J


def local_speeds(
    network: NetworkTables,
    terms: MotionTerms,
    load_energy: FloatArray,
    contacts: tuple[FloatArray, FloatArray, FloatArray, FloatArray, FloatArray],
    dofs: tuple[FloatArray, FloatArray, FloatArray, FloatArray],
    rigid: bool,
) -> LocalSpeeds:
    """The local speeds of an answer with these ``terms``, and ``load_energy`` (bodies,) of loads.

    ``contacts`` are (nc,) in m/s: how fast they open, the round-off of this, w f_n, the largest
    speed and the background; ``dofs`` (nv,) are v⁺ − v*, the imbalance M(v⁺ − v*) − Δt Bᵀf, M⁻¹
    times it, and the size of the momenta.

    *Meeting speeds.* How fast each body at each contact would meet the others, moving as they do:
    the body as without contacts, the others as the answer has it. The speed is 0 where a gap closes
    in free motion only through a neighbour that other contacts stop, and where it is round-off.

    *Energies* of bodies are raised to those of a share of these speeds. A body whose load is
    round-off and whose meeting speeds are 0 is idle: it has at least a small share of the smallest
    of the gap speeds of its neighbours; this is repeated a few times for neighbours of idle bodies.
    For those left the speed is the background.

    *Gap speeds.* The impulse that a body of energy E takes at a contact is √E / w. Of several
    bodies the smallest counts: they exchange no more, and so neither a fast nor a heavy body sets
    the scale of its neighbour. An error at a contact moves its bodies, and with them their other
    contacts: those that press, or whose gap is a small share of the fastest of the body. A gap
    error of one at contact i changes that of contact k by w_ib w_kb / Σ_b w_ib² through body b: of
    rigid contacts the speed is the least that its errors reach.
    """
    by_contact, by_dof = np.zeros((9, contacts[0].size)), np.zeros((8, dofs[0].size))
    by_body, by_pair = np.zeros((7, network.bodies)), np.zeros((4, network.pair.shape[1]))
    by_part = np.zeros((4, network.parts))
    by_contact[0], by_contact[1], by_contact[2], by_contact[3], by_contact[4] = contacts
    by_dof[0], by_dof[1], by_dof[2], by_dof[3] = dofs
    by_body[0], by_body[1] = terms.own, load_energy
    by_dof[7], by_dof[6], by_dof[5] = terms.motion_energy, terms.change, terms.pushed
    fixed = network.normal, network.normal_value, network.pair, network.mobility
    tables = by_contact, by_dof, by_body, by_pair, by_part
    seconds = _SECONDS_IN_PYTHON * (_REST + network.value.size)
    fixed_too = network.dof, network.inertia
    compiled_if_stored(_local_speeds, seconds, *fixed, *fixed_too, *tables, rigid)
    return LocalSpeeds._make((by_contact[5], by_body[2], *by_dof[1:5], *by_part[:3]))


@compiled()
def _local_speeds(
    normal: IntArray,
    value: FloatArray,
    pair: IntArray,
    mobility: FloatArray,
    dof: IntArray,
    inertia: FloatArray,
    by_contact: FloatArray,
    by_dof: FloatArray,
    by_body: FloatArray,
    by_pair: FloatArray,
    by_part: FloatArray,
    rigid: bool,
) -> None:
    _meet(normal, value, pair, by_contact, by_dof, by_pair)
    _find_idle(pair, mobility, by_contact, by_body, by_pair)
    met = _STOPPED if rigid else NEIGHBOUR  # elastic contacts stop little of it in a step
    _raise_energies(pair, mobility, by_contact, by_body, by_pair, met)
    _slow_down(pair, mobility, by_contact, by_body, rigid)
    _balance(dof, inertia, by_dof, by_body, by_part)


@part()
def _meet(
    normal: IntArray,
    value: FloatArray,
    pair: IntArray,
    by_contact: FloatArray,
    by_dof: FloatArray,
    by_pair: FloatArray,
) -> None:
    """The meeting speeds: line 2 of ``by_pair``."""
    for e in range(value.size):
        k, change = normal[0, e], value[e] * by_dof[0, normal[1, e]]
        by_pair[0, k] += change
        by_pair[1, k] += abs(change)
    for k in range(pair.shape[1]):
        closing = by_pair[0, k] - by_contact[0, pair[0, k]]
        round_off = EPS * by_pair[1, k] + by_contact[1, pair[0, k]]
        by_pair[2, k] = closing if closing > round_off else 0.0


@part()
def _find_idle(
    pair: IntArray,
    mobility: FloatArray,
    by_contact: FloatArray,
    by_body: FloatArray,
    by_pair: FloatArray,
) -> None:
    """Idle bodies have one in line 3 of ``by_body``, others zero."""
    for k in range(pair.shape[1]):
        i, b = pair[0, k], pair[1, k]
        by_pair[3, k] = np.sqrt(mobility[0, k] * by_body[0, b])
        by_contact[6, i] = _most(by_contact[6, i], by_pair[3, k])
    for k in range(pair.shape[1]):  # how many have the largest, and the largest of the others
        i = pair[0, k]
        if by_pair[3, k] >= by_contact[6, i]:
            by_contact[7, i] += 1.0
        else:
            by_contact[8, i] = _most(by_contact[8, i], by_pair[3, k])
    for b in range(by_body.shape[1]):
        by_body[3, b] = 1.0
    for k in range(pair.shape[1]):
        i, b = pair[0, k], pair[1, k]
        others = by_contact[6, i]
        if by_pair[3, k] >= others and by_contact[7, i] == 1.0:
            others = by_contact[8, i]
        load = np.sqrt(mobility[0, k] * by_body[1, b])
        if by_pair[2, k] > _MEETS * others or load > NEGLIGIBLE * others:
            by_body[3, b] = 0.0


@part()
def _raise_energies(
    pair: IntArray,
    mobility: FloatArray,
    by_contact: FloatArray,
    by_body: FloatArray,
    by_pair: FloatArray,
    met: float,
) -> None:
    """The energies of bodies: line 2 of ``by_body``."""
    share, ratio = NEIGHBOUR * NEIGHBOUR, (NEIGHBOUR / met) * (NEIGHBOUR / met)
    for k in range(pair.shape[1]):
        if mobility[0, k] > 0.0:
            b, rate = pair[1, k], met * by_pair[2, k] / mobility[1, k]
            by_body[4, b] = _most(by_body[4, b], rate * rate * mobility[0, k])
    left = False
    for b in range(by_body.shape[1]):
        by_body[2, b] = _larger(by_body[0, b], by_body[4, b])
        by_body[4, b] = _larger(share * by_body[0, b], ratio * by_body[4, b])
        left = left or by_body[3, b] == 1.0
    if not left:
        return
    for _ in range(_HOPS):  # ``by_body[4]`` is the reach of the scale of a body
        for i in range(by_contact.shape[1]):
            by_contact[6, i] = 0.0
        for b in range(by_body.shape[1]):
            by_body[5, b] = np.inf
        for k in range(pair.shape[1]):
            i, b = pair[0, k], pair[1, k]
            if mobility[0, k] > 0.0 and by_body[3, b] == 0.0:
                by_contact[6, i] = _most(by_contact[6, i], mobility[0, k] * by_body[4, b])
        for k in range(pair.shape[1]):
            i, b = pair[0, k], pair[1, k]
            if mobility[0, k] > 0.0 and by_body[3, b] == 1.0 and by_contact[6, i] > 0.0:
                by_body[5, b] = _least(by_body[5, b], by_contact[6, i] / mobility[0, k])
        reached = False
        for b in range(by_body.shape[1]):
            lent = by_body[5, b]
            if 0.0 < lent < np.inf:
                reached = True
                by_body[2, b] = _larger(by_body[2, b], lent)
                by_body[3, b], by_body[4, b] = 0.0, share * lent
        if not reached:
            break
    for b in range(by_body.shape[1]):
        by_body[5, b] = np.inf
    for k in range(pair.shape[1]):
        b, speed = pair[1, k], by_contact[4, pair[0, k]]
        if mobility[0, k] > 0.0 and by_body[3, b] == 1.0:
            by_body[5, b] = _least(by_body[5, b], speed * speed / mobility[0, k])
    for b in range(by_body.shape[1]):
        if by_body[5, b] < np.inf:
            by_body[2, b] = _larger(by_body[2, b], by_body[5, b])


@part()
def _slow_down(
    pair: IntArray,
    mobility: FloatArray,
    by_contact: FloatArray,
    by_body: FloatArray,
    rigid: bool,
) -> None:
    """The gap speeds: line 5 of ``by_contact``."""
    speed, least = by_contact[6], by_contact[5]
    for i in range(speed.size):
        speed[i], by_contact[7, i] = np.inf, 0.0
    for k in range(pair.shape[1]):
        if mobility[0, k] > 0.0:
            i = pair[0, k]
            impulse = np.sqrt(by_body[2, pair[1, k]] / mobility[0, k])
            speed[i], by_contact[7, i] = _least(speed[i], impulse), mobility[1, k]
    for i in range(speed.size):
        speed[i] = by_contact[7, i] * speed[i] if speed[i] < np.inf else 0.0
        least[i] = speed[i]
    if rigid:
        for b in range(by_body.shape[1]):
            by_body[5, b], by_body[6, b] = 0.0, np.inf
        for k in range(pair.shape[1]):
            if mobility[2, k] > 0.0:
                b = pair[1, k]
                by_body[5, b] = _most(by_body[5, b], speed[pair[0, k]])
        for k in range(pair.shape[1]):
            i, b, opens = pair[0, k], pair[1, k], by_contact[0, pair[0, k]]
            presses = by_contact[2, i] > opens
            if mobility[2, k] > 0.0 and (presses or opens <= _TOUCHES * by_body[5, b]):
                by_body[6, b] = _least(by_body[6, b], speed[i] / np.sqrt(mobility[2, k]))
        for k in range(pair.shape[1]):
            if mobility[2, k] > 0.0:
                i, total, w = pair[0, k], mobility[3, k], np.sqrt(mobility[2, k])
                least[i] = _least(least[i], by_body[6, pair[1, k]] * total / w)
    for i in range(least.size):
        least[i] = _smaller(least[i], by_contact[3, i])


@part()
def _balance(
    dof: IntArray, inertia: FloatArray, by_dof: FloatArray, by_body: FloatArray, by_part: FloatArray
) -> None:
    """The errors of the balance, and the loads: lines 1 to 4 of ``by_dof``, and ``by_part``."""
    for j in range(dof.shape[1]):
        b, p, mass, root = dof[0, j], dof[1, j], inertia[0, j], inertia[1, j]
        imbalance, pushed, energy = by_dof[1, j], by_dof[5, j], by_body[2, b]
        round_off, scale = EPS * (pushed + by_dof[3, j]) / root, np.sqrt(energy)
        by_part[0, p] += by_dof[7, j]
        by_part[1, p] += 0.5 * imbalance * by_dof[2, j]
        by_part[2, p] += round_off * round_off
        by_part[3, p] += energy / inertia[2, j]
        by_dof[1, j], by_dof[2, j], by_dof[3, j] = abs(imbalance) / root, scale, round_off
        raised = scale if energy > by_body[0, b] else 0.0  # by neighbours: the load is raised too
        by_dof[4, j] = _larger(pushed + mass * by_dof[6, j], raised * root)
    for p in range(by_part.shape[1]):
        by_part[0, p] = _larger(by_part[0, p], NEIGHBOUR * NEIGHBOUR * by_part[3, p])


@part()
def _larger(a: float, b: float) -> float:
    """The larger of two; not-a-number if one is."""
    return a if a > b or a != a else b


@part()
def _smaller(a: float, b: float) -> float:
    """The smaller of two; not-a-number if one is."""
    return a if a < b or a != a else b


@part()
def _most(most: float, value: float) -> float:
    """``most`` raised to a value; not-a-number stays."""
    return value if value > most or value != value else most


@part()
def _least(least: float, value: float) -> float:
    """``least`` lowered to a value; not-a-number stays."""
    return value if value < least or value != value else least
