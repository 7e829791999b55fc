"""The study of collapsing columns."""

from __future__ import annotations

from pathlib import Path

import pytest
from studies import column_collapse


@pytest.mark.slow
def test_a_column_without_its_gate_spreads_and_every_step_is_certified(tmp_path: Path) -> None:
    column = column_collapse.settled(30, aspect=2.0, dt=2e-3)
    assert 1.0 < column.aspect < 3.0
    result = column_collapse.collapse(column, duration=0.1, dt=2e-3)
    assert result.certified == (50, 50)
    assert result.runout > 0.1
    start, end = result.run[0].state.position, result.run.final.state.position
    assert end[:, 1].mean() < start[:, 1].mean()
    rolls, resists = (column_collapse.elastic(column, 0.1, rolling) for rolling in (0.0, 0.3))
    assert max(rolls.overlap, resists.overlap) < 0.01
    assert rolls.spread == pytest.approx(result.spread, abs=0.1)
    assert resists.spread < rolls.spread - 0.1
    column_collapse.profiles(result).savefig(tmp_path / "collapse.png")
    column_collapse.runouts([result, rolls, resists]).savefig(tmp_path / "runout.png")
