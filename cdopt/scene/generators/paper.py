"""The scenes of Olsen & Kamrin (2018), section 8: platforms on supports, and the pyramid."""

from __future__ import annotations

from typing import Annotated

import numpy as np

from cdopt._util import checks
from cdopt._util.checks import (
    Dim,
    FloatArray,
    IntArray,
    NotNegative,
    Positive,
    Power,
    integer,
    number,
    one_of,
)
from cdopt.scene.bodies import Body, Spheres
from cdopt.scene.material import Material
from cdopt.scene.scene import GRAVITY, Scene
from cdopt.scene.shapes import Box, Sphere

WEIGHT = 10.0  # N
_THICKNESS = 0.02  # of platforms, m
SupportRadius = Annotated[float, number(above=0.0, at_most=0.2)]
Species = Annotated[str, one_of(("uniform", "species"))]
_MOST = 300  # layers: nine million spheres


def pyramid_positions(n: int) -> tuple[FloatArray, IntArray]:
    """Centres (ns, 3) in diameters and layers (ns,) of a close-packed pyramid of spheres.

    Layer j has (n−j)² spheres, shifted by j/2 in x and y, at height j/√2. Spheres are numbered
    by layer, then y, then x. Source: Olsen & Kamrin (2018), section 8.2.
    """
    checks.scalar("n", n, at_least=1, at_most=_MOST)
    centres, layers = [], []
    for j in range(n):
        side = np.arange(n - j) + 0.5 * j
        y, x = np.meshgrid(side, side, indexing="ij")
        height = np.full(x.size, j / np.sqrt(2.0))
        centres.append(np.column_stack([x.ravel(), y.ravel(), height]))
        layers.append(np.full(x.size, j))
    return np.concatenate(centres), np.concatenate(layers)


def beam(
    middle_stiffness: Positive = 1.0,
    *,
    dim: Dim = 2,
    support_radius: SupportRadius = 0.05,
    drop: NotNegative = 0.01,
    power: Power = 2.0,
) -> Scene:
    """A rigid platform of 10 N dropped onto fixed supports at 0, 1/2 and 1 m.

    Parameters
    ----------
    middle_stiffness : of the middle support, relative to the others. Settled Hooke contacts
        carry (1, k, 1) 10 N / (2 + k).
    dim : in space, two rows of three supports share the load, for on one row it would roll off.
    support_radius : m. The platform overhangs the outer supports by as much.
    drop : height of the fall, in radii.
    power : exponent of the contact law.

    Notes
    -----
    Olsen & Kamrin (2018), section 8.1.
    """
    rows = {"": 0.0} if dim == 2 else {" front": -0.2, " back": 0.2}
    supports = [
        (x, y, name + side, "middle" if name == "middle" else "outer")
        for side, y in rows.items()
        for x, name in ((0.0, "left"), (0.5, "middle"), (1.0, "right"))
    ]
    stiffness = {"outer": 1.0, "middle": middle_stiffness}
    materials = [Material(name=name, stiffness=k) for name, k in stiffness.items()]
    body = _platform(supports, support_radius, drop, dim)
    title = "A platform dropped onto three supports"
    return Scene(body, dim=dim, power=power, materials=materials, name="beam", title=title)


def table(
    *, support_radius: SupportRadius = 0.05, drop: NotNegative = 0.01, power: Power = 2.0
) -> Scene:
    """A square top of 10 N dropped onto four fixed supports, 1 m apart: each carries 2.5 N.

    ``support_radius`` in m, ``drop`` in radii, ``power`` of the scene. In space.
    """
    corners = [(0.0, 0.0), (1.0, 0.0), (1.0, 1.0), (0.0, 1.0)]
    supports = [(x, y, f"leg {k}", "leg") for k, (x, y) in enumerate(corners)]
    return Scene(
        _platform(supports, support_radius, drop, 3),
        dim=3,
        power=power,
        materials=[Material(name="leg", stiffness=1.0)],
        name="table",
        title="A table top dropped onto four legs",
    )


def pyramid(
    n: Annotated[int, integer(2, 150)] = 20,
    power: Power = 2.0,
    material: Species = "uniform",
    *,
    modulus_ratio: Positive = 5.0,
    separation: NotNegative = 0.05,
    diameter: Positive = 2.5e-3,
    density: float = 2000.0,
    young: float = 50e9,
    poisson: float = 0.0,
) -> Scene:
    """The cannonball pyramid: a square pile of spheres, its base fixed, dropped layer by layer.

    Layer j is lifted by j × ``separation`` radii, which opens every gap between layers.

    Parameters
    ----------
    n : spheres along a side of the base.
    power : exponent of the contact law, 2 Hooke or 2.5 Hertz.
    material : "uniform"; or "species", spheres of even number (from 0) soft and of odd number
        ``modulus_ratio`` times as stiff. Spheres are numbered by layer, then y, then x.
    separation : in radii; 0 is the settled pile.
    diameter : m. density : kg/m³. young, poisson : modulus, Pa, and ratio of the softer species.

    Notes
    -----
    Olsen & Kamrin (2018), section 8.2.
    """
    centres, layers = pyramid_positions(n)
    centres = centres * diameter
    centres[:, 2] += layers * (separation * 0.5 * diameter)
    names = ["grain"] if material == "uniform" else ["soft", "hard"]
    moduli = (young, young * modulus_ratio)
    pile = Spheres(
        centres=centres,
        radius=0.5 * diameter,
        density=density,
        fixed=layers == 0,
        material=[names[k % len(names)] for k in range(layers.size)],
    )
    return Scene(
        [pile],
        dim=3,
        power=power,
        materials=[
            Material(name=name, young=modulus, poisson=poisson)
            for name, modulus in zip(names, moduli, strict=False)
        ],
        name=f"pyramid-{n}",
        title="A cannonball pyramid, dropped",
    )


def _platform(
    supports: list[tuple[float, float, str, str]], radius: float, drop: float, dim: int
) -> list[Body]:
    """A rigid box over fixed spheres, (x, y, name, material) each, whose tops are at height 0."""
    axes = [0, 2] if dim == 2 else [0, 1, 2]
    ends = np.array([[x, y] for x, y, _, _ in supports])
    size = np.append(np.ptp(ends, axis=0) + 2.0 * radius, _THICKNESS)[axes]
    middle = 0.5 * (ends.min(axis=0) + ends.max(axis=0))
    position = np.append(middle, drop * radius + 0.5 * _THICKNESS)[axes]
    ball = Sphere(radius)
    return [
        Body(Box(size), position, mass=WEIGHT / GRAVITY, name="platform"),
        *(
            Body(ball, np.array([x, y, -radius])[axes], fixed=True, material=material, name=name)
            for x, y, name, material in supports
        ),
    ]
