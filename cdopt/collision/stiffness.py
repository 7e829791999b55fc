"""Stiffness, restitution and effective mass of contacts, from what their two bodies are."""

from __future__ import annotations

import numpy as np

from cdopt._util import checks
from cdopt._util.checks import FloatArray, IntArray
from cdopt.scene import Scene
from cdopt.scene.material import HERTZ
from cdopt.scene.pairs import is_among


def stiffness(scene: Scene, pairs: IntArray) -> FloatArray:
    """Stiffness k (nc,) of contacts between pairs (nc, 2) of bodies, N/m^(p−1).

    The two halves act in series, 1/s = 1/s_i + 1/s_j, where a rigid body is infinitely stiff.
    Hertz (p = 5/2) combines moduli and radii, k = (4/3) E* √R* with 1/E* = Σ (1−ν²)/E and
    1/R* = 1/R_i + 1/R_j, flat sides and corners without curvature; two of them count as R* = 1 m.
    Hooke, and every power but 5/2, takes s itself: E times a length of 1 m, or the materials'
    ``stiffness``. Contacts of two rigid bodies have stiffness 1. Compatible contact dynamics
    uses ratios alone. Bonds have the scene's ``bond_stiffness``, N/m.

    Notes
    -----
    Olsen & Kamrin (2018), section 8.2; for an E ratio of five the pairs are 1/5 : 1/3 : 1.
    """
    with np.errstate(divide="ignore"):
        series = 1.0 / (1.0 / scene.half_stiffness[pairs]).sum(axis=1)
    rigid = ~np.isfinite(series)
    if scene.power == HERTZ:
        curvature = scene.bodies.curvature[pairs].sum(axis=1)
        series *= 4.0 / 3.0 / np.sqrt(np.where(curvature > 0.0, curvature, 1.0))
    series[rigid] = 1.0
    if scene.bond_stiffness is not None:
        series[is_among(pairs, scene.bonds)] = scene.bond_stiffness
    return np.asarray(series)


def restitution(scene: Scene, pairs: IntArray) -> FloatArray:
    """Newton's e (nc,) of contacts between pairs (nc, 2) of bodies: the smaller of the two."""
    return np.asarray(scene.body_restitution[pairs].min(axis=1))


def effective_mass(scene: Scene, pairs: IntArray) -> FloatArray:
    """m_eff (nc,) of pairs (nc, 2) of bodies, 1/m_eff = 1/m_i + 1/m_j, kg.

    A fixed body counts as infinitely heavy, whatever mass it states; against one, m_eff is the
    mass of the other, and infinite for two.

    Raises
    ------
    InvalidInput : no pairs of numbers of bodies.

    Notes
    -----
    De Klerk et al. (2021), (20)–(25).
    """
    numbers = checks.integers("pairs", pairs, (None, 2), at_least=0, below=scene.nb)
    inverse = np.where(scene.bodies.fixed, 0.0, 1.0 / scene.bodies.mass)
    with np.errstate(divide="ignore"):
        return np.asarray(1.0 / inverse[numbers].sum(axis=1))
