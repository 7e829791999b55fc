"""Contacts in colours: those of one colour share no body, so that their visits can go side by side.

Greedy: contact after contact, each takes the first colour that none of its bodies has met. The
colours depend on the contacts' order alone. After ``COLOURS`` colours what is left over, the
contacts of bodies with very many, is visited one by one.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from cdopt._util.checks import IntArray
from cdopt.backends.coloured_kernels import greedy
from cdopt.backends.kernels import Places, Rows


@dataclass(frozen=True, eq=False)
class Colouring:
    """An order of contacts in which those of one colour stand together.

    Attributes
    ----------
    order : (nc,) a permutation: colour after colour, then the contacts left over; within each
        as they were given.
    edges : (colours + 1,) where each colour begins in ``order``, and where the last one ends.
    """

    order: IntArray
    edges: Places

    @property
    def count(self) -> int:
        """Number of colours."""
        return self.edges.size - 1


def coloured(rows: Rows, spread: Rows, block: NDArray[np.integer]) -> Colouring:
    """Colours of the contacts of R Sᵀ.

    Parameters
    ----------
    rows, spread : R and S (nc, m): a visit reads y where R has entries and writes it where S
        has.
    block : (m,) the body that each entry of y belongs to.
    """
    colour = np.empty(rows[0].size - 1, dtype=np.int64)
    _, names = np.unique(block, return_inverse=True)
    count = greedy(rows, spread, names.astype(np.uint32), colour)
    order = np.argsort(colour, kind="stable")
    edges = np.searchsorted(colour[order], np.arange(count + 1))
    return Colouring(order, edges.astype(np.uint32))
