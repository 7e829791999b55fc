"""Memory of a large problem is free as soon as nobody needs it: it is in no reference cycle.

Cycles wait for Python's search for garbage. Meanwhile the next problems take new memory from the
system, and took a third longer.
"""

from __future__ import annotations

import copy
import gc
import pickle
import weakref
from collections.abc import Callable, Iterator
from functools import cache

import pytest

import cdopt


@cache
def pile(rough: bool) -> cdopt.ContactStep:
    """More dofs than what is kept for further steps on the same network."""
    return cdopt.open_problem("rough-pile:n=9" if rough else "pyramid-hertz:n=13").step


@pytest.fixture
def uncollected() -> Iterator[None]:
    gc.collect()
    gc.disable()
    yield
    gc.enable()


SOLVES: dict[str, tuple[Callable[[], cdopt.formulations.Formulation], str]] = {
    "classic by newton": (lambda: cdopt.ClassicCD(pile(False).replace()), "newton"),
    "classic by apgd": (lambda: cdopt.ClassicCD(pile(False).replace()), "apgd"),
    "interior point": (lambda: cdopt.ClassicCD(pile(False).replace()), "interior-point"),
    "nearly rigid": (lambda: cdopt.CompliantCD(pile(False).replace(), kappa=1e12), "newton"),
    "friction by apgd": (lambda: cdopt.FrictionalCD(pile(True).replace()), "apgd"),
    "friction by nsgs": (lambda: cdopt.FrictionalCD(pile(True).replace()), "nsgs"),
    "friction by interior point": (
        lambda: cdopt.FrictionalCD(pile(True).replace(), "associated"),
        "interior-point",
    ),
}


@pytest.mark.usefixtures("uncollected")
@pytest.mark.parametrize("name", SOLVES)
def test_a_solved_problem_is_in_no_cycle(name: str) -> None:
    make, backend = SOLVES[name]
    formulation = make()
    data = weakref.ref(formulation.data)
    scales = weakref.ref(formulation.data.scales)
    solution = formulation.solve(backend, time_limit=20.0, check=False)
    assert solution.certificates
    del formulation
    assert data() is None
    assert scales() is None


def test_scales_of_copies_belong_to_the_copies() -> None:
    data = cdopt.ClassicCD(pile(False).replace()).data
    whole = data.scales.part_speed
    for other in (copy.deepcopy(data), pickle.loads(pickle.dumps(data))):
        assert other.scales.problem is other
        assert (other.scales.part_speed == whole).all()
    lone = data.scales
    assert copy.copy(lone).problem is data
    del data, other
    with pytest.raises(ReferenceError, match="no longer exists"):
        _ = lone.problem
