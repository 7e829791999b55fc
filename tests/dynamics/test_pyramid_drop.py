"""The paper's drop of the cannonball pyramid: it settles, and its forces are those of elasticity.

Olsen & Kamrin (2018), section 8.2: 5 % of a radius, 1 ms, static by about 16 steps.
"""

from __future__ import annotations

import numpy as np
import pytest
from drops import DIAMETER, check_drop

import cdopt

FIRST = {
    "apgd": {"classic_backend": "apgd"},
    "newton": {"classic_backend": "newton"},
    "pgs": {"classic_backend": "pgs"},
    # at their defaults these leave up to 1e-4 where a contact neither presses nor parts
    "clarabel": {"classic_backend": "clarabel", "tol": 1e-3},
    "osqp": {"classic_backend": "osqp", "tol": 1e-3},
}


@pytest.mark.parametrize(
    ("first", "material"),
    [
        ("apgd", "hooke"),
        ("newton", "hertz"),
        pytest.param("clarabel", "species", marks=pytest.mark.slow),
        *(pytest.param(first, "hooke", marks=pytest.mark.slow) for first in ("pgs", "osqp")),
    ],
)
def test_five_layers_whichever_backend_solves_the_first_problem(first: str, material: str) -> None:
    check_drop(5, material, **FIRST[first])


@pytest.mark.slow
def test_twenty_layers() -> None:
    """With Hertz contacts; the paper's other piles are in tests/examples/papers."""
    done = check_drop(20, "hertz")
    unit = done.scene.bodies.mass[-1] * 9.81
    assert done.final.f.max() / unit == pytest.approx(4.5213, abs=6e-5)


def test_the_settled_pile_stays_as_it_is() -> None:
    scene = cdopt.scene.pyramid(4, separation=0.0)
    done = cdopt.simulate(scene, 1e-3, 0.01)
    moved = np.abs(done.q[-1] - done.q[0]).max()
    assert moved < 1e-9 * DIAMETER


@pytest.mark.slow
def test_warm_starts_lead_to_the_same_forces() -> None:
    cold = check_drop(5, "hooke")
    warm = check_drop(5, "hooke", warm_start=True)
    taken = "iterations_classic"
    assert warm.diagnostics[taken][-1] < cold.diagnostics[taken][-1]
    np.testing.assert_allclose(warm.final.f, cold.final.f, rtol=0, atol=1e-6 * cold.final.f.max())
