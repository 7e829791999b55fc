"""Piles of equal spheres and discs: hyperstatic crystals under their own weight."""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp
from scipy.spatial import cKDTree

from cdopt._util import checks
from cdopt._util.checks import BoolArray, FloatArray, IntArray
from cdopt._util.parameters import whole
from cdopt.problem.contact_step import ContactStep
from cdopt.scene.generators.paper import MATERIALS, pyramid_positions

DT = 1e-3  # in units of √(d/g), where m = d = g = 1
_TOUCHING = 1.0 + 1e-6  # centres within this many diameters of each other touch


def touching(centres: FloatArray) -> IntArray:
    """Pairs (nc, 2), i < j in lexicographic order, of spheres or discs of diameter 1 that touch.

    ``centres`` (n, 2) or (n, 3) are in diameters.
    """
    centres = checks.table("centres", centres, len(np.atleast_1d(centres)))
    pairs = cKDTree(centres).query_pairs(_TOUCHING, output_type="ndarray").astype(np.int64)
    pairs.sort(axis=1)
    return pairs[np.lexsort((pairs[:, 1], pairs[:, 0]))]


def pyramid(n: int = 5, material: str = "uniform", modulus_ratio: float = 5.0) -> ContactStep:
    """A cannonball pyramid at rest: n layers of spheres that exactly touch, base layer fixed.

    Units m = d = g = 1 (mass, diameter, gravity). Degrees of freedom: the three translations of
    each free sphere, in order. Contacts in lexicographic order of their spheres, those within
    layers included, those between base spheres left out.

    Parameters
    ----------
    n : spheres along a side of the base.
    material : "uniform"; or "species", spheres of even number (from 0) soft and of odd number
        ``modulus_ratio`` times as stiff, in series at each contact: E_i E_j / (E_i + E_j),
        for a ratio of five 1/5 : 1/3 : 1, of which the last is stiffness one.
    modulus_ratio : only used by "species".

    Raises
    ------
    InvalidInput : n is not an integer from 2 to 150, an unknown material, or a ratio that is
        not positive.

    Notes
    -----
    Olsen & Kamrin (2018), section 8.2.
    """
    checks.choice("material", material, MATERIALS)
    ratio = checks.scalar("modulus_ratio", modulus_ratio, above=0.0)
    centres, layers = pyramid_positions(whole("n", n, 2, 150))
    fixed = layers == 0
    pairs = touching(centres)
    pairs = pairs[~fixed[pairs].all(axis=1)]
    stiffness = np.ones(pairs.shape[0])
    if material == "species":
        modulus = np.where(np.arange(centres.shape[0]) % 2 == 0, 1.0, ratio)[pairs]
        stiffness = modulus.prod(axis=1) / modulus.sum(axis=1) / (ratio / 2.0)
    return _pile(centres, fixed, pairs, stiffness)


def pyramid_falling(n: int = 5, opened: float = 0.3, seed: int = 1805) -> ContactStep:
    """A pyramid in mid-fall: not at rest, and with some of its gaps open.

    A share ``opened`` of the contacts gets gaps drawn evenly from 0 to 0.3 of the fall of one
    step, g Δt²; the spheres move down at 0.25 to 0.75 of the speed that gravity gives them in
    one step, g Δt, and sideways at up to a tenth of it. The gaps are drawn one by one and fit no
    single arrangement of spheres; the step is as sound for it. ``seed`` is of the draw. Units
    m = d = g = 1. The bank holds the step that this gave once, with its defaults, so that it does
    not depend on the random numbers of another NumPy.

    Raises
    ------
    InvalidInput : n is not an integer from 2 to 150, or opened is not in [0, 1].
    """
    share = checks.scalar("opened", opened, at_least=0.0, at_most=1.0)
    settled = pyramid(n)
    random = np.random.default_rng(whole("seed", seed, 0, 2**32 - 1))
    phi = np.zeros(settled.nc)
    chosen = random.permutation(settled.nc)[: round(share * settled.nc)]
    phi[chosen] = random.uniform(0.0, 0.3 * DT**2, chosen.size)
    free = settled.nv // 3 if settled.nv is not None else 0
    sideways = random.uniform(-0.1 * DT, 0.1 * DT, (free, 2))
    down = random.uniform(-0.75 * DT, -0.25 * DT, free)
    return settled.replace(phi=phi, v=np.column_stack([sideways, down]).ravel())


