"""Parts and bodies of a contact network, scaled matrices, and sums over sparse entries.

Parts without common degrees of freedom are separate problems, each with separate units.
Every scale is homogeneous in the data: a change of units multiplies it, and a scaled problem does
not depend on the units.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from scipy.linalg.lapack import dpotrf, dpstrf
from scipy.sparse.csgraph import connected_components

from cdopt._util.cached import cached_property, twin
from cdopt._util.checks import BoolArray, FloatArray, IntArray, read_only
from cdopt._util.frozen import FrozenMatrix, from_dense, frozen_rows

_DENSE_PART = 3000  # contacts of one part, beyond which its rows of N stay as they are
_NOT_THE_SAME = 10.0  # times what is left out, of each entry: it has negative eigenvalues
_SMALL = 2_000  # entries, zeros included, up to which products of matrices are dense
_MANY = 5_000  # entries from which SciPy's products take less time
_FEW = 300  # ties or values up to which plain Python takes less time than SciPy or NumPy
_HANDFUL = 30  # values up to which a loop in Python takes less time than NumPy
_ALIKE = 30.0  # mobilities at a contact within this ratio may belong to dofs of one body


# patterns and parts of two networks: of a rigid step, and of its closed contacts
_recent: deque[tuple[tuple[Any, ...], Parts]] = deque(maxlen=2)


# --- independent parts -------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Parts:
    """The independent parts of a contact network."""

    contact: IntArray  # (nc,) part of each contact
    dof: IntArray  # (nv,) part of each degree of freedom
    count: int  # number of parts

    def largest(self, label: IntArray, values: FloatArray) -> FloatArray:
        """(count,) largest of values (n,) in each part, ``label`` (n,), or 0; NaN spreads."""
        return largest_by(label, values, self.count)

    def total(self, label: IntArray, values: FloatArray) -> FloatArray:
        """(count,) sum of values (n,) in each part, ``label`` (n,)."""
        return total_by(label, values, self.count)

    def geometric_mean(self, values: FloatArray) -> FloatArray:
        """(count,) geometric mean of the contacts' positive values; elsewhere that of all."""
        used = values > 0.0
        number = np.bincount(self.contact[used], minlength=self.count)
        logs = self.total(self.contact[used], np.log(values[used]))
        overall = float(logs.sum() / max(number.sum(), 1))
        return np.exp(np.where(number > 0, logs / np.maximum(number, 1), overall))


def network_parts(
    B: sp.csr_array, coupling: sp.csr_array | None = None, tied: BoolArray | None = None
) -> Parts:
    """Parts of the graph of B's entries, of ``coupling`` (nv, nv) and of dofs that are ``tied``.

    The last ones of large networks are kept: a step often has the contacts of the step before.
    """
    tied = None if tied is None or tied.all() else tied
    if B.nnz <= _MANY or coupling is not None:
        return _network_parts(B, coupling, tied)
    pattern = np.array(B.shape), B.indptr, B.indices, np.zeros(0) if tied is None else tied
    for known, parts in tuple(_recent):
        if all(map(np.array_equal, known, pattern)):
            return parts
    parts = _network_parts(B, coupling, tied)
    _recent.appendleft((tuple(map(np.array, pattern)), parts))
    return parts


def _network_parts(B: sp.csr_array, coupling: sp.csr_array | None, tied: BoolArray | None) -> Parts:
    """``network_parts``, computed."""
    nc, nv = B.shape
    if tied is None and coupling is None and B.nnz > _FEW:  # no list of edges to put in order
        ends = np.concatenate([B.indptr, np.full(nv, B.nnz, B.indptr.dtype)])
        graph = sp.csr_array((B.data, nc + B.indices, ends), (nc + nv, nc + nv))
        label, count = _labels(graph)
        return Parts(read_only(label[:nc]), read_only(label[nc:]), count)
    rows, columns = rows_of(B), B.indices
    if tied is not None:
        rows, columns = rows[tied[columns]], columns[tied[columns]]
    if coupling is not None:
        rows = np.concatenate([rows, nc + rows_of(coupling)])
        columns = np.concatenate([columns, coupling.indices])
    label, count = components(rows, nc + columns, nc + nv)
    return Parts(read_only(label[:nc]), read_only(label[nc:]), count)


