"""What commands print: nothing that a file says reaches the terminal as a control."""

from __future__ import annotations

import dataclasses
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from campaigns.malformed_calls import bad_ends
from command_line import run

import cdopt
from cdopt._util.formatting import shortened, visible
from cdopt.interop import fclib

NAUGHTY = "\x1b]0;mine\x07\x9b2J\x7f\u202e"
CLI = Path(cdopt.__file__).parent / "cli"


def test_controls_are_written_out() -> None:
    assert visible(NAUGHTY + "\ta\n\ud800–é") == (
        "\\x1b]0;mine\\x07\\x9b2J\\x7f\\u202e\ta\n\\ud800–é"
    )
    assert shortened("a" * 10 + "b" * 10, 9) == "aaaaa…bbb"
    assert shortened("abc", 3) == "abc"


def test_commands_print_by_one_way_alone() -> None:
    for path in CLI.glob("*.py"):
        text = path.read_text()
        assert "print(" not in text.replace("_print(", "").replace(".print(", ""), path
        if path.name != "output.py":
            assert "typer.echo" not in text, path
            assert "Console(" not in text, path


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Files of every kind whose titles, names and ids are naughty."""
    folder = tmp_path_factory.mktemp("naughty")
    floor = cdopt.scene.Body(
        cdopt.scene.HalfSpace((0.0, 1.0)), (0.0, 0.0), fixed=True, name=f"floor{NAUGHTY}"
    )
    balls = [
        cdopt.scene.Body(cdopt.scene.Sphere(0.1), (x, 0.1), mass=1.0, name=f"{x}{NAUGHTY}")
        for x in (0.0, 0.2)
    ]
    scene = cdopt.scene.Scene(
        [floor, *balls], dim=2, title=f"title{NAUGHTY}", name=f"name{NAUGHTY}"
    )
    scene.save(folder / "scene.toml")
    cdopt.simulate(scene, 1e-3, 2e-3, out=folder / "run.vtkhdf")
    step = cdopt.bank.load("beam-uniform").step.replace(
        contact_ids=[f"{side}{NAUGHTY}" for side in "abc"]
    )
    step.save(folder / "step.npz")
    assert cdopt.ContactStep.load(folder / "step.npz").contact_names[0] == f"a{NAUGHTY}"
    fclib.write(folder / "problem.hdf5", step, title=f"title{NAUGHTY}")
    (folder / "bad.toml").write_text(f"dim = 2\n{json.dumps(NAUGHTY)} = 1")
    return folder


@pytest.mark.parametrize(
    ("words", "shown"),
    [
        (("solve", "step.npz", "--solver", "pgs"), True),
        (("solve", "scene.toml", "--solver", "pgs"), True),
        (("solve", "problem.hdf5", "--solver", "pgs"), False),
        (("bounds", "step.npz"), True),
        (("sensitivity", "step.npz"), True),
        (("scenes", "scene.toml"), True),
        (("show", "run.vtkhdf"), True),
        (("simulate", "scene.toml", "-q"), True),
        (("solve", "bad.toml"), True),
        (("show", f"{NAUGHTY}.vtkhdf"), True),
    ],
)
def test_what_files_say_is_shown_and_not_sent(
    files: Path, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...], shown: bool
) -> None:
    monkeypatch.chdir(files)
    result = run(*words)
    printed = result.stdout + result.stderr
    assert printed
    assert not set(NAUGHTY) & set(printed) - set("]0;mine2J")
    assert ("\\x1b]0;m" in printed) == shown


def test_json_stays_json(files: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(files)
    result = run("scenes", "scene.toml", "--json")
    assert json.loads(result.stdout)["title"] == f"title{NAUGHTY}"
    assert not set("\x1b\x07\x7f\x9b") & set(result.stdout)


def test_messages_quote_no_whole_file() -> None:
    long = "x" * 100_000
    for error in (
        cdopt.InvalidInput(long, long, long), cdopt.Unsupported(long, long), cdopt.CdoptError(long),
        cdopt.SolveFailed(long, backend="a", status="b"), cdopt.BackendUnavailable(long, long),
    ):  # fmt: skip
        assert len(str(error)) <= 5000
    assert len(cdopt.InvalidInput("path", long, "less").found) <= 1000
    with pytest.raises(cdopt.InvalidInput) as caught:
        cdopt.scene.files.loads(f'dim = 2\n"{long}" = 1')
    assert len(str(caught.value)) < 4000
    assert "expected a field that belongs here" in str(caught.value)
    assert str(cdopt.InvalidInput("a\x1b", "b", "c")) == "a\\x1b: found b; expected c"


def test_messages_write_out_texts_alone() -> None:
    """Writing out such a matrix walks out of its arrays."""
    for bad in bad_ends():
        for make, given in (
            (cdopt.BackendUnavailable, ("a", bad)), (cdopt.SaveFailed, (bad, bad)),
            (cdopt.CdoptError, (bad,)), (cdopt.Unsupported, (bad, "a", (bad,))),
            (cdopt.InvalidInput, ("a", bad, "b")),
        ):  # fmt: skip
            try:
                said = str(make(*given))
            except cdopt.InvalidInput as refused:
                said = str(refused)
            assert type(bad).__name__ in said or "sparse matrix" in said
        with pytest.raises(cdopt.InvalidInput, match="power"):
            dataclasses.replace(cdopt.open_problem("beam-uniform"), power=bad)


def command(words: str, **given) -> subprocess.CompletedProcess:
    """``cdopt WORDS`` in a separate process; ``given`` to ``subprocess.run``."""
    variables = {**os.environ, **given.pop("env", {})}
    given = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **given}
    line = [sys.executable, "-m", "cdopt", *words.split()]
    return subprocess.run(line, text=True, timeout=300, check=False, env=variables, **given)


@pytest.mark.slow
@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no such device")
def test_a_full_disk_behind_the_output_is_one_line() -> None:
    with Path("/dev/full").open("w") as full:
        done = command("backends", stdout=full)
        assert done.stderr == "error: no output: No space left on device\n"
        assert done.returncode == 1
        done = command("solve nosuch", stderr=full)
        assert (done.stdout, done.returncode) == ("", 1)


@pytest.mark.slow
def test_a_terminal_of_ascii_and_a_backend_that_is_none(tmp_path: Path) -> None:
    variables = {"PYTHONIOENCODING": "ascii", "MPLBACKEND": "none such"}
    words = f"solve beam-uniform --solver pgs,newton --plot {tmp_path / 'a.png'}"
    done = command(words, env=variables)
    assert done.returncode == 0, done.stderr
    assert "Traceback" not in done.stderr
    assert done.stdout.isascii()
    assert "\\u" not in done.stdout
    assert (tmp_path / "a.png").is_file()


@pytest.mark.skipif(sys.platform == "win32", reason="a folder in use stays there")
def test_a_folder_that_is_gone_is_one_line(tmp_path: Path) -> None:
    folder = tmp_path / "gone"
    folder.mkdir()
    line = f"import os; os.chdir({str(folder)!r}); os.rmdir({str(folder)!r}); import sys; "
    line += "sys.argv = ['cdopt', 'solve', 'beam-uniform']; from cdopt.cli import app; app()"
    root = str(Path(cdopt.__file__).parents[1])
    done = subprocess.run([sys.executable, "-c", line], capture_output=True, text=True, timeout=300,
                          check=False, env={**os.environ, "PYTHONPATH": root})  # fmt: skip
    assert done.stderr == "error: the working folder cannot be used: No such file or directory\n"
    assert done.returncode == 1


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="descriptors are closed by a shell")
def test_a_closed_output_is_no_traceback() -> None:
    line = f"exec {sys.executable} -m cdopt solve beam-uniform --solver pgs >&-"
    done = subprocess.run(line, shell=True, capture_output=True, text=True, timeout=300,
                          check=False)  # fmt: skip
    assert (done.returncode, "Traceback" in done.stderr) == (0, False)
