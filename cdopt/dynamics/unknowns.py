"""What an equilibrium is sought for: the scene's degrees of freedom, and places of pushed walls."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp

from cdopt._util import checks
from cdopt._util.checks import FloatArray, IntArray
from cdopt._util.errors import InvalidInput
from cdopt.collision import Contacts, gap_gradient, mass_matrix, move
from cdopt.geometry.rotations import matrices
from cdopt.scene import Dofs, HalfSpace, Scene, State
from cdopt.scene.shapes import SHAPES


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
        InvalidInput : not a half-space of the scene, or not a force.
        """
        given = {} if pushed is None else pushed
        if not isinstance(given, Mapping):
            raise InvalidInput("pushed", checks.describe(given), "forces in N by numbers of walls")
        b, dofs = scene.bodies, scene.dofs
        for wall, force in given.items():
            if not isinstance(wall, int | np.integer) or not 0 <= wall < b.nb:
                raise InvalidInput("pushed", checks.describe(wall), "numbers of half-spaces")
            if b.kind[wall] != SHAPES.index(HalfSpace):
                raise InvalidInput("pushed", b.label(int(wall)), "a half-space")
            checks.scalar(f"pushed[{wall}]", force)
        walls = np.array([int(w) for w in given], dtype=np.int64)
        turns = dofs.column >= scene.dim
        lever = np.where(turns, b.reach[dofs.body], 1.0)
        return cls(
            scene=scene,
            walls=walls,
            push=np.array(list(given.values()), dtype=np.float64),
            lever=np.append(lever, np.ones(walls.size)),
            body=np.append(dofs.body, walls),
        )

    @property
    def dofs(self) -> Dofs:
        """Degrees of freedom of the scene."""
        return self.scene.dofs

    def outward(self, state: State) -> FloatArray:
        """(n, dim) normals of the walls."""
        if not self.walls.size:
            return np.zeros((0, self.scene.dim))
        own = self.scene.bodies.shape_columns(HalfSpace, self.walls)["normal"]
        return np.asarray(np.einsum("nij,nj->ni", matrices(state.orientation[self.walls]), own))

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
        own = sp.diags_array(np.full(self.walls.size, float(free.mean())))
        return sp.csr_array(sp.block_diag([M, own]))

    def moved(self, state: State, u: FloatArray) -> State:
        """Everything displaced by u (nv,)."""
        way = self.dofs.scatter(u[: self.dofs.nv], np.zeros_like(state.v))
        way[self.walls, : self.scene.dim] = u[self.dofs.nv :, None] * self.outward(state)
        return State(state.t, move(state, way, 1.0), state.v)
