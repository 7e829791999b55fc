"""cdopt with the lowest declared versions of its dependencies, and with other Pythons."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
OFFLINE = ("error sending request", "dns error", "client error (Connect)")  # uv's words
VERSIONS = {  # of the packages, for each Python
    "3.11": ("--resolution", "lowest-direct"),
    "3.12": ("--constraint", str(ROOT / "constraints.txt")),
    "3.13": ("--constraint", str(ROOT / "constraints.txt")),
}
# each dependency is at work: solvers, compiled loops, files, the command line, pictures, pages
CHOSEN = (
    "tests/problem/test_mass.py",
    "tests/test_linear_program.py",
    "tests/cli/test_bounds_command.py::test_beam_with_solvers_and_a_picture",
    "tests/backends/test_modelled.py",
    "tests/_util/test_hostile_pages.py",
    "tests/hyperstatic/test_weak_couplings.py::test_a_tile_on_four_legs_and_on_three",
    "tests/interop/test_fclib.py::test_published_files_are_read_and_written_back_to_the_last_digit",
    "tests/backends/test_direct.py",
)


def interpreter(version: str) -> str | None:
    """A Python of this version that runs: this one, on PATH, or among pyenv's."""
    home = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")) / "versions"
    found = [shutil.which(f"python{version}"), *home.glob(f"{version}.*/bin/python3")]
    if sys.version_info[:2] == tuple(int(part) for part in version.split(".")):
        found.insert(0, sys.executable)
    for path in filter(None, found):
        asked = [str(path), "-c", "import sys; print('%d.%d' % sys.version_info[:2])"]
        told = subprocess.run(asked, capture_output=True, text=True, check=False)
        if told.stdout.strip() == version:
            return str(path)
    return None


@pytest.mark.slow
@pytest.mark.parametrize("version", VERSIONS)
def test_every_python_works_and_the_lowest_versions_suffice(version: str, tmp_path: Path) -> None:
    """The oldest Python with the lowest declared versions, later ones with those last tested.

    Deprecation warnings of old packages about newer ones do not count, failures do.
    """
    python = interpreter(version)
    if python is None:
        pytest.skip(f"no Python {version} here")
    uv = shutil.which("uv", path=f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
    if uv is None:
        pytest.skip("uv is not installed")
    python_there = str(tmp_path / "env" / "bin" / "python")
    install = [uv, "pip", "install", "--quiet", "--python", python_there]
    wanted = [*VERSIONS[version], "-r", str(ROOT / "pyproject.toml")]
    source = tmp_path / "source"
    left_out = shutil.ignore_patterns(".*", "__pycache__", "build", "guide", "study")
    shutil.copytree(ROOT, source, ignore=lambda folder, names: (
        left_out(folder, names) if Path(folder) == ROOT else set()
    ))  # fmt: skip
    for command in (
        [uv, "venv", "--quiet", "--python", python, str(tmp_path / "env")],
        [*install, "--no-build", *wanted, "--extra", "solvers", "--extra", "test"],
        [*install, "--no-deps", str(source)],
    ):
        done = subprocess.run(command, check=False, cwd=tmp_path, capture_output=True, text=True)
        if done.returncode != 0 and any(words in done.stderr for words in OFFLINE):
            pytest.skip(f"no package index can be reached: {done.stderr.strip()[-300:]}")
        assert done.returncode == 0, done.stderr[-4000:]
    run = [python_there, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--tb=line"]
    told = subprocess.run(
        [*run, "-W", "ignore::DeprecationWarning", *CHOSEN],
        cwd=source, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert told.returncode == 0, told.stdout[-4000:] + told.stderr[-2000:]
