"""``cdopt simulate`` and ``cdopt show``: summaries, exit codes, resuming, pure JSON."""

from __future__ import annotations

import json
import shlex
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from command_line import refuses, run, run_json

import cdopt
from cdopt.cli import output


@pytest.fixture(scope="module")
def dropped(tmp_path_factory) -> Path:
    """A pyramid that fell for 12 steps."""
    path = tmp_path_factory.mktemp("runs") / "pile.vtkhdf"
    result = run("simulate", "pyramid:n=3", "--duration", "0.012", "--out", path)
    assert result.exit_code == 0
    return path


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("bem", "did you mean 'beam'"),
        ("pyramid:m=4", "no parameter of 'pyramid'"),
        ("pyramid:n=four", "an integer"),
        ("pyramid:n=1", "n: found 1"),
        ("nowhere.toml", "nowhere.toml"),
        ("beam --dt 0", "dt"),
        ("beam --duration -1", "duration"),
        ("beam --method classic --json", "method"),
        ("beam --backend newtom", "backend"),
        ("beam --every 0", "every"),
        ("beam --resume", "--out"),
        ("beam --out nowhere/run.vtkhdf", "nowhere"),
    ],
)
def test_bad_input(arguments: str, message: str) -> None:
    refuses(message, "simulate", *arguments.split())


# --- what it says ----------------------------------------------------------------------


def test_the_summary_says_what_the_run_came_to() -> None:
    result = run("simulate", "beam", "--quiet")
    assert result.exit_code == 0
    assert result.stderr == ""
    for text in (
        "20 steps to t = 0.02 s, 21 frames", "all 20 steps certified", "worst residual",
        "deepest overlap", "kinetic energy left", "compatible 6 N", "10 N of 10 N", "detect",
    ):  # fmt: skip
        assert text in result.stdout, text


def test_progress_on_stderr(monkeypatch) -> None:
    monkeypatch.setattr(output, "PAUSE", 0.0)
    result = run("simulate", "beam", "--duration", "0.003")
    lines = result.stderr.splitlines()
    assert len(lines) == 3
    assert lines[1].startswith("step 2 of 3: t = 0.002 s, ")
    assert "contacts, residual" in lines[1]


def test_json_is_all_there_is_on_stdout() -> None:
    content = run_json("simulate", "beam", "--duration", "0.02", "--every", "8")
    assert content["ok"]
    assert content["failure"] is None
    assert not content["interrupted"]
    assert content["summary"]["steps"] == 20
    assert content["summary"]["largest"]["f"] == pytest.approx(6.0)
    assert content["frames"]["step"] == [0, 8, 16, 20]
    assert len(content["diagnostics"]["kinetic"]) == 21
    assert content["settings"]["method"] == "compatible-cd"
    content = run_json("simulate", "table", "--method", "classic-cd", "--backend", "pgs", "-q")
    assert "PGS" in content["settings"]["backend"]
    assert list(content["summary"]["largest"]) == ["f"]
    assert content["summary"]["reaction"] == pytest.approx(10.0)


JAMMED = """
dim = 2
gravity = [0.0, 0.0]
[[bodies]]
shape = "half-space"
position = [0.0, 0.0]
normal = [0.0, 1.0]
velocity = [0.0, 0.1]
[[bodies]]
shape = "half-space"
position = [0.0, 0.21]
normal = [0.0, -1.0]
[[bodies]]
shape = "sphere"
radius = 0.1
position = [0.0, 0.105]
mass = 1.0
"""


@pytest.mark.slow
@pytest.mark.parametrize("as_json", [[], ["--json"]])
def test_a_step_proven_infeasible_exits_with_2_and_keeps_what_was_done(as_json, tmp_path) -> None:
    scene, out = tmp_path / "press.toml", tmp_path / "press.vtkhdf"
    scene.write_text(JAMMED)
    arguments = ("--dt", "0.03", "--duration", "0.5", "--out", out, "--quiet", *as_json)
    result = run("simulate", scene, *arguments)
    assert result.exit_code == 2
    assert str(out) in result.stderr
    if as_json:
        failure = json.loads(result.stdout)["failure"]
        assert failure["proven_infeasible"]
        assert failure["t"] == pytest.approx(0.12)
    else:
        assert "Proven infeasible" in " ".join(result.stdout.split())
    shown = run("show", out)
    assert shown.exit_code == 0
    assert "NOT certified" in shown.stdout


