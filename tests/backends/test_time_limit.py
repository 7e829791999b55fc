"""A time limit ends a solve with a status, and one that is not reached changes nothing."""

from __future__ import annotations

import importlib

import numpy as np
import pytest
from typer.testing import CliRunner

import cdopt
from cdopt.backends.deadline import Deadline
from cdopt.cli.main import app
from cdopt.hyperstatic.bounds import bounds_of

STEP = cdopt.bank.load("table").step
PROBLEMS = {
    "rigid": cdopt.ClassicCD(STEP),
    "elastic": cdopt.CompliantCD(STEP, kappa=1e9),
    "truss": cdopt.NoTensionTruss(STEP.B, -STEP.F_ext),
    "compatible": cdopt.CompatibleCD(STEP),
    "friction": cdopt.FrictionalCD(
        STEP.replace(friction=cdopt.Friction(0.5, np.zeros((2 * STEP.nc, STEP.nv))))
    ),
}


@pytest.mark.parametrize("name", cdopt.backends.available())
def test_a_limit_ends_every_solver_or_changes_no_bit(name: str) -> None:
    taken = 0
    for problem in PROBLEMS.values():
        try:
            plain = problem.solve(name)
            late = problem.solve(name, time_limit=1e-9, check=False)
        except cdopt.Unsupported:
            continue
        taken += 1
        assert late.status.startswith("time limit")
        assert not late.claimed
        long = problem.solve(name, time_limit=1e6)
        assert long.status == plain.status
        tolerance = 1e-9 if name in ("osqp", "proxqp") else 0.0  # these repeat no run bit for bit
        if plain.f is not None:
            np.testing.assert_allclose(long.f, plain.f, rtol=0.0, atol=tolerance)
        assert long.provenance["time_limit"]["seconds"] > 0.0
        kept = {"pgs": "the clock, between iterations", "scs": "scs's own time_limit_secs"}
        assert long.provenance["time_limit"]["kept_by"] == kept.get(
            name, long.provenance["time_limit"]["kept_by"]
        )
        assert "time_limit" not in plain.provenance
    assert taken


def test_looking_at_the_clock_changes_no_sweep_and_no_step(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cdopt.backends.native, "_BETWEEN_LOOKS", 1)  # after each of them
    step = cdopt.bank.load("pyramid-hooke:n=4").step
    rigid, truss = cdopt.ClassicCD(step), cdopt.NoTensionTruss(step.B, -step.F_ext)
    rough = cdopt.FrictionalCD(cdopt.bank.load("rough-pile").step)
    for problem, name, options in (
        (rigid, "pgs", {}), (rigid, "pgs", {"order": "coloured"}), (rigid, "apgd", {}),
        (rigid, "newton", {}), (rigid, "lcp", {}), (truss, "augmented-lagrangian", {}),
        (rough, "newton", {}), (rough, "nsgs", {}), (rough, "admm", {}), (rough, "apgd", {}),
    ):  # fmt: skip
        plain = problem.solve(name, **options)
        looked = problem.solve(name, time_limit=1e6, **options)
        assert looked.iterations == plain.iterations
        np.testing.assert_array_equal(looked.f, plain.f)


def test_admm_stops_within_its_limit() -> None:
    rough = cdopt.FrictionalCD(cdopt.bank.load("siconos-boxesstack1-i100000-32").step)
    late = rough.solve("admm", time_limit=0.05, check=False)
    assert late.status == "time limit"
    assert not late.claimed
    assert late.iterations < 20_000
    assert sum(late.timings.values()) < 1.0


@pytest.mark.slow
def test_a_solver_without_a_clock_is_ended_and_the_next_one_solves() -> None:
    if "daqp" not in cdopt.backends.available():
        pytest.skip("daqp is not installed")
    large = cdopt.ClassicCD(cdopt.bank.load("pyramid-hooke:n=11").step)
    with pytest.raises(cdopt.SolveFailed, match="solver status 'time limit'"):
        large.solve("daqp", time_limit=0.2)  # which takes it tens of seconds
    solution = PROBLEMS["rigid"].solve("daqp", time_limit=60.0)
    assert solution.ok
    assert solution.provenance["time_limit"]["kept_by"] == "the end of its process"
    started, parts = solution.timings["start"], sum(solution.timings.values())
    assert started > 0.0
    assert solution.seconds == pytest.approx(parts - started)


def test_a_comparison_limits_each_solver_and_bad_limits_are_refused() -> None:
    late = cdopt.compare(STEP, ["newton", "clarabel"], time_limit=1e-9)
    assert [s.status for s in late] == ["time limit"]
    assert late.failures["clarabel"].status == "time limit"
    for limit in (-1.0, float("nan"), float("inf"), "soon"):
        with pytest.raises(cdopt.InvalidInput, match="time_limit"):
            PROBLEMS["rigid"].solve("newton", time_limit=limit)


def test_bounds_not_found_in_time_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(cdopt.SolveFailed, match="time limit"):
        cdopt.indeterminacy(STEP, time_limit=1e-9)
    plain, long = cdopt.indeterminacy(STEP), cdopt.indeterminacy(STEP, time_limit=1e6)
    np.testing.assert_array_equal(plain.upper, long.upper)
    monkeypatch.setattr(
        importlib.import_module("cdopt.hyperstatic.indeterminacy"),
        "bounds_of",
        lambda *given: bounds_of(*given[:-1], Deadline(0.0)),
    )
    late = cdopt.indeterminacy(STEP, time_limit=1e6)
    assert late.failures
    assert set(late.failures.values()) == {"time limit"}


def test_the_command_line_takes_a_limit() -> None:
    run = CliRunner()
    late = run.invoke(app, ["solve", "table", "--solver", "newton", "--time-limit", "1e-9"])
    assert late.exit_code == 1
    assert "time limit" in late.output
    assert run.invoke(app, ["bounds", "table", "--time-limit", "1e6"]).exit_code == 0
