"""Derivatives of the compatible forces of contacts with friction by stiffness, load and μ.

The network (``formulations.friction_network``) has f = Π(y) with y = t − D B u and Bᵀf = F̃. With
S = ∂Π/∂y and the explicit derivative e of Π by a parameter, df = S dy + e and

    K du = Bᵀ(S dy₀ + e) − dF̃,    K = Bᵀ S D B,    df = S (dy₀ − D B du) + e,

with dy₀ the change of y at fixed u. This is the implicit function theorem: K is symmetric for the
flow of Haar & Kármán, and unsymmetric where contacts slip with the flow of Coulomb. Π is smooth but
for kinks: a contact at the onset of slip, or with neither force nor gap.

With κ = k_t/k_n, a contact that slips has f_n = y_n, f_T = μ y_n ŷ_T under the law of Coulomb, and
f_n = (κ y_n + μ‖y_T‖)/(κ + μ²), f_T = μ f_n ŷ_T under Haar & Kármán's principle.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse as sp

from cdopt._util import checks
from cdopt._util.checks import BoolArray, FloatArray, IntArray, read_only
from cdopt._util.errors import Unsupported
from cdopt._util.frozen import Frozen
from cdopt.formulations import FrictionNetwork
from cdopt.formulations.friction_network import NetworkForces

_LARGEST = 3000  # dofs, for dense algebra
_ZERO = 1e-11  # singular values of K below this share of the largest are zero
_LEFT = 1e-7  # share of a change of load above which the contacts do not bear it


@dataclass(frozen=True, eq=False)
class FrictionalGradient(Frozen):
    """Derivatives of one number Σ weights f.

    Attributes
    ----------
    log_stiffness, log_ratio, mu : (nc,) by log k, by log(k_t/k_n) and by μ. load : (nv,) by F̃.
    """

    log_stiffness: FloatArray
    log_ratio: FloatArray
    mu: FloatArray
    load: FloatArray


@dataclass(frozen=True, eq=False)
class FrictionalSensitivity(Frozen):
    """First derivatives of the compatible forces of a network with friction, at its solution.

    Attributes
    ----------
    network : of elastic contacts on the faces of a motion. forces : its solution.
    kinks : (n,) contacts at which derivatives depend on the direction: at the onset of slip, or
        with neither force nor gap. If there are any, all derivatives are refused.

    Notes
    -----
    The faces and F̃ do not change: which contacts are open, at rest or sliding in the motion, and
    what the bodies ask them to bear. Derivatives by μ are therefore refused where contacts slide in
    the motion, which μ changes.
    """

    network: FrictionNetwork
    forces: NetworkForces
    kinks: IntArray

    @property
    def nc(self) -> int:
        """Number of contacts."""
        return self.network.nc

    @property
    def d(self) -> int:
        """Components of a force: 2 in the plane, 3 in space."""
        return self.network.d

    @property
    def f(self) -> FloatArray:
        """(nc, d) N, the forces."""
        return np.column_stack([self.forces.f, self.forces.f_t])

    @property
    def two_sided(self) -> bool:
        """Whether there are derivatives: no contact is at a kink."""
        return self.kinks.size == 0

    # --- matrices ----------------------------------------------------------------------

    @cached_property
    def log_stiffness(self) -> FloatArray:
        """(nc, d, nc) N: ∂f_i/∂log k_j, of normal and tangential stiffness together.

        Raises
        ------
        Unsupported : a contact is at a kink.
        """
        return self._matrix(self._by_stiffness)

    @cached_property
    def log_ratio(self) -> FloatArray:
        """(nc, d, nc) N: ∂f_i/∂log(k_t/k_n)_j, at constant normal stiffness.

        Raises
        ------
        Unsupported : a contact is at a kink.
        """
        return self._matrix(self._by_ratio)

    @cached_property
    def mu(self) -> FloatArray:
        """(nc, d, nc) N: ∂f_i/∂μ_j.

        Raises
        ------
        Unsupported : a contact is at a kink, or slides in the motion.
        """
        self._require_rest()
        return self._matrix(self._by_mu)

    @cached_property
    def load(self) -> FloatArray:
        """(nc, d, nv): ∂f_i/∂F̃_j, N per N and per N·m.

        For changes of load that the contacts bear; others are projected on those that they do.

        Raises
        ------
        Unsupported : a contact is at a kink.
        """
        reach = self.network.reach
        change = self._changed(np.zeros((self.nc * self.d, reach.size)), np.diag(1.0 / reach))
        return read_only(change.reshape(self.nc, self.d, -1))

    # --- products ----------------------------------------------------------------------

    def along(
        self, log_stiffness: Any = None, load: Any = None, log_ratio: Any = None, mu: Any = None
    ) -> FloatArray:
        """(nc, d) N: the derivative along a direction.

        Parameters
        ----------
        log_stiffness, log_ratio, mu : (nc,) changes. load : (nv,) change of F̃, N and N·m.
            Default none.

        Raises
        ------
        InvalidInput : a direction of another shape.
        Unsupported : a contact is at a kink, or slides in the motion while μ changes; or the
            contacts do not bear the change of load.
        """
        rows, size = np.zeros((self.nc, self.d)), self.network.reach
        for name, change, by in (
            ("log_stiffness", log_stiffness, self._by_stiffness),
            ("log_ratio", log_ratio, self._by_ratio),
            ("mu", mu, self._by_mu),
        ):
            if change is not None:
                rows = rows + by * checks.vector(name, change, self.nc)[:, None]
        if mu is not None:
            self._require_rest()
        scaled = np.zeros((size.size, 1))
        if load is not None:
            scaled[:, 0] = checks.vector("load", load, size.size, "N") / size
        result = self._changed(rows.reshape(-1, 1), scaled)
        if load is not None:
            missed = scaled - self._C.T @ result
            if np.abs(missed).max(initial=0.0) > _LEFT * np.abs(scaled).max(initial=0.0):
                raise Unsupported("the derivative by load", "the contacts do not bear the change")
        return read_only(result.reshape(self.nc, self.d))

    def gradient(self, weights: Any) -> FrictionalGradient:
        """Derivatives of Σ weights f by one adjoint solve; by μ not-a-number where contacts slide.

        Parameters
        ----------
        weights : (nc, d) of a number Σ weights f; for another function of f, its gradient at f.

        Raises
        ------
        InvalidInput : another number of weights.
        Unsupported : a contact is at a kink.
        """
        factors = checks.numbers("weights", weights, (self.nc, self.d)).reshape(-1, 1)
        S, _, inverse = self._parts
        motion = inverse.T @ (self._C.T @ (self._springs * (S.T @ factors)))
        rows = (factors - self._C @ motion).reshape(self.nc, self.d)
        return FrictionalGradient(
            np.sum(rows * self._by_stiffness, axis=1),
            np.sum(rows * self._by_ratio, axis=1),
            np.sum(rows * self._by_mu, axis=1) + (np.nan if self._slides.any() else 0.0),
            motion.ravel() / self.network.reach,
        )

    # --- pieces ------------------------------------------------------------------------

    @property
    def _springs(self) -> FloatArray:
        """D (nc d, 1) over its largest entry."""
        return (self.network.D / self.network.D.max()).reshape(-1, 1)

    @property
    def _C(self) -> sp.csr_array:
        """B (nc d, nv), its columns in units of their levers."""
        return self.network.scaled_B

    @cached_property
    def _state(self) -> tuple[FloatArray, FloatArray]:
        """y (nc, d) N and ∂Π/∂y (nc, d, d)."""
        return self.network.linearised(self.forces)

    @cached_property
    def _parts(self) -> tuple[sp.csr_array, FloatArray, FloatArray]:
        """S (nc d, nc d), S D C (nc d, nv) and the pseudo-inverse of K, scaled.

        Raises
        ------
        Unsupported : a contact is at a kink, or too many dofs.
        """
        if not self.two_sided:
            names = ", ".join(map(str, self.kinks[:8].tolist()))
            why = f"contacts {names} are at the onset of slip, or touch without force"
            raise Unsupported("the derivative", why)
        if self._C.shape[1] > _LARGEST:
            raise Unsupported("the derivative", f"a network of {self._C.shape[1]} dofs")
        places = (np.arange(self.nc), np.arange(self.nc + 1))
        S = sp.csr_array(sp.bsr_array((self._state[1], *places)))
        bent = (S @ (self._C * self._springs)).toarray()
        return S, bent, np.linalg.pinv(self._C.T @ bent, rcond=_ZERO)

    def _changed(self, rows: FloatArray, load: FloatArray) -> FloatArray:
        """df (nc d, many) of changes S dy₀ + e (nc d, many) and of scaled loads (nv, many)."""
        _, bent, inverse = self._parts
        return np.asarray(rows - bent @ (inverse @ (self._C.T @ rows - load)))

    def _matrix(self, by: FloatArray) -> FloatArray:
        """(nc, d, nc) of changes ``by`` (nc, d) of S dy₀ + e, contact by contact."""
        rows = np.zeros((self.nc, self.d, self.nc))
        every = np.arange(self.nc)
        rows[every, :, every] = by
        change = self._changed(rows.reshape(-1, self.nc), np.zeros((self._C.shape[1], self.nc)))
        return read_only(change.reshape(rows.shape))

    @property
    def _slides(self) -> BoolArray:
        """(nc,) contacts that slide in the motion, with friction."""
        return np.asarray(self.network.slides & (self.network.mu > 0.0))

    def _require_rest(self) -> None:
        if self._slides.any():
            who = f"contacts slide in the motion, such as {int(np.flatnonzero(self._slides)[0])}"
            raise Unsupported("the derivative by friction", f"{who}, which friction changes")

    @cached_property
    def _by_stiffness(self) -> FloatArray:
        """S dy₀ (nc, d) by log k: y − t grows in proportion."""
        y, slope = self._state
        return np.einsum("ikl,il->ik", slope, y - self.network.trial)

    @cached_property
    def _by_ratio(self) -> FloatArray:
        """S dy₀ + e (nc, d) by log κ."""
        y, slope = self._state
        change = y - self.network.trial
        change[:, 0] = 0.0
        result = np.einsum("ikl,il->ik", slope, change)
        if self.network.flow == "associated":
            ratio = self.network.D[:, 1] / self.network.D[:, 0]
            slips, way = self._slipping
            along = np.where(self._slides[:, None], self.network.rays, 0.0)
            along[slips] = np.column_stack([slips, self.network.mu[:, None] * way])[slips]
            square = np.sum(along[:, 1:] ** 2, axis=1)
            pull = ratio * (y[:, 0] - self.forces.f) / (ratio + square)
            result += pull[:, None] * along * (self.forces.f > 0.0)[:, None]
        return np.asarray(result)

    @cached_property
    def _by_mu(self) -> FloatArray:
        """e (nc, d) by μ: nothing moves at fixed u but the caps of contacts that slip."""
        y, mu, f = self._state[0], self.network.mu, self.forces.f
        slips, way = self._slipping
        result = np.column_stack([np.zeros(self.nc), f[:, None] * way])
        if self.network.flow == "associated":
            ratio = self.network.D[:, 1] / self.network.D[:, 0]
            size = np.linalg.norm(y[:, 1:], axis=1)
            gain = np.where(slips, (size - 2.0 * mu * f) / (ratio + mu**2), 0.0)
            result += gain[:, None] * np.column_stack([np.ones(self.nc), mu[:, None] * way])
        return result

    @cached_property
    def _slipping(self) -> tuple[BoolArray, FloatArray]:
        """(nc,) contacts that rest in the motion and slip, and ŷ_T (nc, d − 1), zero elsewhere."""
        y = self._state[0]
        size = np.linalg.norm(y[:, 1:], axis=1)
        slips = self.network.closed & ~self.network.slides & (self.forces.f > 0.0)
        slips &= size > self.network.mu * y[:, 0]
        way = np.where(slips[:, None], y[:, 1:], 0.0) / np.where(size > 0.0, size, 1.0)[:, None]
        return slips, way

    def __repr__(self) -> str:
        slips = int(self._slipping[0].sum())
        kind = "smooth" if self.two_sided else f"kinks at {self.kinks.size} contacts"
        return (
            f"FrictionalSensitivity({self.nc} contacts, {slips} slip, {self.forces.label}: {kind})"
        )


def at_forces(network: FrictionNetwork, forces: NetworkForces, tol: float) -> FrictionalSensitivity:
    """The derivatives at a solution; kinks are within ``tol`` of the largest force."""
    return FrictionalSensitivity(network, forces, read_only(network.kinks(forces, tol)))
