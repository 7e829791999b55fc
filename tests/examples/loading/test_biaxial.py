"""Constant stress across, strain along: closed forms, tolerances, energy, refusals."""

from __future__ import annotations

import numpy as np
import pytest
from boxes import HALF, box, cube, lattice, series
from loading import LoadingFailed, biaxial, confine, disc_box

import cdopt

STRESS = 500.0  # Pa


@pytest.mark.parametrize(("rows", "columns"), [(1, 1), (3, 2)])
def test_a_square_lattice(rows, columns):
    """Rows and columns are springs that do not see each other; areas are those of the box."""
    run = biaxial(lattice(rows, columns), STRESS, 0.02, 3)
    height, width = run.extent.T
    row = 0.2 * columns - width  # m, how much each is shortened
    column = 0.2 * rows - height
    np.testing.assert_allclose(row / series(columns) * rows, STRESS * height, rtol=1e-7)
    np.testing.assert_allclose(column[0] / series(rows) * columns, STRESS * width[0], rtol=1e-7)
    np.testing.assert_allclose(run.axial_stress, column / series(rows) * columns / width, rtol=1e-7)
    np.testing.assert_allclose(run.lateral_stress, STRESS, rtol=1e-8)
    np.testing.assert_allclose(run.axial_strain, [0.0, 0.02 / 3, 0.04 / 3, 0.02], atol=1e-12)
    np.testing.assert_allclose(
        run.volumetric_strain, 1 - height * width / (height * width)[0], atol=1e-15
    )
    assert run.gained.sum() == run.lost.sum() == 0
    bonds = np.array([rows * (columns - 1), columns * (rows - 1)])
    np.testing.assert_allclose(run.fabric[0], np.diag(bonds / max(bonds.sum(), 1)), atol=1e-9)


@pytest.mark.parametrize("power", [2.0, pytest.param(2.5, marks=pytest.mark.slow)])
def test_stress_is_held_while_a_random_packing_yields(power):
    scene = disc_box(9, seed=1, stiffness=1e6 if power == 2.0 else 1e8, power=power)
    run = biaxial(scene, 5e3, 0.05, 3)
    assert run.ok
    np.testing.assert_allclose(run.lateral_stress, 5e3, rtol=1e-8)
    assert run.axial_stress[0] == pytest.approx(5e3, rel=1e-8)
    assert run.residual.max() < 1e-9
    assert run.gained.sum() > 0
    assert run.lost.sum() > 0
    np.testing.assert_array_equal(np.diff(run.contacts), (run.gained - run.lost)[1:])
    assert all(one.stable for one in run.equilibria)


@pytest.mark.slow
def test_energy_balances_where_nothing_rearranges():
    scene = disc_box(25, seed=1)
    start = confine(scene, {"right": 2e3, "top": 2e3})
    runs = [biaxial(scene, 2e3, 1e-4, n, start=start) for n in (1, 4)]
    assert all(run.gained.sum() == run.lost.sum() == 0 for run in runs)
    off = np.abs([run.dissipated[-1] for run in runs])
    assert off[0] < 1e-4 * np.abs(runs[0].work[-1])
    assert np.log(off[0] / off[1]) / np.log(4.0) == pytest.approx(2.0, abs=0.2)


@pytest.mark.slow
def test_in_space_both_pairs_are_pressed():
    run = biaxial(cube(), 2e4, 0.02, 2, axial="high z")
    a, b, c = run.extent.T
    np.testing.assert_allclose((0.2 - b) / 2 * HALF, 2e4 * a * c, rtol=1e-7)
    np.testing.assert_allclose((0.2 - c) / 2 * HALF, 2e4 * a * b, rtol=1e-7)
    np.testing.assert_allclose(run.lateral_stress, 2e4, rtol=1e-7)
    np.testing.assert_allclose(run.axial_stress, (0.2 - a) / 2 * HALF / (b * c), rtol=1e-9)


@pytest.mark.slow
def test_confinement_by_wall():
    scene = lattice(2, 3)
    found = confine(scene, {"top": 400.0})  # the other pair stays
    assert found.state.position[2, 0] == scene.bodies.position[2, 0]
    shorter = 0.4 - found.state.position[3, 1]
    assert shorter / series(2) * 3 == pytest.approx(400.0 * 0.6, rel=1e-8)
    loose = box([[0.1, 0.1]], 0.3, 0.3)
    found = confine(loose, 1e3)
    assert found.energy > 0.0
    assert found.stable


def test_what_cannot_be_is_refused():
    scene = lattice(2, 2)
    for changes, name in (
        ({"stress": -1.0}, "stress"),
        ({"strain": 0.95}, "strain"),
        ({"steps": 1.5}, "steps"),
        ({"axial": "lid"}, "axial"),
    ):
        with pytest.raises(cdopt.InvalidInput, match=name):
            biaxial(scene, **{"stress": STRESS, "strain": 0.1, "steps": 2, **changes})
    with pytest.raises(cdopt.InvalidInput, match="both walls of a pair"):
        confine(scene, {"top": 1.0, "floor": 1.0})
    with pytest.raises(cdopt.InvalidInput, match="2 pairs of walls"):
        biaxial(cdopt.scene.crystal(3, 3), STRESS, 0.1, 2, axial=0)
    start = confine(scene, STRESS)
    with pytest.raises(LoadingFailed, match="loading step 1 of 2") as caught:
        biaxial(scene, STRESS, 0.02, 2, start=start, limit=0)
    assert len(caught.value.record) == 1
