"""Marches of a scene: the list of links kept fresh around the compiled loops."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from cdopt._util.checks import FloatArray
from cdopt.dynamics.spheres import march
from cdopt.dynamics.spheres.direct import variational_direct
from cdopt.dynamics.spheres.forces import Seen, look, seen_space
from cdopt.dynamics.spheres.links import Links, links
from cdopt.dynamics.spheres.march import DONE, STALE, Toll
from cdopt.dynamics.spheres.model import Motion, grains, motion, state_of
from cdopt.dynamics.spheres.touch import Touch, touch
from cdopt.dynamics.spheres.variational import Desk, Rule, desk
from cdopt.scene import Scene, State

TOO_FAST = 4

_AT_ONCE = 500  # steps of one call, so that Ctrl-C is heard
_FARTHEST = 4.0  # smallest radii: the widest skin; a step goes half as far at most
_SKIN = 0.3  # of the smallest radius: what listing again costs against looking at idle pairs


@dataclass(frozen=True)
class Marched:
    """Where a march ended.

    Attributes
    ----------
    state : after ``done`` steps.
    outcome : DONE, or why the next step could not be taken.
    residual : of the worst step. missed : of the one that could not be taken.
    newton, linear : iterations in all.
    """

    state: State
    done: int
    outcome: int
    residual: float
    missed: float
    newton: int
    linear: int


Stretch = Callable[[Motion, Links, Seen, Desk, FloatArray, float, int, Toll], tuple[int, int]]


class Marcher:
    """Compiled steps of one scene of spheres and walls, with its list of links.

    Raises
    ------
    Unsupported : other shapes.
    """

    def __init__(self, scene: Scene) -> None:
        self.scene = scene
        self.grains = grains(scene)
        radii = self.grains.radius[self.grains.radius > 0.0]
        self._least = float(radii.min())
        self.skin = _SKIN * self._least
        self._mark = np.full((scene.nb, 3), np.inf)  # nothing is listed yet
        self._width = 0.0

    def variational(self, state: State, steps: int, rule: Rule, direct: bool = False) -> Marched:
        """Steps of the variational integrator by ``rule``; ``direct`` solves with dense factors."""

        def stretch(
            m: Motion, pairs: Links, seen: Seen, w: Desk, mark: FloatArray, skin: float, n: int,
            toll: Toll,
        ) -> tuple[int, int]:  # fmt: skip
            loop = variational_direct if direct else march.variational
            return loop(self.grains, m, pairs, seen, w, rule, mark, skin, n, toll)

        return self._march(state, steps, rule.h, stretch)

    def velocity_verlet(
        self, state: State, steps: int, h: float, force: FloatArray
    ) -> tuple[Marched, FloatArray]:
        """Steps of velocity-Verlet, ``h`` s each; ``force`` (nb, 6) at the start and the end."""
        force = force.copy()

        def stretch(
            m: Motion, pairs: Links, seen: Seen, w: Desk, mark: FloatArray, skin: float, n: int,
            toll: Toll,
        ) -> tuple[int, int]:  # fmt: skip
            return march.velocity_verlet(self.grains, m, pairs, seen, w, force, h, mark, skin, n)

        begun = force.copy()
        ended = self._march(state, steps, h, stretch)
        if ended.outcome == march.TOO_DEEP:  # the loop is beyond the last good state: go back
            force[:] = begun
            back = self._march(state, ended.done, h, stretch)
            ended = replace(back, outcome=ended.outcome)
        return ended, force

    def forces(self, state: State) -> FloatArray:
        """Loads, elastic and damping forces (nb, 6) in a state, N and N·m."""
        m = motion(state)
        self._list(m, self.skin)
        still, out = np.zeros((state.nb, 6)), np.zeros((state.nb, 6))
        held = np.zeros(self._links.i.size, dtype=np.bool_)
        march.all_forces(self.grains, m, self._links, self._seen, held, still, out)
        return out

    def nearest(self, state: State, h: float) -> tuple[int, int, float]:
        """Bodies i < j that overlap most, or will at their velocities after h s, and the gap, m."""
        m = motion(state)
        fastest = float(np.linalg.norm(m.v[:, :3], axis=1).max())
        self._list(m, min(self.skin + 2.0 * h * fastest, _FARTHEST * self._least))
        pairs, seen = self._links, self._seen
        every = np.ones(pairs.i.size, dtype=np.bool_)
        live = look(m.x, m.v, h, pairs, every, self.grains.power, seen)
        if not live:
            return -1, -1, np.inf
        worst = int(np.nanargmax(seen.overlap[:live]))
        c = seen.link[worst]
        i, j = sorted((int(pairs.i[c]), int(pairs.j[c])))
        return i, j, -float(seen.overlap[worst])

    def _march(self, state: State, steps: int, h: float, stretch: Stretch) -> Marched:
        m = motion(state)
        toll = Toll(np.zeros(2), np.zeros(2))
        done, skin = 0, self.skin
        if not np.isfinite(self._mark).all():
            self._list(m, skin)
        outcome = DONE
        while done < steps:
            few = min(steps - done, _AT_ONCE)
            outcome, some = stretch(
                m, self._links, self._seen, self._desk, self._mark, self._width, few, toll
            )
            done += some
            if outcome == DONE:
                continue
            if outcome != STALE:
                break
            if some == 0 and np.array_equal(self._mark, m.x):
                skin = 2.0 * self._width  # one step goes further than the list allows
                if skin > _FARTHEST * self._least:
                    outcome = TOO_FAST
                    break
            self._list(m, skin)
        return Marched(
            state=state_of(m, state.t + done * h, self.scene.dim),
            done=done,
            outcome=outcome,
            residual=float(toll.worst[0]),
            missed=float(toll.worst[1]),
            newton=int(toll.counts[0]),
            linear=int(toll.counts[1]),
        )

    def _list(self, m: Motion, skin: float) -> None:
        self._links = links(self.scene, m.x, self.grains.normal, skin)
        self._seen = seen_space(self._links.i.size)
        self._desk = desk(self.scene.nb, self._links.i.size)
        self._mark, self._width = m.x.copy(), skin

    def touch(self, state: State) -> Touch:
        """Contacts that overlap, and bonds, in a state, with their elastic forces."""
        m = motion(state)
        still = np.zeros_like(m.v)
        if march.wandered(m.x, still, 0.0, self._mark) > 0.25 * self._width**2:
            self._list(m, self.skin)
        pairs, seen = self._links, self._seen
        none = np.zeros(pairs.i.size, dtype=np.bool_)
        live = look(m.x, still, 0.0, pairs, none, self.grains.power, seen)
        return touch(self.scene, self.grains, m.x, pairs, seen, live)


__all__ = ["DONE", "TOO_FAST", "Marched", "Marcher", "Rule", "Touch"]
