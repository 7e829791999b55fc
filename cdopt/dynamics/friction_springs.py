"""Springs of friction of elastic contacts, and their forces where the caps are known.

Each contact that overlaps has a tangential spring with a history (Cundall & Strack, 1979), of
stiffness k_t by the slope of the contact law, whose force is at most μ f_n. In a variational step
f_n, with the normal dashpot, and k_t are those of the step's predictor q + α h v. These are
``cdopt.formulations.Sliders``: the step is convex. Springs turn with the normal, and with half the
spin of the two bodies about it. Where k_t falls a spring keeps its length, where k_t grows its
force: both lose energy.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace

import numpy as np

from cdopt._util.checks import FloatArray, IntArray
from cdopt.collision import Contacts, PairFriction, effective_mass, friction, gap_gradient, tangents
from cdopt.collision.dissipation import surface_points
from cdopt.dynamics.configuration import elastic_forces, slope
from cdopt.dynamics.method import Arrays
from cdopt.dynamics.records import ContactState
from cdopt.formulations import Sliders
from cdopt.scene import Dofs, Scene, State


@dataclass(frozen=True)
class SlidingSprings:
    """Springs of friction between two steps."""

    ids: IntArray  # (n,) ascending numbers of contacts
    force: FloatArray  # (n, dim) N, on the second bodies, at right angles to the normals
    normals: FloatArray  # (n, dim) of the contacts when the springs were stretched
    stiffness: FloatArray  # (n,) k_t, N/m
    acting: FloatArray  # (n, dim) N, f_t of the last step

    @staticmethod
    def none(dim: int) -> SlidingSprings:
        """Springs of a state without contacts."""
        empty = np.zeros((0, dim))
        return SlidingSprings(np.zeros(0, dtype=np.int64), empty, empty, np.zeros(0), empty)

    def stored(self) -> Arrays:
        """The arrays by name, for the file of a run."""
        return {f"spring_{field.name}": getattr(self, field.name) for field in fields(self)}

    @classmethod
    def restored(cls, arrays: Arrays) -> SlidingSprings:
        """The springs of a saved run."""
        return cls(*(arrays[f"spring_{field.name}"] for field in fields(cls)))

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
    """Data of a step from its predictor, of the contacts with friction."""

    ids: IntArray  # this and the next two as of SlidingSprings, at the start of the step
    force: FloatArray
    normals: FloatArray
    cap: FloatArray  # (n,) μ f_n, N
    stiffness: FloatArray  # (n,) k_t, N/m
    damping: FloatArray  # (n,) the tangential dashpot, N s/m
    lost: float  # J, of springs whose contacts parted or whose k_t changed

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
        force[here] = _turned(self.force[mine], self.normals[mine], contacts.normals[here])
        trial = np.einsum("ix,ikx->ik", force, rows.tangents)
        return Sliders(rows.B_t, stiffness, cap, trial, damping, rows.rate)

    def stretched(
        self, sliders: Sliders, contacts: Contacts, u: FloatArray, alpha: float, h: float
    ) -> tuple[SlidingSprings, float, float]:
        """Springs after a step by u (nv,), energy lost in friction, and work of walls, J."""
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
    law: PairFriction,
    interval: tuple[State, State, float],
    contacts: Contacts,
    springs: SlidingSprings,
    damped: bool = True,
) -> FrozenForces:
    """Springs of the step from a state; ``interval`` is that state, its predictor and h.

    ``contacts`` are those of the predictor; without ``damped`` dashpots do not count.
    """
    state, there, h = interval
    push, mass = elastic_forces(contacts, scene.power)[0], effective_mass(scene, contacts.bodies)
    dofs = scene.full_dofs
    rate = gap_gradient(scene, there, contacts, dofs) @ dofs.gather(state.v) + contacts.gap_rate
    push = np.maximum(push - damped * scene.damping * mass * rate, 0.0)
    mu = law.coefficients(scene, contacts.bodies)
    stiffness = law.ratios(scene, contacts.bodies) * slope(contacts, scene.power)
    used = np.flatnonzero((contacts.phi < 0.0) & ~contacts.bonded & (mu * push > 0.0))
    ids, normals, k = contacts.contact_ids[used], contacts.normals[used], stiffness[used]
    force = np.zeros_like(normals)
    _, here, mine = np.intersect1d(ids, springs.ids, return_indices=True)
    moved = _turned(springs.force[mine], springs.normals[mine], normals[here])
    if scene.dim == 3 and here.size:
        turning = state.angular_velocity[contacts.bodies[used[here]]].mean(axis=1)
        n, angle = normals[here], h * (turning * normals[here]).sum(axis=1)[:, None]
        moved = np.cos(angle) * moved + np.sin(angle) * np.cross(n, moved)
    force[here] = np.minimum(1.0, k[here] / springs.stiffness[mine])[:, None] * moved
    lost = springs.energy.sum() - ((force * force).sum(axis=1) / (2.0 * k)).sum()
    damping = damped * scene.gamma_t * mass[used]
    return FrozenForces(ids, force, normals, mu[used] * push[used], k, damping, float(lost))


def _turned(x: FloatArray, a: FloatArray, b: FloatArray) -> FloatArray:
    """Vectors x (n, dim), at right angles to a, turned by the least rotation from a to b."""
    share = (b * x).sum(axis=1) / (1.0 + (a * b).sum(axis=1))
    return np.asarray(x - share[:, None] * (a + b))
