"""Random steps, their data in forty digits, and directions of all data."""

from __future__ import annotations

from typing import Any

import exact
import numpy as np

import cdopt


def random_step(rng: np.random.Generator, nc: int, nv: int, d: int, joints: int) -> Any:
    """A step of ``nc`` contacts of d rows, some of which press."""
    root = rng.standard_normal((nv, nv))
    more: dict[str, Any] = {}
    if d > 1:
        B_t = rng.standard_normal((nc * (d - 1), nv))
        rate = 0.1 * rng.standard_normal((nc, d - 1))
        more["friction"] = cdopt.Friction(rng.uniform(0.1, 0.7, nc), B_t, rate)
    if joints:
        J = rng.standard_normal((joints, nv))
        more["joints"] = cdopt.Joints(J, 0.1 * rng.standard_normal(joints))
    return cdopt.ContactStep(
        root @ root.T + nv * np.eye(nv),
        rng.standard_normal((nc, nv)),
        rng.uniform(0.0, 0.01, nc),
        rng.standard_normal(nv),
        rng.standard_normal(nv),
        1e-2,
        restitution=rng.choice([0.0, 0.3]),
        gap_rate=0.1 * rng.standard_normal(nc),
        stiffness=rng.uniform(0.5, 2.0, nc),
        **more,
    )


def data_of(step: Any) -> dict[str, Any]:
    """All that gradients are by, as plain arrays."""
    data = {
        name: getattr(step, name)
        for name in ("M", "B", "phi", "v", "F_ext", "restitution", "gap_rate")
    }
    if step.friction is not None:
        data |= {name: getattr(step.friction, name) for name in ("mu", "B_t", "rate")}
    if step.joints is not None:
        data |= {"J": step.joints.J, "joint_rate": step.joints.rate}
    return {k: v.toarray() if hasattr(v, "toarray") else np.array(v) for k, v in data.items()}


def directions_of(step: Any, rng: np.random.Generator) -> dict[str, Any]:
    """A random change of all data; of M a symmetric one."""
    found = {k: np.asarray(rng.standard_normal(v.shape)) for k, v in data_of(step).items()}
    found["M"] = found["M"] + found["M"].T
    found["phi"] = 0.01 * found["phi"]
    found["restitution"] *= step.restitution > 0.0  # where it begins, rates jump
    return {**found, "dt": 0.01}


def exactly(values: dict[str, Any]) -> dict[str, Any]:
    """The same in mpmath."""
    wide = {"M", "B", "G", "B_t", "J", "damping_matrix"}
    return {
        k: exact.mp.mpf(float(v)) if np.ndim(v) == 0 else exact.matrix(v) if k in wide
        else exact.column(v)
        for k, v in values.items()
    }  # fmt: skip


def pairing(pull: dict[str, Any], directions: dict[str, Any]) -> float:
    """Σ cotangent · direction."""
    total = 0.0
    for name, value in directions.items():
        cotangent = pull[name]
        entries = cotangent.toarray() if hasattr(cotangent, "toarray") else cotangent
        total += float(np.sum(entries * value))
    return total
