"""Families with a size: what is known of their members, by hand, and their labels."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import cdopt
from cdopt.bank.blocks import brick_pyramid, chain, heavy_and_light, legs, nearly_parallel, stack
from cdopt.bank.family import Member, of_files
from cdopt.study.labels import Labels, labelled, labels

FAMILIES = cdopt.bank.families()
NULLITY = {  # of the smallest member, counted by hand
    "beams": 2,
    "tables": 1,
    "chains": 0,
    "brick-walls": 6,
    "stacks": 4,
    "nearly-parallel": 2,
    "heavy-on-light": 0,
}


@pytest.mark.parametrize("name", [name for name in FAMILIES if name != "packings"])
def test_the_smallest_member_is_solved_and_labelled(name: str) -> None:
    family = FAMILIES[name]
    member = family.member(family.sizes[0])
    solution = cdopt.CompatibleCD(member.step, member.power).solve("newton")
    assert solution.ok
    found = labels(member.step)
    assert found.contacts == member.step.nc
    assert found.nullity == found.closed - found.rank >= 0
    assert found.rank <= min(found.dofs, found.closed)
    assert found.density == pytest.approx(found.closed / found.dofs)
    assert found.condition >= 1.0
    if name in NULLITY:
        assert found.nullity == NULLITY[name]


@pytest.mark.parametrize("name", [name for name in FAMILIES if name != "fclib"])
def test_members_grow_with_their_size(name: str) -> None:
    family = FAMILIES[name]
    small, large = (family.member(size).step.nc for size in family.sizes[:2])
    assert small < large
    assert list(family.sizes) == sorted(set(family.sizes))


@pytest.mark.parametrize("name", [name for name in FAMILIES if FAMILIES[name].source])
def test_a_member_with_a_bank_name_is_that_problem(name: str) -> None:
    member = FAMILIES[name].member(4)
    loaded = cdopt.bank.load(member.source)
    assert loaded.power == member.power
    assert loaded.step is not None
    assert abs(loaded.step.B - member.step.B).max() == 0.0
    np.testing.assert_array_equal(loaded.step.stiffness, member.step.stiffness)


def test_the_forces_of_legs_chains_and_stacks_are_known() -> None:
    legged = cdopt.CompatibleCD(legs(7)).solve("newton").f
    np.testing.assert_allclose(legged, 10.0 / 7.0, rtol=1e-9)
    step = chain(6, 1e6)
    above = np.cumsum(step.M.diagonal()[::-1])[::-1]
    np.testing.assert_allclose(cdopt.ClassicCD(step).solve("newton").f, above, rtol=1e-8)
    stacked = cdopt.CompatibleCD(stack(5)).solve("newton").f.reshape(5, 4)
    np.testing.assert_allclose(stacked, np.arange(5, 0, -1)[:, None] / 4.0 * np.ones(4), rtol=1e-8)


def test_a_brick_wall_carries_its_weight_and_is_symmetric() -> None:
    step = brick_pyramid(3)
    assert (step.nc, step.nv) == (6 + 4 * 3, 18)
    f = cdopt.CompatibleCD(step).solve("newton").f
    assert f[:6].sum() == pytest.approx(6.0)
    np.testing.assert_allclose(f[:6], f[:6][::-1], rtol=1e-7)
    np.testing.assert_allclose((step.B.T @ f + step.F_ext).reshape(-1, 3), 0.0, atol=1e-9)


def test_the_wall_turns_as_its_gap_gradient_says() -> None:
    """B against bricks moved by hand: heights of their undersides and tops at the contacts."""
    step = brick_pyramid(2)
    centre = np.array([[0.0, 0.15], [1.0, 0.15], [0.5, 0.45]])
    move = 1e-6 * np.random.default_rng(0).standard_normal((3, 3))
    move[:, 0] = 0.0
    gap = step.B @ move.ravel()
    for k, (low, high) in enumerate(step.bodies):
        x = step.points[k, 0]
        height = [0.0 if b < 0 else move[b, 1] + move[b, 2] * (x - centre[b, 0])
                  for b in (low, high)]  # fmt: skip
        assert gap[k] == pytest.approx(height[1] - height[0], abs=1e-18)


def test_conditioning_follows_what_makes_it_bad() -> None:
    assert labels(chain(64)).condition > 4.0 * labels(chain(8)).condition
    wide = [labels(nearly_parallel(6, angle)) for angle in (1e-2, 1e-4)]
    assert [found.nullity for found in wide] == [4, 4]
    assert wide[1].condition == pytest.approx(100.0 * wide[0].condition, rel=1e-3)
    assert wide[1].scaled == pytest.approx(wide[0].scaled, rel=1e-3)
    # of upright facets alone: columns of ones and of angles
    tilt = np.linspace(-1e-4, 1e-4, 6)
    assert wide[1].condition == pytest.approx(np.sqrt(6.0) / np.linalg.norm(tilt), rel=1e-6)


def test_unequal_masses_and_stiffness_show_in_their_labels() -> None:
    heavy = labels(chain(6, 1e6))
    # bottom ball of mass 1 on the floor: N_11 = dt; topmost contact: dt (1/m5 + 1/m6)
    mass = np.geomspace(1.0, 1e6, 6)
    own = np.r_[1.0, 1.0 / mass[:-1] + 1.0 / mass[1:]]
    assert heavy.mobility == pytest.approx(own.max() / own.min(), rel=1e-9)
    assert heavy.condition == labels(chain(6)).condition
    uneven = labels(FAMILIES["stiffness-ratio"].member(4).step)
    assert 1e3 < uneven.stiffness <= 1e6
    assert labels(FAMILIES["crystals"].member(4).step).stiffness == 1.0


def test_a_chain_has_the_condition_of_a_difference_matrix() -> None:
    n = 9
    B = np.eye(n) - np.eye(n, k=-1)
    B[1:] /= np.sqrt(2.0)  # rows of unit length; all columns have the same lever
    values = np.linalg.svd(B, compute_uv=False)
    plain = np.linalg.svd(np.eye(n) - np.eye(n, k=-1), compute_uv=False)
    assert labels(chain(n)).condition == pytest.approx(plain[0] / plain[-1], rel=1e-9)
    assert labels(chain(n)).scaled == pytest.approx(values[0] / values[-1], rel=1e-9)


def test_estimates_agree_with_all_singular_values(monkeypatch: pytest.MonkeyPatch) -> None:
    for step in (chain(40), cdopt.bank.families()["pyramids-hooke"].member(4).step):
        exact = labels(step)
        with monkeypatch.context() as patch:
            patch.setattr("cdopt.study.labels.DENSE_LIMIT", 3)
            estimated = labels(step)
        assert (exact.estimated, estimated.estimated) == (False, True)
        assert estimated.condition == pytest.approx(exact.condition, rel=1e-6)
        assert estimated.scaled == pytest.approx(exact.scaled, rel=1e-6)
        assert (estimated.rank, estimated.nullity) == (exact.rank, exact.nullity)


def test_open_contacts_are_no_part_of_the_network() -> None:
    found = labels(cdopt.bank.load("beam-middle-open").step)
    assert (found.contacts, found.closed, found.nullity) == (3, 2, 0)
    flying = labels(cdopt.bank.load("free-flying").step)
    assert flying == Labels(flying.contacts, 0, 0, 0, 0, None, None, False, 0.0)


def test_masses_over_six_orders_keep_the_weight_of_each() -> None:
    even = cdopt.bank.generators.crystal_2d(4, 4)
    step = heavy_and_light(even, 1e6, 3)
    mass = step.M.diagonal().reshape(-1, 2)
    np.testing.assert_array_equal(mass[:, 0], mass[:, 1])
    np.testing.assert_allclose(step.F_ext.reshape(-1, 2)[:, 1], -mass[:, 1], rtol=1e-14)
    assert 1e3 < mass.max() / mass.min() <= 1e6
    with pytest.raises(cdopt.InvalidInput, match="no matrices"):
        heavy_and_light(cdopt.bank.load("supports-delassus").step)


def test_saved_members_make_a_family_of_files(tmp_path: Path) -> None:
    members = list(FAMILIES["beams"].members(most=8))
    paths = [member.save(tmp_path) for member in members]
    again = of_files("mine", paths)
    assert again.sizes == (4, 8)
    assert abs(again.member(8).step.B - members[1].step.B).max() == 0.0
    with pytest.raises(cdopt.InvalidInput, match=r"size: found 5; expected one of \[4, 8\]"):
        again.member(5)
    with pytest.raises(cdopt.InvalidInput, match="paths: found none"):
        of_files("none", [])


def test_published_files_have_their_contacts_for_sizes() -> None:
    assert FAMILIES["fclib"].sizes[0] == 48
    assert FAMILIES["fclib"].member(48).step.nc == 48


def test_labels_stand_in_a_table_and_failures_too() -> None:
    jammed = Member("jammed", 1, 2.0, cdopt.bank.load("squeezed").step)
    table = labelled([FAMILIES["stacks"].member(4), jammed])
    rows = [dict(zip(table.header, row, strict=True)) for row in table.rows]
    assert (rows[0]["contacts"], rows[0]["nullity"], rows[0]["rank"]) == (16, 4, 12)
    assert rows[1]["nullity"] is None
    assert "infeasible" in rows[1]["note"]


def test_singular_values_of_zero_are_no_part_of_the_condition() -> None:
    """Three contacts at one place: columns 1 and 1/4, of rank one."""
    found = labels(cdopt.bank.generators.beam_on([0.25, 0.25, 0.25]))
    assert (found.closed, found.dofs, found.rank, found.nullity) == (3, 2, 1, 2)
    assert found.condition == pytest.approx(1.0)
    assert found.scaled == pytest.approx(1.0)
