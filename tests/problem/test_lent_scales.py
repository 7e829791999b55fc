"""What the campaign of lent scales finds in few problems: no exact answer is refused."""

from __future__ import annotations

from campaigns import lent_scales


def test_exact_answers_of_hard_families_are_certified_and_wrong_ones_are_not() -> None:
    """``python -m tests.campaigns lent_scales --count 2000`` is the long run."""
    table = lent_scales.run(30, seed=5)
    for family in ("fast_beside_slow", "near_duplicates", "unconnected", "thin_wedges"):
        assert table[f"{family}: exact refused"] == 0
        assert table[f"{family}: not ok"] > 0  # answers of which most are wrong
    for family in ("fast_beside_slow", "unconnected", "large_mu", "idle_bodies"):
        assert table[f"{family}: false ok"] == 0
    assert table["other residual in a moving frame"] == 0
    assert table["false infeasible"] == 0
