"""The share of its friction that a contact mobilises, over the admissible forces.

‖f_T‖/(μ f_n) is linear-fractional: over forces in units of f_n, and their own multiple of the load,
it is linear (A. Charnes & W. W. Cooper, Naval Research Logistics Quarterly 9, 1962).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import scipy.sparse as sp

from cdopt._util.checks import FloatArray
from cdopt._util.cone_program import ConeProgram
from cdopt._util.errors import SolveFailed
from cdopt.hyperstatic.free_network import FreeNetwork

_ACCURACY = 1e-11
_ALL = 1e-4  # below one: a share this near is attained


def mobilised(
    networks: Sequence[FreeNetwork], determined: FloatArray, contact: int, d: int, mu: float
) -> tuple[float, float]:
    """Least and largest ‖f_T‖/(μ f_n) of a contact; in the plane f_t/(μ f_n) in [−1, 1]."""
    own = np.arange(contact * d, contact * d + d)
    fixed = determined[own]
    used = [n for n in networks if sp.csr_array(n.G[own]).nnz]
    if not used:
        share = fixed[1] if d == 2 else float(np.linalg.norm(fixed[1:]))
        return (share / (mu * fixed[0]),) * 2
    columns = sp.hstack([sp.csr_array(n.G[own]) * n.unit[None, :] for n in used]).toarray()
    unit = float(np.abs(columns[0]).max())
    forces = np.column_stack([columns, fixed]) / unit  # of x and the multiple of the load
    forces[1:] /= mu
    balance = sp.block_diag([n.B.T for n in used])
    load = np.concatenate([n.load for n in used])
    sizes = np.concatenate([n.sizes for n in used])
    n = columns.shape[1] + 2  # x, the multiple, and t from ‖x_T‖ to 1
    rows = sp.hstack([balance, -load[:, None], sp.csr_array((load.size, 1))])
    equal = sp.vstack([rows, np.append(forces[0], 0.0)[None, :]])
    friction = sp.csr_array(np.column_stack([forces[1:], np.zeros(d - 1)]))
    unity = sp.eye_array(n, format="csr")
    cones = sp.vstack([unity[: n - 2], unity[[n - 2]], -unity[[n - 1]], unity[[n - 1]], friction])
    shift = np.eye(n + d)[n - 1]  # 1 − t
    kinds = [*sizes, 1, 1, d]
    right = np.append(0.0 * load, 1.0)
    program = ConeProgram(np.zeros(n), equal, right, cones, shift, kinds, accuracy=_ACCURACY)

    def most(*direction: float) -> float:
        """max direction · (t, f_T/μ)."""
        cost = -(direction[0] * np.eye(n)[n - 1] + np.array(direction[1:]) @ friction)
        answer = program.solve(cost)
        if not answer.useful:
            message = f"mobilised friction of contact {contact}: {answer.status}"
            raise SolveFailed(message, backend="clarabel", status=answer.status)
        return -float(cost @ answer.x)

    if d == 2:
        return max(-most(0.0, -1.0), -1.0), min(most(0.0, 1.0), 1.0)
    angles = (np.arange(8) * np.pi / 4.0).tolist()
    largest = max(most(0.0, np.cos(angle), np.sin(angle)) for angle in angles)
    largest = 1.0 if largest >= 1.0 - _ALL else min(largest / np.cos(np.pi / 8.0), 1.0)
    return max(-most(-1.0, 0.0, 0.0), 0.0), largest
