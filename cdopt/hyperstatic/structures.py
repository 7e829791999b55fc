"""Input of limit loads and stability: a scene, a block model or a step, at its present state."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from scipy.spatial import cKDTree

from cdopt._util import checks
from cdopt._util.checks import BoolArray, FloatArray
from cdopt._util.errors import InvalidInput
from cdopt._util.parameters import one_of_these
from cdopt.collision import Contacts, detect
from cdopt.collision import step as contact_step
from cdopt.hyperstatic.strength import (
    JointStrength,
    ResistingCones,
    Strength,
    friction_alone,
    in_newtons,
)
from cdopt.problem.contact_step import ContactStep, with_matrices
from cdopt.problem.step import Step
from cdopt.scene import BlockModel, Scene
from cdopt.scene.files import open_structure

_TOUCHING = 1e-6  # of the smallest half-width: so close are contacts of a scene
_DT = 1e-3  # s, of a scene's step; it cancels
_NAMES = ("+x", "-x", "+y", "-y")


@dataclass(frozen=True)
class Structure:
    """The step of a structure at rest, with the scene or the block model that it is of."""

    step: ContactStep
    scene: Scene | None = None
    model: BlockModel | None = None

    @staticmethod
    def of(structure: Any, friction: float | None, **opening: Any) -> Structure:
        """The structure, μ replaced by ``friction``; raises InvalidInput without any friction."""
        if isinstance(structure, str | Path):
            structure = open_structure(structure, **opening)
        checks.instance("structure", structure, Scene, BlockModel, Step)
        friction = checks.optional(checks.not_negative, "friction", friction)
        if isinstance(structure, Scene):
            scene = structure if friction is None else structure.with_friction(friction)
            if not scene.has_friction:
                raise InvalidInput("friction", "None", "a coefficient, or a scene that states one")
            return Structure(touching_step(scene), scene)
        if isinstance(structure, BlockModel):
            return Structure(structure.step(friction), None, structure)
        structure = with_matrices(structure, "limit load")
        rough = structure.friction
        if rough is None:
            expected = "a step with friction: ContactStep(..., friction=cdopt.Friction(...))"
            raise InvalidInput("structure", "a step without friction", expected)
        if friction is not None:
            structure = structure.replace(friction=replace(rough, mu=friction))
        return Structure(structure)

    def live(self, load: Any) -> FloatArray:
        """(nv,) N of a ``live`` as in ``limit_load``; raises InvalidInput if it is bad or zero."""
        if self.scene is None and self.model is None:
            result = checks.vector("live", load, self.step.nv, "N")
        else:
            result = self._of_bodies(load)
        if not result.any():
            raise InvalidInput("live", "no load", "a load that is not zero")
        return result

    def sideways(self) -> dict[str, FloatArray]:
        """Each body's weight along ±x and, in space, ±y, by name; none of a step alone."""
        if self.scene is None and self.model is None:
            return {}
        across = np.eye(self.dim)[: self.dim - 1]
        ways = [sign * axis for axis in across for sign in (1.0, -1.0)]
        return {name: self.live(way) for name, way in zip(_NAMES, ways, strict=False)}

    def strength(self, stated: Strength | None) -> JointStrength | ResistingCones:
        """In N of each contact; friction alone if none is stated; a TypeError without friction."""
        friction = self.step.friction
        if friction is None:
            raise TypeError("a step without friction")
        if stated is not None:
            self.step.require_no_moments("strength")
        if friction.moments:
            return ResistingCones(friction.cones)
        if stated is None:
            return friction_alone(friction.mu)
        checks.instance("strength", stated, Strength)
        if self.model is not None and not stated.friction_alone:
            self.model.require_density("a strength in Pa")
        areas = np.ones(self.step.nc) if self.model is None else self.model.contact_areas
        return in_newtons(stated, areas, friction.mu)

    @property
    def dim(self) -> int:
        """2 or 3."""
        return 3 if self.scene is None else self.scene.dim

    @property
    def names(self) -> list[str]:
        """Names of all bodies of a scene or a block model."""
        if self.scene is not None:
            return list(self.scene.bodies.names)
        return [] if self.model is None else [block.name for block in self.model.blocks]

    @property
    def centres(self) -> FloatArray:
        """(nb, dim) m, of mass."""
        if self.scene is not None:
            return self.scene.initial.position
        return np.array([] if self.model is None else [block.centre for block in self.model.blocks])

    def body(self, argument: str, body: Any) -> int:
        """The number of a body given by name or number; raises InvalidInput if unknown."""
        names = self.names
        number = names.index(body) if body in names else body
        if isinstance(number, str | bool):
            known = one_of_these(body, names) if names else "numbers of its bodies"
            raise InvalidInput(argument, f"the body {body!r}", known)
        return checks.index(argument, number, len(names))

    def _of_bodies(self, load: Any) -> FloatArray:
        """(nv,) N of a direction (dim,) of all weights, of loads by body, or of a vector (nv,)."""
        dim = self.dim
        weight = _weights(self.scene, self.model)
        free = set(np.asarray(self.step.dof_body).tolist())
        table = np.zeros((len(weight), dim + (1 if dim == 2 else 3)))
        by_weight = not isinstance(load, Mapping) and np.size(load) == dim
        if self.model is not None and not by_weight:
            self.model.require_density("a live load in N")
        if isinstance(load, Mapping):
            for body, one in load.items():
                number = self.body("live", body)
                if number not in free:
                    found = f"a load on {body!r}, which does not move"
                    raise InvalidInput("live", found, "loads of blocks that move")
                size = np.size(one)
                if size not in (dim, table.shape[1]):
                    expected = f"{dim} entries, or {table.shape[1]} with torques"
                    raise InvalidInput("live", f"{size:,} entries for {body!r}", expected)
                table[number, :size] += checks.vector("live", one, size, "N")
        elif by_weight:
            table[:, :dim] = weight[:, None] * checks.vector("live", load, dim)
        else:
            return checks.vector("live", load, self.step.nv, "N")
        if self.scene is not None:
            return self.scene.full_dofs.gather(table)
        return table[np.unique(np.asarray(self.step.dof_body))].ravel()


