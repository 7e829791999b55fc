"""Degrees of freedom grouped into bodies, and what the bodies of a contact lend to it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp

from cdopt._util.checks import BoolArray, FloatArray, IntArray, read_only
from cdopt._util.compiled import compiled, part
from cdopt.problem.scaling import first, join, largest_by, number

_ALIKE = 30.0  # mobilities at a contact within this ratio may belong to dofs of one body
_MOST_BODIES = 64  # more bodies at one contact are treated as one


@dataclass(frozen=True, eq=False)
class Bodies:
    """A partition of the degrees of freedom into bodies.

    Attributes
    ----------
    label : (nv,) body of each degree of freedom, 0 to count − 1.
    count : number of bodies.
    """

    label: IntArray
    count: int

    def total(self, values: FloatArray) -> FloatArray:
        """(count,) sum of the values of each body's degrees of freedom."""
        return np.bincount(self.label, values, self.count).astype(np.float64, copy=False)

    def largest(self, values: FloatArray) -> FloatArray:
        """(count,) largest value of each body's degrees of freedom, at least zero."""
        return largest_by(self.label, values, self.count)


def stated_bodies(dof_body: IntArray) -> Bodies:
    """The bodies named by ``dof_body`` (nv,), numbered from zero."""
    label = np.unique(dof_body, return_inverse=True)[1]
    return Bodies(read_only(label.astype(np.int64)), int(label.max(initial=-1)) + 1)


def one_body_a_dof(nv: int) -> Bodies:
    """Each of nv dofs by itself, where nothing tells which belong together."""
    return Bodies(read_only(np.arange(nv)), nv)


def bodies_of(
    B: sp.csr_array,
    mass: FloatArray,
    coupling: sp.csr_array | None = None,
    dof_body: IntArray | None = None,
) -> Bodies:
    """The bodies of a contact network.

    Parameters
    ----------
    B : gap gradient (nc, nv).
    mass : (nv,) diagonal of the mass matrix.
    coupling : matrix (nv, nv), such as M; dofs that it couples belong together.
    dof_body : (nv,) the body of each dof. By default dofs are taken for one body when the
        contacts of the one are contacts of the other too, with about the same mobility.
    """
    nv = B.shape[1]
    if dof_body is not None:
        return stated_bodies(dof_body)
    leader = _alike(B.indptr, B.indices, B.data, mass, _ALIKE)
    if coupling is not None:
        join(leader, coupling.indptr, coupling.indices, 0, 0, np.ones(nv, dtype=bool))
    count = number(leader)
    return Bodies(read_only(leader), count)


@compiled()
def _alike(
    ptr: IntArray, idx: IntArray, val: FloatArray, mass: FloatArray, ratio: float
) -> IntArray:
    """(nv,) leaders of the sets of dofs that are taken for one body.

    Two dofs are, when every contact that acts on the one acts on the other too, and both have
    about the same mobility.
    """
    nv = mass.size
    start = np.zeros(nv + 1, dtype=np.int64)
    most = np.zeros(nv)
    for i in range(ptr.size - 1):
        for k in range(ptr[i], ptr[i + 1]):
            if val[k] != 0.0:
                j = idx[k]
                start[j + 1] += 1
                most[j] = np.maximum(most[j], val[k] * val[k] / mass[j])
    start = np.cumsum(start)
    rows, filled = np.empty(start[nv], dtype=np.int64), start[:-1].copy()
    for i in range(ptr.size - 1):
        for k in range(ptr[i], ptr[i + 1]):
            if val[k] != 0.0:
                rows[filled[idx[k]]] = i
                filled[idx[k]] += 1
    leader = np.arange(nv)
    seen = np.zeros(nv, dtype=np.int64)
    for j in range(nv):
        own = rows[start[j] : start[j + 1]]
        for i in own:
            for k in range(ptr[i], ptr[i + 1]):
                if val[k] != 0.0:
                    seen[idx[k]] += 1
        for i in own:
            for k in range(ptr[i], ptr[i + 1]):
                other = idx[k]
                together = seen[other] == own.size
                seen[other] = 0
                if together and most[j] <= ratio * most[other] and most[other] <= ratio * most[j]:
                    a, b = first(leader, j), first(leader, other)
                    leader[max(a, b)] = min(a, b)
    return leader


@compiled()
def contact_speeds(
    ptr: IntArray, idx: IntArray, val: FloatArray, mass: FloatArray, label: IntArray,
    energy: FloatArray,
) -> FloatArray:  # fmt: skip
    """(nc,) m/s, how fast what acts on a contact's bodies would change its gap.

    A body whose change of motion is worth √energy has the gap speed w √energy, w² being its
    mobility Σ B_ij²/M_jj at the contact. Of several bodies the mean, weighted by mobility: the
    lighter one counts.

    Parameters
    ----------
    ptr, idx, val : B (nc, nv) as its CSR parts.
    mass : (nv,) diagonal of M.
    label : (nv,) body of each dof.
    energy : (bodies,) kg m²/s².
    """
    nc = ptr.size - 1
    speed = np.zeros(nc)
    mobility, where = np.zeros(_MOST_BODIES), np.zeros(_MOST_BODIES, dtype=np.int64)
    for i in range(nc):
        count = _mobilities(ptr[i], ptr[i + 1], idx, val, mass, label, mobility, where)
        total, weighted = 0.0, 0.0
        for b in range(count):
            total += mobility[b]
            weighted += mobility[b] * np.sqrt(mobility[b] * energy[where[b]])
        speed[i] = weighted / total if total > 0.0 else 0.0
    return speed


