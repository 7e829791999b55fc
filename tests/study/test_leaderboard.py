"""A new solver beside the stored results of the standard study."""

from __future__ import annotations

import dataclasses
from collections import Counter

import numpy as np
import pytest

from cdopt.study import Results, leaderboard


@pytest.fixture(scope="module")
def stored() -> Results:
    return leaderboard.stored()


def test_the_stored_study_is_whole(stored: Results) -> None:
    runs = stored.plain
    assert len(runs) == runs["question"].nunique() * runs["solver"].nunique() == 16 * 12
    plan = leaderboard.plan_of(["mine"], ["mine.py:factory"], repeats=1)
    assert {run.problem for run in plan.runs} == {r.run.problem for r in stored.records}
    names = Counter(run.backend for run in plan.runs)
    assert names == dict.fromkeys(("mine", *leaderboard.REFERENCES), 16)


def test_stored_times_are_in_the_pace_of_the_references(stored: Results) -> None:
    """Here all takes three times as long: who was the fastest remains it."""

    def slower(record):
        times = tuple(dataclasses.replace(time, total=3.0 * time.total) for time in record.times)
        return dataclasses.replace(record, times=times)

    here = [slower(r) for r in stored.records if r.run.backend in leaderboard.REFERENCES]
    both = leaderboard.beside(here).plain.sort_values(["question", "solver"])
    then = stored.plain.sort_values(["question", "solver"])
    assert len(both) == len(then)
    np.testing.assert_allclose(both["seconds"], 3.0 * then["seconds"], rtol=1e-12)


def test_wins_and_false_claims(stored: Results) -> None:
    """HiGHS's answers under another name, a million times as fast."""

    def as_mine(record):
        faster = tuple(
            dataclasses.replace(times, total=1e-6 * times.total) for times in record.times
        )
        run = dataclasses.replace(record.run, backend="mine")
        return dataclasses.replace(record, id=run.id, run=run, times=faster)

    highs = [record for record in stored.records if record.run.backend == "highs"]
    both = Results.of([*stored.records, *map(as_mine, highs)])
    standing, wins = leaderboard.tables(both, ["mine"])
    (mine,) = [row for row in standing.rows if row[0] == "mine (new)"]
    verdicts = [row[3] for row in wins.rows]
    solved = sum(record.outcome == "solved" for record in highs)
    false = sum(r.outcome == "wrong" and not r.answer.near for r in highs)
    assert solved > 0 < false
    assert mine[1:5] == (16, solved, false, solved)
    assert (verdicts.count("wins"), verdicts.count("claims falsely")) == (solved, false)
