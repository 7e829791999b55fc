"""The tangent of an elastic network with friction (``formulations.friction_network``).

K is unsymmetric where contacts slip with Coulomb's flow, and Π has kinks: contacts at the onset of
slip, or with neither force nor gap. The faces and F̃ do not change: which contacts are open, at rest
or sliding in the motion, and what the bodies ask them to bear.
"""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp

from cdopt._util.cached import cached_property
from cdopt._util.checks import BoolArray, FloatArray, IntArray
from cdopt._util.errors import Unsupported
from cdopt.formulations import FrictionNetwork
from cdopt.formulations.friction_network import NetworkForces
from cdopt.hyperstatic.tangent import LARGEST, LEFT, ZERO, Tangent


class FrictionTangent(Tangent):
    """The tangent of a ``network`` at its ``solution``; kinks within ``tol`` count.

    Derivatives by μ are refused where contacts slide in the motion, which μ changes.
    """

    why = "are at the onset of slip, or touch without force"
    instead = ()
    power = None

    def __init__(self, network: FrictionNetwork, solution: NetworkForces, tol: float) -> None:
        self.network, self.solution = network, solution
        self.d, self.nv = network.d, int(network.B.shape[1])
        self.joints = 0 if network.springs is None else network.springs.count
        self.nc, many = network.nc + self.joints, network.nc * network.d
        springs = np.zeros(0) if not self.joints else np.asarray(solution.joint_forces)
        self.forces = np.append(solution.rows, springs)
        self.loaded = np.append(solution.f > 0.0, np.ones(self.joints, dtype=bool))
        self.stiffness = np.append(network.D[:, 0], network.k[many:])
        self._kinks = network.kinks(solution, tol)
        idle = np.zeros(self.joints)
        self.parameters = {name: np.append(e.ravel(), idle) for name, e in self._by.items()}
        self.parameters["log_stiffness"][many:] = springs - network.before[many:]
        slides = np.flatnonzero(self._slides)
        self.refused = {}
        if slides.size:
            who = f"contacts slide in the motion, such as {int(slides[0])}"
            self.refused["mu"] = f"{who}, which friction changes"

    @property
    def label(self) -> str:
        return f"{int(self._slipping[0].sum())} slip, {self.solution.label}"

    @property
    def kinks(self) -> IntArray:
        """Closed contacts at the onset of slip, or with neither force nor gap."""
        return self._kinks

    @cached_property
    def springs(self) -> sp.csr_array:
        network = self.network
        places = (np.arange(network.nc), np.arange(network.nc + 1))
        blocks = sp.bsr_array((self._state[1] * network.D[:, None, :], *places))
        of_joints = sp.diags_array(network.k[network.nc * network.d :])
        return sp.csr_array(sp.block_diag([blocks, of_joints], format="csr"))

    def jvp(self, e: FloatArray, load: FloatArray | None = None) -> FloatArray:
        """df (rows, …) N; of loads that the contacts do not bear, the nearest that they do."""
        B, bent, inverse = self._linear
        flat = e.reshape(e.shape[0], -1)
        scaled = 0.0 if load is None else (load.T / self.network.reach).T.reshape(self.nv, -1)
        change = flat - bent @ (inverse @ (B.T @ flat - scaled))
        return np.asarray(change.reshape(e.shape))

    def vjp(self, weights: FloatArray) -> tuple[FloatArray, FloatArray]:
        B, bent, inverse = self._linear
        flat = weights.reshape(weights.shape[0], -1)
        motion = inverse.T @ (bent.T @ flat)
        by_load = (motion.T / self.network.reach).T
        shape = (self.nv, *weights.shape[1:])
        return np.asarray(flat - B @ motion).reshape(weights.shape), by_load.reshape(shape)

    def along(self, e: FloatArray, load: FloatArray | None) -> FloatArray:
        result = self.jvp(e, load)
        if load is not None:
            scaled = load / self.network.reach
            missed = scaled - self.network.scaled_B.T @ result
            if np.abs(missed).max() > LEFT * np.abs(scaled).max():
                raise Unsupported(
                    "the derivative by load", "the contacts cannot balance the change"
                )
        return result

    @cached_property
    def _state(self) -> tuple[FloatArray, FloatArray]:
        """y (nc, d) N and ∂Π/∂y (nc, d, d)."""
        return self.network.linearised(self.solution)

    @cached_property
    def _linear(self) -> tuple[sp.csr_array, FloatArray, FloatArray]:
        """B (rows, nv) in units of its levers, S D B, and the pseudo-inverse of Bᵀ S D B."""
        network = self.network
        B, D, many = network.scaled_B, network.k / network.k.max(), network.nc * network.d
        self.require_smooth()
        if B.shape[1] > LARGEST:
            raise Unsupported("the derivative", f"a network of {B.shape[1]} dofs")
        places = (np.arange(network.nc), np.arange(network.nc + 1))
        bent = (B * D[:, None]).toarray()  # joints bear what their springs do
        bent[:many] = sp.bsr_array((self._state[1], *places)) @ bent[:many]
        return B, bent, np.linalg.pinv(B.T @ bent, rcond=ZERO)

    @property
    def _slides(self) -> BoolArray:
        """(nc,) contacts that slide in the motion, with friction."""
        return np.asarray(self.network.slides & (self.network.mu > 0.0))

    @cached_property
    def _by(self) -> dict[str, FloatArray]:
        """e (nc, d) by each parameter of the contact itself: y − t is in proportion to stiffness.

        With κ = k_t/k_n, a contact that slips has f_n = y_n, f_T = μ y_n ŷ_T by Coulomb's
        law, and f_n = (κ y_n + μ‖y_T‖)/(κ + μ²), f_T = μ f_n ŷ_T under Haar & Kármán's
        principle.
        """
        (y, slope), f, mu = self._state, self.solution.f, self.network.mu
        sideways = y - self.network.trial
        by_stiffness = np.einsum("ikl,il->ik", slope, sideways)
        sideways[:, 0] = 0.0
        by_ratio = np.einsum("ikl,il->ik", slope, sideways)
        slips, way = self._slipping
        by_mu = np.column_stack([np.zeros(f.size), f[:, None] * way])
        if self.network.flow == "associated":
            ratio, capped = self.network.D[:, 1] / self.network.D[:, 0], mu[:, None] * way
            ray = np.where(self._slides[:, None], self.network.rays, 0.0)
            ray[slips] = np.column_stack([slips, capped])[slips]
            pull = ratio * (y[:, 0] - f) / (ratio + np.sum(ray[:, 1:] ** 2, axis=1))
            by_ratio += np.where(f > 0.0, pull, 0.0)[:, None] * ray
            gain = (np.linalg.norm(y[:, 1:], axis=1) - 2.0 * mu * f) / (ratio + mu**2)
            gain = np.where(slips, gain, 0.0)
            by_mu += gain[:, None] * np.column_stack([np.ones(f.size), capped])
        return {"log_stiffness": by_stiffness, "log_ratio": by_ratio, "mu": by_mu}

    @cached_property
    def _slipping(self) -> tuple[BoolArray, FloatArray]:
        """(nc,) contacts that rest in the motion and slip, and ŷ_T (nc, d − 1), zero elsewhere."""
        y = self._state[0]
        size = np.linalg.norm(y[:, 1:], axis=1)
        slips = self.network.closed & ~self.network.slides & (self.solution.f > 0.0)
        slips &= size > self.network.mu * y[:, 0]
        way = np.where(slips[:, None], y[:, 1:], 0.0) / np.where(size > 0.0, size, 1.0)[:, None]
        return slips, way
