"""Steps of a scene of spheres and walls: compiled loops with an up-to-date neighbour list."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
import scipy.sparse as sp
from scipy.sparse.linalg import splu

from cdopt._util import checks
from cdopt._util.cached import changed
from cdopt._util.checks import FloatArray
from cdopt.collision import PairFriction
from cdopt.dynamics.records import ContactState
from cdopt.dynamics.spheres import steps as loops
from cdopt.dynamics.spheres.forces import find_active
from cdopt.dynamics.spheres.steps import DIVERGED, DONE, NEEDS_SOLVE, STALE, TOO_DEEP
from cdopt.dynamics.spheres.system import (
    Memory,
    NeighborList,
    Scheme,
    SphereArrays,
    SphereMotion,
    Springs,
    memory_of,
    motion_of,
    neighbor_list,
    springs_of,
    state_of,
    system_of,
    work_arrays,
)
from cdopt.geometry.polytope import FEATURES
from cdopt.scene import Scene, State

TOO_FAST = 10  # an outcome in addition to those of ``steps``

_AT_ONCE = 500  # steps of one call, so that Ctrl-C is noticed
_FARTHEST = 4.0  # smallest radii: the widest skin; a step goes half as far at most
_SKIN = 0.3  # of the smallest radius: balances new lists and idle pairs


@dataclass(frozen=True)
class Integration:
    """The result of integration.

    Attributes
    ----------
    state : after ``done`` steps. outcome : DONE, or why the next step could not be taken.
    residual : of the worst step, as a share of the largest force on each body.
    missed : of the step that could not be taken.
    newton, linear : iterations in all, of Newton's method and of the linear solver.
    energy : J, as in ``cdopt.dynamics.linearised.Passes``.
    """

    state: State
    done: int
    outcome: int
    residual: float = 0.0
    missed: float = 0.0
    newton: int = 0
    linear: int = 0
    energy: tuple[float, ...] = (0.0, 0.0, 0.0)


# a compiled loop: takes up to a number of steps, returns the outcome and how many it took
Loop = Callable[[SphereArrays, int], tuple[int, int]]


class SphereStepper:
    """Compiled steps of one scene of spheres and walls, with its neighbour list.

    Parameters
    ----------
    law : of friction; None for none.
    """

    def __init__(self, scene: Scene, law: PairFriction | None = None) -> None:
        self.scene, self.law = checks.instance("scene", scene, Scene), law
        if law is not None:
            checks.instance("law", law, PairFriction)
        self.system = system_of(scene)
        self._least = float(self.system.radius[self.system.radius > 0.0].min())
        self.skin = _SKIN * self._least
        self._neighbors: NeighborList | None = None
        self._springs: Springs | None = None
        self._memory = Memory()
        self._current: tuple[FloatArray, FloatArray, SphereMotion] | None = None
        self._force: FloatArray | None = None  # at the end of the last steps
        self._still = np.zeros((scene.nb, 6))
        none, vectors = np.zeros(0), np.zeros((0, scene.dim))
        loose = None if law is None else vectors
        self._no_contacts = ContactState(
            none.astype(np.int64), none, vectors, vectors, none, 0.0, loose
        )

    @property
    def memory(self) -> Memory:
        """The springs of friction after the last step, the start of the next."""
        springs, neighbors = self._springs, self._neighbors
        if self.law is not None and springs is not None and neighbors is not None:
            self._memory = memory_of(springs, neighbors, self.scene.nb)
        return self._memory

    @memory.setter
    def memory(self, memory: Memory) -> None:
        self._memory, self._neighbors, self._springs = memory, None, None

    def variational(self, state: State, steps: int, scheme: Scheme) -> Integration:
        """Steps of the variational integrator, with the settings of ``scheme``."""
        self.scene.check_state(state)
        steps = checks.whole("steps", steps, 0)
        checks.instance("scheme", scheme, Scheme)
        iterations, worst, ledger = np.zeros(2), np.zeros(2), np.zeros(4)

        def loop(arrays: SphereArrays, n: int) -> tuple[int, int]:
            """Up to n steps; linear systems that the compiled loop asks for are solved here."""
            done = 0
            while True:
                outcome, some = loops.variational(arrays, n - done, iterations, worst, ledger)
                done += some
                if outcome != NEEDS_SOLVE:
                    return outcome, done
                if not _solve(arrays):
                    arrays.work.pending[:] = 0
                    return DIVERGED, done

        ended = self._integrate(state, steps, scheme, loop)
        (residual, missed), (newton, linear) = worst.tolist(), iterations.astype(int).tolist()
        counts = {"residual": residual, "missed": missed, "newton": newton, "linear": linear}
        return changed(ended, **counts, energy=self._counted(ledger))

    def _counted(self, ledger: FloatArray) -> tuple[float, ...]:
        """``Integration.energy`` of a ledger."""
        return tuple(ledger[: 3 if self.law is None else 4].tolist())

    def velocity_verlet(
        self, state: State, steps: int, h: float, force: FloatArray
    ) -> tuple[Integration, FloatArray]:
        """Steps of velocity-Verlet, ``h`` s each; ``force`` (nb, 6) at the start and the end."""
        self.scene.check_state(state)
        steps, h = checks.whole("steps", steps, 0), checks.positive("h", h)
        if force is not self._force:
            force = checks.numbers("force", force, (self.scene.nb, 6), "N")
        start, force, ledger = force, force.copy(), np.zeros(4)
        springs = self.memory

        def loop(arrays: SphereArrays, n: int) -> tuple[int, int]:
            """Up to n steps, which carry ``force`` on."""
            outcome: tuple[int, int] = loops.velocity_verlet(arrays, force, n, ledger)
            return outcome

        ended = self._integrate(state, steps, Scheme(h), loop)
        if ended.outcome == TOO_DEEP:  # the loop passed the last valid state: return to it
            force[:], ledger[:], self.memory = start, 0.0, springs
            ended = self._integrate(state, ended.done, Scheme(h), loop)
            ended = replace(ended, outcome=TOO_DEEP)
        self._force = force
        return changed(ended, energy=self._counted(ledger)), force

    def forces(self, state: State) -> FloatArray:
        """Loads, elastic, damping and frictional forces (nb, 6) in a state, N and N·m."""
        self.scene.check_state(state)
        m, out = motion_of(state), np.zeros((state.nb, 6))
        arrays = self._arrays(m, self._list(m, self.skin), Scheme(1.0))
        arrays.work.d[:] = m.v
        loops.all_forces(arrays, 0.0, out)
        return out

    def contacts(self, state: State) -> ContactState:
        """Contacts that overlap, and bonds, in a state, with their elastic forces."""
        self.scene.check_state(state)
        m, still, neighbors = self._motion_of(state), self._still, self._neighbors
        if neighbors is None or loops.outdated(neighbors, m.x, still):
            neighbors = self._list(m, self.skin)
        arrays = self._arrays(m, neighbors, Scheme(1.0))
        active, springs, dim = arrays.active, arrays.springs, self.scene.dim
        arrays.work.damped[:] = False
        count = find_active(arrays, still, 0.0)
        if count == 0:
            return self._no_contacts
        c = active.pair[:count]
        i, j = neighbors.i[c], neighbors.j[c]
        ids = (np.minimum(i, j) * self.scene.nb + np.maximum(i, j)) * FEATURES
        order = np.argsort(ids)
        c, i, swap = c[order], i[order], (i > j)[order, None]
        n, overlap, force = active.n[order], active.overlap[order], active.force[order]
        points = m.x[i] - n * (self.system.radius[i] - 0.5 * overlap)[:, None]
        share = np.where(neighbors.bonded[c], 0.5, 1.0 / self.system.power)
        energy = float((share * force * overlap).sum())
        tangential, energy_t = None, 0.0
        if self.law is not None:
            tangential = np.where(swap, -1.0, 1.0) * springs.force[c][:, :dim] + 0.0
            square = (springs.xi[c] ** 2 + springs.roll[c] ** 2).sum(axis=1) + springs.twist[c] ** 2
            energy_t = float(0.5 * (springs.stiffness[c] * square).sum())
        return ContactState._of(
            contact_ids=ids[order],
            phi=-overlap,
            normals=np.where(swap, n, -n)[:, :dim] + 0.0,
            points=points[:, :dim],
            forces=force,
            energy=energy + energy_t,
            tangential=tangential,
            energy_t=energy_t,
        )

    def _integrate(self, state: State, steps: int, scheme: Scheme, loop: Loop) -> Integration:
        """Call a compiled loop until its steps are done, with a new neighbour list as needed."""
        m = self._motion_of(state)
        self._current = None
        done, skin, outcome = 0, self.skin, DONE
        neighbors = self._neighbors or self._list(m, skin)
        while done < steps:
            outcome, some = loop(self._arrays(m, neighbors, scheme), min(steps - done, _AT_ONCE))
            done += some
            if outcome == DONE:
                continue
            if outcome != STALE:
                break
            if some == 0 and np.array_equal(neighbors.listed, m.x):
                skin = 2.0 * neighbors.skin  # one step goes further than the list allows
                if skin > _FARTHEST * self._least:
                    outcome = TOO_FAST
                    break
            neighbors = self._list(m, skin)
        ended = state_of(m, state.t + done * scheme.h, self.scene.dim)
        self._current = ended.q, ended.v, m
        return Integration(ended, done, outcome)

    def _motion_of(self, state: State) -> SphereMotion:
        """Arrays of a state: those of the last integration, if it ended there."""
        current = self._current
        if current is not None and current[0] is state.q and current[1] is state.v:
            return current[2]
        return motion_of(state)

    def _arrays(self, m: SphereMotion, neighbors: NeighborList, scheme: Scheme) -> SphereArrays:
        """The arguments of a loop; ``neighbors`` is the list made last."""
        if self._springs is None:
            self._springs = springs_of(self.scene, self.law, neighbors, self._memory)
        parts = (self.system, m, neighbors, self._active, self._work, scheme, self._springs)
        return SphereArrays(*parts)

    def _list(self, m: SphereMotion, skin: float) -> NeighborList:
        """Make a neighbour list, and arrays of its size."""
        frictional = self.law is not None
        if frictional:
            self._memory, self._springs = self.memory, None
        self._neighbors = neighbor_list(self.scene, m.x, self.system.normal, skin, frictional)
        self._active, self._work = work_arrays(self.scene.nb, self._neighbors.i.size)
        return self._neighbors


def _solve(arrays: SphereArrays) -> bool:
    """Solve a linear system of Newton's method by sparse factorisation, if it is regular."""
    g, neighbors, w = arrays.system, arrays.neighbors, arrays.work
    count = int(w.pending[3])
    blocks = np.empty((count, 12, 12))
    loops.fill_blocks(arrays, blocks)
    c = arrays.active.pair[:count]
    bodies = np.stack([neighbors.i[c], neighbors.j[c]], axis=1)
    dofs = (6 * bodies[:, :, None] + np.arange(6)).reshape(count, 12)
    rows, columns = np.repeat(dofs, 12, axis=1).ravel(), np.tile(dofs, (1, 12)).ravel()
    size = 6 * g.free.size
    contacts = sp.coo_array((blocks.ravel(), (rows, columns)), shape=(size, size))
    matrix = sp.csr_array(contacts + sp.diags_array(g.weight.ravel() / arrays.scheme.h))
    free = np.repeat(g.free, 6)
    w.z[:] = 0.0
    try:
        solution = splu(matrix[free][:, free].tocsc()).solve(w.R[g.free].ravel())
    except RuntimeError:  # singular to round-off
        return False
    w.z[g.free] = solution.reshape(-1, 6)
    return True
