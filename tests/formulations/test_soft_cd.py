"""Soft laws: the associated law with a compliance in every row, its limit, and engines' rows."""

from __future__ import annotations

import numpy as np
import pytest

import cdopt
from cdopt._util.errors import InvalidInput, Unsupported
from cdopt.problem import ConeStep
from cdopt.problem.boxes import Boxes
from cdopt.problem.cone_products import Product
from cdopt.problem.cones import FrictionCones, HalfLines, Lines

DT, G = 1e-3, 9.81


def box(push: float, mu: float = 0.5, mass: float = 2.0) -> cdopt.ContactStep:
    """A box on the ground in the plane, pushed to the side."""
    friction = cdopt.Friction(mu, [[1.0, 0.0]])
    return cdopt.ContactStep(
        mass * np.eye(2), [[0.0, 1.0]], [0.0], [0.0, 0.0], [push, -mass * G], DT, friction=friction
    )


def table(rng: np.random.Generator) -> cdopt.ContactStep:
    """A heavy plate on four legs with friction, in space: forces are not determined."""
    feet = np.array([[1.0, 1.0], [-1.0, 1.0], [-1.0, -1.0], [1.0, -1.0]]) * [0.5, 0.3]
    normal, tangents = [], []
    for x, y in feet:
        z = -0.4
        normal.append([0.0, 0.0, 1.0, y, -x, 0.0])
        tangents += [[1.0, 0.0, 0.0, 0.0, z, -y], [0.0, 1.0, 0.0, -z, 0.0, x]]
    load = np.append([5.0, 2.0, -10.0 * G], rng.normal(0.0, 2.0, 3))
    M = np.diag([10.0, 10.0, 10.0, 0.5, 1.0, 1.2])
    friction = cdopt.Friction(0.6, tangents)
    return cdopt.ContactStep(M, normal, np.zeros(4), np.zeros(6), load, DT, friction=friction)


def compliance(step: cdopt.ContactStep, rng: np.random.Generator, size: float) -> np.ndarray:
    """R (rows,), equal for the tangential rows of a contact."""
    d = 1 if step.friction is None else step.friction.d
    R = size * 10.0 ** rng.uniform(-0.5, 0.5, (step.nc, 2))
    return np.column_stack([R[:, :1], *[R[:, 1:]] * (d - 1)]).ravel()


# --- one row -----------------------------------------------------------------------------


def test_a_weight_sinks_as_its_spring_says():
    step = box(0.0).without_friction()
    R = 3e-4
    solution = cdopt.SoftCD(step, R).solve("newton")
    force = G * DT / (DT / 2.0 + R)  # (N + R) f = −p
    np.testing.assert_allclose(solution.f, [force], rtol=1e-14)
    np.testing.assert_allclose(solution.gap, [-R * force], rtol=1e-12)
    assert solution.ok


def test_friction_holds_with_a_creep_and_slides_on_a_cushion():
    R = np.array([1e-5, 4e-5])
    holds = cdopt.SoftCD(box(5.0), R).solve("newton")
    assert holds.f_t[0, 0] > -0.5 * holds.f[0]
    np.testing.assert_allclose(holds.slip[0, 0], -R[1] * holds.f_t[0, 0], rtol=1e-12)
    slides = cdopt.SoftCD(box(30.0), R).solve("newton")
    np.testing.assert_allclose(slides.f_t[0, 0], -0.5 * slides.f[0], rtol=1e-12)
    rates = np.array([slides.gap[0], slides.slip[0, 0]]) + R * [slides.f[0], slides.f_t[0, 0]]
    np.testing.assert_allclose(rates[0], 0.5 * abs(rates[1]), rtol=1e-12)  # the associated law


