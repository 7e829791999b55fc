"""Boxes: dry friction with a fixed limit."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from cdopt.problem.boxes import Boxes
from cdopt.problem.cone_products import Product
from cdopt.problem.cones import HalfLines

NUMBERS = st.floats(-5.0, 5.0).filter(lambda x: x == 0.0 or abs(x) > 1e-6)


@given(NUMBERS, st.floats(0.1, 3.0))
def test_a_force_of_the_law_loses_most_power_and_only_it_does(g: float, most: float):
    """f is the law's exactly where −f g = a|g|, the support function, and then the map is zero."""
    box, rate, weight = Boxes(np.array([most])), np.array([g]), np.array([0.7])
    by_law = np.array([-most * np.sign(g)])
    assert np.abs(box.natural_map(by_law, rate, weight)).max() <= 1e-15
    np.testing.assert_allclose(-by_law * rate, box.support(rate))
    for share in (-0.5, 0.0, 0.9):
        other = share * by_law
        lost = box.support(rate) + other * rate
        size = np.abs(box.natural_map(other, rate, weight)).max()
        assert lost[0] == 0.0 if g == 0.0 else lost[0] > 0.0
        assert size >= min(abs(g), 0.7 * most * (1.0 - share)) * (1.0 - 1e-9)


def test_the_map_of_a_product_is_that_of_its_parts():
    both = Product(HalfLines(1), Boxes(np.array([2.0])))
    f, g, weight = np.array([0.5, 2.0]), np.array([-0.1, -3.0]), np.array([0.3, 0.2])
    np.testing.assert_allclose(both.natural_map(f, g, weight), [-0.1, 0.0], atol=1e-15)


@given(st.lists(NUMBERS, min_size=3, max_size=3))
def test_the_projection_is_the_nearest_point_and_scales(y: list[float]):
    most, values, unit = np.array([1.0, 0.0, 2.5]), np.array(y), np.array([2.0, 0.5, 4.0])
    box = Boxes(most)
    nearest = box.project(values)
    for share in np.linspace(-1.0, 1.0, 5):
        assert np.all(np.abs(values - nearest) <= np.abs(values - share * most) + 1e-15)
    np.testing.assert_allclose(unit * box.in_units(unit).project(values / unit), nearest)
    np.testing.assert_array_equal(box.distance(values), np.abs(values - nearest))
    assert not box.dual_distance(values).any()
    slope = box.projection_derivative(values)[:, 0, 0]
    np.testing.assert_array_equal(slope, (np.abs(values) < most).astype(float))
    np.testing.assert_array_equal(box.take(np.array([2, 0])).most, [2.5, 1.0])
