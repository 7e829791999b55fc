"""One table of accuracies: what it shows is what the solvers are given."""

from __future__ import annotations

import json

import pytest
import typer
from typer.testing import CliRunner

import cdopt
from cdopt.backends.accuracy import ACCURACY
from cdopt.backends.registry import STRUCTURED
from cdopt.cli import solvers as cli_solvers
from cdopt.study.settings import solver_settings


def test_what_is_shown_is_what_a_solver_is_given() -> None:
    shown = {row[0]: row for row in solver_settings(1e-7).rows}
    assert {*STRUCTURED, *ACCURACY} <= set(shown)
    for name in ACCURACY:
        if cdopt.backends.why_unavailable(name):
            assert shown[name][-1] is False
            continue
        given = cdopt.backends.resolve(name, accuracy=1e-7).settings
        flat = {
            f"{key}.{k}" if inner else key: v
            for key, value in given.items()
            for inner in [isinstance(value, dict)]
            for k, v in (value.items() if inner else [(key, value)])
        }
        told = dict(part.split(" = ") for part in shown[name][1].split(", "))
        assert {k: float(v) for k, v in told.items()} == {k: float(v) for k, v in flat.items()}


def test_our_own_backends_have_their_defaults_shown() -> None:
    shown = {row[0]: row for row in solver_settings(1e-4).rows}
    for name, maker in STRUCTURED.items():
        assert shown[name][1] == "accuracy = 0.0001"
        assert float(shown[name][2]) == maker().accuracy


def test_cvxpy_rewrites_what_the_table_says_of_osqp(monkeypatch: pytest.MonkeyPatch) -> None:
    """The settings that really reach OSQP through CVXPY, when nothing is asked."""
    import osqp

    seen: dict = {}
    setup = osqp.OSQP.setup

    def spy(self, *args, **settings):
        seen.update(settings)
        return setup(self, *args, **settings)

    monkeypatch.setattr(osqp.OSQP, "setup", spy)
    cdopt.ClassicCD(cdopt.bank.load("table").step).solve("osqp")
    words = ACCURACY["osqp"].rewritten
    assert (seen["eps_abs"], seen["eps_rel"], seen["max_iter"]) == (1e-5, 1e-5, 10_000)
    assert "1e-3 to 1e-5" in words
    assert "4,000 to 10,000" in words
    assert "polishing on" in words
    assert next(v for k, v in seen.items() if k.startswith("polish"))


def test_without_an_accuracy_names_are_shown() -> None:
    shown = {row[0]: row for row in solver_settings().rows}
    assert shown["clarabel"][1] == "tol_gap_abs, tol_gap_rel, tol_feas"
    assert shown["moreau"][1].startswith("ipm_settings.tol_gap_abs")
    with pytest.raises(cdopt.InvalidInput, match="accuracy"):
        solver_settings(0.0)


def test_the_command_line_shows_the_same() -> None:
    app = typer.Typer()
    app.command()(cli_solvers.solvers)
    runner = CliRunner(env={"COLUMNS": "500", "NO_COLOR": "1"})
    shown = runner.invoke(app, ["--settings", "1e-6"])
    assert shown.exit_code == 0, shown.output
    assert "4,000 to 10,000" in shown.stdout
    found = json.loads(runner.invoke(app, ["--settings", "1e-6", "--json"]).stdout)
    (osqp,) = [row for row in found if row["solver"] == "osqp"]
    assert osqp["given"] == "eps_abs = 1e-06, eps_rel = 1e-06, max_iter = 200000"
    wrong = runner.invoke(app, ["--settings", "2"])
    assert wrong.exit_code == 1
    assert wrong.stderr.startswith("error: accuracy")
