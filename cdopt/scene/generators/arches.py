"""An arch that stands without friction: the weights of its stones are those its joints ask for."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from cdopt._util import checks
from cdopt._util.checks import Dim, FloatArray, Power
from cdopt._util.errors import InvalidInput
from cdopt._util.parameters import whole
from cdopt.scene.bodies import Body
from cdopt.scene.generators.masonry import cycled
from cdopt.scene.material import Material
from cdopt.scene.scene import GRAVITY, Scene
from cdopt.scene.shapes import Polygon, Polyhedron


def arch(
    voussoirs: int = 9, *, angle: float = 1.0, thrust: float = 1000.0, radius: float = 1.0,
    thickness: float = 0.25, depth: float = 0.2, dim: Dim = 2,
    materials: Sequence[Material] = (), power: Power = 2.0, restitution: float = 0.0,
) -> Scene:  # fmt: skip
    """A segmental arch of equal wedges between two fixed abutments, with radial smooth joints.

    Without friction the force in a joint is normal to it. At an angle β from the upright joint
    at the crown it is T = H / cos β, H the horizontal thrust, and the stone between β and β′ must
    weigh H (tan β′ − tan β). Here the stones have these weights. The forces can then all pass at
    one distance R from the centre,

        R = (2/3) cos²(Δ/2) (r₂³ − r₁³) / (r₂² − r₁²),   Δ = β′ − β,

    with s T on the outer corners of a joint and (1 − s) T on the inner ones,
    s = (R − r₁) / (r₂ − r₁). Statics allow a couple beside, the same in every joint: outer corners
    s T + C, inner ones (1 − s) T − C. Stiffness decides; equal Hooke contacts give C = (1/2 − s)
    times the mean T of the joints. In space the corners on either side carry half.

    Such an arch stands just so: it is a mechanism, and the least change of a weight makes it fall.

    Bodies are the left abutment, the voussoirs from left to right, and the right abutment.

    Parameters
    ----------
    voussoirs : number of free wedges.
    angle : β of the joints at the abutments, rad; the arch spans twice that.
    thrust : H, N, in the plane per 1 m of depth.
    radius, thickness : r₁ of the inner corners and r₂ − r₁, m.
    depth : along y, m; in space alone.
    materials : taken in turn by the voussoirs.
    power : exponent of the contact law. restitution : Newton's e.

    Raises
    ------
    InvalidInput : voussoirs is not an integer from 1 to 1000, an angle not below π/2, wedges so
        wide that the thrust leaves them, or a number out of range.

    Notes
    -----
    The weights are those of P. de La Hire, Traité de mécanique (1695).

    >>> import cdopt
    >>> cdopt.scene.arch(5)
    Scene('arch': 7 bodies in 2D, 5 free, power 2)
    """
    if dim not in (2, 3):
        raise InvalidInput("dim", checks.describe(dim), "2 or 3")
    count = whole("voussoirs", voussoirs, 1, 1000)
    end = checks.scalar("angle", angle, above=0.0, at_most=1.57)
    push = checks.scalar("thrust", thrust, above=0.0)
    inner = checks.scalar("radius", radius, above=0.0)
    outer = inner + checks.scalar("thickness", thickness, above=0.0)
    deep = checks.scalar("depth", depth, above=0.0)
    middle = thrust_radius(inner, outer, 2.0 * end / count)
    if not inner < middle < outer:
        found = f"wedges of {2.0 * end / count:.3g} rad with the thrust at {middle:.6g}"
        expected = f"more or thicker wedges, with the thrust between {inner:g} and {outer:g} m"
        raise InvalidInput("voussoirs", found, expected)
    joints = np.linspace(-end, end, count + 1)
    wide = min(2.0 * end / count, np.pi - end)  # abutments
    joints = np.concatenate([[-end - wide], joints, [end + wide]])
    names = cycled(materials)
    bodies = []
    for k in range(count + 2):
        stone = _wedge(joints[k], joints[k + 1], inner, outer, None if dim == 2 else deep)
        fixed = k in (0, count + 1)
        weight = push * float(np.tan(joints[k + 1]) - np.tan(joints[k]))
        side = "left" if k == 0 else "right"
        bodies.append(
            Body(
                stone,
                stone.centre,
                fixed=fixed,
                mass=None if fixed else weight / GRAVITY,
                material="" if fixed else names[(k - 1) % len(names)],
                name=f"{side} abutment" if fixed else f"voussoir {k - 1}",
            )
        )
    return Scene(
        bodies,
        dim=dim,
        power=power,
        restitution=restitution,
        materials=materials,
        name="arch",
        title="An arch without friction",
    )


def thrust_radius(inner: float, outer: float, wedge: float) -> float:
    """R, where the thrust can cross all joints, m; wedges between r₁ and r₂ span ``wedge`` rad."""
    centroid = 2.0 / 3.0 * (outer**3 - inner**3) / (outer**2 - inner**2)
    return float(np.cos(0.5 * wedge) ** 2 * centroid)


def _wedge(
    left: float, right: float, inner: float, outer: float, depth: float | None
) -> Polygon | Polyhedron:
    """Between two joints at angles from the upright, about the centre of the arch."""

    def corner(radius: float, angle: float) -> list[float]:
        return [radius * float(np.sin(angle)), radius * float(np.cos(angle))]

    flat: FloatArray = np.array(
        [corner(inner, left), corner(inner, right), corner(outer, right), corner(outer, left)]
    )
    if depth is None:
        return Polygon(flat)
    sides = [np.full(4, 0.5 * sign * depth) for sign in (-1.0, 1.0)]
    return Polyhedron(np.concatenate([np.column_stack([flat[:, 0], y, flat[:, 1]]) for y in sides]))
