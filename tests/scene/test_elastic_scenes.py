"""Damping, bonds, the turns of spheres, and Scene.stiffened."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import cdopt
from cdopt import InvalidInput
from cdopt.scene import Body, Box, HalfSpace, Material, Scene, Sphere, Spheres, beam, loads


def row(*x: float, **fields) -> Scene:
    """Discs of radius 1/2 along x."""
    return Scene([Spheres([[each, 0.0] for each in x], 0.5, mass=1.0)], dim=2, **fields)


def test_tangential_damping_is_half_of_the_normal_unless_stated() -> None:
    assert row(0.0, damping=30.0).gamma_t == 15.0
    assert row(0.0, damping=30.0, tangential_damping=0.0).gamma_t == 0.0
    assert row(0.0, tangential_damping=4.0).gamma_t == 4.0


BAD_FIELDS = {
    "damping": (-1.0, np.nan, None),
    "tangential_damping": (-1e-9, [1.0]),
    "bond_stiffness": (0.0, np.inf),
    "bond_reach": (0.0, 1.1, "0.01"),
}


@pytest.mark.parametrize("field", BAD_FIELDS)
def test_fields_out_of_range_are_named(field: str) -> None:
    for value in BAD_FIELDS[field]:
        with pytest.raises(InvalidInput) as error:
            row(0.0, **{field: value})
        assert error.value.argument == field


# --- bonds -------------------------------------------------------------------------------


def test_pairs_within_a_share_of_the_mean_diameter_are_bonded() -> None:
    x = np.cumsum([0.0, 0.9901, 1.0101, 1.0101, 1.0099])
    np.testing.assert_array_equal(row(*x, bond_stiffness=1e3).bonds, [[0, 1], [3, 4]])
    wider = row(*x, bond_stiffness=1e3, bond_reach=0.0102)
    np.testing.assert_array_equal(wider.bonds, [[0, 1], [1, 2], [2, 3], [3, 4]])
    for apart, bonds in ((1.125, 0), (np.nextafter(1.125, 1.0), 1), (1.25, 0)):  # at the reach
        assert len(row(0.0, apart, bond_stiffness=1.0, bond_reach=0.125).bonds) == bonds
    for gap, bonds in ((0.0399, 1), (0.0401, 0)):
        pair = Spheres([[0.0] * 3, [0.0, 0.0, 4.0 + gap]], [1.0, 3.0], mass=1.0)
        assert len(Scene([pair], dim=3, bond_stiffness=1.0).bonds) == bonds


def test_bonds_tie_spheres_of_which_one_is_free() -> None:
    centres = [[3.0, 0.0], [1.0, 0.0], [0.0, 0.0], [2.0, 0.0]]
    fixed = [True, False, False, True]
    bodies = [
        Body(HalfSpace([0.0, 1.0]), [0.0, -0.5]),
        # its bounding disc touches that of the sphere at the origin
        Body(Box([1.0, 1.0]), [-0.5 - np.sqrt(0.5), 0.0], mass=1.0),
        Spheres(centres, 0.5, mass=1.0, fixed=fixed),
    ]
    scene = Scene(bodies, dim=2, bond_stiffness=1.0)
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
    cloud = Spheres(x, radius, mass=1.0, fixed=fixed)
    scene = Scene([cloud], dim=dim, overlap_tol=1e9, bond_stiffness=1.0, bond_reach=reach)
    i, j = np.triu_indices(n, 1)
    d = radius[i] + radius[j]
    tied = abs(d - np.linalg.norm(x[i] - x[j], axis=1)) < reach * d
    tied &= ~(fixed[i] & fixed[j])
    np.testing.assert_array_equal(scene.bonds, np.column_stack([i[tied], j[tied]]))


def test_bonded_pairs_may_start_overlapping_and_others_may_not() -> None:
    with pytest.raises(InvalidInput, match="inside"):
        row(0.0, 0.995)
    assert len(row(0.0, 0.995, bond_stiffness=1.0).bonds) == 1
    with pytest.raises(InvalidInput) as error:
        row(0.0, 0.995, 1.9, bond_stiffness=1.0)
    assert error.value.argument == "bodies[2].position"
    assert error.value.found == "0.095 m inside bodies[1]"


def test_bonds_stay_read_only_in_copies() -> None:
    scene = row(0.0, 1.0, bond_stiffness=1.0)
    for each in (scene, pickle.loads(pickle.dumps(scene))):
        np.testing.assert_array_equal(each.bonds, [[0, 1]])
        with pytest.raises(ValueError, match="read-only"):
            each.bonds[0] = 0


# --- turns of spheres --------------------------------------------------------------------


@pytest.mark.parametrize("dim", [2, 3])
def test_full_dofs_are_those_of_the_contact_step_and_the_turns_of_spheres(dim: int) -> None:
    bodies = [
        Body(Sphere(0.5), [5.0, *[0.0] * (dim - 1)], mass=1.0),
        Body(Sphere(0.5), [0.0] * dim, fixed=True),
        Body(Box([1.0] * dim), [9.0] * dim, mass=1.0),
    ]
    scene, width = Scene(bodies, dim=dim), 3 * (dim - 1)
    np.testing.assert_array_equal(scene.full_dofs.body, [0] * width + [2] * width)
    np.testing.assert_array_equal(scene.full_dofs.column, [*range(width)] * 2)
    assert scene.dofs.nv == scene.full_dofs.nv - (width - dim)
    platform = beam(dim=dim)
    np.testing.assert_array_equal(platform.full_dofs.number, platform.dofs.number)


def test_groups_of_spheres_may_spin() -> None:
    centres = [[0.0, 0.0, 0.0], [2.0, 0.0, 0.0]]
    spins = [[1.0, 2.0, 3.0], [0.0, 0.0, -1.0]]
    scene = Scene([Spheres(centres, 0.5, mass=1.0, angular_velocities=spins)], dim=3)
    np.testing.assert_array_equal(scene.initial.angular_velocity, spins)
    ball = Sphere(0.5)
    single = [
        Body(ball, x, mass=1.0, angular_velocity=w) for x, w in zip(centres, spins, strict=True)
    ]
    assert scene.to_toml() == Scene(single, dim=3).to_toml()
    assert scene.to_toml().count("[[spheres]]") == 1


# --- stiffness times kappa, everything else as it was ------------------------------------


def detected(scene: Scene) -> np.ndarray:
    return cdopt.collision.detect(scene, scene.initial, 1e-6).stiffness


def heap(materials=(), power=2.0, names=("", ""), radii=(0.5, 0.5), **more) -> Scene:
    """Two discs on a floor, side by side and touching."""
    left, right = radii
    bodies = [
        Body(HalfSpace([0.0, 1.0]), [0.0, 0.0], material=names[0]),
        Body(Sphere(left), [0.0, left], mass=1.0, material=names[0]),
        Body(Sphere(right), [2.0 * np.sqrt(left * right), right], mass=1.0, material=names[1]),
    ]
    return Scene(bodies, dim=2, power=power, materials=materials, **more)


SOFT = Material(name="soft", stiffness=1.0)
HARD = Material(name="hard", stiffness=7.0, restitution=0.0)
STEEL = Material(name="steel", young=3.0, poisson=0.3)
GLASS = Material(name="glass", young=2.0, poisson=0.2)


@pytest.mark.parametrize("power", [1.7, 2.0, 2.5])
@pytest.mark.parametrize("pair", [(SOFT, HARD), (STEEL, GLASS)])
def test_ratios_stay(pair, power) -> None:
    scene = heap(pair, power, tuple(m.name for m in pair), radii=(0.5, 0.3))
    before, after = detected(scene), detected(scene.stiffened(1e7))
    assert np.ptp(before) > 0.0
    np.testing.assert_allclose(after, 1e7 * before, rtol=1e-14)


def test_a_rigid_side_stays_rigid() -> None:
    scene = beam(middle_stiffness=3.0).stiffened(10.0)
    contacts = cdopt.collision.detect(scene, scene.initial)
    np.testing.assert_allclose(contacts.stiffness, [10.0, 30.0, 10.0])
    assert np.isinf(scene.half_stiffness[0])


@pytest.mark.parametrize("named", ["", "rough"])
def test_a_scene_that_states_none_gets_kappa_everywhere(named: str) -> None:
    scene = heap([Material(name="rough", restitution=0.3)], names=(named, ""))
    np.testing.assert_array_equal(detected(scene), 1.0)
    stiff = scene.stiffened(2e5)
    np.testing.assert_allclose(detected(stiff), 2e5)
    np.testing.assert_array_equal(stiff.body_restitution, scene.body_restitution)
    assert len({m.name for m in stiff.materials}) == 2
    again = loads(stiff.to_toml())  # the new material is written too
    np.testing.assert_array_equal(again.half_stiffness, stiff.half_stiffness)


def test_the_new_material_has_a_name_of_its_own() -> None:
    scene = heap([Material(name="elastic", restitution=0.0)], names=("elastic", ""))
    assert [m.name for m in scene.stiffened(3.0).materials] == ["elastic", "elastic'"]


@pytest.mark.parametrize("radius", [0.5, 2.5e-3])
def test_hertz_contacts_of_one_curvature_get_kappa_and_of_several_are_refused(radius) -> None:
    centres = [[0.0, 0.0], [2.0 * radius, 0.0], [4.0 * radius, 0.0]]
    scene = Scene([Spheres(centres, radius, mass=1.0)], dim=2, power=2.5)
    np.testing.assert_allclose(detected(scene.stiffened(40.0)), 40.0)
    with pytest.raises(InvalidInput, match="several curvatures"):
        heap(power=2.5).stiffened(10.0)


def test_all_else_stays() -> None:
    scene = cdopt.scene.pyramid(3, 2.5, "species")
    assert scene.half_stiffness.size == scene.nb  # cached before, and not carried over
    stiff = scene.stiffened(0.25, damping=30.0)
    assert (stiff.damping, stiff.gamma_t, scene.damping) == (30.0, 15.0, 0.0)
    assert stiff.bodies is scene.bodies
    np.testing.assert_array_equal(stiff.half_stiffness, 0.25 * scene.half_stiffness)
    assert scene.stiffened(1.0).to_toml() == scene.to_toml()
    bonded = heap([SOFT], names=("soft", "soft"), bond_stiffness=4.0)
    stiff = bonded.stiffened(3.0)
    np.testing.assert_allclose(np.sort(detected(stiff)), np.sort(3.0 * detected(bonded)))
    assert stiff.bond_stiffness == 12.0


@pytest.mark.parametrize("kappa", [0.0, -1.0, np.inf, "stiff", [1.0]])
def test_bad_factors(kappa) -> None:
    with pytest.raises(InvalidInput, match="kappa"):
        heap().stiffened(kappa)
    with pytest.raises(InvalidInput, match="damping"):
        heap().stiffened(1.0, damping=-1.0)
