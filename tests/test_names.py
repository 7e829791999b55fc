"""The name of the distribution is not that of another project, whose files are refused."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import cdopt

ROOT = Path(cdopt.__file__).parents[1]
checkout = pytest.mark.skipif(not (ROOT / "pyproject.toml").is_file(), reason="no checkout")


@checkout
def test_the_distribution_has_a_name_and_the_version_of_the_package() -> None:
    stated = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert (stated["name"], stated["version"]) == ("cdopt-contact", cdopt.__version__)
    extras = [line for extra in stated["optional-dependencies"].values() for line in extra]
    assert not [line for line in extras if re.match(r"cdopt\b(?!-contact)", line)]


@checkout
def test_no_hint_installs_the_other_project() -> None:
    wrong = re.compile(r"pip install [^\n`&]*\bcdopt(?!-contact)\b|['\"`]cdopt\[")
    pages = [ROOT / "README.md", *(ROOT / "docs").glob("*.md"), *(ROOT / "examples").rglob("*.py")]
    for path in (*pages, *(ROOT / "cdopt").rglob("*.py")):
        text = path.read_text(encoding="utf-8").replace("never `cdopt[mujoco]`", "")
        assert not wrong.search(text), path


def imported(folder: Path, line: str) -> str:
    """What Python says on stderr of a line that imports from a folder."""
    done = subprocess.run([sys.executable, "-c", line], cwd=folder, capture_output=True, text=True,
                          check=False, timeout=300)  # fmt: skip
    assert done.returncode == 1
    return done.stderr.splitlines()[-1]


def test_files_of_the_other_project_are_refused(tmp_path: Path) -> None:
    """Installed before this one, or after it, when the beginning of the package is theirs."""
    package, own = tmp_path / "cdopt", Path(cdopt.__file__).parent
    (package / "manifold").mkdir(parents=True)
    for name in ("__init__.py", "__init__.pyi"):
        shutil.copy(own / name, package / name)
    said = imported(tmp_path, "import cdopt")
    assert said.startswith("ImportError: the folder of cdopt holds files of another project")
    (package / "__init__.py").write_text("__version__ = '0.5.5'\n")
    shutil.copytree(own / "cli", package / "cli")
    said = imported(tmp_path, "from cdopt.cli import app; app()")
    assert said.startswith("error: another project of the name cdopt is installed over this one")
