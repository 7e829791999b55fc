"""Blocks, balls and table legs in any number: families that are written down, not searched for.

All are at rest, just touching, in units m = d = g = 1: mass, length and gravity of one body.
"""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp

from cdopt._util import checks
from cdopt._util.checks import FloatArray
from cdopt._util.errors import InvalidInput
from cdopt._util.parameters import whole
from cdopt.bank.piles import DT
from cdopt.bank.platforms import WEIGHT
from cdopt.problem.contact_step import ContactStep

_HEIGHT = 0.3  # of a brick
_CORNERS = 0.5 * np.array([[-1.0, -1.0], [1.0, -1.0], [1.0, 1.0], [-1.0, 1.0]])


def legs(n: int = 8) -> ContactStep:
    """A round top of 1 m and 10 N on n ≥ 3 legs, evenly around its rim.

    Degrees of freedom: height (m), turns about x and y (rad). nullity n − 3. By symmetry each leg
    carries 10 N / n, whatever the power of the contact law.

    Raises
    ------
    InvalidInput : n is not an integer from 3 to 10,000.
    """
    count = whole("n", n, 3, 10_000)
    angle = 2.0 * np.pi * np.arange(count) / count
    x, y = 0.5 * np.cos(angle), 0.5 * np.sin(angle)
    return ContactStep(
        M=np.diag([1.0, 1.0 / 16.0, 1.0 / 16.0]),  # of a disc of diameter one
        B=np.column_stack([np.ones(count), y, -x]),
        phi=np.zeros(count),
        v=np.zeros(3),
        F_ext=[-WEIGHT, 0.0, 0.0],
        dt=DT,
        bodies=np.tile([-1, 0], (count, 1)),
        normals=np.tile([0.0, 0.0, 1.0], (count, 1)),
        points=np.column_stack([x, y, np.zeros(count)]),
        dof_body=np.zeros(3, dtype=int),
    )


def chain(n: int = 10, mass_ratio: float = 1.0) -> ContactStep:
    """A column of n balls, one on another, on a floor.

    Degrees of freedom: the height of each. nullity 0: contact k carries all that lies above it.
    B's smallest singular value falls like 1/n. The balls' masses grow evenly in their logarithm
    from 1 at the bottom to ``mass_ratio`` at the top.

    Raises
    ------
    InvalidInput : n is not an integer from 1 to 100,000, or a ratio that is not positive.
    """
    count = whole("n", n, 1, 100_000)
    ratio = checks.scalar("mass_ratio", mass_ratio, above=0.0)
    mass = np.geomspace(1.0, ratio, count) if count > 1 else np.ones(1)
    below = np.arange(-1, count - 1)
    return ContactStep(
        M=sp.diags_array(mass),
        B=sp.eye_array(count, format="csr") - sp.eye_array(count, k=-1, format="csr"),
        phi=np.zeros(count),
        v=np.zeros(count),
        F_ext=-mass,
        dt=DT,
        bodies=np.column_stack([below, below + 1]),
        normals=np.tile([0.0, 0.0, 1.0], (count, 1)),
        points=np.column_stack([np.zeros((count, 2)), np.arange(count)]),
        dof_body=np.arange(count),
    )


def stack(n: int = 10) -> ContactStep:
    """n square boxes, one on another, on a floor; four contacts at the corners of each joint.

    Degrees of freedom of each box: height, turns about x and y. nullity n. By symmetry the four
    corners of joint k share the weight above it evenly.

    Raises
    ------
    InvalidInput : n is not an integer from 1 to 100,000.
    """
    count = whole("n", n, 1, 100_000)
    joint = np.column_stack([np.ones(4), _CORNERS[:, 1], -_CORNERS[:, 0]])
    order = sp.eye_array(count, format="csr") - sp.eye_array(count, k=-1, format="csr")
    level = np.repeat(np.arange(count), 4)
    load = np.zeros((count, 3))
    load[:, 0] = -1.0
    return ContactStep(
        M=sp.diags_array(np.tile([1.0, 1.0 / 6.0, 1.0 / 6.0], count)),  # of a cube
        B=sp.kron(order, joint, format="csr"),
        phi=np.zeros(4 * count),
        v=np.zeros(3 * count),
        F_ext=load.ravel(),
        dt=DT,
        bodies=np.column_stack([level - 1, level]),
        normals=np.tile([0.0, 0.0, 1.0], (4 * count, 1)),
        points=np.column_stack([np.tile(_CORNERS, (count, 1)), level.astype(float)]),
        dof_body=np.repeat(np.arange(count), 3),
    )


