"""What touches in a state: the contacts that frames of a trajectory record."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from cdopt._util.checks import FloatArray, IntArray
from cdopt._util.frozen import Frozen
from cdopt.collision.contacts import FEATURES
from cdopt.dynamics.spheres.forces import Seen
from cdopt.dynamics.spheres.links import Links
from cdopt.dynamics.spheres.model import Grains
from cdopt.scene import Scene


@dataclass(frozen=True, eq=False)
class Touch(Frozen):
    """Overlaps and bonds of a state; arrays are read-only.

    Attributes
    ----------
    contact_ids : (nc,) ascending, as in Contacts.
    phi : (nc,) gaps, m. normals : (nc, dim) from the first body to the second.
    points : (nc, dim) m.
    forces : (nc,) elastic forces w′(−Φ), of bonds k_B times the overlap, N.
    energy : stored in all of them, J.
    """

    contact_ids: IntArray
    phi: FloatArray
    normals: FloatArray
    points: FloatArray
    forces: FloatArray
    energy: float

    @property
    def nc(self) -> int:
        """Number of contacts."""
        return int(self.phi.size)


def touch(scene: Scene, g: Grains, x: FloatArray, pairs: Links, seen: Seen, live: int) -> Touch:
    """The links that act, as ``forces.look`` left them in ``seen``."""
    c, n, overlap = seen.link[:live], seen.n[:live], seen.overlap[:live]
    i, j = pairs.i[c], pairs.j[c]
    swap = i > j
    first, second = np.where(swap, j, i), np.where(swap, i, j)
    ids = (first * scene.nb + second) * FEATURES
    points = x[i] - n * (g.radius[i] - 0.5 * overlap)[:, None]
    normals = np.where(swap[:, None], n, -n) + 0.0
    share = np.where(pairs.bonded[c], 0.5, 1.0 / g.power)
    order = np.argsort(ids)
    return Touch(
        contact_ids=ids[order],
        phi=-overlap[order],
        normals=normals[order][:, : scene.dim],
        points=points[order][:, : scene.dim],
        forces=seen.force[:live][order],
        energy=float((share * seen.force[:live] * overlap).sum()),
    )
