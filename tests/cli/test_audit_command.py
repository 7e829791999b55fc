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


def test_unknown_columns_of_a_list_are_stated_by_an_option(tmp_path) -> None:
    contacts, bodies = tmp_path / "contacts.txt", tmp_path / "bodies.txt"
    contacts.write_text("a b c d e f g h\n0 1 0 0 0 1 0 9.81\n")
    bodies.write_text("id x y radius mass\n1 0 1 1 1\n")
    listed = ("audit", contacts, "--bodies", bodies, "--friction", 0.5)
    refuses("--columns gives names", *listed)
    stated = ("--columns", "id1 id2 px py nx ny fx fy")
    assert "Nothing is wrong" in run(*listed, *stated).stdout
    assert "A contact list, with --bodies" in " ".join(run("audit", "--help").stdout.split())


def test_a_long_reason_is_below_the_table(tmp_path, monkeypatch) -> None:
    """At 80 columns all values are whole, and all words of the reason are there."""
    path = tmp_path / "forces.txt"
    path.write_text("3\n3\n3\n")
    why = "no forces have this motion: " + " ".join(f"word{k}" for k in range(30))
    judged = cdopt.audit(cdopt.bank.load("beam-uniform").step, [3, 3, 3])
    hidden = type(judged)._of(**{**vars(judged), "nearest": None, "failure": why})
    monkeypatch.setattr(cdopt, "audit", lambda *args, **more: hidden)
    monkeypatch.setenv("COLUMNS", "80")
    printed = run("audit", "beam-uniform", "--forces", path).stdout
    assert "…" not in printed
    table, below = printed.split("3 distance from admissible forces: ")
    assert "see below" in table
    assert why in " ".join(below.split())
    assert all(value in table for _, value, _ in hidden.table())


def test_bodies_of_a_list_that_do_not_move_and_gravity(tmp_path) -> None:
    """Two discs on a third one, which is fixed, under a gravity of 2 m/s²."""
    contacts, bodies = tmp_path / "contacts.txt", tmp_path / "bodies.txt"
    contacts.write_text("id1 id2 px py nx ny fx fy\n5 6 0 1 0 1 0 12\n6 7 0 3 0 1 0 6\n")
    bodies.write_text("id x y radius mass\n5 0 0 1 1\n6 0 2 1 3\n7 0 4 1 3\n")
    listed = ("audit", contacts, "--bodies", bodies, "--friction", 0.5, "--at-rest")
    weights = ("--gravity", "0,-2")
    assert run(*listed, *weights).exit_code == 1
    assert run(*listed, "--fixed", "5").exit_code == 1
    assert "Nothing is wrong" in run(*listed, *weights, "--fixed", "5").stdout
    everything = run_json(*listed, *weights, "--fixed", "5-6")
    assert everything["ok"]
    refuses("--gravity: found '0,x'", *listed, "--gravity", "0,x")
    refuses("--fixed: found 'a'", *listed, "--fixed", "a")
    refuses("--fixed: found the id 9; expected ids in the table", *listed, "--fixed", "5,9")


def test_messages_name_the_options_of_the_command(tmp_path) -> None:
    contacts, bodies = tmp_path / "contacts.txt", tmp_path / "bodies.txt"
    contacts.write_text("id1 id2 px py nx ny fx fy\n-1 0 0 0 0 1 0 9.81\n")
    bodies.write_text("id x y radius mass\n0 0 1 1 1\n")
    refuses("--bodies: found none; expected the table", "audit", contacts)
    refuses("--friction: found none; expected a coefficient", "audit", contacts, "--bodies", bodies)
    refuses("--dt: found 0.0", "simulate", "beam", "--dt", 0)
    refuses(
        "did you mean 'voussoir 2'", "limit", "arch", "--friction", 1, "--live", "voussoir22=0,-1"
    )
