"""The golden set: what cdopt answered when it was recorded, it answers now."""

from __future__ import annotations

import numpy as np
import pytest

from . import cases, record


def test_one_in_many_cases_is_what_it_was() -> None:
    """Primes do not beat with the numbers by which the kinds of problems alternate."""
    report = cases.compare(every=23, skipped=("ensemble", "run", "paper", "bank"))
    assert report.count > 80
    assert report.ok, report.text()


@pytest.mark.slow
def test_all_cases_are_what_they_were() -> None:
    report = cases.compare()
    assert report.count > 2200
    assert report.ok, report.text()


def test_records_survive_their_file(tmp_path) -> None:
    one = record.Record()
    one.put("v_next", [1.0, np.nan, -np.inf, 0.0], [1.0, 2.0, np.inf, 0.0])
    one.text("error", "SolveFailed")
    record.save(tmp_path / "some.npz", {"a": one, "b": record.Record()})
    kept = record.load(tmp_path / "some.npz")
    assert list(kept) == ["a", "b"]
    assert not list(record.deviations("a", one, kept["a"]))


@pytest.mark.parametrize(
    ("name", "old", "new", "failures", "notes"),
    [
        ("v_next", [1.0, 2.0], [1.0 + 1e-7, 2.0], 0, 0),
        ("v_next", [1.0, 2.0], [1.0 + 9e-6, 2.0], 1, 0),
        ("v_next", [1.0, 2.0], [-1.0, 2.0], 1, 0),
        ("v_next", [1.0, 2.0], [np.nan, 2.0], 1, 0),
        ("v_next", [1.0, 2.0], [1.0], 1, 0),
        ("motion", [1.0], [2.0], 0, 1),
        ("zero value", [1e-12], [2e-10], 0, 0),
        ("zero value", [1e-12], [2e-9], 1, 0),
        ("zero value", [np.inf], [np.inf], 0, 0),
        ("zero value", [np.nan], [0.0], 1, 0),
        ("zero value", [1e-3], [1.00001e-3], 1, 0),
        ("ok", [1.0], [0.0], 1, 0),
        ("ok", [0.0], [1.0], 0, 1),
        ("zero verdict", [0.0], [1.0], 1, 0),
        ("nullity", [3.0], [4.0], 1, 0),
        ("worst", [1e-12], [1e-13], 0, 0),
        ("worst", [1e-12], [1e-7], 0, 1),
    ],
)
def test_deviations_by_the_rule_of_each_quantity(name, old, new, failures, notes) -> None:
    one, two = record.Record(), record.Record()
    one.put(name, old)
    two.put(name, new)
    found = list(record.deviations("case", one, two))
    assert [sum(not d.note for d in found), sum(d.note for d in found)] == [failures, notes]


def test_a_number_that_is_not_determined_is_not_compared() -> None:
    for name in ("f", "stored v", "nullity"):
        one, two = record.Record(), record.Record()
        one.put(name, [1.0, 2.0], [1.0, np.inf])
        two.put(name, [1.0, 9.0], [1.0, 1.0])
        assert not list(record.deviations("case", one, two))


@pytest.mark.parametrize(("worst", "note"), [(1e-9, False), (4e-7, True)])
def test_an_answer_that_was_barely_certified_may_be_lost(worst: float, note: bool) -> None:
    one, two = record.Record(), record.Record()
    for made, ok in ((one, 1.0), (two, 0.0)):
        made.put("by clarabel: ok", ok)
        made.put("by clarabel: worst", worst)
    (found,) = record.deviations("case", one, two)
    assert found.note == note
