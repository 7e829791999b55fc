"""Friction of a contact step as data: coefficients, tangential rows, prescribed sliding."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import scipy.sparse as sp

from cdopt._util import checks
from cdopt._util.checks import FloatArray
from cdopt._util.errors import InvalidInput
from cdopt._util.frozen import Frozen

_UNIT = 1e-6  # tangents may differ from unit vectors, and from each other's normals, by this


@dataclass(frozen=True, eq=False)
class Friction(Frozen):
    """Friction of the contacts of a step.

    Parameters
    ----------
    mu : friction coefficients μ ≥ 0, one number or (nc,).
    B_t : (nc (d − 1), nv) tangential rows along unit tangents, d = 2 in the plane and 3 in
        space, those of one contact together: t₁ and t₂ of contact 0, then those of contact 1.
        ``B_t @ v`` is the sliding rate of the contact, m/s, and ``B_t.T @ f_t`` what tangential
        forces do to the bodies. None for a step known by N and p, whose N has d rows a contact.
    rate : prescribed sliding rate (a conveyor), m/s, one number or (nc, d − 1).
    stiffness_ratio : tangential over normal contact stiffness k_t/k_n, one number or (nc,).
    tangents : (nc, d − 1, d) unit tangents in space, or None; for pictures and vectors.

    Notes
    -----
    ``step.friction`` has these as arrays: mu and stiffness_ratio (nc,), rate (nc, d − 1).

    Raises
    ------
    InvalidInput : by the step that it is given to, which knows the number of contacts; by
        itself where a value has no meaning for any step.
    """

    mu: Any
    B_t: Any = None
    rate: Any = 0.0
    stiffness_ratio: Any = 1.0
    tangents: Any = None

    def __post_init__(self) -> None:
        expected = "one number or one for each contact"
        if checks.real("mu", self.mu, expected).ndim > 1:
            raise InvalidInput("mu", checks.describe(self.mu), expected)
        super().__post_init__()

    def on(self, nc: int, nv: int | None, rows: int | None = None) -> Friction:
        """The same friction, validated for a step of nc contacts; arrays are read-only.

        Parameters
        ----------
        nv : degrees of freedom of the step; None for a step known by N and p.
        rows : rows of N, where nv is None.

        Raises
        ------
        InvalidInput : naming the argument.
        """
        nc = checks.whole("nc", nc, 0)
        nv, rows = (
            checks.optional(partial(checks.whole, at_least=0), name, value)
            for name, value in (("nv", nv), ("rows", rows))
        )
        mu = checks.per_contact("mu", self.mu, nc, at_least=0.0)
        name, B_t, count = "N", None, rows or 0
        if nv is None:
            if self.B_t is not None:
                raise InvalidInput("B_t", "tangential rows", "None with N, which holds them")
        elif self.B_t is None:
            raise InvalidInput("B_t", "None", "the tangential rows (nc·(d − 1), nv)")
        else:
            name, B_t = "B_t", checks.matrix("B_t", self.B_t, None, nv)
            count = nc + B_t.shape[0]
        d = count // max(nc, 1)
        if count != nc * d or (nc and d not in (2, 3)):
            found = count - nc * (B_t is not None)
            raise InvalidInput(name, f"{found} rows for {nc} contacts", "2 or 3 rows a contact")
        rate = checks.real("rate", self.rate, f"one number or an array of shape ({nc}, {d - 1})")
        if not nc:
            d = 3 if rate.shape == (0, 2) or np.shape(self.tangents) == (0, 2, 3) else 2
        if rate.ndim == 0:
            rate = np.full((nc, d - 1), float(rate))
        elif rate.ndim == 1 and d == 2:
            rate = rate[:, None]
        return Friction(
            mu,
            B_t,
            checks.numbers("rate", rate, (nc, d - 1), "m/s"),
            checks.per_contact("stiffness_ratio", self.stiffness_ratio, nc, positive=True),
            _unit_tangents(self.tangents, nc, d),
        )

    def contacts(self, rows: int) -> int:
        """Number of contacts of a step known by N of ``rows`` rows.

        Raises
        ------
        InvalidInput : mu is one number, which leaves the rows of a contact open.
        """
        if np.ndim(self.mu) != 1:
            expected = "one for each contact: it tells 2 from 3 rows a contact"
            raise InvalidInput("mu", checks.describe(self.mu), expected)
        return int(np.size(self.mu))

    @property
    def d(self) -> int:
        """Rows a contact: 2 in the plane, 3 in space."""
        return 1 + int(np.shape(self.rate)[1])

    def rows(self, contacts: Any) -> Friction:
        """The friction of these contacts, as indices (n,)."""
        contacts = checks.positions("contacts", contacts, np.size(self.mu))
        rows = (contacts[:, None] * (self.d - 1) + np.arange(self.d - 1)).ravel()
        return Friction(
            self.mu[contacts],
            None if self.B_t is None else sp.csr_array(self.B_t[rows]),
            self.rate[contacts],
            self.stiffness_ratio[contacts],
            None if self.tangents is None else self.tangents[contacts],
        )

    def __repr__(self) -> str:
        mu = np.atleast_1d(np.asarray(self.mu))
        spread = f"{mu.min():g}" if mu.size and mu.min() == mu.max() else f"{mu.size:,} values"
        return f"Friction(mu={spread})"


def _unit_tangents(tangents: Any, nc: int, d: int) -> FloatArray | None:
    """Tangents (nc, d − 1, d), orthonormal at each contact."""
    if tangents is None:
        return None
    values = checks.real("tangents", tangents, f"an array of shape ({nc}, {d - 1}, {d})")
    values = values[:, None, :] if values.ndim == 2 and d == 2 else values
    values = checks.numbers("tangents", values, (nc, d - 1, d))
    lengths = np.linalg.norm(values, axis=2)
    if (bad := np.argwhere(np.abs(lengths - 1.0) > _UNIT)).size:
        i, k = bad[0].tolist()
        found = f"a tangent of length {lengths[i, k]:.6g} at contact {i}"
        raise InvalidInput("tangents", found, "unit vectors")
    if d == 3:
        _check_right_angles(values[:, :1], values[:, 1], "the other tangent")
    return values


def check_directions(tangents: FloatArray, normals: FloatArray) -> None:
    """Refuse tangents (nc, d − 1, d) that are not at right angles to the unit normals (nc, d)."""
    if tangents.shape[2] != normals.shape[1]:
        found = f"vectors of {tangents.shape[2]} numbers, normals of {normals.shape[1]}"
        raise InvalidInput("tangents", found, "the same dimension")
    _check_right_angles(tangents, normals, "the normal")


def _check_right_angles(tangents: FloatArray, others: FloatArray, name: str) -> None:
    """Refuse unit vectors (nc, m, d) that are not at right angles to others (nc, d)."""
    along = np.einsum("ikx,ix->ik", tangents, others)
    if (bad := np.argwhere(np.abs(along) > _UNIT)).size:
        i, k = bad[0].tolist()
        angle = np.degrees(np.arccos(np.clip(along[i, k], -1.0, 1.0)))
        found = f"a tangent {angle:.6g}° from {name} at contact {i}"
        raise InvalidInput("tangents", found, "vectors at right angles")
