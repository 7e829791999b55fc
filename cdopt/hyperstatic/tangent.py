"""The tangent of a contact network at its compatible forces.

The forces are f = Π(t − D B u) with Bᵀf = F̃. Let S = ∂Π/∂y, and let e be the change of f at fixed
u, which each parameter causes contact by contact. Then

    df = e − S D B du,    K du = Bᵀe − dF̃,    K = Bᵀ S D B.

This is implicit differentiation of the optimality conditions, once for all parameters: what differs
between them is e.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping

import numpy as np
import scipy.sparse as sp

from cdopt._util.checks import BoolArray, FloatArray, IntArray
from cdopt._util.errors import Unsupported

LEFT = 1e-7  # share of a load above which the contacts do not bear it
ZERO = 1e-11  # singular values below this share of the largest are zero
LARGEST = 3000  # contacts or dofs, for dense algebra


class Tangent(ABC):
    """df of changes e of forces at fixed motion and of loads, and its adjoint.

    Rows are the d components of each contact's force, in turn, and then joints of finite stiffness,
    of one row each: these count as contacts.
    """

    # nc, d, nv: numbers of contacts, of components, and of degrees of freedom
    nc: int
    d: int
    nv: int
    joints: int = 0  # how many of the contacts are joints, the last ones
    forces: FloatArray  # (rows,) N
    stiffness: FloatArray  # (nc,) as it was given; one at open contacts
    loaded: BoolArray  # (nc,) contacts that carry force
    # e (rows,) N of a change of each contact's own parameter, by name
    parameters: Mapping[str, FloatArray]
    # e (rows,) N of a change of the power of all contacts; None where there is none but 2
    power: FloatArray | None
    # why there is no derivative with respect to a parameter or "load", by name
    refused: dict[str, str]
    why: str  # what kinks are, as text
    instead: tuple[str, ...]  # what there is at kinks

    @property
    def contact(self) -> IntArray:
        """(rows,) the contact of each row."""
        n = self.nc - self.joints
        return np.append(np.arange(n).repeat(self.d), np.arange(n, self.nc))

    @property
    @abstractmethod
    def kinks(self) -> IntArray:
        """Contacts at which derivatives depend on the direction, if ``smooth`` is not True."""

    @property
    def smooth(self) -> bool:
        """Whether derivatives are the same from both sides."""
        return self.kinks.size == 0

    def require_smooth(self) -> None:
        """Refuse derivatives that depend on the direction."""
        if not self.smooth:
            names = ", ".join(map(str, self.kinks[:8].tolist()))
            raise Unsupported("the derivative", f"contacts {names} {self.why}", self.instead)

    def require(self, name: str) -> None:
        """Refuse a parameter, or "load", where it has no derivative."""
        if name in self.refused:
            raise Unsupported(f"the derivative by {name}", self.refused[name])

    @property
    @abstractmethod
    def label(self) -> str:
        """The kind of the forces, as text."""

    @property
    @abstractmethod
    def springs(self) -> sp.csr_array:
        """S D (rows, rows), N per unit of B u: by how much forces fall with it."""

    @abstractmethod
    def jvp(self, e: FloatArray, load: FloatArray | None = None) -> FloatArray:
        """df (rows, …) N of changes e (rows, …) and of loads dF̃ (nv, …)."""

    @abstractmethod
    def vjp(self, weights: FloatArray) -> tuple[FloatArray, FloatArray]:
        """The adjoint: derivatives of weightsᵀf by e (rows, …) and by F̃ (nv, …)."""

    @abstractmethod
    def along(self, e: FloatArray, load: FloatArray | None) -> FloatArray:
        """df (rows,) for a small step along e and dF̃ (nv,), which the contacts must bear."""
