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
from cdopt.study.results import Results
from cdopt.study.results import family_of as family
from cdopt.study.table import Table
from cdopt.study.tables import ALWAYS, facts, limitations, settings, tables


def rows(table: Table) -> list[dict]:
    return [dict(zip(table.header, row, strict=True)) for row in table.rows]


def table(name: str, records: list[Record]) -> list[dict]:
    found = {t.name: t for t in tables(Results.of(records))}
    return rows(found[name])


def test_a_line_for_each_solver() -> None:
    made = [
        record("table", "pgs", seconds=1.0, tolerance=1e-3, forces=Forces(distance=0.4)),
        record("tripod", "pgs", seconds=1.0, tolerance=1e-3,
               forces=Forces(distance=0.0, undetermined=0)),
        record("table", "pgs", "wrong", seconds=1.0, tolerance=1e-9),
        record("tripod", "pgs", "gave up", seconds=1.0, tolerance=1e-9),
        record("table", "osqp", seconds=4.0, tolerance=1e-3, forces=Forces(distance=0.2)),
        record("tripod", "osqp", seconds=20.0, tolerance=1e-3),
        record("table", "osqp", seconds=4.0, tolerance=1e-9),
        record("tripod", "osqp", seconds=4.0, tolerance=1e-9),
        record("table", "daqp", "refused", tolerance=1e-3),
        record("tripod", "daqp", "gave up", tolerance=1e-3),
        record("table", "qoco", "refused", tolerance=1e-3),
        record("table", "newton", formulation="truss-potential", tolerance=1e-3),
    ]  # fmt: skip
    osqp, pgs, daqp = table("overview", made)
    assert (osqp["solver"], pgs["solver"], daqp["solver"]) == ("osqp", "pgs", "daqp")
    assert pgs["solved at 0.001 [%]"] == 100.0
    assert pgs["solved at 1e-09 [%]"] == 0.0
    assert pgs["honest [%]"] == pytest.approx(200.0 / 3.0)  # of three claims one is false
    assert osqp["honest [%]"] == 100.0
    assert pgs["distance"] == 0.4  # the tripod's forces are unique: they say nothing
    assert osqp["fastest [%]"] == 100.0  # at 1e-9, where pgs solves nothing
    assert pgs["fastest [%]"] == 0.0
    assert (daqp["refused"], daqp["solved at 0.001 [%]"], daqp["honest [%]"]) == (1, 0.0, None)


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
    assert cold["third"] is None
    assert (cold["contacts"], cold["solved"], cold["asked"]) == (8, 2, 4)
    assert (warm["start"], warm["first"]) == ("warm", "osqp")


def test_success_and_honesty_are_counted_apart() -> None:
    made = [
        record("beam-uniform", "osqp"),
        record("table", "osqp", "wrong"),
        record("tripod", "osqp", "gave up"),
        record("fan", "osqp", "wrong", worst=9e-6),
        record("crystal-2d", "osqp", claimed=False),
        record("pyramid-hooke", "osqp", "refused"),
        record("impact", "osqp", "timeout"),
        record("squeezed", "osqp", "infeasible"),
        record("squeezed", "scs", "error"),
        record("table", "piqp", "missing"),
    ]
    found = table("success", made)
    assert [row["solver"] for row in found] == ["osqp"]  # missing solvers say nothing, nor do
    osqp = found[0]  # problems without a solution
    names = ("runs", "solved", "near", "false", "gave up", "modest", "refused", "failed")
    assert [osqp[name] for name in names] == [7, 2, 1, 1, 1, 1, 1, 1]
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
    found = {row["solver"]: row for row in table("means", made)}
    assert found["osqp"]["mean, shift 1 s [s]"] == pytest.approx(math.sqrt(4.0 * 61.0) - 1.0)
    assert found["scs"]["mean, shift 1 s [s]"] == pytest.approx(math.sqrt(2.0 * 9.0) - 1.0)
    assert found["scs"]["over the best"] == 1.0
    assert (found["osqp"]["problems"], found["osqp"]["solved"]) == (2, 1)
    small = math.sqrt(3.01 * 60.01) - 0.01
    assert found["osqp"]["solver alone [s]"] == pytest.approx(3.0)
    alone = (1.01 * 8.01 * (1e6 + 0.01)) ** (1.0 / 3.0) - 0.01
    assert found["scs"]["solver alone [s]"] == pytest.approx(alone)
    assert found["osqp"]["mean, shift 0.01 s [s]"] == pytest.approx(small)
    said = limitations(Results.of(made))
    assert any("classic-force at 1e-06: 1 of 3 problems were not asked" in line for line in said)


