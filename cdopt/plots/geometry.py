"""Where to draw a contact, from what a step carries: points, normals and body numbers."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.spatial import cKDTree

from cdopt._util.checks import FloatArray
from cdopt._util.errors import InvalidInput
from cdopt.problem.contact_step import Step

_RIGHT = 1e-6  # residual and condition beyond which a body has no centre of its contacts
_FLAT = 0.02  # of the extent of a body's contacts: nearer to their middle, it has no depth
_APART = 1e-3  # of the extent of all contacts: nearer points stand in one place


@dataclass(frozen=True, eq=False)
class Network:
    """Contacts as segments, and the round bodies that they reveal.

    Attributes
    ----------
    start, end : (nc, 2 or 3) ends of each contact's segment, m; body centres where known.
    centres : (nb, 2 or 3) centres of round bodies, m.
    radii : (nb,) m.
    fixed : (nb,) whether no degree of freedom moves the body.
    """

    start: FloatArray
    end: FloatArray
    centres: FloatArray
    radii: FloatArray
    fixed: FloatArray


def network(step: Step) -> Network:
    """Segments of a step's contacts, along their normals.

    All normals of a disc or a sphere meet in its centre: where they do, and at one distance,
    the segment reaches to the centre. Of other bodies it reaches as deep as the middle of their
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
    radius, depth = np.full((step.nc, 2), np.nan), np.full((step.nc, 2), np.nan)
    centres: list[FloatArray] = []
    radii: list[float] = []
    numbers: list[int] = []
    if step.bodies is not None:
        for body in np.unique(step.bodies[step.bodies >= 0]):
            rows, sides = np.nonzero(step.bodies == body)
            inward = n[rows] * np.where(sides == 0, -1.0, 1.0)[:, None]
            found = _centre(x[rows], inward)
            if found is None:
                depth[rows, sides] = _depths(x[rows], inward)
            else:
                radius[rows, sides] = found[1]
                centres.append(found[0])
                radii.append(found[1])
                numbers.append(int(body))
    usual = next(
        (float(np.nanmedian(known)) for known in (radius, depth) if np.isfinite(known).any()),
        0.5 * _spacing(x),
    )
    reach = np.where(np.isfinite(radius), radius, np.where(np.isfinite(depth), depth, usual))
    if step.bodies is not None:
        reach = np.where(step.bodies < 0, 0.0, reach)  # the fixed world has no centre
    held = np.zeros(len(numbers))
    if step.dof_body is not None:
        held = (~np.isin(numbers, step.dof_body)).astype(float)
    return Network(
        x - reach[:, :1] * n,
        x + reach[:, 1:] * n,
        np.array(centres).reshape(len(centres), x.shape[1]),
        np.array(radii),
        held,
    )


def _centre(points: FloatArray, outward: FloatArray) -> tuple[FloatArray, float] | None:
    """Centre and radius of a round body, from its contact points and the normals into it."""
    dim = points.shape[1]
    across = np.eye(dim)[None] - outward[:, :, None] * outward[:, None, :]
    matrix = across.sum(axis=0)
    if np.linalg.cond(matrix) > 1.0 / _RIGHT:
        return None
    centre = np.linalg.solve(matrix, np.einsum("kij,kj->i", across, points))
    distances = np.einsum("kj,kj->k", centre - points, outward)
    radius = float(distances.mean())
    off = np.abs(points + radius * outward - centre).max(initial=0.0)
    if radius <= 0.0 or off > 1e-3 * radius:
        return None
    return centre, radius


def _depths(points: FloatArray, inward: FloatArray) -> FloatArray:
    """(k,) m, from contacts of a body along their normals to the middle of all; nan for none."""
    low, high = points.min(axis=0), points.max(axis=0)
    deep = ((0.5 * (low + high) - points) * inward).sum(axis=1)
    return np.where(deep > _FLAT * float(np.linalg.norm(high - low)), deep, np.nan)


def _spacing(points: FloatArray) -> float:
    """Median distance of a place with contacts to the nearest other, m."""
    if points.shape[0] < 2:
        return 1.0
    same = _APART * float(np.ptp(points, axis=0).max())
    cells = np.unique(np.rint(points / same), axis=0, return_index=True)[1] if same else [0]
    places = points[cells]
    if len(places) < 2:
        return 1.0
    near = cKDTree(places).query(places, k=2)[0][:, 1]
    apart = near[near > same]
    return float(np.median(apart)) if apart.size else 1.0
