"""Checks of arguments: what they take, what they return, and what they say of the rest."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Protocol

import numpy as np
import pytest

import cdopt
from cdopt._util import checks
from cdopt._util.errors import InvalidInput

STEP = cdopt.bank.load("beam-uniform").step


@pytest.mark.parametrize(
    ("check", "value", "result"),
    [
        (checks.tolerance, np.float32(0.5), 0.5),
        (checks.positive, np.array(2), 2.0),
        (checks.share, 1, 1.0),
        (checks.count, np.int64(3), 3),
        (checks.whole, -(2**63), -(2**63)),
        (checks.dimension, np.int64(3), 3),
        (checks.flag, np.True_, True),
        (checks.path, "a/b.toml", Path("a/b.toml")),
        (checks.sequence, range(3), (0, 1, 2)),
        (checks.sequence, np.array([1.5, 2.5]), (1.5, 2.5)),
        (checks.sequence, (name for name in ("a", "b")), ("a", "b")),
        (checks.text, "Köln", "Köln"),
    ],
)
def test_what_passes_is_of_the_callers_type(check, value, result) -> None:
    passed = check("x", value)
    assert passed == result
    assert type(passed) is type(result)


@pytest.mark.parametrize(
    ("check", "value"),
    [
        (checks.tolerance, 0.0), (checks.tolerance, 1.5), (checks.tolerance, True),
        (checks.positive, "1"), (checks.positive, [1.0]), (checks.positive, range(10**12)),
        (checks.positive, 1j), (checks.not_negative, -1e-300), (checks.share, float("nan")),
        (checks.count, 0), (checks.count, 1.5), (checks.whole, 2**63), (checks.whole, 10**100),
        (checks.whole, range(10**30)), (checks.seed, -1), (checks.dimension, True),
        (checks.flag, 1), (checks.text, b"a"), (checks.text, "a\ud800"), (checks.path, "a\ud800"),
        (checks.path, "a\0"), (checks.path, "a" * 300), (checks.path, 3), (checks.function, "f"),
        (checks.mapping, [("a", 1)]), (checks.sequence, "ab"), (checks.sequence, {"a": 1}),
        (checks.sequence, np.eye(2)), (checks.sequence, range(10**12)), (checks.sequence, 3),
    ],
)  # fmt: skip
def test_what_does_not_pass_is_named(check, value) -> None:
    with pytest.raises(InvalidInput) as error:
        check("x", value)
    assert error.value.argument == "x"
    str(error.value).encode()  # and can be written


def test_arrays_longer_than_memory_are_refused_unread() -> None:
    with pytest.raises(InvalidInput):
        checks.vector("x", range(10**12), None)
    np.testing.assert_array_equal(checks.vector("x", range(3), 3), [0.0, 1.0, 2.0])


def test_flags_are_no_numbers() -> None:
    assert checks.flags("x", [True, False], (2,)).tolist() == [True, False]
    for wrong in ([0, 1], [True], [[True, False]], "ab"):
        with pytest.raises(InvalidInput):
            checks.flags("x", wrong, (2,))


def test_an_object_is_of_one_of_the_classes() -> None:
    assert checks.instance("step", STEP, cdopt.ContactStep, cdopt.Friction) is STEP
    assert checks.instances("steps", [STEP, STEP], cdopt.ContactStep) == (STEP, STEP)
    with pytest.raises(InvalidInput, match="or a Friction"):
        checks.instance("step", None, cdopt.ContactStep, cdopt.Friction)
    with pytest.raises(InvalidInput, match=r"its \.step is one"):
        checks.instance("step", SimpleNamespace(step=STEP), cdopt.ContactStep)
    with pytest.raises(InvalidInput, match="by name: cdopt"):
        checks.instance("step", "table", cdopt.ContactStep)
    with pytest.raises(InvalidInput, match="steps: found a sequence with 3"):
        checks.instances("steps", [STEP, 3], cdopt.ContactStep)


class Named(Protocol):
    name: str

    def advance(self) -> None: ...


class Costly:
    name = "costly"

    def advance(self) -> None: ...

    @property
    def never(self) -> None:
        raise AssertionError


def test_a_protocol_asks_for_members_and_computes_none() -> None:
    good = Costly()
    assert checks.provides("method", good, Named) is good
    for wrong in (Costly, SimpleNamespace(name="a"), None):
        with pytest.raises(InvalidInput, match="expected a Named"):
            checks.provides("method", wrong, Named)
