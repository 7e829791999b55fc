"""Damping, bonds and the turns of spheres in scenes for elastic methods."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cdopt import InvalidInput
from cdopt.scene import Body, Box, HalfSpace, Scene, Sphere, Spheres, beam

ELASTIC = ("damping", "tangential_damping", "bond_stiffness", "bond_reach")


def row(*places: float, **fields) -> Scene:
    """Discs of radius 1/2 along x."""
    centres = [[x, 0.0] for x in places]
    return Scene([Spheres(centres=centres, radius=0.5, mass=1.0)], dim=2, **fields)


def test_a_scene_that_states_nothing_has_neither_damping_nor_bonds() -> None:
    scene = row(0.0, 1.0)
    assert [getattr(scene, name) for name in ELASTIC] == [0.0, None, None, 0.01]
    assert scene.gamma_t == 0.0
    assert scene.bonds.shape == (0, 2)
    assert scene.bonds.dtype == np.int64


def test_tangential_damping_is_half_of_the_normal_unless_stated() -> None:
    assert row(0.0, damping=30.0).gamma_t == 15.0
    assert row(0.0, damping=30.0, tangential_damping=0.0).gamma_t == 0.0
    assert row(0.0, tangential_damping=4.0).gamma_t == 4.0


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("damping", -1.0),
        ("damping", np.nan),
        ("damping", None),
        ("tangential_damping", -1e-9),
        ("tangential_damping", [1.0]),
        ("bond_stiffness", 0.0),
        ("bond_stiffness", np.inf),
        ("bond_reach", 0.0),
        ("bond_reach", 1.1),
        ("bond_reach", "0.01"),
    ],
)
def test_fields_out_of_range_are_named(field: str, value) -> None:
    with pytest.raises(InvalidInput) as error:
        row(0.0, **{field: value})
    assert error.value.argument == field


def test_pairs_within_a_hundredth_of_a_diameter_are_bonded() -> None:
    places = np.cumsum([0.0, 0.9901, 1.0101, 1.0101, 1.0099])
    scene = row(*places, bond_stiffness=1e3)
    np.testing.assert_array_equal(scene.bonds, [[0, 1], [3, 4]])
    wider = row(*places, bond_stiffness=1e3, bond_reach=0.0102)
    np.testing.assert_array_equal(wider.bonds, [[0, 1], [1, 2], [2, 3], [3, 4]])
    for apart, bonds in ((1.125, 0), (np.nextafter(1.125, 1.0), 1), (1.25, 0)):  # at the reach
        assert len(row(0.0, apart, bond_stiffness=1.0, bond_reach=0.125).bonds) == bonds


def test_the_reach_is_a_share_of_the_mean_diameter() -> None:
    for gap, bonds in ((0.0399, 1), (0.0401, 0)):
        scene = Scene(
            [Spheres(centres=[[0.0] * 3, [0.0, 0.0, 4.0 + gap]], radius=[1.0, 3.0], mass=1.0)],
            dim=3,
            bond_stiffness=1.0,
        )
        assert len(scene.bonds) == bonds


def test_bonds_tie_spheres_of_which_one_is_free() -> None:
    scene = Scene(
        [
            Body(HalfSpace([0.0, 1.0]), [0.0, -0.5]),
            # its bounding disc touches that of the sphere at the origin
            Body(Box([1.0, 1.0]), [-0.5 - np.sqrt(0.5), 0.0], mass=1.0),
            Spheres(
                centres=[[3.0, 0.0], [1.0, 0.0], [0.0, 0.0], [2.0, 0.0]],
                radius=0.5,
                mass=1.0,
                fixed=[True, False, False, True],
            ),
        ],
        dim=2,
        bond_stiffness=1.0,
    )
    np.testing.assert_array_equal(scene.bonds, [[3, 4], [3, 5]])


@settings(max_examples=30)
@given(
    seed=st.integers(0, 1000),
    dim=st.sampled_from([2, 3]),
    reach=st.floats(1e-3, 1.0),
    ratio=st.floats(1.0, 1000.0),
)
def test_all_bonds_are_found(seed: int, dim: int, reach: float, ratio: float) -> None:
    rng = np.random.default_rng(seed)
    n = 40
    radius = rng.permutation(np.geomspace(0.02, 0.02 * ratio, n))
    x, fixed = rng.uniform(0.0, 2.0, (n, dim)), rng.random(n) < 0.3
    fixed[0] = False
    scene = Scene(
        [Spheres(centres=x, radius=radius, mass=1.0, fixed=fixed)],
        dim=dim,
        overlap_tol=1e9,
        bond_stiffness=1.0,
        bond_reach=reach,
    )
    i, j = np.triu_indices(n, 1)
    d = radius[i] + radius[j]
    tied = abs(d - np.linalg.norm(x[i] - x[j], axis=1)) < reach * d
    tied &= ~(fixed[i] & fixed[j])
    np.testing.assert_array_equal(scene.bonds, np.column_stack([i[tied], j[tied]]))


def test_bonded_pairs_may_start_overlapping_and_others_may_not() -> None:
    overlapping = (0.0, 0.995)
    with pytest.raises(InvalidInput, match="inside"):
        row(*overlapping)
    assert len(row(*overlapping, bond_stiffness=1.0).bonds) == 1
    with pytest.raises(InvalidInput) as error:
        row(0.0, 0.995, 1.9, bond_stiffness=1.0)
    assert error.value.argument == "bodies[2].position"
    assert error.value.found == "0.095 m inside bodies[1]"


def test_bonds_stay_read_only_in_copies() -> None:
    scene = row(0.0, 1.0, bond_stiffness=1.0)
    for one in (scene, pickle.loads(pickle.dumps(scene))):
        np.testing.assert_array_equal(one.bonds, [[0, 1]])
        with pytest.raises(ValueError, match="read-only"):
            one.bonds[0] = 0
        with pytest.raises(AttributeError):
            one.bonds = np.empty((0, 2))


@pytest.mark.parametrize("dim", [2, 3])
def test_full_dofs_are_those_of_the_contact_step_and_the_turns_of_spheres(dim: int) -> None:
    scene = Scene(
        [
            Body(Sphere(0.5), [5.0, *[0.0] * (dim - 1)], mass=1.0),
            Body(Sphere(0.5), [0.0] * dim, fixed=True),
            Body(Box([1.0] * dim), [9.0] * dim, mass=1.0),
        ],
        dim=dim,
    )
    width = 3 * (dim - 1)
    np.testing.assert_array_equal(scene.full_dofs.body, [0] * width + [2] * width)
    np.testing.assert_array_equal(scene.full_dofs.column, [*range(width)] * 2)
    assert scene.dofs.nv == scene.full_dofs.nv - (width - dim)
    platform = beam(dim=dim)
    np.testing.assert_array_equal(platform.full_dofs.number, platform.dofs.number)


def test_groups_of_spheres_may_spin() -> None:
    centres = [[0.0, 0.0, 0.0], [2.0, 0.0, 0.0]]
    spins = [[1.0, 2.0, 3.0], [0.0, 0.0, -1.0]]
    scene = Scene([Spheres(centres=centres, radius=0.5, mass=1.0, angular_velocities=spins)], dim=3)
    np.testing.assert_array_equal(scene.initial.angular_velocity, spins)
    single = Scene(
        [
            Body(Sphere(0.5), x, mass=1.0, angular_velocity=w)
            for x, w in zip(centres, spins, strict=True)
        ],
        dim=3,
    )
    assert scene.to_toml() == single.to_toml()
    assert scene.to_toml().count("[[spheres]]") == 1
