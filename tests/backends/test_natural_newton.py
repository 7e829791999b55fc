"""Newton's method on the natural map: its steps, and contacts with neither forces nor rates."""

from __future__ import annotations

import numpy as np
import pytest
from population import friction_population

import cdopt
from cdopt.backends.natural_newton import _NaturalMap, refined
from cdopt.backends.network_problem import NetworkProblem, network_problem
from cdopt.problem.solution import WarmStart
from cdopt.scene import Body, HalfSpace, Scene, Sphere

pytestmark = pytest.mark.usefixtures("one_thread")


def posed(index: int, law: str) -> tuple[NetworkProblem, np.ndarray]:
    """A member of the population, and certified forces in the units of its solvers."""
    _, step = friction_population.member(index)
    formulation = cdopt.FrictionalCD(step, law)
    problem = network_problem(formulation.data)
    answer = formulation.solve(tol=1e-8)
    assert answer.ok
    start = WarmStart(np.asarray(answer.iterate.forces), None, problem.contact_ids)
    return problem, problem.starting_forces(start)


@pytest.mark.parametrize("law", ["coulomb", "associated"])
@pytest.mark.parametrize("index", [0, 1, 3, 16, 24, 58])
def test_a_step_is_newtons(index: int, law: str) -> None:
    """What the step leaves of the linearised map is what no step removes; by finite differences."""
    problem, f = posed(index, law)
    equation, random = _NaturalMap(problem), np.random.default_rng(index)
    at = equation.at(equation.w * (f + 0.1 * random.standard_normal(f.shape)).ravel())
    step, h = equation.step(at), 1e-7
    ends = [equation.at(at.y + sign * h * step).off for sign in (1.0, -1.0)]
    left = at.off + (ends[0] - ends[1]) / (2.0 * h)
    for direction in random.standard_normal((5, at.y.size)):
        ends = [equation.at(at.y + sign * h * direction).off for sign in (1.0, -1.0)]
        slope = (ends[0] - ends[1]) / (2.0 * h)
        assert abs(left @ slope) <= 1e-5 * np.linalg.norm(at.off) * np.linalg.norm(slope)


@pytest.mark.parametrize("law", ["coulomb", "associated"])
@pytest.mark.parametrize("index", [1, 7, 10, 13, 14, 34, 37, 49])
def test_it_ends_at_round_off_from_near_forces(index: int, law: str) -> None:
    problem, f = posed(index, law)
    noise = np.random.default_rng(index).standard_normal(f.shape)
    near = problem.table(problem.project(f + 1e-6 * max(float(np.abs(f).max()), 1.0) * noise))
    forces, history = refined(problem, near)
    assert history[0] > 1e-9
    assert min(history) <= 1e-12
    assert len(history) <= 5
    assert problem.worst(forces) <= 1e-9


@pytest.mark.parametrize("dim", [2, 3])
def test_contacts_with_neither_forces_nor_rates(dim: int) -> None:
    """Spheres in a row on the ground: one is pushed down, the others carry nothing and touch it."""
    up, along = np.eye(dim)[-1], np.eye(dim)[0]
    bodies = [Body(HalfSpace(up), 0.0 * up)]
    bodies += [
        Body(Sphere(0.5), k * along + 0.5 * up, mass=1.0, force=None if k else -10.0 * up)
        for k in range(4)
    ]
    scene = Scene(bodies, dim=dim, gravity=0.0 * up)
    contacts = cdopt.collision.detect(scene, scene.initial)
    step = cdopt.collision.step(scene, scene.initial, contacts, dt=0.1, friction=2.0)
    problem = network_problem(cdopt.FrictionalCD(step).data)
    assert problem.nc == 7
    first = (contacts.bodies == [0, 1]).all(axis=1)
    exact = np.where(first, 10.0, 0.0)
    near = np.zeros((problem.nc, problem.d))
    near[:, 0] = exact / problem.force.reshape(near.shape)[:, 0]
    near += 1e-5 * np.abs(np.random.default_rng(dim).standard_normal(near.shape))
    forces, history = refined(problem, near)
    assert history[0] > 1e-6
    assert min(history) <= 1e-13
    normal = forces[:, 0] * problem.force.reshape(forces.shape)[:, 0]
    np.testing.assert_allclose(normal, exact, atol=1e-10)


@pytest.mark.slow
def test_a_path_that_ends_at_such_contacts_is_solved() -> None:
    """Its natural map falls as √t to 3e-7 of the part, and 2e-2 of the local speed."""
    _, step = friction_population.member(5718)
    solution = cdopt.FrictionalCD(step).solve("homotopy", tol=1e-8)
    assert solution.ok
    assert solution.certificate.worst <= 1e-8
