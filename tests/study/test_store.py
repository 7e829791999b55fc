"""Runs by their identifiers, plans, and the file of a study: what is kept, what is repeated."""

from __future__ import annotations

import dataclasses
import errno
import os
import shutil
from concurrent.futures import Executor, Future

import numpy as np
import pytest
from conftest import beam
from made_records import record as made_up

import cdopt
from cdopt import InvalidInput
from cdopt.study import Plan, ProblemSource, Record, StudyRun, problems, read, run
from cdopt.study.record import FILE, Times, opened, parse

RUN = StudyRun(ProblemSource("beam-uniform"), "classic-force", "osqp", 1e-6)
PLAN = Plan(["beam-uniform", "tripod"], ["newton", "osqp"], tolerances=[None, 1e-6])


def record(settings: StudyRun = RUN, outcome: str = "solved", **changes) -> Record:
    """A record as if the run had been made."""
    full = made_up(settings.problem.source, settings.backend, outcome)
    return dataclasses.replace(full, run=settings, id=settings.id, **changes)


class Canned(Executor):
    """Gives records without making runs, and remembers what it was asked for."""

    def __init__(self, outcome: str = "solved", lose: str = "") -> None:
        self.asked: list[str] = []
        self.outcome = outcome
        self.lose = lose

    def submit(self, function, settings, time_limit, memory_limit):
        self.asked.append(settings.id)
        future: Future = Future()
        if settings.backend == self.lose:
            future.set_exception(RuntimeError("the worker is gone"))
        else:
            limits = {"time_limit": time_limit, "memory_limit": memory_limit}
            future.set_result(record(settings, self.outcome, **limits))
        return future


def repeated(folder, plan: Plan = PLAN) -> list[str]:
    """Identifiers of the runs that are made when a study is continued."""
    executor = Canned()
    done = run(plan, folder, executor)
    assert done.made == len(executor.asked)
    return executor.asked


@pytest.fixture
def study(tmp_path):
    """The folder of a study of eight runs."""
    done = run(PLAN, tmp_path, Canned())
    assert repr(done) == "Study(8 runs: 8 solved; 8 made now)"
    assert [r.id for r in done.records] == [one.id for one in PLAN.runs]
    return tmp_path


# --- identifiers and plans ---------------------------------------------------------------


def test_an_identifier_is_the_same_everywhere() -> None:
    assert RUN.id == "6b4662baae0d41c0"
    whole, real = (ProblemSource("beam-uniform", power=power) for power in (2, 2.0))
    equal = StudyRun(whole, "compatible", "osqp", tolerance=np.float64(1.0))
    assert equal.id == StudyRun(real, "compatible", "osqp", 1).id


@pytest.mark.parametrize(
    "change",
    [
        {"problem": ProblemSource("tripod")}, {"problem": ProblemSource("beam-uniform", power=2.5)},
        {"formulation": "compatible"}, {"backend": "scs"}, {"tolerance": None},
        {"tolerance": 1e-7}, {"mode": "warm"}, {"call": "direct"}, {"seed": 0}, {"repeats": 4},
        {"threads": 1}, {"plugins": ("module:factory",)}, {"code": "0123"},
        {"reference_backend": "clarabel"},
    ],
)  # fmt: skip
def test_whatever_defines_a_run_is_in_its_identifier(change) -> None:
    assert dataclasses.replace(RUN, **change).id != RUN.id


def test_a_file_is_known_by_its_content_not_by_its_path(tmp_path) -> None:
    here, there = tmp_path / "a.npz", tmp_path / "elsewhere.npz"
    beam().save(here)
    shutil.copy(here, there)
    first, second = (StudyRun(problems(path)[0], "classic-force", "osqp") for path in (here, there))
    assert first.id == second.id
    (planned,) = problems(there)
    beam().replace(dt=2e-3).save(there)
    assert StudyRun(problems(there)[0], "classic-force", "osqp").id != first.id
    with pytest.raises(InvalidInput, match="another content"):
        planned.load()


