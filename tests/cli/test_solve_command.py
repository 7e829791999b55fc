"""``cdopt solve``, ``backends`` and ``problems``: exit codes, pure JSON, errors in one line."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys

import numpy as np
import pytest
from command_line import refuses, run, run_json

import cdopt
from cdopt import bank
from cdopt.cli import output
from cdopt.cli.main import app

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


def test_all_solvers_that_suit_are_the_default() -> None:
    result = run("solve", "tripod", width=60)
    for name in cdopt.study.choose_backends(4)[0]:
        assert f"\n{name} " in result.stdout
    assert max(map(len, result.stdout.splitlines())) <= 60
    fan = run("solve", "fan").stdout
    assert "osqp" in fan.partition("left out")[2]
    asked = run("solve", "fan", "--solver", "osqp")
    assert asked.exit_code == 1
    assert "osqp for NoTensionTruss" in asked.stdout


def test_forces_are_written_out_for_small_problems_only() -> None:
    small = run("solve", "supports:n=12", "--solver", "clarabel", width=60)
    assert "contact forces [N]" in small.stdout
    assert max(map(len, small.stdout.splitlines())) <= 60
    assert "contact forces" not in run("solve", "supports:n=13", "--solver", "clarabel").stdout


@pytest.mark.parametrize(
    ("problem", "code"),
    [("beam-uniform", 0), ("squeezed", 2), ("unreachable-load", 2), ("zero-contacts", 0)],
)
def test_exit_codes(problem: str, code: int) -> None:
    result = run("solve", problem, "--solver", "clarabel")
    assert result.exit_code == code
    assert ("Proven infeasible" in result.stdout) == (code == 2)


def test_answers_without_certificate_exit_with_1() -> None:
    words = ("solve", "pyramid-hooke", "--formulation", "classic", "--solver", "osqp")
    assert run(*words, "--tol", "1e-3").exit_code == 0
    strict = run(*words, "--tol", "1e-12")
    assert strict.exit_code == 1
    assert "NOT OK" in strict.stdout
    words = ("solve", "stiffness-ratio", "--solver", "clarabel", "--tol", "1e-9")
    content = run_json(*words, "--compatible-solver", "clarabel", code=1)
    assert content["solutions"][0]["ok"]  # the classic answer holds, the compatible one does not
    assert not content["compatible"]["ok"]


@pytest.mark.parametrize(
    ("problem", "formulation", "stated"),
    [("beam-uniform", "classic", "ClassicCD"), ("beam-uniform", "compare", "ClassicCD"),
     ("beam-uniform", "compatible", "CompatibleCD"), ("fan", "truss", "NoTensionTruss")],
)  # fmt: skip
def test_formulations(problem: str, formulation: str, stated: str) -> None:
    words = ("solve", problem, "--formulation", formulation, "--solver", "scs")
    content = run_json(*words)
    assert content["formulation"] == formulation
    assert content["solutions"][0]["formulation"].startswith(stated)
    assert (content.get("compatible") is not None) == (formulation == "compare")


def test_power_accuracy_and_the_compatible_solver() -> None:
    content = run_json("solve", "fan", "--power", "2", "--solver", "osqp")
    assert (content["power"], content["formulation"]) == (2.0, "truss")
    truss = bank.load("fan")
    exact = cdopt.NoTensionTruss(truss.B, truss.contact_load, truss.stiffness, 2.0).solve().f
    np.testing.assert_allclose(content["solutions"][0]["f"], exact, rtol=1e-4)
    words = ("solve", "crystal-2d", "--solver", "clarabel", "--compatible-solver", "clarabel")
    content = run_json(*words, "--accuracy", "1e-12")
    for part in (content["solutions"][0], content["compatible"]):
        assert part["provenance"]["settings"]["tol_feas"] == 1e-12


def test_a_saved_step_and_its_picture(tmp_path) -> None:
    path, picture = tmp_path / "mine.npz", tmp_path / "mine.png"
    bank.load("beam-stiff-middle").step.save(path)
    result = run("solve", path, "--solver", "clarabel", "--plot", picture, "--json")
    np.testing.assert_allclose(json.loads(result.stdout)["compatible"]["f"], [2, 6, 2], atol=1e-6)
    assert picture.read_bytes().startswith(b"\x89PNG")
    assert str(picture) in result.stderr
    none = run("solve", "squeezed", "--solver", "clarabel", "--plot", tmp_path / "none.png")
    assert none.exit_code == 2
    assert "no picture" in none.stderr
    assert not (tmp_path / "none.png").exists()
    path.write_bytes(b"PK\x03\x04 nothing")
    refuses("path: ", "solve", path)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("beam-unifrom", "did you mean 'beam-uniform'"),
        ("missing.npz", "no such file"),
        ("beam-uniform --solver clarabell", "did you mean 'clarabel'"),
        ("beam-uniform --formulation classical", "formulation"),
        ("beam-uniform --formulation truss", "is a contact step"),
        ("fan --formulation classic", "is a truss"),
        ("beam-uniform --power 1", "power"),
        ("beam-uniform --tol 0", "tol"),
        ("beam-uniform --accuracy 2", "accuracy"),
        ("beam-uniform --compatible-solver clarabell --json", "did you mean 'clarabel'"),
        ("beam-uniform --plot beam.bmp", ".png"),
        ("pyramid-hooke:n=-3", "n"),
    ],
)
def test_bad_input(arguments: str, message: str) -> None:
    refuses(message, "solve", *arguments.split())


# --- JSON and what solvers print ---------------------------------------------------------


@pytest.mark.parametrize(("problem", "verbose"), [("fan", []), ("squeezed", ["--verbose"])])
def test_json_is_all_there_is_on_stdout(problem: str, verbose: list[str], capfd) -> None:
    """Stdout as the operating system sees it, with what compiled solvers print."""
    with pytest.raises(SystemExit):
        app(["solve", problem, "--json", *verbose])
    out, err = capfd.readouterr()
    assert json.loads(out)["problem"] == problem
    assert ("Clarabel" in err) == bool(verbose)


SOLVING = {"cvxpy", "numba", "matplotlib", "pandas", "h5py"}


@pytest.mark.parametrize(
    ("command", "heavy"), [("--help", SOLVING | {"scipy", "numpy", "rich"}), ("problems", SOLVING)]
)
def test_help_and_lists_need_no_heavy_import(command: str, heavy: set[str]) -> None:
    code = (
        "import sys\nfrom cdopt.cli.main import app\n"
        f"try:\n    app(['{command}'])\nexcept SystemExit:\n    pass\n"
        f"sys.exit(', '.join({heavy} & set(sys.modules)) or 0)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert ("simulate" if command == "--help" else "pyramid-hooke:n=10") in done.stdout


def test_what_solvers_print_is_kept_out_and_stdout_comes_back(capfd) -> None:
    with output.solvers_kept_quiet(to_stderr=True):
        os.write(1, b"noise in C\n")
        print("noise in Python")
    with pytest.raises(cdopt.InvalidInput), output.solvers_kept_quiet():
        raise cdopt.InvalidInput("a", "b", "c")
    os.write(1, b"heard\n")
    print("also heard", flush=True)
    assert capfd.readouterr().out == "heard\nalso heard\n"
    with output.solvers_kept_quiet(verbose=True, to_stderr=True):
        os.write(1, b"from C\n")
        print("from Python", flush=True)
    out, err = capfd.readouterr()
    assert out == ""
    assert "from C" in err
    assert "from Python" in err


# --- lists -----------------------------------------------------------------------------


def test_backends_lists_every_known_solver(monkeypatch) -> None:
    listed = run("backends").stdout
    records = {record["name"]: record for record in run_json("backends")}
    for name, record in records.items():
        assert (f"\n{name} " in f"\n{listed}") == bool(record["note"] or record["available"])
    assert {n for n, r in records.items() if r["available"]} == set(cdopt.backends.available())
    assert records["osqp"]["takes"] == ["QP"]
    assert records["osqp"]["cvxpy_rewrites"]
    assert all(bool(r["why_not"]) != r["available"] for r in records.values())


@pytest.mark.parametrize(
    ("command", "name", "shown"),
    [
        ("backends", "osqp", "operator splitting"),
        ("problems", "table", "2.5 2.5 2.5 2.5"),
        ("scenes", "pyramid:n=3", "14 bodies in 3D, 5 of them free"),
    ],
)
def test_what_a_list_names_is_described(command: str, name: str, shown: str) -> None:
    assert name.partition(":")[0] in run(command).stdout
    assert shown in run(command, name).stdout
    assert run_json(command, name)["name"].startswith(name.partition(":")[0])
    refuses("no-such", command, "no-such")


def test_an_accuracy_in_the_settings_of_each_solver() -> None:
    shown = run("backends", "--accuracy", "1e-6", width=500)
    assert "4,000 to 10,000" in shown.stdout
    records = {record["name"]: record for record in run_json("backends", "--accuracy", "1e-7")}
    expected = {"eps_abs": 1e-7, "eps_rel": 1e-7, "max_iter": 200_000}
    assert records["osqp"]["settings"] == expected
    assert records["newton"]["settings"] == {"accuracy": 1e-7}
    assert "ipm_settings.tol_feas" in records["moreau"]["settings"]
    for name in cdopt.backends.available():  # what is shown is what a solver is given
        given = cdopt.backends.resolve(name, accuracy=1e-7)
        if isinstance(given, cdopt.backends.Modelled):
            settings = dict(given.settings)
            nested = settings.pop("ipm_settings", {})
            flat = settings | {f"ipm_settings.{key}": value for key, value in nested.items()}
            assert records[name]["settings"] == flat
    refuses("accuracy", "backends", "--accuracy", "2")


def test_problems_lists_the_bank() -> None:
    listed, records = run("problems").stdout, run_json("problems")
    assert [r["name"] for r in records] == bank.names()
    assert all(f"{r['name']}" in listed.split() and r["title"] for r in records)


def test_version_and_shared_defaults() -> None:
    assert run("--version").stdout == f"cdopt {cdopt.__version__}\n"
    assert output.REFERENCE_BACKEND == cdopt.study.REFERENCE_BACKEND


@pytest.mark.skipif(os.name != "posix", reason="signals of POSIX")
def test_ctrl_c_ends_compiled_code() -> None:
    """A minute of hashing in C, which hears of no signal, as in solvers."""
    code = (
        "import hashlib, signal, threading\n"
        "signal.signal(signal.SIGINT, signal.default_int_handler)  # jobs of shells ignore it\n"
        "from cdopt import cli\nimport cdopt.cli.main as main\n"
        "hashing = lambda: hashlib.pbkdf2_hmac('sha256', b'a', b'b', 100_000_000)\n"
        "here = threading.Timer(0.5, print, ['here'], {'flush': True})  # while it hashes\n"
        "main.app = lambda: (here.start(), hashing())\n"
        "cli.app()"
    )
    with subprocess.Popen(
        [sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "here\n"
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=30)
    assert (process.returncode, err) == (130, "interrupted\n")
