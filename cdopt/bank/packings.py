"""Large families: disordered packings that carry their weight, and contacts of unequal stiffness.

For measurements at a chosen size. Units m = d = g = 1 of the mean sphere.
"""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp

from cdopt._util import checks
from cdopt._util.checks import FloatArray, IntArray
from cdopt._util.errors import InvalidInput
from cdopt._util.parameters import whole
from cdopt.bank.piles import DT
from cdopt.bank.settling import SOLID, Settled, settle
from cdopt.problem.contact_step import ContactStep

_NARROWEST = 4.0  # diameters: in a narrower cell a sphere could meet two images of another


def packing(
    n: int = 300, tiles: int = 1, layers: float = 6.0, spread: float = 0.2,
    stiffness_ratio: float = 1.0, seed: int = 0,
) -> ContactStep:  # fmt: skip
    """Spheres of several sizes at rest under gravity, disordered, on a rough floor.

    A cell of n spheres repeats in x and y; it was settled as soft spheres, and the pairs that
    then pressed each other are the contacts, all of them loaded by the settling's own forces. So
    the network carries its weight, with about 1.1 contacts for each degree of freedom. The
    step takes them as rigid and just touching. The whole is tiles × tiles such cells, repeated
    again beyond its sides. 1000 spheres, ten layers and six tiles make 120,000 contacts.

    Degrees of freedom: the three translations of each free sphere, tile by tile. Body −1 is the
    floor's plane; a third of it is covered with fixed spheres. ``points`` of contacts across a
    side of the whole lie at the first sphere.

    Parameters
    ----------
    n : spheres in a cell. tiles : cells along x and along y.
    layers : depth, in diameters, about.
    spread : radii are drawn evenly from 1/2 × (1 ± spread).
    stiffness_ratio : as for ``uneven``. With equal stiffness all tiles carry the same forces.
    seed : of the random numbers. The packing depends on NumPy's and the machine's arithmetic.

    Raises
    ------
    InvalidInput : n is not an integer from 50 to 100,000, tiles not one from 1 to 100, a cell
        narrower than four diameters, or a number out of range.
    CdoptError : the spheres did not come to rest.
    """
    count, along = whole("n", n, 50, 100_000), whole("tiles", tiles, 1, 100)
    depth = checks.scalar("layers", layers, at_least=2.0)
    share = checks.scalar("spread", spread, at_least=0.0, at_most=0.5)
    most = np.pi / 6.0 * count / (SOLID * _NARROWEST**2)
    if depth > most:
        raise InvalidInput("layers", f"{depth:g}", f"at most {most:.3g} with {count} spheres")
    cell = settle(count, depth, share, np.random.default_rng(whole("seed", seed, 0, 2**32 - 1)))
    return uneven(_tiled(cell, along), stiffness_ratio, seed)


def uneven(step: ContactStep, ratio: float = 1e6, seed: int = 0) -> ContactStep:
    """The same step with stiffness drawn at random, log-uniform, the most over the least ``ratio``.

    ``seed`` is of the draw.

    Raises
    ------
    InvalidInput : the ratio is below one.
    """
    most = checks.scalar("stiffness_ratio", ratio, at_least=1.0)
    if most == 1.0:
        return step
    random = np.random.default_rng(whole("seed", seed, 0, 2**32 - 1))
    return step.replace(stiffness=most ** random.uniform(-0.5, 0.5, step.nc))


def _tiled(cell: Settled, along: int) -> ContactStep:
    """tiles × tiles copies of a cell as a contact step."""
    n = cell.radii.size
    tile = np.stack(np.divmod(np.arange(along**2), along), axis=-1)
    beyond = (tile[:, None, :] + cell.shift[None, :, :]) % along
    first = n * np.arange(along**2)[:, None] + cell.pairs[None, :, 0]
    second = n * (along * beyond[..., 0] + beyond[..., 1]) + cell.pairs[None, :, 1]
    standing = (n * np.arange(along**2)[:, None] + cell.standing[None, :]).ravel()
    bodies = np.concatenate([
        np.column_stack([first.ravel(), second.ravel()]),
        np.column_stack([np.full(standing.size, -1), standing]),
    ])  # fmt: skip
    up = np.tile([0.0, 0.0, 1.0], (standing.size, 1))
    normals = np.concatenate([np.tile(cell.normals, (along**2, 1)), up])
    centres = np.tile(cell.centres, (along**2, 1))
    centres[:, :2] += cell.side * np.repeat(tile, n, axis=0)
    radii = np.tile(cell.radii, along**2)
    i = bodies[: first.size, 0]
    points = np.concatenate([
        centres[i] + radii[i][:, None] * normals[: i.size],
        centres[standing] * [1.0, 1.0, 0.0],
    ])  # fmt: skip
    free = np.flatnonzero(~np.tile(cell.fixed, along**2))
    weight = (2.0 * radii[free]) ** 3
    load = np.zeros((free.size, 3))
    load[:, 2] = -weight
    return ContactStep(
        M=sp.diags_array(np.repeat(weight, 3), format="csr"),
        B=_gap_gradient(bodies, normals, free),
        phi=np.zeros(bodies.shape[0]),
        v=np.zeros(3 * free.size),
        F_ext=load.ravel(),
        dt=DT,
        bodies=bodies,
        normals=normals,
        points=points,
        dof_body=np.repeat(free, 3),
    )


def _gap_gradient(bodies: IntArray, normals: FloatArray, free: IntArray) -> sp.csr_array:
    """B (nc, 3 · free): −nᵀ at the first sphere and nᵀ at the second, where they can move."""
    number = np.full(int(bodies.max()) + 2, -1)
    number[free] = np.arange(free.size)  # the last entry stands for the floor, body −1
    rows, cols, data = [], [], []
    for column, sign in ((0, -1.0), (1, 1.0)):
        place = number[bodies[:, column]]
        here = np.flatnonzero(place >= 0)
        rows.append(np.repeat(here, 3))
        cols.append((3 * place[here][:, None] + np.arange(3)).ravel())
        data.append(sign * normals[here].ravel())
    entries = (np.concatenate(data), (np.concatenate(rows), np.concatenate(cols)))
    return sp.coo_array(entries, shape=(bodies.shape[0], 3 * free.size)).tocsr()
