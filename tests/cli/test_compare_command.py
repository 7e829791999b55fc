"""``cdopt compare`` and ``cdopt report``: studies that continue where they were stopped."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from command_line import refuses, run, run_json

from cdopt import study
from cdopt.study.record import FILE


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["beam-uniform"], "cdopt solve"),
        (["no-such", "--out", "OUT"], "no-such"),
        (["beam-uniform", "--solvers", "no-such", "--out", "OUT"], "backends"),
        (["beam-uniform", "--tolerances", "tight", "--out", "OUT"], "--tolerances"),
        (["beam-uniform", "--seeds", "one", "--out", "OUT"], "--seeds"),
        (["beam-uniform", "--modes", "hot", "--out", "OUT"], "mode: found"),
        (["beam-uniform", "--repeat", "0", "--out", "OUT"], "repeats"),
        (["beam-uniform", "--time-limit", "-1", "--out", "OUT"], "--time-limit"),
    ],
)
def test_bad_words_leave_no_file(words: list[str], said: str, tmp_path: Path) -> None:
    out = tmp_path / "study"
    refuses(said, "compare", *(out if word == "OUT" else word for word in words))
    assert not out.exists()


def test_friction_is_compared_by_solvers_that_take_it(monkeypatch, tmp_path: Path) -> None:
    plans = []
    monkeypatch.setattr(
        "cdopt.cli.compare.run_and_show", lambda chosen, *more: plans.extend(chosen)
    )
    assert run("compare", "incline", "beam-uniform", "--out", tmp_path).exit_code == 0
    rough, smooth = [set(plan.backends) for plan in plans]
    assert {"nsgs", "admm", "clarabel"} <= rough
    assert not {"pgs", "osqp"} & rough
    assert {"pgs", "osqp"} <= smooth - {"nsgs", "admm"}


@pytest.mark.slow
def test_the_time_to_a_certificate_is_printed(monkeypatch, tmp_path: Path) -> None:
    plans = []

    def made(chosen, *more) -> None:
        plans.extend(chosen)
        study.run(study.Plan(["table"], ["newton"], tolerances=[1e-6], repeats=1), tmp_path)

    monkeypatch.setattr("cdopt.cli.compare.run_and_show", made)
    shown = run("compare", "table", "--solver", "newton", "--to-certificate", "--out", tmp_path)
    assert shown.exit_code == 0, shown.output
    assert plans[0].tolerances == (None, 1e-3, 1e-4, 1e-5, 1e-6, 1e-7, 1e-8, 1e-9)
    assert "Time to certificate" in shown.stdout
    times = shown.stdout.partition("Time to certificate")[2]
    assert "…" not in times
    assert re.search(r"^newton +classic-force +1 +1 .*1 at 1e-06", times, re.MULTILINE)
    refuses("--tolerances", "compare", "table", "--to-certificate", "--tolerances", "1e-3", "--out",
            tmp_path)  # fmt: skip


def test_a_study_is_shown_kept_continued_and_reported(tmp_path: Path) -> None:
    words = ["beam-uniform", "supports-delassus", "--solvers", "highs", "--repeat", "1"]
    out, text, page = tmp_path / "study", tmp_path / "text.md", tmp_path / "page"
    first = run("compare", *words[:1], *words[2:], "--out", out)
    assert first.exit_code == 0, first.output
    assert "1 of 1 runs" in first.stdout
    assert "solved 1" in first.stdout
    assert "formulation: classic-force; asked: default" in first.stdout
    assert first.stderr.splitlines()[-1].startswith("run 1 of 1: beam-uniform classic-force highs")
    content = run_json("compare", *words, "--out", out, "--quiet")
    assert content["made"] == 1
    assert [r["run"]["backend"] for r in content["records"]] == ["highs"] * 2
    assert content["records"][0]["machine"]["versions"]["osqp"]
    assert [r.outcome for r in study.read(out)] == ["solved", "wrong"]
    text.write_text("before\n<!-- table: overview -->\nold\n<!-- end -->\nafter\n")
    reported = run("report", out, "--out", page, "--into", text)
    assert reported.exit_code == 0, reported.output
    assert reported.stdout.strip() == str(page / "index.html")
    lines = text.read_text().splitlines()
    assert (lines[0], lines[-1]) == ("before", "after")
    assert "old" not in lines
    highs = next(line for line in lines if line.startswith("| highs"))
    assert highs.split(" | ")[1:3] == ["50", "50"]  # half solved, half of its claims true
    assert "supports-delassus" in (page / "problems.csv").read_text()
    refuses("no mark", "report", out, "--out", tmp_path / "none", "--no-labels",
            "--into", page / "report.md")  # fmt: skip
    assert not (tmp_path / "none").exists()  # refused before the report is made
    refuses("path: ", "report", tmp_path / "gone", "--out", page)


@pytest.mark.skipif(sys.platform == "win32", reason="signals")
@pytest.mark.slow
@pytest.mark.parametrize(("how", "code"), [(signal.SIGINT, 130), (signal.SIGKILL, -9)])
def test_a_study_that_is_stopped_goes_on(tmp_path, how: signal.Signals, code: int) -> None:
    names = ["newton", "osqp", "clarabel"]
    command = [sys.executable, "-m", "cdopt", "compare", "beam-uniform", "--solvers",
               ",".join(names), "--repeat", "1", "--quiet", "--out", str(tmp_path)]  # fmt: skip
    before = signal.signal(signal.SIGINT, signal.SIG_DFL)  # a child of nohup would ignore it
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    signal.signal(signal.SIGINT, before)
    file = tmp_path / FILE
    deadline = time.monotonic() + 60.0
    while not (file.exists() and file.stat().st_size > 0):
        assert time.monotonic() < deadline
        time.sleep(0.05)
    os.kill(process.pid, how)
    _, errors = process.communicate(timeout=300)
    assert process.returncode == code, errors.decode()
    if how == signal.SIGINT:
        assert b"go on: the same command again" in errors
    kept = study.read(tmp_path)
    assert 1 <= len(kept) < 3
    done = study.run(study.Plan(["beam-uniform"], names, repeats=1), tmp_path)
    assert done.made == 3 - len(kept)
    assert [r.run.backend for r in done.records] == names
    assert done.records[: len(kept)] == tuple(kept)
    assert len(file.read_bytes().splitlines()) == 3