def test_a_solver_asked_little_does_not_shrink_what_the_others_are_compared_on() -> None:
    made = [record(f"supports:n={n}", name) for n in range(4) for name in ("osqp", "scs")]
    made += [record("supports:n=0", "siconos-pgs"), record("supports:n=0", "osqp", call="direct")]
    found = {row["solver"]: row["problems"] for row in table("means", made)}
    assert found == {"osqp": 4, "scs": 4}
    said = limitations(Results.of(made))
    assert any(line.endswith("no profile: osqp (direct), siconos-pgs.") for line in said)


def test_calls_are_compared_on_what_was_solved_both_ways() -> None:
    made = [
        record("table", "osqp", seconds=8.0),
        record("table", "osqp", seconds=2.0, call="direct"),
        record("tripod", "osqp", seconds=1.0),
        record("tripod", "osqp", seconds=1.0, call="direct"),
        record("fan", "osqp"),
        record("fan", "osqp", "wrong", call="direct"),
        record("table", "scs"),
    ]
    (osqp,) = table("calls", made)
    assert (osqp["solver"], osqp["problems"]) == ("osqp", 2)
    assert osqp["whole"] == pytest.approx(2.0)  # the root of 4 and 1
    assert osqp["share [%]"] == 0.0


def test_a_solver_that_refuses_every_question_takes_no_part() -> None:
    made = [
        record("beam-uniform", "osqp"),
        record("table", "osqp"),
        record("beam-uniform", "pgs", "refused"),
        record("beam-uniform", "lcp"),
        record("table", "lcp", "refused"),
    ]
    found = {row["solver"]: row for row in table("profiles", made)}
    assert set(found) == {"osqp", "lcp"}
    assert (found["lcp"]["problems"], found["lcp"]["ever"]) == (2, 50.0)


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
    found = [(r["solver"], r["tolerance"], r["formulation"], r["fastest"], r["within 2×"])
             for r in table("profiles", made)]  # fmt: skip
    assert found == [
        ("osqp", "defaults", "classic-force", 0.0, 0.0),
        ("scs", "defaults", "classic-force", 100.0, 100.0),
        ("osqp", "1e-06", "classic-force", 100.0, 100.0),
        ("scs", "1e-06", "classic-force", 0.0, 100.0),
        ("osqp", "1e-06", "compatible", 100.0, 100.0),
    ]


def test_growth_is_fitted_over_solved_members_of_a_family() -> None:
    made = [record(f"supports:n={n}", "osqp", seconds=1e-3 * n**1.5, contacts=n)
            for n in (4, 8, 16, 32)]  # fmt: skip
    made += [record("supports:n=64", "osqp", "wrong", 1e-9, contacts=64)]
    made += [record(f"supports:n={n}", "scs", seconds=1.0, contacts=n) for n in (4, 8)]
    made += [record("supports:n=4", "osqp", seconds=1.0, call="direct")]
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
    assert family(StudyRun(ProblemSource(source, digest=digest), "compatible", "osqp")) == known


def test_forces_and_their_spread() -> None:
    def chosen(ratio: float, distance: float, *positions: float) -> Forces:
        return Forces(
            largest=5.0 * ratio, distance=distance, distance_max=distance, ratio=ratio,
            reference_worst=1e-15, undetermined=len(positions), positions=positions, outside=0.0,
        )  # fmt: skip

    made = [
        record("table", "osqp", forces=chosen(1.0, 0.1, 0.25, 0.75)),
        record("table", "scs", forces=chosen(2.0, 0.4, 0.5, 0.25)),
        record("table", "pgs", "wrong", forces=chosen(9.0, 3.0, 0.0, 0.0)),
        record("tripod", "osqp", forces=chosen(1.0, 0.0)),
    ]
    found = table("forces", made)
    assert [row["certified"] for row in found] == [True, True, False, True]
    assert [row["position"] for row in found] == [0.5, 0.375, 0.0, None]
    (apart,) = table("spread", made)
    assert apart["solvers"] == 2  # pgs is not certified, and the tripod was asked of one alone
    assert (apart["least"], apart["greatest"], apart["greatest over least"]) == (1.0, 2.0, 2.0)
    assert (apart["nearest"], apart["farthest"]) == (0.1, 0.4)
    assert apart["apart"] == pytest.approx((0.25 + 0.5) / 2.0)


