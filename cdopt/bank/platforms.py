"""Rigid platforms on fixed supports: beams, tables, and the troubles one can have with them."""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp

from cdopt._util import checks
from cdopt._util.checks import FloatArray
from cdopt._util.parameters import whole
from cdopt.problem.contact_step import ContactStep, DelassusStep

GRAVITY = 9.81  # m/s²
DT = 1e-3  # s
WEIGHT = 10.0  # N
_BEAM_NAMES = ("left", "middle", "right")


def beam_on(
    x: object,
    stiffness: object = 1.0,
    gaps: object = 0.0,
    contact_ids: object = None,
    length: float = 1.0,
) -> ContactStep:
    """A rigid platform of 10 N at rest on fixed supports at x (nc,) in m, from its middle.

    Degrees of freedom: height (m) and turn (rad) about the middle. The mass is 10 N / g with
    g = 9.81 m/s², the moment of inertia that of a thin rod of ``length`` m, dt = 1 ms.
    ``stiffness`` is relative and ``gaps`` in m, each one number or (nc,); ``contact_ids`` (nc,)
    names the supports.
    Source: Olsen & Kamrin (2018), section 8.1, without the drop that leads to rest.

    Raises
    ------
    InvalidInput : a bad argument.
    """
    place = checks.vector("x", x, None, "m")
    length = checks.scalar("length", length, above=0.0)
    nc = place.size
    mass = WEIGHT / GRAVITY
    return ContactStep(
        M=np.diag([mass, mass * length**2 / 12.0]),
        B=np.column_stack([np.ones(nc), place]),
        phi=checks.per_contact("gaps", gaps, nc),
        v=np.zeros(2),
        F_ext=[-WEIGHT, 0.0],
        dt=DT,
        stiffness=stiffness,
        bodies=np.tile([-1, 0], (nc, 1)),
        normals=np.tile([0.0, 1.0], (nc, 1)),
        points=np.column_stack([place, np.zeros(nc)]),
        contact_ids=contact_ids,
        dof_body=[0, 0],
    )


def beam(middle_stiffness: float = 1.0, middle_gap: float = 0.0) -> ContactStep:
    """The paper's beam: three supports at the ends and in the middle of a platform of 1 m.

    ``middle_stiffness`` is relative to the others, ``middle_gap`` is in m. nullity 1. Touching
    and with Hooke contacts the supports carry (1, k, 1) 10 N / (2 + k).
    Source: Olsen & Kamrin (2018), section 8.1.

    Raises
    ------
    InvalidInput : the stiffness is not positive, or the gap negative.
    """
    k = checks.scalar("middle_stiffness", middle_stiffness, above=0.0)
    gap = checks.scalar("middle_gap", middle_gap, at_least=0.0)
    return beam_on([-0.5, 0.0, 0.5], [1.0, k, 1.0], [0.0, gap, 0.0], _BEAM_NAMES)


def duplicated_contacts(copies: int = 2) -> ContactStep:
    """The uniform beam with each contact listed ``copies`` times, as collision code may do.

    Each copy counts as a strut of its own: 10 N / (3 copies) each. nullity 3 copies − 2.

    Raises
    ------
    InvalidInput : copies is not an integer from 1 to 1000.
    """
    count = whole("copies", copies, 1, 1000)
    ids = [f"{name} {i}" for name in _BEAM_NAMES for i in range(count)]
    return beam_on(np.repeat([-0.5, 0.0, 0.5], count), contact_ids=ids)


def supports(n: int = 5) -> ContactStep:
    """A platform of 1 m and 10 N on n evenly spaced supports of equal stiffness.

    nullity n − 2. By symmetry the platform sinks without turning, so that every support carries
    10 N / n, whatever the power of the contact law.

    Raises
    ------
    InvalidInput : n is not an integer from 2 to 10,000.
    """
    x = np.linspace(-0.5, 0.5, whole("n", n, 2, 10_000))
    return beam_on(0.5 * (x - x[::-1]))


def supports_delassus(n: int = 5) -> DelassusStep:
    """``supports`` known only by its Delassus matrix N (n, n), m/(s·N), and p (n,), m/s.

    N has rank 2, so that the program (22) is bound-constrained with a singular Hessian.

    Raises
    ------
    InvalidInput : n is not an integer from 2 to 3000.
    """
    known = supports(whole("n", n, 2, 3000))
    return DelassusStep(
        known.N,
        known.p_vec,
        known.dt,
        bodies=known.bodies,
        normals=known.normals,
        points=known.points,
    )


def table(mass: float = WEIGHT / GRAVITY) -> ContactStep:
    """A square table top of 1 m at rest on four legs at its corners, loaded in the middle.

    ``mass`` in kg. Degrees of freedom: height (m), turns about x and y (rad). nullity 1: the
    force that presses along one diagonal and lifts along the other does nothing.

    Raises
    ------
    InvalidInput : the mass is not positive.
    """
    corners = np.array([[-0.5, -0.5], [0.5, -0.5], [0.5, 0.5], [-0.5, 0.5]])
    return _tables(corners, np.array([checks.scalar("mass", mass, above=0.0)]))


def tripod() -> ContactStep:
    """A square top of 1 m and 10 N on three legs: nullity 0, every force is determined."""
    angle = np.pi / 2 + np.array([0.0, 1.0, 2.0]) * (2.0 * np.pi / 3.0)
    return _tables(
        0.5 * np.column_stack([np.cos(angle), np.sin(angle)]), np.array([WEIGHT / GRAVITY])
    )


def ten_orders(lightest: float = 1e-5, heaviest: float = 1e5, count: int = 11) -> ContactStep:
    """Independent four-legged tables whose masses (kg) span ten orders of magnitude.

    They go from ``lightest`` to ``heaviest``, by equal ratios. Table k carries m_k g / 4 on each
    leg. A solver that measures its errors against the largest force sees nothing of the light
    tables.

    Raises
    ------
    InvalidInput : masses not positive, or count not an integer from 1 to 1000.
    """
    low = checks.scalar("lightest", lightest, above=0.0)
    high = checks.scalar("heaviest", heaviest, above=0.0)
    corners = np.array([[-0.5, -0.5], [0.5, -0.5], [0.5, 0.5], [-0.5, 0.5]])
    return _tables(corners, np.geomspace(low, high, whole("count", count, 1, 1000)))


def _tables(legs: FloatArray, masses: FloatArray) -> ContactStep:
    """One table per mass, side by side, each with feet at ``legs`` (nl, 2) from its middle, m."""
    count, nl = masses.size, legs.shape[0]
    inertia = 1.0 / 12.0  # of a square plate of 1 m about an axis in its plane, per kg
    one = np.column_stack([np.ones(nl), legs[:, 1], -legs[:, 0]])
    middles = np.column_stack([1.5 * np.arange(count), np.zeros(count)])
    feet = (middles[:, None, :] + legs[None, :, :]).reshape(-1, 2)
    body = np.repeat(np.arange(count), nl)
    load = np.zeros((count, 3))
    load[:, 0] = -masses * GRAVITY
    return ContactStep(
        M=sp.diags_array((masses[:, None] * [1.0, inertia, inertia]).ravel()),
        B=sp.kron(sp.eye_array(count), one),
        phi=np.zeros(count * nl),
        v=np.zeros(3 * count),
        F_ext=load.ravel(),
        dt=DT,
        bodies=np.column_stack([np.full(body.size, -1), body]),
        normals=np.tile([0.0, 0.0, 1.0], (body.size, 1)),
        points=np.column_stack([feet, np.zeros(body.size)]),
        dof_body=np.repeat(np.arange(count), 3),
    )
