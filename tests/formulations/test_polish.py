"""Any backend's approximate forces, brought to round-off from the active set they show."""

from __future__ import annotations

import numpy as np
import pytest
from conftest import beam

import cdopt


@pytest.mark.parametrize(
    ("name", "backend"),
    [
        ("crystal-2d", "clarabel"),
        ("pyramid-hooke:n=6", "osqp"),
        ("pyramid-falling", "scs"),
        ("beam-stiff-middle", "clarabel"),
        ("ten-orders", "osqp"),
    ],
)
def test_classic_forces_of_any_backend(name: str, backend: str) -> None:
    cd = cdopt.ClassicCD(cdopt.bank.load(name).step)
    rough = cd.solve(backend, accuracy=1e-5, check=False)
    polished = cd.polish(rough)
    assert polished.certificate.worst <= 1e-11
    assert polished.backend == backend
    assert polished.provenance["polished"]["before"] == rough.certificate.worst
    if rough.certificate.worst > 1e-14:  # at round-off there is nothing to gain
        assert polished.status == f"{rough.status}; polished"


@pytest.mark.parametrize(("power", "form"), [(2.0, "potential"), (3.0, "complementary")])
def test_truss_forces_of_any_power(power: float, form: str) -> None:
    step = cdopt.bank.load("crystal-2d").step
    truss = cdopt.NoTensionTruss(step.B, -step.F_ext, power=power, form=form)
    polished = truss.polish(truss.solve("clarabel"))
    assert polished.certificate.worst <= 1e-11
    assert polished.provenance["polished"]["steps"] <= 8


def test_polishing_stays_by_the_force_it_was_given() -> None:
    """The beam: every multiple of (1, −2, 1) may be added; none is."""
    cd = cdopt.ClassicCD(beam())
    for backend in ("clarabel", "osqp"):
        rough = cd.solve(backend)
        polished = cd.polish(rough)
        np.testing.assert_allclose(polished.f, rough.f, atol=1e-5)
        assert polished.certificate.worst <= 1e-12


def test_an_unfinished_iterate_can_be_polished() -> None:
    cd = cdopt.ClassicCD(cdopt.bank.load("pyramid-hooke:n=5").step)
    stopped = cd.solve("osqp", max_iter=5, check=False)
    assert stopped.f is None
    polished = cd.polish(stopped)
    assert polished.ok
    assert polished.f is not None
