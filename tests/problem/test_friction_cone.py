"""The friction cone: projections against their definition, derivatives, duality."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import minimize

from cdopt.problem import FrictionCones
from cdopt.problem import friction_cone as cone

rows = st.integers(0, 2**31 - 1)


def points(seed: int, d: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    return rng.standard_normal((30, d)), rng.choice([0.0, 0.1, 0.7, 3.0], 30)


@given(seed=rows, d=st.sampled_from([2, 3]))
def test_moreau_splits_every_point_into_cone_and_polar_cone(seed: int, d: int) -> None:
    y, mu = points(seed, d)
    inside = cone.project(y, mu)
    polar = y - inside  # −polar is in the dual cone, orthogonal to the projection
    sliding = np.linalg.norm(inside[:, 1:], axis=1)
    assert np.all(sliding <= mu * inside[:, 0] + 1e-12)
    assert np.all(-polar[:, 0] >= mu * np.linalg.norm(polar[:, 1:], axis=1) - 1e-12)
    assert np.allclose(np.sum(inside * polar, axis=1), 0.0, atol=1e-12)
    assert np.allclose(cone.project(inside, mu), inside, atol=1e-12)


def test_projection_is_the_nearest_point() -> None:
    y, mu = np.array([[0.3, 1.1, -0.4]]), np.array([0.5])
    best = minimize(
        lambda f: float(np.sum((f - y[0]) ** 2)),
        [1.0, 0.0, 0.0],
        constraints={"type": "ineq", "fun": lambda f: 0.5 * f[0] - np.hypot(f[1], f[2])},
        tol=1e-14,
    )
    assert np.allclose(cone.project(y, mu)[0], best.x, atol=1e-6)


@pytest.mark.parametrize("d", [2, 3])
def test_derivatives_by_finite_differences(d: int) -> None:
    y, mu = points(3, d)
    step = np.random.default_rng(4).standard_normal(y.shape)
    h = 1e-6
    for function, derivative in (
        (lambda x: cone.project(x, mu), cone.projection_derivative(y, mu)),
        (lambda x: cone.shift(x, mu)[:, None], cone.shift_gradient(y, mu)[:, None]),
    ):
        difference = (function(y + h * step) - function(y - h * step)) / (2.0 * h)
        assert np.allclose((derivative @ step[:, :, None])[:, :, 0], difference, atol=1e-5)


def test_the_natural_map_vanishes_at_solutions_and_only_there() -> None:
    cones, w = FrictionCones(np.array([0.5]), 2), np.array([2.0])
    stick, slide, rate = np.array([1.0, 0.3]), np.array([1.0, -0.5]), np.array([0.0, 0.7])
    assert not cones.natural_map(stick, np.zeros(2), w).any()
    assert np.allclose(cones.natural_map(slide, cones.shifted(rate), w), 0.0, atol=1e-15)
    assert np.abs(cones.natural_map(-slide, cones.shifted(rate), w)).max() > 0.1
    assert np.abs(cones.natural_map(stick, cones.shifted(rate), w)).max() > 0.1


def test_without_friction_a_pull_along_the_normal_is_no_force() -> None:
    pulls = np.array([[-2.0, 0.0, 0.0], [2.0, 0.0, 0.0], [2.0, 1.0, 0.0]])
    assert cone.project(pulls, np.zeros(3)).tolist() == [[0, 0, 0], [2, 0, 0], [2, 0, 0]]
    assert not cone.projection_derivative(pulls[:1], np.zeros(1)).any()
