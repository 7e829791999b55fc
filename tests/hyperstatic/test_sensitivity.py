"""Derivatives of compatible forces: finite differences, invariances, one-sided ones, CVXPY's."""

from __future__ import annotations

import importlib

import cvxpy as cp
import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from judges import networks

import cdopt
from cdopt.formulations import NoTensionTruss

POWERS = [2.0, 2.5, 1.5]
SUPPORTS = np.array([[1.0, -0.5], [1.0, 0.0], [1.0, 0.5]])
WALLS = [[0.0, 1.0], [1.0, 0.0], [-1.0, 0.0]]  # a ball on the floor between two walls


def forces(B, load, stiffness, power):
    return NoTensionTruss(B, load, stiffness, power).solve("newton", accuracy=1e-14, check=False).f


def slope(function, h=2e-4):
    """Central differences, extrapolated once: error of order h⁴."""
    rough, fine = ((function(t) - function(-t)) / (2 * t) for t in (h, h / 2))
    return (4 * fine - rough) / 3


def close(actual, expected, scale, tol=1e-6):
    np.testing.assert_allclose(actual, expected, rtol=tol, atol=tol * scale)


def truss_of(name):
    """The closed network of a bank step as a truss of uneven stiffness and load."""
    step, rng = cdopt.bank.load(name).step, np.random.default_rng(7)
    stiffness = rng.uniform(0.6, 1.6, step.nc)
    given = np.abs(cdopt.CompatibleCD(step).solve("newton").f) * rng.uniform(0.6, 1.4, step.nc)
    return step.B, step.B.T @ given, stiffness


@pytest.mark.parametrize("power", POWERS)
@pytest.mark.parametrize("name", ["beam-uniform", "table", "pyramid-hooke:n=3"])
def test_against_finite_differences(name: str, power: float) -> None:
    B, load, k = truss_of(name)
    result = cdopt.sensitivity(NoTensionTruss(B, load, k, power))
    assert result.two_sided
    assert result.loaded.sum() > np.linalg.matrix_rank(B.toarray()[result.loaded])  # hyperstatic
    size = result.f.max()
    for j in np.unique(np.linspace(0, len(k) - 1, 6).astype(int)):
        unit = np.eye(len(k))[j]
        by_log = slope(lambda t, e=unit: forces(B, load, k * np.exp(t * e), power))
        close(result.log_stiffness[:, j], by_log, size)
        close(result.stiffness[:, j], by_log / k[j], size / k[j])
        close(result.along(log_stiffness=unit), by_log, size)
    push = B.T @ (result.loaded * np.random.default_rng(3).uniform(-1.0, 1.0, len(k)) * size)
    by_load = slope(lambda t: forces(B, load + t * push, k, power))
    close(result.load @ push, by_load, size)
    close(result.along(load=push), by_load, size)
    by_power = slope(lambda t: forces(B, load, k, power + t))
    close(result.power, by_power, size)
    close(result.along(power=1.0), by_power, size)
    assert np.abs(result.power).max() > 1e-3 * size  # the load is uneven: there is something to see


def test_of_a_contact_step_the_load_stays_that_of_the_bodies() -> None:
    step, power = cdopt.bank.load("pyramid-species:n=3").step, 2.5
    result = cdopt.sensitivity(step, power)
    change = np.random.default_rng(0).standard_normal(step.nc)

    def at(t):
        moved = step.replace(stiffness=step.stiffness * np.exp(t * change))
        return cdopt.CompatibleCD(moved, power).solve("newton").f

    np.testing.assert_allclose(result.f, at(0.0), atol=1e-9)
    close(result.log_stiffness @ change, slope(at), result.f.max())
    known = cdopt.sensitivity(cdopt.bank.load("supports:n=4").step)
    alone = cdopt.sensitivity(cdopt.bank.generators.supports_delassus(4))  # N and p alone
    np.testing.assert_allclose(alone.log_stiffness, known.log_stiffness, atol=1e-6)
    assert np.abs(known.log_stiffness).max() > 1.0
    with pytest.raises(cdopt.Unsupported, match="N and p alone"):
        _ = alone.load
    assert np.isnan(alone.gradient(np.ones(4)).load).all()


