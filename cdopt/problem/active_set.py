"""Rigid steps solved again on the contacts that press: forces as accurate as the data.

A solver leaves small errors of gaps. For two nearly redundant contacts, σ apart, they change
forces by 1/σ² as much, and no residual shows it. On the contacts that press forces solve

    N_A f = −p_A,    N_A = Δt B_A M⁻¹ B_Aᵀ,

solved again part by part (``part_step``). The remaining error is due to round-off of p.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np
import scipy.sparse as sp

from cdopt._util.checks import BoolArray, FloatArray, IntArray
from cdopt._util.frozen import transposed
from cdopt.problem.contact_problem import ContactProblem, LocalScales
from cdopt.problem.part_step import (
    DEPENDENT,
    MAGNIFIED,
    MOST,
    NEGATIVE,
    PASSES,
    CoupledPart,
    dense_block,
    inverted,
    part_step,
    unit_rows,
)
from cdopt.problem.residual import EPS, Condition
from cdopt.problem.scaling import chosen_columns, chosen_rows, distinct, places_of, product, scaled
from cdopt.problem.sparse_inverse import LARGE, SparseInverse

_MOST_BY_N = 300  # contacts of a part, or rows with friction
_DELIVERED = 1e-10  # of the load of a dof: less is delivered, in large parts


def resolved(
    data: ContactProblem, f: FloatArray, gap: FloatArray, closed: BoolArray, local: LocalScales
) -> tuple[FloatArray, FloatArray]:
    """Forces f (nc,) of a rigid step, with rates ``gap`` (nc,), solved again part by part.

    Also the effect (nc,) on them of errors of the gaps and round-off of the data, N; zero where
    they were not solved again.
    """
    forces, uncertain = np.where(closed, np.maximum(f, 0.0), 0.0), np.zeros(f.size)
    if not closed.any():
        return forces, uncertain
    shut, count = np.flatnonzero(closed), data.parts.count
    part = data.parts.contact[shut]
    places, dofs_of = places_of(part, count), places_of(data.parts.dof, count)
    for k in np.flatnonzero(np.bincount(part) > 1).tolist():
        contacts, dofs = shut[places(k)], dofs_of(k)
        if dofs.size > LARGE:
            B = chosen_rows(data.B, contacts)
            rows = scaled(B, columns=1.0 / np.sqrt(data.mass.diagonal))
            if not _nearly_dependent(rows, data.bodies):
                continue
        presses = data.mobility[contacts] * f[contacts] > gap[contacts]
        scales = local.speed[contacts], local.speed[contacts] / data.mobility[contacts]
        if data.inertia is None:
            if contacts.size <= _MOST_BY_N:
                answer = _solved_by_N(data, forces, contacts[presses], scales[1][presses])
                forces[contacts[presses]], uncertain[contacts[presses]] = answer
            continue
        answer = part_step(data, contacts, dofs).solved(forces[contacts], presses, *scales)
        forces[contacts], uncertain[contacts] = answer
    return forces, uncertain


def _nearly_dependent(rows: sp.csr_array, bodies: IntArray) -> bool:
    """Whether of ``rows`` (n, nv) some between the same bodies, or one and the world, are."""
    rows = chosen_rows(rows, np.flatnonzero(np.diff(rows.indptr)))
    body, starts = bodies[rows.indices], rows.indptr[:-1]
    first, last = np.minimum.reduceat(body, starts), np.maximum.reduceat(body, starts)
    pair = distinct(first * bodies.size + last)[1]
    some = np.flatnonzero(np.bincount(pair)[pair] > 1)
    for _, _, block in _blocks_of(rows, some, pair[some]):
        length = np.linalg.norm(block, axis=2, keepdims=True)
        values = np.linalg.svd(block / np.where(length > 0.0, length, 1.0), compute_uv=False)
        if np.any((values > DEPENDENT) & (values**2 < 1.0 / MAGNIFIED)):
            return True
    return False


def _solved_by_N(
    data: ContactProblem, f: FloatArray, presses: IntArray, force: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Forces of the contacts that press, n of f (nc,), and their uncertainty (n,), N, from N and p.

    They are those given if closed gaps would make one of them pull.
    """
    N = data.products[presses][:, presses].toarray()
    root, given = np.sqrt(N.diagonal()), f[presses]
    inverse = inverted(N / np.outer(root, root))[0] / np.outer(root, root)
    wide, result = N.astype(np.longdouble), given.astype(np.longdouble)
    first: FloatArray = np.asarray(wide @ result + data.p[presses]).astype(np.float64)
    for _ in range(PASSES):
        result -= inverse @ np.asarray(wide @ result + data.p[presses]).astype(np.float64)
    noise = EPS * (np.abs(N) @ np.abs(given) + np.abs(data.p[presses]))
    if np.all(result >= -NEGATIVE * force):
        return np.maximum(result.astype(np.float64), 0.0), np.abs(inverse) @ noise
    return given, np.abs(inverse) @ (np.abs(first) + noise)


