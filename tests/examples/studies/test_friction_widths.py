"""The study of what friction leaves undetermined in packings."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import pytest
from studies import friction_widths


@pytest.mark.slow
def test_the_study(tmp_path: Path) -> None:
    """Nothing is free without friction; in one packing all widths grow with μ; counts agree."""
    rows = friction_widths.measure((0.0, 0.1, 0.4), discs=10, draws=200)
    assert len(rows) == 6
    for row in rows:
        assert row.dimension >= row.counted
        if row.mu == 0.0:
            assert row.dimension == row.counted == 0
            assert row.width <= 1e-9
            assert row.fluctuation == 0.0
    one = [row for row in rows if row.kind == "one packing"]
    assert all(row.dimension == row.counted for row in one)
    for less, more in pairwise(one):
        assert more.width > less.width
        assert more.fluctuation > less.fluctuation
    assert "fluctuation" in friction_widths.table(rows)
    friction_widths.picture(rows).savefig(tmp_path / "widths.png")
