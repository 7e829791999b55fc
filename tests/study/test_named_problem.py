"""Problems opened by name: every kind of source, and what is refused."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import numpy as np
import pytest

import cdopt
from cdopt import bank, open_problem
from cdopt.study.named_problem import problems, recorded_step

FCLIB = bank.problems_folder() / "fclib-boxes" / "local_problem_test.hdf5"


@pytest.mark.parametrize(
    ("text", "name", "contacts", "power"),
    [
        (" supports : n = 5", "supports", 5, 2.0),
        ("table", "table", 4, 2.0),  # the bank's, not the scene
        ("fan", "fan", 7, 2.5),
        ("family:pyramids-hertz:3", "family:pyramids-hertz:3", 24, 2.5),
        (str(FCLIB), FCLIB.name, 48, 2.0),
        ("pyramid:n=2,power=2.5", "pyramid:n=2,power=2.5", 4, 2.5),
    ],
)
def test_every_kind_of_name(text: str, name: str, contacts: int, power: float) -> None:
    problem = open_problem(text)
    assert (problem.name, problem.nc, problem.power) == (name, contacts, power)
    assert problem.title
    assert (problem.step is None) != (problem.truss is None)
    assert len(problem.contact_names) == contacts


def test_the_data_are_those_of_the_source(tmp_path: Path) -> None:
    step = bank.load("beam-stiff-middle").step
    step.save(tmp_path / "beam.npz")
    opened = open_problem(str(tmp_path / "beam.npz"))
    np.testing.assert_array_equal(opened.step.B.toarray(), step.B.toarray())
    assert opened.contact_names == ["left", "middle", "right"]
    fan = open_problem("fan", power=2.0).truss
    assert fan.elastic_law.power == 2.0
    np.testing.assert_array_equal(fan.contact_load, bank.load("fan").contact_load)
    fclib_problem = open_problem(str(FCLIB), power=3.0)
    assert "with friction" in fclib_problem.title
    fclib_problem = fclib_problem.without_friction()
    assert "frictionless" in fclib_problem.title
    assert fclib_problem.step.friction is None
    assert fclib_problem.power == 3.0
    scene = open_problem("problems/beam.toml")
    assert (scene.name, scene.contact_names) == ("beam.toml", ["left", "middle", "right"])


def test_a_scene_keeps_the_friction_that_it_states(tmp_path: Path) -> None:
    path = str(tmp_path / "rough.toml")
    block = cdopt.scene.box_stack(1, dim=2)
    block.with_friction(0.5).save(path)
    assert open_problem(path).step.friction.mu.tolist() == [0.5, 0.5]
    for source in problems(path):
        assert source.load().step.friction is not None
        smooth = dataclasses.replace(source, frictionless=True).load()
        assert smooth.step.friction is None
        assert "without its friction" in smooth.title


def test_a_step_of_a_run(tmp_path: Path) -> None:
    path = tmp_path / "drop.vtkhdf"
    run = cdopt.simulate(
        cdopt.scene.pyramid(2), 1e-3, 4e-3, method="classic-cd", backend="newton", out=path
    )
    opened = open_problem(f"{path}#3")
    assert opened.name == "drop.vtkhdf#3"
    np.testing.assert_array_equal(opened.step.phi, recorded_step(run, 3).phi)
    for number in ("#0", "#5", "#x", "#-1", ""):
        with pytest.raises(cdopt.InvalidInput, match="1 to 4"):
            open_problem(f"{path}{number}")
    elastic = tmp_path / "elastic.vtkhdf"
    cdopt.simulate(cdopt.scene.pyramid(2), 1e-3, 2e-3, method="quasi-static", out=elastic)
    with pytest.raises(cdopt.Unsupported, match="no rigid contact steps"):
        open_problem(f"{elastic}#1")


@pytest.mark.parametrize("text", ["pyramid-hooke:n=3", "fan"])
def test_contacts_in_another_order(text: str) -> None:
    problem = open_problem(text)
    order = np.arange(problem.nc)[::-1]
    data, turned = (p.step or p.truss for p in (problem, problem.in_order(order)))
    np.testing.assert_array_equal(turned.B.toarray(), data.B.toarray()[order])


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("beam-unifrom", "did you mean 'beam-uniform'"),
        ("", "one of these"),
        ("missing.npz", "no such file"),
        ("missing.hdf5", "no such file"),
        ("missing.toml", "no such file"),
        ("missing.vtkhdf#1", "no such file"),
        ("family:chians:8", "chains"),
        ("family:chains", "SIZE"),
        ("family:chains:x", "SIZE"),
        ("supports:n=1", "at least 2"),
        ("pyramid:m=3", "one of these: n"),
    ],
)
def test_what_names_no_problem(text: str, expected: str) -> None:
    with pytest.raises(cdopt.InvalidInput, match=expected):
        open_problem(text)


def test_members_of_a_family() -> None:
    sizes = bank.families()["chains"].sizes
    assert [p.source for p in problems("family:chains")] == [f"family:chains:{n}" for n in sizes]
    (hertz,) = problems("family:chains:8", power=2.5)
    assert (hertz.label, hertz.load().power) == ("family:chains:8, p = 2.5", 2.5)
