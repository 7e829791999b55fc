"""The few places where versions of cdopt differ in names or shapes."""

from __future__ import annotations

from typing import Any

import numpy as np


def first_of(thing: Any, *names: str) -> Any:
    """The first attribute that it has."""
    for name in names:
        if hasattr(thing, name):
            return getattr(thing, name)
    raise AttributeError(f"{type(thing).__name__} has none of {', '.join(names)}")


def bounds(report: Any, d: int) -> tuple[np.ndarray, np.ndarray]:
    """(nc, d) lower and upper bounds of a report of indeterminacy."""
    sides = []
    for name in ("lower", "upper"):
        side = np.asarray(getattr(report, name), dtype=float)
        sideways = getattr(report, f"{name}_t", None)
        table = side if sideways is None else np.column_stack([side, sideways])
        sides.append(table.reshape(-1, d))
    return sides[0], sides[1]


def classic(report: Any) -> Any:
    """The certified solution behind a report."""
    return first_of(report, "classic", "solution")


def motion_of(data: Any, motion: np.ndarray | None) -> np.ndarray | None:
    """A motion in the length that ``certify`` wants: gaps may be one more dof, held at one."""
    if motion is None:
        return None
    return np.append(motion, 1.0) if data.nv == motion.size + 1 else motion


def gradient(derivatives: Any, weights: np.ndarray) -> Any:
    """Of Σ weights f, weights (nc, d)."""
    flat = weights.shape[1] == 1 or hasattr(derivatives, "tangent")
    return derivatives.gradient(weights.ravel() if flat else weights)


def delassus(step: Any) -> tuple[np.ndarray, np.ndarray]:
    """N and p of all rows of a step that is known by them alone."""
    N, p = first_of(step, "N_rows", "N"), first_of(step, "p_rows", "p_vec")
    return (N.toarray() if hasattr(N, "toarray") else np.asarray(N)), np.asarray(p)


def dimension(step: Any) -> int:
    """Rows a contact of a step with friction."""
    if hasattr(step, "M"):
        return 1 + step.friction.B_t.shape[0] // max(step.nc, 1)
    return delassus(step)[1].size // max(step.nc, 1)
