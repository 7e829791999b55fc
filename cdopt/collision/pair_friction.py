"""Friction of pairs of bodies of a scene, before contacts are detected."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from cdopt._util import checks
from cdopt._util.checks import FloatArray, IntArray
from cdopt.scene import Scene


@dataclass(frozen=True)
class PairFriction:
    """Friction of all pairs of bodies of a scene.

    Parameters
    ----------
    mu : Coulomb's coefficient of all pairs; None for those of the scene's materials.
    ratio : k_t/k_n of the tangential springs of elastic contacts; None takes Mindlin's
        2(1−ν)/(2−ν), from Poisson's ratios of the materials.

    Raises
    ------
    InvalidInput : μ below 0, or a ratio that is not positive.
    """

    mu: float | None = None
    ratio: float | None = None

    def __post_init__(self) -> None:
        if self.mu is not None:
            object.__setattr__(self, "mu", checks.not_negative("mu", self.mu))
        if self.ratio is not None:
            object.__setattr__(self, "ratio", checks.positive("ratio", self.ratio))

    def coefficients(self, scene: Scene, pairs: IntArray) -> FloatArray:
        """μ (n,) of pairs (n, 2) of bodies.

        Raises
        ------
        InvalidInput : no coefficient is stated, or no pairs of numbers of bodies.
        """
        numbers = self._pairs(scene, pairs)
        if self.mu is None:
            return np.array(scene.contact_friction(numbers))
        return np.full(len(numbers), self.mu)

    def ratios(self, scene: Scene, pairs: IntArray) -> FloatArray:
        """k_t/k_n (n,) of pairs (n, 2) of bodies.

        Raises
        ------
        InvalidInput : no pairs of numbers of bodies.
        """
        numbers = self._pairs(scene, pairs)
        if self.ratio is None:
            return tangential_ratio(scene, numbers)
        return np.full(len(numbers), self.ratio)

    @staticmethod
    def _pairs(scene: Scene, pairs: IntArray) -> IntArray:
        nb = checks.instance("scene", scene, Scene).nb
        return checks.integers("pairs", pairs, (None, 2), at_least=0, below=nb)


def tangential_ratio(scene: Scene, pairs: IntArray) -> FloatArray:
    """Mindlin's k_t/k_n (n,) of pairs (n, 2), 2(1−ν)/(2−ν) of two alike, else halves in series."""
    nu = np.array([material.poisson for material in scene.materials] + [0.0])
    ratio = (2.0 * (1.0 - nu) / (2.0 - nu))[scene.bodies.material[pairs]]
    with np.errstate(divide="ignore"):
        yields = 1.0 / scene.half_stiffness[pairs]
    series = (yields / ratio).sum(axis=1)
    rigid = series == 0.0
    return np.asarray(np.where(rigid, 1.0, yields.sum(axis=1) / np.where(rigid, 1.0, series)))
