"""Derivatives of contact steps, of unique quantities only.

``of`` differentiates the conditions of one answer once; ``jvp`` and ``vjp`` of it are the two
directions, in NumPy. ``torch`` and ``jax`` have the same as functions of tensors and arrays.
"""

from cdopt.gradients import jax, torch
from cdopt.gradients.at import jvp, of, vjp
from cdopt.gradients.derivatives import Derivatives, Kink
from cdopt.gradients.run import TrajectoryGradients
from cdopt.gradients.trajectory import trajectory

__all__ = [
    "Derivatives",
    "Kink",
    "TrajectoryGradients",
    "jax",
    "jvp",
    "of",
    "torch",
    "trajectory",
    "vjp",
]
