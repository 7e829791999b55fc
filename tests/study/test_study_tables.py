"""Tables of a study whose every number is known, because its records were made by hand."""

from __future__ import annotations

import csv
import dataclasses
import io
import math
from pathlib import Path

import pytest
from made_records import MACHINE, record

import cdopt
from cdopt._util import documents
from cdopt.study import ProblemSource, StudyRun
from cdopt.study.record import Forces, Record, Stability
from cdopt.study.results import Results, family_of
from cdopt.study.table import Table
from cdopt.study.tables import (
    ALWAYS,
    facts,
    limitations,
    profiles_to_certificate,
    settings,
    tables,
)


def rows(table: Table) -> list[dict]:
    return [dict(zip(table.header, row, strict=True)) for row in table.rows]


def table(name: str, records: list[Record]) -> list[dict]:
    """Made without the others."""
    return rows(tables.__globals__[name](Results.of(records)))


def said(*records: Record) -> str:
    return " ".join(limitations(Results.of(records)))


def test_a_line_for_each_solver() -> None:
    loose, tight = {"tolerance": 1e-3}, {"tolerance": 1e-9}
    unique = Forces(distance=0.0, undetermined=0)  # says nothing of the solver
    made = [
        record("table", "pgs", **loose, forces=Forces(distance=0.4)),
        record("tripod", "pgs", **loose, forces=unique),
        record("table", "pgs", "wrong", **tight),
        record("tripod", "pgs", "gave up", **tight),
        record("table", "osqp", seconds=4.0, **loose, forces=Forces(distance=0.2)),
        record("tripod", "osqp", seconds=20.0, **loose),
        *(record(problem, "osqp", seconds=4.0, **tight) for problem in ("table", "tripod")),
        record("table", "daqp", "refused", **loose),
        record("tripod", "daqp", "gave up", **loose),
        record("table", "qoco", "refused", **loose),
        record("table", "newton", formulation="truss-potential", **loose),
    ]
    names = ("solver", "solved at 0.001 [%]", "solved at 1e-09 [%]", "honest [%]", "distance")
    osqp, pgs, daqp = table("overview", made)
    assert [osqp[name] for name in names] == ["osqp", 100.0, 100.0, 100.0, 0.2]
    assert [pgs[name] for name in names] == ["pgs", 100.0, 0.0, pytest.approx(200.0 / 3.0), 0.4]
    assert [daqp[name] for name in names] == ["daqp", 0.0, None, None, None]
    assert daqp["refused"] == 1
    assert (osqp["fastest [%]"], pgs["fastest [%]"]) == (100.0, 0.0)  # at 1e-9: pgs solves nothing


def test_the_quickest_are_certified_ones() -> None:
    made = [
        record("table", "pgs", "wrong", seconds=0.1),
        record("table", "osqp", seconds=3.0, contacts=8),
        record("table", "newton", seconds=1.0, contacts=8),
        record("table", "scs", "timeout"),
        record("table", "newton", seconds=0.5, mode="warm"),
        record("table", "osqp", seconds=0.2, mode="warm"),
        record("tripod", "osqp"),
    ]
    cold, warm = table("quickest", made)
    assert (cold["first"], cold["first [s]"], cold["second"]) == ("newton", 1.0, "osqp")
    assert (cold["third"], cold["contacts"], cold["solved"], cold["asked"]) == (None, 8, 2, 4)
    assert (warm["start"], warm["first"]) == ("warm", "osqp")


def test_success_and_honesty_are_counted_apart() -> None:
    outcomes = ("solved", "wrong", "gave up", "wrong", "solved", "refused", "timeout", "infeasible")
    problems = ("beam-uniform", "table", "tripod", "fan", "crystal-2d", "pyramid-hooke", "impact",
                "squeezed")  # fmt: skip
    said_too = {"fan": {"worst": 9e-6}, "crystal-2d": {"claimed": False}}
    pairs = zip(problems, outcomes, strict=True)
    made = [record(name, "osqp", outcome, **said_too.get(name, {})) for name, outcome in pairs]
    made += [record("squeezed", "scs", "error"), record("table", "piqp", "missing")]
    (osqp,) = table("success", made)  # missing solvers and infeasible problems say nothing
    names = ("solver", "runs", "solved", "near", "false", "gave up", "modest", "refused", "failed")
    assert [osqp[name] for name in names] == ["osqp", 7, 2, 1, 1, 1, 1, 1, 1]
    assert osqp["solved [%]"] == pytest.approx(100.0 * 2 / 7)
    assert osqp["honest [%]"] == pytest.approx(200.0 / 3.0)  # of beam, table and fan, the table


