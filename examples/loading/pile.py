"""A pile under a growing load, until nothing holds it."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from cdopt._util import checks
from cdopt._util.checks import FloatArray, IntArray
from cdopt._util.errors import InvalidInput, SolveFailed
from cdopt._util.progress import ProgressCallback
from cdopt.backends.base import Backend
from cdopt.collision import Neighbours
from cdopt.dynamics import Equilibrium, equilibrium
from cdopt.scene import Scene, State

from .record import LoadingFailed, LoadingPath, common, follow

_LEVEL = 1e-6  # of the smallest half-width: bodies this much lower are still on top


@dataclass(frozen=True, eq=False)
class PileLoading(LoadingPath):
    """Forces and settlement of a pile against the load on it.

    Attributes
    ----------
    loaded : (m,) numbers of the bodies that share the load. direction : (dim,) of it.
    load : (n,) on all of them together, N; ``potential`` does not count it.
    settlement : (n,) their mean way along the load since the first equilibrium, m.
    largest : (n,) the largest contact force, N.
    collapse : the largest load that was held and the smallest that was not, N; None if the
        pile held all.
    """

    loaded: IntArray
    direction: FloatArray
    load: FloatArray
    settlement: FloatArray
    largest: FloatArray
    collapse: tuple[float, float] | None


def press(
    scene: Scene,
    load: object,
    *,
    bodies: object = None,
    direction: object = None,
    start: State | None = None,
    refine: int = 6,
    backend: str | Backend = "newton",
    tol: float = 1e-10,
    limit: int = 200,
    travel: float = 1.0,
    on_failure: str = "keep",
    progress: bool | ProgressCallback = False,
) -> PileLoading:
    """Load the top of a pile more and more, from equilibrium to equilibrium.

    A pile collapses where no equilibrium is left within the ``travel`` of its bodies; the load
    between the last that it bore and that one is then halved ``refine`` times.

    Parameters
    ----------
    scene : with stiffness in its materials; what stands on it is held at no load.
    load : (n,) loads, N, ascending.
    bodies : numbers of free bodies that share the load; default the highest ones.
    direction : (dim,) of the load; default that of gravity, or down the last axis.
    start : default the scene's initial state.
    refine : how often the interval of collapse is halved; 0 not at all.
    backend, tol, limit : as in ``cdopt.dynamics.equilibrium``.
    travel : how far a body may go in one step of the load, in its own sizes.
    on_failure : "keep" returns with ``collapse`` and ``failure``, which names what nothing holds;
        "stop" raises.
    progress : True for a bar on stderr, or a function of (done, total, text).

    Raises
    ------
    InvalidInput : a bad argument.
    SolveFailed : the pile does not stand without load.
    LoadingFailed : a SolveFailed that carries the ``record`` so far; LoadingInterrupted likewise.
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
    near = Neighbours(scene)
    options: dict[str, Any] = {
        "backend": backend, "tol": tol, "limit": limit, "travel": travel, "neighbours": near,
    }  # fmt: skip
    borne, lost = [0.0], [np.inf]
    why: list[SolveFailed] = []

    def bear(force: float, before: Equilibrium) -> Equilibrium:
        try:
            found = equilibrium(scene, before.state, load=force * unit, **options)
        except SolveFailed as error:
            lost.append(force)
            why.append(error)
            raise
        borne.append(force)
        return found

    def written(found: list[Equilibrium], failure: str) -> PileLoading:
        heights = np.array([one.state.position[top].mean(axis=0) @ down for one in found])
        return PileLoading(
            **common(scene, found, failure),
            loaded=top,
            direction=down,
            load=np.array(borne[: len(found)]),
            settlement=heights - heights[0],
            largest=np.array([np.abs(one.forces).max(initial=0.0) for one in found]),
            collapse=(borne[-1], lost[-1]) if why else None,
        )

    strict = checks.choice("on_failure", on_failure, ("stop", "keep")) == "stop"
    before = scene.check_state(scene.initial if start is None else start, "start")
    first = equilibrium(scene, before, **options)

    def take(k: int, before: Equilibrium) -> Equilibrium:
        return bear(float(loads[k]), before)

    record = follow(first, loads.size, take, written, progress, "keep")
    if why:
        found = _refined(list(record.equilibria), borne, lost, halvings, bear)
        record = written(found, str(why[-1]))
        if strict:
            raise LoadingFailed(
                f"collapse between {borne[-1]:.6g} and {lost[-1]:.6g} N: {why[-1]}", record=record,
                backend=why[-1].backend, status=why[-1].status, problem=why[-1].problem,
                proof=why[-1].proof, raw=why[-1].raw,
            )  # fmt: skip
    return record


def _refined(
    found: list[Equilibrium], borne: list[float], lost: list[float], halvings: int,
    bear: Callable[[float, Equilibrium], Equilibrium],
) -> list[Equilibrium]:  # fmt: skip
    """The equilibria, and those at loads that halve the interval of collapse."""
    for _ in range(halvings):
        with contextlib.suppress(SolveFailed):
            found.append(bear(0.5 * (borne[-1] + lost[-1]), found[-1]))
    return found


def _direction(scene: Scene, given: object) -> FloatArray:
    """(dim,) unit vector."""
    if given is None:
        down = np.append(np.zeros(scene.dim - 1), -1.0)
        way = scene.gravity if np.any(scene.gravity) else down
    else:
        way = checks.vector("direction", given, scene.dim)
    size = float(np.linalg.norm(way))
    if not size > 0.0:
        raise InvalidInput("direction", "length 0", "a direction")
    return np.array(way / size)


def _top(scene: Scene, down: FloatArray) -> IntArray:
    """Free bodies that no other free body is above."""
    b = scene.bodies
    free = np.flatnonzero(~b.fixed)
    depth = b.position[free] @ down
    slack = _LEVEL * float(b.core[np.isfinite(b.core)].min())
    return np.array(free[depth <= depth.min() + slack])


def _chosen(scene: Scene, given: Any) -> IntArray:
    numbers = np.unique(checks.integers("bodies", given, (None,), at_least=0, below=scene.nb))
    if not numbers.size or scene.bodies.fixed[numbers].any():
        raise InvalidInput("bodies", checks.describe(given), "numbers of free bodies")
    return numbers
