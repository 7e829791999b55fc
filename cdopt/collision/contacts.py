"""Contacts: the gaps of a scene in a state, with all that a contact step wants to know."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from cdopt._util import checks
from cdopt._util.checks import BoolArray, FloatArray, IntArray, read_only
from cdopt._util.errors import InvalidInput
from cdopt._util.frozen import Frozen
from cdopt.collision.faces import redundant_points
from cdopt.collision.neighbours import Neighbours, default_margin
from cdopt.collision.stiffness import restitution, stiffness
from cdopt.collision.wrenches import prescribed_rate
from cdopt.geometry.polytope import LABELS
from cdopt.scene import Scene, State
from cdopt.scene.bonds import among
from cdopt.scene.pairs import Gaps, gaps, ordered

FEATURES = LABELS**2  # contact points that a pair of bodies can tell apart


@dataclass(frozen=True, eq=False)
class Contacts(Frozen):
    """Contact points between bodies, by body numbers i < j and feature; arrays are read-only.

    Attributes
    ----------
    bodies : (nc, 2) numbers i, j.
    phi : (nc,) gaps Φ, m; negative is penetration.
    normals : (nc, dim) unit vectors from body i towards body j.
    points : (nc, dim) m, halfway across the gap.
    contact_ids : (nc,) ascending numbers that a contact keeps from step to step.
    stiffness : (nc,) N/m^(p−1), of which compatible contact dynamics uses the ratios; of a bond
        k_B in N/m.
    restitution : (nc,) Newton's e.
    gap_rate : (nc,) rate of the gap from the prescribed motion of fixed bodies, m/s.
    bonded : (nc,) bonds: two-sided springs, there at any distance.
    redundant : (nc,) points of a face contact whose unit force on the pair is a combination of
        those of the pair's other points: one of four, five of eight. How the pair shares its load
        among its points is not determined by the pair alone; which points of a face count as
        redundant is a choice.

    Raises
    ------
    InvalidInput : arrays of other shapes.
    """

    bodies: IntArray
    phi: FloatArray
    normals: FloatArray
    points: FloatArray
    contact_ids: IntArray
    stiffness: FloatArray
    restitution: FloatArray
    gap_rate: FloatArray
    bonded: BoolArray

    def __post_init__(self) -> None:
        super().__post_init__()
        nc, dim = self.phi.size, self.normals.shape[-1] if self.normals.ndim else 0
        wide = {"bodies": (nc, 2), "normals": (nc, dim), "points": (nc, dim)}
        for name, value in self.__dict__.items():
            if value.shape != wide.get(name, (nc,)) or dim not in (2, 3):
                raise InvalidInput(name, checks.describe(value), f"one row for each of {nc} gaps")

    def check_scene(self, scene: Scene) -> None:
        """Refuse contacts of another scene.

        Raises
        ------
        InvalidInput : bodies that the scene does not have, or another dimension.
        """
        among_them = self.bodies.max(initial=-1) < scene.nb and self.bodies.min(initial=0) >= 0
        if self.normals.shape[1] != scene.dim or not among_them:
            raise InvalidInput("contacts", "those of another scene", "contacts of this scene")

    @property
    def nc(self) -> int:
        """Number of contacts."""
        return int(self.phi.size)

    @cached_property
    def redundant(self) -> BoolArray:
        """(nc,) points that add no force which the others of their pair cannot give."""
        return read_only(redundant_points(self.bodies, self.normals, self.points))

    def __repr__(self) -> str:
        return f"Contacts({self.nc})"


def detect(
    scene: Scene,
    state: State,
    margin: float | FloatArray | None = None,
    neighbours: Neighbours | None = None,
) -> Contacts:
    """Contacts of a scene: every contact point with a gap up to ``margin``, and every bond.

    Parameters
    ----------
    margin : m; default ``default_margin(scene)``. For a time step take ``safe_margin``. Or (nb,)
        the share of each body, as ``safe_margins`` gives it: a pair has those of both.
    neighbours : the scene's Neighbours, to reuse their search between steps.

    Raises
    ------
    InvalidInput : a state or Neighbours of another scene, or a negative margin.
    """
    near = Neighbours(scene) if neighbours is None else neighbours
    if near.scene is not scene:
        raise InvalidInput("neighbours", "those of another scene", "Neighbours(scene)")
    width = default_margin(scene) if margin is None else margin
    found = _gaps(scene, state, near.pairs(state, width), width)
    i, j = found.bodies.T
    return Contacts(
        bodies=found.bodies,
        phi=found.phi,
        normals=found.normals,
        points=found.points,
        contact_ids=(i * scene.nb + j) * FEATURES + found.features @ np.array([LABELS, 1]),
        stiffness=stiffness(scene, found.bodies),
        restitution=restitution(scene, found.bodies),
        gap_rate=prescribed_rate(scene, state, found.bodies, found.normals, found.points),
        bonded=among(found.bodies, scene.bonds),
    )


def _gaps(scene: Scene, state: State, pairs: IntArray, margin: float | FloatArray) -> Gaps:
    """Gaps up to ``margin`` of these pairs, and those of all bonds."""
    if not scene.bonds.size:
        return gaps(scene.bodies, state, pairs, margin)
    loose = pairs[~among(pairs, scene.bonds)]
    bonds = gaps(scene.bodies, state, scene.bonds, np.inf)
    return ordered([gaps(scene.bodies, state, loose, margin), bonds])
