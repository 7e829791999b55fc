"""From the file of a profession to a verdict; one robot and one pile through four engines."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from professions import engines, grains, masonry, people

from cdopt.interop import siconos

WEIGHT = 12.2 * 9.81  # N, of the robot of the file


def test_an_arch_from_cad_stands_until_friction_is_too_low(tmp_path: Path) -> None:
    found = masonry.run(tmp_path)
    assert {mu: verdict.verdict for mu, verdict in found.items()} == {
        0.6: "stands", 0.2: "stands", 0.1: "stands", 0.05: "falls",
    }  # fmt: skip
    assert found[masonry.MU].step.nc == 4 * 8
    assert found[masonry.MU].limit.value > 0.6
    assert (tmp_path / "masonry.png").stat().st_size > 0


def test_a_pile_from_lammps_is_judged(tmp_path: Path) -> None:
    fine, spoilt = grains.run(tmp_path).values()
    assert fine.ok
    assert spoilt.verdict == "error of mechanics"
    assert spoilt.wrong_bodies.size == 1
    weights = 5 * 9.81
    held = fine.step.bodies[:, 0] < 9
    up = fine.step.contact_vectors(fine.forces[:, 0], fine.forces[:, 1:])[held, 2].sum()
    assert up == pytest.approx(weights, rel=1e-8)


def test_a_robot_from_its_description(tmp_path: Path) -> None:
    """Feet share the weight as they like; the two of one end have no choice."""
    for package in ("pinocchio", "mujoco"):
        pytest.importorskip(package, reason="a peer")
    from professions import robots

    report, audit = robots.run(tmp_path)
    total, rear = report.quantity("total"), report.quantity("rear feet")
    np.testing.assert_allclose([total.lower, total.upper], WEIGHT, rtol=1e-8)
    behind = 0.5 * WEIGHT - 10.0 * 9.81 * 0.06 / 0.5  # the load is 6 cm before the middle
    np.testing.assert_allclose([rear.lower, rear.upper], behind, rtol=1e-7)
    assert not report.unique.any()
    assert audit.ok


@pytest.mark.slow
def test_four_engines_differ_and_none_is_wrong(tmp_path: Path) -> None:
    """Equal determined resultants, other forces, each inside its certified interval."""
    for package in ("pinocchio", "mujoco", "pydrake"):
        pytest.importorskip(package, reason="a peer")
    if siconos.why_unavailable():
        pytest.skip(siconos.why_unavailable() or "")
    for found, weight in zip(engines.run(tmp_path), (WEIGHT, 5 * 9.81), strict=True):
        total = found.report.quantity("total")
        np.testing.assert_allclose([total.lower, total.upper], weight, rtol=1e-8)
        np.testing.assert_allclose(list(found.total.values()), weight, rtol=1e-5)
        assert all(audit.ok for audit in found.audits.values())
        assert all(
            n == f.size for n, f in zip(found.inside.values(), found.forces.values(), strict=True)
        )
        apart = np.ptp(list(found.forces.values()), axis=0).max()
        assert apart > 0.1 * max(f[:, 0].max() for f in found.forces.values())
    people.run(tmp_path)
    for name in ("engines", "people"):
        assert (tmp_path / f"{name}.png").stat().st_size > 0