def matrix_parts(N: sp.csr_array, contact: IntArray | None = None) -> Parts:
    """Parts of the contacts, ``contact`` (rows,), that a Delassus matrix N (rows, rows) couples."""
    contact = np.arange(N.shape[0]) if contact is None else contact
    count = int(contact.max(initial=-1)) + 1
    label, count = components(contact[rows_of(N)], contact[N.indices], count)
    return Parts(read_only(label), np.zeros(0, dtype=np.int64), count)


def components(left: IntArray, right: IntArray, nodes: int) -> tuple[IntArray, int]:
    """The connected component (nodes,) of each node, in order of first nodes; their number."""
    if left.size <= _FEW:
        parent = list(range(nodes))
        for a, b in zip(left.tolist(), right.tolist(), strict=True):
            while parent[a] != a:
                a = parent[a]
            while parent[b] != b:
                b = parent[b]
            parent[max(a, b)] = min(a, b)
        count = 0
        for i in range(nodes):  # a parent comes before its children, and has its number by then
            if parent[i] == i:
                parent[i], count = count, count + 1
            else:
                parent[i] = parent[parent[i]]
        return np.array(parent, dtype=np.int64), count
    graph = sp.csr_array((np.ones(left.size, bool), (left, right)), shape=(nodes, nodes))
    return _labels(graph)


def _labels(graph: sp.csr_array) -> tuple[IntArray, int]:
    """The connected component of each node of a ``graph``, and their number."""
    count, label = connected_components(graph, directed=False)
    return label.astype(np.int64), count


# --- bodies ------------------------------------------------------------------------------


def numbered_bodies(dof_body: IntArray) -> IntArray:
    """The bodies of ``dof_body`` (nv,), numbered from zero."""
    return read_only(distinct(dof_body)[1])


def likely_bodies(B: sp.csr_array, mass: FloatArray, coupling: sp.csr_array | None) -> IntArray:
    """(nv,) the body of each dof, by gap gradient B (nc, nv) and masses (nv,), from zero.

    Two dofs are of one body when they have the same contacts, with about the same mobility, or when
    ``coupling`` (nv, nv) ties them.
    """
    nv, acts = B.shape[1], with_values(B, (B.data != 0.0).astype(np.float64))
    most = largest_by(B.indices, B.data**2 / mass[B.indices], nv)
    j, other, common = _meetings(acts)
    touching = np.bincount(B.indices, acts.data, nv)
    alike = (most[j] <= _ALIKE * most[other]) & (most[other] <= _ALIKE * most[j])
    together = alike & (common == touching[j])
    left, right = j[together], other[together]
    if coupling is not None:
        left = np.concatenate([left, rows_of(coupling)])
        right = np.concatenate([right, coupling.indices])
    return read_only(components(left, right, nv)[0])


def _meetings(acts: sp.csr_array) -> tuple[IntArray, IntArray, FloatArray]:
    """The pairs of dofs that meet at contacts, and at how many; ``acts`` (nc, nv) is 0 or 1."""
    if max(acts.shape) * acts.shape[1] > _SMALL:
        counts = (acts.T @ acts).tocoo()
        used = counts.data > 0.0
        return counts.coords[0][used], counts.coords[1][used], counts.data[used]
    dense = dense_of(acts)
    counts = dense.T @ dense
    j, other = counts.nonzero()
    return j, other, counts[j, other]


def contact_bodies(B: sp.csr_array, mass: FloatArray, body: IntArray) -> ContactBodies:
    """The bodies of each contact of B (nc, nv), with masses (nv,) and the ``body`` of each dof."""
    count = int(body.max(initial=-1)) + 1
    pairs, entry = distinct(rows_of(B) * max(count, 1) + body[B.indices])
    mobility = total_by(entry, B.data**2 / mass[B.indices], pairs.size)
    return ContactBodies(*np.divmod(pairs, max(count, 1)), mobility, B.shape[0], count, entry)


