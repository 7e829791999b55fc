"""Joints between bodies of a scene: pins, hinges, sliders and welds."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec
import numpy as np

from cdopt._util import checks
from cdopt._util.checks import FloatArray, IntArray, read_only
from cdopt._util.errors import InvalidInput
from cdopt._util.frozen import Frozen
from cdopt.geometry.rotations import matrices
from cdopt.problem.contact_list import tangents_of
from cdopt.scene.bodies import Bodies

KINDS = ("pin", "hinge", "slider", "weld")
WORLD = "world"
_SAME = 1e-12  # of a unit axis


class Joint(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A joint between two bodies, without play, friction or mass.

    Attributes
    ----------
    kind : "pin" keeps a point of one body on a point of the other; so does a "hinge", which in
        space turns only about its axis; a "slider" moves only along its axis; a "weld" allows no
        relative motion.
    bodies : names or numbers of the two, or "world" for one of them. They do not collide.
    point : (dim,) m, of pins and hinges, where bodies are at the start. Of sliders and welds by
        default the second body's centre of mass, of a joint with the world the first's.
    axis : (dim,) of sliders, and of hinges in space; of any length, fixed in the first body.
    name : of the joint, for the names of its rows.

    Raises
    ------
    InvalidInput : no such kind, bodies that are not two, or a point or an axis that is missing or
        does not belong to the kind.
    """

    kind: str
    bodies: tuple[str | int, str | int]
    point: Sequence[float] | None = None
    axis: Sequence[float] | None = None
    name: str = ""

    def __post_init__(self) -> None:
        checks.choice("kind", self.kind, KINDS)
        bodies, expected = self.bodies, "two names or numbers of bodies"
        if not isinstance(bodies, Sequence) or isinstance(bodies, str) or len(bodies) != 2:
            raise InvalidInput("bodies", checks.describe(bodies), expected)
        for one in bodies:
            if isinstance(one, bool) or not isinstance(one, str | int):
                raise InvalidInput("bodies", checks.describe(one), expected)
        if bodies[0] == bodies[1]:
            raise InvalidInput("bodies", f"{bodies[0]!r} twice", "two different bodies")
        checks.text("name", self.name)
        if self.point is None and self.kind in KINDS[:2]:
            raise InvalidInput("point", "None", f"the point of the {self.kind}, m")
        if self.axis is None and self.kind == "slider":
            raise InvalidInput("axis", "None", "the direction of the slider")
        if self.axis is not None and self.kind in ("pin", "weld"):
            raise InvalidInput("axis", checks.describe(self.axis), f"None: a {self.kind} has none")


class PlacedJoint(Frozen):
    """A joint in the frames of its bodies."""

    # kind, name: as in ``Joint``
    kind: str
    name: str
    bodies: IntArray  # (2,) numbers, −1 for the world
    # (2, dim) m, the point in each body's frame from its centre of mass, or in the world's
    arms: FloatArray
    # (dim, dim) turn of the second body in the frame of the first, at the start
    relative: FloatArray
    # (dim, dim) rows in the first body's frame: the axis, then directions across it
    frame: FloatArray

    @staticmethod
    def of(joint: Joint, bodies: Bodies) -> PlacedJoint:
        """The joint of these bodies."""
        checks.instance("joint", joint, Joint)
        checks.instance("bodies", bodies, Bodies)
        dim, pair = bodies.dim, [_number(one, bodies) for one in joint.bodies]
        if pair[0] == pair[1] or all(k < 0 or bodies.fixed[k] for k in pair):
            names = " and ".join(map(repr, joint.bodies))
            raise InvalidInput("bodies", names, "two bodies, of which one moves")
        swapped = pair[0] < 0
        pair = pair[::-1] if swapped else pair
        turns = [np.eye(dim) if k < 0 else matrices(bodies.orientation[[k]])[0] for k in pair]
        centres = [np.zeros(dim) if k < 0 else bodies.position[k] for k in pair]
        usual = centres[0] if pair[1] < 0 else centres[1]
        point = usual if joint.point is None else checks.vector("point", joint.point, dim, "m")
        axis = _axis(joint, dim)
        arms = [turn.T @ (point - x) for turn, x in zip(turns, centres, strict=True)]
        name = joint.name or "–".join(map(str, joint.bodies[::-1] if swapped else joint.bodies))
        return PlacedJoint._of(
            kind="pin" if dim == 2 and joint.kind == "hinge" else joint.kind,
            name=name,
            bodies=read_only(np.array(pair)),
            arms=read_only(np.array(arms)),
            relative=read_only(turns[0].T @ turns[1]),
            frame=read_only(np.vstack([axis, tangents_of(axis[None])[0]]) @ turns[0]),
        )


def _number(body: str | int, bodies: Bodies) -> int:
    if body == WORLD and WORLD not in bodies.names:
        return -1
    if isinstance(body, str):
        known = [name for name in bodies.names if name]
        return bodies.names.index(checks.choice("bodies", body, [*known, WORLD]))
    return checks.index("bodies", body, bodies.nb)


def _axis(joint: Joint, dim: int) -> FloatArray:
    """The unit axis (dim,) of a joint; the first one where it has none."""
    if joint.axis is None:
        if joint.kind == "hinge" and dim == 3:
            raise InvalidInput("axis", "None", "the axis of the hinge, in space")
        return np.eye(dim)[0]
    if joint.kind == "hinge" and dim == 2:
        expected = "None: in the plane a hinge turns about the normal"
        raise InvalidInput("axis", checks.describe(joint.axis), expected)
    axis = checks.vector("axis", joint.axis, dim)
    length = float(np.linalg.norm(axis))
    if not length > 0.0:
        raise InvalidInput("axis", "a vector of length zero", "a direction")
    return axis / length


def placed_joints(joints: Sequence[Any], bodies: Bodies) -> tuple[PlacedJoint, ...]:
    """All joints in the frames of their bodies; errors name which of them."""
    result = []
    for k, joint in enumerate(joints):
        try:
            result.append(PlacedJoint.of(joint, bodies))
        except InvalidInput as error:
            where = f"joints[{k}].{error.argument}"
            raise InvalidInput(where, error.found, error.expected) from error
    return tuple(result)