def resolved_along(
    data: ContactProblem,
    f: FloatArray,
    G: sp.csr_array,
    R: sp.csr_array,
    nearest: Callable[[IntArray, FloatArray], FloatArray],
    local: LocalScales,
) -> tuple[FloatArray, FloatArray]:
    """Forces f (rows,) of a step with friction solved again along G (rows, k), where R g (k,) is 0.

    ``nearest`` gives the nearest forces on the faces of cones, of contacts (n,) and their rows.
    Also their errors (nc,), N.
    """
    forces, uncertain, cones = f.copy(), np.zeros(f.size), data.cones
    if not G.nnz:
        return forces, np.zeros(data.nc)
    columns, R = sp.csr_array(G.T), sp.csr_array(R)
    contact = cones.contact[columns.indices[columns.indptr[:-1]]]
    part, arm = data.parts.contact[contact], np.broadcast_to(data.scales.lever, f.shape)
    force = cones.on_rows(local.speed / data.mobility) * arm
    places, dofs_of = (places_of(of, data.parts.count) for of in (part, data.parts.dof))
    for k in np.flatnonzero(np.bincount(part) > 1).tolist():
        mine, dofs = places(k), dofs_of(k)
        contacts = np.unique(contact[mine])
        rows = cones.rows_of(contacts)
        by_N, on_faces = data.inertia is None, partial(nearest, contacts)
        if rows.size > _MOST_BY_N if by_N else not dofs.size:
            continue
        piece = CoupledPart(data, rows, forces[rows]) if by_N else part_step(data, rows, dofs)
        directions, rates = (piece.block_of(A, mine, rows) for A in (columns, R))
        answer = piece.along(forces[rows], directions.T, rates, on_faces, force[rows])
        forces[rows], uncertain[rows] = answer
    return forces, cones.norms(uncertain / arm)


def first_step(
    data: ContactProblem,
    motion: FloatArray | None,
    f: FloatArray,
    uncertain: FloatArray,
    G: sp.csr_array,
) -> Condition:
    """What a first step did to forces f (rows,) of the network that resolves them.

    The residual ``first step`` is the force change along the columns of G (rows, k) at contact i
    that the undelivered load Bᵀf − F̃ would cause, over the local force F_i; its resolution is
    ``uncertain`` (nc,) in N over F_i. Both grow where contacts are nearly redundant.
    """
    error, missed = np.zeros(data.nc), data.load(f) - data.contact_load
    dofs = np.bincount(data.parts.dof, minlength=data.parts.count)
    if dofs.max(initial=0) > LARGE:
        open_load = np.abs(missed) > _DELIVERED * data.load_size(f)
        open_load |= dofs[data.parts.dof] <= LARGE
        missed *= (np.bincount(data.parts.dof, open_load) > 0.0)[data.parts.dof]
    if missed.any() and G.shape[1]:
        columns = transposed(G)
        contact = data.cones.contact[columns.indices[columns.indptr[:-1]]]
        part = data.parts.contact[contact]
        many = np.bincount(part)[part]
        few = np.flatnonzero(many <= MOST)
        rows = product(chosen_rows(columns, few), data.B) if few.size else columns
        for some, used, block in _blocks_of(rows, np.arange(few.size), part[few]):
            length = np.linalg.norm(block, axis=2)
            length = np.where(length > 0.0, length, 1.0)
            inverse = np.linalg.pinv(block / length[:, :, None], rcond=DEPENDENT)
            made = np.abs(np.einsum("kmn,km->kn", inverse, missed[used])) / length
            np.maximum.at(error, contact[few[some]], made)
        more = np.flatnonzero(
            (many > MOST) & (np.bincount(data.parts.dof, missed != 0.0) > 0)[part]
        )
        if more.size:
            rows = sp.csr_array(chosen_rows(columns, more) @ data.B)
            large = dofs[part[more]] > LARGE
            if large.any() and not _nearly_dependent(sp.csr_array(rows[large]), data.bodies):
                more, rows = more[~large], sp.csr_array(rows[~large])
        if more.size:
            used, _, forces_of = _sparse_delivery(rows)
            np.maximum.at(error, contact[more], np.abs(forces_of(missed[used])))
    at = data.scales.local(motion, f).force
    return Condition("first step", "N", error, at, uncertain, True)