def brick_pyramid(courses: int = 4) -> ContactStep:
    """A stepped brick wall in the plane, in running bond: each course one brick shorter.

    Bricks are 1 long and 0.3 high. Each lies half on either brick below, with two contacts on
    each; those of the first course have two on the floor. Head joints are open. Degrees of
    freedom: the two translations and the turn of each brick, from the left, course by course; no
    contact moves a brick sideways. nullity courses (courses − 1): four contacts for the two
    equations of each brick above the first course.

    Raises
    ------
    InvalidInput : courses is not an integer from 1 to 500.
    """
    rows = whole("courses", courses, 1, 500)
    first = np.cumsum([0, *range(rows, 0, -1)])  # number of each course's first brick
    course = np.repeat(np.arange(rows), np.arange(rows, 0, -1))
    brick = np.arange(course.size)
    centre = np.column_stack([brick - first[course] + 0.5 * course, (course + 0.5) * _HEIGHT])
    laid = course > 0
    left = brick[laid] - first[course[laid]] + first[course[laid] - 1]
    lower = np.concatenate([np.full(2 * rows, -1), np.repeat(left, 4)])
    lower[2 * rows :] += np.tile([0, 0, 1, 1], int(laid.sum()))
    upper = np.concatenate([np.repeat(brick[:rows], 2), np.repeat(brick[laid], 4)])
    shift = np.concatenate([
        np.tile([-0.5, 0.5], rows), np.tile([-0.5, 0.0, 0.0, 0.5], int(laid.sum()))
    ])  # fmt: skip
    points = np.column_stack([centre[upper, 0] + shift, course[upper] * _HEIGHT])
    return _bricks(centre, lower, upper, points)


def _bricks(centre: FloatArray, lower: object, upper: object, points: FloatArray) -> ContactStep:
    """Bricks at ``centre`` (nb, 2) that press on each other upright at ``points`` (nc, 2)."""
    pairs = np.column_stack([np.asarray(lower), np.asarray(upper)])
    rows, cols, data = [], [], []
    for column, sign in ((0, -1.0), (1, 1.0)):
        here = np.flatnonzero(pairs[:, column] >= 0)
        body = pairs[here, column]
        rows += [here, here]
        cols += [3 * body + 1, 3 * body + 2]
        data += [np.full(here.size, sign), sign * (points[here, 0] - centre[body, 0])]
    shape = (pairs.shape[0], 3 * centre.shape[0])
    entries = (np.concatenate(data), (np.concatenate(rows), np.concatenate(cols)))
    load = np.zeros((centre.shape[0], 3))
    load[:, 1] = -1.0
    inertia = (1.0 + _HEIGHT**2) / 12.0
    return ContactStep(
        M=sp.diags_array(np.tile([1.0, 1.0, inertia], centre.shape[0])),
        B=sp.coo_array(entries, shape=shape).tocsr(),
        phi=np.zeros(shape[0]),
        v=np.zeros(shape[1]),
        F_ext=load.ravel(),
        dt=DT,
        bodies=pairs,
        normals=np.tile([0.0, 1.0], (shape[0], 1)),
        points=points,
        dof_body=np.repeat(np.arange(centre.shape[0]), 3),
    )


def nearly_parallel(n: int = 6, angle: float = 1e-4) -> ContactStep:
    """A disc in a groove of n facets whose normals all lie within ±angle of the vertical.

    Degrees of freedom: its two translations; the sideways one is held by angles alone, so that
    B's columns differ in size by about 1/angle. It rests under its weight, 1, and a sideways push
    of angle/4. nullity n − 2.

    Raises
    ------
    InvalidInput : n is not an integer from 2 to 10,000, or angle is not in (0, 1] rad.
    """
    count = whole("n", n, 2, 10_000)
    widest = checks.scalar("angle", angle, above=0.0, at_most=1.0)
    tilt = np.linspace(-widest, widest, count)
    normals = np.column_stack([np.sin(tilt), np.cos(tilt)])
    return ContactStep(
        M=np.eye(2),
        B=normals,
        phi=np.zeros(count),
        v=np.zeros(2),
        F_ext=[widest / 4.0, -1.0],
        dt=DT,
        bodies=np.tile([-1, 0], (count, 1)),
        normals=normals,
        points=-0.5 * normals,
        dof_body=[0, 0],
    )


def heavy_and_light(step: ContactStep, ratio: float = 1e6, seed: int = 0) -> ContactStep:
    """The same step, its bodies' masses and loads multiplied at random over orders of magnitude.

    The factors are drawn log-uniform, the most over the least ``ratio``, one for each body. Such
    a pile need not be at rest.

    Raises
    ------
    InvalidInput : the ratio is below one, or the step has no matrices or no ``dof_body``.
    """
    most = checks.scalar("mass_ratio", ratio, at_least=1.0)
    if step.M is None or step.F_ext is None or step.dof_body is None:
        raise InvalidInput("step", "no matrices or no dof_body", "a step with both")
    random = np.random.default_rng(whole("seed", seed, 0, 2**32 - 1))
    factor = most ** random.uniform(-0.5, 0.5, int(step.dof_body.max()) + 1)
    own = np.sqrt(factor[step.dof_body])
    mass = sp.diags_array(own) @ step.M @ sp.diags_array(own)
    return step.replace(M=mass, F_ext=step.F_ext * factor[step.dof_body])
