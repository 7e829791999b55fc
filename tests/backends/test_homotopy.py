"""The path to Coulomb's law: its equation, its turns, and steps that nothing else solved."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from population import friction_population

import cdopt
from cdopt.backends import Homotopy
from cdopt.backends.cone_algebra import SmoothProjection
from cdopt.backends.homotopy import Path, _Equation
from cdopt.backends.linalg.factorisation import DenseFactors, factorised
from cdopt.backends.network_problem import NetworkProblem, network_problem
from cdopt.bank import generators

pytestmark = pytest.mark.usefixtures("one_thread")


def posed(index: int, law: str = "coulomb") -> NetworkProblem:
    _, step = friction_population.member(index)
    return network_problem(cdopt.FrictionalCD(step, law).data)


@pytest.mark.parametrize("d", [2, 3, 5])
@pytest.mark.parametrize("t", [1.0, 1e-3])
def test_the_smooth_projection_is_the_one_of_the_central_path(d: int, t: float) -> None:
    """x = P(x − s) for x ∘ s = t e, and P tends to the projection on the cone."""
    random = np.random.default_rng(d)
    z = random.standard_normal((40, d))
    smooth = SmoothProjection(z, t)
    x, s = smooth.value, smooth.value - z
    products = x[:, :1] * s + s[:, :1] * x
    products[:, 0] = np.sum(x * s, axis=1)
    np.testing.assert_allclose(products, np.tile(t * np.eye(1, d), (40, 1)), atol=1e-13)
    for inside in (x, s):
        assert np.all(inside[:, 0] > np.linalg.norm(inside[:, 1:], axis=1))
    size = np.linalg.norm(z[:, 1:], axis=1)
    largest = 0.5 * (np.maximum(z[:, 0] + size, 0.0) + np.maximum(z[:, 0] - size, 0.0))
    assert np.all(np.abs(x[:, 0] - largest) <= np.sqrt(t))  # its distance from the projection


def test_its_derivatives_are_those_of_finite_differences() -> None:
    random = np.random.default_rng(1)
    z, t, h = random.standard_normal((30, 3)), 0.1, 1e-6
    z[0], z[1] = 0.0, [1.0, 0.0, 0.0]
    smooth, direction = SmoothProjection(z, t), random.standard_normal((30, 3))
    ends = [SmoothProjection(z + sign * h * direction, t).value for sign in (1.0, -1.0)]
    np.testing.assert_allclose(smooth.times(direction), (ends[0] - ends[1]) / (2 * h), atol=1e-8)
    np.testing.assert_allclose(
        (smooth.slope() @ direction[:, :, None])[:, :, 0], smooth.times(direction), atol=1e-14
    )
    ends = [SmoothProjection(z, t + sign * h).value for sign in (1.0, -1.0)]
    np.testing.assert_allclose(smooth.by_t, (ends[0] - ends[1]) / (2 * h), atol=1e-8)
    rest = smooth.magnified(direction)
    np.testing.assert_allclose(rest - smooth.times(rest), direction, atol=1e-12)


@pytest.mark.parametrize("index", [38, 62])
@pytest.mark.parametrize("law", ["coulomb", "associated"])
def test_both_linear_systems_are_newtons(index: int, law: str) -> None:
    """Of motions and of forces, along the curve and across it, against finite differences."""
    problem = posed(index, law)
    path, random = Path(problem, 1e-12), np.random.default_rng(index)
    y = random.uniform(0.5, 1.5, (problem.nc, problem.d))
    h, log_t = 1e-6, -1.0

    def left(forces: np.ndarray, at: float) -> np.ndarray:
        return _Equation(path, forces, at).left

    signs = []
    for path.of_forces in (False, True):
        system, value = path._system(_Equation(path, y, log_t)), left(y, log_t)
        step, slope = system.solve(-value), system.slope
        scale = np.abs(step).max()
        moved = (left(y + h * step / scale, log_t) - left(y - h * step / scale, log_t)) * scale
        np.testing.assert_allclose(moved / (2 * h), -value, atol=1e-5 * scale)
        scale = max(float(np.abs(slope).max()), 1.0)
        h_t = h / scale
        moved = left(y + h_t * slope, log_t + h_t) - left(y - h_t * slope, log_t - h_t)
        np.testing.assert_allclose(moved / (2 * h_t), 0.0, atol=1e-5 * scale)
        signs.append(system.sign)
    assert signs[0] == signs[1]


@pytest.mark.parametrize("law", ["coulomb", "associated"])
def test_ties_of_rolling_friction_are_in_newtons_system(law: str) -> None:
    """Copies of normal forces that disagree, against finite differences."""
    step = cdopt.bank.load("rolling-rockfall").step
    path, random = (
        Path(network_problem(cdopt.FrictionalCD(step, law).data), 1e-12),
        np.random.default_rng(7),
    )
    y = random.uniform(0.5, 1.5, (path.problem.nc + path.ties, path.problem.d))
    y[path.problem.nc :, 1:] = 0.0
    value, h = _Equation(path, y, -1.0).left, 1e-7
    assert np.abs(value[path.problem.nc :, 0]).min() > 0.0
    step_along = path._system(_Equation(path, y, -1.0)).solve(-value)
    ends = [_Equation(path, y + sign * h * step_along, -1.0).left for sign in (1.0, -1.0)]
    scale = np.abs(step_along).max()
    np.testing.assert_allclose((ends[0] - ends[1]) / (2 * h), -value, atol=1e-5 * scale)


@pytest.mark.parametrize("name", ["rolling-sphere", "rolling-cube", "rolling-rockfall"])
@pytest.mark.parametrize("law", ["coulomb", "associated"])
def test_rolling_friction(name: str, law: str) -> None:
    step = cdopt.bank.load(name).step
    solution = cdopt.FrictionalCD(step, law).solve("homotopy", tol=1e-8)
    assert solution.ok, solution.certificate


@pytest.mark.parametrize("n", [1, 2, 7, 30])
def test_the_sign_of_a_determinant(n: int) -> None:
    random = np.random.default_rng(n)
    for _ in range(6):
        J = random.standard_normal((n, n))
        signs = DenseFactors(J.copy()).sign, factorised(sp.csr_array(J)).sign
        assert signs == (np.sign(np.linalg.det(J)),) * 2


@pytest.mark.parametrize("index", [50, 127, 192, 221, 281, 322, 507, 517, 1063])
def test_steps_that_no_other_method_solved(index: int) -> None:
    """Rocks, capsules, walls and boxes with large coefficients of friction."""
    _, step = friction_population.member(index)
    solution = cdopt.FrictionalCD(step).solve("homotopy", tol=1e-8)
    assert solution.ok, solution.certificate


def test_it_turns_and_repeats_to_the_bit() -> None:
    """Where the law has several answers t grows for a while."""
    paths = [Path(posed(127), 1e-12) for _ in range(2)]
    first, second = (path.follow(500) for path in paths)
    assert paths[0].turns >= 2
    np.testing.assert_array_equal(first, second)


@pytest.mark.parametrize(
    ("index", "most"), [pytest.param(938, 300, marks=pytest.mark.slow), (1762, 100)]
)
def test_it_passes_branches_that_cross(index: int, most: int) -> None:
    """Of a symmetric pile at rest, and of cards; it went to and fro between two points there."""
    problem = posed(index)
    path = Path(problem, 1e-12)
    assert problem.worst(path.follow(most)) <= 1e-10
    assert path.steps < most


@pytest.mark.parametrize("index", [0, 1, 2, 3, 4, 5, 6, 9, 10])
def test_members_of_every_form_under_both_laws(index: int) -> None:
    _, step = friction_population.member(index)
    for law in ("coulomb", "associated"):
        solution = cdopt.FrictionalCD(step, law).solve("homotopy", tol=1e-8)
        assert solution.ok, (law, solution.certificate)
        assert "steps" in solution.provenance["how"]


def test_painleves_rod_has_an_answer_of_three() -> None:
    step = generators.pose(generators.painleve_rod(30.0).with_friction(3.0))
    assert cdopt.FrictionalCD(step).solve("homotopy").ok


def test_a_limit_of_steps_ends_it() -> None:
    _, step = friction_population.member(127)
    solution = cdopt.FrictionalCD(step).solve(Homotopy(max_steps=4), check=False)
    assert not solution.claimed
    assert solution.provenance["how"].startswith("4 steps")
