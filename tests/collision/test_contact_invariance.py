"""What must not matter: where a scene stands, how it is turned, and a dimension it does not use."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from random_scenes import carried, mixed, thrown

from cdopt.collision import detect, gap_gradient, step
from cdopt.scene import Scene, Spheres


@settings(max_examples=20)
@given(seed=st.integers(0, 100), dim=st.sampled_from([2, 3]))
def test_a_scene_may_be_carried_anywhere(seed, dim) -> None:
    rng = np.random.default_rng(seed)
    scene = mixed(dim, rng)
    state = thrown(scene, rng)
    moved, R = carried(state, rng, 5.0)
    here, there = detect(scene, state, 1e3), detect(scene, moved, 1e3)
    np.testing.assert_array_equal(here.contact_ids, there.contact_ids)
    np.testing.assert_allclose(there.phi, here.phi, atol=1e-12)
    np.testing.assert_allclose(there.normals, here.normals @ R.T, atol=1e-9)
    rates = [
        gap_gradient(scene, s, c) @ scene.dofs.gather(s.v) + c.gap_rate
        for s, c in ((state, here), (moved, there))
    ]
    np.testing.assert_allclose(rates[1], rates[0], atol=1e-8)


@pytest.mark.parametrize("seed", range(3))
def test_discs_in_the_plane_are_spheres_in_a_plane(seed: int) -> None:
    rng = np.random.default_rng(seed)
    centres = rng.uniform(0.0, 1.0, (40, 2))
    radius, mass = rng.uniform(0.02, 0.1, 40), rng.uniform(1.0, 2.0, 40)
    velocity = rng.standard_normal((40, 2))
    flat, deep = (
        Scene(
            [
                Spheres(
                    centres=pad(centres, dim),
                    radius=radius,
                    velocities=pad(velocity, dim),
                    mass=mass,
                )
            ],
            dim=dim,
            gravity=pad(np.array([[0.3, -9.0]]), dim)[0],
            overlap_tol=1e9,
        )
        for dim in (2, 3)
    )
    two, three = (detect(s, s.initial, 0.05) for s in (flat, deep))
    np.testing.assert_array_equal(two.contact_ids, three.contact_ids)
    np.testing.assert_allclose(three.phi, two.phi, atol=1e-16)
    np.testing.assert_allclose(three.normals, pad(two.normals, 3), atol=1e-16)
    np.testing.assert_allclose(three.points, pad(two.points, 3), atol=1e-16)
    in_plane = np.flatnonzero(deep.dofs.column < 2)
    steps = [step(s, s.initial, c, 1e-3) for s, c in ((flat, two), (deep, three))]
    np.testing.assert_allclose(steps[1].B.toarray()[:, in_plane], steps[0].B.toarray(), atol=1e-16)
    np.testing.assert_allclose(steps[1].p_vec, steps[0].p_vec, rtol=1e-12, atol=1e-15)


def pad(table: np.ndarray, dim: int) -> np.ndarray:
    return np.hstack([table, np.zeros((table.shape[0], dim - table.shape[1]))])
