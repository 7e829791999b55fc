"""The study of collapsing columns."""

from __future__ import annotations

from pathlib import Path

import pytest
from studies import column_collapse


@pytest.mark.slow
def test_a_column_without_its_gate_spreads_and_every_step_is_certified(tmp_path: Path) -> None:
    result = column_collapse.collapse(30, aspect=2.0, duration=0.1, dt=2e-3)
    assert result.certified == (50, 50)
    assert 1.0 < result.aspect < 3.0
    assert result.runout > 0.1
    start, end = result.run[0].state.position, result.run.final.state.position
    assert end[:, 1].mean() < start[:, 1].mean()
    column_collapse.profiles(result).savefig(tmp_path / "collapse.png")