def test_a_step_without_certificate_exits_with_1(monkeypatch) -> None:
    coarse = cdopt.backends.APGD(accuracy=1e-2)
    failing = cdopt.dynamics.CompatibleSteps(classic_backend=coarse, tol=1e-12)
    original = cdopt.simulate
    monkeypatch.setattr(
        cdopt, "simulate",
        lambda scene, dt, t, method, **options: original(scene, dt, t, failing, **options),
    )  # fmt: skip
    result = run("simulate", "pyramid:n=3", "-q")
    assert result.exit_code == 1
    assert result.stderr.startswith("error: the step to t = ")
    assert result.stderr.count("\n") == 1


# --- files -----------------------------------------------------------------------------


@pytest.mark.slow
def test_a_file_that_exists_is_left_alone_unless_resumed(dropped, tmp_path) -> None:
    before = dropped.read_bytes()
    result = run("simulate", "pyramid:n=3", "--out", dropped)
    assert result.exit_code == 1
    assert "--resume" in result.stderr
    assert dropped.read_bytes() == before
    mine = tmp_path / "mine.vtkhdf"
    mine.write_bytes(before)
    longer = run("simulate", "pyramid:n=3", "--duration", "0.015", "--out", mine, "--resume")
    assert longer.exit_code == 0
    assert "15 steps to t = 0.015 s" in longer.stdout
    other = run("simulate", "pyramid:n=4", "--out", mine, "--resume")
    assert other.exit_code == 1
    assert other.stderr.startswith("error: scene: ")


LONG = ("simulate", "crystal:rows=2,columns=3", "--dt", "1e-4", "--duration", "1000", "--out")


def goes_on(out: Path, printed: str, said: str) -> None:
    """What an interrupted run of ``LONG`` says, and that its last words continue it."""
    assert "certified" in printed
    line = next(x for x in said.splitlines() if x.startswith("interrupted at t = "))
    again = shlex.split(line.partition("go on: ")[2])
    assert again[:2] == ["cdopt", "simulate"]
    done = int(cdopt.Trajectory.load(out).diagnostics["step"][-1])
    assert done > 0
    again[again.index("--duration") + 1] = repr((done + 3) * 1e-4)
    resumed = run(*again[1:])
    assert resumed.exit_code == 0
    assert f"{done + 3} steps" in resumed.stdout


def test_an_interrupted_run_keeps_its_file_and_says_how_to_go_on(tmp_path, monkeypatch) -> None:
    def stop(done: int, *words: object) -> None:
        if done == 5:
            raise KeyboardInterrupt

    out = tmp_path / "long run.vtkhdf"
    with monkeypatch.context() as patched:
        patched.setattr(output, "progress", lambda *words: stop)
        result = run(*LONG, out)
    assert result.exit_code == 130
    goes_on(out, result.stdout, result.stderr)


@pytest.mark.slow
def test_ctrl_c_interrupts_a_process(tmp_path) -> None:
    out = tmp_path / "long run.vtkhdf"
    command = [sys.executable, "-m", "cdopt", *LONG, str(out)]
    before = signal.signal(signal.SIGINT, signal.SIG_DFL)  # a child of nohup would ignore it
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        signal.signal(signal.SIGINT, before)
        try:
            assert process.stderr is not None
            assert any(line.startswith("step ") for line in process.stderr)  # it is under way
            process.send_signal(signal.SIGINT)
            printed, said = process.communicate(timeout=600)
        finally:
            process.kill()  # where it has ended, nothing
    assert process.returncode == 130, said
    goes_on(out, printed, said)


# --- show ------------------------------------------------------------------------------


def test_show_summarises_a_run(dropped) -> None:
    result = run("show", dropped)
    assert result.exit_code == 0
    assert result.stderr == ""
    for text in (
        "pyramid-3: A cannonball pyramid", "compatible-cd, dt = 0.001 s", "all 12 steps certified",
        "overlap [m]", "classic and forces: worst residual", "frame 12 of 0 to 12",
        "compatible forces", "classic forces",
    ):  # fmt: skip
        assert text in " ".join(result.stdout.split()), text


