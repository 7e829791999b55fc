"""B = ∂Φ/∂q on the scene's degrees of freedom: dΦ/dt = B v.

A contact with normal n from body i to body j opens at n · (u_j − u_i), where u is the velocity
of each body's point of contact: n on the translation of body j and r × n on its turn, r from
its centre to the point; the opposite on body i.
"""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp

from cdopt.contact.contacts import Contacts
from cdopt.contact.wrenches import wrench
from cdopt.scene import Scene, State


def gap_gradient(scene: Scene, state: State, contacts: Contacts) -> sp.csr_array:
    """B (nc, nv) sparse, of contacts found in this state; ``B @ v`` is the rate of the gaps, m/s.

    The prescribed motion of fixed bodies is in ``contacts.gap_rate``.
    Olsen & Kamrin (2018), section 3.
    """
    dofs = scene.dofs
    number, data = [], []
    for side, sign in ((0, -1.0), (1, 1.0)):
        body = contacts.bodies[:, side]
        number.append(dofs.number[body])
        data.append(sign * wrench(state, body, contacts.normals, contacts.points))
    cols, entries = np.hstack(number), np.hstack(data)
    used = cols >= 0
    indptr = np.append(0, np.cumsum(np.count_nonzero(used, axis=1)))
    shape = (contacts.nc, dofs.nv)
    return sp.csr_array((entries[used], cols[used], indptr), shape=shape)