@pytest.mark.parametrize(
    ("name", "value"),
    [("formulation", "truss"), ("mode", "hot"), ("call", "c"), ("tolerance", 0.0), ("repeats", 0),
     ("repeats", True), ("threads", 0), ("seed", -1), ("seed", 0.5)],
)  # fmt: skip
def test_bad_settings_of_a_run(name: str, value) -> None:
    with pytest.raises(InvalidInput, match=name):
        dataclasses.replace(RUN, **{name: value})


def test_a_plan_has_every_combination_once() -> None:
    plan = Plan(
        ["beam-uniform", "tripod", " beam-uniform "], ["newton", "osqp"],
        formulations=["classic-force", "compatible"], tolerances=[None, 1e-6, 1e-9],
        modes=["cold", "warm"], calls=["cvxpy", "direct"], seeds=[None, 1],
    )  # fmt: skip
    assert len({one.id for one in plan.runs}) == len(plan.runs) == 2 * 2 * 2 * 3 * 2 * 2 * 2


@pytest.mark.parametrize(
    ("name", "value"),
    [("problems", []), ("problems", "beam-uniform"), ("problems", ["no-such"]),
     ("problems", ["gone.npz"]), ("backends", ["no-such"]), ("backends", "osqp"),
     ("formulations", ["truss"]), ("modes", []), ("time_limit", 0.0), ("memory_limit", -1.0),
     ("tolerances", [2.0]), ("plugins", "module:factory"), ("plugins", [1]), ("plugins", [""]),
     ("backends", ["lie"]), ("reference_backend", "no-such")],
)  # fmt: skip
def test_a_bad_plan_is_refused_before_anything_runs(name: str, value) -> None:
    with pytest.raises(InvalidInput):
        Plan(**{"problems": ["beam-uniform"], "backends": ["osqp"], name: value})


# --- records and their file --------------------------------------------------------------


def test_a_line_gives_back_its_record() -> None:
    times = tuple(Times(0.0, 0.0, 0.0, 0.0, 0.0, total) for total in (5.0, 1.0, 2.0))
    full = record(times=times)
    line = full.line()
    assert line.count(b"\n") == line.endswith(b"\n") == 1
    assert parse(line) == full
    medians = full.seconds, record(times=times[:2]).seconds, record(times=()).seconds
    assert medians == (2.0, 3.0, None)
    assert [parse(other) for other in (b"", b"{}", b"nonsense", b"[1]")] == [None] * 4


def test_finished_runs_are_not_repeated_and_a_larger_plan_adds_new_ones(study) -> None:
    assert repeated(study) == []
    larger = dataclasses.replace(PLAN, tolerances=[None, 1e-6, 1e-9])
    assert len(repeated(study, larger)) == 4
    assert len(read(study)) == 12


def test_a_half_written_line_is_repeated(study) -> None:
    file = study / FILE
    whole = file.read_bytes()
    file.write_bytes(whole[:-20])
    assert len(read(study)) == 7
    assert repeated(study) == [parse(whole.splitlines()[-1]).id]
    assert file.read_bytes().count(b"\n") == len(read(study)) == 8
    file.write_bytes(record().line()[:300])  # not even the first line was finished
    assert read(study) == []
    assert len(repeated(study)) == 8


def test_one_damaged_byte_costs_one_run(study, caplog) -> None:
    file = study / FILE
    whole = file.read_bytes().splitlines(keepends=True)
    lost = parse(whole[3]).id
    for position in (0, 9, 30, 500, -60, -2):
        lines = [bytearray(line) for line in whole]
        lines[3][position] ^= 1
        file.write_bytes(b"".join(lines))
        assert lost not in {r.id for r in read(study)}
        assert "line 4" in caplog.text
        caplog.clear()
    assert repeated(study) == [lost]
    assert len(read(study)) == 8