def test_means_take_the_time_limit_for_what_is_unsolved() -> None:
    made = [
        record("beam-uniform", "osqp", seconds=3.0),
        record("table", "osqp", "wrong", seconds=0.001),
        record("beam-uniform", "scs", seconds=1.0),
        record("table", "scs", seconds=8.0),
        record("tripod", "scs", seconds=1e6),  # osqp was not asked this
    ]
    osqp, scs = table("means", made)
    assert osqp["mean, shift 1 s [s]"] == pytest.approx(math.sqrt(4.0 * 61.0) - 1.0)
    assert osqp["mean, shift 0.01 s [s]"] == pytest.approx(math.sqrt(3.01 * 60.01) - 0.01)
    assert (osqp["problems"], osqp["solved"]) == (2, 1)
    assert osqp["solver alone [s]"] == pytest.approx(3.0)
    assert scs["mean, shift 1 s [s]"] == pytest.approx(math.sqrt(2.0 * 9.0) - 1.0)
    assert scs["over the best"] == 1.0
    alone = (1.01 * 8.01 * (1e6 + 0.01)) ** (1.0 / 3.0) - 0.01
    assert scs["solver alone [s]"] == pytest.approx(alone)
    assert "classic-force at 1e-06: 1 of 3 problems were not asked" in said(*made)


def test_all_are_charged_with_the_same_limit() -> None:
    """osqp had 60 s and solved one problem in 30; scs had 20 and failed: both count 20 s."""
    short = dataclasses.replace(record("table", "scs", "timeout"), time_limit=20.0)
    made = [
        record("table", "osqp", seconds=30.0),
        short,
        record("fan", "osqp", "wrong"),
        record("fan", "scs"),
        record("tripod", "osqp"),
        record("tripod", "scs", seconds=4.0),
    ]
    osqp, scs = table("means", made)
    assert osqp["mean, shift 1 s [s]"] == pytest.approx((21.0 * 21.0 * 2.0) ** (1 / 3) - 1.0)
    assert scs["mean, shift 1 s [s]"] == pytest.approx((21.0 * 2.0 * 5.0) ** (1 / 3) - 1.0)
    assert (osqp["solved"], scs["solved"]) == (1, 2)
    assert table("profiles", made)[0]["ever"] == pytest.approx(100.0 / 3.0)


def test_the_time_to_a_certificate_is_that_of_the_quickest_sufficient_tolerance() -> None:
    """osqp at 1e-3 is quick but not sharp, except on the fan; scs never certifies the fan."""

    def asked(problem, backend, tolerance, seconds, worst, outcome="solved"):
        return record(problem, backend, outcome, seconds, tolerance=tolerance, worst=worst)

    made = [
        asked("table", "osqp", 1e-3, 1.0, 5e-4),
        asked("table", "osqp", 1e-6, 4.0, 9e-7),
        asked("table", "osqp", 1e-9, 3.0, 9e-10),  # quicker than at 1e-6, as it happens
        asked("fan", "osqp", 1e-3, 1.0, 1e-8),
        asked("fan", "osqp", 1e-9, 2.0, 1e-8, "wrong"),
        asked("table", "scs", 1e-3, 1.5, 2e-7),
        asked("fan", "scs", 1e-3, 0.1, 2e-6),
        asked("fan", "scs", 1e-6, 0.1, 2e-6, "wrong"),
    ]
    osqp, scs = table("certified", made)
    assert (osqp["problems"], osqp["certified"], scs["certified"]) == (2, 2, 1)
    assert osqp["quickest tolerance"] == "1 at 0.001, 1 at 1e-09"
    assert scs["quickest tolerance"] == "1 at 0.001"
    mean = "mean, shift 0.01 s [s]"
    assert osqp[mean] == pytest.approx(math.sqrt(3.01 * 1.01) - 0.01)
    assert scs[mean] == pytest.approx(math.sqrt(1.51 * 60.01) - 0.01)
    assert osqp["solver alone [s]"] == pytest.approx(osqp[mean])  # made records: all is solving
    assert scs["solver alone [s]"] == pytest.approx(1.5)
    profile = profiles_to_certificate(Results.of(made), "classic-force")
    assert (profile["osqp"].at(1.0), profile["osqp"].at(2.0), profile["scs"].at(9.0)) == (
        0.5, 1.0, 0.5
    )  # fmt: skip


