"""The same materials, stiffer: what ``Scene.stiffened`` changes."""

from __future__ import annotations

import dataclasses

import msgspec
import numpy as np

from cdopt._util.errors import InvalidInput
from cdopt.scene.bodies import Bodies
from cdopt.scene.material import HERTZ, Material
from cdopt.scene.shapes import SHAPES

_NAME = "elastic"  # of the material of bodies that name none

Materials = tuple[Material, ...]


def stiffer(
    materials: Materials, bodies: Bodies, power: float, kappa: float
) -> tuple[Materials, Bodies]:
    """Materials with κ times their stiffness, and the bodies that refer to them.

    Where none states a stiffness, all get the one that gives every contact κ, N/m^(p−1), and
    bodies without a material a new one.

    Raises
    ------
    InvalidInput : no one modulus gives κ to Hertz contacts of several curvatures.
    """
    if any(not material.rigid for material in materials):
        return tuple(_times(material, kappa) for material in materials), bodies
    half = 2.0 * kappa * (_hertz(bodies) if power == HERTZ else 1.0)
    stated = tuple(msgspec.structs.replace(m, stiffness=half) for m in materials)
    if not (bodies.material < 0).any():
        return stated, bodies
    taken = {m.name for m in stated}
    name = next(n for n in (_NAME + "'" * k for k in range(len(taken) + 1)) if n not in taken)
    index = np.where(bodies.material < 0, len(stated), bodies.material)
    made = Material(name=name, stiffness=half)
    return (*stated, made), dataclasses.replace(bodies, material=index)


def _times(material: Material, kappa: float) -> Material:
    """The material with its E or its half-stiffness times κ; a rigid one as it is."""
    if material.rigid:
        return material
    field = "young" if material.stiffness is None else "stiffness"
    return msgspec.structs.replace(material, **{field: kappa * getattr(material, field)})


def _hertz(bodies: Bodies) -> float:
    """E* for which k = (4/3) E* √R* is one, √(1/m), of bodies of one curvature."""
    tables = [table for shape in SHAPES if (table := bodies.table(shape)) is not None]
    curvature = np.concatenate([table.shape.curvature(table.columns) for table in tables])
    if np.ptp(curvature) > 0.0:
        raise InvalidInput(
            "scene", "no material with a stiffness, and Hertz contacts of several curvatures",
            "materials with a stiffness: no one modulus gives contacts so unlike one stiffness",
        )  # fmt: skip
    return 0.75 * float(np.sqrt(2.0 * curvature[0] or 1.0))
