"""Warm starts: forces, and the motion of a truss, by the names of the contacts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cdopt._util.checks import FloatArray
from cdopt._util.errors import InvalidInput
from cdopt._util.frozen import Frozen


@dataclass(frozen=True, eq=False)
class WarmStart(Frozen):
    """The part of an earlier solution that a solver can start from.

    Attributes
    ----------
    forces : f (nc,), N.
    motion : displacement u (nv,) of a truss, m, or None. Steps start from the motion that the
        forces cause.
    contact_ids : (nc,) names of the contacts, or None.
    """

    forces: FloatArray
    motion: FloatArray | None = None
    contact_ids: NDArray[Any] | None = None

    def forces_on(self, contact_ids: NDArray[Any] | None, nc: int) -> FloatArray:
        """Forces (nc,) on other contacts, matched by their names; zero on new contacts.

        Without names on both sides, order decides.

        Raises
        ------
        InvalidInput : no names on both sides and the counts differ.
        """
        if self.contact_ids is None or contact_ids is None:
            count = self.forces.size
            if count != nc:
                expected = f"{nc:,}, or contact_ids of both steps"
                raise InvalidInput("warm_start", f"{count:,} forces without contact_ids", expected)
            return np.array(self.forces)
        forces = np.zeros(nc)
        kinds = {self.contact_ids.dtype.kind, contact_ids.dtype.kind}
        if len(kinds) == 1 or kinds <= {"i", "u"}:  # a number is no text
            _, here, there = np.intersect1d(contact_ids, self.contact_ids, return_indices=True)
            forces[here] = self.forces[there]
        return forces


def row_ids(contact_ids: NDArray[Any] | None, d: int) -> NDArray[Any] | None:
    """Names of the rows from those of the contacts."""
    if contact_ids is None:
        return None
    if contact_ids.dtype.kind in "iu":
        return np.asarray((contact_ids[:, None] * d + np.arange(d)).ravel())
    return np.array([f"{name}:{k}" for name in contact_ids.tolist() for k in range(d)])
