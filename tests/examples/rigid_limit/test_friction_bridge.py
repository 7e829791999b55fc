"""Discrete elements with friction tend to the compatible forces with Coulomb micro-slip."""

from __future__ import annotations

import numpy as np
import pytest
from pictures import all_by_gid
from rigid_limit import friction_bridge, friction_lines

import cdopt


@pytest.mark.slow
def test_a_small_pile_and_its_picture() -> None:
    found = friction_bridge(3, kappas=[1e3, 1e4], stages=1000)
    assert found.error[1] < 1e-4
    assert found.slope == pytest.approx(-1.0, abs=0.1)
    assert np.all(found.associated_error > 0.09)  # Haar–Kármán's are 9 % away
    assert found.increments.max() < 1e-9
    assert found.one_step_slope == pytest.approx(1.0, abs=0.05)
    shown = friction_lines(found)
    line = all_by_gid(shown.axes[0], "bridge")[0]
    np.testing.assert_array_equal(line.get_ydata(), found.error)
    assert "Haar–Kármán" in str(found)
    with pytest.raises(cdopt.InvalidInput, match="bridge"):
        friction_lines("a bridge")
    with pytest.raises(cdopt.InvalidInput, match="kappas"):
        friction_bridge(2, kappas=[-1.0])


@pytest.mark.slow
@pytest.mark.parametrize(("n", "apart"), [(3, 0.0923), (4, 0.0733)])
def test_slope_and_distance(n: int, apart: float) -> None:
    found = friction_bridge(n)
    assert found.error[-1] < 2e-5  # at κ = 1e5
    assert found.slope == pytest.approx(-1.0, abs=0.05)
    assert found.apart == pytest.approx(apart, abs=1e-4)
    assert np.abs(found.associated_error / apart - 1.0).max() < 0.01
    assert found.increments.max() < 1e-9
    assert found.one_step_slope == pytest.approx(1.0, abs=0.05)
