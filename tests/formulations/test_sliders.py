"""Sliders in a variational step: by hand, against CVXPY's solvers, and what is refused."""

from __future__ import annotations

import numpy as np
import pytest

import cdopt
from cdopt.formulations import Sliders

H = 0.1


def block(speed: float, cap: float, trial: float = 0.0, **changes: object) -> cdopt.VariationalStep:
    """1 kg moving along a floor that it does not press; k_t = 100 N/m."""
    step = cdopt.ContactStep(np.eye(2), [[0.0, 1.0]], [1.0], np.zeros(2), np.zeros(2), H)
    sliders = Sliders([[1.0, 0.0]], 100.0, [cap], [[trial]])
    return cdopt.VariationalStep(step, [speed, 0.0], **{"sliders": sliders, **changes})


def test_a_block_that_sticks_and_one_that_slides_by_hand() -> None:
    """Sticking: v̄ = 1 + ½·0.1 f, f = −100·½·0.1 v̄: v̄ = 0.8, f = −4. Sliding: f = −cap."""
    for backend in ("newton", "clarabel"):
        accuracy = {} if backend == "newton" else {"accuracy": 1e-10}
        sticks, slides = (block(1.0, cap).solve(backend, **accuracy) for cap in (5.0, 3.0))
        assert sticks.ok
        assert slides.ok
        assert sticks.u == pytest.approx([0.08, 0.0], abs=1e-7)
        assert sticks.f_t == pytest.approx(np.array([[-4.0]]), abs=1e-5)
        assert sticks.mom == pytest.approx([0.6, 0.0], abs=1e-6)
        assert slides.f_t == pytest.approx(np.array([[-3.0]]), abs=1e-5)
        assert slides.mom == pytest.approx([0.7, 0.0], abs=1e-6)
        pulled = block(0.0, 5.0, 2.0).solve(backend, **accuracy)
        assert pulled.f_t[0, 0] == pytest.approx(1.6, abs=1e-5)


def random_step(m: int, power: float, alpha: float) -> cdopt.VariationalStep:
    """Coupled dofs, four contacts, sliders within and at their caps."""
    rng = np.random.default_rng(1)
    nv, nc = 5, 4
    root = rng.standard_normal((nv, nv))
    step = cdopt.ContactStep(
        root @ root.T + nv * np.eye(nv), rng.standard_normal((nc, nv)), rng.uniform(-0.1, 0.1, nc),
        np.zeros(nv), rng.standard_normal(nv), H, stiffness=rng.uniform(100.0, 400.0, nc),
    )  # fmt: skip
    sliders = Sliders(
        rng.standard_normal((nc * m, nv)), rng.uniform(50.0, 200.0, nc), [0.0, 0.05, 8.0, 50.0],
        rng.standard_normal((nc, m)), 0.3, rng.standard_normal((nc, m)),
    )  # fmt: skip
    mom = 3.0 * rng.standard_normal(nv)
    return cdopt.VariationalStep(step, mom, power=power, alpha=alpha, sliders=sliders)


@pytest.mark.parametrize(("m", "power", "alpha"), [(1, 2.0, 0.5), (2, 2.0, 0.3), (2, 2.5, 0.5)])
def test_newton_and_clarabel_solve_the_same_convex_problem(
    m: int, power: float, alpha: float
) -> None:
    posed = random_step(m, power, alpha)
    assert posed.problem.is_dcp()
    assert posed.problem_class == ("QP" if (m, power) == (1, 2.0) else "SOCP")
    exact, conic = posed.solve("newton"), posed.solve("clarabel", accuracy=1e-10)
    assert exact.certificate.worst < 1e-12
    assert conic.ok
    np.testing.assert_allclose(conic.u, exact.u, atol=1e-7 * np.abs(exact.u).max())
    assert conic.objective == pytest.approx(exact.objective, rel=1e-7)
    assert np.abs(posed.residual(exact.u)).max() < 1e-12
    size, cap = np.linalg.norm(exact.f_t, axis=1), posed.sliders.cap
    assert size[:2] == pytest.approx(cap[:2])
    assert 0.0 < size[3] < cap[3]
    shift = 1e-5 * np.eye(5)
    slope = [(posed.potential(e) - posed.potential(-e)) / 2e-5 for e in shift]
    assert slope == pytest.approx(-H * posed.residual(np.zeros(5)), rel=1e-5, abs=1e-6)


@pytest.mark.parametrize("backend", ["newton", "clarabel"])
def test_tangents_of_one_slider_on_dofs_that_nothing_else_ties(backend: str) -> None:
    """Sliding: f = −cap v/‖v‖ with the mean velocity v = v₀ + ½ h f/m of each dof.

    A far gap gives one of the dofs another scale.
    """
    cap, mass, start = 5.0, np.array([1.0, 0.1]), np.array([3.0, 4.0])
    far = [[1.0, 0.0, 0.0], [0.0, 0.0, 1.0]]
    step = cdopt.ContactStep(np.diag([*mass, 1.0]), far, [40.0, 1.0], np.zeros(3), np.zeros(3), H)
    sliders = Sliders([[0.0] * 3, [0.0] * 3, [1.0, 0.0, 0.0], [0.0, 1.0, 0.0]], 1e3, [0.0, cap])
    moved = cdopt.VariationalStep(step, [*(mass * start), 0.0], sliders=sliders)
    solution = moved.solve(backend)
    assert solution.ok
    v, f_t = solution.u[:2] / H, solution.f_t[1]
    assert f_t == pytest.approx(-cap * v / np.hypot(*v), rel=1e-5)
    assert v == pytest.approx(start + 0.5 * H * f_t / mass, rel=1e-5)


def test_another_motion_is_not_certified() -> None:
    posed = random_step(2, 2.0, 0.5)
    iterate = posed.solve("newton").iterate
    other = cdopt.VariationalStep(posed.step, posed.mom, alpha=0.5).solve("newton").iterate
    assert cdopt.certify(posed.data, iterate.motion, iterate.forces).worst < 1e-12
    assert cdopt.certify(posed.data, other.motion, other.forces).worst > 1e-2


def test_springs_and_losses_are_the_work_of_the_forces() -> None:
    """With α = ½; springs end within their caps."""
    posed = random_step(2, 2.0, 0.5)
    u, sliders, k = posed.solve("newton").u, posed.sliders, posed.sliders.stiffness
    after, lost = sliders.after(u, 0.5, H)
    work = (sliders.forces(u, 0.5, H) * sliders.sliding(u, H)).sum(axis=1)
    stored = ((after**2).sum(axis=1) - (sliders.trial**2).sum(axis=1)) / (2.0 * k)
    assert stored + lost == pytest.approx(-work, abs=1e-13)
    assert np.all(lost >= 0.0)
    assert np.all(np.linalg.norm(after, axis=1) <= sliders.cap * (1.0 + 1e-12))
