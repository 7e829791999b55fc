"""A pile under a growing load, until it collapses."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from typing import Any

import numpy as np

from cdopt import InvalidInput, SolveFailed
from cdopt._util import checks
from cdopt._util.progress import ProgressCallback
from cdopt.collision import VerletList
from cdopt.dynamics import Equilibrium, equilibrium
from cdopt.scene import Scene, State

from .record import LoadingFailed, LoadingPath, first_state, follow

LEVEL = 1e-6  # of the smallest half-width: bodies this much lower are still on top


@dataclass(frozen=True, eq=False)
class PileLoading(LoadingPath):
    """Forces and settlement of a pile against the load on it.

    Attributes
    ----------
    loaded : (m,) numbers of the bodies that share the load. direction : (dim,) of it.
    load : (n,) on all of them together, N; ``potential`` does not count it.
    collapse : the largest load that was held and the smallest that was not, N; None if the
        pile held all.
    """

    loaded: np.ndarray
    direction: np.ndarray
    load: np.ndarray
    collapse: tuple[float, float] | None

    @property
    def settlement(self) -> np.ndarray:
        """(n,) mean way of the loaded bodies along the load since the first equilibrium, m."""
        places = [rest.state.position[self.loaded].mean(axis=0) for rest in self.equilibria]
        along = np.array(places) @ self.direction
        return along - along[0]

    @property
    def largest(self) -> np.ndarray:
        """(n,) the largest contact force, N."""
        return np.array([np.abs(rest.forces).max(initial=0.0) for rest in self.equilibria])


def press(
    scene: Scene,
    load: object,
    *,
    bodies: object = None,
    direction: object = None,
    start: State | None = None,
    refine: int = 6,
    on_failure: str = "keep",
    progress: bool | ProgressCallback = False,
    **options: Any,
) -> PileLoading:
    """Load the top of a pile more and more, from equilibrium to equilibrium.

    A pile collapses where no equilibrium is left within the ``travel`` of its bodies; the load
    between the last that it bore and that one is then halved ``refine`` times.

    Parameters
    ----------
    scene : with stiffness in its materials; it comes to rest without load first.
    load : (n,) loads, N, ascending.
    bodies : numbers of free bodies that share the load; default the highest ones.
    direction : (dim,) of the load; default that of gravity, or down the last axis.
    start : default the scene's initial state.
    refine : how often the interval of collapse is halved; 0 not at all.
    on_failure : "keep" returns with ``collapse`` and ``failure``, which names the bodies that
        nothing holds; "stop" raises.
    progress : True for a bar on stderr, or a function of (done, total, text).
    options : of ``cdopt.dynamics.equilibrium``; ``travel``, how far a body may go in one step of
        the load, in its own sizes, is 1.

    Raises
    ------
    InvalidInput : a bad argument.
    SolveFailed : the pile does not stand without load.
    LoadingFailed : a SolveFailed that carries the ``record`` so far; LoadingInterrupted does, too.
    """
    loads = checks.vector("load", load, None, "N")
    if not loads.size or np.any(np.diff(loads, prepend=0.0) < 0.0):
        raise InvalidInput("load", checks.describe(loads), "ascending loads from 0 on, N")
    down = _direction(scene, direction)
    top = _top(scene, down) if bodies is None else _chosen(scene, bodies)
    share = np.zeros_like(scene.initial.v)
    share[top, : scene.dim] = down / top.size
    unit = scene.dofs.gather(share)
    halvings = int(checks.integers("refine", refine, (), at_least=0))
    strict = checks.choice("on_failure", on_failure, ("stop", "keep")) == "stop"
    options = {"travel": 1.0, "neighbours": VerletList(scene), **options}
    borne, failed = [0.0], [np.inf]  # loads
    why: list[SolveFailed] = []

    def bear(force: float, before: Equilibrium) -> Equilibrium:
        try:
            rest = equilibrium(scene, before.state, load=force * unit, **options)
        except SolveFailed as error:
            failed.append(force)
            why.append(error)
            raise
        borne.append(force)
        return rest

    def record(equilibria: tuple[Equilibrium, ...], failure: str) -> PileLoading:
        held = np.array(borne[: len(equilibria)])
        collapse = (borne[-1], failed[-1]) if why else None
        return PileLoading(scene, equilibria, failure, top, down, held, collapse)

    first = equilibrium(scene, first_state(scene, start), **options)
    run = follow(
        first, loads.size, lambda k, before: bear(float(loads[k]), before), record, progress, "keep"
    )
    if not why:
        return run
    equilibria = run.equilibria
    for _ in range(halvings):
        with contextlib.suppress(SolveFailed):
            equilibria += (bear(0.5 * (borne[-1] + failed[-1]), equilibria[-1]),)
    run = record(equilibria, str(why[-1]))
    if strict:
        when = f"collapse between {borne[-1]:.6g} and {failed[-1]:.6g} N"
        raise LoadingFailed.because(why[-1], when, run)
    return run


def _direction(scene: Scene, given: object) -> np.ndarray:
    """(dim,) unit vector."""
    if given is not None:
        way = checks.vector("direction", given, scene.dim)
    elif np.any(scene.gravity):
        way = scene.gravity
    else:
        way = np.append(np.zeros(scene.dim - 1), -1.0)
    size = float(np.linalg.norm(way))
    if not size > 0.0:
        raise InvalidInput("direction", "length 0", "a direction")
    return np.array(way / size)


def _top(scene: Scene, down: np.ndarray) -> np.ndarray:
    """Free bodies that no other free body is above."""
    b = scene.bodies
    free = np.flatnonzero(~b.fixed)
    depth = b.position[free] @ down
    slack = LEVEL * float(b.core[np.isfinite(b.core)].min())
    return free[depth <= depth.min() + slack]


def _chosen(scene: Scene, given: Any) -> np.ndarray:
    numbers = np.unique(checks.integers("bodies", given, (None,), at_least=0, below=scene.nb))
    if not numbers.size or scene.bodies.fixed[numbers].any():
        raise InvalidInput("bodies", checks.describe(given), "numbers of free bodies")
    return numbers
