"""Compression: closed forms, energy, reversibility, network changes, what is refused."""

from __future__ import annotations

import loading
import numpy as np
import pytest
from boxes import HALF, RADIUS, box, cube, lattice, series
from loading import LoadingFailed, LoadingInterrupted, compress, confine, disc_box

import cdopt
from cdopt.dynamics import equilibrium
from cdopt.scene import Material, Scene, Spheres, State


@pytest.mark.parametrize("power", [2.0, 2.5])
@pytest.mark.parametrize("dim", [2, 3])
def test_one_ball_between_two_walls(power, dim):
    scene = lattice(1, 1, power=power) if dim == 2 else cube(power=power)
    run = compress(scene, "top" if dim == 2 else "high z", 0.02, 4)
    overlap = 0.5 * 0.2 * run.strain
    stiffness = HALF if power == 2.0 else 4.0 / 3.0 * HALF * np.sqrt(RADIUS)
    np.testing.assert_allclose(run.force, stiffness * overlap ** (power - 1.0), rtol=1e-8)
    np.testing.assert_allclose(run.energy, 2 * stiffness / power * overlap**power, rtol=1e-8)
    assert run.area == pytest.approx(0.2 if dim == 2 else 0.04)
    np.testing.assert_allclose(run.stress, run.force / run.area)
    assert list(run.contacts) == [0, 2, 2, 2, 2]


@pytest.mark.parametrize("rows", [1, 2, pytest.param(7, marks=pytest.mark.slow)])
def test_a_column_is_springs_in_series(rows):
    run = compress(lattice(rows, 1), "top", 0.01, 2)
    np.testing.assert_allclose(
        run.force, run.strain * 0.2 * rows / series(rows), rtol=1e-9, atol=1e-11
    )
    np.testing.assert_allclose(run.dissipated, 0.0, atol=1e-9 * run.energy[-1])  # linear: exact


def test_a_square_lattice_is_columns_side_by_side():
    run = compress(lattice(4, 3), "top", 0.01, 2)
    assert run.stress[-1] == pytest.approx(0.01 * 0.8 / series(4) * 3 / 0.6, rel=1e-9)
    assert run.coordination[-1] == pytest.approx(2.0)
    np.testing.assert_allclose(run.fabric[-1], [[0, 0], [0, 1]], atol=1e-12)
    assert run.anisotropy[-1] == pytest.approx(1.0)


@pytest.mark.parametrize("layers", [1, 2, 3])
def test_a_hexagonal_crystal_two_discs_wide_between_walls(layers):
    """Rows 2, 1, 2, …: diagonals push the outer discs into the walls, which yield.

    Of a diagonal force f a row of two passes 2 f cos 60° on to each wall, the first and the last
    f cos 60°; a layer shortens by (f/k + cos 60° x)/sin 60°, x the yield of the wall next to it.
    """
    d, rise, rows = 0.2, np.sqrt(0.75) * 0.2, 2 * layers + 1
    centres = []
    for j in range(rows):
        places = [0.1, 0.3] if j % 2 == 0 else [0.2]
        centres += [[x, 0.1 + j * rise] for x in places]
    scene = box(centres, 2 * d, d + (rows - 1) * rise)
    run = compress(scene, "top", 1e-7, 1)
    sine, k = np.sqrt(0.75), HALF / 2.0
    yields = [0.5 / HALF if j in (0, rows - 1) else 1.0 / HALF for j in range(0, rows, 2)]
    per_layer = [(1.0 / k + 0.5 * x) / sine for x in yields]
    shortening = 2.0 * sum(per_layer) - per_layer[0] - per_layer[-1] + 2.0 * sine / HALF
    diagonal = run.strain[-1] * run.length / shortening
    assert run.force[-1] == pytest.approx(2.0 * diagonal * sine, rel=1e-5)