@dataclass(frozen=True, eq=False)
class ContactBodies:
    """The bodies of each contact, one of n entries for each body of each contact."""

    contact: IntArray
    body: IntArray
    mobility: FloatArray  # (n,) 1/kg, w² = Σ B_ij²/M_jj over the body's dofs
    nc: int  # number of contacts
    count: int  # number of bodies
    entry: IntArray | None = None  # (entries,) to which of the n each entry of B belongs

    @cached_property
    def total(self) -> FloatArray:
        """(nc,) 1/kg, of all bodies of each contact."""
        return total_by(self.contact, self.mobility, self.nc)

    @cached_property
    def moved(self) -> ContactBodies:
        """The entries of bodies that forces move."""
        some, used = (self.contact, self.body, self.mobility), self.mobility > 0.0
        if not used.all():
            some = self.contact[used], self.body[used], self.mobility[used]
        return ContactBodies(*some, self.nc, self.count)

    def places(self, contact: IntArray, body: IntArray) -> IntArray:
        """(m,) which of the entries has each ``contact`` (m,) and the one of its bodies (m,)."""
        stride = max(self.count, 1)
        return np.searchsorted(self.contact * stride + self.body, contact * stride + body)

    def impulses(self, energy: FloatArray) -> FloatArray:
        """(nc,) N s, √energy / w, the smallest of the contact's bodies, of (count,) kg m²/s²."""
        moved = self.moved
        return smallest_by(moved.contact, np.sqrt(energy[moved.body] / moved.mobility), self.nc)


# --- scaled matrices ----------------------------------------------------------------------


def scaled(
    A: sp.csr_array, rows: FloatArray | None = None, columns: FloatArray | None = None
) -> sp.csr_array:
    """diag(rows) · A · diag(columns), on the indices of A."""
    values = A.data
    if rows is not None:
        values = values * rows.repeat(A.indptr[1:] - A.indptr[:-1])
    if columns is not None:
        values = values * columns[A.indices]
    return with_values(A, values)


def with_values(A: sp.csr_array, values: FloatArray) -> sp.csr_array:
    """A with other values: the checks of a constructor take longer than a product."""
    result = A.__copy__() if isinstance(A, FrozenMatrix) else twin(A)
    result.data = values
    return result


def dense_of(A: sp.csr_array) -> FloatArray:
    """A in canonical order as an array (n, m)."""
    result = np.zeros(A.shape)
    result[rows_of(A), A.indices] = A.data
    return result


def product(A: sp.csr_array, B: sp.csr_array) -> sp.csr_array:
    """A B, of small matrices by dense ones: a sparse product takes longer to begin."""
    if A.shape[0] * A.shape[1] + B.shape[0] * B.shape[1] > _SMALL:
        return sp.csr_array(A @ B)
    return from_dense(A.toarray() @ B.toarray())


def chosen_rows(A: sp.csr_array, rows: IntArray) -> sp.csr_array:
    """The ``rows`` (k,) of A, ascending; A itself where these are all."""
    return A if rows.size == A.shape[0] else sp.csr_array(A[rows])


def chosen_columns(A: sp.csr_array, columns: IntArray) -> sp.csr_array:
    """The ``columns`` (k,) of A, ascending; A itself where these are all."""
    return A if columns.size == A.shape[1] else sp.csr_array(A[:, columns])


def used_columns(A: sp.csr_array) -> sp.csr_array:
    """The columns of A with entries; A itself where these are all."""
    used = np.flatnonzero(np.bincount(A.indices, minlength=A.shape[1]))
    return chosen_columns(A, used)


def delassus_root(N: sp.csr_array, rank_tol: float) -> sp.csr_array:
    """L (nc, r) with N = L Lᵀ up to eigenvalues below ``rank_tol`` of their part's largest.

    Each independent part is factorised by itself, so that a heavy part does not hide a light one.
    A part too large for a dense factorisation keeps its rows of N: then L Lᵀ is not N, but
    Lᵀf = Lᵀg still means N f = N g.
    """
    parts = matrix_parts(N)
    pieces = [sp.csr_array((N.shape[0], 0 if parts.count else 1))]
    for part in range(parts.count):
        index = np.flatnonzero(parts.contact == part)
        block = sp.csr_array(N[index][:, index])
        ones = np.ones(index.size)
        scatter = sp.csr_array((ones, (index, np.arange(index.size))), (N.shape[0], index.size))
        if index.size <= _DENSE_PART:  # contacts in units of their own mobility
            size = np.sqrt(np.maximum(block.diagonal(), 0.0))
            unit = np.where(size > 0.0, size, 1.0)
            values, vectors = np.linalg.eigh(block.toarray() / np.outer(unit, unit))
            used = values > rank_tol * max(float(values[-1]), 0.0)
            block = sp.csr_array(vectors[:, used] * np.sqrt(values[used]) * unit[:, None])
        pieces.append(scatter @ block)
    return sp.csr_array(sp.hstack(pieces))


