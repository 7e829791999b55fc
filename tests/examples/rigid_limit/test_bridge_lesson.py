"""The lesson on the bridge: its numbers and the answers to its questions."""

from __future__ import annotations

import functools
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytestmark = pytest.mark.slow

LESSON = Path(__file__).parents[3] / "examples" / "10_the_bridge.py"
QUICKLY = (
    "found = rigid_limit.bridge(scene)",
    'found = rigid_limit.bridge(scene, methods=["quasi-static"])',
)


@functools.cache
def lesson(*changes: tuple[str, str]) -> dict[str, Any]:
    """The lesson's names after lines of it were changed, as its readers do."""
    source = LESSON.read_text(encoding="utf-8")
    for line, instead in changes:
        assert source.count(line) == 1, line
        source = source.replace(line, instead)
    names: dict[str, Any] = {"__name__": "lesson"}
    exec(compile(source, str(changes), "exec"), names)
    return names


def test_numbers() -> None:
    it = lesson(QUICKLY)
    found = it["found"]
    assert (found.step.nc, found.nullity) == (47, 11)
    assert found.forces.max() / it["weight"] == pytest.approx(5.4566, abs=1e-4)
    assert it["slope"]["Hooke"] == pytest.approx(-1.0, abs=0.05)
    assert it["slope"]["Hertz"] == pytest.approx(-2.0 / 3.0, abs=0.05)
    assert found.minimum_norm_error == pytest.approx(0.2360, abs=1e-4)
    np.testing.assert_allclose(found.uniform.error[-2:], 0.236, atol=1e-3)
    assert found.one_step.slope == pytest.approx(1.0, abs=0.05)
    assert it["ridge"].error.min() > 0.9 * found.minimum_norm_error


def test_what_if_all_discs_are_alike() -> None:
    """Walls without a material are rigid, so contacts with them are twice as stiff."""
    found = lesson(QUICKLY, ("ratio = 5.0", "ratio = 1.0"))["found"]
    np.testing.assert_allclose(np.unique(found.step.stiffness.round(12)), [1.0, 2.0])
    assert found.minimum_norm_error == pytest.approx(0.0234, abs=1e-4)


def test_what_if_the_contrast_grows() -> None:
    found = lesson(QUICKLY, ("ratio = 5.0", "ratio = 20.0"))["found"]
    assert found.minimum_norm_error == pytest.approx(0.3282, abs=1e-4)
    assert found.lines[0].slope == pytest.approx(-1.0, abs=0.05)


def test_what_if_the_law_is_another() -> None:
    it = lesson(QUICKLY, ("HERTZ = 2.0, 2.5", "HERTZ = 2.0, 4.0"))
    assert it["slope"]["Hertz"] == pytest.approx(-1.0 / 3.0, abs=0.05)


def test_what_if_it_stays_at_the_soft_end() -> None:
    soft = QUICKLY[1].replace("scene,", "scene, [500.0, 1000.0, 2000.0],")
    found = lesson((QUICKLY[0], soft))["found"]
    assert found.overlap[0] > 0.08
    assert found.lines[0].slope < -1.1  # not straight yet


@pytest.mark.slow
def test_it_runs_in_an_empty_folder_and_draws_its_picture(tmp_path: Path) -> None:
    run = subprocess.run(
        [sys.executable, "-W", "error", str(LESSON)], cwd=tmp_path, capture_output=True, text=True,
        encoding="utf-8", env={**os.environ, "PYTHONIOENCODING": "utf-8"}, timeout=600,
    )  # fmt: skip
    assert run.returncode == 0, run.stderr
    assert run.stderr == ""
    assert "* not fitted: round-off" in run.stdout  # the stars of the last section
    table = re.findall(r"slope +(\S+) +(\S+) +(\S+) +expected -1.000", run.stdout)
    np.testing.assert_allclose(np.array(table, dtype=float), -1.0, atol=0.05)
    off = [float(n) for n in re.findall(r"off quasi-static by (\S+)", run.stdout)]
    assert len(off) == 3
    assert max(off) < 1e-5
    assert "The picture is in 10_the_bridge.png" in run.stdout
    (picture,) = tmp_path.iterdir()
    assert picture.name == "10_the_bridge.png"
    assert picture.read_bytes()[:8] == b"\x89PNG\r\n\x1a\n"
