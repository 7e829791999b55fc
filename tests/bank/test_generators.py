"""The generators: geometry, ranks, and the closed forms behind the references."""

from __future__ import annotations

import numpy as np
import pytest

import cdopt
from cdopt import bank
from cdopt._util.files import problems_folder
from cdopt.bank import generators
from cdopt.bank.quantities import nullity

STEPS = [name for name in bank.names() if bank.manifest(name).kind == "step"]


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("beam-uniform", 1),
        ("supports:n=2", 0),
        ("supports:n=12", 10),
        ("supports-delassus:n=12", 10),
        ("table", 1),
        ("tripod", 0),
        ("pyramid-hooke:n=3", 9),
        ("pyramid-hooke:n=5", 70),
        ("crystal-2d:rows=1,columns=2", 1),
        ("rank-deficient", 3),
        ("duplicated-contacts:copies=3", 7),
    ],
)
def test_ranks(name: str, expected: int) -> None:
    step = bank.load(name).step
    matrix = getattr(step, "B", step.N).toarray()
    assert step.nc - np.linalg.matrix_rank(matrix, tol=1e-9 * np.abs(matrix).max()) == expected
    assert nullity(getattr(step, "B", step.N)) == expected


@pytest.mark.parametrize("n", [5, 10])
@pytest.mark.parametrize("material", ["hooke", "hertz", "species"])
def test_pyramid_contacts_come_in_the_order_of_the_references(n: int, material: str) -> None:
    step = bank.load(f"pyramid-{material}", n=n).step
    with np.load(problems_folder() / f"pyramid-{material}" / f"n{n}.npz") as stored:
        np.testing.assert_array_equal(step.bodies, stored["pairs"])
        f, reactions = stored["f"], stored["R"]
    np.testing.assert_allclose(step.B.T @ f, -step.F_ext, atol=1e-12)
    np.testing.assert_allclose(step.body_forces(f)[: n * n], reactions, atol=1e-12)


@pytest.mark.parametrize("n", [2, 5, 9])
def test_pyramid_geometry(n: int) -> None:
    centres, layers = generators.pyramid_positions(n)
    step = generators.pyramid(n)
    assert len(centres) == n * (n + 1) * (2 * n + 1) // 6
    i, j = step.bodies.T
    arm = centres[j] - centres[i]
    np.testing.assert_allclose(np.linalg.norm(arm, axis=1), 1.0, rtol=1e-14)
    np.testing.assert_allclose(step.normals, arm, atol=1e-14)
    np.testing.assert_allclose(step.points, 0.5 * (centres[i] + centres[j]))
    assert not np.any((layers[i] == 0) & (layers[j] == 0))
    order = np.lexsort((step.bodies[:, 1], step.bodies[:, 0]))
    np.testing.assert_array_equal(order, np.arange(step.nc))
    within = sum(2 * (n - k) * (n - k - 1) for k in range(1, n))
    between = sum(4 * (n - k) ** 2 for k in range(1, n))
    assert step.nc == within + between


def test_pyramid_counts_of_the_paper() -> None:
    step = generators.pyramid(20)
    assert (step.nc, step.nv) == (14_440, 7_410)
    assert generators.pyramid(40).nc == 121_680


def test_species_stiffness() -> None:
    step = generators.pyramid(4, "species")
    parity = step.bodies % 2
    expected = np.array([1 / 5, 1 / 3, 1.0])[parity.sum(axis=1)]
    np.testing.assert_allclose(step.stiffness, expected, rtol=1e-14)
    np.testing.assert_array_equal(generators.pyramid(4, "species", 1.0).stiffness, 1.0)


@pytest.mark.parametrize("name", STEPS)
def test_gap_gradients_are_those_of_the_geometry(name: str) -> None:
    """B v is the relative speed along the normal, for the bodies' translations."""
    step = bank.load(name).step
    if step.bodies is None or step.dof_body is None:
        assert name in ("supports-delassus", "rank-deficient") or name.startswith("fclib-")
        return
    if "beam" in name or name in ("supports", "duplicated-contacts", "stiffness-ratio"):
        np.testing.assert_allclose(step.B.toarray()[:, 1], step.points[:, 0], atol=1e-15)
        return
    dense, dim = step.B.toarray(), step.normals.shape[1]
    if name in ("table", "tripod", "ten-orders"):
        turning = dense[:, 1::3].sum(axis=1)
        np.testing.assert_allclose(turning, step.points[:, 1], atol=1e-15)
        return
    expected = np.zeros_like(dense)
    for column, sign in ((0, -1.0), (1, 1.0)):
        for contact, body in enumerate(step.bodies[:, column]):
            dofs = np.flatnonzero(step.dof_body == body)
            assert len(dofs) in (0, dim)
            expected[contact, dofs] += sign * step.normals[contact][: len(dofs)]
    np.testing.assert_allclose(dense, expected, atol=1e-15)


