"""Tangents of contacts, and the friction of a contact step."""

from __future__ import annotations

from typing import Any

import numpy as np

from cdopt._util import checks
from cdopt._util.checks import FloatArray, read_only
from cdopt._util.frozen import frozen_rows
from cdopt.collision.contacts import Contacts, approach_rows, prescribed_rate
from cdopt.problem.friction import Friction
from cdopt.scene import Dofs, Scene, State


def tangents(normals: FloatArray) -> FloatArray:
    """Orthonormal tangents (nc, dim − 1, dim) of unit normals (nc, dim).

    In the plane the normal turned by a quarter counterclockwise. In space the first tangent is
    that coordinate axis, made orthogonal, which is farthest from the normal.

    Raises
    ------
    InvalidInput : other shapes.
    """
    many = np.shape(checks.array("normals", normals, "an array of shape (nc, 2) or (nc, 3)"))
    return _tangents(checks.table("normals", normals, many[0] if many else 0))


def _tangents(n: FloatArray) -> FloatArray:
    """``tangents`` of unit normals n (nc, dim)."""
    if n.shape[1] == 2:
        return np.stack([-n[:, 1], n[:, 0]], axis=1)[:, None, :]
    axis = np.zeros_like(n)
    axis[np.arange(len(n)), np.argmin(np.abs(n), axis=1)] = 1.0
    first = axis - np.sum(axis * n, axis=1)[:, None] * n
    first /= np.linalg.norm(first, axis=1)[:, None]
    return np.stack([first, np.cross(n, first)], axis=1)


def friction(
    scene: Scene, state: State, contacts: Contacts, mu: Any = True, dofs: Dofs | None = None
) -> Friction:
    """Friction of contacts that were detected in this state.

    Parameters
    ----------
    mu : friction coefficient μ ≥ 0, one number or (nc,); True takes those of the scene's
        materials (``Scene.contact_friction``).
    dofs : the degrees of freedom, by default ``scene.full_dofs``: friction turns spheres.

    Raises
    ------
    InvalidInput : μ negative, or True where nothing states it; a state, contacts or degrees of
        freedom of another scene.
    """
    scene.check_state(state)
    contacts.check_scene(scene)
    chosen = scene.check_dofs(scene.full_dofs if dofs is None else dofs)
    if mu is True:
        mu = scene.contact_friction(contacts.bodies)
    directions = _tangents(contacts.normals)
    many = scene.dim - 1
    flat = directions.reshape(-1, scene.dim)
    pairs = np.repeat(contacts.bodies, many, axis=0)
    points = np.repeat(contacts.points, many, axis=0)
    rows = approach_rows(state, pairs, flat, points, chosen.number, scene.box)
    return Friction(
        checks.per_contact("friction", mu, contacts.nc, at_least=0.0),
        frozen_rows(*rows, (contacts.nc * many, chosen.nv)),
        read_only(prescribed_rate(scene, state, pairs, flat, points).reshape(contacts.nc, many)),
        read_only(np.ones(contacts.nc)),
        read_only(directions),
    )
