"""Native solvers at large friction coefficients: a block held or sliding, by formulas."""

from __future__ import annotations

import numpy as np
import pytest

import cdopt
from cdopt.backends import proximal_newton
from cdopt.backends.deadline import Deadline
from cdopt.backends.network_problem import network_problem
from cdopt.problem import FrictionCones, cone_rules

SOLVERS = "newton", "admm", "apgd", "nsgs"
WEIGHT, DT = 9.81, 2.0**-10


def block(mu: float, d: int, pull: float, joint: bool = False) -> cdopt.ContactStep:
    """A kilogram on the floor, pulled along it with ``pull`` newtons in a slanting direction."""
    n = d + joint  # a dof apart, which a joint holds
    B, B_t, F = np.zeros((1, n)), np.eye(d - 1, n), np.zeros(n)
    B[0, d - 1], F[d - 1] = 1.0, -WEIGHT
    F[: d - 1] = pull * np.array([0.6, 0.8][: d - 1]) / np.linalg.norm([0.6, 0.8][: d - 1])
    joints = cdopt.Joints(np.eye(n)[-1:]) if joint else None
    friction = cdopt.Friction(mu, B_t)
    return cdopt.ContactStep(np.eye(n), B, [0.0], np.zeros(n), F, DT, friction=friction,
                             joints=joints)  # fmt: skip


@pytest.mark.parametrize("joint", [False, True])
@pytest.mark.parametrize("d", [2, 3])
@pytest.mark.parametrize("solver", SOLVERS)
def test_a_block_is_held_or_slides_whatever_its_friction_coefficient(solver, d, joint) -> None:
    """Held below μ times its weight; above, what friction leaves of the pull moves it."""
    for mu in (0.5, 30.0, 1e3, 1e6):
        for share in (1e-6, 0.5, 1.5):
            pull = share * mu * WEIGHT
            solution = cdopt.FrictionalCD(block(mu, d, pull, joint)).solve(solver)
            held = min(pull, mu * WEIGHT)
            assert solution.ok
            assert solution.f == pytest.approx([WEIGHT], rel=1e-6)
            assert np.linalg.norm(solution.f_t) == pytest.approx(held, rel=1e-6)
            speed = np.linalg.norm(solution.v_next[: d - 1])
            assert speed == pytest.approx(DT * (pull - held), rel=1e-6, abs=1e-9 * DT * pull)


@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.parametrize("pull", [1.0, 2e4])
def test_a_block_known_by_its_delassus_matrix_alone_is_solved(solver, pull) -> None:
    step = block(1e3, 3, pull)
    G = np.vstack([step.B.toarray(), step.friction.B_t.toarray()])
    N, p = DT * G @ G.T, G @ (DT * step.F_ext)
    rows = cdopt.ContactStep.from_delassus(N, p, DT, friction=cdopt.Friction([1e3]))
    solution = cdopt.FrictionalCD(rows).solve(solver)
    assert solution.ok
    assert solution.f == pytest.approx([WEIGHT], rel=1e-6)
    assert np.linalg.norm(solution.f_t) == pytest.approx(min(pull, 1e3 * WEIGHT), rel=1e-6)


def test_no_shift_hides_a_gap_that_closes() -> None:
    """No force on a pulled block: √(1 + μ²) times nearer to K* with the shift than it falls."""
    problem = network_problem(cdopt.FrictionalCD(block(1e6, 2, 1e5)).data)
    nothing = np.zeros((1, 2))
    assert problem.steep
    assert problem.natural_map(nothing, problem.table(problem.p)) == pytest.approx(1.0)
    assert not network_problem(cdopt.FrictionalCD(block(10.0, 2, 10.0)).data).steep


@pytest.mark.parametrize("d", [2, 3])
def test_compiled_loops_cut_as_the_cones_do(d) -> None:
    rng = np.random.default_rng(3)
    cones, y = FrictionCones(10.0 ** rng.uniform(-3, 6, 50), d), rng.normal(size=(50, d))
    y[:, 1:] *= 10.0 ** rng.uniform(-3, 6, (50, 1))
    rules, coefficients = cones.rules
    cut = np.where(rules == 1, np.int8(cone_rules.CUT), rules)
    expected = cones.table(cones.frictional_cut(y.ravel()))
    assert cone_rules.project(y, cut, coefficients) == pytest.approx(expected, rel=1e-14)


@pytest.mark.parametrize("d", [2, 3])
def test_the_blocks_of_a_cut_are_the_derivative_of_its_forces(d) -> None:
    problem = network_problem(cdopt.FrictionalCD(block(50.0, d, 100.0)).data)
    rng = np.random.default_rng(d)
    for _ in range(20):
        f, r = rng.normal(size=(1, d)), rng.uniform(1, 5, 1)
        newton = proximal_newton.CutNewton(problem, 1e-12, Deadline(), f, r, None)
        g, change, h = rng.normal(size=d), rng.normal(size=d), 1e-7
        left, right = newton.blocks(g)
        slope = (newton.force(g + h * change) - newton.force(g - h * change)) / (2 * h)
        assert -(left[0].T @ right[0]) @ change == pytest.approx(slope, rel=1e-5, abs=1e-6)


def test_the_status_is_that_of_the_forces_returned() -> None:
    """Natural maps of forces that were given up do not count."""
    problem = network_problem(cdopt.FrictionalCD(block(0.5, 3, 1.0)).data)
    proximal = proximal_newton.Proximal(problem, Deadline(), 1e-12)
    f, _ = proximal.solve(np.zeros((1, 3)), 100)
    assert proximal.error == proximal.natural(f)
    few = proximal_newton.Proximal(problem, Deadline(), 1e-12)
    f, history = few.solve(np.zeros((1, 3)), 1)
    assert len(history) == 1
    assert few.error == few.natural(f)
