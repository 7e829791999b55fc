"""Solvers that crash, hang, eat memory or lie: each is a record, and the study goes on."""

from __future__ import annotations

import os
import shutil
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import misbehaving
import pytest

from cdopt import InvalidInput
from cdopt._util import processes
from cdopt.study import Plan, Record, read, run
from cdopt.study.measure import makers
from cdopt.study.runner import make, prepare

pytestmark = pytest.mark.slow  # a process for every run

PLUGIN = f"{misbehaving.__file__}:factory"
QUICK = ("crash", "leave", "starve", "fail", "lie", "give_up", "say_nan", "chatter", "drift")

posix = pytest.mark.skipif(sys.platform == "win32", reason="signals and groups of processes")
linux = pytest.mark.skipif(sys.platform != "linux", reason="a limit of memory that is kept")


def plan(*names: str, **settings) -> Plan:
    """Misbehaving solvers on the uniform beam."""
    return Plan(["beam-uniform"], names, plugins=[PLUGIN], **settings)


@pytest.fixture(scope="module")
def ended(tmp_path_factory) -> dict[str, Record]:
    """One study of them all, each between two that behave."""
    out = tmp_path_factory.mktemp("study")
    done = run(plan("newton", *QUICK, "pgs"), out)
    assert done.made == len(QUICK) + 2
    assert read(out) == list(done.records)
    return {record.run.backend: record for record in done.records}


def test_those_that_behave_are_solved(ended) -> None:
    for name in ("newton", "pgs"):
        assert ended[name].outcome == "solved"
        assert ended[name].ended.stage == ended[name].message == ended[name].ended.stderr == ""


@posix
def test_a_crash_is_reported_with_its_signal_and_place(ended) -> None:
    result = ended["crash"]
    assert (result.outcome, result.message) == ("crash", "ended by SIGSEGV: solve")
    assert (result.ended.code, result.ended.signal, result.ended.stage) == (None, 11, "solve")
    assert 'misbehaving.py", line' in result.ended.stderr  # where, by the fault handler
    assert result.answer is None
    assert result.times == ()
    assert (ended["leave"].outcome, ended["leave"].ended.code) == ("crash", 3)


@posix
def test_a_kill_from_outside_is_no_crash_and_made_again(tmp_path) -> None:
    asked = plan("end_from_outside", repeats=1)
    (result,) = run(asked, tmp_path).records
    assert result.outcome == "interrupted"
    assert result.message == "ended by SIGTERM from outside: solve"
    assert result.answer is None
    assert run(asked, tmp_path).made == 1


def test_nothing_is_imported_from_the_working_folder(tmp_path, monkeypatch) -> None:
    for name in ("numpy", "scipy", "msgspec", "solver_of_mine"):
        (tmp_path / f"{name}.py").write_text("raise SystemExit('imported')")
    shutil.copy(misbehaving.__file__, tmp_path / "mine.py")
    monkeypatch.chdir(tmp_path)
    (single,) = Plan(["beam-uniform"], ["chatter"], plugins=["mine.py:factory"], repeats=1).runs
    assert make(single).outcome == "solved"
    (single,) = Plan(["beam-uniform"], ["x"], plugins=["solver_of_mine:factory"], repeats=1).runs
    result = make(single)
    assert result.outcome == "error"
    assert "by its path" in result.message


@posix
def test_an_abort_for_want_of_memory_is_not_a_crash(ended) -> None:
    assert ended["starve"].outcome == "memory"
    assert "SIGABRT" in ended["starve"].message


def test_an_exception_is_reported(ended) -> None:
    result = ended["fail"]
    assert (result.outcome, result.message) == ("error", "ZeroDivisionError: one by nothing")
    assert "Traceback" in result.ended.stderr


def test_false_claims_are_wrong_answers_and_giving_up_is_honest(ended) -> None:
    for name in ("lie", "say_nan"):
        assert ended[name].outcome == "wrong"
        answer = ended[name].answer
        assert (answer.claimed, answer.ok, answer.honest) == (True, False, False)
    assert ended["say_nan"].answer.worst is None
    assert ended["lie"].answer.worst > 0.1
    result = ended["give_up"]
    assert (result.outcome, result.answer.status) == ("gave up", "no progress")
    assert result.answer.honest


def test_what_a_solver_prints_is_no_answer(ended) -> None:
    assert ended["chatter"].outcome == "solved"
    assert len(ended["chatter"].times) == 3