def test_text_that_others_added_to_a_study_stays(study) -> None:
    file = study / FILE
    whole = file.read_bytes() + b"a note"
    file.write_bytes(whole)
    assert repeated(study) == []
    assert len(read(study)) == 8
    assert file.read_bytes() == whole + b"\n"


def test_files_that_are_no_study_are_left_alone(tmp_path) -> None:
    notes, line = tmp_path / "notes.jsonl", record().line()
    nothing, old = "no records of runs", record(schema=2).line()
    texts = [b"my notes\nof today", b'{"id": 1}\n{"id"', b"\xff\x00" * 99, line[1:], b"x" + line]
    for text, said in (*((text, nothing) for text in texts), (old, "layout 2.*another version")):
        notes.write_bytes(text)
        for use in (read, lambda place: run(PLAN, place, Canned())):
            with pytest.raises(InvalidInput, match=said):
                use(notes)
        assert notes.read_bytes() == text
    os.mkfifo(tmp_path / "fifo.jsonl")
    with pytest.raises(InvalidInput, match="no regular file"):
        read(tmp_path / "fifo.jsonl")
    for path in ("/dev/null/study", 3):
        with pytest.raises(InvalidInput, match=r"out|path"):
            run(PLAN, path, Canned())


def test_a_full_disk_is_reported_and_the_records_before_it_are_kept(study, monkeypatch) -> None:
    whole, real = (study / FILE).read_bytes(), os.write

    def half(handle: int, content: bytes) -> int:
        if len(content) > 50:
            return real(handle, content[:50])
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "write", half)
    with pytest.raises(cdopt.SaveFailed, match="No space left"):
        run(dataclasses.replace(PLAN, tolerances=[1e-9]), study, Canned())
    assert (study / FILE).read_bytes() == whole


@pytest.mark.parametrize(
    ("outcome", "changes", "made"),
    [
        ("timeout", {"time_limit": 61.0}, 8),
        ("timeout", {"time_limit": 5.0, "memory_limit": 2e4}, 0),
        ("solved", {"time_limit": 61.0}, 0),
        ("crash", {"time_limit": 61.0}, 0),
        ("memory", {"memory_limit": 2e4}, 8),
        ("memory", {"memory_limit": 5e3}, 0),
        ("interrupted", {}, 8),
        ("error", {}, 8),
    ],
)
def test_a_higher_limit_repeats_only_runs_that_it_may_change(
    tmp_path, outcome: str, changes, made: int
) -> None:
    plan = dataclasses.replace(PLAN, memory_limit=1e4)
    run(plan, tmp_path, Canned(outcome))
    assert len(repeated(tmp_path, dataclasses.replace(plan, **changes))) == made
    assert [r.outcome for r in read(tmp_path)] == ["solved" if made else outcome] * 8


def test_runs_that_an_executor_loses_are_named_and_repeated(tmp_path) -> None:
    done = run(PLAN, tmp_path, Canned(lose="osqp"))
    lost = {one.id for one in PLAN.runs if one.backend == "osqp"}
    assert set(done.lost) == lost
    assert "the worker is gone" in next(iter(done.lost.values()))
    assert {r.run.backend for r in read(tmp_path)} == {"newton"}
    assert set(repeated(tmp_path)) == lost


def test_one_study_writes_at_a_time(tmp_path) -> None:
    pytest.importorskip("fcntl")
    with opened(tmp_path), pytest.raises(InvalidInput, match="another study"):
        run(PLAN, tmp_path, Canned())


def test_progress_names_each_run() -> None:
    calls: list[tuple[int, int, str]] = []
    run(PLAN, executor=Canned(), progress=lambda *words: calls.append(words))
    assert [(done, total) for done, total, _ in calls] == [(k, 8) for k in range(9)]
    assert calls[-1][2].endswith(": solved")
