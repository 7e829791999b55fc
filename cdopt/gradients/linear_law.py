"""The contact law of a problem, linear near one solution.

    df = T a − D dg + e,    R dg = ρ

with the changes df of forces and dg of rates, and one a for each direction in which a contact is
held. T and R have the directions in which forces are free and rates are not, D what forces do where
they follow the rates: the turning of sliding friction, or the springs of elastic contacts.

They come from the natural map w f = P_K(w f − g̃), whose derivative S has an eigenvalue of one where
rates are held, of zero where no force is, and of others where forces follow, with g̃ the rates as
the law takes them. Where Coulomb's contacts slide T and Rᵀ differ, and D is not symmetric.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import scipy.sparse as sp

from cdopt._util.checks import BoolArray, FloatArray, IntArray
from cdopt.problem import Cones, ContactProblem

_PRESSES = 1e-6  # share of force and rates, of a contact of which one is zero
_HELD = 1e-12  # an eigenvalue of S this near to one is one


@dataclass(frozen=True, eq=False)
class LinearLaw:
    """df = T a − D dg + e and R dg = ρ, in the units of the scaled problem."""

    # T, R, D: (rows, n), (n, rows) and (rows, rows)
    T: sp.csr_array
    R: sp.csr_array
    D: sp.csr_array
    margin: FloatArray  # (nc,) how far each contact is from a kink of the law, as a rate
    # forces_by_mu, rates_by_mu: (rows, nc) and (n, nc), e and ρ of each contact's μ; None where the
    # cones have several coefficients
    forces_by_mu: sp.csr_array | None = None
    rates_by_mu: sp.csr_array | None = None
    by_rows: bool = False  # whether no row depends on another

    @property
    def held(self) -> BoolArray:
        """(rows,) rows in which something is held."""
        return np.asarray(np.diff(self.T.indptr) > 0)

    @property
    def transposed(self) -> LinearLaw:
        """The law of the adjoint problem, which is the same where all of it is symmetric."""
        if self.by_rows:
            return self
        T, R, D = (sp.csr_array(X.T) for X in (self.R, self.T, self.D))
        return LinearLaw(T, R, D, self.margin)


class Sides(NamedTuple):
    """Sides of kinks of friction: contacts at the onset of slip, or that slide without force."""

    contacts: IntArray  # (n,)
    # way, rate: (n, d) one more direction of force and the rate that goes with it: both may grow
    # from zero, one of them at a time
    way: FloatArray
    rate: FloatArray
    others: BoolArray  # (n,) whether the directions across ``way`` are held
    shift: FloatArray  # (n, d) derivative of de Saxcé's shift
    held: BoolArray  # (n,) the side: whether the rate stays zero, else the force
    idle: BoolArray  # (n,) contacts with neither force nor rate, which have more than two sides

    @staticmethod
    def of(data: ContactProblem, f: FloatArray, g: FloatArray, contacts: IntArray) -> Sides:
        """Sides of ``contacts`` at scaled forces f and rates g (rows,); none held."""
        cones = data.scaled_cones
        forces, rates, mu = (x[contacts] for x in (cones.table(f), cones.table(g), cones.mu))
        presses = forces[:, 0] > _PRESSES * (np.abs(forces[:, 0]) + np.abs(rates).max(axis=1))
        slip = np.where(presses[:, None], -forces[:, 1:], rates[:, 1:])
        size = np.linalg.norm(slip, axis=1)[:, None]
        slip = mu[:, None] * slip / np.where(size > 0.0, size, 1.0)
        length = np.sqrt(1.0 + mu**2)[:, None]
        sticks = np.hstack([mu[:, None], slip / np.where(mu > 0.0, mu, 1.0)[:, None]]) / length
        begins = np.hstack([np.ones_like(size), -slip]) / length
        way = np.where(presses[:, None], sticks, begins)
        shift = np.hstack([np.zeros_like(size), slip if data.law == "coulomb" else 0.0 * slip])
        rate, none = way + way[:, :1] * shift, np.zeros(contacts.size, dtype=bool)
        idle = ~presses & (mu > 0.0) & (size[:, 0] <= _PRESSES)
        return Sides(contacts, way, rate, presses, shift, none, idle)


def linear_law(
    data: ContactProblem, f: FloatArray, g: FloatArray, held: BoolArray, sides: Sides | None = None
) -> LinearLaw:
    """The law of ``data`` at forces f and rates g (rows,), both scaled.

    Contacts that are ``held`` (nc,) press, whatever f is: in other admissible forces they do.
    ``sides`` are those of contacts at kinks of friction.
    """
    cones = data.scaled_cones
    law = data.scales.compliance
    if law is not None and not law.pulls:
        both = np.asarray(cones.bilateral)
        margin = np.where(both | (law.power > 2.0), np.inf, np.abs(g))
        return _of_rows(np.zeros(g.size, dtype=bool), law.tangent(-g), margin)
    if law is not None:
        root = np.sqrt(law.stiffness)
        soft = data.scales.cones.in_units(root)
        y, at = -root * g, root[cones.first]
        S = soft.projection_derivative(y)
        D = _sparse(cones, S) * root[:, None] * root[None, :]
        e = _by_mu(soft, y, data.force * root)
        forces = None if e is None else _columns(cones, root * e)
        nothing = sp.csr_array((g.size, 0))
        rates = sp.csr_array((0, cones.nc))
        margin = soft.margin(y) / at
        return LinearLaw(nothing, sp.csr_array(nothing.T), D, margin, forces, rates)
    weight = (data.mobility * (data.force / data.speed)[cones.first])[cones.contact]
    if cones.d == 1:
        y = weight * f - g
        presses = np.asarray(cones.bilateral) | (y > 0.0) | held
        return _of_rows(presses, np.zeros(g.size), np.where(held, np.inf, cones.margin(y)))
    return _of_cones(data, weight, f, g, held, sides)


def _of_rows(presses: BoolArray, springs: FloatArray, margin: FloatArray) -> LinearLaw:
    """Rows by themselves: those that press keep their rate, others are ``springs`` (rows,)."""
    rows, at = presses.size, np.flatnonzero(presses)
    R = sp.csr_array((np.ones(at.size), at, np.arange(at.size + 1)), shape=(at.size, rows))
    nothing, no_rates = sp.csr_array((rows, rows)), sp.csr_array((at.size, rows))
    D = sp.csr_array(sp.diags_array(springs)) if springs.any() else nothing
    return LinearLaw(sp.csr_array(R.T), R, D, margin, nothing, no_rates, True)


def _of_cones(
    data: ContactProblem,
    weight: FloatArray,
    f: FloatArray,
    g: FloatArray,
    rests: BoolArray,
    sides: Sides | None,
) -> LinearLaw:
    """Rigid contacts in cones of several rows, by the eigenvalues of S; some (nc,) rest."""
    cones, coulomb = data.scaled_cones, data.law == "coulomb"
    y = weight * f - (cones.shifted(g) if coulomb else g)
    S = cones.projection_derivative(y)
    S[rests] = np.eye(cones.d)
    settled = rests.copy()
    if sides is not None:
        along = sides.way[:, :, None] * sides.way[:, None, :]
        across = sides.others[:, None, None] * (np.eye(cones.d) - along)
        S[sides.contacts], settled[sides.contacts] = (
            across + sides.held[:, None, None] * along,
            True,
        )
    values, vectors = np.linalg.eigh(S)
    held = values > 1.0 - _HELD
    give = np.where(held, 0.0, 1.0 / np.where(held, 1.0, 1.0 - values)) / cones.table(weight)[:, :1]
    follow = np.einsum("iab,ib,icb->iac", vectors, values * give, vectors)
    bend = np.broadcast_to(np.eye(cones.d), follow.shape).copy()
    if coulomb:
        shift = cones.shift_gradient(g)
        if sides is not None:
            shift[sides.contacts] = sides.shift
        bend[:, 0] += shift
    T, R = (
        _directions(cones, vectors, held),
        _directions(cones, bend.transpose(0, 2, 1) @ vectors, held),
    )
    law = LinearLaw(
        T,
        sp.csr_array(R.T),
        _sparse(cones, follow @ bend),
        np.where(settled, np.inf, cones.margin(y)),
    )
    kick = _by_mu(cones, y, data.force)
    if kick is None:
        return law
    kick = np.where(settled[cones.contact], 0.0, kick)
    rate = np.zeros(g.size)
    if coulomb:
        rate[cones.first] = np.where(held.sum(axis=1) > 1, 0.0, cones.shift_by_mu(g)) * _ratio(
            cones, data.force
        )
    kicked, shifted = _columns(cones, kick), _columns(cones, rate)
    yields = _sparse(cones, np.einsum("iab,ib,icb->iac", vectors, give, vectors))
    forces = sp.csr_array(yields @ kicked - _sparse(cones, follow) @ shifted)
    rates = sp.csr_array(T.T @ (kicked - shifted))
    return LinearLaw(law.T, law.R, law.D, law.margin, forces, rates)


def _by_mu(cones: Cones, y: FloatArray, unit: FloatArray) -> FloatArray | None:
    """(rows,) derivative of the projection of y by the μ of each contact, forces in ``unit``."""
    try:
        by_mu = cones.projection_by_mu(y)
    except TypeError:
        return None
    return by_mu * _ratio(cones, unit)[cones.contact]


def _ratio(cones: Cones, unit: FloatArray) -> FloatArray:
    """(nc,) the scaled μ over μ: the normal unit over the tangential one."""
    second = np.minimum(cones.ends[:-1] + 1, np.maximum(cones.ends[1:] - 1, 0))
    return np.asarray(unit[cones.first] / unit[second])


def _sparse(cones: Cones, blocks: FloatArray) -> sp.csr_array:
    """Blocks (nc, d, d) of the contacts on the diagonal of a matrix (rows, rows)."""
    if cones.uniform:
        places = np.arange(cones.nc), np.arange(cones.nc + 1)
        shape = cones.rows, cones.rows
        return sp.csr_array(sp.bsr_array((blocks, *places), shape=shape))
    i, a, b = np.nonzero(blocks)
    at = cones.ends[:-1][i]
    return sp.csr_array((blocks[i, a, b], (at + a, at + b)), shape=(cones.rows, cones.rows))


def _directions(cones: Cones, vectors: FloatArray, chosen: BoolArray) -> sp.csr_array:
    """(rows, n) the columns of ``vectors`` (nc, d, d) that are ``chosen`` (nc, d)."""
    many = int(chosen.sum())
    number = np.cumsum(chosen.ravel()).reshape(chosen.shape) - 1
    i, a, b = np.nonzero(vectors * chosen[:, None, :])
    entries = vectors[i, a, b], (cones.ends[:-1][i] + a, number[i, b])
    return sp.csr_array(entries, shape=(cones.rows, many))


def _columns(cones: Cones, rows: FloatArray) -> sp.csr_array:
    """(rows, nc) the rows of each contact in its own column."""
    return sp.csr_array((rows, cones.contact, np.arange(cones.rows + 1)), (cones.rows, cones.nc))