def _weights(scene: Scene | None, model: BlockModel | None) -> FloatArray:
    """(nb,) N, weights of the bodies, none of fixed ones."""
    if scene is not None:
        g = float(np.linalg.norm(scene.gravity))
        return np.where(scene.bodies.fixed, 0.0, scene.bodies.mass) * g
    if model is None:
        raise TypeError("neither a scene nor a block model")
    return model.weights


def touching_step(scene: Scene) -> ContactStep:
    """The step with friction of a scene at its present state, of bodies that touch.

    Parameters
    ----------
    scene : the scene. Bodies touch if they are nearer than 1e-6 of the smallest half-width of a
        body, or overlap. Blocks that meet only along an edge or at a corner of joints between
        others do not touch, because their normal would depend on round-off. Gaps are set to zero.

    Raises
    ------
    InvalidInput : bodies overlap, and ``overlaps`` of the scene is "refuse".
    """
    checks.instance("scene", scene, Scene)
    core = scene.bodies.core
    near = _TOUCHING * float(core[np.isfinite(core)].min(initial=1.0))
    contacts = detect(scene, scene.initial, near)
    contacts = contacts.those(~_seams(contacts, near)).closed()
    return contact_step(scene, scene.initial, contacts, _DT, overlaps="touching", friction=True)


def _seams(contacts: Contacts, near: float) -> BoolArray:
    """(nc,) contacts of two bodies that coincident faces of other bodies connect."""
    seams = np.zeros(contacts.nc, dtype=bool)
    dim = contacts.normals.shape[1]
    _, pair, many = np.unique(contacts.bodies, axis=0, return_inverse=True, return_counts=True)
    flat = np.flatnonzero(many[pair] >= dim)  # of a face
    few = np.flatnonzero(many[pair] < dim)
    if not flat.size or not few.size:
        return seams
    corners = cKDTree(contacts.points[flat])
    around = corners.query_ball_point(contacts.points[few], 4.0 * near)
    for k, at in zip(few.tolist(), around, strict=True):
        first, second = contacts.bodies[k].tolist()
        links = np.unique(contacts.bodies[flat[at]], axis=0).tolist()
        seams[k] = second in _joined(first, links)
    return seams


def _joined(start: int, links: list[list[int]]) -> set[int]:
    """Bodies connected to a body by links between two bodies each."""
    joined, new = set[int](), {start}
    while new:
        joined |= new
        new = {body for link in links if joined & set(link) for body in link} - joined
    return joined
