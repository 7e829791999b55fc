from __future__ import annotations

import numpy as np
import pytest
from conftest import STEPS

import cdopt
from cdopt._util.errors import SolveFailed
from cdopt.bank.generators import fan_forces

NAME = "augmented-lagrangian"
POWERS = [1.7, 2.0, 2.5, 4.0]


def sharp(problem, power=None) -> cdopt.NoTensionTruss:
    """The second problem of the bank's step, behind an exact first one."""
    cd = cdopt.CompatibleCD(problem.step, power or problem.power)
    return cd.truss(cd.network(cd.classic_cd.solve("lcp")))


@pytest.mark.parametrize("name", STEPS)
def test_compatible_forces_of_the_bank_meet_their_references(name: str) -> None:
    problem = cdopt.bank.load(name)
    cd = cdopt.CompatibleCD(problem.step, problem.power)
    solution = cd.solve(NAME, classic="lcp")
    assert solution.ok, {key: str(c) for key, c in solution.certificates.items()}
    for quantity in problem.references:
        assert problem.error(quantity, solution) < 1e-5


@pytest.mark.parametrize("power", POWERS)
@pytest.mark.parametrize("name", ["beam-stiff-middle", "pyramid-species"])
def test_every_power_agrees_with_newton(name: str, power: float) -> None:
    truss = sharp(cdopt.bank.load(name), power)
    ours, theirs = truss.solve(NAME), truss.solve("newton")
    assert ours.claimed
    assert ours.ok, ours.certificate
    np.testing.assert_allclose(ours.f, theirs.f, atol=1e-5 * ours.f.max())


@pytest.mark.parametrize("power", POWERS)
def test_the_fan_s_forces_are_known_in_closed_form(power: float) -> None:
    fan = cdopt.bank.load("fan")
    solution = cdopt.NoTensionTruss(fan.B, fan.contact_load, power=power).solve(NAME)
    np.testing.assert_allclose(solution.f, fan_forces(7, 10.0, power), rtol=1e-6)


def test_the_multiplier_is_the_displacement() -> None:
    """Beam of stiffness (1, 3, 1): it sinks by 2 N / 1 without turning."""
    truss = cdopt.NoTensionTruss([[1, -0.5], [1, 0], [1, 0.5]], [10.0, 0.0], [1.0, 3.0, 1.0])
    solution = truss.solve(NAME, accuracy=1e-10)
    np.testing.assert_allclose(solution.f, [2.0, 6.0, 2.0], atol=1e-8)
    np.testing.assert_allclose(solution.u, [-2.0, 0.0], atol=1e-8)
    np.testing.assert_array_equal(solution.dual, solution.u)


@pytest.mark.parametrize("power", POWERS)
def test_prescribed_dofs_are_not_balanced_but_press(power: float) -> None:
    """Two struts in a row between a free body and a plate that is pushed by 0.1 m."""
    truss = cdopt.NoTensionTruss(
        [[1.0, 0.0], [-1.0, 1.0]], [0.0, 0.0], power=power, free_dofs=[0], prescribed_u=[0.0, -0.1]
    )
    solution = truss.solve(NAME)
    assert solution.ok
    np.testing.assert_allclose(solution.u, [-0.05, -0.1], atol=1e-7)
    np.testing.assert_allclose(solution.f, 0.05 ** (power - 1.0), rtol=1e-5)


def test_units_do_not_matter() -> None:
    truss = sharp(cdopt.bank.load("pyramid-hertz"))
    data = truss.data
    plain = truss.solve(NAME)
    scaled = cdopt.NoTensionTruss(
        data.B, 1e9 * data.contact_load, 1e-4 * data.elastic_law.stiffness, data.elastic_law.power
    ).solve(NAME)
    assert scaled.iterations == pytest.approx(plain.iterations, abs=50)
    np.testing.assert_allclose(scaled.f / 1e9, plain.f, atol=1e-7 * plain.f.max())


@pytest.mark.parametrize("load", ["pull", "sideways", "tip"])
def test_loads_out_of_reach_are_proven_so(load: str) -> None:
    with pytest.raises(SolveFailed, match="iteration limit") as failure:
        cdopt.bank.load("unreachable-load", load=load).formulation("truss").solve(NAME)
    assert failure.value.certificate is not None


@pytest.mark.parametrize(
    ("B", "load"), [(np.zeros((0, 2)), [0.0, 0.0]), ([[1.0, 0.0]], [0.0, 0.0])]
)
def test_no_contacts_or_no_load(B, load) -> None:
    solution = cdopt.NoTensionTruss(B, load).solve(NAME)
    assert solution.ok
    assert not solution.f.any()


@pytest.mark.parametrize("name", ["beam-uniform", "table", "pyramid-hooke:n=7", "squeezed"])
@pytest.mark.parametrize("method", [NAME, "interior-point", "auto", "newton"])
def test_rigid_steps_by_each_method_of_its_own_name(name: str, method: str) -> None:
    """Small and large ones; each says what ran, and none claims what has no solution."""
    cd = cdopt.ClassicCD(cdopt.bank.load(name).step)
    solution = cd.solve(method, accuracy=1e-9, check=False)
    if name == "squeezed":
        assert not solution.ok
        return
    assert solution.certificate.worst <= 1e-9
    how = solution.provenance["how"]
    small = cd.step.nv <= 240
    wanted = {NAME: "augmented Lagrangian", "interior-point": "interior point"}
    assert how.startswith(wanted.get(method, "augmented Lagrangian" if small else "interior point"))