def test_differences_of_repeats_are_measured(ended) -> None:
    result = ended["drift"]  # middle forces 10/3 + 1, + 2, + 3
    assert result.outcome == "solved"
    assert result.stability.identical is False
    assert result.stability.repeats == pytest.approx(2.0 / (10.0 / 3.0 + 1.0), rel=1e-6)
    assert result.forces.largest == pytest.approx(10.0 / 3.0 + 3.0, rel=1e-6)
    assert result.forces.positions == pytest.approx([11 / 30, 19 / 30, 11 / 30], rel=1e-5)
    assert ended["newton"].stability.identical is True
    assert ended["newton"].stability.repeats == 0.0


def test_a_hang_is_ended_at_its_limit_and_all_that_it_started(tmp_path, monkeypatch) -> None:
    pids = tmp_path / "pid"
    monkeypatch.setenv(misbehaving.PIDS, str(pids))
    (single,) = plan("parent", time_limit=1.0).runs
    result = make(single, time_limit=1.0)
    assert (result.outcome, result.message) == ("timeout", "stopped after 1 s: solve")
    assert (result.ended.code, result.ended.signal, result.ended.stage) == (None, None, "solve")
    assert gone(int(pids.read_text()))


def gone(pid: int) -> bool:
    """Whether a process ends within some seconds; one that nobody has waited for has ended."""
    for _ in range(100):
        status = Path(f"/proc/{pid}/status")
        try:
            os.kill(pid, 0)
        except ProcessLookupError:
            return True
        if status.exists() and "State:\tZ" in status.read_text():
            return True
        time.sleep(0.1)
    return False


@linux
def test_a_memory_limit_is_kept() -> None:
    (single,) = plan("hog").runs
    result = make(single, time_limit=60.0, memory_limit=1500.0)
    assert result.outcome == "memory"
    assert result.memory_limit == 1500.0
    assert result.ended.stage in ("solve", "")


def test_threads_are_those_asked_for() -> None:
    (single,) = plan("count", threads=1, repeats=1).runs
    assert make(single).answer.status == "1 of numba"


@posix
def test_an_answer_is_not_lost_to_what_went_wrong_after_it() -> None:
    (single,) = plan("crash_later", repeats=1, seeds=[1]).runs
    result = make(single)
    assert result.outcome == "solved"
    assert result.message == "unfinished: ended by SIGSEGV: own order"
    assert (result.ended.signal, result.ended.stage) == (11, "own order")
    assert len(result.times) == 1
    assert result.stability.order is None


@posix
def test_runs_side_by_side_by_threads() -> None:
    side_by_side = plan("newton", "crash", "lie", "pgs", repeats=1)
    with ThreadPoolExecutor(2) as executor:
        done = run(side_by_side, executor=executor)
    assert [r.run.backend for r in done.records] == ["newton", "crash", "lie", "pgs"]
    assert [r.outcome for r in done.records] == ["solved", "crash", "wrong", "solved"]


def test_a_backend_of_a_plugin_is_known_nowhere_else() -> None:
    with pytest.raises(InvalidInput, match="lie"):
        Plan(["beam-uniform"], ["lie"])


@pytest.mark.parametrize("text", ["nothing", "no.such.module:factory", "gone.py:factory", ":f",
                                  "json:missing", "json:loads.py:x", "os:getcwd"])  # fmt: skip
def test_plugins_that_are_none_are_refused(text: str) -> None:
    with pytest.raises(InvalidInput, match="plugins"):
        makers([text])


def test_a_plugin_with_a_mistake_is_refused_before_the_first_run(tmp_path) -> None:
    path, out = tmp_path / "mine.py", tmp_path / "study"
    path.write_text("def factory():\n    return {'mine': lambda accuracy: Solver(accuracy)}\n")
    plan_of_mine = Plan(["beam-uniform"], ["mine"], plugins=[f"{path}:factory"])
    with pytest.raises(InvalidInput, match=r"NameError: name 'Solver'.*mine.py\", line 2"):
        run(plan_of_mine, out)
    assert not out.exists()


@linux
def test_runs_are_copies_of_one_process_until_that_ends(monkeypatch) -> None:
    (single,) = plan("chatter", repeats=1).runs
    assert make(single).outcome == "solved"
    first = processes._SERVERS[prepare]
    monkeypatch.setenv(misbehaving.PIDS, "of another run")  # copies have the environment of now
    assert make(single).outcome == "solved"
    assert processes._SERVERS[prepare] is first
    first._process.kill()
    first._process.wait()
    assert make(single).outcome == "solved"
    assert processes._SERVERS[prepare] is not first
