"""Words that readers stumbled over: docs, lessons, docstrings and messages do without them."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
INSTEAD = {
    "beside": "next to, compared with, in addition to",
    "what acts": "the local load",
    "so many": "this number of, n",
    "of its own": "separate, its",
    "anew": "again",
    "law of Coulomb": "Coulomb's law",
    "lends?": "gives",
    "likewise": "also",
    "foretold": "predicted",
    "the solver says": "the status of the solver is",
}
BANNED = re.compile(rf"\b({'|'.join(INSTEAD)})\b", re.I)
FOLDERS = ("cdopt", "docs", "examples", "benchmarks")
SKIPPED = ("_build", "lessons", "commands.md")  # made by the build of the guide

pytestmark = pytest.mark.skipif(not (ROOT / "docs").is_dir(), reason="no checkout")


def test_no_banned_words() -> None:
    paths = [path for folder in FOLDERS for path in (ROOT / folder).rglob("*.*")]
    texts = [*ROOT.glob("*.md"), *(p for p in paths if p.suffix in (".py", ".md", ".html", ".js"))]
    for path in texts:
        if not {*path.relative_to(ROOT).parts} & {*SKIPPED}:
            for number, line in enumerate(path.read_text(encoding="utf-8").split("\n"), 1):
                assert not BANNED.search(line), f"{path}:{number}: {line.strip()}"


def test_results_are_not_called_found() -> None:
    """In the guide and the lessons a result has the name of what it is."""
    for path in (*(ROOT / "docs").glob("*.md"), *(ROOT / "examples").rglob("*.py")):
        assert not re.search(r"^\s*found = ", path.read_text(encoding="utf-8"), re.M), path
