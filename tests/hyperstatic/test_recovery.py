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


def measured(B, loads, stiffness, power=2.0):
    return np.stack([NoTensionTruss(B, F, stiffness, power).solve("newton").f for F in loads])


def relative(k):
    return np.asarray(k) / np.exp(np.mean(np.log(k)))


@pytest.mark.parametrize("power", [2.0, 2.5, 1.5])
def test_a_table_under_three_loads(power: float) -> None:
    """One self-stress state: one ratio for each load, and four legs have three."""
    f = measured(TABLE, LOADS[:3], TRUE, power)
    result = cdopt.recover_stiffness(TABLE, LOADS[:3], f, power)
    assert result.rank == 3
    assert result.converged
    np.testing.assert_allclose(result.stiffness, relative(TRUE), rtol=1e-6)
    np.testing.assert_allclose(result.forces, f, atol=1e-8)
    assert result.misfit < 1e-8
    assert "3 of 3 ratios determined by 3 loads" in repr(result)


@pytest.mark.parametrize("count", [1, 2])
def test_fewer_loads_determine_fewer_ratios(count: int) -> None:
    f = measured(TABLE, LOADS[:count], TRUE)
    result = cdopt.recover_stiffness(TABLE, LOADS[:count], f)
    assert result.rank == count
    assert result.determined.shape == (count, 4)
    assert result.undetermined.shape == (4 - count, 4)
    both = np.vstack([result.determined, result.undetermined])
    np.testing.assert_allclose(both @ both.T, np.eye(4), atol=1e-9)
    np.testing.assert_allclose(result.undetermined[0], 0.5)
    np.testing.assert_allclose(result.forces, f, atol=1e-7)  # explained none the less
    assert result.ratio(0, 1)[1] == np.inf
    for way in result.undetermined:  # and by these as well, to first order
        moved = result.stiffness * np.exp(1e-5 * way)
        assert np.abs(measured(TABLE, LOADS[:count], moved) - f).max() < 1e-9
    for way in result.determined:
        moved = result.stiffness * np.exp(1e-5 * way)
        assert np.abs(measured(TABLE, LOADS[:count], moved) - f).max() > 1e-7


def test_forces_that_determine_nothing() -> None:
    """Statically determinate ones; and a single contact."""
    result = cdopt.recover_stiffness(
        TABLE[:3], [10.0, 0.0, 3.0], [6.5, 0.0, 3.5], start=[1.0, 2.0, 4.0]
    )
    assert result.rank == 0
    np.testing.assert_allclose(result.stiffness, [0.5, 1.0, 2.0])  # the start, geometric mean one
    result = cdopt.recover_stiffness([[1.0]], [3.0], [3.0])
    assert result.rank == 0
    np.testing.assert_array_equal(result.stiffness, [1.0])
    assert result.misfit < 1e-9


@pytest.mark.slow
def test_noise_gives_the_error_that_is_reported() -> None:
    """Over many draws the logarithm of a ratio scatters as its standard error says."""
    f = measured(TABLE, LOADS, TRUE)
    rng = np.random.default_rng(11)
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
    rng = np.random.default_rng(4)
    f = measured(TABLE, LOADS[:3], TRUE) + 0.01 * rng.standard_normal((3, 4))
    f[0, 2] = np.nan
    result = cdopt.recover_stiffness(TABLE, LOADS[:3], f)
    J = np.vstack(
        [
            cdopt.sensitivity(NoTensionTruss(TABLE, F, result.stiffness)).log_stiffness
            for F in LOADS[:3]
        ]
    )[np.isfinite(f).ravel()]
    left = (result.forces - f)[np.isfinite(f)]
    assert result.misfit == pytest.approx(np.sqrt(np.mean(left**2)))
    assert np.abs(J.T @ left).max() < 1e-8  # a stationary point
    variance = np.sum(left**2) / (11 - 3) * np.linalg.pinv(J.T @ J, rcond=1e-10)
    way = np.array([0.0, 1.0, -1.0, 0.0])
    assert result.ratio(1, 2)[1] == pytest.approx(np.sqrt(way @ variance @ way), rel=1e-6)


def test_missing_measurements() -> None:
    """As many measurements as ratios leave none to judge the error by."""
    f = measured(TABLE, LOADS, TRUE)
    f[0, 1] = f[2, 3] = f[3, 0] = np.nan
    result = cdopt.recover_stiffness(TABLE, LOADS, f)
    assert result.rank == 3
    np.testing.assert_allclose(result.stiffness, relative(TRUE), rtol=1e-6)
    f = measured(TABLE, LOADS[:3], TRUE)
    f[:, 1:] = np.nan  # one leg, three loads
    result = cdopt.recover_stiffness(TABLE, LOADS[:3], f)
    assert result.rank == 3
    ratio, error = result.ratio(1, 0)
    assert ratio == pytest.approx(0.5, rel=1e-5)
    assert np.isnan(error)


def test_a_load_that_lifts_a_leg_determines_nothing() -> None:
    """The third load lifts a leg: the others are a stool then."""
    true, loads = np.array([1.0, 1.0, 1.0, 0.4]), LOADS[:3].copy()
    loads[2] = [10.0, -4.0, 7.0]
    f = measured(TABLE, loads, true)
    assert f[2].min() < 1e-9
    assert cdopt.recover_stiffness(TABLE, loads, f).rank == 2


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


def test_what_cannot_be_answered() -> None:
    with pytest.raises(cdopt.SolveFailed):  # a load that no contact bears
        cdopt.recover_stiffness(TABLE, [[-1.0, 0.0, 0.0]], [[1.0, 1.0, 1.0, 1.0]])
    result = cdopt.recover_stiffness([[1.0], [1.0]], [3.0], [1.0, 2.0])
    np.testing.assert_allclose(result.ratio(1, 0)[0], 2.0, rtol=1e-9)
    with pytest.raises(cdopt.InvalidInput, match="second"):
        result.ratio(0, 2)


@settings(max_examples=10)
@given(st.lists(st.floats(-1.0, 1.0), min_size=4, max_size=4))
def test_any_four_legs(logs: list[float]) -> None:
    true = np.exp(logs)
    gentle = np.array([[10.0, 0.0, 0.0], [10.0, 0.8, 0.4], [10.0, -0.4, 0.8]])
    f = measured(TABLE, gentle, true)
    result = cdopt.recover_stiffness(TABLE, gentle, f)
    np.testing.assert_allclose(result.forces, f, atol=1e-6)
    if result.rank == 3 and result.singular_values.min() > 1e-3:
        np.testing.assert_allclose(result.stiffness, relative(true), rtol=1e-4)
