"""Solvers that crash, hang, eat memory or lie: each is a record, and the study goes on."""

from __future__ import annotations

import operator
import os
import re
import shutil
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import misbehaving
import pytest

from cdopt import InvalidInput
from cdopt._util import processes
from cdopt.study import Plan, Record, Results, read, run
from cdopt.study.measure import makers
from cdopt.study.runner import make, prepare

pytestmark = pytest.mark.slow  # a process for every run

PLUGIN = f"{misbehaving.__file__}:factory"
posix = pytest.mark.skipif(sys.platform == "win32", reason="signals and groups of processes")
linux = pytest.mark.skipif(sys.platform != "linux", reason="copies, and a limit of memory")
# outcome, what the message says, exit code and signal
ENDS = {
    "newton": ("solved", "", 0, None),
    "crash": ("crash", "ended by SIGSEGV: solve", None, 11),
    "leave": ("crash", "ended with code 3: solve", 3, None),
    "starve": ("memory", "SIGABRT", None, 6),
    "fail": ("error", "ZeroDivisionError: one by nothing", 0, None),
    "lie": ("wrong", "", 0, None),
    "give_up": ("gave up", "", 0, None),
    "say_nan": ("wrong", "", 0, None),
    "chatter": ("solved", "", 0, None),  # what a solver prints is no answer
    "drift": ("solved", "", 0, None),
    "pgs": ("solved", "", 0, None),
}


def plan(*names: str, **settings) -> Plan:
    """Misbehaving solvers on the uniform beam."""
    return Plan(["beam-uniform"], names, plugins=[PLUGIN], **settings)


def one(name: str, time_limit: float = 60.0, memory_limit: float | None = None, **settings):
    """The record of one of them."""
    (single,) = plan(name, **settings).runs
    return make(single, time_limit, memory_limit)


@pytest.fixture(scope="module")
def ended(tmp_path_factory) -> dict[str, Record]:
    """One study of them all, each between two that behave."""
    out = tmp_path_factory.mktemp("study")
    done = run(plan(*ENDS), out)
    assert done.made == len(ENDS)
    assert read(out) == list(done.records)
    return {record.run.backend: record for record in done.records}


@posix
@pytest.mark.parametrize("name", ENDS)
def test_every_end_is_a_record(ended, name: str) -> None:
    outcome, message, code, signal = ENDS[name]
    result = ended[name]
    assert (result.outcome, result.ended.code, result.ended.signal) == (outcome, code, signal)
    assert re.search(message, result.message)
    assert result.ended.stage == ("" if code == 0 else "solve")
    assert (result.answer is None) == (outcome in ("crash", "memory", "error"))
    assert len(result.times) == (3 if result.answer else 0)
    assert bool(result.ended.stderr) == (
        outcome in ("crash", "memory", "error") and name != "leave"
    )


@posix
def test_what_the_records_say_of_answers_and_places(ended) -> None:
    assert 'misbehaving.py", line' in ended["crash"].ended.stderr  # by the fault handler
    assert "Traceback" in ended["fail"].ended.stderr
    assert {name: r.answer.honest for name, r in ended.items() if r.answer} == {
        name: outcome != "wrong" for name, (outcome, *_) in ENDS.items() if ended[name].answer
    }
    assert ended["say_nan"].answer.worst is None
    assert ended["lie"].answer.worst > 0.1
    assert ended["give_up"].answer.status == "no progress"


def test_differences_of_repeats_are_measured(ended) -> None:
    result = ended["drift"]  # middle forces 10/3 + 1, + 2, + 3
    assert result.stability.identical is False
    assert result.stability.repeats == pytest.approx(2.0 / (10.0 / 3.0 + 1.0), rel=1e-6)
    assert result.forces.largest == pytest.approx(10.0 / 3.0 + 3.0, rel=1e-6)
    assert result.forces.positions == pytest.approx([11 / 30, 19 / 30, 11 / 30], rel=1e-5)
    assert ended["newton"].stability.identical is True
    assert ended["newton"].stability.repeats == 0.0


@posix
def test_a_kill_from_outside_is_no_crash_and_made_again(tmp_path) -> None:
    asked = plan("end_from_outside", repeats=1)
    (result,) = run(asked, tmp_path).records
    assert result.outcome == "interrupted"
    assert result.message == "ended by SIGTERM from outside: solve"
    assert run(asked, tmp_path).made == 1


