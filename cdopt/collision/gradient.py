"""B = ∂Φ/∂q: dΦ/dt = B v.

A contact with normal n from body i to body j opens at n · (u_j − u_i), where u is the velocity
of each body's point of contact: n on the translation of body j and r × n on its turn, r from
its centre to the point; the opposite on body i.
"""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp

from cdopt._util.checks import FloatArray, IntArray
from cdopt.collision.contacts import Contacts
from cdopt.collision.wrenches import wrench
from cdopt.scene import SHAPES, Dofs, Scene, State


def gap_gradient(
    scene: Scene, state: State, contacts: Contacts, dofs: Dofs | None = None
) -> sp.csr_array:
    """B (nc, nv) sparse, of contacts found in this state; ``B @ v`` is the rate of the gaps, m/s.

    The prescribed motion of fixed bodies is in ``contacts.gap_rate``. No gap depends on the turn
    of a sphere: on ``scene.full_dofs`` those columns have no entries.

    Parameters
    ----------
    dofs : the degrees of freedom, by default ``scene.dofs``.

    Raises
    ------
    InvalidInput : a state, contacts or degrees of freedom of another scene.

    Notes
    -----
    Olsen & Kamrin (2018), section 3.
    """
    scene.check_state(state)
    contacts.check_scene(scene)
    chosen = scene.check_dofs(scene.dofs if dofs is None else dofs)
    number = without_idle_turns(scene, chosen.number)
    rows = approach_rows(state, contacts.bodies, contacts.normals, contacts.points, number)
    return sp.csr_array(rows, shape=(contacts.nc, chosen.nv))


def without_idle_turns(scene: Scene, number: IntArray) -> IntArray:
    """Numbers of degrees of freedom, as in ``Dofs``, −1 at turns that change no gap: of spheres."""
    turns = np.array([shape.turns for shape in SHAPES])[scene.bodies.kind]
    idle = ~turns[:, None] & (np.arange(number.shape[1]) >= scene.dim)
    return np.where(idle, -1, number)


def approach_rows(
    state: State, pairs: IntArray, directions: FloatArray, points: FloatArray, number: IntArray
) -> tuple[FloatArray, IntArray, IntArray]:
    """Rows that take velocities to direction · (u_j − u_i), u the velocities at points.

    Parameters
    ----------
    pairs : (n, 2) bodies i, j. directions : (n, dim). points : (n, dim) m.
    number : the column of each entry of State.v, −1 for none, as in ``Dofs``; columns that
        ascend from i to j.

    Returns
    -------
    data, indices and indptr of a CSR matrix with n rows.
    """
    cols, data = [], []
    for side, sign in ((0, -1.0), (1, 1.0)):
        body = pairs[:, side]
        cols.append(number[body])
        data.append(sign * wrench(state, body, directions, points))
    columns, entries = np.hstack(cols), np.hstack(data)
    used = columns >= 0
    indptr = np.append(0, np.cumsum(np.count_nonzero(used, axis=1)))
    return entries[used], columns[used], indptr
