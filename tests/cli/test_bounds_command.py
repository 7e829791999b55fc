"""``cdopt bounds``: numbers, summaries, files, exit codes, errors in one line."""

from __future__ import annotations

import csv
from pathlib import Path

import command_line
import numpy as np
import pytest
from command_line import refuses, run_json

import cdopt
from cdopt import bank
from cdopt.hyperstatic import indeterminacy
from cdopt.study.bounds import width_classes


def run(*words: object, width: int = 120):
    return command_line.run("bounds", *words, width=width)


def rows(text: str) -> dict[str, list[str]]:
    """Lines of the table that begin with a contact's number, by that number."""
    lines = [line.split() for line in text.partition("\n\n")[2].splitlines()]
    return {cells[0]: cells[1:] for cells in lines if cells and cells[0].isdecimal()}


# --- text ------------------------------------------------------------------------------


@pytest.mark.slow
def test_beam_with_solvers_and_a_picture(tmp_path) -> None:
    path = tmp_path / "bounds.png"
    result = run("beam-uniform", "--solver", "clarabel", "--solver", "pgs", "--plot", path)
    assert result.exit_code == 0
    assert result.stderr == f"picture: {path}\n"
    assert path.read_bytes().startswith(b"\x89PNG")
    assert result.stdout.startswith("3 contacts, 3 closed")
    assert "1 self-stress state" in result.stdout
    table = rows(result.stdout)
    assert table["0"][:5] == ["left", "0", "5.0000", "3.3333", "undetermined"]
    assert table["1"][:5] == ["middle", "0", "10.0000", "3.3333", "undetermined"]
    assert table["2"][:5] == ["right", "0", "5.0000", "3.3333", "undetermined"]
    pgs = cdopt.ClassicCD(bank.load("beam-uniform").step).solve("pgs").f
    assert table["1"][-2:] == [f"{10 * pgs[1]:.0f}", "%"]
    assert "pgs: status “solved”, ok" in result.stdout


def test_determined_open_and_unbounded_forces() -> None:
    tripod = run("tripod")
    assert tripod.exit_code == 0
    assert "Every force is determined" in tripod.stdout
    assert all(line[-1] == "unique" and line[0] == line[1] for line in rows(tripod.stdout).values())
    table = rows(run("beam-middle-open").stdout)
    assert table["1"] == ["middle", "0", "0", "0", "open"]
    assert table["0"] == ["left", "5.0000", "5.0000", "5.0000", "unique"]
    crystal = run("crystal-2d:rows=2,columns=3")
    assert crystal.exit_code == 0
    assert ["0", "∞", "0", "unbounded"] in rows(crystal.stdout).values()


def test_compatible_forces_have_the_power_of_the_problem() -> None:
    content = run_json("bounds", "pyramid-hertz:n=3")
    problem = bank.load("pyramid-hertz:n=3")
    hertz = cdopt.CompatibleCD(problem.step, 2.5).solve("newton").f
    np.testing.assert_allclose(content["compatible"], hertz, rtol=1e-9, atol=1e-12)
    assert "Hertz" in run("pyramid-hertz:n=3").stdout


def test_large_problems_are_summarised() -> None:
    result = run("pyramid-hooke:n=5", "--jobs", "2")
    assert result.exit_code == 0
    assert "70 self-stress states" in result.stdout
    assert len(result.stdout.splitlines()) < 35
    assert "The 10 widest intervals, of 160" in result.stdout
    assert len([cells for cells in rows(result.stdout).values() if "undetermined" in cells]) == 10
    assert "6.3640" in result.stdout


@pytest.mark.parametrize("name", ["pyramid-falling", "crystal-2d"])
def test_classes_of_width_count_every_contact_once(name: str) -> None:
    report = indeterminacy(bank.load(name).step)
    classes = dict(width_classes(report))
    assert sum(classes.values()) == report.nc
    assert classes.get("open, no force", 0) == np.count_nonzero(~report.closed)
    assert classes.get("determined", 0) == np.count_nonzero(report.closed & report.unique)
    assert classes.get("without an upper bound", 0) == np.count_nonzero(report.unbounded)
    finite = report.width[np.isfinite(report.width) & ~report.unique & ~report.unbounded]
    ends = [float(x.split()[-2].replace(",", "")) for x in classes if x.endswith(" N")]
    assert all(f"{end:e}"[0] in "125" for end in ends)
    assert finite.max(initial=0.0) <= max(ends, default=0.0) * (1 + 1e-6)
    for label, number in classes.items():
        if label.startswith("up to"):
            assert number == np.count_nonzero(finite <= float(label.split()[2]) * (1 + 1e-9))


@pytest.mark.parametrize("width", [60, 100])
def test_no_line_exceeds_the_terminal(width: int) -> None:
    result = run("supports:n=12", "--solver", "clarabel", "--solver", "pgs", width=width)
    assert result.exit_code == 0
    assert max(map(len, result.stdout.splitlines())) <= width


# --- which contacts --------------------------------------------------------------------


@pytest.mark.slow
def test_contacts_by_number_name_or_how_many(tmp_path) -> None:
    for contacts, asked in (
        ("all", [0, 1, 2]),
        ("2", [0, 2]),
        ("0", []),
        ("1,", [1]),
        ("0, 2", [0, 2]),
        ("middle,left", [0, 1]),
    ):
        assert run_json("bounds", "beam-uniform", "--contacts", contacts)["asked"] == asked
    assert sorted(rows(run("beam-uniform", "--contacts", "middle,left").stdout)) == ["0", "1"]
    path = tmp_path / "mine.npz"  # a number is no name
    bank.load("beam-uniform").step.replace(contact_ids=["2", "1", "0"]).save(path)
    assert run_json("bounds", path, "--contacts", "0,")["asked"] == [0]