def test_isotropic_stiffness_of_a_hexagonal_crystal():
    """In a frame that shrinks: P = √3 k ε, the bulk modulus P/2ε = (√3/2) k in the plane."""
    d, k, strain, m = 0.2, HALF / 2.0, 1e-3, 4
    a, b = np.meshgrid(np.arange(-m, m + 1), np.arange(-m, m + 1))
    ring = np.maximum.reduce([np.abs(a), np.abs(b), np.abs(a + b)]).ravel()
    inside = ring <= m
    places = d * np.column_stack([(a + 0.5 * b).ravel(), (np.sqrt(0.75) * b).ravel()])[inside]
    grain = Material(name="grain", stiffness=HALF)
    fixed = ring[inside] == m
    discs = Spheres(places, 0.1, fixed=fixed, density=1.0, material="grain")
    scene = Scene([discs], dim=2, gravity=[0, 0], materials=[grain])
    q = scene.initial.q.copy()
    q[fixed, :2] *= 1.0 - strain
    found = equilibrium(scene, State(0.0, q, np.zeros_like(q)))
    assert found.stable
    np.testing.assert_allclose(found.state.position, (1.0 - strain) * places, atol=1e-12)
    middle = int(np.argmin(np.linalg.norm(places, axis=1)))
    mine = (found.contacts.bodies == middle).any(axis=1)
    n, f = found.contacts.normals[mine], found.forces[mine]
    assert f.size == 6
    virial = 0.5 * (1 - strain) * d * (n.T * f) @ n / (np.sqrt(0.75) * ((1 - strain) * d) ** 2)
    pressure = np.sqrt(3.0) * k * strain / (1.0 - strain)
    np.testing.assert_allclose(virial, pressure * np.eye(2), rtol=1e-8, atol=1e-8 * pressure)


# --- energy ----------------------------------------------------------------------------


@pytest.fixture(scope="module")
def packed():
    """Discs of random sizes under 2 kPa."""
    scene = disc_box(20, seed=3)
    return scene, confine(scene, 2e3)


@pytest.mark.slow
def test_without_rearrangement_energy_balances_and_converges(packed):
    scene, start = packed
    runs = [compress(scene, "top", 1e-4, n, start=start) for n in (1, 4)]
    assert all(run.gained.sum() == run.lost.sum() == 0 for run in runs)
    off = np.abs([run.dissipated[-1] for run in runs])
    stored = runs[0].energy[-1] - runs[0].energy[0]
    assert off[0] < 1e-5 * stored
    assert np.log(off[0] / off[1]) / np.log(4.0) == pytest.approx(2.0, abs=0.2)


@pytest.mark.slow
def test_an_elastic_loop_is_reversible(packed):
    scene, start = packed
    up = np.linspace(0.0, 1e-4, 4)[1:]
    loop = compress(scene, "top", [*up, *up[-2::-1], 0.0], start=start)
    assert loop.gained.sum() == loop.lost.sum() == 0
    np.testing.assert_allclose(loop.force[:3], loop.force[:3:-1], rtol=1e-8)
    np.testing.assert_allclose(loop.work[-1], 0.0, atol=1e-9 * loop.work.max())
    back = loop.equilibria[-1].state.position - start.state.position
    assert np.abs(back).max() < 1e-12


def test_a_rearrangement_loses_energy_for_good():
    """A chain of discs between two walls, held from below by a floor only, buckles upward."""
    centres = np.column_stack([0.1 + 0.2 * np.arange(5), np.full(5, 0.1)])
    scene = box(centres, 1.0, 0.6)
    run = compress(scene, "right", [0.001, 0.002], travel=10.0)
    assert run.dissipated[-1] > 0.0
    assert run.energy[-1] < 1e-9


# --- the network -----------------------------------------------------------------------


