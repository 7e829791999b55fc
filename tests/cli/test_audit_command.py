"""``cdopt audit``: findings, pictures, exit codes."""

from __future__ import annotations

import pytest
from command_line import refuses, run, run_json

import cdopt


@pytest.mark.parametrize(("forces", "code"), [("5 0 5", 0), ("3 3 3", 1)])
def test_forces_of_a_text(tmp_path, forces, code) -> None:
    path, picture = tmp_path / "forces.txt", tmp_path / "found.svg"
    path.write_text("# normal forces\n" + "\n".join(forces.split()))
    result = run("audit", "beam-uniform", "--forces", path, "--plot", picture)
    assert result.exit_code == code
    assert ("An error of mechanics" in result.stdout) == bool(code)
    assert "certificate, classic" in result.stdout
    assert picture.read_text().startswith("<?xml")
    found = run_json("audit", "beam-uniform", "--forces", path, code=code)
    assert found["ok"] == (code == 0)


def test_a_solution_with_friction(tmp_path) -> None:
    path = tmp_path / "solution.npz"
    cdopt.FrictionalCD(cdopt.bank.load("ladder").step).solve("apgd").save(path)
    for more in ((), ("--law", "associated"), ("--at-rest",)):
        assert run("audit", "ladder", "--forces", path, *more).exit_code == 0


def test_what_is_no_table_of_forces_is_named(tmp_path) -> None:
    path = tmp_path / "forces.txt"
    path.write_text("1 2\n3\n")
    refuses("3 lines of 1 numbers", "audit", "beam-uniform", "--forces", path)
    refuses("--forces", "audit", "beam-uniform")
    path.write_text("1 2\n3 x\n")
    refuses("lines of numbers", "audit", "beam-uniform", "--forces", path)
