"""Valid data on the edge of what doubles hold: a status, never an exception of arithmetic."""

from __future__ import annotations

import numpy as np
import pytest
from campaigns import scaled_solves

import cdopt

BEAM = cdopt.bank.load("beam-uniform").step


@pytest.mark.parametrize(
    "factor", [1e150, 5e-324, *(pytest.param(x, marks=pytest.mark.slow) for x in (1e10, 1e-150))]
)
@pytest.mark.parametrize("row", [0, pytest.param(1, marks=pytest.mark.slow)])
def test_a_beam_with_one_row_scaled_ends_with_a_status(factor: float, row: int) -> None:
    B = BEAM.B.toarray()
    B[row] *= factor
    step = cdopt.ContactStep(BEAM.M, B, BEAM.phi, BEAM.v, BEAM.F_ext, BEAM.dt)
    truss = cdopt.NoTensionTruss(B, -BEAM.F_ext)
    for problem in (cdopt.ClassicCD(step), cdopt.CompliantCD(step, kappa=1e9), truss):
        for name, limits in scaled_solves.LIMITS.items():
            try:
                solution = problem.solve(name, check=False, **limits)
            except cdopt.Unsupported:
                continue
            assert solution.status


def test_arithmetic_that_breaks_down_is_a_status_and_errors_of_ours_are_not_hidden(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def run(error: Exception) -> cdopt.backends.RunResult:
        def solve(*arguments: object) -> None:
            raise error

        monkeypatch.setattr(cdopt.backends.Newton, "_solve", solve)
        return cdopt.backends.Newton().run(cdopt.ClassicCD(BEAM), None, False)

    for error in (ZeroDivisionError("0"), OverflowError("1e400"), np.linalg.LinAlgError("SVD")):
        result = run(error)
        assert result.claim == "failed"
        assert result.status.startswith("numerical breakdown")
        assert not result.iterate.forces.any()
    for error in (TypeError("ours"), ValueError("ours"), AttributeError("ours")):
        with pytest.raises(type(error), match="ours"):
            run(error)


def test_mobilities_that_underflow_end_with_a_status() -> None:
    step = cdopt.ContactStep([[0.5]], [[-1e-150]], [0.05], [-6e-11], [5e-324], 1e-10)
    for name in ("newton", "interior-point", "auto"):
        assert cdopt.ClassicCD(step).solve(name, check=False).status


@pytest.mark.slow
def test_no_exception_escapes_from_badly_scaled_problems() -> None:
    assert scaled_solves.run(count=200, seed=20)["escape"] == 0
