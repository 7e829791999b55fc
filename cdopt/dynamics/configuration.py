"""A state of a scene with its elastic contacts: forces, energy, their gradient and curvature."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from scipy.sparse.linalg import eigsh, splu

from cdopt._util import checks
from cdopt._util.cached import cached_property
from cdopt._util.checks import FloatArray, IntArray
from cdopt._util.errors import InvalidInput
from cdopt.collision import Contacts, VerletList, detect, gap_gradient, mass_matrix, move
from cdopt.dynamics.records import ContactState
from cdopt.problem.contact_law import HOOKE, PowerLaw
from cdopt.scene import SHAPES, Dofs, HalfSpace, Scene, Sphere, State
from cdopt.scene.pairs import outward

MARGIN = 0.5  # of the smallest half-width: gaps that a pass may close
ROUND_OFF = 64.0 * np.finfo(float).eps
_TRIFLE = 1e-6  # of the smallest half-width: forces at smaller overlaps are measured by its
_SHIFT = 1e-9  # of the stiffest contact: regularises bodies that are loose
_SOFT = 1e-8  # of the same: a curvature below minus this is negative
_DENSE = 400  # dofs up to which eigenvalues are computed densely


def half_width(scene: Scene) -> float:
    """The smallest half-width of a body, m."""
    core = scene.bodies.core
    return float(core[np.isfinite(core)].min())


def levers(scene: Scene, dofs: Dofs) -> FloatArray:
    """(nv,) m for turns, 1 elsewhere: forces from generalised ones."""
    return np.where(dofs.column >= scene.dim, scene.bodies.reach[dofs.body], 1.0)


def named(scene: Scene, bodies: Iterable[int]) -> str:
    """Up to ten bodies by name."""
    labels = [scene.bodies.label(int(k)) for k in bodies]
    return ", ".join(labels[:10] + ["…"] * (len(labels) > 10))


# --- forces ------------------------------------------------------------------------------


def contact_state(scene: Scene, state: State, near: VerletList) -> ContactState:
    """Overlaps and bonds of a state, with their elastic forces."""
    contacts = detect(scene, state, 0.0, near)
    chosen = np.flatnonzero((contacts.phi < 0.0) | contacts.bonded)
    forces, energies = elastic_forces(contacts, scene.power, chosen)
    return ContactState(
        contact_ids=contacts.contact_ids[chosen],
        phi=contacts.phi[chosen],
        normals=contacts.normals[chosen],
        points=contacts.points[chosen],
        forces=forces,
        energy=float(energies.sum()),
    )


def elastic_forces(
    contacts: Contacts, power: float, chosen: Any = slice(None)
) -> tuple[FloatArray, FloatArray]:
    """Elastic forces (n,) of contacts, N, of bonds of both signs, and the energies in them, J."""
    overlap, k = -contacts.phi[chosen], contacts.stiffness[chosen]
    bonded, law, spring = contacts.bonded[chosen], PowerLaw(k, power), k * overlap
    forces = np.where(bonded, spring, law.force(overlap))
    return forces, np.where(bonded, 0.5 * spring * overlap, law.energy(overlap))


def slope(contacts: Contacts, power: float) -> FloatArray:
    """w″(−Φ) (nc,) of contacts, N/m."""
    overlap = np.maximum(-contacts.phi, 0.0)
    if power == HOOKE:
        return np.where((overlap > 0.0) | contacts.bonded, contacts.stiffness, 0.0)
    return PowerLaw(contacts.stiffness, power).tangent(overlap)


def negligible_forces(contacts: Contacts, power: float, width: float) -> FloatArray:
    """(nc,) forces at an overlap of a millionth of the ``width``, N."""
    return PowerLaw(contacts.stiffness, power).force(np.full(contacts.nc, _TRIFLE * width))


# --- unknowns and curvature --------------------------------------------------------------


class Unknowns:
    """Degrees of freedom, then for each wall that gives way its displacement along its normal, m.

    ``dofs`` are by default the scene's. ``wall_forces`` (n,) are those on the ``walls`` (n,) along
    their normals, towards the bodies, N; ``lever`` and ``body`` (nv,) the lever and the body of
    each degree of freedom.
    """

    def __init__(
        self, scene: Scene, pushed: Mapping[int, float] | None = None, dofs: Dofs | None = None
    ) -> None:
        forces, b = checks.mapping("pushed", {} if pushed is None else pushed), scene.bodies
        for wall, force in forces.items():
            if not isinstance(wall, int | np.integer) or not 0 <= wall < b.nb:
                raise InvalidInput("pushed", checks.describe(wall), "numbers of half-spaces")
            if b.kind[wall] != SHAPES.index(HalfSpace):
                raise InvalidInput("pushed", b.label(int(wall)), "a half-space")
            checks.scalar(f"pushed[{wall}]", force)
        self.scene, self.dofs = scene, scene.dofs if dofs is None else dofs
        self.walls = np.array([int(w) for w in forces], dtype=np.int64)
        self.wall_forces = np.array(list(forces.values()), dtype=np.float64)
        self.lever = np.append(levers(scene, self.dofs), np.ones(self.walls.size))
        self.body = np.append(self.dofs.body, self.walls)

    def _outward(self, state: State) -> FloatArray:
        """(n, dim) normals of the walls."""
        return outward(self.scene.bodies, state.orientation, self.walls)

    def gradient(self, state: State, contacts: Contacts) -> sp.csr_array:
        """B (nc, nv), of walls too."""
        B = gap_gradient(self.scene, state, contacts, self.dofs)
        if not self.walls.size:
            return B
        columns = np.zeros((contacts.nc, self.walls.size))
        for k, (wall, normal) in enumerate(zip(self.walls, self._outward(state), strict=True)):
            for side, sign in ((0, -1.0), (1, 1.0)):
                mine = contacts.bodies[:, side] == wall
                columns[mine, k] += sign * (contacts.normals[mine] @ normal)
        return sp.csr_array(sp.hstack([B, sp.csr_array(columns)]))

    def mass(self, state: State) -> sp.csr_array:
        """M (nv, nv); a wall counts as one average body."""
        M = mass_matrix(self.scene, state, self.dofs)
        if not self.walls.size:
            return M
        free = self.scene.bodies.mass[~self.scene.bodies.fixed]
        walls = sp.diags_array(np.full(self.walls.size, float(free.mean())))
        return sp.csr_array(sp.block_diag([M, walls]))

    def moved(self, state: State, u: FloatArray) -> State:
        """Everything displaced by u (nv,)."""
        way = self.dofs.scatter(u[: self.dofs.nv], np.zeros_like(state.v))
        way[self.walls, : self.scene.dim] = u[self.dofs.nv :, None] * self._outward(state)
        return State(state.t, move(state, way, 1.0), state.v)


class Configuration:
    """A state with its contacts of gaps up to ``margin`` m, and their elastic forces and energy.

    ``forces`` (nc,) are w′(−Φ), N, and ``contact_load`` (nv,) is Bᵀ w′, N and N·m.
    """

    def __init__(
        self, unknowns: Unknowns, state: State, margin: float, near: VerletList | None = None
    ) -> None:
        self.unknowns, self.state = unknowns, state
        self.contacts = detect(unknowns.scene, state, margin, near)
        self.forces, energies = elastic_forces(self.contacts, unknowns.scene.power)
        self.energy = float(energies.sum())
        self.B = unknowns.gradient(state, self.contacts)
        self.contact_load = self.B.T @ self.forces

    @cached_property
    def slope(self) -> FloatArray:
        """w″(−Φ) (nc,), N/m."""
        return slope(self.contacts, self.unknowns.scene.power)

    def one_sided(self) -> tuple[sp.csr_array, FloatArray, FloatArray]:
        """B, Φ and k; a bond is a contact and its mirror image, which pulls."""
        B, contacts = self.B, self.contacts
        tied = np.flatnonzero(contacts.bonded)
        if not tied.size:
            return B, contacts.phi, contacts.stiffness
        return (
            sp.csr_array(sp.vstack([B, -B[tied]])),
            np.concatenate([contacts.phi, -contacts.phi[tied]]),
            np.concatenate([contacts.stiffness, contacts.stiffness[tied]]),
        )

    def curvature(self) -> Curvature | None:
        """∇²E; None where contacts that push are of other shapes than spheres and half-spaces."""
        loaded = np.flatnonzero(self.forces != 0.0)
        kind = self.unknowns.scene.bodies.kind[self.contacts.bodies[loaded]]
        is_sphere = kind == SHAPES.index(Sphere)
        if not np.all(is_sphere | (kind == SHAPES.index(HalfSpace))):
            return None
        pairs = loaded[is_sphere.all(axis=1)]
        matrix, least = self.B.T @ sp.diags_array(self.slope) @ self.B, 0.0
        if pairs.size:
            rotating = self._rotating(pairs)
            matrix, least = matrix - rotating, -float(abs(rotating).sum(axis=1).max())
        return Curvature(sp.csc_array(matrix), float(self.slope.max(initial=0.0)), least)

    def _rotating(self, pairs: IntArray) -> sp.csr_array:
        """Σ w′ ∇²Φ (nv, nv) of contacts between spheres."""
        scene, number = self.unknowns.scene, self.unknowns.dofs.number
        i, j = self.contacts.bodies[pairs].T
        arm, box = self.state.position[j] - self.state.position[i], scene.box
        apart = np.linalg.norm(arm if box is None else box.nearest(arm, self.state.t), axis=1)
        n = self.contacts.normals[pairs]
        across = np.eye(scene.dim)[None] - n[:, :, None] * n[:, None, :]
        block = across * (self.forces[pairs] / apart)[:, None, None]
        both = np.stack([number[i, : scene.dim], number[j, : scene.dim]], axis=1)
        both = both.reshape(pairs.size, -1)
        blocks = np.block([[block, -block], [-block, block]])
        row, column, blocks = np.broadcast_arrays(both[:, :, None], both[:, None, :], blocks)
        free = (row >= 0) & (column >= 0)
        size = self.unknowns.lever.size
        entries = blocks[free], (row[free], column[free])
        return sp.csr_array(sp.coo_array(entries, shape=(size, size)))


@dataclass(frozen=True, eq=False)
class Curvature:
    """∇²E (nv, nv) at one state, N/m.

    ``stiffest`` is w″ of the stiffest contact; no eigenvalue is below ``least``, N/m.
    """

    matrix: sp.csc_array
    stiffest: float
    least: float

    def step(self, unbalanced: FloatArray) -> FloatArray | None:
        """Newton's step (nv,) where the energy is convex, else None."""
        factor = self._factor(_SHIFT)
        if factor is None or np.any(factor.U.diagonal() <= 0.0):
            return None
        return np.asarray(factor.solve(unbalanced))

    @property
    def stable(self) -> bool:
        """Whether no direction has negative curvature, contacts that just touch left out."""
        factor = self._factor(_SOFT)
        if factor is None:
            return bool(self.softest()[0] >= -_SOFT * self.stiffest)
        return bool(np.all(factor.U.diagonal() > 0.0))

    def softest(self) -> tuple[float, FloatArray]:
        """The least curvature, N/m, and its direction (nv,) of length 1."""
        size = self.matrix.shape[0]
        if size <= _DENSE:
            values, vectors = np.linalg.eigh(self.matrix.toarray())
        else:
            start = np.cos(np.arange(size))  # a share of every direction, always the same
            below = 1.01 * self.least - _SOFT * self.stiffest
            values, vectors = eigsh(self.matrix, k=1, sigma=below, v0=start, tol=1e-6)
        way = vectors[:, 0]
        return float(values[0]), np.asarray(way * np.sign(way[np.argmax(np.abs(way))]))

    def _factor(self, share: float) -> Any:
        """L U without pivoting, a share of the stiffest contact added; None if it fails."""
        shift = sp.eye_array(self.matrix.shape[0]) * (share * (self.stiffest or 1.0))
        try:
            factor = splu(
                sp.csc_array(self.matrix + shift),
                permc_spec="MMD_AT_PLUS_A",
                diag_pivot_thresh=0.0,
                options={"SymmetricMode": True},
            )
        except RuntimeError:  # exactly singular
            return None
        return factor if np.array_equal(factor.perm_r, factor.perm_c) else None
