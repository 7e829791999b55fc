"""Constraints and objectives of users: physical multipliers, certificates, conflicts by name."""

from __future__ import annotations

from collections.abc import Callable

import cvxpy as cp
import numpy as np
import pytest

import cdopt
from cdopt import bank
from cdopt.formulations import Formulation

TIGHT = {"accuracy": 1e-11}


def beam() -> cdopt.ContactStep:
    return bank.load("beam-stiff-middle").step


def pyramid() -> cdopt.ContactStep:
    """In other units: multipliers in the solver's units are far from those in newtons."""
    return bank.load("pyramid-hooke:n=3").step


def wall() -> cdopt.ContactStep:
    return bank.load("rough-wall").step


def fan(form: str) -> cdopt.NoTensionTruss:
    loaded = bank.load("fan")
    return cdopt.NoTensionTruss(loaded.B, loaded.contact_load, loaded.stiffness, form=form)


def variational() -> cdopt.VariationalStep:
    step = cdopt.ContactStep(np.diag([2.0, 3.0]), [[1.0, 0.0], [-1.0, 1.0]], [-1e-3, -2e-3],
                             [-0.1, -0.2], [-20.0, -30.0], 1e-2, stiffness=1e4)  # fmt: skip
    return cdopt.VariationalStep(step, [-0.2, -0.6])


# the formulation, what is constrained, and by how much from where it was: a share of a cap on
# forces, an amount in m/s or m that motions must exceed
CASES: dict[str, tuple[Callable[[], Formulation], Callable[[Formulation], cp.Expression], float]]
CASES = {
    "classic, force": (lambda: cdopt.ClassicCD(pyramid()), lambda cd: cp.sum(cd.forces), -0.5),
    "classic, force form, velocity": (
        lambda: cdopt.ClassicCD(pyramid()), lambda cd: cd.velocity[1], 1e-3),
    "classic, velocity": (
        lambda: cdopt.ClassicCD(pyramid(), form="velocity"), lambda cd: cd.velocity[1], 1e-3),
    "classic, N and p": (
        lambda: cdopt.ClassicCD(bank.load("supports-delassus").step),
        lambda cd: cp.sum(cd.forces), -0.5),
    "associated friction, force": (
        lambda: cdopt.FrictionalCD(wall(), law="associated", form="force"),
        lambda cd: cp.sum(cd.forces), -0.5),
    "associated friction, force form, velocity": (
        lambda: cdopt.FrictionalCD(wall(), law="associated", form="force"),
        lambda cd: cd.velocity[1], 1e-3),
    "associated friction, velocity": (
        lambda: cdopt.FrictionalCD(wall(), law="associated", form="velocity"),
        lambda cd: cd.velocity[1], 1e-3),
    "compliant, force": (
        lambda: cdopt.CompliantCD(beam(), kappa=1e7), lambda cd: cd.forces[1], -0.5),
    "compliant, velocity": (
        lambda: cdopt.CompliantCD(beam(), kappa=1e7, form="velocity"),
        lambda cd: cd.velocity[0], 1e-3),
    "variational": (variational, lambda cd: cd.displacement[0], 1e-3),
    "truss, complementary": (lambda: fan("complementary"), lambda cd: cd.forces[0], -0.02),
    "truss, potential": (lambda: fan("potential"), lambda cd: cd.displacement[1], 1e-3),
}  # fmt: skip


def bound(expression: cp.Expression, value: float, amount: float) -> cp.Constraint:
    return expression <= value if amount < 0.0 else expression >= value


@pytest.mark.parametrize("name", CASES)
def test_multipliers_are_the_slope_of_the_optimum_in_physical_units(name: str) -> None:
    make, expression_of, amount = CASES[name]
    cd = make()
    free = cd.solve("clarabel", **TIGHT)
    expression = expression_of(cd)
    now = float(expression.value)
    moved = amount if amount > 0.0 else amount * now
    constraint = bound(expression, now + moved, amount)
    capped = cd.with_constraints(constraint)
    solution = capped.solve("clarabel", **TIGHT)
    assert solution.ok, solution.certificate
    assert solution.objective > free.objective

    def optimum(value: float) -> float:
        return cd.with_constraints(bound(expression, value, amount)).solve(
            "clarabel", **TIGHT
        ).objective  # fmt: skip

    h = 1e-2 * moved
    slope = (optimum(now + moved + h) - optimum(now + moved - h)) / (2.0 * h)
    assert capped.dual(constraint) == pytest.approx(abs(slope), rel=1e-3)