def test_nothing_is_imported_from_the_working_folder(tmp_path, monkeypatch) -> None:
    for name in ("numpy", "scipy", "msgspec", "solver_of_mine"):
        (tmp_path / f"{name}.py").write_text("raise SystemExit('imported')")
    shutil.copy(misbehaving.__file__, tmp_path / "mine.py")
    monkeypatch.chdir(tmp_path)
    processes._end_all()  # a new server starts here
    (single,) = Plan(["beam-uniform"], ["chatter"], plugins=["mine.py:factory"], repeats=1).runs
    assert make(single).outcome == "solved"
    (single,) = Plan(["beam-uniform"], ["x"], plugins=["solver_of_mine:factory"], repeats=1).runs
    result = make(single)
    assert result.outcome == "error"
    assert "by its path" in result.message


def test_a_hang_is_ended_at_its_limit_and_all_that_it_started(tmp_path, monkeypatch) -> None:
    pids = tmp_path / "pid"
    monkeypatch.setenv(misbehaving.PIDS, str(pids))
    result = one("parent", time_limit=1.0)
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
    result = one("hog", memory_limit=1500.0)
    assert (result.outcome, result.memory_limit) == ("memory", 1500.0)
    assert result.ended.stage in ("solve", "")


def test_threads_are_those_asked_for() -> None:
    assert one("count", threads=1, repeats=1).answer.status == "1 of numba"


@posix
def test_an_answer_is_not_lost_to_what_went_wrong_after_it() -> None:
    result = one("crash_later", repeats=1, seeds=[1])
    assert result.outcome == "solved"
    assert result.message == "unfinished: ended by SIGSEGV: own order"
    assert (result.ended.signal, result.ended.stage) == (11, "own order")
    assert len(result.times) == 1
    assert result.stability.order is None


@posix
def test_runs_side_by_side_by_threads() -> None:
    names = ["newton", "crash", "lie", "pgs"]
    with ThreadPoolExecutor(2) as executor:
        done = run(plan(*names, repeats=1), executor=executor)
    assert [(r.run.backend, r.outcome) for r in done.records] == [
        (name, ENDS[name][0]) for name in names
    ]


@linux
def test_runs_are_copies_of_one_process_until_that_ends(monkeypatch) -> None:
    assert one("chatter", repeats=1).outcome == "solved"
    first = processes._SERVERS[prepare]
    monkeypatch.setenv(misbehaving.PIDS, "of another run")  # copies have the environment of now
    assert one("chatter", repeats=1).outcome == "solved"
    assert processes._SERVERS[prepare] is first
    first._process.kill()
    first._process.wait()
    assert one("chatter", repeats=1).outcome == "solved"
    assert processes._SERVERS[prepare] is not first


@posix
def test_a_process_to_which_nobody_listens_ends_without_a_word() -> None:
    with tempfile.TemporaryFile() as errors:
        worker = processes.Worker(prepare, errors)
        worker.start(60.0)
        worker._process.stdout.close()
        worker.call(operator.call, bytes(1_000_000))  # more than a pipe takes
        assert worker._process.wait(60.0) == 0
        worker._process.stdin.close()
        time.sleep(0.5)
        assert errors.seek(0, os.SEEK_END) == 0


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


def test_an_edited_plugin_is_run_again_and_that_is_told(tmp_path, caplog) -> None:
    """The plugin's file, and one that it imports from next to it; newton stays."""
    path, sibling = tmp_path / "mine.py", tmp_path / "settings_of_mine.py"
    sibling.write_text("sweeps = 7\n")
    path.write_text(
        "import cdopt\nfrom settings_of_mine import sweeps\n\n\ndef factory():\n"
        "    return {'mine': lambda accuracy: cdopt.backends.PGS(max_sweeps=sweeps)}\n"
    )
    plan_of_mine = Plan(["supports"], ["mine", "newton"], plugins=[f"{path}:factory"], repeats=1)
    out = tmp_path / "study"
    first = run(plan_of_mine, out)
    assert (first.made, run(plan_of_mine, out).made, caplog.text) == (2, 0, "")
    sibling.write_text("sweeps = 9\n")
    again = run(plan_of_mine, out)
    assert again.made == 1
    assert "mine changed: 1 run made again" in caplog.text
    assert [len(read(out)), len(Results.read(out).records)] == [3, 2]
    settings = [r.answer.settings.get("max_sweeps") for r in Results.read(out).records]
    assert settings == [9, None]


def test_a_plugin_without_a_factory_names_what_would_do(tmp_path: Path) -> None:
    path = tmp_path / "mine.py"
    path.write_text(
        "def one(P, q, G, h, A, b, lb, ub):\n    return q\n\ndef other(x):\n    return x\n"
    )
    with pytest.raises(InvalidInput, match=r"a factory or \S*mine\.py:one$"):
        makers([f"{path}:factory"])