def test_dry_friction_is_a_box():
    """A slider with the limit a: it creeps by R f below, and moves with the rest of the load."""

    def soft(load: float, form: str = "force") -> cdopt.SoftCD:
        step = ConeStep([[2.0]], [[1.0]], Boxes(np.array([3.0])), [0.0], [0.0], [load], DT)
        return cdopt.SoftCD(step, 1e-6, form=form)

    holds, slides = soft(2.0).solve("newton"), soft(8.0).solve("newton")
    assert holds.ok
    assert slides.ok
    np.testing.assert_allclose(holds.v_next, -1e-6 * holds.iterate.forces, rtol=1e-9)
    np.testing.assert_allclose(slides.iterate.forces, [-3.0], rtol=1e-15)
    np.testing.assert_allclose(slides.v_next, [DT * 5.0 / 2.0], rtol=1e-12)
    for load, answer in ((2.0, holds), (8.0, slides)):
        for form, objective in (("force", 1.0), ("velocity", -DT)):
            stated = soft(load, form).solve("clarabel")
            np.testing.assert_allclose(stated.iterate.forces, answer.iterate.forces, rtol=1e-5)
            np.testing.assert_allclose(stated.v_next, answer.v_next, atol=1e-10)
            assert stated.objective == pytest.approx(objective * answer.objective, rel=1e-6)
    data = soft(8.0).data
    for wrong in (-2.99, -3.01, 3.0):
        forces = np.array([wrong])
        assert not cdopt.certify(data, data.velocity(forces), forces).ok


# --- both statements, and backends -------------------------------------------------------


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("rough", [True, False])
def test_both_statements_and_newton_agree(seed: int, rough: bool):
    rng = np.random.default_rng(seed)
    step = table(rng) if rough else table(rng).without_friction()
    R = compliance(step, rng, 10.0 ** -(4 + seed))
    answers = [
        cdopt.SoftCD(step, R, form=form).solve(backend)
        for form in ("force", "velocity")
        for backend in ("newton", "clarabel")
    ]
    newton, conic, motion, motion_conic = answers
    assert all(answer.ok for answer in answers)
    for other in answers[1:]:
        np.testing.assert_allclose(other.f, newton.f, rtol=1e-5)
        np.testing.assert_allclose(other.v_next, newton.v_next, atol=1e-9)
    assert motion.objective == pytest.approx(-DT * newton.objective, rel=1e-12)
    assert motion_conic.objective == pytest.approx(-DT * conic.objective, rel=1e-6)


EVERY = ("interior-point", "apgd", "auto")
TAKEN = {
    "rough": (*EVERY, "nsgs", "admm", "homotopy"),
    "mixed": (*EVERY, "nsgs", "admm", "homotopy"),
    "smooth": (*EVERY, "pgs", "lcp"),
    "tied": (*EVERY, "pgs"),
}


def test_soft_steps_of_single_rows_are_not_those_of_cones():
    soft = cdopt.SoftCD(table(np.random.default_rng(7)).without_friction(), 1e-4)
    for backend in ("nsgs", "admm", "homotopy"):
        with pytest.raises(Unsupported, match="does not take contacts of one row"):
            soft.solve(backend)


@pytest.mark.parametrize(("kind", "backend"), [(k, b) for k, each in TAKEN.items() for b in each])
def test_native_solvers_without_springs_take_them_as_masses(kind: str, backend: str):
    """Half-lines, cones of one size, lines, and cones of different sizes."""
    rng = np.random.default_rng(7)
    step = table(rng)
    if kind == "smooth":
        step = step.without_friction()
    soft = cdopt.SoftCD(step, compliance(step, rng, 1e-4))
    if kind in ("tied", "mixed"):
        cones = Lines(2) if kind == "tied" else FrictionCones(np.full(3, 0.6), 3)
        rows = 2 + step.nc if kind == "tied" else 3 * 3 + 1
        tie = Product(cones, HalfLines(step.nc if kind == "tied" else 1))
        G, bias = soft.data.B.toarray()[:rows], rng.normal(0.0, 1e-3, rows)
        rest = ConeStep(step.M, G, tie, bias, step.v, step.F_ext, DT)
        soft = cdopt.SoftCD(rest, 1e-4)
    newton, other = soft.solve("newton"), soft.solve(backend)
    assert newton.ok
    assert other.ok
    size = np.abs(newton.iterate.forces).max()
    np.testing.assert_allclose(other.iterate.forces, newton.iterate.forces, atol=1e-6 * size)
    np.testing.assert_allclose(other.v_next, newton.v_next, atol=1e-8)


def test_boxes_are_refused_by_solvers_of_cones():
    step = ConeStep([[2.0]], [[1.0]], Boxes(np.array([3.0])), [0.0], [0.0], [1.0], DT)
    with pytest.raises(Unsupported, match="boxes"):
        cdopt.SoftCD(step, 1e-6).solve("interior-point")