@pytest.mark.parametrize("name", CASES)
def test_an_objective_of_ones_own_counts_in_physical_units(name: str) -> None:
    """A linear one is a load or a rate: the optimum's slope by its factor is the expression."""
    make, expression_of, amount = CASES[name]
    cd = make()
    free = cd.solve("clarabel", **TIGHT)
    expression = expression_of(cd)
    now = float(expression.value)
    moved = abs(amount) if amount > 0.0 else abs(amount * now)
    weight = 0.01 * max(abs(free.objective), 1e-9) / moved

    def solved(factor: float) -> tuple[cdopt.StepSolution, float]:
        extended = cd.with_objective(factor * weight * expression)
        return extended.solve("clarabel", **TIGHT), float(expression.value)

    solution, value = solved(1.0)
    assert solution.ok, solution.certificate
    low, high = (solved(1.0 + h)[0].objective for h in (-1e-3, 1e-3))
    tiny = 1e-5 * max(abs(free.objective), 1e-9)  # where the expression is zero
    assert (high - low) / 2e-3 == pytest.approx(weight * value, rel=1e-3, abs=tiny)
    assert solution.objective <= free.objective + weight * now + 1e-9 * abs(free.objective)


def test_a_quadratic_objective_is_a_spring_that_one_can_compute() -> None:
    """½ k (v − a)² in J and ½ m (v − v*)²: the mean of both, weighted."""
    step = cdopt.ContactStep([[2.0]], [[1.0]], [1.0], [3.0], [0.0], 1e-3)  # m = 2 kg, v* = 3 m/s
    cd = cdopt.ClassicCD(step, form="velocity")
    pulled = cd.with_objective(0.5 * 6.0 * cp.square(cd.velocity[0] + 1.0))
    solution = pulled.solve("clarabel", **TIGHT)
    assert solution.ok
    assert solution.v_next == pytest.approx([0.0], abs=1e-8)  # (2·3 − 6·1) / 8
    assert solution.objective == pytest.approx(0.5 * 2.0 * 9.0 + 0.5 * 6.0, rel=1e-8)
    assert pulled.problem_class == "QP"


@pytest.mark.parametrize(
    "written",
    [
        lambda f: cp.norm(f) <= 5.0,
        lambda f: cp.sum_squares(f) <= 30.0,
        lambda f: cp.max(f) - cp.min(f) <= 1.0,
        lambda f: cp.abs(f[0] - f[2]) + cp.abs(f[0] - f[1]) <= 0.5,
        lambda f: cp.SOC(cp.Constant(5.0), f),
        lambda f: f == [2.5, 5.0, 2.5],
        lambda f: cp.NonNeg(f - 2.2),
    ],
)
def test_constraints_of_every_shape_are_certified(written: Callable) -> None:
    """Rigid contacts, of which many forces are optimal; then elastic ones, of which one is."""
    for cd in (cdopt.ClassicCD(beam()), cdopt.CompliantCD(beam(), kappa=1e7)):
        constraint = written(cd.forces)
        extended = cd.with_constraints(constraint)
        solution = extended.solve("clarabel", **TIGHT)
        assert solution.ok, solution.certificate
        assert np.max(constraint.violation()) <= 1e-6
        multiplier = extended.dual(constraint)
        shapes = multiplier if isinstance(multiplier, list) else [multiplier]
        assert all(np.isfinite(one).all() for one in shapes)


def test_an_objective_that_has_no_gradient_at_its_optimum_is_certified() -> None:
    """So steep that all forces are equal, where the norm has a kink."""
    cd = cdopt.CompliantCD(beam(), kappa=1e7)
    extended = cd.with_objective(cp.norm(cd.forces - cd.forces[1]))
    solution = extended.solve("clarabel", **TIGHT)
    assert solution.ok, solution.certificate
    np.testing.assert_allclose(solution.f, solution.f[1], rtol=1e-6)


def test_variables_of_ones_own_take_part() -> None:
    """The least cap on all forces, in newtons, that deliver the same motion."""
    cd = cdopt.ClassicCD(beam())
    cap = cp.Variable(nonneg=True)
    extended = cd.with_constraints(cd.forces <= cap).with_objective(1e-6 * cap)
    solution = extended.solve("clarabel", **TIGHT)
    assert solution.ok, solution.certificate
    assert float(cap.value) == pytest.approx(10.0 / 3.0, abs=1e-3)
    assert extended.dual(extended.statement.addition.constraints[0]).sum() == pytest.approx(1e-6)


