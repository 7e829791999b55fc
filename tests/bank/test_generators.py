"""The generators: geometry, closed forms, and families with a size."""

from __future__ import annotations

import numpy as np
import pytest

import cdopt
from cdopt import bank
from cdopt.bank import generators
from cdopt.problem.contact_law import HERTZ

FAMILIES = bank.families()


# --- platforms -------------------------------------------------------------------------


def test_platforms_rise_and_turn_as_their_gap_gradients_say() -> None:
    beam = generators.beam_on([-0.5, 0.1, 0.1, 0.4], [1, 2, 3, 4], [0, 1e-3, 0, 0], list("abcd"))
    np.testing.assert_allclose(beam.B.toarray(), [[1, -0.5], [1, 0.1], [1, 0.1], [1, 0.4]])
    np.testing.assert_array_equal(beam.stiffness, [1, 2, 3, 4])
    np.testing.assert_allclose(beam.phi, [0, 1e-3, 0, 0], atol=1e-15)
    np.testing.assert_array_equal(beam.contact_ids, list("abcd"))
    mass = 10.0 / 9.81
    np.testing.assert_allclose(beam.M.toarray(), np.diag([mass, mass / 12.0]), rtol=1e-12)
    np.testing.assert_allclose(beam.F_ext, [-10.0, 0.0], atol=1e-14)
    for step in (generators.table(), generators.tripod(), generators.legs(5)):
        x, y, _ = step.points.T
        np.testing.assert_allclose(step.B.toarray(), np.column_stack([np.ones_like(x), y, -x]))
        np.testing.assert_allclose(step.M.diagonal() * 9.81, [10.0, 10 / 12, 10 / 12], rtol=1e-12)
    tables = generators.ten_orders()
    np.testing.assert_array_equal(np.diff(tables.B.indptr), 3)
    np.testing.assert_allclose(tables.M.diagonal()[::3], np.geomspace(1e-5, 1e5, 11))


@pytest.mark.parametrize("n", [2, 7])
def test_supports_and_legs_share_equally(n: int) -> None:
    for step in (generators.supports(n), generators.legs(n + 1)):
        solution = cdopt.CompatibleCD(step).solve("clarabel")
        assert solution.ok
        np.testing.assert_allclose(solution.f, 10.0 / step.nc, rtol=1e-6)


def test_the_delassus_step_is_the_same_problem() -> None:
    full, rows = generators.supports(6), generators.supports_delassus(6)
    assert isinstance(rows, cdopt.DelassusStep)
    np.testing.assert_allclose(rows.N.toarray(), full.N.toarray(), rtol=1e-14)
    np.testing.assert_allclose(rows.p_vec, full.p_vec, rtol=1e-14)


# --- piles -----------------------------------------------------------------------------


@pytest.mark.parametrize(("material", "n"), [("hooke", 10), ("hertz", 5), ("species", 5)])
def test_pyramid_contacts_come_in_the_order_of_the_references(material: str, n: int) -> None:
    step = bank.load(f"pyramid-{material}", n=n).step
    with np.load(bank.problems_folder() / f"pyramid-{material}" / f"n{n}.npz") as stored:
        np.testing.assert_array_equal(step.bodies, stored["pairs"])
        f, reactions = stored["f"], stored["R"]
    np.testing.assert_allclose(step.B.T @ f, -step.F_ext, atol=1e-12)
    np.testing.assert_allclose(step.body_forces(f)[: n * n], reactions, atol=1e-12)


def test_species_stiffness() -> None:
    step = generators.pyramid(4, "species")
    expected = np.array([1 / 5, 1 / 3, 1.0])[(step.bodies % 2).sum(axis=1)]
    np.testing.assert_allclose(step.stiffness, expected, rtol=1e-14)
    np.testing.assert_array_equal(generators.pyramid(4, "species", 1.0).stiffness, 1.0)


def test_crystal() -> None:
    step = generators.crystal_2d(3, 4)
    discs = 4 + 3 + 4
    assert step.nv == 2 * discs
    walls = ~np.isin(step.bodies[:, 0], step.dof_body)
    normals = step.normals[walls].round(12)
    counted = [np.count_nonzero((normals == n).all(axis=1)) for n in ([0, 1], [1, 0], [-1, 0])]
    assert counted == [4, 2, 2]
    assert step.nc == (3 + 2 + 3) + 2 * 3 * 2 + 8  # within rows, between them, walls
    solution = cdopt.CompatibleCD(step).solve("clarabel", classic="clarabel", accuracy=1e-12)
    thrust = (solution.f * walls) @ step.normals
    np.testing.assert_allclose(thrust, [0.0, discs], atol=1e-6)


def test_the_forces_of_chains_and_stacks_are_known() -> None:
    step = generators.chain(6, 1e6)
    above = np.cumsum(step.M.diagonal()[::-1])[::-1]
    np.testing.assert_allclose(cdopt.ClassicCD(step).solve("newton").f, above, rtol=1e-8)
    stacked = cdopt.CompatibleCD(generators.stack(5)).solve("newton").f.reshape(5, 4)
    np.testing.assert_allclose(stacked, np.arange(5, 0, -1)[:, None] / 4.0 * np.ones(4), rtol=1e-8)


