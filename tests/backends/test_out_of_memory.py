"""A solve that runs out of memory ends in an error that says how large the problem is."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import cdopt
from cdopt.backends import PGS
from cdopt.formulations.base import Formulation
from cdopt.study import ProblemSource, StudyRun
from cdopt.study.measure import measure

NO_ROOM = "Unable to allocate 3.10 GiB"


def exhausted(*_: object) -> None:
    raise MemoryError(NO_ROOM)


@pytest.mark.parametrize(("holder", "name"), [(PGS, "_solve"), (Formulation, "_solution")])
def test_the_error_has_the_size(monkeypatch: pytest.MonkeyPatch, holder: type, name: str) -> None:
    classic = cdopt.ClassicCD(cdopt.bank.load("beam-uniform").step)
    monkeypatch.setattr(holder, name, exhausted)
    with pytest.raises(
        cdopt.SolveFailed, match=f"by pgs: out of memory with 3 c.*; {NO_ROOM}"
    ) as e:
        classic.solve("pgs")
    assert isinstance(e.value.raw, MemoryError)
    found = list(measure(StudyRun(ProblemSource("beam-uniform"), "classic-force", "pgs")))[-1]
    assert found.outcome == "memory"


def test_without_a_check_the_status_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(PGS, "_solve", exhausted)
    step = cdopt.bank.load("beam-uniform").step
    solution = cdopt.ClassicCD(step).solve("pgs", check=False)
    assert (solution.f, solution.ok) == (None, False)
    assert solution.status == f"out of memory: {NO_ROOM}"
    assert list(cdopt.compare(step, ["pgs", "newton"]).failures) == ["pgs"]


LIMITED = """
import resource, cdopt
from pathlib import Path
classic = cdopt.ClassicCD(cdopt.bank.load("pyramid-hooke:n=20").step)
cdopt.ClassicCD(cdopt.bank.load("pyramid-hooke:n=10").step).solve("newton")  # loads all loops
held = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (held + 2 * 2**20,) * 2)
try:
    classic.solve("newton")
except cdopt.SolveFailed as error:
    print(error)
"""


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="memory is limited on Linux")
def test_newton_under_a_limit_of_memory() -> None:
    done = subprocess.run([sys.executable, "-c", LIMITED], capture_output=True, text=True,
                          timeout=300, check=True)  # fmt: skip
    assert "out of memory with 14,440 contacts" in done.stdout