@compiled()
def least_energies(
    ptr: IntArray, idx: IntArray, val: FloatArray, mass: FloatArray, label: IntArray,
    energy: FloatArray, idle: BoolArray, closing: FloatArray, share: float, background: FloatArray,
) -> FloatArray:  # fmt: skip
    """(bodies,) the energies, raised to a ``share`` of the gap speeds that reach each body.

    A contact that closes by itself at ``closing`` (nc,) in m/s stops at the expense of its bodies.
    An ``idle`` body takes the gap speed of its neighbours too, or the ``background`` (nc,) in m/s
    where they are idle as well; of several contacts the one that lends least counts. Other
    parameters as in ``contact_speeds``.
    """
    lent, pushed = np.full(energy.size, np.inf), np.zeros(energy.size)
    mobility, where = np.zeros(_MOST_BODIES), np.zeros(_MOST_BODIES, dtype=np.int64)
    for i in range(ptr.size - 1):
        if closing[i] > 0.0:
            count = _mobilities(ptr[i], ptr[i + 1], idx, val, mass, label, mobility, where)
            total = 0.0
            for b in range(count):
                total += mobility[b]
            for b in range(count):
                if mobility[b] > 0.0:
                    speed = share * closing[i] / total
                    body = where[b]
                    pushed[body] = np.maximum(pushed[body], speed * speed * mobility[b])
    for i in range(ptr.size - 1):
        count = _mobilities(ptr[i], ptr[i + 1], idx, val, mass, label, mobility, where)
        for b in range(count):
            body = where[b]
            if not idle[body] or not mobility[b] > 0.0:
                continue
            most = 0.0
            for other in range(count):
                of = where[other]
                if of != body and not idle[of]:
                    most = max(most, mobility[other] * max(share * share * energy[of], pushed[of]))
            speed = np.sqrt(most) if most > 0.0 else background[i]
            lent[body] = min(lent[body], speed * speed / mobility[b])
    raised = np.maximum(energy, pushed)
    for b in range(energy.size):
        if lent[b] < np.inf:
            raised[b] = np.maximum(raised[b], lent[b])
    return raised


@compiled()
def touched(
    ptr: IntArray, idx: IntArray, label: IntArray, chosen: BoolArray, count: int
) -> BoolArray:
    """(count,) bodies on which one of the ``chosen`` contacts (nc,) acts."""
    result = np.zeros(count, dtype=np.bool_)
    for i in range(ptr.size - 1):
        if chosen[i]:
            for k in range(ptr[i], ptr[i + 1]):
                result[label[idx[k]]] = True
    return result


@compiled()
def contact_impulses(
    ptr: IntArray, idx: IntArray, val: FloatArray, mass: FloatArray, label: IntArray,
    energy: FloatArray,
) -> FloatArray:  # fmt: skip
    """(nc,) N s, the impulse at a contact that is worth what its bodies exchange, the smaller.

    Parameters as in ``contact_speeds``.
    """
    nc = ptr.size - 1
    impulse = np.zeros(nc)
    mobility, where = np.zeros(_MOST_BODIES), np.zeros(_MOST_BODIES, dtype=np.int64)
    for i in range(nc):
        count = _mobilities(ptr[i], ptr[i + 1], idx, val, mass, label, mobility, where)
        least = np.inf
        for b in range(count):
            if mobility[b] > 0.0:
                least = min(least, np.sqrt(energy[where[b]] / mobility[b]))
        impulse[i] = least if least < np.inf else 0.0
    return impulse


@compiled()
def largest_at_bodies(
    ptr: IntArray, idx: IntArray, label: IntArray, values: FloatArray, count: int
) -> FloatArray:
    """(count,) the largest value (nc,) of the contacts of each body, at least zero."""
    result = np.zeros(count)
    for i in range(ptr.size - 1):
        for k in range(ptr[i], ptr[i + 1]):
            result[label[idx[k]]] = np.maximum(result[label[idx[k]]], values[i])
    return result


@compiled()
def smaller_force(
    ptr: IntArray, idx: IntArray, val: FloatArray, label: IntArray, force: FloatArray
) -> FloatArray:
    """(nc,) N, of the forces (bodies,) that the bodies of each contact exchange the smallest."""
    result = np.zeros(ptr.size - 1)
    for i in range(result.size):
        least = np.inf
        for k in range(ptr[i], ptr[i + 1]):
            if val[k] != 0.0:
                least = min(least, force[label[idx[k]]])
        result[i] = least if least < np.inf else 0.0
    return result


@part()
def _mobilities(
    start: int, stop: int, idx: IntArray, val: FloatArray, mass: FloatArray, label: IntArray,
    mobility: FloatArray, where: IntArray,
) -> int:  # fmt: skip
    """Write the bodies of one row and Σ B_ij²/M_jj of each; returns how many there are."""
    count = 0
    for k in range(start, stop):
        body, at = label[idx[k]], 0
        while at < count and where[at] != body:
            at += 1
        if at == count:
            if count == mobility.size:
                at = count - 1
            else:
                where[at], mobility[at] = body, 0.0
                count += 1
        mobility[at] += val[k] * val[k] / mass[idx[k]]
    return count
