"""``cdopt ensemble`` and ``cdopt sensitivity``, and their pictures."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from command_line import refuses, run, run_json

import cdopt
from cdopt.formulations import NoTensionTruss
from cdopt.plots import force_ensemble, stiffness_influence

PNG = b"\x89PNG\r\n\x1a\n"


def test_the_ensemble_of_the_beam(tmp_path: Path) -> None:
    target = tmp_path / "beam.png"
    result = run("ensemble", "beam-uniform", "--solver", "lcp", "--plot", target)
    assert result.exit_code == 0
    assert "dimension 1" in result.stdout
    assert "converged" in result.stdout
    (line,) = [x.split() for x in result.stdout.splitlines() if x.strip().startswith("middle")]
    assert float(line[1]) == pytest.approx(5.0, abs=0.3)
    assert line[-2:] == ["3.3333", "10.0000"]
    assert target.read_bytes()[:8] == PNG
    content = run_json("ensemble", "beam-uniform", "--seed", "3")
    assert (content["converged"], content["dimension"]) == (True, 1)
    assert [one["contact"] for one in content["contacts"]] == ["left", "middle", "right"]
    placed = content["answers"]["compatible"]
    assert placed["less_energy"] == 0.0
    np.testing.assert_allclose(placed["forces"], 10 / 3, rtol=1e-6)


@pytest.mark.slow
def test_short_chains_leave_with_one_and_determined_forces_with_zero() -> None:
    result = run("ensemble", "supports:n=9", "--draws", "10", "--thin", "1")
    assert result.exit_code == 1
    assert "NOT converged" in result.stdout
    assert "not known" in result.stdout
    assert "every force is determined" in run("ensemble", "tripod").stdout
    assert run_json("ensemble", "tripod")["dimension"] == 0


@pytest.mark.parametrize("command", ["ensemble", "sensitivity"])
def test_infeasible_problems_and_bad_input(command: str) -> None:
    result = run(command, "squeezed")
    assert result.exit_code == 2
    assert "Proven infeasible" in result.stdout
    refuses("no-such-problem", command, "no-such-problem")
    refuses("folder", command, "table", "--plot", "no/such/folder.png")


@pytest.mark.slow
def test_whose_stiffness_moves_the_beam(tmp_path: Path) -> None:
    target = tmp_path / "beam.png"
    result = run("sensitivity", "beam-stiff-middle", "--plot", target)
    assert result.exit_code == 0
    (line,) = [x.split() for x in result.stdout.splitlines() if x.strip().startswith("middle")]
    assert line == ["middle", "6", "2.4", "left", "(+", "1", "alike)", "-1.2"]
    assert target.read_bytes()[:8] == PNG
    content = run_json("sensitivity", "beam-stiff-middle", "--power", "2.5")
    assert content["power"] == 2.5
    np.testing.assert_allclose(np.sum(content["log_stiffness"], axis=1), 0.0, atol=1e-9)


def test_trusses_have_sensitivities_and_no_ensemble() -> None:
    assert run("sensitivity", "fan").exit_code == 0
    refuses("a truss", "ensemble", "fan")


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
