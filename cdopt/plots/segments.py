"""Contacts as line segments for drawing, from a step's points, normals and body numbers."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.spatial import cKDTree

from cdopt._util.checks import BoolArray, FloatArray, IntArray
from cdopt._util.errors import InvalidInput
from cdopt.problem.contact_step import Step

_ROUND = 1e-6  # residual and condition beyond which a body has no centre of its contacts
_FLAT = 0.02  # of the extent of a body's contacts: nearer to their middle, it has no depth
_PARALLEL = 1e-9  # of a unit normal: normals that count as one
_APART = 1e-3  # of the extent of all contacts: nearer points count as one


@dataclass(frozen=True, eq=False)
class ContactSegments:
    """Contacts as segments, and the round bodies among those they join.

    Attributes
    ----------
    start, end : (nc, 2 or 3) ends of each contact's segment, m; body centres where known.
    centres : (nb, 2 or 3) centres of round bodies, m. radii : (nb,) m.
    fixed : (nb,) whether no degree of freedom moves the body.
    """

    start: FloatArray
    end: FloatArray
    centres: FloatArray
    radii: FloatArray
    fixed: BoolArray

    @property
    def ends(self) -> FloatArray:
        """(2 nc, 2 or 3) both ends of all segments, m."""
        return np.concatenate([self.start, self.end])

    @staticmethod
    def bare(start: FloatArray, end: FloatArray) -> ContactSegments:
        """Segments from ``start`` to ``end``, (nc, 2 or 3) m, without bodies."""
        none = np.zeros((0, start.shape[1])), np.zeros(0), np.zeros(0, dtype=bool)
        return ContactSegments(start, end, *none)


def contact_segments(step: Step) -> ContactSegments:
    """Segments of a step's contacts, along their normals.

    All normals of a disc or a sphere meet in its centre: where they do, and at one distance,
    the segment reaches to the centre. In other bodies it reaches as deep as the middle of their
    contacts lies, so that the forces on a brick from below and from above join. Elsewhere, as on
    a body that is touched from one side, it has the length of its neighbours.

    Raises
    ------
    InvalidInput : the step has no points or no normals.
    """
    if step.points is None or step.normals is None:
        missing = "points" if step.points is None else "normals"
        raise InvalidInput("step", f"no {missing}", "a step with points and normals to draw")
    x, n = step.points, step.normals
    if x.shape != n.shape:
        raise InvalidInput("step", f"points {x.shape}, normals {n.shape}", "one dimension")
    bodies = np.full((step.nc, 2), -1) if step.bodies is None else without_walls(step)
    radius, depth = np.full((step.nc, 2), np.nan), np.full((step.nc, 2), np.nan)
    spheres: dict[int, tuple[FloatArray, float]] = {}
    for body in np.unique(bodies[bodies >= 0]).tolist():
        rows, sides = np.nonzero(bodies == body)
        inward = n[rows] * np.where(sides == 0, -1.0, 1.0)[:, None]
        sphere = _sphere(x[rows], inward)
        if sphere is None:
            depth[rows, sides] = _depths(x[rows], inward)
        else:
            spheres[body] = sphere
            radius[rows, sides] = sphere[1]
    usual = 0.5 * _spacing(x)
    for known in (depth, radius):  # the median of radii if there are any, else of depths
        if np.isfinite(known).any():
            usual = float(np.nanmedian(known))
    reach = np.where(np.isfinite(radius), radius, np.where(np.isfinite(depth), depth, usual))
    if step.bodies is not None:
        reach = np.where(bodies < 0, 0.0, reach)  # the fixed world has no centre
    moved = list(spheres) if step.dof_body is None else step.dof_body
    return ContactSegments(
        start=x - reach[:, :1] * n,
        end=x + reach[:, 1:] * n,
        centres=np.array([centre for centre, _ in spheres.values()]).reshape(-1, x.shape[1]),
        radii=np.array([radius for _, radius in spheres.values()]),
        fixed=~np.isin(list(spheres), moved),
    )


def without_walls(step: Step) -> IntArray:
    """(nc, 2) numbers of bodies, −1 for the fixed world and for fixed walls.

    A fixed body is a wall if it has two contacts or more, all with one normal.
    """
    bodies, normals = np.array(step.bodies), step.normals
    if step.dof_body is None or normals is None:
        return bodies
    for body in np.setdiff1d(bodies[bodies >= 0], step.dof_body).tolist():
        rows, sides = np.nonzero(bodies == body)
        inward = normals[rows] * np.where(sides == 0, -1.0, 1.0)[:, None]
        if rows.size > 1 and np.abs(inward - inward[0]).max() < _PARALLEL:
            bodies[rows, sides] = -1
    return bodies


def _sphere(points: FloatArray, inward: FloatArray) -> tuple[FloatArray, float] | None:
    """Centre and radius of a round body, from its contact points and the normals into it."""
    dim = points.shape[1]
    across = np.eye(dim)[None] - inward[:, :, None] * inward[:, None, :]
    matrix = across.sum(axis=0)
    if np.linalg.cond(matrix) > 1.0 / _ROUND:
        return None
    centre = np.linalg.solve(matrix, np.einsum("kij,kj->i", across, points))
    distances = np.einsum("kj,kj->k", centre - points, inward)
    radius = float(distances.mean())
    off = np.abs(points + radius * inward - centre).max(initial=0.0)
    if radius <= 0.0 or off > 1e-3 * radius:
        return None
    return centre, radius


def _depths(points: FloatArray, inward: FloatArray) -> FloatArray:
    """(k,) m, from contacts of a body along their normals to the middle of all; nan for none."""
    low, high = points.min(axis=0), points.max(axis=0)
    deep = ((0.5 * (low + high) - points) * inward).sum(axis=1)
    return np.where(deep > _FLAT * float(np.linalg.norm(high - low)), deep, np.nan)


def _spacing(points: FloatArray) -> float:
    """Median distance of contact points to the nearest other, m."""
    if points.shape[0] < 2:
        return 1.0
    same = _APART * float(np.ptp(points, axis=0).max())
    cells = np.unique(np.rint(points / same), axis=0, return_index=True)[1] if same else [0]
    positions = points[cells]
    if len(positions) < 2:
        return 1.0
    near = cKDTree(positions).query(positions, k=2)[0][:, 1]
    apart = near[near > same]
    return float(np.median(apart)) if apart.size else 1.0
