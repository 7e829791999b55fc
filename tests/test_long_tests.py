"""The list of long tests names tests that exist."""

import re
from pathlib import Path

LINES = (Path(__file__).parent / "long_tests.txt").read_text("utf-8").splitlines()


def test_every_line_names_a_function_of_a_file():
    assert sorted(set(LINES)) == LINES
    for line in LINES:
        file, name = re.fullmatch(r"(tests/\S+\.py)::(test_\w+)(?:\[.+\])?", line).groups()
        assert f"\ndef {name}(" in (Path(__file__).parent.parent / file).read_text("utf-8")


def test_those_of_this_run_are_marked(request):
    for item in request.session.items:
        assert (item.nodeid not in LINES) or item.get_closest_marker("slow")
