"""Scene.stiffened: stiffness times κ, everything else as it was."""

from __future__ import annotations

import numpy as np
import pytest

import cdopt
from cdopt.scene import Body, HalfSpace, Material, Scene, Sphere, Spheres


def detected(scene: Scene) -> np.ndarray:
    return cdopt.collision.detect(scene, scene.initial, 1e-6).stiffness


def heap(materials=(), power=2.0, names=("", ""), radii=(0.5, 0.5), **more) -> Scene:
    """Two discs on a floor, side by side and touching."""
    left, right = radii
    return Scene(
        [
            Body(HalfSpace([0.0, 1.0]), [0.0, 0.0], material=names[0]),
            Body(Sphere(left), [0.0, left], mass=1.0, material=names[0]),
            Body(Sphere(right), [2.0 * np.sqrt(left * right), right], mass=1.0, material=names[1]),
        ],
        dim=2, power=power, materials=materials, **more,
    )  # fmt: skip


SOFT = Material(name="soft", stiffness=1.0)
HARD = Material(name="hard", stiffness=7.0, restitution=0.0)
STEEL = Material(name="steel", young=3.0, poisson=0.3)
GLASS = Material(name="glass", young=2.0, poisson=0.2)


@pytest.mark.parametrize("power", [1.7, 2.0, 2.5])
@pytest.mark.parametrize("pair", [(SOFT, HARD), (STEEL, GLASS)])
def test_ratios_stay(pair, power):
    names = tuple(m.name for m in pair)
    scene = heap(pair, power, names, radii=(0.5, 0.3))
    before, after = detected(scene), detected(scene.stiffened(1e7))
    assert np.ptp(before) > 0.0
    np.testing.assert_allclose(after, 1e7 * before, rtol=1e-14)


def test_a_rigid_side_stays_rigid():
    scene = cdopt.scene.beam(middle_stiffness=3.0)
    np.testing.assert_allclose(
        cdopt.collision.detect(scene.stiffened(10.0), scene.initial).stiffness, [10.0, 30.0, 10.0]
    )
    assert np.isinf(scene.stiffened(10.0).half_stiffness[0])


@pytest.mark.parametrize("named", ["", "rough"])
def test_a_scene_that_states_none_gets_kappa_everywhere(named):
    rough = Material(name="rough", restitution=0.3)
    scene = heap([rough], names=(named, ""))
    np.testing.assert_array_equal(detected(scene), 1.0)
    made = scene.stiffened(2e5)
    np.testing.assert_allclose(detected(made), 2e5)
    np.testing.assert_array_equal(made.body_restitution, scene.body_restitution)
    assert len({m.name for m in made.materials}) == 2


def test_names_that_are_taken():
    scene = heap([Material(name="elastic", restitution=0.0)], names=("elastic", ""))
    assert [m.name for m in scene.stiffened(3.0).materials] == ["elastic", "elastic'"]


@pytest.mark.parametrize("radius", [0.5, 2.5e-3])
def test_hertz_contacts_of_one_curvature_get_kappa(radius):
    centres = [[0.0, 0.0], [2.0 * radius, 0.0], [4.0 * radius, 0.0]]
    scene = Scene([Spheres(centres, radius, mass=1.0)], dim=2, power=2.5)
    np.testing.assert_allclose(detected(scene.stiffened(40.0)), 40.0)


def test_hertz_contacts_of_several_curvatures_are_refused():
    with pytest.raises(cdopt.InvalidInput, match="several curvatures"):
        heap(power=2.5).stiffened(10.0)


def test_all_else_stays():
    scene = cdopt.scene.pyramid(3, 2.5, "species")
    assert scene.half_stiffness.size == scene.nb  # cached before, and not carried over
    made = scene.stiffened(0.25, damping=30.0)
    assert (made.damping, made.gamma_t, scene.damping) == (30.0, 15.0, 0.0)
    assert made.bodies is scene.bodies
    again = cdopt.scene.loads(made.to_toml())
    assert again.to_toml() == made.to_toml()
    np.testing.assert_array_equal(again.half_stiffness, 0.25 * scene.half_stiffness)
    assert scene.stiffened(1.0).to_toml() == scene.to_toml()


def test_a_scene_with_its_new_material_is_saved():
    made = heap().stiffened(5.0)
    np.testing.assert_array_equal(
        cdopt.scene.loads(made.to_toml()).half_stiffness, made.half_stiffness
    )


def test_bonds_too():
    scene = heap([SOFT], names=("soft", "soft"), bond_stiffness=4.0)
    assert scene.bonds.size
    made = scene.stiffened(3.0)
    np.testing.assert_allclose(np.sort(detected(made)), np.sort(3.0 * detected(scene)))
    assert made.bond_stiffness == 12.0


@pytest.mark.parametrize("kappa", [0.0, -1.0, np.inf, "stiff", [1.0]])
def test_bad_factors(kappa):
    with pytest.raises(cdopt.InvalidInput, match="kappa"):
        heap().stiffened(kappa)


def test_bad_damping():
    with pytest.raises(cdopt.InvalidInput, match="damping"):
        heap().stiffened(1.0, damping=-1.0)
