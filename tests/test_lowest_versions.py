"""cdopt with the lowest declared versions of its dependencies, and on another Python."""

from __future__ import annotations

from pathlib import Path

import pytest
import versions

WANTED = {  # for each Python; the newest one with the latest versions is a step of .ci/run
    "3.11": versions.LOWEST,
    "3.12": ("--constraint", str(versions.ROOT / "constraints.txt")),
}


@pytest.mark.slow
@pytest.mark.parametrize("version", WANTED)
def test_every_python_works_and_the_lowest_versions_suffice(version: str, tmp_path: Path) -> None:
    """The oldest Python with the lowest declared versions, a later one with those last tested."""
    options = ("-p", "no:cacheprovider", *versions.OLD_WARNINGS, *versions.CHOSEN)
    try:
        told = versions.tested(version, WANTED[version], options, tmp_path)
    except versions.NotTriedError as reason:
        pytest.skip(str(reason))
    assert told.returncode == 0, told.stdout[-4000:] + told.stderr[-2000:]
