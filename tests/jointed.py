"""Steps with joints that several tests share."""

from __future__ import annotations

import numpy as np

import cdopt


def bars(rough: bool = False) -> cdopt.ContactStep:
    """Two bars of 2 m and 10 N in a line, a pin between them, on four supports.

    Degrees of freedom are x, y and the angle of each; the pin is at x = 2 m.
    """
    supports, centres = [(0, 0.2), (0, 1.6), (1, 2.4), (1, 3.8)], (1.0, 3.0)
    B, B_t = np.zeros((2, 4, 6))
    for i, (bar, x) in enumerate(supports):
        B[i, 3 * bar + 1], B[i, 3 * bar + 2] = 1.0, x - centres[bar]
        B_t[i, 3 * bar] = 1.0
    J = [[1.0, 0, 0, -1.0, 0, 0], [0, 1.0, 1.0, 0, -1.0, 1.0]]
    return cdopt.ContactStep(
        np.diag([1.0, 1.0, 1 / 3] * 2),
        B,
        np.zeros(4),
        np.zeros(6),
        [0.0, -10.0, 0.0] * 2,
        1e-3,
        dof_body=[0, 0, 0, 1, 1, 1],
        friction=cdopt.Friction(0.5, B_t) if rough else None,
        joints=cdopt.Joints(J, names=["pin x", "pin y"]),
    )


def four_bars(rate: float | None = None) -> cdopt.ContactStep:
    """A rhombus of four bars of 10 N with four pins, upright on three feet.

    One foot is under its lowest corner, one on an outrigger of each lower bar, 1.25 m from there. A
    ``rate`` turns the two lower bars against each other.
    """
    corners = np.array([[0.0, 0.0], [1.0, 1.0], [0.0, 2.0], [-1.0, 1.0]])
    ends = [(0, 1), (1, 2), (2, 3), (3, 0)]
    centres = np.array([corners[list(pair)].mean(axis=0) for pair in ends])

    def rows(bar: int, point: np.ndarray) -> np.ndarray:
        """(2, 12) rates of a point of a bar."""
        result, arm = np.zeros((2, 12)), point - centres[bar]
        result[:, 3 * bar : 3 * bar + 2] = np.eye(2)
        result[:, 3 * bar + 2] = -arm[1], arm[0]
        return result

    J = [rows(k, corners[(k + 1) % 4]) - rows((k + 1) % 4, corners[(k + 1) % 4]) for k in range(4)]
    J = np.vstack(J)
    if rate is not None:
        J = np.vstack([J, np.eye(12)[2] - np.eye(12)[11]])
    feet = [(0, corners[0]), (0, np.array([1.25, 1.25])), (3, np.array([-1.25, 1.25]))]
    B = np.vstack([rows(bar, point)[1] for bar, point in feet])
    return cdopt.ContactStep(
        np.diag([1.0, 1.0, 1 / 6] * 4),
        B,
        np.zeros(3),
        np.zeros(12),
        [0.0, -10.0, 0.0] * 4,
        1e-3,
        dof_body=np.repeat(np.arange(4), 3),
        joints=cdopt.Joints(J, [0.0] * 8 + ([] if rate is None else [rate])),
    )


def random_step(rng: np.random.Generator, redundant: int = 0) -> cdopt.ContactStep:
    """Twelve degrees of freedom, six contacts, four joint rows, and rows that depend on them."""
    A = rng.standard_normal((12, 12))
    J, rate = rng.standard_normal((4, 12)), rng.standard_normal(4)
    mix = rng.standard_normal((redundant, 4))
    return cdopt.ContactStep(
        A @ A.T + np.eye(12),
        rng.standard_normal((6, 12)),
        np.abs(rng.standard_normal(6)) * 1e-2,
        rng.standard_normal(12),
        rng.standard_normal(12) * 10.0,
        1e-2,
        joints=cdopt.Joints(np.vstack([J, mix @ J]), np.append(rate, mix @ rate)),
    )
