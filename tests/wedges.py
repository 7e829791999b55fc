"""A wedge that several tests share."""

from __future__ import annotations

import numpy as np

import cdopt

DT, G = 1e-3, 9.81
ANGLE = np.radians(20.0)


def wedge(dim: int, mu: float, phi: float, force: list[float]) -> cdopt.ContactStep:
    """A body of 1 kg in a wedge whose sides are 20° from the vertical."""
    c, s = np.cos(ANGLE), np.sin(ANGLE)
    normals = np.array([[c, 0.0, s], [-c, 0.0, s]])
    along, across = np.array([[-s, 0.0, c], [s, 0.0, c]]), np.array([[0.0, 1.0, 0.0]] * 2)
    tangents = np.stack([along, across], axis=1)[:, : dim - 1]
    axes = [0, 2] if dim == 2 else [0, 1, 2]
    return cdopt.ContactStep(
        np.eye(dim), normals[:, axes], [phi, phi], np.zeros(dim), force, DT,
        friction=cdopt.Friction(mu, tangents[:, :, axes].reshape(-1, dim)),
    )  # fmt: skip
