"""Equilibrium of elastic contacts in exact geometry: quasi-static energy minimisation.

    minimise over q    Σ w(−Φ(q)) − Fᵀ(q − q₀)

by passes that state ``cdopt.QuasiStatic`` with the gaps and B of where the bodies are, and move
them by its u, until the forces of the exact gaps balance: R(q) = F + Bᵀ w′(−Φ) = 0, De Klerk et
al. (2021) without inertia. Where the linearised energy has no minimum, or a pass would go
too far, inertia keeps the pass short: it is then a step of ``cdopt.CompliantCD`` from rest.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp

from cdopt import checks
from cdopt.backends.base import Backend
from cdopt.backends.registry import resolve
from cdopt.checks import FloatArray
from cdopt.contact import (
    Contacts,
    Neighbours,
    detect,
    external_forces,
    gap_gradient,
    mass_matrix,
    move,
)
from cdopt.contact_law import HOOKE
from cdopt.dynamics.relinearised import elastic
from cdopt.errors import SolveFailed, Unsupported
from cdopt.formulations import CompliantCD, QuasiStatic
from cdopt.scene import Scene, State
from cdopt.step import ContactStep

LOG = logging.getLogger("cdopt.dynamics")

_MARGIN = 0.5  # of the smallest half-width: gaps that a pass may close
_STRIDE = 0.2  # of the same: a longer pass does not trust its linear gaps
_TRAVEL = 2.0  # of its own reach: a body that goes further was not held
_INERTIA = 1e-6, 1e6  # least and most, of the stiffest contact, where passes need inertia
_ROUND_OFF = 64.0 * np.finfo(float).eps


@dataclass(frozen=True, eq=False)
class Equilibrium:
    """Bodies at rest.

    Attributes
    ----------
    state : where they are; free bodies do not move.
    contacts : of that state, near ones included. forces : (nc,) w′(−Φ), N.
    load : F (nv,) that they carry, N and N·m.
    residual : largest unbalanced force over the largest force.
    passes : how often gaps were linearised.
    energy : elastic, J.
    """

    state: State
    contacts: Contacts
    forces: FloatArray
    load: FloatArray
    residual: float
    passes: int
    energy: float


def equilibrium(
    scene: Scene,
    state: State | None = None,
    *,
    load: object = None,
    backend: str | Backend = "newton",
    tol: float = 1e-10,
    limit: int = 200,
    neighbours: Neighbours | None = None,
) -> Equilibrium:
    """Let a scene come to rest on its elastic contacts, from near by, without inertia.

    Parameters
    ----------
    scene : its materials state stiffness in N/m^(p−1).
    state : where to start; default the scene's.
    load : (nv,) on its degrees of freedom beside gravity and the bodies' own, N and N·m.
    backend : of every pass.
    tol : of the residual, as a share of the largest force; round-off of the gaps may end it first.
    limit : passes at most.

    Raises
    ------
    SolveFailed : nothing holds some body: it has no rest, or none nearer than its own size.
        The message names it; ``proof`` is its motion where the energy is unbounded.
    Unsupported : bonds, whose springs are linear, in a scene whose contacts are not.

    >>> import cdopt
    >>> steel = cdopt.scene.Material(name="steel", stiffness=2e4)
    >>> ball = cdopt.scene.Body(cdopt.scene.Sphere(0.1), [0.0, 0.1], mass=1.0, material="steel")
    >>> floor = cdopt.scene.Body(cdopt.scene.HalfSpace([0.0, 1.0]), [0.0, 0.0])
    >>> scene = cdopt.scene.Scene([floor, ball], dim=2, gravity=[0, -10], materials=[steel])
    >>> rest = cdopt.dynamics.equilibrium(scene)
    >>> rest.forces.round(6), rest.contacts.phi.round(9)
    (array([10.]), array([-0.0005]))
    """
    if scene.power != HOOKE and scene.bonds.size:
        raise Unsupported(
            "quasi-static bonds", f"bonds are linear, contacts have p = {scene.power:g}"
        )
    start = scene.initial if state is None else state
    own = external_forces(scene, start)
    total = own if load is None else own + checks.vector("load", load, scene.dofs.nv, "N")
    near = Neighbours(scene) if neighbours is None else neighbours
    work = _Work(scene, total, resolve(backend), checks.scalar("tol", tol, above=0.0), near)
    return work.settle(start, limit)


class _Work:
    """Passes towards one equilibrium."""

    def __init__(
        self, scene: Scene, load: FloatArray, backend: Backend, tol: float, near: Neighbours
    ) -> None:
        self.scene, self.load, self.backend, self.tol, self.near = scene, load, backend, tol, near
        b, dofs = scene.bodies, scene.dofs
        self._core = float(b.core[np.isfinite(b.core)].min())
        turns = dofs.column >= scene.dim
        self._lever = np.where(turns, b.reach[dofs.body], 1.0)

    def settle(self, start: State, limit: int) -> Equilibrium:
        """Passes until nothing is out of balance."""
        here = self._at(start)
        inertia, before = 0.0, np.inf
        for count in range(limit + 1):
            found = self._found(here, count)
            LOG.info("pass %d: residual %.2e, inertia %.1e", count, found.residual, inertia)
            stuck = found.residual > 0.5 * before and found.residual <= self._round_off(found)
            if found.residual <= self.tol or stuck:
                return found
            before = found.residual
            if count == limit or self._left(start, here.state):
                break
            here, inertia = self._pass(here, found, inertia)
        raise self._failure(found, start)

    def _at(self, state: State) -> _Here:
        """Gaps, B and forces of a state, free bodies at rest."""
        scene = self.scene
        still = State(state.t, state.q, scene.dofs.scatter(np.zeros(scene.dofs.nv), state.v))
        contacts = detect(scene, still, _MARGIN * self._core, self.near)
        every = np.arange(contacts.nc)
        forces, energy = elastic(contacts, scene.power, every)
        return _Here(still, contacts, gap_gradient(scene, still, contacts), forces, energy)

    def _found(self, here: _Here, passes: int) -> Equilibrium:
        unbalanced = np.abs(here.B.T @ here.forces + self.load) / self._lever
        return Equilibrium(
            state=here.state,
            contacts=here.contacts,
            forces=here.forces,
            load=self.load,
            residual=float(unbalanced.max(initial=0.0)) / (self._largest(here.forces) or 1.0),
            passes=passes,
            energy=here.energy,
        )

    def _round_off(self, found: Equilibrium) -> float:
        """Residual that round-off of the places makes."""
        place = float(np.abs(found.state.position).max())
        steepest = float(_slope(found.contacts, self.scene.power).max(initial=0.0))
        return _ROUND_OFF * place * steepest / (self._largest(found.forces) or 1.0)

    def _largest(self, forces: FloatArray) -> float:
        """The largest load or force, N."""
        own = float(np.abs(self.load / self._lever).max(initial=0.0))
        return max(own, float(np.abs(forces).max(initial=0.0)))

    # --- one pass ----------------------------------------------------------------------

    def _pass(self, here: _Here, found: Equilibrium, inertia: float) -> tuple[_Here, float]:
        """Solve the linearised problem and go there, with more inertia until it leads down."""
        least, most = _INERTIA
        while True:
            u = self._solve(here, inertia)
            if u is not None and self._size(u) <= _STRIDE * self._core:
                there = self._at(self._moved(here.state, u))
                gained = here.energy - there.energy + float(self.load @ u)
                if gained >= 0.0 or self._found(there, 0).residual < found.residual:
                    return there, inertia / 10.0 if inertia > 1.01 * least else 0.0
            if inertia >= most:
                return here, inertia
            inertia = max(least, 10.0 * inertia)

    def _solve(self, here: _Here, inertia: float) -> FloatArray | None:
        """u (nv,) of the linearised problem; None where it has none."""
        B, phi, k = self._both_ways(here)
        power = self.scene.power
        try:
            if inertia == 0.0:
                static = QuasiStatic(B, phi, self.load, k, power, dof_body=self.scene.dofs.body)
                return static.solve(self.backend, check=False).u
            step = self._step(here, B, phi, k, inertia)
            rate = CompliantCD(step, power, form="velocity").solve(self.backend, check=False)
        except SolveFailed:
            return None
        return None if rate.v_next is None else rate.v_next * step.dt

    def _step(
        self, here: _Here, B: sp.csr_array, phi: FloatArray, k: FloatArray, inertia: float
    ) -> ContactStep:
        """The same from rest, in a time after which inertia weighs a share of the stiffness."""
        M = mass_matrix(self.scene, here.state)
        stiffest = float(_slope(here.contacts, self.scene.power).max(initial=0.0))
        soft = stiffest or float(np.abs(self.load).max(initial=1.0)) / self._core
        dt = float(np.sqrt(M.diagonal().min() / (inertia * soft)))
        return ContactStep(
            M=M, B=B, phi=phi, v=np.zeros(M.shape[0]), F_ext=self.load, dt=dt, stiffness=k,
            dof_body=self.scene.dofs.body,
        )  # fmt: skip

    def _both_ways(self, here: _Here) -> tuple[sp.csr_array, FloatArray, FloatArray]:
        """B, Φ and k; a bond is a contact and its mirror image, which pulls."""
        B, contacts = here.B, here.contacts
        tied = np.flatnonzero(contacts.bonded)
        if not tied.size:
            return B, contacts.phi, contacts.stiffness
        return (
            sp.csr_array(sp.vstack([B, -B[tied]])),
            np.concatenate([contacts.phi, -contacts.phi[tied]]),
            np.concatenate([contacts.stiffness, contacts.stiffness[tied]]),
        )

    def _size(self, u: FloatArray) -> float:
        return float(np.abs(u * self._lever).max(initial=0.0))

    def _moved(self, state: State, u: FloatArray) -> State:
        way = self.scene.dofs.scatter(u, np.zeros_like(state.v))
        return State(state.t, move(state, way, 1.0), state.v)

    # --- where nothing holds -----------------------------------------------------------

    def _left(self, start: State, now: State) -> list[int]:
        """Bodies that are further from where they began than their own size."""
        way = np.linalg.norm(now.position - start.position, axis=1)
        free = ~self.scene.bodies.fixed
        return list(np.flatnonzero(free & (way > _TRAVEL * self.scene.bodies.reach)))

    def _failure(self, found: Equilibrium, start: State) -> SolveFailed:
        """Which bodies nothing holds."""
        here = self._at(found.state)
        B, phi, k = self._both_ways(here)
        static = QuasiStatic(B, phi, self.load, k, self.scene.power, dof_body=self.scene.dofs.body)
        try:
            solved = static.solve(self.backend)
        except SolveFailed as error:
            return error
        gone = ", ".join(map(self.scene.bodies.label, self._left(start, found.state)[:10]))
        why = f"{gone} left their places" if gone else "forces stay out of balance"
        return SolveFailed(
            f"no rest within {found.passes} passes, residual {found.residual:.1e}: {why}",
            backend=self.backend.name, status=solved.status, problem=static.data,
        )  # fmt: skip


@dataclass(frozen=True, eq=False)
class _Here:
    """What a state's contacts say."""

    state: State
    contacts: Contacts
    B: sp.csr_array
    forces: FloatArray
    energy: float


def _slope(contacts: Contacts, power: float) -> FloatArray:
    """w″(−Φ) (nc,) of contacts, N/m."""
    overlap = np.maximum(-contacts.phi, 0.0)
    if power == HOOKE:
        return np.where((overlap > 0.0) | contacts.bonded, contacts.stiffness, 0.0)
    safe = np.where(overlap > 0.0, overlap, 1.0)
    steep = (power - 1.0) * contacts.stiffness * safe ** (power - 2.0)
    return np.where(overlap > 0.0, steep, 0.0)