def test_a_brick_wall_carries_its_weight_and_is_symmetric() -> None:
    step = generators.brick_pyramid(3)
    assert (step.nc, step.nv) == (6 + 4 * 3, 18)
    f = cdopt.CompatibleCD(step).solve("newton").f
    assert f[:6].sum() == pytest.approx(6.0)
    np.testing.assert_allclose(f[:6], f[:6][::-1], rtol=1e-7)
    np.testing.assert_allclose(step.B.T @ f + step.F_ext, 0.0, atol=1e-9)


@pytest.mark.parametrize("power", [1.5, 2.5])
@pytest.mark.parametrize("n", [3, 8])
def test_the_fan_in_closed_form(n: int, power: float) -> None:
    fan = generators.fan(n, 3.0)
    f = generators.fan_forces(n, 3.0, power)
    np.testing.assert_allclose(fan.B.T @ f, fan.contact_load, atol=1e-14)
    overlap = fan.B @ [0.0, 1.0]  # of a point that sinks by one
    ratio = f / overlap ** (power - 1.0)
    np.testing.assert_allclose(ratio, ratio[0], rtol=1e-13)


# --- packings and uneven piles ---------------------------------------------------------


@pytest.fixture(scope="module")
def pile() -> cdopt.ContactStep:
    return generators.packing(100, layers=4)


def test_a_packing_is_disordered_and_hyperstatic(pile: cdopt.ContactStep) -> None:
    assert 1.05 < pile.nc / pile.nv < 1.25
    np.testing.assert_allclose(np.linalg.norm(pile.normals, axis=1), 1.0, rtol=1e-12)
    weight = np.sort(-pile.F_ext[2::3])
    assert weight[0] < 0.7
    assert weight[-1] > 1.4


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


def test_tiles_repeat_a_cell(pile: cdopt.ContactStep) -> None:
    four = generators.packing(100, 2, layers=4)
    assert (four.nc, four.nv) == (4 * pile.nc, 4 * pile.nv)
    truss = cdopt.NoTensionTruss(
        four.B, -four.F_ext, four.stiffness, 2.0, "potential", dof_body=four.dof_body
    )
    f = truss.solve("newton").f
    total = np.zeros(401)
    for column in (0, 1):
        np.add.at(total, four.bodies[:, column], f)
    forces = total[1:].reshape(4, 100)
    np.testing.assert_allclose(forces, np.tile(forces[0], (4, 1)), atol=1e-7)


def test_uneven_stiffness_spans_its_ratio_evenly_in_its_logarithm() -> None:
    step = generators.crystal_2d(20, 20)
    log = np.log10(generators.uneven(step, 1e6).stiffness)
    assert -3.0 <= log.min() < -2.9
    assert 2.9 < log.max() <= 3.0
    assert abs(np.median(log)) < 0.3
    assert generators.uneven(step, 1.0) is step


def test_masses_over_six_orders_keep_the_weight_of_each() -> None:
    step = generators.heavy_and_light(generators.crystal_2d(4, 4), 1e6, 3)
    mass = step.M.diagonal().reshape(-1, 2)
    np.testing.assert_array_equal(mass[:, 0], mass[:, 1])
    np.testing.assert_allclose(step.F_ext.reshape(-1, 2)[:, 1], -mass[:, 1], rtol=1e-14)
    assert 1e3 < mass.max() / mass.min() <= 1e6
    with pytest.raises(cdopt.InvalidInput, match="no dof_body"):
        generators.heavy_and_light(generators.beam().replace(dof_body=None))


# --- all of them -----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("build", "arguments", "named"),
    [
        (generators.beam_on, {"x": [0.0, 0.6]}, "x"),
        (generators.Truss, {"B": np.ones((2, 2)), "contact_load": [1.0]}, "contact_load"),
        (generators.packing, {"n": 10}, "n"),
    ],
)
def test_bad_arguments_are_named(build, arguments: dict, named: str) -> None:
    with pytest.raises(cdopt.InvalidInput) as caught:
        build(**arguments)
    assert caught.value.argument == named


# --- families --------------------------------------------------------------------------


@pytest.mark.parametrize("name", [name for name in FAMILIES if name != "packings"])
def test_members_grow_with_their_size(name: str) -> None:
    family = FAMILIES[name]
    small, large = (family.build(size).nc for size in family.sizes[:2])
    assert small < large
    assert list(family.sizes) == sorted(set(family.sizes))


def test_published_files_are_a_family() -> None:
    sizes = [FAMILIES["fclib"].build(size).nc for size in FAMILIES["fclib"].sizes]
    published = [name for name in bank.names() if name.startswith("fclib-")]
    steps = [name for name in published if bank.manifest(name).kind == "step"]
    assert sizes == sorted(bank.load(name).step.nc for name in steps)
    assert FAMILIES["pyramids-hertz"].power == HERTZ
    with pytest.raises(cdopt.InvalidInput, match="size: found 5; expected one of"):
        FAMILIES["fclib"].build(5)


def test_impact_obeys_newton_at_every_restitution() -> None:
    for e in (0.0, 0.3, 1.0):
        step = generators.impact(restitution=e)
        solution = cdopt.ClassicCD(step).solve("clarabel")
        before, after = step.B @ step.v, step.B @ solution.v_next
        if e > 0.0:
            np.testing.assert_allclose(after, -e * before, rtol=1e-6)
        else:  # the paper's scheme: the gap is closed at the end of the step, not before
            np.testing.assert_allclose(after, -step.phi / step.dt, rtol=1e-6)