def test_a_wrong_answer_of_an_extended_problem_is_not_certified() -> None:
    """Of the unextended problem it is optimal; and one within the cap that is not optimal."""
    cd = cdopt.CompliantCD(beam(), kappa=1e7)
    free = cd.solve("clarabel", **TIGHT)
    capped = cd.with_constraints(cd.forces[1] <= 4.0)
    solution = capped.solve("clarabel", **TIGHT)
    assert solution.ok
    cd.statement.f.value = free.f / cd.data.force
    assert not capped.certify(capped.iterate()).ok
    cd.statement.f.value = 0.9 * solution.f / cd.data.force
    assert not capped.certify(capped.iterate()).ok


def test_a_multiplier_of_the_wrong_sign_is_seen() -> None:
    cd = cdopt.CompliantCD(beam(), kappa=1e7)
    least = cd.forces[1] >= 4.0  # which the free answer exceeds
    extended = cd.with_constraints(least)
    assert extended.solve("clarabel", **TIGHT).ok
    least.dual_variables[0].save_value(-0.1)
    certificate = extended.certify(extended.iterate())
    assert certificate["added multipliers"] > 1e-3
    least.dual_variables[0].save_value(0.1)
    assert extended.certify(extended.iterate())["added complementarity"] > 1e-3


def test_coulombs_law_holds_with_constraints_of_ones_own() -> None:
    """The fixed point runs on the extended problem, in both forms."""
    for form in ("force", "velocity"):
        cd = cdopt.FrictionalCD(wall(), law="coulomb", form=form)
        free = cd.solve("clarabel", **TIGHT)
        faster = cd.velocity[3] >= free.v_next[3] + 1e-5
        extended = cd.with_constraints(faster)
        solution = extended.solve("clarabel", **TIGHT)
        assert solution.ok, solution.certificate
        assert solution.v_next[3] >= free.v_next[3] + 0.99e-5
        assert extended.dual(faster) > 0.0


@pytest.mark.slow
def test_multipliers_survive_the_process_of_a_time_limit() -> None:
    cd = cdopt.ClassicCD(pyramid())
    cap = cp.sum(cd.forces) <= 0.5 * cd.solve("newton").f.sum()
    here = cd.with_constraints(cap)
    here.solve("clarabel", **TIGHT)
    known = here.dual(cap)
    there = cd.with_constraints(cap)
    assert there.solve("piqp", time_limit=60.0, **TIGHT).ok
    np.testing.assert_allclose(there.dual(cap), known, rtol=1e-4)


def test_the_one_step_method_is_extended_as_the_guide_says() -> None:
    one = cdopt.CompatibleCD(beam(), method="one-step", epsilon=1e-6)
    cap = one.forces[1] <= 4.0
    capped = one.with_constraints(cap)
    solution = capped.solve(accuracy=1e-11)
    assert solution.ok, solution.certificate
    np.testing.assert_allclose(solution.f, [3.0, 4.0, 3.0], rtol=1e-2)
    assert capped.dual(cap) > 0.0
    assert one.with_objective(1e-9 * one.forces[1]).solve().ok
    np.testing.assert_allclose(one.solve().f, [2.0, 6.0, 2.0], rtol=1e-2)  # as it was
    two = cdopt.CompatibleCD(beam())
    for refused in (two.with_constraints, two.with_objective, two.dual):
        with pytest.raises(cdopt.Unsupported, match="one-step"):
            refused(cap)


def test_what_is_refused() -> None:
    cd, other = cdopt.ClassicCD(beam()), cdopt.ClassicCD(beam())
    for written in (other.forces[0] <= 1.0, cp.norm(other.velocity) <= 1.0):
        with pytest.raises(cdopt.InvalidInput, match="of another formulation"):
            cd.with_constraints(written)
    with pytest.raises(cdopt.InvalidInput, match="of another formulation"):
        cd.with_objective(other.forces[0])
    for wrong in (-cp.square(cd.forces[0]), cd.forces, 1.0):
        with pytest.raises(cdopt.InvalidInput, match="expression"):
            cd.with_objective(wrong)
    cap = cd.forces[0] <= 1.0
    with pytest.raises(cdopt.InvalidInput, match="constraint"):
        cd.dual(cap)
    capped = cd.with_constraints(cap)
    with pytest.raises(cdopt.InvalidInput, match="a solved formulation"):
        capped.dual(cap)
    with pytest.raises(cdopt.InvalidInput, match="one of with_constraints"):
        capped.dual(cd.forces[0] <= 1.0)