def test_a_solver_asked_little_does_not_shrink_what_the_others_are_compared_on() -> None:
    made = [record(f"supports:n={n}", name) for n in range(4) for name in ("osqp", "scs")]
    made += [record("supports:n=0", "siconos-pgs"), record("supports:n=0", "osqp", call="direct")]
    assert [(row["solver"], row["problems"]) for row in table("means", made)] == [
        ("osqp", 4),
        ("scs", 4),
    ]
    assert "no profile: osqp (direct), siconos-pgs." in said(*made)


def test_calls_are_compared_on_what_was_solved_both_ways() -> None:
    both = [("table", 8.0, 2.0), ("tripod", 1.0, 1.0)]
    made = [record(name, "osqp", seconds=cvxpy) for name, cvxpy, _ in both]
    made += [record(name, "osqp", seconds=direct, call="direct") for name, _, direct in both]
    made += [record("fan", "osqp"), record("fan", "osqp", "wrong", call="direct")]
    made += [record("table", "scs")]
    (osqp,) = table("calls", made)
    assert (osqp["solver"], osqp["problems"], osqp["share [%]"]) == ("osqp", 2, 0.0)
    assert osqp["whole"] == pytest.approx(2.0)  # the root of 4 and 1


def test_profiles_are_of_one_accuracy_and_one_formulation() -> None:
    made = [
        record("table", "osqp", seconds=1.0),
        record("table", "scs", seconds=2.0),
        record("table", "osqp", seconds=5.0, formulation="compatible"),
        record("table", "osqp", seconds=9.0, tolerance=None),
        record("table", "scs", seconds=3.0, tolerance=None),
        record("table", "scs", seconds=0.1, mode="warm"),
        record("table", "scs", seconds=0.1, seed=3),
    ]
    shown = ("solver", "tolerance", "formulation", "fastest", "within 2×")
    assert [tuple(row[name] for name in shown) for row in table("profiles", made)] == [
        ("osqp", "defaults", "classic-force", 0.0, 0.0),
        ("scs", "defaults", "classic-force", 100.0, 100.0),
        ("osqp", "1e-06", "classic-force", 100.0, 100.0),
        ("scs", "1e-06", "classic-force", 0.0, 100.0),
        ("osqp", "1e-06", "compatible", 100.0, 100.0),
    ]


def test_a_solver_that_refuses_every_question_takes_no_part() -> None:
    asked = [("table", "osqp"), ("tripod", "osqp"), ("tripod", "lcp")]
    made = [record(*names) for names in asked]
    made += [record("tripod", "pgs", "refused"), record("table", "lcp", "refused")]
    found = {row["solver"]: (row["problems"], row["ever"]) for row in table("profiles", made)}
    assert found == {"osqp": (2, 100.0), "lcp": (2, 50.0)}


def test_growth_is_fitted_over_solved_members_of_a_family() -> None:
    sizes = (4, 8, 16, 32)
    made = [record(f"supports:n={n}", "osqp", seconds=n**1.5, contacts=n) for n in sizes]
    made += [record("supports:n=64", "osqp", "wrong", 1e-9, contacts=64)]
    made += [record(f"supports:n={n}", "scs", contacts=n) for n in (4, 8)]
    made += [record("supports:n=4", "osqp", call="direct")]
    (found,) = table("exponents", made)
    assert (found["family"], found["solver"], found["points"]) == ("supports", "osqp", 4)
    assert found["exponent"] == pytest.approx(1.5, abs=1e-9)
    assert (found["fewest contacts"], found["most contacts"]) == (4, 32)


@pytest.mark.parametrize(
    ("source", "digest", "known"),
    [
        ("supports:n=4", "", "supports"),
        ("pyramid-hooke", "", "pyramid-hooke"),
        ("/x/nearly-parallel-16.npz", "a", "nearly-parallel"),
        ("drop.vtkhdf#12", "", "drop.vtkhdf"),
        ("/x/alone.npz", "a", "alone.npz"),
    ],
)
def test_families_are_read_from_names(source: str, digest: str, known: str) -> None:
    run = StudyRun(ProblemSource(source, digest=digest), "compatible", "osqp")
    assert family_of(run) == known


def test_forces_and_their_spread() -> None:
    def chosen(ratio: float, distance: float, *positions: float) -> Forces:
        return Forces(5.0 * ratio, distance, distance, ratio, 1e-15, len(positions), positions, 0.0)

    made = [
        record("table", "osqp", forces=chosen(1.0, 0.1, 0.25, 0.75)),
        record("table", "scs", forces=chosen(2.0, 0.4, 0.5, 0.25)),
        record("table", "pgs", "wrong", forces=chosen(9.0, 3.0, 0.0, 0.0)),
        record("tripod", "osqp", forces=chosen(1.0, 0.0)),
    ]
    found = table("forces", made)
    assert [row["certified"] for row in found] == [True, True, False, True]
    assert [row["position"] for row in found] == [0.5, 0.375, 0.0, None]
    (apart,) = table("spread", made)  # pgs is not certified, the tripod was asked of one alone
    assert apart == {
        "problem": "table classic-force", "tolerance": "1e-06", "solvers": 2, "least": 1.0,
        "greatest": 2.0, "greatest over least": 2.0, "nearest": 0.1, "farthest": 0.4,
        "apart": pytest.approx((0.25 + 0.5) / 2.0),
    }  # fmt: skip


