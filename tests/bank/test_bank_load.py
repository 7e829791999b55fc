"""Loading by name: parameters as text and as keywords, and what is refused."""

from __future__ import annotations

import numpy as np
import pytest

import cdopt
from cdopt import bank


@pytest.mark.parametrize("name", bank.names())
def test_every_problem_loads_and_offers_its_formulations(name: str) -> None:
    problem = bank.load(name)
    assert problem.name == name
    assert problem.kind == problem.manifest.kind
    assert set(problem.stated) == set(problem.references)
    if problem.kind == "step":
        assert isinstance(problem.formulation("classic"), cdopt.ClassicCD)
        assert problem.formulation("compatible").power == problem.power
        refused, offered = "truss", ("classic", "compatible")
    elif problem.kind == "frictional":
        for law in ("coulomb", "associated"):
            assert problem.formulation(law).law == law
        refused, offered = "classic", ("coulomb", "associated")
    else:
        assert problem.step is None
        assert problem.formulation("truss").data.elastic_law.power == problem.power
        refused, offered = "classic", ("truss",)
    with pytest.raises(cdopt.Unsupported) as caught:
        problem.formulation(refused)
    assert caught.value.alternatives == offered
    with pytest.raises(cdopt.InvalidInput, match="formulation"):
        problem.formulation("rigid")


def test_text_and_keywords_are_the_same_problem() -> None:
    text, keyword = bank.load("supports:n=7"), bank.load("supports", n=7)
    assert text.name == keyword.name == "supports:n=7"
    assert text.step.nc == keyword.step.nc == 7
    np.testing.assert_array_equal(text.step.points, keyword.step.points)


def test_names_are_canonical() -> None:
    assert bank.load("supports:n=5").name == "supports"
    assert bank.load(" impact : speed = 2 , restitution=0.25 ").name == (
        "impact:restitution=0.25,speed=2"
    )
    again = bank.load(bank.load("impact", speed=0.1 + 0.2).name)
    assert again.parameters["speed"] == 0.1 + 0.2
    assert bank.load("unreachable-load:load=tip").parameters == {"load": "tip"}


def test_references_follow_the_parameters() -> None:
    assert bank.load("supports:n=10").references["nullity"] == 8.0
    assert dict(bank.load("supports:n=6").references) == {}
    assert bank.load("pyramid-species:n=5").references["f_compatible"].shape == (160,)
    assert "f_compatible" not in bank.load("pyramid-species", modulus_ratio=3.0).references
    assert bank.load("pyramid-species", modulus_ratio=3.0).references["nullity"] == 70.0


def test_references_are_read_only() -> None:
    problem = bank.load("pyramid-hooke")
    for value in problem.references.values():
        assert isinstance(value, float) or not value.flags.writeable
    with pytest.raises(TypeError):
        problem.references["nullity"] = 0.0  # type: ignore[index]


@pytest.mark.parametrize(
    ("name", "keywords", "argument", "expected"),
    [
        ("pyramid-hook", {}, "name", "did you mean 'pyramid-hooke'"),
        ("../problems", {}, "name", "one of these:"),
        (3, {}, "name", "a text"),
        ("supports:n", {}, "name", "key=value"),
        ("supports:n=3,n=4", {}, "n", "two values"),
        ("supports:n=3", {"n": 3}, "n", "and a keyword"),
        ("impact:sped=3", {}, "sped", "did you mean 'speed'"),
        ("table:n=3", {}, "n", "no parameters at all"),
        ("supports:n=3.0", {}, "n", "an integer"),
        ("supports", {"n": "3"}, "n", "an integer"),
        ("supports:n=1", {}, "n", "at least 2"),
        ("pyramid-species:modulus_ratio=0", {}, "modulus_ratio", "above 0"),
        ("unreachable-load:load=push", {}, "load", "'sideways'"),
    ],
)
def test_bad_names_and_parameters(name, keywords, argument: str, expected: str) -> None:
    with pytest.raises(cdopt.InvalidInput, match=expected) as caught:
        bank.load(name, **keywords)
    assert caught.value.argument == argument


def test_errors_of_measuring() -> None:
    problem = bank.load("beam-uniform")
    solution = problem.formulation("compatible").solve("clarabel")
    with pytest.raises(cdopt.InvalidInput, match="one with a reference: f_compatible"):
        problem.error("v_next", solution)
    with pytest.raises(cdopt.InvalidInput, match="quantity"):
        problem.measure("f_comp", solution)
    with pytest.raises(cdopt.InvalidInput, match=r"shape \(3,\)"):
        bank.load("table").error("f_compatible", solution)
    truss = bank.load("fan")
    with pytest.raises(cdopt.Unsupported, match="no bodies"):
        truss.measure("supported_weight", truss.formulation("truss").solve("clarabel"))
    with pytest.raises(cdopt.Unsupported, match="dense"):
        bank.load("pyramid-hooke:n=20").measure("nullity", solution)
    with pytest.raises(cdopt.InvalidInput, match="no v_next"):
        truss.measure("v_next", truss.formulation("truss").solve("clarabel"))


def test_errors_relative_to_each_entry_see_the_small_ones() -> None:
    problem = bank.load("ten-orders")
    solution = problem.formulation("compatible").solve("clarabel")
    reference = problem.references["f_compatible"]
    assert reference.max() / reference.min() == pytest.approx(1e10)
    error = problem.error("f_compatible", solution)
    assert error == pytest.approx(np.max(np.abs(solution.f / reference - 1.0)), rel=1e-9)
