"""A new solver compared with the stored results of the standard study."""

from __future__ import annotations

import dataclasses
from collections import Counter

import numpy as np
import pytest

from cdopt.study import Results, leaderboard
from cdopt.study.record import Record


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
    assert {plan.time_limit} == {record.time_limit for record in stored.records}


def test_stored_times_are_in_the_pace_of_the_references(stored: Results) -> None:
    """Here all takes three times as long: who was the fastest remains it."""

    def slower(record):
        times = tuple(dataclasses.replace(time, total=3.0 * time.total) for time in record.times)
        return dataclasses.replace(record, times=times)

    here = [slower(r) for r in stored.records if r.run.backend in leaderboard.REFERENCES]
    both = leaderboard.compared(here).plain.sort_values(["question", "solver"])
    then = stored.plain.sort_values(["question", "solver"])
    assert len(both) == len(then)
    np.testing.assert_allclose(both["seconds"], 3.0 * then["seconds"], rtol=1e-12)
    others = ~both["solver"].isin(leaderboard.REFERENCES)
    np.testing.assert_allclose(both["time_limit"][others], 60.0, rtol=1e-12)


def renamed(record: Record, name: str, outcome: str | None = None, pace: float = 1.0) -> Record:
    """A stored record as that of another solver."""
    times = tuple(dataclasses.replace(times, total=pace * times.total) for times in record.times)
    run = dataclasses.replace(record.run, backend=name)
    answer = record.answer
    if outcome == "wrong":
        answer = dataclasses.replace(answer, claimed=True, ok=False, worst=1.0)
    fields = {
        "id": run.id,
        "run": run,
        "times": times,
        "outcome": outcome or record.outcome,
        "answer": answer,
    }
    return dataclasses.replace(record, **fields)


def test_wins_and_false_claims(stored: Results) -> None:
    """HiGHS's answers under another name, a million times as fast."""
    highs = [record for record in stored.records if record.run.backend == "highs"]
    mine = [renamed(record, "mine", pace=1e-6) for record in highs]
    standing, wins = leaderboard.tables(Results.of([*stored.records, *mine]), ["mine"])
    (mine,) = [row for row in standing.rows if row[0] == "mine (new)"]
    verdicts = [row[3] for row in wins.rows]
    solved = sum(record.outcome == "solved" for record in highs)
    false = sum(r.outcome == "wrong" and not r.answer.near for r in highs)
    assert solved > 0 < false
    assert mine[1:5] == (16, solved, false, solved)
    assert (verdicts.count("wins"), verdicts.count("claims falsely")) == (solved, false)


def test_each_new_solver_has_its_verdict(stored: Results) -> None:
    """A liar and a solver that wins, of one plugin, in both orders."""
    newton = [record for record in stored.records if record.run.backend == "newton"]
    liar = [renamed(record, "liar", "wrong") for record in newton]
    quick = [renamed(record, "quick", pace=1e-6) for record in newton]
    solved = sum(record.outcome == "solved" for record in newton)
    for new in ([*liar, *quick], [*quick, *liar]):
        results = Results.of([*stored.records, *new])
        said = dict(leaderboard.verdicts(leaderboard.tables(results, ["liar", "quick"])[1]))
        assert said["quick"] == f"wins on {solved} of 16 problems"
        assert said["liar"].startswith("wins on 0 of 16 problems; claims falsely")
        assert said["liar"].endswith("on all")


def test_a_new_solver_wins_only_where_no_other_new_one_is_faster(stored: Results) -> None:
    newton = [record for record in stored.records if record.run.backend == "newton"]
    new = [renamed(r, "first", pace=1e-6) for r in newton]
    new += [renamed(r, "second", pace=1e-7) for r in newton]
    tables = leaderboard.tables(Results.of([*stored.records, *new]), ["first", "second"])
    said = dict(leaderboard.verdicts(tables[1]))
    assert said["first"] == "wins on 0 of 16 problems"
    assert said["second"] != said["first"]
