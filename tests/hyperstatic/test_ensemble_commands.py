"""``cdopt ensemble`` and ``cdopt sensitivity``, and their pictures."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

import cdopt
from cdopt.cli.main import app
from cdopt.formulations import NoTensionTruss
from cdopt.plots import force_ensemble, stiffness_influence

PNG = b"\x89PNG\r\n\x1a\n"
runner = CliRunner(env={"COLUMNS": "120", "NO_COLOR": "1"})


def run(*arguments: str):
    return runner.invoke(app, [*arguments])


# --- cdopt ensemble --------------------------------------------------------------------


def test_the_beam_in_words(tmp_path: Path) -> None:
    target = tmp_path / "beam.png"
    result = run("ensemble", "beam-uniform", "--solver", "lcp", "--plot", str(target))
    assert result.exit_code == 0
    assert "1 dimensions" in result.stdout
    assert "converged" in result.stdout
    (line,) = [x.split() for x in result.stdout.splitlines() if x.strip().startswith("middle")]
    assert float(line[1]) == pytest.approx(5.0, abs=0.3)
    assert line[-2:] == ["3.3333", "10.0000"]
    assert target.read_bytes()[:8] == PNG


def test_the_beam_in_json() -> None:
    result = run("ensemble", "beam-uniform", "--json", "--seed", "3")
    content = json.loads(result.stdout)
    assert content["converged"] is True
    assert content["dimension"] == 1
    assert [one["contact"] for one in content["contacts"]] == ["left", "middle", "right"]
    placed = content["answers"]["compatible"]
    assert placed["less_energy"] == 0.0
    np.testing.assert_allclose(placed["forces"], 10 / 3, rtol=1e-6)
    again = run("ensemble", "beam-uniform", "--json", "--seed", "3")
    assert again.stdout == result.stdout


def test_short_walks_determined_forces_and_infeasible_problems() -> None:
    result = run("ensemble", "supports:n=9", "--draws", "10", "--thin", "1")
    assert result.exit_code == 1
    assert "NOT converged" in result.stdout
    assert "not known" in result.stdout
    result = run("ensemble", "tripod")
    assert result.exit_code == 0
    assert "every force is determined" in result.stdout
    assert json.loads(run("ensemble", "tripod", "--json").stdout)["dimension"] == 0
    for command in ("ensemble", "sensitivity"):
        result = run(command, "squeezed")
        assert result.exit_code == 2
        assert result.stdout.strip()


@pytest.mark.parametrize("command", ["ensemble", "sensitivity"])
def test_bad_input_is_one_line(command: str) -> None:
    for arguments in (["no-such-problem"], ["table", "--plot", "no/such/folder.png"]):
        result = run(command, *arguments)
        assert result.exit_code == 1
        assert result.stderr.startswith("error: ")
        assert len(result.stderr.strip().splitlines()) == 1


# --- cdopt sensitivity -----------------------------------------------------------------


def test_whose_stiffness_moves_the_beam(tmp_path: Path) -> None:
    target = tmp_path / "beam.png"
    result = run("sensitivity", "beam-stiff-middle", "--plot", str(target))
    assert result.exit_code == 0
    (line,) = [x.split() for x in result.stdout.splitlines() if x.strip().startswith("middle")]
    assert line == ["middle", "6", "2.4", "left", "-1.2"]
    assert target.read_bytes()[:8] == PNG
    content = json.loads(run("sensitivity", "beam-stiff-middle", "--power", "2.5", "--json").stdout)
    assert content["power"] == 2.5
    np.testing.assert_allclose(np.sum(content["log_stiffness"], axis=1), 0.0, atol=1e-9)


def test_trusses_of_the_bank() -> None:
    trusses = [n for n in cdopt.bank.names() if cdopt.bank.manifest(n).kind == "truss"]
    feasible = [n for n in trusses if cdopt.bank.manifest(n).feasible]
    assert feasible
    result = run("sensitivity", feasible[0])
    assert result.exit_code == 0, result.stderr
    assert run("ensemble", feasible[0]).exit_code == 1


# --- pictures --------------------------------------------------------------------------


def test_the_picture_of_an_ensemble() -> None:
    step = cdopt.bank.load("pyramid-hooke:n=3").step
    found = cdopt.ensemble(step, draws=100)
    compatible = found.report.force
    figure = force_ensemble(found, {"compatible": compatible, "mine": compatible}, title="A pile")
    left, right = figure.axes
    shown = [patch.get_height() for patch in left.patches]
    assert len(shown) == 2 * 24  # two bands for each contact
    order = np.argsort(found.mean, kind="stable")
    np.testing.assert_allclose(shown[:24], (found.quantile(0.95) - found.quantile(0.05))[order])
    np.testing.assert_allclose(left.lines[0].get_ydata(), compatible[order])
    assert right.get_yscale() == "log"
    words = [text.get_text() for text in left.texts]
    assert ("converged" if found.converged else "NOT converged") in words


def test_pictures_refuse_what_they_cannot_draw() -> None:
    table = cdopt.ensemble(cdopt.bank.load("table").step, draws=10)
    point = cdopt.ensemble(cdopt.bank.load("tripod").step)
    for ask in (
        lambda: force_ensemble(3), lambda: force_ensemble(point),
        lambda: force_ensemble(table, {"short": [1.0]}),
        lambda: force_ensemble(table, dict.fromkeys(map(str, range(7)), [2.5] * 4)),
        lambda: stiffness_influence(3),
        lambda: stiffness_influence(cdopt.sensitivity(cdopt.bank.load("table").step), ["one"]),
    ):  # fmt: skip
        with pytest.raises(cdopt.InvalidInput):
            ask()
    edge = NoTensionTruss([[1, -0.5], [1, 0], [1, 0.5]], [10, 10 / 3])
    with pytest.raises(cdopt.Unsupported, match="just touch"):
        stiffness_influence(cdopt.sensitivity(edge))


def test_the_picture_of_influences() -> None:
    found = cdopt.sensitivity(cdopt.bank.load("beam-stiff-middle").step)
    axes = stiffness_influence(found, ["a", "b", "c"]).axes[0]
    np.testing.assert_allclose(axes.images[0].get_array(), found.log_stiffness)
    assert [text.get_text() for text in axes.get_yticklabels()] == ["a", "b", "c"]
    assert [text.get_text() for text in axes.texts] == [
        f"{x + 0.0:.2g}" for x in found.log_stiffness.ravel()
    ]
