"""Friction of a variational step, its normal forces those of the step's predictor q + α h v.

Each contact that overlaps there has a tangential spring with a memory (Cundall & Strack, 1979),
of stiffness k_t by the slope of the contact law, whose force is at most μ f_n, f_n with the
normal dashpot, both of the predictor. These are ``cdopt.formulations.Sliders``: the step is
convex. Springs turn with the normal, and with half the spin of the two bodies about it. Where k_t
falls a spring keeps its length, where k_t grows its force: both lose energy.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace

import numpy as np

from cdopt._util.checks import FloatArray, IntArray
from cdopt.collision import Contacts, effective_mass, friction, gap_gradient, tangents
from cdopt.collision.dissipation import surface_points
from cdopt.dynamics.elastic_energy import elastic_forces, slope
from cdopt.dynamics.records import ContactState
from cdopt.dynamics.spheres.springs import FrictionLaw
from cdopt.formulations import Sliders
from cdopt.scene import Dofs, Scene, State


@dataclass(frozen=True)
class SlidingSprings:
    """Springs of friction between two steps.

    Attributes
    ----------
    ids : (n,) ascending numbers of contacts.
    force : (n, dim) N, of the springs on the second bodies, at right angles to the normals.
    normals : (n, dim) of the contacts when the springs were stretched.
    stiffness : (n,) k_t, N/m.
    acting : (n, dim) N, f_t of the last step.
    """

    ids: IntArray
    force: FloatArray
    normals: FloatArray
    stiffness: FloatArray
    acting: FloatArray

    @staticmethod
    def none(dim: int) -> SlidingSprings:
        """Of a state without contacts."""
        empty = np.zeros((0, dim))
        return SlidingSprings(np.zeros(0, dtype=np.int64), empty, empty, np.zeros(0), empty)

    def stored(self) -> dict[str, FloatArray | IntArray]:
        """The arrays by name, for the memory of a run."""
        return {f"spring_{field.name}": getattr(self, field.name) for field in fields(self)}

    @property
    def energy(self) -> FloatArray:
        """(n,) J."""
        return np.asarray((self.force * self.force).sum(axis=1) / (2.0 * self.stiffness))

    def shown(self, contacts: ContactState) -> ContactState:
        """The contacts of a state with the forces and energy of friction."""
        tangential = np.zeros_like(contacts.normals)
        _, here, there = np.intersect1d(contacts.contact_ids, self.ids, return_indices=True)
        tangential[here] = self.acting[there]
        energy = float(self.energy.sum())
        whole = contacts.energy + energy
        return replace(contacts, energy=whole, tangential=tangential, energy_t=energy)


@dataclass(frozen=True)
class FrozenForces:
    """What a step takes from its predictor, of the contacts with friction.

    Attributes
    ----------
    ids, force, normals : as of SlidingSprings, the forces at the start of the step.
    cap, stiffness, damping : (n,) μ f_n, k_t and the tangential dashpot, N, N/m and N s/m.
    lost : J, of springs whose contacts parted or whose k_t changed.
    """

    ids: IntArray
    force: FloatArray
    normals: FloatArray
    cap: FloatArray
    stiffness: FloatArray
    damping: FloatArray
    lost: float

    def sliders(self, scene: Scene, state: State, contacts: Contacts, dofs: Dofs) -> Sliders:
        """The sliders of all ``contacts`` at ``state``; those without friction have no cap."""
        nc, dim = contacts.nc, scene.dim
        acting = replace(contacts, points=surface_points(scene, contacts))
        rows = friction(scene, state, acting, 0.0, dofs)
        cap, stiffness, damping = np.zeros(nc), np.ones(nc), np.zeros(nc)
        force = np.zeros((nc, dim))
        _, here, mine = np.intersect1d(contacts.contact_ids, self.ids, return_indices=True)
        cap[here], stiffness[here] = self.cap[mine], self.stiffness[mine]
        damping[here] = self.damping[mine]
        force[here] = turned(self.force[mine], self.normals[mine], contacts.normals[here])
        trial = np.einsum("ix,ikx->ik", force, rows.tangents)
        return Sliders(rows.B_t, stiffness, cap, trial, damping, rows.rate)

    def stretched(
        self, sliders: Sliders, contacts: Contacts, u: FloatArray, alpha: float, h: float
    ) -> tuple[SlidingSprings, float, float]:
        """Springs after a step by u (nv,), what friction took, and what walls did on it, J."""
        after, lost = sliders.after(u, alpha, h)
        f_t = sliders.forces(u, alpha, h)
        here = np.flatnonzero(sliders.cap > 0.0)
        ways = tangents(contacts.normals[here])
        springs = SlidingSprings(
            ids=contacts.contact_ids[here],
            force=np.einsum("ik,ikx->ix", after[here], ways),
            normals=contacts.normals[here],
            stiffness=sliders.stiffness[here],
            acting=np.einsum("ik,ikx->ix", f_t[here], ways),
        )
        return springs, self.lost + float(lost[here].sum()), h * float((f_t * sliders.rate).sum())


def frozen(
    scene: Scene,
    law: FrictionLaw,
    moment: tuple[State, State, float],
    contacts: Contacts,
    springs: SlidingSprings,
    damped: bool = True,
) -> FrozenForces:
    """Of the step from a state; ``moment`` is that state, its predictor and h.

    ``contacts`` are those of the predictor; without ``damped`` dashpots do not count.
    """
    state, there, h = moment
    push, _ = elastic_forces(contacts, scene.power, np.arange(contacts.nc))
    mass = effective_mass(scene, contacts.bodies)
    dofs = scene.full_dofs
    rate = gap_gradient(scene, there, contacts, dofs) @ dofs.gather(state.v) + contacts.gap_rate
    push = np.maximum(push - damped * scene.damping * mass * rate, 0.0)
    mu, ratio = law.of_pairs(scene, contacts.bodies)
    stiffness = ratio * slope(contacts, scene.power)
    used = np.flatnonzero((contacts.phi < 0.0) & ~contacts.bonded & (mu * push > 0.0))
    ids, normals, k = contacts.contact_ids[used], contacts.normals[used], stiffness[used]
    force = np.zeros_like(normals)
    _, here, mine = np.intersect1d(ids, springs.ids, return_indices=True)
    moved = turned(springs.force[mine], springs.normals[mine], normals[here])
    if scene.dim == 3 and here.size:
        turning = state.angular_velocity[contacts.bodies[used[here]]].mean(axis=1)
        angle = h * (turning * normals[here]).sum(axis=1)
        moved = turned_about(moved, normals[here], angle)
    force[here] = np.minimum(1.0, k[here] / springs.stiffness[mine])[:, None] * moved
    lost = springs.energy.sum() - ((force * force).sum(axis=1) / (2.0 * k)).sum()
    damping = damped * scene.gamma_t * mass[used]
    return FrozenForces(ids, force, normals, mu[used] * push[used], k, damping, float(lost))


def turned(x: FloatArray, a: FloatArray, b: FloatArray) -> FloatArray:
    """Vectors x (n, dim), at right angles to a, turned by the least rotation from a to b."""
    share = (b * x).sum(axis=1) / (1.0 + (a * b).sum(axis=1))
    return np.asarray(x - share[:, None] * (a + b))


def turned_about(x: FloatArray, n: FloatArray, angle: FloatArray) -> FloatArray:
    """Vectors x (n, 3), at right angles to n, turned about it by angles (n,), rad."""
    return np.asarray(np.cos(angle)[:, None] * x + np.sin(angle)[:, None] * np.cross(n, x))