def low_rank_root(N: sp.csr_array, share: float, rank_tol: float) -> sp.csr_array | None:
    """L (nc, r) with N = L Lᵀ to ``rank_tol`` of its diagonal; None for r above a ``share`` of nc.

    By pivots from the largest to the least (N. J. Higham, *Analysis of the Cholesky decomposition
    of a semi-definite matrix*, in Reliable Numerical Computation, 1990). None, too, where N has
    negative eigenvalues.
    """
    count, size = N.shape[0], np.sqrt(np.maximum(N.diagonal(), 0.0))
    unit = np.where(size > 0.0, size, 1.0)
    whole, most = scaled(N, 1.0 / unit, 1.0 / unit).toarray(), int(share * count)
    pivots, failed = dpotrf(whole[: most + 1, : most + 1])  # quicker, and enough for a full rank
    if not failed and np.square(pivots.diagonal()).min() > rank_tol:
        return None
    factor, order, rank, _ = dpstrf(whole, rank_tol, lower=1)
    if rank > most:
        return None
    root = np.empty((count, rank))
    root[order - 1] = np.tril(factor[:, :rank])
    probe = np.cos(np.arange(count))
    if np.abs(whole @ probe - root @ (root.T @ probe)).max() > count * _NOT_THE_SAME * rank_tol:
        return None
    return sp.csr_array(unit[:, None] * root)


# --- sums over sparse entries ------------------------------------------------------------


def contact_rows(B: sp.csr_array, ends: IntArray) -> sp.csr_array:
    """√Σ B² (nc, nv) over the rows of each contact, from ends[i] to ends[i + 1]."""
    rows, nc = B.shape[0], ends.size - 1
    if nc == rows:
        return B
    if B.nnz <= _FEW:
        place = np.arange(nc).repeat(np.diff(ends))[rows_of(B)] * B.shape[1] + B.indices
        places, of_entry = distinct(place)
        row, column = np.divmod(places, max(B.shape[1], 1))
        size = np.sqrt(total_by(of_entry, B.data**2, places.size))
        return frozen_rows(size, column, row.searchsorted(np.arange(nc + 1)), (nc, B.shape[1]))
    squares = sp.csr_array((B.data**2, B.indices, B.indptr), B.shape)
    gather = sp.csr_array((np.ones(rows), np.arange(rows), ends), (nc, rows))
    reach = sp.csr_array(gather @ squares)
    reach.data = np.sqrt(reach.data)
    return reach


def distinct(values: IntArray) -> tuple[IntArray, IntArray]:
    """The distinct values in order, and the place (n,) of each of the ``values`` (n,) in them."""
    if values.size > _FEW:
        steps = np.diff(values)
        if steps.min() >= 0:  # they are in order
            new = np.append(True, steps > 0)
            return values[new], new.cumsum() - 1
        several, place = np.unique(values, return_inverse=True)
        return several, place
    every = values.tolist()
    some = sorted(set(every))
    place_of = {value: k for k, value in enumerate(some)}
    places = np.array([place_of[value] for value in every], dtype=np.int64)
    return np.array(some, dtype=values.dtype), places


def rows_of(A: sp.csr_array) -> IntArray:
    """The row of each stored entry."""
    known = A.__dict__.get("_rows") if isinstance(A, FrozenMatrix) and A.sealed else None
    if known is None:
        known = read_only(np.arange(A.indptr.size - 1).repeat(A.indptr[1:] - A.indptr[:-1]))
        if isinstance(A, FrozenMatrix) and known.size <= _FEW:  # it does not change
            A.__dict__["_rows"] = known
    return known


