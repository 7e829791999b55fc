"""Large families: packings that carry their weight, and stiffness over orders of magnitude."""

from __future__ import annotations

import numpy as np
import pytest

import cdopt
from cdopt.bank.generators import crystal_2d, packing, uneven
from cdopt.bank.settling import settle


@pytest.fixture(scope="module")
def pile() -> cdopt.ContactStep:
    return packing(150, layers=5.0)


def test_settled_spheres_carry_their_weight_by_forces_that_push() -> None:
    cell = settle(150, 5.0, 0.2, np.random.default_rng(3))
    assert cell.forces.min() > 0.0
    total = np.zeros((150, 3))
    pressed = cell.forces[: cell.pairs.shape[0], None] * cell.normals
    np.add.at(total, cell.pairs[:, 0], -pressed)
    np.add.at(total, cell.pairs[:, 1], pressed)
    total[cell.standing, 2] += cell.forces[cell.pairs.shape[0] :]
    weight = (2.0 * cell.radii) ** 3
    free = ~cell.fixed
    np.testing.assert_allclose(total[free, :2], 0.0, atol=1e-7)
    np.testing.assert_allclose(total[free, 2], weight[free], atol=1e-7)


def test_settled_spheres_overlap_little_and_lie_apart_otherwise() -> None:
    """All pairs of the cell and its eight neighbours, without a neighbour search."""
    cell = settle(150, 5.0, 0.2, np.random.default_rng(4))
    arm = cell.centres[None, :, :] - cell.centres[:, None, :]
    arm[..., :2] -= cell.side * np.round(arm[..., :2] / cell.side)
    gap = np.linalg.norm(arm, axis=2) - cell.radii[:, None] - cell.radii[None, :]
    tied = cell.fixed[:, None] & cell.fixed[None, :]
    i, j = np.nonzero(np.triu((gap < 0.0) & ~tied, k=1))
    np.testing.assert_array_equal(np.column_stack([i, j]), cell.pairs)
    assert gap[i, j].min() > -0.06
    assert np.all((cell.centres[:, 2] - cell.radii)[~cell.fixed] > -0.06)


def test_a_packing_is_disordered_and_hyperstatic(pile: cdopt.ContactStep) -> None:
    assert 1.05 < pile.nc / pile.nv < 1.25
    np.testing.assert_allclose(np.linalg.norm(pile.normals, axis=1), 1.0, rtol=1e-12)
    lengths = np.sort(-pile.F_ext[2::3])
    assert lengths[0] < 0.7
    assert lengths[-1] > 1.4


@pytest.mark.parametrize("power", [2.0, 2.5])
def test_compatible_forces_carry_a_packing(pile: cdopt.ContactStep, power: float) -> None:
    truss = cdopt.NoTensionTruss(
        pile.B, -pile.F_ext, pile.stiffness, power, "potential", dof_body=pile.dof_body
    )
    assert truss.solve("newton").certificate.worst < 1e-9


def test_a_packing_stays_at_rest(pile: cdopt.ContactStep) -> None:
    solution = cdopt.ClassicCD(pile).solve("newton")
    assert solution.ok
    assert np.abs(solution.v_next).max() < 1e-6 * pile.dt


def test_tiles_repeat_a_cell() -> None:
    one, four = packing(150, layers=4.0), packing(150, 2, 4.0)
    assert (four.nc, four.nv) == (4 * one.nc, 4 * one.nv)
    truss = cdopt.NoTensionTruss(
        four.B, -four.F_ext, four.stiffness, 2.0, "potential", dof_body=four.dof_body
    )
    f = truss.solve("newton").f
    inner = np.count_nonzero(one.bodies[:, 0] >= 0)
    pairs = f[: 4 * inner].reshape(4, inner)
    np.testing.assert_allclose(pairs, np.tile(pairs[0], (4, 1)), atol=1e-8)
    spheres = 4 * 150
    touched = np.bincount(four.bodies[four.bodies >= 0], minlength=spheres)
    np.testing.assert_array_equal(touched, np.tile(touched[:150], 4))


def test_the_same_seed_gives_the_same_packing(pile: cdopt.ContactStep) -> None:
    again, other = packing(150, layers=5.0), packing(150, layers=5.0, seed=1)
    np.testing.assert_array_equal(again.B.toarray(), pile.B.toarray())
    assert other.nc != pile.nc or not np.array_equal(other.normals, pile.normals)


def test_uneven_stiffness_spans_its_ratio_evenly_in_its_logarithm() -> None:
    step = crystal_2d(20, 20)
    stiffness = uneven(step, 1e6).stiffness
    log = np.log10(stiffness)
    assert -3.0 <= log.min() < -2.9
    assert 2.9 < log.max() <= 3.0
    assert abs(np.median(log)) < 0.3
    assert uneven(step, 1.0) is step
    np.testing.assert_array_equal(packing(150, layers=5.0, stiffness_ratio=10.0).stiffness,
                                  uneven(packing(150, layers=5.0), 10.0).stiffness)  # fmt: skip


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        ({"n": 10}, "n"),
        ({"tiles": 0}, "tiles"),
        ({"layers": 1.0}, "layers"),
        ({"n": 60, "layers": 10.0}, "layers"),
        ({"spread": 0.7}, "spread"),
        ({"seed": -1}, "seed"),
        ({"stiffness_ratio": 0.5}, "stiffness_ratio"),
    ],
)
def test_a_packing_refuses_bad_arguments(arguments: dict, named: str) -> None:
    with pytest.raises(cdopt.InvalidInput) as caught:
        packing(**arguments)
    assert caught.value.argument == named
