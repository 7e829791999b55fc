"""Networks whose contacts have copies of their normal force, tied to each other.

Of each contact several cones share the normal force f_n. In copies y of it, one for each cone, the
forces are E y, their mean, and T y = 0 ties them. The multipliers λ of the ties are dofs without
inertia:

    F̃ + S w = Gᵀ E y,    0 = T y,    rates of the copies  Eᵀ (G w + p) + Tᵀ λ

Systems of this network have the size of those without copies: with H = Lᵀ R of one contact λ is
eliminated, which leaves E (H − H Tᵀ (T H Tᵀ)⁻¹ T H) Eᵀ, a product of projected L and R.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from cdopt._util.checks import FloatArray
from cdopt.backends.linalg.block_systems import BlockSystem, DelassusNetwork

if TYPE_CHECKING:
    from cdopt.backends.linalg.network import ContactNetwork


class TiedNetwork:
    """A network in copies of its normal forces, with the methods of a network.

    Parameters
    ----------
    base : the network of the forces themselves.
    E : (nc, d, k D) of each contact, for k copies of D rows each.
    T : (k − 1, k D) of every contact.
    weight : (nc,) mobility of each contact, of a force relative to rates.

    Attributes
    ----------
    d, rows : D, and nc k D. m : dofs, those of the base and the multipliers.
    """

    def __init__(
        self,
        base: ContactNetwork | DelassusNetwork,
        E: FloatArray,
        T: FloatArray,
        weight: FloatArray,
    ) -> None:
        self.base, self.E, self.T = base, E, T
        self.nc, self.copies = len(E), len(T) + 1
        self.rows = self.nc * E.shape[2]
        self.d, self.m = E.shape[2] // self.copies, base.m + self.nc * len(T)
        self.methods, self.patience = base.methods, base.patience
        self.factorisable = base.factorisable
        self.quickly_factorised = base.quickly_factorised
        ties = 1.0 / np.where(weight > 0.0, weight, 1.0)
        self.mass_diagonal = np.append(base.mass_diagonal, ties.repeat(len(T)))

    def forces(self, y: FloatArray) -> FloatArray:
        """E y (base rows,)."""
        return np.einsum("irc,ic->ir", self.E, y.reshape(self.nc, -1)).ravel()

    def spread(self, g: FloatArray) -> FloatArray:
        """Eᵀ g (rows,): equal shares of the normal rates g (base rows,)."""
        return np.einsum("irc,ir->ic", self.E, g.reshape(self.nc, -1)).ravel()

    def gap(self, x: FloatArray) -> FloatArray:
        """Rates of the copies (rows,)."""
        ties = x[self.base.m :].reshape(self.nc, -1) @ self.T
        return self.spread(self.base.gap(x[: self.base.m])) + ties.ravel()

    def load(self, f: FloatArray) -> FloatArray:
        """Gᵀ E f and T f (m,)."""
        ties = f.reshape(self.nc, -1) @ self.T.T
        return np.append(self.base.load(self.forces(f)), ties.ravel())

    def inertia(self, x: FloatArray) -> FloatArray:
        """S w, and zeros."""
        return np.append(self.base.inertia(x[: self.base.m]), np.zeros(self.m - self.base.m))

    def motion(self, load: FloatArray) -> FloatArray:
        """S⁻¹ of a ``load``, with multipliers of zero."""
        return np.append(self.base.motion(load[: self.base.m]), np.zeros(self.m - self.base.m))

    def block_system(self, left: FloatArray, right: FloatArray, direct: bool = False) -> TiedSystem:
        """The system of blocks ``left``ᵀ ``right`` (copies, D, D), which agree on normal forces."""
        L = self._of_contacts(left)
        R = L if left is right else self._of_contacts(right)
        return TiedSystem(self, L, R, direct)

    def _of_contacts(self, blocks: FloatArray) -> FloatArray:
        """(nc, k D, k D), the blocks of each contact on its diagonal."""
        k, D = self.copies, self.d
        result = np.zeros((self.nc, k, D, k, D))
        of_copies = blocks.reshape(self.nc, k, D, D)
        for j in range(k):
            result[:, j, :, j] = of_copies[:, j]
        return result.reshape(self.nc, k * D, k * D)


class TiedSystem:
    """S + [E; T]ᵀ H [E; T] by the system of the base, λ eliminated contact by contact."""

    def __init__(self, net: TiedNetwork, L: FloatArray, R: FloatArray, direct: bool) -> None:
        self.net = net
        Et, Tt, many = net.E.transpose(0, 2, 1), net.T.T, len(net.T)
        LE, LT = L @ Et, L @ Tt
        RE = LE if R is L else R @ Et
        Q, corner = np.linalg.qr(LT, mode="complete")
        inverse = np.linalg.inv(corner[:, :many])
        self.inverse = inverse @ inverse.transpose(0, 2, 1)  # (T H Tᵀ)⁻¹
        self.down = LE.transpose(0, 2, 1) @ LT  # E H Tᵀ, where R Tᵀ = L Tᵀ
        self.up = LT.transpose(0, 2, 1) @ RE  # T H Eᵀ
        rest = Q[:, :, many:].transpose(0, 2, 1)
        turned, left = np.linalg.qr(rest @ LE)
        right = left if R is L else turned.transpose(0, 2, 1) @ (rest @ RE)
        self.system: BlockSystem = net.base.block_system(left, right, direct)

    @property
    def gave_up(self) -> bool:
        """Whether an iteration did not end."""
        return self.system.gave_up

    @property
    def sign(self) -> float:
        """The sign of the determinant of what is left without λ."""
        return self.system.sign

    def solve(self, rhs: FloatArray, tol: float, limit: int | None = None) -> FloatArray:
        """x (m,) with its residual reduced by ``tol``, in ``limit`` iterations or by factors."""
        base = self.net.base
        ties = self._times(self.inverse, rhs[base.m :])
        w = self.system.solve(rhs[: base.m] - base.load(self._times(self.down, ties)), tol, limit)
        pulled = self._times(self.inverse, self._times(self.up, base.gap(w)))
        return np.append(w, ties - pulled)

    def _times(self, blocks: FloatArray, x: FloatArray) -> FloatArray:
        """Blocks (nc, a, b) times x (nc b,)."""
        return np.einsum("iab,ib->ia", blocks, x.reshape(self.net.nc, -1)).ravel()
