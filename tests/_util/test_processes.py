"""Processes that make calls for another one, and end with it."""

from __future__ import annotations

import subprocess
import sys

import pytest


@pytest.mark.skipif(sys.platform != "linux", reason="the kernel ends children only on Linux")
@pytest.mark.parametrize(("parent", "code"), [("os.getppid()", 0), ("os.getppid() + 1", 1)])
def test_a_process_whose_parent_has_ended_before_it_could_ask_ends_too(
    parent: str, code: int
) -> None:
    """Between the fork and the order to the kernel the parent may be killed."""
    program = f"import os\nfrom cdopt._util import processes\nprocesses.die_with_parent({parent})"
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == code
