"""``cdopt compare``: today's table of one step, and studies that go on where they were stopped."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from typer.testing import CliRunner

from cdopt.cli.main import app
from cdopt.study.runs import Plan, conduct, read
from cdopt.study.runs.store import FILE

runner = CliRunner()


def run(*words: str):
    return runner.invoke(app, ["compare", *words])


def test_one_problem_gives_one_table() -> None:
    found = run("beam-uniform", "--solvers", "newton,osqp")
    assert found.exit_code == 0, found.output
    assert "newton" in found.stdout
    assert "compatible" in found.stdout
    assert "contact forces" in found.stdout


def test_one_table_as_json_is_that_of_solve() -> None:
    found = json.loads(run("beam-uniform", "--solvers", "newton,osqp", "--json").stdout)
    assert [s["label"] for s in found["solutions"]] == ["newton", "osqp"]
    assert found["compatible"]["ok"]


@pytest.mark.parametrize(
    "words",
    [
        ("fan",), ("beam-uniform", "tripod"), ("beam-uniform", "--tolerances", "1e-6"),
        ("no-such", "--out", "OUT"), ("beam-uniform", "--solvers", "no-such", "--out", "OUT"),
        ("beam-uniform", "--tolerances", "tight", "--out", "OUT"),
        ("beam-uniform", "--seeds", "one", "--out", "OUT"),
        ("beam-uniform", "--modes", "hot", "--out", "OUT"),
        ("beam-uniform", "--repeat", "0", "--out", "OUT"),
        ("beam-uniform", "--time-limit", "-1", "--out", "OUT"),
    ],
)  # fmt: skip
def test_bad_words_are_one_line_and_leave_no_file(words, tmp_path) -> None:
    out = tmp_path / "study"
    found = run(*(str(out) if word == "OUT" else word for word in words))
    assert found.exit_code == 1
    assert found.stderr.count("\n") == 1
    assert found.stderr.startswith("error: ")
    assert not out.exists()


def test_a_study_is_kept_shown_and_not_made_twice(tmp_path) -> None:
    words = ["beam-uniform", "--solvers", "newton", "--tolerances", "default,1e-9", "--repeat", "1",
             "--out", str(tmp_path)]  # fmt: skip
    found = run(*words)
    assert found.exit_code == 0, found.output
    assert "2 of 2 runs" in found.stdout
    assert "solved 1" in found.stdout
    assert found.stderr.splitlines()[-1].startswith("run 2 of 2: beam-uniform classic-force newton")
    again = run(*words, "--json", "--quiet")
    assert again.stderr == ""
    content = json.loads(again.stdout)
    assert content["made"] == 0
    assert [r["run"]["tolerance"] for r in content["records"]] == [None, 1e-9]
    assert content["records"][0]["machine"]["versions"]["osqp"]
    assert [r.outcome for r in read(tmp_path)] == ["solved", "solved"]


@pytest.mark.skipif(sys.platform == "win32", reason="signals")
@pytest.mark.slow
@pytest.mark.parametrize(("how", "code"), [(signal.SIGINT, 130), (signal.SIGKILL, -9)])
def test_a_study_that_is_stopped_goes_on(tmp_path, how: signal.Signals, code: int) -> None:
    names = ["newton", "osqp", "clarabel"]
    command = [sys.executable, "-m", "cdopt", "compare", "beam-uniform", "--solvers",
               ",".join(names), "--tolerances", "default", "--repeat", "1", "--quiet",
               "--out", str(tmp_path)]  # fmt: skip
    before = signal.signal(signal.SIGINT, signal.SIG_DFL)  # a child of nohup would ignore it
    study = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    signal.signal(signal.SIGINT, before)
    file = tmp_path / FILE
    waited(lambda: file.exists() and file.stat().st_size > 0)
    os.kill(study.pid, how)
    _, errors = study.communicate(timeout=60)
    assert study.returncode == code, errors.decode()
    if how == signal.SIGINT:
        assert b"go on: the same command again" in errors
    kept = read(tmp_path)
    assert 1 <= len(kept) < 3
    done = conduct(Plan(["beam-uniform"], names, repeats=1), tmp_path)
    assert done.made == 3 - len(kept)
    assert [r.run.backend for r in done.records] == names
    assert done.records[: len(kept)] == tuple(kept)
    assert len(file.read_bytes().splitlines()) == 3


def waited(condition) -> None:
    for _ in range(1200):
        if condition():
            return
        time.sleep(0.05)
    raise TimeoutError(condition)


def test_help_names_every_way() -> None:
    text = " ".join(run("--help").stdout.split())
    for word in ("--tolerances", "--time-limit", "--dask", "--plugin", "--modes"):
        assert word in text
    assert Path("runs.jsonl").name == FILE