def crystal_2d(rows: int = 8, columns: int = 10) -> ContactStep:
    """A hexagonal crystal of discs at rest on a floor, between two side walls, in the plane.

    Rows of ``columns`` discs, which reach both walls, alternate with rows of one disc less.
    Units m = d = g = 1. Degrees of freedom: the two translations of each disc, in order; discs
    are numbered by row, then x. Contacts between discs first, then floor, left and right wall.
    Source: cdopt.

    Raises
    ------
    InvalidInput : rows is not an integer from 1 to 1000, or columns not one from 2 to 1000.
    """
    height, width = whole("rows", rows, 1, 1000), whole("columns", columns, 2, 1000)
    centres = np.concatenate([
        np.column_stack([
            0.5 * (1 + j % 2) + np.arange(width - j % 2),
            np.full(width - j % 2, 0.5 + j * np.sqrt(0.75)),
        ])
        for j in range(height)
    ])  # fmt: skip
    fixed = np.zeros(centres.shape[0], dtype=bool)
    sides = (
        (np.flatnonzero(centres[:, 1] == 0.5), (0.0, 1.0)),
        (np.flatnonzero(centres[:, 0] == 0.5), (1.0, 0.0)),
        (np.flatnonzero(centres[:, 0] == width - 0.5), (-1.0, 0.0)),
    )
    walls = np.concatenate([np.column_stack([np.full(who.size, -1), who]) for who, _ in sides])
    inward = np.concatenate([np.tile(normal, (who.size, 1)) for who, normal in sides])
    return _pile(centres, fixed, touching(centres), None, walls, inward)


def _pile(
    centres: FloatArray,
    fixed: BoolArray,
    pairs: IntArray,
    stiffness: FloatArray | None,
    walls: IntArray | None = None,
    inward: FloatArray | None = None,
) -> ContactStep:
    """Bodies of diameter, mass and weight one at rest, touching in pairs and at walls.

    Parameters
    ----------
    centres : (nb, 2 or 3). fixed : (nb,) bodies without degrees of freedom.
    pairs : (n1, 2) touching bodies. stiffness : (n1 + n2,), or None for ones.
    walls : (n2, 2) pairs of −1 and a body. inward : (n2, 2 or 3) the walls' normals.
    """
    dim = centres.shape[1]
    arm = centres[pairs[:, 1]] - centres[pairs[:, 0]]
    normals = arm / np.linalg.norm(arm, axis=1)[:, None]
    points = 0.5 * (centres[pairs[:, 0]] + centres[pairs[:, 1]])
    if walls is not None and inward is not None:
        pairs = np.concatenate([pairs, walls])
        normals = np.concatenate([normals, inward])
        points = np.concatenate([points, centres[walls[:, 1]] - 0.5 * inward])
    number = np.where(fixed, -1, np.cumsum(~fixed) - 1)
    free = int(np.count_nonzero(~fixed))
    load = np.zeros((free, dim))
    load[:, -1] = -1.0
    nc = pairs.shape[0]
    return ContactStep(
        M=sp.eye_array(dim * free),
        B=_gap_gradient(pairs, normals, np.append(number, -1), free),
        phi=np.zeros(nc),
        v=np.zeros(dim * free),
        F_ext=load.ravel(),
        dt=DT,
        stiffness=1.0 if stiffness is None else stiffness,
        bodies=pairs,
        normals=normals,
        points=points,
        dof_body=np.repeat(np.flatnonzero(~fixed), dim),
    )


def _gap_gradient(
    pairs: IntArray, normals: FloatArray, number: IntArray, free: int
) -> sp.csr_array:
    """B (nc, dim · free): −nᵀ at the first body and nᵀ at the second, where they can move.

    ``number`` (bodies + 1,) is each body's place among the free ones, −1 for none; its last
    entry stands for the fixed world.
    """
    nc, dim = normals.shape
    rows, cols, data = [], [], []
    for column, sign in ((0, -1.0), (1, 1.0)):
        place = number[pairs[:, column]]
        here = np.flatnonzero(place >= 0)
        rows.append(np.repeat(here, dim))
        cols.append((dim * place[here][:, None] + np.arange(dim)).ravel())
        data.append(sign * normals[here].ravel())
    entries = (np.concatenate(data), (np.concatenate(rows), np.concatenate(cols)))
    return sp.coo_array(entries, shape=(nc, dim * free)).tocsr()