# --- constraints that nothing meets ------------------------------------------------------


def conflict_of(extended: Formulation, backend: str = "clarabel") -> cdopt.SolveFailed:
    with pytest.raises(cdopt.SolveFailed) as failed:
        extended.solve(backend)
    proof = failed.value.proof
    assert proof is not None, failed.value
    assert proof.kind == "added constraints"
    assert proof.value > 1e-3 > 1e3 * proof.violation
    return failed.value


@pytest.mark.parametrize("form", ["force", "velocity"])
def test_constraints_that_contradict_each_other_are_named_and_others_are_not(form: str) -> None:
    cd = cdopt.ClassicCD(beam(), form=form)
    expression = cd.forces if form == "force" else cd.velocity
    failed = conflict_of(
        cd.with_constraints(expression[0] >= 3.0, expression[1] <= 50.0, expression[0] <= 2.0)
    )
    text = str(failed)
    assert "3.0" in text
    assert "2.0" in text
    assert "50.0" not in text


@pytest.mark.parametrize("backend", ["clarabel", "osqp", "scs"])
def test_a_constraint_against_the_contact_law_is_named(backend: str) -> None:
    """Contacts do not pull; a body does not move through the floor."""
    cd = cdopt.ClassicCD(beam())
    failed = str(conflict_of(cd.with_constraints(cd.forces[1] <= -1.0), backend))
    assert "the added constraints forces[1] ≤ -1.0 (forces in N): " in failed
    cd = cdopt.ClassicCD(beam(), form="velocity")
    through = cd.velocity[0] <= -1.0  # the beam is at rest on its supports
    failed = str(conflict_of(cd.with_constraints(through), backend))
    assert "the added constraints velocity[0] ≤ -1.0 (velocity in m/s): " in failed


def test_a_motion_that_forces_cannot_cause_is_named() -> None:
    """In force form too, where the velocity follows from forces; and under friction."""
    cd = cdopt.ClassicCD(beam())
    conflict_of(cd.with_constraints(cd.velocity[0] <= -10.0))  # slower than free fall
    for form in ("force", "velocity"):
        rough = cdopt.FrictionalCD(wall(), law="associated", form=form)
        conflict_of(rough.with_constraints(cp.norm(rough.velocity) <= -1.0))


@pytest.mark.parametrize("form", ["complementary", "potential"])
def test_a_load_that_capped_forces_cannot_carry_is_named(form: str) -> None:
    truss = fan(form)
    if form == "complementary":
        conflict_of(truss.with_constraints(cp.sum(truss.forces) <= 1e-3))
    else:
        u = truss.displacement
        conflict_of(truss.with_constraints(cp.norm(u) <= 1.0, cp.sum(u) >= 5.0))


def test_an_infeasible_step_has_its_own_proof_with_constraints_too() -> None:
    cd = cdopt.ClassicCD(bank.load("squeezed").step, form="velocity")
    with pytest.raises(cdopt.SolveFailed) as failed:
        cd.with_constraints(cd.velocity <= 1e3).solve("clarabel")
    assert failed.value.proof.kind == "rigid step"


def test_a_step_with_joints_is_extended_in_the_motion_of_its_bodies() -> None:
    """Two equal masses on one rod fall together; one is held, and both stay."""
    step = cdopt.ContactStep(
        np.eye(2), np.zeros((0, 2)), [], [0.0, 0.0], [-10.0, -10.0], 0.1,
        joints=cdopt.Joints([[1.0, -1.0]]),
    )  # fmt: skip
    cd = cdopt.ClassicCD(step, form="velocity")
    held = cd.velocity[0] >= -0.25
    extended = cd.with_constraints(held)
    solution = extended.solve("clarabel", **TIGHT)
    assert solution.ok, solution.certificate
    np.testing.assert_allclose(solution.v_next, [-0.25, -0.25], atol=1e-8)
    assert extended.dual(held) == pytest.approx(2.0 * 0.75, rel=1e-6)  # N s, of both masses
