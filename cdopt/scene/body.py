"""What a user writes: one Body, or a group of Spheres. Fields are those of scene files."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import msgspec
from numpy.typing import ArrayLike

from cdopt.scene.shape import Shape, Vector

if TYPE_CHECKING:
    Spin = ArrayLike
    Table = ArrayLike
    Spins = ArrayLike
    Numbers = ArrayLike | None
    Flags = ArrayLike
else:  # what a scene file may hold
    Spin = float | Sequence[float]
    Table = Sequence[Sequence[float]]
    Spins = Sequence[float | Sequence[float]]
    Numbers = float | Sequence[float] | None
    Flags = bool | Sequence[bool]


class Body(msgspec.Struct, frozen=True):
    """One rigid body.

    Attributes
    ----------
    shape : a Sphere, HalfSpace, Box, Capsule, Polygon, Polyhedron or Compound.
    position : of its centre of mass, or of a point on a half-space's surface, (dim,) m.
    angle : orientation in the plane, rad.
    orientation : in space, a unit quaternion (w, x, y, z).
    velocity : (dim,) m/s.
    angular_velocity : in the plane a number, in space (3,) in the global frame, rad/s.
    fixed : carries no degrees of freedom; its velocity, if any, is prescribed. Half-spaces are
        always fixed.
    mass, density : one of the two for a free body, kg or kg/m³ (in the plane per 1 m of depth).
    material : name of a Material of the scene; "" is rigid.
    force, torque : constant load on a free body in the global frame, beside gravity, N and N·m.
    name : for messages and results.
    """

    shape: Shape
    position: Vector
    angle: float | None = None
    orientation: Vector | None = None
    velocity: Vector | None = None
    angular_velocity: Spin | None = None
    fixed: bool | None = None
    mass: float | None = None
    density: float | None = None
    material: str = ""
    force: Vector | None = None
    torque: Spin | None = None
    name: str = ""


class Spheres(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Many spheres, in the plane discs; what has one value for all is written once.

    Attributes
    ----------
    centres : (n, dim) m.
    radius : m, one number or (n,); likewise
    velocities : (n, dim) m/s, fixed, mass [kg] or density [kg/m³], and material.
    names : (n,) texts.
    angular_velocities : (n,) in the plane or (n, 3) in the global frame, rad/s.
    """

    centres: Table
    radius: Numbers
    velocities: Table | None = None
    fixed: Flags = False
    mass: Numbers = None
    density: Numbers = None
    material: str | Sequence[str] = ""
    names: Sequence[str] | None = None
    angular_velocities: Spins | None = None


# what a field of a Body is called in a group of Spheres
GROUP_FIELDS = {
    "position": "centres", "velocity": "velocities", "angular_velocity": "angular_velocities",
    "name": "names",
}  # fmt: skip

Item = Any  # Body | Spheres
