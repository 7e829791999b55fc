"""Contacts of elastic scenes: bonds at any distance, and matrices on all turns."""

from __future__ import annotations

import numpy as np
import pytest
from random_scenes import mixed, thrown

from cdopt.collision import VerletList, detect, external_forces, gap_gradient, mass_matrix, step
from cdopt.scene import Body, Box, HalfSpace, Material, Scene, Sphere, Spheres, State

SOFT = Material(name="soft", stiffness=10.0)


def chain(**fields) -> Scene:
    """A floor and four spheres in a row, the first three bonded."""
    centres = [[x, 0.0, 0.6] for x in (0.0, 1.0, 2.0, 3.05)]
    return Scene(
        [
            Body(HalfSpace([0.0, 0.0, 1.0]), [0.0, 0.0, 0.0]),
            Spheres(centres=centres, radius=0.5, mass=1.0, material="soft"),
        ],
        dim=3,
        materials=[SOFT],
        **({"bond_stiffness": 70.0} | fields),
    )


def pulled(scene: Scene, by: float) -> State:
    """The spheres further apart along x."""
    q = np.array(scene.initial.q)
    q[1:, 0] *= by
    return State(0.0, q, scene.initial.v)


@pytest.mark.parametrize("power", [2.0, 2.5])
def test_bonds_are_contacts_at_any_distance(power: float) -> None:
    scene = chain(power=power)
    near = VerletList(scene)
    for by in (1.0, 1.04, 100.0, 0.9):
        state = pulled(scene, by)
        for found in (detect(scene, state, 0.2), detect(scene, state, 0.2, near)):
            listed = list(map(tuple, found.bodies))
            bonds = [pair for pair, tied in zip(listed, found.bonded, strict=True) if tied]
            assert bonds == [(1, 2), (2, 3)]
            assert ((3, 4) in listed) == (by < 1.2)
            np.testing.assert_array_equal(found.stiffness == 70.0, found.bonded)
            np.testing.assert_allclose(found.phi[found.bonded], by - 1.0, atol=1e-12)
            assert (np.diff(found.contact_ids) > 0).all()
            assert not found.bonded.flags.writeable
        unbound = detect(chain(power=power, bond_stiffness=None), state, 0.2)
        assert not unbound.bonded.any()
        both = np.isin(found.contact_ids, unbound.contact_ids)
        np.testing.assert_array_equal(found.phi[both], unbound.phi)
        loose = both & ~found.bonded
        soft = unbound.stiffness[np.isin(unbound.contact_ids, found.contact_ids[loose])]
        np.testing.assert_array_equal(found.stiffness[loose], soft)


@pytest.mark.parametrize("dim", [2, 3])
def test_on_full_dofs_turns_of_spheres_have_no_entries_in_B(dim: int) -> None:
    rng = np.random.default_rng(1)
    scene = mixed(dim, rng)
    state = thrown(scene, rng)
    found = detect(scene, state, 1e3)
    B = gap_gradient(scene, state, found)
    full = gap_gradient(scene, state, found, scene.full_dofs)
    same = np.flatnonzero((scene.dofs.number >= 0)[scene.full_dofs.body, scene.full_dofs.column])
    np.testing.assert_array_equal(full[:, same].toarray(), B.toarray())
    assert full.nnz == B.nnz
    width = 3 * (dim - 1)  # of the box; the free spheres have translations alone
    assert B.shape == (found.nc, (np.count_nonzero(~scene.bodies.fixed) - 1) * dim + width)
    assert full.shape == (found.nc, scene.full_dofs.nv)
    assert full.has_sorted_indices


@pytest.mark.parametrize("dim", [2, 3])
def test_M_and_loads_on_full_dofs(dim: int) -> None:
    rng = np.random.default_rng(2)
    spin = 3.0 if dim == 2 else [1.0, -2.0, 0.3]
    scene = Scene(
        [
            Body(
                Sphere(0.3),
                np.zeros(dim),
                mass=1.7,
                angular_velocity=spin,
                torque=0.1 if dim == 2 else [0.1, 0.0, 0.0],
            ),
            Body(
                Box(np.arange(1.0, dim + 1.0)), np.full(dim, 9.0), mass=2.0, angular_velocity=spin
            ),
        ],
        dim=dim,
    )
    state = thrown(scene, rng)
    M = mass_matrix(scene, state, scene.full_dofs).toarray()
    turns = dim, 3 * (dim - 1)
    ball = slice(*turns)
    J = 1.7 * 0.3**2 * (0.5 if dim == 2 else 0.4)
    np.testing.assert_allclose(M[ball, ball], J * np.eye(turns[1] - turns[0]), rtol=1e-15)
    assert np.count_nonzero(M[ball]) == turns[1] - turns[0]
    assert M.shape == (scene.full_dofs.nv,) * 2
    rest = np.r_[0:dim, turns[1] : M.shape[0]]
    np.testing.assert_array_equal(M[np.ix_(rest, rest)], mass_matrix(scene, state).toarray())
    F = external_forces(scene, state, scene.full_dofs)
    np.testing.assert_array_equal(F[ball], [0.1, 0.0, 0.0][: turns[1] - turns[0]])
    np.testing.assert_array_equal(F[rest], external_forces(scene, state))
    if dim == 3:
        assert np.abs(F[-3:]).max() > 0.01


def test_a_step_may_be_taken_on_full_dofs() -> None:
    scene = chain()
    found = detect(scene, scene.initial, 0.2)
    full = step(scene, scene.initial, found, 1e-3, dofs=scene.full_dofs)
    assert full.nv == 24
    np.testing.assert_array_equal(full.dof_body, scene.full_dofs.body)
    plain = step(scene, scene.initial, found, 1e-3)
    assert plain.nv == 12
    np.testing.assert_allclose(full.N.toarray(), plain.N.toarray(), rtol=1e-15)
    np.testing.assert_allclose(full.p_vec, plain.p_vec, rtol=1e-15)


def test_spinning_spheres_have_no_gyroscopic_torque() -> None:
    rng = np.random.default_rng(9)
    n = 50
    cloud = Spheres(
        centres=10.0 * np.arange(3 * n).reshape(n, 3),
        radius=rng.uniform(0.1, 1.0, n),
        mass=rng.uniform(0.1, 9.0, n),
        angular_velocities=rng.standard_normal((n, 3)),
    )
    scene = Scene([cloud], dim=3)
    F = external_forces(scene, thrown(scene, rng), scene.full_dofs)
    np.testing.assert_array_equal(F[scene.full_dofs.column >= 3], 0.0)
    assert mass_matrix(scene, scene.initial, scene.full_dofs).nnz == 6 * n
