"""Sensitivities where a contact is soft or a load is not known: cases that once went wrong."""

from __future__ import annotations

import numpy as np
import pytest

import cdopt
from cdopt.formulations import NoTensionTruss


@pytest.mark.parametrize(("power", "soft"), [(1.3, 1e-3), (1.5, 1e-5)])
def test_a_soft_contact_that_is_pressed_carries(power: float, soft: float) -> None:
    B, k = np.array([[1.0, 0.0], [0.3, 1.0], [-1.0, -0.2]]), np.array([1.0, soft, 1.0])
    c = B @ [1.0, 1.0]
    f = np.where(c > 0.0, k * np.maximum(c, 0.0) ** (power - 1.0), 0.0)
    found = cdopt.sensitivity(NoTensionTruss(B, B.T @ f, k, power))
    assert found.loaded.tolist() == [True, True, False]
    np.testing.assert_allclose(found.load[:, 1], [-0.3, 1.0, 0.0], atol=1e-6)
    np.testing.assert_allclose(found.gradient([0.0, 1.0, 0.0]).load, [0.0, 1.0], atol=1e-6)


def test_without_matrices_there_is_no_derivative_by_the_load() -> None:
    found = cdopt.sensitivity(cdopt.bank.load("supports-delassus").step)
    assert np.isnan(found.gradient([1.0, 0.0, 0.0, 0.0]).load).all()


def test_a_free_motion_may_open_what_touches() -> None:
    """Forces do not change along this stiffness; of the motions that go with them one opens all."""
    B = np.array([[1.0, 0, 0], [0, 1, 0], [-1, 1, 2], [1, -1, -1]])
    found = cdopt.sensitivity(NoTensionTruss(B, [1.0, 1.0, 0.0]))
    np.testing.assert_allclose(found.along([1.0, 0.0, 0.0, 0.0]), 0.0, atol=1e-9)