@pytest.mark.parametrize("power", POWERS)
def test_invariances(power: float) -> None:
    """A common factor of k changes nothing, forces go with the load, contacts have no order."""
    B, load, k = truss_of("pyramid-hooke:n=3")
    result = cdopt.sensitivity(NoTensionTruss(B, load, k, power))
    size, order = np.abs(result.log_stiffness).max(), np.random.default_rng(2).permutation(len(k))
    weights = np.random.default_rng(5).standard_normal(len(k))
    by = result.gradient(weights)  # the adjoint is the transpose
    np.testing.assert_allclose(by.log_stiffness, weights @ result.log_stiffness, atol=1e-9)
    np.testing.assert_allclose(by.load, weights @ result.load, atol=1e-9)
    assert by.power == pytest.approx(float(weights @ result.power), abs=1e-9)
    for truss, factor, by_load, places in (
        (NoTensionTruss(B, load, 1e5 * k, power), 1.0, result.load, slice(None)),
        (NoTensionTruss(B, 2.0 * load, k, power), 2.0, result.load, slice(None)),
        (NoTensionTruss(B[order], load, k[order], power), 1.0, result.load[order], order),
    ):
        other, expected = cdopt.sensitivity(truss), factor * result.log_stiffness
        close(other.log_stiffness, expected[places][:, places], size, 1e-8)
        np.testing.assert_allclose(other.load, by_load, atol=1e-8)


@pytest.mark.parametrize("name", ["tripod", "beam-middle-open"])
def test_statically_determinate_forces_do_not_mind_stiffness(name: str) -> None:
    result = cdopt.sensitivity(cdopt.bank.load(name).step)
    np.testing.assert_allclose(result.log_stiffness, np.zeros((3, 3)), atol=1e-12)
    np.testing.assert_allclose(result.power, 0.0, atol=1e-12)
    np.testing.assert_array_equal(result.load[~result.loaded], 0.0)


@pytest.mark.parametrize("power", POWERS)
def test_prescribed_displacements(power: float) -> None:
    """A ball between a spring below and a lid pressed down by a screw: f grows with all k.

    Metres matter now, and so does a common factor: rows do not sum to zero.
    """
    B, k = np.array([[1.0, 0.0], [-1.0, 1.0]]), np.array([2.0, 1.0])  # floor; lid above the ball

    def solved(kk, p):
        truss = NoTensionTruss(B, [0.2, 0.0], kk, p, free_dofs=[0], prescribed_u=[0.0, -0.6])
        return truss, truss.solve("newton", accuracy=1e-14).f

    result = cdopt.sensitivity(solved(k, power)[0])
    for j, unit in enumerate(np.eye(2)):
        by_log = slope(lambda t, e=unit: solved(k * np.exp(t * e), power)[1])
        close(result.log_stiffness[:, j], by_log, result.f.max())
    close(result.power, slope(lambda t: solved(k, power + t)[1]), result.f.max())
    assert np.abs(result.log_stiffness.sum(axis=1)).min() > 0.01


def test_large_networks_are_factorised(monkeypatch: pytest.MonkeyPatch) -> None:
    """The sparse way gives what singular values give."""
    B, load, k = truss_of("pyramid-hooke:n=3")
    dense = cdopt.sensitivity(NoTensionTruss(B, load, k, 2.5))
    by_values, by_load = dense.log_stiffness, dense.load
    monkeypatch.setattr(importlib.import_module("cdopt.hyperstatic.truss_tangent"), "_DENSE", 0)
    sparse = cdopt.sensitivity(NoTensionTruss(B, load, k, 2.5))
    assert np.any(sparse.log_stiffness != by_values)
    np.testing.assert_allclose(sparse.log_stiffness, by_values, atol=1e-9 * dense.f.max())
    np.testing.assert_allclose(sparse.load, by_load, atol=1e-8)


