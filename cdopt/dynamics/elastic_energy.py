"""Elastic energy of a scene: its forces, degrees of freedom and curvature in one state.

    ∇²E = Bᵀ w″(−Φ) B − Σ w′(−Φ) ∇²Φ

The second term, which linearised gaps leave out, softens contacts that push: of two spheres a
distance ρ apart ∇²Φ = (1 − nnᵀ)/ρ on their relative displacement; of a sphere and a half-space it
is zero. Where the whole is not positive semidefinite, an equilibrium is unstable: bodies buckle.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from scipy.sparse.linalg import eigsh, splu

from cdopt._util import checks
from cdopt._util.checks import FloatArray, IntArray
from cdopt._util.errors import InvalidInput
from cdopt.collision import Contacts, VerletList, detect, gap_gradient, mass_matrix, move
from cdopt.dynamics.records import ContactState
from cdopt.problem.contact_law import HOOKE, PowerLaw
from cdopt.scene import SHAPES, Dofs, HalfSpace, Scene, Sphere, State
from cdopt.scene.pairs import outward

_SHIFT = 1e-9  # of the stiffest contact: what keeps loose bodies from making it singular
_SOFT = 1e-8  # of the same: a curvature below minus this is negative
_DENSE = 400  # dofs up to which eigenvalues are found densely


# --- forces ------------------------------------------------------------------------------


def contact_state(scene: Scene, state: State, near: VerletList) -> ContactState:
    """Overlaps and bonds of a state, with their elastic forces."""
    contacts = detect(scene, state, 0.0, near)
    chosen = np.flatnonzero((contacts.phi < 0.0) | contacts.bonded)
    forces, energy = elastic_forces(contacts, scene.power, chosen)
    return ContactState(
        contact_ids=contacts.contact_ids[chosen],
        phi=contacts.phi[chosen],
        normals=contacts.normals[chosen],
        points=contacts.points[chosen],
        forces=forces,
        energy=energy,
    )


def elastic_forces(contacts: Contacts, power: float, chosen: IntArray) -> tuple[FloatArray, float]:
    """Elastic forces (n,) of some contacts, N, bonds of both signs, and the energy in them, J."""
    overlap, k = -contacts.phi[chosen], contacts.stiffness[chosen]
    bonded, law, spring = contacts.bonded[chosen], PowerLaw(k, power), k * overlap
    forces = np.where(bonded, spring, law.force(overlap))
    energy = np.where(bonded, 0.5 * spring * overlap, law.energy(overlap))
    return forces, float(energy.sum())


def slope(contacts: Contacts, power: float) -> FloatArray:
    """w″(−Φ) (nc,) of contacts, N/m."""
    overlap = np.maximum(-contacts.phi, 0.0)
    if power == HOOKE:
        return np.where((overlap > 0.0) | contacts.bonded, contacts.stiffness, 0.0)
    return PowerLaw(contacts.stiffness, power).tangent(overlap)


# --- unknowns ----------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Unknowns:
    """Degrees of freedom of the scene, then one for each wall: its way along its own normal, m.

    Attributes
    ----------
    dofs : of the scene.
    walls : (n,) numbers of the half-spaces that give way.
    push : (n,) force on each along its normal, towards the bodies, N.
    lever : (nv,) m for turns, 1 elsewhere: forces from generalised ones.
    body : (nv,) the body of each.
    """

    scene: Scene
    walls: IntArray
    push: FloatArray
    lever: FloatArray
    body: IntArray

    @classmethod
    def of(cls, scene: Scene, pushed: Mapping[int, float] | None) -> Unknowns:
        """Of a scene whose walls ``pushed`` give way to forces.

        Raises
        ------
        InvalidInput : not a half-space of the scene, or no finite force.
        """
        forces = {} if pushed is None else pushed
        b, dofs = scene.bodies, scene.dofs
        for wall, force in forces.items():
            if not 0 <= wall < b.nb:
                raise InvalidInput("pushed", checks.describe(wall), "numbers of half-spaces")
            if b.kind[wall] != SHAPES.index(HalfSpace):
                raise InvalidInput("pushed", b.label(int(wall)), "a half-space")
            checks.scalar(f"pushed[{wall}]", force)
        walls = np.array([int(w) for w in forces], dtype=np.int64)
        turns = dofs.column >= scene.dim
        lever = np.where(turns, b.reach[dofs.body], 1.0)
        return cls(
            scene=scene,
            walls=walls,
            push=np.array(list(forces.values()), dtype=np.float64),
            lever=np.append(lever, np.ones(walls.size)),
            body=np.append(dofs.body, walls),
        )

    @property
    def dofs(self) -> Dofs:
        """Degrees of freedom of the scene."""
        return self.scene.dofs

    def outward(self, state: State) -> FloatArray:
        """(n, dim) normals of the walls."""
        return outward(self.scene.bodies, state.orientation, self.walls)

    def gradient(self, state: State, contacts: Contacts) -> sp.csr_array:
        """B (nc, nv), of walls too."""
        B = gap_gradient(self.scene, state, contacts)
        if not self.walls.size:
            return B
        columns = np.zeros((contacts.nc, self.walls.size))
        for k, (wall, normal) in enumerate(zip(self.walls, self.outward(state), strict=True)):
            for side, sign in ((0, -1.0), (1, 1.0)):
                mine = contacts.bodies[:, side] == wall
                columns[mine, k] += sign * (contacts.normals[mine] @ normal)
        return sp.csr_array(sp.hstack([B, sp.csr_array(columns)]))

    def mass(self, state: State) -> sp.csr_array:
        """M (nv, nv); a wall, which states none, counts as one average body."""
        M = mass_matrix(self.scene, state)
        if not self.walls.size:
            return M
        free = self.scene.bodies.mass[~self.scene.bodies.fixed]
        walls = sp.diags_array(np.full(self.walls.size, float(free.mean())))
        return sp.csr_array(sp.block_diag([M, walls]))

    def moved(self, state: State, u: FloatArray) -> State:
        """Everything displaced by u (nv,)."""
        way = self.dofs.scatter(u[: self.dofs.nv], np.zeros_like(state.v))
        way[self.walls, : self.scene.dim] = u[self.dofs.nv :, None] * self.outward(state)
        return State(state.t, move(state, way, 1.0), state.v)


# --- curvature ---------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Curvature:
    """∇²E at one state.

    Attributes
    ----------
    matrix : (nv, nv) N/m. stiffest : w″ of the stiffest contact, N/m.
    least : no eigenvalue is below, N/m.
    """

    matrix: sp.csc_array
    stiffest: float
    least: float

    def step(self, unbalanced: FloatArray) -> FloatArray | None:
        """Newton's step (nv,) where the energy is convex, else None."""
        factor = _factor(self._shifted(_SHIFT))
        if factor is None or np.any(factor.U.diagonal() <= 0.0):
            return None
        return np.asarray(factor.solve(unbalanced))

    @property
    def stable(self) -> bool:
        """Whether no direction has negative curvature, contacts that just touch left out."""
        factor = _factor(self._shifted(_SOFT))
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

    def _shifted(self, share: float) -> sp.csc_array:
        size = self.matrix.shape[0]
        unit = self.stiffest or 1.0
        return sp.csc_array(self.matrix + sp.eye_array(size) * (share * unit))


