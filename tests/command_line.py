"""Running ``cdopt`` in this process."""

from __future__ import annotations

import json
from functools import cache
from typing import Any

from typer import testing
from typer.testing import CliRunner

from cdopt.cli.main import app

testing._get_command = cache(testing._get_command)  # every call would build all commands


def run(*words: object, width: int = 120):
    """The result of ``cdopt WORDS``."""
    runner = CliRunner(env={"COLUMNS": str(width), "NO_COLOR": "1"})
    return runner.invoke(app, [str(word) for word in words])


def run_json(*words: object, code: int = 0) -> Any:
    """What ``cdopt WORDS --json`` prints, which is JSON and nothing else."""
    result = run(*words, "--json")
    assert result.exit_code == code, result.stderr
    return json.loads(result.stdout)


def refuses(said: str, *words: object) -> None:
    """``cdopt WORDS`` ends with 1 and one line on stderr that contains ``said``."""
    result = run(*words)
    assert result.exit_code == 1
    assert result.stdout == ""
    assert result.stderr.startswith("error: ")
    assert said in result.stderr
    assert result.stderr.count("\n") == 1
