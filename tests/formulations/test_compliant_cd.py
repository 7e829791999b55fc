"""Compliant contact dynamics: both forms, the rigid limit, and its rate."""

from __future__ import annotations

import numpy as np
import pytest

import cdopt

BEAM = cdopt.bank.load("beam-stiff-middle").step


def stiffness(step, factor, power):
    """κ of a step whose contacts give way by 1/factor of what gravity closes in a step."""
    data = cdopt.problem.rigid_data(step)
    return factor * float(data.force.max() / (data.speed.max() * step.dt) ** (power - 1.0))


def test_a_ball_on_a_spring_takes_one_step_of_implicit_euler():
    """m v⁺ = m v + Δt (k c − m g), c = −Δt v⁺ for a ball that starts at touch."""
    m, k, g, dt = 2.0, 300.0, 9.81, 0.01
    step = cdopt.ContactStep(M=[[m]], B=[[1.0]], phi=[0.0], v=[-0.5], F_ext=[-m * g], dt=dt)
    v = (m * -0.5 - dt * m * g) / (m + dt**2 * k)
    for form in ("force", "velocity"):
        solution = cdopt.CompliantCD(step, kappa=k, form=form).solve("clarabel", accuracy=1e-10)
        assert solution.ok
        assert solution.v_next[0] == pytest.approx(v, rel=1e-7)
        assert solution.f[0] == pytest.approx(-k * dt * v, rel=1e-6)
    exact = cdopt.CompliantCD(step, kappa=k).solve("newton")
    assert exact.v_next[0] == pytest.approx(v, rel=1e-12)


@pytest.mark.parametrize(
    ("name", "power"),
    [("beam-stiff-middle", 1.7), ("table", 2.5), ("pyramid-falling", 2.0), ("lone-drop", 2.5)],
)
def test_both_forms_and_newton_agree(name, power):
    step = cdopt.bank.load(name).step
    kappa = stiffness(step, 10.0, power)
    exact = cdopt.CompliantCD(step, power, kappa).solve("newton")
    assert exact.ok
    assert exact.certificate.worst < 1e-10
    for form in ("force", "velocity"):
        formulation = cdopt.CompliantCD(step, power, kappa, form)
        assert formulation.problem.is_dcp()
        solution = formulation.solve("clarabel", accuracy=1e-10, check=False)
        assert solution.iterate is not None
        size = max(float(exact.f.max()), 1e-12)
        np.testing.assert_allclose(solution.iterate.forces, exact.f, atol=1e-3 * size)
        np.testing.assert_allclose(
            solution.objective, formulation._objective(exact.iterate), rtol=1e-5
        )
    primal = cdopt.CompliantCD(step, power, kappa, "velocity")._objective(exact.iterate)
    dual = cdopt.CompliantCD(step, power, kappa, "force")._objective(exact.iterate)
    assert primal == pytest.approx(-step.dt * dual, rel=1e-9)
