"""The guide's table of four laws: MuJoCo's is MuJoCo's, and the numbers are measured."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("mujoco", reason="pip install mujoco")

import mujoco
from studies import which_law

import cdopt

PAGE = Path(__file__).parents[3] / "docs" / "which-law.md"


def test_mujocos_law_is_mujocos():
    """A ball that does not turn on a plane, overlapping and sliding."""
    model = mujoco.MjModel.from_xml_string("""
        <mujoco><option timestep="1e-3" cone="elliptic" gravity="0 0 -9.81" tolerance="0"/>
          <worldbody><geom type="plane" size="9 9 1" friction=".5"/>
            <body pos="0 0 .1"><joint type="slide" axis="1 0 0"/><joint type="slide" axis="0 0 1"/>
              <geom type="sphere" size=".1" mass="1" friction=".5"/></body></worldbody></mujoco>""")
    for depth, speed in ((3e-4, 1.0), (2e-3, 0.001), (1e-5, 0.3)):
        data = mujoco.MjData(model)
        data.qpos[1], data.qvel[:] = -depth, [speed, -0.02]
        mujoco.mj_forward(model, data)
        network = which_law.box(speed=speed, gap=-depth)
        network.v[1] = -0.02
        v_next, f, f_t = which_law.mujoco(network)
        sliding = np.linalg.norm(data.efc_force[1:3])
        np.testing.assert_allclose([f[0], abs(f_t[0, 0])], [data.efc_force[0], sliding], rtol=1e-9)
        np.testing.assert_allclose(v_next, data.qvel + 1e-3 * data.qacc, atol=1e-12)


def test_a_body_that_does_not_touch_is_braked_by_the_associated_law_alone():
    found = {name: which_law.hovering(law) for name, law in which_law.LAWS.items()}
    assert [name for name, force in found.items() if force > 0.0] == ["associated"]
    assert which_law.shown(found["associated"]) in line("0.2 mm above the floor")


def line(words: str) -> list[str]:
    """The cells of the row of the page's table with these words."""
    [row] = [row for row in PAGE.read_text(encoding="utf-8").splitlines() if words in row[:60]]
    return [cell.strip() for cell in row.strip("|").split("|")[1:]]


@pytest.mark.slow
def test_the_table_of_the_guide_is_measured():
    rows = [
        row for row in PAGE.read_text(encoding="utf-8").splitlines()
        if row.startswith(("| box", "| wheel", "| robot", "| pile"))
    ]  # fmt: skip
    found = [values for system in which_law.SYSTEMS for _, values in which_law.measured(system)]
    assert len(rows) == len(found)
    for row, values in zip(rows, found, strict=True):
        stated = [float(cell) for cell in row.strip("|").split("|")[1:]]
        first = 2 if "one of many" in row else 0  # which of them depends on the processor
        np.testing.assert_allclose(values[first:], stated[first:], rtol=0.05, atol=1e-6)
    bounds = cdopt.indeterminacy(which_law.pile().step(), law="coulomb")
    largest, without = found[-2][:2], found[-1][:2]
    assert max(largest) * which_law.G <= bounds.upper.max()
    assert min(largest) * which_law.G >= bounds.lower.max()
    assert max(without) <= np.sum(bounds.lower <= 1e-6 * which_law.G)
