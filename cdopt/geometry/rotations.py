"""Orientations: an angle θ in the plane, a unit quaternion (w, x, y, z) in space.

Arrays of many at a time; angular velocities are in the global frame.
"""

from __future__ import annotations

import numpy as np

from cdopt._util.checks import FloatArray


def matrices(orientation: FloatArray) -> FloatArray:
    """Matrices (n, dim, dim) from the body's frame, of angles (n,) or quaternions (n, 4)."""
    if orientation.ndim == 1:
        c, s = np.cos(orientation), np.sin(orientation)
        return np.stack([np.stack([c, -s], -1), np.stack([s, c], -1)], -2)
    w, x, y, z = orientation.T
    rows = (
        (1 - 2 * (y * y + z * z), 2 * (x * y - w * z), 2 * (x * z + w * y)),
        (2 * (x * y + w * z), 1 - 2 * (x * x + z * z), 2 * (y * z - w * x)),
        (2 * (x * z - w * y), 2 * (y * z + w * x), 1 - 2 * (x * x + y * y)),
    )
    return np.stack([np.stack(row, -1) for row in rows], -2)


def product(a: FloatArray, b: FloatArray) -> FloatArray:
    """Quaternion products a b (n, 4): the rotation b first, then a."""
    real = a[:, :1] * b[:, :1] - (a[:, 1:] * b[:, 1:]).sum(1, keepdims=True)
    cross = np.cross(a[:, 1:], b[:, 1:])
    return np.hstack([real, a[:, :1] * b[:, 1:] + b[:, :1] * a[:, 1:] + cross])


def turned(quaternion: FloatArray, rotation: FloatArray) -> FloatArray:
    """Unit quaternions (n, 4) after a turn by rotation vectors (n, 3) in the global frame, rad."""
    angle = np.linalg.norm(rotation, axis=1, keepdims=True)
    half = 0.5 * np.sinc(angle / (2.0 * np.pi))  # sin(angle/2) / angle
    result = product(np.hstack([np.cos(0.5 * angle), half * rotation]), quaternion)
    return result / np.linalg.norm(result, axis=1, keepdims=True)


def unit(vectors: FloatArray) -> FloatArray:
    """Vectors (n, k) at length one; those that have it to round-off are left as they are."""
    length = np.linalg.norm(vectors, axis=1, keepdims=True)
    settled = np.abs(length - 1.0) <= 8.0 * np.finfo(float).eps
    return np.where(settled, vectors, vectors / length)


def cross_matrices(vectors: FloatArray) -> FloatArray:
    """[a]× (n, 3, 3) of vectors (n, 3): [a]× b = a × b."""
    x, y, z = vectors.T
    zero = np.zeros_like(x)
    rows = ((zero, -z, y), (z, zero, -x), (-y, x, zero))
    return np.stack([np.stack(row, -1) for row in rows], -2)