# --- contacts that just touch ----------------------------------------------------------


def touching_beam(power):
    """A load under which the left support has neither force nor gap: overlaps 0, 1, 2."""
    f = np.array([0.0, 1.0, 2.0]) ** (power - 1.0)
    return SUPPORTS.T @ (f * 10.0 / f.sum())


@pytest.mark.parametrize("power", [2.0, 1.5])
@pytest.mark.parametrize(
    ("log_k", "load"),
    [([0, 0, 0], [0, 1]), ([0, 0, 0], [0, -1]), ([0, 1, 0], [0, 0]), ([0, -1, 0], [0, 0]),
     ([0.2, -0.3, 0.5], [1, -2]), ([1, 1, 1], [0, 0])],
)  # fmt: skip
def test_one_sided_derivatives(power: float, log_k, load) -> None:
    start, change, push = touching_beam(power), np.array(log_k, float), np.array(load, float)
    result = cdopt.sensitivity(NoTensionTruss(SUPPORTS, start, 1.0, power))
    assert list(result.touching) == [0]
    f = [forces(SUPPORTS, start + t * push, np.exp(t * change), power) for t in (0, 5e-6, 1e-5)]
    expected = (4 * f[1] - f[2] - 3 * f[0]) / 1e-5
    np.testing.assert_allclose(result.along(change, load), expected, atol=1e-4)


def test_matrices_are_refused_where_a_contact_just_touches() -> None:
    result = cdopt.sensitivity(NoTensionTruss(SUPPORTS, touching_beam(2.0)))
    np.testing.assert_allclose(result.along(load=[0.0, 1.0]), [0, -2, 2], atol=1e-9)
    np.testing.assert_allclose(result.along(load=[0.0, -1.0]), [1, 0, -1], atol=1e-9)
    assert not result.two_sided
    for ask in (
        lambda: result.log_stiffness, lambda: result.stiffness, lambda: result.load,
        lambda: result.power, lambda: result.gradient([1.0, 0.0, 0.0]),
    ):  # fmt: skip
        with pytest.raises(cdopt.Unsupported, match="contacts 0 just touch") as caught:
            ask()
        assert caught.value.alternatives == ("along",)
    assert "one-sided at 1" in repr(result)


def test_hertz_contacts_that_just_touch_do_no_harm() -> None:
    """At p > 2 they have no stiffness: df ~ t^1.5."""
    load = touching_beam(2.5)
    result = cdopt.sensitivity(NoTensionTruss(SUPPORTS, load, 1.0, 2.5))
    assert list(result.touching) == [0]
    assert result.two_sided
    expected, off = result.along(load=[0.0, -1.0]), []
    for h in (1e-3, 1e-5):
        moved = forces(SUPPORTS, load - [0.0, h], 1.0, 2.5)
        off.append(np.abs((moved - result.f) / h - expected).max())
    assert off[1] / off[0] == pytest.approx(0.1, rel=0.3)  # (t^1.5)/t: a tenth at a hundredth


TWO = SUPPORTS[[0, 2]]
FREE = [[1.0, 0, 0], [0, 1, 0], [-1, 1, 2], [1, -1, -1]]  # a free motion opens what touches


