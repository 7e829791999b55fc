"""The command line: exit codes, pure JSON, errors in one line."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from importlib.metadata import version

import numpy as np
import pytest
from typer.testing import CliRunner

import cdopt
from cdopt import bank
from cdopt.cli import output as cli_output
from cdopt.cli.main import app

runner = CliRunner(env={"COLUMNS": "120", "NO_COLOR": "1"})


def run(*arguments: str):
    return runner.invoke(app, list(arguments))


# --- solve -----------------------------------------------------------------------------


def test_compare_is_the_default() -> None:
    result = run("solve", "beam-stiff-middle", "--solver", "clarabel", "--solver", "osqp")
    assert result.exit_code == 0
    lines = result.stdout.splitlines()
    assert [next(x for x in lines if x.startswith(b)) for b in ("clarabel", "osqp", "compatible")]
    assert "left  middle   right" in result.stdout
    assert "2.0000  6.0000  2.0000" in result.stdout
    assert "what elastic contacts would carry" in " ".join(result.stdout.split())
    assert result.stderr == ""


def test_default_solvers_all_appear() -> None:
    result = run("solve", "tripod")
    for name in set(cdopt.backends.available()) - {"lcp", "augmented-lagrangian"}:
        assert f"\n{name} " in result.stdout


def test_forces_are_written_out_for_small_problems_only() -> None:
    assert "contact forces [N]" in run("solve", "supports:n=12", "--solver", "clarabel").stdout
    assert "contact forces" not in run("solve", "supports:n=13", "--solver", "clarabel").stdout


@pytest.mark.parametrize("width", ["60", "80", "120"])
def test_no_line_exceeds_the_terminal(width: str) -> None:
    result = runner.invoke(app, ["solve", "supports:n=11"], env={"COLUMNS": width})
    assert result.exit_code == 0
    assert max(map(len, result.stdout.splitlines())) <= int(width)


@pytest.mark.parametrize(
    ("problem", "code"),
    [("beam-uniform", 0), ("squeezed", 2), ("unreachable-load", 2), ("zero-contacts", 0)],
)
def test_exit_codes(problem: str, code: int) -> None:
    result = run("solve", problem, "--solver", "clarabel")
    assert result.exit_code == code
    assert ("Proven infeasible" in result.stdout) == (code == 2)


def test_answers_without_certificate_exit_with_1() -> None:
    arguments = ("solve", "pyramid-hooke", "--formulation", "classic", "--solver", "osqp")
    assert run(*arguments, "--tol", "1e-3").exit_code == 0
    strict = run(*arguments, "--tol", "1e-12")
    assert strict.exit_code == 1
    assert "NOT OK" in strict.stdout


def test_failed_compatible_step_exits_with_1_though_classic_holds() -> None:
    arguments = ("solve", "stiffness-ratio", "--solver", "clarabel", "--tol", "1e-9",
                 "--compatible-solver", "clarabel")  # fmt: skip
    result = run(*arguments)
    content = json.loads(run(*arguments, "--json").stdout)
    assert content["solutions"][0]["ok"]
    assert not content["compatible"]["ok"]
    assert result.exit_code == 1


@pytest.mark.parametrize("formulation", ["classic", "compatible", "compare"])
def test_formulations_of_a_step(formulation: str) -> None:
    result = run("solve", "beam-uniform", "--formulation", formulation, "--solver", "clarabel",
                 "--json")  # fmt: skip
    assert result.exit_code == 0
    content = json.loads(result.stdout)
    assert content["formulation"] == formulation
    assert content["solutions"][0]["formulation"].startswith(
        "CompatibleCD" if formulation == "compatible" else "ClassicCD"
    )
    assert (content.get("compatible") is not None) == (formulation == "compare")


def test_trusses_are_solved_as_trusses() -> None:
    result = run("solve", "fan", "--solver", "scs", "--json")
    assert result.exit_code == 0
    content = json.loads(result.stdout)
    assert content["formulation"] == "truss"
    known = bank.load("fan").references["f_compatible"]
    np.testing.assert_allclose(content["solutions"][0]["f"], known, rtol=1e-4)


def test_power_overrides_the_problem() -> None:
    hooke = run("solve", "fan", "--power", "2", "--solver", "osqp", "--json")
    content = json.loads(hooke.stdout)
    assert content["power"] == 2.0
    truss = bank.load("fan")
    exact = cdopt.NoTensionTruss(truss.B, truss.contact_load, truss.stiffness, 2.0).solve().f
    np.testing.assert_allclose(content["solutions"][0]["f"], exact, rtol=1e-4)


def test_compatible_solver_and_accuracy() -> None:
    assert run("solve", "crystal-2d", "--solver", "clarabel").exit_code == 0  # by newton
    arguments = ("solve", "crystal-2d", "--solver", "clarabel", "--compatible-solver", "clarabel")
    sharp = run(*arguments, "--accuracy", "1e-12", "--json")
    assert sharp.exit_code == 0
    content = json.loads(sharp.stdout)
    for part in (content["solutions"][0], content["compatible"]):
        assert part["provenance"]["settings"]["tol_feas"] == 1e-12


def test_solvers_that_cannot_are_named() -> None:
    result = run("solve", "fan")
    assert "left out" in result.stdout
    assert "osqp" in result.stdout.partition("left out")[2]
    asked = run("solve", "fan", "--solver", "osqp")
    assert asked.exit_code == 1
    assert "osqp for NoTensionTruss" in asked.stdout


def test_a_saved_step(tmp_path) -> None:
    path = tmp_path / "mine.npz"
    bank.load("beam-stiff-middle").step.save(path)
    result = run("solve", str(path), "--solver", "clarabel", "--json")
    assert result.exit_code == 0
    content = json.loads(result.stdout)
    np.testing.assert_allclose(content["compatible"]["f"], [2, 6, 2], atol=1e-6)


def test_picture(tmp_path) -> None:
    path = tmp_path / "beam.png"
    result = run("solve", "beam-uniform", "--solver", "clarabel", "--plot", str(path))
    assert result.exit_code == 0
    assert path.read_bytes().startswith(b"\x89PNG")
    assert str(path) in result.stderr


def test_no_forces_no_picture(tmp_path) -> None:
    path = tmp_path / "none.png"
    result = run("solve", "squeezed", "--solver", "clarabel", "--plot", str(path))
    assert result.exit_code == 2
    assert "no picture" in result.stderr
    assert not path.exists()


# --- bad input -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["beam-unifrom"], "did you mean 'beam-uniform'"),
        (["missing.npz"], "no such file"),
        (["beam-uniform", "--solver", "clarabell"], "did you mean 'clarabel'"),
        (["beam-uniform", "--formulation", "classical"], "--formulation"),
        (["beam-uniform", "--formulation", "truss"], "is a contact step"),
        (["fan", "--formulation", "classic"], "is a truss"),
        (["beam-uniform", "--power", "1"], "power"),
        (["beam-uniform", "--tol", "0"], "tol"),
        (["beam-uniform", "--accuracy", "2"], "accuracy"),
        (["beam-uniform", "--compatible-solver", "clarabell"], "did you mean 'clarabel'"),
        (["beam-uniform", "--plot", "beam.bmp"], ".png"),
        (["pyramid-hooke:n=-3"], "n"),
    ],
)
@pytest.mark.parametrize("as_json", [False, True])
def test_bad_input_is_one_line_on_stderr(arguments, words: str, as_json: bool) -> None:
    result = run("solve", *arguments, *(["--json"] if as_json else []))
    assert result.exit_code == 1
    assert result.stdout == ""
    assert result.stderr.startswith("error: ")
    assert words in result.stderr
    assert result.stderr.count("\n") == 1


def test_damaged_files(tmp_path) -> None:
    path = tmp_path / "broken.npz"
    path.write_bytes(b"PK\x03\x04 nothing")
    result = run("solve", str(path))
    assert result.exit_code == 1
    assert result.stderr.startswith("error: path: ")


# --- JSON and noise --------------------------------------------------------------------


@pytest.mark.parametrize("problem", ["supports-delassus", "squeezed", "fan"])
@pytest.mark.parametrize("verbose", [[], ["--verbose"]])
def test_json_is_all_there_is_on_stdout(problem: str, verbose: list[str], capfd) -> None:
    """Stdout as the operating system sees it, with what compiled solvers print."""
    with pytest.raises(SystemExit):
        app(["solve", problem, "--json", *verbose])
    out, err = capfd.readouterr()
    assert json.loads(out)["problem"] == problem
    assert ("Clarabel" in err) == bool(verbose)


def test_the_command_is_a_process_of_its_own() -> None:
    command = [sys.executable, "-m", "cdopt", "solve", "squeezed", "--json", "--verbose"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert json.loads(done.stdout)["problem"] == "squeezed"
    assert "Clarabel" in done.stderr
    assert done.returncode == 2


def test_descriptor_noise_is_kept_out_and_comes_back(capfd) -> None:
    with cli_output.solvers_kept_quiet(verbose=False, to_stderr=True):
        os.write(1, b"noise in C\n")
        print("noise in Python")
    os.write(1, b"heard\n")
    assert capfd.readouterr().out == "heard\n"


def test_descriptor_comes_back_after_an_error(capfd) -> None:
    with (
        pytest.raises(cdopt.InvalidInput),
        cli_output.solvers_kept_quiet(verbose=False, to_stderr=False),
    ):
        raise cdopt.InvalidInput("a", "b", "c")
    os.write(1, b"heard\n")
    print("also heard", flush=True)
    assert capfd.readouterr().out == "heard\nalso heard\n"


def test_verbose_noise_goes_to_stderr_beside_json(capfd) -> None:
    with cli_output.solvers_kept_quiet(verbose=True, to_stderr=True):
        os.write(1, b"from C\n")
        print("from Python", flush=True)
    out, err = capfd.readouterr()
    assert out == ""
    assert "from C" in err
    assert "from Python" in err


# --- lists -----------------------------------------------------------------------------


def test_backends_lists_every_known_solver() -> None:
    result = run("backends")
    assert result.exit_code == 0
    for name in cdopt.backends.catalogue.TABLE:
        assert f"\n{name} " in result.stdout
    records = {r["name"]: r for r in json.loads(run("backends", "--json").stdout)}
    assert {n for n, r in records.items() if r["available"]} == set(cdopt.backends.available())
    assert records["osqp"]["takes"] == ["QP"]
    assert records["osqp"]["cvxpy_rewrites"]
    assert all(bool(r["why_not"]) != r["available"] for r in records.values())


def test_missing_backends_come_with_a_remedy(monkeypatch) -> None:
    monkeypatch.setattr(cdopt.backends.catalogue, "installed", lambda name: name != "daqp")
    assert "pip install daqp" in run("backends").stdout


def test_problems_lists_the_bank() -> None:
    result = run("problems")
    assert result.exit_code == 0
    for name in bank.names():
        assert f"{name} " in result.stdout
    records = json.loads(run("problems", "--json").stdout)
    assert [r["name"] for r in records] == bank.names()
    assert all(r["title"] for r in records)


def test_version() -> None:
    assert run("--version").stdout == f"cdopt {version('cdopt')}\n"
