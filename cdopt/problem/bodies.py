"""Degrees of freedom grouped by body, and the bodies of each contact."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import scipy.sparse as sp

from cdopt._util.checks import BoolArray, FloatArray, IntArray, read_only
from cdopt.problem.scaling import components, largest_by, rows_of, smallest_by, total_by

_DENSE = 2000  # entries of a B that is multiplied as a dense matrix
_ALIKE = 30.0  # mobilities at a contact within this ratio may belong to dofs of one body


@dataclass(frozen=True, eq=False)
class BodyBlocks:
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
        return total_by(self.label, values, self.count)

    def largest(self, values: FloatArray) -> FloatArray:
        """(count,) largest value of each body's degrees of freedom, at least zero."""
        return largest_by(self.label, values, self.count)

    def at_contacts(self, B: sp.csr_array, mass: FloatArray) -> ContactBodies:
        """The bodies of each contact of a gap gradient B (nc, nv), with masses (nv,)."""
        pair = rows_of(B) * max(self.count, 1) + self.label[B.indices]
        pairs, entry = _distinct(pair)
        mobility = total_by(entry, B.data**2 / mass[B.indices], pairs.size)
        contact, body = np.divmod(pairs, max(self.count, 1))
        return ContactBodies(contact, body, mobility, B.shape[0], self.count)


def stated_bodies(dof_body: IntArray) -> BodyBlocks:
    """The bodies named by ``dof_body`` (nv,), numbered from zero."""
    bodies, label = _distinct(dof_body)
    return BodyBlocks(read_only(label), bodies.size)


def _distinct(labels: IntArray) -> tuple[IntArray, IntArray]:
    """The distinct labels, ascending, and the place (n,) of each among them: a quick np.unique."""
    order = labels.argsort(kind="stable")
    ascending, place = labels[order], np.empty(labels.size, dtype=np.int64)
    fresh = np.ones(labels.size, dtype=bool)
    fresh[1:] = ascending[1:] != ascending[:-1]
    place[order] = fresh.cumsum() - 1
    return ascending[fresh], place


def one_body_a_dof(nv: int) -> BodyBlocks:
    """Each of nv dofs as a body of its own."""
    return BodyBlocks(read_only(np.arange(nv)), nv)


def bodies_of(
    B: sp.csr_array,
    mass: FloatArray,
    coupling: sp.csr_array | None = None,
    dof_body: IntArray | None = None,
) -> BodyBlocks:
    """The bodies of a contact network.

    Parameters
    ----------
    B : gap gradient (nc, nv).
    mass : (nv,) diagonal of the mass matrix.
    coupling : matrix (nv, nv), such as M; dofs that it couples belong together.
    dof_body : (nv,) the body of each dof. By default two dofs are of one body when they have the
        same contacts, with about the same mobility.
    """
    if dof_body is not None:
        return stated_bodies(dof_body)
    nv = B.shape[1]
    most = largest_by(B.indices, B.data**2 / mass[B.indices], nv)
    j, other, shared = _shared_contacts(B)
    alike = (most[j] <= _ALIKE * most[other]) & (most[other] <= _ALIKE * most[j])
    touching = np.bincount(B.indices[B.data != 0.0], minlength=nv)
    together = alike & (shared == touching[j])
    left, right = j[together], other[together]
    if coupling is not None:
        left = np.concatenate([left, rows_of(coupling)])
        right = np.concatenate([right, coupling.indices])
    label, count = components(left, right, nv)
    return BodyBlocks(read_only(label), count)


def _shared_contacts(B: sp.csr_array) -> tuple[IntArray, IntArray, IntArray]:
    """Pairs of dofs (n,), (n,) that meet at some contact, and at how many (n,)."""
    if B.shape[0] * B.shape[1] <= _DENSE:  # constructing sparse matrices would take longer
        acts = (B.toarray() != 0.0).astype(np.int64)
        product = acts.T @ acts
        j, other = np.nonzero(product)
        return j, other, product[j, other]
    acts = sp.csr_array(B != 0.0).astype(np.int64)
    common = (acts.T @ acts).tocoo()
    return *common.coords, common.data


@dataclass(frozen=True, eq=False)
class ContactBodies:
    """The bodies of each contact, one entry for each body of each contact.

    Attributes
    ----------
    contact, body : (n,) numbers of contacts and of bodies.
    mobility : (n,) 1/kg, w² = Σ B_ij²/M_jj over the body's dofs.
    nc, count : how many contacts and bodies there are.
    """

    contact: IntArray
    body: IntArray
    mobility: FloatArray
    nc: int
    count: int

    @cached_property
    def total(self) -> FloatArray:
        """(nc,) 1/kg, of all bodies of each contact."""
        return total_by(self.contact, self.mobility, self.nc)

    def repeated(self, d: int) -> ContactBodies:
        """The same for d rows of each contact, one after the other."""
        rows = (self.contact * d + np.arange(d)[:, None]).ravel()
        entries = np.tile(self.body, d), np.tile(self.mobility, d)
        return ContactBodies(rows, *entries, self.nc * d, self.count)

    def speeds(self, energy: FloatArray) -> FloatArray:
        """(nc,) m/s, how fast what acts on a contact's bodies would change its gap.

        A body whose change of motion has the ``energy`` (count,) in kg m²/s² has the gap speed
        w √energy. Of several bodies it is the mean weighted by mobility: the lighter one counts.
        """
        w2, total = self.mobility, self.total
        weighted = total_by(self.contact, w2 * np.sqrt(w2 * energy[self.body]), self.nc)
        return np.where(total > 0.0, weighted / np.where(total > 0.0, total, 1.0), 0.0)

    def impulses(self, energy: FloatArray) -> FloatArray:
        """(nc,) N s, √energy / w, the smallest of the contact's bodies.

        ``energy`` is (count,) in kg m²/s².
        """
        w2, used = self.mobility, self.mobility > 0.0
        values = np.sqrt(energy[self.body[used]] / w2[used])
        return smallest_by(self.contact[used], values, self.nc)

    def touched(self, chosen: BoolArray) -> BoolArray:
        """(count,) bodies on which one of the ``chosen`` contacts (nc,) acts."""
        return np.bincount(self.body[chosen[self.contact]], minlength=self.count) > 0

    def least_energies(
        self,
        energy: FloatArray,
        idle: BoolArray,
        closing: FloatArray,
        share: float,
        background: FloatArray,
    ) -> FloatArray:
        """(count,) the energies, raised to those of a ``share`` of the gap speeds at each body.

        A contact that closes at ``closing`` (nc,) in m/s changes the motion of its bodies. An
        ``idle`` body (count,) also takes the gap speed of its neighbours, or the ``background``
        (nc,) in m/s where they are idle as well: the smallest over its contacts.
        """
        used = self.mobility > 0.0
        i, b, w2 = self.contact[used], self.body[used], self.mobility[used]
        pushed = largest_by(b, (share * closing[i] / self.total[i]) ** 2 * w2, self.count)
        if not idle.any():
            return np.maximum(energy, pushed)
        busy = ~idle[b]
        neighbours = w2 * np.maximum(share * share * energy[b], pushed[b])
        most = largest_by(i[busy], neighbours[busy], self.nc)
        squared = np.where(most > 0.0, most, background**2)[i]
        lent = smallest_by(b[~busy], squared[~busy] / w2[~busy], self.count)
        return np.maximum(np.maximum(energy, pushed), lent)