@pytest.mark.parametrize(
    ("B", "start", "stiffness", "direction", "expected"),
    [
        # all on the right one of two supports; the other is at hand on one side only
        (TWO, [10.0, 5.0], 1.0, {"load": [0.0, -1.0]}, [1, -1]),
        (TWO, [10.0, 5.0], 1.0, {"load": [1.0, 0.0]}, [0.5, 0.5]),
        (TWO, [10.0, 5.0], 1.0, {"load": [1.0, 0.5]}, [0, 1]),
        # no motion opens one wall without closing the other: the one that is pushed bears
        (WALLS, [0.0, 10.0], 1.0, {"load": [1.0, 0.0]}, [0, 1, 0]),
        (WALLS, [0.0, 10.0], 1.0, {"load": [-1.0, 0.0]}, [0, 0, 1]),
        (WALLS, [0.0, 10.0], 1.0, {"load": [0.0, 1.0]}, [1, 0, 0]),
        (WALLS, [0.0, 10.0], 1.0, {"log_stiffness": [1.0, 2.0, 3.0]}, [0, 0, 0]),
        # next to one wall, the motion that opens it costs nothing
        (WALLS[:2], [0.0, 10.0], 1.0, {"load": [1.0, 0.0]}, [0, 1]),
        (FREE, [1.0, 1.0, 0.0], 1.0, {"log_stiffness": [1.0, 0.0, 0.0, 0.0]}, [0, 0, 0, 0]),
        # without load every direction is a separate truss
        (SUPPORTS, [0.0, 0.0], [1.0, 3.0, 1.0], {"load": [10.0, 0.0]}, [2, 6, 2]),
    ],
)
def test_one_sided_derivatives_by_hand(B, start, stiffness, direction, expected) -> None:
    result = cdopt.sensitivity(NoTensionTruss(B, start, stiffness))
    np.testing.assert_allclose(result.along(**direction), expected, atol=1e-8)


def test_what_touches_and_what_cannot_be_borne() -> None:
    assert list(cdopt.sensitivity(NoTensionTruss(WALLS, [0.0, 10.0])).touching) == [1, 2]
    beside_one = cdopt.sensitivity(NoTensionTruss(WALLS[:2], [0.0, 10.0]))
    assert beside_one.touching.size == 0
    np.testing.assert_allclose(beside_one.load @ [0.0, 1.0], [1, 0])
    for B, start, power, load, words in (
        (TWO, [10.0, 5.0], 2.0, [0.0, 1.0], "no contacts can balance"),
        (WALLS, [0.0, 10.0], 2.5, [1.0, 0.0], "contacts 1, 2 must take up load"),
        (WALLS, [0.0, 10.0], 1.5, [1.0, 0.0], "contacts 1, 2 are rigid"),
    ):
        with pytest.raises(cdopt.Unsupported, match=words):
            cdopt.sensitivity(NoTensionTruss(B, start, 1.0, power)).along(load=load)


@pytest.mark.parametrize(("power", "soft"), [(1.3, 1e-3), (1.5, 1e-5)])
def test_a_soft_contact_that_is_pressed_carries(power: float, soft: float) -> None:
    B, k = np.array([[1.0, 0.0], [0.3, 1.0], [-1.0, -0.2]]), np.array([1.0, soft, 1.0])
    f = k * np.maximum(B @ [1.0, 1.0], 0.0) ** (power - 1.0)
    result = cdopt.sensitivity(NoTensionTruss(B, B.T @ f, k, power))
    assert result.loaded.tolist() == [True, True, False]
    np.testing.assert_allclose(result.load[:, 1], [-0.3, 1.0, 0.0], atol=1e-6)
    np.testing.assert_allclose(result.gradient([0.0, 1.0, 0.0]).load, [0.0, 1.0], atol=1e-6)


# --- another judge, arguments, properties ------------------------------------------------