def _blocks_of(
    B: sp.csr_array, rows: IntArray, part: IntArray
) -> Iterator[tuple[IntArray, IntArray, FloatArray]]:
    """Rows and columns of the dense blocks (k, a, b) of B, one for each small ``part`` (n,)."""
    if not part.size:
        return
    if np.all(part == part[0]):
        columns, block = dense_block(B, rows)
        if columns.size <= 3 * MOST:
            yield rows[None], columns[None], block[None]
        return
    order = np.argsort(part, kind="stable")
    rows, (_, part, high) = (
        rows[order],
        np.unique(part[order], return_inverse=True, return_counts=True),
    )
    many = B.indptr[rows + 1] - B.indptr[rows]
    row = np.arange(rows.size).repeat(many)
    at = np.arange(row.size) + (B.indptr[rows] - (many.cumsum() - many)).repeat(many)
    pairs, place = np.unique(part[row] * B.shape[1] + B.indices[at], return_inverse=True)
    wide = np.bincount(pairs // B.shape[1], minlength=high.size)
    local_row = np.arange(rows.size) - (high.cumsum() - high)[part]
    local_column = np.arange(pairs.size) - (wide.cumsum() - wide).repeat(wide)
    for a, b in {(int(x), int(y)) for x, y in zip(high, wide, strict=True) if y <= 3 * MOST}:
        alike = (high == a) & (wide == b)
        index = np.cumsum(alike) - 1
        here = alike[part[row]]
        blocks = np.zeros((int(alike.sum()), a, b))
        where = index[part[row[here]]], local_row[row[here]], local_column[place[here]]
        np.add.at(blocks, where, B.data[at[here]])
        columns = (pairs % B.shape[1])[alike.repeat(wide)].reshape(-1, b)
        yield rows[alike[part]].reshape(-1, a), columns, blocks


def delivering(
    B: sp.csr_array, f: FloatArray, load: FloatArray, cache: dict[Any, Any]
) -> FloatArray:
    """f (nc,) with the least change where contacts press that delivers the load, if none pulls.

    The ``cache`` of B keeps the inverse for the contacts that pressed last.
    """
    pressing, result, last = np.flatnonzero(f > 0.0), f.astype(np.longdouble), np.inf
    known = cache.get("delivery")
    if known is None or not np.array_equal(known[0], pressing):
        used, columns, inverse = _delivery(B, pressing)
        known = cache["delivery"] = pressing, used, columns.astype(np.longdouble), inverse
    used, wide, inverse = known[1:]
    if not used.size:
        return f
    for _ in range(PASSES):
        missed = (load[used] - wide @ result[pressing]).astype(np.float64)
        size = float(np.abs(missed).max())
        if not size < last:
            break
        result[pressing] += inverse(missed)
        last = size
    better = result.astype(np.float64)
    return better if better.min(initial=0.0) >= 0.0 else f


def _delivery(
    B: sp.csr_array, pressing: IntArray
) -> tuple[IntArray, Any, Callable[[FloatArray], FloatArray]]:
    """The dofs (m,) that contacts ``pressing`` (n,) load, Bᵀ of them (m, n), and its inverse."""
    if pressing.size <= MOST:
        used, rows = dense_block(B, pressing)
        if used.size <= 3 * MOST:
            unit, length = unit_rows(rows)
            inverse = np.linalg.pinv(unit, rcond=DEPENDENT).T / length[:, None]
            return used, rows.T, inverse.__matmul__
    return _sparse_delivery(sp.csr_array(B[pressing]))


def _sparse_delivery(
    rows: sp.csr_array,
) -> tuple[IntArray, Any, Callable[[FloatArray], FloatArray]]:
    """The same of the ``rows`` (n, nv) of forces, without dense matrices."""
    used = np.flatnonzero(np.bincount(rows.indices, minlength=rows.shape[1]))
    rows, unit_mass = chosen_columns(rows, used), sp.eye_array(used.size, format="csr")
    return used, rows.T, SparseInverse(rows, rows, unit_mass).delivering
