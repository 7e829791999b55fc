"""Friction of a contact step as data: coefficients, tangential rows, prescribed sliding."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import scipy.sparse as sp

from cdopt._util import checks
from cdopt._util.checks import FloatArray, IntArray
from cdopt._util.errors import InvalidInput
from cdopt._util.frozen import Frozen
from cdopt.problem.cones import Cones, FrictionCones
from cdopt.problem.rolling_cones import EllipticCones, RollingCones

CONES = ("product", "elliptic")
_MOMENTS = {2: (1,), 3: (1, 2, 3)}  # rows of moments a contact in the plane and in space
_UNIT = 1e-6  # tangents may differ from unit vectors, and from each other's normals, by this


@dataclass(frozen=True, eq=False)
class Friction(Frozen):
    """Friction of the contacts of a step.

    Parameters
    ----------
    mu : friction coefficients μ ≥ 0, one number or (nc,).
    B_t : (nc (d − 1), nv) tangential rows along unit tangents, d = 2 in the plane and 3 in space,
        those of one contact together: t₁ and t₂ of contact 0, then those of contact 1. ``B_t @ v``
        is the sliding rate of the contact, m/s, and ``B_t.T @ f_t`` the effect of tangential forces
        on the bodies. None for a step known by N and p, whose N has d rows a contact.
    rate : prescribed sliding rate (a conveyor), m/s, one number or (nc, d − 1).
    stiffness_ratio : tangential over normal contact stiffness k_t/k_n, one number or (nc,).
    tangents : (nc, d − 1, d) unit tangents in space, or None; for pictures and vectors.
    torsion, rolling : coefficients of the moments about the normal and in the tangent plane, in m,
        one number or (nc,): a moment is at most this length times the normal force.
    B_r : (nc k, nv) rows of the relative angular velocity of the bodies, rad/s, those of one
        contact together; ``B_r.T @ f_r`` is the effect of moments on the bodies, N·m. In space k =
        1 is torsion, k = 2 rolling about t₁ and t₂, k = 3 torsion, then rolling; in the plane k = 1
        is rolling. None without moments, and for a step known by N and p, whose N has d + k rows a
        contact: normal, tangents, moments.
    cone : "product", ‖f_T‖ ≤ μ f_n and each moment within its coefficient (V. Acary & F.
        Bourrier 2021); or "elliptic", Σ (f_j/μ_j)² ≤ f_n² over all rows (MuJoCo's condim 4 and 6).
    spin : prescribed relative angular velocity (driven rollers), rad/s, one number or (nc, k).

    Notes
    -----
    ``step.friction`` has these as arrays: mu, stiffness_ratio, torsion and rolling (nc,), rate
    (nc, d − 1), spin (nc, k).

    Raises
    ------
    InvalidInput : a value that is invalid for any step. A step checks sizes.
    """

    mu: Any
    B_t: Any = None
    rate: Any = 0.0
    stiffness_ratio: Any = 1.0
    tangents: Any = None
    torsion: Any = 0.0
    rolling: Any = 0.0
    B_r: Any = None
    cone: str = "product"
    spin: Any = 0.0

    def __post_init__(self) -> None:
        expected = "one number or one for each contact"
        for name in ("mu", "torsion", "rolling"):
            value = getattr(self, name)
            if checks.real(name, value, expected).ndim > 1:
                raise InvalidInput(name, checks.describe(value), expected)
        self.__dict__["cone"] = checks.choice("cone", str(self.cone), CONES)
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
        mu, torsion, rolling = (
            checks.per_contact(name, getattr(self, name), nc, at_least=0.0)
            for name in ("mu", "torsion", "rolling")
        )
        B_t = B_r = None
        if nv is None:
            for name in ("B_t", "B_r"):
                if getattr(self, name) is not None:
                    raise InvalidInput(name, "rows", "None with N, which has them")
            d, k = self._rows_of_delassus(nc, rows or 0)
        elif self.B_t is None:
            raise InvalidInput("B_t", "None", "the tangential rows (nc·(d − 1), nv)")
        else:
            B_t = checks.matrix("B_t", self.B_t, None, nv)
            d, k = 1 + B_t.shape[0] // max(nc, 1), 0
            if B_t.shape[0] != nc * (d - 1) or (nc and d not in (2, 3)):
                found = f"{B_t.shape[0]} rows for {nc} contacts"
                raise InvalidInput("B_t", found, "1 row for each contact in the plane, 2 in space")
            if self.B_r is not None:
                B_r = checks.matrix("B_r", self.B_r, None, nv)
                k = B_r.shape[0] // max(nc, 1)
                if B_r.shape[0] != nc * k or (nc and k not in _MOMENTS[d]):
                    found = f"{B_r.shape[0]} rows for {nc} contacts"
                    many = " or ".join(map(str, _MOMENTS[d]))
                    where = "in space" if d == 3 else "in the plane"
                    raise InvalidInput("B_r", found, f"{many} rows a contact {where}")
        rate = checks.real("rate", self.rate, f"one number or an array of shape ({nc}, {d - 1})")
        if not nc:
            d = 3 if rate.shape == (0, 2) or np.shape(self.tangents) == (0, 2, 3) else 2
        if rate.ndim == 0:
            rate = np.full((nc, d - 1), float(rate))
        elif rate.ndim == 1 and d == 2:
            rate = rate[:, None]
        return Friction._of(
            mu=mu,
            B_t=B_t,
            rate=checks.numbers("rate", rate, (nc, d - 1), "m/s"),
            stiffness_ratio=checks.per_contact(
                "stiffness_ratio", self.stiffness_ratio, nc, positive=True
            ),
            tangents=_unit_tangents(self.tangents, nc, d),
            torsion=torsion,
            rolling=rolling,
            B_r=B_r,
            cone=self.cone,
            spin=self._spin_of(nc, d, k, torsion, rolling),
        )

    def _rows_of_delassus(self, nc: int, rows: int) -> tuple[int, int]:
        """Rows of forces d, and of moments k, of a contact of a step known by N of ``rows`` rows.

        Three rows are those of rolling in the plane where there is rolling, else those of space.
        """
        width, two_or_three = rows // max(nc, 1), "2 or 3 rows a contact, or up to 6 with moments"
        if rows and not nc:
            raise InvalidInput("N", f"{rows} rows for 0 contacts", two_or_three)
        if not nc:
            return (3 if np.shape(self.rate) == (0, 2) else 2), np.atleast_2d(self.spin).shape[-1]
        given = np.ndim(self.spin) == 2 or any(
            np.ndim(values) or values != 0.0 for values in (self.torsion, self.rolling)
        )
        rolls = np.ndim(self.spin) < 2 and np.any(np.asarray(self.rolling) != 0.0)
        in_plane = width == 3 and (np.shape(self.spin) == (nc, 1) or rolls)
        d = 2 if width == 2 or in_plane else 3
        moments = width - d in _MOMENTS.get(d, ()) and given  # else rows of forces too many
        if rows != nc * width or not (width == d or moments):
            raise InvalidInput("N", f"{rows} rows for {nc} contacts", two_or_three)
        return d, width - d

    def _spin_of(
        self, nc: int, d: int, k: int, torsion: FloatArray, rolling: FloatArray
    ) -> FloatArray:
        """(nc, k) rad/s, after a check that every moment with a coefficient has rows."""
        twists, rolls = d == 3 and k in (1, 3), k in ((1,) if d == 2 else (2, 3))
        for name, value, there in (("torsion", torsion, twists), ("rolling", rolling, rolls)):
            if not there and np.count_nonzero(value > 0.0):
                where = "without rows B_r" if k == 0 else f"with {k} rows of moments a contact"
                found = f"{float(value.max()):g} m {where}"
                expected = f"0, or rows of {name} as well"
                raise InvalidInput(name, found, expected)
        spin = checks.real("spin", self.spin, f"one number or an array of shape ({nc}, {k})")
        if spin.ndim == 0:
            spin = np.full((nc, k), float(spin))
        elif spin.ndim == 1 and k == 1:
            spin = spin[:, None]
        return checks.numbers("spin", spin, (nc, k), "rad/s")

    def contacts(self, rows: int) -> int:
        """Number of contacts of a step known by N of ``rows`` rows.

        Raises
        ------
        InvalidInput : mu is one number, so that the number of rows per contact is unknown.
        """
        if np.ndim(self.mu) != 1:
            expected = "one for each contact: it tells 2 from 3 rows a contact"
            raise InvalidInput("mu", checks.describe(self.mu), expected)
        return int(np.size(self.mu))

    @property
    def matrices(self) -> tuple[sp.csr_array, ...]:
        """B_t, and B_r where there are moments; none of friction without rows."""
        return tuple(B for B in (self.B_t, self.B_r) if B is not None)

    @property
    def d(self) -> int:
        """Rows of forces a contact: 2 in the plane, 3 in space."""
        return 1 + int(np.shape(self.rate)[1])

    @property
    def moments(self) -> int:
        """Rows of moments a contact, k."""
        return int(np.shape(self.spin)[1]) if np.ndim(self.spin) == 2 else 0

    @property
    def acts(self) -> bool:
        """Whether any coefficient is above zero."""
        return any(np.any(np.asarray(c) > 0.0) for c in (self.mu, self.torsion, self.rolling))

    @property
    def cones(self) -> Cones:
        """K of the contacts."""
        if not self.moments:
            return FrictionCones(self.mu, self.d)
        groups, widths = [self.mu], [self.d - 1]
        if self.d == 3 and self.moments != 2:
            groups, widths = [*groups, self.torsion], [*widths, 1]
        if self.d == 2 or self.moments > 1:
            groups, widths = [*groups, self.rolling], [*widths, self.d - 1]
        limits = np.column_stack(groups)
        if self.cone == "elliptic":
            return EllipticCones(np.repeat(limits, widths, axis=1), self.d - 1)
        return RollingCones(limits, tuple(widths))

    def rows(self, contacts: Any) -> Friction:
        """The friction of these contacts, as indices (n,)."""
        contacts = checks.positions("contacts", contacts, np.size(self.mu))
        return Friction(
            self.mu[contacts],
            None if self.B_t is None else self._rows_among(self.B_t, self.d - 1, contacts),
            self.rate[contacts],
            self.stiffness_ratio[contacts],
            None if self.tangents is None else self.tangents[contacts],
            self.torsion[contacts],
            self.rolling[contacts],
            None if self.B_r is None else self._rows_among(self.B_r, self.moments, contacts),
            self.cone,
            self.spin[contacts],
        )

    @staticmethod
    def _rows_among(B: sp.csr_array, many: int, contacts: IntArray) -> sp.csr_array:
        """The ``many`` rows of each of these contacts (n,)."""
        return sp.csr_array(B[(contacts[:, None] * many + np.arange(many)).ravel()])

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
    """Raise InvalidInput if tangents (nc, d − 1, d) are not orthogonal to the normals (nc, d)."""
    if tangents.shape[2] != normals.shape[1]:
        found = f"vectors of {tangents.shape[2]} numbers, normals of {normals.shape[1]}"
        raise InvalidInput("tangents", found, "the same dimension")
    _check_right_angles(tangents, normals, "the normal")


def _check_right_angles(tangents: FloatArray, others: FloatArray, name: str) -> None:
    """Raise InvalidInput if unit vectors (nc, m, d) are not orthogonal to others (nc, d)."""
    along = np.einsum("ikx,ix->ik", tangents, others)
    if (bad := np.argwhere(np.abs(along) > _UNIT)).size:
        i, k = bad[0].tolist()
        angle = np.degrees(np.arccos(np.clip(along[i, k], -1.0, 1.0)))
        found = f"a tangent {angle:.6g}° from {name} at contact {i}"
        raise InvalidInput("tangents", found, "vectors at right angles")