@pytest.mark.parametrize("width", [60, 80])
def test_no_line_exceeds_the_terminal(dropped, width: int) -> None:
    shown = run("show", dropped, width=width).stdout
    assert max(map(len, shown.splitlines())) <= width
    assert width < 80 or "…" not in shown


def test_show_has_the_forces_of_a_frame_and_draws_it(dropped, tmp_path) -> None:
    picture = tmp_path / "pile.png"
    content = run_json("show", dropped, "--frame", 5, "--plot", picture)
    assert picture.read_bytes().startswith(b"\x89PNG")
    frame = cdopt.Trajectory.load(dropped)[5]
    assert content["frame"]["number"] == 5
    np.testing.assert_allclose(content["frame"]["forces"]["f"], frame.f)
    np.testing.assert_array_equal(content["frame"]["bodies"], frame.bodies)


def test_show_refuses_in_one_line(dropped, tmp_path) -> None:
    refuses("--frame", "show", dropped, "--frame", "99")
    refuses(".png", "show", dropped, "--plot", "pile.bmp")
    refuses(".html", "show", dropped, "--page", "pile.txt")
    refuses("nowhere", "show", dropped, "--page", "nowhere/pile.html")
    path = tmp_path / "other.vtkhdf"
    refuses("no such file", "show", path)
    path.write_bytes(b"something else")
    refuses("path: ", "show", path)


@pytest.mark.slow
def test_show_makes_a_page(dropped, tmp_path) -> None:
    pytest.importorskip("k3d", reason="pages need the extra 'pages'")
    page = tmp_path / "pile.html"
    result = run("show", dropped, "--page", page)
    assert result.exit_code == 0
    assert "MB" in result.stderr
    assert "A cannonball pyramid" in page.read_text(encoding="utf-8")


@pytest.mark.slow
def test_writing_commands_name_what_replaces_a_file(tmp_path) -> None:
    out = tmp_path / "run.vtkhdf"
    words = ("simulate", "pyramid:n=2", "--duration", "1e-3", "--out")
    refuses("a name ending in .vtkhdf", *words, tmp_path / "run.vtk")
    assert run(*words, out).exit_code == 0
    refuses("--force to replace it, or --resume", *words, out)
    first = out.read_bytes()
    refuses("together with --resume", *words, out, "--force", "--resume")
    assert out.read_bytes() == first
    assert run(*words, out, "--force", "--every", "5").exit_code == 0
    assert out.read_bytes() != first
    page = tmp_path / "page.html"
    page.write_text("mine")
    refuses("or --force to replace it", "explore", "tripod", "--out", page)
    assert page.read_text() == "mine"
    assert run("explore", "tripod", "--out", page, "--force").exit_code == 0
    own = run("explore", "tripod", "--out", page, "--force", "--title", "My <tripod>")
    assert own.exit_code == 0
    assert "<h1>My &lt;tripod&gt;</h1>" in page.read_text()


@pytest.mark.slow
def test_without_what_draws_pages_the_plot_is_written(dropped, tmp_path, monkeypatch) -> None:
    monkeypatch.setitem(sys.modules, "k3d", None)
    plot, page = tmp_path / "pile.png", tmp_path / "pile.html"
    result = run("show", dropped, "--plot", plot, "--page", page)
    assert result.exit_code == 1
    assert "certificates" in result.stdout
    assert "k3d is not installed; pip install k3d" in result.stderr
    assert plot.exists()
    assert not page.exists()


def test_explore_names_its_page_after_the_scene(tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    shown = []
    monkeypatch.setattr("webbrowser.open", lambda address: shown.append(address) or True)
    assert run("explore", "supports:n=3", "--open").exit_code == 0
    assert [path.name for path in tmp_path.iterdir()] == ["supports-n-3.html"]
    assert shown == [(tmp_path / "supports-n-3.html").as_uri()]


def test_contacts_of_runs_are_called_by_their_bodies(dropped) -> None:
    named = cdopt.open_problem(f"{dropped}#2")
    assert all("–" in name and len(name) < 20 for name in named.contact_names)
    assert len(set(named.contact_names)) == named.nc
