"""Statistics of solver comparisons, against what pencil and paper give."""

from __future__ import annotations

import math

import numpy as np
import pytest

import cdopt
from cdopt.study.statistics import performance_profiles, power_fit, shifted_geometric_mean

INF = math.inf


def test_profiles_of_three_solvers_on_four_problems() -> None:
    """Ratios by hand: a 1, 2, 1, –; b 2, 1, –, –; c 4, 1, 3, –. Nobody solves the last."""
    found = performance_profiles({
        "a": [1.0, 4.0, 2.0, INF],
        "b": [2.0, 2.0, math.nan, INF],
        "c": [4.0, 2.0, 6.0, INF],
    })  # fmt: skip
    np.testing.assert_array_equal(found["a"].ratios, [1.0, 1.0, 2.0])
    np.testing.assert_array_equal(found["b"].ratios, [1.0, 2.0])
    np.testing.assert_array_equal(found["c"].ratios, [1.0, 3.0, 4.0])
    assert [p.at(1.0) for p in found.values()] == [0.5, 0.25, 0.25]
    assert [p.at(INF) for p in found.values()] == [0.75, 0.5, 0.75]
    assert [found["c"].at(tau) for tau in (1.0, 2.99, 3.0, 4.0, 1e9)] == [
        0.25, 0.25, 0.5, 0.75, 0.75
    ]  # fmt: skip


def test_the_steps_of_a_profile_are_its_values() -> None:
    found = performance_profiles({"a": [1.0, 1.0, 5.0], "b": [3.0, 200.0, 1.0]})
    tau, share = found["b"].steps(10.0)
    np.testing.assert_array_equal(tau, [1.0, 1.0, 3.0, 10.0])
    np.testing.assert_allclose(share, [1 / 3, 1 / 3, 2 / 3, 2 / 3])
    tau, share = found["a"].steps(10.0)
    np.testing.assert_allclose(share, [2 / 3, 2 / 3, 2 / 3, 1.0, 1.0])


@pytest.mark.parametrize(
    "times", [{}, {"a": []}, {"a": [1.0], "b": [1.0, 2.0]}, {"a": [0.0]}, {"a": [-1.0]}]
)
def test_times_that_make_no_profile(times: dict) -> None:
    with pytest.raises(cdopt.InvalidInput, match="times"):
        performance_profiles(times)


def test_geometric_means_are_known() -> None:
    assert shifted_geometric_mean([1.0, 100.0], 0.0) == pytest.approx(10.0)
    assert shifted_geometric_mean([0.0, 3.0], 1.0) == pytest.approx(1.0)  # √(1 · 4) − 1
    assert shifted_geometric_mean([0.0, 3.0], 0.0) == 0.0
    assert shifted_geometric_mean([7.0] * 5, 10.0) == pytest.approx(7.0)
    values = [0.1, 2.0, 30.0]
    assert shifted_geometric_mean(values, 1e9) == pytest.approx(np.mean(values), rel=1e-6)
    means = [shifted_geometric_mean(values, shift) for shift in (0.0, 0.1, 1.0, 10.0)]
    assert means == sorted(means)


@pytest.mark.parametrize("values", [[], [-1.0], [INF], [math.nan]])
def test_values_without_a_mean(values: list[float]) -> None:
    with pytest.raises(cdopt.InvalidInput, match="values"):
        shifted_geometric_mean(values)


@pytest.mark.parametrize(("exponent", "factor"), [(1.0, 2.0), (1.5, 1e-6), (3.0, 7.0), (-0.5, 1.0)])
def test_exact_power_laws_have_no_interval(exponent: float, factor: float) -> None:
    x = np.array([10.0, 20.0, 50.0, 400.0])
    fit = power_fit(x, factor * x**exponent)
    assert fit.exponent == pytest.approx(exponent, abs=1e-12)
    assert fit.factor == pytest.approx(factor, rel=1e-10)
    assert fit.high - fit.low < 1e-10
    assert fit.points == 4


def test_the_interval_of_three_points_by_hand() -> None:
    """ln x = −1, 0, 1 and ln y = −1 + e, −2e, 1 + e: slope 1, residuals e, −2e, e.

    s = √6 e with one degree of freedom, standard error s/√2, and t(0.975, 1) = 12.7062.
    """
    e = 0.01
    fit = power_fit(np.exp([-1.0, 0.0, 1.0]), np.exp([-1.0 + e, -2.0 * e, 1.0 + e]))
    half = 12.706204736 * math.sqrt(6.0) * e / math.sqrt(2.0)
    assert fit.exponent == pytest.approx(1.0, abs=1e-12)
    assert (fit.low, fit.high) == pytest.approx((1.0 - half, 1.0 + half), rel=1e-8)


def test_intervals_hold_the_truth_as_often_as_they_say() -> None:
    """Of 400 lines with normal errors, 90 % intervals hold the exponent 360 times, ± 3 sigma 18."""
    random = np.random.default_rng(1)
    x = np.geomspace(10.0, 1e4, 6)
    held = 0
    for _ in range(400):
        fit = power_fit(x, x**1.3 * np.exp(0.2 * random.standard_normal(6)), 0.9)
        held += fit.low <= 1.3 <= fit.high
    assert 342 <= held <= 378


def test_two_points_fix_a_line_and_no_interval() -> None:
    fit = power_fit([1.0, 10.0], [1.0, 100.0])
    assert fit.exponent == pytest.approx(2.0)
    assert (fit.low, fit.high) == (-INF, INF)
    for x, y in (([1.0, 1.0], [1.0, 2.0]), ([1.0, 2.0], [1.0, 0.0]), ([1.0, 2.0], [1.0])):
        with pytest.raises(cdopt.InvalidInput):
            power_fit(x, y)
