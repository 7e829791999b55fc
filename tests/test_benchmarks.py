"""The benchmark suite runs from end to end, and says what failed."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]

pytestmark = pytest.mark.skipif(not (ROOT / "benchmarks").is_dir(), reason="no benchmarks here")


@pytest.fixture(autouse=True)
def _from_the_root(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(ROOT))


@pytest.mark.slow
def test_a_small_suite_leaves_rows_a_page_and_pictures(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from benchmarks import limits, run, suites

    def few(quick: bool) -> list[tuple[str, dict]]:
        assert quick
        problem = "pyramid-hooke:n=3"
        form = {"form": "potential"}
        return [
            ("newton_truss", {"problem": problem}),
            ("general_truss", {"problem": problem, "solver": "Clarabel"} | form),
            ("general_truss", {"problem": "pyramid-hertz:n=3", "solver": "OSQP"} | form),
            ("newton_truss", {"problem": "no such problem"}),
        ]

    monkeypatch.setitem(suites.GROUPS, "trusses", few)
    monkeypatch.setattr(limits, "QUICK", 10_000)
    monkeypatch.setattr(limits, "SMALL", 50)
    run.main(["--quick", "--only", "trusses", "--out", str(tmp_path), "--repeats", "1"])
    record = json.loads((tmp_path / "costs.json").read_text())
    ours, theirs, refused, broken = record["groups"]["trusses"]
    assert ours["counted"]
    assert ours["worst"] < 1e-12
    assert ours["seconds"] > 0.0
    assert ours["peak_mb"] >= ours["made_mb"] > 10.0
    assert theirs["counted"]
    assert theirs["worst"] < 1e-8
    assert theirs["contacts"] == ours["contacts"] == 24
    assert "quadratic" in refused["refused"]
    assert "no such problem" in broken["failed"]
    assert {row["limit"] for row in record["limits"]} == {"memory", "dgemm"}
    page = (tmp_path / "study" / "costs.md").read_text()
    assert "(study/costs.md)" in (tmp_path / "costs.md").read_text()
    assert "no such problem" in page.partition("## What failed")[2]
    assert "quick run" in page
    assert (tmp_path / "costs-trusses.png").stat().st_size > 1000


def test_a_run_that_hangs_is_stopped_and_one_row_says_so() -> None:
    from benchmarks.child import call

    (row,) = call("newton_truss", {"problem": "pyramid-hooke:n=3"}, limit=0.05)
    assert "stopped after 0.05 s" in row["failed"]


def test_certificates_above_the_bound_do_not_count() -> None:
    from benchmarks.record import counts

    assert counts({"worst": 1e-9})
    assert not counts({"worst": 2e-8})
    assert not counts({"worst": float("nan")})
    assert not counts({"failed": "no iterate"})


def test_exponents_are_fitted() -> None:
    from benchmarks.drawing import exponent

    assert exponent([(10.0, 2.0), (100.0, 200.0), (1000.0, 2e4)]) == pytest.approx(2.0)
    assert exponent([(10.0, 2.0)]) is None


def test_the_readme_has_the_figures_of_the_rows(tmp_path: Path) -> None:
    from benchmarks import readme

    def row(task: str, seconds: float, problem: str = "pyramid-hooke:n=20", **more: object) -> dict:
        known = {"task": task, "problem": problem, "seconds": seconds, "contacts": 14_440}
        return known | {"worst": 1e-10} | more

    groups = {
        "trusses": [
            row("newton_truss", 0.03),
            row("general_truss", 0.9, solver="SCS"),
            row("general_truss", 0.12, solver="SNES"),
        ],
        "scaling": [row("newton_truss", 12.0, "pyramid-hooke:n=100", contacts=1_960_200)],
        "rigid": [
            row("own_rigid", 0.05, solver="apgd"),
            row("general_rigid", 1e-3, solver="SCS", worst=1.0),
        ],
    }
    record = {"machine": {"date": "2026-11-24T04:59:24+00:00", "cores": 2, "processor": "X"}}
    path = tmp_path / "README.md"
    path.write_text("Before\n<!-- measured -->\nold\n<!-- /measured -->\nAfter\n")
    readme.write(record | {"groups": groups}, path)
    text = path.read_text()
    assert "old" not in text
    assert text.startswith("Before")
    assert text.endswith("After\n")
    assert "24 November 2026" in text
    assert "30 ms; SNES, the quickest other solver: 4 times as long; SCS, the quickest of" in text
    assert "CVXPY's: 30 times as long" in text
    assert "1,960,200 contacts | 12 s | 1e-10" in text
    assert "50 ms |" in text  # what is not certified is no peer
    with pytest.raises(ValueError, match="no place"):
        readme.write(record | {"groups": groups}, Path(__file__).with_name("conftest.py"))


def test_everyday_work_is_certified_and_recorded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from benchmarks import everyday

    monkeypatch.setattr(everyday, "MANY", 3)
    everyday.main(["--only", "beam", "--record", str(tmp_path / "rows.jsonl")])
    rows = [json.loads(line) for line in (tmp_path / "rows.jsonl").read_text().splitlines()]
    assert [row["repeats"] for row in rows] == [3, 3, 3, 3]
    for row in rows:
        assert 0.0 < row["least"] <= row["seconds"] <= row["greatest"]
        assert row["worst"] <= 1e-8


def test_every_group_names_tasks_and_problems_that_exist() -> None:
    from benchmarks import suites, tasks
    from benchmarks.page import SECTIONS

    assert set(SECTIONS) == set(suites.GROUPS)
    for group in suites.GROUPS.values():
        for quick in (True, False):
            jobs = list(group(quick))
            assert jobs
            assert {task for task, _ in jobs} <= set(tasks.TASKS)


@pytest.mark.slow
def test_products_and_factorisations_stand_beside_the_limits(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from benchmarks import products

    monkeypatch.setattr(products, "QUICK", 10_000)
    monkeypatch.setattr(products, "SMALL", 50)
    monkeypatch.setattr(products, "AT_LEAST", 0.0)
    rows = products.products("pyramid:n=8", quick=True)
    assert {row["product"] for row in rows} == {"B u", "Bᵀ f", "iteration"}
    factored = products.factorisation("pyramid:n=8", quick=True)
    assert factored[0]["factor_entries"] > factored[0]["dofs"]
    assert factored[0]["flops"] >= factored[0]["factor_entries"]
    assert all(row["ratio"] > 0.0 for row in factored)


@pytest.mark.parametrize("family", ["packing", "crystal", "pyramid", "wall-2d", "wall-3d"])
def test_families_are_made_small(family: str) -> None:
    from benchmarks.problems import SMALL, build

    made = build(f"{SMALL[family]},ratio=100,power=2.5")
    assert made.power == 2.5
    assert made.step.nc > 100
    assert made.step.stiffness.max() / made.step.stiffness.min() > 50.0


def test_petsc_is_measured_where_it_is_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    import cdopt
    from benchmarks import petsc

    posed = cdopt.ClassicCD(cdopt.bank.load("pyramid-hooke").step)
    row = petsc.measure(posed, "TAO tron", 1, 10.0)
    if row.get("failed") != "not installed":
        assert row["worst"] < 1e-7
        assert row["iterations"] > 0
    monkeypatch.setattr("cdopt.interop.petsc.python", lambda: None)
    assert petsc.measure(posed, "TAO tron", 1, 10.0) == {"failed": "not installed"}