def test_crystal() -> None:
    step = generators.crystal_2d(3, 4)
    count = 4 + 3 + 4
    assert step.nv == 2 * count
    world = step.bodies[:, 0] < 0
    normals = step.normals[world].round(12)
    assert np.count_nonzero(normals[:, 1] == 1.0) == 4
    assert np.count_nonzero(normals[:, 0] == 1.0) == 2
    assert np.count_nonzero(normals[:, 0] == -1.0) == 2
    inside = 3 + 2 + 3  # within rows
    assert step.nc == inside + 2 * 3 * 2 + 8
    solution = cdopt.CompatibleCD(step).solve("clarabel", classic="clarabel", accuracy=1e-12)
    walls = step.bodies[:, 0] < 0
    thrust = (solution.f * walls) @ step.normals
    np.testing.assert_allclose(thrust, [0.0, count], atol=1e-6)


@pytest.mark.parametrize("power", [1.5, 2.0, 2.5, 4.0])
@pytest.mark.parametrize("n", [2, 3, 8])
def test_the_fan_in_closed_form(n: int, power: float) -> None:
    made = generators.fan(n, 3.0)
    f = generators.fan_forces(n, 3.0, power)
    np.testing.assert_allclose(made.B.T @ f, made.contact_load, atol=1e-14)
    sunk = made.B @ [0.0, 1.0]  # overlaps of a point that sinks by one
    ratio = f / sunk ** (power - 1.0)
    np.testing.assert_allclose(ratio, ratio[0], rtol=1e-13)


@pytest.mark.parametrize("n", [2, 3, 4, 7, 12])
def test_supports_share_equally(n: int) -> None:
    solution = cdopt.CompatibleCD(generators.supports(n)).solve("clarabel")
    assert solution.ok
    np.testing.assert_allclose(solution.f, 10.0 / n, rtol=1e-6)


def test_the_delassus_step_is_the_same_problem() -> None:
    known, rows = generators.supports(6), generators.supports_delassus(6)
    assert isinstance(rows, cdopt.DelassusStep)
    np.testing.assert_allclose(rows.N.toarray(), known.N.toarray(), rtol=1e-14)
    np.testing.assert_allclose(rows.p_vec, known.p_vec, rtol=1e-14)


def test_impact_obeys_newton_at_every_restitution() -> None:
    for e in (0.0, 0.3, 1.0):
        step = generators.impact(restitution=e)
        solution = cdopt.ClassicCD(step).solve("clarabel")
        before, after = step.B @ step.v, step.B @ solution.v_next
        if e > 0.0:
            np.testing.assert_allclose(after, -e * before, rtol=1e-6)
        else:  # the paper's scheme: the gap is closed at the end of the step, not before
            np.testing.assert_allclose(after, -step.phi / step.dt, rtol=1e-6)


def test_bad_arguments_are_named() -> None:
    bad = [
        (generators.pyramid, {"n": 2.5}, "n"),
        (generators.pyramid, {"material": "steel"}, "material"),
        (generators.pyramid_falling, {"opened": 1.1}, "opened"),
        (generators.pyramid_falling, {"seed": -1}, "seed"),
        (generators.crystal_2d, {"rows": 0}, "rows"),
        (generators.crystal_2d, {"columns": 1}, "columns"),
        (generators.beam, {"middle_gap": -1.0}, "middle_gap"),
        (generators.beam, {"middle_stiffness": 0.0}, "middle_stiffness"),
        (generators.duplicated_contacts, {"copies": 0}, "copies"),
        (generators.supports_delassus, {"n": 10_000}, "n"),
        (generators.table, {"mass": 0.0}, "mass"),
        (generators.ten_orders, {"lightest": "light"}, "lightest"),
        (generators.ball, {"height": -1.0}, "height"),
        (generators.squeezed, {"overlap": 0.0}, "overlap"),
        (generators.fan, {"weight": -1.0}, "weight"),
        (generators.beam_on, {"x": [[0.0]]}, "x"),
        (generators.truss, {"B": np.ones((2, 2)), "contact_load": [1.0]}, "contact_load"),
    ]
    for build, arguments, named in bad:
        with pytest.raises(cdopt.InvalidInput) as caught:
            build(**arguments)
        assert caught.value.argument == named


def test_generators_return_frozen_data() -> None:
    for name, build in generators.GENERATORS.items():
        made = build()
        arrays = (made.B.data, made.stiffness) if hasattr(made, "B") else (made.N.data,)
        for array in arrays:
            assert not array.flags.writeable, name
