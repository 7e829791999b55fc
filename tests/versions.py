"""cdopt on other Pythons and with other versions of what it depends on.

    python -m tests.versions                       both of the following
    python -m tests.versions latest                newest Python, latest versions, fast tests
    python -m tests.versions lowest                oldest Python, lowest versions, some tests
    python -m tests.versions latest --python 3.12  another Python
    python -m tests.versions latest tests/problem  these tests

Each is installed from nothing into a separate folder, which is deleted. Needs ``uv``, of the
extra ``test``, and a package index. What was skipped is printed with its reason.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parents[1]
OFFLINE = ("error sending request", "dns error", "client error (Connect)")  # uv's words
PYTHONS = ("3.11", "3.12", "3.13", "3.14")  # from the oldest; 3.14 where it is found
LATEST: tuple[str, ...] = ()
LOWEST = ("--resolution", "lowest-direct")
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
# of old packages about newer ones; failures count all the same
OLD_WARNINGS = ("-W", "ignore::DeprecationWarning")


class NotTriedError(Exception):
    """A version cannot be tried here; the message says why."""


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


def installed(folder: Path, version: str, wanted: tuple[str, ...]) -> tuple[Path, str]:
    """A copy of the source in a folder, and a Python in which it is installed with its tests.

    ``wanted`` are options of ``uv pip install`` that choose the versions.

    Raises
    ------
    NotTriedError : no such Python, no uv or no package index.
    """
    python = interpreter(version)
    if python is None:
        raise NotTriedError(f"no Python {version} here")
    uv = shutil.which("uv", path=f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
    if uv is None:
        raise NotTriedError("uv is not installed")
    python_there = str(folder / "env" / "bin" / "python")
    install = [uv, "pip", "install", "--quiet", "--compile-bytecode", "--python", python_there]
    extras = ["-r", str(ROOT / "pyproject.toml"), "--extra", "solvers", "--extra", "test"]
    source = folder / "source"
    left_out = shutil.ignore_patterns(".*", "__pycache__", "build", "guide", "study", "editable")
    shutil.copytree(ROOT, source, ignore=lambda at, names: (
        left_out(at, names) if Path(at) == ROOT else set()
    ))  # fmt: skip
    for command in (
        [uv, "venv", "--quiet", "--python", python, str(folder / "env")],
        [*install, "--no-build", *wanted, *extras],
        [*install, "--no-deps", str(source)],
    ):
        done = subprocess.run(command, check=False, cwd=folder, capture_output=True, text=True)
        if done.returncode != 0 and any(words in done.stderr for words in OFFLINE):
            raise NotTriedError(f"no package index can be reached: {done.stderr.strip()[-300:]}")
        if done.returncode != 0:
            raise RuntimeError(f"{' '.join(command)}\n{done.stderr[-4000:]}")
    return source, python_there


def tested(
    version: str, wanted: tuple[str, ...], options: tuple[str, ...], folder: Path
) -> subprocess.CompletedProcess[str]:
    """Tests of an installation in a folder; ``options`` are those of pytest."""
    source, python = installed(folder, version, wanted)
    command = [python, "-m", "pytest", "-q", "--tb=short", *options]
    return subprocess.run(command, cwd=source, check=False, text=True, capture_output=True)


def main() -> int:
    """Try what is asked for; returns the number of attempts that failed."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("which", nargs="?", choices=("latest", "lowest", "both"), default="both")
    parser.add_argument("--python", choices=PYTHONS, help="which Python")
    asked, tests = parser.parse_known_args()
    there = [version for version in PYTHONS if interpreter(version)]
    print("Pythons here:", ", ".join(there), "; not:", ", ".join({*PYTHONS} - {*there}) or "none")
    failed = 0
    for name, version, wanted, options in (
        ("latest", asked.python or there[-1], LATEST, tests or ["-n", "2"]),
        ("lowest", asked.python or there[0], LOWEST, [*OLD_WARNINGS, *(tests or CHOSEN)]),
    ):
        if asked.which not in (name, "both"):
            continue
        print(f"=== Python {version}, {name} versions", flush=True)
        with tempfile.TemporaryDirectory() as folder:
            try:
                done = tested(version, wanted, tuple(options), Path(folder))
            except NotTriedError as reason:
                print("not tried:", reason)
                continue
        print(done.stdout[-30_000:], done.stderr[-3000:], sep="\n", flush=True)
        failed += done.returncode != 0
    return failed


if __name__ == "__main__":
    sys.exit(main())
