"""Reduced trusses and representative particles: the quasicontinuum method on crystals."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from lessons import LESSONS, check_picture, ran
from scipy.spatial import cKDTree

import cdopt
from cdopt import InvalidInput, QuasiStatic, Representatives, StepSolution, reduced


@dataclass
class Crystal:
    """Discs or balls of diameter one, each touching its neighbours."""

    x: np.ndarray[Any, Any]
    pairs: np.ndarray[Any, Any]
    B: sp.csr_array

    @classmethod
    def of(cls, x: np.ndarray[Any, Any]) -> Crystal:
        pairs = cKDTree(x).query_pairs(1.001, output_type="ndarray")
        normal = x[pairs[:, 1]] - x[pairs[:, 0]]
        d = x.shape[1]
        dofs = np.hstack([d * pairs[:, :1] + np.arange(d), d * pairs[:, 1:] + np.arange(d)])
        rows = np.repeat(np.arange(len(pairs)), 2 * d)
        values = np.hstack([-normal, normal]).ravel()
        return cls(x, pairs, sp.csr_array((values, (rows, dofs.ravel())), (len(pairs), x.size)))

    @classmethod
    def hexagonal(cls, columns: int, rows: int) -> Crystal:
        height = np.sqrt(0.75)
        points = [
            (i + 0.5 * (j % 2), j * height) for j in range(rows) for i in range(columns - j % 2)
        ]
        return cls.of(np.array(points))

    @classmethod
    def cubic(cls, n: int) -> Crystal:
        """Face-centred."""
        grid = np.stack(np.meshgrid(*[np.arange(2 * n + 1)] * 3, indexing="ij"), -1).reshape(-1, 3)
        return cls.of(grid[grid.sum(axis=1) % 2 == 0] * np.sqrt(0.5))

    @property
    def body(self) -> np.ndarray[Any, Any]:
        return np.repeat(np.arange(len(self.x)), self.x.shape[1])

    def edge(self) -> np.ndarray[Any, Any]:
        """Mask of the dofs of particles with fewer neighbours than others."""
        neighbours = np.bincount(self.pairs.ravel())
        return np.repeat(neighbours < neighbours.max(), self.x.shape[1])


def strained(crystal: Crystal, seed: int) -> np.ndarray[Any, Any]:
    """A uniform displacement gradient with all contacts closed."""
    d = crystal.x.shape[1]
    gradient = -0.01 * np.eye(d) + 0.002 * np.random.default_rng(seed).standard_normal((d, d))
    u = (crystal.x @ gradient.T).ravel()
    assert (crystal.B @ u).max() < 0.0
    return np.asarray(u)


# --- the patch test ------------------------------------------------------------------------


@pytest.mark.parametrize("power", [2.0, 2.5])
@pytest.mark.parametrize("crystal", [Crystal.hexagonal(14, 12), Crystal.cubic(3)])
def test_patch_test_with_displacements(crystal: Crystal, power: float) -> None:
    """Boundary moved by a uniform gradient: every particle follows it, whatever the mesh."""
    u = strained(crystal, 1)
    edge = crystal.edge()
    rng = np.random.default_rng(2)
    boundary = np.flatnonzero(edge[:: crystal.x.shape[1]])
    inner = np.setdiff1d(np.arange(len(crystal.x)), boundary)
    mesh = Representatives(crystal.x, np.union1d(boundary, rng.choice(inner, 6, replace=False)))
    moved = np.where(edge, u, 0.0)
    truss = QuasiStatic(
        crystal.B, np.zeros(len(crystal.pairs)), np.zeros(u.size), 1.0, power,
        free_dofs=~edge, prescribed_u=moved, dof_body=crystal.body,
    )  # fmt: skip
    offset = mesh.matrix() @ moved[mesh.dofs[mesh.indices].ravel()]
    model = reduced(truss, mesh.matrix(~edge), offset=offset)
    solution = model.solve("newton")
    assert solution.ok
    assert model.P.shape[1] < 0.3 * np.count_nonzero(~edge)
    np.testing.assert_allclose(model.expanded(solution), u, atol=1e-10)


@pytest.mark.parametrize("power", [2.0, 2.5])
def test_patch_test_with_loads(power: float) -> None:
    """Loads of a uniform stress on a crystal with few representatives."""
    crystal = Crystal.hexagonal(16, 13)
    u = strained(crystal, 3)
    u -= np.tile(u[:2], len(crystal.x))  # the first disc stays, and the second in its row
    held = np.zeros(u.size, dtype=bool)
    held[[0, 1, 2 * 15 + 1]] = True
    u -= np.column_stack([-crystal.x[:, 1], crystal.x[:, 0]]).ravel() * (u[31] / crystal.x[15, 0])
    force = np.maximum(-(crystal.B @ u), 0.0) ** (power - 1.0)
    truss = QuasiStatic(
        crystal.B, np.zeros(force.size), -(crystal.B.T @ force), 1.0, power,
        free_dofs=~held, dof_body=crystal.body,
    )  # fmt: skip
    mesh = Representatives.spread(crystal.x, 6.0)
    model = reduced(truss, mesh.matrix(~held))
    solution = model.solve("newton")
    assert model.P.shape[1] < 0.1 * u.size
    np.testing.assert_allclose(model.expanded(solution), u, atol=1e-10)
    np.testing.assert_allclose(model.all_forces(solution), force, atol=1e-10)
    assert model.unbalanced_energy(solution).sum() < 1e-18


# --- an indented crystal -------------------------------------------------------------------


@dataclass
class Indented:
    """A pressed crystal between walls, a further load on nine discs of its top."""

    crystal: Crystal
    free: np.ndarray[Any, Any]
    truss: QuasiStatic
    whole: StepSolution

    @classmethod
    def of(cls, columns: int, rows: int, load: float = 2.0) -> Indented:
        crystal = Crystal.hexagonal(columns, rows)
        x, overlap = crystal.x, np.full(len(crystal.pairs), 1e-3)
        walls = (x[:, 1] < 0.1) | (x[:, 0] < 0.6) | (x[:, 0] > columns - 1.6)
        applied = -(crystal.B.T @ overlap)
        under = (x[:, 1] > x[:, 1].max() - 0.1) & (np.abs(x[:, 0] - x[:, 0].max() / 2) <= 4.0)
        applied[1::2] -= load * overlap[0] * under
        free = ~np.repeat(walls, 2)
        truss = QuasiStatic(
            crystal.B, -overlap, applied, 1.0, free_dofs=free, dof_body=crystal.body
        )
        return cls(crystal, free, truss, truss.solve("newton"))

    @property
    def minimum(self) -> float:
        """Energy of the whole crystal at its equilibrium, above the pressed state, J."""
        assert self.whole.u is not None
        return self.energy(self.whole.u)

    def energy(self, u: Any) -> float:
        data = self.truss.data
        rest = data.motion_objective(data.free_motion, np.zeros(0)).sum()
        return float(data.motion_objective(u, np.zeros(0)).sum() - rest)

    def error(self, model: cdopt.ReducedTruss, solution: StepSolution) -> float:
        """Missing share of the energy of indentation."""
        return 1.0 - self.energy(model.expanded(solution)) / self.minimum


def test_every_particle_as_a_representative_is_the_whole_crystal() -> None:
    it = Indented.of(20, 12)
    model = reduced(it.truss, Representatives(it.crystal.x, np.arange(234)).matrix(it.free))
    solution = model.solve("newton")
    assert abs(it.error(model, solution)) < 1e-12
    np.testing.assert_allclose(model.all_forces(solution), it.whole.f, atol=1e-12)
    assert it.minimum == pytest.approx(
        model.energy(solution)
        - it.truss.data.motion_objective(it.truss.data.free_motion, np.zeros(0)).sum()
    )


@cache
def indented() -> Indented:
    return Indented.of(50, 36)


def converged(it: Indented, target: float) -> tuple[list[float], list[int], Representatives]:
    """Errors and dofs of a mesh refined to a target."""
    mesh = Representatives.spread(it.crystal.x, it.crystal.x.max() / 8)
    errors, sizes = [], []
    for _ in range(30):
        model = reduced(it.truss, mesh.matrix(it.free))
        solution = model.solve("newton")
        assert solution.ok
        errors.append(it.error(model, solution))
        sizes.append(model.P.shape[1])
        if errors[-1] < target:
            break
        mesh = mesh.refined(model.unbalanced_energy(solution))
    return errors, sizes, mesh


def test_refined_meshes_tend_to_the_whole_crystal_from_above() -> None:
    it = indented()
    errors, sizes, mesh = converged(it, 0.04)
    assert min(errors) > 0.0  # no reduced energy is below the minimum
    assert errors[-1] < 0.04
    assert sizes[-1] * 12 < np.count_nonzero(it.free)
    middle = it.crystal.x.max(axis=0) * [0.5, 1.0]
    added = np.linalg.norm(it.crystal.x[mesh.indices] - middle, axis=1)
    assert np.median(added) < 25.0  # they gather under the load
    even = Representatives.spread(it.crystal.x, it.crystal.x.max() / 16)
    model = reduced(it.truss, even.matrix(it.free))
    assert model.P.shape[1] > sizes[-1]
    assert it.error(model, model.solve("newton")) > errors[-1]


@pytest.mark.slow
def test_a_crystal_of_100_000_discs_with_fifty_times_fewer_dofs() -> None:
    it = Indented.of(400, 250)
    errors, sizes, _ = converged(it, 0.02)
    assert errors[-1] < 0.02
    assert sizes[-1] * 50 < np.count_nonzero(it.free)


def test_both_forms_agree() -> None:
    it = Indented.of(20, 12)
    P = Representatives.spread(it.crystal.x, 6.0).matrix(it.free)
    forms = [reduced(it.truss, P, form=form) for form in ("potential", "complementary")]
    first, second = (model.expanded(model.solve("clarabel", accuracy=1e-11)) for model in forms)
    np.testing.assert_allclose(first, second, atol=1e-6 * np.abs(first).max())


# --- contacts that become one --------------------------------------------------------------


def test_contacts_of_an_element_become_one() -> None:
    crystal = Crystal.hexagonal(30, 25)
    truss = QuasiStatic(crystal.B, np.zeros(len(crystal.pairs)), np.zeros(crystal.x.size))
    model = reduced(truss, Representatives.spread(crystal.x, 100.0).matrix())
    assert model.data.nc < 0.2 * len(crystal.pairs)
    assert model.data.elastic_law.stiffness.sum() == pytest.approx(len(crystal.pairs))
    moved = np.random.default_rng(0).standard_normal(model.P.shape[1])
    assert model.data.motion_objective(moved, np.zeros(0)).sum() == pytest.approx(
        truss.data.motion_objective(model.P @ moved, np.zeros(0)).sum(), rel=1e-12
    )


def test_contacts_with_other_gaps_stay_apart() -> None:
    truss = QuasiStatic([[1.0], [1.0], [1.0]], [0.0, -1.0, 0.0], [-1.0], [1.0, 1.0, 2.0])
    model = reduced(truss, [[1.0]])
    assert sorted(model.data.elastic_law.stiffness) == [1.0, 3.0]
    np.testing.assert_allclose(model.expanded(model.solve("newton")), [0.0], atol=1e-12)


# --- clusters ------------------------------------------------------------------------------


def test_cluster_weights_sum_shape_functions_exactly() -> None:
    it = indented()
    mesh = Representatives.spread(it.crystal.x, 10.0)
    weights = mesh.clusters(it.crystal.pairs, 2.01)
    assert np.all(weights >= 0.0)
    assert np.count_nonzero(weights) < 0.5 * weights.size
    assert weights.sum() == pytest.approx(weights.size, rel=0.05)
    alone = mesh.clusters([(i, -1) for i in range(len(it.crystal.x))], 0.0)
    np.testing.assert_allclose(
        alone[mesh.indices], np.asarray(mesh.shape_functions.sum(axis=0)).ravel(), rtol=1e-9
    )


def test_sampled_crystals_stay_at_rest_and_follow_the_whole_one() -> None:
    it = Indented.of(50, 36, load=0.0)
    mesh = Representatives.spread(it.crystal.x, 8.0)
    weights = mesh.clusters(it.crystal.pairs, 2.01)
    resting = reduced(it.truss, mesh.matrix(it.free), weights)
    assert np.abs(resting.expanded(resting.solve("newton"))).max() < 1e-12
    it = indented()
    _, _, mesh = converged(it, 0.05)
    errors = []
    for radius in (1.01, 2.01):
        model = reduced(it.truss, mesh.matrix(it.free), mesh.clusters(it.crystal.pairs, radius))
        errors.append(it.error(model, model.solve("newton")))
    assert 0.0 < errors[1] < errors[0] < 0.1


# --- the lesson ----------------------------------------------------------------------------


@pytest.mark.slow
def test_the_lesson() -> None:
    """2 % with 36 times fewer unknowns, better than any even grid; its picture."""
    number = next(i for i, path in enumerate(LESSONS) if "quasicontinuum" in path.stem)
    it = ran(number).names
    assert it.adapted[-1][1] < 0.02 < it.even[-1][1]
    assert it.adapted[-1][0] < it.even[-1][0]
    assert it.adapted[-1][0] * 30 < it.free.sum()
    check_picture(number)


# --- mistakes ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda it, P: reduced(it.truss, P[:-1]), "P"),
        (
            lambda it, P: reduced(it.truss, Representatives(it.crystal.x, np.arange(234)).matrix()),
            "P",
        ),
        (lambda it, P: reduced(it.truss, P, weights=-np.ones(it.truss.data.nc)), "weights"),
        (lambda it, P: reduced(it.truss, P, offset=[0.0]), "offset"),
        (lambda it, P: reduced(it.truss, P).expanded(it.whole), "solution"),
        (lambda it, P: Representatives(it.crystal.x, [0, 1, 2]), "one line"),
        (lambda it, P: Representatives(it.crystal.x, [0, 1, 234]), "indices"),
        (lambda it, P: Representatives(it.crystal.x[:, 0], [0, 1, 2]), "x"),
        (lambda it, P: Representatives.spread(it.crystal.x, 0.0), "spacing"),
        (lambda it, P: Representatives.spread(it.crystal.x, 1e-9), "spacing"),
        (lambda it, P: Representatives.spread(it.crystal.x, 5.0).refined([1.0]), "energy"),
        (lambda it, P: Representatives.spread(it.crystal.x, 5.0).matrix([True]), "free"),
        (lambda it, P: Representatives.spread(it.crystal.x, 5.0).clusters([[0, 1]], -1), "radius"),
        (lambda it, P: Representatives.spread(it.crystal.x, 5.0).clusters([[-1, -1]], 1), "wall"),
    ],
)
def test_mistakes_are_named(make: Any, says: str) -> None:
    it = Indented.of(20, 12)
    P = Representatives.spread(it.crystal.x, 5.0).matrix(it.free)
    with pytest.raises(InvalidInput, match=says):
        make(it, P)
