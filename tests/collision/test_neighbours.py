"""Neighbour search: nothing is missed, whatever the sizes and however long a list is kept."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cdopt import InvalidInput
from cdopt.collision import VerletList, default_margin, detect, safe_margin
from cdopt.geometry.broad_phase import near_pairs
from cdopt.scene import Body, Box, HalfSpace, Scene, Sphere, Spheres, State, pyramid


def cloud(dim: int, seed: int, n: int = 60, ratio: float = 30.0) -> Scene:
    """Spheres of very different sizes anywhere, overlaps and all, and a box."""
    rng = np.random.default_rng(seed)
    radii = np.geomspace(0.02, 0.02 * ratio, n)
    return Scene(
        [
            Spheres(
                centres=rng.uniform(0.0, 2.0, (n, dim)),
                radius=rng.permutation(radii),
                mass=1.0,
                fixed=rng.random(n) < 0.2,
            ),
            Body(Box(np.full(dim, 0.3)), np.full(dim, 1.0), mass=1.0),
            Body(HalfSpace(np.eye(dim)[-1]), np.zeros(dim)),
        ],
        dim=dim,
        overlap_tol=1e9,
    )


@settings(max_examples=25)
@given(
    dim=st.sampled_from([2, 3]),
    seed=st.integers(0, 1000),
    margin=st.floats(0.0, 0.5),
    ratio=st.floats(1.0, 1000.0),
)
def test_the_search_finds_all_pairs(dim, seed, margin, ratio) -> None:
    scene = cloud(dim, seed, 40, ratio)
    bodies, x = scene.bodies, scene.initial.position
    i, j = np.triu_indices(scene.nb, 1)
    gap = np.linalg.norm(x[j] - x[i], axis=1) - bodies.reach[i] - bodies.reach[j]
    bounded = np.isfinite(gap) & ~(bodies.fixed[i] & bodies.fixed[j])
    expected = {(a, b) for a, b, g in zip(i, j, gap, strict=True) if g <= margin}
    expected &= {(a, b) for a, b, k in zip(i, j, bounded, strict=True) if k}
    found = near_pairs(x, bodies.reach, bodies.fixed, margin)
    assert len(found) == len(set(map(tuple, found)))
    assert set(map(tuple, found)) == expected


@pytest.mark.parametrize(("dim", "skin"), [(2, 0.0), (3, 0.05), (2, 1.0), (3, None)])
def test_contacts_do_not_depend_on_the_reuse_of_a_search(dim: int, skin) -> None:
    scene = cloud(dim, 7)
    rng = np.random.default_rng(1)
    kept = VerletList(scene, skin)
    q = np.array(scene.initial.q)
    for k in range(30):
        q[:, :dim] += rng.normal(0.0, 3e-3, (scene.nb, dim)) * ~scene.bodies.fixed[:, None]
        state = State(float(k), q, scene.initial.v)
        margin = 0.02 * (1 + k % 3)
        ours, fresh = detect(scene, state, margin, kept), detect(scene, state, margin)
        for name in ("bodies", "phi", "normals", "points", "contact_ids"):
            np.testing.assert_array_equal(getattr(ours, name), getattr(fresh, name))
    assert 1 <= kept.searches <= 30
    assert (kept.searches < 3) == (skin == 1.0)


def test_a_list_is_kept_until_bodies_have_moved_apart_by_the_skin() -> None:
    """Bodies that move together stay near each other, wherever they go."""
    pair = Spheres(centres=[[0.0, 0.0], [1.0, 0.0]], radius=0.1, mass=1.0)
    scene = Scene([pair], dim=2)
    kept = VerletList(scene, skin=0.2)
    for x, searches in ((0.0, 1), (0.19, 1), (-0.19, 1), (0.21, 2), (0.02, 2), (0.0, 3)):
        q = np.array(scene.initial.q) + 5.0 * searches
        q[0, 0] += x
        kept.pairs(State(0.0, q, scene.initial.v), 0.1)
        assert kept.searches == searches
    kept.pairs(scene.initial, 0.3)
    assert kept.searches == 3
    kept.pairs(scene.initial, 0.31)
    assert kept.searches == 4
    with pytest.raises(InvalidInput, match="margin"):
        kept.pairs(scene.initial, np.nan)


def test_few_candidates_are_looked_at() -> None:
    scene = pyramid(10)
    pairs = VerletList(scene).pairs(scene.initial, default_margin(scene))
    assert 1620 <= len(pairs) <= 2000


def test_a_large_body_does_not_widen_the_search_of_small_ones() -> None:
    rng = np.random.default_rng(0)
    grid = np.stack(np.meshgrid(*[np.arange(15.0)] * 3), -1).reshape(-1, 3)
    grains = Spheres(centres=grid + rng.uniform(-0.1, 0.1, grid.shape), radius=0.3, mass=1.0)
    boulder = Body(Sphere(500.0), [0.0, 0.0, -501.0], fixed=True)
    scene = Scene([grains, boulder], dim=3)
    assert detect(scene, scene.initial, margin=0.5).nc > 15**2


def test_the_safe_margin_covers_the_motion_of_a_step() -> None:
    ball = Body(Sphere(0.1), [0.0, 5.0], velocity=[0.0, -100.0], mass=1.0)
    floor = Body(HalfSpace([0.0, 1.0]), [0.0, 0.0], velocity=[0.0, 50.0])
    scene = Scene([ball, floor], dim=2)
    assert safe_margin(scene, scene.initial, 0.01) >= 1.5
    rest = State(0.0, scene.initial.q, np.zeros((2, 3)))
    assert safe_margin(scene, rest, 1e-6) == default_margin(scene) == pytest.approx(0.01)
    with pytest.raises(InvalidInput):
        safe_margin(scene, rest, 0.0)
