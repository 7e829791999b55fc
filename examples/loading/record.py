"""What an experiment leaves: equilibria one after the other, and how the network changed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from typing import Any, TypeVar

import numpy as np

from cdopt._util import checks
from cdopt._util.checks import FloatArray, IntArray
from cdopt._util.errors import SolveFailed
from cdopt._util.frozen import Frozen
from cdopt._util.progress import ProgressCallback, progress_bar
from cdopt.collision import Contacts
from cdopt.collision import step as contact_step
from cdopt.dynamics import Equilibrium
from cdopt.problem.contact_step import ContactStep
from cdopt.scene import Scene, State

IDLE = 1e-6  # of the largest force: contacts with less do not count as carrying
_DEEP = 1e-12  # of the smallest half-width: nor do overlaps of round-off


@dataclass(frozen=True, eq=False)
class LoadingPath(Frozen):
    """Equilibria of a scene under changing load, n of them, the start included.

    A contact counts where it carries more than a millionth of the largest force.

    Attributes
    ----------
    scene : the scene.
    equilibria : n, each with its state, contacts and forces.
    energy : (n,) elastic, J.
    potential : (n,) J, elastic and that of weights and of constant forces on bodies, from the
        scene's initial places.
    contacts : (n,) how many carry.
    born, lost : (n,) contacts that carry and did not one equilibrium before, and the other way
        round; 0 at the start.
    rattlers : (n,) free bodies without a contact.
    coordination : (n,) contacts that a free body has on the average, rattlers left out.
    fabric : (n, dim, dim) mean n nᵀ of the normals n of contacts between free bodies; zero
        without any.
    residual : (n,) as in Equilibrium. passes : (n,) gaps linearised.
    failure : why the next equilibrium was not found; "" if all were.
    """

    scene: Scene
    equilibria: tuple[Equilibrium, ...]
    energy: FloatArray
    potential: FloatArray
    contacts: IntArray
    born: IntArray
    lost: IntArray
    rattlers: IntArray
    coordination: FloatArray
    fabric: FloatArray
    residual: FloatArray
    passes: IntArray
    failure: str

    def __len__(self) -> int:
        return len(self.equilibria)

    @property
    def ok(self) -> bool:
        """Whether every equilibrium was found."""
        return not self.failure

    @property
    def anisotropy(self) -> FloatArray:
        """(n,) largest less smallest eigenvalue of the fabric: 0 with no preferred direction."""
        values = np.linalg.eigvalsh(self.fabric)
        return np.asarray(values[:, -1] - values[:, 0])

    def step(self, k: int) -> ContactStep:
        """The contact step of the contacts that carry in equilibrium ``k``, for pictures."""
        found = self.equilibria[checks.index("k", k, len(self.equilibria))]
        own = carriers(self.scene, found)
        kept = {f.name: getattr(found.contacts, f.name)[own] for f in fields(found.contacts)}
        return contact_step(self.scene, found.state, Contacts(**kept), 1.0)

    def forces(self, k: int) -> FloatArray:
        """(nc,) of ``step(k)``, N."""
        found = self.equilibria[checks.index("k", k, len(self.equilibria))]
        return np.asarray(found.forces[carriers(self.scene, found)])


class LoadingFailed(SolveFailed):
    """No equilibrium at one step of an experiment; ``record`` holds those before.

    The message and what else is known ``about`` it are those of SolveFailed.
    """

    def __init__(self, message: str, *, record: Any = None, **about: Any) -> None:
        super().__init__(message, **about)
        self.record = record


class LoadingInterrupted(KeyboardInterrupt):
    """Ctrl-C during an experiment; ``record`` is what was done until then."""

    record: Any = None


Record = TypeVar("Record", bound=LoadingPath)


def follow(
    first: Equilibrium,
    steps: int,
    take: Callable[[int, Equilibrium], Equilibrium],
    written: Callable[[list[Equilibrium], str], Record],
    progress: bool | ProgressCallback,
    on_failure: str,
) -> Record:
    """From equilibrium to equilibrium.

    Parameters
    ----------
    take : of the step's number, from 0, and the equilibrium before. written : the record of
        equilibria, and of why there are no more.
    on_failure : "stop" raises, "keep" returns what there is.

    Raises
    ------
    LoadingFailed, LoadingInterrupted : with the record so far.
    """
    strict = checks.choice("on_failure", on_failure, ("stop", "keep")) == "stop"
    done = [first]
    with progress_bar(progress, "loading steps") as tell:
        for k in range(steps):
            try:
                done.append(take(k, done[-1]))
                tell(k + 1, steps, f"{done[-1].passes} passes, residual {done[-1].residual:.0e}")
            except SolveFailed as error:
                record = written(done, str(error))
                if not strict:
                    return record
                raise LoadingFailed(
                    f"loading step {k + 1} of {steps}: {error}", record=record,
                    backend=error.backend, status=error.status, problem=error.problem,
                    proof=error.proof, raw=error.raw,
                ) from error  # fmt: skip
            except KeyboardInterrupt as stop:
                halted = LoadingInterrupted(f"at loading step {k + 1} of {steps}")
                halted.record = written(done, "interrupted")
                raise halted from stop
    return written(done, "")


def started(scene: Scene, start: State | Equilibrium | None) -> State | Equilibrium:
    """Where an experiment starts, by default in the scene's initial state.

    Raises
    ------
    InvalidInput : it is of another scene.
    """
    if isinstance(start, Equilibrium):
        scene.check_state(start.state, "start")
        start.contacts.check_scene(scene)
        return start
    return scene.check_state(scene.initial if start is None else start, "start")


def common(scene: Scene, found: Sequence[Equilibrium], failure: str) -> dict[str, Any]:
    """The fields of a LoadingPath."""
    carrying = [carriers(scene, one) for one in found]
    names = [one.contacts.contact_ids[k] for one, k in zip(found, carrying, strict=True)]
    before = [names[0], *names[:-1]]
    changed = list(zip(names, before, strict=True))
    places = [_placed(scene, one, k) for one, k in zip(found, carrying, strict=True)]
    return {
        "scene": scene,
        "equilibria": tuple(found),
        "energy": np.array([one.energy for one in found]),
        "potential": np.array([one.energy + _weights(scene, one) for one in found]),
        "contacts": np.array([k.size for k in carrying]),
        "born": np.array([np.setdiff1d(now, then).size for now, then in changed]),
        "lost": np.array([np.setdiff1d(then, now).size for now, then in changed]),
        "rattlers": np.array([place[0] for place in places]),
        "coordination": np.array([place[1] for place in places]),
        "fabric": np.array([place[2] for place in places]),
        "residual": np.array([one.residual for one in found]),
        "passes": np.array([one.passes for one in found]),
        "failure": failure,
    }


def carriers(scene: Scene, found: Equilibrium) -> IntArray:
    """(m,) contacts of an equilibrium that carry."""
    least = IDLE * float(np.abs(found.forces).max(initial=0.0))
    core = scene.bodies.core[np.isfinite(scene.bodies.core)].min()
    deep = np.abs(found.contacts.phi) > _DEEP * core
    return np.flatnonzero(deep & (np.abs(found.forces) > least))


def _placed(scene: Scene, found: Equilibrium, carry: IntArray) -> tuple[int, float, FloatArray]:
    """Rattlers, coordination and fabric (dim, dim)."""
    free = ~scene.bodies.fixed
    ends = np.bincount(found.contacts.bodies[carry].ravel(), minlength=scene.nb)[free]
    held = int(np.count_nonzero(ends))
    within = carry[free[found.contacts.bodies[carry]].all(axis=1)]
    n = found.contacts.normals[within]
    fabric = n.T @ n / max(len(within), 1)
    return ends.size - held, float(ends.sum()) / max(held, 1), fabric


def _weights(scene: Scene, found: Equilibrium) -> float:
    """Potential energy of weights and constant forces, from the initial places, J."""
    b = scene.bodies
    free = ~b.fixed
    way = (found.state.position - scene.initial.position)[free]
    return -float((way * (b.mass[free, None] * scene.gravity + b.force[free])).sum())