def test_against_the_derivatives_of_cvxpy() -> None:
    """Through the conic form, by diffcp, where it is installed; Hooke, one contact open."""
    pytest.importorskip("diffcp", reason="CVXPY differentiates problems with diffcp")
    B = np.column_stack([np.ones(4), [-0.5, -0.1, 0.2, 0.5]])
    load, k = np.array([10.0, 3.5]), np.array([1.0, 2.0, 0.7, 1.5])
    f, root, F = cp.Variable(4), cp.Parameter(4, pos=True), cp.Parameter(2)
    energy = 0.5 * cp.sum_squares(cp.multiply(root, f))
    problem = cp.Problem(cp.Minimize(energy), [B.T @ f == F, f >= 0])
    root.value, F.value = k**-0.5, load
    problem.solve(requires_grad=True, solver=cp.SCS, eps=1e-12, max_iters=200_000)
    result = cdopt.sensitivity(NoTensionTruss(B, load, k))
    np.testing.assert_allclose(result.f, f.value, atol=1e-6)
    assert result.f.min() < 1e-9  # one is open
    f.gradient = np.array([1.0, -2.0, 0.5, 3.0])
    problem.backward()
    by = result.gradient(f.gradient)
    np.testing.assert_allclose(by.log_stiffness, -0.5 * root.value * root.gradient, atol=1e-5)
    np.testing.assert_allclose(by.load, F.gradient, atol=1e-5)


def test_bad_arguments_and_dofs_without_contacts() -> None:
    step, truss = cdopt.bank.load("table").step, NoTensionTruss(SUPPORTS, [10.0, 0.0])
    lost = NoTensionTruss(np.column_stack([SUPPORTS, np.zeros(3)]), [10.0, 0.0, 0.0])
    for ask, name in (
        (lambda: cdopt.sensitivity(3), "problem"),
        (lambda: cdopt.sensitivity(truss, 2.5), "power"),
        (lambda: cdopt.sensitivity(step, 1.0), "power"),
        (lambda: cdopt.sensitivity(step, tol=0.0), "tol"),
        (lambda: cdopt.sensitivity(truss).along(log_stiffness=[1.0]), "log_stiffness"),
        (lambda: cdopt.sensitivity(truss).along(load=[1.0]), "load"),
        (lambda: cdopt.sensitivity(truss).gradient([1.0]), "weights"),
        (lambda: cdopt.sensitivity(lost).along(load=[0.0, 0.0, 1.0]), "load"),
    ):
        with pytest.raises(cdopt.InvalidInput) as caught:
            ask()
        assert caught.value.argument == name
    np.testing.assert_array_equal(cdopt.sensitivity(lost).load[:, 2], 0.0)
    hertz = NoTensionTruss(SUPPORTS, [10.0, 1.0], 1.0, 2.5)
    with pytest.raises(cdopt.SolveFailed, match="certified"):
        cdopt.sensitivity(hertz, backend=cdopt.backends.Newton(max_steps=1))


@settings(max_examples=25)
@given(networks(), st.sampled_from(POWERS), st.integers(0, 1000))
def test_any_truss(drawn, power, seed) -> None:
    """Rows sum to zero, balance is kept, f κ is projected; finite differences where smooth."""
    (B, pushes), rng = drawn, np.random.default_rng(seed)
    load, k = B.T @ pushes, np.exp(rng.uniform(-1.0, 1.0, len(B)))
    assume(np.abs(load).max() > 0.5)
    truss = NoTensionTruss(B, load, k, power)
    assume(truss.solve("newton", check=False).ok)  # round-off of p = 1.5 may hide the forces
    result = cdopt.sensitivity(truss)
    assume(result.two_sided)
    size, J = result.f.max(), result.log_stiffness
    np.testing.assert_allclose(J.sum(axis=1), 0.0, atol=1e-8 * size)
    np.testing.assert_allclose(B.T @ J, 0.0, atol=1e-8 * size)
    np.testing.assert_allclose(result.load @ load, result.f, atol=1e-8 * size)
    projector = np.divide(J, result.f, out=np.zeros_like(J), where=result.f > 0)  # df = P f κ
    np.testing.assert_allclose(projector @ projector, projector, atol=1e-7)
    clear = result.loaded | (result.tangent.overlap < -1e-2)
    assume(clear.all() and result.f[result.loaded].min(initial=size) > 0.05 * size)
    direction = rng.uniform(-1.0, 1.0, len(k))
    expected = slope(lambda t: forces(B, load, k * np.exp(t * direction), power), 1e-3)
    np.testing.assert_allclose(J @ direction, expected, atol=1e-5 * size)