@dataclass(frozen=True, eq=False)
class Configuration:
    """A state with its contacts and their elastic forces.

    Attributes
    ----------
    B : (nc, nv). forces : (nc,) w′(−Φ), N. energy : stored in all contacts, J.
    """

    unknowns: Unknowns
    state: State
    contacts: Contacts
    B: sp.csr_array
    forces: FloatArray
    energy: float

    @classmethod
    def of(
        cls, unknowns: Unknowns, state: State, margin: float, near: VerletList | None = None
    ) -> Configuration:
        """Of a state, with contacts of gaps up to ``margin`` m."""
        contacts = detect(unknowns.scene, state, margin, near)
        every = np.arange(contacts.nc)
        forces, energy = elastic_forces(contacts, unknowns.scene.power, every)
        return cls(unknowns, state, contacts, unknowns.gradient(state, contacts), forces, energy)

    @property
    def slope(self) -> FloatArray:
        """w″(−Φ) (nc,), N/m."""
        return slope(self.contacts, self.unknowns.scene.power)

    def curvature(self) -> Curvature | None:
        """∇²E; None where contacts that push are of other shapes than spheres and half-spaces."""
        steep, contacts = self.slope, self.contacts
        loaded = np.flatnonzero(self.forces != 0.0)
        kind = self.unknowns.scene.bodies.kind[contacts.bodies[loaded]]
        is_sphere = kind == SHAPES.index(Sphere)
        if not np.all(is_sphere | (kind == SHAPES.index(HalfSpace))):
            return None
        pairs = loaded[is_sphere.all(axis=1)]
        matrix, least = self.B.T @ sp.diags_array(steep) @ self.B, 0.0
        if pairs.size:
            rotating = self._rotating(pairs)
            matrix, least = matrix - rotating, -float(abs(rotating).sum(axis=1).max())
        return Curvature(sp.csc_array(matrix), float(steep.max(initial=0.0)), least)

    def _rotating(self, pairs: IntArray) -> sp.csr_array:
        """Σ w′ ∇²Φ (nv, nv) of contacts between spheres."""
        dim, number = self.unknowns.scene.dim, self.unknowns.dofs.number
        i, j = self.contacts.bodies[pairs].T
        arm, box = self.state.position[j] - self.state.position[i], self.unknowns.scene.box
        apart = np.linalg.norm(arm if box is None else box.nearest(arm, self.state.t), axis=1)
        n = self.contacts.normals[pairs]
        across = np.eye(dim)[None] - n[:, :, None] * n[:, None, :]
        block = across * (self.forces[pairs] / apart)[:, None, None]
        both = np.stack([number[i, :dim], number[j, :dim]], axis=1).reshape(pairs.size, -1)
        blocks = np.block([[block, -block], [-block, block]])
        row, column, blocks = np.broadcast_arrays(both[:, :, None], both[:, None, :], blocks)
        free = (row >= 0) & (column >= 0)
        size = self.unknowns.lever.size
        entries = blocks[free], (row[free], column[free])
        return sp.csr_array(sp.coo_array(entries, shape=(size, size)))


def _factor(matrix: sp.csc_array) -> Any:
    """L U without pivoting, whose diagonal has the signs of the eigenvalues; None if it fails."""
    try:
        factor = splu(
            matrix,
            permc_spec="MMD_AT_PLUS_A",
            diag_pivot_thresh=0.0,
            options={"SymmetricMode": True},
        )
    except RuntimeError:  # exactly singular
        return None
    return factor if np.array_equal(factor.perm_r, factor.perm_c) else None
