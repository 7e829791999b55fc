"""Studies with a name, families named in words, and tables written into a text."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest
from made_records import record
from typer.testing import CliRunner

import cdopt
from cdopt import InvalidInput, bank
from cdopt.cli.main import app
from cdopt.plots import report
from cdopt.study.plans import PLANS, plans
from cdopt.study.report import Results
from cdopt.study.runs import problems
from cdopt.study.runs.sources import before, load

runner = CliRunner()
MODULE = sys.modules[plans.__module__]


@pytest.mark.parametrize("name", PLANS)
def test_every_plan_can_be_made(name: str, tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr(MODULE, "_LAYERS", {100: 4})
    made = plans(name, tmp_path)
    assert all(plan.runs for plan in made)
    runs = [run.id for plan in made for run in plan.runs]
    assert len(runs) == len(set(runs))
    assert [run.id for plan in plans(name, tmp_path) for run in plan.runs] == runs


def test_the_standard_study_is_as_wide_as_it_says() -> None:
    made = plans("standard")
    first = made[0]
    assert len(first.backends) >= 10 or len(cdopt.backends.available()) < 10
    assert first.tolerances == (1e-3, 1e-6, 1e-9)
    labels = {run.problem.label for plan in made for run in plan.runs}
    assert len(labels) >= 15
    peers = [run for plan in made for run in plan.runs if "siconos" in run.backend]
    assert peers  # also where Siconos is not: that it was missing is on record


def test_the_problems_of_the_sizes_have_these_sizes(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr(MODULE, "_LAYERS", {100: 5})
    rest, fall = dict.fromkeys(
        run.problem for plan in plans("sizes", tmp_path) for run in plan.runs
    )
    assert rest.source == "pyramid-hooke"
    assert all(100 <= load(p).nc <= 300 for p in (rest, fall))
    step = load(fall).step
    assert np.any(step.phi > 0.0)  # some layers have not landed
    assert load(before(fall)).nc >= 100
    with pytest.raises(InvalidInput, match="folder"):
        plans("sizes")


def test_no_such_plan() -> None:
    with pytest.raises(InvalidInput, match="quick"):
        plans("no-such")


def test_a_family_is_named_in_words() -> None:
    (chain,) = problems("family:chains:8")
    assert chain.label == "family:chains:8"
    found = load(chain).step
    np.testing.assert_array_equal(
        found.B.toarray(), bank.families()["chains"].member(8).step.B.toarray()
    )
    every = problems("family:chains")
    assert [p.source for p in every] == [
        f"family:chains:{n}" for n in bank.families()["chains"].sizes
    ]
    (hertz,) = problems("family:pyramids-hertz:3")
    assert load(hertz).power == 2.5
    (soft,) = problems("family:pyramids-hertz:3", power=2.0)
    assert load(soft).power == 2.0
    for text in ("family:no-such", "family:chains:many", "family:"):
        with pytest.raises(InvalidInput, match="chains"):
            problems(text)


@pytest.mark.slow
def test_the_quick_study_by_its_command(tmp_path: Path) -> None:
    out = tmp_path / "study"
    found = runner.invoke(app, ["compare", "--plan", "quick", "--out", str(out), "-q"])
    assert found.exit_code == 0, found.output
    assert "6 of 6 runs" in found.stdout
    again = runner.invoke(app, ["compare", "--plan", "quick", "--out", str(out), "-q"])
    assert "made now: 0" in again.stdout
    text = tmp_path / "text.md"
    text.write_text("before\n<!-- table: overview -->\nold\n<!-- end -->\nafter\n")
    page = tmp_path / "page"
    told = runner.invoke(app, ["report", str(out), "--out", str(page), "--into", str(text)])
    assert told.exit_code == 0, told.output
    lines = text.read_text().splitlines()
    assert lines[0] == "before"
    assert lines[-1] == "after"
    assert "old" not in lines
    highs = next(line for line in lines if line.startswith("| highs"))
    assert highs.split(" | ")[1:3] == ["50", "50"]  # half solved, half of its claims true
    assert "supports-delassus" in (page / "problems.csv").read_text()


@pytest.mark.parametrize("words", [("beam-uniform", "--plan", "quick"), ()])
def test_problems_or_a_plan(words: tuple[str, ...]) -> None:
    found = runner.invoke(app, ["compare", *words, "--out", "never"])
    assert found.exit_code == 1
    assert found.stderr.startswith("error: ")


def test_marks_are_checked(tmp_path: Path) -> None:
    study = Results.of([record("table", "osqp")])
    plain = tmp_path / "plain.md"
    plain.write_text("no mark")
    with pytest.raises(InvalidInput, match="no mark"):
        report.write_into(plain, study)
    plain.write_text("<!-- table: nothing --><!-- end -->")
    with pytest.raises(InvalidInput, match="nothing"):
        report.write_into(plain, study)
    assert plain.read_text() == "<!-- table: nothing --><!-- end -->"
    with pytest.raises(InvalidInput, match="none"):
        report.write_into(tmp_path / "none.md", study)
    open_end = "<!-- table: success -->\nmine\n<!-- table: forces -->\n<!-- end -->\n"
    for content in (open_end.encode(), b"<!-- table: success --> \xff <!-- end -->"):
        plain.write_bytes(content)
        with pytest.raises(InvalidInput, match=r"without an end|decode"):
            report.write_into(plain, study)
        assert plain.read_bytes() == content


def test_the_rest_of_a_file_stays_as_it_is(tmp_path: Path) -> None:
    text = tmp_path / "windows.md"
    text.write_bytes(b"one\r\n<!-- table: success -->\r\nold\r\n<!-- end -->\r\ntwo\r\n")
    report.write_into(text, Results.of([record("table", "osqp")]))
    assert text.read_bytes().startswith(b"one\r\n<!-- table")
    assert text.read_bytes().endswith(b"<!-- end -->\r\ntwo\r\n")
    assert b"old" not in text.read_bytes()


def test_a_file_without_marks_is_refused_before_the_report_is_made(tmp_path: Path) -> None:
    study, text = tmp_path / "runs.jsonl", tmp_path / "notes.md"
    study.write_bytes(record("table", "osqp").line())
    text.write_text("notes")
    out = tmp_path / "page"
    words = ["report", str(study), "--out", str(out), "--no-labels", "--into", str(text)]
    assert runner.invoke(app, words).exit_code == 1
    assert not out.exists()
    assert text.read_text() == "notes"
