"""Face contacts: several points between two bodies, some of which add nothing new."""

from __future__ import annotations

import numpy as np
from scipy.linalg import qr

from cdopt._util.checks import BoolArray, FloatArray, IntArray

_RANK = 1e-6  # relative: points of one face differ in direction by less


def redundant_points(bodies: IntArray, normals: FloatArray, points: FloatArray) -> BoolArray:
    """Contacts (nc,) whose wrench is a combination of those of their pair's other contacts.

    Of each pair as many points as its wrenches have rank are kept, chosen by pivoted QR; the
    others are redundant. Levers are taken about the middle of the pair's points, in units of
    their spread.

    Parameters
    ----------
    bodies : (nc, 2). normals : (nc, dim). points : (nc, dim) m.
    """
    flags = np.zeros(len(bodies), dtype=bool)
    _, first, count = np.unique(bodies, axis=0, return_index=True, return_counts=True)
    for start, many in zip(first[count > 1], count[count > 1], strict=True):
        own = slice(start, start + many)  # contacts of a pair follow each other
        arm = points[own] - points[own].mean(axis=0)
        arm /= np.abs(arm).max() or 1.0
        n = normals[own]
        if n.shape[1] == 2:
            turn = (arm[:, 0] * n[:, 1] - arm[:, 1] * n[:, 0])[:, None]
        else:
            turn = np.cross(arm, n)
        wrenches = np.hstack([n, turn])
        _, R, order = qr(wrenches.T, mode="economic", pivoting=True)
        size = np.abs(np.diag(R))
        rank = int(np.count_nonzero(size > _RANK * size[0]))
        flags[start + order[rank:]] = True
    return flags
