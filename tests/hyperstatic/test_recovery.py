"""Stiffness from measured forces: what comes back, what cannot, and with what error."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import cdopt
from cdopt.formulations import NoTensionTruss

TABLE = np.array([[1.0, 1.0, 1.0], [1.0, -1.0, 1.0], [1.0, -1.0, -1.0], [1.0, 1.0, -1.0]])
LOADS = np.array([[10.0, 0.0, 0.0], [10.0, 2.0, 1.0], [10.0, -1.0, 2.0], [10.0, 1.5, -2.0]])
TRUE = np.array([1.0, 0.5, 2.0, 1.3])


def measured(loads, stiffness=TRUE, power=2.0):
    truss = [NoTensionTruss(TABLE, F, stiffness, power) for F in loads]
    return np.stack([one.solve("newton").f for one in truss])


def relative(k):
    return np.asarray(k) / np.exp(np.mean(np.log(k)))


@pytest.mark.parametrize("power", [2.0, 2.5, 1.5])
def test_a_table_under_three_loads(power: float) -> None:
    """One self-stress state: one ratio for each load, and four legs have three."""
    f = measured(LOADS[:3], power=power)
    result = cdopt.recover_stiffness(TABLE, LOADS[:3], f, power)
    assert result.rank == 3
    assert result.converged
    np.testing.assert_allclose(result.stiffness, relative(TRUE), rtol=1e-6)
    np.testing.assert_allclose(result.forces, f, atol=1e-8)
    assert result.misfit < 1e-8
    assert "3 of 3 ratios determined by 3 loads" in repr(result)


@pytest.mark.parametrize("count", [1, 2])
def test_fewer_loads_determine_fewer_ratios(count: int) -> None:
    f = measured(LOADS[:count])
    result = cdopt.recover_stiffness(TABLE, LOADS[:count], f)
    assert result.rank == count
    both = np.vstack([result.determined, result.undetermined])
    np.testing.assert_allclose(both @ both.T, np.eye(4), atol=1e-9)
    np.testing.assert_allclose(result.undetermined[0], 0.5)
    np.testing.assert_allclose(result.forces, f, atol=1e-7)  # explained none the less
    assert result.ratio(0, 1)[1] == np.inf
    for ways, low, high in ((result.undetermined, 0.0, 1e-9), (result.determined, 1e-7, np.inf)):
        for way in ways:  # and by the undetermined ones as well, to first order
            moved = measured(LOADS[:count], result.stiffness * np.exp(1e-5 * way))
            assert low <= np.abs(moved - f).max() <= high


def test_forces_that_determine_nothing() -> None:
    """Statically determinate ones; a single contact; and a load that lifts a leg."""
    result = cdopt.recover_stiffness(
        TABLE[:3], [10.0, 0.0, 3.0], [6.5, 0.0, 3.5], start=[1.0, 2.0, 4.0]
    )
    assert result.rank == 0
    np.testing.assert_allclose(result.stiffness, [0.5, 1.0, 2.0])  # the start, geometric mean one
    result = cdopt.recover_stiffness([[1.0]], [3.0], [3.0])
    assert (result.rank, result.stiffness.tolist()) == (0, [1.0])
    assert result.misfit < 1e-9
    true, loads = np.array([1.0, 1.0, 1.0, 0.4]), LOADS[:3].copy()
    loads[2] = [10.0, -4.0, 7.0]  # the others are a stool then
    f = measured(loads, true)
    assert f[2].min() < 1e-9
    assert cdopt.recover_stiffness(TABLE, loads, f).rank == 2


@pytest.mark.slow
def test_noise_gives_the_error_that_is_reported() -> None:
    """Over many draws the logarithm of a ratio scatters as its standard error says."""
    f, rng = measured(LOADS), np.random.default_rng(11)
    errors, reported = [], []
    for _ in range(30):
        result = cdopt.recover_stiffness(TABLE, LOADS, f + 0.01 * rng.standard_normal(f.shape))
        ratio, error = result.ratio(1, 2)
        errors.append(np.log(ratio / (TRUE[1] / TRUE[2])))
        reported.append(error)
    scatter = float(np.sqrt(np.mean(np.square(errors))))
    assert scatter == pytest.approx(np.mean(reported), rel=0.3)
    assert scatter > 1e-3


def test_the_error_is_that_of_linear_least_squares() -> None:
    """σ² = Σ r² over what is left of the measurements, and σ² (JᵀJ)⁺ along the difference."""
    f = measured(LOADS[:3]) + 0.01 * np.random.default_rng(4).standard_normal((3, 4))
    f[0, 2] = np.nan
    result, known = cdopt.recover_stiffness(TABLE, LOADS[:3], f), np.isfinite(f)
    trusses = [NoTensionTruss(TABLE, F, result.stiffness) for F in LOADS[:3]]
    J = np.vstack([cdopt.sensitivity(truss).log_stiffness for truss in trusses])[known.ravel()]
    left = (result.forces - f)[known]
    assert result.misfit == pytest.approx(np.sqrt(np.mean(left**2)))
    assert np.abs(J.T @ left).max() < 1e-8  # a stationary point
    variance = np.sum(left**2) / (11 - 3) * np.linalg.pinv(J.T @ J, rcond=1e-10)
    way = np.array([0.0, 1.0, -1.0, 0.0])
    assert result.ratio(1, 2)[1] == pytest.approx(np.sqrt(way @ variance @ way), rel=1e-6)


def test_missing_measurements() -> None:
    """As many measurements as ratios leave none to judge the error by."""
    f = measured(LOADS)
    f[0, 1] = f[2, 3] = f[3, 0] = np.nan
    result = cdopt.recover_stiffness(TABLE, LOADS, f)
    assert result.rank == 3
    np.testing.assert_allclose(result.stiffness, relative(TRUE), rtol=1e-6)
    f = measured(LOADS[:3])
    f[:, 1:] = np.nan  # one leg, three loads
    result = cdopt.recover_stiffness(TABLE, LOADS[:3], f)
    assert result.rank == 3
    ratio, error = result.ratio(1, 0)
    assert ratio == pytest.approx(0.5, rel=1e-5)
    assert np.isnan(error)
    with pytest.raises(cdopt.InvalidInput, match="second"):
        result.ratio(0, 4)


@pytest.mark.parametrize(
    ("arguments", "name"),
    [
        ((TABLE, LOADS, np.ones((2, 4))), "forces"),
        ((TABLE, LOADS, np.full((4, 4), np.nan)), "forces"),
        ((TABLE, LOADS, np.full((4, 4), np.inf)), "forces"),
        ((TABLE, LOADS, "much"), "forces"),
        ((TABLE, LOADS[:, :2], np.ones((4, 4))), "contact_loads"),
        ((np.zeros((0, 3)), LOADS, np.zeros((4, 0))), "B"),
        ((TABLE, LOADS, np.ones((4, 4)), 1.0), "power"),
        ((TABLE, LOADS, np.ones((4, 4)), 2.0, -1.0), "start"),
    ],
)
def test_bad_arguments(arguments, name: str) -> None:
    with pytest.raises(cdopt.InvalidInput) as caught:
        cdopt.recover_stiffness(*arguments)
    assert caught.value.argument == name


def test_a_load_that_no_contact_bears() -> None:
    with pytest.raises(cdopt.SolveFailed):
        cdopt.recover_stiffness(TABLE, [[-1.0, 0.0, 0.0]], [[1.0, 1.0, 1.0, 1.0]])


@settings(max_examples=10)
@given(st.lists(st.floats(-1.0, 1.0), min_size=4, max_size=4))
def test_any_four_legs(logs: list[float]) -> None:
    gentle = np.array([[10.0, 0.0, 0.0], [10.0, 0.8, 0.4], [10.0, -0.4, 0.8]])
    f = measured(gentle, np.exp(logs))
    result = cdopt.recover_stiffness(TABLE, gentle, f)
    np.testing.assert_allclose(result.forces, f, atol=1e-6)
    if result.rank == 3 and result.singular_values.min() > 1e-3:
        np.testing.assert_allclose(result.stiffness, relative(np.exp(logs)), rtol=1e-4)
