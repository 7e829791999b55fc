"""Lesson 10, the bridge: its numbers, its picture and the answers to its questions."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
from lessons import drawn, ran, what_if

pytestmark = pytest.mark.slow

QUICKLY = (
    "bridge = rigid_limit.bridge(scene)",
    'bridge = rigid_limit.bridge(scene, methods=["quasi-static"])',
)


def lesson(*changes: str) -> dict[str, Any]:
    """The lesson with one method after lines of it were changed."""
    return what_if(10, *QUICKLY, *changes)


def test_numbers_and_picture() -> None:
    it, said = drawn(10), ran(10).said
    bridge = it.bridge
    assert (bridge.step.nc, bridge.nullity) == (47, 11)
    assert bridge.forces.max() / it.weight == pytest.approx(5.4566, abs=1e-4)
    assert it.slope["Hooke"] == pytest.approx(-1.0, abs=0.05)
    assert it.slope["Hertz"] == pytest.approx(-2.0 / 3.0, abs=0.05)
    assert bridge.minimum_norm_error == pytest.approx(0.2360, abs=1e-4)
    np.testing.assert_allclose(bridge.uniform.error[-2:], 0.236, atol=1e-3)
    assert bridge.one_step.slope == pytest.approx(1.0, abs=0.05)
    assert it.ridge.error.min() > 0.9 * bridge.minimum_norm_error
    assert "* not fitted: round-off" in said  # the stars of the last section
    table = re.findall(r"slope +(\S+) +(\S+) +(\S+) +expected -1.000", said)
    np.testing.assert_allclose(np.array(table, dtype=float), -1.0, atol=0.05)
    off = [float(n) for n in re.findall(r"off quasi-static by (\S+)", said)]
    assert len(off) == 3
    assert max(off) < 1e-5


def test_what_if_all_discs_are_alike() -> None:
    """Walls without a material are rigid, so contacts with them are twice as stiff."""
    bridge = lesson("ratio = 5.0", "ratio = 1.0")["bridge"]
    np.testing.assert_allclose(np.unique(bridge.step.stiffness.round(12)), [1.0, 2.0])
    assert bridge.minimum_norm_error == pytest.approx(0.0234, abs=1e-4)


def test_what_if_the_contrast_grows() -> None:
    bridge = lesson("ratio = 5.0", "ratio = 20.0")["bridge"]
    assert bridge.minimum_norm_error == pytest.approx(0.3282, abs=1e-4)
    assert bridge.lines[0].slope == pytest.approx(-1.0, abs=0.05)


def test_what_if_the_law_is_another() -> None:
    it = lesson("HERTZ = 2.0, 2.5", "HERTZ = 2.0, 4.0")
    assert it["slope"]["Hertz"] == pytest.approx(-1.0 / 3.0, abs=0.05)


def test_what_if_it_stays_at_the_soft_end() -> None:
    soft = QUICKLY[1].replace("scene,", "scene, [500.0, 1000.0, 2000.0],")
    bridge = what_if(10, QUICKLY[0], soft)["bridge"]
    assert bridge.overlap[0] > 0.08
    assert bridge.lines[0].slope < -1.1  # not straight yet