def test_contacts_born_and_lost_are_those_counted_by_hand():
    """Three discs side by side of different height under a lid: it meets one, two, three."""
    radius = np.array([0.10, 0.09, 0.08])
    centres = np.column_stack([[0.1, 0.4, 0.7], radius + 1e-9])
    scene = box(centres, 1.0, 0.21, radius=radius, gravity=0.01)
    lid = np.array([0.0, 0.012, 0.032, 0.052, 0.032, 0.012, 0.0]) / 0.21
    run = compress(scene, "top", lid)
    assert list(run.contacts) == [3, 3, 4, 5, 6, 5, 4, 3]
    assert list(run.gained) == [0, 0, 1, 1, 1, 0, 0, 0]
    assert list(run.lost) == [0, 0, 0, 0, 0, 1, 1, 1]


def test_rattlers_are_left_out():
    centres = [[0.1, 0.1], [0.35, 0.06]]
    run = compress(box(centres, 0.5, 0.2, radius=[0.1, 0.05]), "top", 0.01, 1)
    assert list(run.rattlers) == [2, 1]
    assert run.coordination[-1] == 2.0


def test_a_picture_can_be_made_of_each_equilibrium():
    run = compress(lattice(2, 2), "top", 0.01, 1)
    step = run.step(1)
    assert isinstance(step, cdopt.ContactStep)
    assert step.nc == run.contacts[1] == 2 * 3
    np.testing.assert_allclose(run.forces(1), 0.01 * 0.4 / series(2), rtol=1e-9)


# --- failures and refusals -------------------------------------------------------------


def test_what_was_done_is_kept():
    scene = box([[0.1, 0.1]], 0.2, 0.21)  # the lid meets the disc in the third step
    with pytest.raises(
        LoadingFailed, match="loading step 3 of 4: no equilibrium after 0"
    ) as caught:
        compress(scene, "top", 0.08, 4, limit=0)
    assert len(caught.value.record) == 3
    assert not caught.value.record.ok
    kept = compress(scene, "top", 0.08, 4, limit=0, on_failure="keep")
    assert kept.failure.startswith("no equilibrium")
    np.testing.assert_allclose(kept.strain, [0.0, 0.02, 0.04])


def test_progress_and_interruption():
    told = []
    compress(lattice(1, 1), "top", 0.01, 2, progress=lambda *words: told.append(words))
    assert [words[:2] for words in told] == [(1, 2), (2, 2)]

    def stop(done, total):
        if done == 2:
            raise KeyboardInterrupt

    with pytest.raises(LoadingInterrupted) as caught:
        compress(lattice(1, 1), "top", 0.01, 3, progress=stop)
    assert len(caught.value.record) == 3
    assert caught.value.record.failure == "interrupted"


def test_a_wall_without_others_asks_for_length_and_area():
    grain = Material(name="grain", stiffness=HALF)
    walls = loading.samples.box_walls(1.0, 0.2)[::3]
    discs = Spheres([[0.1, 0.1]], 0.1, density=1.0, material="grain")
    scene = Scene([*walls, discs], dim=2, gravity=[0, 0], materials=[grain])
    with pytest.raises(cdopt.InvalidInput, match="area"):
        compress(scene, "top", 0.01, 1)
    assert compress(scene, "top", 0.01, 1, area=2.0).stress[-1] == pytest.approx(10.0)
    alone = Scene([walls[0], discs], dim=2, materials=[grain])
    with pytest.raises(cdopt.InvalidInput, match="length"):
        compress(alone, "floor", 0.01, 1, area=1.0)


@pytest.mark.parametrize(
    ("changes", "name"),
    [
        ({"wall": "lid"}, "wall"),
        ({"wall": 4}, "wall"),
        ({"wall": True}, "wall"),
        ({"strain": 1.5}, "strain"),
        ({"steps": 0}, "steps"),
        ({"strain": [0.1], "steps": 2}, "steps"),
        ({"on_failure": "wait"}, "on_failure"),
        ({"travel": 0.0}, "travel"),
    ],
)
def test_bad_arguments_are_named(changes, name):
    given = {"wall": "top", "strain": 0.1, "steps": 1} | changes
    with pytest.raises(cdopt.InvalidInput, match=name):
        compress(lattice(1, 1), given.pop("wall"), given.pop("strain"), **given)