def test_warm_starts_are_measured_against_their_own_cold_run() -> None:
    def started(cold: float, iterations: int, moved: float) -> Stability:
        return Stability(start=moved, cold_total=cold, cold_iterations=iterations)

    made = [
        record("table", "osqp", seconds=1.0, mode="warm", stability=started(4.0, 20, 1e-7)),
        record("tripod", "osqp", seconds=1.0, mode="warm", stability=started(1.0, 40, 1e-9)),
        record("table", "osqp", seconds=1.0),
    ]
    (found,) = table("starts", made)
    assert found["time ratio"] == pytest.approx(0.5)  # √(1/4 · 1)
    assert found["iterations ratio"] == pytest.approx((10 / 20 + 10 / 40) / 2.0)
    assert found["moved"] == 1e-7


def test_repeats_and_orders() -> None:
    made = [
        record("table", "pgs", stability=Stability(identical=True, repeats=0.0)),
        record("tripod", "pgs", stability=Stability(identical=False, repeats=1e-12)),
        record("table", "pgs", seed=1, stability=Stability(identical=True, repeats=0.0, order=0.5)),
    ]
    (found,) = table("repeats", made)
    assert (found["repeated"], found["identical"], found["reordered"]) == (3, 2, 1)
    assert (found["largest difference"], found["largest difference by order"]) == (1e-12, 0.5)


def test_failures_are_listed_with_their_reasons() -> None:
    made = [record("table", "osqp"), record("table", "scs", "crash", message="signal 11")]
    (found,) = table("failures", made)
    assert (found["solver"], found["outcome"], found["message"]) == ("scs", "crash", "signal 11")


def test_limitations_follow_from_the_runs() -> None:
    one = limitations(Results.of([record("table", "osqp")]))
    assert one == ALWAYS
    other = dataclasses.replace(MACHINE, host="elsewhere", versions={"cvxpy": "2"})
    said = " ".join(limitations(Results.of([
        record("table", "osqp", repeats=1),
        record("table", "scs", "timeout", machine=other),
        record("table", "piqp", "missing"),
        record("table", "siconos-pgs"),
    ])))  # fmt: skip
    for words in ("2 machines", "2 different sets", "fewer than three", "1 run ended at the limit",
                  "Not installed, and so not compared: piqp",
                  "siconos-pgs: each solve starts a process"):  # fmt: skip
        assert words in said


def test_facts_name_machine_versions_and_seeds() -> None:
    known = facts(Results.of([record("table", "osqp", seed=7), record("table", "scs")]))
    assert known["seeds"] == "7"
    assert known["processor"] == "a processor, 2 cores"
    assert known["cvxpy"] == MACHINE.versions["cvxpy"]
    (row,) = rows(settings(Results.of([record("table", "osqp")])))
    assert row["settings"] == "eps = 1e-06"


def test_of_equal_runs_the_last_one_counts_and_torn_lines_are_left_out(tmp_path: Path) -> None:
    path = tmp_path / "study.jsonl"
    first, second = record("table", "osqp", "timeout"), record("table", "osqp", seconds=2.0)
    path.write_bytes(first.line() + second.line() + first.line()[:40])
    study = Results.read(path)
    assert [r.outcome for r in study.records] == ["solved"]
    assert study.records[0].seconds == 2.0
    with pytest.raises(cdopt.InvalidInput, match=r"none\.jsonl"):
        Results.read(tmp_path / "none.jsonl")
    path.write_bytes(b"")
    with pytest.raises(cdopt.InvalidInput, match="no record"):
        Results.read(path)


def test_a_table_is_written_in_full_and_escaped() -> None:
    made = Table("t", "A & B", "about", ("name", "x"), (("a|b<c>", 1.0 / 3.0), ("d", None)))
    assert list(csv.reader(io.StringIO(made.csv()))) == [
        ["name", "x"], ["a|b<c>", repr(1.0 / 3.0)], ["d", ""]
    ]  # fmt: skip
    assert "| a\\|b&lt;c&gt; | 0.333 |" in made.markdown()
    empty = Table("t", "T", "about", ("x",), ())
    assert "No such runs." in empty.markdown()
    text = documents.render(
        "study.html",
        title="T",
        tables=[made],
        pictures=[],
        limits=[],
        facts={},
        contents=[("t", "B")],
    )
    for words in ("a|b&lt;c&gt;", "A &amp; B", '<td class="n">–</td>', '<a href="#t">B</a>'):
        assert words in text


def test_an_empty_study_has_empty_tables() -> None:
    assert all(not made.rows for made in tables(Results.of([])))