# Products of small overhead; with many entries they are those of SciPy, whose sums have the same
# order. ``row`` are the ``rows_of`` A, where these are known.


def times(A: sp.csr_array, x: FloatArray, row: IntArray | None = None) -> FloatArray:
    """A x (n,)."""
    if A.data.size > _MANY:
        return np.asarray(A @ x)
    row = rows_of(A) if row is None else row
    return total_by(row, A.data * x[A.indices], A.indptr.size - 1)


def times_size(A: sp.csr_array, x: FloatArray, row: IntArray | None = None) -> FloatArray:
    """|A| |x| (n,)."""
    if A.data.size > _MANY:
        return np.asarray(with_values(A, np.abs(A.data)) @ np.abs(x))
    row = rows_of(A) if row is None else row
    return total_by(row, np.abs(A.data * x[A.indices]), A.indptr.size - 1)


def transposed_times(A: sp.csr_array, f: FloatArray, row: IntArray | None = None) -> FloatArray:
    """Aᵀ f (m,)."""
    if A.data.size > _MANY:
        return np.asarray(A.T @ f)
    row = rows_of(A) if row is None else row
    return total_by(A.indices, A.data * f[row], A.shape[1])


def transposed_times_size(
    A: sp.csr_array, f: FloatArray, row: IntArray | None = None
) -> FloatArray:
    """|A|ᵀ |f| (m,)."""
    if A.data.size > _MANY:
        return np.asarray(with_values(A, np.abs(A.data)).T @ np.abs(f))
    row = rows_of(A) if row is None else row
    return total_by(A.indices, np.abs(A.data * f[row]), A.shape[1])


def column_scale(B: sp.csr_array) -> FloatArray:
    """β_j = max_i |B_ij| (nv,): the largest change of a gap per unit of a degree of freedom."""
    return largest_by(B.indices, np.abs(B.data), B.shape[1])


def places_of(label: IntArray, count: int) -> Callable[[int], IntArray]:
    """The places of one of ``count`` labels, ascending, as a function of the label."""
    if count == 1:
        return lambda k: np.arange(label.size)
    order = np.argsort(label, kind="stable")
    ends = [0, *np.bincount(label, minlength=count).cumsum().tolist()]
    return lambda k: order[ends[k] : ends[k + 1]]


def by_label(label: IntArray, count: int) -> list[IntArray]:
    """The places of each of ``count`` labels, ascending."""
    return list(map(places_of(label, count), range(count)))


def total_by(label: IntArray, values: FloatArray, count: int) -> FloatArray:
    """(count,) sum of the values under each label."""
    sums: Any = np.bincount(label, values, count)
    return sums if label.size else sums.astype(np.float64)  # of nothing they are integers


def largest_by(label: IntArray, values: FloatArray, count: int) -> FloatArray:
    """(count,) the largest value under each label, at least zero; not-a-number spreads."""
    if count == 1 and label.size > _HANDFUL:
        return np.asarray(values.max(initial=0.0, keepdims=True))
    result = np.zeros(count)
    if label.size > _HANDFUL:
        np.maximum.at(result, label, values)
        return result
    most = result.tolist()
    for k, value in zip(label.tolist(), values.tolist(), strict=True):
        if value > most[k] or value != value:
            most[k] = value
    result[:] = most
    return result


def smallest_by(label: IntArray, values: FloatArray, count: int) -> FloatArray:
    """(count,) the smallest value under each label; zero where there is none."""
    result = np.empty(count)
    result.fill(np.inf)
    lower(result, label, values)
    result[~(result < np.inf)] = 0.0
    return result


def lower(least: FloatArray, label: IntArray, values: FloatArray) -> None:
    """Lower the ``least`` (count,) to the values (n,) under each label; not-a-number spreads."""
    if label.size > _HANDFUL:
        np.minimum.at(least, label, values)
        return
    lowest = least.tolist()
    for k, value in zip(label.tolist(), values.tolist(), strict=True):
        if value < lowest[k] or value != value:
            lowest[k] = value
    least[:] = lowest
