"""thrusts(): the resultant force in each joint, the point where it passes, and thrust lines."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from cdopt._util import checks
from cdopt._util.checks import FloatArray, IntArray, read_only
from cdopt._util.errors import InvalidInput
from cdopt._util.formatting import count, numbered
from cdopt._util.frozen import Frozen
from cdopt.problem.contact_step import ContactStep

_IDLE = 1e-9  # of the largest force: joints with less carry nothing
_ONE_PLANE = 0.99  # cosine between normals of contacts of one joint


@dataclass(frozen=True, eq=False)
class Thrusts(Frozen):
    """Resultant forces of the n joints that carry a force.

    Attributes
    ----------
    bodies : (n, 2) the two bodies of each joint.
    points : (n, dim) m, centres of pressure: about them the normal forces have no moment.
    forces : (n, dim) N, on the second body.
    normals : (n, dim) unit vectors from the first body to the second.
    names : (n,) of the joints, by their bodies.
    on_supports : (dim,) N, the force on each fixed body, by name; its horizontal part is the thrust
        of an arch.
    """

    bodies: IntArray
    points: FloatArray
    forces: FloatArray
    normals: FloatArray
    names: tuple[str, ...]
    on_supports: Mapping[str, FloatArray]

    def lines(self) -> list[FloatArray]:
        """(m, dim) points of each thrust line, through bodies between two loaded joints.

        A line begins and ends at bodies with one or more than two: an arch from abutment to
        abutment is one line.
        """
        of_body: dict[int, list[int]] = {}
        for joint, pair in enumerate(self.bodies.tolist()):
            for body in pair:
                of_body.setdefault(body, []).append(joint)
        links: dict[int, list[int]] = {joint: [] for joint in range(len(self.bodies))}
        for joints in of_body.values():
            if len(joints) == 2:
                links[joints[0]].append(joints[1])
                links[joints[1]].append(joints[0])
        left, lines = set(links), []
        for start in sorted(links, key=lambda joint: len(links[joint])):  # ends of lines first
            if start not in left or not links[start]:
                continue
            line = [start]
            left.discard(start)
            while ahead := [joint for joint in links[line[-1]] if joint in left]:
                line.append(ahead[0])
                left.discard(ahead[0])
            if len(line) > 2 and line[0] in links[line[-1]]:
                line.append(line[0])
            lines.append(self.points[line])
        return lines

    def __repr__(self) -> str:
        size = np.linalg.norm(self.forces, axis=1)
        if not size.size:
            return "Thrusts(no joint carries anything)"
        most = int(size.argmax())
        joints = count(size.size, "joint")
        return f"Thrusts({joints}, at most {size[most]:.5g} N in {self.names[most]})"


def thrusts(step: ContactStep, f: FloatArray, f_t: FloatArray) -> Thrusts:
    """The resultant force of each joint: contacts between two bodies with the same normal.

    Parameters
    ----------
    step : with bodies, points and normals, as scenes, block models and contact lists give it.
    f, f_t : (nc,) and (nc, dim − 1) N, contact forces: of a limit load, of a solution.

    Returns
    -------
    Thrusts : force and centre of pressure of each joint; ``lines()`` returns the thrust lines,
        m.

    Raises
    ------
    InvalidInput : a step without bodies or points, or forces of another shape.

    >>> import cdopt
    >>> arch = cdopt.scene.arch(9, density=2000.0).with_friction(0.6)
    >>> limit = cdopt.limit_load(arch, {"voussoir 2": [0, -1000]})
    >>> (line,) = cdopt.thrusts(limit.step, limit.f, limit.f_t).lines()
    >>> line.shape                                          # ten joints, from abutment to abutment
    (10, 2)
    """
    checks.instance("step", step, ContactStep)
    if step.bodies is None or step.points is None or step.normals is None:
        raise InvalidInput("step", "no bodies or points", "a step built with both")
    f = checks.vector("f", f, step.nc, "N")
    vectors = step.contact_vectors(f, f_t)
    joint = _joints(step.bodies, step.normals)
    many = int(joint.max(initial=-1)) + 1
    weight = np.bincount(joint, f, many)
    total, centre, normal = np.zeros((3, many, vectors.shape[1]))
    np.add.at(total, joint, vectors)
    np.add.at(centre, joint, f[:, None] * step.points)
    normal[joint] = step.normals
    bodies = np.zeros((many, 2), dtype=np.int64)
    bodies[joint] = step.bodies
    loaded = weight > _IDLE * weight.max(initial=0.0)
    supports = _supports(step)
    called = numbered([step.names.body(k) for k in supports])
    return Thrusts(
        read_only(bodies[loaded]),
        read_only(centre[loaded] / weight[loaded, None]),
        read_only(total[loaded]),
        read_only(normal[loaded]),
        tuple("–".join(map(step.names.body, pair)) for pair in bodies[loaded].tolist()),
        {name: _on(k, step.bodies, vectors) for name, k in zip(called, supports, strict=True)},
    )


def _supports(step: ContactStep) -> list[int]:
    """Bodies with contacts and without degrees of freedom."""
    free = [] if step.dof_body is None else step.dof_body
    return list(np.setdiff1d(step.bodies, free).tolist())


def _on(body: int, bodies: IntArray, vectors: FloatArray) -> FloatArray:
    """(dim,) N, of contact forces on a body."""
    sign = (bodies[:, 1] == body) * 1.0 - (bodies[:, 0] == body)
    return read_only(sign @ vectors)


def _joints(bodies: IntArray, normals: FloatArray) -> IntArray:
    """(nc,) the joint of each contact: of the same two bodies, with nearly the same normal."""
    joint, first = np.zeros(len(bodies), dtype=np.int64), dict[tuple[int, ...], list[int]]()
    many = 0
    for k, pair in enumerate(map(tuple, bodies.tolist())):
        known = [c for c in first.setdefault(pair, []) if normals[c] @ normals[k] > _ONE_PLANE]
        if known:
            joint[k] = joint[known[0]]
        else:
            first[pair].append(k)
            joint[k], many = many, many + 1
    return joint
