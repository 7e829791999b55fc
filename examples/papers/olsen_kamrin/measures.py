"""Errors, floor forces and symmetry of a pile's contact forces."""

from __future__ import annotations

import numpy as np

from cdopt._util.checks import FloatArray
from cdopt.problem.contact_step import ContactStep

from .pile import LOADED


def floor_forces(step: ContactStep, f: FloatArray, base: int) -> FloatArray:
    """(base,) downward force on every fixed sphere, in the units of f."""
    return -np.asarray(step.body_forces(f)[:base, -1])


def relative_error(found: FloatArray, wanted: FloatArray) -> float:
    """‖found − wanted‖ / ‖wanted‖."""
    return float(np.linalg.norm(found - wanted) / np.linalg.norm(wanted))


def loaded(f: FloatArray) -> int:
    """Number of contacts that carry force."""
    return int(np.count_nonzero(f > LOADED * f.max(initial=0.0)))


def asymmetry(floor: FloatArray) -> float:
    """‖F − S F‖ / ‖F‖, where S averages a square floor over its eight symmetries."""
    side = round(float(np.sqrt(floor.size)))
    square = floor.reshape(side, side)
    turns = [np.rot90(way, k) for way in (square, square.T) for k in range(4)]
    return float(np.linalg.norm(square - np.mean(turns, axis=0)) / np.linalg.norm(square))