# --- JSON and files --------------------------------------------------------------------


def test_json_is_all_there_is_on_stdout() -> None:
    content = run_json("bounds", "crystal-2d", "--solver", "pgs", "--contacts", "20")
    report = indeterminacy(bank.load("crystal-2d").step, contacts=20)
    assert content["problem"] == "crystal-2d"
    assert content["nullity"] == report.nullity == 60
    assert len(content["asked"]) == 20
    assert content["summary"] == report.summary
    (solver,) = content["solvers"]
    assert solver["label"] == "pgs"
    assert solver["ok"]
    f = np.array(solver["f"])
    position = np.array([np.nan if x is None else x for x in solver["position"]])
    np.testing.assert_allclose(position, report.position(f), atol=1e-6)
    assert "widths" in content


def test_csv(tmp_path) -> None:
    path = tmp_path / "crystal.csv"
    result = run("crystal-2d", "--solver", "clarabel", "--csv", str(path))
    assert result.exit_code == 0
    assert str(path) in result.stderr
    lines = list(csv.DictReader(path.read_text().splitlines()))
    report = indeterminacy(bank.load("crystal-2d").step)
    assert [int(line["contact"]) for line in lines] == list(range(report.nc))
    np.testing.assert_allclose([float(x["lower [N]"]) for x in lines], report.lower, atol=1e-9)
    upper = np.array([float(x["upper [N]"]) for x in lines])
    np.testing.assert_allclose(upper, report.upper, rtol=1e-9)
    assert np.isinf(upper).sum() == 44
    force = np.array([float(x["clarabel force [N]"]) for x in lines])
    position = np.array([float(x["clarabel position [-]"] or "nan") for x in lines])
    np.testing.assert_allclose(position, report.position(force), atol=1e-9)
    assert np.isnan(position[np.isinf(upper)]).all()  # no upper bound, no position
    assert {x["verdict"] for x in lines} == {"unbounded", "undetermined"}
    assert run("table", "--csv", path).exit_code == 0  # a table of bounds is replaced
    path.write_text("something else")
    refuses("no table of bounds", "bounds", "table", "--csv", path)


def test_nothing_to_draw_is_said(tmp_path) -> None:
    path = tmp_path / "none.png"
    result = run("pyramid-hooke:n=4", "--contacts", "0", "--plot", str(path))
    assert result.exit_code == 0
    assert "no picture" in result.stderr
    assert not path.exists()


# --- exit codes and bad input ----------------------------------------------------------


def test_an_infeasible_problem_exits_with_2_and_its_proof() -> None:
    result = run("squeezed")
    assert result.exit_code == 2
    assert "Proven infeasible" in result.stdout
    (failure,) = run_json("bounds", "squeezed", code=2)["failures"].values()
    assert failure["proof"]["vector"] == [1.0, 1.0]
    for name in ("zero-contacts", "free-flying"):
        assert run(name).exit_code == 0


def test_bounds_that_fail_exit_with_1(monkeypatch) -> None:
    report = indeterminacy(bank.load("beam-uniform").step)
    report.failures[1] = "HiGHS: gave up"
    report.lower.flags.writeable = report.upper.flags.writeable = True
    report.lower[1] = report.upper[1] = np.nan
    monkeypatch.setattr(cdopt, "indeterminacy", lambda *args, **options: report)
    result = run("beam-uniform")
    assert result.exit_code == 1
    assert "contact middle: HiGHS: gave up" in result.stdout
    assert rows(result.stdout)["1"] == ["middle", "–", "–", "3.3333", "failed"]


def test_solvers_that_fail_are_named_beside_the_bounds(monkeypatch) -> None:
    monkeypatch.setattr(cdopt.backends.registry, "installed", lambda name: name != "daqp")
    result = run("beam-uniform", "--solver", "daqp", "--solver", "clarabel")
    assert result.exit_code == 0
    assert "daqp: " in result.stdout
    assert "pip install daqp" in result.stdout
    assert "clarabel: status" in result.stdout


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("beam-unifrom", "did you mean 'beam-uniform'"),
        ("fan", "a truss; expected a contact step"),
        ("beam-uniform --solver clarabell", "did you mean 'clarabel'"),
        ("beam-uniform --classic clarabell", "did you mean 'clarabel'"),
        ("beam-uniform --contacts 3,", "contacts 0 to 2"),
        ("beam-uniform --contacts some", "--contacts"),
        ("beam-uniform --contacts ,", "--contacts"),
        ("beam-uniform --contacts -1", "--contacts"),
        ("beam-uniform --tol 0", "tol"),
        ("beam-uniform --jobs 0", "jobs"),
        ("beam-uniform --plot beam.bmp", ".png"),
        ("beam-uniform --csv nowhere/beam.csv", "no folder"),
        ("ladder --law coulomb --csv ladder.csv", "--csv"),
    ],
)
def test_bad_input(arguments: str, message: str) -> None:
    refuses(message, "bounds", *arguments.split())


def test_the_friction_of_a_scene_is_never_dropped_silently(tmp_path: Path) -> None:
    path = tmp_path / "rough.toml"
    cdopt.scene.box_stack(1, dim=2).with_friction(0.5).save(path)
    for command in ("bounds", "ensemble", "sensitivity"):
        refuses("--law coulomb", command, str(path))
    assert "without its friction" in run(str(path), "--frictionless").stdout
