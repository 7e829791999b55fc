"""Pinocchio's ADMM judged by our certificate."""

from __future__ import annotations

import numpy as np
import pytest

import cdopt
from cdopt.interop import pinocchio_admm
from cdopt.interop.pinocchio_admm import PinocchioADMM

pytestmark = pytest.mark.skipif(not pinocchio_admm.makers(), reason="no Pinocchio")


@pytest.mark.parametrize("law", ["coulomb", "associated"])
def test_it_solves_both_laws_in_space(law: str) -> None:
    posed = cdopt.FrictionalCD(cdopt.bank.load("rough-pile").step, law)
    answer, ours = posed.solve(PinocchioADMM(1e-9)), posed.solve()
    fall = np.abs(posed.data.free_motion).max()
    assert answer.claimed
    assert answer.ok, answer.certificate
    np.testing.assert_allclose(answer.v_next, ours.v_next, atol=1e-6 * fall)
    assert not posed.solve(PinocchioADMM(1e-9, max_iterations=1), check=False).claimed


def test_it_refuses_the_plane_and_numbers_out_of_range() -> None:
    with pytest.raises(cdopt.Unsupported, match="space"):
        cdopt.FrictionalCD(cdopt.bank.load("incline").step).solve(PinocchioADMM())
    with pytest.raises(cdopt.InvalidInput, match="accuracy"):
        PinocchioADMM(-1.0)
    with pytest.raises(cdopt.InvalidInput, match="max_iterations"):
        PinocchioADMM(max_iterations=0)