def test_starts_repeats_orders_and_failures() -> None:
    def warm(problem: str, cold: float, iterations: int, moved: float) -> Record:
        before = Stability(start=moved, cold_total=cold, cold_iterations=iterations)
        return record(problem, "osqp", mode="warm", stability=before)

    (found,) = table("starts", [warm("table", 4.0, 20, 1e-7), warm("tripod", 1.0, 40, 1e-9)])
    assert found["time ratio"] == pytest.approx(0.5)  # √(1/4 · 1)
    assert found["iterations ratio"] == pytest.approx((10 / 20 + 10 / 40) / 2.0)
    assert found["moved"] == 1e-7
    made = [
        record("table", "pgs", stability=Stability(True, 0.0)),
        record("tripod", "pgs", stability=Stability(False, 1e-12)),
        record("table", "pgs", seed=1, stability=Stability(True, 0.0, order=0.5)),
        record("table", "scs", "crash", message="signal 11"),
    ]
    (found,) = table("repeats", made)
    assert (found["repeated"], found["identical"], found["reordered"]) == (3, 2, 1)
    assert (found["largest difference"], found["largest difference by order"]) == (1e-12, 0.5)
    (found,) = table("failures", made)
    assert (found["solver"], found["outcome"], found["message"]) == ("scs", "crash", "signal 11")


def test_limitations_follow_from_the_runs() -> None:
    assert limitations(Results.of([record("table", "osqp")])) == ALWAYS
    other = dataclasses.replace(MACHINE, host="elsewhere", versions={"cvxpy": "2"})
    text = said(
        record("table", "osqp", repeats=1),
        record("table", "scs", "timeout", machine=other),
        record("table", "piqp", "missing"),
        record("table", "siconos-pgs"),
    )
    for words in ("2 machines", "2 different sets", "fewer than three", "1 run ended at the limit",
                  "Not installed, and so not compared: piqp",
                  "siconos-pgs: each solve starts a process"):  # fmt: skip
        assert words in text


def test_facts_name_machine_versions_and_seeds() -> None:
    study = Results.of([record("table", "osqp", seed=7), record("table", "scs")])
    known = facts(study)
    assert (known["seeds"], known["processor"]) == ("7", "a processor, 2 cores")
    assert known["cvxpy"] == MACHINE.versions["cvxpy"]
    assert [row["settings"] for row in rows(settings(study))] == ["eps = 1e-06"]


def test_of_equal_runs_the_last_one_counts(tmp_path: Path) -> None:
    path = tmp_path / "study.jsonl"
    path.write_bytes(record("table", "osqp", "timeout").line() + record("table", "osqp").line())
    (found,) = Results.read(path).records
    assert (found.outcome, found.seconds) == ("solved", 1.0)
    path.write_bytes(b"")
    with pytest.raises(cdopt.InvalidInput, match="no record"):
        Results.read(path)
    assert all(not made.rows for made in tables(Results.of([])))
    assert [made.name for made in tables(Results.of([]))] == [
        "overview", "quickest", "success", "certified", "means", "profiles", "exponents", "forces",
        "spread", "starts", "calls", "repeats", "failures",
    ]  # fmt: skip


def test_a_table_is_written_in_full_and_escaped() -> None:
    made = Table("t", "A & B", "about", ("name", "x"), (("a|b<c>", 1.0 / 3.0), ("d", None)))
    cells = [["name", "x"], ["a|b<c>", repr(1.0 / 3.0)], ["d", ""]]
    assert list(csv.reader(io.StringIO(made.csv()))) == cells
    assert "| a\\|b&lt;c&gt; | 0.333 |" in made.markdown()
    assert "No such runs." in Table("t", "T", "about", ("x",), ()).markdown()
    page = {"title": "T", "tables": [made], "pictures": [], "limits": [], "facts": {}}
    text = documents.render("study.html", **page, contents=[("t", "B")])
    for words in ("a|b&lt;c&gt;", "A &amp; B", '<td class="n">–</td>', '<a href="#t">B</a>'):
        assert words in text
