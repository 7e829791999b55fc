"""A contact list as matrices: points, normals and pairs of bodies become M, B and B_t.

Discrete-element codes, engines and masonry tools write such lists. A body has a velocity and,
if it turns, an angular velocity about its centre, both in the global frame.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from cdopt._util import checks
from cdopt._util.checks import FloatArray, IntArray
from cdopt._util.errors import InvalidInput


class ListedBodies(NamedTuple):
    """The bodies of a contact list.

    ``number`` (nb, dofs) is the dof of each of their motions, −1 for fixed bodies; ``dof_body``
    (nv,) the body of each dof, and ``inertia`` (nb, …) moments in kg·m², None without turns.
    """

    masses: FloatArray
    inertia: FloatArray | None
    centres: FloatArray
    number: IntArray
    dof_body: IntArray

    @staticmethod
    def of(masses: Any, inertias: Any, centres: Any, fixed: Any, dim: int) -> ListedBodies:
        """Bodies of arguments as of ``step_from_contacts``; raises InvalidInput if one is bad."""
        mass = checks.numbers("masses", masses, (None,), "kg")
        nb = mass.size
        if (mass <= 0.0).any():
            found = f"{mass.min():g} kg of body {int(np.argmin(mass))}"
            raise InvalidInput("masses", found, "positive masses; fixed bodies are stated as fixed")
        inertia, turns = None, 0
        if inertias is not None:
            turns = 1 if dim == 2 else 3
            inertia = checks.real("inertias", inertias, "moments of inertia, kg·m²")
            shape = (nb, 3, 3) if dim == 3 and inertia.ndim == 3 else (nb,)
            inertia = checks.numbers("inertias", inertia, shape, "kg·m²")
        where = np.zeros((nb, dim)) if centres is None else centres
        where = checks.numbers("centres", where, (nb, dim), "m")
        if centres is None and inertias is not None:
            raise InvalidInput("centres", "None", "centres of mass of bodies that turn, (nb, dim)")
        still = np.zeros(nb, dtype=bool)
        if fixed is not None:
            still[checks.positions("fixed", fixed, nb)] = True
        number = np.full((nb, dim + turns), -1)
        number[~still] = np.arange((~still).sum() * (dim + turns)).reshape(-1, dim + turns)
        return ListedBodies(
            mass, inertia, where, number, np.repeat(np.flatnonzero(~still), dim + turns)
        )

    @property
    def dim(self) -> int:
        """2 in the plane, 3 in space."""
        return int(self.centres.shape[1])

    def mass_matrix(self) -> sp.csr_array:
        """(nv, nv) kg and kg·m²."""
        nb, dim = self.centres.shape
        turns = self.number.shape[1] - dim
        blocks = np.zeros((nb, dim + turns, dim + turns))
        blocks[:, range(dim), range(dim)] = self.masses[:, None]
        if self.inertia is not None:
            moments = self.inertia
            if moments.ndim == 1:
                moments = moments[:, None, None] * np.eye(turns)
            blocks[:, dim:, dim:] = moments
        free = np.flatnonzero(self.number[:, 0] >= 0)
        many = dim + turns
        row = np.repeat(self.number[free], many, axis=1).ravel()
        column = np.tile(self.number[free], (1, many)).ravel()
        entries = blocks[free].ravel()
        used = entries != 0.0
        shape = (self.dof_body.size,) * 2
        return sp.csr_array(sp.coo_array((entries[used], (row[used], column[used])), shape=shape))

    def gather(self, name: str, value: Any) -> FloatArray:
        """(nv,) of a table (nb, dim) or (nb, dim + turns), or of a vector of dofs."""
        nv, (nb, many) = self.dof_body.size, self.number.shape
        if value is None:
            return np.zeros(nv)
        given = checks.real(name, value, f"({nv},), ({nb}, {self.dim}) or ({nb}, {many})")
        if given.shape == (nv,):
            return checks.vector(name, given, nv)
        columns = many if given.shape == (nb, many) else self.dim
        table = np.zeros((nb, many))
        table[:, :columns] = checks.numbers(name, given, (nb, columns))
        result = np.zeros(nv)
        free = self.number[:, 0] >= 0
        result[self.number[free].ravel()] = table[free].ravel()
        return result

    def rows(self, points: FloatArray, pairs: IntArray, axes: FloatArray) -> sp.csr_array:
        """(nc k, nv) rates of body j from i at points (nc, dim), along ``axes`` (nc, k, dim)."""
        (nc, k), dim = axes.shape[:2], self.dim
        entries, rows, columns = [], [], []
        for side, sign in ((0, -1.0), (1, 1.0)):
            body = pairs[:, side]
            moves = np.flatnonzero((body >= 0) & (self.number[body, 0] >= 0))
            along = sign * axes[moves]
            parts = [along]
            if self.number.shape[1] > dim:
                arm = (points[moves] - self.centres[body[moves]])[:, None, :]
                if dim == 2:
                    turn = arm[..., 0] * along[..., 1] - arm[..., 1] * along[..., 0]
                    parts.append(turn[..., None])
                else:
                    parts.append(np.cross(np.broadcast_to(arm, along.shape), along))
            values = np.concatenate(parts, axis=2)
            entries.append(values.ravel())
            row = (moves[:, None] * k + np.arange(k))[:, :, None]
            rows.append(np.broadcast_to(row, values.shape).ravel())
            columns.append(np.broadcast_to(self.number[body[moves]][:, None], values.shape).ravel())
        place = np.concatenate(rows), np.concatenate(columns)
        shape = (nc * k, self.dof_body.size)
        return sp.csr_array(sp.coo_array((np.concatenate(entries), place), shape=shape))


def tangents_of(normals: FloatArray) -> FloatArray:
    """Orthonormal tangents (nc, dim − 1, dim) of normals; first the axis farthest from them."""
    if normals.shape[1] == 2:
        return np.stack([-normals[:, 1], normals[:, 0]], axis=1)[:, None, :]
    axis = np.zeros_like(normals)
    axis[np.arange(len(normals)), np.argmin(np.abs(normals), axis=1)] = 1.0
    first = axis - np.sum(axis * normals, axis=1)[:, None] * normals
    first /= np.linalg.norm(first, axis=1)[:, None]
    return np.stack([first, np.cross(normals, first)], axis=1)


def normal_first(forces: Any, rows: str = "normal-last") -> FloatArray:
    """Forces or rates of the rows of each contact with the normal row first, as cdopt has them.

    Parameters
    ----------
    forces : (nc, d), or (nc, d, …) such as rows of a matrix by contact.
    rows : "normal-last" (t₁, t₂, n: Drake, many QP codes) or "normal-first" (n, t₁, t₂: cdopt,
        Siconos, FCLib, MuJoCo).

    Raises
    ------
    InvalidInput : another order, or no table.

    >>> import cdopt
    >>> cdopt.interop.normal_first([[0.1, 0.2, 5.0]])
    array([[5. , 0.1, 0.2]])
    """
    order = checks.choice("rows", rows, ("normal-first", "normal-last"))
    table = checks.real("forces", forces, "a table (nc, d)")
    if table.ndim < 2 or table.shape[1] not in (2, 3):
        raise InvalidInput("forces", f"shape {table.shape}", "shape (nc, 2) or (nc, 3)")
    return np.array(table) if order == "normal-first" else np.roll(table, 1, axis=1)


def normal_last(forces: Any) -> FloatArray:
    """Forces (nc, d) of cdopt, the normal one first, in the order of codes that put it last.

    Raises
    ------
    InvalidInput : no table (nc, 2) or (nc, 3).

    >>> import cdopt
    >>> cdopt.interop.normal_last([[5.0, 0.1, 0.2]])
    array([[0.1, 0.2, 5. ]])
    """
    return np.roll(normal_first(forces, "normal-first"), -1, axis=1)
