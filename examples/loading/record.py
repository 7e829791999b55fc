"""The record of an experiment: its equilibria, and how the contact network changed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields
from functools import cached_property
from typing import Any, TypeVar

import numpy as np

from cdopt import ContactStep, SolveFailed, collision
from cdopt._util import checks
from cdopt._util.progress import ProgressCallback, progress_bar
from cdopt.dynamics import Equilibrium
from cdopt.scene import Scene, State

IDLE = 1e-6  # of the largest force: contacts with less do not count as carrying
DEEP = 1e-12  # of the smallest half-width: nor do overlaps of round-off


@dataclass(frozen=True, eq=False)
class LoadingPath:
    """Equilibria of a scene under changing load, n of them, the start included.

    A contact counts where it carries more than a millionth of the largest force.

    Attributes
    ----------
    scene : the scene.
    equilibria : n, each with its state, contacts and forces.
    failure : why the next equilibrium was not found; "" if all were.
    """

    scene: Scene
    equilibria: tuple[Equilibrium, ...]
    failure: str

    def __len__(self) -> int:
        return len(self.equilibria)

    @property
    def ok(self) -> bool:
        """Whether every equilibrium was found."""
        return not self.failure

    @property
    def energy(self) -> np.ndarray:
        """(n,) elastic, J."""
        return np.array([rest.energy for rest in self.equilibria])

    @property
    def potential(self) -> np.ndarray:
        """(n,) J, elastic and that of weights and constant forces, from the initial places."""
        b, start = self.scene.bodies, self.scene.initial.position
        pull = np.where(b.fixed, 0.0, b.mass)[:, None] * self.scene.gravity
        pull = pull + np.where(b.fixed[:, None], 0.0, b.force)
        ways = [rest.state.position - start for rest in self.equilibria]
        return self.energy - [float((way * pull).sum()) for way in ways]

    @property
    def residual(self) -> np.ndarray:
        """(n,) as in Equilibrium."""
        return np.array([rest.residual for rest in self.equilibria])

    # --- the network -------------------------------------------------------------------

    @cached_property
    def carrying(self) -> list[np.ndarray]:
        """For each equilibrium the numbers of the contacts that carry."""
        core = self.scene.bodies.core
        deep = DEEP * core[np.isfinite(core)].min()
        carrying = []
        for rest in self.equilibria:
            size = np.abs(rest.forces)
            loaded = size > IDLE * size.max(initial=0.0)
            carrying.append(np.flatnonzero(loaded & (np.abs(rest.contacts.phi) > deep)))
        return carrying

    @property
    def contacts(self) -> np.ndarray:
        """(n,) how many carry."""
        return np.array([numbers.size for numbers in self.carrying])

    @property
    def gained(self) -> np.ndarray:
        """(n,) contacts with a force that had none in the previous equilibrium; 0 at the start."""
        ids = self._ids()
        return np.array([np.setdiff1d(a, b).size for a, b in zip(ids, ids[:1] + ids, strict=False)])

    @property
    def lost(self) -> np.ndarray:
        """(n,) contacts without force that had one in the previous equilibrium."""
        ids = self._ids()
        return np.array([np.setdiff1d(b, a).size for a, b in zip(ids, ids[:1] + ids, strict=False)])

    def _ids(self) -> list[np.ndarray]:
        pairs = zip(self.equilibria, self.carrying, strict=True)
        return [rest.contacts.contact_ids[numbers] for rest, numbers in pairs]

    @property
    def rattlers(self) -> np.ndarray:
        """(n,) free bodies without a contact."""
        return np.array([np.count_nonzero(ends == 0) for ends in self._ends()])

    @property
    def coordination(self) -> np.ndarray:
        """(n,) contacts that a free body has on the average, rattlers left out."""
        return np.array([ends.sum() / max(np.count_nonzero(ends), 1) for ends in self._ends()])

    def _ends(self) -> list[np.ndarray]:
        """For each equilibrium the number of contacts of each free body."""
        free, nb = ~self.scene.bodies.fixed, self.scene.nb
        pairs = zip(self.equilibria, self.carrying, strict=True)
        bodies = [rest.contacts.bodies[numbers].ravel() for rest, numbers in pairs]
        return [np.bincount(each, minlength=nb)[free] for each in bodies]

    @property
    def fabric(self) -> np.ndarray:
        """(n, dim, dim) mean n nᵀ of normals between free bodies; zero without contacts."""
        free = ~self.scene.bodies.fixed
        tensors = []
        for rest, numbers in zip(self.equilibria, self.carrying, strict=True):
            within = numbers[free[rest.contacts.bodies[numbers]].all(axis=1)]
            normals = rest.contacts.normals[within]
            tensors.append(normals.T @ normals / max(len(within), 1))
        return np.array(tensors)

    @property
    def anisotropy(self) -> np.ndarray:
        """(n,) largest less smallest eigenvalue of the fabric: 0 with no preferred direction."""
        values = np.linalg.eigvalsh(self.fabric)
        return values[:, -1] - values[:, 0]

    # --- for pictures ------------------------------------------------------------------

    def step(self, k: int) -> ContactStep:
        """The contact step of the contacts that carry in equilibrium ``k``."""
        rest, numbers = self.equilibria[k], self.carrying[k]
        kept = {f.name: getattr(rest.contacts, f.name)[numbers] for f in fields(rest.contacts)}
        contacts = collision.Contacts(**kept)
        return collision.step(self.scene, rest.state, contacts, 1.0, overlaps="resolve")

    def forces(self, k: int) -> np.ndarray:
        """(nc,) of ``step(k)``, N."""
        return self.equilibria[k].forces[self.carrying[k]]


class LoadingFailed(SolveFailed):
    """No equilibrium at one step of an experiment; ``record`` holds those before."""

    def __init__(self, message: str, *, record: Any = None, **about: Any) -> None:
        super().__init__(message, **about)
        self.record = record

    @classmethod
    def because(cls, error: SolveFailed, when: str, record: LoadingPath) -> LoadingFailed:
        """With everything that is known about the failed equilibrium."""
        names = ("backend", "status", "problem", "proof", "raw")
        about = {name: getattr(error, name) for name in names}
        return cls(f"{when}: {error}", record=record, **about)


class LoadingInterrupted(KeyboardInterrupt):
    """Ctrl-C during an experiment; ``record`` is what was done until then."""

    record: Any = None


Record = TypeVar("Record", bound=LoadingPath)


def follow(
    first: Equilibrium,
    steps: int,
    take: Callable[[int, Equilibrium], Equilibrium],
    record: Callable[[tuple[Equilibrium, ...], str], Record],
    progress: bool | ProgressCallback,
    on_failure: str,
) -> Record:
    """From equilibrium to equilibrium.

    Parameters
    ----------
    take : makes the next equilibrium from the step's number, from 0, and the one before.
    record : makes the record of equilibria and of why there are no more.
    on_failure : "stop" raises, "keep" returns the equilibria before.

    Raises
    ------
    LoadingFailed, LoadingInterrupted : with the record so far.
    """
    strict = checks.choice("on_failure", on_failure, ("stop", "keep")) == "stop"
    done = (first,)
    with progress_bar(progress, "loading steps") as tell:
        for k in range(steps):
            try:
                done += (take(k, done[-1]),)
                tell(k + 1, steps, f"{done[-1].passes} passes, residual {done[-1].residual:.0e}")
            except SolveFailed as error:
                kept = record(done, str(error))
                if strict:
                    when = f"loading step {k + 1} of {steps}"
                    raise LoadingFailed.because(error, when, kept) from error
                return kept
            except KeyboardInterrupt as stop:
                halted = LoadingInterrupted(f"at loading step {k + 1} of {steps}")
                halted.record = record(done, "interrupted")
                raise halted from stop
    return record(done, "")


def first_state(scene: Scene, start: State | Equilibrium | None) -> State:
    """The state in which an experiment starts, by default the scene's initial one.

    Raises
    ------
    InvalidInput : it belongs to another scene.
    """
    state = start.state if isinstance(start, Equilibrium) else start
    return scene.check_state(scene.initial if state is None else state, "start")


def work(force: np.ndarray, way: np.ndarray) -> np.ndarray:
    """(n,) ∫ force d(way) from the first entry on, by the trapezoidal rule."""
    parts = 0.5 * (force[1:] + force[:-1]) * np.diff(way)
    return np.concatenate([[0.0], np.cumsum(parts)])