def test_forces_are_unique_and_wrong_ones_are_refused():
    rng = np.random.default_rng(3)
    step = table(rng)
    soft = cdopt.SoftCD(step, compliance(step, rng, 1e-6))
    right = soft.solve("newton").iterate
    rows = soft.data.B.toarray()
    null = np.linalg.svd(rows.T)[2][-1]  # self-balanced: neither motion nor balance sees it
    assert np.abs(rows.T @ null).max() < 1e-12
    assert cdopt.certify(soft.data, right.motion, right.forces).ok
    for size in (1e-3, -1e-3):
        assert not cdopt.certify(soft.data, right.motion, right.forces + size * null).ok
    noise = 1e-5 * rng.normal(size=right.motion.size)
    assert not cdopt.certify(soft.data, right.motion + noise, right.forces).ok


# --- the limit ---------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(2))
def test_forces_tend_to_the_compatible_ones_with_slope_one(seed: int):
    rng = np.random.default_rng(seed)
    step = table(rng)
    R = compliance(step, rng, 1e-4).reshape(-1, 3)
    friction = cdopt.Friction(0.6, step.friction.B_t, stiffness_ratio=R[:, 0] / R[:, 1])
    springs = step.replace(stiffness=1.0 / R[:, 0], friction=friction)
    compatible = cdopt.CompatibleFriction(springs, law="associated", flow="associated").solve()
    limit = np.column_stack([compatible.f, compatible.f_t]).ravel()
    softness = 10.0 ** -np.arange(1.0, 4.5, 0.5)
    sweep = cdopt.SoftCD(step, R.ravel()).sweep(softness, "newton")
    errors = np.abs(sweep.forces - limit).max(axis=1)
    assert len(str(sweep).splitlines()) == 2 + min(sweep.hidden.size, 20)
    slope = np.polyfit(np.log(softness), np.log(errors), 1)[0]
    assert slope == pytest.approx(1.0, abs=0.02)
    np.testing.assert_allclose(sweep.limit, limit, atol=1e-5 * np.abs(limit).max())
    other = cdopt.SoftCD(step, compliance(step, rng, 1e-4)).sweep(softness, "newton")
    assert np.abs(other.limit - sweep.limit).max() > 1e-2 * np.abs(limit).max()  # R selects
    np.testing.assert_allclose(other.v_next[-1], sweep.v_next[-1], atol=1e-5)


def test_a_beam_settles_to_equal_forces():
    beam = cdopt.bank.load("beam-uniform").step
    sweep = cdopt.SoftCD(beam, 1e-4).sweep()
    np.testing.assert_allclose(sweep.limit, 10.0 / 3.0, rtol=1e-7)
    np.testing.assert_allclose(sweep.hidden, sweep.forces[0] - 10.0 / 3.0, atol=1e-6)
    assert sweep.changes.shape == (4, 3)


# --- bad arguments -----------------------------------------------------------------------


def test_bad_arguments_are_named():
    step, smooth = box(0.0), box(0.0).without_friction()
    plate = table(np.random.default_rng(0))
    uneven = np.ones(plate.nc * 3)
    uneven[1] = 2.0
    cases = [
        ("step", (3, 1.0), {}),
        ("compliance", (smooth, 0.0), {}),
        ("compliance", (step, [1.0, 2.0, 3.0]), {}),
        ("compliance", (plate, uneven), {}),
        ("bias", (smooth, 1.0, [1.0, 2.0]), {}),
        ("form", (smooth, 1.0), {"form": "other"}),
    ]
    for argument, positional, named in cases:
        with pytest.raises(InvalidInput) as caught:
            cdopt.SoftCD(*positional, **named)
        assert caught.value.argument == argument
    soft = cdopt.SoftCD(smooth, 1e-3)
    for argument, call in [
        ("factor", lambda: soft.stiffer(0.0)),
        ("softness", lambda: soft.sweep([1.0])),
        ("softness", lambda: soft.sweep([0.1, 1.0])),
        ("solution", lambda: soft.row_forces(cdopt.SoftCD(plate, 1.0).solve("newton"))),
    ]:
        with pytest.raises(InvalidInput) as caught:
            call()
        assert caught.value.argument == argument
    with pytest.raises(InvalidInput, match="cones"):
        ConeStep([[1.0]], [[1.0]], None, [0.0], [0.0], [0.0], DT)
    with pytest.raises(InvalidInput, match="bias"):
        ConeStep([[1.0]], [[1.0]], HalfLines(1), [0.0, 1.0], [0.0], [0.0], DT)
