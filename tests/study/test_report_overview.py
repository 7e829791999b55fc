"""The tables at a glance, from records made by hand."""

from __future__ import annotations

import pytest
from made_records import record

from cdopt.study.report import Results
from cdopt.study.report.overview import overview, quickest
from cdopt.study.runs.record import Forces


def rows(table) -> list[dict]:
    return [dict(zip(table.header, row, strict=True)) for row in table.rows]


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
    osqp, pgs, daqp = rows(overview(Results.of(made)))
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
    cold, warm = rows(quickest(Results.of(made)))
    assert (cold["first"], cold["first [s]"], cold["second"]) == ("newton", 1.0, "osqp")
    assert cold["third"] is None
    assert (cold["contacts"], cold["solved"], cold["asked"]) == (8, 2, 4)
    assert (warm["start"], warm["first"]) == ("warm", "osqp")


def test_nothing_gives_empty_tables() -> None:
    assert overview(Results.of([])).rows == ()
    assert quickest(Results.of([])).rows == ()
